//! The figures of a drive that serves one command at a time out of a segmented buffer.
//!
//! They are those of DiskSim's parameter files (DiskSim 4.0 Reference Manual, CMU-PDL-08-101, on the disk module), which
//! describe the SCSI drives of the 1990s; [`segmented`](super::segmented) says what each does.

use serde::Deserialize;

use super::profile::{HddProfile, Switch, in_range};
use crate::profile::BadFigure;

/// The figures; each is a key of the table `controller` of a profile, with the same name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerFigures {
    /// What a command takes in the electronics, by kind.
    pub overheads_ms: Overheads,
    /// Behind the data of a read, until the host knows that it is complete.
    #[serde(default)]
    pub read_completion_ms: f64,
    /// Behind a write, until the host knows.
    #[serde(default)]
    pub write_completion_ms: f64,
    /// Before the bus carries the first data of a connection.
    #[serde(default)]
    pub data_preparation_ms: f64,
    /// To take the bus again after the first disconnect of a command.
    #[serde(default)]
    pub first_reselect_ms: f64,
    /// To take it again after a later one.
    #[serde(default)]
    pub other_reselect_ms: f64,
    /// To leave the bus while a read that follows a read waits for the medium.
    #[serde(default)]
    pub read_disconnect_after_read_ms: f64,
    /// To leave it while a read that follows a write waits.
    #[serde(default)]
    pub read_disconnect_after_write_ms: f64,
    /// To leave it while a write waits.
    #[serde(default)]
    pub write_disconnect_ms: f64,
    /// The drive leaves the bus once more at the start of a write that follows a write elsewhere.
    pub extra_write_disconnect: Option<ExtraDisconnect>,
    /// What the seek of a write to another place takes at least.
    #[serde(default)]
    pub minimum_write_seek_ms: f64,
    /// The drive keeps the bus from the command to its completion.
    #[serde(default)]
    pub never_disconnect: bool,
    /// Rate of the interface for writes in 10^6 bytes a second, where it differs.
    pub write_bus_mb_per_s: Option<f64>,
    /// Share of a read that must be in the buffer before the drive takes the bus for it.
    #[serde(default)]
    pub read_watermark: f64,
    /// How far the drive reads on behind a read.
    pub read_ahead_mode: ReadAheadMode,
    /// Sectors behind a read that the drive reads before it turns to the next command.
    #[serde(default)]
    pub minimum_read_ahead: u64,
    /// A read that the buffer holds makes the arm go back and read on behind what it holds.
    #[serde(default)]
    pub read_ahead_after_hit: bool,
    /// What passes under the head before the sectors wanted is kept, too.
    #[serde(default)]
    pub keeps_free_sectors: bool,
    /// A read starts with whatever sector of it comes first.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// A write does.
    #[serde(default)]
    pub zero_latency_write: bool,
    /// Reading ahead stops within a sector when the arm is wanted, not behind it.
    #[serde(default)]
    pub stops_in_sector: bool,
    /// The segments hold data for later reads; if not, they only match the speeds of bus and medium.
    #[serde(default = "yes")]
    pub caches: bool,
    /// Reads find what writes have left in the buffer.
    #[serde(default)]
    pub read_hits_on_writes: bool,
    /// A write that continues the one before joins its segment.
    #[serde(default = "yes")]
    pub combines_writes: bool,
    /// One of the segments is for writes alone.
    #[serde(default)]
    pub separate_write_segment: bool,
    /// With `write_cache = "on"`: which writes finish in the buffer.
    #[serde(default)]
    pub fast_writes: FastWrites,
}

/// Milliseconds of the electronics by kind of command, and by what the last command was.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// A read that starts in the buffer, after a read.
    pub read_hit_after_read: f64,
    /// After a write.
    pub read_hit_after_write: f64,
    /// A read for which the arm must move, after a read.
    pub read_miss_after_read: f64,
    /// After a write.
    pub read_miss_after_write: f64,
    /// A write that finishes in the buffer, after a read.
    pub write_hit_after_read: f64,
    /// After a write.
    pub write_hit_after_write: f64,
    /// A write that finishes on the medium, after a read.
    pub write_miss_after_read: f64,
    /// After a write.
    pub write_miss_after_write: f64,
}

