//! Pins: blocks that stay on flash, even if a replacement policy would evict them (Konanki's
//! thesis, section 3.5).

use std::collections::BTreeMap;

use super::room::Room;
use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;
use crate::scheme::View;

/// A set of blocks, bounded in size.
pub(crate) struct Pins {
    /// First block and end of each run. No run is adjacent to another.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
    most: u64,
}

impl Pins {
    /// Returns the empty set, which takes at most `most` blocks.
    pub(crate) fn new(most: u64) -> Self {
        Self { runs: BTreeMap::new(), blocks: 0, most }
    }

    /// Returns the largest number of blocks.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Returns true if no block is pinned.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns true if `block` is pinned.
    pub(crate) fn contains(&self, block: Block) -> bool {
        self.alike(BlockRun { first: block, count: 1 }).0
    }

    /// Returns true and the number of leading blocks of `blocks` that are pinned, or false and the
    /// number of leading blocks that are not.
    pub(crate) fn alike(&self, blocks: BlockRun) -> (bool, u64) {
        let first = blocks.first.0;
        if let Some((_, &end)) = self.runs.range(..=first).next_back()
            && first < end
        {
            return (true, (end - first).min(blocks.count));
        }
        let next = self.runs.range(first..).next().map_or(blocks.end(), |(&next, _)| next);
        (false, (next - first).min(blocks.count))
    }

    /// Returns the pinned runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = BlockRun> {
        self.runs.iter().map(|(&first, &end)| BlockRun { first: Block(first), count: end - first })
    }

    /// Pins `blocks`. Returns false, and pins nothing, if more blocks would be pinned than the set
    /// takes.
    pub(crate) fn pin(&mut self, blocks: BlockRun) -> bool {
        let (mut first, mut end) = (blocks.first.0, blocks.end());
        if blocks.count == 0 {
            return true;
        }
        // Runs that overlap or touch the new run are joined with it.
        let met: Vec<(u64, u64)> = self.runs.range(..=end).rev().map(|(&from, &to)| (from, to)).collect();
        let met: Vec<(u64, u64)> = met.into_iter().take_while(|&(_, to)| to >= first).collect();
        let before: u64 = met.iter().map(|(from, to)| to - from).sum();
        for &(from, to) in &met {
            (first, end) = (first.min(from), end.max(to));
        }
        let now = self.blocks - before + (end - first);
        if now > self.most {
            return false;
        }
        for (from, _) in &met {
            self.runs.remove(from);
        }
        self.runs.insert(first, end);
        self.blocks = now;
        true
    }

    /// Unpins `blocks`.
    pub(crate) fn unpin(&mut self, blocks: BlockRun) {
        let (first, end) = (blocks.first.0, blocks.end());
        if blocks.count == 0 {
            return;
        }
        let before: Vec<(u64, u64)> = self.runs.range(..end).rev().map(|(&from, &to)| (from, to)).collect();
        for (from, to) in before.into_iter().take_while(|&(_, to)| to > first) {
            self.runs.remove(&from);
            self.blocks -= to - from;
            for (from, to) in [(from, first), (end, to)] {
                if from < to {
                    self.runs.insert(from, to);
                    self.blocks += to - from;
                }
            }
        }
    }
}

/// Room in a cache some of whose blocks are pinned. Slots of pinned blocks are never evicted.
pub(crate) struct PinnedRoom {
    pins: Pins,
    /// Slots whose blocks are pinned to flash; all other slots are in `room`.
    slots: BitSet,
    /// Set if pins have changed since slots were last sorted by their pins.
    unsorted: bool,
    /// Slots that are not pinned.
    room: Room,
}

impl PinnedRoom {
    /// Returns the room of a cache with `slots` slots, all empty.
    pub(crate) fn new(pins: Pins, slots: u32, room: Room) -> Self {
        Self { pins, slots: BitSet::new(slots), unsorted: false, room }
    }

