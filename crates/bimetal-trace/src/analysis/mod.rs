//! Analysis of a workload: properties of its requests that depend on no drive or scheme.
//!
//! This folder holds the figures of Griffin section 4, Konanki tables 5.1 to 5.4 and MixedStore
//! table 2, each defined at its field of [`Analysis`]. This folder holds nothing that depends on a
//! drive, a cache or a scheme. Memory grows with the blocks that a trace touches, not with its
//! length: 16 bytes a block and its share of a directory, and histograms of fixed size. Blocks of
//! enormous requests share a state while their histories are equal.
//!
//! Read first: [`Analysis`] (`figures.rs`), then `blocks.rs` (history of each block),
//! `intervals.rs` and `popularity.rs`. `files.rs` attributes accesses to files, `table.rs` writes
//! the figures for a terminal.

mod blocks;
mod figures;
mod files;
mod intervals;
mod map_check;
mod popularity;
mod table;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use crate::Request;
use blocks::{Access, BlockState, BlockTable, REGION_BLOCKS};
use figures::QUOTED_SECONDS;
use files::FileCounter;
use intervals::IntervalHistogram;
use popularity::Popularity;

pub use figures::{Analysis, Within};
pub use files::{FREE, FileFigures, FileMap, FileMapError};
pub use map_check::{MapCheck, Mismatch};
pub use popularity::TopBlocks;
pub use table::grouped;

/// Number of accesses that are looked up together.
const BATCH: usize = 32;

/// Block size with which a workload cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("block size {0}: expected a power of two of at least {SECTOR_BYTES} bytes, like 4KiB")]
pub struct BlockSizeError(Bytes);

/// Counts of the requests of one direction.
#[derive(Clone, Copy, Default)]
struct Direction {
    requests: u64,
    sectors: u64,
    sequential: u64,
    block_ios: u64,
}

/// Ends of the last read and the last write on a device.
#[derive(Clone, Copy, Default)]
struct LastEnds {
    read: Option<Sectors>,
    write: Option<Sectors>,
}

/// Analyser of a trace: takes its requests in order of time and returns its [`Analysis`].
pub struct Analyzer {
    /// Number of sectors of a block, as a shift.
    block_shift: u32,
    blocks: BlockTable,
    /// Accesses that are not yet applied to `blocks`, in order.
    waiting: Vec<Access>,
    last_ends: Vec<LastEnds>,
    reads: Direction,
    writes: Direction,
    flushes: u64,
    discards: u64,
    aligned: u64,
    sizes: [u64; 64],
    address_end: Sectors,
    arrivals: Option<(Nanoseconds, Nanoseconds)>,
    effects: Effects,
}

/// Counts of the cases that accesses found in the history of their blocks.
struct Effects {
    write_runs: u64,
    waw: IntervalHistogram,
    raw: IntervalHistogram,
    files: Option<FileCounter>,
}

impl Effects {
    /// Counts an access to the `count` blocks from `first` on, which all have the history `state`,
    /// and adds it to their history.
    #[inline]
    fn access(&mut self, at: Nanoseconds, is_write: bool, (first, count): (u64, u64), state: &mut BlockState) {
        if is_write {
            let effect = state.write(at);
            match effect.after_write {
                Some(interval) => self.waw.add(interval, count),
                None => self.write_runs += count,
            }
            if let Some(files) = &mut self.files {
                (0..count).for_each(|offset| files.write(first + offset, effect));
            }
        } else {
            let after_write = state.read(at);
            if let Some(interval) = after_write {
                self.raw.add(interval, count);
            }
            if let Some(files) = &mut self.files {
                (0..count).for_each(|offset| files.read(first + offset, after_write));
            }
        }
    }
}

