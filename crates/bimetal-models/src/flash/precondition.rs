//! State of a drive before its first request, represented by a rule and not by tables.
//!
//! `Layout` computes the place of a unit, and the content of a block, for units and blocks that no
//! write or discard has touched since. Wear starts at zero: erases of the fill are not counted.

use std::str::FromStr;

use super::geometry::Geometry;
use super::mapping::NONE;
use super::permutation::Permutation;
use super::steady_state::steady_state;

/// Use of a drive before the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precondition {
    /// No unit is mapped, and every block is erased.
    #[default]
    Clean,
    /// Each unit was written once, in order, over all dies.
    Sequential,
    /// Units were overwritten uniformly at random until the collector reached its steady state. The
    /// state is constructed from the mean-field distribution of valid units over blocks
    /// (`steady_state`), not simulated.
    Random,
}

/// A text that is not the name of a state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("precondition = {0}: expected clean, sequential or random")]
pub struct UnknownPrecondition(String);

impl FromStr for Precondition {
    type Err = UnknownPrecondition;

    fn from_str(text: &str) -> Result<Self, UnknownPrecondition> {
        match text {
            "clean" => Ok(Self::Clean),
            "sequential" => Ok(Self::Sequential),
            "random" => Ok(Self::Random),
            _ => Err(UnknownPrecondition(text.to_owned())),
        }
    }
}

/// Places of untouched units, and content of untouched blocks.
pub(crate) struct Layout {
    state: State,
    /// First unit that the rule maps; `end` is the first unit after the last.
    start: u32,
    end: u32,
    dies: u32,
    blocks_per_die: u32,
    units_per_row: u32,
    units_per_block: u32,
}

enum State {
    Clean,
    Sequential,
    Random { levels: Vec<Level>, permutation: Permutation },
}

/// Blocks of a die with the same number of valid units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    /// Number of valid units in each block.
    pub(crate) valid: u32,
    /// First block of the level, counted within the die.
    pub(crate) first_block: u32,
    /// Number of blocks.
    pub(crate) blocks: u32,
    /// Number of valid units in all levels before this level.
    first_unit: u32,
}

impl Layout {
    /// Creates the state `precondition` of the `units` units from `start` on; all other units are
    /// unmapped.
    ///
    /// `free_blocks` is the number of blocks that the collector of a die keeps free in its steady
    /// state. `seed` determines the places of random units.
    pub(crate) fn new(
        precondition: Precondition,
        geometry: &Geometry,
        start: u32,
        units: u32,
        free_blocks: u32,
        seed: u64,
    ) -> Self {
        let dies = geometry.dies();
        let state = match precondition {
            _ if units == 0 => State::Clean,
            Precondition::Clean => State::Clean,
            Precondition::Sequential => State::Sequential,
            Precondition::Random => {
                let closed = geometry.blocks_per_plane - free_blocks;
                let counts = steady_state(closed, geometry.units_per_block(), units.div_ceil(dies));
                State::Random { levels: levels(&counts), permutation: Permutation::new(units, seed) }
            }
        };
        Self {
            state,
            start,
            end: start + units,
            dies,
            blocks_per_die: geometry.blocks_per_plane,
            units_per_row: geometry.units_per_row(),
            units_per_block: geometry.units_per_block(),
        }
    }

    /// Returns the physical unit that holds `unit`, or [`NONE`].
    pub(crate) fn locate(&self, unit: u32) -> u32 {
        if unit < self.start || unit >= self.end {
            return NONE;
        }
        let number = unit - self.start;
        match &self.state {
            State::Clean => NONE,
            State::Sequential => {
                let (row, offset) = (number / self.units_per_row, number % self.units_per_row);
                let (die, die_row) = (row % self.dies, row / self.dies);
                die * self.blocks_per_die * self.units_per_block + die_row * self.units_per_row + offset
            }
            State::Random { levels, permutation } => {
                let slot = permutation.forward(number);
                let (die, slot) = (slot % self.dies, slot / self.dies);
                let level = levels[levels.partition_point(|level| level.first_unit <= slot) - 1];
                let (block, nth) = ((slot - level.first_unit) / level.valid, (slot - level.first_unit) % level.valid);
                let block = die * self.blocks_per_die + level.first_block + block;
                block * self.units_per_block + spread(nth, level.valid, self.units_per_block)
            }
        }
    }

