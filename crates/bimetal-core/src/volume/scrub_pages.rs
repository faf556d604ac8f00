//! Scrub of metadata: reads both copies of each page of metadata before the scrub reads blocks. The
//! pages are those of the states, the superblocks, a cache's slot table, a log's index and the
//! table of places.
//!
//! Recovery needs one sound copy of each page. A server may run for months, and both copies may be
//! damaged meanwhile. So a bad page is reported and [mended](super::mend_pages) while the other
//! copy is sound. A page is bad if it cannot be read, does not match its checksum, or is older than
//! the content that the volume stored there. A page may be written while it is read. So a page
//! counts as bad only after two bad reads, during which no page of its kind was written.
//!
//! A page that was bad is read again at the end of the scrub, which tells whether it is bad still.
//!
//! A cache's ring is not read: a checkpoint before the end of a scrub takes over the ring's pages.
//! Heads and feet of a log's segments are not read either. Recovery needs them only for segments
//! after the last page of the index.

use std::collections::VecDeque;

use super::mend_pages::Mending;
use super::metadata_pages::{Pages, bytes_read};
use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::journal::page::{self, Page};
use crate::journal::record::{self, Kind};
use crate::journal::state::StateCopies;
use crate::journal::superblock::Superblock;
use crate::journal::table;
use crate::journal::turns::{COPIES, Found, TURNS};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::places;
use crate::scheme::MemberState;
use crate::units::{Bytes, SectorRange};

/// Pages of the slot table or of the index that are read at once.
const PAGES_AT_ONCE: u32 = 64;
/// Number of bad reads after which a page counts as bad. After [`READS_MAX`] reads the page is read
/// once more at the end.
const BAD_READS: u8 = 2;
const READS_MAX: u8 = 8;

/// Adjacent pages that a scrub reads.
pub(crate) struct PagesJob {
    pages: Pages,
    /// Pages to read again, each alone. The last page of the list is being read.
    again: Vec<Pages>,
    /// Reads of that page, and how many of these were bad while no page of its kind was written.
    reads: u8,
    bad: u8,
    /// The writes of the volume when the read began; `None` if a write was under way.
    writes: Option<u64>,
    /// The bad page that is being mended.
    mending: Option<Mending>,
}

impl<P: Payload> Volume<P> {
    /// Returns the pages of metadata that a scrub reads, in order.
    pub(super) fn pages_to_scrub(&self) -> VecDeque<Pages> {
        let turns = || (0..TURNS as u64).flat_map(|turn| (0..COPIES).map(move |copy| (turn, copy)));
        let of_home = |home| turns().map(move |(turn, copy)| Pages::State { home, turn, copy });
        let mut pages: VecDeque<Pages> = self.view.layout.homes().into_iter().flat_map(of_home).collect();
        if self.view.layout.slots.is_some() && self.view.layout.metadata.is_some() {
            pages.extend(turns().map(|(turn, copy)| Pages::Superblock { turn, copy }));
        }
        if let Some(cache) = self.store.cache() {
            let len = cache.ring.table_len();
            let firsts = || (0..len).step_by(PAGES_AT_ONCE as usize);
            let table =
                |copy| firsts().map(move |first| Pages::Table { first, count: PAGES_AT_ONCE.min(len - first), copy });
            pages.extend((0..COPIES).flat_map(table));
        }
        if let Some(log) = self.store.log() {
            let index = |copy| {
                let parts = log.index.parts(PAGES_AT_ONCE);
                parts.map(move |(first, count)| Pages::Index { first, count, copy })
            };
            pages.extend((0..COPIES).flat_map(index));
        }
        if let Some(places) = &self.view.layout.places {
            let copies = |number| (0..COPIES).map(move |copy| Pages::Places { number, copy });
            pages.extend((0..places.pages()).flat_map(copies));
        }
        pages
    }

