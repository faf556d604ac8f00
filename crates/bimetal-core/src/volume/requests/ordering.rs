//! Order among requests that share a block. A change or a read runs after every earlier change of
//! its blocks. So a read returns the content of all earlier writes, acknowledged or not. A change
//! need not wait for a read: the content that the read found stays in place until the read ends.
//!
//! Two requests conflict if their *lanes* overlap. A lane is the smallest part of the volume that a
//! change replaces: sectors, if all content stays at home; eighths of blocks in a cache; blocks in
//! a log, which records a block as a whole.
//!
//! A stream that is not aligned with the blocks writes each block at its borders in two parts. The
//! lanes of the two parts do not overlap, so both changes run at once, unless the content of one
//! part depends on the other. A change says so with a *claim* of the block:
//!
//! - A write that places the block in a slot claims the block *alone*: the slot gets the content
//!   that the block already has. The change of a range claims its ends alone, too.
//! - A write that goes home over eighths of a clean copy has a *shared* claim. Writes with shared
//!   claims run at once: each of them replaces its own eighths at home, and the first that ends
//!   drops the copy. A write that would merge the copy into a new slot has to wait for all of them:
//!   the copy is older than the content that they write. No later write shares the claim, because
//!   the copy is gone.
//! - A write that goes home where the block has no slot, or a clean copy of other eighths, needs no
//!   claim, and a claim does not wait for such a write: the slot of the claiming write holds only
//!   eighths that the write at home leaves alone.
//!
//! A change that has not begun waits for another change's claim of the block, unless both claims
//! are shared.
//!
//! A claim ends with the part of a change that needed the claim. A write with FUA keeps the blocks
//! that it claimed alone until it is stable: another write would merge its content into a slot that
//! is not stable. In a log there are no claims, and a write with FUA ends its change once its
//! content is appended: later changes are appended behind this content. So writes with FUA that
//! share a block become stable by one commit.
//!
//! Claims never wait for each other in a circle. A change has claims of its first and its last
//! block only. Shared claims last as long as operations of drives, so a change that waits has none.
//! While a change waits for one of its two blocks, it may have claimed the other block alone.
//! Suppose that a change has claimed the block for which another change waits. The block is then
//! the last block of that change, seen from the same side, or its only block. So each further
//! change in a chain of waiting has its block further to the same side.

use std::collections::VecDeque;

use super::regions::Regions;
use crate::block::{Block, BlockRun};
use crate::volume::tasks::TaskId;

struct Change {
    task: TaskId,
    lane: BlockRun,
    blocks: BlockRun,
    waits: bool,
    /// Set for a read that waits. No request waits for a read that does not conflict, and the read
    /// leaves as soon as it may start.
    reads: bool,
    /// Set while a change's content is being written to home and the map is not yet updated.
    at_home: bool,
}

/// Kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Other changes with a shared claim of the block may run at once.
    Shared,
    /// No other change with a claim of the block may run.
    Alone,
}

impl Claim {
    /// Returns the claim of a write at home of a block whose slot may be dirty.
    pub(crate) fn at_home(is_dirty: bool) -> Self {
        if is_dirty { Self::Alone } else { Self::Shared }
    }
}

impl Change {
    fn precedes(&self, lane: BlockRun) -> bool {
        !self.reads && self.lane.overlaps(lane)
    }
}

/// The changes under way and the reads that wait for them, in order of arrival. The number of
/// changes and reads is bounded by the requests that a volume admits.
#[derive(Default)]
pub(crate) struct Ordering {
    changes: VecDeque<Change>,
    /// Index of the blocks of the changes, without waiting reads.
    regions: Regions,
    claims: Vec<(Block, TaskId, Claim)>,
    waiting: u32,
    at_home: u32,
}

impl Ordering {
    /// Adds `task` as a change. Returns true if the change may start at once.
    pub(crate) fn enter(&mut self, task: TaskId, lane: BlockRun, blocks: BlockRun) -> bool {
        let waits = self.conflicts(lane, blocks);
        self.changes.push_back(Change { task, lane, blocks, waits, reads: false, at_home: false });
        self.regions.note(blocks);
        self.waiting += u32::from(waits);
        !waits
    }

