//! Profiles: a profile is a TOML file for a named drive, from which a model of the drive is made.
//!
//! A profile has the keys that every drive has (`name`, `kind`, `summary`, `capacity`, `price_usd`,
//! `price_date`, `price_source`). In addition to these keys, the figures of the drive's kind are
//! plain keys ([`HddProfile`] for `kind = "hdd"`, [`FlashProfile`] for `kind = "flash"`,
//! [`CloudProfile`] for `kind = "cloud"`). A table `[sources]` gives, under the same keys, the
//! source of each figure. A key that the kind does not have is an error.
//!
//! To add a drive, write its file into `profiles/` and its line into `BUILTIN`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use bimetal_core::units::{Bytes, SectorRange, Sectors};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned};
use toml::{Table, Value};

use crate::DeviceModel;
use crate::cloud::{CloudProfile, CloudVolume, Medium};
use crate::flash::state::RestoreError;
use crate::flash::{Flash, FlashProfile, Precondition};
use crate::hdd::{self, HddProfile};
use crate::spelling::nearest;

/// Profiles inside the program, in the order in which they are listed: name and text.
const BUILTIN: &[(&str, &str)] = &[
    ("seagate-barracuda-7200.12-1tb", include_str!("../../../profiles/seagate-barracuda-7200.12-1tb.toml")),
    ("seagate-cheetah-15k.5-73gb", include_str!("../../../profiles/seagate-cheetah-15k.5-73gb.toml")),
    ("seagate-exos-x18-18tb", include_str!("../../../profiles/seagate-exos-x18-18tb.toml")),
    ("hitachi-travelstar-5k500-500gb", include_str!("../../../profiles/hitachi-travelstar-5k500-500gb.toml")),
    ("toshiba-mg10-20tb", include_str!("../../../profiles/toshiba-mg10-20tb.toml")),
    ("ibm-ultrastar-36z15-36gb", include_str!("../../../profiles/ibm-ultrastar-36z15-36gb.toml")),
    ("seagate-barracuda-7200.9-250gb", include_str!("../../../profiles/seagate-barracuda-7200.9-250gb.toml")),
    ("wd-caviar-blue-wd10ealx-1tb", include_str!("../../../profiles/wd-caviar-blue-wd10ealx-1tb.toml")),
    ("wd-velociraptor-300gb", include_str!("../../../profiles/wd-velociraptor-300gb.toml")),
    ("samsung-970-evo-plus-500gb", include_str!("../../../profiles/samsung-970-evo-plus-500gb.toml")),
    ("samsung-870-qvo-1tb", include_str!("../../../profiles/samsung-870-qvo-1tb.toml")),
    ("intel-x25-m-80gb", include_str!("../../../profiles/intel-x25-m-80gb.toml")),
    ("intel-x25-e-32gb", include_str!("../../../profiles/intel-x25-e-32gb.toml")),
    ("micron-c200-60gb", include_str!("../../../profiles/micron-c200-60gb.toml")),
    ("combo-ssd1-32gb", include_str!("../../../profiles/combo-ssd1-32gb.toml")),
    ("combo-ssd2-32gb", include_str!("../../../profiles/combo-ssd2-32gb.toml")),
    ("intel-660p-1tb", include_str!("../../../profiles/intel-660p-1tb.toml")),
    ("samsung-pm983-960gb", include_str!("../../../profiles/samsung-pm983-960gb.toml")),
    ("ocz-solid-3-60gb", include_str!("../../../profiles/ocz-solid-3-60gb.toml")),
    ("super-talent-32gb", include_str!("../../../profiles/super-talent-32gb.toml")),
    ("sandisk-usb-1gb", include_str!("../../../profiles/sandisk-usb-1gb.toml")),
    ("disksim-atlas10k", include_str!("../../../profiles/disksim-atlas10k.toml")),
    ("disksim-atlas_III", include_str!("../../../profiles/disksim-atlas_III.toml")),
    ("disksim-barracuda", include_str!("../../../profiles/disksim-barracuda.toml")),
    ("disksim-cheetah4LP", include_str!("../../../profiles/disksim-cheetah4LP.toml")),
    ("disksim-cheetah9LP", include_str!("../../../profiles/disksim-cheetah9LP.toml")),
    ("disksim-dec_rz26", include_str!("../../../profiles/disksim-dec_rz26.toml")),
    ("disksim-hp_c2247a", include_str!("../../../profiles/disksim-hp_c2247a.toml")),
    ("disksim-hp_c2490a", include_str!("../../../profiles/disksim-hp_c2490a.toml")),
    ("disksim-hp_c3323a", include_str!("../../../profiles/disksim-hp_c3323a.toml")),
    ("disksim-ibm18es", include_str!("../../../profiles/disksim-ibm18es.toml")),
];

