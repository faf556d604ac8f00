//! `page`: page mapping. Every unit can lie anywhere; all writes are appended to a log.
//!
//! The log is striped over the dies row by row: the host's open row lies in one die, the next one in the next die that has
//! room. A die takes data only while it holds little more than its share of all data, so that its collector always
//! finds something to reclaim. Each die collects on its own, see `collection`. Host and collector write to blocks of
//! their own, see `die`.
//!
//! With a cache of single-bit cells (`slc_cache`) the host's blocks are programmed with one bit a cell while the die has
//! blocks to spare: faster, and with so many units less. Such a block holds few valid units, so the collector takes it
//! soon and packs what is valid in it into all bits of another: that is how the cache is emptied.

mod check;
mod collection;
mod die;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Counters, Info, Placed, Setup, TranslationLayer};
use crate::flash::blocks::{BlockState, Blocks};
use crate::flash::gc::{self, VictimSelection};
use crate::flash::geometry::{Geometry, RESERVED_BLOCKS_PER_DIE};
use crate::flash::mapping::{Mapping, NONE};
use crate::flash::operation::{Cause, NandKind, NandOp};
use crate::flash::precondition::{Layout, Precondition};
use crate::flash::state::archive::{Archive, Checked};
use crate::flash::wear::{self, WearLevelling, WearLevellingKind};
use crate::profile::BadFigure;

use die::{Die, Frontier, NO_FRONTIER, Stream};

pub(crate) const INFO: Info = Info {
    name: "page",
    whole_pages: false,
    reserve: |profile| RESERVED_BLOCKS_PER_DIE + profile.wear_levelling.open_blocks(),
    make: |setup| Ok(Box::new(PageMapping::of(setup, setup.geometry, 0)?)),
};

/// How a page-mapped layer collects, and what it does about wear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Below this many free blocks a die collects; at least 2.
    pub(crate) free_blocks: u32,
    /// Below this many free blocks a die collects when the drive is idle.
    pub(crate) idle_free_blocks: u32,
    /// How wear is levelled.
    pub(crate) levelling: WearLevellingKind,
    /// By how many erases a block may lag behind under static wear levelling.
    pub(crate) threshold: u32,
    /// Erases after which a block is not used again.
    pub(crate) cycles: Option<u32>,
    /// Blocks of a die that may be programmed with one bit a cell, and the units that such a block holds.
    pub(crate) slc_blocks: u32,
    pub(crate) slc_units: u32,
    /// Blocks of a die that hold tables at most when one is open to be written; 0: there are no tables.
    pub(crate) table_blocks: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            free_blocks: 2,
            idle_free_blocks: 0,
            levelling: WearLevellingKind::None,
            threshold: 0,
            cycles: None,
            slc_blocks: 0,
            slc_units: 0,
            table_blocks: 0,
        }
    }
}

/// A steady state needs closed blocks for all its data, with `free` blocks free.
fn check_room(geometry: &Geometry, units: u32, free: u32, asked: u32) -> Result<(), BadFigure> {
    let closed = u64::from(geometry.blocks_per_plane.saturating_sub(free)) * u64::from(geometry.units_per_block());
    if u64::from(units.div_ceil(geometry.dies())) > closed {
        let expected = "fewer free blocks or more spare area: the data do not fit into the closed blocks of a die";
        return Err(BadFigure::new("gc_free_blocks", asked, expected));
    }
    Ok(())
}

/// The page-mapped translation layer.
pub(crate) struct PageMapping {
    geometry: Geometry,
    units_per_page: u32,
    units_per_row: u32,
    units_per_block: u32,
    blocks_per_die: u32,
    layout: Arc<Layout>,
    mapping: Mapping,
    blocks: Blocks,
    victims: Box<dyn VictimSelection>,
    levelling: Box<dyn WearLevelling>,
    dies: Vec<Die>,
    /// By [`Stream`]: the die of its open row, or [`NONE`] when none is open.
    open_die: [u32; Stream::COUNT],
    /// Where the search for the next die begins.
    next_die: u32,
    /// A die with more valid units than this takes no new row.
    valid_max: u64,
    /// A die in which more blocks are retired than this takes no more data.
    retired_max: u32,
    worn_out: bool,
    refused: u64,
    options: Options,
    counters: Counters,
    /// What a collection takes out of its victim at a time.
    taken: Vec<(u32, u32)>,
    /// Units that were moved, while they are noted down.
    moved: Option<Vec<u32>>,
}

