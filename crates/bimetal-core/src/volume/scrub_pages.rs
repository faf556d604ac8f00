//! Scrub of metadata: reads both copies of the pages of the states, and of a cache's superblocks
//! and slot table, before the scrub reads blocks.
//!
//! Recovery needs one sound copy of each page. A server may run for months, and both copies may be
//! damaged meanwhile. So a bad page is reported while the other copy is sound. A page may be
//! written while it is read. So a page counts as bad only after two bad reads, during which no page
//! of its kind was written. A bad page whose copy is sound stays as it is: the next recovery writes
//! it from the copy. If both copies are bad, the volume writes the content from its memory at once.

use std::collections::VecDeque;

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::journal::page::{self, Page};
use crate::journal::state::StateCopies;
use crate::journal::superblock::Superblock;
use crate::journal::table;
use crate::journal::turns::{COPIES, Found, TURNS};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::{Bytes, SectorRange};

/// Pages of the slot table that are read at once.
const PAGES_AT_ONCE: u32 = 64;
/// Number of bad reads after which a page counts as bad, and number of reads of a page at most.
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
    writes: Option<Writes>,
}

/// Number of the newest state, and number of checkpoints.
type Writes = (u64, u64);

/// Adjacent pages of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Pages {
    State { home: MemberId, turn: u64, copy: usize },
    Superblock { turn: u64, copy: usize },
    Table { first: u32, count: u32, copy: usize },
}

impl Pages {
    /// Returns the first copy of these pages.
    fn first_copy(mut self) -> Self {
        let (Self::State { copy, .. } | Self::Superblock { copy, .. } | Self::Table { copy, .. }) = &mut self;
        *copy = 0;
        self
    }

    /// Returns each page alone.
    fn each(self) -> impl Iterator<Item = Self> {
        let (first, count) = match self {
            Self::Table { first, count, .. } => (first, count),
            _ => (0, 1),
        };
        (first..first + count).map(move |page| match self {
            Self::Table { copy, .. } => Self::Table { first: page, count: 1, copy },
            one => one,
        })
    }
}

impl<P: Payload> Volume<P> {
    /// Returns the pages of metadata that a scrub reads, in order.
    pub(super) fn pages_to_scrub(&self) -> VecDeque<Pages> {
        let turns = || (0..TURNS as u64).flat_map(|turn| (0..COPIES).map(move |copy| (turn, copy)));
        let of_home = |home| turns().map(move |(turn, copy)| Pages::State { home, turn, copy });
        let mut pages: VecDeque<Pages> = self.view.layout.homes().into_iter().flat_map(of_home).collect();
        if let Some(cache) = self.store.cache() {
            let len = cache.ring.table_len();
            pages.extend(turns().map(|(turn, copy)| Pages::Superblock { turn, copy }));
            let firsts = || (0..len).step_by(PAGES_AT_ONCE as usize);
            let table =
                |copy| firsts().map(move |first| Pages::Table { first, count: PAGES_AT_ONCE.min(len - first), copy });
            pages.extend((0..COPIES).flat_map(table));
        }
        pages
    }

