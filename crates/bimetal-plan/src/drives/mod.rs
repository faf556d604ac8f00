//! The built-in data on drives and cloud volumes: figures, prices, and the sources of figures and
//! prices.
//!
//! `drives/*.toml` holds one file for each class of drive. Every figure either has a source or is
//! listed as unverified; [`load`] refuses a file in which a figure is neither or both. [`figures`]
//! defines the keys, [`import`] makes the same TOML of a table, and [`model`] makes the profile of
//! a drive by its name, [`cloud`] that of a cloud volume. A user's own files in the same form are
//! added to the built-in files. [`crate::catalogue`] takes the offers of a plan from any of them.

pub mod cloud;
pub mod date;
pub mod figures;
mod flash;
pub mod import;
pub mod load;
pub mod model;
pub mod rated;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bimetal_core::units::Bytes;
use serde::Serialize;

use crate::catalogue::Kind;
use figures::{DriveFigures, Price, Size, VolumeFigures};
pub use load::DriveError;

/// The built-in files: name of the class, and content.
const BUILTIN: [(&str, &str); 7] = [
    ("consumer-ssd", include_str!("../../../../drives/consumer-ssd.toml")),
    ("datacentre-ssd", include_str!("../../../../drives/datacentre-ssd.toml")),
    ("nearline-hdd", include_str!("../../../../drives/nearline-hdd.toml")),
    ("nas-hdd", include_str!("../../../../drives/nas-hdd.toml")),
    ("smr-hdd", include_str!("../../../../drives/smr-hdd.toml")),
    ("dual-actuator-hdd", include_str!("../../../../drives/dual-actuator-hdd.toml")),
    ("cloud-volumes", include_str!("../../../../drives/cloud-volumes.toml")),
];

/// A file of drives: one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveFile {
    /// Name of the class, or of the file.
    #[serde(skip)]
    pub name: String,
    /// Description of the class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Sources by the names under which drives refer to them.
    pub sources: BTreeMap<String, String>,
    /// Drives of the class.
    #[serde(rename = "drive", skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Drive>,
    /// Cloud volumes of the class.
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<CloudVolume>,
}

/// Origin of an entry's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Provenance {
    /// Names of the sources of all figures without sources of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Names of the sources of single figures, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub source_of: BTreeMap<String, Vec<String>>,
    /// Keys of figures without a source, as `KEY`, or as `KEY@SIZE` for a single size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// A note for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Provenance {
    /// Returns true if the figure `key` has no source, for all sizes or for `size`.
    pub fn is_unverified(&self, key: &str, size: Option<&Size>) -> bool {
        self.unverified.iter().any(|entry| match entry.split_once('@') {
            None => entry == key,
            Some((of, at)) => of == key && size.is_some_and(|size| size.text == at),
        })
    }

    /// Returns the names of the sources of the figure `key`. The result is empty if no size of the
    /// figure has a source.
    pub fn sources_of(&self, key: &str) -> &[String] {
        match self.source_of.get(key) {
            _ if self.is_unverified(key, None) => &[],
            Some(sources) => sources,
            None => &self.sources,
        }
    }
}

/// A model of drive, in every size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drive {
    /// Name for commands: lower case, without spaces.
    pub name: String,
    /// Name by which the drive is sold.
    pub model: String,
    /// Kind of the drive.
    #[serde(serialize_with = "kind_name")]
    pub kind: Kind,
    /// Sizes, ascending.
    pub sizes: Vec<Size>,
    /// Figures of the drive.
    #[serde(flatten)]
    pub figures: DriveFigures,
    /// Origin of the figures.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Prices, the oldest first.
    #[serde(rename = "price", skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Price>,
}

impl Drive {
    /// Returns the price list that counts for the size at `index`, and the price.
    pub fn price(&self, index: usize) -> Option<(&Price, f64)> {
        self.price_lists().into_iter().find_map(|list| Some((list, list.amount(index)?)))
    }

    /// Returns the price lists in the order in which they count. Prices of one drive are compared
    /// with each other, so all its sizes have prices of one date, as far as possible: the list with
    /// prices for the most sizes comes first, and of several the newest.
    pub(crate) fn price_lists(&self) -> Vec<&Price> {
        let sizes = |list: &Price| (0..self.sizes.len()).filter(|&size| list.amount(size).is_some()).count();
        let mut lists: Vec<&Price> = self.prices.iter().rev().collect();
        lists.sort_by_key(|list| std::cmp::Reverse(sizes(list)));
        lists
    }
}

/// A block volume of a cloud provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CloudVolume {
    /// Name for commands: lower case, without spaces.
    pub name: String,
    /// Name by which the provider offers the volume.
    pub model: String,
    /// Kind of the drives behind the volume.
    #[serde(serialize_with = "kind_name")]
    pub kind: Kind,
    /// Date of the prices, if their list has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_date: Option<date::Date>,
    /// Date on which a list of prices without a date was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_read: Option<date::Date>,
    /// Figures and prices of the volume.
    #[serde(flatten)]
    pub figures: VolumeFigures,
    /// Origin of the figures and prices.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// Returns the built-in files.
pub fn built_in() -> Vec<DriveFile> {
    let parse = |(name, text): &(&str, &str)| {
        load::parse(text, name).unwrap_or_else(|error| panic!("the built-in drives are tested: {error}"))
    };
    BUILTIN.iter().map(parse).collect()
}

/// Returns the name of a kind in TOML.
pub fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Ssd => "ssd",
        Kind::Hdd => "hdd",
    }
}

fn kind_name<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind_text(*kind))
}

/// Reads a size with its unit, such as `1.92TB`.
fn bytes_of(text: &str) -> Option<Bytes> {
    let has_unit = text.ends_with('B');
    text.parse().ok().filter(|bytes: &Bytes| has_unit && *bytes >= crate::catalogue::SIZE_MIN)
}
