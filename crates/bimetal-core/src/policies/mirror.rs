//! What a mirror needs: which of the first so many blocks have no copy, and when a copy may be made because nobody needs the
//! drive that has the original.

use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::layout::MemberId;
use crate::scheme::{FETCH_BLOCKS_MAX, View};
use crate::units::Nanoseconds;

/// Between two fetches, and after one of which nothing came: its blocks were being changed, or a drive failed. Each such pause is
/// twice the one before.
const PAUSE: Nanoseconds = Nanoseconds::from_millis(1);
const PAUSE_MAX: Nanoseconds = Nanoseconds::from_seconds(60);

/// When to fetch: one run at a time, while home is idle.
pub(crate) struct IdleFetch {
    /// The member that has the originals.
    pub(crate) home: MemberId,
    /// It is idle when no request has used it for this long.
    pub(crate) idle: Nanoseconds,
    not_before: Nanoseconds,
    pause: Nanoseconds,
}

impl IdleFetch {
    /// As `home` becomes idle.
    pub(crate) fn new(home: MemberId, idle: Nanoseconds) -> Self {
        Self { home, idle, not_before: Nanoseconds::ZERO, pause: PAUSE }
    }

    /// When the next run may be fetched, as long as `reserve` slots stay free.
    pub(crate) fn due_at(&self, view: &View, reserve: u64) -> Option<Nanoseconds> {
        Some(view.fetch_at(self.home, self.idle, reserve + 1)?.max(self.not_before))
    }

    /// A fetch begins.
    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        self.not_before = now.saturating_add(self.pause);
        self.pause = Nanoseconds(self.pause.0 * 2).min(PAUSE_MAX);
    }

    /// A copy was made.
    pub(crate) fn copied(&mut self) {
        self.pause = PAUSE;
    }
}

/// Resident bytes for each block.
pub(crate) const BYTES_PER_BLOCK: f64 = 0.2;

/// The blocks without a copy.
pub(crate) struct Missing {
    missing: BitSet,
    blocks: u32,
    /// Where the last run ended.
    cursor: u32,
}

impl Missing {
    /// All of the first `blocks`.
    pub(crate) fn all(blocks: u32) -> Self {
        Self { missing: BitSet::of_all(blocks), blocks, cursor: 0 }
    }

    /// The first `copies` blocks have copies.
    pub(crate) fn copied(&mut self, copies: u64) {
        if copies >= u64::from(self.blocks) {
            self.missing = BitSet::new(self.blocks);
        } else {
            (0..copies as u32).for_each(|block| {
                self.missing.remove(block);
            });
        }
    }

    /// Whether every block has a copy.
    pub(crate) fn is_empty(&self) -> bool {
        self.missing.len() == 0
    }

    /// Whether `block` is one of those that shall have a copy.
    pub(crate) fn covers(&self, block: Block) -> bool {
        block.0 < u64::from(self.blocks)
    }

    /// `block` has a copy, or has none any more. Nothing happens for a block beyond the mirror.
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

    /// The next run without copies behind the last one, for one fetch of at most `most` blocks.
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
