//! Figures of an HDD, as its profile gives them.

use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, Sectors};
use serde::Deserialize;

use super::controller::ControllerFigures;
use super::layout::{Layout, Mapping, Sparing};
use super::scheduler::Policy;
use super::seek_curve::SeekCurve;
use crate::profile::{BadFigure, Size};

/// Figures of an HDD. Each public field is a key of the profile, with the same name.
///
/// The zones are either given one by one (`zones`), or made from the figures of a data sheet
/// (`zone_count`, `outer_mb_per_s`, `inner_mb_per_s`): all zones then have the same number of
/// cylinders, and sectors per track fall evenly from the outer rate to the inner.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddProfile {
    /// Speed of the spindle, in revolutions per minute.
    pub rpm: f64,
    /// Number of heads, which is the number of surfaces used.
    pub heads: u32,
    /// Number of actuators, each with an equal run of the addresses and an equal share of heads,
    /// read segments and power. Rates and seek times are figures of one actuator.
    #[serde(default = "default_actuators")]
    pub actuators: u32,
    /// Recording of the tracks.
    #[serde(default)]
    pub recording: Recording,
    /// With `recording = "smr"`: size of the staging area, in front of the addresses.
    #[serde(default)]
    pub staging_area: Size,
    /// With `recording = "smr"`: size of a band, which can only be written in order.
    #[serde(default)]
    pub band: Size,
    /// With `recording = "smr"`: idle time after which the drive cleans its staging area.
    pub clean_after_s: Option<f64>,
    /// Order in which addresses run over the tracks.
    #[serde(default)]
    pub mapping: Mapping,
    /// With `mapping = "head-major"`: number of cylinders in a band.
    #[serde(default = "default_band_cylinders")]
    pub band_cylinders: u32,
    /// Position of the spare sectors.
    #[serde(default)]
    pub sparing: Sparing,
    /// With `sparing = "range-end"`: number of cylinders in a range.
    #[serde(default = "default_sparing_range")]
    pub sparing_range: u32,
    /// Zones, outermost first.
    pub zones: Option<Vec<ZoneFigures>>,
    /// Number of zones to make from the two rates.
    pub zone_count: Option<u32>,
    /// Sustained rate of the outermost zone in 10^6 bytes a second, head and cylinder switches
    /// included.
    pub outer_mb_per_s: Option<f64>,
    /// Sustained rate of the innermost zone in 10^6 bytes a second, head and cylinder switches
    /// included.
    pub inner_mb_per_s: Option<f64>,
    /// Seek time to the next cylinder, for reads.
    pub seek_track_to_track_ms: Option<f64>,
    /// Average seek time over all pairs of different cylinders, for reads.
    pub seek_average_ms: Option<f64>,
    /// Time of a seek from the first cylinder to the last, for reads.
    pub seek_full_stroke_ms: Option<f64>,
    /// Measured points of the seek curve, instead of the three seek times: cylinders and
    /// milliseconds, in order of distance. The curve is straight between two points, and after the
    /// last point continues the line through the last two.
    pub seek_points: Option<Vec<(u32, f64)>>,
    /// Measured points of the seek curve for writes, in addition to `seek_points`, if writes differ
    /// from reads.
    pub write_seek_points: Option<Vec<(u32, f64)>>,
    /// Formula of Ruemmler and Wilkes, instead of the three seek times, for distances larger than
    /// in `seek_points`.
    pub seek_formula: Option<SeekFormula>,
    /// Seek time to the next cylinder for writes, if it differs from reads.
    pub write_seek_track_to_track_ms: Option<f64>,
    /// Average seek time for writes, if it differs from reads.
    pub write_seek_average_ms: Option<f64>,
    /// Seek time over all cylinders for writes, if it differs from reads.
    pub write_seek_full_stroke_ms: Option<f64>,
    /// Time of a switch from one head to another on the same cylinder.
    pub head_switch_ms: f64,
    /// Time that a write waits longer than a read after each positioning. 0 if the seek times of
    /// writes include this time; below 0 if figures extracted from a real drive require it.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Time of the electronics for a command before the arm moves. With a table `controller`, the
    /// overheads in that table apply in place of this overhead.
    pub command_overhead_ms: Option<f64>,
    /// Size of a sector on the medium; sectors of the interface have 512 bytes. With `"4KiB"`
    /// (512e), a write that begins or ends inside a physical sector reads the sector first, unless
    /// the buffer holds the sector.
    #[serde(default = "default_physical_sector")]
    pub physical_sector: Size,
    /// Rate of the interface in 10^6 bytes a second.
    pub bus_mb_per_s: f64,
    /// Size of the buffer on board, for read-ahead and writes together; 0: no buffer.
    pub cache: Size,
    /// Number of streams of reads that the buffer can keep apart; each stream takes `read_ahead` of
    /// the buffer. With `controller`: number of segments of the whole buffer, of equal size.
    pub read_segments: u32,
    /// Length of read-ahead after a read while the drive is otherwise idle; 0: no read-ahead.
    pub read_ahead: Size,
    /// State of the write cache. When on, writes finish in the part of the buffer that
    /// `read_segments` leaves.
    pub write_cache: Switch,
    /// Number of runs of the write cache, next in the order of addresses, of which the drive writes
    /// the one that its head reaches first. With 1, only the order of addresses counts.
    #[serde(default = "default_destage_window")]
    pub destage_window: u32,
    /// Figures of a drive that serves one command at a time from a segmented buffer, as drives of
    /// the 1990s did.
    pub controller: Option<ControllerFigures>,
    /// Policy that chooses the next command among those in the drive.
    pub scheduler: Policy,
    /// With `scheduler = "sptf"`: milliseconds of positioning that a millisecond of waiting
    /// compensates (the weight of Jacobson and Wilkes, "Disk scheduling algorithms based on
    /// rotational position", HPL-CSP-91-7, 1991). With 0, a command far away may wait for long;
    /// with larger values the order approaches "fcfs".
    #[serde(default)]
    pub sptf_ageing: f64,
    /// Number of commands that the drive takes at once. Further commands wait in front of the
    /// drive, in order of arrival.
    pub queue_depth: u32,
    /// Idle time after which the spindle stops: `"off"`, or a duration like `"600s"`.
    #[serde(default)]
    pub spin_down: SpinDown,
    /// Time from standby to ready.
    pub spin_up_s: Option<f64>,
    /// Power while the spindle starts.
    pub spin_up_watts: Option<f64>,
    /// Power while sectors are read or written, or waited for.
    pub active_watts: Option<f64>,
    /// Power while the arm moves; `active_watts` if not given.
    pub seek_watts: Option<f64>,
    /// Power while the drive spins and does nothing for the host.
    pub idle_watts: Option<f64>,
    /// Power while the spindle is stopped.
    pub standby_watts: Option<f64>,
}

