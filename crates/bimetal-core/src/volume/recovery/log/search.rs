//! Search for what follows a head that does not belong where it was read: the foot of its segment,
//! later segments that record it as stable, and pages of a later epoch, which prove that the newest
//! superblock is lost.

use super::super::chunks::Chunk;
use super::super::{Recovery, RecoveryError, Step};
use super::{Phase, Segment};
use crate::block::Block;
use crate::block_map::Slot;
use crate::journal::page::Page;
use crate::journal::record::{self, Kind, PageHeader, RECORDS_PER_PAGE, Record};
use crate::journal::{PAGE_SECTORS, SEGMENT_PAGES};
use crate::payload::Payload;
use crate::units::Bytes;
use crate::volume::log_index::Position;

/// Blocks that are read at once in the search for a foot.
const LOOK_BLOCKS_AT_ONCE: u64 = 64;
/// Blocks after a missing head that are searched for its foot, and for segments that prove it
/// damaged: three of the longest segments.
const LOOK_BLOCKS: u64 = 3 * (RECORDS_PER_PAGE as u64 + SEGMENT_PAGES);
/// Bytes of the log after a missing head that are searched if they are more than [`LOOK_BLOCKS`]:
/// all that the index of a log with blocks of 4 KiB may still lack.
const LOOK_BYTES: Bytes = Bytes::from_mib(48);
/// Number of epochs after the newest superblock's whose pages prove that a newer superblock is
/// lost. A log on a drive that was attached again begins with an epoch drawn at random. So pages of
/// the log before it are seldom within this number.
const EPOCHS_AHEAD: u32 = 1024;

/// Reason of the refusal if a newer superblock is lost.
pub(super) const SUPERBLOCK_LOST: &str =
    "its log continues after its newest superblock, so a newer superblock must be lost";

/// The search for a substitute of the head at a position.
pub(super) struct Search {
    first: Position,
    /// The next block to search. The search ends at `end`.
    next: Position,
    end: Position,
    /// Position of the first later segment with a record that the found segment is stable.
    proof: Option<Position>,
    /// Position before which a later segment records everything as stable.
    stable: Position,
    /// Sector of the head, if it cannot be read. `foot_unreadable`: a page in whose place its foot
    /// may be cannot be read.
    head_unreadable: Option<u64>,
    foot_unreadable: bool,
    /// The segment, as its foot describes it.
    found: Option<Segment>,
}

/// Content of a page that is the head or foot of a segment after a missing head.
enum Later {
    /// The missing head is damaged: a segment at this position records it as stable, or was swapped
    /// with another page.
    Proof(Position),
    /// Everything before this position is stable.
    Stable(Position),
}

impl Search {
    fn take(&mut self, later: Option<Later>) {
        match later {
            Some(Later::Proof(position)) => self.proof = self.proof.or(Some(position)),
            Some(Later::Stable(position)) => self.stable = self.stable.max(position),
            None => {}
        }
    }
}

impl<P: Payload> Recovery<P> {
    /// Returns true if `page` was written in a later epoch than that of the newest superblock that
    /// was found.
    pub(super) fn is_behind_superblock(&self, kind: Kind, page: &Page) -> bool {
        let Step::Log(log) = &self.step else { unreachable!("a log is being recovered") };
        let superblock = log.superblock();
        let epochs = |header: PageHeader| header.life.wrapping_sub(superblock.life().number);
        let is_later =
            |header: PageHeader| header.volume == superblock.volume && (1..=EPOCHS_AHEAD).contains(&epochs(header));
        record::peek(kind, page).is_some_and(is_later) && record::decode_page(kind, page).is_ok()
    }

    /// Works as [`is_behind_superblock`](Self::is_behind_superblock), for a head or a foot.
    fn is_segment_behind_superblock(&self, page: &Page) -> bool {
        [Kind::Head, Kind::Foot].into_iter().any(|kind| self.is_behind_superblock(kind, page))
    }

    /// Begins a search, because `page` is not the head of a segment at `first`. `head_unreadable`
    /// is the sector of the page if it cannot be read.
    pub(super) fn begin_search(&mut self, first: Position, page: Option<Page>, head_unreadable: Option<u64>) {
        if page.as_ref().is_some_and(|page| self.is_segment_behind_superblock(page)) {
            return self.damaged(SUPERBLOCK_LOST);
        }
        let look = LOOK_BLOCKS.max(LOOK_BYTES.0 / self.layout().block.bytes().0);
        let end = (first + 1 + look).min(self.limit());
        let later = page.and_then(|page| self.later_segment(&page, first, first));
        let mut search = Search {
            first,
            next: first + 1,
            end,
            proof: None,
            stable: 0,
            head_unreadable,
            foot_unreadable: false,
            found: None,
        };
        search.take(later);
        let log = self.log();
        log.search = Some(search);
        log.phase = Phase::Searching;
        self.search_on();
    }

