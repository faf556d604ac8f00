//! The ring of journal pages and the slot table behind it: positions, sequence numbers and what is due, without I/O.

use super::record::{RECORDS_PER_PAGE, Record};
use super::{PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, SUPERBLOCK_SECTORS, ring_pages};
use crate::bit_set::BitSet;
use crate::block_map::Slot;
use crate::units::SectorRange;

/// Numbers map changes in the order they were made; a change is durable once the journal's durable number reaches it.
pub(crate) type Sequence = u64;

pub(crate) struct Ring {
    first_sector: u64,
    pages: u64,
    /// Pages written since the beginning, and how many of them the slot table has taken over.
    head: u64,
    tail: u64,
    /// Pages of the slot table that are older than the ring.
    stale_table: BitSet,
    checkpoint: Option<Checkpoint>,
    superblock_turn: u64,
}

struct Checkpoint {
    next_page: u32,
    tail_afterwards: u64,
}

impl Ring {
    pub(crate) fn new(first_sector: u64, slots: u32) -> Self {
        Self {
            first_sector,
            pages: ring_pages(u64::from(slots)),
            head: 0,
            tail: 0,
            stale_table: BitSet::new(u64::from(slots).div_ceil(SLOTS_PER_TABLE_PAGE) as u32),
            checkpoint: None,
            superblock_turn: 0,
        }
    }

    /// Says that the entry of `slot` changed.
    pub(crate) fn touch_slot(&mut self, slot: Slot) {
        self.stale_table.insert(slot.0 / SLOTS_PER_TABLE_PAGE as u32);
    }

    /// Takes the next pages of the ring for `records` records: up to the ring's end, `None` while a checkpoint must
    /// make room first. Gives their place and how many records fit there.
    pub(crate) fn take_pages(&mut self, records: usize) -> Option<(SectorRange, u64, usize)> {
        let wanted = records.div_ceil(RECORDS_PER_PAGE).max(1) as u64;
        let position = self.head % self.pages;
        let count = wanted.min(self.pages - position).min(self.pages - (self.head - self.tail));
        if count == 0 {
            return None;
        }
        let first_page = self.head;
        self.head += count;
        let start = self.first_sector + SUPERBLOCK_SECTORS + position * PAGE_SECTORS;
        let fit = (count as usize * RECORDS_PER_PAGE).min(records);
        Some((SectorRange::new(start, count * PAGE_SECTORS), first_page, fit))
    }

    /// Whether the ring is half full and nobody is emptying it.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint.is_none() && self.head - self.tail > self.pages / 2
    }

    /// Begins to take everything that is in the ring now over into the slot table.
    pub(crate) fn begin_checkpoint(&mut self) {
        assert!(self.checkpoint.is_none(), "one checkpoint at a time");
        self.checkpoint = Some(Checkpoint { next_page: 0, tail_afterwards: self.head });
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
        let start = self.first_sector + SUPERBLOCK_SECTORS + (self.pages + u64::from(first)) * PAGE_SECTORS;
        let range = SectorRange::new(start, u64::from(end - first) * PAGE_SECTORS);
        Some((range, Slot(first * SLOTS_PER_TABLE_PAGE as u32)))
    }

    /// The superblock to write so that recovery begins at the checkpoint.
    pub(crate) fn superblock(&mut self) -> SectorRange {
        self.superblock_turn ^= 1;
        SectorRange::new(self.first_sector + self.superblock_turn * PAGE_SECTORS, PAGE_SECTORS)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_never_overrun_and_a_checkpoint_gives_its_pages_back() {
        let mut ring = Ring::new(1000, 1000);
        let mut taken = 0;
        while let Some((range, first, fit)) = ring.take_pages(500) {
            assert_eq!(first, taken);
            taken += range.len.0 / PAGE_SECTORS;
            assert!(fit <= 500);
            assert!(range.end().0 <= 1000 + SUPERBLOCK_SECTORS + 32 * PAGE_SECTORS);
        }
        assert_eq!(taken, 32);
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
}
