//! Notes: pages on the drive that record up to where everything is stable, data included.
//!
//! A page of the ring, or the head of a segment, records the stable end as of the time when the
//! page was written. The recorded stable end proves that the flush before the page has ended. So
//! after a crash the slots of the last flush are in doubt. A slot in doubt that does not match its
//! checksum may never have been written, or may have been damaged after the write. A mismatch is an
//! error only if the slot's record is surely stable. A note without records, forced to the drive
//! within [`NOTE_AFTER`] of the last flush, ends the doubt. After the note an idle drive is not
//! woken for metadata.
//!
//! No commit runs beside the note of a cache. The flush of a commit makes all pages durable that
//! were taken from the ring. The flush of a commit would not cover a note that is still being
//! written. Recovery would take the missing note, a hole before flushed pages, for the ring's end.
//!
//! Volumes without data, of the simulator, write no notes.

use super::store::Note;
use super::{Job, TaskId, Volume};
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Nanoseconds;

/// Time from the last flush to its note. A further flush within that time restarts the time.
const NOTE_AFTER: Nanoseconds = Nanoseconds::from_millis(500);

impl<P: Payload> Volume<P> {
    /// Schedules a note of the stable end, unless another page or segment records it first.
    pub(super) fn note_later(&mut self) {
        let at = self.wants_note().then(|| self.view.now.saturating_add(NOTE_AFTER));
        self.store.note_later(at);
    }

    /// Returns the time at which a note is due.
    pub(super) fn note_at(&self) -> Option<Nanoseconds> {
        self.store.note_at
    }

    fn wants_note(&self) -> bool {
        P::CARRIES_DATA && self.store.kind().wants_note() && self.view.slots_online()
    }

    /// Writes a note if one is still wanted and has room.
    pub(super) fn begin_note(&mut self) {
        self.store.note_later(None);
        self.complete_index();
        // The end of a commit schedules the note again.
        if !self.wants_note() || self.slots_refuse() || self.commit.is_busy() || self.is_noting() {
            return;
        }
        match self.store.kind_mut().begin_note() {
            None => {}
            Some(Note::Segment) => self.write_segment(),
            Some(Note::Pages { stable, taken }) => {
                let task = self.begin_task(Job::Running);
                self.put_job(task, Job::Note { stable, status: Status::Done });
                self.issue_ring_pages(task, taken, true);
            }
        }
    }

    /// Ends the note of a cache, stored or failed.
    pub(super) fn end_note(&mut self, task: TaskId, stable: u64, status: Status) {
        self.end_task(task);
        if let Some((cache, _)) = self.store.cache_mut() {
            cache.note_ended(stable, status == Status::Done);
        }
        if status == Status::MediaError {
            self.refuse_writes(self.metadata_member());
        }
    }
}