    /// Begins to read the next pages of metadata on a member that answers reads. Returns their
    /// size; `None` if no page is left.
    pub(super) fn scrub_pages(&mut self) -> Option<Bytes> {
        let pages = loop {
            let next = self.scrub.next_pages()?;
            if self.is_readable(self.place_of_pages(next).0) {
                break next;
            }
        };
        self.scrub.read_of_pages_begun();
        let task = self.begin_task(Job::Running);
        let job = PagesJob { pages, again: Vec::new(), reads: 0, bad: 0, writes: None };
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

    fn place_of_pages(&self, pages: Pages) -> (MemberId, SectorRange) {
        match pages {
            Pages::State { home, turn, copy } => (home, self.view.layout.state_place(home, turn, copy)),
            Pages::Superblock { turn, copy } => {
                let place = self.view.layout.superblock_place(turn, copy);
                (self.metadata_member(), place.expect("a cache has superblocks"))
            }
            Pages::Table { first, count, copy } => {
                let cache = self.store.cache().expect("only a cache has a slot table");
                (self.metadata_member(), cache.ring.table_place(first, count, copy))
            }
        }
    }

    /// Returns the writes of the volume so far; `None` while a page of this kind is being written.
    fn writes_if_quiet(&self, pages: Pages) -> Option<Writes> {
        let writes = match pages {
            Pages::State { .. } => self.announcements.is_writing(),
            _ => self.is_checkpointing(),
        };
        (!writes).then_some((self.announcements.sequence(), self.statistics.checkpoints))
    }

    /// Returns true if a member takes part and answers reads.
    fn is_readable(&self, member: MemberId) -> bool {
        self.view.member(member).state == MemberState::Online && !self.is_unreadable(member)
    }

    /// Handles the end of a read.
    pub(super) fn note_pages(&mut self, task: TaskId, mut job: PagesJob, status: Status, payload: &P) {
        let member = self.place_of_pages(job.pages).0;
        let is_over = status == Status::Gone || self.is_closing() || !self.is_readable(member);
        if !is_over {
            self.judge_pages(&mut job, status, payload);
        }
        if is_over || job.again.is_empty() {
            self.scrub.read_ended(0, self.is_closing());
            return self.end_task(task);
        }
        self.read_pages(task, job);
    }

    fn judge_pages(&mut self, job: &mut PagesJob, status: Status, payload: &P) {
        let bytes = if status == Status::Done { payload.to_metadata() } else { Vec::new() };
        let Some(pages) = job.again.last().copied() else {
            let read = page::pages(&bytes).map(Some).chain(std::iter::repeat(None));
            let bad = job.pages.each().zip(read).filter(|(pages, page)| !self.is_sound_page(*pages, *page));
            job.again = bad.map(|(pages, _)| pages).collect();
            return;
        };
        let is_sound = self.is_sound_page(pages, page::pages(&bytes).next());
        let is_quiet = job.writes.is_some() && job.writes == self.writes_if_quiet(pages);
        job.reads += 1;
        job.bad += u8::from(!is_sound && is_quiet);
        if is_sound || job.bad >= BAD_READS || job.reads >= READS_MAX {
            if job.bad >= BAD_READS {
                self.note_bad_page(pages);
            }
            job.again.pop();
            (job.reads, job.bad) = (0, 0);
        }
    }

    /// Notes a bad page. If its copy is bad, too, a recovery would not find the content any more:
    /// the content is written again from memory. While it is written, a power cut can lose nothing
    /// that is not lost already.
    fn note_bad_page(&mut self, pages: Pages) {
        let (member, _) = self.place_of_pages(pages);
        if !self.scrub.found_bad_page(member, pages.first_copy()) {
            return;
        }
        match pages {
            Pages::State { turn, .. } => {
                self.announcements.repeat_turn(turn);
                self.write_state();
            }
            _ => {
                if let (Pages::Table { first, .. }, Some((cache, _))) = (pages, self.store.cache_mut()) {
                    cache.ring.touch_page(first);
                }
                if !self.is_checkpointing() && self.view.slots_online() {
                    self.begin_checkpoint();
                }
            }
        }
    }

    /// Returns true if a page has the content of its kind and place, as far as the page itself
    /// tells. Version 1 of the format wrote the copies of a mirror's state later.
    fn is_sound_page(&self, pages: Pages, page: Option<&Page>) -> bool {
        let volume = self.store.identity();
        match pages {
            Pages::State { turn, .. } => match StateCopies::found(turn as usize, page, volume) {
                Found::Blank => self.view.layout.is_mirrored(),
                found => matches!(found, Found::Sound(..)),
            },
            Pages::Superblock { turn, .. } => {
                matches!(Superblock::found(turn as usize, page, volume), Found::Sound(..))
            }
            Pages::Table { first, .. } => page.is_some_and(|page| {
                let is_unwritten = self.store.cache().is_none_or(|cache| cache.ring.generation(first) == 0);
                table::header_at(page, volume, first).is_some() || (is_unwritten && page::is_blank(page))
            }),
        }
    }
}