/// Figures of a zone: cylinders with the same number of sectors per track.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneFigures {
    /// Outermost cylinder. The first zone starts at 0, each further zone after the previous zone
    /// and `unused_cylinders`.
    pub first_cylinder: u32,
    /// Innermost cylinder.
    pub last_cylinder: u32,
    /// Number of sectors on each track of the zone.
    pub sectors_per_track: u32,
    /// Sectors by which a track is rotated against the previous track on the same cylinder. If not
    /// given, the skew covers the head switch.
    pub track_skew: Option<f64>,
    /// Sectors by which the first track of a cylinder is rotated against the last track of the
    /// previous cylinder. If not given, the skew covers the seek.
    pub cylinder_skew: Option<f64>,
    /// Number of cylinders in front of the zone that hold no data.
    #[serde(default)]
    pub unused_cylinders: u32,
    /// Sectors from the index mark to the zone's first sector. If not given, the angle continues
    /// from the end of the previous zone.
    pub first_angle: Option<f64>,
    /// Number of sectors at the start of the zone that have no address.
    #[serde(default)]
    pub reserved: u64,
    /// Number of spare sectors, or tracks with `sparing = "tracks"`, in each unit of spares.
    #[serde(default)]
    pub spares: u64,
    /// Bad sectors, or tracks with `sparing = "tracks"`, that are skipped, counted from the start
    /// of the zone, in order.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Bad sectors, or tracks, whose address is remapped, each with its replacement.
    #[serde(default)]
    pub remaps: Vec<(u64, u64)>,
}

