//! Writes: time of a die to program a row, cost of a flush, and size of the write buffer.
//!
//! A row that was written keeps its die busy. Rows lie on the dies in turn. So a read of one die
//! right after each row shows, once in each round over the dies, the time at which that die is free
//! again. Only one die is read, because reads of more dies would wait for each other on the link.

use bimetal_core::operation::OpKind;

use super::Drive;
use super::dies::Dies;
use crate::ExtractError;
use crate::prober::Timed;
use crate::statistics::median;

/// Number of rows of a die that are timed: the types of pages take turns, four at most.
const ROWS: u64 = 16;
/// Nanoseconds below which a die does not count as busy.
const NOTICED_NS: f64 = 10_000.0;
/// Largest number of sectors written to fill the buffer: 64 MiB.
const BURST_MAX: u64 = 1 << 17;
/// Number of sectors written first, 512 KiB; `BURSTS` is the number of bursts with a wait that are
/// enough.
const BURST_MIN: u64 = 1 << 10;
const BURSTS: usize = 5;
/// Smallest factor by which rows must arrive faster than they are programmed.
const FASTER: f64 = 1.5;
/// Part of the budget after which bursts are not repeated.
const LATE: f64 = 0.7;

/// Times to program rows, in nanoseconds.
pub(super) struct Programs {
    /// Times by type of page, in turn; a single time if all are equal.
    pub(super) by_type: Vec<f64>,
    /// Error of the times.
    pub(super) error: f64,
}

impl Programs {
    pub(super) fn mean(&self) -> f64 {
        self.by_type.iter().sum::<f64>() / self.by_type.len().max(1) as f64
    }

    pub(super) fn longest(&self) -> f64 {
        self.by_type.iter().copied().fold(0.0, f64::max)
    }
}

/// Returns the end of the time in which the flash served `timed`, minus the time of a single such
/// read.
pub(super) fn free_at(drive: &Drive<'_, '_>, dies: &Dies, timed: Timed) -> f64 {
    timed.to as f64 - drive.outside_ns(dies.unit) - dies.line.intercept - dies.line.slope
}

/// Content of the write buffer when a burst had to wait.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) sectors: u64,
    /// Number of sectors that the dies have programmed while the burst arrived, which is computed
    /// and not observed.
    pub(super) programmed: u64,
}

impl Drive<'_, '_> {
    /// Times rows of the first die. `None` if no row keeps the die busy for longer than a write
    /// takes through the controller.
    pub(super) fn programs(&mut self, dies: &Dies) -> Result<Option<Programs>, ExtractError> {
        let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
        let least =
            self.write_overhead + NOTICED_NS + if self.map_reads.is_some() { 3.0 * dies.line.intercept } else { 0.0 };
        let mut times = Vec::new();
        for _ in 0..2 * ROWS * dies.dies {
            self.settle();
            let lbn = self.next_scratch(dies.row);
            let write = self.prober.run(OpKind::Write, lbn, dies.row, false)?;
            let read = self.prober.read(dies.row_start, dies.unit)?;
            let arrived = write.to as f64 - self.write_overhead;
            let busy = free_at(self, dies, read) - arrived;
            if busy > least.max(NOTICED_NS + transfer) {
                times.push(busy - transfer);
            }
            self.prober.done(times.len() as f64 / ROWS as f64);
            if times.len() == ROWS as usize {
                break;
            }
        }
        Ok(if times.len() < ROWS as usize / 2 { None } else { Some(by_type(&times)) })
    }

