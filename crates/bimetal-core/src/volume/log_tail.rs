//! The growing end of a log: segments that gather in memory, each written by one sequential
//! operation.
//!
//! A segment is a head (a page that describes it), its blocks, and a foot (the same page again). A
//! write is in the log's buffer once it has a position in the segment that is filling. The segment
//! is written when it is full, when a task needs it durable, or when the log's drive has no other
//! work. Positions count up from the creation of the log, and a slot is a position modulo the
//! region's size. Space is freed from the old end, once everything before it has been written back.

use std::collections::VecDeque;

use super::log_index::{LogIndex, Position};
use super::space::Serial;
use crate::block::{Block, ValidMask};
use crate::block_map::Slot;
use crate::journal::SEGMENT_PAGES;
use crate::journal::record::{RECORDS_PER_PAGE, Record};
use crate::units::Nanoseconds;
use crate::volume::TaskId;

/// Blocks of a segment in a log without a buffer: a long write is cut into segments of this size.
const UNBUFFERED_SEGMENT_BLOCKS: u32 = 128;

/// Full segments that are being written before further writes wait. The number is large enough to
/// keep a drive busy that takes several segments at once, and small enough that a power cut takes
/// little.
const SEGMENTS_ON_THE_WAY_MAX: usize = 8;

/// Blocks that a log has in memory at most, unless it is unbounded. Writes to blocks in memory may
/// be acknowledged.
pub const LOG_BLOCKS_IN_MEMORY_MAX: u64 = (SEGMENTS_ON_THE_WAY_MAX as u64 + 1) * RECORDS_PER_PAGE as u64;

/// A block in a segment.
pub(crate) struct Piece<P> {
    pub(crate) block: Block,
    pub(crate) valid: ValidMask,
    pub(crate) checksum: u32,
    /// Set if no sector of the content comes from an earlier slot of the block.
    pub(crate) is_whole: bool,
    /// The whole block, with zeroes in the eighths that are not valid.
    pub(crate) content: P,
}

pub(crate) struct Segment<P> {
    /// Position of the segment's head.
    pub(crate) first: Position,
    pub(crate) pieces: Vec<Piece<P>>,
    pub(crate) records: Vec<Record>,
    /// Tasks to run once the segment is on the drive.
    pub(crate) waiting: Vec<TaskId>,
    limit: u32,
    written: bool,
    /// Set for a note: the segment is forced to the drive to record that the last flush has ended.
    pub(crate) is_note: bool,
    /// The stable position that the segment's head records.
    pub(crate) says_stable: Position,
    /// Set once the segment's write has failed for good: the segment stays in memory.
    stays: bool,
}

impl<P> Segment<P> {
    fn end(&self) -> Position {
        self.first + SEGMENT_PAGES + self.pieces.len() as u64
    }

    /// Returns the positions of the segment's blocks.
    fn positions(&self) -> std::ops::Range<Position> {
        self.first + 1..self.first + 1 + self.pieces.len() as u64
    }
}

/// Size of the smallest segment that has a block. No segment begins if less than this many blocks
/// are left up to the region's end.
pub(crate) const SEGMENT_MIN: u64 = SEGMENT_PAGES + 1;

pub(crate) struct LogTail<P> {
    pub(super) index: LogIndex,
    slots: u64,
    buffer_blocks: u32,
    /// Set if segments may wait for their drive without bound: for a policy simulation, in which
    /// nothing waits.
    unbounded: bool,
    head: Position,
    tail: Position,
    truncations: VecDeque<(Position, Serial)>,
    /// Part of the free room that is lent to a migration for its runs.
    scratch: Option<std::ops::Range<Position>>,
    pub(crate) filling: Option<Segment<P>>,
    writing: VecDeque<Segment<P>>,
    /// Set once the drive is gone: content in the log's memory may be older than home.
    gone: bool,
    /// End of the stable part of the log.
    stable: Position,
    /// The stable end that the newest stable segment records. Recovery checks the segments after
    /// this position.
    stable_on_drive: Position,
    /// The stable ends that are recorded in segments which are not stable themselves yet, by the
    /// segments' ends.
    claims: VecDeque<(Position, Position)>,
    /// End of the last segment that holds blocks or records.
    content_end: Position,
    /// End of the last segment that holds blocks.
    blocks_end: Position,
    /// Time of the last append.
    appended_at: Nanoseconds,
}

