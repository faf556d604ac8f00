//! The index of a log: a packed copy of the records of its stable segments. Recovery reads the
//! index in one go instead of going from segment to segment across the whole log.
//!
//! The pages of the index lie in a ring beside the superblocks. Each page records a position of the
//! log. The page and the pages before it have all records up to the recorded position. Recovery
//! walks the segments after that position. A missing page makes recovery slower and loses nothing:
//! pages are written when enough records have gathered, and no task waits for these writes. Half a
//! second after the last flush, and when the volume is closed, all records that are left are
//! written, as long as the ring has free pages. When a migration frees segments, the index begins
//! anew at a page that has no record of the freed segments.

use std::collections::VecDeque;

use super::{Job, TaskId, Volume};
use crate::journal::record::{self, Kind, PageHeader, RECORDS_PER_PAGE, Record};
use crate::journal::{COPIES, PAGE_SECTORS, SUPERBLOCK_SECTORS, index_pages, page};
use crate::operation::{Command, OpKind};
use crate::payload::Payload;
use crate::units::SectorRange;
use crate::volume::operations::purpose;

/// A position in the log, counted from the beginning of time.
pub(crate) type Position = u64;

/// Pages that are written at once, in a large log.
const PAGES_AT_ONCE: u64 = 64;

/// Records of sealed segments after which the volume begins a commit by itself. The records of
/// segments that are not stable stay in memory. Without a flush of a client, a log of many GiB
/// would have all its records in memory. A flush after 256 MiB, in blocks of 4 KiB, costs little
/// time.
const RECORDS_UNTIL_COMMIT: usize = 1 << 16;

/// Pages that stay free when a log at rest completes its index, for records without slots.
const PAGES_TO_SPARE: u64 = 2;

/// Pages of the index to be written.
pub(super) struct IndexWrite {
    pub(super) places: [SectorRange; COPIES],
    pub(super) bytes: Vec<u8>,
    /// Set if the pages are written through.
    through: bool,
}

pub(crate) struct LogIndex {
    first_sector: u64,
    pages: u64,
    head: u64,
    tail: u64,
    /// The first page that was written since the recovery. A power cut may have left one copy of an
    /// earlier page.
    first_of_life: u64,
    /// Segments that may not be stable yet, by their end.
    waiting: VecDeque<(Position, Vec<Record>)>,
    /// Number of records sealed since the last commit began, and the number at which the volume
    /// begins a commit by itself.
    since_commit: usize,
    until_commit: usize,
    /// Records of stable segments that are in no page yet. `complete` is the position up to which
    /// these records complete the index.
    ready: Vec<Record>,
    complete: Position,
    /// The complete position that the last page records.
    written: Position,
    /// Position before which the migration under way frees everything. `tail_afterwards` is the
    /// first page without records of the part to be freed.
    boundary: Option<Position>,
    tail_afterwards: Option<u64>,
    /// Pages to be written. `writing` is set while some of the pages are being written.
    queue: VecDeque<IndexWrite>,
    writing: bool,
    /// End of the last segment whose records did not fit into the ring. No record is added before
    /// the log is freed up to that end.
    left_out: Option<Position>,
}

impl LogIndex {
    pub(super) fn new(metadata_sector: u64, slots: u32) -> Self {
        Self {
            first_sector: metadata_sector + SUPERBLOCK_SECTORS,
            pages: index_pages(u64::from(slots)),
            head: 0,
            tail: 0,
            first_of_life: 0,
            waiting: VecDeque::new(),
            since_commit: 0,
            until_commit: RECORDS_UNTIL_COMMIT,
            ready: Vec::new(),
            complete: 0,
            written: 0,
            boundary: None,
            tail_afterwards: None,
            queue: VecDeque::new(),
            writing: false,
            left_out: None,
        }
    }

    /// Sets the state of the index after a recovery. Pages from `tail` to `head` complete the index
    /// up to `written`, and `missing` has the records from `written` to `complete`.
    pub(super) fn recovered(&mut self, pages: (u64, u64), written: Position, missing: Vec<Record>, complete: Position) {
        (self.tail, self.head) = pages;
        self.first_of_life = self.head;
        self.written = written;
        self.ready = missing;
        self.complete = complete;
    }

