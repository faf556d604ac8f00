//! A cache as a store: slots that are taken and freed one by one, a journal of their block map in a
//! ring of pages with a slot table after it, and marks of the regions whose home may be newer than
//! clean copies.

pub(in crate::volume) mod checkpoint;
pub(in crate::volume) mod marks;

use super::{CommitState, CommitWrite, Kind, MakeRoom, Note};
use crate::block_map::Slot;
use crate::journal::ring::{Pending, Ring, Sequence};
use crate::volume::log_index::Position;
use crate::volume::log_tail::NoRoom;
use crate::volume::space::{CacheSpace, Serial};
use marks::Marks;

/// The slots of a cache.
pub(in crate::volume) struct Cache {
    pub(in crate::volume) space: CacheSpace,
    pub(in crate::volume) ring: Ring,
    pub(in crate::volume) marks: Marks,
    /// Set while a checkpoint is under way.
    pub(in crate::volume) checkpointing: bool,
    /// Set while a note is being written to the ring.
    noting: bool,
    /// Set while slots are being discarded.
    pub(in crate::volume) discarding: bool,
}

impl Cache {
    /// Makes `slots` free slots in buckets of `bucket`, with metadata from `first_sector` on, for a
    /// volume of `blocks` blocks. With `discards`, slots that become free are to be discarded.
    pub(super) fn new(first_sector: u64, (slots, bucket): (u32, u32), blocks: u64, discards: bool) -> Self {
        Self {
            space: CacheSpace::new(slots, bucket, discards),
            ring: Ring::new(first_sector, slots, blocks),
            marks: Marks::new(blocks),
            checkpointing: false,
            noting: false,
            discarding: false,
        }
    }

    /// Takes over the tasks of another cache that have not ended.
    pub(super) fn take_over_tasks(&mut self, old: &Self) {
        (self.checkpointing, self.noting, self.discarding) = (old.checkpointing, old.noting, old.discarding);
    }

    /// Returns true if a note is being written. No commit begins while a note is being written.
    pub(in crate::volume) fn is_noting(&self) -> bool {
        self.noting
    }

    /// Ends the note that everything before the page `stable` is stable. The note was `stored`, or
    /// failed.
    pub(in crate::volume) fn note_ended(&mut self, stable: u64, stored: bool) {
        self.noting = false;
        if stored {
            self.ring.has_noted(stable);
        }
    }

    /// Returns true if a checkpoint is to begin.
    pub(in crate::volume) fn wants_checkpoint(&self) -> bool {
        !self.checkpointing && self.ring.wants_checkpoint()
    }
}

impl<P> Kind<P> for Cache {
    fn records_each_change(&self) -> bool {
        true
    }

    fn free(&self) -> u64 {
        self.space.free()
    }

    fn freeing(&self) -> u64 {
        self.space.freeing()
    }

    fn take_room(&mut self, count_max: u64, online: bool) -> Result<(Option<Slot>, u64), NoRoom> {
        let taken = if online { self.space.take(count_max) } else { None };
        taken.map(|(slot, count)| (Some(slot), count)).ok_or(NoRoom::Log)
    }

    fn occupy(&mut self, slot: Slot) {
        self.space.occupy(slot);
    }

    fn is_taken(&self, slot: Slot) -> bool {
        self.space.is_taken(slot)
    }

    fn give_up(&mut self, first: Slot, count: u32, record: Sequence, next: Serial) -> bool {
        self.space.give_up(first, count, record, next);
        true
    }

    fn give_back(&mut self, slot: Slot) -> bool {
        self.space.give_back_unused(slot);
        true
    }

    fn release(&mut self, durable: Sequence, oldest: Serial) -> u64 {
        self.space.release(durable, oldest)
    }

    fn touch(&mut self, first: Slot, count: u32) {
        self.ring.touch_slots(first, count);
    }

    /// A commit writes pages for all records; the end of the ring may split these pages.
    fn commit(&mut self, pending: &mut Pending, commit: CommitState) -> CommitWrite {
        if pending.written() >= commit.up_to {
            return CommitWrite::Nothing;
        }
        if !commit.is_there {
            pending.give_up();
            return CommitWrite::Nothing;
        }
        self.ring.take_pages(pending.len()).map_or(CommitWrite::Full, CommitWrite::Pages)
    }

