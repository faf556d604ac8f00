//! `page`: page mapping. Every unit can lie anywhere; all writes are appended to a log.
//!
//! The log is striped over the dies row by row: the host's open row lies in one die, the next one in the next die that has
//! room. A die takes data only while it holds little more than its share of all data, so that its collector always
//! finds something to reclaim. Each die collects on its own: while it has fewer free blocks than `free_blocks`, each
//! row that the host writes to it pays for a part of a collection, just enough that the victim is erased
//! when it has made room for as much as the host wrote meanwhile. Host and collector write to blocks of their own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Counters, Info, Placed, TranslationLayer};
use crate::flash::blocks::{BlockState, Blocks};
use crate::flash::gc::VictimSelection;
use crate::flash::gc::cost_benefit::CostBenefit;
use crate::flash::gc::d_choices::DChoices;
use crate::flash::gc::fifo::Fifo;
use crate::flash::gc::greedy::Greedy;
use crate::flash::geometry::{Geometry, RESERVED_BLOCKS_PER_DIE};
use crate::flash::mapping::{Mapping, NONE};
use crate::flash::operation::{Cause, NandKind, NandOp};
use crate::flash::precondition::{Layout, Precondition};
use crate::flash::profile::GcKind;
use crate::profile::BadFigure;

pub(crate) const INFO: Info = Info {
    name: "page",
    whole_pages: false,
    reserve: |_| RESERVED_BLOCKS_PER_DIE,
    make: |setup| {
        let (geometry, free_blocks) = (setup.geometry, setup.profile.gc_free_blocks);
        if setup.precondition == Precondition::Random {
            check_room(&geometry, setup.units, free_blocks)?;
        }
        let layout = Layout::new(setup.precondition, &geometry, setup.start, setup.units, free_blocks + 1, setup.seed);
        Ok(match setup.profile.gc {
            GcKind::Greedy => {
                let victims = Greedy::new(&geometry, &layout);
                Box::new(PageMapping::new(geometry, layout, victims, free_blocks))
            }
            GcKind::CostBenefit => {
                let victims = CostBenefit::new(&geometry, &layout);
                Box::new(PageMapping::new(geometry, layout, victims, free_blocks))
            }
            GcKind::Fifo => {
                let victims = Fifo::new(&geometry, &layout);
                Box::new(PageMapping::new(geometry, layout, victims, free_blocks))
            }
            GcKind::DChoices(draws) => {
                let victims = DChoices::new(&geometry, &layout, draws, setup.seed);
                Box::new(PageMapping::new(geometry, layout, victims, free_blocks))
            }
        })
    },
};

/// A steady state needs closed blocks for all its data.
fn check_room(geometry: &Geometry, units: u32, free_blocks: u32) -> Result<(), BadFigure> {
    let closed =
        u64::from(geometry.blocks_per_plane.saturating_sub(free_blocks + 1)) * u64::from(geometry.units_per_block());
    if u64::from(units.div_ceil(geometry.dies())) > closed {
        let expected = "fewer free blocks or more spare area: the data do not fit into the closed blocks of a die";
        return Err(BadFigure::new("gc_free_blocks", free_blocks, expected));
    }
    Ok(())
}

/// A block that is being written.
#[derive(Clone, Copy)]
struct Frontier {
    /// The block, or [`NONE`].
    block: u32,
    /// Its next unit.
    next: u32,
    /// Units before this one were handed to the die.
    issued: u32,
}

const NO_FRONTIER: Frontier = Frontier { block: NONE, next: 0, issued: 0 };

/// A collection under way.
#[derive(Clone, Copy)]
struct Collection {
    victim: u32,
    /// Units of the victim before this one are done.
    next: u32,
    /// Valid units when it started.
    valid: u32,
    /// Copies owed, times the units that the victim gives free.
    credit: u64,
}

/// What a die has.
struct Die {
    /// Valid units in it.
    valid: u64,
    /// Blocks that were never written: from `fresh` up to `fresh_end`.
    fresh: u32,
    fresh_end: u32,
    /// Erased blocks, in the order in which they were erased.
    free: VecDeque<u32>,
    host: Frontier,
    collector: Frontier,
    collection: Option<Collection>,
    /// Reads of the collection that no operation was appended for yet: commands, pages, units.
    sensed: (u32, u32, u32),
}

