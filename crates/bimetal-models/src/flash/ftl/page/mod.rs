//! `page`: page mapping. Every unit can lie anywhere; because all writes are appended to a log.
//!
//! The log is striped over the dies row by row: the host's open row lies in one die, the next row
//! in the next die with room. A die takes data only while it holds little more than the mean of all
//! dies. So discards of one die's data leave no other die short of spare room. Each die collects
//! independently, see `collection`. Host and collector write to separate blocks, see `die`. `log`
//! appends units and makes older versions invalid, `setup` makes the layer.
//!
//! With a cache of single-bit cells (`slc_cache`), the host's blocks are programmed with one bit in
//! each cell while the die has blocks to spare. Blocks with one bit in each cell are faster, and
//! hold fewer units accordingly. Because a single-bit block has few valid units, the collector
//! takes it soon and packs its valid units into all bits of another block. By such a collection the
//! single-bit cells become free again.

mod check;
mod collection;
mod die;
mod log;
mod setup;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Counters, Info, Placed, TranslationLayer};
use crate::flash::blocks::{BlockState, Blocks};
use crate::flash::gc::VictimSelection;
use crate::flash::geometry::{Geometry, RESERVED_BLOCKS_PER_DIE};
use crate::flash::mapping::{Mapping, NONE};
use crate::flash::operation::{Cause, NandKind, NandOp};
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked};
use crate::flash::wear::WearLevelling;

use die::{Die, Stream};
pub(crate) use setup::Options;

pub(crate) const INFO: Info = Info {
    name: "page",
    whole_pages: false,
    reserve: |profile| RESERVED_BLOCKS_PER_DIE + profile.wear_levelling.open_blocks(),
    make: |setup| Ok(Box::new(PageMapping::of(setup, setup.geometry, 0)?)),
};

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
    /// Die of the open row by [`Stream`], or [`NONE`] when no row is open.
    open_die: [u32; Stream::COUNT],
    /// Die at which the search for the next die begins.
    next_die: u32,
    /// Number of valid units in all dies.
    valid_units: u64,
    /// Number of valid units above which a die takes no new row: at any time, and above the mean of
    /// all dies.
    valid_max: u64,
    above_mean_max: u64,
    /// Number of retired blocks above which a die takes no more data.
    retired_max: u32,
    worn_out: bool,
    refused: u64,
    options: Options,
    counters: Counters,
    /// Number of units that a collection takes out of its victim at a time.
    taken: Vec<(u32, u32)>,
    /// List of moved units, while moves are recorded.
    moved: Option<Vec<u32>>,
}

impl PageMapping {
    /// Records the units that are moved from now on, for [`moved`](Self::moved).
    pub(super) fn note_moves(&mut self) {
        self.moved = Some(Vec::new());
    }

    /// Returns the units moved since the last call, in order.
    pub(super) fn moved(&mut self) -> &mut Vec<u32> {
        self.moved.get_or_insert_default()
    }

    /// Returns the place of `unit`, if it is programmed into the cells.
    pub(super) fn in_cells(&self, unit: u32) -> Option<u32> {
        let physical = self.mapping.get(unit, &self.layout);
        let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
        (physical != NONE && self.blocks.is_programmed(block, offset)).then_some(physical)
    }

    /// Returns true if `unit` has a place.
    pub(super) fn is_mapped(&self, unit: u32) -> bool {
        self.mapping.get(unit, &self.layout) != NONE
    }

    fn free_blocks(&self, die: u32) -> u32 {
        let fresh = &self.dies[die as usize].fresh;
        fresh.end - fresh.start + self.levelling.erased_blocks(die)
    }

    /// Returns true if `die` has fewer than `least` free blocks.
    fn has_fewer_free_blocks(&self, die: u32, least: u32) -> bool {
        // Most drives have blocks that were never written, and wear levelling need not count.
        self.dies[die as usize].fresh.len() < least as usize && self.free_blocks(die) < least
    }

    /// Appends the sensing of `physical` for the layer's own tables.
    pub(super) fn sense_table(&mut self, physical: u32, operations: &mut Vec<NandOp>) {
        let block = physical / self.units_per_block;
        let die = block / self.blocks_per_die;
        self.emit(NandKind::Read, Cause::Translation, die, block, (1, 1, 1), operations);
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

    fn most_cycles(&self) -> f64 {
        self.blocks.most_cycles()
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
