//! Checks of the page-mapped layer: every table against every other.

use super::PageMapping;
use crate::flash::blocks::BlockState;
use crate::flash::mapping::NONE;

impl PageMapping {
    /// Valid units of a die, summed over its blocks.
    pub(super) fn valid_in_blocks(&self, die: u32) -> u64 {
        let first = die * self.blocks_per_die;
        (first..first + self.blocks_per_die).map(|block| u64::from(self.blocks.get(block, &self.layout).1)).sum()
    }

    /// Every unit is where the map says, every die and block holds what it counts.
    pub(super) fn check_tables(&self) {
        let mut valid_of_die = vec![0; self.dies.len()];
        let mut mapped = 0;
        for unit in 0..self.geometry.logical_units {
            let physical = self.mapping.get(unit, &self.layout);
            if physical != NONE {
                let (block, offset) = (physical / self.units_per_block, physical % self.units_per_block);
                let holder = self.blocks.holder(block, offset, &self.layout);
                assert_eq!(holder, unit, "unit {unit} is not where the map says");
                valid_of_die[(block / self.blocks_per_die) as usize] += 1;
                mapped += 1;
            }
        }
        let held: u64 = (0..self.geometry.dies()).map(|die| self.check_die(die, valid_of_die[die as usize])).sum();
        assert_eq!(held, mapped, "valid units in all blocks against mapped units");
    }

    /// Checks the blocks of a die that should hold `valid_units`; gives what they hold.
    fn check_die(&self, number: u32, valid_units: u64) -> u64 {
        let die = &self.dies[number as usize];
        assert_eq!(die.valid, valid_units, "valid units of die {number}");
        let first = number * self.blocks_per_die;
        let (mut held, mut free, mut retired, mut slc) = (0, 0, 0, 0);
        for block in first..first + self.blocks_per_die {
            let (state, valid) = self.blocks.get(block, &self.layout);
            let units = (0..self.units_per_block).filter(|o| self.blocks.holder(block, *o, &self.layout) != NONE);
            assert_eq!(units.count() as u32, valid, "valid units of block {block}");
            assert!(!matches!(state, BlockState::Free | BlockState::Retired) || valid == 0);
            free += u32::from(state == BlockState::Free);
            retired += u32::from(state == BlockState::Retired);
            slc += u32::from(self.blocks.is_slc(block));
            held += u64::from(valid);
        }
        assert_eq!(free, self.free_blocks(number), "free blocks of die {number}");
        assert_eq!((retired, slc), (die.retired, die.slc_blocks), "retired and single-bit blocks of die {number}");
        held
    }

    /// Every unit of a programmed page was written, moved, or padding.
    pub(super) fn check_counters(&self) {
        let waiting = self.dies.iter().flat_map(|die| die.open).map(|open| u64::from(open.next - open.issued));
        let counters = &self.counters;
        let written = counters.host_units + counters.moved_units + counters.table_units + counters.padding_units;
        let pages: u64 = counters.pages_programmed.iter().sum();
        let programmed = pages * u64::from(self.units_per_page);
        assert_eq!(written, programmed + waiting.sum::<u64>(), "units written against pages programmed");
        let erases = self.blocks.erases(self.geometry.planes_per_die);
        let erases: u64 = erases.iter().map(|(erases, blocks)| u64::from(*erases) * blocks).sum();
        assert_eq!(erases, counters.blocks_erased.iter().sum::<u64>(), "erases of blocks against their count");
    }
}