impl PageMapping {
    /// The layer of `setup` over `geometry`, which may have logical units behind the host's for tables, for which each die
    /// keeps `table_blocks` blocks.
    ///
    /// # Errors
    /// The key because of which there is no room.
    pub(super) fn of(setup: &Setup, geometry: Geometry, table_blocks: u32) -> Result<Self, BadFigure> {
        let options = setup.profile.page_options(&geometry, table_blocks)?;
        let free = options.free_blocks + 1 + table_blocks + options.levelling.open_blocks();
        if setup.precondition == Precondition::Random {
            check_room(&geometry, setup.units, free, options.free_blocks)?;
        }
        let layout = Layout::new(setup.precondition, &geometry, setup.start, setup.units, free, setup.seed);
        let victims = gc::make(setup.profile.gc, &geometry, &layout, setup.seed);
        Ok(Self::new(geometry, layout, victims, options))
    }

    /// The layer over `geometry` (which has passed its checks), in the state of `layout`.
    pub(crate) fn new(geometry: Geometry, layout: Layout, victims: Box<dyn VictimSelection>, options: Options) -> Self {
        let share = u64::from(geometry.logical_units.div_ceil(geometry.dies()));
        let (row, block) = (u64::from(geometry.units_per_row()), u64::from(geometry.units_per_block()));
        let reserved = RESERVED_BLOCKS_PER_DIE + u32::from(options.table_blocks > 0) + options.levelling.open_blocks();
        let closed = u64::from(geometry.blocks_per_plane - reserved) * block;
        assert!(share + 2 * row <= closed, "a geometry without its reserve");
        // A die may hold its share and an eighth of its spare room, so that uneven discards cost no die its spare area.
        let valid_max = (share + row).max(share + (closed - share) / 8).min(closed - row);
        let levelling = wear::make(options.levelling, &geometry, &layout, options.threshold);
        let mut ftl = Self {
            geometry,
            units_per_page: geometry.units_per_page(),
            units_per_row: geometry.units_per_row(),
            units_per_block: geometry.units_per_block(),
            blocks_per_die: geometry.blocks_per_plane,
            mapping: Mapping::new(geometry.logical_units),
            blocks: Blocks::new(&geometry),
            victims,
            levelling,
            dies: Vec::new(),
            open_die: [NONE; Stream::COUNT],
            next_die: 0,
            valid_max,
            retired_max: ((closed - row - valid_max) / block) as u32,
            worn_out: false,
            refused: 0,
            options,
            counters: Counters::default(),
            taken: Vec::new(),
            moved: None,
            layout: Arc::new(layout),
        };
        (0..geometry.dies()).for_each(|die| ftl.add_die(die));
        ftl
    }

    fn add_die(&mut self, die: u32) {
        let first = die * self.blocks_per_die;
        let programmed = self.layout.programmed_blocks(die);
        self.dies.push(Die::new(self.layout.units_of_die(die), first + programmed..first + self.blocks_per_die));
        // A die may hold a unit less than its share, or not the end of a sequential fill: then its last block holds less than
        // its level says, and the collector must know.
        let Some(last) = programmed.checked_sub(1).map(|last| first + last) else { return };
        let expected = self.layout.levels().last().map_or(self.units_per_block, |level| level.valid);
        let (_, valid) = self.blocks.get(last, &self.layout);
        if valid < expected && self.blocks.touch(last, &self.layout) {
            self.victims.closed(die, last, valid, false);
        }
    }

    /// Notes down from now on which units are moved, for [`moved`](Self::moved).
    pub(super) fn note_moves(&mut self) {
        self.moved = Some(Vec::new());
    }