    /// Returns the place of a copy of `count` pages from page `number` on, cut at the ring's end.
    pub(super) fn place(&self, number: u64, count: u64, copy: usize) -> SectorRange {
        let position = number % self.pages;
        let count = count.min(self.pages - position);
        let start = self.first_sector + (copy as u64 * self.pages + position) * PAGE_SECTORS;
        SectorRange::new(start, count * PAGE_SECTORS)
    }

    /// Returns the number of pages in the ring.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the pages that must have two copies, in adjacent parts of at most `pages_max`: the
    /// first page of each part, and its number of pages.
    pub(super) fn parts(&self, pages_max: u32) -> impl Iterator<Item = (u64, u32)> {
        let part = move |first: u64| {
            let left = self.place(first, (self.head - first).min(pages_max.into()), 0).len.0 / PAGE_SECTORS;
            (left > 0).then_some((first, left as u32))
        };
        std::iter::successors(part(self.tail.max(self.first_of_life)), move |&(first, count)| {
            part(first + u64::from(count))
        })
    }

    /// Returns true if page `number` counts.
    pub(super) fn has_page(&self, number: u64) -> bool {
        (self.tail..self.head).contains(&number)
    }

    /// Returns the number of the next page.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Returns true while pages are being written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Adds the records of a segment that ends at `end`.
    pub(super) fn sealed(&mut self, end: Position, records: Vec<Record>) {
        self.since_commit += records.len();
        match &mut self.left_out {
            Some(last) => *last = end,
            None => self.waiting.push_back((end, records)),
        }
    }

    /// Returns true if so many records have been sealed that a commit is to make them stable.
    pub(super) fn wants_commit(&self) -> bool {
        self.since_commit >= self.until_commit
    }

    /// Sets the number of sealed records after which [`wants_commit`](Self::wants_commit) is true.
    pub(super) fn commit_after(&mut self, records: usize) {
        self.until_commit = records;
    }

    /// Takes the number of records until a commit from `old`, whose log this log replaces.
    pub(super) fn take_over_limit(&mut self, old: &Self) {
        self.until_commit = old.until_commit;
    }

    /// Notes that a commit begins. A failed commit does not make the index ask for its next commit
    /// sooner.
    pub(super) fn commit_began(&mut self) {
        self.since_commit = 0;
    }

    /// Takes in the records of segments that end before `to`, which is stable. Returns the pages to
    /// write.
    pub(super) fn made_stable(&mut self, to: Position, header: PageHeader) -> Vec<IndexWrite> {
        let mut writes = Vec::new();
        while self.waiting.front().is_some_and(|&(end, _)| end <= to) {
            let Some((end, records)) = self.waiting.pop_front() else { break };
            if self.boundary.is_some_and(|boundary| end > boundary) && self.tail_afterwards.is_none() {
                self.write_ready(header, &mut writes);
                self.tail_afterwards = Some(self.head);
            }
            if let Some(last) = &mut self.left_out {
                *last = end.max(*last);
                break;
            }
            self.ready.extend(records);
            self.complete = end;
            // A flush makes a whole log stable at once. The records and the pages of the index are
            // not in memory together.
            if self.ready.len() >= PAGES_AT_ONCE as usize * RECORDS_PER_PAGE {
                self.write_ready(header, &mut writes);
            }
        }
        let at_once = PAGES_AT_ONCE.min(self.pages / 32).max(1);
        if self.ready.len() as u64 >= at_once * RECORDS_PER_PAGE as u64 {
            self.write_ready(header, &mut writes);
        }
        writes
    }

    /// Returns the pages to write so that the index has all records of stable segments. Returns no
    /// pages if the ring would then have no room for the `free` slots of the log. A page is never
    /// written again: its earlier content would look like the page.
    pub(super) fn write_rest(&mut self, free: u64, header: PageHeader) -> Vec<IndexWrite> {
        let pages = |records: u64| records.div_ceil(RECORDS_PER_PAGE as u64);
        let used = self.head - self.tail + pages(self.ready.len() as u64);
        let mut writes = Vec::new();
        if used + pages(free) + pages(free) / 32 + PAGES_TO_SPARE <= self.pages {
            self.write_ready(header, &mut writes);
        }
        writes.iter_mut().for_each(|write| write.through = true);
        writes
    }

