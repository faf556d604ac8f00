//! Recovery of a log: its index first, as far as it goes, then the head of each segment after it.
//! Segments after the last known flush are in doubt. A slot of such a segment that does not match
//! its record was not written whole, or is damaged: its piece is left out, and head and foot of the
//! segment are written again without it. All other pieces count.
//!
//! The first copy of each page of the index is read, and the second if the first does not belong
//! there. Each head is read together with the foot before it, and no segment counts before its foot
//! was read: a page that leaves a piece out is newer than the other page, which has it. A foot that
//! is not sound is written again. If a head does not belong there, the segment's foot is searched
//! for. A later segment may record a segment without head and foot as stable. A segment that a
//! later segment records as stable is damaged, and is not the end of the log. A superblock records
//! the epoch in which each position was written. So a head of an earlier epoch is never taken for
//! the head that was written over it. A page of a later epoch proves that the newest superblock is
//! lost.

mod search;

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{TOO_MANY_LOST, fit_a_superblock, note_lost};
use super::chunks::{Chunk, copies_of};
use super::torn::Torn;
use super::{Answer, PageRepair, REPAIR, Recovery, Step, only_page};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::page::Page;
use crate::journal::record::{self, Kind, PageHeader, Record};
use crate::journal::superblock::{Life, Pair, Superblock};
use crate::journal::turns::{COPIES, TURNS};
use crate::journal::{PAGE_SECTORS, SEGMENT_PAGES};
use crate::operation::{Command, OpKind};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};
use crate::volume::damage::Lost;
use crate::volume::log_index::Position;
use crate::volume::log_tail::{LogTail, SEGMENT_MIN};
use search::Search;

/// Pages of the index that are read at once.
const INDEX_PAGES_AT_ONCE: u64 = 256;
/// Length of a page.
const PAGE: Sectors = Sectors(PAGE_SECTORS);
/// Slots of one segment that are checked at once.
const READS_MAX: usize = 8;
#[derive(Clone)]
struct Segment {
    first: Position,
    /// Number of data blocks between head and foot.
    pieces: u64,
    records: Vec<Record>,
    header: PageHeader,
    /// Position at which the log goes on after it, if a recovery found the part between damaged.
    leap: Option<Position>,
    /// Position of its page, head or foot, that was not found.
    missing: Option<Position>,
}

impl Segment {
    /// Returns the position after the segment's foot.
    fn own_end(&self) -> Position {
        self.first + SEGMENT_PAGES + self.pieces
    }

    /// Returns the earliest position of the next segment.
    fn end(&self) -> Position {
        self.leap.map_or(self.own_end(), |leap| leap.max(self.own_end()))
    }

    /// Leaves out the pieces that the segment's other page leaves out. A recovery that leaves out a
    /// piece writes both pages again. One of the two writes may be lost, or its page may return
    /// from an earlier time. Returns two facts: true if this page was old, and true if the other
    /// page is old or differs.
    fn leave_out_with(&mut self, other: &Segment) -> (bool, bool) {
        if self.records.len() != other.records.len() {
            return (false, true);
        }
        let void_of = |record: &Record| match *record {
            Record::Map { block, slot, valid, .. } => Some(Record::Void { block, slot, valid }),
            _ => None,
        };
        let (mut is_old, mut other_is_old) = (false, false);
        for (own, other) in self.records.iter_mut().zip(&other.records).filter(|(own, other)| own != other) {
            if void_of(own) == Some(*other) {
                is_old = true;
                *own = *other;
            } else {
                other_is_old = true;
            }
        }
        (is_old, other_is_old)
    }
}

/// See the [module](self).
pub(super) struct LogRecovery<P> {
    phase: Phase,
    superblock: Option<Superblock>,
    /// Position at which the next segment would begin.
    head: Position,
    stable: Position,
    search: Option<Search>,
    /// The first copies of pages of the index whose second copies are being read.
    first_copies: Option<Chunk>,
    in_doubt: VecDeque<Segment>,
    /// Set if the last segment in doubt was found by its head, and its foot is not read yet. The
    /// foot is read together with the next head if they lie side by side.
    foot_unread: bool,
    /// The next piece of the first segment in doubt to check.
    next_piece: u64,
    /// Pieces of the first segment in doubt that do not match their records.
    mismatched: Vec<u64>,
    /// Eighths of each block that were in pieces left out.
    left_out: BTreeMap<u64, ValidMask>,
    torn: Torn,
    lost: BTreeMap<u64, ValidMask>,
    /// The next page of the index. `indexed` is the position up to which the pages before
    /// `next_page` have all records.
    next_page: u64,
    indexed: Position,
    /// Position after the newest block that the index names, which may lie beyond `indexed`. Only
    /// segments that are stable are indexed.
    named: Position,
    /// Position up to which a page of the index after a lost page declares the log stable.
    proven: Position,
    /// Drop records of the index. The drop records apply once the whole index is read.
    dropped: Vec<(BlockRun, Position)>,
    /// Records of segments after the index.
    not_indexed: Vec<Record>,
    payload: std::marker::PhantomData<P>,
}

