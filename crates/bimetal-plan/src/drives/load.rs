//! Reads files of drives. A message names the file, the drive, the key, the value and the expected
//! value.

use std::collections::BTreeMap;

use bimetal_models::spelling::nearest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::figures::{DRIVE_KEYS, Key, PRICE_KEYS, PerSize, Price, Size, UNKNOWN, VOLUME_KEYS};
use super::{CloudVolume, Drive, DriveFile, Provenance};
use crate::catalogue::Kind;

/// Reasons for which a file of drives is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// The file is not TOML.
    #[error("{file}: {reason}")]
    Syntax {
        /// The file.
        file: String,
        /// Line of the error, with the expected content.
        reason: String,
    },
    /// A value is invalid.
    #[error("{file}: {drive}: {key} = {value}: expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// Name of the drive.
        drive: String,
        /// Key of the value.
        key: String,
        /// The value.
        value: String,
        /// Expected value.
        expected: String,
    },
    /// A key is missing.
    #[error("{file}: {drive}: {key} is missing: expected {expected}")]
    Missing {
        /// The file.
        file: String,
        /// Name of the drive.
        drive: String,
        /// The key.
        key: String,
        /// Expected value.
        expected: String,
    },
    /// A CSV line is invalid.
    #[error("{file}: line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the error, with the expected content.
        reason: String,
    },
}

/// Reads the file with the content `text`. Messages call the file `name`.
///
/// # Errors
/// Returns an error if the text is not TOML, or an entry is invalid.
pub fn parse(text: &str, name: &str) -> Result<DriveFile, DriveError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| DriveError::Syntax {
        file: name.to_owned(),
        reason: error.to_string().trim_end().replace('\n', " "),
    })?;
    of_table(table, name)
}

/// Reads the file with the content `table`. Messages call the file `name`.
pub(super) fn of_table(table: Table, name: &str) -> Result<DriveFile, DriveError> {
    let mut root = Reader { file: name, drive: "top level".to_owned(), table };
    let summary = root.take("summary", "a text")?.unwrap_or_default();
    let sources = root.take("sources", "a table of sources, each name = \"text\"")?.unwrap_or_default();
    let drives: Vec<Table> = root.take("drive", "entries that begin with [[drive]]")?.unwrap_or_default();
    let volumes: Vec<Table> = root.take("volume", "entries that begin with [[volume]]")?.unwrap_or_default();
    root.nothing_left(&["summary", "sources", "drive", "volume"])?;
    if drives.is_empty() && volumes.is_empty() {
        return Err(root.missing("drive", "at least one [[drive]] or [[volume]]"));
    }
    let drives: Result<Vec<_>, _> =
        (1..).zip(drives).map(|(at, table)| drive(Reader::new(name, "drive", at, table), &sources)).collect();
    let volumes: Result<Vec<_>, _> =
        (1..).zip(volumes).map(|(at, table)| volume(Reader::new(name, "volume", at, table), &sources)).collect();
    let file = DriveFile { name: name.to_owned(), summary, sources, drives: drives?, volumes: volumes? };
    each_name_once(&file)?;
    Ok(file)
}

/// Names of sources, and their texts.
type Sources = BTreeMap<String, String>;

/// The keys of an entry that are not read yet.
struct Reader<'a> {
    file: &'a str,
    /// Name of the entry in messages.
    drive: String,
    table: Table,
}

impl<'a> Reader<'a> {
    /// Returns a reader of the entry `at` of a list of tables.
    fn new(file: &'a str, list: &str, at: usize, table: Table) -> Self {
        let name = table.get("name").and_then(Value::as_str);
        let drive = name.map_or_else(|| format!("[[{list}]] {at}"), str::to_owned);
        Self { file, drive, table }
    }

