//! The newest content of slots whose blocks were written in part, kept in memory for the next write
//! that merges with this content.
//!
//! Adjacent requests may share a block, for example on a partition that does not begin at the
//! border of a block. Without this memory, each request would read the previous request's content
//! from the drive.

use std::collections::VecDeque;

use crate::block::Block;
use crate::block_map::{Entry, Slot};
use crate::payload::Payload;
use crate::units::Sectors;

/// Blocks kept: as many streams may end in a shared block at once. Each kept block may hold the
/// buffer of its request in memory.
const KEPT_MAX: usize = 16;

struct Kept<P> {
    slot: Slot,
    block: Block,
    content: P,
}

/// Recently written blocks, the newest last.
pub(crate) struct Recent<P> {
    kept: VecDeque<Kept<P>>,
}

impl<P> Default for Recent<P> {
    fn default() -> Self {
        Self { kept: VecDeque::with_capacity(KEPT_MAX) }
    }
}

impl<P: Payload> Recent<P> {
    /// Keeps the content of `block`, which now lies in `slot`.
    pub(crate) fn keep(&mut self, slot: Slot, block: Block, content: P) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { slot, block, content });
    }

    /// Returns the content of `slot`, which holds `entry`, if it is kept.
    pub(crate) fn content(&self, slot: Slot, entry: &Entry) -> Option<P> {
        let is_it = |kept: &&Kept<P>| kept.slot == slot && kept.block == entry.block;
        let content = &self.kept.iter().rev().find(is_it)?.content;
        // The slot may have held another block in between, and then a newer version of this one.
        let same = !P::CARRIES_DATA || content.checksum() == entry.checksum;
        same.then(|| content.slice(Sectors::ZERO, content.sectors()))
    }
}
