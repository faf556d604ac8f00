//! Close: makes everything acknowledged stable, and records that nothing is in doubt.
//!
//! The next recovery then trusts every clean copy. A volume that was not closed recovers as well,
//! but drops the clean copies in marked regions, because home may be newer there.

use super::{Job, Store, TaskId, Volume};
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Nanoseconds;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
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

impl<P: Payload> Volume<P> {
    /// Begins to close the volume. No request may arrive any more; those under way are finished
    /// first.
    pub fn close(&mut self, now: Nanoseconds) {
        self.set_time(now);
        self.closing = Closing::Wanted;
        self.pump();
    }

    /// Returns true if the volume is closed: nothing is under way or will be.
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    /// Takes the next step of closing. Returns true if there was one.
    pub(super) fn close_on(&mut self) -> bool {
        match self.closing {
            Closing::Wanted if self.admitted == 0 && self.queue.is_empty() && !self.checkpointing => {
                self.closing = Closing::Committing;
                let task = self.begin_task(Job::Running);
                self.park(task, Job::Close(Status::Done));
                self.await_commit(task, true);
                true
            }
            Closing::Checkpoint if self.tasks.is_empty() => {
                self.closing = Closing::Closed;
                true
            }
            _ => false,
        }
    }

    /// Returns true if the volume is closing, so that no move may begin.
    pub(super) fn is_closing(&self) -> bool {
        self.closing != Closing::No
    }

    /// Goes on after the commit: home now holds all that clean copies hold, or the commit failed
    /// and the marks stay.
    pub(super) fn run_close(&mut self, task: TaskId, status: Status) {
        self.end_task(task);
        self.closing = Closing::Checkpoint;
        if self.status_if_told(status) == Status::Done && self.view.layout.is_mirrored() {
            self.announce_equal();
        }
        let is_sure = status == Status::Done && !self.homes_have_failed_since(0);
        let unmarked = is_sure && self.promotions.is_empty() && self.moving.is_none();
        if unmarked && matches!(self.store, Store::Cache { .. }) && self.view.slots_online() && !self.checkpointing {
            self.intents.clear();
            self.begin_checkpoint();
        } else {
            self.begin_note();
        }
    }
}