impl Die {
    fn free_blocks(&self) -> u32 {
        self.fresh_end - self.fresh + self.free.len() as u32
    }

    fn take_free_block(&mut self) -> Option<u32> {
        if self.fresh < self.fresh_end {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.free.pop_front()
    }
}

/// The page-mapped translation layer.
pub(crate) struct PageMapping<V> {
    geometry: Geometry,
    units_per_page: u32,
    units_per_row: u32,
    units_per_block: u32,
    blocks_per_die: u32,
    layout: Arc<Layout>,
    mapping: Mapping,
    blocks: Blocks,
    victims: V,
    dies: Vec<Die>,
    /// The die of the host's open row, or [`NONE`] when none is open; and where the search for the next begins.
    open_die: u32,
    next_die: u32,
    /// A die with more valid units than this takes no new row.
    valid_max: u64,
    /// Below this many free blocks a die collects.
    free_blocks: u32,
    counters: Counters,
    /// What a collection takes out of its victim at a time.
    moved: Vec<(u32, u32)>,
}

impl<V: VictimSelection> PageMapping<V> {
    /// The layer over `geometry` (which has passed its checks), in the state of `layout`. A die collects while it has fewer than
    /// `free_blocks` free blocks, at least 2.
    pub(crate) fn new(geometry: Geometry, layout: Layout, victims: V, free_blocks: u32) -> Self {
        let share = u64::from(geometry.logical_units.div_ceil(geometry.dies()));
        let row = u64::from(geometry.units_per_row());
        let closed =
            u64::from(geometry.blocks_per_plane - RESERVED_BLOCKS_PER_DIE) * u64::from(geometry.units_per_block());
        assert!(share + 2 * row <= closed, "a geometry without its reserve");
        // A die may hold its share and an eighth of its spare room, so that uneven discards cost no die its spare area.
        let valid_max = (share + row).max(share + (closed - share) / 8).min(closed - row);
        let mut ftl = Self {
            geometry,
            units_per_page: geometry.units_per_page(),
            units_per_row: geometry.units_per_row(),
            units_per_block: geometry.units_per_block(),
            blocks_per_die: geometry.blocks_per_plane,
            mapping: Mapping::new(geometry.logical_units),
            blocks: Blocks::new(&geometry),
            victims,
            dies: Vec::new(),
            open_die: NONE,
            next_die: 0,
            valid_max,
            free_blocks,
            counters: Counters::default(),
            moved: Vec::new(),
            layout: Arc::new(layout),
        };
        for die in 0..geometry.dies() {
            ftl.add_die(die);
        }
        ftl
    }

    fn add_die(&mut self, die: u32) {
        let first = die * self.blocks_per_die;
        let programmed = self.layout.programmed_blocks(die);
        self.dies.push(Die {
            valid: self.layout.units_of_die(die),
            fresh: first + programmed,
            fresh_end: first + self.blocks_per_die,
            free: VecDeque::new(),
            host: NO_FRONTIER,
            collector: NO_FRONTIER,
            collection: None,
            sensed: (0, 0, 0),
        });
        // The last block of a sequential fill may be written only in part; the collector must know.
        if self.layout.levels().is_empty() && programmed > 0 {
            let last = first + programmed - 1;
            let (_, valid) = self.blocks.get(last, &self.layout);
            if valid < self.units_per_block && self.blocks.touch(last, &self.layout) {
                self.victims.closed(die, last, valid, false);
            }
        }
    }

    /// The die for the next row of the host: in turn, but none that holds too much. One always holds no more than its share.
    fn choose_die(&mut self) -> u32 {
        let dies = self.dies.len() as u32;
        loop {
            let die = self.next_die;
            self.next_die = if die + 1 == dies { 0 } else { die + 1 };
            if self.dies[die as usize].valid <= self.valid_max {
                return die;
            }
        }
    }

    /// Makes sure that the host's open block of `die` has a unit to write.
    fn ensure_host_block(&mut self, die: u32, operations: &mut Vec<NandOp>) {
        if self.dies[die as usize].host.block != NONE {
            return;
        }
        // One free block is the collector's.
        while self.dies[die as usize].free_blocks() < 2 {
            assert!(self.start_collection(die), "die {die} has no free block and nothing to reclaim");
            self.collect(die, u64::MAX, operations);
        }
        self.dies[die as usize].host = self.open_block(die);
    }