    /// Calls `each` with runs of physical units (the first unit, and their number) that hold the
    /// mapped units from `unit` up to `end`. In the sequential state there is one run for each die,
    /// and further runs for the rows at the ends.
    pub(crate) fn for_each_run(&self, unit: u32, end: u32, mut each: impl FnMut(u32, u32)) {
        let (unit, end) = (unit.max(self.start), end.min(self.end));
        if matches!(self.state, State::Clean) || unit >= end {
            return;
        }
        if !matches!(self.state, State::Sequential) {
            return (unit..end).for_each(|unit| each(self.locate(unit), 1));
        }
        let row = self.units_per_row;
        let first_whole = (unit - self.start).next_multiple_of(row).min(end - self.start);
        let behind_whole = ((end - self.start) / row * row).max(first_whole);
        let mut part = |from: u32, to: u32| {
            if from < to {
                each(self.locate(self.start + from), to - from);
            }
        };
        part(unit - self.start, first_whole);
        part(behind_whole, end - self.start);
        let (first, rows) = (first_whole / row, (behind_whole - first_whole) / row);
        for at in 0..rows.min(self.dies) {
            let of_die = (rows - at).div_ceil(self.dies);
            each(self.locate(self.start + (first + at) * row), of_die * row);
        }
    }

    /// Returns the offset of the `nth` valid unit in an untouched block.
    pub(crate) fn offset_of(&self, block: u32, nth: u32) -> u32 {
        match &self.state {
            State::Random { levels, .. } => level_of(levels, block % self.blocks_per_die)
                .map_or(0, |level| spread(nth, level.valid, self.units_per_block)),
            _ => nth,
        }
    }

    /// Returns the logical unit that physical unit `physical` holds, or [`NONE`].
    pub(crate) fn holder(&self, physical: u32) -> u32 {
        let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
        let (die, block) = (block / self.blocks_per_die, block % self.blocks_per_die);
        let number = match &self.state {
            State::Clean => return NONE,
            State::Sequential => {
                let die_row = block as u64 * u64::from(self.units_per_block / self.units_per_row)
                    + u64::from(offset / self.units_per_row);
                let row = die_row * u64::from(self.dies) + u64::from(die);
                row * u64::from(self.units_per_row) + u64::from(offset % self.units_per_row)
            }
            State::Random { levels, permutation } => {
                let Some(level) = level_of(levels, block) else { return NONE };
                let Some(nth) = nth_of(offset, level.valid, self.units_per_block) else { return NONE };
                let slot = u64::from(level.first_unit + (block - level.first_block) * level.valid + nth);
                let slot = slot * u64::from(self.dies) + u64::from(die);
                if slot >= u64::from(permutation.len) {
                    return NONE;
                }
                u64::from(permutation.backward(slot as u32))
            }
        };
        if number < u64::from(self.end - self.start) { self.start + number as u32 } else { NONE }
    }

    /// Returns the number of valid units in an untouched block.
    pub(crate) fn valid(&self, block: u32) -> u32 {
        let (die, block) = (block / self.blocks_per_die, block % self.blocks_per_die);
        let (first, full) = match &self.state {
            State::Clean => return 0,
            State::Sequential => (block as u64 * u64::from(self.units_per_block), self.units_per_block),
            State::Random { levels, .. } => match level_of(levels, block) {
                Some(level) => (u64::from(level.first_unit + (block - level.first_block) * level.valid), level.valid),
                None => return 0,
            },
        };
        self.units_of_die(die).saturating_sub(first).min(u64::from(full)) as u32
    }

    /// Returns the number of valid units in an untouched die.
    pub(crate) fn units_of_die(&self, die: u32) -> u64 {
        let (units, dies) = (u64::from(self.end - self.start), u64::from(self.dies));
        let die = u64::from(die);
        match self.state {
            State::Clean => 0,
            State::Sequential => {
                let row = u64::from(self.units_per_row);
                let rows = (units / row + dies - 1 - die) / dies;
                rows * row + if units / row % dies == die { units % row } else { 0 }
            }
            State::Random { .. } => (units + dies - 1 - die) / dies,
        }
    }

    /// Returns the number of blocks of a die, from its first on, that the rule has programmed.
    pub(crate) fn programmed_blocks(&self, die: u32) -> u32 {
        match &self.state {
            State::Clean => 0,
            State::Sequential => self.units_of_die(die).div_ceil(u64::from(self.units_per_block)) as u32,
            State::Random { levels, .. } => levels.last().map_or(0, |level| level.first_block + level.blocks),
        }
    }

    /// Returns the untouched blocks by valid units, in ascending order. All dies have equal levels,
    /// with one exception: if a die holds one unit less than the other dies, its last block has one
    /// valid unit less. Full blocks, which a collector cannot use, may be missing from the result.
    pub(crate) fn levels(&self) -> &[Level] {
        match &self.state {
            State::Random { levels, .. } => levels,
            _ => &[],
        }
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of_val(self.levels()) as u64
    }
}