impl<P> LogTail<P> {
    pub(crate) fn new(slots: u32, buffer_blocks: u32, unbounded: bool, metadata_sector: u64) -> Self {
        Self {
            index: LogIndex::new(metadata_sector, slots),
            slots: u64::from(slots),
            buffer_blocks,
            unbounded,
            head: 0,
            tail: 0,
            truncations: VecDeque::new(),
            scratch: None,
            filling: None,
            writing: VecDeque::new(),
            gone: false,
            stable: 0,
            stable_on_drive: 0,
            claims: VecDeque::new(),
            content_end: 0,
            blocks_end: 0,
            appended_at: Nanoseconds::ZERO,
        }
    }

    /// Returns true if a write is acknowledged once it is in the buffer.
    pub(crate) fn is_buffered(&self) -> bool {
        self.buffer_blocks > 0
    }

    /// Returns the end of the log, the segment that is filling included.
    pub(crate) fn head(&self) -> Position {
        self.filling.as_ref().map_or(self.head, Segment::end)
    }

    /// Returns the position after the last block: the earliest position of the next block.
    pub(crate) fn next(&self) -> Position {
        self.filling.as_ref().map_or(self.head, |segment| segment.positions().end)
    }

    pub(crate) fn slot(&self, position: Position) -> Slot {
        Slot((position % self.slots) as u32)
    }

    pub(crate) fn position(&self, slot: Slot) -> Position {
        let (slot, first) = (u64::from(slot.0), self.tail % self.slots);
        let into = if slot >= first { slot - first } else { slot + self.slots - first };
        self.tail + into
    }

    /// Returns the number of slots that can still be appended to, the slots for heads and feet
    /// included.
    pub(crate) fn free(&self) -> u64 {
        let end = self.scratch.as_ref().map_or(self.tail + self.slots, |scratch| scratch.start);
        end - self.head()
    }

    /// Lends `blocks` slots of the free room to a migration. Nothing is appended to lent slots
    /// until they are given back. No record ever names a lent slot, so a recovery takes lent slots
    /// for free. Lent slots begin four times their length after the log's end if there is so much
    /// room: near, since a disk's arm moves between the log's end and the lent slots, and far
    /// enough to leave room for appends.
    pub(super) fn lend_scratch(&mut self, blocks: u64) {
        assert!(self.scratch.is_none() && blocks <= self.free(), "{blocks} slots are lent of {}", self.free());
        let first = self.head() + (4 * blocks).min(self.free() - blocks);
        self.scratch = Some(first..first + blocks);
    }

    /// Takes the lent room back. Returns true if any room was lent.
    pub(super) fn take_scratch_back(&mut self) -> bool {
        self.scratch.take().is_some()
    }

    /// Returns the room that is lent.
    pub(super) fn scratch(&self) -> Option<std::ops::Range<Position>> {
        self.scratch.clone()
    }

    /// Returns the number of slots that become free when tasks under way have ended.
    pub(crate) fn freeing(&self) -> u64 {
        self.truncations.back().map_or(0, |(to, _)| to - self.tail)
    }

    /// Returns `Ok` if a block can be appended, or otherwise the reason to wait.
    pub(crate) fn room(&self) -> Result<(), NoRoom> {
        match &self.filling {
            Some(segment) if (segment.pieces.len() as u32) < segment.limit => Ok(()),
            Some(_) => Err(NoRoom::Buffer),
            // Twice the segment's size, because a wrap at the region's end may waste as much.
            None if self.free() < 2 * (u64::from(self.segment_limit()) + SEGMENT_MIN) => Err(NoRoom::Log),
            None if self.is_buffered() && self.writing.len() >= SEGMENTS_ON_THE_WAY_MAX && !self.unbounded => {
                Err(NoRoom::Buffer)
            }
            None => Ok(()),
        }
    }

    fn segment_limit(&self) -> u32 {
        if self.is_buffered() {
            return self.buffer_blocks.min(RECORDS_PER_PAGE as u32);
        }
        // A small log has small segments: twice such a segment must leave room for more.
        UNBUFFERED_SEGMENT_BLOCKS.min((self.slots / 4) as u32 - 1)
    }

