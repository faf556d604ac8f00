//! Order among requests that share a block. A change runs after every change that arrived before
//! it, and so does a read. So a read returns the content of all earlier writes, acknowledged or
//! not. A change need not wait for a read: the content that the read found stays in place until the
//! read ends.
//!
//! Two changes of one block conflict even if their sectors do not, provided that blocks may lie off
//! home: the later change merges with the result of the earlier change. In a volume whose content
//! all stays at home, only requests that share a sector conflict.

use std::collections::VecDeque;

use super::regions::Regions;
use crate::block::{Block, BlockRun};
use crate::volume::tasks::TaskId;

struct Change {
    task: TaskId,
    blocks: BlockRun,
    waits: bool,
    /// Set for a read that waits. No request waits for it, and it leaves as soon as it may start.
    reads: bool,
    /// Set while its content is being written to home and the map is not yet updated.
    at_home: bool,
}

impl Change {
    fn precedes(&self, blocks: BlockRun) -> bool {
        !self.reads && self.blocks.overlaps(blocks)
    }
}

/// The changes under way and the reads that wait for them, in order of arrival, each in its
/// lane: the run by which it conflicts with others. Their number is bounded by the requests that a
/// volume admits.
#[derive(Default)]
pub(crate) struct Ordering {
    changes: VecDeque<Change>,
    /// Index of the changes, without waiting reads.
    regions: Regions,
    waiting: u32,
    at_home: u32,
}

impl Ordering {
    /// Adds `task` as a change. Returns true if it may start at once.
    pub(crate) fn enter(&mut self, task: TaskId, blocks: BlockRun) -> bool {
        let waits = self.touches(blocks);
        self.changes.push_back(Change { task, blocks, waits, reads: false, at_home: false });
        self.regions.note(blocks);
        self.waiting += u32::from(waits);
        !waits
    }

    /// Adds a read that waits for the changes it must see; only valid if there [are
    /// any](Self::touches).
    pub(crate) fn enter_read(&mut self, task: TaskId, blocks: BlockRun) {
        self.changes.push_back(Change { task, blocks, waits: true, reads: true, at_home: false });
        self.waiting += 1;
    }

    /// Returns true if a change of `blocks` is under way.
    pub(crate) fn touches(&self, blocks: BlockRun) -> bool {
        self.regions.may_touch(blocks) && self.changes.iter().any(|change| change.precedes(blocks))
    }

    /// Sets whether `task` changes the home of its blocks. Returns true if that is new.
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
            let freed = change.waits && change.blocks.overlaps(gone.blocks);
            if freed && !self.changes.range(..at).any(|other| other.precedes(change.blocks)) {
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
        assert!(ordering.enter(1, run(0, 10)));
        assert!(ordering.enter(2, run(20, 10)));
        assert!(!ordering.enter(3, run(5, 20)), "overlaps 1 and 2");
        assert!(!ordering.enter(4, run(24, 2)), "overlaps 2 and 3");
        assert!(ordering.enter(5, run(100, 1)));
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
        assert!(ordering.enter(1, run(SPAN_BLOCKS + 5, 0)), "nothing is a change too");
        assert!(ordering.enter(2, run(100, 3)));
        assert!(
            !ordering.touches(run(103, 1)) && !ordering.touches(run(SPAN_BLOCKS + 100, 3)),
            "the same region, other blocks"
        );
        assert!(!ordering.enter(3, run(0, 2 * SPAN_BLOCKS)), "overlaps all");
        assert!(ordering.touches(run(SPAN_BLOCKS, 1)) && ordering.touches(run(50, u64::from(u32::MAX))));
        let mut started = Vec::new();
        ordering.leave(1, &mut |task| started.push(task));
        ordering.leave(2, &mut |task| started.push(task));
        assert_eq!(started, [3]);
        ordering.leave(3, &mut |task| started.push(task));
        assert!(!ordering.touches(run(0, 2 * SPAN_BLOCKS)) && ordering.regions == Regions::default());
    }

    #[test]
    fn a_read_sees_the_changes_before_it_and_holds_nobody_up() {
        let mut ordering = Ordering::default();
        assert!(ordering.enter(1, run(0, 10)));
        assert!(ordering.touches(run(9, 1)) && !ordering.touches(run(10, 1)));
        ordering.enter_read(2, run(9, 4));
        assert!(ordering.enter(3, run(10, 4)), "a read that waits is no obstacle");
        let mut started = Vec::new();
        ordering.leave(1, &mut |task| started.push(task));
        assert_eq!(started, [2], "what arrived after the read does not matter to it");
        ordering.leave(3, &mut |task| started.push(task));
        assert_eq!(started, [2]);
    }
}