    /// Adds a read that waits for the changes whose content it must return; only valid if [such
    /// changes exist](Self::conflicts).
    pub(crate) fn enter_read(&mut self, task: TaskId, lane: BlockRun, blocks: BlockRun) {
        self.changes.push_back(Change { task, lane, blocks, waits: true, reads: true, at_home: false });
        self.waiting += 1;
    }

    /// Returns true if a change under way overlaps `lane`, which lies in `blocks`.
    pub(crate) fn conflicts(&self, lane: BlockRun, blocks: BlockRun) -> bool {
        self.regions.may_touch(blocks) && self.changes.iter().any(|change| change.precedes(lane))
    }

    /// Returns true if a change of `blocks` is under way.
    pub(crate) fn touches(&self, blocks: BlockRun) -> bool {
        let touches = |change: &Change| !change.reads && change.blocks.overlaps(blocks);
        self.regions.may_touch(blocks) && self.changes.iter().any(touches)
    }

    /// Claims `block` for `task`, a change under way.
    ///
    /// # Panics
    /// Panics if the claim [conflicts](Self::is_claimed) with the claim of another task.
    pub(crate) fn claim(&mut self, task: TaskId, block: Block, claim: Claim) {
        assert!(!self.is_claimed(task, block, claim), "block {} is claimed twice", block.0);
        if !self.claims.contains(&(block, task, claim)) {
            self.claims.push((block, task, claim));
        }
    }

    /// Returns true if a task other than `task` has a claim of `block` beside which `task` cannot
    /// have `claim`.
    pub(crate) fn is_claimed(&self, task: TaskId, block: Block, claim: Claim) -> bool {
        let conflicts = |other| other == Claim::Alone || claim == Claim::Alone;
        self.claims.iter().any(|&(claimed, by, other)| claimed == block && by != task && conflicts(other))
    }

    /// Returns true if `task` has a shared claim.
    pub(crate) fn shares_a_block(&self, task: TaskId) -> bool {
        self.claims.iter().any(|&(_, by, claim)| by == task && claim == Claim::Shared)
    }

    /// Ends a claim of `task` among those of `kinds`. Returns the claimed block, or `None` if the
    /// task has no such claim.
    pub(crate) fn end_claim(&mut self, task: TaskId, kinds: &[Claim]) -> Option<Block> {
        let at = self.claims.iter().position(|(_, by, claim)| *by == task && kinds.contains(claim))?;
        Some(self.claims.swap_remove(at).0)
    }

    /// Sets whether `task` changes the home of its blocks. Returns true if this was not set before.
    pub(crate) fn set_at_home(&mut self, task: TaskId, at_home: bool) -> bool {
        let Some(change) = self.changes.iter_mut().find(|change| change.task == task) else { return false };
        if change.at_home == at_home {
            return false;
        }
        change.at_home = at_home;
        if at_home {
            self.at_home += 1;
        } else {
            self.at_home -= 1;
        }
        true
    }

    /// Returns true if the home of `block` is being changed.
    pub(crate) fn is_changing_home(&self, block: Block) -> bool {
        let run = BlockRun { first: block, count: 1 };
        self.at_home > 0 && self.changes.iter().any(|change| change.at_home && change.blocks.overlaps(run))
    }

