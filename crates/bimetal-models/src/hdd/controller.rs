//! Figures of a drive that serves one command at a time from a segmented buffer.
//!
//! The figures are those of DiskSim's parameter files (DiskSim 4.0 Reference Manual,
//! CMU-PDL-08-101, on the disk module), which describe the SCSI drives of the 1990s;
//! [`segmented`](super::segmented) describes the effect of each.

use serde::Deserialize;

use super::profile::{HddProfile, Switch, in_range};
use crate::profile::BadFigure;

/// Figures of the controller. Each field is a key of the table `controller` of a profile, with the
/// same name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerFigures {
    /// Time of a command in the electronics, by kind.
    pub overheads_ms: Overheads,
    /// Time from the end of a read's data until the host knows that the read is complete.
    #[serde(default)]
    pub read_completion_ms: f64,
    /// Time from the end of a write until the host knows that the write is complete.
    #[serde(default)]
    pub write_completion_ms: f64,
    /// Time before the bus carries the first data of a connection.
    #[serde(default)]
    pub data_preparation_ms: f64,
    /// Time to take the bus again after the first disconnect of a command.
    #[serde(default)]
    pub first_reselect_ms: f64,
    /// Time to take the bus again after a later disconnect.
    #[serde(default)]
    pub other_reselect_ms: f64,
    /// Time to leave the bus while a read that follows a read waits for the medium.
    #[serde(default)]
    pub read_disconnect_after_read_ms: f64,
    /// Time to leave the bus while a read that follows a write waits for the medium.
    #[serde(default)]
    pub read_disconnect_after_write_ms: f64,
    /// Time to leave the bus while a write waits for the medium.
    #[serde(default)]
    pub write_disconnect_ms: f64,
    /// Times of an additional disconnect at the start of a write that follows a write elsewhere;
    /// `None` if the drive has no such disconnect.
    pub extra_write_disconnect: Option<ExtraDisconnect>,
    /// Smallest time of the seek of a write to another place.
    #[serde(default)]
    pub minimum_write_seek_ms: f64,
    /// Set if the drive keeps the bus from the command to its completion.
    #[serde(default)]
    pub never_disconnect: bool,
    /// Rate of the interface for writes in 10^6 bytes a second, if it differs from reads.
    pub write_bus_mb_per_s: Option<f64>,
    /// Share of a read that must be in the buffer before the drive takes the bus for the read.
    #[serde(default)]
    pub read_watermark: f64,
    /// Share of a write that must be in the buffer before the drive writes its first sector, if the
    /// write finishes on the medium; 0: the first sector alone. With `extra_write_disconnect`,
    /// DiskSim's rule applies in place of this rule.
    #[serde(default)]
    pub write_watermark: f64,
    /// Limit up to which the drive reads ahead after a read.
    pub read_ahead_mode: ReadAheadMode,
    /// Number of sectors after a read that the drive reads before it turns to the next command.
    #[serde(default)]
    pub minimum_read_ahead: u64,
    /// Set if a read that the buffer holds makes the arm return and read on after the buffer's
    /// content.
    #[serde(default)]
    pub read_ahead_after_hit: bool,
    /// Set if the sectors that pass under the head before the requested sectors are kept, too.
    #[serde(default)]
    pub keeps_free_sectors: bool,
    /// Set if a read starts with the first of its sectors that passes under the head. Without
    /// `keeps_free_sectors` the setting has no effect: a drive without `keeps_free_sectors` reads
    /// sectors into its buffer in order only.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// Set if a write starts with the first of its sectors that passes under the head.
    #[serde(default)]
    pub zero_latency_write: bool,
    /// Set if read-ahead stops within a sector when the arm is needed, instead of after the sector.
    #[serde(default)]
    pub stops_in_sector: bool,
    /// Set if the segments keep data for later reads; otherwise they only match the speeds of bus
    /// and medium.
    #[serde(default = "yes")]
    pub caches: bool,
    /// Set if reads can hit data that writes have left in the buffer.
    #[serde(default)]
    pub read_hits_on_writes: bool,
    /// Set if a write that continues the previous write joins its segment.
    #[serde(default = "yes")]
    pub combines_writes: bool,
    /// Set if one of the segments is for writes alone.
    #[serde(default)]
    pub separate_write_segment: bool,
    /// With `write_cache = "on"`: writes that finish in the buffer.
    #[serde(default)]
    pub fast_writes: FastWrites,
}

/// Milliseconds of the electronics, by the kind of command and of the command before.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// Read that starts in the buffer, after a read.
    pub read_hit_after_read: f64,
    /// Read that starts in the buffer, after a write.
    pub read_hit_after_write: f64,
    /// Read for which the arm must move, after a read.
    pub read_miss_after_read: f64,
    /// Read for which the arm must move, after a write.
    pub read_miss_after_write: f64,
    /// Write that finishes in the buffer, after a read.
    pub write_hit_after_read: f64,
    /// Write that finishes in the buffer, after a write.
    pub write_hit_after_write: f64,
    /// Write that finishes on the medium, after a read.
    pub write_miss_after_read: f64,
    /// Write that finishes on the medium, after a write.
    pub write_miss_after_write: f64,
}

/// Times of an additional disconnect at the start of a write.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraDisconnect {
    /// Time of the command, instead of its overhead.
    pub command_ms: f64,
    /// Time to leave the bus.
    pub disconnect_ms: f64,
    /// Time until the drive takes the bus again.
    pub between_ms: f64,
    /// Time to leave the bus for the second time.
    pub second_disconnect_ms: f64,
    /// Time from the command until the arm moves.
    pub seek_delay_ms: f64,
}

/// Limit up to which an otherwise idle drive reads ahead after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadMode {
    /// No read-ahead.
    None,
    /// Read-ahead to the end of the track, at most `read_ahead`.
    Track,
    /// Read-ahead to the end of the cylinder, at most `read_ahead`.
    Cylinder,
    /// Read-ahead of `read_ahead`, across tracks and cylinders.
    Segment,
    /// Read-ahead to the end of the track, or of the next track if the segment holds part of the
    /// previous track.
    NextTrack,
}

/// Writes that finish in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FastWrites {
    /// Writes that continue the previous write, and writes that find the write segment clean.
    Appending,
    /// All writes that find a segment.
    #[default]
    All,
}

fn yes() -> bool {
    true
}

impl ControllerFigures {
    /// Checks that a drive with these figures and those of `profile` can be built.
    ///
    /// # Errors
    /// Returns the first figure that is outside its range.
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
        in_range("controller.write_watermark", Some(self.write_watermark), 0.0, 1.0)?;
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

    /// Returns true if writes finish in the buffer.
    pub(super) fn has_fast_writes(&self, profile: &HddProfile) -> bool {
        profile.write_cache == Switch::On
    }
}
