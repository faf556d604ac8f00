//! Order among requests that change content: two that share a block run one after the other, in order of arrival.
//! Reads need no order: what they read stays where it is until they end.

use crate::block::BlockRun;
use crate::volume::TaskId;

struct Change {
    task: TaskId,
    blocks: BlockRun,
    waits: bool,
}

/// The changes under way, in order of arrival. Their number is bounded by what a volume admits.
#[derive(Default)]
pub(crate) struct Ordering {
    changes: Vec<Change>,
}

impl Ordering {
    /// Lines `task` up; whether it may start at once.
    pub(crate) fn enter(&mut self, task: TaskId, blocks: BlockRun) -> bool {
        let waits = self.changes.iter().any(|other| other.blocks.overlaps(blocks));
        self.changes.push(Change { task, blocks, waits });
        !waits
    }

    /// Whether a change of `blocks` is under way.
    pub(crate) fn touches(&self, blocks: BlockRun) -> bool {
        self.changes.iter().any(|change| change.blocks.overlaps(blocks))
    }

    /// Takes `task` out and gives those that may start now.
    pub(crate) fn leave(&mut self, task: TaskId, start: &mut impl FnMut(TaskId)) {
        let Some(at) = self.changes.iter().position(|change| change.task == task) else {
            return;
        };
        let gone = self.changes.remove(at);
        for at in at..self.changes.len() {
            let (before, rest) = self.changes.split_at_mut(at);
            let change = &mut rest[0];
            let freed = change.waits && change.blocks.overlaps(gone.blocks);
            if freed && !before.iter().any(|other| other.blocks.overlaps(change.blocks)) {
                change.waits = false;
                start(change.task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

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
}
