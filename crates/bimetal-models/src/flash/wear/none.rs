//! No wear levelling: erased blocks are written again in the order in which they were erased.

use std::collections::VecDeque;
use std::ops::Range;

use super::WearLevelling;
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::state::archive::{Archive, Checked};

/// Queue of erased blocks for each die.
pub(crate) struct Unlevelled {
    erased: Vec<VecDeque<u32>>,
}

impl Unlevelled {
    /// Creates the policy for the dies of `geometry`, with nothing erased yet.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self { erased: vec![VecDeque::new(); geometry.dies() as usize] }
    }
}

impl WearLevelling for Unlevelled {
    fn erased(&mut self, die: u32, block: u32, _: u32) {
        self.erased[die as usize].push_back(block);
    }

    fn take(&mut self, die: u32, fresh: &mut Range<u32>, _: bool) -> Option<u32> {
        fresh.next().or_else(|| self.erased[die as usize].pop_front())
    }

    fn erased_blocks(&self, die: u32) -> u32 {
        self.erased[die as usize].len() as u32
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        for (die, erased) in (0..).zip(&mut self.erased) {
            archive.queue(erased, known.blocks_per_die.into(), known.blocks_of(die).end)?;
            Known::check_order(erased.make_contiguous(), known.erased(die).map(|(block, _)| block), "erased")?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.erased.iter().map(|queue| queue.capacity() as u64 * 4).sum()
    }
}
