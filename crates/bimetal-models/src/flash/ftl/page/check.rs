//! Checks of the page-mapped layer: every table against every other.

use super::PageMapping;
use crate::flash::blocks::BlockState;
use crate::flash::mapping::NONE;
use crate::flash::state::archive::{Checked, Inconsistent, ensure};

impl PageMapping {
    /// Returns the number of valid units in a die, summed over its blocks.
    pub(super) fn valid_in_blocks(&self, die: u32) -> u64 {
        let first = die * self.blocks_per_die;
        (first..first + self.blocks_per_die).map(|block| u64::from(self.blocks.get(block, &self.layout).1)).sum()
    }

    /// Checks that every unit is where the mapping table says, and that the counts of every die and
    /// block are right.
    pub(super) fn check_tables(&self) -> Checked {
        let mut valid_of_die = vec![0; self.dies.len()];
        let mut mapped = 0;
        for unit in 0..self.geometry.logical_units {
            let physical = self.mapping.get(unit, &self.layout);
            if physical != NONE {
                let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
                let found = self.blocks.holder(block, offset, &self.layout) == unit;
                ensure(found, || format!("unit {unit} is not where the map says"))?;
                valid_of_die[(block / self.blocks_per_die) as usize] += 1;
                mapped += 1;
            }
        }
        let mut held = 0;
        for (die, valid) in (0..).zip(valid_of_die) {
            held += self.check_die(die, valid)?;
        }
        ensure(self.valid_units == mapped, || format!("{} valid units: {mapped}", self.valid_units))?;
        ensure(held == mapped, || format!("{held} valid units in all blocks, {mapped} mapped units"))
    }

    /// Checks the blocks of a die that should hold `valid_units`. Returns the number of valid units
    /// that these blocks hold.
    fn check_die(&self, number: u32, valid_units: u64) -> Result<u64, Inconsistent> {
        let die = &self.dies[number as usize];
        ensure(die.valid == valid_units, || format!("{} valid units of die {number}: {valid_units}", die.valid))?;
        let first = number * self.blocks_per_die;
        let (mut held, mut free, mut retired, mut slc) = (0, 0, 0, 0);
        for block in first..first + self.blocks_per_die {
            let (state, valid) = self.blocks.get(block, &self.layout);
            let units = (0..self.units_per_block).filter(|o| self.blocks.holder(block, *o, &self.layout) != NONE);
            let counted = units.count() as u32 == valid;
            let empty = !matches!(state, BlockState::Free | BlockState::Retired) || valid == 0;
            ensure(counted && empty, || format!("{valid} valid units of block {block}, which is {state:?}"))?;
            free += u32::from(state == BlockState::Free);
            retired += u32::from(state == BlockState::Retired);
            slc += u32::from(self.blocks.is_slc(block));
            held += u64::from(valid);
        }
        let listed = self.free_blocks(number);
        ensure(free == listed, || format!("{free} free blocks of die {number}: {listed}"))?;
        let counted = (retired, slc) == (die.retired, die.slc_blocks);
        ensure(counted, || format!("{retired} retired and {slc} single-bit blocks of die {number}"))?;
        Ok(held)
    }

    /// Checks that every unit of a programmed page was written by the host, moved, or added as
    /// padding.
    pub(super) fn check_counters(&self) -> Checked {
        let waiting = self.dies.iter().flat_map(|die| die.open).map(|open| u64::from(open.next - open.issued));
        let counters = &self.counters;
        let written = counters.host_units + counters.moved_units + counters.table_units + counters.padding_units;
        let pages: u64 = counters.pages_programmed.iter().sum();
        let programmed = pages * u64::from(self.units_per_page) + waiting.sum::<u64>();
        ensure(written == programmed, || format!("{written} units written, {programmed} programmed or waiting"))?;
        let erases = self.blocks.erases_of_run(self.geometry.planes_per_die);
        let counted = (counters.blocks_erased.iter().sum(), counters.single_bit_erases);
        ensure(erases == counted, || format!("{erases:?} erases of blocks, {counted:?} counted"))
    }
}
