//! Collection, which makes free blocks in a die: a block is emptied by copying its valid units, and
//! is then erased.
//!
//! While a die has fewer free blocks than `free_blocks`, each row that is written to it pays for a
//! part of a collection. The payment is just enough that the victim is erased when it has freed as
//! many units as were written during the collection. If there are enough free blocks, rows pay for
//! wear levelling instead: one unit is moved for each unit written.

use super::PageMapping;
use super::die::{Collection, Die, Frontier, Stream};
use crate::flash::mapping::NONE;
use crate::flash::operation::{Cause, NandKind, NandOp};

impl PageMapping {
    /// Starts a collection in `die` unless a block of it is being emptied. Returns true if a
    /// collection is under way now.
    pub(super) fn start_collection(&mut self, die: u32) -> bool {
        if self.dies[die as usize].collection.is_some() {
            return true;
        }
        let Some(victim) = self.victims.pick(die, &|block| self.blocks.is_untouched(block)) else { return false };
        self.empty(die, victim, Cause::Collection);
        true
    }

    /// Starts to empty the block of `die` that wear levelling selects. Returns true if wear
    /// levelling selects a block.
    fn start_levelling(&mut self, die: u32) -> bool {
        let Some(victim) = self.levelling.lagging(die) else { return false };
        self.touch(die, victim);
        let (_, valid) = self.blocks.get(victim, &self.layout);
        self.victims.taken(die, victim, valid);
        self.empty(die, victim, Cause::WearLevelling);
        true
    }

    fn empty(&mut self, die: u32, victim: u32, cause: Cause) {
        let (valid, erases) = self.blocks.start_collection(victim, &self.layout);
        self.levelling.reopened(die, victim, erases);
        let (owed, per) = match cause {
            Cause::WearLevelling => (1, 1),
            _ => (valid, self.units_per_block - valid),
        };
        self.dies[die as usize].collection = Some(Collection { victim, cause, next: 0, owed, per, credit: 0 });
    }

    /// Lets the collection of `die` copy its share for `written` units.
    pub(super) fn pay_for_collection(&mut self, die: u32, written: u32, operations: &mut Vec<NandOp>) {
        if self.dies[die as usize].collection.is_none() {
            let needed = self.has_fewer_free_blocks(die, self.options.free_blocks);
            if !(needed && self.start_collection(die) || self.start_levelling(die)) {
                return;
            }
        }
        let Some(collection) = &mut self.dies[die as usize].collection else { return };
        collection.credit += u64::from(written) * u64::from(collection.owed);
        let copies = collection.credit / u64::from(collection.per);
        collection.credit %= u64::from(collection.per);
        self.collect(die, copies, operations);
    }

    /// Returns true if `die` collects when the drive is idle: the die has fewer free blocks than an
    /// idle drive should have, or it has data in single-bit cells.
    pub(super) fn wants_idle_time_in(&self, die: u32) -> bool {
        let Die { open, slc_blocks, .. } = &self.dies[die as usize];
        let open = open[Stream::Host as usize];
        let open_slc = u32::from(open.block != NONE && open.end < self.units_per_block);
        *slc_blocks > open_slc || self.has_fewer_free_blocks(die, self.options.idle_free_blocks)
    }

    /// Empties a block of `die` if the die has a block to collect.
    pub(super) fn collect_when_idle(&mut self, die: u32, operations: &mut Vec<NandOp>) {
        if self.wants_idle_time_in(die) && self.start_collection(die) {
            self.collect(die, u64::MAX, operations);
        }
    }