    /// Returns the segment that is filling, and opens a new segment if no segment is filling.
    pub(crate) fn open(&mut self) -> &mut Segment<P> {
        self.open_for(0)
    }

    /// Works as [`open`](Self::open), for `blocks` blocks that are present already. Such blocks
    /// need not gather in the buffer, so the buffer's size does not limit the segment.
    pub(crate) fn open_for(&mut self, blocks: u64) -> &mut Segment<P> {
        if self.filling.is_none() {
            let left = self.slots - self.head % self.slots;
            if left < SEGMENT_MIN {
                self.head += left;
            }
            let left = self.slots - self.head % self.slots;
            let mut limit = u64::from(self.segment_limit());
            if self.is_buffered() {
                // As in `room`: twice the size of the segment is free.
                let largest = (self.free() / 2).saturating_sub(SEGMENT_MIN).min(RECORDS_PER_PAGE as u64);
                limit = limit.max(blocks.min(largest));
            }
            let limit = limit.min(left - SEGMENT_PAGES) as u32;
            self.filling = Some(Segment {
                first: self.head,
                pieces: Vec::with_capacity(limit as usize),
                records: Vec::new(),
                waiting: Vec::new(),
                limit,
                written: false,
                is_note: false,
                says_stable: 0,
                stays: false,
            });
        }
        self.filling.as_mut().expect("just opened")
    }

    /// Appends a block and returns its slot. The caller has checked for [`room`](Self::room).
    pub(crate) fn append(&mut self, piece: Piece<P>) -> Slot {
        let segment = self.open();
        assert!((segment.pieces.len() as u32) < segment.limit, "the segment is full");
        segment.pieces.push(piece);
        let position = segment.positions().end - 1;
        self.slot(position)
    }

    /// Notes the time of an append.
    pub(crate) fn note_append(&mut self, now: Nanoseconds) {
        self.appended_at = now;
    }

    /// Returns the time of the last append, if blocks wait in memory for their segment to fill.
    pub(crate) fn waits_since(&self) -> Option<Nanoseconds> {
        self.is_filling().then_some(self.appended_at)
    }

