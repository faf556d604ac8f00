//! Estimate of the host's buffer cache: the most recently used blocks, as far as a device sees them
//! in its requests.

use crate::block::{Block, ValidMask};
use crate::block_map::{BlockMap, Entry, Slot};
use crate::policies::lru::Lru;

/// Blocks in order of last use.
pub(crate) struct BufferCache {
    map: BlockMap,
    order: Lru,
}

impl BufferCache {
    /// Returns an empty cache for `blocks` blocks.
    pub(crate) fn new(blocks: u32) -> Self {
        Self { map: BlockMap::new(blocks), order: Lru::new(blocks) }
    }

    /// Notes a read or write of `block`. Returns the block that is evicted for `block`.
    pub(crate) fn use_block(&mut self, block: Block) -> Option<Block> {
        if let Some((slot, _)) = self.map.get(block) {
            self.order.touch(slot);
            return None;
        }
        let full = self.map.len() == u64::from(self.map.slots());
        let (slot, evicted) = match self.order.oldest_first().next().filter(|_| full) {
            Some(oldest) => (oldest, self.map.in_slot(oldest).map(|entry| entry.block)),
            None => (Slot(self.map.len() as u32), None),
        };
        if let Some(evicted) = evicted {
            self.map.remove(evicted);
        }
        self.map.insert(slot, Entry { block, valid: ValidMask::ALL, dirty: false, checksum: 0 });
        self.order.touch(slot);
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_least_recently_leaves() {
        let mut cache = BufferCache::new(2);
        let evicted: Vec<_> =
            [1, 2, 1, 3, 2, 2, 1].map(|block| cache.use_block(Block(block)).map(|block| block.0)).into();
        assert_eq!(evicted, [None, None, None, Some(2), Some(1), None, Some(3)]);
    }
}
