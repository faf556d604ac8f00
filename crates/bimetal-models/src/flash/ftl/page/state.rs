//! State of the page-mapped layer between two runs.
//!
//! Only state that cannot be computed is saved: the use and the erases of each block, the mapping
//! table, the blocks being written and collected, and the order in which policies hold their
//! blocks. The content of a block follows from the mapping table; untouched content follows from
//! the layout.

use super::PageMapping;
use super::die::{Collection, Die, Frontier, NO_FRONTIER, Stream};
use crate::flash::blocks::{BlockState, Blocks};
use crate::flash::ftl::Counters;
use crate::flash::mapping::NONE;
use crate::flash::operation::Cause;
use crate::flash::precondition::Layout;
use crate::flash::state::archive::{Archive, Checked, ensure};

/// View of the blocks for policies while they are restored.
pub(crate) struct Known<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) layout: &'a Layout,
    pub(crate) blocks_per_die: u32,
    pub(crate) dies: u32,
    pub(crate) units_per_block: u32,
}

impl Known<'_> {
    /// Returns the blocks of a die.
    pub(crate) fn blocks_of(&self, die: u32) -> std::ops::Range<u32> {
        die * self.blocks_per_die..(die + 1) * self.blocks_per_die
    }

    /// Returns the closed blocks of a die, each with its valid units and its erases.
    pub(crate) fn closed(&self, die: u32) -> impl Iterator<Item = (u32, u32, u32)> {
        self.blocks_of(die).filter_map(|block| {
            let (state, valid, erases) = self.blocks.describe(block, self.layout);
            (state == BlockState::Closed).then_some((block, valid, erases))
        })
    }

    /// Returns the closed blocks of a die with an invalid unit, each with its valid units.
    pub(crate) fn candidates(&self, die: u32) -> impl Iterator<Item = (u32, u32)> {
        self.closed(die).filter(|(_, valid, _)| *valid < self.units_per_block).map(|(block, valid, _)| (block, valid))
    }

    /// Returns the blocks of a die that were erased and can be written, each with its erases.
    pub(crate) fn erased(&self, die: u32) -> impl Iterator<Item = (u32, u32)> {
        self.blocks_of(die).filter_map(|block| {
            let (state, _, erases) = self.blocks.describe(block, self.layout);
            (state == BlockState::Free && erases > 0).then_some((block, erases))
        })
    }

    /// Checks that `listed` has the same elements as `all`, in any order.
    pub(crate) fn check_order(listed: &[u32], all: impl Iterator<Item = u32>, what: &str) -> Checked {
        let (mut listed, all): (Vec<u32>, Vec<u32>) = (listed.to_vec(), all.collect());
        listed.sort_unstable();
        ensure(listed == all, || format!("the order of {what} blocks names other blocks"))
    }
}

impl PageMapping {
    /// Saves the layer, or restores it into a layer in the state of its layout.
    pub(super) fn transfer_tables(&mut self, archive: &mut Archive) -> Checked {
        self.blocks.transfer(archive, &self.layout)?;
        match archive {
            Archive::Writing(bytes) => self.mapping.save(bytes, &self.layout),
            Archive::Reading(_) => self.restore_map(archive)?,
        }
        for die in 0..self.geometry.dies() {
            self.transfer_die(die, archive)?;
        }
        for open in &mut self.open_die {
            archive.place(open, self.geometry.dies())?;
        }
        archive.number(&mut self.next_die, u64::from(self.geometry.dies()) - 1)?;
        archive.flag(&mut self.worn_out)?;
        if let Some(moved) = &mut self.moved {
            archive.list(moved, self.geometry.physical_units().into(), self.geometry.logical_units)?;
        }
        let known = Known {
            blocks: &self.blocks,
            layout: &self.layout,
            blocks_per_die: self.blocks_per_die,
            dies: self.geometry.dies(),
            units_per_block: self.units_per_block,
        };
        self.victims.transfer(archive, &known)?;
        self.levelling.transfer(archive, &known)?;
        if archive.is_reading() {
            self.count_what_waits();
            (0..self.geometry.dies()).try_for_each(|die| self.check_restored(die))?;
        }
        Ok(())
    }