    /// Returns true if blocks wait in memory for their segment to fill.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.as_ref().is_some_and(|segment| !segment.pieces.is_empty())
    }

    /// Returns true if the segment that is filling is full.
    pub(crate) fn is_full(&self) -> bool {
        self.filling.as_ref().is_some_and(|segment| segment.pieces.len() as u32 == segment.limit)
    }

    /// Takes the segment that is filling to write it, with as many of `records` as fit in its head.
    pub(crate) fn seal(&mut self, records: &mut Vec<Record>) -> &Segment<P> {
        let mut segment = self.filling.take().expect("a segment is filling");
        let fit = (RECORDS_PER_PAGE - segment.pieces.len()).min(records.len());
        segment.records = records.drain(..fit).collect();
        self.head = segment.end();
        if !segment.pieces.is_empty() {
            self.blocks_end = self.head;
        }
        if !segment.pieces.is_empty() || !segment.records.is_empty() {
            self.content_end = self.head;
        }
        assert!(self.head - self.tail <= self.slots, "the log would overwrite what has not gone home");
        let lent_from = self.scratch.as_ref().map_or(u64::MAX, |scratch| scratch.start);
        assert!(self.head <= lent_from, "the log would overwrite the runs of a migration");
        self.writing.push_back(segment);
        self.writing.back().expect("just pushed")
    }

    /// Makes `task` wait for every segment that is being written, and returns their number.
    /// Segments that stay in memory do not count.
    pub(crate) fn await_all(&mut self, task: TaskId) -> u32 {
        let mut awaited = 0;
        for segment in self.writing.iter_mut().filter(|segment| !segment.written && !segment.stays) {
            segment.waiting.push(task);
            awaited += 1;
        }
        awaited
    }

    /// Returns true if a segment is on its way to the drive.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.iter().any(|segment| !segment.written && !segment.stays)
    }

    /// Returns true if the log holds stable content that no stable segment records as stable. A
    /// crash leaves this content in doubt.
    pub(crate) fn wants_note(&self) -> bool {
        self.stable_on_drive < self.stable.min(self.content_end) && self.tail < self.stable
    }

    /// Makes a note of the segment that is filling, or of a new segment without blocks. Returns
    /// false if there is no room for a note.
    pub(crate) fn fill_note(&mut self) -> bool {
        let has_room = self.has_room_for_records();
        if has_room {
            self.open().is_note = true;
        }
        has_room
    }

    /// Records, in the head of the segment at `first`, the part of the log that is stable while the
    /// segment is written.
    pub(crate) fn claim_stable(&mut self, first: Position) {
        if let Some(segment) = self.writing.iter_mut().find(|segment| segment.first == first) {
            segment.says_stable = self.stable;
            if self.claims.back().map_or(self.stable_on_drive, |&(_, stable)| stable) < self.stable {
                self.claims.push_back((segment.end(), self.stable));
            }
        }
    }

    pub(crate) fn segment_being_written(&self, first: Position) -> &Segment<P> {
        self.writing.iter().find(|segment| segment.first == first).expect("the segment is being written")
    }

    /// Records that the segment at `first` is on the drive. Returns the tasks that waited for the
    /// segment.
    pub(crate) fn written(&mut self, first: Position) -> Vec<TaskId> {
        let segment = self.writing.iter_mut().find(|segment| segment.first == first);
        let segment = segment.expect("the segment is being written");
        segment.written = true;
        let waiting = std::mem::take(&mut segment.waiting);
        if segment.is_note {
            // A power cut leaves this segment, and so its record of what is stable.
            self.stable_on_drive = self.stable_on_drive.max(segment.says_stable);
        }
        while self.writing.front().is_some_and(|segment| segment.written) {
            self.writing.pop_front();
        }
        waiting
    }

    /// Records that the segment at `first` can never be written and stays in memory. Returns the
    /// tasks that waited for the segment.
    pub(crate) fn stays(&mut self, first: Position) -> Vec<TaskId> {
        let segment = self.writing.iter_mut().find(|segment| segment.first == first);
        let segment = segment.expect("the segment is being written");
        segment.stays = true;
        std::mem::take(&mut segment.waiting)
    }

    /// Returns the content of `slot` if it is still in memory.
    pub(crate) fn in_memory(&self, slot: Slot) -> Option<&Piece<P>> {
        if self.gone || (self.filling.is_none() && self.writing.is_empty()) {
            return None;
        }
        let position = self.position(slot);
        let holds = |segment: &&Segment<P>| segment.positions().contains(&position);
        let segment = self.filling.iter().chain(&self.writing).find(holds)?;
        segment.pieces.get((position - segment.first - 1) as usize)
    }

    /// Frees everything before `to` once all tasks older than `next` have ended.
    pub(crate) fn truncate(&mut self, to: Position, next: Serial) {
        self.truncations.push_back((to, next));
    }

    /// Frees slots of truncations whose tasks have ended. Returns the number of slots.
    pub(crate) fn release(&mut self, oldest_task: Serial) -> u64 {
        let before = self.tail;
        while let Some(&(to, started_before)) = self.truncations.front() {
            if started_before > oldest_task {
                break;
            }
            self.truncations.pop_front();
            self.tail = to;
        }
        self.tail - before
    }

    /// Records that the drive is gone: the copies in memory no longer serve reads, since home may
    /// be newer.
    pub(crate) fn drive_gone(&mut self) {
        self.gone = true;
    }

    /// Sets the positions that a recovery found: everything from `tail` to `head` is stable.
    pub(crate) fn recovered(&mut self, tail: Position, head: Position) {
        (self.tail, self.head, self.stable, self.stable_on_drive) = (tail, head, head, head);
        (self.content_end, self.blocks_end) = (head, head);
    }

    /// Records that the next recovery will check the content from `from` on again, because the
    /// drive refused the superblock that ends the doubt.
    pub(crate) fn stays_in_doubt_from(&mut self, from: Position) {
        self.stable_on_drive = self.stable_on_drive.min(from);
    }

    /// Returns true if the log holds any blocks, whether or not their content is still the newest.
    /// Records and notes without blocks do not count: after a crash they bring no content back.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_filling() || self.blocks_end > self.tail
    }

    /// Returns true if the log holds blocks that no migration has given up yet. Blocks that were
    /// given up stay in the log until the tasks that may read them have ended.
    pub(crate) fn has_more_to_migrate(&self) -> bool {
        self.head() > self.tail + self.freeing()
    }

    /// Returns the end of the last sealed segment.
    pub(crate) fn sealed(&self) -> Position {
        self.head
    }

    /// Returns the end of the stable part of the log.
    pub(crate) fn stable(&self) -> Position {
        self.stable
    }

    /// Records that everything before `to` is stable.
    pub(crate) fn made_stable(&mut self, to: Position) {
        self.stable = self.stable.max(to);
        let claimed = self.claims.iter().filter(|(end, _)| *end <= to).map(|&(_, stable)| stable).max();
        self.claims.retain(|(end, _)| *end > to);
        self.stable_on_drive = self.stable_on_drive.max(claimed.unwrap_or(0));
    }

    /// Returns true if recovery would trust the content of `slot` unread.
    pub(crate) fn is_trusted(&self, slot: Slot) -> bool {
        self.position(slot) < self.stable_on_drive
    }

    /// Returns true if a segment with records and no blocks still fits.
    pub(crate) fn has_room_for_records(&self) -> bool {
        // A segment needs SEGMENT_MIN, and a wrap at the region's end may waste nearly as much.
        self.filling.is_some() || self.free() >= 2 * SEGMENT_MIN
    }
}