    /// Returns the pins.
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Returns the room of the slots that are not pinned.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Returns the room of the slots that are not pinned, for changes of that room.
    pub(crate) fn room_mut(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Takes other pins. Slots are sorted by the new pins at the next [`sort`](Self::sort).
    pub(crate) fn pin_instead(&mut self, pins: Pins) {
        self.pins = pins;
        self.unsorted = true;
    }

    /// Returns true if [`sort`](Self::sort) is due.
    pub(crate) fn is_unsorted(&self) -> bool {
        self.unsorted
    }

    /// Sorts slots anew by the pins. Slots of unpinned blocks can be victims again; slots of newly
    /// pinned blocks no longer can.
    pub(crate) fn sort(&mut self, view: &View) {
        self.unsorted = false;
        let kept: Vec<u32> =
            std::iter::successors(self.slots.next_member(0), |&last| self.slots.next_member(last + 1)).collect();
        let blocks = kept.into_iter().filter_map(|slot| view.map.in_slot(Slot(slot))).map(|entry| entry.block);
        let pinned: Vec<Block> = self.pins.runs().flat_map(BlockRun::blocks).collect();
        blocks.chain(pinned).for_each(|block| self.sort_block(view, block));
    }

    /// Puts the slot of `block`, if the block has a slot, among the pinned slots or into the room.
    fn sort_block(&mut self, view: &View, block: Block) {
        let Some((slot, _)) = view.map.get(block) else { return };
        if !self.pins.contains(block) {
            if self.slots.remove(slot.0) {
                self.room.mapped(view, slot, None);
            }
        } else if self.slots.insert(slot.0) {
            self.room.unmapped(slot);
        }
    }

    /// Pins `blocks`, or ends their pin. Returns false, and changes nothing, if more blocks would
    /// be pinned than the set takes.
    pub(crate) fn pin(&mut self, view: &View, blocks: BlockRun, pinned: bool) -> bool {
        let taken = if pinned {
            self.pins.pin(blocks)
        } else {
            self.pins.unpin(blocks);
            true
        };
        if taken {
            blocks.blocks().for_each(|block| self.sort_block(view, block));
        }
        taken
    }

    /// [`Scheme::touched`](crate::scheme::Scheme::touched).
    pub(crate) fn touched(&mut self, slot: Slot) {
        if !self.slots.contains(slot.0) {
            self.room.touched(slot);
        }
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped).
    pub(crate) fn mapped(&mut self, view: &View, slot: Slot, replaced: Option<Slot>) {
        let entry = view.map.in_slot(slot).expect("a slot that was just mapped is in the map");
        // The block may have been pinned or unpinned since, so its old slot may be of the other
        // kind.
        let was_pinned = replaced.filter(|old| self.slots.remove(old.0));
        if self.pins.contains(entry.block) {
            self.slots.insert(slot.0);
            if let Some(old) = replaced.filter(|_| was_pinned.is_none()) {
                self.room.unmapped(old);
            }
        } else {
            self.room.mapped(view, slot, replaced.filter(|_| was_pinned.is_none()));
        }
    }

    /// [`Scheme::unmapped`](crate::scheme::Scheme::unmapped).
    pub(crate) fn unmapped(&mut self, slot: Slot) {
        if !self.slots.remove(slot.0) {
            self.room.unmapped(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn run(first: u64, count: u64) -> BlockRun {
        BlockRun { first: Block(first), count }
    }

    #[test]
    fn pins_beyond_the_bound_are_refused_whole() {
        let mut pins = Pins::new(10);
        assert!(pins.pin(run(0, 4)) && pins.pin(run(2, 6)), "eight blocks in all");
        assert!(!pins.pin(run(20, 3)) && !pins.contains(Block(20)));
        assert!(pins.pin(run(20, 2)), "ten blocks");
        pins.unpin(run(1, 3));
        assert_eq!(pins.runs().collect::<Vec<_>>(), [run(0, 1), run(4, 4), run(20, 2)]);
        assert!(pins.pin(run(1, 3)));
    }

    proptest! {
        #[test]
        fn pins_are_the_set_of_what_was_pinned(
            changes in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..60), most in 0u64..40,
        ) {
            let (mut pins, mut model) = (Pins::new(most), BTreeSet::new());
            for (pin, first, count) in changes {
                let blocks = run(first, count);
                if pin {
                    let all: BTreeSet<u64> = model.iter().copied().chain(first..first + count).collect();
                    prop_assert_eq!(pins.pin(blocks), count == 0 || all.len() as u64 <= most);
                    if all.len() as u64 <= most {
                        model = all;
                    }
                } else {
                    pins.unpin(blocks);
                    model.retain(|block| !(first..first + count).contains(block));
                }
                let found: Vec<u64> = pins.runs().flat_map(|run| run.first.0..run.end()).collect();
                prop_assert_eq!(&found, &model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(pins.blocks, model.len() as u64);
                prop_assert!(pins.runs().collect::<Vec<_>>().windows(2).all(|two| two[0].end() < two[1].first.0));
                for first in 0..50 {
                    let (pinned, alike) = pins.alike(run(first, 9));
                    let same = (first..first + 9).take_while(|block| model.contains(block) == pinned).count() as u64;
                    prop_assert_eq!((pinned, alike), (model.contains(&first), same));
                }
            }
        }
    }
}