    /// Reads the mapping table and puts every unit into its block.
    fn restore_map(&mut self, archive: &mut Archive) -> Checked {
        let (units, blocks_per_die) = (self.units_per_block, self.blocks_per_die);
        let (layout, blocks, dies) = (&self.layout, &mut self.blocks, &mut self.dies);
        let physical_units = self.geometry.physical_units();
        let mut valid: Vec<u64> = (0..self.geometry.dies()).map(|die| layout.units_of_die(die)).collect();
        self.mapping.restore(archive, layout, |start, end, physical| {
            let mut left = Ok(());
            layout.for_each_run(start, end, |first, len| {
                let touched = (first / units..=(first + len - 1) / units).all(|block| !blocks.is_untouched(block));
                if !touched && left.is_ok() {
                    left =
                        ensure(false, || format!("units {start} to {end} have left blocks that nothing has touched"));
                }
                valid[(first / units / blocks_per_die) as usize] -= u64::from(len);
            });
            left?;
            if physical == NONE {
                return Ok(());
            }
            ensure(physical + (end - start) <= physical_units, || format!("unit {start} lies behind the flash"))?;
            (start..end).zip(physical..).try_for_each(|(unit, physical)| {
                valid[(physical / units / blocks_per_die) as usize] += 1;
                blocks.put(physical / units, physical % units, unit, layout)
            })
        })?;
        for block in 0..self.geometry.blocks() {
            if !blocks.is_untouched(block) {
                let mapping = &self.mapping;
                blocks.put_untouched(block, layout, |unit, physical| mapping.get(unit, layout) == physical)?;
            }
        }
        for (die, valid) in dies.iter_mut().zip(valid) {
            die.valid = valid;
        }
        self.valid_units = self.dies.iter().map(|die| die.valid).sum();
        Ok(())
    }

    /// Saves or restores the blocks that a die writes and collects. The free, retired and
    /// single-bit blocks of the die follow from the states of all blocks.
    fn transfer_die(&mut self, number: u32, archive: &mut Archive) -> Checked {
        let first = number * self.blocks_per_die;
        let (units, last) = (self.units_per_block, first + self.blocks_per_die - 1);
        let die = &mut self.dies[number as usize];
        for open in &mut die.open {
            transfer_frontier(open, (last, units), archive)?;
            if archive.is_reading() && open.block != NONE {
                let age = self.blocks.age(open.block);
                self.blocks.set_programmed(open.block, open.issued, age, &self.layout);
            }
        }
        let nothing = || Collection { victim: 0, cause: Cause::Collection, next: 0, owed: 0, per: 1, credit: 0 };
        archive.option(&mut die.collection, nothing)?;
        if let Some(collection) = &mut die.collection {
            let mut levels = collection.cause == Cause::WearLevelling;
            archive.flag(&mut levels)?;
            collection.cause = if levels { Cause::WearLevelling } else { Cause::Collection };
            archive.number(&mut collection.victim, last.into())?;
            for value in [&mut collection.next, &mut collection.owed, &mut collection.per] {
                archive.number(value, units.into())?;
            }
            archive.number(&mut collection.credit, collection.per.saturating_sub(1).into())?;
        }
        for value in [&mut die.sensed.0, &mut die.sensed.1, &mut die.sensed.2] {
            archive.number(value, units.into())?;
        }
        if archive.is_reading() {
            self.count_blocks(number);
        }
        Ok(())
    }

