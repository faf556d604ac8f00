//! The store: the content off home, by kind.
//!
//! A volume has slots that are a cache or a log, ranges that change their homes, or nothing off
//! home. A [`Kind`] has the methods that every kind of store implements in its own way: the room
//! for a write, its part of a commit, the slots that become free; [`Store::kind`] returns them.
//! Machines of one kind ask for [their own](Store::cache) store: the checkpoint of a cache, the
//! index of a log. So do promotions, which take slots of a cache.

pub(super) mod cache;
mod log;
pub(super) mod ranges;

use super::log_index::Position;
use super::log_tail::{LogTail, NoRoom, Piece};
use super::space::Serial;
use super::tasks::TaskId;
use crate::block_map::Slot;
use crate::journal::ring::{Pending, Sequence, Taken};
use crate::journal::superblock::Superblock;
use crate::layout::{Layout, SlotKind, SlotRegion};
use crate::scheme::Properties;
use crate::units::Nanoseconds;
use cache::Cache;
use ranges::Ranges;

/// Records that wait in memory at most: 48 KiB of records.
const RECORDS_MAX: usize = 2048;

/// The next write of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommitWrite {
    /// All records and segments are being written already.
    Nothing,
    /// Pages of the ring, with the oldest records.
    Pages(Taken),
    /// The segment that is filling.
    Segment,
    /// The commit waits for the segments that are being written; the last segment ends at `end`.
    Await { segments: u32, end: Position },
    /// No room is left, and the commit must make room.
    Full,
}

/// The way in which a commit makes room for its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MakeRoom {
    /// The pages written so far are made durable, so that a checkpoint can take them over.
    FlushPart,
    /// A checkpoint frees pages of the ring.
    Checkpoint,
    /// The commit waits until a migration frees slots.
    FreeSlots,
}

/// A note that the last flush has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Note {
    /// A note in the segment that is filling: everything before the segment is stable.
    Segment,
    /// A note in a page of the ring: everything before the page `stable` is stable.
    Pages { stable: u64, taken: Taken },
}

/// A commit under way, as its store sees it.
#[derive(Clone, Copy)]
pub(super) struct CommitState {
    pub(super) task: TaskId,
    /// The newest record when the commit began.
    pub(super) up_to: Sequence,
    /// Set if the member with the records is present.
    pub(super) is_there: bool,
    /// Set once the write of every segment of a log has been issued.
    pub(super) sealed: bool,
}

/// Trait of a kind of store: the steps that each kind of store carries out in its own way. The
/// default methods are those of a store without slots.
pub(super) trait Kind<P> {
    /// Returns true if the store has slots.
    fn has_slots(&self) -> bool {
        true
    }

    /// Returns true if the journal has a record of each change of the block map.
    fn records_each_change(&self) -> bool {
        false
    }

    /// Returns the number of slots that can be taken now.
    fn free(&self) -> u64 {
        0
    }

    /// Returns the number of slots that were left and cannot be taken yet.
    fn freeing(&self) -> u64 {
        0
    }

    /// Takes room for up to `count_max` blocks: their first slot, if it is known before they are
    /// written, and their number. `online` is set if the member with the slots takes writes.
    fn take_room(&mut self, count_max: u64, online: bool) -> Result<(Option<Slot>, u64), NoRoom>;

    /// Marks a slot as taken that a recovery found in use.
    fn occupy(&mut self, _slot: Slot) {}

    /// Returns true if a slot of the block map is taken, as it must be.
    fn is_taken(&self, _slot: Slot) -> bool {
        true
    }

    /// Queues `count` adjacent slots that were left for reuse. The record numbered `record` is the
    /// last that took one of their blocks out; `next` is the serial of the next task. Returns true
    /// if the slots wait to become free.
    fn give_up(&mut self, _first: Slot, _count: u32, _record: Sequence, _next: Serial) -> bool {
        false
    }

    /// Frees a slot that never held a known block. Returns true if the slot was taken.
    fn give_back(&mut self, _slot: Slot) -> bool {
        false
    }

    /// Frees the slots that may be free now. Returns their number.
    fn release(&mut self, _durable: Sequence, _oldest: Serial) -> u64 {
        0
    }

    /// Notes that the block map changed at `count` adjacent slots, by changes without a record.
    fn touch(&mut self, _first: Slot, _count: u32) {}

    /// Returns true if recovery would trust the content of `slot` unread.
    fn is_trusted(&self, _slot: Slot) -> bool {
        true
    }

