//! Blocks of a drive: content and erases of each block. Only touched blocks are resident.

use std::collections::BTreeMap;

use super::geometry::Geometry;
use super::mapping::NONE;
use super::precondition::Layout;
use super::sparse::SparseArray;
use super::state::archive::{Archive, Checked, ERASES_MAX, ensure};
use crate::endurance::cycles_of;

/// Use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BlockState {
    /// The block is erased.
    Free,
    /// The block is being written.
    Open,
    /// The block is written to its end, and may be collected.
    Closed,
    /// The collector is copying the valid units of the block.
    Victim,
    /// The block is worn out and not used again.
    Retired,
}

impl BlockState {
    /// States in the order of their numbers.
    const ALL: [Self; 5] = [Self::Free, Self::Open, Self::Closed, Self::Victim, Self::Retired];
}

/// State of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    state: BlockState,
    /// Set while nothing has changed in the block since preconditioning. Such a block has no slot,
    /// and its content follows from the layout of preconditioning.
    untouched: bool,
    /// Set if the block's cells hold one bit each.
    slc: bool,
    valid: u32,
    erases: u32,
    /// Erases before time zero, which `erases` includes.
    erases_before: u32,
    /// Erases since time zero that ended a use with one bit in each cell.
    single_bit_erases: u32,
    /// Number of units, from the block's start on, that are programmed into the cells. The other
    /// units are still in the controller's memory.
    programmed: u32,
    /// Slot with the marks of the valid units; [`NONE`] while the block has no valid units or is
    /// untouched.
    slot: u32,
    /// Index of the holders of the units; [`NONE`] while the block has no valid units, or has the
    /// content that preconditioning gave it.
    holders: u32,
}

/// Blocks of a drive, numbered die by die.
pub(crate) struct Blocks {
    blocks: SparseArray<Block>,
    count: u32,
    per_die: u32,
    units: u32,
    /// Valid units by slot, a bit for each unit.
    valid: Vec<u64>,
    words: usize,
    free_slots: Vec<u32>,
    /// Logical units for which the physical units of a block were written.
    holders: Vec<Box<[u32]>>,
    free_holders: Vec<u32>,
}