    fn open_block(&mut self, die: u32) -> Frontier {
        match self.dies[die as usize].take_free_block() {
            Some(block) => {
                self.blocks.open(block, &self.layout);
                Frontier { block, next: 0, issued: 0 }
            }
            None => unreachable!("die {die} has no free block for its collector"),
        }
    }

    /// Starts a collection in `die` unless one is under way; whether there is one now.
    fn start_collection(&mut self, die: u32) -> bool {
        if self.dies[die as usize].collection.is_some() {
            return true;
        }
        let Some(victim) = self.victims.pick(die, |block| self.blocks.is_untouched(block)) else { return false };
        let valid = self.blocks.start_collection(victim, &self.layout);
        self.dies[die as usize].collection = Some(Collection { victim, next: 0, valid, credit: 0 });
        true
    }

    /// Lets the collection of `die` copy what `written` units of the host owe it.
    fn pay_for_collection(&mut self, die: u32, written: u32, operations: &mut Vec<NandOp>) {
        if self.dies[die as usize].collection.is_none()
            && (self.dies[die as usize].free_blocks() >= self.free_blocks || !self.start_collection(die))
        {
            return;
        }
        let Some(collection) = &mut self.dies[die as usize].collection else { return };
        let gain = u64::from(self.units_per_block - collection.valid);
        collection.credit += u64::from(written) * u64::from(collection.valid);
        let copies = collection.credit / gain;
        collection.credit %= gain;
        self.collect(die, copies, operations);
    }

    /// Copies up to `copies` units of the victim of `die`; erases it once nothing is left.
    fn collect(&mut self, die: u32, copies: u64, operations: &mut Vec<NandOp>) {
        let Some(mut collection) = self.dies[die as usize].collection else { return };
        let victim = collection.victim;
        let (mut left, mut last_sensed) = (copies, (NONE, NONE));
        let mut moved = std::mem::take(&mut self.moved);
        while self.blocks.next_valid(victim, collection.next, &self.layout).is_some() {
            if left == 0 {
                self.dies[die as usize].collection = Some(collection);
                self.moved = moved;
                return;
            }
            if self.dies[die as usize].collector.block == NONE {
                self.dies[die as usize].collector = self.open_block(die);
            }
            let room = self.units_per_row - self.dies[die as usize].collector.next % self.units_per_row;
            moved.clear();
            self.blocks.take_valid(victim, collection.next, left.min(room.into()) as u32, &self.layout, &mut moved);
            left -= moved.len() as u64;
            collection.next = moved.last().map_or(collection.next, |(offset, _)| offset + 1);
            self.append_moved(die, &moved, &mut last_sensed, operations);
        }
        self.moved = moved;
        self.append_reads(die, operations);
        self.blocks.erase(victim, &self.layout);
        self.dies[die as usize].free.push_back(victim);
        self.dies[die as usize].collection = None;
        debug_assert_eq!(self.valid_in_blocks(die), self.dies[die as usize].valid, "valid units of die {die}");
        self.emit(NandKind::Erase, Cause::Collection, die, victim, (1, self.geometry.planes_per_die, 0), operations);
    }

    /// Valid units of a die, summed over its blocks.
    fn valid_in_blocks(&self, die: u32) -> u64 {
        let first = die * self.blocks_per_die;
        (first..first + self.blocks_per_die).map(|block| u64::from(self.blocks.get(block, &self.layout).1)).sum()
    }

    /// Appends units that were taken out of a victim to the collector's open row, which has room for them. A row and a page are
    /// sensed once while their units follow each other.
    fn append_moved(
        &mut self,
        die: u32,
        moved: &[(u32, u32)],
        (last_row, last_page): &mut (u32, u32),
        operations: &mut Vec<NandOp>,
    ) {
        let Frontier { block, next, .. } = self.dies[die as usize].collector;
        self.blocks.fill_moved(block, next, moved, &self.layout);
        let first = block * self.units_per_block + next;
        for (physical, &(_, unit)) in (first..).zip(moved) {
            *self.mapping.entry(unit, &self.layout) = physical;
        }
        self.counters.moved_units += moved.len() as u64;
        let state = &mut self.dies[die as usize];
        for &(offset, _) in moved {
            let (row, page) = (offset / self.units_per_row, offset / self.units_per_page);
            state.sensed.0 += u32::from(row != *last_row);
            state.sensed.1 += u32::from(page != *last_page);
            (*last_row, *last_page) = (row, page);
        }
        state.sensed.2 += moved.len() as u32;
        state.collector.next = next + moved.len() as u32;
        if state.collector.next.is_multiple_of(self.units_per_row) {
            self.append_reads(die, operations);
            self.issue(die, Cause::Collection, operations);
        }
    }

