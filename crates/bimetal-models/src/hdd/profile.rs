//! The figures of an HDD, as its profile gives them.

use bimetal_core::units::{Nanoseconds, Sectors};
use serde::Deserialize;

use super::controller::ControllerFigures;
use super::layout::{Layout, Mapping, Sparing};
use super::scheduler::Policy;
use super::seek_curve::SeekCurve;
use crate::profile::{BadFigure, Size};

/// The figures of an HDD. Each public field is a key of the profile, with the same name.
///
/// The zones are either given one by one (`zones`), or made from what a data sheet states (`zone_count`,
/// `outer_mb_per_s`, `inner_mb_per_s`): as many cylinders a zone, and sectors per track that fall evenly from the outer
/// rate to the inner.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddProfile {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Heads, which is surfaces used.
    pub heads: u32,
    /// How addresses run over the tracks.
    #[serde(default)]
    pub mapping: Mapping,
    /// With `mapping = "head-major"`: cylinders of a band.
    #[serde(default = "default_band_cylinders")]
    pub band_cylinders: u32,
    /// Where the spare sectors lie.
    #[serde(default)]
    pub sparing: Sparing,
    /// With `sparing = "range-end"`: cylinders of a range.
    #[serde(default = "default_sparing_range")]
    pub sparing_range: u32,
    /// The zones, outermost first.
    pub zones: Option<Vec<ZoneFigures>>,
    /// How many zones to make from the two rates.
    pub zone_count: Option<u32>,
    /// Sustained rate of the outermost zone in 10^6 bytes a second, head and cylinder switches included.
    pub outer_mb_per_s: Option<f64>,
    /// Sustained rate of the innermost zone.
    pub inner_mb_per_s: Option<f64>,
    /// Seek to the next cylinder, for reads.
    pub seek_track_to_track_ms: Option<f64>,
    /// Average over all pairs of different cylinders, for reads.
    pub seek_average_ms: Option<f64>,
    /// Seek over all cylinders, for reads.
    pub seek_full_stroke_ms: Option<f64>,
    /// Instead of the three seek times: measured points of the curve, each cylinders and milliseconds, in order of
    /// distance. Between two the curve is straight, and so it is behind the last, as between the last two.
    pub seek_points: Option<Vec<(u32, f64)>>,
    /// Beside `seek_points`: the same for writes, where they differ.
    pub write_seek_points: Option<Vec<(u32, f64)>>,
    /// Instead of the three seek times: the formula of Ruemmler and Wilkes, for the distances behind `seek_points`.
    pub seek_formula: Option<SeekFormula>,
    /// Seek to the next cylinder for writes, where it differs.
    pub write_seek_track_to_track_ms: Option<f64>,
    /// Average seek for writes, where it differs.
    pub write_seek_average_ms: Option<f64>,
    /// Full stroke for writes, where it differs.
    pub write_seek_full_stroke_ms: Option<f64>,
    /// From one head to another on the same cylinder.
    pub head_switch_ms: f64,
    /// What a write waits longer than a read after each positioning; 0 where the write seeks have it in them; below 0
    /// where extracted figures say so.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// What the electronics take for a command before the arm moves; with `controller`, its overheads by kind count.
    pub command_overhead_ms: Option<f64>,
    /// Rate of the interface in 10^6 bytes a second.
    pub bus_mb_per_s: f64,
    /// The buffer on board, for read-ahead and writes together; 0: none.
    pub cache: Size,
    /// How many streams of reads it can keep apart; each has `read_ahead` of the buffer. With `controller`, the segments
    /// of the whole buffer, of equal size.
    pub read_segments: u32,
    /// How far the drive reads on behind a read, as long as nothing else is to be done; 0: not at all.
    pub read_ahead: Size,
    /// Whether writes finish in the buffer: in what `read_segments` leaves of it.
    pub write_cache: Switch,
    /// The figures of a drive that serves one command at a time out of a segmented buffer, as those of the 1990s did.
    pub controller: Option<ControllerFigures>,
    /// Which of the commands in the drive is served next.
    pub scheduler: Policy,
    /// With `scheduler = "sptf"`: so many milliseconds of positioning make up for a millisecond of waiting (the weight of
    /// Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991). 0: none, a
    /// command far away may wait for long; the more, the nearer it comes to "fcfs".
    #[serde(default)]
    pub sptf_ageing: f64,
    /// How many commands the drive takes at once; more wait in front of it, in order of arrival.
    pub queue_depth: u32,
    /// The spindle stops when the drive was idle for so long: `"off"`, or a duration like `"600s"`.
    #[serde(default)]
    pub spin_down: SpinDown,
    /// From standby to ready.
    pub spin_up_s: Option<f64>,
    /// Power while the spindle starts.
    pub spin_up_watts: Option<f64>,
    /// Power while sectors are read or written, or waited for.
    pub active_watts: Option<f64>,
    /// Power while the arm moves; `active_watts` where it is not given.
    pub seek_watts: Option<f64>,
    /// Power while the drive spins and does nothing for the host.
    pub idle_watts: Option<f64>,
    /// Power while the spindle stands.
    pub standby_watts: Option<f64>,
}