    fn make_room(&self) -> MakeRoom {
        if self.ring.has_unflushed() { MakeRoom::FlushPart } else { MakeRoom::Checkpoint }
    }

    fn made_durable(&mut self, pending: &mut Pending, durable: Sequence, stable: Option<Position>) {
        if stable.is_some() {
            self.ring.all_durable();
        }
        pending.made_durable(durable, stable.map(|_| &mut self.ring));
        self.marks.made_durable(durable);
    }

    fn wants_note(&self) -> bool {
        self.ring.wants_note()
    }

    /// Begins no note if a checkpoint is about to empty a full ring, because the checkpoint also
    /// ends the doubt.
    fn begin_note(&mut self) -> Option<Note> {
        let stable = self.ring.durable();
        let taken = self.ring.take_pages(0)?;
        self.noting = true;
        Some(Note::Pages { stable, taken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::journal::record::Record;

    const STATE: CommitState = CommitState { task: 0, up_to: 1, is_there: true, sealed: false };

    fn kind(cache: &mut Cache) -> &mut dyn Kind<()> {
        cache
    }

    fn cache() -> (Cache, Pending) {
        let mut pending = Pending::default();
        pending.append(Record::Home { block: Block(0) });
        (Cache::new(0, (1000, 1), 5000, false), pending)
    }

    #[test]
    fn commit_writes_pages_until_all_records_are_in_them() {
        let (mut cache, mut pending) = cache();
        let CommitWrite::Pages(taken) = kind(&mut cache).commit(&mut pending, STATE) else {
            panic!("there is room in the ring");
        };
        assert_eq!((taken.first, taken.count, taken.records), (0, 1, 1));
        pending.records.clear();
        assert_eq!(kind(&mut cache).commit(&mut pending, STATE), CommitWrite::Nothing);
        kind(&mut cache).made_durable(&mut pending, 1, None);
        assert!(cache.ring.has_unflushed(), "a read-only drive has made no page durable");
        kind(&mut cache).made_durable(&mut pending, 1, Some(0));
        assert!(!cache.ring.has_unflushed());
    }

    /// A checkpoint can only take records from pages that are durable.
    #[test]
    fn full_ring_is_flushed_before_its_checkpoint() {
        let (mut cache, mut pending) = cache();
        while cache.ring.take_pages(1).is_some() {}
        assert_eq!(kind(&mut cache).commit(&mut pending, STATE), CommitWrite::Full);
        assert_eq!(kind(&mut cache).make_room(), MakeRoom::FlushPart);
        cache.ring.all_durable();
        assert_eq!(kind(&mut cache).make_room(), MakeRoom::Checkpoint);
        assert!(cache.wants_checkpoint());
        cache.checkpointing = true;
        assert!(!cache.wants_checkpoint(), "one at a time");
    }

    #[test]
    fn commit_without_its_drive_gives_records_up() {
        let (mut cache, mut pending) = cache();
        let gone = CommitState { is_there: false, ..STATE };
        assert_eq!(kind(&mut cache).commit(&mut pending, gone), CommitWrite::Nothing);
        assert!(pending.records.is_empty());
    }

    /// Slots on a drive that takes no writes are not given to a write.
    #[test]
    fn offline_cache_has_no_room() {
        let (mut cache, _) = cache();
        assert_eq!(kind(&mut cache).take_room(4, false), Err(NoRoom::Log));
        assert_eq!(kind(&mut cache).take_room(4, true), Ok((Some(Slot(0)), 4)));
        assert!(kind(&mut cache).give_back(Slot(3)));
        assert_eq!((kind(&mut cache).free(), kind(&mut cache).is_taken(Slot(3))), (997, false));
    }

    #[test]
    fn note_holds_commits_back_until_it_ends() {
        let (mut cache, _) = cache();
        cache.ring.take_pages(1);
        cache.ring.all_durable();
        let Some(Note::Pages { stable, .. }) = kind(&mut cache).begin_note() else { panic!("there is room") };
        assert!(cache.is_noting() && kind(&mut cache).wants_note());
        cache.note_ended(stable, false);
        assert!(!cache.is_noting() && kind(&mut cache).wants_note(), "the note failed");
        cache.note_ended(stable, true);
        assert!(!kind(&mut cache).wants_note());
    }
}