fn level_of(levels: &[Level], block: u32) -> Option<Level> {
    let level = *levels.get(levels.partition_point(|level| level.first_block <= block).checked_sub(1)?)?;
    (block < level.first_block + level.blocks).then_some(level)
}

/// Returns the offset, in a block of `units`, of the `nth` of `valid` units that are spread evenly.
fn spread(nth: u32, valid: u32, units: u32) -> u32 {
    (u64::from(nth) * u64::from(units) / u64::from(valid)) as u32
}

/// Inverse of [`spread`]: returns the number of the valid unit at `offset`; `None` if the unit at
/// `offset` is not valid.
fn nth_of(offset: u32, valid: u32, units: u32) -> Option<u32> {
    let nth = (u64::from(offset) * u64::from(valid)).div_ceil(u64::from(units)) as u32;
    (nth < valid && spread(nth, valid, units) == offset).then_some(nth)
}

fn levels(counts: &[u32]) -> Vec<Level> {
    let (mut first_block, mut first_unit) = (0, 0);
    let mut levels = Vec::new();
    for (valid, &blocks) in counts.iter().enumerate().filter(|(_, blocks)| **blocks > 0) {
        levels.push(Level { valid: valid as u32, first_block, blocks, first_unit });
        first_block += blocks;
        first_unit += blocks * valid as u32;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            channels: 2,
            dies_per_channel: 3,
            planes_per_die: 2,
            blocks_per_plane: 40,
            pages_per_block: 12,
            page_bytes: 8192,
            unit_bytes: 4096,
            logical_units: 9000,
        }
    }

    #[test]
    fn every_unit_has_its_own_place_and_the_place_knows_the_unit() {
        let geometry = geometry();
        for (precondition, start, units) in [
            (Precondition::Sequential, 0, 9000),
            (Precondition::Sequential, 123, 4567),
            (Precondition::Random, 0, 9000),
            (Precondition::Random, 77, 501),
            (Precondition::Random, 5, 1),
            (Precondition::Clean, 0, 9000),
        ] {
            let layout = Layout::new(precondition, &geometry, start, units, 3, 42);
            let mut seen = vec![NONE; geometry.physical_units() as usize];
            for unit in 0..geometry.logical_units {
                let physical = layout.locate(unit);
                let mapped = precondition != Precondition::Clean && (start..start + units).contains(&unit);
                assert_eq!(physical != NONE, mapped, "{precondition:?} {unit}");
                if mapped {
                    assert_eq!(std::mem::replace(&mut seen[physical as usize], unit), NONE);
                }
            }
            for (physical, &unit) in seen.iter().enumerate() {
                assert_eq!(layout.holder(physical as u32), unit, "{precondition:?} {physical}");
            }
            let per_block = geometry.units_per_block() as usize;
            for (block, held) in seen.chunks(per_block).enumerate() {
                let valid = held.iter().filter(|unit| **unit != NONE).count() as u32;
                assert_eq!(layout.valid(block as u32), valid);
                assert!((0..valid).all(|nth| held[layout.offset_of(block as u32, nth) as usize] != NONE));
                let (die, number) = (block as u32 / 40, block as u32 % 40);
                assert!(valid == 0 || number < layout.programmed_blocks(die));
            }
            for (die, held) in seen.chunks(per_block * 40).enumerate() {
                let valid = held.iter().filter(|unit| **unit != NONE).count() as u64;
                assert_eq!(layout.units_of_die(die as u32), valid);
            }
        }
    }

    /// The runs of a layout have each unit exactly once. A sequential state has few runs.
    #[test]
    fn runs_hold_each_unit_once_and_are_few_if_sequential() {
        for precondition in [Precondition::Clean, Precondition::Sequential, Precondition::Random] {
            let layout = Layout::new(precondition, &geometry(), 100, 5000, 3, 0);
            for (from, to) in [(0, 9000), (0, 50), (100, 5100), (103, 104), (103, 4999), (104, 108), (107, 200), (9, 9)]
            {
                let mut held = Vec::new();
                let mut runs = 0;
                layout.for_each_run(from, to, |physical, len| {
                    held.extend(physical..physical + len);
                    runs += 1;
                });
                let mut expected: Vec<u32> = (from..to).map(|unit| layout.locate(unit)).collect();
                expected.retain(|physical| *physical != NONE);
                held.sort_unstable();
                expected.sort_unstable();
                assert_eq!(held, expected, "{precondition:?} {from}..{to}");
                assert!(precondition != Precondition::Sequential || runs <= 6 + 2, "{runs} runs");
            }
        }
    }
}