    /// Appends the reads of a collection so far.
    fn append_reads(&mut self, die: u32, operations: &mut Vec<NandOp>) {
        let sensed = std::mem::take(&mut self.dies[die as usize].sensed);
        if sensed.0 > 0 {
            self.emit(NandKind::Read, Cause::Collection, die, NONE, sensed, operations);
        }
    }

    /// Programs the pages of a frontier that are written but not issued; closes its block at the end.
    fn issue(&mut self, die: u32, cause: Cause, operations: &mut Vec<NandOp>) {
        let state = &mut self.dies[die as usize];
        let frontier = if cause == Cause::Host { &mut state.host } else { &mut state.collector };
        let Frontier { block, next, issued } = *frontier;
        let end = next.next_multiple_of(self.units_per_page);
        (frontier.next, frontier.issued) = (end, end);
        let closed = end == self.units_per_block;
        if closed {
            *frontier = NO_FRONTIER;
        }
        self.counters.padding_units += u64::from(end - next);
        let pages = (end - issued) / self.units_per_page;
        self.emit(NandKind::Program, cause, die, block, (1, pages, end - issued), operations);
        if let Some(program) = operations.last_mut() {
            program.host_units = if cause == Cause::Host { next - issued } else { 0 };
            program.programmed = end;
        }
        if closed {
            let valid = self.blocks.close(block, &self.layout);
            self.victims.closed(die, block, valid, true);
        }
    }

    fn emit(
        &mut self,
        kind: NandKind,
        cause: Cause,
        die: u32,
        block: u32,
        (commands, pages, units): (u32, u32, u32),
        operations: &mut Vec<NandOp>,
    ) {
        let operation = NandOp { kind, cause, die, commands, pages, units, host_units: 0, block, programmed: 0 };
        self.counters.count(&operation);
        operations.push(operation);
    }

    /// Invalidates `len` physical units of one block from `physical` on.
    #[inline]
    fn invalidate(&mut self, physical: u32, len: u32) {
        let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
        let die = block / self.blocks_per_die;
        if self.blocks.touch(block, &self.layout) {
            let (_, valid) = self.blocks.get(block, &self.layout);
            self.victims.closed(die, block, valid, false);
        }
        for unit in offset..offset + len {
            let (state, left) = self.blocks.invalidate(block, unit, &self.layout);
            if state == BlockState::Closed {
                self.victims.invalidated(die, block, left + 1, left);
            }
        }
        self.dies[die as usize].valid -= u64::from(len);
    }
}

impl<V: VictimSelection + Send> TranslationLayer for PageMapping<V> {
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        if self.open_die == NONE {
            self.open_die = self.choose_die();
        }
        let die = self.open_die;
        self.ensure_host_block(die, operations);
        let Frontier { block, next, issued } = self.dies[die as usize].host;
        let physical = block * self.units_per_block + next;
        let entry = self.mapping.entry(unit, &self.layout);
        let old = *entry;
        // The open row ends before `physical`; an older version in it is simply overwritten in memory.
        if old != NONE && old < physical && physical - old <= next - issued {
            self.counters.replaced_units += 1;
            return Placed::Replaced;
        }
        *entry = physical;
        self.counters.host_units += 1;
        self.blocks.fill(block, next, unit, &self.layout);
        let state = &mut self.dies[die as usize];
        state.host.next = next + 1;
        state.valid += 1;
        if old != NONE {
            self.invalidate(old, 1);
        }
        if (next + 1).is_multiple_of(self.units_per_row) {
            self.issue(die, Cause::Host, operations);
            self.open_die = NONE;
            self.pay_for_collection(die, next + 1 - issued, operations);
        }
        Placed::New
    }