/// Default HDD: a 7200 rpm desktop drive.
pub const DEFAULT_HDD: &str = "seagate-barracuda-7200.12-1tb";

/// Default SSD: a TLC drive.
pub const DEFAULT_SSD: &str = "samsung-970-evo-plus-500gb";

/// Drive that can be built.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the profile, which `--hdd` and `--ssd` take.
    pub name: String,
    /// Description of the drive in one line.
    pub summary: String,
    /// Number of sectors that the drive offers.
    pub capacity: Sectors,
    /// Price of the drive; `None` if no price is known.
    pub price: Option<Price>,
    /// Share of drives that fail in a year (AFR, annualized failure rate), from 0 to 1; `None` if
    /// it is not known. Drives whose flash wears out are not counted.
    pub failures_per_year: Option<f64>,
    /// Source of each figure: its key, then the text. Sorted by key.
    pub sources: BTreeMap<String, String>,
    /// Figures of the drive's kind.
    pub body: Body,
    /// Name of the profile in messages: its file, or its name.
    origin: String,
    /// Text of the profile as a table, from which the profile is made again when a figure changes.
    table: Table,
}

/// Price of a drive, with its source.
#[derive(Clone, PartialEq, Debug)]
pub struct Price {
    /// Price in US dollars, for the whole drive.
    pub usd: f64,
    /// Date of the price, as the source gives it.
    pub date: String,
    /// Source of the price.
    pub source: String,
}

/// Figures of a drive, by kind.
#[derive(Clone, Debug)]
pub enum Body {
    /// A hard disk.
    Hdd(Box<HddProfile>),
    /// A flash drive.
    Flash(Box<FlashProfile>),
    /// A cloud provider's volume.
    Cloud(Box<CloudProfile>),
}

/// Names that can be loaded.
const EXPECTED: &str =
    "the name of a drive (`bimetal profiles` lists the built-in ones, `bimetal catalog show` those on sale), or a file";

/// Reasons for which a profile, or a change to it, is refused. Each error contains the profile's
/// file or name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The drive of this name has no model.
    #[error("{name}: {reason}; expected another drive: `bimetal catalog show` lists them")]
    NoModel {
        /// Name of the drive.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The name is neither the name of a built-in profile nor a file.
    #[error("no profile or file '{name}'{}; expected {EXPECTED}", suggestion(nearest.as_deref()))]
    Unknown {
        /// Name that was given.
        name: String,
        /// Built-in name that is most similar.
        nearest: Option<String>,
    },
    /// The file could not be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// Name of the file.
        file: String,
        /// Error of the system.
        reason: String,
    },
    /// The text of the file is not valid TOML.
    #[error("{file}: {reason}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Line, column, and the syntax that was expected at this place.
        reason: String,
    },
    /// The profile has a key that this kind of drive does not have.
    #[error("{file}: unknown key '{key}'{}", suggestion(nearest.as_deref()))]
    UnknownKey {
        /// Name of the file.
        file: String,
        /// Unknown key.
        key: String,
        /// Known key that is most similar.
        nearest: Option<String>,
    },
    /// A figure that every drive of this kind needs is missing.
    #[error("{file}: key '{key}' is missing: expected {expected}")]
    Missing {
        /// Name of the file.
        file: String,
        /// Missing key.
        key: String,
        /// Value that the key should have.
        expected: String,
    },
    /// A saved state does not fit this drive.
    #[error("{file}: its saved state is damaged: {reason}")]
    State {
        /// Name of the file.
        file: String,
        /// Damage that was found.
        reason: String,
    },
    /// A figure has the wrong type, or is outside its range.
    #[error("{file}: {key} = {value}: expected {expected}")]
    Figure {
        /// Name of the file.
        file: String,
        /// Key of the figure.
        key: String,
        /// Value of the key.
        value: String,
        /// Value that the key should have.
        expected: String,
    },
}

