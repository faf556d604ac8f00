//! Promotions that are announced or under way: runs of blocks of which a clean copy is to be made
//! from content that a read returned.
//!
//! A request that changes such blocks in between cancels their promotion, because the copy would be
//! old.

use super::regions::Regions;
use crate::block::BlockRun;
use crate::volume::tasks::TaskId;

/// Copies under way or announced at once; further reads are not promoted.
const PROMOTIONS_MAX: usize = 256;

struct Announced {
    task: TaskId,
    blocks: BlockRun,
    cancelled: bool,
}

#[derive(Default)]
pub(crate) struct Promotions {
    announced: Vec<Announced>,
    regions: Regions,
}

impl Promotions {
    pub(crate) fn is_full(&self) -> bool {
        self.announced.len() >= PROMOTIONS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.announced.is_empty()
    }

    pub(crate) fn announce(&mut self, task: TaskId, blocks: BlockRun) {
        self.regions.note(blocks);
        self.announced.push(Announced { task, blocks, cancelled: false });
    }

    /// Cancels promotions of `blocks`, which a request is about to change.
    pub(crate) fn cancel(&mut self, blocks: BlockRun) {
        if !self.regions.may_touch(blocks) {
            return;
        }
        for other in &mut self.announced {
            other.cancelled |= other.blocks.overlaps(blocks);
        }
    }

    /// Removes the next run that `task` announced. Returns the run, and true if its promotion was
    /// cancelled.
    pub(crate) fn take(&mut self, task: TaskId) -> Option<(BlockRun, bool)> {
        let at = self.announced.iter().position(|other| other.task == task)?;
        let taken = self.announced.remove(at);
        self.regions.forget(taken.blocks);
        Some((taken.blocks, taken.cancelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn promotions_of_a_task_are_taken_in_order() {
        let run = |first| BlockRun { first: Block(first), count: 1 };
        let mut promotions = Promotions::default();
        [(1, 10), (2, 20), (1, 30)].into_iter().for_each(|(task, first)| promotions.announce(task, run(first)));
        promotions.cancel(run(30));
        assert_eq!(promotions.take(1), Some((run(10), false)));
        assert_eq!(promotions.take(1), Some((run(30), true)));
        assert_eq!(promotions.take(1), None);
        assert!(!promotions.is_empty());
        assert_eq!(promotions.take(2), Some((run(20), false)));
        assert!(promotions.is_empty());
    }

    #[test]
    fn promotions_are_full_at_their_limit() {
        let mut promotions = Promotions::default();
        for task in 0..PROMOTIONS_MAX as TaskId {
            assert!(!promotions.is_full());
            promotions.announce(task, BlockRun { first: Block(0), count: 1 });
        }
        assert!(promotions.is_full());
    }
}
