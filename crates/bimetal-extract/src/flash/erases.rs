//! Measurement of erases: duration and frequency.
//!
//! A range that is repeatedly written in order gives the drive blocks without a valid page. So each
//! die erases a block for each block that it fills. Two reads of one die follow each row: the first
//! waits for the row, the second for an erase that began in the meantime. Only one die is read,
//! because reads of more dies would wait for each other on the link.

use std::cmp::Ordering;

use bimetal_core::operation::OpKind;

use super::Drive;
use super::dies::Dies;
use super::programs::free_at;
use crate::ExtractError;
use crate::statistics::median;

/// Largest number of stripes, after one pass over the range: as many as fill several of the longest
/// blocks on the market.
const STRIPES_MAX: u64 = 8000;

/// Result of observing erases.
pub(super) struct Erases {
    /// Nanoseconds of an erase.
    pub(super) ns: f64,
    /// Error of the duration.
    pub(super) error: f64,
    /// Number of rows that a die writes between two erases; `None` if further erases may lie
    /// between.
    pub(super) rows: Option<u64>,
    /// Number of erases observed.
    pub(super) seen: usize,
}

/// Number of erases of one die that are enough, if they come evenly.
const ENOUGH: usize = 4;
/// Part of the budget after which no further erases are awaited.
const LATE: f64 = 0.55;

impl Drive<'_, '_> {
    /// Writes stripe after stripe until enough erases of the first die were observed. A die busy
    /// for no longer than `program` is not erasing. `None` if no erases are observed.
    pub(super) fn erases(&mut self, dies: &Dies, program: f64) -> Result<Option<Erases>, ExtractError> {
        let (mut last, mut missed) = (None::<u64>, Vec::new());
        let (mut times, mut gaps): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let round = self.scratch.1 / (dies.dies * dies.row) + 1;
        let longest = program + (dies.row / dies.unit) as f64 * dies.line.slope;
        for stripe in 0..round + STRIPES_MAX {
            // The first pass has no pauses. Afterwards nothing accumulates in the buffer, so that
            // an erase begins when it is due.
            match stripe.cmp(&round) {
                Ordering::Less => {}
                Ordering::Equal => self.prober.pause(1_000_000_000),
                Ordering::Greater => self.prober.pause(2 * longest as u64),
            }
            // In the first pass blocks still hold data that must be copied out, and free less than
            // a block.
            let seen = if stripe < round { self.stripe(dies)? } else { self.read_behind_rows(dies, longest)? };
            match seen {
                Seen::Nothing => {}
                Seen::Before => missed.push(stripe),
                Seen::For(ns) => {
                    if let Some(before) = last.filter(|before| stripe - before > 2) {
                        gaps.push((stripe - before) as f64);
                        times.push(ns);
                    }
                    last = Some(stripe);
                }
            }
            if steady(&gaps, ENOUGH) || self.prober.is_past(LATE, "more erases") {
                break;
            }
            self.prober.done(stripe as f64 / (round + STRIPES_MAX) as f64);
        }
        if !steady(&gaps, ENOUGH) {
            return Ok(None);
        }
        let mut gaps = gaps.split_off(gaps.len() - ENOUGH);
        let mut times = times.split_off(times.len() - ENOUGH);
        let (ns, rows) = (median(&mut times), median(&mut gaps) as u64);
        // If the second reads meet only every second or third erase, the first reads meet the other
        // erases.
        let whole = last.is_none_or(|last| between(last, rows, &missed) == 1);
        let spread = times[ENOUGH * 3 / 4] - times[ENOUGH / 4];
        Ok(Some(Erases { ns, error: spread.max(0.001 * ns), rows: Some(rows).filter(|_| whole), seen: ENOUGH }))
    }

    /// Writes a row on each die.
    fn stripe(&mut self, dies: &Dies) -> Result<Seen, ExtractError> {
        let writes: Vec<_> = (0..dies.dies).map(|_| (OpKind::Write, self.next_scratch(dies.row), dies.row)).collect();
        self.prober.batch(&writes, writes.len())?;
        Ok(Seen::Nothing)
    }

    /// Writes a row on each die, with two reads of the first die after each row, which occupies it
    /// for `program`. Returns the operation, other than the programming of the row, that kept the
    /// die busy.
    fn read_behind_rows(&mut self, dies: &Dies, program: f64) -> Result<Seen, ExtractError> {
        let read = dies.line.intercept + dies.line.slope;
        let least = 1.15 * program + self.outside_ns(dies.unit) + 20_000.0;
        let mut seen = Seen::Nothing;
        for _ in 0..dies.dies {
            let lbn = self.next_scratch(dies.row);
            let write = self.prober.run(OpKind::Write, lbn, dies.row, false)?;
            let first = self.prober.read(dies.row_start, dies.unit)?;
            // The second read is submitted when the first has left the drive. Work under way then
            // began when the first had left the die.
            let after = self.prober.read(dies.row_start, dies.unit)?.ns() - read;
            let before = free_at(self, dies, first) - (write.to as f64 - self.write_overhead);
            if after >= least {
                seen = Seen::For(after);
            } else if before >= least && seen == Seen::Nothing {
                seen = Seen::Before;
            }
        }
        Ok(seen)
    }
}

/// Observation of the reads after a row.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Nothing,
    /// Work of the drive that delayed the first read and not the second. The drive had begun this
    /// work before the reads.
    Before,
    /// Erase with this duration in nanoseconds.
    For(f64),
}

/// Returns the number of equal parts of whole blocks into which the erases up to `last` divide the
/// `gap` stripes between them. The erases at `missed`, which the second read did not meet, divide
/// the gap.
fn between(last: u64, gap: u64, missed: &[u64]) -> u64 {
    let met = |at: u64| missed.iter().any(|missed| missed.abs_diff(at) <= 1);
    let in_parts = |parts: u64| {
        gap.is_multiple_of(parts)
            && (1..ENOUGH as u64)
                .all(|back| (1..parts).all(|part| met(last.saturating_sub(back * gap) + part * gap / parts)))
    };
    [4, 3, 2].into_iter().find(|parts| in_parts(*parts)).unwrap_or(1)
}

/// Returns true if the last `enough` of `gaps` are alike.
fn steady(gaps: &[f64], enough: usize) -> bool {
    let Some(from) = gaps.len().checked_sub(enough) else { return false };
    let (low, high) = gaps[from..].iter().fold((f64::MAX, 0.0_f64), |(low, high), gap| (low.min(*gap), high.max(*gap)));
    high - low <= 1.0
}
