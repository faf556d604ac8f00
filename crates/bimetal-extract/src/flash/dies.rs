//! Flash measured by reads: sectors of a row, a die and a channel, and the time of a die to return
//! its sectors.
//!
//! Two simultaneous reads take as long as one read if they are for different dies, and twice as
//! long for the same die. In data written in order, rows lie on the dies in turn. The delays show
//! the rows: a row ends at the address at which two reads no longer disturb each other. The
//! distance at which two reads disturb each other again is the number of dies.

use bimetal_core::operation::OpKind;

use super::Drive;
use crate::ExtractError;
use crate::statistics::{Line, line, median};

/// Largest number of dies that are searched for.
const DIES_MAX: u64 = 256;
/// Number of pairs that are examined for the end of a row.
const STEPS_MAX: u64 = 1024;
/// Number of pairs that are examined with a single die: 16 rows of 64 KiB.
const STEPS_SINGLE: u64 = 512;
/// Number of tries for each time; the least time counts.
const TRIES: usize = 3;

/// Longest time in which a drive writes parts of its mapping table.
const MAP_NS: u64 = 5_000_000;

/// Result of measuring the dies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dies {
    /// Start of a row.
    pub(super) row_start: u64,
    /// Number of sectors in a row: the pages that a die reads at once.
    pub(super) row: u64,
    /// Number of sectors in a mapping unit.
    pub(super) unit: u64,
    pub(super) dies: u64,
    pub(super) channels: u64,
    /// Time of a read in a row, over its units: sensing (intercept) and the channel (slope), in
    /// nanoseconds.
    pub(super) line: Line,
}

impl Drive<'_, '_> {
    /// Brings the part of the mapping table for `lbn` into memory, if the table is on flash. Waits
    /// until the drive has written the part of the mapping table that left the memory.
    fn fetch_map(&mut self, lbn: u64, sectors: u64) -> Result<(), ExtractError> {
        if self.map_reads.is_some() {
            self.prober.read(lbn, sectors)?;
            self.prober.pause(MAP_NS);
        }
        Ok(())
    }

    /// Returns the time of a read in the flash, without controller and link, in nanoseconds.
    pub(super) fn flash_ns(&mut self, lbn: u64, sectors: u64) -> Result<f64, ExtractError> {
        self.fetch_map(lbn, sectors)?;
        let mut least = f64::MAX;
        for _ in 0..TRIES {
            least = least.min(self.prober.read(lbn, sectors)?.ns());
        }
        Ok(least - self.outside_ns(sectors))
    }

    /// Returns true if two simultaneous reads of the smallest size wait for one die; `alone` is the
    /// time of a single read in the flash. If the reads wait for one die, the second read is ready
    /// one read time later; otherwise the second read waits for the link alone. `None` if the link
    /// is too slow to distinguish the two.
    fn disturb(&mut self, one: u64, other: u64, alone: f64) -> Result<Option<bool>, ExtractError> {
        let link = self.occupied_ns(self.prober.grain);
        if link > 0.8 * alone {
            return Ok(None);
        }
        let both = self.both_ns(one, other, self.prober.grain)?;
        // The limit is half-way between the two, or nearer to the longer.
        Ok(Some(both > alone + link + 0.6 * (alone - link)))
    }

    /// Returns the time of two simultaneous reads in the flash.
    pub(super) fn both_ns(&mut self, one: u64, other: u64, sectors: u64) -> Result<f64, ExtractError> {
        self.fetch_map(one, sectors)?;
        self.fetch_map(other, sectors)?;
        let mut least = f64::MAX;
        for _ in 0..TRIES {
            let times = self.prober.batch(&[(OpKind::Read, one, sectors), (OpKind::Read, other, sectors)], 2)?;
            least = least.min((times[0].to.max(times[1].to) - times[0].from) as f64);
        }
        Ok(least - self.outside_ns(sectors))
    }

