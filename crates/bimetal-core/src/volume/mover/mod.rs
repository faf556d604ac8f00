//! The mover: which move is under way, when the next move may begin, and the time since which
//! content has waited for a move.
//!
//! The steps of a move are in `moves.rs`.

pub(super) mod age;
pub(super) mod pace;
pub(super) mod pauses;
pub(super) mod superseded;

use super::settle::Settling;
use super::tasks::TaskId;
use crate::block::Block;
use age::DirtySince;
use pace::Pace;
use pauses::Pauses;
use superseded::Superseded;

/// The moves of a volume: one at a time.
pub(super) struct Mover {
    task: Option<TaskId>,
    /// Set while the move waits for requests that change the home of all its remaining blocks.
    held_back: bool,
    /// The block that a request last read from a slot: an urgent move begins at this block.
    last_slot_read: Option<Block>,
    pub(super) pauses: Pauses,
    pub(super) pace: Pace,
    pub(super) superseded: Superseded,
    pub(super) dirty_since: DirtySince,
    /// Records of moves that the drive with the slots is to make stable.
    pub(super) settling: Option<Settling>,
}

impl Mover {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            task: None,
            held_back: false,
            last_slot_read: None,
            pauses: Pauses::default(),
            pace,
            superseded: Superseded::default(),
            dirty_since: DirtySince::Clean,
            settling: None,
        }
    }

    /// Returns the task of the move under way.
    #[inline]
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Returns true if no move is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.task.is_none()
    }

    pub(super) fn begin(&mut self, task: TaskId) {
        self.task = Some(task);
    }

    /// Ends the move under way: no older version has to go home any more.
    pub(super) fn end(&mut self) {
        self.task = None;
        self.superseded.clear();
    }

    /// Lets the move wait until a change of home ends.
    pub(super) fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Notes that a change of home ended. Returns the move, if the move waited for that change.
    pub(super) fn home_changed(&mut self) -> Option<TaskId> {
        if std::mem::take(&mut self.held_back) { self.task } else { None }
    }

    /// Notes that a request read `block` from a slot.
    #[inline]
    pub(super) fn slot_was_read(&mut self, block: Block) {
        self.last_slot_read = Some(block);
    }

    pub(super) fn last_slot_read(&self) -> Option<Block> {
        self.last_slot_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_that_held_back_goes_on_once_when_a_change_ends() {
        let mut mover = Mover::new(Pace::default());
        assert_eq!(mover.home_changed(), None);
        mover.begin(7);
        assert_eq!(mover.home_changed(), None, "it is not held back");
        mover.hold_back();
        assert_eq!(mover.home_changed(), Some(7));
        assert_eq!(mover.home_changed(), None, "it goes on already");
        mover.end();
        assert!(mover.is_idle());
    }
}