/// Figure that a kind of drive refuses, without the name of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFigure {
    /// Key of the figure.
    pub key: &'static str,
    /// Value of the key.
    pub value: String,
    /// Value that the key should have.
    pub expected: String,
}

impl BadFigure {
    /// Makes the error that `key` has `value`, and should have `expected`.
    pub fn new(key: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), expected: expected.into() }
    }

    fn in_file(self, file: &str) -> ProfileError {
        ProfileError::Figure {
            file: file.to_owned(),
            key: self.key.to_owned(),
            value: self.value,
            expected: self.expected,
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

/// Keys that every drive has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    name: String,
    kind: String,
    summary: String,
    capacity: Size,
    price_usd: Option<f64>,
    price_date: Option<String>,
    price_source: Option<String>,
    afr_percent: Option<f64>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
}

/// Size as profiles write it: `"64MiB"`, or a bare number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size(pub Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl de::Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size like \"64MiB\", or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(|bytes| Size(Bytes(bytes))).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// Returns the keys that `T` knows, as its derived `Deserialize` lists them.
fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Fields<'a>(&'a mut &'static [&'static str]);
    impl<'de> de::Deserializer<'de> for Fields<'_> {
        type Error = de::value::Error;

        fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("only asks for the fields"))
        }

        fn deserialize_struct<V: de::Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

/// Reads `table` as a `T`, and names the wrong key on failure.
fn read_table<T: DeserializeOwned>(table: &Table, file: &str) -> Result<T, ProfileError> {
    T::deserialize(table.clone()).map_err(|error| {
        let text = error.to_string();
        if let Some(key) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            let expected = "a figure: every drive of this kind needs it".to_owned();
            return ProfileError::Missing { file: file.to_owned(), key: key.to_owned(), expected };
        }
        // The library puts the path on a last line of its own: "in `seek.average`".
        let (reason, path) = text.trim_end().rsplit_once("\nin `").unwrap_or((text.trim_end(), ""));
        let path = path.trim_end_matches('`');
        // A key of a table within: "unknown field `colour`, expected one of `first_cylinder`,
        // `last_cylinder`".
        if let Some(rest) = reason.strip_prefix("unknown field `") {
            let field = rest.split('`').next().unwrap_or_default();
            let nearest = nearest(field, rest.split('`').skip(2).step_by(2)).map(str::to_owned);
            let key = [path, field].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
            return ProfileError::UnknownKey { file: file.to_owned(), key, nearest };
        }
        let value = path.split(['.', '[']).next().and_then(|key| table.get(key));
        let expected = match reason.rsplit_once("expected ").map_or(reason, |(_, expected)| expected) {
            "f64" => "a number",
            "u32" | "u64" => "a whole number, 0 or more",
            other => other,
        };
        ProfileError::Figure {
            file: file.to_owned(),
            key: path.to_owned(),
            value: value.map_or_else(String::new, |value| shortened(&value.to_string())),
            expected: expected.to_owned(),
        }
    })
}

/// Returns the beginning of a long text, because a message need not show all zones of a drive.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Profiles that another crate knows by name.
#[derive(Clone, Copy, Debug)]
pub struct Further {
    /// Returns the text of a profile, `None` for an unknown name, or an error for a drive that has
    /// no model.
    pub text: fn(&str) -> Option<Result<String, String>>,
    /// Returns the names, for suggestions.
    pub names: fn() -> Vec<String>,
}

static FURTHER: OnceLock<Further> = OnceLock::new();

impl Profile {
    /// Adds profiles to those that [`load`](Self::load) finds, for the whole process. Only the
    /// first call has an effect.
    pub fn add_further(further: Further) {
        FURTHER.get_or_init(|| further);
    }

