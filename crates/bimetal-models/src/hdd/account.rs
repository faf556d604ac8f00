//! Counts the commands of a drive, and the time for which it was busy.

use bimetal_core::operation::{OpKind, Status};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES};

use super::mechanics::Mechanics;
use super::pending::Pending;
use super::power::Power;
use crate::Finished;
use crate::statistics::{DeviceStatistics, HddStatistics};

/// Counters of a drive, and the time since which the drive is busy or idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Counters of the buffer; arm and spindle have counters of their own.
    pub(super) hdd: HddStatistics,
    counters: DeviceStatistics,
    state_since_ns: u64,
}

impl Account {
    /// Returns the time since which the drive is busy, or idle.
    #[inline]
    pub(super) fn state_since_ns(&self) -> u64 {
        self.state_since_ns
    }

    /// Records that the idle drive becomes busy.
    #[inline]
    pub(crate) fn begin_busy(&mut self, now_ns: u64) {
        self.state_since_ns = now_ns;
    }

    /// Records that a busy drive becomes idle.
    #[inline]
    pub(crate) fn end_busy(&mut self, now_ns: u64) {
        self.counters.busy += Nanoseconds(now_ns - self.state_since_ns);
        self.state_since_ns = now_ns;
    }

    /// Counts a finished command, and returns its completion for the host.
    #[inline]
    pub(crate) fn finish(&mut self, pending: &Pending, now_ns: u64) -> Finished {
        let bytes = Bytes(pending.sectors * SECTOR_BYTES);
        let mut status = Status::Done;
        match pending.kind {
            OpKind::Read => {
                self.counters.reads += 1;
                self.counters.read_bytes += bytes;
            }
            OpKind::Write | OpKind::WriteZeroes => {
                self.counters.writes += 1;
                self.counters.write_bytes += bytes;
            }
            OpKind::Flush => self.counters.flushes += 1,
            OpKind::Discard => self.counters.discards += 1,
            OpKind::Hint => status = Status::Unsupported,
        }
        Finished { token: pending.token, at: Nanoseconds(now_ns), status }
    }

    /// Returns the counts of commands and the busy time up to `now`, at which the drive is idle if
    /// the flag is set.
    pub(crate) fn counters_at(&self, now: Nanoseconds, idle: bool) -> DeviceStatistics {
        let mut counters = self.counters.clone();
        if !idle {
            counters.busy += now.saturating_sub(Nanoseconds(self.state_since_ns));
        }
        counters
    }

    /// Returns the statistics of the drive up to `now`, at which the drive is idle if the flag is
    /// set.
    pub(super) fn statistics(
        &self,
        now: Nanoseconds,
        idle: bool,
        power: &Power,
        mechanics: &Mechanics,
    ) -> DeviceStatistics {
        let (spin_downs, spin_ups) = power.spin_downs_and_ups();
        let mut statistics = self.counters_at(now, idle);
        statistics.energy_joules = power.energy_joules(now.0, mechanics.seek_ns());
        statistics.hdd = Some(HddStatistics { seeks: mechanics.seeks(), spin_downs, spin_ups, ..self.hdd });
        statistics
    }
}