    fn flush(&mut self, operations: &mut Vec<NandOp>) {
        let die = std::mem::replace(&mut self.open_die, NONE);
        if die == NONE {
            return;
        }
        let Frontier { next, issued, .. } = self.dies[die as usize].host;
        if next > issued {
            self.issue(die, Cause::Host, operations);
            self.pay_for_collection(die, next.next_multiple_of(self.units_per_page) - issued, operations);
        }
    }

    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let (first, mut last_row, mut last_page) = (operations.len(), NONE, NONE);
        for unit in start..end {
            let physical = self.mapping.get(unit, &self.layout);
            if physical == NONE {
                continue;
            }
            let block = physical / self.units_per_block;
            if !self.blocks.is_programmed(block, physical % self.units_per_block) {
                continue;
            }
            let (row, page) = (physical / self.units_per_row, physical / self.units_per_page);
            if row == last_row && operations.len() > first {
                let operation = operations.len() - 1;
                operations[operation].units += 1;
                operations[operation].pages += u32::from(page != last_page);
                self.counters.pages_read[Cause::Host as usize] += u64::from(page != last_page);
            } else {
                self.emit(NandKind::Read, Cause::Host, block / self.blocks_per_die, block, (1, 1, 1), operations);
            }
            (last_row, last_page) = (row, page);
        }
    }

    fn trim(&mut self, start: u32, end: u32, _: &mut Vec<NandOp>) {
        let layout = Arc::clone(&self.layout);
        let mut mapping = std::mem::replace(&mut self.mapping, Mapping::new(0));
        mapping.unmap(start, end, &layout, |physical, len| self.invalidate(physical, len));
        self.mapping = mapping;
    }

    fn programmed(&mut self, block: u32, units: u32) {
        self.blocks.set_programmed(block, units, &self.layout);
    }

    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32> {
        Some(self.mapping.get(unit, &self.layout)).filter(|physical| *physical != NONE)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn erases_of_blocks(&self) -> BTreeMap<u32, u64> {
        self.blocks.erases(self.geometry.planes_per_die)
    }

    fn memory_bytes(&self) -> u64 {
        self.mapping.memory_bytes()
            + self.blocks.memory_bytes()
            + self.victims.memory_bytes()
            + self.layout.memory_bytes()
            + self.dies.iter().map(|die| size_of::<Die>() as u64 + die.free.capacity() as u64 * 4).sum::<u64>()
    }

    fn check(&self) {
        let mut valid_of_die = vec![0; self.dies.len()];
        let mut mapped = 0;
        for unit in 0..self.geometry.logical_units {
            let physical = self.mapping.get(unit, &self.layout);
            if physical != NONE {
                let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
                assert_eq!(
                    self.blocks.holder(block, offset, &self.layout),
                    unit,
                    "unit {unit} is not where the map says"
                );
                valid_of_die[(block / self.blocks_per_die) as usize] += 1;
                mapped += 1;
            }
        }
        let mut held = 0;
        for (number, die) in self.dies.iter().enumerate() {
            assert_eq!(die.valid, valid_of_die[number], "valid units of die {number}");
            let first = number as u32 * self.blocks_per_die;
            let mut free = 0;
            for block in first..first + self.blocks_per_die {
                let (state, valid) = self.blocks.get(block, &self.layout);
                let units = (0..self.units_per_block).filter(|o| self.blocks.holder(block, *o, &self.layout) != NONE);
                assert_eq!(units.count() as u32, valid, "valid units of block {block}");
                assert!(state != BlockState::Free || valid == 0);
                free += u32::from(state == BlockState::Free);
                held += u64::from(valid);
            }
            assert_eq!(free, die.free_blocks(), "free blocks of die {number}");
        }
        assert_eq!(held, mapped, "valid units in all blocks against mapped units");
        self.check_counters();
    }
}

impl<V> PageMapping<V> {
    /// Every unit of a programmed page was written by the host, moved, or padding; every erased block was full.
    fn check_counters(&self) {
        let waiting: u64 =
            self.dies.iter().flat_map(|die| [die.host, die.collector]).map(|f| u64::from(f.next - f.issued)).sum();
        let counters = &self.counters;
        let written = counters.host_units + counters.moved_units + counters.padding_units;
        let pages: u64 = counters.pages_programmed.iter().sum();
        assert_eq!(written, pages * u64::from(self.units_per_page) + waiting, "units written against pages programmed");
        let erases = self.blocks.erases(self.geometry.planes_per_die);
        let erases: u64 = erases.iter().map(|(erases, blocks)| u64::from(*erases) * blocks).sum();
        assert_eq!(erases, counters.blocks_erased.iter().sum::<u64>(), "erases of blocks against their count");
    }
}
