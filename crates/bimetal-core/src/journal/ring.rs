//! The ring of journal pages and the slot table after it: positions, sequence numbers and due
//! writes, without I/O.

use std::collections::{BTreeMap, VecDeque};

use super::record::{RECORDS_PER_PAGE, Record};
use super::table::{Digest, TableHeader};
use super::{
    PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, SUPERBLOCK_SECTORS, marks_pages, marks_place, ring_pages, table_pages,
};
use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::block_map::{BlockMap, Entry, Slot};
use crate::units::SectorRange;

/// Numbers changes of the block map in the order they were made. A change is durable once the
/// journal's durable number reaches it.
pub(crate) type Sequence = u64;

pub(crate) struct Ring {
    first_sector: u64,
    pages: u64,
    slots: u32,
    marks_pages: u64,
    /// Pages written since the beginning. The first `durable` pages are durable, and the slot table
    /// has taken over the first `tail` pages.
    head: u64,
    durable: u64,
    tail: u64,
    /// End of the pages with records. `noted` is the page before which a durable page records
    /// everything as stable.
    recorded: u64,
    noted: u64,
    /// The newest stable page that a written page records.
    claimed: u64,
    /// Pages of the slot table that are older than the ring.
    stale_table: BitSet,
    /// The generation of each page of the slot table as of the newest superblock. `digest` is the
    /// digest of all generations.
    generations: Vec<u64>,
    digest: Digest,
    checkpoint: Option<Checkpoint>,
}

struct Checkpoint {
    /// Pages of the slot table whose first copies are being written or were written.
    pages: BitSet,
    /// The next page to write.
    next_page: u32,
    tail_afterwards: u64,
}

/// Pages of the ring that were taken to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Number of the first page.
    pub(crate) first: u64,
    /// Number of pages.
    pub(crate) count: u64,
    /// Number of records that fit in the pages.
    pub(crate) records: usize,
}

impl Ring {
    /// Makes the ring of a region of metadata that begins at `first_sector`, for `slots` slots of a
    /// volume of `blocks` blocks.
    pub(crate) fn new(first_sector: u64, slots: u32, blocks: u64) -> Self {
        let table = table_pages(u64::from(slots));
        Self {
            first_sector,
            pages: ring_pages(u64::from(slots)),
            slots,
            marks_pages: marks_pages(blocks),
            head: 0,
            durable: 0,
            tail: 0,
            recorded: 0,
            noted: 0,
            claimed: 0,
            stale_table: BitSet::new(table as u32),
            generations: vec![0; table as usize],
            digest: Digest::default(),
            checkpoint: None,
        }
    }

    /// Resets the ring after a recovery, to begin at the page `head`. The slot table has taken over
    /// all records before this page, unless the slot table could not be written.
    pub(crate) fn begin_again(&mut self, head: u64) {
        (self.head, self.durable, self.tail) = (head, head, head);
        (self.recorded, self.noted, self.claimed) = (head, head, head);
        self.checkpoint = None;
    }

    /// Sets the generation with which a page of the slot table was found.
    pub(crate) fn found_table_page(&mut self, page: u32, generation: u64) {
        let before = std::mem::replace(&mut self.generations[page as usize], generation);
        self.digest.toggle(page, before);
        self.digest.toggle(page, generation);
    }

    /// Returns the digest of the generations of all pages of the slot table.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Marks the page of the slot table of `slot` as stale, because its entry changed.
    pub(crate) fn touch_slot(&mut self, slot: Slot) {
        self.touch_page(slot.0 / SLOTS_PER_TABLE_PAGE as u32);
    }

    /// Works as [`touch_slot`](Self::touch_slot), for `count` adjacent slots.
    pub(crate) fn touch_slots(&mut self, first: Slot, count: u32) {
        let page = |slot: u32| slot / SLOTS_PER_TABLE_PAGE as u32;
        self.stale_table.insert_run(page(first.0)..page(first.0 + count - 1) + 1);
    }

    /// Marks a page of the slot table as stale.
    pub(crate) fn touch_page(&mut self, page: u32) {
        self.stale_table.insert(page);
    }

