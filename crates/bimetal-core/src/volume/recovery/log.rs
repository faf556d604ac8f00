//! A log: its index first, as far as it goes; behind that the page of each segment says what lies behind it. Segments behind the last known flush are in
//! doubt: the log ends before the first of them that does not hold what its page says.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::{TOO_MANY_LOST, note_lost};
use super::{Answer, Recovery, Step, only_page};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{self, Page};
use crate::journal::record::{self, Record};
use crate::journal::superblock::Superblock;
use crate::payload::Payload;
use crate::units::SectorRange;
use crate::volume::Store;
use crate::volume::log_tail::{LogTail, Position};
use crate::volume::lost::Lost;

/// Pages of the index that are read at once.
const INDEX_PAGES_AT_ONCE: u64 = 256;
/// Slots of one segment that are checked at once.
const READS_MAX: usize = 8;

struct Segment {
    first: Position,
    /// How many blocks lie behind its page.
    pieces: u64,
    records: Vec<Record>,
}

impl Segment {
    fn end(&self) -> Position {
        self.first + 1 + self.pieces
    }
}

/// See the [module](self).
pub(super) struct LogRecovery<P> {
    phase: Phase,
    superblock: Superblock,
    /// Where the next segment would begin.
    head: Position,
    life: u32,
    stable: Position,
    in_doubt: VecDeque<Segment>,
    /// The next piece of the first segment in doubt to check.
    next_piece: u64,
    /// Whether a piece is not what its page says.
    torn: bool,
    lost: BTreeMap<u64, ValidMask>,
    /// The next page of the index, and up to where those before it are complete.
    next_page: u64,
    indexed: Position,
    /// What the index says was dropped, to be applied when all of it is read.
    dropped: Vec<(BlockRun, Position)>,
    /// Records of segments behind that.
    not_indexed: Vec<Record>,
    payload: std::marker::PhantomData<P>,
}

