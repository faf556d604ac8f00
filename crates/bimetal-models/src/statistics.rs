//! What a drive has done since the start of a run, as every model reports it.

use std::collections::BTreeMap;

use bimetal_core::units::{Bytes, Nanoseconds};

/// Counters and sums of one drive since time zero. What a kind of drive does not have is `None`, never zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeviceStatistics {
    /// Reads that finished.
    pub reads: u64,
    /// Writes that finished, write-zeroes included.
    pub writes: u64,
    /// Bytes that finished reads returned.
    pub read_bytes: Bytes,
    /// Bytes that finished writes and write-zeroes stored.
    pub write_bytes: Bytes,
    /// Flushes that finished.
    pub flushes: u64,
    /// Discards that finished.
    pub discards: u64,
    /// Time in which at least one operation was in progress, or the drive moved data on its own account.
    pub busy: Nanoseconds,
    /// Energy used, in joules; `None` where the profile gives no power figures.
    pub energy_joules: Option<f64>,
    /// What only an HDD has.
    pub hdd: Option<HddStatistics>,
    /// What only flash has.
    pub flash: Option<FlashStatistics>,
}

/// What only an HDD counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HddStatistics {
    /// Movements of the arm to another cylinder, for the host or to write the cache out.
    pub seeks: u64,
    /// Times the spindle was stopped by the spin-down timer.
    pub spin_downs: u64,
    /// Times the spindle was started again.
    pub spin_ups: u64,
    /// Reads served from the buffer, or from read-ahead under way, without a new positioning of the arm.
    pub cache_read_hits: u64,
    /// Writes that finished in the write cache.
    pub cached_writes: u64,
    /// Transfers that wrote dirty data of the cache to the medium.
    pub destages: u64,
}

/// What only flash counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlashStatistics {
    /// Pages programmed with data of the host.
    pub pages_programmed_host: u64,
    /// Pages programmed by garbage collection.
    pub pages_programmed_gc: u64,
    /// Pages programmed by cause, in a fixed order; their sum is all pages programmed.
    pub pages_programmed_by_cause: Vec<(&'static str, u64)>,
    /// Bytes programmed, all causes.
    pub bytes_programmed: Bytes,
    /// Bytes that the host wrote to the drive.
    pub host_bytes_written: Bytes,
    /// Mapping units that the host wrote only in part, so that the rest of each had to be read and written again.
    pub partial_unit_writes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks erased by cause, in a fixed order; their sum is [`erases`](Self::erases).
    pub erases_by_cause: Vec<(&'static str, u64)>,
    /// Joules by what they were used for: operations of the flash, the drive at work and idle; empty where the profile gives
    /// no power figures. Their sum is the drive's energy.
    pub energy_by_operation: Vec<(&'static str, f64)>,
    /// Time that dies were at work, by cause; two dies at work for a second are two seconds.
    pub die_busy_by_cause: Vec<(&'static str, Nanoseconds)>,
    /// Time that operations for which a command waits stood in the queue of their die, by the cause of what it did meanwhile.
    pub wait_by_cause: Vec<(&'static str, Nanoseconds)>,
    /// How the erases are spread over the blocks.
    pub erase_count: EraseCount,
    /// How many blocks were erased how often: erases, then blocks.
    pub erases_of_blocks: BTreeMap<u32, u64>,
    /// Blocks × rated cycles / erase rate, in years; `None` when nothing was erased.
    pub lifetime_years: Option<f64>,
    /// Years until the block that is erased most often reaches its rated cycles; `None` when nothing was erased.
    pub lifetime_worst_block_years: Option<f64>,
    /// Nothing was erased, so that no lifetime can be given.
    pub lifetime_unlimited: bool,
}

/// Erases of a block, over all blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EraseCount {
    /// Of the block erased least often.
    pub min: u64,
    /// Over all blocks.
    pub mean: f64,
    /// Of the block erased most often.
    pub max: u64,
    /// Standard deviation over all blocks.
    pub stddev: f64,
}

impl EraseCount {
    /// That of a drive of which so many blocks were erased so often (erases, then blocks).
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