    /// Measures the additional time of a flush, and whether the flush waits for the flash at all; a
    /// page has `page` sectors.
    pub(super) fn flush(&mut self, dies: &Dies, page: u64, program: f64) -> Result<(f64, bool), ExtractError> {
        let mut times = Vec::new();
        for _ in 0..16 {
            self.settle();
            let lbn = self.next_scratch(dies.unit);
            let write = self.prober.run(OpKind::Write, lbn, dies.unit, false)?;
            let flush = self.prober.run(OpKind::Flush, 0, 0, false)?;
            // A unit that fills a row is programmed from its arrival, any other unit from the
            // flush.
            let from = if dies.row > dies.unit { flush.from as f64 } else { write.to as f64 - self.write_overhead };
            times.push(flush.to as f64 - from - self.write_overhead);
        }
        let mut waited: Vec<f64> = times.iter().copied().filter(|ns| *ns > 0.8 * program).collect();
        if waited.is_empty() {
            return Ok((median(&mut times).max(0.0), false));
        }
        // The flush pads the page.
        let transfer = (page / dies.unit).max(1) as f64 * dies.line.slope;
        Ok(((median(&mut waited) - program - transfer).max(0.0), true))
    }

    /// Returns the nanoseconds from one row of a die to the next, if rows are written in order
    /// without waits.
    pub(super) fn row_ns(&mut self, dies: &Dies) -> Result<f64, ExtractError> {
        let rows = 64 * dies.dies;
        let writes: Vec<_> = (0..rows).map(|_| (OpKind::Write, self.next_scratch(dies.row), dies.row)).collect();
        let times = self.prober.batch(&writes, 2 * dies.dies as usize)?;
        let mut ends: Vec<u64> = times.iter().map(|timed| timed.to).collect();
        ends.sort_unstable();
        // The first half fills the buffer.
        let half = ends.len() / 2;
        Ok((ends[ends.len() - 1] - ends[half]) as f64 / (ends.len() - 1 - half) as f64 * dies.dies as f64)
    }

    /// Returns the sectors that the write buffer holds, by bursts of whole rows. When a row must
    /// wait for room, the arrived sectors are those in the buffer and those that the dies have
    /// programmed. A die that erases during the burst programs less, so the largest of several
    /// results counts. `None` if no row ever has to wait, or if the results do not agree.
    pub(super) fn buffer(&mut self, dies: &Dies, program: f64) -> Result<Option<Held>, ExtractError> {
        let (row, transfer) =
            (dies.row as f64 * self.outside.1 + self.command, dies.line.slope * (dies.row / dies.unit) as f64);
        // If rows are programmed about as fast as they arrive, only collection by a die fills the
        // buffer.
        if (program + transfer) / (dies.dies as f64) < FASTER * row {
            return Ok(None);
        }
        let (mut found, mut size) = (Vec::new(), BURST_MIN);
        while found.len() < BURSTS && size <= BURST_MAX {
            self.prober.run(OpKind::Flush, 0, 0, false)?;
            self.settle();
            match self.burst(dies, size, program)? {
                Some(held) => found.push(held),
                None => size *= 2,
            }
            // The next burst uses another part of the blocks.
            for _ in 0..7 * dies.dies {
                let lbn = self.next_scratch(dies.row);
                self.prober.run(OpKind::Write, lbn, dies.row, false)?;
            }
            self.prober.done(size as f64 / BURST_MAX as f64);
            if self.prober.is_past(LATE, "more bursts into the write buffer") {
                break;
            }
        }
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        // The two largest results must agree, and no buffer holds less than two rows of a die.
        found.sort_unstable_by_key(|held: &Held| held.sectors);
        let agree = |pair: &&[Held]| pair[1].sectors - pair[0].sectors <= dies.row && pair[1].sectors > 2 * dies.row;
        Ok(found.windows(2).last().filter(agree).map(|pair| pair[1]))
    }