    /// Copies up to `copies` units of the victim of `die`, and erases the victim once it is empty.
    pub(super) fn collect(&mut self, die: u32, copies: u64, operations: &mut Vec<NandOp>) {
        let Some(mut collection) = self.dies[die as usize].collection else { return };
        let victim = collection.victim;
        let stream = if collection.cause == Cause::WearLevelling { Stream::Leveller } else { Stream::Collector };
        let (mut left, mut last_sensed) = (copies, (NONE, NONE));
        let mut taken = std::mem::take(&mut self.taken);
        while self.blocks.next_valid(victim, collection.next, &self.layout).is_some() {
            if left == 0 {
                self.dies[die as usize].collection = Some(collection);
                self.taken = taken;
                return;
            }
            if self.dies[die as usize].open[stream as usize].block == NONE {
                self.open_block(die, stream);
            }
            let next = self.dies[die as usize].open[stream as usize].next;
            let room = self.units_per_row - next % self.units_per_row;
            taken.clear();
            self.blocks.take_valid(victim, collection.next, left.min(room.into()) as u32, &self.layout, &mut taken);
            left -= taken.len() as u64;
            collection.next = taken.last().map_or(collection.next, |(offset, _)| offset + 1);
            self.append_moved((die, stream), &taken, &mut last_sensed, operations);
        }
        self.taken = taken;
        self.append_reads(die, operations);
        self.erase(die, victim, collection.cause, operations);
    }

    /// Erases the victim of `die`, which is empty.
    fn erase(&mut self, die: u32, victim: u32, cause: Cause, operations: &mut Vec<NandOp>) {
        let (erases, slc) = self.blocks.erase(victim, &self.layout);
        let state = &mut self.dies[die as usize];
        state.collection = None;
        state.slc_blocks -= u32::from(slc);
        self.counters.single_bit_erases += u64::from(slc) * u64::from(self.geometry.planes_per_die);
        let used_up = self.options.cycles.is_some_and(|cycles| erases >= cycles);
        self.worn_out |= used_up && state.retired >= self.retired_max;
        // Without another free block the collector could not continue: the block is then used once
        // more.
        if used_up && !self.worn_out && self.free_blocks(die) > 0 {
            self.dies[die as usize].retired += 1;
            self.blocks.retire(victim, &self.layout);
        } else {
            self.levelling.erased(die, victim, erases);
        }
        debug_assert_eq!(self.valid_in_blocks(die), self.dies[die as usize].valid, "valid units of die {die}");
        self.emit(NandKind::Erase, cause, die, victim, (1, self.geometry.planes_per_die, 0), operations);
    }

    /// Appends units taken out of a victim to the open row of `stream`, which has room for these
    /// units. A row, or a page, is sensed once for all consecutive units of the row or page.
    fn append_moved(
        &mut self,
        (die, stream): (u32, Stream),
        taken: &[(u32, u32)],
        (last_row, last_page): &mut (u32, u32),
        operations: &mut Vec<NandOp>,
    ) {
        let Frontier { block, next, .. } = self.dies[die as usize].open[stream as usize];
        self.blocks.fill_moved(block, next, taken, &self.layout);
        let first = block * self.units_per_block + next;
        for (physical, &(_, unit)) in (first..).zip(taken) {
            *self.mapping.entry(unit, &self.layout) = physical;
        }
        if let Some(moved) = &mut self.moved {
            moved.extend(taken.iter().map(|&(_, unit)| unit));
        }
        self.counters.moved_units += taken.len() as u64;
        let state = &mut self.dies[die as usize];
        for &(offset, _) in taken {
            let (row, page) = (offset / self.units_per_row, offset / self.units_per_page);
            state.sensed.0 += u32::from(row != *last_row);
            state.sensed.1 += u32::from(page != *last_page);
            (*last_row, *last_page) = (row, page);
        }
        state.sensed.2 += taken.len() as u32;
        let next = next + taken.len() as u32;
        state.open[stream as usize].next = next;
        if next.is_multiple_of(self.units_per_row) {
            self.append_reads(die, operations);
            self.issue(die, stream, operations);
        }
    }

    /// Appends the operations that read the units of a collection so far.
    fn append_reads(&mut self, die: u32, operations: &mut Vec<NandOp>) {
        let state = &mut self.dies[die as usize];
        let sensed = std::mem::take(&mut state.sensed);
        let cause = state.collection.map_or(Cause::Collection, |collection| collection.cause);
        if sensed.0 > 0 {
            self.emit(NandKind::Read, cause, die, NONE, sensed, operations);
        }
    }
}
