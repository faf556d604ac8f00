//! What was found: figures with their errors, and the profile that they make.

use std::fmt::Write as _;

use bimetal_core::units::Bytes;
use serde::Serialize;

/// One figure of the profile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its key in the profile.
    pub key: String,
    /// Its value, as TOML writes it.
    pub value: String,
    /// How far off it may be, in its own unit; `None` where it was not measured.
    pub error: Option<f64>,
    /// How it was found.
    pub source: String,
}

/// Which kind of drive it is, by its behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something turns: response times lie on a grid of revolutions.
    Hdd,
    /// Nothing turns.
    Flash,
}

/// What a measurement found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Extraction {
    /// The drive's kind.
    pub kind: Kind,
    /// What it offers, in bytes.
    pub capacity_bytes: u64,
    /// The figures, in the order of the profile.
    pub figures: Vec<Figure>,
    /// Whether it is of a drive; what timing did show otherwise, the notes say.
    pub trusted: bool,
    /// The zones of a disk.
    pub zones: Vec<ZoneFigure>,
    /// What the reader should know: what was left out, and why.
    pub notes: Vec<String>,
    /// Commands that were issued.
    pub commands: u64,
    /// How long it took, by the drive's clock.
    pub seconds: f64,
}

/// A zone of a disk.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ZoneFigure {
    /// Its first cylinder.
    pub first_cylinder: u32,
    /// Its last.
    pub last_cylinder: u32,
    /// Sectors of each track.
    pub sectors_per_track: u32,
    /// Sectors by which a track is turned against the one before on its cylinder.
    pub track_skew: u32,
    /// Sectors by which the first track of a cylinder is turned against the track before.
    pub cylinder_skew: u32,
    /// Sectors of each cylinder that have no address.
    pub spares: u32,
    /// How far off the rate may be, as a fraction of it.
    pub rate_error: f64,
}

/// Figures that are being gathered.
#[derive(Default)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Figures {
    /// A figure that was measured: `error` in its own unit.
    pub(crate) fn number(&mut self, key: &str, value: f64, error: f64, how: impl Into<String>) {
        let source = format!("measured, ± {}: {}", short(error), how.into());
        self.push(key, short_for(value, error), Some(error), source);
    }

    /// Points of a curve that was measured.
    pub(crate) fn number_list(&mut self, key: &str, points: &[(u32, f64)], error: f64, how: impl Into<String>) {
        let source = format!("measured, ± {}: {}", short(error), how.into());
        let points: Vec<String> = points.iter().map(|(at, value)| format!("[{at}, {value:.5}]")).collect();
        self.push(key, format!("[{}]", points.join(", ")), Some(error), source);
    }

    /// A size that was measured.
    pub(crate) fn size(&mut self, key: &str, bytes: u64, error: u64, how: impl Into<String>) {
        let source = format!("measured, ± {} bytes: {}", error, how.into());
        self.push(key, quoted(&Bytes(bytes).to_string()), Some(error as f64), source);
    }

    /// A choice or a count that the measurement decided.
    pub(crate) fn found(&mut self, key: &str, value: impl Into<String>, how: impl Into<String>) {
        self.push(key, value.into(), Some(0.0), format!("measured: {}", how.into()));
    }

    /// A figure that timing does not show.
    pub(crate) fn assumed(&mut self, key: &str, value: impl Into<String>, why: impl Into<String>) {
        self.push(key, value.into(), None, format!("assumed, not measured: {}", why.into()));
    }

    /// What of `usual` there was no time to measure.
    pub(crate) fn assume_missing(&mut self, usual: &[(&str, &str)]) {
        for (key, value) in usual {
            if self.text(key).is_none() {
                self.assumed(key, *value, "no time");
            }
        }
    }

    /// Whether there is this figure, and it was measured.
    pub(crate) fn is_measured(&self, key: &str) -> bool {
        self.0.iter().any(|figure| figure.key == key && figure.error.is_some())
    }

    /// What was measured of these was something else, for this reason.
    pub(crate) fn doubt(&mut self, keys: &[&str], why: &str) {
        for figure in self.0.iter_mut().filter(|figure| keys.contains(&figure.key.as_str()) && figure.error.is_some()) {
            figure.error = None;
            figure.source = format!("assumed, not measured: {why}");
        }
    }

    /// A text among the figures, without its quotes.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|figure| figure.key == key).map(|figure| figure.value.trim_matches('"'))
    }

    /// A size among the figures, in sectors, at least one; that of 4 KiB where there is none.
    pub(crate) fn sectors(&self, key: &str) -> u64 {
        let bytes = self.text(key).and_then(|text| text.parse::<Bytes>().ok());
        bytes.map_or(8, |bytes| bytes.sectors().0.max(1))
    }

    fn push(&mut self, key: &str, value: String, error: Option<f64>, source: String) {
        self.0.push(Figure { key: key.to_owned(), value, error, source });
    }
}

/// A text in TOML.
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

/// A number with three digits that count.
fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 9) };
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number with one digit more than its error allows.
fn short_for(value: f64, error: f64) -> String {
    let error = error.min(value.abs() * 1e-3).max(value.abs() * 1e-7).max(1e-9);
    let digits = (1 - error.log10().floor() as i32).clamp(1, 9);
    format!("{value:.*}", digits as usize)
}

/// Between which values what is measured can be a figure of flash.
const OF_FLASH: [(&str, f64, f64); 6] = [
    // The fastest cells that are sold are sensed in 3 us, and programmed in 75.
    ("read_us", 2.0, 2_000.0),
    ("program_us", 20.0, 10_000.0),
    ("erase_us", 100.0, 100_000.0),
    ("flush_us", 0.0, 100_000.0),
    ("channel_mb_per_s", 0.0, 6_000.0),
    // Four lanes of PCIe 5.
    ("link_mb_per_s", 0.0, 16_000.0),
];

impl Extraction {
    /// None of what was measured is a drive's, for this reason: says so in front, and beside each figure.
    pub fn doubt(&mut self, reason: &str) {
        self.trusted = false;
        self.notes.insert(0, format!("NOT TO BE TRUSTED: {reason}."));
        for figure in self.figures.iter_mut().filter(|figure| figure.error.is_some()) {
            figure.source = figure.source.replacen("measured", "timed, and not to be trusted", 1);
        }
    }

    /// Why what was measured is not of flash: the first figure that no flash has.
    pub(crate) fn unlike_flash(&self) -> Option<String> {
        let measured = |key: &str| {
            let figure = self.figures.iter().find(|figure| figure.key == key && figure.error.is_some())?;
            figure.value.parse::<f64>().ok()
        };
        OF_FLASH.iter().find_map(|&(key, low, high)| {
            let value = measured(key).filter(|value| !(low..=high).contains(value))?;
            Some(format!(
                "{key} = {} is no figure of flash, which has {} to {}: what answered was memory, of this machine (a page cache, a disk \
                 in memory), of its host or of a controller, something else was busy meanwhile, or the drive does what the models do not",
                short(value),
                short(low),
                short(high)
            ))
        })
    }

    /// The profile as TOML: what `--ssd` and `--hdd` take. `name` and `summary` go in as they are.
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
        let _ = writeln!(text, "\n[sources]\ncapacity = \"as the drive says\"");
        for Figure { key, source, .. } in &self.figures {
            let _ = writeln!(text, "{key} = {}", quoted(source));
        }
        if !self.zones.is_empty() {
            let _ = writeln!(text, "zones = \"measured: angles of sectors, from when reads of them end\"");
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