impl Analyzer {
    /// Creates an analysis in blocks of `block` (4 KiB to compare figures with those of papers).
    ///
    /// # Errors
    /// Fails if `block` is not a power of two of at least a sector.
    pub fn new(block: Bytes) -> Result<Self, BlockSizeError> {
        if !block.get().is_power_of_two() || block.get() < SECTOR_BYTES {
            return Err(BlockSizeError(block));
        }
        Ok(Self {
            block_shift: block.sectors().get().trailing_zeros(),
            blocks: BlockTable::new(),
            waiting: Vec::with_capacity(BATCH),
            last_ends: Vec::new(),
            reads: Direction::default(),
            writes: Direction::default(),
            flushes: 0,
            discards: 0,
            aligned: 0,
            sizes: [0; 64],
            address_end: Sectors::ZERO,
            arrivals: None,
            effects: Effects {
                write_runs: 0,
                waw: IntervalHistogram::new(),
                raw: IntervalHistogram::new(),
                files: None,
            },
        })
    }

    /// Also finds the most overwritten files of `map`, which describes the trace's only device.
    pub fn with_files(mut self, map: FileMap) -> Self {
        self.effects.files = Some(FileCounter::new(map, self.block()));
        self
    }

    fn block(&self) -> Bytes {
        Bytes(SECTOR_BYTES << self.block_shift)
    }

    /// Takes the next request. Requests arrive in order of time; a step back counts as no time
    /// passed.
    pub fn request(&mut self, request: &Request) {
        let device = self.blocks.device_index(request.device);
        if device == self.last_ends.len() {
            self.last_ends.push(LastEnds::default());
        }
        match request.kind {
            OpKind::Read | OpKind::Write => self.transfer(device, request),
            OpKind::Flush => self.flushes += 1,
            OpKind::Discard | OpKind::WriteZeroes => self.discards += 1,
            // A hint neither stores nor returns content, and no trace format has hints.
            OpKind::Hint => return,
        }
        let first_arrival = self.arrivals.map_or(request.arrival, |(first, _)| first);
        self.arrivals = Some((first_arrival, request.arrival));
        self.address_end = self.address_end.max(end_of(request.range));
    }

    fn transfer(&mut self, device: usize, request: &Request) {
        let range = request.range;
        let last_ends = &mut self.last_ends[device];
        let (direction, last_end) = match request.kind {
            OpKind::Read => (&mut self.reads, &mut last_ends.read),
            _ => (&mut self.writes, &mut last_ends.write),
        };
        let end = end_of(range);
        direction.requests += 1;
        direction.sectors = direction.sectors.saturating_add(range.len.get());
        direction.sequential += u64::from(*last_end == Some(range.start));
        *last_end = Some(end);
        if range.is_empty() {
            return;
        }
        self.sizes[size_bin(range.len)] += 1;
        let within_block = (1 << self.block_shift) - 1;
        self.aligned += u64::from((range.start.get() | end.get()) & within_block == 0);
        let first = range.start.get() >> self.block_shift;
        let last = (end.get() - 1) >> self.block_shift;
        direction.block_ios += last - first + 1;
        let is_write = request.kind == OpKind::Write;
        for region in BlockTable::region_of(first)..=BlockTable::region_of(last) {
            let start = first.max(region * REGION_BLOCKS);
            let end = last.min(region * REGION_BLOCKS + (REGION_BLOCKS - 1));
            if end - start == REGION_BLOCKS - 1 && self.access_region(device, region, request.arrival, is_write) {
                continue;
            }
            if self.blocks.is_alike(device, region) {
                self.access_blocks();
                self.blocks.split(device, region);
            }
            for access in Access::split(request.arrival, is_write, device, start, end) {
                self.waiting.push(access);
                if self.waiting.len() == BATCH {
                    self.access_blocks();
                }
            }
        }
    }

    /// Applies an access to all blocks of a region, if they have one state. Returns false if the
    /// blocks do not have one state.
    fn access_region(&mut self, device: usize, region: u64, at: Nanoseconds, is_write: bool) -> bool {
        self.access_blocks();
        let Some(state) = self.blocks.region(device, region) else { return false };
        self.effects.access(at, is_write, (region * REGION_BLOCKS, REGION_BLOCKS), state);
        true
    }

    /// Applies the waiting accesses to the blocks.
    fn access_blocks(&mut self) {
        let effects = &mut self.effects;
        self.blocks.visit(&mut self.waiting, |access, block, state| {
            effects.access(access.at, access.is_write, (block, 1), state);
        });
        self.waiting.clear();
    }

