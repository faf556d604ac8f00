//! Result of a measurement: figures with their errors, and the profile made of these figures.

use std::fmt::Write as _;

use bimetal_core::units::{Bytes, significant};
use serde::Serialize;

/// Figure of the profile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Key in the profile.
    pub key: String,
    /// Value, as TOML writes it.
    pub value: String,
    /// Error of the value, in its own unit; `None` if the figure was not measured.
    pub error: Option<f64>,
    /// Method by which the figure was found.
    pub source: String,
}

/// Kind of drive, by its behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Hard disk: response times lie on a grid of revolutions.
    Hdd,
    /// Flash: nothing turns.
    Flash,
}

/// Result of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Extraction {
    /// Kind of the drive.
    pub kind: Kind,
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
    /// Figures, in the order of the profile.
    pub figures: Vec<Figure>,
    /// Set if the figures are those of a drive. If the figures are not those of a drive, the notes
    /// describe the results of timing.
    pub trusted: bool,
    /// Zones of a disk.
    pub zones: Vec<ZoneFigure>,
    /// Notes for the reader: parts that were left out, and reasons.
    pub notes: Vec<String>,
    /// Number of commands that were issued.
    pub commands: u64,
    /// Duration in seconds, by the drive's clock.
    pub seconds: f64,
}

/// Zone of a disk.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ZoneFigure {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Number of sectors in each track.
    pub sectors_per_track: u32,
    /// Sectors by which a track is rotated against the previous track of its cylinder.
    pub track_skew: u32,
    /// Sectors by which the first track of a cylinder is rotated against the previous track.
    pub cylinder_skew: u32,
    /// Number of sectors in each cylinder that have no address.
    pub spares: u32,
    /// Error of the rate, as a fraction of the rate.
    pub rate_error: f64,
}

/// Figures collected so far.
#[derive(Default)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Figures {
    /// Adds a measured figure, with `error` in its own unit.
    pub(crate) fn number(&mut self, key: &str, value: f64, error: f64, how: impl Into<String>) {
        let source = format!("measured, ± {}: {}", short(error), how.into());
        self.push(key, short_for(value, error), Some(error), source);
    }

    /// Adds the points of a measured curve.
    pub(crate) fn number_list(&mut self, key: &str, points: &[(u32, f64)], error: f64, how: impl Into<String>) {
        let source = format!("measured, ± {}: {}", short(error), how.into());
        let points: Vec<String> = points.iter().map(|(at, value)| format!("[{at}, {value:.5}]")).collect();
        self.push(key, format!("[{}]", points.join(", ")), Some(error), source);
    }

    /// Adds a measured size.
    pub(crate) fn size(&mut self, key: &str, bytes: u64, error: u64, how: impl Into<String>) {
        let source = format!("measured, ± {} bytes: {}", error, how.into());
        self.push(key, quoted(&Bytes(bytes).to_string()), Some(error as f64), source);
    }

    /// Adds a choice or a count that the measurement decided.
    pub(crate) fn found(&mut self, key: &str, value: impl Into<String>, how: impl Into<String>) {
        self.push(key, value.into(), Some(0.0), format!("measured: {}", how.into()));
    }

    /// Adds a figure that the drive reports.
    pub(crate) fn reported(&mut self, key: &str, value: impl Into<String>) {
        self.push(key, value.into(), Some(0.0), "as the drive reports".to_owned());
    }

    /// Adds a figure that timing does not show.
    pub(crate) fn assumed(&mut self, key: &str, value: impl Into<String>, why: impl Into<String>) {
        self.push(key, value.into(), None, format!("assumed, not measured: {}", why.into()));
    }

    /// Adds those figures of `usual` that were not measured, because the time was too short.
    pub(crate) fn assume_missing(&mut self, usual: &[(&str, &str)]) {
        for (key, value) in usual {
            if self.text(key).is_none() {
                self.assumed(key, *value, "no time");
            }
        }
    }

    /// Returns true if the figure exists and was measured.
    pub(crate) fn is_measured(&self, key: &str) -> bool {
        self.0.iter().any(|figure| figure.key == key && figure.error.is_some())
    }

    /// Marks the measured figures of `keys` as assumed, for the reason `why`, because the
    /// measurements did not measure these figures.
    pub(crate) fn doubt(&mut self, keys: &[&str], why: &str) {
        for figure in self.0.iter_mut().filter(|figure| keys.contains(&figure.key.as_str()) && figure.error.is_some()) {
            figure.error = None;
            figure.source = format!("assumed, not measured: {why}");
        }
    }

    /// Returns the text of a figure, without its quotes.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|figure| figure.key == key).map(|figure| figure.value.trim_matches('"'))
    }

    /// Returns the sectors of a size among the figures, at least one; the sectors of 4 KiB if the
    /// figure does not exist.
    pub(crate) fn sectors(&self, key: &str) -> u64 {
        let bytes = self.text(key).and_then(|text| text.parse::<Bytes>().ok());
        bytes.map_or(8, |bytes| bytes.sectors().0.max(1))
    }

    fn push(&mut self, key: &str, value: String, error: Option<f64>, source: String) {
        self.0.push(Figure { key: key.to_owned(), value, error, source });
    }
}