    /// Notes that a migration begins which will free everything before `end`.
    pub(super) fn migration_began(&mut self, end: Position) {
        self.boundary = Some(end);
        self.tail_afterwards = None;
    }

    /// Returns the first page that counts when the migration has ended, and the pages to be written
    /// before that page counts.
    pub(super) fn tail_after_migration(&mut self, header: PageHeader) -> (u64, Vec<IndexWrite>) {
        let mut writes = Vec::new();
        if self.tail_afterwards.is_none() {
            self.write_ready(header, &mut writes);
        }
        // No later page may have a record of the freed segments: their slots will hold other
        // blocks.
        let first = self.waiting.front().map(|&(end, _)| end);
        if first.is_some_and(|end| self.boundary.is_some_and(|boundary| end <= boundary)) {
            self.leave_out_what_waits();
        }
        (*self.tail_afterwards.get_or_insert(self.head), writes)
    }

    /// Ends a migration: pages before the index's new tail, and all records before `end`, are no
    /// longer needed.
    pub(super) fn migration_ended(&mut self, end: Position) {
        if let Some(tail) = self.tail_afterwards.take() {
            self.tail = tail;
        }
        self.boundary = None;
        self.left_out = self.left_out.filter(|&last| last > end);
    }

    fn leave_out_what_waits(&mut self) {
        self.left_out = Some(self.waiting.back().map_or(self.complete, |&(end, _)| end));
        self.waiting.clear();
    }

    fn write_ready(&mut self, header: PageHeader, writes: &mut Vec<IndexWrite>) {
        let needed = self.ready.len().div_ceil(RECORDS_PER_PAGE) as u64;
        if needed == 0 {
            return;
        }
        if self.head - self.tail + needed > self.pages {
            self.ready.clear();
            return self.leave_out_what_waits();
        }
        let records = std::mem::take(&mut self.ready);
        let mut chunks = records.chunks(RECORDS_PER_PAGE).peekable();
        let mut bytes = Vec::with_capacity(needed as usize * page::PAGE_BYTES);
        let mut first = self.head;
        while let Some(chunk) = chunks.next() {
            let stable = if chunks.peek().is_none() { self.complete } else { self.written };
            bytes.extend_from_slice(&record::encode_page(
                Kind::Index,
                PageHeader { number: self.head, stable, ..header },
                chunk,
            ));
            self.head += 1;
            if self.head.is_multiple_of(self.pages) || chunks.peek().is_none() {
                let count = (bytes.len() / page::PAGE_BYTES) as u64;
                let places = std::array::from_fn(|copy| self.place(first, count, copy));
                writes.push(IndexWrite { places, bytes: std::mem::take(&mut bytes), through: false });
                first = self.head;
            }
        }
        self.written = self.complete;
    }
}

impl<P: Payload> Volume<P> {
    /// Lets the volume begin a commit by itself after `records` records of a log's sealed segments,
    /// where no request asked for a commit before. The default suits drives of any size; the drives
    /// of a test may be too small for the default. A volume without a log ignores the call.
    pub fn commit_log_after(&mut self, records: usize) {
        if let Some(log) = self.store.log_mut() {
            log.index.commit_after(records);
        }
    }

    /// Returns the records of a segment, in the order of its head.
    pub(super) fn segment_records(&self, first: Position) -> Vec<Record> {
        let Some(log) = self.store.log() else { return Vec::new() };
        let segment = log.segment_being_written(first);
        let pieces = segment.pieces.iter().enumerate().map(|(at, piece)| Record::Map {
            block: piece.block,
            slot: log.slot(first + 1 + at as u64),
            valid: piece.valid,
            dirty: true,
            is_whole: piece.is_whole,
            checksum: piece.checksum,
        });
        pieces.chain(segment.records.iter().copied()).collect()
    }

    /// Adds the segments before `to`, which is stable, to the index.
    pub(super) fn index_stable_segments(&mut self, to: Position) {
        let header = self.page_header(0, 0);
        if let Some(log) = self.store.log_mut()
            && P::CARRIES_DATA
        {
            let writes = log.index.made_stable(to, header);
            self.write_index(writes);
        }
    }

