//! Notes: a page on the drive that says up to where everything is stable, data included.
//!
//! A page of the ring, or the head of a segment, says what was stable when it was written: that the flush before it has ended.
//! So after a crash the slots of the last flush are in doubt: one that does not match its checksum may never have been written, or
//! may have been damaged since, and only the record of a slot that is surely stable makes that an error. A note without records,
//! forced to the drive within [`NOTE_AFTER`] of the last flush, ends the doubt. A drive that has had nothing to do for longer is
//! not woken for it.
//!
//! No commit is under way beside the note of a cache: the flush of a commit makes all pages durable that were taken from the ring, and
//! would not cover a note on its way. A hole before pages that were flushed would be taken for the ring's end.
//!
//! Volumes without data, of the simulator, write none.

use super::{Job, Store, TaskId, Volume};
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Nanoseconds;

/// How long after the last flush a note is written. Further flushes within that time make it the note of the last of them.
const NOTE_AFTER: Nanoseconds = Nanoseconds::from_millis(500);

impl<P: Payload> Volume<P> {
    /// Something was made stable: a note of it is due if nothing else is written that says so.
    pub(super) fn note_later(&mut self) {
        self.note_at = self.wants_note().then(|| self.view.now.saturating_add(NOTE_AFTER));
    }

    /// When a note is to be written.
    pub(super) fn note_at(&self) -> Option<Nanoseconds> {
        self.note_at
    }

    fn wants_note(&self) -> bool {
        let wanted = match &self.store {
            Store::HomeOnly => false,
            Store::Cache { ring, .. } => ring.wants_note(),
            Store::Log(log) => log.wants_note(),
        };
        P::CARRIES_DATA && wanted && self.view.slots_online()
    }

    /// Writes a note if one is still wanted and there is room for it.
    pub(super) fn begin_note(&mut self) {
        self.note_at = None;
        // The end of a commit asks again.
        if !self.wants_note() || self.slots_refuse() || self.commit.is_busy() || self.noting {
            return;
        }
        match &mut self.store {
            Store::HomeOnly => {}
            Store::Log(log) => {
                if log.fill_note() {
                    self.write_segment();
                }
            }
            Store::Cache { ring, .. } => {
                let stable = ring.durable();
                // A full ring is about to be taken over by the slot table, which ends the doubt too.
                let Some(taken) = ring.take_pages(0) else { return };
                let task = self.begin_task(Job::Running);
                self.put_job(task, Job::Note { stable, status: Status::Done });
                self.noting = true;
                self.issue_ring_pages(task, taken, true);
            }
        }
    }

    /// The note of a cache is on its drive, or cannot be written there.
    pub(super) fn end_note(&mut self, task: TaskId, stable: u64, status: Status) {
        self.noting = false;
        self.end_task(task);
        match &mut self.store {
            Store::Cache { ring, .. } if status == Status::Done => ring.has_noted(stable),
            Store::Cache { .. } if status == Status::MediaError => self.refuse_writes(self.metadata_member()),
            _ => {}
        }
    }
}
