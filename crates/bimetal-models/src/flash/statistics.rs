//! Statistics of a flash drive: write amplification, wear, lifetime, energy.

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{Bytes, Nanoseconds};

use super::dies::Dies;
use super::ftl::{Counters, TranslationLayer};
use super::geometry::Geometry;
use super::operation::Cause;
use super::profile::FlashProfile;
use crate::statistics::{DeviceStatistics, EraseCount, FlashStatistics};

/// Counters of finished commands, and the time for which the drive was busy.
pub(crate) struct Meter {
    counts: DeviceStatistics,
    /// Bytes that the host wrote to the flash: by writes, and by write-zeroes at the ends of their
    /// range.
    pub(crate) host_bytes: Bytes,
    pub(crate) partial_writes: u64,
    /// Number of commands in the drive.
    pub(crate) outstanding: u64,
    busy_since: Option<Nanoseconds>,
    busy: Nanoseconds,
    rated_cycles: f64,
    watts: Option<(f64, f64)>,
    /// Energy of a page read, of a page programmed, and of a block erased.
    joules: [Option<f64>; 3],
}

impl Meter {
    pub(crate) fn new(profile: &FlashProfile, geometry: &Geometry) -> Self {
        let erase = profile.erase_microjoules.map(|energy| energy * geometry.erase_share(profile.pages_per_block));
        let operations = [profile.read_microjoules, profile.program_microjoules, erase];
        Self {
            counts: DeviceStatistics::default(),
            host_bytes: Bytes::ZERO,
            partial_writes: 0,
            outstanding: 0,
            busy_since: None,
            busy: Nanoseconds::ZERO,
            rated_cycles: f64::from(profile.rated_cycles),
            watts: profile.active_watts.zip(profile.idle_watts),
            joules: operations.map(|microjoules| microjoules.map(|value| value * 1e-6)),
        }
    }

    /// Returns the number of cycles for which a block is rated.
    pub(crate) fn rated_cycles(&self) -> f64 {
        self.rated_cycles
    }

    /// Records at `now` whether the drive is busy.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanoseconds, dies_busy: bool) {
        match (self.busy_since, self.outstanding > 0 || dies_busy) {
            (None, true) => self.busy_since = Some(now),
            (Some(since), false) => {
                self.busy += now - since;
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// Counts a command that finished.
    pub(crate) fn finished(&mut self, command: Command) {
        let (counts, bytes) = (&mut self.counts, command.range.len.bytes());
        match command.kind {
            OpKind::Read => (counts.reads, counts.read_bytes) = (counts.reads + 1, counts.read_bytes + bytes),
            OpKind::Write | OpKind::WriteZeroes => {
                (counts.writes, counts.write_bytes) = (counts.writes + 1, counts.write_bytes + bytes);
            }
            OpKind::Flush => counts.flushes += 1,
            OpKind::Discard => counts.discards += 1,
            OpKind::Hint => {}
        }
    }

    /// Returns the statistics up to `now`.
    pub(crate) fn statistics(
        &self,
        now: Nanoseconds,
        geometry: &Geometry,
        layer: &dyn TranslationLayer,
        dies: &Dies,
    ) -> DeviceStatistics {
        let busy = self.busy + self.busy_since.map_or(Nanoseconds::ZERO, |since| now.saturating_sub(since));
        let energy = self.energy(now, busy, layer.counters());
        DeviceStatistics {
            busy,
            energy_joules: (!energy.is_empty()).then(|| energy.iter().map(|(_, joules)| joules).sum()),
            flash: Some(FlashStatistics {
                energy_by_operation: energy,
                die_busy_by_cause: by_cause(dies.busy()),
                wait_by_cause: by_cause(dies.waited()),
                ..self.flash(now, geometry, layer)
            }),
            ..self.counts.clone()
        }
    }

    /// Returns the energy of the busy drive, of the idle drive and of the operations, as far as the
    /// profile has these figures.
    fn energy(&self, now: Nanoseconds, busy: Nanoseconds, counters: &Counters) -> Vec<(&'static str, f64)> {
        let idle = now.saturating_sub(busy).as_seconds_f64();
        let power = self.watts.map(|watts| [("active", watts.0 * busy.as_seconds_f64()), ("idle", watts.1 * idle)]);
        let counts = [
            ("read", &counters.pages_read),
            ("program", &counters.pages_programmed),
            ("erase", &counters.blocks_erased),
        ];
        let operations = self.joules.iter().zip(counts);
        let operations = operations
            .filter_map(|(joules, (name, count))| Some((name, (*joules)? * count.iter().sum::<u64>() as f64)));
        power.into_iter().flatten().chain(operations).collect()
    }

    /// Returns the wear. The lifetime assumes that the drive continues as from time zero to `now`.
    /// It is rated cycles / (cycles used up / time), of the mean block or of the worst block.
    /// Erases before time zero do not count in the lifetime.
    /// Earlier erases do count in the distribution over the blocks, because a restored drive has
    /// the erases of earlier runs.
    fn flash(&self, now: Nanoseconds, geometry: &Geometry, layer: &dyn TranslationLayer) -> FlashStatistics {
        let (counters, erases_of_blocks) = (layer.counters(), layer.erases_of_blocks());
        let erase_count = EraseCount::of(&erases_of_blocks);
        let pages: u64 = counters.pages_programmed.iter().sum();
        let erases: u64 = counters.blocks_erased.iter().sum();
        let years = now.as_years_f64();
        let (blocks, used) = (geometry.physical_blocks() as f64, counters.cycles_used());
        let lifetime = |used: f64| (used > 0.0).then(|| self.rated_cycles / used * years);
        FlashStatistics {
            pages_programmed_host: counters.pages_programmed[Cause::Host as usize],
            pages_programmed_gc: counters.pages_programmed[Cause::Collection as usize],
            pages_programmed_by_cause: by_cause(&counters.pages_programmed),
            bytes_programmed: Bytes(pages * u64::from(geometry.page_bytes)),
            host_bytes_written: self.host_bytes,
            partial_unit_writes: self.partial_writes,
            erases,
            erases_by_cause: by_cause(&counters.blocks_erased),
            erase_count,
            cycles_used: used / blocks,
            erases_of_blocks,
            lifetime_years: lifetime(used / blocks),
            lifetime_worst_block_years: lifetime(layer.most_cycles()),
            lifetime_unlimited: erases == 0,
            ..FlashStatistics::default()
        }
    }
}

/// Returns a table by cause that has the names of the causes as keys.
fn by_cause<T: Copy>(table: &[T; Cause::ALL.len()]) -> Vec<(&'static str, T)> {
    Cause::ALL.iter().map(|(cause, name)| (*name, table[*cause as usize])).collect()
}
