//! Close: everything acknowledged is made stable and the metadata says that nothing is in doubt, so that the next recovery
//! trusts every clean copy. A volume that was not closed recovers just as well, but drops copies that home may have outrun.

use super::{Job, Store, TaskId, Volume};
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Nanoseconds;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Closing {
    #[default]
    No,
    /// Requests under way, moves and the commit have still to end.
    Wanted,
    Committing,
    /// No region is marked any more: a checkpoint says so.
    Checkpoint,
    Closed,
}

impl<P: Payload> Volume<P> {
    /// Begins to close the volume: no request may arrive any more, and those under way are finished first.
    pub fn close(&mut self, now: Nanoseconds) {
        self.set_time(now);
        self.closing = Closing::Wanted;
        self.pump();
    }

    /// Whether the volume is closed: nothing is under way, and nothing will be.
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    /// Does what closing needs next; whether there was anything.
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

    /// Whether a move may not begin any more.
    pub(super) fn is_closing(&self) -> bool {
        self.closing != Closing::No
    }

    /// The commit has ended: home holds all that clean copies hold, or it failed and the marks stay.
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