    /// Returns the figures of all requests taken.
    pub fn finish(mut self) -> Analysis {
        self.access_blocks();
        let popularity = Popularity::of(&self.blocks);
        let (reads, writes) = (self.reads, self.writes);
        let transfers = reads.requests + writes.requests;
        let requests = transfers + self.flushes + self.discards;
        // In a format without times all requests have the same time.
        let duration = self.arrivals.map(|(first, last)| last.saturating_sub(first)).filter(|span| span.get() > 0);
        let has_times = duration.is_some();
        let bytes = |direction: Direction| direction.sectors.saturating_mul(SECTOR_BYTES);
        Analysis {
            requests,
            reads: reads.requests,
            writes: writes.requests,
            flushes: self.flushes,
            discards: self.discards,
            read_bytes: bytes(reads),
            write_bytes: bytes(writes),
            devices: self.blocks.device_count() as u64,
            block_bytes: self.block().get(),
            block_ios: reads.block_ios + writes.block_ios,
            read_fraction: share(reads.block_ios, reads.block_ios + writes.block_ios),
            request_read_fraction: share(reads.requests, transfers),
            mean_request_bytes: share(bytes(reads).saturating_add(bytes(writes)), transfers),
            mean_interarrival_ms: duration.map(|span| span.as_millis_f64() / (requests - 1) as f64),
            duration_s: duration.map(Nanoseconds::as_seconds_f64),
            footprint_bytes: self.blocks.touched().count() as u64 * self.block().get(),
            address_end_bytes: self.address_end.get().saturating_mul(SECTOR_BYTES),
            sequential_fraction: share(reads.sequential + writes.sequential, transfers),
            random_write_fraction: share(writes.requests - writes.sequential, writes.requests),
            request_size_sectors: size_histogram(&self.sizes),
            aligned_fraction: share(self.aligned, transfers),
            max_write_savings: share(writes.block_ios - self.effects.write_runs, writes.block_ios),
            overwrites_in_top_1pct: popularity.overwrites_in_top,
            reads_in_top_1pct: popularity.reads_of_top.and_then(|top| share(top, reads.block_ios)),
            waw: quoted_shares(&self.effects.waw).filter(|_| has_times),
            raw: quoted_shares(&self.effects.raw).filter(|_| has_times),
            overwrite_cdf: popularity.overwrite_cdf,
            top1pct_histogram: popularity.top_histogram,
            waw_cdf: self.effects.waw.cdf().filter(|_| has_times),
            raw_cdf: self.effects.raw.cdf().filter(|_| has_times),
            files: self.effects.files.filter(|_| self.blocks.device_count() == 1).map(|files| files.finish(has_times)),
        }
    }
}

/// Returns the first sector after `range`, or the greatest sector if that number does not exist.
fn end_of(range: SectorRange) -> Sectors {
    range.checked_end().unwrap_or(Sectors::MAX)
}

/// Returns the exponent of the least power of two that is no smaller than `len`, which is not 0.
fn size_bin(len: Sectors) -> usize {
    ((u64::BITS - (len.get() - 1).leading_zeros()) as usize).min(63)
}

/// Returns the counts from the smallest size that occurs to the largest, including empty bins
/// between them.
fn size_histogram(sizes: &[u64; 64]) -> std::collections::BTreeMap<u64, u64> {
    let Some(first) = sizes.iter().position(|count| *count > 0) else {
        return std::collections::BTreeMap::new();
    };
    let last = sizes.iter().rposition(|count| *count > 0).unwrap_or(first);
    (first..=last).map(|bin| (1 << bin, sizes[bin])).collect()
}

/// Returns `part` as a share of `whole`; `None` if `whole` is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn quoted_shares(intervals: &IntervalHistogram) -> Option<Within> {
    let mut shares = [0.0; QUOTED_SECONDS.len()];
    for (share, seconds) in shares.iter_mut().zip(QUOTED_SECONDS) {
        *share = intervals.share_within(Nanoseconds::from_seconds(seconds))?;
    }
    Some(Within::new(shares))
}

#[cfg(test)]
mod tests;