    /// Loads the built-in profile of this name, or otherwise the TOML file at this path, or
    /// otherwise one of the [further](Self::add_further) profiles.
    ///
    /// # Errors
    /// Refuses an unknown profile or file (and suggests the nearest name), and a file that cannot
    /// be read or is not TOML. Refuses every key that is unknown, missing, of the wrong type or
    /// outside its range.
    pub fn load(name_or_path: &str) -> Result<Self, ProfileError> {
        if let Some((name, text)) = BUILTIN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, name);
        }
        if !Path::new(name_or_path).exists() {
            return Self::load_further(name_or_path);
        }
        let text = std::fs::read_to_string(name_or_path)
            .map_err(|error| ProfileError::Unreadable { file: name_or_path.to_owned(), reason: error.to_string() })?;
        Self::parse(&text, name_or_path)
    }

    fn load_further(name: &str) -> Result<Self, ProfileError> {
        let further = FURTHER.get();
        match further.and_then(|further| (further.text)(name)) {
            Some(Ok(text)) => return Self::parse(&text, name),
            Some(Err(reason)) => return Err(ProfileError::NoModel { name: name.to_owned(), reason }),
            None => {}
        }
        let others = further.map_or_else(Vec::new, |further| (further.names)());
        let names = BUILTIN.iter().map(|(name, _)| *name).chain(others.iter().map(String::as_str));
        Err(ProfileError::Unknown {
            name: name.to_owned(),
            nearest: nearest(&name.replace(' ', "-"), names).map(str::to_owned),
        })
    }

    /// Returns true if a profile has this name, so that the name does not stand for a file.
    pub fn is_builtin(name: &str) -> bool {
        let is_further = || FURTHER.get().is_some_and(|further| (further.text)(name).is_some());
        BUILTIN.iter().any(|(known, _)| *known == name) || (!Path::new(name).exists() && is_further())
    }

    /// Reads the text of a profile. Messages call the profile `origin`.
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load).
    pub fn parse(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let table = text.parse::<Table>().map_err(|error| ProfileError::Syntax {
            file: origin.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        Self::from_table(table, origin)
    }

    /// Returns the names of all built-in profiles.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// Returns all built-in profiles, in the order in which they are listed.
    pub fn builtin() -> impl Iterator<Item = Profile> {
        BUILTIN.iter().map(|(name, text)| {
            Self::parse(text, name).unwrap_or_else(|error| panic!("a built-in profile is tested: {error}"))
        })
    }

    fn from_table(table: Table, origin: &str) -> Result<Self, ProfileError> {
        let common_keys = keys_of::<Common>();
        let (common, figures): (Table, Table) =
            table.clone().into_iter().partition(|(key, _)| common_keys.contains(&key.as_str()));
        let common: Common = read_table(&common, origin)?;
        let body = match common.kind.as_str() {
            "hdd" => Body::Hdd(Box::new(Self::read_figures(&figures, origin)?)),
            "flash" => Body::Flash(Box::new(Self::read_figures(&figures, origin)?)),
            "cloud" => Body::Cloud(Box::new(Self::read_figures(&figures, origin)?)),
            other => {
                let expected = "\"hdd\", \"flash\" or \"cloud\"";
                return Err(BadFigure::new("kind", format!("\"{other}\""), expected).in_file(origin));
            }
        };
        let price = match (common.price_usd, common.price_date, common.price_source) {
            (None, None, None) => None,
            (Some(usd), Some(date), Some(source)) if usd.is_finite() && usd >= 0.0 => Some(Price { usd, date, source }),
            (usd, ..) => {
                let value = usd.map_or_else(|| "nothing".to_owned(), |usd| usd.to_string());
                let expected = "0 or more dollars, with price_date and price_source given";
                return Err(BadFigure::new("price_usd", value, expected).in_file(origin));
            }
        };
        let afr = common.afr_percent;
        if let Some(percent) = afr.filter(|percent| !(0.0..=100.0).contains(percent)) {
            return Err(
                BadFigure::new("afr_percent", percent, "a share of drives from 0 to 100 percent").in_file(origin)
            );
        }
        let mut profile = Self {
            name: common.name,
            summary: common.summary,
            capacity: common.capacity.0.sectors(),
            price,
            failures_per_year: afr.map(|percent| percent / 100.0),
            sources: common.sources,
            body,
            origin: origin.to_owned(),
            table,
        };
        profile.check().map_err(|bad| bad.in_file(origin))?;
        if let Body::Flash(flash) = &profile.body {
            profile.capacity = flash.capacity(profile.capacity).map_err(|bad| bad.in_file(origin))?;
        }
        Ok(profile)
    }

    /// Reads the figures of one kind of drive from the remaining keys of the table.
    fn read_figures<T: DeserializeOwned>(figures: &Table, origin: &str) -> Result<T, ProfileError> {
        let known = keys_of::<T>();
        if let Some(key) = figures.keys().find(|key| !known.contains(&key.as_str())) {
            let nearest = nearest(key, known.iter().chain(keys_of::<Common>()).copied()).map(str::to_owned);
            return Err(ProfileError::UnknownKey { file: origin.to_owned(), key: key.clone(), nearest });
        }
        read_table(figures, origin)
    }

    fn check(&self) -> Result<(), BadFigure> {
        if self.capacity == Sectors::ZERO {
            return Err(BadFigure::new("capacity", self.capacity.bytes(), "at least one sector of 512 bytes"));
        }
        match &self.body {
            Body::Hdd(hdd) => hdd.check(self.capacity),
            Body::Flash(flash) => flash.check(self.capacity),
            Body::Cloud(cloud) => cloud.check(self.capacity),
        }
    }

    /// Returns `"hdd"`, `"flash"` or `"cloud"`.
    pub fn kind(&self) -> &'static str {
        match self.body {
            Body::Hdd(_) => "hdd",
            Body::Flash(_) => "flash",
            Body::Cloud(_) => "cloud",
        }
    }

    /// Returns true if the drive can stand for a drive of this kind, `"hdd"` or `"flash"`. A cloud
    /// volume can stand for either kind.
    pub fn serves_as(&self, kind: &str) -> bool {
        [kind, "cloud"].contains(&self.kind())
    }

    /// Returns true if the drive has no seeks: flash, or a cloud volume of SSDs.
    pub fn is_solid_state(&self) -> bool {
        match &self.body {
            Body::Hdd(_) => false,
            Body::Flash(_) => true,
            Body::Cloud(cloud) => cloud.medium == Medium::Ssd,
        }
    }

    /// Returns true if the price is a rent for [`RENT_YEARS`](crate::cloud::RENT_YEARS), which
    /// includes energy and replacement.
    pub fn is_rented(&self) -> bool {
        matches!(self.body, Body::Cloud(_))
    }

    /// Returns the figures of an HDD; `None` for another kind of drive.
    pub fn hdd(&self) -> Option<&HddProfile> {
        match &self.body {
            Body::Hdd(hdd) => Some(hdd),
            Body::Flash(_) | Body::Cloud(_) => None,
        }
    }

    /// Returns the figures of this profile, sorted by key: key, value as TOML writes it, source.
    /// Prices and texts do not count as figures.
    pub fn figures(&self) -> impl Iterator<Item = (&str, String, Option<&str>)> {
        const NO_FIGURE: [&str; 7] = ["name", "kind", "summary", "price_usd", "price_date", "price_source", "sources"];
        self.table
            .iter()
            .filter(|(key, _)| !NO_FIGURE.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), value.to_string(), self.sources.get(key).map(String::as_str)))
    }

    /// Returns every key that [`set`](Self::set) takes for this kind of drive.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let of_kind = match self.body {
            Body::Hdd(_) => keys_of::<HddProfile>(),
            Body::Flash(_) => keys_of::<FlashProfile>(),
            Body::Cloud(_) => keys_of::<CloudProfile>(),
        };
        ["capacity", "price_usd", "afr_percent"].into_iter().chain(of_kind.iter().copied())
    }

    /// Changes one figure, as `--set hdd.KEY=VALUE` does. If the change is refused, the profile is
    /// unchanged.
    ///
    /// # Errors
    /// Refuses a key that this kind of drive does not have, and a value outside its range.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ProfileError> {
        self.set_all([(key, value)])
    }

    /// Changes several figures at once. Only the result of all changes must be valid.
    ///
    /// # Errors
    /// Returns the errors of [`set`](Self::set).
    pub fn set_all<'a>(&mut self, changes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), ProfileError> {
        let mut table = self.table.clone();
        for (key, value) in changes {
            if !self.keys().any(|known| known == key) {
                let nearest = nearest(key, self.keys()).map(str::to_owned);
                return Err(ProfileError::UnknownKey { file: self.origin.clone(), key: key.to_owned(), nearest });
            }
            let value = match (value.parse::<i64>(), value.parse::<f64>()) {
                (Ok(whole), _) => Value::Integer(whole),
                (_, Ok(number)) if number.is_finite() => Value::Float(number),
                _ => Value::String(value.to_owned()),
            };
            table.insert(key.to_owned(), value);
            if let Some(sources) = table.get_mut("sources").and_then(Value::as_table_mut) {
                sources.insert(key.to_owned(), Value::String("set by the user".to_owned()));
            }
        }
        *self = Self::from_table(table, &self.origin)?;
        Ok(())
    }

    /// Builds a model of this drive with `capacity` sectors (its own capacity if `None`); `seed`
    /// determines the model's random numbers. A flash drive is clean.
    ///
    /// An HDD with more than its profile's capacity gets more cylinders, in each zone by the same
    /// factor, and keeps its seek times. With less than its profile's capacity, the HDD uses its
    /// outer part only. A flash drive of another capacity has other numbers of blocks; see
    /// [`GeometryRequest::resolve`](crate::flash::geometry::GeometryRequest::resolve).
    ///
    /// # Errors
    /// Refuses a capacity that the drive's geometry cannot have.
    pub fn build(&self, capacity: Option<Sectors>, seed: u64) -> Result<Box<dyn DeviceModel>, ProfileError> {
        self.build_preconditioned(capacity, Precondition::Clean, SectorRange::default(), seed)
    }

    /// Checks that a model of this drive with `capacity` sectors can be built, without the tables
    /// of the model.
    ///
    /// # Errors
    /// Refuses a capacity that the geometry of a flash drive cannot have.
    pub fn check_capacity(&self, capacity: Sectors) -> Result<(), ProfileError> {
        let Body::Flash(flash) = &self.body else { return Ok(()) };
        let geometry = flash.geometry(self.capacity, Some(capacity));
        geometry.map(drop).map_err(|bad| bad.in_file(&self.origin))
    }

    /// Builds a model as [`build`](Self::build) does. On flash, the sectors of `used` are in the
    /// state `precondition` at time zero, and the other sectors are clean.
    ///
    /// # Errors
    /// Returns the errors of [`build`](Self::build).
    pub fn build_preconditioned(
        &self,
        capacity: Option<Sectors>,
        precondition: Precondition,
        used: SectorRange,
        seed: u64,
    ) -> Result<Box<dyn DeviceModel>, ProfileError> {
        let in_file = |bad: BadFigure| bad.in_file(&self.origin);
        Ok(match &self.body {
            Body::Hdd(figures) => {
                let capacity = capacity.unwrap_or(self.capacity);
                hdd::build(figures, self.capacity, capacity).map_err(in_file)?
            }
            Body::Flash(flash) => {
                Box::new(Flash::new(flash, self.capacity, capacity, precondition, used, seed).map_err(in_file)?)
            }
            Body::Cloud(cloud) => Box::new(CloudVolume::new(cloud, capacity.unwrap_or(self.capacity))),
        })
    }

    /// Builds a model of this drive with `capacity` sectors that continues from a state returned by
    /// [`save_state`](DeviceModel::save_state).
    ///
    /// # Errors
    /// Fails if this is not a flash drive, if another drive was saved (the error names the first
    /// key that differs), or if the state is damaged.
    pub fn restore(&self, capacity: Option<Sectors>, tables: &[u8]) -> Result<Box<dyn DeviceModel>, ProfileError> {
        Ok(Box::new(self.restore_flash(capacity, tables)?))
    }

    pub(crate) fn restore_flash(&self, capacity: Option<Sectors>, tables: &[u8]) -> Result<Flash, ProfileError> {
        let Body::Flash(flash) = &self.body else {
            let expected = "\"flash\": only a flash drive has a state to restore";
            return Err(BadFigure::new("kind", format!("\"{}\"", self.kind()), expected).in_file(&self.origin));
        };
        Flash::restore(flash, self.capacity, capacity, tables).map_err(|error| match error {
            RestoreError::Figure(bad) => bad.in_file(&self.origin),
            RestoreError::Damaged(reason) => ProfileError::State { file: self.origin.clone(), reason },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_every_built_in_profile_says_where_it_is_from() {
        for ((file, _), profile) in BUILTIN.iter().zip(Profile::builtin()) {
            assert_eq!(profile.name, *file, "a built-in profile is named as its file");
            for (key, value, source) in profile.figures() {
                assert!(source.is_some_and(|text| text.len() > 3), "{file}: {key} = {value} has no source");
            }
            for key in profile.sources.keys() {
                assert!(profile.table.contains_key(key), "{file}: a source for '{key}', which is not there");
            }
            // For the drives of the 1990s in DiskSim's validation set, no prices are known.
            assert!(profile.price.is_some() || file.starts_with("disksim-"), "{file} has no price");
            profile.build(None, 0).unwrap();
        }
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_nearest() {
        let error = Profile::load("seagate-baracuda-7200.12-1tb").unwrap_err().to_string();
        assert!(error.contains("did you mean 'seagate-barracuda-7200.12-1tb'?"), "{error}");
        assert!(Profile::load("no/such/drive.toml").unwrap_err().to_string().contains("no/such/drive.toml"));
    }

    /// A figure of a profile can be set. A bad figure is refused and leaves the profile as it was.
    #[test]
    fn bad_figure_leaves_the_profile_unchanged() {
        let mut profile = Profile::load(DEFAULT_HDD).unwrap();
        profile.set("scheduler", "sptf").unwrap();
        profile.set("queue_depth", "4").unwrap();
        profile.set("cache", "64MiB").unwrap();
        profile.set("spin_down", "600s").unwrap();
        let hdd = profile.hdd().unwrap();
        assert_eq!((hdd.queue_depth, hdd.cache.0), (4, Bytes::from_mib(64)));
        let source = profile.figures().find(|(key, ..)| *key == "scheduler").unwrap().2;
        assert_eq!(source, Some("set by the user"));

        for (key, value, expected) in [
            ("schedular", "sptf", "did you mean 'scheduler'?"),
            ("scheduler", "lifo", "`fcfs`, `sstf`, `clook`, `sptf`"),
            ("write_cache", "maybe", "`on` or `off`"),
            ("rpm", "0", "a number from 100 to 100000"),
            ("spin_down", "soon", "like \"600s\""),
            ("cache", "12parsecs", "like 32GiB"),
            ("queue_depth", "-1", "expected a whole number"),
            ("actuators", "9", "a number from 1 to 4"),
        ] {
            let error = profile.set(key, value).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(key), "{key}={value}: {error}");
            assert!(error.starts_with(DEFAULT_HDD), "{error}");
        }
        let hdd = profile.hdd().unwrap();
        assert_eq!((hdd.queue_depth, hdd.rpm), (4, 7200.0));
    }

    #[test]
    fn a_bad_profile_names_file_key_value_and_range() {
        let text = BUILTIN[0].1;
        for (from, to, expected) in [
            ("rpm = 7200", "rpm = 0", "x.toml: rpm = 0: expected a number from 100 to 100000"),
            ("rpm = 7200", "rpm = \"fast\"", "x.toml: rpm = \"fast\": expected a number"),
            ("rpm = 7200", "", "x.toml: key 'rpm' is missing"),
            ("rpm = 7200", "rpm = 7200\nspeed = 3", "x.toml: unknown key 'speed'"),
            (
                "spin_down = \"off\"",
                "spin_down = \"60s\"\nactuators = 2",
                "actuators = 2: expected 1, because spin_down is not",
            ),
            ("rpm = 7200", "rpm = ", "line 10"),
            ("kind = \"hdd\"", "kind = \"tape\"", "x.toml: kind = \"tape\": expected \"hdd\", \"flash\" or \"cloud\""),
            ("capacity = 1_000_204_886_016", "capacity = 0", "capacity = 0B: expected at least one sector"),
            ("price_date = \"2010\"", "", "price_date and price_source given"),
            ("\nseek_average_ms = 8.5", "\nseek_average_ms = 0.5", "seek_average_ms = 0.5: expected 6."),
            (
                "\nseek_full_stroke_ms = 18",
                "\nseek_full_stroke_ms = 0.9",
                "expected at least seek_track_to_track_ms = 1",
            ),
            ("inner_mb_per_s = 60", "inner_mb_per_s = 260", "at most outer_mb_per_s = 125"),
            ("zone_count = 20", "", "zone_count = nothing: expected a figure, because no zones are given"),
            ("cache = \"32MiB\"", "cache = \"8MiB\"", "more than read_segments × read_ahead = 8388608 bytes"),
            ("spin_up_s = 10", "spin_down_s = 10", "x.toml: unknown key 'spin_down_s'; did you mean 'spin_down'?"),
            ("spin_down = \"off\"\nspin_up_s = 10", "spin_down = \"60s\"", "spin_up_s = nothing: expected a time"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text, "{from}");
            let error = Profile::parse(&bad, "x.toml").unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("x.toml"), "{to}: {error}");
        }
    }
}