    /// Returns the content of the buffer when a row of a burst of `sectors` sectors had to wait.
    fn burst(&mut self, dies: &Dies, sectors: u64, program: f64) -> Result<Option<Held>, ExtractError> {
        const DEPTH: usize = 4;
        let rows = (sectors / dies.row).max(4 * DEPTH as u64);
        let writes: Vec<_> = (0..rows).map(|_| (OpKind::Write, self.next_scratch(dies.row), dies.row)).collect();
        let times = self.prober.batch(&writes, DEPTH)?;
        let mut early: Vec<f64> = times[..DEPTH * 2].iter().map(|timed| timed.ns()).collect();
        let usual = median(&mut early);
        let Some(first) = times.iter().position(|timed| timed.ns() > 1.5 * usual + 0.02 * program) else {
            return Ok(None);
        };
        let at = times[first].to as f64 - self.write_overhead;
        let transfer = (dies.row / dies.unit) as f64 * dies.line.slope;
        let (mut die_free, mut channel_free) = (vec![0.0; dies.dies as usize], vec![0.0; dies.channels as usize]);
        let mut programmed = 0;
        for (row, timed) in times[..first].iter().enumerate() {
            let (die, channel) = (row % die_free.len(), row % channel_free.len());
            let arrived = timed.to as f64 - self.write_overhead;
            let start = f64::max(arrived, die_free[die]).max(channel_free[channel]);
            channel_free[channel] = start + transfer;
            die_free[die] = start + transfer + program;
            programmed += u64::from(die_free[die] <= at + 0.001 * program);
        }
        let sectors = (first as u64 + 1).saturating_sub(programmed) * dies.row;
        Ok(Some(Held { sectors, programmed: programmed * dies.row }))
    }

    /// Returns the number of pages in a row. A flush closes a page, so units written to one die
    /// between flushes lie on one row as long as the row has free pages.
    pub(super) fn pages_of_row(&mut self, dies: &Dies) -> Result<u64, ExtractError> {
        const CHAIN: u64 = 9;
        self.prober.run(OpKind::Flush, 0, 0, false)?;
        let first = self.next_scratch(CHAIN * dies.unit);
        for link in 0..CHAIN {
            self.prober.run(OpKind::Write, first + link * dies.unit, dies.unit, false)?;
            self.prober.run(OpKind::Flush, 0, 0, false)?;
            for _ in 1..dies.dies {
                let other = self.next_scratch(dies.unit);
                self.prober.run(OpKind::Write, other, dies.unit, false)?;
                self.prober.run(OpKind::Flush, 0, 0, false)?;
            }
        }
        self.settle();
        let mut ends = Vec::new();
        for link in 0..CHAIN - 1 {
            let lbn = first + link * dies.unit;
            let timed = (0..3).map(|_| self.prober.read(lbn, 2 * dies.unit)).collect::<Result<Vec<_>, _>>()?;
            let least = timed.into_iter().map(Timed::ns).fold(f64::MAX, f64::min) - self.outside_ns(2 * dies.unit);
            // Two rows of one die are sensed one after the other.
            if least > 1.5 * dies.line.intercept + 2.0 * dies.line.slope {
                ends.push(link);
            }
        }
        let mut gaps: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let pages = if gaps.is_empty() { 1 } else { median(&mut gaps) as u64 };
        Ok(if (dies.row / dies.unit).is_multiple_of(pages.max(1)) { pages.max(1) } else { 1 })
    }
}

/// Returns the program times of the rows of a die, by type of page: the shortest cycle of types
/// that fits nine of ten rows.
fn by_type(times: &[f64]) -> Programs {
    let mut sorted = times.to_vec();
    let middle = median(&mut sorted);
    for types in 1..=4 {
        let pairs: Vec<f64> = times.iter().zip(&times[types..]).map(|(one, other)| (one - other).abs()).collect();
        let alike = pairs.iter().filter(|apart| **apart < 0.02 * middle).count();
        if alike * 10 >= pairs.len() * 9 {
            let of_type = |at: usize| {
                let mut of_type: Vec<f64> = times.iter().skip(at).step_by(types).copied().collect();
                median(&mut of_type).max(0.0)
            };
            let by_type: Vec<f64> = (0..types).map(of_type).collect();
            // If all rows take equal times except for disturbed ones, there are no types.
            let differ = by_type.iter().any(|ns| (ns - middle).abs() > 0.02 * middle);
            return Programs { by_type: if differ { by_type } else { vec![middle] }, error: 0.01 * middle };
        }
    }
    let spread = sorted[sorted.len() * 3 / 4] - sorted[sorted.len() / 4];
    Programs { by_type: vec![middle.max(0.0)], error: spread }
}