    fn count_blocks(&mut self, number: u32) {
        let blocks = number * self.blocks_per_die..(number + 1) * self.blocks_per_die;
        let is_fresh = |block: &u32| matches!(self.blocks.describe(*block, &self.layout), (BlockState::Free, _, 0));
        let fresh = blocks.clone().rev().take_while(is_fresh).count() as u32;
        let retired = blocks.clone().filter(|block| self.blocks.get(*block, &self.layout).0 == BlockState::Retired);
        let (retired, slc) = (retired.count(), blocks.clone().filter(|block| self.blocks.is_slc(*block)).count());
        let die = &mut self.dies[number as usize];
        (die.fresh, die.retired, die.slc_blocks) = (blocks.end - fresh..blocks.end, retired as u32, slc as u32);
    }

    /// Counts the units that wait to be programmed, so that the next run counts them when it
    /// programs them.
    fn count_what_waits(&mut self) {
        let waiting = |stream: Stream| -> u64 {
            let open = self.dies.iter().map(|die| die.open[stream as usize]);
            open.map(|open| u64::from(open.next - open.issued)).sum()
        };
        self.counters = Counters {
            host_units: waiting(Stream::Host),
            moved_units: waiting(Stream::Collector) + waiting(Stream::Leveller),
            table_units: waiting(Stream::Translation),
            ..Counters::default()
        };
    }

    /// Checks that a restored die is in a state from which the layer can continue.
    fn check_restored(&self, number: u32) -> Checked {
        let die = &self.dies[number as usize];
        let blocks = number * self.blocks_per_die..(number + 1) * self.blocks_per_die;
        let count = |wanted| blocks.clone().filter(|block| self.blocks.get(*block, &self.layout).0 == wanted).count();
        let open: Vec<&Frontier> = die.open.iter().filter(|open| open.block != NONE).collect();
        let mut names: Vec<u32> = open.iter().map(|open| open.block).collect();
        names.sort_unstable();
        names.dedup();
        let is = |block: u32, wanted| blocks.contains(&block) && self.blocks.get(block, &self.layout).0 == wanted;
        let all_open = names.len() == open.len() && names.iter().all(|block| is(*block, BlockState::Open));
        ensure(all_open && names.len() == count(BlockState::Open), || format!("open blocks of die {number}"))?;
        for Frontier { block, next, issued, end } in open {
            let before = self.blocks.is_valid_only_before(*block, *next, &self.layout);
            let slc = self.blocks.is_slc(*block) && *end == self.options.slc_units;
            let paged = issued.is_multiple_of(self.units_per_page) && (slc || *end == self.units_per_block);
            ensure(before && paged, || format!("open block {block} of die {number}"))?;
        }
        let victims = match die.collection {
            Some(Collection { victim, next, per, .. }) => {
                let first = self.blocks.next_valid(victim, 0, &self.layout);
                let emptied = first.is_none_or(|(offset, _)| offset >= next);
                ensure(is(victim, BlockState::Victim) && per > 0 && emptied, || format!("the victim of die {number}"))?;
                1
            }
            None => 0,
        };
        ensure(victims == count(BlockState::Victim), || format!("victims of die {number}"))?;
        let free = self.free_blocks(number);
        ensure(free as usize == count(BlockState::Free), || format!("free blocks of die {number}"))?;
        ensure(free > 0 || victims > 0, || format!("die {number} has no free block"))?;
        let room = u64::from(self.blocks_per_die - die.retired - 1) * u64::from(self.units_per_block);
        ensure(die.valid < room && die.retired <= self.retired_max, || format!("die {number} is too full"))
    }
}

fn transfer_frontier(open: &mut Frontier, (last, units): (u32, u32), archive: &mut Archive) -> Checked {
    let mut is_open = open.block != NONE;
    archive.flag(&mut is_open)?;
    if !is_open {
        *open = NO_FRONTIER;
        return Ok(());
    }
    archive.number(&mut open.block, last.into())?;
    archive.number(&mut open.end, units.into())?;
    archive.number(&mut open.next, open.end.saturating_sub(1).into())?;
    archive.number(&mut open.issued, open.next.into())
}

impl Die {
    /// Returns the number of units of the host that wait for their page to fill up.
    pub(super) fn waiting(&self) -> u32 {
        let open = self.open[Stream::Host as usize];
        open.next - open.issued
    }
}
