//! The flash as reads see it: which sectors lie on one row, one die, one channel, and how long a die takes to give them.
//!
//! Two reads at once take as long as one if they are for different dies, and twice as long for the same. Where data were
//! written in order, rows lie on the dies in turn; so the address at which two reads no longer disturb each other is where
//! a row ends, and the distance at which they do again is the number of dies.

use bimetal_core::operation::OpKind;

use super::Drive;
use crate::ExtractError;
use crate::statistics::{Line, line, median};

/// The most dies that are looked for.
const DIES_MAX: u64 = 256;
/// Pairs that are looked at for the end of a row.
const STEPS_MAX: u64 = 1024;
/// The same with a single die: 16 rows of 64 KiB.
const STEPS_SINGLE: u64 = 512;
/// How often each is tried; the least time counts.
const TRIES: usize = 3;

/// How long parts of a map may take to be written.
const MAP_NS: u64 = 5_000_000;

/// What was found of the dies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dies {
    /// The start of a row.
    pub(super) row_start: u64,
    /// Sectors of a row: the pages that a die reads at once.
    pub(super) row: u64,
    /// Sectors of a mapping unit.
    pub(super) unit: u64,
    pub(super) dies: u64,
    pub(super) channels: u64,
    /// A read of a row, over its units: sensing (intercept) and the channel (slope), in nanoseconds.
    pub(super) line: Line,
}

impl Drive<'_, '_> {
    /// Where the map is on flash: sees to it that the part for `lbn` is in memory, and that the part which left for it is written.
    fn fetch_map(&mut self, lbn: u64, sectors: u64) -> Result<(), ExtractError> {
        if self.map_reads.is_some() {
            self.prober.read(lbn, sectors)?;
            self.prober.pause(MAP_NS);
        }
        Ok(())
    }

    /// What a read takes in the flash, without controller and link, in nanoseconds.
    pub(super) fn flash_ns(&mut self, lbn: u64, sectors: u64) -> Result<f64, ExtractError> {
        self.fetch_map(lbn, sectors)?;
        let mut least = f64::MAX;
        for _ in 0..TRIES {
            least = least.min(self.prober.read(lbn, sectors)?.ns());
        }
        Ok(least - self.outside_ns(sectors))
    }

    /// Whether two reads at once of the smallest size wait for one die, of which one takes `alone` in the flash: then the second is ready a
    /// read later, else it waits for the link alone. `None` where the link is too slow to tell.
    fn disturb(&mut self, one: u64, other: u64, alone: f64) -> Result<Option<bool>, ExtractError> {
        let link = self.occupied_ns(self.prober.grain);
        if link > 0.8 * alone {
            return Ok(None);
        }
        let both = self.both_ns(one, other, self.prober.grain)?;
        // As far from the one as from the other, or nearer to the longer.
        Ok(Some(both > alone + link + 0.6 * (alone - link)))
    }

    /// What two reads at once take in the flash.
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

    /// Measures rows, dies and channels, over data written in order from `self.region` on. `None` where no end of a row
    /// shows.
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
        // No drive has as many, or rows of so odd a length: the pattern is noise.
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

    /// Addresses at which rows begin, and whether there is but one die.
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
        // One die: all reads disturb each other, but those over the end of a row take longest, since they sense twice.
        let mut times = Vec::new();
        for at in 0..STEPS_SINGLE {
            times.push(self.flash_ns(from + at * step, 2 * step)?);
        }
        let longest = times.iter().copied().fold(alone, f64::max);
        let over = (0..STEPS_SINGLE).zip(&times).filter(|(_, ns)| **ns > 0.97 * longest && longest > 1.1 * alone);
        Ok((over.map(|(at, _)| from + (at + 1) * step).collect(), true))
    }

    /// Sectors of the smallest part that a die gives.
    fn unit(&mut self, row_start: u64, row: u64, dies: u64) -> Result<u64, ExtractError> {
        let grain = self.prober.grain;
        let mut unit = grain;
        let least = self.flash_ns(row_start, grain)?;
        while unit < row && self.flash_ns(row_start + unit % dies * row, unit + grain)? < least + 0.004 * least + 50.0 {
            unit *= 2;
        }
        Ok(unit.min(row))
    }

    /// How many channels the dies lie on: whole rows of two dies on one channel cross it one after the other. All dies where that does not
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
