//! State of a mirror that is being filled: the blocks that have no copy yet, and the times at which
//! a copy may be made because the drive with the originals is idle.

use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::layout::MemberId;
use crate::scheme::{FETCH_BLOCKS_MAX, View};
use crate::units::Nanoseconds;

/// Pause after a fetch that made no copy, because its blocks were being changed or a drive failed.
/// Each further pause is twice the one before, up to `PAUSE_MAX`.
const PAUSE: Nanoseconds = Nanoseconds::from_millis(1);
const PAUSE_MAX: Nanoseconds = Nanoseconds::from_seconds(60);

/// Times of fetches: one run of blocks at a time, while home is idle.
pub(crate) struct IdleFetch {
    /// Member that has the originals.
    pub(crate) home: MemberId,
    /// Time without requests after which `home` counts as idle.
    pub(crate) idle: Nanoseconds,
    not_before: Nanoseconds,
    pause: Nanoseconds,
}

impl IdleFetch {
    /// Returns the schedule for `home`, which counts as idle after `idle`.
    pub(crate) fn new(home: MemberId, idle: Nanoseconds) -> Self {
        Self { home, idle, not_before: Nanoseconds::ZERO, pause: PAUSE }
    }

    /// Returns the time at which the next run may be fetched, provided that `reserve` slots stay
    /// free.
    pub(crate) fn due_at(&self, view: &View, reserve: u64) -> Option<Nanoseconds> {
        Some(view.fetch_at(self.home, self.idle, reserve + 1)?.max(self.not_before))
    }

    /// Notes that a fetch begins.
    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        self.not_before = now.saturating_add(self.pause);
        self.pause = Nanoseconds(self.pause.0 * 2).min(PAUSE_MAX);
    }

    /// Notes that a copy was made.
    pub(crate) fn copied(&mut self) {
        self.pause = PAUSE;
    }
}

/// Resident bytes for each block.
pub(crate) const BYTES_PER_BLOCK: f64 = 0.2;

/// Blocks that have no copy.
pub(crate) struct Missing {
    missing: BitSet,
    blocks: u32,
    /// End of the last run.
    cursor: u32,
}

impl Missing {
    /// Returns the set in which all of the first `blocks` blocks lack a copy.
    pub(crate) fn all(blocks: u32) -> Self {
        Self { missing: BitSet::of_all(blocks), blocks, cursor: 0 }
    }

    /// Notes that the first `copies` blocks have copies.
    pub(crate) fn copied(&mut self, copies: u64) {
        if copies >= u64::from(self.blocks) {
            self.missing = BitSet::new(self.blocks);
        } else {
            (0..copies as u32).for_each(|block| {
                self.missing.remove(block);
            });
        }
    }

    /// Returns true if every block has a copy.
    pub(crate) fn is_empty(&self) -> bool {
        self.missing.len() == 0
    }

    /// Returns true if the mirror covers `block`, so that it shall have a copy.
    pub(crate) fn covers(&self, block: Block) -> bool {
        block.0 < u64::from(self.blocks)
    }

    /// Notes that `block` lacks a copy or has one. Nothing happens for a block beyond the mirror.
    pub(crate) fn set(&mut self, block: Block, missing: bool) {
        if self.covers(block) {
            let block = block.0 as u32;
            if missing {
                self.missing.insert(block)
            } else {
                self.missing.remove(block)
            };
        }
    }

    /// Returns the next run of blocks without copies, for one fetch of at most `most` blocks. The
    /// search begins at the end of the last run.
    pub(crate) fn next_run(&mut self, most: u64) -> Option<BlockRun> {
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