impl Blocks {
    /// Creates the blocks of `geometry`, none of them resident.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self {
            blocks: SparseArray::new(geometry.blocks()),
            count: geometry.blocks(),
            per_die: geometry.blocks_per_plane,
            units: geometry.units_per_block(),
            valid: Vec::new(),
            words: geometry.units_per_block().div_ceil(64) as usize,
            free_slots: Vec::new(),
            holders: Vec::new(),
            free_holders: Vec::new(),
        }
    }

    fn initial(block: u32, per_die: u32, units: u32, layout: &Layout) -> Block {
        let programmed = block % per_die < layout.programmed_blocks(block / per_die);
        Block {
            state: if programmed { BlockState::Closed } else { BlockState::Free },
            untouched: programmed,
            slc: false,
            valid: layout.valid(block),
            erases: 0,
            erases_before: 0,
            single_bit_erases: 0,
            programmed: if programmed { units } else { 0 },
            slot: NONE,
            holders: NONE,
        }
    }

    #[inline]
    fn block(&mut self, block: u32, layout: &Layout) -> &mut Block {
        let (per_die, units) = (self.per_die, self.units);
        self.blocks.get_mut(block, |index| Self::initial(index, per_die, units, layout))
    }

    /// Returns true if nothing has changed in `block` since preconditioning.
    pub(crate) fn is_untouched(&self, block: u32) -> bool {
        self.blocks.get(block).is_none_or(|block| block.untouched)
    }

    /// Returns true if physical unit `offset` of `block` is programmed into the cells.
    #[inline]
    pub(crate) fn is_programmed(&self, block: u32, offset: u32) -> bool {
        self.blocks.get(block).is_none_or(|block| offset < block.programmed)
    }

    /// Records that the first `units` units of `block` are programmed into the cells, unless the
    /// block was erased since it had this `age`.
    #[inline]
    pub(crate) fn set_programmed(&mut self, block: u32, units: u32, age: u8, layout: &Layout) {
        let programmed = self.block(block, layout);
        if programmed.erases as u8 == age {
            programmed.programmed = units;
        }
    }

    /// Returns the erases of `block`, modulo 256.
    pub(crate) fn age(&self, block: u32) -> u8 {
        self.blocks.get(block).map_or(0, |block| block.erases as u8)
    }

    /// Marks each valid unit of an untouched block. Returns true if the block was untouched.
    #[inline]
    pub(crate) fn touch(&mut self, block: u32, layout: &Layout) -> bool {
        let untouched = self.block(block, layout).untouched;
        if untouched {
            self.mark_units(block, layout);
        }
        untouched
    }

    #[cold]
    fn mark_units(&mut self, block: u32, layout: &Layout) {
        let slot = self.new_slot();
        for nth in 0..layout.valid(block) {
            let offset = layout.offset_of(block, nth);
            self.valid[slot as usize * self.words + offset as usize / 64] |= 1 << (offset % 64);
        }
        let touched = self.block(block, layout);
        (touched.untouched, touched.slot) = (false, slot);
    }

    /// Returns a free slot, in which all units are marked as invalid.
    fn new_slot(&mut self) -> u32 {
        if let Some(slot) = self.free_slots.pop() {
            let words = slot as usize * self.words;
            self.valid[words..words + self.words].fill(0);
            return slot;
        }
        let slot = self.valid.len() / self.words;
        self.valid.resize(self.valid.len() + self.words, 0);
        slot as u32
    }

    fn new_holders(&mut self) -> u32 {
        self.free_holders.pop().unwrap_or_else(|| {
            self.holders.push(vec![NONE; self.units as usize].into_boxed_slice());
            self.holders.len() as u32 - 1
        })
    }

    /// Releases slot and holders of an empty block.
    fn release(&mut self, block: u32, layout: &Layout) {
        let released = self.block(block, layout);
        let (slot, holders) = (released.slot, released.holders);
        (released.slot, released.holders) = (NONE, NONE);
        self.free_slots.extend(Some(slot).filter(|slot| *slot != NONE));
        self.free_holders.extend(Some(holders).filter(|holders| *holders != NONE));
    }

    /// Opens a free block for writing, with one bit in each cell if `slc`.
    pub(crate) fn open(&mut self, block: u32, slc: bool, layout: &Layout) {
        let (slot, holders) = (self.new_slot(), self.new_holders());
        let opened = self.block(block, layout);
        assert_eq!(opened.state, BlockState::Free, "block {block} is opened but not free");
        (opened.state, opened.slc, opened.valid, opened.programmed) = (BlockState::Open, slc, 0, 0);
        (opened.slot, opened.holders) = (slot, holders);
    }

    /// Stores logical unit `unit` in unit `offset` of the open block `block`.
    #[inline]
    pub(crate) fn fill(&mut self, block: u32, offset: u32, unit: u32, layout: &Layout) {
        let filled = self.block(block, layout);
        debug_assert_eq!(filled.state, BlockState::Open);
        filled.valid += 1;
        let (slot, holders) = (filled.slot as usize, filled.holders as usize);
        self.holders[holders][offset as usize] = unit;
        self.valid[slot * self.words + offset as usize / 64] |= 1 << (offset % 64);
    }

    /// Stores units that were moved, as returned by [`take_valid`](Self::take_valid), from unit
    /// `offset` of the open block on.
    pub(crate) fn fill_moved(&mut self, block: u32, offset: u32, moved: &[(u32, u32)], layout: &Layout) {
        let filled = self.block(block, layout);
        debug_assert_eq!(filled.state, BlockState::Open);
        filled.valid += moved.len() as u32;
        let (slot, holders) = (filled.slot as usize, filled.holders as usize);
        let holders = &mut self.holders[holders][offset as usize..];
        let words = &mut self.valid[slot * self.words..];
        for (nth, (&(_, unit), holder)) in moved.iter().zip(holders).enumerate() {
            *holder = unit;
            let offset = offset as usize + nth;
            words[offset / 64] |= 1 << (offset % 64);
        }
    }

    /// Invalidates one unit of a block. Returns the state of the block and its remaining valid
    /// units; `None` if the block is untouched; it then stays untouched.
    #[inline]
    pub(crate) fn invalidate(&mut self, block: u32, offset: u32, layout: &Layout) -> Option<(BlockState, u32)> {
        let invalidated = self.blocks.get_resident_mut(block).filter(|block| !block.untouched)?;
        debug_assert!(invalidated.valid > 0);
        invalidated.valid -= 1;
        let (state, left, slot) = (invalidated.state, invalidated.valid, invalidated.slot);
        let word = &mut self.valid[slot as usize * self.words + offset as usize / 64];
        debug_assert!(*word >> (offset % 64) & 1 == 1, "unit {offset} of block {block} is invalidated twice");
        *word &= !(1 << (offset % 64));
        if left == 0 && state == BlockState::Closed {
            self.release(block, layout);
        }
        Some((state, left))
    }

    /// Invalidates all units of a block that is untouched and has `count` valid units. Returns true
    /// if `block` was untouched and had `count` valid units.
    pub(crate) fn clear_untouched(&mut self, block: u32, count: u32, layout: &Layout) -> bool {
        let cleared = self.block(block, layout);
        let all = cleared.untouched && cleared.valid == count;
        if all {
            (cleared.untouched, cleared.valid) = (false, 0);
        }
        all
    }

    /// Invalidates `count` units of a touched block, all valid. Returns the state of the block and
    /// its remaining valid units.
    pub(crate) fn invalidate_run(&mut self, block: u32, offset: u32, count: u32, layout: &Layout) -> (BlockState, u32) {
        let invalidated = self.block(block, layout);
        debug_assert!(!invalidated.untouched && invalidated.valid >= count);
        invalidated.valid -= count;
        let (state, left, slot) = (invalidated.state, invalidated.valid, invalidated.slot);
        let words = &mut self.valid[slot as usize * self.words..];
        let mut unit = offset;
        while unit < offset + count {
            let stop = (offset + count).min((unit / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (stop - unit))) << (unit % 64);
            debug_assert_eq!(words[unit as usize / 64] & mask, mask, "units of block {block} are invalidated twice");
            words[unit as usize / 64] &= !mask;
            unit = stop;
        }
        if left == 0 && state == BlockState::Closed {
            self.release(block, layout);
        }
        (state, left)
    }

    /// Ends the writing of an open block. Returns the block's valid units and its erases.
    pub(crate) fn close(&mut self, block: u32, layout: &Layout) -> (u32, u32) {
        let closed = self.block(block, layout);
        closed.state = BlockState::Closed;
        let (valid, erases) = (closed.valid, closed.erases);
        if valid == 0 {
            self.release(block, layout);
        }
        (valid, erases)
    }

    /// Makes a closed block the victim of a collection. Returns the block's valid units and its
    /// erases.
    pub(crate) fn start_collection(&mut self, block: u32, layout: &Layout) -> (u32, u32) {
        self.touch(block, layout);
        let victim = self.block(block, layout);
        assert_eq!(victim.state, BlockState::Closed, "victim {block} is not closed");
        victim.state = BlockState::Victim;
        (victim.valid, victim.erases)
    }

    /// Returns the first valid unit of a victim from `offset` on: its offset, and the logical unit
    /// that it holds.
    #[inline]
    pub(crate) fn next_valid(&self, block: u32, offset: u32, layout: &Layout) -> Option<(u32, u32)> {
        let &Block { slot, holders, .. } = self.blocks.get(block)?;
        if slot == NONE || offset >= self.units {
            return None;
        }
        let words = &self.valid[slot as usize * self.words..(slot as usize + 1) * self.words];
        let mut number = offset as usize / 64;
        let mut word = words[number] & (u64::MAX << (offset % 64));
        while word == 0 {
            number += 1;
            word = *words.get(number)?;
        }
        let found = number as u32 * 64 + word.trailing_zeros();
        let unit = match holders {
            NONE => layout.holder(block * self.units + found),
            holders => self.holders[holders as usize][found as usize],
        };
        Some((found, unit))
    }

    /// Takes up to `count` valid units out of a victim, from unit `offset` on. Appends the offset
    /// of each unit, and the logical unit that it holds.
    pub(crate) fn take_valid(
        &mut self,
        victim: u32,
        mut offset: u32,
        count: u32,
        layout: &Layout,
        taken: &mut Vec<(u32, u32)>,
    ) {
        for _ in 0..count {
            let Some(found) = self.next_valid(victim, offset, layout) else { break };
            offset = found.0 + 1;
            taken.push(found);
        }
        let block = self.block(victim, layout);
        block.valid -= taken.len() as u32;
        let words = block.slot as usize * self.words;
        for (offset, _) in taken {
            self.valid[words + *offset as usize / 64] &= !(1 << (*offset % 64));
        }
    }

    /// Erases a victim, which must have no valid units. Returns the block's erases so far, and true
    /// if its cells held one bit each.
    pub(crate) fn erase(&mut self, block: u32, layout: &Layout) -> (u32, bool) {
        let erased = self.block(block, layout);
        assert!(erased.state == BlockState::Victim && erased.valid == 0, "block {block} is erased with valid units");
        (erased.state, erased.programmed) = (BlockState::Free, 0);
        erased.erases += 1;
        erased.single_bit_erases += u32::from(erased.slc);
        let what = (erased.erases, std::mem::replace(&mut erased.slc, false));
        self.release(block, layout);
        what
    }

    /// Retires an erased block, which is not used again.
    pub(crate) fn retire(&mut self, block: u32, layout: &Layout) {
        let retired = self.block(block, layout);
        assert_eq!(retired.state, BlockState::Free, "block {block} is retired with data");
        retired.state = BlockState::Retired;
    }

    /// Returns true if the cells of a block hold one bit each.
    pub(crate) fn is_slc(&self, block: u32) -> bool {
        self.blocks.get(block).is_some_and(|block| block.slc)
    }

    /// Returns the state of a block and its valid units.
    pub(crate) fn get(&self, block: u32, layout: &Layout) -> (BlockState, u32) {
        let known = self.blocks.get(block).copied();
        let known = known.unwrap_or_else(|| Self::initial(block, self.per_die, self.units, layout));
        (known.state, known.valid)
    }

    /// Returns the logical unit that physical unit `offset` of `block` holds, or [`NONE`] if it is
    /// not valid.
    pub(crate) fn holder(&self, block: u32, offset: u32, layout: &Layout) -> u32 {
        if self.is_untouched(block) {
            return layout.holder(block * self.units + offset);
        }
        match self.next_valid(block, offset, layout) {
            Some((found, unit)) if found == offset => unit,
            _ => NONE,
        }
    }

    /// Returns the state of a block, its valid units and its erases.
    pub(crate) fn describe(&self, block: u32, layout: &Layout) -> (BlockState, u32, u32) {
        let (state, valid) = self.get(block, layout);
        (state, valid, self.blocks.get(block).map_or(0, |block| block.erases))
    }

    /// Returns the erases of all blocks since time zero, and the number of these erases that ended
    /// a use with one bit in each cell. Each block counts once for each of `planes` planes.
    pub(crate) fn erases_of_run(&self, planes: u32) -> (u64, u64) {
        let of_run = self.blocks.resident().map(|block| (block.erases - block.erases_before, block.single_bit_erases));
        let (all, single_bit) =
            of_run.fold((0, 0), |sum, (all, single_bit)| (sum.0 + u64::from(all), sum.1 + u64::from(single_bit)));
        (all * u64::from(planes), single_bit * u64::from(planes))
    }

    /// Returns the rated cycles that the most worn block has used up since time zero.
    pub(crate) fn most_cycles(&self) -> f64 {
        let cycles =
            |block: &Block| cycles_of((block.erases - block.erases_before).into(), block.single_bit_erases.into());
        self.blocks.resident().map(cycles).fold(0.0, f64::max)
    }

    /// Saves or restores state and erases of every block that was touched. The content of a
    /// restored block is [`put`](Self::put) into it after the restoration.
    pub(crate) fn transfer(&mut self, archive: &mut Archive, layout: &Layout) -> Checked {
        let touched = self.blocks.numbered().filter(|(number, block)| {
            let initial = Self::initial(*number, self.per_die, self.units, layout);
            let now = (block.state, block.untouched, block.slc, block.erases);
            now != (initial.state, initial.untouched, initial.slc, initial.erases)
        });
        let (mut numbers, blocks): (Vec<u32>, Vec<Block>) = touched.unzip();
        let (mut states, mut slc, mut erases): (Vec<u32>, Vec<u32>, Vec<u32>) = (
            blocks.iter().map(|block| block.state as u32).collect(),
            blocks.iter().map(|block| u32::from(block.slc)).collect(),
            blocks.iter().map(|block| block.erases).collect(),
        );
        archive.list(&mut numbers, self.count.into(), self.count)?;
        if archive.is_reading() {
            [&mut states, &mut slc, &mut erases].into_iter().for_each(|values| values.resize(numbers.len(), 0));
        }
        archive.table(&mut states, BlockState::ALL.len() as u64 - 1)?;
        archive.table(&mut slc, 1)?;
        archive.table(&mut erases, ERASES_MAX)?;
        if !archive.is_reading() {
            return Ok(());
        }
        ensure(numbers.is_sorted_by(|a, b| a < b), || "blocks out of order".to_owned())?;
        for (at, number) in numbers.into_iter().enumerate() {
            let state = BlockState::ALL[states[at] as usize];
            let (slot, holders) = match state {
                BlockState::Open => (self.new_slot(), self.new_holders()),
                _ => (NONE, NONE),
            };
            let programmed = if state == BlockState::Free { 0 } else { self.units };
            let (slc, erases) = (slc[at] == 1, erases[at]);
            *self.block(number, layout) = Block {
                state,
                untouched: false,
                slc,
                valid: 0,
                erases,
                erases_before: erases,
                single_bit_erases: 0,
                programmed,
                slot,
                holders,
            };
        }
        Ok(())
    }

    /// Puts `unit` into unit `offset` of `block`, while a state is restored.
    pub(crate) fn put(&mut self, block: u32, offset: u32, unit: u32, layout: &Layout) -> Checked {
        let holding =
            |block: &Block| !matches!(block.state, BlockState::Free | BlockState::Retired) && !block.untouched;
        let known = self.blocks.get(block).copied().filter(holding);
        ensure(known.is_some(), || format!("unit {unit} is in block {block}, which cannot hold it"))?;
        let Some(Block { mut slot, mut holders, .. }) = known else { return Ok(()) };
        if slot == NONE {
            slot = self.new_slot();
        }
        if holders == NONE && layout.holder(block * self.units + offset) != unit {
            holders = self.new_holders();
            for offset in 0..self.units {
                self.holders[holders as usize][offset as usize] = layout.holder(block * self.units + offset);
            }
        }
        if holders != NONE {
            self.holders[holders as usize][offset as usize] = unit;
        }
        let word = &mut self.valid[slot as usize * self.words + offset as usize / 64];
        let twice = std::mem::replace(word, *word | 1 << (offset % 64)) >> (offset % 64) & 1 == 1;
        let changed = self.block(block, layout);
        (changed.slot, changed.holders, changed.valid) = (slot, holders, changed.valid + 1);
        ensure(!twice, || format!("unit {offset} of block {block} holds two"))
    }

    /// Puts the units that a touched block still holds from the layout into their places, while a
    /// state is restored. `is_there` returns true if a unit is still in its place.
    pub(crate) fn put_untouched(
        &mut self,
        block: u32,
        layout: &Layout,
        is_there: impl Fn(u32, u32) -> bool,
    ) -> Checked {
        for nth in 0..layout.valid(block) {
            let offset = layout.offset_of(block, nth);
            let physical = block * self.units + offset;
            let unit = layout.holder(physical);
            if is_there(unit, physical) {
                self.put(block, offset, unit, layout)?;
            }
        }
        Ok(())
    }

    /// Returns true if every valid unit of a block lies before `offset`.
    pub(crate) fn is_valid_only_before(&self, block: u32, offset: u32, layout: &Layout) -> bool {
        self.next_valid(block, offset, layout).is_none()
    }

    /// Returns the number of physical blocks by number of erases. A block stands for one physical
    /// block in each of `planes` planes.
    pub(crate) fn erases(&self, planes: u32) -> BTreeMap<u32, u64> {
        let (mut histogram, mut resident) = (BTreeMap::new(), 0);
        for block in self.blocks.resident() {
            *histogram.entry(block.erases).or_default() += u64::from(planes);
            resident += 1;
        }
        if resident < self.count {
            *histogram.entry(0).or_default() += u64::from(self.count - resident) * u64::from(planes);
        }
        histogram
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.blocks.memory_bytes()
            + self.holders.len() as u64 * u64::from(self.units) * 4
            + self.holders.capacity() as u64 * size_of::<Box<[u32]>>() as u64
            + self.valid.capacity() as u64 * 8
            + (self.free_slots.capacity() + self.free_holders.capacity()) as u64 * 4
    }
}