    /// Returns the number of the first page that may not be durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Records that every page taken so far is durable.
    pub(crate) fn all_durable(&mut self) {
        self.noted = self.noted.max(self.claimed);
        self.durable = self.head;
    }

    /// Returns true if pages were taken that are not durable yet.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.durable < self.head
    }

    /// Returns true if records are durable that no page on the drive records as stable. A crash
    /// leaves the slots of records that are not stable in doubt.
    pub(crate) fn wants_note(&self) -> bool {
        self.noted < self.durable.min(self.recorded)
    }

    /// Notes that a page on the drive records everything before the page `stable` as stable.
    pub(crate) fn has_noted(&mut self, stable: u64) {
        self.noted = self.noted.max(stable);
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the place of a copy of `count` pages from page `number` on, cut at the ring's end.
    pub(crate) fn place(&self, number: u64, count: u64, copy: usize) -> SectorRange {
        let position = number % self.pages;
        let count = count.min(self.pages - position);
        SectorRange::new(self.copy_at(copy) + position * PAGE_SECTORS, count * PAGE_SECTORS)
    }

    /// Returns the first sector of a copy of the ring; the slot table follows the ring. The marks
    /// lie between the two copies.
    fn copy_at(&self, copy: usize) -> u64 {
        let each = self.pages + table_pages(u64::from(self.slots)) + 2 * self.marks_pages;
        self.first_sector + SUPERBLOCK_SECTORS + copy as u64 * each * PAGE_SECTORS
    }

    /// Takes the next pages of the ring for `records` records, up to the ring's end. Returns `None`
    /// while a checkpoint must make room first.
    pub(crate) fn take_pages(&mut self, records: usize) -> Option<Taken> {
        let wanted = records.div_ceil(RECORDS_PER_PAGE).max(1) as u64;
        let free = self.pages - (self.head - self.tail);
        if free == 0 {
            return None;
        }
        let first = self.head;
        let count = self.place(first, wanted.min(free), 0).len.0 / PAGE_SECTORS;
        self.head += count;
        self.claimed = self.durable;
        if records > 0 {
            self.recorded = self.head;
        }
        let fit = (count as usize * RECORDS_PER_PAGE).min(records);
        Some(Taken { first, count, records: fit })
    }

    /// Returns true if the ring is half full of durable pages and no checkpoint is under way.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint.is_none() && self.durable - self.tail > self.pages / 2
    }

    /// Begins a checkpoint of everything that is durable in the ring now.
    pub(crate) fn begin_checkpoint(&mut self) {
        assert!(self.checkpoint.is_none(), "one checkpoint at a time");
        let pages = BitSet::new(self.generations.len() as u32);
        self.checkpoint = Some(Checkpoint { pages, next_page: 0, tail_afterwards: self.durable });
    }

    /// Returns the next run of table pages to write, at most `pages_max`, as (first page, count),
    /// for first copies.
    pub(crate) fn next_table_pages(&mut self, pages_max: u32) -> Option<(u32, u32)> {
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is under way");
        let first = self.stale_table.next_member(checkpoint.next_page)?;
        let mut end = first;
        while end - first < pages_max && self.stale_table.next_member(end) == Some(end) {
            self.stale_table.remove(end);
            checkpoint.pages.insert(end);
            end += 1;
        }
        checkpoint.next_page = end;
        Some((first, end - first))
    }

    /// Begins the second copies, once the first copies are stable.
    pub(crate) fn begin_second_copies(&mut self) {
        self.checkpoint.as_mut().expect("a checkpoint is under way").next_page = 0;
    }

    /// Works as [`next_table_pages`](Self::next_table_pages), for second copies.
    pub(crate) fn next_second_copies(&mut self, pages_max: u32) -> Option<(u32, u32)> {
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is under way");
        let first = checkpoint.pages.next_member(checkpoint.next_page)?;
        let mut end = first;
        while end - first < pages_max && checkpoint.pages.next_member(end) == Some(end) {
            end += 1;
        }
        checkpoint.next_page = end;
        Some((first, end - first))
    }

    /// Returns the newest generation of a page of the slot table that a superblock has completed.
    pub(crate) fn generation(&self, page: u32) -> u64 {
        self.generations[page as usize]
    }

    /// Returns the number of pages in the slot table.
    pub(crate) fn table_len(&self) -> u32 {
        self.generations.len() as u32
    }

    /// Returns the header of a page of the slot table for a write with this `generation`.
    pub(crate) fn table_header(&self, volume: u64, index: u32, generation: u64) -> TableHeader {
        TableHeader { volume, index, generation, previous: self.generations[index as usize] }
    }

    /// Returns the digest after the checkpoint under way, whose pages have this `generation`.
    pub(crate) fn digest_afterwards(&self, generation: u64) -> Digest {
        let mut digest = self.digest;
        for page in self.pages_of_checkpoint() {
            digest.toggle(page, self.generations[page as usize]);
            digest.toggle(page, generation);
        }
        digest
    }

    fn pages_of_checkpoint(&self) -> impl Iterator<Item = u32> {
        let pages = self.checkpoint.as_ref().map(|checkpoint| &checkpoint.pages);
        let after = move |from| pages.and_then(|pages| pages.next_member(from));
        std::iter::successors(after(0), move |&last| after(last + 1))
    }

    /// Returns the place of a copy of `count` pages of the slot table from page `first` on.
    pub(crate) fn table_place(&self, first: u32, count: u32, copy: usize) -> SectorRange {
        let start = self.copy_at(copy) + (self.pages + u64::from(first)) * PAGE_SECTORS;
        SectorRange::new(start, u64::from(count) * PAGE_SECTORS)
    }

    /// Returns the place of the marks of this turn.
    pub(crate) fn marks_place(&self, turn: u64) -> SectorRange {
        marks_place(self.first_sector, self.slots.into(), self.marks_pages, turn)
    }

    /// Returns the number of the first page that is still needed after the checkpoint under way.
    pub(crate) fn tail_afterwards(&self) -> u64 {
        self.checkpoint.as_ref().expect("a checkpoint is under way").tail_afterwards
    }

    /// Completes the checkpoint whose pages have this `generation`: frees the ring's pages that the
    /// slot table has taken over.
    pub(crate) fn end_checkpoint(&mut self, generation: u64) {
        self.digest = self.digest_afterwards(generation);
        let written: Vec<u32> = self.pages_of_checkpoint().collect();
        written.into_iter().for_each(|page| self.generations[page as usize] = generation);
        let checkpoint = self.checkpoint.take().expect("a checkpoint is under way");
        self.tail = checkpoint.tail_afterwards;
        self.noted = self.noted.max(self.tail);
    }

    /// Forgets the checkpoint under way, because a write of it failed.
    pub(crate) fn abandon_checkpoint(&mut self) {
        self.checkpoint = None;
    }
}