    /// Units moved since the last call, in order.
    pub(super) fn moved(&mut self) -> &mut Vec<u32> {
        self.moved.get_or_insert_default()
    }

    /// Where `unit` lies, if it is in the cells.
    pub(super) fn in_cells(&self, unit: u32) -> Option<u32> {
        let physical = self.mapping.get(unit, &self.layout);
        let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
        (physical != NONE && self.blocks.is_programmed(block, offset)).then_some(physical)
    }

    /// Whether a version of `unit` lies anywhere.
    pub(super) fn is_mapped(&self, unit: u32) -> bool {
        self.mapping.get(unit, &self.layout) != NONE
    }

    fn free_blocks(&self, die: u32) -> u32 {
        let fresh = &self.dies[die as usize].fresh;
        fresh.end - fresh.start + self.levelling.erased_blocks(die)
    }

    /// The die for the next row: in turn, but none that holds too much. One always holds no more than its share.
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

    /// Makes sure that the open block of `stream` in `die` has a unit to write.
    fn ensure_block(&mut self, die: u32, stream: Stream, operations: &mut Vec<NandOp>) {
        if self.dies[die as usize].open[stream as usize].block != NONE {
            return;
        }
        // One free block is the collector's.
        while self.free_blocks(die) < 2 {
            assert!(self.start_collection(die), "die {die} has no free block and nothing to reclaim");
            self.collect(die, u64::MAX, operations);
        }
        self.open_block(die, stream);
    }

    fn open_block(&mut self, die: u32, stream: Stream) {
        let slc = stream == Stream::Host
            && self.dies[die as usize].slc_blocks < self.options.slc_blocks
            && self.free_blocks(die) > self.options.free_blocks + 1;
        let state = &mut self.dies[die as usize];
        let stays = matches!(stream, Stream::Collector | Stream::Leveller);
        match self.levelling.take(die, &mut state.fresh, stays) {
            Some(block) => {
                state.slc_blocks += u32::from(slc);
                let end = if slc { self.options.slc_units } else { self.units_per_block };
                state.open[stream as usize] = Frontier { block, next: 0, issued: 0, end };
                self.blocks.open(block, slc, &self.layout);
            }
            None => unreachable!("die {die} has no free block for its collector"),
        }
    }

    /// Appends `unit` to the open row of `stream`.
    #[inline(always)]
    fn append(&mut self, stream: Stream, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        if self.open_die[stream as usize] == NONE {
            self.open_die[stream as usize] = self.choose_die();
        }
        let die = self.open_die[stream as usize];
        self.ensure_block(die, stream, operations);
        let Frontier { block, next, issued, .. } = self.dies[die as usize].open[stream as usize];
        let physical = block * self.units_per_block + next;
        let entry = self.mapping.entry(unit, &self.layout);
        let old = *entry;
        // The open row ends before `physical`; an older version in it is simply overwritten in memory.
        if old != NONE && old < physical && physical - old <= next - issued {
            return Placed::Replaced;
        }
        *entry = physical;
        self.blocks.fill(block, next, unit, &self.layout);
        let state = &mut self.dies[die as usize];
        state.open[stream as usize].next = next + 1;
        state.valid += 1;
        if old != NONE {
            self.invalidate(old);
        }
        if (next + 1).is_multiple_of(self.units_per_row) {
            self.issue(die, stream, operations);
            self.open_die[stream as usize] = NONE;
            self.pay_for_collection(die, next + 1 - issued, operations);
        }
        Placed::New
    }

    /// Writes a unit of the layer's own tables.
    pub(super) fn append_table(&mut self, unit: u32, operations: &mut Vec<NandOp>) {
        let placed = self.append(Stream::Translation, unit, operations);
        self.counters.table_units += u64::from(placed == Placed::New);
    }