    /// Returns true if a crash may find `slot` without its content.
    fn is_unstable(&self, _slot: Slot) -> bool {
        false
    }

    /// Returns the content of `slot` if it is still in memory.
    fn in_memory(&self, _slot: Slot) -> Option<&Piece<P>> {
        None
    }

    /// Returns the place of `slot` in the order in which slots were written.
    fn order_of(&self, slot: Slot) -> u64 {
        slot.0.into()
    }

    /// Returns true if one operation may read two slots together with the slots in between.
    fn are_read_together(&self, _slot: Slot, _next: Slot) -> bool {
        false
    }

    /// Notes that the drive with the slots is gone.
    fn drive_gone(&mut self) {}

    /// Returns the next write of a commit.
    fn commit(&mut self, pending: &mut Pending, _commit: CommitState) -> CommitWrite {
        pending.give_up();
        CommitWrite::Nothing
    }

    /// Returns the way to make room for a commit that found no room.
    fn make_room(&self) -> MakeRoom {
        MakeRoom::FreeSlots
    }

    /// Records that every record up to `durable` is durable. With `stable`, the pages or segments
    /// with these records are stable, too; `stable` is the position at which these segments of a
    /// log end.
    fn made_durable(&mut self, pending: &mut Pending, durable: Sequence, _stable: Option<Position>) {
        pending.made_durable(durable, None);
    }

    /// Returns true if a crash would leave stable content in doubt, because nothing on the drive
    /// records that it is stable.
    fn wants_note(&self) -> bool {
        false
    }

    /// Begins a note of the stable part, if there is room for a note.
    fn begin_note(&mut self) -> Option<Note> {
        None
    }
}

/// Store without slots: no content is off home.
struct NoSlots;

impl<P> Kind<P> for NoSlots {
    fn has_slots(&self) -> bool {
        false
    }

    fn take_room(&mut self, _count_max: u64, _online: bool) -> Result<(Option<Slot>, u64), NoRoom> {
        panic!("the scheme places a write in slots that its layout does not have");
    }
}

enum Slots<P> {
    None(NoSlots),
    Cache(Box<Cache>),
    Log(Box<LogTail<P>>),
    Ranges(Ranges),
}

/// The content off home, and the records of it that are not on a drive yet.
pub(super) struct Store<P> {
    pub(super) pending: Pending,
    /// The newest durable superblock. The superblock has the volume's identity, even in a volume
    /// without slots, whose superblock is on no drive.
    pub(super) superblock: Superblock,
    /// Time at which a note that the last flush has ended is due.
    pub(super) note_at: Option<Nanoseconds>,
    slots: Slots<P>,
}

impl<P> Store<P> {
    /// Returns an empty store for a layout, whose `first` superblock begins its first epoch.
    pub(super) fn new(layout: &Layout, properties: &Properties, first: &Superblock) -> Self {
        let slots = match (layout.slots, layout.metadata) {
            (Some(SlotRegion { kind: SlotKind::Cache, count, bucket, .. }), Some(metadata)) => {
                let blocks = layout.total_blocks();
                let discards = properties.discards_free_slots;
                Slots::Cache(Box::new(Cache::new(metadata.first_sector, (count, bucket), blocks, discards)))
            }
            (Some(SlotRegion { kind: SlotKind::Log { buffer_blocks }, count, .. }), Some(metadata)) => {
                let unbounded = properties.migrates_instantly;
                Slots::Log(Box::new(LogTail::new(count, buffer_blocks, unbounded, metadata.first_sector)))
            }
            _ if layout.places.is_some() => Slots::Ranges(Ranges::default()),
            _ => Slots::None(NoSlots),
        };
        Self { pending: Pending::default(), superblock: first.second(), note_at: None, slots }
    }

    /// Empties the store: its member was replaced by an empty member, the drive of the number
    /// `drive`, in the epoch `life`. The
    /// numbers of records continue, because tasks may wait for a number. Tasks of the store that
    /// have not ended go on, too.
    pub(super) fn begin_again(&mut self, layout: &Layout, properties: &Properties, (life, drive): (u32, u32)) {
        let mut new = Self::new(layout, properties, &Superblock::first(self.identity(), life, drive));
        if let (Slots::Cache(new), Slots::Cache(old)) = (&mut new.slots, &self.slots) {
            new.take_over_tasks(old);
        }
        if let (Slots::Log(new), Slots::Log(old)) = (&mut new.slots, &self.slots) {
            new.index.take_over_limit(&old.index);
        }
        new.pending = std::mem::take(&mut self.pending);
        new.pending.give_up();
        new.note_at = self.note_at;
        *self = new;
    }

