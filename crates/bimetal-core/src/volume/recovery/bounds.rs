//! What metadata can say. Anything else was not written by this program, whatever its checksum says, and is not followed.

use std::collections::BTreeMap;

use super::Recovery;
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::Slot;
use crate::journal::MARK_REGION_BLOCKS;
use crate::journal::superblock::{LIVES_MAX, LOST_MAX, Life, Superblock};
use crate::payload::Payload;
use crate::volume::Store;

/// Why a recovery ends that finds more lost blocks than there can be.
pub(super) const TOO_MANY_LOST: &str = "its records name more lost blocks than a superblock can";

/// Numbers of pages, superblocks and positions stay below that: at a million a second for two thousand years.
const NUMBER_END: u64 = 1 << 56;

impl<P: Payload> Recovery<P> {
    /// Whether a record can be about this volume.
    pub(super) fn is_possible(&self, block: Block, slot: Slot) -> bool {
        self.has(block) && slot.0 < self.volume.view.map.slots()
    }

    /// Whether the volume has such a block.
    pub(super) fn has(&self, block: Block) -> bool {
        block.0 < self.layout().total_blocks()
    }

    /// Whether the volume has all blocks of a run.
    pub(super) fn has_all(&self, run: BlockRun) -> bool {
        let blocks = self.layout().total_blocks();
        run.first.0 <= blocks && run.count <= blocks - run.first.0
    }

    /// Whether the volume has a region of that number that is marked as a whole.
    pub(super) fn has_region(&self, region: u32) -> bool {
        self.has(Block(u64::from(region) * MARK_REGION_BLOCKS))
    }

    /// Whether a superblock's numbers fit the regions that they are about.
    pub(super) fn is_possible_superblock(&self, superblock: &Superblock) -> bool {
        let Superblock { sequence, tail, index_tail, lives, lost, .. } = superblock;
        let Life { number, began_at, index_began_at } = superblock.life();
        let numbers = [*sequence, *tail, *index_tail, began_at, index_began_at];
        // A tail moves on past the place where the life began.
        let near = |began: u64, tail: u64, room: u64| began.saturating_sub(tail) <= room;
        let fits = match &self.volume.store {
            Store::Log(log) => {
                near(began_at, *tail, u64::from(self.volume.view.map.slots()))
                    && near(index_began_at, *index_tail, log.index.pages())
            }
            _ => true,
        };
        let follows = |pair: &[Life]| {
            let [before, after] = [pair[0], pair[1]];
            before.number < after.number
                && before.began_at <= after.began_at
                && before.index_began_at <= after.index_began_at
        };
        let lives_there = (1..=LIVES_MAX).contains(&lives.len()) && lives.windows(2).all(follows);
        let lost_there =
            lost.len() <= LOST_MAX && lost.iter().all(|&(block, eighths)| self.has(block) && !eighths.is_empty());
        numbers.iter().all(|&number| number < NUMBER_END) && number < u32::MAX && fits && lives_there && lost_there
    }
}

/// Follows what is lost through records in order; whether a superblock can name all of it.
pub(super) fn note_lost(lost: &mut BTreeMap<u64, ValidMask>, block: Block, eighths: ValidMask) -> bool {
    if eighths.is_empty() {
        lost.remove(&block.0);
    } else {
        lost.insert(block.0, eighths);
    }
    lost.len() <= LOST_MAX
}