    /// Reads the next blocks after a missing head, unless its foot was found.
    fn search_on(&mut self) {
        let slots = u64::from(self.volume.view.map.slots());
        let Some(search) = &mut self.log().search else { unreachable!("a search is on") };
        if let Some(mut segment) = search.found.take() {
            segment.missing = Some(segment.first);
            self.log().search = None;
            self.repair(Kind::Head, &segment);
            return self.takes_segment(segment);
        }
        let from = search.next;
        let count = LOOK_BLOCKS_AT_ONCE.min(search.end - from).min(slots - from % slots);
        search.next += count;
        if count == 0 {
            return self.end_search();
        }
        let range = self.volume.slot_sectors(Slot((from % slots) as u32), count);
        self.read_chunk(self.volume.member_of_slots(), range, from * self.pages_per_block(), 0);
    }

    fn pages_per_block(&self) -> u64 {
        self.layout().block.sectors() / PAGE_SECTORS
    }

    /// Takes blocks of the search, which may hold the foot, or parts of later segments.
    pub(super) fn takes_searched(&mut self, chunk: &Chunk) {
        let Some(first) = self.log().search.as_ref().map(|search| search.first) else { return };
        let (each, end_of_longest) = (self.pages_per_block(), self.end_of_longest(first));
        for position in chunk.first / each..chunk.end() / each {
            let page = chunk.page(position * each);
            if page.is_some_and(|page| self.is_segment_behind_superblock(page)) {
                return self.damaged(SUPERBLOCK_LOST);
            }
            let foot = page.and_then(|page| self.segment(Kind::Foot, first, page));
            let foot = foot.filter(|segment| segment.own_end() == position + 1);
            let later = page.and_then(|page| self.later_segment(page, position, first));
            let Some(search) = &mut self.log().search else { return };
            search.take(later);
            search.found = search.found.take().or(foot);
            search.foot_unreadable |= page.is_none() && position < end_of_longest;
        }
        self.search_on();
    }

    /// Returns the position after the longest segment at `first`: a segment has the records of one
    /// page, and does not continue at the beginning of the log's region.
    fn end_of_longest(&self, first: Position) -> Position {
        let slots = u64::from(self.volume.view.map.slots());
        first + (RECORDS_PER_PAGE as u64 + SEGMENT_PAGES).min(slots - first % slots)
    }

    /// Returns what the page at `position` tells, if it is the head or foot of a segment at or
    /// after `first`.
    fn later_segment(&mut self, page: &Page, position: Position, first: Position) -> Option<Later> {
        let volume = self.volume.store.identity();
        let is_one = |kind| {
            let header: PageHeader = record::peek(kind, page)?;
            (header.volume == volume && header.number >= first).then_some((kind, header.number))
        };
        let (kind, number) = [Kind::Head, Kind::Foot].into_iter().find_map(is_one)?;
        let segment = self.segment(kind, number, page)?;
        let place = if kind == Kind::Head { segment.first } else { segment.own_end() - 1 };
        // A page in a place where it does not belong has been swapped with another page.
        let stable = segment.header.stable;
        let is_proof = place != position || stable > first;
        Some(if is_proof { Later::Proof(segment.first) } else { Later::Stable(stable) })
    }

    /// Ends a search without a foot. The log ends there, unless a proof of damage was found.
    fn end_search(&mut self) {
        let Some(search) = self.log().search.take() else { return };
        // A power cut may lose a segment and leave a later one, which records how much before both
        // was stable.
        self.log().stable = self.log().stable.max(search.stable);
        self.apply_segments();
        if self.outcome.is_some() {
            return;
        }
        let log = self.log();
        let was_there = log.superblock().life().began_at.max(log.named).max(log.proven);
        match search.head_unreadable.filter(|_| search.foot_unreadable) {
            _ if let Some(next) = search.proof => {
                self.leave_out(search.first, next, "a segment of its log is damaged at its head and at its foot");
            }
            // Neither head nor foot can be read: acknowledged content may follow.
            Some(sector) => {
                let member = self.volume.member_of_slots();
                self.fail(|member, role| RecoveryError::Unreadable { member, role, sector }, member);
            }
            None if search.first < was_there => {
                let what = "a segment of its log is missing that an earlier recovery, or the index, had found";
                self.leave_out(search.first, was_there, what);
            }
            None => self.end_scan(),
        }
    }

    /// Leaves out the log from `first` to `next`, of which nothing is known, if the owner accepts
    /// the loss. A segment without blocks takes its place, and records where the log goes on.
    fn leave_out(&mut self, first: Position, next: Position, what: &'static str) {
        if !self.may_give_up_a_part(what) {
            return;
        }
        self.gives_up(None);
        let life = *self.log().superblock().lives_at(first).end();
        if first + SEGMENT_PAGES <= next {
            let record = Record::Dropped { first: Block(0), count: 0, before: next };
            let header = PageHeader { volume: self.volume.store.identity(), number: first, life, stable: next };
            let segment = Segment { first, pieces: 0, records: vec![record], header, leap: Some(next), missing: None };
            self.repair(Kind::Head, &segment);
            self.repair(Kind::Foot, &segment);
        }
        if next > self.log().head {
            self.log().head = next;
            self.read_head();
        } else {
            self.end_scan();
        }
    }
}
