//! Log: units are appended to open rows, rows are programmed, and older versions become invalid.

use super::PageMapping;
use super::die::{Frontier, NO_FRONTIER, Stream};
use crate::flash::blocks::BlockState;
use crate::flash::ftl::Placed;
use crate::flash::mapping::NONE;
use crate::flash::operation::{Cause, NandKind, NandOp};

impl PageMapping {
    /// Chooses the die for the next row: the dies take turns, and dies that hold too much data are
    /// left out. At least one die holds no more than the mean.
    fn choose_die(&mut self) -> u32 {
        let dies = self.dies.len() as u32;
        let valid_max = self.valid_max.min(self.valid_units / u64::from(dies) + self.above_mean_max);
        loop {
            let die = self.next_die;
            self.next_die = if die + 1 == dies { 0 } else { die + 1 };
            if self.dies[die as usize].valid <= valid_max {
                return die;
            }
        }
    }

    /// Ensures that the open block of `stream` in `die` has a unit that can be written.
    fn ensure_block(&mut self, die: u32, stream: Stream, operations: &mut Vec<NandOp>) {
        if self.dies[die as usize].open[stream as usize].block != NONE {
            return;
        }
        // One free block is reserved for the collector.
        while self.free_blocks(die) < 2 {
            assert!(self.start_collection(die), "die {die} has no free block and nothing to reclaim");
            self.collect(die, u64::MAX, operations);
        }
        self.open_block(die, stream);
    }

    pub(super) fn open_block(&mut self, die: u32, stream: Stream) {
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
    pub(super) fn append(&mut self, stream: Stream, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        if self.open_die[stream as usize] == NONE {
            self.open_die[stream as usize] = self.choose_die();
        }
        let die = self.open_die[stream as usize];
        self.ensure_block(die, stream, operations);
        let Frontier { block, next, issued, .. } = self.dies[die as usize].open[stream as usize];
        let physical = block * self.units_per_block + next;
        let entry = self.mapping.entry(unit, &self.layout);
        let old = *entry;
        // The open row ends before `physical`; an older version in it is simply overwritten in
        // memory.
        if old != NONE && old < physical && physical - old <= next - issued {
            return Placed::Replaced;
        }
        *entry = physical;
        self.blocks.fill(block, next, unit, &self.layout);
        let state = &mut self.dies[die as usize];
        state.open[stream as usize].next = next + 1;
        state.valid += 1;
        self.valid_units += 1;
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
    pub(in crate::flash::ftl) fn append_table(&mut self, unit: u32, operations: &mut Vec<NandOp>) {
        let placed = self.append(Stream::Translation, unit, operations);
        self.counters.table_units += u64::from(placed == Placed::New);
    }

    /// Programs the units that wait in the open row of `stream`.
    pub(super) fn end_row(&mut self, stream: Stream, operations: &mut Vec<NandOp>) {
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

    /// Programs the pages of a frontier that are filled but not programmed, and closes its block at
    /// the end.
    pub(super) fn issue(&mut self, die: u32, stream: Stream, operations: &mut Vec<NandOp>) {
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

    pub(super) fn emit(
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
        self.valid_units -= 1;
    }

    pub(super) fn touch(&mut self, die: u32, block: u32) {
        if self.blocks.touch(block, &self.layout) {
            let (_, valid) = self.blocks.get(block, &self.layout);
            self.victims.closed(die, block, valid, false);
        }
    }

    /// Invalidates the `len` physical units from `physical` on, which lie in one die and are all
    /// valid.
    pub(super) fn invalidate_run(&mut self, mut physical: u32, len: u32) {
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
            self.valid_units -= u64::from(count);
            physical += count;
        }
    }
}
