//! The ring of journal pages and the slot table behind it: positions, sequence numbers and what is due, without I/O.

use std::collections::{BTreeMap, VecDeque};

use super::record::{RECORDS_PER_PAGE, Record};
use super::{PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, SUPERBLOCK_SECTORS, marks_pages, ring_pages, table_pages};
use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::block_map::{BlockMap, Entry, Slot};
use crate::units::SectorRange;

/// Numbers map changes in the order they were made; a change is durable once the journal's durable number reaches it.
pub(crate) type Sequence = u64;

pub(crate) struct Ring {
    first_sector: u64,
    pages: u64,
    slots: u32,
    marks_pages: u64,
    /// Pages written since the beginning, how many of them are durable, and how many the slot table has taken over.
    head: u64,
    durable: u64,
    tail: u64,
    /// Pages of the slot table that are older than the ring.
    stale_table: BitSet,
    checkpoint: Option<Checkpoint>,
}

struct Checkpoint {
    next_page: u32,
    tail_afterwards: u64,
}

impl Ring {
    /// The ring in a region of metadata that begins at `first_sector`, for so many slots of a volume of so many blocks;
    /// its next page has the number `head`.
    pub(crate) fn new(first_sector: u64, slots: u32, blocks: u64, head: u64) -> Self {
        Self {
            first_sector,
            pages: ring_pages(u64::from(slots)),
            slots,
            marks_pages: marks_pages(blocks),
            head,
            durable: head,
            tail: head,
            stale_table: BitSet::new(table_pages(u64::from(slots)) as u32),
            checkpoint: None,
        }
    }

    /// Says that the entry of `slot` changed.
    pub(crate) fn touch_slot(&mut self, slot: Slot) {
        self.stale_table.insert(slot.0 / SLOTS_PER_TABLE_PAGE as u32);
    }

    /// The number of the first page that may not be durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Every page taken so far is durable.
    pub(crate) fn all_durable(&mut self) {
        self.durable = self.head;
    }

    /// Whether pages were taken that are not durable yet.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.durable < self.head
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Where `count` pages from the one with this number on lie, up to the ring's end.
    pub(crate) fn place(&self, number: u64, count: u64) -> SectorRange {
        let position = number % self.pages;
        let count = count.min(self.pages - position);
        let start = self.first_sector + SUPERBLOCK_SECTORS + position * PAGE_SECTORS;
        SectorRange::new(start, count * PAGE_SECTORS)
    }

    /// Takes the next pages of the ring for `records` records: up to the ring's end, `None` while a checkpoint must
    /// make room first. Gives their place and how many records fit there.
    pub(crate) fn take_pages(&mut self, records: usize) -> Option<(SectorRange, u64, usize)> {
        let wanted = records.div_ceil(RECORDS_PER_PAGE).max(1) as u64;
        let free = self.pages - (self.head - self.tail);
        if free == 0 {
            return None;
        }
        let first_page = self.head;
        let range = self.place(first_page, wanted.min(free));
        let count = range.len.0 / PAGE_SECTORS;
        self.head += count;
        let fit = (count as usize * RECORDS_PER_PAGE).min(records);
        Some((range, first_page, fit))
    }