/// Reasons for which no block can be appended now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// The segment that is filling is full, and older segments are still being written.
    Buffer,
    /// No slot is free: a migration or a commit must free some.
    Log,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(block: u64) -> Piece<()> {
        Piece { block: Block(block), valid: ValidMask::ALL, checksum: 0, is_whole: true, content: () }
    }

    #[test]
    fn segment_has_head_and_foot_and_wraps_as_a_whole() {
        let mut log = LogTail::new(40, 4, false, 0);
        let mut slots = Vec::new();
        for round in 0..6 {
            for block in 0..4 {
                slots.push(log.append(piece(round * 4 + block)).0);
            }
            assert!(log.is_full());
            let first = log.seal(&mut Vec::new()).first;
            assert_eq!(log.in_memory(Slot(slots[0])).is_some(), round == 0);
            log.written(first);
            log.truncate(first, 0);
            log.release(0);
        }
        assert_eq!(&slots[..8], [1, 2, 3, 4, 7, 8, 9, 10]);
        assert_eq!(log.head(), 36);
        [98, 99].into_iter().for_each(|block| {
            log.append(piece(block));
        });
        assert!(log.is_full(), "two blocks between head and foot are what is left of the region");
        assert_eq!(log.in_memory(Slot(38)).unwrap().block, Block(99));
        let first = log.seal(&mut Vec::new()).first;
        log.written(first);
        assert_eq!((log.head(), log.append(piece(1))), (40, Slot(1)));
    }

    /// A segment takes all waiting blocks, even more than the buffer holds, but no more than there
    /// is room in the log.
    #[test]
    fn segment_exceeds_the_buffer_only_within_the_free_room() {
        for slots in [40, 100, 1000] {
            let mut log = LogTail::new(slots, 4, false, 0);
            for block in 0..u64::from(slots) {
                if log.room() == Err(NoRoom::Log) {
                    break;
                }
                log.open_for(500);
                log.append(piece(block));
                if log.is_full() {
                    let (first, blocks) = {
                        let segment = log.seal(&mut Vec::new());
                        (segment.first, segment.pieces.len())
                    };
                    assert!(first > 0 || blocks == (slots as usize / 2 - 3).min(RECORDS_PER_PAGE), "{slots}: {blocks}");
                    log.written(first);
                }
            }
            assert_eq!(log.room(), Err(NoRoom::Log), "{slots} slots");
        }
    }

    /// Blocks count from the moment at which they are in the buffer until they are given up. Notes
    /// and records do not count.
    #[test]
    fn log_is_in_use_while_it_holds_blocks() {
        let mut log = LogTail::new(40, 4, false, 0);
        assert!(log.fill_note() && !log.is_in_use(), "a note");
        log.append(piece(1));
        assert!(log.is_in_use(), "a block in the buffer");
        let first = log.seal(&mut Vec::new()).first;
        log.written(first);
        assert!(log.is_in_use(), "a block on the drive");
        let end = log.head();
        log.open();
        let first = log.seal(&mut vec![Record::Home { block: Block(1) }]).first;
        log.written(first);
        log.truncate(end, 0);
        assert!(log.is_in_use(), "a task may read the block");
        log.release(0);
        assert!(!log.is_in_use() && log.head() > log.tail, "records are left");
        log.recovered(end, log.head());
        assert!(log.is_in_use(), "a recovery does not tell blocks from records");
    }

    #[test]
    fn a_small_log_without_a_buffer_has_room() {
        for slots in 8..600 {
            let mut log = LogTail::new(slots, 0, false, 0);
            assert_eq!(log.room(), Ok(()), "{slots} slots");
            log.append(piece(0));
        }
    }

    #[test]
    fn a_full_log_says_so_before_it_would_overwrite_itself() {
        let mut log = LogTail::new(40, 4, false, 0);
        let mut appended = 0;
        while log.room() != Err(NoRoom::Log) {
            log.append(piece(appended));
            appended += 1;
            if log.is_full() {
                let first = log.seal(&mut Vec::new()).first;
                log.written(first);
            }
        }
        assert!((20..=36).contains(&appended), "{appended}");
    }

    /// A segment records how far the log was stable when it was written. Once that segment is
    /// stable itself, recovery trusts everything before the recorded position, and nothing behind
    /// that position.
    #[test]
    fn slot_is_trusted_when_a_stable_segment_says_so() {
        let mut log = LogTail::new(40, 4, false, 0);
        let append = |log: &mut LogTail<()>| {
            let slot = log.append(piece(0));
            let first = log.seal(&mut Vec::new()).first;
            log.claim_stable(first);
            log.written(first);
            log.made_stable(log.sealed());
            slot
        };
        let first = append(&mut log);
        assert!(!log.is_trusted(first), "no segment says that it is stable");
        let second = append(&mut log);
        assert!(log.is_trusted(first), "the second segment says so");
        assert!(!log.is_trusted(Slot(first.0 + 2)), "the head behind its foot");
        assert!(!log.is_trusted(second));
        let third = append(&mut log);
        assert_eq!([first, second, third].map(|slot| log.is_trusted(slot)), [true, true, false]);
    }

    /// The head of a segment that was on its way while a flush ended does not record that flush.
    #[test]
    fn slot_is_in_doubt_while_only_a_flush_ended() {
        let mut log = LogTail::new(40, 4, false, 0);
        let first = log.append(piece(0));
        let head = log.seal(&mut Vec::new()).first;
        log.claim_stable(head);
        log.written(head);
        let flushed = log.sealed();
        log.append(piece(1));
        let head = log.seal(&mut Vec::new()).first;
        log.claim_stable(head);
        log.made_stable(flushed);
        log.written(head);
        log.made_stable(log.sealed());
        assert!(!log.is_trusted(first) && log.wants_note());
    }

    /// A migration writes runs to the end of the free room. Segments fill the room in front of the
    /// runs only.
    #[test]
    fn lent_room_is_not_appended_to() {
        let mut log = LogTail::new(40, 4, false, 0);
        log.append(piece(0));
        log.seal(&mut Vec::new());
        log.lend_scratch(20);
        assert_eq!((log.scratch(), log.free()), (Some(20..40), 17));
        let mut appended = 0;
        while log.room().is_ok() {
            log.append(piece(appended));
            appended += 1;
            if log.is_full() {
                log.seal(&mut Vec::new());
            }
        }
        assert_eq!(log.room(), Err(NoRoom::Log));
        assert!(log.head() <= 20 && appended > 0, "head {}, {appended} appended", log.head());
        assert!(log.take_scratch_back() && !log.take_scratch_back());
        let (head, free) = (log.head(), log.free());
        log.lend_scratch(2);
        assert_eq!((log.scratch(), log.free()), (Some(head + 8..head + 10), 8), "of {free} free slots");
        log.take_scratch_back();
        assert_eq!((log.room(), log.free()), (Ok(()), 40 - log.head()));
    }

    #[test]
    fn segment_that_stays_in_memory_is_not_awaited() {
        let mut log = LogTail::new(40, 4, false, 0);
        let slot = log.append(piece(0));
        let stays = log.seal(&mut Vec::new()).first;
        assert_eq!(log.await_all(1), 1);
        assert_eq!(log.stays(stays), [1]);
        assert_eq!(log.await_all(2), 0);
        assert!(log.in_memory(slot).is_some(), "reads still find it");
    }
}