    /// Begins to read the next pages of metadata on a member that answers reads. Returns their
    /// size; `None` if no page is left.
    pub(super) fn scrub_pages(&mut self) -> Option<Bytes> {
        let pages = loop {
            let next = self.scrub.next_pages()?;
            let member = self.place_of_pages(next).0;
            if self.is_readable(member) {
                break next;
            }
            self.scrub.pages_unread(next, member, self.is_gone(member));
        };
        self.scrub.read_of_pages_begun();
        let task = self.begin_task(Job::Running);
        let job = PagesJob { pages, again: Vec::new(), reads: 0, bad: 0, writes: None, mending: None };
        Some(self.read_pages(task, job))
    }

    /// Reads the pages of the job, or the last page that is to be read again. Returns their size.
    fn read_pages(&mut self, task: TaskId, mut job: PagesJob) -> Bytes {
        let pages = job.again.last().copied().unwrap_or(job.pages);
        let (member, range) = self.place_of_pages(pages);
        job.writes = self.writes_if_quiet(pages);
        let command = Command { kind: OpKind::Read, range, fua: false };
        self.issue(task, purpose::BACKGROUND, member, command, P::empty());
        self.put_job(task, Job::ScrubPages(Box::new(job)));
        range.len.bytes()
    }

    pub(super) fn place_of_pages(&self, pages: Pages) -> (MemberId, SectorRange) {
        let layout = &self.view.layout;
        match pages {
            Pages::State { home, turn, copy } => (home, layout.state_place(home, turn, copy)),
            Pages::Superblock { turn, copy } => {
                (self.metadata_member(), layout.superblock_place(turn, copy).expect("slots have superblocks"))
            }
            Pages::Table { first, count, copy } => {
                let cache = self.store.cache().expect("only a cache has a slot table");
                (self.metadata_member(), cache.ring.table_place(first, count, copy))
            }
            Pages::Index { first, count, copy } => {
                let log = self.store.log().expect("only a log has an index");
                (self.metadata_member(), log.index.place(first, count.into(), copy))
            }
            Pages::Places { number, copy } => {
                let table = layout.metadata.expect("places have a table");
                (table.member, places::page_place(table.first_sector, number, copy))
            }
        }
    }

    /// Returns a number that changes with each write of a page of this kind; `None` while such a
    /// page is being written.
    fn writes_if_quiet(&self, pages: Pages) -> Option<u64> {
        if !self.can_mend(self.place_of_pages(pages).0) {
            // Nothing is written to a member that refuses writes.
            return Some(0);
        }
        let log = self.store.log();
        let (is_writing, writes) = match pages {
            Pages::State { .. } => (self.announcements.is_writing(), self.announcements.sequence()),
            Pages::Superblock { .. } if log.is_some() => {
                (self.is_writing_log_superblock(), self.store.superblock.sequence)
            }
            Pages::Superblock { .. } | Pages::Table { .. } => (self.is_checkpointing(), self.statistics.checkpoints),
            Pages::Index { .. } => (log?.index.is_writing(), log?.index.head()),
            Pages::Places { .. } => (self.view.relocating, self.statistics.relocated_ranges),
        };
        (!is_writing).then_some(writes)
    }

    /// Returns true if a member is part of the volume and answers reads. A member that refuses
    /// writes is read, because the next start needs its pages.
    pub(super) fn is_readable(&self, member: MemberId) -> bool {
        !self.is_gone(member) && !self.is_unreadable(member)
    }

    pub(super) fn is_gone(&self, member: MemberId) -> bool {
        self.view.member(member).state == MemberState::Failed
    }

