//! FIFO: chooses the block that was closed first, among those with an invalid unit.

use std::collections::BTreeSet;

use super::VictimSelection;
use super::candidates::{Candidates, Change};
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked};

/// Candidates of each die in the order in which they were closed: O(log n) for every change.
pub(crate) struct Fifo {
    candidates: Candidates,
    /// Number of the closing of each block, in the order of closings.
    closing: Vec<u64>,
    closings: u64,
    /// Closing and block of each candidate, by die.
    queues: Vec<BTreeSet<(u64, u32)>>,
}

impl Fifo {
    /// Returns the candidates of a drive in the state of `layout`. Blocks that are as
    /// preconditioning left them count as closed in the order of their numbers.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout) -> Self {
        let mut queues = vec![BTreeSet::new(); geometry.dies() as usize];
        let closing: Vec<u64> = (0..u64::from(geometry.blocks())).collect();
        let candidates = Candidates::new(geometry, layout, |die, block, _| {
            queues[die as usize].insert((u64::from(block), block));
        });
        Self { candidates, closings: closing.len() as u64, closing, queues }
    }

    fn report(&mut self, die: u32, block: u32, valid: u32) {
        if self.candidates.report(block, valid) == Change::Added {
            self.queues[die as usize].insert((self.closing[block as usize], block));
        }
    }
}

impl VictimSelection for Fifo {
    fn closed(&mut self, die: u32, block: u32, valid: u32, is_new: bool) {
        if is_new {
            self.closing[block as usize] = self.closings;
            self.closings += 1;
        }
        self.report(die, block, valid);
    }

    fn invalidated(&mut self, die: u32, block: u32, _: u32, after: u32) {
        self.report(die, block, after);
    }

    fn pick(&mut self, die: u32, _: &dyn Fn(u32) -> bool) -> Option<u32> {
        let (_, block) = self.queues[die as usize].pop_first()?;
        self.candidates.remove(block);
        Some(block)
    }

    fn taken(&mut self, die: u32, block: u32, _: u32) {
        self.queues[die as usize].remove(&(self.closing[block as usize], block));
        self.candidates.remove(block);
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        archive.number(&mut self.closings, u64::MAX >> 1)?;
        archive.table(&mut self.closing, self.closings)?;
        if archive.is_reading() {
            self.candidates.replace(known);
            for (die, queue) in (0..).zip(&mut self.queues) {
                *queue = known.candidates(die).map(|(block, _)| (self.closing[block as usize], block)).collect();
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let queued: usize = self.queues.iter().map(BTreeSet::len).sum();
        self.candidates.memory_bytes() + self.closing.capacity() as u64 * 8 + queued as u64 * 24
    }
}