impl<P> Default for LogRecovery<P> {
    fn default() -> Self {
        Self {
            phase: Phase::Superblocks,
            superblock: None,
            head: 0,
            stable: 0,
            search: None,
            first_copies: None,
            in_doubt: VecDeque::new(),
            foot_unread: false,
            next_piece: 0,
            mismatched: Vec::new(),
            left_out: BTreeMap::new(),
            torn: Torn::default(),
            lost: BTreeMap::new(),
            next_page: 0,
            indexed: 0,
            named: 0,
            proven: 0,
            dropped: Vec::new(),
            not_indexed: Vec::new(),
            payload: std::marker::PhantomData,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Superblocks,
    Index,
    Scanning,
    /// Reads the foot of the last segment in doubt alone.
    Foot,
    Searching,
    Verifying,
    /// Completes the pair of the newest superblock, and writes lost heads and feet again.
    Pairing,
    /// Writes a pair of superblocks. The number counts the copies that are stable.
    Superblock(usize),
}

impl<P> LogRecovery<P> {
    fn superblock(&self) -> &Superblock {
        self.superblock.as_ref().expect("the superblock was read first")
    }
}

impl<P: Payload> Recovery<P> {
    fn log(&mut self) -> &mut LogRecovery<P> {
        let Step::Log(log) = &mut self.step else { unreachable!("a log is being recovered") };
        log
    }

    fn tail(&mut self) -> &mut LogTail<P> {
        let Some(log) = self.volume.store.log_mut() else { unreachable!("the volume has a log") };
        log
    }

    pub(super) fn log_takes(&mut self, answer: Answer<P>) {
        match self.log().phase {
            Phase::Superblocks => {
                if let Some(superblock) = self.take_superblock(&answer) {
                    self.begin_index(superblock);
                }
            }
            Phase::Index => {
                if let Some(chunk) = self.take_chunk(&answer) {
                    self.takes_index_pages(chunk);
                }
            }
            Phase::Scanning => self.takes_head(&answer),
            Phase::Foot => {
                self.takes_foot(answer.payload.as_ref());
                if self.outcome.is_none() {
                    self.read_head();
                }
            }
            Phase::Searching => {
                if let Some(chunk) = self.take_chunk(&answer) {
                    self.takes_searched(&chunk);
                }
            }
            Phase::Verifying => {
                self.takes_piece(&answer);
                self.verify();
            }
            Phase::Pairing => self.complete_pair_of_log(),
            Phase::Superblock(stable) => self.write_next_superblock_of_log(stable + 1),
        }
    }

    fn begin_index(&mut self, superblock: Superblock) {
        self.total = crate::units::Sectors(PAGE_SECTORS).bytes();
        let log = self.log();
        log.phase = Phase::Index;
        (log.next_page, log.indexed) = (superblock.index_tail, superblock.tail);
        log.lost = superblock.lost.iter().map(|(block, eighths)| (block.0, *eighths)).collect();
        (log.head, log.stable) = (superblock.tail, superblock.tail);
        log.superblock = Some(superblock);
        let tail = self.log().head;
        self.tail().recovered(tail, tail);
        self.read_index();
    }

    fn read_index(&mut self) {
        let (next, first) = (self.log().next_page, self.log().superblock().index_tail);
        let index = &self.tail().index;
        let left = index.pages() - (next - first);
        if left == 0 {
            return self.begin_scan();
        }
        let range = index.place(next, INDEX_PAGES_AT_ONCE.min(left), 0);
        self.read_chunk(self.volume.member_of_slots(), range, next, 0);
    }

    /// Takes pages of the index. The index ends at the first page of which both copies are missing:
    /// the log itself has the rest.
    fn takes_index_pages(&mut self, chunk: Chunk) {
        let (first, second) = match self.log().first_copies.take() {
            Some(first) => (first, Some(chunk)),
            None => (chunk, None),
        };
        for number in self.log().next_page..first.end() {
            let pages = copies_of(number, &first, second.as_ref());
            if pages.iter().flatten().any(|page| self.is_behind_superblock(Kind::Index, page)) {
                return self.damaged(search::SUPERBLOCK_LOST);
            }
            let found = pages.map(|page| page.and_then(|page| self.index_page(page, number)));
            if let [None, Some(_)] = &found {
                let place = self.tail().index.place(number, 1, 0);
                self.note_bad_first_copy(Kind::Index, pages[0], place);
            }
            match found.into_iter().flatten().next() {
                Some((stable, records)) => self.takes_index_records(stable, records),
                None if second.is_some() => {
                    self.note_index_behind(number, &first, second.as_ref());
                    return self.begin_scan();
                }
                None => return self.read_second_copies_of_index(first, number),
            }
            if self.outcome.is_some() {
                return;
            }
        }
        self.read_index();
    }

    /// Takes from index pages after page `number`, which neither copy has, only the proof that
    /// segments are stable. A power cut may leave a page and lose the page before it. But a page of
    /// the index is written only once all segments that it names are stable.
    fn note_index_behind(&mut self, number: u64, first: &Chunk, second: Option<&Chunk>) {
        let limit = self.limit();
        for number in number + 1..first.end() {
            let pages = copies_of(number, first, second);
            let found = pages.into_iter().flatten().find_map(|page| self.index_page(page, number));
            let Some((stable, records)) = found.filter(|&(stable, _)| stable <= limit) else { continue };
            let Some(tail) = self.volume.store.log() else { unreachable!("the volume has a log") };
            let position = |record| match record {
                Record::Map { block, slot, .. } if self.is_possible(block, slot) => Some(tail.position(slot) + 1),
                _ => None,
            };
            let named = records.into_iter().filter_map(position).max().unwrap_or(0);
            let log = self.log();
            (log.named, log.proven) = (log.named.max(named), log.proven.max(stable));
        }
    }

    /// Reads the second copies from page `number` on, because the first copy of that page does not
    /// belong there.
    fn read_second_copies_of_index(&mut self, first: Chunk, number: u64) {
        let range = self.tail().index.place(number, first.end() - number, 1);
        self.read_chunk(self.volume.member_of_slots(), range, number, 1);
        self.log().first_copies = Some(first);
    }

    fn takes_index_records(&mut self, stable: Position, records: Vec<Record>) {
        if stable > self.limit() {
            return self.damaged("the index of its log continues after the log's end");
        }
        for record in records {
            self.apply_indexed(record);
        }
        let log = self.log();
        log.next_page += 1;
        log.indexed = log.indexed.max(stable);
    }

    fn index_page(&mut self, page: &Page, number: u64) -> Option<(Position, Vec<Record>)> {
        let volume = self.volume.store.identity();
        let lives = self.log().superblock().index_lives_at(number);
        let (header, records) = record::decode_page(Kind::Index, page).ok()?;
        let belongs = header.volume == volume && header.number == number && lives.contains(&header.life);
        belongs.then_some((header.stable, records))
    }

    fn apply_indexed(&mut self, record: Record) {
        match record {
            // All content of a log is newer than home.
            Record::Map { block, slot, valid, checksum, .. } if self.is_possible(block, slot) => {
                self.volume.view.map.reload(slot, Entry { block, valid, dirty: true, checksum });
                let position = self.tail().position(slot);
                let log = self.log();
                log.named = log.named.max(position + 1);
            }
            Record::Dropped { first, count, before } if self.has_all(BlockRun { first, count }) => {
                self.log().dropped.push((BlockRun { first, count }, before));
            }
            Record::Lost { block, eighths } if self.has(block) => self.note_lost(block, eighths),
            _ => self.damaged("the index of its log has an invalid entry"),
        }
    }

    /// Begins to read the segments after the index.
    fn begin_scan(&mut self) {
        let Some(tail) = self.volume.store.log() else { unreachable!("the volume has a log") };
        self.volume.view.map.build_index_of_pieces(|slot, other| tail.position(slot) > tail.position(other));
        for (blocks, before) in std::mem::take(&mut self.log().dropped) {
            self.drop_before(blocks, before);
        }
        let log = self.log();
        log.phase = Phase::Scanning;
        // The last recovery flushed and checked everything that it took, so none of it is in doubt
        // any more.
        let stable = log.indexed.max(log.proven).max(log.superblock().life().began_at);
        (log.head, log.stable) = (log.indexed, stable);
        self.read_head();
    }

    /// Returns the position of the next segment: not in the region's last slots if a segment has no
    /// room there.
    fn next_segment(&mut self) -> Position {
        let slots = u64::from(self.volume.view.map.slots());
        let left = slots - self.log().head % slots;
        self.log().head + if left < SEGMENT_MIN { left } else { 0 }
    }

    /// Returns the first position that no segment can reach, because the log would overwrite
    /// itself.
    fn limit(&mut self) -> Position {
        self.log().superblock().tail + u64::from(self.volume.view.map.slots())
    }

    /// Reads the head of the next segment, unless the log is full, and the foot before it.
    fn read_head(&mut self) {
        let first = self.next_segment();
        let is_full = first + SEGMENT_PAGES > self.limit();
        let foot_unread = self.log().foot_unread;
        let foot = self.log().in_doubt.back().filter(|_| foot_unread).map(|segment| segment.own_end() - 1);
        match foot {
            Some(foot) if is_full || !self.lies_before(foot, first) => self.read_foot_alone(foot),
            None if is_full => self.end_scan(),
            _ => {
                self.log().phase = Phase::Scanning;
                let head = self.page_at(first);
                let start = self.page_at(foot.unwrap_or(first)).start.0;
                let range = SectorRange::new(start, head.end().0 - start);
                self.read(self.volume.member_of_slots(), range, first);
            }
        }
    }

    /// Returns true if the block at position `foot` lies before the block at position `head` on the
    /// drive.
    fn lies_before(&self, foot: Position, head: Position) -> bool {
        foot + 1 == head && !head.is_multiple_of(u64::from(self.volume.view.map.slots()))
    }

    fn read_foot_alone(&mut self, foot: Position) {
        self.log().phase = Phase::Foot;
        self.read(self.volume.member_of_slots(), self.page_at(foot), foot);
    }

    /// Takes the foot of the last segment in doubt. Writes of the page that differs are queued:
    /// of the foot if it is not sound, and of either page if the other page leaves out more.
    fn takes_foot(&mut self, payload: Option<&P>) {
        self.log().foot_unread = false;
        let Some(mut segment) = self.log().in_doubt.pop_back() else { unreachable!("a foot has a head") };
        let page = payload.and_then(|payload| only_page(&payload.slice(Sectors::ZERO, PAGE)));
        let foot = page.and_then(|page| self.segment(Kind::Foot, segment.first, &page));
        let (head_is_old, foot_is_old) = match &foot {
            Some(foot) if foot.header == segment.header => segment.leave_out_with(foot),
            _ => (false, true),
        };
        segment.missing = segment.missing.or(foot.is_none().then(|| segment.own_end() - 1));
        if head_is_old {
            self.repair(Kind::Head, &segment);
        }
        if foot_is_old {
            self.repair(Kind::Foot, &segment);
        }
        self.log().in_doubt.push_back(segment);
        self.apply_segments();
    }

    /// Returns the place of the page at the beginning of the block at a position.
    fn page_at(&self, position: Position) -> SectorRange {
        let slot = Slot((position % u64::from(self.volume.view.map.slots())) as u32);
        SectorRange::new(self.sectors_of_slot(slot).start.0, PAGE_SECTORS)
    }

    fn takes_head(&mut self, answer: &Answer<P>) {
        if self.log().foot_unread {
            if answer.payload.is_none() {
                let foot = self.log().in_doubt.back().map_or(0, |segment| segment.own_end() - 1);
                return self.read_foot_alone(foot);
            }
            self.takes_foot(answer.payload.as_ref());
            if self.outcome.is_some() {
                return;
            }
        }
        let first = self.next_segment();
        let head = |payload: &P| only_page(&payload.slice(Sectors(answer.range.len.0 - PAGE_SECTORS), PAGE));
        let page = answer.payload.as_ref().and_then(head);
        match page.as_ref().and_then(|page| self.segment(Kind::Head, first, page)) {
            Some(segment) => {
                self.log().foot_unread = true;
                self.takes_segment(segment);
            }
            None => self.begin_search(first, page, answer.payload.is_none().then_some(answer.range.start.0)),
        }
    }

    fn takes_segment(&mut self, segment: Segment) {
        let log = self.log();
        log.head = segment.end();
        log.stable = log.stable.max(segment.header.stable);
        log.in_doubt.push_back(segment);
        self.apply_segments();
        if self.outcome.is_none() {
            self.read_head();
        }
    }

    /// Returns the segment at `first` if `page` is its head or foot.
    fn segment(&mut self, kind: Kind, first: Position, page: &Page) -> Option<Segment> {
        let (header, records) = record::decode_page(kind, page).ok()?;
        let volume = self.volume.store.identity();
        let slots = u64::from(self.volume.view.map.slots());
        let limit = self.limit();
        if first >= limit {
            return None;
        }
        let lives = self.log().superblock().lives_at(first);
        if header.volume != volume || header.number != first || !lives.contains(&header.life) {
            return None;
        }
        let pieces =
            records.iter().take_while(|record| matches!(record, Record::Map { .. } | Record::Void { .. })).count()
                as u64;
        let leap = records.iter().find_map(|record| match record {
            Record::Dropped { count: 0, before, .. } => Some(*before),
            _ => None,
        });
        let segment = Segment { first, pieces, records, header, leap, missing: None };
        let whole = first % slots + SEGMENT_PAGES + pieces <= slots && segment.end() <= limit;
        whole.then_some(segment)
    }

    /// Queues a write of the head or foot of a segment. The write precedes the superblock of the
    /// next epoch. So if the superblock was written, head and foot were written, too. If a piece
    /// was left out, neither page may keep its record: the next epoch would trust it.
    fn repair(&mut self, kind: Kind, segment: &Segment) {
        let page = record::encode_page(kind, segment.header, &segment.records);
        let position = if kind == Kind::Foot { segment.own_end() - 1 } else { segment.first };
        let place = self.page_at(position);
        self.repairs.retain(|repair| repair.range != place);
        let is_needed = segment.records.iter().any(|record| matches!(record, Record::Void { .. }));
        let (member, bytes) = (self.volume.member_of_slots(), page.to_vec());
        self.repairs.push(PageRepair { member, range: place, bytes, is_needed });
    }

    /// Applies the segments that are no longer in doubt. Head and foot of each such segment were
    /// read.
    fn apply_segments(&mut self) {
        let (stable, named) = (self.log().stable, self.log().named);
        let unread = usize::from(self.log().foot_unread);
        let is_stable = |segment: &Segment| segment.end() <= stable || segment.first < named;
        while self.outcome.is_none()
            && self.log().in_doubt.len() > unread
            && self.log().in_doubt.front().is_some_and(is_stable)
        {
            if let Some(position) = self.log().in_doubt.front().and_then(|segment| segment.missing) {
                self.note_bad_page(self.volume.member_of_slots(), self.page_at(position));
            }
            self.apply_segment();
        }
    }

    fn apply_segment(&mut self) {
        let Some(segment) = self.log().in_doubt.pop_front() else { return };
        // The index gets losses as they are after the whole segment: `note_lost` adds them.
        let is_indexed = |record: &&Record| !matches!(record, Record::Void { .. } | Record::Lost { .. });
        self.log().not_indexed.extend(segment.records.iter().filter(is_indexed));
        for (at, &record) in segment.records.iter().enumerate() {
            match record {
                Record::Map { block, slot, valid, .. } | Record::Void { block, slot, valid } => {
                    let expected = self.tail().slot(segment.first + 1 + at as u64);
                    if !self.is_possible(block, slot) || slot != expected || at as u64 >= segment.pieces {
                        return self.damaged("a page of its log names a block or a slot that does not exist");
                    }
                    self.volume.view.map.remove_piece(slot);
                    match record {
                        // The eighths in its mask are newer than the block's earlier pieces, whose
                        // other eighths stay.
                        Record::Map { dirty, checksum, .. } => {
                            self.volume.view.map.insert_piece(slot, Entry { block, valid, dirty, checksum });
                            self.is_written(block, valid);
                        }
                        _ => self.log().torn.tear(block, valid, segment.first + 1 + at as u64),
                    }
                }
                Record::Dropped { first, count, before } if self.has_all(BlockRun { first, count }) => {
                    self.drop_before(BlockRun { first, count }, before);
                    for block in self.log().torn.between(first.0, first.0.saturating_add(count), before) {
                        self.is_written(block, ValidMask::ALL);
                    }
                }
                Record::Lost { block, eighths } if self.has(block) => {
                    let lost = self.lost_of(block);
                    let lost = self.log().torn.lost(block, eighths, lost);
                    self.note_lost_of_segment(block, lost);
                }
                Record::Dropped { .. } | Record::Lost { .. } => {
                    return self.damaged("a page of its log names blocks that do not exist");
                }
                Record::Home { .. } | Record::Intent { .. } => {
                    return self.damaged("a page of its log has a record that only a cache may have");
                }
            }
        }
    }

    fn lost_of(&mut self, block: Block) -> ValidMask {
        self.log().lost.get(&block.0).copied().unwrap_or(ValidMask::NONE)
    }

    /// Notes sound content of eighths of `block`, in a piece or at home.
    fn is_written(&mut self, block: Block, eighths: ValidMask) {
        let before = self.lost_of(block);
        let lost = self.log().torn.written(block, eighths, before);
        if lost != before {
            self.note_lost_of_segment(block, lost);
        }
    }

    /// Notes a loss that a segment records. The index gets its record, too.
    fn note_lost_of_segment(&mut self, block: Block, eighths: ValidMask) {
        self.log().not_indexed.push(Record::Lost { block, eighths });
        self.note_lost(block, eighths);
    }

    fn note_lost(&mut self, block: Block, eighths: ValidMask) {
        if !note_lost(&mut self.log().lost, block, eighths) {
            self.damaged(TOO_MANY_LOST);
        }
    }

    /// Removes the pieces of `blocks` that lie before a position.
    fn drop_before(&mut self, blocks: BlockRun, before: Position) {
        let Some(log) = self.volume.store.log() else { unreachable!("the volume has a log") };
        let map = &self.volume.view.map;
        let is_old = |(slot, _): &(Slot, Entry)| log.position(*slot) < before;
        let within = |block: Block| (blocks.first.0..blocks.first.0.saturating_add(blocks.count)).contains(&block.0);
        let old: Vec<(Slot, Entry)> = if map.len() < blocks.count {
            map.occupied().filter(|piece| within(piece.1.block) && is_old(piece)).collect()
        } else {
            blocks.blocks().flat_map(|block| map.pieces(block).to_vec()).filter(is_old).collect()
        };
        for (slot, _) in old {
            self.volume.view.map.remove_piece(slot);
        }
    }

    fn end_scan(&mut self) {
        let log = self.log();
        log.phase = Phase::Verifying;
        // An epoch that began behind slots which are too few for a segment may have written
        // nothing.
        log.head = log.head.max(log.superblock().life().began_at);
        self.verify();
    }

    /// Checks the segments in doubt one after the other.
    fn verify(&mut self) {
        while let Some(segment) = self.log().in_doubt.front() {
            let (first, pieces) = (segment.first, segment.pieces);
            while self.in_flight.len() < READS_MAX && self.log().next_piece < pieces {
                let piece = self.log().next_piece;
                self.log().next_piece += 1;
                let slot = self.tail().slot(first + 1 + piece);
                self.read(self.volume.member_of_slots(), self.sectors_of_slot(slot), piece);
            }
            if !self.in_flight.is_empty() {
                return;
            }
            self.log().next_piece = 0;
            self.leave_out_mismatched();
            self.apply_segment();
            if self.outcome.is_some() {
                return;
            }
        }
        self.begin_next_life_of_log();
    }

    /// Checks a piece. An unreadable piece stays in the block map: reads of it are errors, and do
    /// not return older content.
    fn takes_piece(&mut self, answer: &Answer<P>) {
        let Some(segment) = self.log().in_doubt.front() else { return };
        let Some(payload) = &answer.payload else { return };
        if let Some(Record::Map { checksum, .. }) = segment.records.get(answer.purpose as usize)
            && *checksum != payload.checksum()
        {
            self.log().mismatched.push(answer.purpose);
        }
    }

    /// Leaves pieces that do not match out of the first segment in doubt. Such pieces were not
    /// wholly written before the power cut, or are damaged. All other pieces are intact, and the
    /// last flush may have made them durable.
    ///
    /// A later piece may have sectors of an earlier one in the same eighth, if an eighth is several
    /// sectors. If the earlier piece is left out, so is the merged one: otherwise a part of a write
    /// would be there without the rest.
    fn leave_out_mismatched(&mut self) {
        let merges = self.layout().block.eighth_sectors() > 1;
        let log = self.log();
        let mismatched = std::mem::take(&mut log.mismatched);
        let Some(mut segment) = log.in_doubt.pop_front() else { return };
        let mut is_whole = true;
        for (at, record) in segment.records.iter_mut().enumerate() {
            let (block, valid, new) = match *record {
                Record::Map { block, slot, valid, is_whole, .. } => {
                    let left_out = log.left_out.get(&block.0).copied().unwrap_or(ValidMask::NONE);
                    let has_parts_of_them = merges && !is_whole && !left_out.intersection(valid).is_empty();
                    let is_left_out = has_parts_of_them || mismatched.contains(&(at as u64));
                    (block, valid, is_left_out.then_some(Record::Void { block, slot, valid }))
                }
                // An earlier recovery left it out, and was cut short.
                Record::Void { block, valid, .. } => (block, valid, Some(*record)),
                _ => continue,
            };
            let left_out = log.left_out.entry(block.0).or_default();
            match new {
                Some(void) => {
                    *left_out = left_out.union(valid);
                    is_whole &= *record == void;
                    *record = void;
                }
                None => *left_out = left_out.without(valid),
            }
        }
        if !is_whole {
            self.repair(Kind::Head, &segment);
            self.repair(Kind::Foot, &segment);
        }
        self.log().in_doubt.push_front(segment);
    }

    fn begin_next_life_of_log(&mut self) {
        let mut lost = std::mem::take(&mut self.log().lost);
        self.forget_what_has_left(&mut lost);
        if !fit_a_superblock(&lost) {
            return self.damaged(TOO_MANY_LOST);
        }
        let refused = self.slots_refuse();
        self.log().lost = lost;
        if refused {
            return self.end_log();
        }
        let newest = self.log().superblock().clone();
        let second = self.complete_pair(&newest, None);
        let drive = self.volume.store.superblock.life().drive;
        let log = self.log();
        let mut superblock = Superblock {
            sequence: second.sequence + 1,
            pair: Pair::First,
            lost: log.lost.iter().map(|(&block, &eighths)| (Block(block), eighths)).collect(),
            ..log.superblock().clone()
        };
        let number = superblock.life().number + 1;
        superblock.begin_life(Life { number, drive, began_at: log.head, index_began_at: log.next_page });
        log.superblock = Some(superblock);
        log.phase = Phase::Pairing;
        self.complete_pair_of_log();
    }

    /// Writes the next missing copy of the pair on the drive, then the next head or foot that was
    /// lost, and then the pair of the next epoch.
    fn complete_pair_of_log(&mut self) {
        if self.write_next_of_pair() {
            return;
        }
        match self.repairs.pop() {
            Some(PageRepair { member, range, bytes, is_needed }) => {
                let command = Command { kind: OpKind::Write, range, fua: true };
                let purpose = if is_needed { 0 } else { REPAIR };
                self.ask(member, command, P::from_metadata(&bytes), purpose);
            }
            None => self.write_next_superblock_of_log(0),
        }
    }

    /// Writes the next copy of the next pair of superblocks, after `stable` copies of four.
    fn write_next_superblock_of_log(&mut self, stable: usize) {
        if stable == TURNS * COPIES {
            return self.end_log();
        }
        let log = self.log();
        log.phase = Phase::Superblock(stable);
        if stable == COPIES {
            log.superblock = log.superblock.take().map(|first| first.second());
        }
        let superblock = log.superblock().clone();
        self.write_superblock(&superblock, stable % COPIES);
    }

    pub(super) fn end_log(&mut self) {
        let is_read_only = self.slots_refuse();
        let log = std::mem::take(self.log());
        let LogRecovery { superblock, head, stable, lost, next_page, indexed, not_indexed, .. } = log;
        let superblock = superblock.expect("the superblock was read first");
        let tail = self.tail();
        tail.recovered(superblock.tail, head);
        if is_read_only {
            tail.stays_in_doubt_from(stable);
        }
        tail.index.recovered((superblock.index_tail, next_page), indexed, not_indexed, head);
        self.volume.damage.lost = Lost::new(lost);
        self.volume.store.superblock = superblock;
        self.succeed();
    }
}