    /// Whether the ring is half full of what is durable and nobody is emptying it.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint.is_none() && self.durable - self.tail > self.pages / 2
    }

    /// Begins to take everything that is durable in the ring now over into the slot table.
    pub(crate) fn begin_checkpoint(&mut self) {
        assert!(self.checkpoint.is_none(), "one checkpoint at a time");
        self.checkpoint = Some(Checkpoint { next_page: 0, tail_afterwards: self.durable });
    }

    /// The next run of table pages to write, at most `pages_max`, as their place and the first slot they describe.
    pub(crate) fn next_table_pages(&mut self, pages_max: u32) -> Option<(SectorRange, Slot)> {
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is under way");
        let first = self.stale_table.next_member(checkpoint.next_page)?;
        let mut end = first;
        while end - first < pages_max && self.stale_table.next_member(end) == Some(end) {
            self.stale_table.remove(end);
            end += 1;
        }
        checkpoint.next_page = end;
        Some((self.table_place(first, end - first), Slot(first * SLOTS_PER_TABLE_PAGE as u32)))
    }

    /// Where `count` pages of the slot table from the `first`th on lie.
    pub(crate) fn table_place(&self, first: u32, count: u32) -> SectorRange {
        let page = self.pages + u64::from(first);
        let start = self.first_sector + SUPERBLOCK_SECTORS + page * PAGE_SECTORS;
        SectorRange::new(start, u64::from(count) * PAGE_SECTORS)
    }

    /// Where the area of marks of this turn lies.
    pub(crate) fn marks_place(&self, turn: u64) -> SectorRange {
        let page = self.pages + table_pages(u64::from(self.slots)) + turn * self.marks_pages;
        SectorRange::new(self.first_sector + SUPERBLOCK_SECTORS + page * PAGE_SECTORS, self.marks_pages * PAGE_SECTORS)
    }

    /// The number of the first page that is still needed when the checkpoint under way has ended.
    pub(crate) fn tail_afterwards(&self) -> u64 {
        self.checkpoint.as_ref().expect("a checkpoint is under way").tail_afterwards
    }

    /// Gives back the pages that the slot table has taken over.
    pub(crate) fn end_checkpoint(&mut self) {
        let checkpoint = self.checkpoint.take().expect("a checkpoint is under way");
        self.tail = checkpoint.tail_afterwards;
    }

    /// Forgets the checkpoint under way: a write of it failed.
    pub(crate) fn abandon_checkpoint(&mut self) {
        self.checkpoint = None;
    }
}

/// Records that are not on a drive yet, and how far the journal is durable.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) records: Vec<Record>,
    /// The number of the newest record.
    pub(crate) appended: Sequence,
    /// Every record up to this number is durable.
    pub(crate) durable: Sequence,
    /// What slots held before changes whose records are not durable, in order: the slot table may show no more than what
    /// is durable, or a crash would find a slot given up whose block has no other.
    undo: VecDeque<Undo>,
    /// What a log gave up in records that are not durable.
    dropped: VecDeque<(Sequence, BlockRun)>,
}

struct Undo {
    record: Sequence,
    slot: Slot,
    before: Option<Entry>,
}

impl Pending {
    /// The number of the newest record that is on its way to a drive.
    pub(crate) fn written(&self) -> Sequence {
        self.appended - self.records.len() as u64
    }

    pub(crate) fn append(&mut self, record: Record) -> Sequence {
        self.records.push(record);
        self.appended += 1;
        self.appended
    }

    /// Remembers what `slot` held before the change that the newest record, or the next one, is about.
    pub(crate) fn remember(&mut self, record: Sequence, slot: Slot, before: Option<Entry>) {
        self.undo.push_back(Undo { record, slot, before });
    }

    /// Like [`remember`](Self::remember), for a slot that may not be.
    pub(crate) fn remember_all(&mut self, record: Sequence, held: Option<(Slot, Entry)>) {
        if let Some((slot, entry)) = held {
            self.remember(record, slot, Some(entry));
        }
    }

    /// Remembers that the record numbered `record` says that a log has nothing of `blocks` any more.
    pub(crate) fn remember_dropped(&mut self, record: Sequence, blocks: BlockRun) {
        self.dropped.push_back((record, blocks));
    }

    /// What a log has given up and a crash may find there still.
    pub(crate) fn dropped_not_durable(&self) -> impl Iterator<Item = BlockRun> {
        self.dropped.iter().map(|&(_, blocks)| blocks)
    }

    /// Blocks that a crash may find elsewhere than `map` says, or in the same place as something else.
    pub(crate) fn blocks_not_durable(&self, map: &BlockMap) -> Vec<Block> {
        let places = self.undo.iter().flat_map(|undo| [undo.before, map.in_slot(undo.slot)]);
        places.flatten().map(|entry| entry.block).collect()
    }

    /// Every record up to `durable` is durable: the table pages of their slots are to be written.
    pub(crate) fn made_durable(&mut self, durable: Sequence, ring: Option<&mut Ring>) {
        self.durable = durable;
        let ended = self.undo.partition_point(|undo| undo.record <= durable);
        let ended = self.undo.drain(..ended);
        let gone = self.dropped.partition_point(|&(record, _)| record <= durable);
        self.dropped.drain(..gone);
        if let Some(ring) = ring {
            ended.for_each(|undo| ring.touch_slot(undo.slot));
        }
    }