/// Returns a text quoted as in TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    significant(value, 3)
}

/// Formats a number with one digit more than its error allows.
fn short_for(value: f64, error: f64) -> String {
    let error = error.min(value.abs() * 1e-3).max(value.abs() * 1e-7).max(1e-9);
    let digits = (1 - error.log10().floor() as i32).clamp(1, 9);
    format!("{value:.*}", digits as usize)
}

/// Ranges of measured values that flash can have.
const OF_FLASH: [(&str, f64, f64); 6] = [
    // The fastest cells on the market are sensed in 3 us, and programmed in 75.
    ("read_us", 2.0, 2_000.0),
    ("program_us", 20.0, 10_000.0),
    ("erase_us", 100.0, 100_000.0),
    ("flush_us", 0.0, 100_000.0),
    ("channel_mb_per_s", 0.0, 6_000.0),
    // The limit is four lanes of PCIe 5.
    ("link_mb_per_s", 0.0, 16_000.0),
];

impl Extraction {
    /// Marks all measured figures as not figures of a drive, for `reason`: in a note in front, and
    /// beside each figure.
    pub fn doubt(&mut self, reason: &str) {
        self.trusted = false;
        self.notes.insert(0, format!("NOT TO BE TRUSTED: {reason}."));
        for figure in self.figures.iter_mut().filter(|figure| figure.error.is_some()) {
            figure.source = figure.source.replacen("measured", "timed, and not to be trusted", 1);
        }
    }

    /// Returns a reason for which the drive is not flash: the first figure that no flash can have.
    pub(crate) fn unlike_flash(&self) -> Option<String> {
        let measured = |key: &str| {
            let figure = self.figures.iter().find(|figure| figure.key == key && figure.error.is_some())?;
            figure.value.parse::<f64>().ok()
        };
        OF_FLASH.iter().find_map(|&(key, low, high)| {
            let value = measured(key).filter(|value| !(low..=high).contains(value))?;
            Some(format!(
                "{key} = {} is impossible for flash, which has {} to {}: memory may have answered (a page cache, a \
                 disk in memory, a host's or controller's cache), another program was busy meanwhile, or the drive \
                 works unlike the models",
                short(value),
                short(low),
                short(high)
            ))
        })
    }

    /// Returns the profile as TOML, which `--ssd` and `--hdd` take, with `name` and `summary`
    /// unchanged.
    pub fn to_toml(&self, name: &str, summary: &str) -> String {
        let kind = match self.kind {
            Kind::Hdd => "hdd",
            Kind::Flash => "flash",
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        for note in &self.notes {
            let _ = writeln!(text, "# {note}");
        }
        let _ = writeln!(text, "name = {}\nkind = \"{kind}\"\nsummary = {}\n", quoted(name), quoted(summary));
        let _ = writeln!(text, "capacity = {}", self.capacity_bytes);
        for Figure { key, value, error, .. } in &self.figures {
            let _ = match error {
                Some(0.0) => writeln!(text, "{key} = {value}"),
                Some(error) => writeln!(text, "{key} = {value} # ± {}", short(*error)),
                None => writeln!(text, "{key} = {value} # assumed"),
            };
        }
        let _ = writeln!(text, "\n[sources]\ncapacity = \"as the drive reports\"");
        for Figure { key, source, .. } in &self.figures {
            let _ = writeln!(text, "{key} = {}", quoted(source));
        }
        if !self.zones.is_empty() {
            let _ = writeln!(text, "zones = \"measured: angles of sectors, from the ends of reads\"");
        }
        for zone in &self.zones {
            let ZoneFigure { first_cylinder, last_cylinder, sectors_per_track, .. } = zone;
            let _ = writeln!(text, "\n[[zones]] # rate ± {} %", short(zone.rate_error * 100.0));
            let _ = writeln!(text, "first_cylinder = {first_cylinder}\nlast_cylinder = {last_cylinder}");
            let _ = writeln!(text, "sectors_per_track = {sectors_per_track}");
            let _ = writeln!(text, "track_skew = {}\ncylinder_skew = {}", zone.track_skew, zone.cylinder_skew);
            if zone.spares > 0 {
                let _ = writeln!(text, "spares = {}", zone.spares);
            }
        }
        text
    }
}