    /// Writes these units of the layer's own tables before time zero, into blocks that are free then.
    pub(super) fn prepare_tables(&mut self, units: std::ops::Range<u32>) {
        let free_blocks = std::mem::replace(&mut self.options.free_blocks, 0);
        let mut operations = Vec::new();
        for unit in units {
            self.append(Stream::Translation, unit, &mut operations);
        }
        self.end_row(Stream::Translation, &mut operations);
        for operation in operations {
            self.programmed(&operation);
        }
        self.options.free_blocks = free_blocks;
        debug_assert_eq!(self.counters.blocks_erased.iter().sum::<u64>(), 0);
        self.counters = Counters::default();
    }

    /// Programs what waits in the open row of `stream`.
    fn end_row(&mut self, stream: Stream, operations: &mut Vec<NandOp>) {
        let die = std::mem::replace(&mut self.open_die[stream as usize], NONE);
        if die == NONE {
            return;
        }
        let Frontier { next, issued, .. } = self.dies[die as usize].open[stream as usize];
        if next > issued {
            self.issue(die, stream, operations);
            self.pay_for_collection(die, next.next_multiple_of(self.units_per_page) - issued, operations);
        }
    }

    /// Programs the pages of a frontier that are written but not issued; closes its block at the end.
    fn issue(&mut self, die: u32, stream: Stream, operations: &mut Vec<NandOp>) {
        let state = &mut self.dies[die as usize];
        let cause = match stream {
            Stream::Host => Cause::Host,
            Stream::Translation => Cause::Translation,
            Stream::Collector => Cause::Collection,
            Stream::Leveller => Cause::WearLevelling,
        };
        let frontier = &mut state.open[stream as usize];
        let Frontier { block, next, issued, end: last } = *frontier;
        let end = next.next_multiple_of(self.units_per_page);
        (frontier.next, frontier.issued) = (end, end);
        let closed = end == last;
        if closed {
            *frontier = NO_FRONTIER;
        }
        self.counters.padding_units += u64::from(end - next);
        let pages = (end - issued) / self.units_per_page;
        self.emit(NandKind::Program, cause, die, block, (1, pages, end - issued), operations);
        if let Some(program) = operations.last_mut() {
            program.host_units = if cause == Cause::Host { next - issued } else { 0 };
            program.programmed = end;
            program.slc = last < self.units_per_block;
            program.age = self.blocks.age(block);
        }
        if closed {
            let (valid, erases) = self.blocks.close(block, &self.layout);
            self.victims.closed(die, block, valid, true);
            self.levelling.closed(die, block, erases);
        }
    }

    /// Appends the sensing of `physical` for the layer's own tables.
    pub(super) fn sense_table(&mut self, physical: u32, operations: &mut Vec<NandOp>) {
        let block = physical / self.units_per_block;
        let die = block / self.blocks_per_die;
        self.emit(NandKind::Read, Cause::Translation, die, block, (1, 1, 1), operations);
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
        let operation = NandOp { die, block, commands, pages, units, ..NandOp::new(kind, cause) };
        self.counters.count(&operation);
        operations.push(operation);
    }

    /// Invalidates physical unit `physical`.
    #[inline]
    fn invalidate(&mut self, physical: u32) {
        let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
        let die = block / self.blocks_per_die;
        let mut invalidated = self.blocks.invalidate(block, offset, &self.layout);
        if invalidated.is_none() {
            self.touch(die, block);
            invalidated = self.blocks.invalidate(block, offset, &self.layout);
        }
        let Some((state, left)) = invalidated else { unreachable!("block {block} was touched") };
        if state == BlockState::Closed {
            self.victims.invalidated(die, block, left + 1, left);
        }
        self.dies[die as usize].valid -= 1;
    }

    fn touch(&mut self, die: u32, block: u32) {
        if self.blocks.touch(block, &self.layout) {
            let (_, valid) = self.blocks.get(block, &self.layout);
            self.victims.closed(die, block, valid, false);
        }
    }