    /// Whether every record is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable == self.appended
    }

    /// Whether a crash finds no slot other than it is now.
    pub(crate) fn nothing_could_come_back(&self) -> bool {
        self.undo.is_empty()
    }

    /// Whether a crash could find one of `blocks` in a slot that it has left: as the only one that has it where `dirty`, else
    /// as a copy of home.
    pub(crate) fn could_come_back(&self, blocks: BlockRun, dirty: bool) -> bool {
        let within = |block: Block| (blocks.first.0..blocks.end()).contains(&block.0);
        let comes_back = |entry: Entry| entry.dirty == dirty && within(entry.block);
        self.undo.iter().any(|undo| undo.before.is_some_and(comes_back))
    }

    /// The records can go nowhere any more.
    pub(crate) fn give_up(&mut self) {
        self.records.clear();
        self.undo.clear();
        self.dropped.clear();
    }

    /// What the slots from `first` to `end` (not included) hold as far as it is durable.
    pub(crate) fn durable_entries(&self, map: &BlockMap, first: u32, end: u32) -> impl Iterator<Item = Option<Entry>> {
        let undone = self.undo.iter().rev().filter(|undo| (first..end).contains(&undo.slot.0));
        // The oldest of a slot's changes comes last, and counts.
        let undone: BTreeMap<u32, Option<Entry>> = undone.map(|undo| (undo.slot.0, undo.before)).collect();
        (first..end).map(move |slot| undone.get(&slot).copied().unwrap_or_else(|| map.in_slot(Slot(slot))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::ValidMask;

    #[test]
    fn a_ring_is_never_overrun_and_a_checkpoint_gives_its_pages_back() {
        let mut ring = Ring::new(1000, 1000, 5000, 0);
        let mut taken = 0;
        while let Some((range, first, fit)) = ring.take_pages(500) {
            assert_eq!(first, taken);
            taken += range.len.0 / PAGE_SECTORS;
            assert!(fit <= 500);
            assert!(range.end().0 <= 1000 + SUPERBLOCK_SECTORS + 32 * PAGE_SECTORS);
        }
        assert_eq!(taken, 32);
        assert!(!ring.wants_checkpoint(), "nothing of it is durable");
        ring.all_durable();
        assert!(ring.wants_checkpoint());
        ring.touch_slot(Slot(5));
        ring.touch_slot(Slot(999));
        ring.begin_checkpoint();
        assert!(!ring.wants_checkpoint());
        let table = 1000 + SUPERBLOCK_SECTORS + 32 * PAGE_SECTORS;
        assert_eq!(ring.next_table_pages(64), Some((SectorRange::new(table, 8), Slot(0))));
        assert_eq!(ring.next_table_pages(64), Some((SectorRange::new(table + 24, 8), Slot(768))));
        assert_eq!(ring.next_table_pages(64), None);
        ring.end_checkpoint();
        assert!(ring.take_pages(1).is_some());
    }

    #[test]
    fn the_table_shows_only_what_is_durable() {
        let entry = |block| Entry { block: Block(block), valid: ValidMask::ALL, dirty: true, checksum: 0 };
        let mut map = BlockMap::new(10);
        map.insert(Slot(1), entry(7));
        let mut pending = Pending::default();
        // The block moves to slot 2, and another one takes slot 1 before anything of that is durable.
        map.insert(Slot(2), entry(7));
        let record = pending.append(Record::Home { block: Block(0) });
        pending.remember(record, Slot(1), Some(entry(7)));
        pending.remember(record, Slot(2), None);
        map.insert(Slot(1), entry(8));
        let record = pending.append(Record::Home { block: Block(0) });
        pending.remember(record, Slot(1), None);
        let shown = |pending: &Pending| pending.durable_entries(&map, 1, 3).collect::<Vec<_>>();
        assert_eq!(shown(&pending), [Some(entry(7)), None]);
        pending.made_durable(1, None);
        assert_eq!(shown(&pending), [None, Some(entry(7))]);
        pending.made_durable(2, None);
        assert_eq!(shown(&pending), [Some(entry(8)), Some(entry(7))]);
    }
}