/// Records that are not on a drive yet, and how far the journal is durable.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) records: Vec<Record>,
    /// Number of records of a cache in a simulation without data, where records are counted and not
    /// kept.
    counted: Option<usize>,
    /// Number of the newest record.
    pub(crate) appended: Sequence,
    /// Number up to which every record is durable.
    pub(crate) durable: Sequence,
    /// Entries of slots before changes whose records are not durable, in order. The slot table may
    /// show only durable changes. If the slot table showed other changes, a crash could find a slot
    /// free that is the only slot with its block.
    undo: VecDeque<Undo>,
    /// Blocks whose content a log has dropped, if the record of the drop is not durable yet.
    dropped: VecDeque<(Sequence, BlockRun)>,
}

struct Undo {
    record: Sequence,
    slot: Slot,
    before: Option<Entry>,
}

impl Pending {
    /// Returns the number of the newest record that is being written or was written.
    pub(crate) fn written(&self) -> Sequence {
        self.appended - self.len() as u64
    }

    /// Counts records from now on without keeping them: pages of records are written without
    /// content.
    pub(crate) fn count_alone(&mut self) {
        self.counted = Some(0);
    }

    /// Returns the number of records that are not on a drive yet.
    pub(crate) fn len(&self) -> usize {
        self.counted.unwrap_or(self.records.len())
    }

