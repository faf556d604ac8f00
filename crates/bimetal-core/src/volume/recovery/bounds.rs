//! Bounds of the values that metadata can have. Values beyond the bounds were not written by this
//! program, even with a valid checksum, and are not followed.

use std::collections::BTreeMap;

use super::Recovery;
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::Slot;
use crate::journal::MARK_REGION_BLOCKS;
use crate::journal::superblock::{LIVES_MAX, LOST_MAX, Life, Pair, Superblock};
use crate::payload::Payload;

/// The error of a recovery that finds more lost blocks than a superblock can name.
pub(super) const TOO_MANY_LOST: &str = "its records name more lost blocks than a superblock can list";

/// Limit of the numbers of pages, superblocks and positions: a million a second reach it after two
/// thousand years.
const NUMBER_END: u64 = 1 << 56;

impl<P: Payload> Recovery<P> {
    /// Returns true if a record of `block` and `slot` can belong to this volume.
    pub(super) fn is_possible(&self, block: Block, slot: Slot) -> bool {
        self.has(block) && slot.0 < self.volume.view.map.slots()
    }

    /// Returns true if the volume has this block.
    pub(super) fn has(&self, block: Block) -> bool {
        block.0 < self.layout().total_blocks()
    }

    /// Returns true if the volume has all blocks of a run.
    pub(super) fn has_all(&self, run: BlockRun) -> bool {
        let blocks = self.layout().total_blocks();
        run.first.0 <= blocks && run.count <= blocks - run.first.0
    }

    /// Returns true if the volume has a marked region with this number.
    pub(super) fn has_region(&self, region: u32) -> bool {
        self.has(Block(u64::from(region) * MARK_REGION_BLOCKS))
    }

    /// Returns true if a superblock's numbers fit the regions that they name.
    pub(super) fn is_possible_superblock(&self, superblock: &Superblock) -> bool {
        let Superblock { sequence, pair, tail, index_tail, lives, lost, .. } = superblock;
        let Life { number, began_at, index_began_at, .. } = superblock.life();
        let numbers = [*sequence, *tail, *index_tail, began_at, index_began_at];
        // A tail may have moved on past the position at which the epoch began.
        let near = |began: u64, tail: u64, room: u64| began.saturating_sub(tail) <= room;
        let fits = match self.volume.store.log() {
            Some(log) => {
                near(began_at, *tail, u64::from(self.volume.view.map.slots()))
                    && near(index_began_at, *index_tail, log.index.pages())
            }
            None => true,
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
        let pair_there = *pair != Pair::Second || *sequence > 0;
        numbers.iter().all(|&number| number < NUMBER_END)
            && pair_there
            && number < u32::MAX
            && fits
            && lives_there
            && lost_there
    }
}

/// Updates the lost blocks by a record. Returns false for records that this program did not write:
/// a superblock can name all blocks that are lost at one time. The newest superblock may be newer
/// than records that follow it in the ring, so the blocks lost at two times may be known together.
pub(super) fn note_lost(lost: &mut BTreeMap<u64, ValidMask>, block: Block, eighths: ValidMask) -> bool {
    if eighths.is_empty() {
        lost.remove(&block.0);
    } else {
        lost.insert(block.0, eighths);
    }
    lost.len() <= 2 * LOST_MAX
}

/// Returns true if a superblock can name the blocks that are lost after all records.
pub(super) fn fit_a_superblock(lost: &BTreeMap<u64, ValidMask>) -> bool {
    lost.len() <= LOST_MAX
}