    /// Returns the number that names the volume in its metadata.
    pub(super) fn identity(&self) -> u64 {
        self.superblock.volume
    }

    /// Returns the store by its kind.
    pub(super) fn kind(&self) -> &dyn Kind<P> {
        match &self.slots {
            Slots::None(none) => none,
            Slots::Cache(cache) => &**cache,
            Slots::Log(log) => &**log,
            Slots::Ranges(ranges) => ranges,
        }
    }

    /// Works as [`kind`](Self::kind), but returns the store for changes, with the records that are
    /// not on a drive yet.
    fn parts(&mut self) -> (&mut dyn Kind<P>, &mut Pending) {
        let kind: &mut dyn Kind<P> = match &mut self.slots {
            Slots::None(none) => none,
            Slots::Cache(cache) => &mut **cache,
            Slots::Log(log) => &mut **log,
            Slots::Ranges(ranges) => ranges,
        };
        (kind, &mut self.pending)
    }

    pub(super) fn kind_mut(&mut self) -> &mut dyn Kind<P> {
        self.parts().0
    }

    /// Returns the slots of a cache.
    #[inline]
    pub(super) fn cache(&self) -> Option<&Cache> {
        if let Slots::Cache(cache) = &self.slots { Some(cache) } else { None }
    }

    /// Returns the slots of a cache, and the records that are not on a drive yet.
    pub(super) fn cache_mut(&mut self) -> Option<(&mut Cache, &mut Pending)> {
        if let Slots::Cache(cache) = &mut self.slots { Some((cache, &mut self.pending)) } else { None }
    }

    /// Returns the three things that a checkpoint writes: the slots of a cache, the records that
    /// are not on a drive yet, and the newest durable superblock.
    pub(super) fn checkpointed(&mut self) -> Option<(&mut Cache, &Pending, &Superblock)> {
        let Self { slots: Slots::Cache(cache), pending, superblock, .. } = self else { return None };
        Some((cache, pending, superblock))
    }

    /// Returns the slots of a log.
    #[inline]
    pub(super) fn log(&self) -> Option<&LogTail<P>> {
        if let Slots::Log(log) = &self.slots { Some(log) } else { None }
    }

    #[inline]
    pub(super) fn log_mut(&mut self) -> Option<&mut LogTail<P>> {
        if let Slots::Log(log) = &mut self.slots { Some(log) } else { None }
    }

    /// Returns the ranges that change their homes.
    #[inline]
    pub(super) fn ranges(&self) -> Option<&Ranges> {
        if let Slots::Ranges(ranges) = &self.slots { Some(ranges) } else { None }
    }

    pub(super) fn ranges_mut(&mut self) -> Option<&mut Ranges> {
        if let Slots::Ranges(ranges) = &mut self.slots { Some(ranges) } else { None }
    }

    /// Returns true if a block may have several pieces, each appended to a log.
    #[inline]
    pub(super) fn appends(&self) -> bool {
        self.log().is_some()
    }

    /// Returns the next write of a commit.
    pub(super) fn commit(&mut self, commit: CommitState) -> CommitWrite {
        let (kind, pending) = self.parts();
        kind.commit(pending, commit)
    }

    /// Seals the segment of a log that is filling, with the records that wait. Returns the first
    /// position of the segment; `None` if no segment is filling.
    pub(super) fn seal_segment(&mut self) -> Option<Position> {
        let Self { slots: Slots::Log(log), pending, .. } = self else { return None };
        log.filling.is_some().then(|| log.seal(&mut pending.records).first)
    }

    /// Records that every record up to `durable` is durable.
    pub(super) fn made_durable(&mut self, durable: Sequence, stable: Option<Position>) {
        let (kind, pending) = self.parts();
        kind.made_durable(pending, durable, stable);
    }

    /// Frees the slots that may be free now. Returns their number.
    pub(super) fn release(&mut self, oldest: Serial) -> u64 {
        let (kind, pending) = self.parts();
        kind.release(pending.durable, oldest)
    }

    /// Returns true if so many records wait that they must be written now.
    pub(super) fn has_many_records(&self) -> bool {
        self.pending.len() >= RECORDS_MAX
    }

    /// Returns true if a record waits for the commit that makes it durable.
    pub(super) fn has_records_to_commit(&self) -> bool {
        self.pending.durable < self.pending.appended
    }

    /// Schedules a note at `at`, or cancels the note.
    pub(super) fn note_later(&mut self, at: Option<Nanoseconds>) {
        self.note_at = at;
    }
}
