//! Dynamic wear levelling: the host writes to the erased block with the fewest erases. Moved data,
//! which will stay longer, are written to the erased block with the most erases. Blocks whose data
//! stay are not reached by dynamic wear levelling.

use std::collections::BTreeSet;
use std::ops::Range;

use super::WearLevelling;
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::state::archive::{Archive, Checked};

/// Erased blocks of each die by erases: O(log n) for every change.
pub(crate) struct Dynamic {
    erased: Vec<BTreeSet<(u32, u32)>>,
}

impl Dynamic {
    /// Creates the policy for the dies of `geometry`, with nothing erased yet.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self { erased: vec![BTreeSet::new(); geometry.dies() as usize] }
    }
}

impl WearLevelling for Dynamic {
    fn erased(&mut self, die: u32, block: u32, erases: u32) {
        self.erased[die as usize].insert((erases, block));
    }

    fn take(&mut self, die: u32, fresh: &mut Range<u32>, stays: bool) -> Option<u32> {
        let erased = &mut self.erased[die as usize];
        let (_, block) = if stays {
            erased.pop_last().or_else(|| fresh.next().map(|block| (0, block)))
        } else {
            fresh.next().map(|block| (0, block)).or_else(|| erased.pop_first())
        }?;
        Some(block)
    }

    fn erased_blocks(&self, die: u32) -> u32 {
        self.erased[die as usize].len() as u32
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        if archive.is_reading() {
            for (die, erased) in (0..).zip(&mut self.erased) {
                *erased = known.erased(die).map(|(block, erases)| (erases, block)).collect();
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.erased.iter().map(|blocks| blocks.len() as u64 * 8).sum()
    }
}
