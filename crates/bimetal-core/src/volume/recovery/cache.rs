//! A cache: its slot table, then at most one ring of records. Records behind the last known flush are in doubt: one whose
//! slot does not hold what it says never happened. Clean copies in marked regions are dropped: home may differ.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{TOO_MANY_LOST, note_lost};
use super::{Answer, Recovery, RecoveryError, Step};
use crate::block::{Block, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::page;
use crate::journal::record::{self, Record};
use crate::journal::ring::Ring;
use crate::journal::superblock::Superblock;
use crate::journal::{MARK_REGION_BLOCKS, PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, table, table_pages};
use crate::layout::MemberId;
use crate::operation::Command;
use crate::payload::Payload;
use crate::volume::Store;
use crate::volume::lost::Lost;

/// Pages of one read, and reads under way at once: 4 MiB of the slot table.
const PAGES_AT_ONCE: u64 = 128;
const READS_MAX: usize = 8;

/// See the [module](self).
#[derive(Default)]
pub(super) struct CacheRecovery {
    phase: Phase,
    superblock: Superblock,
    /// The next page of the slot table to read, or to write.
    next_page: u64,
    /// The number of the next page of the ring.
    next: u64,
    /// Pages before this number, and all data they name, are stable.
    stable: u64,
    /// Records of pages that may not be: (number of the page, record, whether its slot holds what it says).
    in_doubt: VecDeque<(u64, Record, bool)>,
    next_in_doubt: usize,
    marks: Vec<u8>,
    lost: BTreeMap<u64, ValidMask>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Superblocks,
    Table,
    Marks,
    Ring,
    Verifying,
    WritingTable,
    Flushing,
    Superblock,
}

impl<P: Payload> Recovery<P> {
    fn cache(&mut self) -> &mut CacheRecovery {
        let Step::Cache(cache) = &mut self.step else { unreachable!("a cache is being recovered") };
        cache
    }

    fn ring(&mut self) -> &mut Ring {
        let Store::Cache { ring, .. } = &mut self.volume.store else { unreachable!("a cache has a ring") };
        ring
    }

    pub(super) fn cache_takes(&mut self, answer: Answer<P>) {
        match self.cache().phase {
            Phase::Superblocks => self.cache_takes_superblocks(&answer),
            Phase::Table => self.takes_table_pages(&answer),
            Phase::Marks => self.takes_marks(&answer),
            Phase::Ring => self.takes_ring_pages(&answer),
            Phase::Verifying => self.takes_slot(answer),
            Phase::WritingTable | Phase::Flushing | Phase::Superblock => {}
        }
        while self.outcome.is_none() && !self.ask_more() && self.in_flight.is_empty() {
            self.next_phase();
        }
    }

    /// Asks for what the phase needs next; whether it needs more than what is under way.
    fn ask_more(&mut self) -> bool {
        match self.cache().phase {
            Phase::Table => self.read_table(),
            Phase::Verifying => self.read_slots_in_doubt(),
            Phase::WritingTable => self.write_table(),
            _ => {}
        }
        !self.in_flight.is_empty()
    }

    fn next_phase(&mut self) {
        let member = self.member();
        let phase = self.cache().phase;
        match phase {
            Phase::Superblocks => self.cache().phase = Phase::Table,
            Phase::Table => {
                self.cache().phase = Phase::Marks;
                // Two slots of one block: the ring says which of them is the newer.
                for slot in self.volume.view.map.build_index(|_, _| false) {
                    self.ring().touch_slot(slot);
                }
                if self.cache().superblock.marks.is_some() {
                    let turn = self.cache().superblock.turn();
                    let range = self.ring().marks_place(turn);
                    self.read(member, range, 0);
                }
            }
            Phase::Marks => {
                self.cache().phase = Phase::Ring;
                self.read_ring();
            }
            Phase::Ring => self.cache().phase = Phase::Verifying,
            Phase::Verifying => {
                self.cache().stable = u64::MAX;
                self.apply_stable();
                self.drop_doubtful_copies();
                let mut lost = std::mem::take(&mut self.cache().lost);
                self.forget_what_has_left(&mut lost);
                self.cache().lost = lost;
                self.cache().phase = Phase::WritingTable;
                self.ring().begin_checkpoint();
            }
            _ if self.slots_refuse() => self.end_cache(),
            Phase::WritingTable => {
                self.cache().phase = Phase::Flushing;
                self.ask(member, Command::FLUSH, P::empty(), 0);
            }
            Phase::Flushing => self.begin_next_life(),
            Phase::Superblock => self.end_cache(),
        }
    }

    fn member(&self) -> MemberId {
        self.volume.member_of_slots()
    }

    fn cache_takes_superblocks(&mut self, answer: &Answer<P>) {
        let Some(superblock) = self.superblock(answer) else { return };
        let slots = u64::from(self.volume.view.map.slots());
        let pages = table_pages(slots);
        self.total = crate::units::Sectors((pages + self.ring().pages()) * PAGE_SECTORS).bytes();
        let cache = self.cache();
        cache.lost = superblock.lost.iter().map(|(block, eighths)| (block.0, *eighths)).collect();
        (cache.next, cache.stable) = (superblock.tail, superblock.tail);
        cache.superblock = superblock;
    }

    fn read_table(&mut self) {
        let pages = table_pages(u64::from(self.volume.view.map.slots()));
        while self.in_flight.len() < READS_MAX && self.cache().next_page < pages {
            let first = self.cache().next_page;
            let count = PAGES_AT_ONCE.min(pages - first);
            self.cache().next_page += count;
            let range = self.ring().table_place(first as u32, count as u32);
            self.read(self.member(), range, first);
        }
    }

    fn takes_table_pages(&mut self, answer: &Answer<P>) {
        let Some(payload) = &answer.payload else { return self.unreadable(answer) };
        let mut slot = Slot((answer.purpose * SLOTS_PER_TABLE_PAGE) as u32);
        let slots = self.volume.view.map.slots();
        for page in page::pages(&payload.to_metadata()) {
            for place in table::decode_page(page).take((slots - slot.0) as usize) {
                match place {
                    Ok(None) => {}
                    Ok(Some(entry)) if self.is_possible(entry.block, slot) => self.volume.view.map.load(slot, entry),
                    _ => return self.damaged("its slot table says what cannot be"),
                }
                slot.0 += 1;
            }
        }
    }

    fn takes_marks(&mut self, answer: &Answer<P>) {
        let Some(payload) = &answer.payload else { return self.unreadable(answer) };
        let bytes = payload.to_metadata();
        if self.cache().superblock.marks != Some(crc32c::crc32c(&bytes)) {
            return self.damaged("its marks are not those that its superblock names");
        }
        self.cache().marks = bytes;
    }

    fn read_ring(&mut self) {
        let (next, tail) = (self.cache().next, self.cache().superblock.tail);
        let ring = self.ring();
        let left = ring.pages() - (next - tail);
        if left > 0 {
            let range = ring.place(next, PAGES_AT_ONCE.min(left));
            self.read(self.member(), range, 0);
        }
    }

    fn takes_ring_pages(&mut self, answer: &Answer<P>) {
        let Some(payload) = &answer.payload else { return self.unreadable(answer) };
        for page in page::pages(&payload.to_metadata()) {
            let volume = self.volume.identity;
            let CacheRecovery { superblock, next, .. } = self.cache();
            let Ok((header, records)) = record::decode_page(page) else { return };
            let (life, number) = (superblock.life, *next);
            if header.volume != volume || header.life != life || header.number < number {
                return;
            }
            if header.number > number {
                return self.damaged("its ring was overwritten where it should begin: the newest superblock is lost");
            }
            self.takes_records(header.stable, records);
        }
        self.read_ring();
    }

    fn takes_records(&mut self, stable: u64, records: Vec<Record>) {
        let cache = self.cache();
        let number = cache.next;
        cache.next += 1;
        cache.stable = cache.stable.max(stable);
        cache.in_doubt.extend(records.into_iter().map(|record| (number, record, true)));
        self.apply_stable();
    }

    /// Applies the records of pages that are no longer in doubt.
    fn apply_stable(&mut self) {
        while let Some(&(number, record, sound)) = self.cache().in_doubt.front() {
            if number >= self.cache().stable {
                return;
            }
            self.cache().in_doubt.pop_front();
            if sound {
                self.apply(record);
            } else if let Record::Map { block, .. } = record
                && self.is_of_a_move(record)
            {
                self.apply(Record::Home { block });
            }
        }
    }

    /// Whether `record` only says that home has what its slot holds since before. Home was stable before it was written, so the slot may
    /// hold anything.
    fn is_of_a_move(&self, record: Record) -> bool {
        let Record::Map { block, slot, dirty: false, checksum, .. } = record else { return false };
        let before = self.volume.view.map.get(block);
        before.is_some_and(|(old, entry)| old == slot && entry.dirty && entry.checksum == checksum)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Map { block, slot, valid, dirty, checksum } => {
                if !self.is_possible(block, slot) {
                    return self.damaged("its journal names a block or a slot that cannot be");
                }
                let old = self.volume.view.map.get(block).map(|(old, _)| old);
                if old == Some(slot) {
                    self.volume.view.map.remove(block);
                } else if let Some(old) = old {
                    self.ring().touch_slot(old);
                }
                self.restore(slot, Entry { block, valid, dirty, checksum });
                self.ring().touch_slot(slot);
            }
            Record::Home { block } => {
                if let Some(slot) = self.volume.view.map.remove(block) {
                    self.ring().touch_slot(slot);
                }
            }
            Record::Intent { region } if self.has_region(region) => {
                let byte = region as usize / 8;
                let marks = &mut self.cache().marks;
                marks.resize(marks.len().max(byte + 1), 0);
                marks[byte] |= 1 << (region % 8);
            }
            Record::Lost { block, eighths } if self.has(block) => {
                if !note_lost(&mut self.cache().lost, block, eighths) {
                    self.damaged(TOO_MANY_LOST);
                }
            }
            Record::Intent { .. } | Record::Lost { .. } => self.damaged("its journal names what cannot be"),
            Record::Dropped { .. } => self.damaged("its journal has a record that only a log has"),
        }
    }

    fn read_slots_in_doubt(&mut self) {
        while self.in_flight.len() < READS_MAX {
            let at = self.cache().next_in_doubt;
            let Some(&(_, record, _)) = self.cache().in_doubt.get(at) else { return };
            self.cache().next_in_doubt += 1;
            if let Record::Map { block, slot, .. } = record {
                if !self.is_possible(block, slot) {
                    return self.damaged("its journal names a block or a slot that cannot be");
                }
                self.read(self.member(), self.sectors_of_slot(slot), at as u64);
            }
        }
    }

    /// What cannot be read stays in the map: reads of it are errors, and not what was there before.
    fn takes_slot(&mut self, answer: Answer<P>) {
        let place = &mut self.cache().in_doubt[answer.purpose as usize];
        if let (Some(payload), Record::Map { checksum, .. }) = (answer.payload, place.1) {
            place.2 = payload.checksum() == checksum;
        }
    }

    /// Drops clean copies from which home may differ: in regions that were being changed, or everywhere. Of a member that refuses
    /// writes the map may have copies of what a move has changed at home since.
    fn drop_doubtful_copies(&mut self) {
        let marks = std::mem::take(&mut self.cache().marks);
        let all = self.home_was_plain || self.state.refusing.is_some();
        if marks.is_empty() && !all {
            return;
        }
        let doubtful = |block: Block| {
            let region = block.0 / MARK_REGION_BLOCKS;
            all || marks.get(region as usize / 8).is_some_and(|byte| byte & 1 << (region % 8) != 0)
        };
        let copies = self.volume.view.map.occupied().filter(|(_, entry)| !entry.dirty && doubtful(entry.block));
        for (slot, entry) in copies.collect::<Vec<_>>() {
            self.volume.view.map.remove(entry.block);
            self.ring().touch_slot(slot);
        }
    }

    fn write_table(&mut self) {
        while !self.slots_refuse() && self.in_flight.len() < READS_MAX {
            let Some((range, first)) = self.ring().next_table_pages(PAGES_AT_ONCE as u32) else { return };
            let mut bytes = Vec::new();
            for page in 0..range.len.0 / PAGE_SECTORS {
                let start = first.0 + (page * SLOTS_PER_TABLE_PAGE) as u32;
                let slots = (start..start + SLOTS_PER_TABLE_PAGE as u32).map(Slot);
                bytes.extend_from_slice(&table::encode_page(slots.map(|slot| self.volume.view.map.in_slot(slot))));
            }
            self.write(range, &bytes, false);
        }
    }

    fn begin_next_life(&mut self) {
        let cache = self.cache();
        let lost = cache.lost.iter().map(|(&block, &eighths)| (Block(block), eighths)).collect();
        let old = &cache.superblock;
        let superblock = Superblock {
            volume: old.volume,
            sequence: old.sequence + 1,
            life: old.life + 1,
            tail: cache.next,
            life_began_at: cache.next,
            lost,
            ..Superblock::default()
        };
        cache.phase = Phase::Superblock;
        cache.superblock = superblock.clone();
        self.write_superblock(&superblock);
    }

    pub(super) fn end_cache(&mut self) {
        let cache = std::mem::take(self.cache());
        let metadata = self.layout().metadata.expect("a cache has metadata");
        let (slots, blocks) = (self.volume.view.map.slots(), self.layout().total_blocks());
        *self.ring() = Ring::new(metadata.first_sector, slots, blocks, cache.next);
        self.volume.lost = Lost::new(cache.lost);
        self.volume.superblock = cache.superblock;
        self.outcome = Some(Ok(()));
    }

    pub(super) fn unreadable(&mut self, answer: &Answer<P>) {
        let sector = answer.range.start.0;
        self.fail(|member, role| RecoveryError::Unreadable { member, role, sector }, answer.member);
    }

    pub(super) fn damaged(&mut self, what: &'static str) {
        let member = self.member();
        self.fail(|member, role| RecoveryError::Damaged { member, role, what }, member);
    }
}
