//! What was written last to slots of a cache of blocks that were written in part: the next write there has at hand what it merges with.
//! Requests that follow each other and share a block, as those of a partition that does not begin on one, would each read from
//! the drive what the one before has just written.

use std::collections::VecDeque;

use crate::block::Block;
use crate::block_map::{Entry, Slot};
use crate::payload::Payload;
use crate::units::Sectors;

/// Blocks kept: as many streams may end in one at once. Each may keep the buffer of its request in memory.
const KEPT_MAX: usize = 16;

struct Kept<P> {
    slot: Slot,
    block: Block,
    content: P,
}

/// The newest last.
pub(crate) struct Recent<P> {
    kept: VecDeque<Kept<P>>,
}

impl<P> Default for Recent<P> {
    fn default() -> Self {
        Self { kept: VecDeque::with_capacity(KEPT_MAX) }
    }
}

impl<P: Payload> Recent<P> {
    /// `slot` has become the place of `block`, with this content.
    pub(crate) fn keep(&mut self, slot: Slot, block: Block, content: P) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { slot, block, content });
    }

    /// The content of `slot`, which holds `entry`, if it is at hand.
    pub(crate) fn content(&self, slot: Slot, entry: &Entry) -> Option<P> {
        let is_it = |kept: &&Kept<P>| kept.slot == slot && kept.block == entry.block;
        let content = &self.kept.iter().rev().find(is_it)?.content;
        // The slot may have had another block since, and this one again.
        let same = !P::CARRIES_DATA || content.checksum() == entry.checksum;
        same.then(|| content.slice(Sectors::ZERO, content.sectors()))
    }
}
