//! Cost-benefit: chooses the block with the largest age × (1 − u) / 2u, where u is the share of
//! valid units (Kawaguchi, Nishioka and Motoda, "A flash-memory based file system", USENIX 1995).
//! The age is the time since the block was closed or last lost a unit, measured in the number of
//! such events in its die.
//!
//! Blocks with the same number of valid units are queued by age, so that a choice compares the
//! oldest block of each queue. The number of queues is the number of units in a block, for any
//! number of blocks.

use std::collections::BTreeSet;

use super::VictimSelection;
use super::candidates::{Candidates, Change};
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked};

struct Die {
    /// Number of closings and invalidations so far.
    now: u64,
    /// Time of the last change and number of each block, by valid units.
    queues: Vec<BTreeSet<(u64, u32)>>,
}

/// Candidates of each die.
pub(crate) struct CostBenefit {
    units_per_block: u32,
    candidates: Candidates,
    /// Time of the last change, by block.
    changed: Vec<u64>,
    dies: Vec<Die>,
}

impl CostBenefit {
    /// Returns the candidates of a drive in the state of `layout`: untouched blocks all have the
    /// same age.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout) -> Self {
        let units = geometry.units_per_block();
        let die = |_| Die { now: 1, queues: vec![BTreeSet::new(); units as usize] };
        let mut dies: Vec<Die> = (0..geometry.dies()).map(die).collect();
        let candidates = Candidates::new(geometry, layout, |die, block, valid| {
            dies[die as usize].queues[valid as usize].insert((0, block));
        });
        Self { units_per_block: units, candidates, changed: vec![0; geometry.blocks() as usize], dies }
    }

    fn report(&mut self, die: u32, block: u32, valid: u32) {
        let before = self.candidates.valid(block);
        let change = self.candidates.report(block, valid);
        let Die { now, queues } = &mut self.dies[die as usize];
        if change == Change::Kept {
            queues[before as usize].remove(&(self.changed[block as usize], block));
        }
        *now += 1;
        self.changed[block as usize] = *now;
        if change != Change::Full {
            queues[valid as usize].insert((*now, block));
        }
    }
}

impl VictimSelection for CostBenefit {
    fn closed(&mut self, die: u32, block: u32, valid: u32, _: bool) {
        self.report(die, block, valid);
    }

    fn invalidated(&mut self, die: u32, block: u32, _: u32, after: u32) {
        self.report(die, block, after);
    }

    fn pick(&mut self, die: u32, _: &dyn Fn(u32) -> bool) -> Option<u32> {
        let Die { now, queues } = &mut self.dies[die as usize];
        let units = f64::from(self.units_per_block);
        let oldest = queues.iter().enumerate().filter_map(|(valid, queue)| {
            let &(changed, _) = queue.first()?;
            let (age, valid_units) = ((*now - changed + 1) as f64, valid as f64);
            // An empty block costs nothing: the ratio is infinite.
            Some((age * (units - valid_units) / (2.0 * valid_units), valid))
        });
        let (_, valid) = oldest.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (_, block) = queues[valid].pop_first()?;
        self.candidates.remove(block);
        Some(block)
    }

    fn taken(&mut self, die: u32, block: u32, valid: u32) {
        if valid < self.units_per_block {
            self.dies[die as usize].queues[valid as usize].remove(&(self.changed[block as usize], block));
            self.candidates.remove(block);
        }
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        for (die, Die { now, queues }) in (0..).zip(&mut self.dies) {
            archive.number(now, u64::MAX >> 1)?;
            let blocks = known.blocks_of(die);
            archive.table(&mut self.changed[blocks.start as usize..blocks.end as usize], *now)?;
            if archive.is_reading() {
                queues.iter_mut().for_each(BTreeSet::clear);
                for (block, valid) in known.candidates(die) {
                    queues[valid as usize].insert((self.changed[block as usize], block));
                }
            }
        }
        if archive.is_reading() {
            self.candidates.replace(known);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let queued: usize = self.dies.iter().flat_map(|die| die.queues.iter()).map(BTreeSet::len).sum();
        self.candidates.memory_bytes() + self.changed.capacity() as u64 * 8 + queued as u64 * 24
    }
}