/// Seek times by distance d in cylinders: a + b·√d below a limit, c + e·d from the limit on
/// (Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer, March 1994).
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFormula {
    /// Number of cylinders from which on the curve is straight.
    pub linear_from: u32,
    /// Coefficients a and b, in milliseconds.
    pub root_ms: (f64, f64),
    /// Coefficients c and e, in milliseconds.
    pub linear_ms: (f64, f64),
}

fn default_actuators() -> u32 {
    1
}

fn default_band_cylinders() -> u32 {
    100
}

fn default_physical_sector() -> Size {
    Size(Bytes(SECTOR_BYTES))
}

fn default_destage_window() -> u32 {
    1
}

fn default_sparing_range() -> u32 {
    1
}

/// Recording of the tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recording {
    /// Conventional tracks, each written alone.
    #[default]
    Cmr,
    /// Shingled tracks that the drive manages itself: see [`shingled`](super::shingled).
    Smr,
}

/// Value `"on"` or `"off"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// The feature is used.
    On,
    /// The feature is not used.
    Off,
}

/// Idle time after which the spindle stops; `None` if the spindle never stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct SpinDown(pub Option<Nanoseconds>);

impl TryFrom<String> for SpinDown {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "off" => Ok(Self(None)),
            _ => match text.parse() {
                Ok(after) if after > Nanoseconds::ZERO => Ok(Self(Some(after))),
                _ => Err("expected \"off\" or a duration above 0, like \"600s\"".to_owned()),
            },
        }
    }
}

/// Three seek times of a data sheet, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeekFigures {
    /// Seek time to the next cylinder.
    pub track_to_track_ms: f64,
    /// Average over all pairs of different cylinders.
    pub average_ms: f64,
    /// Seek time over all cylinders.
    pub full_stroke_ms: f64,
}

impl HddProfile {
    /// Returns the number of sectors in the zones, if they are given one by one.
    ///
    /// # Errors
    /// Refuses zones that no drive can have.
    pub fn sectors_of_zones(&self) -> Result<Sectors, BadFigure> {
        Ok(Layout::new(self, Sectors(1), Sectors(1))?.sectors())
    }

    /// Returns the three seek times of reads, if given.
    pub fn read_seek(&self) -> Option<SeekFigures> {
        Some(SeekFigures {
            track_to_track_ms: self.seek_track_to_track_ms?,
            average_ms: self.seek_average_ms?,
            full_stroke_ms: self.seek_full_stroke_ms?,
        })
    }

    /// Returns the three seek times of writes; a time that is not given is taken from the reads.
    pub fn write_seek(&self) -> Option<SeekFigures> {
        let read = self.read_seek()?;
        Some(SeekFigures {
            track_to_track_ms: self.write_seek_track_to_track_ms.unwrap_or(read.track_to_track_ms),
            average_ms: self.write_seek_average_ms.unwrap_or(read.average_ms),
            full_stroke_ms: self.write_seek_full_stroke_ms.unwrap_or(read.full_stroke_ms),
        })
    }

    /// Returns the milliseconds to the next cylinder, for reads or writes, whichever takes longer.
    ///
    /// # Errors
    /// The profile has no seek times.
    pub fn seek_to_next_ms(&self) -> Result<f64, BadFigure> {
        let curve = SeekCurve::new(self, true, 3)?;
        Ok(curve.time_ns(1).max(SeekCurve::new(self, false, 3)?.time_ns(1)) as f64 / 1e6)
    }

