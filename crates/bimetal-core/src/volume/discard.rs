//! Discards free slots while their drive is idle, if the scheme asks for discards. Flash then need
//! not copy the slots' old content.
//!
//! A slot is free once the record that took its block out is durable and no task reads it any more.
//! A discard takes free slots, as a write does. A slot counts as taken while it is discarded, so
//! that no write overtakes the discard.

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block_map::Slot;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::Nanoseconds;

/// Time without a request on the drive after which a discard may begin.
const IDLE: Nanoseconds = Nanoseconds::from_millis(10);

/// Slots of one discard: the most slots that are unavailable to a write because of a discard.
const SLOTS_MAX: u32 = 1024;

/// Adjacent slots that are being discarded.
pub(crate) struct DiscardJob {
    first: Slot,
    count: u32,
}

impl<P: Payload> Volume<P> {
    /// Returns the time at which the next discard may begin.
    pub(super) fn discard_at(&self) -> Option<Nanoseconds> {
        let cache = self.store.cache()?;
        let wanted = cache.space.holds_stale()
            && !cache.discarding
            && !self.is_closing()
            && !self.requests.waiters.any_for_slots();
        let load = self.view.member(self.member_of_slots());
        if wanted && load.state == MemberState::Online { load.idle_at(IDLE) } else { None }
    }

    /// Discards the next run of adjacent free slots.
    pub(super) fn begin_discard(&mut self) {
        let Some((cache, _)) = self.store.cache_mut() else { return };
        let Some((first, count)) = cache.space.take_stale(SLOTS_MAX) else { return };
        cache.discarding = true;
        self.update_free_slots();
        let range = self.slot_sectors(first, count.into());
        let task = self.begin_idle_task(Job::Discard(DiscardJob { first, count }));
        let command = Command { kind: OpKind::Discard, range, fua: false };
        self.issue(task, purpose::BACKGROUND, self.member_of_slots(), command, P::empty());
    }

    /// Ends a discard, successful or not, and frees its slots. A drive that failed a discard is
    /// never asked again.
    pub(super) fn end_discard(&mut self, task: TaskId, job: &DiscardJob, status: Status) {
        let Some((cache, _)) = self.store.cache_mut() else { return };
        cache.discarding = false;
        (job.first.0..job.first.0 + job.count).for_each(|slot| cache.space.give_back_unused(Slot(slot)));
        if status != Status::Done {
            cache.space.forget_stale();
        }
        self.end_task(task);
        self.update_free_slots();
        self.wake_slot_waiters();
    }
}
