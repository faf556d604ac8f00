//! Recovery of a cache: the slot table first, then the ring's pages after its tail, in order.
//! Records of pages that the last known flush may not have covered are in doubt, and a record in
//! doubt is taken only if its slot matches the record.
//!
//! Both copies of each page of the slot table are read, and the digest in the superblock proves
//! that the pages are the newest. A checkpoint writes first copies first, and a power cut may tear
//! first copies. So a bad second copy is written again, from the first copy, before any first copy
//! is written.
//!
//! The first copy of each page of the ring is read, and the second copy if the first copy is not
//! the expected page. The ring ends at the first page that is found in neither copy. The rest of
//! the ring is searched for pages of this epoch that record the missing page as stable: then the
//! missing page is damaged, and is not the ring's end.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{TOO_MANY_LOST, fit_a_superblock, note_lost};
use super::chunks::{Chunk, copies_of};
use super::torn::Torn;
use super::{Answer, Recovery, RecoveryError, Step, only_page};
use crate::block::{Block, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::page::{self, Page};
use crate::journal::record::{self, Kind, PageHeader, Record};
use crate::journal::ring::Ring;
use crate::journal::superblock::{Life, Superblock};
use crate::journal::table::{TableHeader, Writer};
use crate::journal::turns::{COPIES, TURNS};
use crate::journal::{MARK_REGION_BLOCKS, PAGE_SECTORS, SLOTS_PER_TABLE_PAGE, table, table_pages};
use crate::layout::MemberId;
use crate::operation::Command;
use crate::payload::Payload;
use crate::units::SectorRange;
use crate::volume::damage::Lost;

/// Pages of one read. With [`READS_MAX`] reads under way at once the pages of these reads are 4 MiB
/// of the slot table.
const PAGES_AT_ONCE: u64 = 128;
const READS_MAX: usize = 8;

/// See the [module](self).
#[derive(Default)]
pub(super) struct CacheRecovery {
    phase: Phase,
    superblock: Option<Superblock>,
    /// The next page of the slot table to read, or to write.
    next_page: u64,
    /// The generation of each page of the slot table on the drive; 0: no valid page was found.
    taken: Vec<u64>,
    /// Number of the next page of the ring.
    next: u64,
    /// The next page of the ring to read.
    next_read: u64,
    /// Pages of the slot table whose second copies are to be written again, with the generations of
    /// their first copies.
    bad_seconds: Vec<(u32, u64)>,
    /// The page of the slot table whose first copy is being read for its second copy.
    mending: Option<(u32, u64)>,
    /// The generations in the headers of damaged pages of the slot table.
    said: Vec<(u32, TableHeader)>,
    /// Set once the end of the ring is found, at [`next`](Self::next).
    has_ended: bool,
    /// The first undamaged page after the apparent end of the ring.
    first_behind: Option<u64>,
    /// The first copies of pages whose second copies are being read.
    first_copies: Option<Chunk>,
    /// Numbers of pages whose second copy is sound, and whose first copy is empty or another sound
    /// page.
    not_first: VecDeque<u64>,
    /// Number of the page before which all pages, and all data they name, are stable.
    stable: u64,
    /// Records of pages that may not be stable: (number of the page, record, whether its slot
    /// matches).
    in_doubt: VecDeque<(u64, Record, bool)>,
    next_in_doubt: usize,
    torn: Torn,
    marks: Vec<u8>,
    /// The area of marks as it was read, for the other superblock of the pair.
    area_of_marks: Option<Vec<u8>>,
    /// Set if the marks cannot be read: any region may have a mark.
    all_marked: bool,
    lost: BTreeMap<u64, ValidMask>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Superblocks,
    Table,
    SecondTable,
    /// Pages of which both copies are damaged are read once more, for their undamaged entries.
    SalvagingTable,
    Marks,
    Ring,
    Verifying,
    /// This phase completes the pair of the newest superblock.
    Pairing,
    /// This phase writes bad second copies of the slot table again.
    Mending,
    WritingTable,
    FlushingTable,
    WritingSecond,
    Flushing,
    /// Writes a pair of superblocks. The number in this phase counts the copies that are stable.
    Superblock(usize),
}

impl CacheRecovery {
    /// Returns true if a copy of this page of the slot table was sound.
    pub(super) fn has_table_page(&self, number: u64) -> bool {
        self.taken[number as usize] > 0
    }

    fn superblock(&self) -> &Superblock {
        self.superblock.as_ref().expect("the superblock was read first")
    }
}

impl<P: Payload> Recovery<P> {
    pub(super) fn cache(&mut self) -> &mut CacheRecovery {
        let Step::Cache(cache) = &mut self.step else { unreachable!("a cache is being recovered") };
        cache
    }

    fn ring(&mut self) -> &mut Ring {
        let Some((cache, _)) = self.volume.store.cache_mut() else { unreachable!("a cache has a ring") };
        &mut cache.ring
    }

    pub(super) fn cache_takes(&mut self, answer: Answer<P>) {
        let phase = self.cache().phase;
        match phase {
            Phase::Superblocks => self.cache_takes_superblock(&answer),
            Phase::Table | Phase::SecondTable => {
                if let Some(chunk) = self.take_chunk(&answer) {
                    self.takes_table_pages(&chunk);
                }
            }
            Phase::SalvagingTable => {
                if let Some(chunk) = self.take_chunk(&answer) {
                    self.takes_damaged_table(chunk);
                }
            }
            Phase::Marks => self.takes_marks(&answer),
            Phase::Ring => {
                if let Some(chunk) = self.take_chunk(&answer) {
                    self.takes_ring_pages(chunk);
                }
            }
            Phase::Verifying => self.takes_slot(answer),
            Phase::Mending => self.takes_first_copy(&answer),
            Phase::Pairing
            | Phase::WritingTable
            | Phase::FlushingTable
            | Phase::WritingSecond
            | Phase::Flushing
            | Phase::Superblock(_) => {}
        }
        while self.outcome.is_none() && !self.ask_more() && self.in_flight.is_empty() {
            self.next_phase();
        }
    }

    /// Issues the operations that the phase needs next. Returns true if operations are under way.
    fn ask_more(&mut self) -> bool {
        let phase = self.cache().phase;
        match phase {
            Phase::Table => self.read_table(0),
            Phase::SecondTable => self.read_table(1),
            Phase::SalvagingTable => self.read_damaged_table(),
            Phase::Verifying => self.read_slots_in_doubt(),
            Phase::Pairing if self.in_flight.is_empty() && !self.slots_refuse() => {
                self.write_next_of_pair();
            }
            Phase::Mending if self.in_flight.is_empty() && !self.slots_refuse() => self.read_first_copy(),
            Phase::WritingTable => self.write_table(0),
            Phase::WritingSecond => self.write_table(1),
            _ => {}
        }
        !self.in_flight.is_empty()
    }

    fn next_phase(&mut self) {
        let (member, phase) = (self.member(), self.cache().phase);
        match phase {
            Phase::Superblocks => self.cache().phase = Phase::Table,
            Phase::Table => {
                let cache = self.cache();
                (cache.phase, cache.next_page) = (Phase::SecondTable, 0);
            }
            Phase::SecondTable if !self.table_is_newest() => {
                if self.cache_may_give_up_a_part("both copies of a page of its slot table are damaged") {
                    self.go_on_with_damaged_table();
                }
            }
            Phase::SalvagingTable => {
                self.judge_damaged_table();
                self.read_marks();
            }
            Phase::SecondTable => self.read_marks(),
            Phase::Marks => {
                self.cache().phase = Phase::Ring;
                self.read_ring();
            }
            Phase::Ring => self.cache().phase = Phase::Verifying,
            Phase::Verifying => {
                self.cache().stable = u64::MAX;
                self.apply_stable();
                self.begin_pairing();
                self.drop_doubtful_copies();
                self.empty_cache_without_need();
                let mut lost = std::mem::take(&mut self.cache().lost);
                self.forget_what_has_left(&mut lost);
                if !fit_a_superblock(&lost) {
                    return self.damaged(TOO_MANY_LOST);
                }
                self.cache().lost = lost;
                self.cache().phase = Phase::Pairing;
            }
            _ if self.slots_refuse() => self.end_cache(),
            Phase::Pairing => self.cache().phase = Phase::Mending,
            Phase::Mending => {
                self.cache().phase = Phase::WritingTable;
                self.ring().begin_checkpoint();
            }
            Phase::WritingTable => {
                self.cache().phase = Phase::FlushingTable;
                self.ask(member, Command::FLUSH, P::empty(), 0);
            }
            Phase::FlushingTable => {
                self.cache().phase = Phase::WritingSecond;
                self.ring().begin_second_copies();
            }
            Phase::WritingSecond => {
                self.cache().phase = Phase::Flushing;
                self.ask(member, Command::FLUSH, P::empty(), 0);
            }
            Phase::Flushing => {
                self.begin_next_life();
                let sequence = self.cache().superblock().sequence;
                self.ring().end_checkpoint(table::generation(sequence, Writer::Recovery));
                self.write_next_superblock(0);
            }
            Phase::Superblock(stable) if stable + 1 == TURNS * COPIES => self.end_cache(),
            Phase::Superblock(stable) => self.write_next_superblock(stable + 1),
        }
    }

    fn member(&self) -> MemberId {
        self.volume.member_of_slots()
    }

    fn cache_takes_superblock(&mut self, answer: &Answer<P>) {
        let Some(superblock) = self.take_superblock(answer) else { return };
        let slots = u64::from(self.volume.view.map.slots());
        let pages = table_pages(slots);
        self.total = crate::units::Sectors((COPIES as u64 * pages + self.ring().pages()) * PAGE_SECTORS).bytes();
        let cache = self.cache();
        cache.lost = superblock.lost.iter().map(|(block, eighths)| (block.0, *eighths)).collect();
        (cache.next, cache.next_read, cache.stable) = (superblock.tail, superblock.tail, superblock.tail);
        cache.taken = vec![0; pages as usize];
        cache.superblock = Some(superblock);
    }

    fn read_table(&mut self, copy: usize) {
        let pages = table_pages(u64::from(self.volume.view.map.slots()));
        while self.in_flight.len() < READS_MAX && self.cache().next_page < pages {
            let first = self.cache().next_page;
            let count = PAGES_AT_ONCE.min(pages - first);
            self.cache().next_page += count;
            let range = self.ring().table_place(first as u32, count as u32, copy);
            self.read_chunk(self.member(), range, first, copy);
        }
    }

    fn takes_table_pages(&mut self, chunk: &Chunk) {
        for number in chunk.first..chunk.end() {
            let index = number as u32;
            let header = chunk.page(number).and_then(|page| self.table_header(page, index));
            let generation = header.map_or(0, |header| header.generation);
            let is_damaged = header.is_none() && chunk.page(number).is_none_or(|page| !page::is_blank(page));
            let taken = self.cache().taken[number as usize];
            // The second copies of a checkpoint are stable before the checkpoint counts, and the
            // first copies before the second are written.
            let is_complete = chunk.copy == 1 && taken > 0 && self.ring().generation(index) == taken;
            let lacks_first = chunk.copy == 1 && taken == 0 && generation > 0;
            let bad = if is_damaged || (is_complete && header.is_none()) { Some(chunk.copy) } else { None };
            if let Some(copy) = bad.or(lacks_first.then_some(0)) {
                let place = self.ring().table_place(index, 1, copy);
                self.note_bad_page(self.member(), place);
            }
            if is_damaged || (chunk.copy == 1 && generation != taken) {
                // Both copies are written again.
                self.ring().touch_page(index);
            }
            if chunk.copy == 1 && taken > 0 && generation <= taken && !self.is_as_first(index, header) {
                self.cache().bad_seconds.push((index, taken));
            }
            if let (Some(header), Some(page)) = (header.filter(|_| generation > taken), chunk.page(number)) {
                self.takes_table_page(header, page);
            }
            if self.outcome.is_some() {
                return;
            }
        }
    }

    /// Returns true if a second copy of a page of the slot table has the content that its first
    /// copy completes or replaces.
    fn is_as_first(&mut self, index: u32, second: Option<TableHeader>) -> bool {
        let sequence = self.cache().superblock().sequence;
        let generation = self.ring().generation(index);
        second.is_some_and(|second| second.completed(sequence) == generation)
    }

    /// Reads the first copy of the next page whose second copy is bad.
    fn read_first_copy(&mut self) {
        let next = self.cache().bad_seconds.pop();
        self.cache().mending = next;
        if let Some((index, _)) = next {
            let range = self.ring().table_place(index, 1, 0);
            self.read(self.member(), range, 0);
        }
    }

    /// Writes a second copy from its first copy. The result of that write is ignored.
    fn takes_first_copy(&mut self, answer: &Answer<P>) {
        let Some((index, generation)) = self.cache().mending.take() else { return };
        let Some(page) = answer.payload.as_ref().and_then(only_page) else { return };
        if self.table_header(&page, index).is_some_and(|header| header.generation == generation) {
            let range = self.ring().table_place(index, 1, 1);
            self.write(range, &page, true);
        }
    }

    fn table_header(&self, page: &Page, index: u32) -> Option<TableHeader> {
        table::header_at(page, self.volume.store.identity(), index)
    }

    fn takes_table_page(&mut self, header: TableHeader, page: &Page) {
        let superblock = self.cache().superblock();
        let (sequence, at_most) = (superblock.sequence, superblock.next_at_most());
        let newest = table::generation(at_most, Writer::Recovery);
        if header.generation > newest || header.previous >= header.generation {
            return self.damaged("a page of its slot table is newer than its newest superblock");
        }
        let before = std::mem::replace(&mut self.cache().taken[header.index as usize], header.generation);
        self.ring().found_table_page(header.index, header.completed(sequence));
        if header.is_unfinished(sequence) {
            // The page is of a checkpoint that was cut short.
            self.ring().touch_page(header.index);
        }
        let first = header.index * SLOTS_PER_TABLE_PAGE as u32;
        let slots = (first..self.volume.view.map.slots()).map(Slot);
        for (slot, place) in slots.zip(table::decode_entries(page)) {
            if before > 0 {
                self.volume.view.map.unload(slot);
            }
            match place {
                Ok(None) => {}
                Ok(Some(entry)) if self.is_possible(entry.block, slot) => self.volume.view.map.load(slot, entry),
                _ => return self.damaged("its slot table has an invalid entry"),
            }
        }
    }

    /// Begins to search the damaged pages of the slot table for undamaged entries, unless the cache
    /// begins empty.
    fn go_on_with_damaged_table(&mut self) {
        if self.volume.damage.began_empty.is_some() {
            return self.read_marks();
        }
        let cache = self.cache();
        (cache.phase, cache.next_page) = (Phase::SalvagingTable, 0);
    }

    /// Reads both copies of the next pages of the slot table once more.
    fn read_damaged_table(&mut self) {
        let pages = table_pages(u64::from(self.volume.view.map.slots()));
        let first = self.cache().next_page;
        if self.in_flight.is_empty() && first < pages {
            let count = PAGES_AT_ONCE.min(pages - first);
            let range = self.ring().table_place(first as u32, count as u32, 0);
            self.read_chunk(self.member(), range, first, 0);
        }
    }

    fn takes_damaged_table(&mut self, chunk: Chunk) {
        match self.cache().first_copies.take() {
            None => {
                let range = self.ring().table_place(chunk.first as u32, chunk.count() as u32, 1);
                self.read_chunk(self.member(), range, chunk.first, 1);
                self.cache().first_copies = Some(chunk);
            }
            Some(first) => {
                let unknown = self.takes_damaged_table_pages([&first, &chunk]);
                self.gives_up(Some(unknown));
                self.cache().next_page = first.end();
            }
        }
    }

    pub(super) fn note_damaged_table_page(&mut self, index: u32, header: Option<TableHeader>) {
        self.ring().touch_page(index);
        self.cache().said.extend(header.map(|header| (index, header)));
    }

    /// Checks that the generations of the damaged pages of the slot table complete the digest of
    /// the slot table. If the read pages do not complete the digest, an unknown number of slots is
    /// given up.
    fn judge_damaged_table(&mut self) {
        let sequence = self.cache().superblock().sequence;
        let mut digest = self.ring().digest();
        let said = std::mem::take(&mut self.cache().said);
        said.iter().for_each(|(index, header)| digest.toggle(*index, header.completed(sequence)));
        if digest.0 != self.cache().superblock().table {
            self.gives_up(None);
        }
    }

    /// Returns true if the pages of the slot table that were found are the newest.
    fn table_is_newest(&mut self) -> bool {
        self.ring().digest().0 == self.cache().superblock().table
    }

    fn read_marks(&mut self) {
        self.cache().phase = Phase::Marks;
        self.cache().taken = Vec::new();
        // If two slots have the same block, the ring tells which is the newer.
        for slot in self.volume.view.map.build_index(|_, _| false) {
            self.ring().touch_slot(slot);
        }
        let superblock = self.cache().superblock();
        if superblock.marks.is_some() {
            let turn = superblock.turn();
            let range = self.ring().marks_place(turn);
            self.read(self.member(), range, 0);
        }
    }

    /// Takes the marks. If the marks are unreadable or do not match the superblock, the area of the
    /// pair's other superblock is read, which has equal marks once it is written. If neither area
    /// matches, every region counts as marked.
    fn takes_marks(&mut self, answer: &Answer<P>) {
        let bytes = answer.payload.as_ref().map(P::to_metadata);
        let is_first = answer.purpose == 0;
        let cache = self.cache();
        let turn = cache.superblock().turn();
        match bytes.filter(|bytes| cache.superblock().marks == Some(crc32c::crc32c(bytes))) {
            Some(bytes) => {
                cache.area_of_marks = Some(bytes.clone()).filter(|_| is_first);
                cache.marks = bytes;
            }
            None if is_first => {
                self.note_bad_page(answer.member, SectorRange::new(answer.range.start.0, PAGE_SECTORS));
                let other = self.ring().marks_place((turn + 1) % TURNS as u64);
                self.read(self.member(), other, 1);
            }
            None => cache.all_marked = true,
        }
    }

    /// Continues reading in the first copy of the ring.
    fn read_ring(&mut self) {
        let (next, tail) = (self.cache().next_read, self.cache().superblock().tail);
        let left = self.ring().pages() - (next - tail);
        if left > 0 {
            let range = self.ring().place(next, PAGES_AT_ONCE.min(left), 0);
            self.cache().next_read += range.len.0 / PAGE_SECTORS;
            self.read_chunk(self.member(), range, next, 0);
        }
    }

    fn takes_ring_pages(&mut self, chunk: Chunk) {
        let (first, second) = match self.cache().first_copies.take() {
            Some(first) => (first, Some(chunk)),
            None => (chunk, None),
        };
        let begin = self.cache().next.max(first.first);
        for number in begin..first.end() {
            if !self.cache().has_ended {
                let pages = copies_of(number, &first, second.as_ref());
                let of_copy = |page: Option<&Page>| page.and_then(|page| self.ring_page(page, number));
                let found = pages.map(of_copy);
                if let [None, Some(_)] = &found {
                    self.note_first_copy_of_ring(pages[0], number);
                }
                match found.into_iter().flatten().next() {
                    Some((header, records)) => self.takes_records(header.stable, records),
                    None if second.is_some() => self.cache().has_ended = true,
                    None => return self.read_second_copies(first, number),
                }
            }
            if self.cache().has_ended {
                self.look_for_damage(number, copies_of(number, &first, second.as_ref()));
                // A page was left out, so the pages after it are read again.
                if !self.cache().has_ended {
                    break;
                }
            }
            if self.outcome.is_some() {
                return;
            }
        }
        self.read_ring();
    }

    fn note_first_copy_of_ring(&mut self, page: Option<&Page>, number: u64) {
        let place = self.ring().place(number, 1, 0);
        if !self.note_bad_first_copy(Kind::Ring, page, place) {
            self.cache().not_first.push_back(number);
        }
    }

    /// Notes the first copies of stable pages that are not there: a page is stable once both of its
    /// copies are.
    fn note_stable_first_copies(&mut self) {
        let stable = self.cache().stable;
        while let Some(number) = self.cache().not_first.pop_front_if(|number| *number < stable) {
            let place = self.ring().place(number, 1, 0);
            self.note_bad_page(self.member(), place);
        }
    }

    /// Reads the second copies from page `number` on, because the first copy of that page is not
    /// the expected page.
    fn read_second_copies(&mut self, first: Chunk, number: u64) {
        let range = self.ring().place(number, first.end() - number, 1);
        self.read_chunk(self.member(), range, number, 1);
        self.cache().first_copies = Some(first);
    }

    /// Returns the header and records of `page` if it is the ring's page `number` of this epoch.
    fn ring_page(&mut self, page: &Page, number: u64) -> Option<(PageHeader, Vec<Record>)> {
        let (volume, life) = (self.volume.store.identity(), self.cache().superblock().life().number);
        let (header, records) = record::decode_page(Kind::Ring, page).ok()?;
        (header.volume == volume && header.life == life && header.number == number).then_some((header, records))
    }

    /// Searches a page at or after the apparent end of the ring for proof of damage. A page that
    /// records the missing page as stable proves that the missing page is damaged. A page of a
    /// later epoch, or with a higher number than belongs in this place, proves that the newest
    /// superblock is lost.
    fn look_for_damage(&mut self, number: u64, pages: [Option<&Page>; 2]) {
        let identity = self.volume.store.identity();
        let (end, life) = (self.cache().next, self.cache().superblock().life().number);
        for page in pages.into_iter().flatten() {
            let may_matter = |header: &PageHeader| header.volume == identity && header.number >= end;
            if !record::peek(Kind::Ring, page).is_some_and(|header| may_matter(&header)) {
                continue;
            }
            let Ok((header, _)) = record::decode_page(Kind::Ring, page) else { continue };
            if header.life > life || (header.life == life && header.number > number) {
                return self.damaged(
                    "its journal continues after its newest superblock, so a newer superblock must be \
                                     lost",
                );
            }
            if header.life == life && header.stable > end {
                if self.cache_may_give_up_a_part("both copies of a page of its journal are damaged") {
                    self.gives_up(None);
                    let cache = self.cache();
                    let next = cache.first_behind.take().unwrap_or(number);
                    (cache.next, cache.next_read, cache.has_ended) = (next, next, false);
                    // The page may have had marks.
                    cache.all_marked = true;
                }
                return;
            }
            if header.life == life && header.number == number {
                self.cache().first_behind.get_or_insert(number);
                // A power cut may lose a page and leave a later one, which records how much before
                // both was stable.
                self.takes_stable(header.stable);
            }
        }
    }

    fn takes_records(&mut self, stable: u64, records: Vec<Record>) {
        let cache = self.cache();
        let number = cache.next;
        cache.next += 1;
        cache.in_doubt.extend(records.into_iter().map(|record| (number, record, true)));
        self.takes_stable(stable);
    }

    fn takes_stable(&mut self, stable: u64) {
        self.cache().stable = self.cache().stable.max(stable);
        self.note_stable_first_copies();
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
                self.apply_in_order(record);
            } else if let Record::Map { block, .. } = record {
                if self.is_of_a_move(record) {
                    self.apply(Record::Home { block });
                } else {
                    // A slot of a cache has all content of its block that home lacks.
                    self.cache().torn.tear(block, ValidMask::ALL, 0);
                }
            }
        }
    }

    /// Applies a record. The loss of a block ends only with content that is really in its slot.
    fn apply_in_order(&mut self, record: Record) {
        let lost_of = |cache: &CacheRecovery, block: Block| cache.lost.get(&block.0).copied();
        match record {
            Record::Lost { block, eighths } => {
                let cache = self.cache();
                let lost = lost_of(cache, block).unwrap_or(ValidMask::NONE);
                let eighths = cache.torn.lost(block, eighths, lost);
                return self.apply(Record::Lost { block, eighths });
            }
            Record::Map { block, .. } | Record::Home { block } => {
                let cache = self.cache();
                let before = lost_of(cache, block).unwrap_or(ValidMask::NONE);
                let eighths = cache.torn.written(block, ValidMask::ALL, before);
                if eighths != before {
                    self.apply(Record::Lost { block, eighths });
                }
            }
            _ => {}
        }
        self.apply(record);
    }

    /// Returns true if `record` records nothing but that home has the content of a slot. Home was
    /// stable before the record was written, so the slot's content does not matter.
    fn is_of_a_move(&self, record: Record) -> bool {
        let Record::Map { block, slot, dirty: false, checksum, .. } = record else { return false };
        let before = self.volume.view.map.get(block);
        before.is_some_and(|(old, entry)| old == slot && entry.dirty && entry.checksum == checksum)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Map { block, slot, valid, dirty, checksum, .. } => {
                if !self.is_possible(block, slot) {
                    return self.damaged("its journal names a block or a slot that does not exist");
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
            Record::Intent { .. } | Record::Lost { .. } => self.damaged("its journal has an invalid record"),
            Record::Dropped { .. } | Record::Void { .. } => {
                self.damaged("its journal has a record that only a log may have");
            }
        }
    }

    fn read_slots_in_doubt(&mut self) {
        while self.in_flight.len() < READS_MAX {
            let at = self.cache().next_in_doubt;
            let Some(&(_, record, _)) = self.cache().in_doubt.get(at) else { return };
            self.cache().next_in_doubt += 1;
            if let Record::Map { block, slot, .. } = record {
                if !self.is_possible(block, slot) {
                    return self.damaged("its journal names a block or a slot that does not exist");
                }
                self.read(self.member(), self.sectors_of_slot(slot), at as u64);
            }
        }
    }

    /// Compares a slot with its record. An unreadable slot stays in the block map: reads of its
    /// block are errors, and do not return older content.
    fn takes_slot(&mut self, answer: Answer<P>) {
        let place = &mut self.cache().in_doubt[answer.purpose as usize];
        if let (Some(payload), Record::Map { checksum, .. }) = (answer.payload, place.1) {
            place.2 = payload.checksum() == checksum;
        }
    }

    /// Drops clean copies from which home may differ: in marked regions, or everywhere. The block
    /// map of a read-only member may have copies of blocks that a move has changed at home since.
    fn drop_doubtful_copies(&mut self) {
        let marks = std::mem::take(&mut self.cache().marks);
        let all = self.home_was_plain || self.state.refusing.is_some() || self.cache().all_marked;
        if marks.is_empty() && !all {
            return;
        }
        let doubtful = |block: Block| {
            let region = block.0 / MARK_REGION_BLOCKS;
            all || marks.get(region as usize / 8).is_some_and(|byte| byte & 1 << (region % 8) != 0)
        };
        self.drop_entries(|entry| !entry.dirty && doubtful(entry.block));
    }

    /// Removes the entries for which `is_dropped` returns true, from the block map and, with the
    /// next pages of the slot table, from the drive.
    fn drop_entries(&mut self, is_dropped: impl Fn(&Entry) -> bool) {
        let dropped = self.volume.view.map.occupied().filter(|(_, entry)| is_dropped(entry));
        for (slot, entry) in dropped.collect::<Vec<_>>() {
            self.volume.view.map.remove(entry.block);
            self.ring().touch_slot(slot);
        }
    }

    /// Empties a cache that [begins empty](super::Volume::began_empty).
    fn empty_cache_without_need(&mut self) {
        if self.volume.damage.began_empty.is_none() {
            return;
        }
        self.drop_entries(|_| true);
        // A volume with lost blocks needs its slots.
        self.cache().lost.clear();
    }

    fn write_table(&mut self, copy: usize) {
        let generation = table::generation(self.cache().superblock().sequence + 1, Writer::Recovery);
        let identity = self.volume.store.identity();
        while !self.slots_refuse() && self.in_flight.len() < READS_MAX {
            let ring = self.ring();
            let most = PAGES_AT_ONCE as u32;
            let pages = if copy == 0 { ring.next_table_pages(most) } else { ring.next_second_copies(most) };
            let Some((first, count)) = pages else { return };
            let range = ring.table_place(first, count, copy);
            let mut bytes = Vec::new();
            for index in first..first + count {
                let start = index * SLOTS_PER_TABLE_PAGE as u32;
                let slots = (start..start + SLOTS_PER_TABLE_PAGE as u32).map(Slot);
                let header = self.ring().table_header(identity, index, generation);
                let entries = slots.map(|slot| self.volume.view.map.in_slot(slot));
                bytes.extend_from_slice(&table::encode_page(header, entries));
            }
            self.write(range, &bytes, false);
        }
    }

    /// Plans the completion of the newest superblock's pair, before any other page is written.
    fn begin_pairing(&mut self) {
        if self.slots_refuse() {
            return;
        }
        let cache = self.cache();
        let newest = cache.superblock().clone();
        let marks = cache.area_of_marks.take();
        let second = self.complete_pair(&newest, marks);
        self.cache().superblock = Some(second);
    }

    fn begin_next_life(&mut self) {
        let sequence = self.cache().superblock().sequence + 1;
        let table = self.ring().digest_afterwards(table::generation(sequence, Writer::Recovery)).0;
        let drive = self.volume.store.superblock.life().drive;
        let cache = self.cache();
        let lost = cache.lost.iter().map(|(&block, &eighths)| (Block(block), eighths)).collect();
        let old = cache.superblock();
        let life = Life { number: old.life().number + 1, drive, began_at: cache.next, index_began_at: 0 };
        let superblock = Superblock {
            sequence,
            tail: cache.next,
            table,
            lost,
            lives: vec![life],
            ..Superblock::first(old.volume, life.number, drive)
        };
        cache.superblock = Some(superblock);
    }

    /// Writes the next copy of the next pair of superblocks, after `stable` copies of four.
    fn write_next_superblock(&mut self, stable: usize) {
        let cache = self.cache();
        cache.phase = Phase::Superblock(stable);
        if stable == COPIES {
            cache.superblock = cache.superblock.take().map(|first| first.second());
        }
        let superblock = cache.superblock().clone();
        self.write_superblock(&superblock, stable % COPIES);
    }

    pub(super) fn end_cache(&mut self) {
        let CacheRecovery { superblock, next, lost, .. } = std::mem::take(self.cache());
        self.ring().begin_again(next);
        self.volume.damage.lost = Lost::new(lost);
        let superblock = superblock.expect("the superblock was read first");
        self.volume.store.superblock = superblock;
        self.succeed();
    }

    pub(super) fn damaged(&mut self, what: &'static str) {
        let member = self.member();
        self.fail(|member, role| RecoveryError::Damaged { member, role, what }, member);
    }
}