    /// Completes the index when a log comes to rest. Then another stretch of the drive records
    /// which blocks the log has, and a damaged stretch of the log does not count as the end of the
    /// log.
    pub(super) fn complete_index(&mut self) {
        let header = self.page_header(0, 0);
        let takes_writes = self.view.slots_online() && !self.slots_refuse();
        if let Some(log) = self.store.log_mut()
            && P::CARRIES_DATA
            && takes_writes
        {
            let free = log.free();
            let writes = log.index.write_rest(free, header);
            self.write_index(writes);
        }
    }

    /// Writes pages of the index, one write after another, because the ring wraps. No task waits
    /// for the pages. If both copies of a page are missing, recovery takes longer.
    pub(super) fn write_index(&mut self, writes: Vec<IndexWrite>) {
        let Some(log) = self.store.log_mut() else { return };
        log.index.queue.extend(writes);
        if log.index.queue.is_empty() || std::mem::replace(&mut log.index.writing, true) {
            return;
        }
        let task = self.begin_task(Job::Running);
        self.write_next_of_index(task);
    }

    pub(super) fn write_next_of_index(&mut self, task: TaskId) {
        let member = self.member_of_slots();
        let online = self.view.slots_online();
        let Some(log) = self.store.log_mut() else { return };
        let Some(IndexWrite { places, bytes, through }) = log.index.queue.pop_front().filter(|_| online) else {
            log.index.writing = false;
            log.index.queue.clear();
            return self.end_task(task);
        };
        for range in places {
            self.count_metadata(member, range.len);
            let command = Command { kind: OpKind::Write, range, fua: through };
            self.issue(task, purpose::BACKGROUND, member, command, P::from_metadata(&bytes));
        }
        self.put_job(task, Job::Index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, ValidMask};
    use crate::block_map::Slot;

    const HEADER: PageHeader = PageHeader { volume: 1, number: 0, life: 1, stable: 0 };

    fn segment(first: Position) -> (Position, Vec<Record>) {
        let map = |at| Record::Map {
            block: Block(at),
            slot: Slot(at as u32),
            valid: ValidMask::ALL,
            dirty: true,
            is_whole: true,
            checksum: 0,
        };
        (first + 33, (first + 1..first + 33).map(map).collect())
    }

    fn decoded(writes: &[IndexWrite]) -> Vec<(PageHeader, usize)> {
        let pages = writes.iter().flat_map(|write| page::pages(&write.bytes));
        pages
            .map(|page| {
                record::decode_page(Kind::Index, page).map(|(header, records)| (header, records.len())).unwrap()
            })
            .collect()
    }

    /// A case of the test: a migration begins while the ring has no room for the records that wait.
    /// Regression: the segment after the migration's boundary was not in the index, although its
    /// page claimed that the index was complete.
    #[test]
    fn full_index_claims_no_segment_behind_records_left_out() {
        let mut index = LogIndex::new(0, 20_000);
        let home = |at| Record::Dropped { first: Block(at), count: 1, before: 0 };
        let mut end = 0;
        while index.head + 7 < index.pages() {
            end += 2;
            index.sealed(end, (0..160).map(home).collect());
            index.made_stable(end, HEADER);
        }
        for _ in 0..8 {
            end += 2;
            index.sealed(end, (0..160).map(home).collect());
        }
        index.migration_began(end);
        let (behind, records) = segment(end);
        index.sealed(behind, records);
        let head = index.head;
        assert_eq!(index.made_stable(behind, HEADER).len() + index.write_rest(0, HEADER).len(), 0);
        assert_eq!(index.head, head);
        index.migration_ended(end);
        let (last, records) = segment(behind);
        index.sealed(last, records);
        index.made_stable(last, HEADER);
        assert_eq!(index.write_rest(0, HEADER).len(), 0, "the segment behind the boundary is in no page");
    }

    #[test]
    fn a_page_says_up_to_where_the_index_is_complete() {
        let mut index = LogIndex::new(0, 20_000);
        for first in (0..33 * 30).step_by(33) {
            let (end, records) = segment(first);
            index.sealed(end, records);
        }
        assert!(index.made_stable(32, HEADER).is_empty(), "no segment ends there");
        let writes = index.made_stable(33 * 30, HEADER);
        let pages = decoded(&writes);
        assert_eq!(pages.iter().map(|(_, records)| records).sum::<usize>(), 30 * 32);
        assert_eq!(pages.last().unwrap().0.stable, 33 * 30);
        assert!(pages[..pages.len() - 1].iter().all(|(header, _)| header.stable == 0));
    }

    /// The records of a whole log became stable together, before a migration. Regression: the
    /// records were encoded as one write, so a log of 4 GiB took 110 MB for its records, its pages
    /// and their two copies.
    #[test]
    fn whole_log_that_becomes_stable_is_written_in_parts() {
        let mut index = LogIndex::new(0, 400_000);
        let count = 5 * PAGES_AT_ONCE * RECORDS_PER_PAGE as u64 / 64;
        for first in (0..33 * count).step_by(33) {
            let (end, records) = segment(first);
            index.sealed(end, records);
        }
        let writes = index.made_stable(33 * count, HEADER);
        let (mut records, mut pages) = (index.ready.len() as u64, 0);
        for write in &writes {
            assert!(write.bytes.len() <= (PAGES_AT_ONCE as usize + 1) * page::PAGE_BYTES, "{}", write.bytes.len());
            let part = decoded(std::slice::from_ref(write));
            assert!(part.iter().map(|(header, _)| header.number).eq(pages..pages + part.len() as u64));
            pages += part.len() as u64;
            records += part.iter().map(|&(_, count)| count as u64).sum::<u64>();
            // Each part is complete up to the end of its last segment.
            let complete = part.last().map(|(header, _)| header.stable);
            assert_eq!(complete, Some((records - index.ready.len() as u64) / 32 * 33));
        }
        assert_eq!((writes.len(), records), (2, 32 * count));
    }

    /// A log at rest has all its records in the index, as long as the ring has pages to spare.
    #[test]
    fn log_at_rest_completes_its_index_in_pages_to_spare() {
        let slots = 20_000;
        let mut index = LogIndex::new(0, slots as u32);
        let mut rests = 0;
        for first in (0..slots * 3 / 4).step_by(33) {
            let (end, records) = segment(first);
            index.sealed(end, records);
            index.made_stable(end, HEADER);
            let pages = decoded(&index.write_rest(slots - end, HEADER));
            assert!(index.left_out.is_none(), "room for the rest of the log is left");
            if let Some((page, _)) = pages.last() {
                assert_eq!(page.stable, end, "all records are in the index");
                rests += 1;
            }
        }
        assert!(rests >= 10, "{rests}");
    }

    /// A migration leaves an index without entries of the segments that it freed.
    #[test]
    fn migration_drops_its_segments_from_the_index() {
        let mut index = LogIndex::new(0, 20_000);
        let (end, records) = segment(0);
        index.sealed(end, records);
        index.migration_began(33);
        let (end, records) = segment(33);
        index.sealed(end, records);
        let before = decoded(&index.made_stable(66, HEADER));
        assert_eq!(before.iter().map(|(header, _)| (header.number, header.stable)).collect::<Vec<_>>(), [(0, 33)]);
        let (tail, writes) = index.tail_after_migration(HEADER);
        assert_eq!((tail, writes.len()), (1, 0));
        index.migration_ended(33);
        let (end, records) = segment(66);
        index.sealed(end, records);
        index.migration_began(99);
        index.made_stable(99, HEADER);
        let (tail, writes) = index.tail_after_migration(HEADER);
        let pages = decoded(&writes);
        assert_eq!((tail, pages[0].0.number, pages[0].1), (2, 1, 64));
    }

    #[test]
    fn an_index_that_is_full_stops_and_goes_on_after_a_migration() {
        let mut index = LogIndex::new(0, 400);
        let mut written = 0;
        for first in (0..33 * 200).step_by(33) {
            let (end, records) = segment(first);
            index.sealed(end, records);
            written +=
                index.made_stable(end, HEADER).iter().map(|write| write.places[0].len.0 / PAGE_SECTORS).sum::<u64>();
        }
        assert!(index.left_out.is_some() && written <= index.pages(), "{written}");
        index.migration_began(33 * 100);
        index.tail_after_migration(HEADER);
        index.migration_ended(33 * 100);
        assert!(index.left_out.is_some(), "segments behind what was given back are in no page");
        index.migration_began(33 * 200);
        index.tail_after_migration(HEADER);
        index.migration_ended(33 * 200);
        assert!(index.left_out.is_none());
    }
}
