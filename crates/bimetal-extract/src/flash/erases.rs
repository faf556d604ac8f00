//! Erasing: how long it takes, and how often.
//!
//! A range that is written over and over, in order, gives the drive blocks without a valid page; so each die erases one for
//! each block that it fills. Two reads of each die behind each stripe of rows: the first waits for the row, the second for
//! an erase that began meanwhile.

use std::cmp::Ordering;

use bimetal_core::operation::OpKind;

use super::Drive;
use super::dies::Dies;
use crate::ExtractError;
use crate::statistics::median;

/// Stripes at most, once around the range: several of the longest blocks that are sold.
const STRIPES_MAX: u64 = 8000;

/// What was seen of erases.
pub(super) struct Erases {
    /// Nanoseconds of an erase.
    pub(super) ns: f64,
    /// How far off that may be.
    pub(super) error: f64,
    /// Rows that a die writes from one to the next.
    pub(super) rows: u64,
    /// How many were seen.
    pub(super) seen: usize,
}

impl Drive<'_, '_> {
    /// Writes stripe after stripe until erases were seen often enough. What keeps a die busy no longer than `program` is no
    /// erase. `None` where there is none.
    pub(super) fn erases(&mut self, dies: &Dies, program: f64) -> Result<Option<Erases>, ExtractError> {
        let mut last: Vec<Option<u64>> = vec![None; dies.dies as usize];
        let (mut times, mut gaps): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let round = self.scratch.1 / (dies.dies * dies.row) + 1;
        let longest = program + (dies.row / dies.unit) as f64 * dies.line.slope;
        // Two in a row on each die.
        let enough = (2 * dies.dies as usize).max(6);
        for stripe in 0..round + STRIPES_MAX {
            // Once around without waiting; then nothing piles up in the buffer, so that an erase begins when it is due.
            match stripe.cmp(&round) {
                Ordering::Less => {}
                Ordering::Equal => self.prober.pause(1_000_000_000),
                Ordering::Greater => self.prober.pause(2 * longest as u64),
            }
            let writes: Vec<_> =
                (0..dies.dies).map(|_| (OpKind::Write, self.next_scratch(dies.row), dies.row)).collect();
            self.prober.batch(&writes, writes.len())?;
            // In the first round blocks still hold data that must be copied out, and make room for less than a block.
            if stripe < round {
                continue;
            }
            for (die, busy) in self.second_reads(dies)?.into_iter().enumerate() {
                if busy < 1.15 * longest + 20_000.0 {
                    continue;
                }
                if let Some(before) = last[die].filter(|before| stripe - before > 2) {
                    gaps.push((stripe - before) as f64);
                    times.push(busy);
                }
                last[die] = Some(stripe);
            }
            if steady(&gaps, enough) || self.prober.is_late() {
                break;
            }
            self.prober.done(stripe as f64 / (round + STRIPES_MAX) as f64);
        }
        if gaps.len() < enough {
            return Ok(None);
        }
        let mut gaps = gaps.split_off(gaps.len() - enough);
        let mut times = times.split_off(times.len() - enough);
        let ns = median(&mut times);
        let spread = times[enough * 3 / 4] - times[enough / 4];
        Ok(Some(Erases { ns, error: spread.max(0.001 * ns), rows: median(&mut gaps) as u64, seen: enough }))
    }

    /// For how long each die was busy with something else between its first read and its second, in nanoseconds.
    fn second_reads(&mut self, dies: &Dies) -> Result<Vec<f64>, ExtractError> {
        let count = dies.dies as usize;
        let read = dies.line.intercept + dies.line.slope;
        let mut first_of = std::collections::BTreeMap::new();
        let mut second_of = std::collections::BTreeMap::new();
        for die in 0..count {
            let place = self.place_of(dies, die as u64);
            first_of.insert(self.prober.hand_over(OpKind::Read, place, dies.unit, false)?.0, die);
        }
        let (mut free, mut busy) = (vec![0.0; count], vec![0.0; count]);
        for _ in 0..2 * count {
            let (token, at) = self.prober.await_one()?;
            let at = at as f64 - self.outside_ns(dies.unit);
            if let Some(die) = first_of.remove(&token) {
                free[die] = at;
                let place = self.place_of(dies, die as u64);
                second_of.insert(self.prober.hand_over(OpKind::Read, place, dies.unit, false)?.0, die);
            } else if let Some(die) = second_of.remove(&token) {
                busy[die] = at - free[die] - read;
            }
        }
        Ok(busy)
    }
}

/// Whether the last `enough` of `gaps` are alike.
fn steady(gaps: &[f64], enough: usize) -> bool {
    let Some(from) = gaps.len().checked_sub(enough) else { return false };
    let (low, high) = gaps[from..].iter().fold((f64::MAX, 0.0_f64), |(low, high), gap| (low.min(*gap), high.max(*gap)));
    high - low <= 1.0
}
