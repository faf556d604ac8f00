//! Scrub of metadata: reads both copies of the pages of the states, and of a cache's superblocks
//! and slot table, before the scrub reads blocks.
//!
//! Recovery needs one sound copy of each page. A server may run for months, and both copies may be
//! damaged meanwhile. So a bad page is reported while the other copy is sound. A page may be
//! written while it is read. So a page counts as bad only after two bad reads, during which no page
//! of its kind was written. A bad page whose copy is sound stays as it is: the next recovery writes
//! it from the copy. If both copies are bad, the volume writes the content from its memory at once.

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::journal::page::{self, Page};
use crate::journal::state::State;
use crate::journal::superblock::Superblock;
use crate::journal::table;
use crate::journal::turns::{COPIES, TURNS};
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pages {
    State { home: MemberId, turn: u64, copy: usize },
    Superblock { turn: u64, copy: usize },
    Table { first: u32, count: u32, copy: usize },
}

/// The next page of metadata to scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextPage {
    /// A copy of a state: the number of the home in the layout, and of the place on the home.
    State {
        home: usize,
        place: usize,
    },
    Superblock {
        place: usize,
    },
    Table {
        copy: usize,
        page: u32,
    },
    None,
}

impl<P: Payload> Volume<P> {
    /// Begins to read the next pages of metadata. Returns their size; `None` if no page is left.
    pub(super) fn scrub_pages(&mut self) -> Option<Bytes> {
        let pages = self.next_pages()?;
        self.scrub.read_of_pages_begun();
        let task = self.begin_task(Job::Running);
        let job = PagesJob { pages, again: Vec::new(), reads: 0, bad: 0, writes: None };
        Some(self.read_pages(task, job))
    }

    fn next_pages(&mut self) -> Option<Pages> {
        let homes = self.view.layout.homes();
        let pages = self.store.cache().map_or(0, |cache| cache.ring.table_len());
        let mut next = *self.scrub.next_page()?;
        loop {
            let place = |at: usize| ((at / COPIES) as u64, at % COPIES);
            let (found, then) = match next {
                NextPage::State { home, .. } if home >= homes.len() => (None, NextPage::Superblock { place: 0 }),
                NextPage::State { home, place: TURNS_TIMES_COPIES } => {
                    (None, NextPage::State { home: home + 1, place: 0 })
                }
                NextPage::State { home, place: at } => {
                    let (turn, copy) = place(at);
                    let is_there = self.is_readable(homes[home]);
                    let found = is_there.then_some(Pages::State { home: homes[home], turn, copy });
                    (found, NextPage::State { home, place: at + 1 })
                }
                NextPage::Superblock { .. } | NextPage::Table { .. }
                    if pages == 0 || !self.is_readable(self.metadata_member()) =>
                {
                    (None, NextPage::None)
                }
                NextPage::Superblock { place: TURNS_TIMES_COPIES } => (None, NextPage::Table { copy: 0, page: 0 }),
                NextPage::Superblock { place: at } => {
                    let (turn, copy) = place(at);
                    (Some(Pages::Superblock { turn, copy }), NextPage::Superblock { place: at + 1 })
                }
                NextPage::Table { copy: COPIES, .. } => (None, NextPage::None),
                NextPage::Table { copy, page } if page >= pages => (None, NextPage::Table { copy: copy + 1, page: 0 }),
                NextPage::Table { copy, page } => {
                    let count = PAGES_AT_ONCE.min(pages - page);
                    (Some(Pages::Table { first: page, count, copy }), NextPage::Table { copy, page: page + count })
                }
                NextPage::None => (None, NextPage::None),
            };
            next = then;
            if found.is_some() || next == NextPage::None {
                *self.scrub.next_page()? = next;
                return found;
            }
        }
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
            let each: Vec<Pages> = single_pages(job.pages).collect();
            let read = page::pages(&bytes).map(Some).chain(std::iter::repeat(None));
            let bad = each.into_iter().zip(read).filter(|(pages, page)| !self.is_sound_page(*pages, *page));
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
        let (number, turn) = match pages {
            Pages::State { turn, .. } => (0, Some(turn)),
            Pages::Superblock { turn, .. } => (1 + turn, None),
            Pages::Table { first, .. } => (1 + TURNS as u64 + u64::from(first), None),
        };
        let number = number + turn.map_or(0, |turn| turn << 63);
        if !self.scrub.found_bad_page(member, number) {
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
        let (Some(page), volume) = (page, self.store.identity()) else { return false };
        match pages {
            Pages::State { turn, .. } => {
                let is_sound = State::decode(page).is_ok_and(|(of, state, _)| of == volume && state.turn() == turn);
                is_sound || (page::is_blank(page) && self.view.layout.is_mirrored())
            }
            Pages::Superblock { turn, .. } => {
                Superblock::decode(page).is_ok_and(|found| found.volume == volume && found.turn() == turn)
            }
            Pages::Table { first, .. } => {
                let is_unwritten = self.store.cache().is_none_or(|cache| cache.ring.generation(first) == 0);
                let is_sound =
                    table::decode_header(page).is_ok_and(|header| header.volume == volume && header.index == first);
                is_sound || (is_unwritten && page::is_blank(page))
            }
        }
    }
}

const TURNS_TIMES_COPIES: usize = TURNS * COPIES;

/// Returns each page alone.
fn single_pages(pages: Pages) -> impl Iterator<Item = Pages> {
    let (first, count) = match pages {
        Pages::Table { first, count, .. } => (first, count),
        _ => (0, 1),
    };
    (first..first + count).map(move |page| match pages {
        Pages::Table { copy, .. } => Pages::Table { first: page, count: 1, copy },
        one => one,
    })
}
