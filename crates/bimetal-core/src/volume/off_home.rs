//! The blocks of a run that are off home, some at a time: a run may have so many blocks that a list
//! of all of them would not fit into memory.

use crate::block::{Block, BlockRun};
use crate::block_map::{BlockMap, Slot};

/// Largest number of blocks that are found at once.
const BLOCKS_MAX: usize = 65_536;

/// A search for the blocks of a run that are in the block map, without [granted
/// copies](BlockMap::granted_runs). The search goes through the block map or through the run,
/// whichever is smaller. Blocks that were found may be taken out of the block map before the search
/// goes on.
pub(super) struct OffHome {
    run: BlockRun,
    by_slot: bool,
    /// Position of the search: the next slot, or the number of the next block.
    next: u64,
}

impl OffHome {
    /// Begins a search for the blocks of `run`.
    pub(super) fn of(run: BlockRun, map: &BlockMap) -> Self {
        let by_slot = map.filled() < run.count;
        Self { run, by_slot, next: if by_slot { 0 } else { run.first.0 } }
    }

    /// Returns the next blocks; no blocks if the search has ended. A block of a log may be found
    /// once for each of its pieces.
    pub(super) fn some(&mut self, map: &BlockMap) -> Vec<Block> {
        let end = self.run.end();
        if !self.by_slot {
            let mut found = Vec::new();
            while self.next < end && found.len() < BLOCKS_MAX {
                if map.is_filled(Block(self.next)) {
                    found.push(Block(self.next));
                }
                self.next += 1;
            }
            return found;
        }
        let Ok(from) = u32::try_from(self.next) else { return Vec::new() };
        let is_within = |block: Block| (self.run.first.0..end).contains(&block.0);
        let slots = map.filled_from(Slot(from)).filter(|(_, entry)| is_within(entry.block));
        let (last, found): (Vec<Slot>, Vec<Block>) =
            slots.map(|(slot, entry)| (slot, entry.block)).take(BLOCKS_MAX).unzip();
        self.next = last.last().map_or(u64::MAX, |slot| u64::from(slot.0) + 1);
        found
    }

    /// Returns all blocks, each once.
    pub(super) fn all(mut self, map: &BlockMap) -> Vec<Block> {
        let mut found = Vec::new();
        loop {
            let some = self.some(map);
            if some.is_empty() {
                break;
            }
            found.extend(some);
        }
        if map.slots_in_use() > map.len() {
            found.sort_unstable();
            found.dedup();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::ValidMask;
    use crate::block_map::Entry;

    fn map(slots: u32, blocks: impl Iterator<Item = u64>) -> BlockMap {
        let mut map = BlockMap::new(slots);
        for (slot, block) in blocks.enumerate() {
            let entry = Entry { block: Block(block), valid: ValidMask::ALL, dirty: false, checksum: 0 };
            map.insert(Slot(slot as u32), entry);
        }
        map
    }

    #[test]
    fn search_goes_on_while_blocks_are_taken_out() {
        let count = 2 * BLOCKS_MAX as u64 + 5;
        for run in [BlockRun { first: Block(10), count: 1 << 40 }, BlockRun { first: Block(10), count }] {
            let mut map = map(count as u32 + 20, 0..count + 10);
            let mut search = OffHome::of(run, &map);
            let mut found = 0;
            loop {
                let some = search.some(&map);
                if some.is_empty() {
                    break;
                }
                assert!(some.len() <= BLOCKS_MAX);
                found += some.len() as u64;
                some.into_iter().for_each(|block| {
                    map.remove(block);
                });
            }
            assert_eq!((found, map.len()), (count, 10));
        }
    }
}