/// One zone: cylinders that have the same number of sectors per track.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneFigures {
    /// Its outermost cylinder; the first zone starts at 0, each other behind the one before and `unused_cylinders`.
    pub first_cylinder: u32,
    /// Its innermost cylinder.
    pub last_cylinder: u32,
    /// Sectors on each of its tracks.
    pub sectors_per_track: u32,
    /// Sectors by which a track is turned against the one before on the same cylinder; as many as the head switch
    /// takes, where it is not given.
    pub track_skew: Option<f64>,
    /// Sectors by which the first track of a cylinder is turned against the last of the one before; as many as the
    /// seek takes, where it is not given.
    pub cylinder_skew: Option<f64>,
    /// Cylinders in front of it that hold no data.
    #[serde(default)]
    pub unused_cylinders: u32,
    /// Sectors from the index mark to its first; as the zone before ends, where it is not given.
    pub first_angle: Option<f64>,
    /// Sectors at its start that have no address.
    #[serde(default)]
    pub reserved: u64,
    /// Spare sectors (tracks, with `sparing = "tracks"`) of each unit of spares.
    #[serde(default)]
    pub spares: u64,
    /// Bad sectors (tracks) that are left out, counted from the start of the zone, in order.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Bad sectors (tracks) whose address another one has, each with that other.
    #[serde(default)]
    pub remaps: Vec<(u64, u64)>,
}

/// Seek times by distance d in cylinders: a + b·√d below a limit, c + e·d from it on (Ruemmler and Wilkes, "An
/// Introduction to Disk Drive Modeling", IEEE Computer, March 1994).
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFormula {
    /// From how many cylinders on the curve is straight.
    pub linear_from: u32,
    /// a and b, in milliseconds.
    pub root_ms: (f64, f64),
    /// c and e, in milliseconds.
    pub linear_ms: (f64, f64),
}

fn default_band_cylinders() -> u32 {
    100
}

fn default_sparing_range() -> u32 {
    1
}

/// `"on"` or `"off"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is used.
    On,
    /// It is not.
    Off,
}

/// After how much idleness the spindle stops; `None`: never.
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

/// The three seek times of a data sheet, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeekFigures {
    /// To the next cylinder.
    pub track_to_track_ms: f64,
    /// Average over all pairs of different cylinders.
    pub average_ms: f64,
    /// Over all cylinders.
    pub full_stroke_ms: f64,
}

impl HddProfile {
    /// Sectors that the zones hold, where they are given one by one.
    ///
    /// # Errors
    /// Zones that no drive has.
    pub fn sectors_of_zones(&self) -> Result<Sectors, BadFigure> {
        Ok(Layout::new(self, Sectors(1), Sectors(1))?.sectors())
    }

    /// The three seek times of reads, where they are given.
    pub fn read_seek(&self) -> Option<SeekFigures> {
        Some(SeekFigures {
            track_to_track_ms: self.seek_track_to_track_ms?,
            average_ms: self.seek_average_ms?,
            full_stroke_ms: self.seek_full_stroke_ms?,
        })
    }

    /// The three seek times of writes: the reads' where none are given.
    pub fn write_seek(&self) -> Option<SeekFigures> {
        let read = self.read_seek()?;
        Some(SeekFigures {
            track_to_track_ms: self.write_seek_track_to_track_ms.unwrap_or(read.track_to_track_ms),
            average_ms: self.write_seek_average_ms.unwrap_or(read.average_ms),
            full_stroke_ms: self.write_seek_full_stroke_ms.unwrap_or(read.full_stroke_ms),
        })
    }

    /// Milliseconds to the next cylinder, for reads or writes, whichever takes longer.
    ///
    /// # Errors
    /// No seek times.
    pub fn seek_to_next_ms(&self) -> Result<f64, BadFigure> {
        let curve = SeekCurve::new(self, true, 3)?;
        Ok(curve.time_ns(1).max(SeekCurve::new(self, false, 3)?.time_ns(1)) as f64 / 1e6)
    }

    /// Sectors of a read segment, and sectors of the buffer that are left for writes.
    pub fn buffer_shares(&self) -> (Sectors, Sectors) {
        let segment = self.read_ahead.0.sectors();
        let for_reads = segment.0.saturating_mul(u64::from(self.read_segments));
        (segment, self.cache.0.sectors().saturating_sub(Sectors(for_reads)))
    }

    /// Whether a drive of `capacity` with these figures can be built.
    ///
    /// # Errors
    /// The first figure that is outside its range.
    pub fn check(&self, capacity: Sectors) -> Result<(), BadFigure> {
        self.check_ranges()?;
        self.check_buffer()?;
        self.check_power()?;
        super::build(self, capacity, capacity).map(|_| ())
    }

    fn check_ranges(&self) -> Result<(), BadFigure> {
        in_range("rpm", Some(self.rpm), 100.0, 100_000.0)?;
        in_range("heads", Some(f64::from(self.heads)), 1.0, 1000.0)?;
        in_range("queue_depth", Some(f64::from(self.queue_depth)), 1.0, 1_000_000.0)?;
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

/// Refuses a figure below `low`, above `high` or not a number; one that is not given is right.
pub(super) fn in_range(key: &'static str, figure: Option<f64>, low: f64, high: f64) -> Result<(), BadFigure> {
    match figure {
        Some(figure) if !(low..=high).contains(&figure) => {
            Err(BadFigure::new(key, figure, format!("a number from {low} to {high}")))
        }
        _ => Ok(()),
    }
}