    /// Handles the end of a read, or of a write that mends a page.
    pub(super) fn note_pages(&mut self, task: TaskId, mut job: PagesJob, status: Status, payload: &P) {
        let member = self.place_of_pages(job.pages).0;
        let is_over = status == Status::Gone || self.is_closing() || !self.is_readable(member);
        job.mending = match job.mending.take() {
            Some(_) if is_over || !self.can_mend(member) => self.mending_ended(),
            Some(mending) => self.mend_on(mending, status, payload),
            None if is_over => None,
            None => self.judge_pages(&mut job, status, payload).and_then(|bad| self.note_bad_page(bad)),
        };
        if let Some(mending) = &job.mending {
            self.issue_mending(task, mending);
            return self.put_job(task, Job::ScrubPages(Box::new(job)));
        }
        if is_over || job.again.is_empty() {
            self.scrub.read_of_pages_ended(is_over && !self.is_gone(member));
            return self.end_task(task);
        }
        let bytes = self.read_pages(task, job);
        self.scrub.page_read_again(self.view.now, bytes);
    }

    /// Judges the pages that were read. Returns a page that counts as bad.
    fn judge_pages(&mut self, job: &mut PagesJob, status: Status, payload: &P) -> Option<Pages> {
        let bytes = bytes_read(status, payload);
        let Some(pages) = job.again.last().copied() else {
            let read = page::pages(&bytes).map(Some).chain(std::iter::repeat(None));
            let bad = job.pages.each().zip(read).filter(|(pages, page)| !self.is_sound_page(*pages, *page));
            job.again = bad.map(|(pages, _)| pages).collect();
            return None;
        };
        let is_sound = self.is_sound_page(pages, page::pages(&bytes).next());
        let is_quiet = job.writes.is_some() && job.writes == self.writes_if_quiet(pages);
        job.reads += 1;
        job.bad += u8::from(!is_sound && is_quiet);
        let mut is_bad = job.bad >= BAD_READS;
        if is_sound || is_bad || job.reads >= READS_MAX {
            if !is_sound && !is_bad {
                is_bad = !self.scrub.put_back(self.view.now, pages);
            }
            job.again.pop();
            (job.reads, job.bad) = (0, 0);
        }
        is_bad.then_some(pages)
    }

    /// Notes a bad page, and begins to mend it. A page that was mended and is still bad stays bad.
    fn note_bad_page(&mut self, pages: Pages) -> Option<Mending> {
        let (member, _) = self.place_of_pages(pages);
        let is_new = self.scrub.found_bad_page(pages, member);
        if is_new && self.can_mend(member) { self.begin_mending(pages) } else { None }
    }

    /// Returns true if pages of `member` may be written.
    fn can_mend(&self, member: MemberId) -> bool {
        self.view.member(member).state == MemberState::Online
    }

    /// Returns true if a page has the content of its kind and place, and no older content than the
    /// volume stored there. The age of a state is not judged.
    pub(super) fn is_sound_page(&self, pages: Pages, page: Option<&Page>) -> bool {
        let volume = self.store.identity();
        match pages {
            Pages::State { turn, .. } => match StateCopies::found(turn as usize, page, volume) {
                Found::Blank => self.announcements.may_lack_copies,
                found => matches!(found, Found::Sound(..)),
            },
            Pages::Superblock { turn, .. } => {
                let newest = self.store.superblock.sequence;
                let found = Superblock::found(turn as usize, page, volume);
                matches!(found, Found::Sound(number, _) if number + 1 >= newest)
            }
            Pages::Table { first, .. } => page.is_some_and(|page| {
                let written = self.store.cache().map_or(0, |cache| cache.ring.generation(first));
                let found = table::header_at(page, volume, first);
                found.is_some_and(|header| header.generation >= written) || (written == 0 && page::is_blank(page))
            }),
            Pages::Index { first, .. } => {
                let is_needed = self.store.log().is_some_and(|log| log.index.has_page(first));
                let header =
                    page.and_then(|page| record::decode_page(Kind::Index, page).ok()).map(|(header, _)| header);
                !is_needed || header.is_some_and(|header| header.volume == volume && header.number == first)
            }
            Pages::Places { number, .. } => {
                let written = self.view.layout.places.as_ref().map_or(0, |places| places.version(number));
                let version = page.and_then(|page| places::version_of(page, number, volume));
                version.is_some_and(|version| version >= written)
            }
        }
    }
}