    /// Removes `task`, and calls `start` for the tasks that may start now.
    pub(crate) fn leave(&mut self, task: TaskId, start: &mut impl FnMut(TaskId)) {
        let Some(at) = self.changes.iter().position(|change| change.task == task) else { return };
        let Some(gone) = self.changes.remove(at) else { return };
        self.at_home -= u32::from(gone.at_home);
        self.waiting -= u32::from(gone.waits);
        if !gone.reads {
            self.regions.forget(gone.blocks);
        }
        let mut at = at;
        while at < self.changes.len() && self.waiting > 0 {
            let change = &self.changes[at];
            let freed = change.waits && change.lane.overlaps(gone.lane);
            if freed && !self.changes.range(..at).any(|other| other.precedes(change.lane)) {
                self.waiting -= 1;
                start(change.task);
                if change.reads {
                    self.changes.remove(at);
                    continue;
                }
                self.changes[at].waits = false;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::regions::SPAN_BLOCKS;
    use super::*;

    fn run(first: u64, count: u64) -> BlockRun {
        BlockRun { first: Block(first), count }
    }

    #[test]
    fn overlapping_changes_run_in_order_of_arrival() {
        let mut ordering = Ordering::default();
        assert!(ordering.enter(1, run(0, 10), run(0, 10)));
        assert!(ordering.enter(2, run(20, 10), run(20, 10)));
        assert!(!ordering.enter(3, run(5, 20), run(5, 20)), "overlaps 1 and 2");
        assert!(!ordering.enter(4, run(24, 2), run(24, 2)), "overlaps 2 and 3");
        assert!(ordering.enter(5, run(100, 1), run(100, 1)));
        let mut started = Vec::new();
        ordering.leave(2, &mut |task| started.push(task));
        assert_eq!(started, []);
        ordering.leave(1, &mut |task| started.push(task));
        assert_eq!(started, [3]);
        ordering.leave(3, &mut |task| started.push(task));
        assert_eq!(started, [3, 4]);
    }

    #[test]
    fn runs_of_any_length_meet_those_that_they_overlap() {
        let mut ordering = Ordering::default();
        assert!(ordering.enter(1, run(SPAN_BLOCKS + 5, 0), run(SPAN_BLOCKS + 5, 0)), "nothing is a change too");
        assert!(ordering.enter(2, run(100, 3), run(100, 3)));
        assert!(
            !ordering.touches(run(103, 1)) && !ordering.touches(run(SPAN_BLOCKS + 100, 3)),
            "the same region, other blocks"
        );
        assert!(!ordering.enter(3, run(0, 2 * SPAN_BLOCKS), run(0, 2 * SPAN_BLOCKS)), "overlaps all");
        assert!(ordering.touches(run(SPAN_BLOCKS, 1)) && ordering.touches(run(50, u64::from(u32::MAX))));
        let mut started = Vec::new();
        ordering.leave(1, &mut |task| started.push(task));
        ordering.leave(2, &mut |task| started.push(task));
        assert_eq!(started, [3]);
        ordering.leave(3, &mut |task| started.push(task));
        assert!(!ordering.touches(run(0, 2 * SPAN_BLOCKS)) && ordering.regions == Regions::default());
    }

    #[test]
    fn claims_of_one_block_conflict_unless_both_are_shared() {
        let (block, mut ordering) = (Block(7), Ordering::default());
        ordering.claim(1, block, Claim::Shared);
        assert!(!ordering.is_claimed(2, block, Claim::Shared) && ordering.is_claimed(2, block, Claim::Alone));
        assert!(!ordering.is_claimed(2, Block(8), Claim::Alone), "another block");
        ordering.claim(2, block, Claim::Shared);
        assert_eq!(ordering.end_claim(1, &[Claim::Alone]), None);
        assert_eq!(ordering.end_claim(1, &[Claim::Alone, Claim::Shared]), Some(block));
        assert!(ordering.is_claimed(1, block, Claim::Alone), "the claim of 2 is left");
        assert_eq!(ordering.end_claim(2, &[Claim::Shared]), Some(block));
        ordering.claim(1, block, Claim::Alone);
        assert!(ordering.is_claimed(2, block, Claim::Shared) && !ordering.is_claimed(1, block, Claim::Alone));
    }

    #[test]
    fn a_read_sees_the_changes_before_it_and_holds_nobody_up() {
        let mut ordering = Ordering::default();
        assert!(ordering.enter(1, run(0, 10), run(0, 10)));
        assert!(ordering.touches(run(9, 1)) && !ordering.touches(run(10, 1)));
        ordering.enter_read(2, run(9, 4), run(9, 4));
        assert!(ordering.enter(3, run(10, 4), run(10, 4)), "a read that waits is no obstacle");
        let mut started = Vec::new();
        ordering.leave(1, &mut |task| started.push(task));
        assert_eq!(started, [2], "what arrived after the read does not matter to it");
        ordering.leave(3, &mut |task| started.push(task));
        assert_eq!(started, [2]);
    }
}