    /// Returns the sectors of a read segment, and the sectors of the buffer that are left for
    /// writes.
    pub fn buffer_shares(&self) -> (Sectors, Sectors) {
        let segment = self.read_ahead.0.sectors();
        let for_reads = segment.0.saturating_mul(u64::from(self.read_segments));
        (segment, self.cache.0.sectors().saturating_sub(Sectors(for_reads)))
    }

    /// Checks that a drive of `capacity` with these figures can be built.
    ///
    /// # Errors
    /// Returns the first figure that is outside its range.
    pub fn check(&self, capacity: Sectors) -> Result<(), BadFigure> {
        self.check_ranges()?;
        self.check_physical_sector()?;
        self.check_actuators()?;
        self.check_recording()?;
        self.check_buffer()?;
        self.check_power()?;
        super::build(self, capacity, capacity).map(|_| ())
    }

    fn check_ranges(&self) -> Result<(), BadFigure> {
        in_range("rpm", Some(self.rpm), 100.0, 100_000.0)?;
        in_range("heads", Some(f64::from(self.heads)), 1.0, 1000.0)?;
        in_range("queue_depth", Some(f64::from(self.queue_depth)), 1.0, 1_000_000.0)?;
        in_range("destage_window", Some(f64::from(self.destage_window)), 1.0, 4096.0)?;
        in_range("sptf_ageing", Some(self.sptf_ageing), 0.0, 1e6)?;
        in_range("bus_mb_per_s", Some(self.bus_mb_per_s), 0.01, 1e6)?;
        for (key, milliseconds) in [
            ("head_switch_ms", Some(self.head_switch_ms)),
            ("command_overhead_ms", self.command_overhead_ms),
            ("seek_track_to_track_ms", self.seek_track_to_track_ms),
            ("write_seek_track_to_track_ms", self.write_seek_track_to_track_ms),
            ("seek_full_stroke_ms", self.seek_full_stroke_ms),
            ("write_seek_full_stroke_ms", self.write_seek_full_stroke_ms),
        ] {
            in_range(key, milliseconds, 0.0, 1000.0)?;
        }
        in_range("write_settle_ms", Some(self.write_settle_ms), -100.0, 1000.0)?;
        in_range("band_cylinders", Some(f64::from(self.band_cylinders)), 1.0, 1e6)?;
        in_range("sparing_range", Some(f64::from(self.sparing_range)), 1.0, 1e6)?;
        for zone in self.zones.iter().flatten() {
            let most = f64::from(zone.sectors_per_track);
            in_range("zones.sectors_per_track", Some(most), 1.0, 1e6)?;
            in_range("zones.track_skew", zone.track_skew, 0.0, most)?;
            in_range("zones.cylinder_skew", zone.cylinder_skew, 0.0, most)?;
            in_range("zones.first_angle", zone.first_angle, 0.0, most)?;
            in_range("zones.unused_cylinders", Some(f64::from(zone.unused_cylinders)), 0.0, 1e6)?;
        }
        Ok(())
    }

    fn check_physical_sector(&self) -> Result<(), BadFigure> {
        let bytes = self.physical_sector.0.0;
        let expected = match self.controller {
            Some(_) if bytes != SECTOR_BYTES => "512 bytes, because a controller is given",
            None if !bytes.is_power_of_two() || !(SECTOR_BYTES..=65_536).contains(&bytes) => {
                "a power of two from 512 to 65536 bytes"
            }
            _ => return Ok(()),
        };
        Err(BadFigure::new("physical_sector", self.physical_sector.0, expected))
    }