/// The times of one more disconnect at the start of a write.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraDisconnect {
    /// The command, instead of its overhead.
    pub command_ms: f64,
    /// To leave the bus.
    pub disconnect_ms: f64,
    /// Until the drive takes the bus again.
    pub between_ms: f64,
    /// To leave the bus the second time.
    pub second_disconnect_ms: f64,
    /// From the command until the arm moves.
    pub seek_delay_ms: f64,
}

/// How far the drive reads on behind a read, as long as nothing else is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadMode {
    /// Not at all.
    None,
    /// To the end of the track, at most `read_ahead`.
    Track,
    /// To the end of the cylinder, at most `read_ahead`.
    Cylinder,
    /// Over `read_ahead`.
    Segment,
    /// To the end of the track; of the next one, where the segment holds something of the track before.
    NextTrack,
}

/// Which writes finish in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FastWrites {
    /// Those that continue the one before, and those that find the write segment clean.
    Appending,
    /// All that find a segment.
    #[default]
    All,
}

fn yes() -> bool {
    true
}

impl ControllerFigures {
    /// Whether a drive with these figures and those of `profile` can be built.
    ///
    /// # Errors
    /// The first figure that is outside its range.
    pub(super) fn check(&self, profile: &HddProfile) -> Result<(), BadFigure> {
        let over = &self.overheads_ms;
        for milliseconds in [
            over.read_hit_after_read,
            over.read_hit_after_write,
            over.read_miss_after_read,
            over.read_miss_after_write,
            over.write_hit_after_read,
            over.write_hit_after_write,
            over.write_miss_after_read,
            over.write_miss_after_write,
        ] {
            in_range("controller.overheads_ms", Some(milliseconds), 0.0, 1000.0)?;
        }
        for (key, milliseconds) in [
            ("controller.read_completion_ms", self.read_completion_ms),
            ("controller.write_completion_ms", self.write_completion_ms),
            ("controller.data_preparation_ms", self.data_preparation_ms),
            ("controller.first_reselect_ms", self.first_reselect_ms),
            ("controller.other_reselect_ms", self.other_reselect_ms),
            ("controller.read_disconnect_after_read_ms", self.read_disconnect_after_read_ms),
            ("controller.read_disconnect_after_write_ms", self.read_disconnect_after_write_ms),
            ("controller.write_disconnect_ms", self.write_disconnect_ms),
            ("controller.minimum_write_seek_ms", self.minimum_write_seek_ms),
        ] {
            in_range(key, Some(milliseconds), 0.0, 1000.0)?;
        }
        if let Some(extra) = &self.extra_write_disconnect {
            let times = [extra.command_ms, extra.disconnect_ms, extra.between_ms, extra.second_disconnect_ms];
            for milliseconds in times.into_iter().chain([extra.seek_delay_ms]) {
                in_range("controller.extra_write_disconnect", Some(milliseconds), 0.0, 1000.0)?;
            }
        }
        in_range("controller.write_bus_mb_per_s", self.write_bus_mb_per_s, 0.01, 1e6)?;
        in_range("controller.read_watermark", Some(self.read_watermark), 0.0, 1.0)?;
        in_range("controller.minimum_read_ahead", Some(self.minimum_read_ahead as f64), 0.0, 1e9)?;
        let least = 1 + u32::from(self.separate_write_segment);
        in_range("read_segments", Some(f64::from(profile.read_segments)), f64::from(least), 1e6)?;
        if profile.cache.0.sectors().0 < u64::from(profile.read_segments) {
            let expected = format!("at least one sector for each of read_segments = {}", profile.read_segments);
            return Err(BadFigure::new("cache", profile.cache.0.0, expected));
        }
        if profile.queue_depth != 1 {
            return Err(BadFigure::new("queue_depth", profile.queue_depth, "1, because a controller is given"));
        }
        Ok(())
    }

    /// Whether writes finish in the buffer.
    pub(super) fn has_fast_writes(&self, profile: &HddProfile) -> bool {
        profile.write_cache == Switch::On
    }
}
