//! Static wear levelling: dynamic wear levelling, and in addition moves of data that stay. A closed
//! block lags behind if it was erased more than a threshold less often than the most worn block of
//! its die. The data of the lagging block then move to a worn block, so that the lagging block
//! takes its share of the erases.
//!
//! Only data that stay are moved: the data of a block since whose closing at least as many blocks
//! were written as the die has. Data that change are soon overwritten, and their block is then
//! erased without a move.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Dynamic, WearLevelling};
use crate::flash::ftl::page::state::Known;
use crate::flash::geometry::Geometry;
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked, ERASES_MAX, ensure};

/// Number of blocks with the fewest erases that are examined in the search for a block whose data
/// stay.
const LOOKED_AT: usize = 8;

/// Closed blocks of a die.
struct Die {
    /// Closed blocks, each with its erases, the number of its closing, and its own number.
    closed: BTreeSet<(u32, u64, u32)>,
    closings: u64,
    /// Erases of the most worn block.
    most: u32,
}

/// Closed blocks of each die by erases, in addition to the erased blocks.
pub(crate) struct Static {
    erased: Dynamic,
    dies: Vec<Die>,
    /// Number of the closing of each block, in the order of closings.
    closing: Vec<u64>,
    blocks_per_die: u32,
    threshold: u32,
}

impl Static {
    /// Creates the policy for a drive in the state of `layout`.
    pub(crate) fn new(geometry: &Geometry, layout: &Layout, threshold: u32) -> Self {
        let blocks_per_die = geometry.blocks_per_plane;
        let die = |die| {
            let first = die * blocks_per_die;
            let programmed = first..first + layout.programmed_blocks(die);
            Die { closed: programmed.map(|block| (0, 0, block)).collect(), closings: 0, most: 0 }
        };
        Self {
            erased: Dynamic::new(geometry),
            dies: (0..geometry.dies()).map(die).collect(),
            closing: vec![0; geometry.blocks() as usize],
            blocks_per_die,
            threshold,
        }
    }
}

impl WearLevelling for Static {
    fn erased(&mut self, die: u32, block: u32, erases: u32) {
        let most = &mut self.dies[die as usize].most;
        *most = erases.max(*most);
        self.erased.erased(die, block, erases);
    }

    fn take(&mut self, die: u32, fresh: &mut Range<u32>, stays: bool) -> Option<u32> {
        self.erased.take(die, fresh, stays)
    }

    fn erased_blocks(&self, die: u32) -> u32 {
        self.erased.erased_blocks(die)
    }

    fn closed(&mut self, die: u32, block: u32, erases: u32) {
        let die = &mut self.dies[die as usize];
        die.closings += 1;
        self.closing[block as usize] = die.closings;
        die.closed.insert((erases, die.closings, block));
    }

    fn reopened(&mut self, die: u32, block: u32, erases: u32) {
        self.dies[die as usize].closed.remove(&(erases, self.closing[block as usize], block));
    }

    fn lagging(&self, die: u32) -> Option<u32> {
        let Die { closed, closings, most } = &self.dies[die as usize];
        let behind = closed.iter().take(LOOKED_AT).take_while(|(erases, ..)| most - erases > self.threshold);
        let mut stays = behind.filter(|(_, closing, _)| closings - closing >= u64::from(self.blocks_per_die));
        stays.next().map(|&(.., block)| block)
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        self.erased.transfer(archive, known)?;
        for (number, die) in (0..).zip(&mut self.dies) {
            archive.number(&mut die.closings, u64::MAX >> 1)?;
            archive.number(&mut die.most, ERASES_MAX)?;
            let blocks = known.blocks_of(number);
            archive.table(&mut self.closing[blocks.start as usize..blocks.end as usize], die.closings)?;
            if archive.is_reading() {
                let closed = known.closed(number);
                die.closed = closed.map(|(block, _, erases)| (erases, self.closing[block as usize], block)).collect();
                let most = die.closed.last().map_or(0, |(erases, ..)| *erases);
                ensure(most <= die.most, || format!("a block of die {number} was erased {most} times"))?;
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let closed: usize = self.dies.iter().map(|die| die.closed.len()).sum();
        self.erased.memory_bytes() + (closed * 16 + self.closing.capacity() * 8) as u64
    }
}
