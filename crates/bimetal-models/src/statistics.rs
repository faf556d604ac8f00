//! Statistics of a drive since the start of a run, as every model reports them.

use std::collections::BTreeMap;

use bimetal_core::units::{Bytes, Nanoseconds};

/// Counters and sums of one drive since time zero. A figure that a kind of drive lacks is `None`,
/// never zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeviceStatistics {
    /// Number of reads that finished.
    pub reads: u64,
    /// Number of writes that finished, write-zeroes included.
    pub writes: u64,
    /// Bytes that finished reads returned.
    pub read_bytes: Bytes,
    /// Bytes that finished writes and write-zeroes stored.
    pub write_bytes: Bytes,
    /// Number of flushes that finished.
    pub flushes: u64,
    /// Number of discards that finished.
    pub discards: u64,
    /// Time in which at least one operation was in progress, or the drive moved data without a
    /// command.
    pub busy: Nanoseconds,
    /// Energy used, in joules; `None` if the profile has no power figures.
    pub energy_joules: Option<f64>,
    /// Figures that only an HDD has.
    pub hdd: Option<HddStatistics>,
    /// Figures that only flash has.
    pub flash: Option<FlashStatistics>,
}

/// Counters that only an HDD has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HddStatistics {
    /// Number of movements of the arm to another cylinder, for the host or to write back the write
    /// cache.
    pub seeks: u64,
    /// Time in which the arm moved, or sectors passed or were waited for.
    pub head_time: Nanoseconds,
    /// Number of times that the spin-down timer stopped the spindle.
    pub spin_downs: u64,
    /// Number of times that the spindle was started again.
    pub spin_ups: u64,
    /// Number of reads served from the buffer, or from read-ahead under way, without a new
    /// positioning of the arm.
    pub cache_read_hits: u64,
    /// Number of writes that finished in the write cache.
    pub cached_writes: u64,
    /// Number of transfers that wrote dirty data of the cache to the medium.
    pub destages: u64,
    /// Number of transfers to the medium that first had to read a physical sector, of which the
    /// transfer writes a part.
    pub read_modify_writes: u64,
    /// Number of writes, or parts of writes, that went to the staging area of a shingled disk.
    pub staged_writes: u64,
    /// Number of bands that a shingled disk wrote anew.
    pub bands_cleaned: u64,
}

/// Counters that only flash has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlashStatistics {
    /// Number of pages programmed with data of the host.
    pub pages_programmed_host: u64,
    /// Number of pages programmed by garbage collection.
    pub pages_programmed_gc: u64,
    /// Number of pages programmed by cause, in a fixed order; whose sum is the number of all pages
    /// programmed.
    pub pages_programmed_by_cause: Vec<(&'static str, u64)>,
    /// Bytes programmed for all causes.
    pub bytes_programmed: Bytes,
    /// Bytes that the host wrote to the drive.
    pub host_bytes_written: Bytes,
    /// Number of mapping units of which the host wrote a part, so that the other part of each such
    /// unit had to be read and written again.
    pub partial_unit_writes: u64,
    /// Number of blocks erased.
    pub erases: u64,
    /// Number of blocks erased by cause, in a fixed order; whose sum is [`erases`](Self::erases).
    pub erases_by_cause: Vec<(&'static str, u64)>,
    /// Joules by use: operations of the flash, the drive at work and idle; empty if the profile has
    /// no power figures. The sum is the drive's energy.
    pub energy_by_operation: Vec<(&'static str, f64)>,
    /// Time that dies were at work, by cause. Two dies at work for a second count as two seconds.
    pub die_busy_by_cause: Vec<(&'static str, Nanoseconds)>,
    /// Time that operations for which a command waits spent in the queue of their die, by the cause
    /// of the operation that occupied the die.
    pub wait_by_cause: Vec<(&'static str, Nanoseconds)>,
    /// Distribution of the erases over the blocks.
    pub erase_count: EraseCount,
    /// Rated cycles that a block has used up since time zero, in the mean over all blocks. Each
    /// lifetime follows from this figure. An erase of a block that had one bit in each cell counts
    /// as a share of a cycle ([`cycles_of`](crate::endurance::cycles_of)).
    pub cycles_used: f64,
    /// Number of blocks by number of erases: erases, then blocks.
    pub erases_of_blocks: BTreeMap<u32, u64>,
    /// Lifetime in years: rated cycles / rate at which they are used up; `None` if no block was
    /// erased.
    pub lifetime_years: Option<f64>,
    /// Years until the most worn block has used up its rated cycles; `None` if no block was
    /// erased.
    pub lifetime_worst_block_years: Option<f64>,
    /// Set if no block was erased, so that no lifetime can be given.
    pub lifetime_unlimited: bool,
}

/// Distribution of erases over all blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EraseCount {
    /// Erases of the block erased least often.
    pub min: u64,
    /// Mean erases over all blocks.
    pub mean: f64,
    /// Erases of the block erased most often.
    pub max: u64,
    /// Standard deviation over all blocks.
    pub stddev: f64,
}

impl EraseCount {
    /// Returns the distribution for a drive with these numbers of blocks by number of erases
    /// (erases, then blocks).
    pub fn of(erases_of_blocks: &BTreeMap<u32, u64>) -> Self {
        let (mut blocks, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (&erases, &count) in erases_of_blocks {
            let (erases, count) = (f64::from(erases), count as f64);
            (blocks, sum, squares) = (blocks + count, sum + erases * count, squares + erases * erases * count);
        }
        let (Some((&min, _)), Some((&max, _))) =
            (erases_of_blocks.first_key_value(), erases_of_blocks.last_key_value())
        else {
            return Self::default();
        };
        let mean = sum / blocks;
        let variance: f64 = squares / blocks - mean * mean;
        Self { min: min.into(), mean, max: max.into(), stddev: variance.max(0.0).sqrt() }
    }
}
