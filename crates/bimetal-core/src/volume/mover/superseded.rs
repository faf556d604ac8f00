//! Content that a migration must still move although its blocks have been written again since the
//! migration began.

use std::collections::{BTreeMap, BTreeSet};

use crate::block::{Block, BlockRun};
use crate::block_map::{Entry, Slot};

/// Pieces as they were when a migration began, of blocks that were written again before the
/// migration reached them.
#[derive(Default)]
pub(crate) struct Superseded {
    pieces: BTreeMap<Slot, Entry>,
    by_block: BTreeSet<(Block, Slot)>,
}

impl Superseded {
    /// Records the content that `slot` had. A second call for the same slot changes nothing.
    pub(in crate::volume) fn note(&mut self, slot: Slot, entry: Entry) {
        if self.by_block.insert((entry.block, slot)) {
            self.pieces.insert(slot, entry);
        }
    }

    /// Returns the entry that `slot` had when the migration began, if its block was written again
    /// since.
    pub(in crate::volume) fn get(&self, slot: Slot) -> Option<Entry> {
        self.pieces.get(&slot).copied()
    }

    /// Drops the records of `blocks`, because home has newer content, so their older content is no
    /// longer moved.
    pub(in crate::volume) fn forget(&mut self, blocks: BlockRun) {
        if self.by_block.is_empty() {
            return;
        }
        let of_blocks = (blocks.first, Slot(0))..(Block(blocks.end()), Slot(0));
        let forgotten: Vec<(Block, Slot)> = self.by_block.range(of_blocks).copied().collect();
        for (block, slot) in forgotten {
            self.by_block.remove(&(block, slot));
            self.pieces.remove(&slot);
        }
    }

    /// Drops all records, because the migration has ended.
    pub(in crate::volume) fn clear(&mut self) {
        self.pieces.clear();
        self.by_block.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::ValidMask;

    #[test]
    fn first_state_of_a_piece_counts_until_home_is_newer() {
        let entry = |block, valid| Entry { block: Block(block), valid: ValidMask(valid), dirty: true, checksum: 0 };
        let mut superseded = Superseded::default();
        superseded.note(Slot(3), entry(7, 0xff));
        superseded.note(Slot(3), entry(7, 0x0f));
        superseded.note(Slot(4), entry(8, 1));
        assert_eq!(superseded.get(Slot(3)), Some(entry(7, 0xff)));
        superseded.forget(BlockRun { first: Block(5), count: 3 });
        assert_eq!((superseded.get(Slot(3)), superseded.get(Slot(4))), (None, Some(entry(8, 1))));
    }
}