    /// Takes the oldest `count` records; no records if the ring only counts records.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Record> {
        match &mut self.counted {
            Some(counted) => {
                *counted -= count;
                Vec::new()
            }
            None => self.records.drain(..count).collect(),
        }
    }

    /// Drops all records, because their drive takes no writes.
    pub(crate) fn clear_records(&mut self) {
        self.records.clear();
        self.counted = self.counted.map(|_| 0);
    }

    pub(crate) fn append(&mut self, record: Record) -> Sequence {
        match &mut self.counted {
            Some(counted) => *counted += 1,
            None => self.records.push(record),
        }
        self.appended += 1;
        self.appended
    }

    /// Appends a record for each block of `run`, which has left its slot. Returns the number of the
    /// last record. Records that are only counted take one step.
    pub(crate) fn append_homes(&mut self, run: BlockRun) -> Sequence {
        match &mut self.counted {
            Some(counted) => *counted += run.count as usize,
            None => self.records.extend(run.blocks().map(|block| Record::Home { block })),
        }
        self.appended += run.count;
        self.appended
    }

    /// Remembers the entry of `slot` as it was before the change by the newest record, or by the
    /// next record.
    pub(crate) fn remember(&mut self, record: Sequence, slot: Slot, before: Option<Entry>) {
        self.undo.push_back(Undo { record, slot, before });
    }

    /// Works as [`remember`](Self::remember), if `slot` has an entry.
    pub(crate) fn remember_all(&mut self, record: Sequence, held: Option<(Slot, Entry)>) {
        if let Some((slot, entry)) = held {
            self.remember(record, slot, Some(entry));
        }
    }

    /// Remembers that the record numbered `record` drops `blocks` from a log.
    pub(crate) fn remember_dropped(&mut self, record: Sequence, blocks: BlockRun) {
        self.dropped.push_back((record, blocks));
    }

    /// Returns the dropped blocks that a crash may still find in the log.
    pub(crate) fn dropped_not_durable(&self) -> impl Iterator<Item = BlockRun> {
        self.dropped.iter().map(|&(_, blocks)| blocks)
    }

    /// Returns the blocks that a crash may find in a slot other than in `map`, and the blocks whose
    /// slot a crash may find with another block.
    pub(crate) fn blocks_not_durable(&self, map: &BlockMap) -> Vec<Block> {
        let places = self.undo.iter().flat_map(|undo| [undo.before, map.in_slot(undo.slot)]);
        places.flatten().map(|entry| entry.block).collect()
    }

    /// Records that every record up to `durable` is durable, and marks the pages of the slot table
    /// of their slots as stale.
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

    /// Returns true if every record is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable == self.appended
    }

    /// Returns true if a crash would find every slot as it is now.
    pub(crate) fn nothing_could_come_back(&self) -> bool {
        self.undo.is_empty()
    }

    /// Returns true if a crash could find a block of `blocks` in a slot that the block has left: as
    /// the only copy of the block if `dirty` is set, and otherwise as a copy of home.
    pub(crate) fn could_come_back(&self, blocks: BlockRun, dirty: bool) -> bool {
        let within = |block: Block| (blocks.first.0..blocks.end()).contains(&block.0);
        let comes_back = |entry: Entry| entry.dirty == dirty && within(entry.block);
        self.undo.iter().any(|undo| undo.before.is_some_and(comes_back))
    }

    /// Returns the blocks that a crash could find as clean copies in slots that they have left.
    pub(crate) fn copies_that_could_come_back(&self) -> impl Iterator<Item = Block> {
        self.undo.iter().filter_map(|undo| undo.before).filter(|entry| !entry.dirty).map(|entry| entry.block)
    }

    /// Forgets all records, because no drive can take them any more.
    pub(crate) fn give_up(&mut self) {
        self.clear_records();
        self.undo.clear();
        self.dropped.clear();
    }

    /// Returns the durable entries of the slots from `first` to `end` (not included).
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
    use crate::journal::{cache_metadata_sectors, superblock_place};

    #[test]
    fn ring_is_never_overrun_and_checkpoint_gives_pages_back() {
        let mut ring = Ring::new(1000, 1000, 5000);
        let mut taken = 0;
        while let Some(pages) = ring.take_pages(500) {
            assert_eq!(pages.first, taken);
            taken += pages.count;
            assert!(pages.records <= 500);
            let end = ring.place(pages.first, pages.count, 0).end().0;
            assert!(end <= 1000 + SUPERBLOCK_SECTORS + 32 * PAGE_SECTORS);
        }
        assert_eq!(taken, 32);
        assert!(!ring.wants_checkpoint(), "nothing of it is durable");
        ring.all_durable();
        assert!(ring.wants_checkpoint());
        ring.touch_slot(Slot(5));
        ring.touch_slot(Slot(999));
        ring.begin_checkpoint();
        assert!(!ring.wants_checkpoint());
        assert_eq!([64; 3].map(|most| ring.next_table_pages(most)), [Some((0, 1)), Some((3, 1)), None]);
        ring.begin_second_copies();
        assert_eq!([64; 3].map(|most| ring.next_second_copies(most)), [Some((0, 1)), Some((3, 1)), None]);
        let digest = ring.digest_afterwards(1);
        ring.end_checkpoint(1);
        assert_eq!((ring.digest(), ring.table_header(7, 3, 2).previous), (digest, 1));
        assert!(ring.take_pages(1).is_some());
    }

    /// Regression: a checkpoint that began with a nearly full ring ended after the ring was full,
    /// and all writes waited for the checkpoint.
    #[test]
    fn checkpoint_is_wanted_once_half_of_the_ring_is_durable() {
        let mut ring = Ring::new(1000, 1000, 5000);
        let wanted = (1..=20).map(|taken| {
            assert_eq!(ring.take_pages(1).map(|pages| pages.count), Some(1));
            ring.all_durable();
            (taken, ring.wants_checkpoint())
        });
        let wanted: Vec<(u64, bool)> = wanted.collect();
        assert!(wanted.iter().all(|&(taken, wanted)| wanted == (taken > 16)), "of 32 pages: {wanted:?}");
    }

    #[test]
    fn copies_and_marks_fill_their_region_without_overlap() {
        for (slots, blocks) in [(16, 1), (253, 16_384), (254, 16_385), (100_000, 9_000_000_000)] {
            let ring = Ring::new(1000, slots, blocks);
            let sectors = cache_metadata_sectors(u64::from(slots), blocks);
            let table = table_pages(u64::from(slots)) as u32;
            let mut parts = vec![ring.marks_place(0), ring.marks_place(1)];
            for copy in [0, 1] {
                parts.extend([ring.place(0, ring.pages(), copy), ring.table_place(0, table, copy)]);
                parts.extend([0, 1].map(|turn| superblock_place(1000, sectors, turn, copy)));
            }
            parts.sort_by_key(|part| part.start);
            assert_eq!((parts[0].start.0, parts[9].end().0), (1000, 1000 + sectors));
            assert!(parts.windows(2).all(|pair| pair[0].end() == pair[1].start), "{slots} slots: {parts:?}");
        }
    }

    #[test]
    fn note_is_wanted_once_for_durable_records() {
        let mut ring = Ring::new(0, 100, 100);
        assert!(!ring.wants_note());
        ring.take_pages(3);
        assert!(!ring.wants_note(), "the page is not durable");
        ring.all_durable();
        assert!(ring.wants_note());
        let stable = ring.durable();
        ring.take_pages(0);
        ring.has_noted(stable);
        ring.all_durable();
        assert!(!ring.wants_note(), "the note itself needs none");
    }

    #[test]
    fn the_table_shows_only_what_is_durable() {
        let entry = |block| Entry { block: Block(block), valid: ValidMask::ALL, dirty: true, checksum: 0 };
        let mut map = BlockMap::new(10);
        map.insert(Slot(1), entry(7));
        let mut pending = Pending::default();
        // The block moves to slot 2, and another block takes slot 1 before either change is
        // durable.
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