    /// Measures rows, dies and channels, over data written in order from `self.region` on. `None`
    /// if no end of a row is found.
    pub(super) fn dies(&mut self) -> Result<Option<Dies>, ExtractError> {
        let step = self.prober.grain.max(4);
        let from = self.region.0 + self.region.1 / 2;
        let alone = self.flash_ns(from, self.prober.grain)?;
        if self.disturb(from, from + step, alone)?.is_none() {
            return Ok(None);
        }
        let (ends, single) = self.ends_of_rows(from, step, alone)?;
        let mut gaps: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let row = median(&mut gaps) as u64;
        let even = gaps.iter().filter(|gap| **gap == row as f64).count();
        if row == 0 || even * 3 < gaps.len() * 2 {
            return Ok(None);
        }
        let row_start = ends[0];
        let mut dies = 1;
        while !single && dies < DIES_MAX && self.disturb(row_start, row_start + dies * row, alone)? == Some(false) {
            dies += 1;
        }
        // No drive has this many dies, or rows of so odd a length: the pattern is noise.
        if dies == DIES_MAX || row >> row.trailing_zeros() > 16 {
            return Ok(None);
        }
        let unit = self.unit(row_start, row, dies)?;
        let unit = if unit.is_power_of_two() && row.is_multiple_of(unit) { unit } else { 1 << row.trailing_zeros() };
        let points: Vec<(f64, f64)> = (1..=row / unit)
            .map(|units| Ok((units as f64, self.flash_ns(row_start + units % 3 * row, units * unit)?)))
            .collect::<Result<_, ExtractError>>()?;
        let line = line(&points);
        let channels = self.channels(row_start, row, dies, line, unit)?;
        Ok(Some(Dies { row_start, row, unit, dies, channels, line }))
    }

    /// Returns addresses at which rows begin, and whether there is only one die.
    fn ends_of_rows(&mut self, from: u64, step: u64, alone: f64) -> Result<(Vec<u64>, bool), ExtractError> {
        let mut ends = Vec::new();
        for at in 0..STEPS_MAX {
            let lbn = from + at * step;
            if self.disturb(lbn, lbn + step, alone)? == Some(false) {
                ends.push(lbn + step);
            }
            if ends.len() == 6 {
                return Ok((ends, false));
            }
        }
        // With one die all reads disturb each other, but reads across the end of a row take
        // longest, as they sense twice.
        let mut times = Vec::new();
        for at in 0..STEPS_SINGLE {
            times.push(self.flash_ns(from + at * step, 2 * step)?);
        }
        let longest = times.iter().copied().fold(alone, f64::max);
        let over = (0..STEPS_SINGLE).zip(&times).filter(|(_, ns)| **ns > 0.97 * longest && longest > 1.1 * alone);
        Ok((over.map(|(at, _)| from + (at + 1) * step).collect(), true))
    }

    /// Returns the number of sectors in the smallest part that a die returns.
    fn unit(&mut self, row_start: u64, row: u64, dies: u64) -> Result<u64, ExtractError> {
        let grain = self.prober.grain;
        let mut unit = grain;
        let least = self.flash_ns(row_start, grain)?;
        while unit < row && self.flash_ns(row_start + unit % dies * row, unit + grain)? < least + 0.004 * least + 50.0 {
            unit *= 2;
        }
        Ok(unit.min(row))
    }

    /// Returns the number of channels on which the dies lie: two dies on one channel transfer their
    /// rows one after the other. Returns the number of dies if the number of channels does not
    /// show.
    fn channels(&mut self, row_start: u64, row: u64, dies: u64, line: Line, unit: u64) -> Result<u64, ExtractError> {
        let transfer = (row / unit) as f64 * line.slope;
        let apart = line.intercept + transfer + self.occupied_ns(row);
        let limit = apart.midpoint(line.intercept + 2.0 * transfer);
        let mut first = None;
        for die in 1..dies {
            if self.both_ns(row_start, row_start + die * row, row)? > limit.max(1.02 * apart) {
                first = Some(die);
                break;
            }
        }
        Ok(first.filter(|first| dies.is_multiple_of(*first)).unwrap_or(dies))
    }
}
