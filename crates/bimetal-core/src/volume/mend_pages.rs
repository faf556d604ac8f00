//! Mending of metadata: a page that a scrub found bad is written again while the volume serves.
//!
//! A page of the states is written by the next [state](super::announce), the bad copy first. A
//! cache's superblocks are written by a checkpoint, first those of the other turn, which has the
//! same content. So the last sound copy is never written first. A bad copy of a page of the slot
//! table is written from the other copy. If both copies are bad, a checkpoint writes the page from
//! memory: a recovery would not find the content any more. A log's superblocks and the pages of the
//! table of places are written from memory. A bad page of a log's index stays as it is: the
//! segments have its records, and it is free again after the next migration. A write may fail, so
//! the scrub reads every bad page again at its end.
//!
//! While a page is written from its copy or from memory, no other task may write it. A checkpoint,
//! a migration's superblocks and a relocation wait so long.

use super::metadata_pages::{Pages, bytes_read};
use super::operations::purpose;
use super::{TaskId, Volume};
use crate::journal::page;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;

/// A step of mending a bad page.
pub(super) enum Mending {
    /// The other copy of the page is being read.
    Reading(Pages),
    /// The page is being written.
    Writing(Pages, Vec<u8>),
}

/// Pages of metadata that are being mended, and what waits for them.
#[derive(Default)]
pub(super) struct Mended {
    under_way: u32,
    waiting: Vec<TaskId>,
    /// Set if a checkpoint is to write bad pages again and to take over the ring's pages, once no
    /// page is left to read.
    pub(super) wants_checkpoint: bool,
    /// Number of the last checkpoint that began because it was wanted.
    pub(super) checkpoint: u64,
    /// Number of the durable state when a copy of a state was last to be written again.
    state: u64,
}

/// Number of states after which each turn was written: the state that was under way, and one for
/// each turn.
const STATES: u64 = 3;

impl Mended {
    /// Returns true if a page is being mended, so that no task may write the page.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }
}

impl<P: Payload> Volume<P> {
    /// Begins to mend a page. Returns the first step, if the page is written from its copy or from
    /// memory.
    pub(super) fn begin_mending(&mut self, pages: Pages) -> Option<Mending> {
        let mending = match pages {
            Pages::State { home, turn, copy } => {
                if self.announcements.repeat_copy(home, turn, copy) {
                    self.scrub.mended.state = self.announcements.sequence();
                    self.write_state();
                }
                return None;
            }
            Pages::Superblock { turn, .. } if self.store.log().is_some() => {
                let newest = &self.store.superblock;
                let superblock = Some(newest.clone()).filter(|newest| newest.turn() == turn).or_else(|| newest.twin());
                Mending::Writing(pages, superblock?.encode().to_vec())
            }
            Pages::Superblock { .. } => {
                self.scrub.mended.wants_checkpoint = true;
                return None;
            }
            Pages::Table { .. } => Mending::Reading(pages),
            Pages::Index { .. } => return None,
            Pages::Places { number, .. } => {
                let page = self.view.layout.places.as_ref()?.page(number, self.store.identity());
                Mending::Writing(pages, page.to_vec())
            }
        };
        self.scrub.mended.under_way += 1;
        Some(mending)
    }

    /// Issues the operation of a step.
    pub(super) fn issue_mending(&mut self, task: TaskId, mending: &Mending) {
        match mending {
            Mending::Reading(pages) => {
                let (member, range) = self.place_of_pages(pages.other_copy());
                let command = Command { kind: OpKind::Read, range, fua: false };
                self.issue(task, purpose::BACKGROUND, member, command, P::empty());
            }
            Mending::Writing(pages, bytes) => {
                let (member, range) = self.place_of_pages(*pages);
                self.issue_metadata(task, member, range, true, P::from_metadata(bytes));
            }
        }
    }

    /// Takes the end of a step. Returns the next step.
    pub(super) fn mend_on(&mut self, mending: Mending, status: Status, payload: &P) -> Option<Mending> {
        match mending {
            Mending::Reading(pages) => {
                let bytes = bytes_read(status, payload);
                if self.is_sound_page(pages, page::pages(&bytes).next()) {
                    return Some(Mending::Writing(pages, bytes));
                }
                self.write_table_page_from_memory(pages);
            }
            Mending::Writing(..) => {}
        }
        self.mending_ended()
    }

    /// Lets the next checkpoint write a page of the slot table of which both copies are bad.
    fn write_table_page_from_memory(&mut self, pages: Pages) {
        if let (Pages::Table { first, .. }, Some((cache, _))) = (pages, self.store.cache_mut()) {
            cache.ring.touch_page(first);
            self.scrub.mended.wants_checkpoint = true;
        }
    }

    /// Lets the tasks go on that would have written the page.
    pub(super) fn mending_ended(&mut self) -> Option<Mending> {
        self.scrub.mended.under_way -= 1;
        if !self.scrub.mended.is_under_way() {
            let waiting = std::mem::take(&mut self.scrub.mended.waiting);
            self.tasks.wake_all(waiting);
            if self.store.cache().is_some() {
                self.wake_stuck_commit();
            }
        }
        None
    }

    /// Lets `task` go on once no page is being mended.
    pub(super) fn await_mending(&mut self, task: TaskId) {
        self.scrub.mended.waiting.push(task);
    }

    /// Returns true while a page is being written again, or will be. Later checkpoints and states
    /// do not count: under load, there may be one at any time.
    pub(super) fn is_mending(&self) -> bool {
        let mended = &self.scrub.mended;
        let is_checkpoint = self.is_checkpointing() && self.statistics.checkpoints == mended.checkpoint;
        let is_state = self.announcements.is_writing() && self.announcements.sequence() < mended.state + STATES;
        mended.is_under_way() || mended.wants_checkpoint || is_checkpoint || is_state
    }

    /// Returns true if a checkpoint may begin: no other checkpoint is under way, and no page is
    /// being mended.
    pub(super) fn may_checkpoint(&self) -> bool {
        !self.is_checkpointing() && !self.scrub.mended.is_under_way()
    }
}
