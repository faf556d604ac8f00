//! Times of the electronics and the bus, in nanoseconds.

use bimetal_core::units::SECTOR_BYTES;

use super::super::controller::ControllerFigures;
use super::super::profile::HddProfile;

/// Overheads of one kind of command: after a read, and after a write.
type ByLast = [u64; 2];

/// Times that a command spends outside the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Electronics {
    read_hit_ns: ByLast,
    read_miss_ns: ByLast,
    write_hit_ns: ByLast,
    write_miss_ns: ByLast,
    read_disconnect_ns: ByLast,
    pub(super) write_disconnect_ns: u64,
    pub(super) read_completion_ns: u64,
    pub(super) write_completion_ns: u64,
    pub(super) data_preparation_ns: u64,
    pub(super) first_reselect_ns: u64,
    pub(super) other_reselect_ns: u64,
    pub(super) minimum_write_seek_ns: u64,
    pub(super) extra: Option<Extra>,
    read_bus_ps: u64,
    write_bus_ps: u64,
    /// Set if the last command was a write.
    pub(super) after_write: bool,
}

/// Times of the additional disconnect of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    /// Time from the command until the bus is taken again.
    pub(super) until_reselect_ns: u64,
    pub(super) second_disconnect_ns: u64,
    /// Time from the command until the arm moves.
    pub(super) until_seek_ns: u64,
}

impl Electronics {
    pub(super) fn new(profile: &HddProfile, figures: &ControllerFigures) -> Self {
        let over = &figures.overheads_ms;
        let by_last = |read, write| [ns(read), ns(write)];
        let bus_ps = |rate: f64| (SECTOR_BYTES as f64 / rate * 1e6).round() as u64;
        Self {
            read_hit_ns: by_last(over.read_hit_after_read, over.read_hit_after_write),
            read_miss_ns: by_last(over.read_miss_after_read, over.read_miss_after_write),
            write_hit_ns: by_last(over.write_hit_after_read, over.write_hit_after_write),
            write_miss_ns: by_last(over.write_miss_after_read, over.write_miss_after_write),
            read_disconnect_ns: by_last(figures.read_disconnect_after_read_ms, figures.read_disconnect_after_write_ms),
            write_disconnect_ns: ns(figures.write_disconnect_ms),
            read_completion_ns: ns(figures.read_completion_ms),
            write_completion_ns: ns(figures.write_completion_ms),
            data_preparation_ns: ns(figures.data_preparation_ms),
            first_reselect_ns: ns(figures.first_reselect_ms),
            other_reselect_ns: ns(figures.other_reselect_ms),
            minimum_write_seek_ns: ns(figures.minimum_write_seek_ms),
            extra: figures.extra_write_disconnect.map(|extra| Extra {
                until_reselect_ns: ns(extra.command_ms + extra.disconnect_ms + extra.between_ms),
                second_disconnect_ns: ns(extra.second_disconnect_ms),
                until_seek_ns: ns(extra.command_ms + extra.seek_delay_ms),
            }),
            read_bus_ps: bus_ps(profile.bus_mb_per_s),
            write_bus_ps: bus_ps(figures.write_bus_mb_per_s.unwrap_or(profile.bus_mb_per_s)),
            after_write: false,
        }
    }

    pub(super) fn read_hit_ns(&self) -> u64 {
        self.read_hit_ns[usize::from(self.after_write)]
    }

    pub(super) fn read_miss_ns(&self) -> u64 {
        self.read_miss_ns[usize::from(self.after_write)]
    }

    pub(super) fn read_disconnect_ns(&self) -> u64 {
        self.read_disconnect_ns[usize::from(self.after_write)]
    }

    /// Returns the overhead of a write: of a write that finishes in the buffer if `fast`, and
    /// otherwise of a write that finishes on the medium.
    pub(super) fn write_ns(&self, fast: bool) -> u64 {
        let kind = if fast { self.write_hit_ns } else { self.write_miss_ns };
        kind[usize::from(self.after_write)]
    }

    pub(super) fn read_bus_ns(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.read_bus_ps) / 1000
    }

    pub(super) fn write_bus_ns(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.write_bus_ps) / 1000
    }
}

fn ns(milliseconds: f64) -> u64 {
    (milliseconds * 1e6).round() as u64
}
