//! A log as a store: content is appended, and a migration frees it from the old end.

use super::{CommitState, CommitWrite, Kind, Note};
use crate::block_map::Slot;
use crate::journal::SEGMENT_PAGES;
use crate::journal::ring::{Pending, Sequence};
use crate::volume::log_index::Position;
use crate::volume::log_tail::{LogTail, NoRoom, Piece};
use crate::volume::space::Serial;

impl<P> Kind<P> for LogTail<P> {
    fn free(&self) -> u64 {
        self.free()
    }

    fn freeing(&self) -> u64 {
        self.freeing()
    }

    fn take_room(&mut self, count_max: u64, _online: bool) -> Result<(Option<Slot>, u64), NoRoom> {
        self.room().map(|()| (None, count_max))
    }

    /// Room that is lent to a migration holds no block.
    fn is_taken(&self, slot: Slot) -> bool {
        !self.scratch().is_some_and(|scratch| scratch.contains(&self.position(slot)))
    }

    fn release(&mut self, _durable: Sequence, oldest: Serial) -> u64 {
        self.release(oldest)
    }

    fn is_trusted(&self, slot: Slot) -> bool {
        self.is_trusted(slot)
    }

    fn is_unstable(&self, slot: Slot) -> bool {
        self.position(slot) >= self.stable()
    }

    fn in_memory(&self, slot: Slot) -> Option<&Piece<P>> {
        self.in_memory(slot)
    }

    fn order_of(&self, slot: Slot) -> u64 {
        self.position(slot)
    }

    /// The two slots must be on the drive, at most a foot and a head apart.
    fn are_read_together(&self, slot: Slot, next: Slot) -> bool {
        let (at, next_at) = (self.position(slot), self.position(next));
        let is_near = next.0 > slot.0 && next_at > at && next_at <= at + 1 + SEGMENT_PAGES;
        is_near && self.in_memory(slot).is_none() && self.in_memory(next).is_none()
    }

    fn drive_gone(&mut self) {
        self.drive_gone();
    }

    /// Every segment that is not on the drive yet is written; the commit goes on when all segments
    /// are on the drive.
    fn commit(&mut self, pending: &mut Pending, commit: CommitState) -> CommitWrite {
        if !commit.is_there {
            pending.give_up();
            return CommitWrite::Nothing;
        }
        if commit.sealed {
            return CommitWrite::Nothing;
        }
        if pending.written() < commit.up_to || self.is_filling() {
            if !self.has_room_for_records() {
                return CommitWrite::Full;
            }
            self.open();
            return CommitWrite::Segment;
        }
        let segments = self.await_all(commit.task);
        CommitWrite::Await { segments, end: self.sealed() }
    }

    fn made_durable(&mut self, pending: &mut Pending, durable: Sequence, stable: Option<Position>) {
        if let Some(end) = stable {
            self.made_stable(end);
        }
        pending.made_durable(durable, None);
    }

    fn wants_note(&self) -> bool {
        self.wants_note()
    }

    fn begin_note(&mut self) -> Option<Note> {
        self.fill_note().then_some(Note::Segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, ValidMask};
    use crate::journal::record::Record;

    const STATE: CommitState = CommitState { task: 5, up_to: 1, is_there: true, sealed: false };

    fn append(log: &mut LogTail<()>, block: u64) {
        log.append(Piece { block: Block(block), valid: ValidMask::ALL, checksum: 0, is_whole: true, content: () });
    }

    fn pending() -> Pending {
        let mut pending = Pending::default();
        pending.append(Record::Home { block: Block(0) });
        pending
    }

    /// A commit writes the segment with its records, waits for the segments on their way, and is
    /// done once all of them are on the drive.
    #[test]
    fn commit_writes_its_segment_and_awaits_all() {
        let (mut log, mut pending) = (LogTail::new(40, 4, false, 0), pending());
        append(&mut log, 3);
        assert_eq!(log.commit(&mut pending, STATE), CommitWrite::Segment);
        let first = log.seal(&mut pending.records).first;
        let end = log.sealed();
        assert_eq!(log.commit(&mut pending, STATE), CommitWrite::Await { segments: 1, end });
        assert_eq!(log.written(first), [5]);
        assert_eq!(log.commit(&mut pending, CommitState { sealed: true, ..STATE }), CommitWrite::Nothing);
        Kind::<()>::made_durable(&mut log, &mut pending, 1, Some(end));
        assert!(pending.is_durable() && log.stable() == end);
    }

    #[test]
    fn commit_of_records_alone_needs_room_for_a_segment() {
        let (mut log, mut pending) = (LogTail::new(40, 4, false, 0), pending());
        while log.has_room_for_records() {
            append(&mut log, 1);
            log.seal(&mut Vec::new());
        }
        assert_eq!(log.commit(&mut pending, STATE), CommitWrite::Full);
        assert_eq!(Kind::<()>::make_room(&log), super::super::MakeRoom::FreeSlots);
    }

    #[test]
    fn commit_without_its_drive_gives_records_up() {
        let (mut log, mut pending) = (LogTail::<()>::new(40, 4, false, 0), pending());
        assert_eq!(log.commit(&mut pending, CommitState { is_there: false, ..STATE }), CommitWrite::Nothing);
        assert!(pending.records.is_empty());
    }

    #[test]
    fn slots_on_their_way_are_not_read_with_others() {
        let mut log = LogTail::new(40, 4, false, 0);
        (0..2).for_each(|block| append(&mut log, block));
        let first = log.seal(&mut Vec::new()).first;
        append(&mut log, 2);
        let second = log.seal(&mut Vec::new()).first;
        let together = |log: &LogTail<()>, slot, next| log.are_read_together(Slot(slot), Slot(next));
        assert!(!together(&log, 1, 2), "both are in memory");
        log.written(first);
        assert!(together(&log, 1, 2) && !together(&log, 2, 5));
        log.written(second);
        assert!(together(&log, 2, 5), "a foot and a head lie between them");
        assert!(!together(&log, 1, 5) && !together(&log, 5, 2));
    }
}
