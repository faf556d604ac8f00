//! Free slots are discarded on their drive while it is idle, for schemes that want it: flash then need not copy what they held.
//!
//! A slot is free once the record that took its block out of it is durable and nobody reads it any more, so that anybody might
//! write it: what holds for a write holds for a discard. While it is discarded it counts as taken, so that no write overtakes the
//! discard on its way.

use super::operations::purpose;
use super::{Job, Store, TaskId, Volume};
use crate::block_map::Slot;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::Nanoseconds;

/// How long no request has used the drive when a discard begins.
const IDLE: Nanoseconds = Nanoseconds::from_millis(10);

/// Slots that are discarded at once: what a write may find taken.
const SLOTS_MAX: u32 = 1024;

/// Adjacent slots on their way to be discarded.
pub(crate) struct DiscardJob {
    first: Slot,
    count: u32,
}

impl<P: Payload> Volume<P> {
    /// When the next discard may begin.
    pub(super) fn discard_at(&self) -> Option<Nanoseconds> {
        let Store::Cache { space, .. } = &self.store else { return None };
        let wanted = space.holds_stale() && !self.discarding && !self.is_closing() && self.slot_waiters.is_empty();
        let load = self.view.member(self.member_of_slots());
        if wanted && load.state == MemberState::Online { load.idle_at(IDLE) } else { None }
    }

    /// Discards the next free slots that are adjacent.
    pub(super) fn begin_discard(&mut self) {
        let Store::Cache { space, .. } = &mut self.store else { return };
        let Some((first, count)) = space.take_stale(SLOTS_MAX) else { return };
        self.discarding = true;
        self.update_free_slots();
        let range = self.slot_sectors(first, count.into());
        let task = self.begin_idle_task(Job::Discard(DiscardJob { first, count }));
        let command = Command { kind: OpKind::Discard, range, fua: false };
        self.issue(task, purpose::BACKGROUND, self.member_of_slots(), command, P::empty());
    }

    /// A discard has ended, one way or another: the slots are free, and a drive that does not do it is not asked again.
    pub(super) fn end_discard(&mut self, task: TaskId, job: &DiscardJob, status: Status) {
        self.discarding = false;
        let Store::Cache { space, .. } = &mut self.store else { return };
        (job.first.0..job.first.0 + job.count).for_each(|slot| space.give_back_unused(Slot(slot)));
        if status != Status::Done {
            space.forget_stale();
        }
        self.end_task(task);
        self.update_free_slots();
        self.wake_slot_waiters();
    }
}