impl<P> Default for LogRecovery<P> {
    fn default() -> Self {
        Self {
            phase: Phase::Superblocks,
            superblock: Superblock::default(),
            head: 0,
            life: 0,
            stable: 0,
            in_doubt: VecDeque::new(),
            next_piece: 0,
            torn: false,
            lost: BTreeMap::new(),
            next_page: 0,
            indexed: 0,
            dropped: Vec::new(),
            not_indexed: Vec::new(),
            payload: std::marker::PhantomData,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Superblocks,
    Index,
    Scanning,
    Verifying,
    Superblock,
}

impl<P: Payload> Recovery<P> {
    fn log(&mut self) -> &mut LogRecovery<P> {
        let Step::Log(log) = &mut self.step else { unreachable!("a log is being recovered") };
        log
    }

    fn tail(&mut self) -> &mut LogTail<P> {
        let Store::Log(log) = &mut self.volume.store else { unreachable!("the volume has a log") };
        log
    }

    pub(super) fn log_takes(&mut self, answer: Answer<P>) {
        match self.log().phase {
            Phase::Superblocks => {
                if let Some(superblock) = self.superblock(&answer) {
                    self.begin_index(superblock);
                }
            }
            Phase::Index => self.takes_index_pages(&answer),
            Phase::Scanning => match &answer.payload {
                // Whether the log goes on there is not known: what follows could be what was promised.
                None => self.unreadable(&answer),
                Some(payload) => self.takes_page(payload),
            },
            Phase::Verifying => {
                self.takes_piece(&answer);
                self.verify();
            }
            Phase::Superblock => self.end_log(),
        }
    }

    fn begin_index(&mut self, superblock: Superblock) {
        self.total = crate::units::Sectors(PAGE_SECTORS).bytes();
        let log = self.log();
        log.phase = Phase::Index;
        (log.next_page, log.indexed) = (superblock.index_tail, superblock.tail);
        log.lost = superblock.lost.iter().map(|(block, eighths)| (block.0, *eighths)).collect();
        (log.head, log.stable) = (superblock.tail, superblock.tail);
        log.superblock = superblock;
        let tail = self.log().head;
        self.tail().recovered(tail, tail);
        self.read_index();
    }

    fn read_index(&mut self) {
        let (next, first) = (self.log().next_page, self.log().superblock.index_tail);
        let index = &self.tail().index;
        let left = index.pages() - (next - first);
        if left == 0 {
            return self.begin_scan();
        }
        let range = index.place(next, INDEX_PAGES_AT_ONCE.min(left));
        self.read(self.volume.member_of_slots(), range, 0);
    }

    /// The index ends at the first page that is not the next one, or cannot be read: the log itself has the rest.
    fn takes_index_pages(&mut self, answer: &Answer<P>) {
        let bytes = answer.payload.as_ref().map(P::to_metadata).unwrap_or_default();
        for page in page::pages(&bytes) {
            let Some((stable, records)) = self.index_page(page) else { return self.begin_scan() };
            for record in records {
                self.apply_indexed(record);
            }
            if self.outcome.is_some() {
                return;
            }
            let log = self.log();
            log.next_page += 1;
            log.indexed = log.indexed.max(stable);
        }
        if bytes.is_empty() {
            return self.begin_scan();
        }
        self.read_index();
    }

    fn index_page(&mut self, page: &Page) -> Option<(Position, Vec<Record>)> {
        let (header, records) = record::decode_page(page).ok()?;
        let volume = self.volume.identity;
        let LogRecovery { superblock, next_page, .. } = self.log();
        let lives = if *next_page < superblock.index_began_at { 0 } else { superblock.life }..=superblock.life;
        let belongs = header.volume == volume && header.number == *next_page && lives.contains(&header.life);
        belongs.then_some((header.stable, records))
    }

    fn apply_indexed(&mut self, record: Record) {
        match record {
            Record::Map { block, slot, valid, dirty, checksum } if self.is_possible(block, slot) => {
                self.volume.view.map.reload(slot, Entry { block, valid, dirty, checksum });
            }
            Record::Dropped { first, count, before } if self.has_all(BlockRun { first, count }) => {
                self.log().dropped.push((BlockRun { first, count }, before));
            }
            Record::Lost { block, eighths } if self.has(block) => self.note_lost(block, eighths),
            _ => self.damaged("the index of its log names what cannot be"),
        }
    }

    /// Goes on behind what the index has.
    fn begin_scan(&mut self) {
        let Store::Log(tail) = &self.volume.store else { unreachable!("the volume has a log") };
        self.volume.view.map.build_index(|slot, other| tail.position(slot) > tail.position(other));
        for (blocks, before) in std::mem::take(&mut self.log().dropped) {
            self.drop_before(blocks, before);
        }
        let log = self.log();
        log.phase = Phase::Scanning;
        // The last recovery flushed what it took, and checked it: it is in doubt no more.
        (log.head, log.stable) = (log.indexed, log.indexed.max(log.superblock.life_began_at));
        self.read_page();
    }

    /// Reads the page of the next segment, unless the log is full.
    fn read_page(&mut self) {
        let slots = u64::from(self.volume.view.map.slots());
        let left = slots - self.log().head % slots;
        // A segment does not begin in the region's last slot: there would be no room behind its page.
        let head = self.log().head + if left < 2 { left } else { 0 };
        if head + 2 > self.log().superblock.tail + slots {
            return self.end_scan();
        }
        let start = self.sectors_of_slot(Slot((head % slots) as u32)).start.0;
        self.read(self.volume.member_of_slots(), SectorRange::new(start, PAGE_SECTORS), head);
    }

    fn takes_page(&mut self, payload: &P) {
        let slots = u64::from(self.volume.view.map.slots());
        let left = slots - self.log().head % slots;
        let first = self.log().head + if left < 2 { left } else { 0 };
        let segment = only_page(payload).and_then(|page| self.segment(first, &page));
        let Some((segment, stable, life)) = segment else {
            if first < self.log().superblock.life_began_at {
                return self.damaged("a segment of its log is gone that was there when it was last recovered");
            }
            return self.end_scan();
        };
        let log = self.log();
        log.life = life;
        log.head = segment.end();
        log.stable = log.stable.max(stable);
        log.in_doubt.push_back(segment);
        self.apply_segments();
        if self.outcome.is_none() {
            self.read_page();
        }
    }

    /// The segment at `first`, if its page is one that belongs there.
    fn segment(&mut self, first: Position, page: &Page) -> Option<(Segment, Position, u32)> {
        let (header, records) = record::decode_page(page).ok()?;
        let volume = self.volume.identity;
        let slots = u64::from(self.volume.view.map.slots());
        let LogRecovery { superblock, life, .. } = self.log();
        let lives =
            if first < superblock.life_began_at { *life..=superblock.life } else { superblock.life..=superblock.life };
        if header.volume != volume || header.number != first || !lives.contains(&header.life) {
            return None;
        }
        let pieces = records.iter().take_while(|record| matches!(record, Record::Map { .. })).count() as u64;
        let whole = first % slots + 1 + pieces <= slots && first + 1 + pieces <= superblock.tail + slots;
        whole.then_some((Segment { first, pieces, records }, header.stable, header.life))
    }

    /// Applies the segments that are no longer in doubt.
    fn apply_segments(&mut self) {
        let stable = self.log().stable;
        while self.outcome.is_none() && self.log().in_doubt.front().is_some_and(|segment| segment.end() <= stable) {
            self.apply_segment();
        }
    }

    fn apply_segment(&mut self) {
        let Some(segment) = self.log().in_doubt.pop_front() else { return };
        self.log().not_indexed.extend_from_slice(&segment.records);
        for (at, &record) in segment.records.iter().enumerate() {
            match record {
                Record::Map { block, slot, valid, dirty, checksum } => {
                    let expected = self.tail().slot(segment.first + 1 + at as u64);
                    if !self.is_possible(block, slot) || slot != expected || at as u64 >= segment.pieces {
                        return self.damaged("a page of its log names a block or a slot that cannot be");
                    }
                    self.restore(slot, Entry { block, valid, dirty, checksum });
                }
                Record::Dropped { first, count, before } if self.has_all(BlockRun { first, count }) => {
                    self.drop_before(BlockRun { first, count }, before);
                }
                Record::Lost { block, eighths } if self.has(block) => self.note_lost(block, eighths),
                Record::Dropped { .. } | Record::Lost { .. } => {
                    return self.damaged("a page of its log names blocks that cannot be");
                }
                Record::Home { .. } | Record::Intent { .. } => {
                    return self.damaged("a page of its log has a record that only a cache has");
                }
            }
        }
    }

    fn note_lost(&mut self, block: Block, eighths: ValidMask) {
        if !note_lost(&mut self.log().lost, block, eighths) {
            self.damaged(TOO_MANY_LOST);
        }
    }

    /// Forgets what the log has of `blocks` before a position.
    fn drop_before(&mut self, blocks: BlockRun, before: Position) {
        let Store::Log(log) = &self.volume.store else { unreachable!("the volume has a log") };
        let map = &self.volume.view.map;
        let is_old = |block: Block| map.get(block).is_some_and(|(slot, _)| log.position(slot) < before);
        let within = |block: Block| (blocks.first.0..blocks.first.0.saturating_add(blocks.count)).contains(&block.0);
        let old: Vec<Block> = if map.len() < blocks.count {
            let occupied = map.occupied().map(|(_, entry)| entry.block);
            occupied.filter(|&block| within(block) && is_old(block)).collect()
        } else {
            blocks.blocks().filter(|&block| is_old(block)).collect()
        };
        old.into_iter().for_each(|block| {
            self.volume.view.map.remove(block);
        });
    }

    fn end_scan(&mut self) {
        self.log().phase = Phase::Verifying;
        self.verify();
    }

    /// Checks the segments in doubt one after the other, until one is torn.
    fn verify(&mut self) {
        loop {
            let torn = self.log().torn;
            if torn && self.in_flight.is_empty() {
                // Nothing behind a hole was ever promised.
                let cut = self.log().in_doubt[0].first;
                self.log().head = cut;
                self.log().in_doubt.clear();
            }
            let Some(segment) = self.log().in_doubt.front() else { break };
            let (first, pieces) = (segment.first, segment.pieces);
            while !torn && self.in_flight.len() < READS_MAX && self.log().next_piece < pieces {
                let piece = self.log().next_piece;
                self.log().next_piece += 1;
                let slot = self.tail().slot(first + 1 + piece);
                self.read(self.volume.member_of_slots(), self.sectors_of_slot(slot), piece);
            }
            if !self.in_flight.is_empty() {
                return;
            }
            self.log().next_piece = 0;
            self.apply_segment();
            if self.outcome.is_some() {
                return;
            }
        }
        self.begin_next_life_of_log();
    }

    /// What cannot be read stays in the map: reads of it are errors, and not what was there before.
    fn takes_piece(&mut self, answer: &Answer<P>) {
        let Some(payload) = &answer.payload else { return };
        let found = payload.checksum();
        let log = self.log();
        let says = log.in_doubt.front().and_then(|segment| segment.records.get(answer.purpose as usize)).copied();
        log.torn |= !matches!(says, Some(Record::Map { checksum, .. }) if checksum == found);
    }

    fn begin_next_life_of_log(&mut self) {
        let mut lost = std::mem::take(&mut self.log().lost);
        self.forget_what_has_left(&mut lost);
        let refused = self.slots_refuse();
        let log = self.log();
        log.lost = lost;
        if refused {
            return self.end_log();
        }
        log.phase = Phase::Superblock;
        let superblock = Superblock {
            sequence: log.superblock.sequence + 1,
            life: log.superblock.life + 1,
            life_began_at: log.head,
            index_began_at: log.next_page,
            lost: log.lost.iter().map(|(&block, &eighths)| (Block(block), eighths)).collect(),
            ..log.superblock.clone()
        };
        log.superblock = superblock.clone();
        self.write_superblock(&superblock);
    }

    pub(super) fn end_log(&mut self) {
        let LogRecovery { superblock, head, lost, next_page, indexed, not_indexed, .. } = std::mem::take(self.log());
        let tail = self.tail();
        tail.recovered(superblock.tail, head);
        tail.index.recovered((superblock.index_tail, next_page), indexed, not_indexed, head);
        self.volume.lost = Lost::new(lost);
        self.volume.superblock = superblock;
        self.outcome = Some(Ok(()));
    }
}
