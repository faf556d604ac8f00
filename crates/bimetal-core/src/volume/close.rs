//! Close: makes all acknowledged writes stable, and records that nothing is in doubt.
//!
//! After a close, the next recovery trusts every clean copy. The recovery of a volume that was not
//! closed drops the clean copies in marked regions, because home may be newer in these regions.

use super::{Job, TaskId, Volume};
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Nanoseconds;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Closing {
    #[default]
    No,
    /// Requests under way, moves and the commit must end first.
    Wanted,
    Committing,
    /// A checkpoint records that no region is marked any more.
    Checkpoint,
    Closed,
}

/// The last thing that a closing volume writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LastWrite {
    /// A checkpoint that records that no region is marked.
    Unmarked,
    /// A note that the last flush has ended. The marks stay.
    Note,
}

impl Closing {
    /// Returns the next state of the close, if that state is reached. `is_quiet` is true if every
    /// request is answered and no checkpoint is under way. `is_idle` is true if no task is left.
    fn next(self, is_quiet: bool, is_idle: bool) -> Option<Self> {
        match self {
            Self::Wanted if is_quiet => Some(Self::Committing),
            Self::Checkpoint if is_idle => Some(Self::Closed),
            _ => None,
        }
    }
}

/// Returns the last write of a cache that closes. The marks are cleared only if home surely has the
/// content of all clean copies: its commit was `sure`, and no change is under way
/// (`nothing_open`). The commit flushes no home that is gone. Such a home may have newer or older
/// content than its clean copies when it is back.
fn last_write(has_marks: bool, sure: bool, nothing_open: bool) -> LastWrite {
    if has_marks && sure && nothing_open { LastWrite::Unmarked } else { LastWrite::Note }
}

impl<P: Payload> Volume<P> {
    /// Begins to close the volume. No request may arrive any more; requests under way are finished
    /// first.
    pub fn close(&mut self, now: Nanoseconds) {
        self.set_time(now);
        self.closing = Closing::Wanted;
        self.pump();
    }

    /// Returns true if the volume is closed: nothing is under way, and nothing will begin.
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    /// Takes the next step of closing. Returns true if there was a step to take.
    pub(super) fn close_on(&mut self) -> bool {
        let is_quiet = self.requests.are_all_answered() && self.may_checkpoint();
        let Some(next) = self.closing.next(is_quiet, self.tasks.len() == 0) else { return false };
        self.closing = next;
        if next == Closing::Committing {
            let task = self.begin_task(Job::Running);
            self.park(task, Job::Close(Status::Done));
            self.await_commit(task, true);
        }
        true
    }

    /// Returns true if the volume is closing, so that no move may begin.
    pub(super) fn is_closing(&self) -> bool {
        self.closing != Closing::No
    }

    /// Goes on after the commit: home now has the content of all clean copies, or the commit failed
    /// and the marks stay.
    pub(super) fn run_close(&mut self, task: TaskId, status: Status) {
        self.end_task(task);
        self.closing = Closing::Checkpoint;
        if self.status_if_told(status, true) == Status::Done && self.view.layout.is_mirrored() {
            self.announce_equal();
        }
        let has_marks = self.store.cache().is_some() && self.view.slots_online();
        let has_homes = self.view.layout.homes().iter().all(|&home| !self.is_gone(home));
        let sure = status == Status::Done && has_homes && !self.homes_have_failed_since(0);
        let nothing_open = self.requests.promotions.is_empty() && self.mover.is_idle() && self.may_checkpoint();
        match last_write(has_marks, sure, nothing_open) {
            LastWrite::Unmarked => {
                if let Some((cache, _)) = self.store.cache_mut() {
                    cache.marks.clear();
                }
                self.begin_checkpoint();
            }
            LastWrite::Note => self.begin_note(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_closes_after_its_requests_its_commit_and_its_tasks() {
        assert_eq!(Closing::No.next(true, true), None);
        assert_eq!(Closing::Wanted.next(false, true), None, "a request is open");
        assert_eq!(Closing::Wanted.next(true, false), Some(Closing::Committing));
        assert_eq!(Closing::Committing.next(true, true), None, "the end of the commit leads on");
        assert_eq!(Closing::Checkpoint.next(true, false), None, "a task is left");
        assert_eq!(Closing::Checkpoint.next(true, true), Some(Closing::Closed));
    }

    /// A mark that is cleared too soon leaves an old clean copy that a recovery trusts.
    #[test]
    fn marks_stay_unless_home_surely_has_everything() {
        assert_eq!(last_write(true, true, true), LastWrite::Unmarked);
        assert_eq!(last_write(false, true, true), LastWrite::Note, "a log has no marks");
        assert_eq!(last_write(true, false, true), LastWrite::Note, "home may lack flushed content");
        assert_eq!(last_write(true, true, false), LastWrite::Note, "a copy or a move is under way");
    }
}
