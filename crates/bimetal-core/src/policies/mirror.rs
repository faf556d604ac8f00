//! A mirror of the first blocks of home, which is filled in idle periods: the blocks that have no
//! copy yet, and the times at which a run of them is fetched.

use super::idle_fetch::IdleFetch;
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;
use crate::delta_set::DeltaSet;
use crate::layout::MemberId;
use crate::scheme::{FETCH_BLOCKS_MAX, View};
use crate::units::Nanoseconds;

/// Resident bytes for each block.
pub(crate) const BYTES_PER_BLOCK: f64 = 0.2;

/// The mirror of the first blocks.
pub(crate) struct Mirror {
    missing: Missing,
    /// Times of fetches.
    pub(crate) fetch: IdleFetch,
}

impl Mirror {
    /// Returns the mirror of the first `blocks` blocks of `home`, without a copy. `home` counts as
    /// idle if it had no request for the time `idle`.
    pub(crate) fn new(blocks: u64, home: MemberId, idle: Nanoseconds) -> Self {
        Self { missing: Missing::all(blocks as u32), fetch: IdleFetch::new(home, idle) }
    }

    /// Returns the number of mirrored blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.missing.blocks.into()
    }

    /// Returns true if every mirrored block has a copy.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the next run of blocks without copies, for one fetch of at most `most` blocks.
    pub(crate) fn next_run(&mut self, most: u64) -> Option<BlockRun> {
        self.missing.next_run(most)
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped). Returns the block in `slot`. A copy of a
    /// part of a block counts: the other sectors are read from home, and copied when the host
    /// writes them.
    pub(crate) fn mapped(&mut self, view: &View, slot: Slot) -> Block {
        let block = view.map.in_slot(slot).expect("a slot that was just mapped is in the map").block;
        self.missing.set(block, false);
        self.fetch.copied();
        block
    }

    /// [`Scheme::unmapped`](crate::scheme::Scheme::unmapped).
    pub(crate) fn unmapped(&mut self, block: Block) {
        self.missing.set(block, true);
    }

    /// [`Scheme::unmapped_run`](crate::scheme::Scheme::unmapped_run).
    pub(crate) fn unmapped_run(&mut self, run: BlockRun) {
        self.missing.lack(run);
    }

    /// [`Scheme::began_with`](crate::scheme::Scheme::began_with).
    pub(crate) fn began_with(&mut self, copies: u64) {
        self.missing.copied(copies);
    }
}

/// Blocks that have no copy.
struct Missing {
    missing: DeltaSet,
    blocks: u32,
    /// End of the last run.
    cursor: u32,
}

impl Missing {
    /// Returns the set in which all of the first `blocks` blocks lack a copy.
    fn all(blocks: u32) -> Self {
        Self { missing: DeltaSet::full(blocks), blocks, cursor: 0 }
    }

    /// Notes that the first `copies` blocks have copies.
    fn copied(&mut self, copies: u64) {
        if copies >= u64::from(self.blocks) {
            self.missing = DeltaSet::empty(self.blocks);
        } else {
            self.missing.remove_run(0..copies as u32);
        }
    }

    /// Returns true if every block has a copy.
    fn is_empty(&self) -> bool {
        self.missing.len() == 0
    }

    /// Returns true if the mirror covers `block`, so that the block should have a copy.
    fn covers(&self, block: Block) -> bool {
        block.0 < u64::from(self.blocks)
    }

    /// Notes that `block` lacks a copy, or that `block` has a copy. A block beyond the mirrored
    /// area changes nothing.
    fn set(&mut self, block: Block, missing: bool) {
        if self.covers(block) {
            let block = block.0 as u32;
            if missing {
                self.missing.insert(block)
            } else {
                self.missing.remove(block)
            };
        }
    }

    /// Notes that all blocks of `run` lack a copy. Blocks beyond the mirrored area change nothing.
    fn lack(&mut self, run: BlockRun) {
        let covered = |block: u64| block.min(self.blocks.into()) as u32;
        self.missing.insert_run(covered(run.first.0)..covered(run.end()));
    }

    /// Returns the next run of blocks without copies, for one fetch of at most `most` blocks. The
    /// search begins at the end of the last run.
    fn next_run(&mut self, most: u64) -> Option<BlockRun> {
        let first = self.missing.next_member(self.cursor).or_else(|| self.missing.next_member(0))?;
        let most = most.clamp(1, FETCH_BLOCKS_MAX) as u32;
        let end = self.missing.next_gap(first).unwrap_or(self.blocks).min(first.saturating_add(most)).min(self.blocks);
        self.cursor = if end == self.blocks { 0 } else { end };
        Some(BlockRun { first: Block(u64::from(first)), count: u64::from(end - first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_round_and_leave_out_what_has_a_copy() {
        let mut missing = Missing::all(300);
        (0..10).chain(100..290).for_each(|block| missing.set(Block(block), false));
        missing.set(Block(5000), true);
        let runs: Vec<_> = (0..3).map(|_| missing.next_run(64).map(|run| (run.first.0, run.count))).collect();
        assert_eq!(runs, [Some((10, 64)), Some((74, 26)), Some((290, 10))]);
        (0..300).for_each(|block| missing.set(Block(block), false));
        assert!(missing.is_empty() && missing.next_run(64).is_none());
        missing.set(Block(7), true);
        assert_eq!(missing.next_run(64), Some(BlockRun { first: Block(7), count: 1 }));
    }
}