    fn check_actuators(&self) -> Result<(), BadFigure> {
        let most = self.heads.min(self.read_segments.max(1)).min(self.queue_depth).min(16);
        in_range("actuators", Some(f64::from(self.actuators)), 1.0, f64::from(most))?;
        let expected = match self {
            _ if self.actuators == 1 => return Ok(()),
            Self { controller: Some(_), .. } => "1, because a controller is given",
            Self { zones: Some(_), .. } => "1, because zones are given one by one",
            Self { spin_down: SpinDown(Some(_)), .. } => "1, because spin_down is not \"off\"",
            _ => return Ok(()),
        };
        Err(BadFigure::new("actuators", self.actuators, expected))
    }

    fn check_recording(&self) -> Result<(), BadFigure> {
        const LEAST_BANDS: u64 = 4;
        if self.recording == Recording::Cmr {
            return Ok(());
        }
        let expected = match self {
            Self { controller: Some(_), .. } => Some("\"cmr\", because a controller is given"),
            _ if self.actuators > 1 => Some("\"cmr\", because there are several actuators"),
            _ => None,
        };
        if let Some(expected) = expected {
            return Err(BadFigure::new("recording", "\"smr\"", expected));
        }
        let physical = self.physical_sector.0.0;
        let (band, staging) = (self.band.0.0, self.staging_area.0.0);
        if band == 0 || band % physical != 0 {
            return Err(BadFigure::new("band", self.band.0, format!("a size in whole sectors of {physical} bytes")));
        }
        if staging % physical != 0 || staging / LEAST_BANDS < band {
            let expected = format!("at least {LEAST_BANDS} bands, in whole sectors of {physical} bytes");
            return Err(BadFigure::new("staging_area", self.staging_area.0, expected));
        }
        match self.clean_after_s {
            None => Err(BadFigure::new("clean_after_s", "nothing", "a time, because recording is \"smr\"")),
            seconds => in_range("clean_after_s", seconds, 0.0, 1e6),
        }
    }

    fn check_buffer(&self) -> Result<(), BadFigure> {
        if let Some(controller) = &self.controller {
            return controller.check(self);
        }
        if self.command_overhead_ms.is_none() {
            return Err(BadFigure::new("command_overhead_ms", "nothing", "a time, because no controller is given"));
        }
        let (segment, for_writes) = self.buffer_shares();
        let for_reads = segment.bytes().0.saturating_mul(u64::from(self.read_segments));
        if for_reads > self.cache.0.0 {
            let expected = format!("at least read_segments × read_ahead = {for_reads} bytes");
            return Err(BadFigure::new("cache", self.cache.0, expected));
        }
        if self.write_cache == Switch::On && for_writes == Sectors::ZERO {
            let expected =
                format!("more than read_segments × read_ahead = {for_reads} bytes, or write_cache = \"off\"");
            return Err(BadFigure::new("cache", self.cache.0, expected));
        }
        Ok(())
    }

    fn check_power(&self) -> Result<(), BadFigure> {
        for (key, watts) in [
            ("active_watts", self.active_watts),
            ("seek_watts", self.seek_watts),
            ("idle_watts", self.idle_watts),
            ("standby_watts", self.standby_watts),
            ("spin_up_watts", self.spin_up_watts),
        ] {
            in_range(key, watts, 0.0, 1000.0)?;
        }
        in_range("spin_up_s", self.spin_up_s, 0.0, 600.0)?;
        if self.spin_down.0.is_some() && self.spin_up_s.is_none() {
            return Err(BadFigure::new("spin_up_s", "nothing", "a time, because spin_down is not \"off\""));
        }
        Ok(())
    }
}

/// Refuses a figure below `low`, above `high` or not a number. A figure that is `None` is accepted.
pub(super) fn in_range(key: &'static str, figure: Option<f64>, low: f64, high: f64) -> Result<(), BadFigure> {
    match figure {
        Some(figure) if !(low..=high).contains(&figure) => {
            Err(BadFigure::new(key, figure, format!("a number from {low} to {high}")))
        }
        _ => Ok(()),
    }
}