    fn wrong(&self, key: &str, value: impl ToString, expected: impl Into<String>) -> DriveError {
        DriveError::Value {
            file: self.file.to_owned(),
            drive: self.drive.clone(),
            key: key.to_owned(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    fn missing(&self, key: &str, expected: &str) -> DriveError {
        DriveError::Missing {
            file: self.file.to_owned(),
            drive: self.drive.clone(),
            key: key.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Takes the value of a key, if the entry has the key.
    fn take<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Result<Option<T>, DriveError> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        match value.clone().try_into() {
            Ok(taken) => Ok(Some(taken)),
            Err(_) => Err(self.wrong(key, value, expected)),
        }
    }

    /// Takes the value of a key that every entry has.
    fn need<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Result<T, DriveError> {
        self.take(key, expected)?.ok_or_else(|| self.missing(key, expected))
    }

    /// Takes all keys that are left, as the figures of type `T`.
    fn rest<T: DeserializeOwned>(&mut self, keys: &[Key], others: &[&str]) -> Result<T, DriveError> {
        for (name, value) in &self.table {
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                let known: Vec<&str> = keys.iter().map(|key| key.name).chain(others.iter().copied()).collect();
                return Err(self.unknown(name, value, &known));
            };
            let alone = Table::from_iter([(name.clone(), value.clone())]);
            if alone.try_into::<T>().is_err() {
                return Err(self.wrong(name, value, key.expected));
            }
        }
        let table = std::mem::take(&mut self.table);
        let value = Value::Table(table.clone());
        table.try_into().map_err(|_| self.wrong("keys", value, "keys that fit together"))
    }

    fn unknown(&self, key: &str, value: &Value, known: &[&str]) -> DriveError {
        let near = nearest(key, known.iter().copied());
        self.wrong(
            key,
            value,
            match near {
                Some(near) => format!("a known key, such as {near}"),
                None => format!("a known key: {}", known.join(" ")),
            },
        )
    }

    fn nothing_left(&self, known: &[&str]) -> Result<(), DriveError> {
        match self.table.iter().next() {
            Some((key, value)) => Err(self.unknown(key, value, known)),
            None => Ok(()),
        }
    }

    fn kind(&mut self) -> Result<Kind, DriveError> {
        match self.need::<String>("kind", "ssd or hdd")?.as_str() {
            "ssd" => Ok(Kind::Ssd),
            "hdd" => Ok(Kind::Hdd),
            other => Err(self.wrong("kind", other, "ssd or hdd")),
        }
    }

    /// Takes the name of the entry: lower-case letters, digits, points and hyphens.
    fn name(&mut self) -> Result<String, DriveError> {
        const EXPECTED: &str = "lower-case letters, digits, points and hyphens, like samsung-990-pro";
        let name: String = self.need("name", EXPECTED)?;
        let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
        if name.is_empty() || !name.chars().all(fits) {
            return Err(self.wrong("name", name, EXPECTED));
        }
        Ok(name)
    }

    fn provenance(&mut self) -> Result<Provenance, DriveError> {
        Ok(Provenance {
            sources: self.take("sources", "a list of names from [sources]")?.unwrap_or_default(),
            source_of: self
                .take("source_of", "a table with a list of names from [sources] for each key")?
                .unwrap_or_default(),
            unverified: self.take("unverified", "a list of keys, or of KEY@SIZE")?.unwrap_or_default(),
            note: self.take("note", "a text")?,
        })
    }
}

/// Keys of an entry that are not figures.
const OTHERS: [&str; 9] = ["name", "model", "kind", "sizes", "sources", "source_of", "unverified", "note", "price"];

/// Values that a date takes.
const DATE: &str = "a date like 2026-11-22, 2026-11 or 2026";

fn drive(mut reader: Reader<'_>, sources: &Sources) -> Result<Drive, DriveError> {
    let (name, model, kind) = (reader.name()?, reader.need("model", "a text")?, reader.kind()?);
    let sizes = sizes(&mut reader)?;
    let provenance = reader.provenance()?;
    let lists: Vec<Table> = reader.take("price", "entries that begin with [[drive.price]]")?.unwrap_or_default();
    let prices: Result<Vec<Price>, _> = lists.into_iter().map(|list| price(&reader, list, &sizes, sources)).collect();
    let prices = prices?;
    dates_ascend(&reader, &prices)?;
    let own = reader.table.clone();
    if let Some((key, value)) =
        own.iter().find(|(name, _)| DRIVE_KEYS.iter().any(|key| key.name == *name && !key.fits(kind)))
    {
        return Err(reader.wrong(key, value, format!("no such key for {kind:?} drives").to_lowercase()));
    }
    let drive = Drive { name, model, kind, figures: reader.rest(DRIVE_KEYS, &OTHERS)?, provenance, prices, sizes };
    for (key, value) in &own {
        counts_agree(&reader, key, value, drive.sizes.len())?;
    }
    match (kind, &drive.figures) {
        (Kind::Ssd, figures) if figures.tbw_tb.is_none() && figures.dwpd.is_none() => {
            return Err(reader.missing("tbw_tb", "tbw_tb or dwpd of an SSD"));
        }
        (Kind::Hdd, figures) if figures.recording.is_none() => {
            return Err(reader.missing("recording", "CMR, DM-SMR or HM-SMR"));
        }
        _ => {}
    }
    let mut figures = own;
    figures.insert("sizes".to_owned(), table_of(&drive)["sizes"].clone());
    origins(&reader, &figures, &drive.sizes, &drive.provenance, sources)?;
    Ok(drive)
}

fn volume(mut reader: Reader<'_>, sources: &Sources) -> Result<CloudVolume, DriveError> {
    let (name, model, kind) = (reader.name()?, reader.need("model", "a text")?, reader.kind()?);
    let price_date = reader.take("price_date", DATE)?;
    let price_read = reader.take("price_read", DATE)?;
    if price_date.is_some() == price_read.is_some() {
        return Err(reader.missing("price_date", "either price_date or price_read, a date like 2026-11-22"));
    }
    let provenance = reader.provenance()?;
    let own = reader.table.clone();
    let figures = reader.rest(VOLUME_KEYS, &OTHERS)?;
    for (key, value) in &own {
        if value.is_array() {
            return Err(reader.wrong(key, value, "a number above 0"));
        }
    }
    origins(&reader, &own, &[], &provenance, sources)?;
    Ok(CloudVolume { name, model, kind, price_date, price_read, figures, provenance })
}

fn sizes(reader: &mut Reader<'_>) -> Result<Vec<Size>, DriveError> {
    const EXPECTED: &str = "sizes like 500GB, each a number and one of KB to TB or KiB to TiB, at least 1MiB";
    let sizes: Vec<Size> = reader.need("sizes", EXPECTED)?;
    let texts: Vec<&str> = sizes.iter().map(|size| size.text.as_str()).collect();
    if sizes.is_empty() || !sizes.is_sorted_by(|one, next| one.bytes < next.bytes) {
        return Err(reader.wrong("sizes", format!("[{}]", texts.join(", ")), "at least one size, in ascending order"));
    }
    Ok(sizes)
}

/// Refuses a list unless it has one number for each of `sizes`.
fn counts_agree(reader: &Reader<'_>, key: &str, value: &Value, sizes: usize) -> Result<(), DriveError> {
    const FOR_EACH: [&str; 3] = ["tbw_tb", "usd", "eur"];
    let count = match value {
        // The sector sizes are not a list for sizes.
        Value::Array(_) if key == "logical_sector_bytes" || key == "sources" => return Ok(()),
        Value::Array(numbers) => numbers.len(),
        _ if FOR_EACH.contains(&key) => 0,
        _ => return Ok(()),
    };
    match count == sizes {
        true => Ok(()),
        false => Err(reader.wrong(key, value, format!("a list of {sizes}, one for each of sizes"))),
    }
}

fn price(drive: &Reader<'_>, table: Table, sizes: &[Size], sources: &Sources) -> Result<Price, DriveError> {
    let mut reader = Reader { file: drive.file, drive: format!("{}: price", drive.drive), table };
    if !reader.table.contains_key("date") {
        return Err(reader.missing("date", DATE));
    }
    let own = reader.table.clone();
    let price: Price = reader.rest(PRICE_KEYS, &[])?;
    if price.usd.is_some() == price.eur.is_some() {
        return Err(reader.missing("usd", "either usd or eur, with a price for each of sizes"));
    }
    for (key, value) in &own {
        counts_agree(&reader, key, value, sizes.len())?;
    }
    let names = price.sources.as_deref().unwrap_or_default();
    if price.unverified == Some(false) || price.unverified.is_some() != names.is_empty() {
        let shown = format!("{names:?}");
        return Err(reader.wrong("sources", shown, "at least one source, or unverified = true and no source"));
    }
    known(&reader, "sources", names, sources)?;
    Ok(price)
}

fn dates_ascend(reader: &Reader<'_>, prices: &[Price]) -> Result<(), DriveError> {
    let days = |price: &Price| price.date.map(|date| date.first_day());
    match prices.windows(2).find(|pair| days(&pair[0]) > days(&pair[1])) {
        Some(pair) => {
            let date = pair[1].date.map(|date| date.to_string()).unwrap_or_default();
            Err(reader.wrong("date", date, "price lists in order of their dates, the oldest first"))
        }
        None => Ok(()),
    }
}

/// Refuses names of sources that are not in `sources`.
fn known(reader: &Reader<'_>, key: &str, names: &[String], sources: &Sources) -> Result<(), DriveError> {
    match names.iter().find(|name| !sources.contains_key(*name)) {
        Some(name) => Err(reader.wrong(key, name, "a name from [sources]")),
        None => Ok(()),
    }
}

/// Refuses a figure that has neither a source nor a place in `unverified`, and a figure that has
/// both a source and a place in `unverified`.
fn origins(
    reader: &Reader<'_>,
    figures: &Table,
    sizes: &[Size],
    provenance: &Provenance,
    sources: &Sources,
) -> Result<(), DriveError> {
    known(reader, "sources", &provenance.sources, sources)?;
    for (key, names) in &provenance.source_of {
        known(reader, "source_of", names, sources)?;
        if !figures.contains_key(key) || names.is_empty() {
            return Err(reader.wrong("source_of", key, "a figure of this entry, with at least one source"));
        }
        if provenance.is_unverified(key, None) {
            return Err(reader.wrong("source_of", key, "no source for a figure that is in unverified"));
        }
    }
    for (at, entry) in provenance.unverified.iter().enumerate() {
        let (key, size) = entry.split_once('@').unwrap_or((entry, ""));
        let index = sizes.iter().position(|known| known.text == size);
        let is_there = match (figures.get(key), index) {
            (Some(Value::Array(values)), Some(index)) => values.get(index).and_then(Value::as_str) != Some(UNKNOWN),
            (Some(_), None) => size.is_empty() && !entry.contains('@'),
            _ => false,
        };
        if !is_there || provenance.unverified[..at].contains(entry) {
            return Err(reader.wrong("unverified", entry, "a key of this entry or KEY@SIZE of a known figure, once"));
        }
    }
    let no_source = |key: &&String| provenance.sources_of(key).is_empty();
    for (key, value) in figures.iter().filter(|(key, _)| no_source(key)) {
        if !all_unverified(key, value, sizes, provenance) {
            return Err(reader.wrong(key, value, "a source (sources, source_of), or the key in unverified"));
        }
    }
    Ok(())
}

/// Returns true if every known number of a figure is unverified.
fn all_unverified(key: &str, value: &Value, sizes: &[Size], provenance: &Provenance) -> bool {
    let alone =
        |(value, size): (&Value, &Size)| value.as_str() == Some(UNKNOWN) || provenance.is_unverified(key, Some(size));
    let per_size = value.as_array().filter(|values| values.len() == sizes.len());
    provenance.is_unverified(key, None) || per_size.is_some_and(|values| values.iter().zip(sizes).all(alone))
}

fn each_name_once(file: &DriveFile) -> Result<(), DriveError> {
    let drives = file.drives.iter().map(|drive| &drive.name);
    let mut names: Vec<&String> = drives.chain(file.volumes.iter().map(|volume| &volume.name)).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(DriveError::Value {
            file: file.name.clone(),
            drive: pair[0].clone(),
            key: "name".to_owned(),
            value: pair[0].clone(),
            expected: "each name once".to_owned(),
        }),
        None => Ok(()),
    }
}

/// Returns the keys of an entry with their values.
pub(super) fn table_of(entry: &impl Serialize) -> Table {
    Table::try_from(entry).unwrap_or_default()
}

impl Drive {
    /// Returns the drive's figures in the order of a file: key, and value in TOML.
    pub fn figures_in_order(&self) -> Vec<(&'static Key, Value)> {
        in_order(DRIVE_KEYS, &table_of(&self.figures))
    }

    /// Returns the rating of the flash of the size at `index` with its unit, and true if the rating
    /// is unverified.
    pub fn endurance(&self, index: usize) -> Option<(String, bool)> {
        let size = self.sizes.get(index)?;
        let rating = |key: &str, numbers: &Option<PerSize>, unit: &str| {
            let number = numbers.as_ref()?.get(index)?;
            Some((format!("{number} {unit}"), self.provenance.is_unverified(key, Some(size))))
        };
        rating("tbw_tb", &self.figures.tbw_tb, "TBW").or_else(|| rating("dwpd", &self.figures.dwpd, "DWPD"))
    }
}

impl CloudVolume {
    /// Returns the volume's figures in the order of a file: key, and value in TOML.
    pub fn figures_in_order(&self) -> Vec<(&'static Key, Value)> {
        in_order(VOLUME_KEYS, &table_of(&self.figures))
    }
}

fn in_order(keys: &'static [Key], table: &Table) -> Vec<(&'static Key, Value)> {
    keys.iter().filter_map(|key| Some((key, table.get(key.name)?.clone()))).collect()
}