    /// Invalidates the `len` physical units from `physical` on, all of one die and all valid.
    fn invalidate_run(&mut self, mut physical: u32, len: u32) {
        let end = physical + len;
        while physical < end {
            let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
            let count = (self.units_per_block - offset).min(end - physical);
            let die = block / self.blocks_per_die;
            if self.blocks.clear_untouched(block, count, &self.layout) {
                self.victims.closed(die, block, 0, false);
            } else {
                self.touch(die, block);
                let (state, left) = self.blocks.invalidate_run(block, offset, count, &self.layout);
                if state == BlockState::Closed {
                    self.victims.invalidated(die, block, left + count, left);
                }
            }
            self.dies[die as usize].valid -= u64::from(count);
            physical += count;
        }
    }
}

impl TranslationLayer for PageMapping {
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        if self.worn_out {
            self.refused += 1;
            return Placed::Replaced;
        }
        let placed = self.append(Stream::Host, unit, operations);
        match placed {
            Placed::New => self.counters.host_units += 1,
            Placed::Replaced => self.counters.replaced_units += 1,
        }
        placed
    }

    fn flush(&mut self, operations: &mut Vec<NandOp>) {
        self.end_row(Stream::Host, operations);
    }

    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let (first, mut last_row, mut last_page) = (operations.len(), NONE, NONE);
        for unit in start..end {
            let Some(physical) = self.in_cells(unit) else { continue };
            let (row, page) = (physical / self.units_per_row, physical / self.units_per_page);
            if row == last_row && operations.len() > first {
                let operation = operations.len() - 1;
                operations[operation].units += 1;
                operations[operation].pages += u32::from(page != last_page);
                self.counters.pages_read[Cause::Host as usize] += u64::from(page != last_page);
            } else {
                let block = physical / self.units_per_block;
                self.emit(NandKind::Read, Cause::Host, block / self.blocks_per_die, block, (1, 1, 1), operations);
            }
            (last_row, last_page) = (row, page);
        }
    }

    fn trim(&mut self, start: u32, end: u32, _: &mut Vec<NandOp>) {
        let layout = Arc::clone(&self.layout);
        let mut mapping = std::mem::replace(&mut self.mapping, Mapping::new(0));
        mapping.unmap(start, end, &layout, |physical, len| self.invalidate_run(physical, len));
        self.mapping = mapping;
    }

    fn programmed(&mut self, program: &NandOp) {
        self.blocks.set_programmed(program.block, program.programmed, program.age, &self.layout);
    }

    fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    fn wants_idle_time(&self) -> bool {
        (0..self.geometry.dies()).any(|die| self.wants_idle_time_in(die))
    }

    fn use_idle_time(&mut self, operations: &mut Vec<NandOp>) -> bool {
        let before = operations.len();
        (0..self.geometry.dies()).for_each(|die| self.collect_when_idle(die, operations));
        operations.len() > before
    }

    fn set_intense(&mut self, intense: bool) {
        self.levelling.set_intense(intense);
    }

    fn fragmented(&self, most: usize) -> Option<Vec<u32>> {
        let blocks = (0..self.geometry.blocks()).filter(|block| !self.blocks.is_untouched(*block));
        let known = blocks.map(|block| (self.blocks.get(block, &self.layout), block));
        let holey = known.filter_map(|((state, valid), block)| {
            (state == BlockState::Closed && (1..self.units_per_block).contains(&valid)).then_some((valid, block))
        });
        let mut holey: Vec<(u32, u32)> = holey.collect();
        holey.sort_unstable();
        let units = holey.into_iter().flat_map(|(_, block)| {
            (0..self.units_per_block).map(move |offset| self.blocks.holder(block, offset, &self.layout))
        });
        Some(units.filter(|unit| *unit != NONE).take(most).collect())
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
            + self.levelling.memory_bytes()
            + self.layout.memory_bytes()
            + self.dies.capacity() as u64 * size_of::<Die>() as u64
    }

    fn most_erases(&self) -> u32 {
        self.blocks.erases_of_run(self.geometry.planes_per_die).0
    }

    fn transfer(&mut self, archive: &mut Archive) -> Checked {
        self.transfer_tables(archive)
    }

    fn waiting_units(&self) -> u32 {
        self.dies.iter().map(Die::waiting).sum()
    }

    fn check(&self) -> Checked {
        self.check_tables()?;
        self.check_counters()
    }
}
