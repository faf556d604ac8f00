//! Blocks whose newest content no member can return any more, with their lost eighths. Reads of
//! lost blocks are errors until the blocks are written again, before and after a restart.

use std::collections::{BTreeMap, VecDeque};

use crate::block::{Block, ValidMask};
use crate::journal::ring::Sequence;
use crate::journal::superblock::LOST_MAX;

#[derive(Default)]
pub(in crate::volume) struct Lost {
    blocks: BTreeMap<u64, ValidMask>,
    /// Lost eighths as they were before changes whose records are not durable yet.
    undo: VecDeque<(Sequence, Block, ValidMask)>,
}

impl Lost {
    /// Returns the lost blocks that a recovery found.
    pub(in crate::volume) fn new(blocks: BTreeMap<u64, ValidMask>) -> Self {
        Self { blocks, undo: VecDeque::new() }
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(in crate::volume) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns the eighths of `block` that are lost.
    pub(in crate::volume) fn of(&self, block: Block) -> ValidMask {
        self.blocks.get(&block.0).copied().unwrap_or_default()
    }

    /// Returns the lost blocks from `first` to `end` (not included), in order.
    pub(in crate::volume) fn between(&self, first: u64, end: u64) -> impl Iterator<Item = (Block, ValidMask)> {
        self.blocks.range(first..end).map(|(&block, &eighths)| (Block(block), eighths))
    }

    /// Returns true if the superblock has room for one more lost block.
    pub(in crate::volume) fn has_room(&self) -> bool {
        self.blocks.len() + self.undo.len() < LOST_MAX
    }

    /// Sets the lost eighths of `block`. The record numbered `record` makes the change durable.
    pub(in crate::volume) fn set(&mut self, block: Block, eighths: ValidMask, record: Sequence) {
        self.undo.push_back((record, block, self.of(block)));
        if eighths.is_empty() {
            self.blocks.remove(&block.0);
        } else {
            self.blocks.insert(block.0, eighths);
        }
    }

    /// Returns blocks that were lost and written again, but that may be lost again after a crash
    /// now.
    pub(in crate::volume) fn found_again(&self) -> impl Iterator<Item = Block> {
        let found = self.undo.iter().filter(|&&(_, block, before)| !self.of(block).contains(before));
        found.map(|&(_, block, _)| block)
    }

    /// Forgets changes whose records are durable: all up to `durable`.
    pub(in crate::volume) fn made_durable(&mut self, durable: Sequence) {
        while self.undo.front().is_some_and(|&(record, ..)| record <= durable) {
            self.undo.pop_front();
        }
    }

    /// Returns the blocks for a superblock: all lost blocks, and the blocks that are lost again if
    /// a crash takes records that are not durable.
    pub(in crate::volume) fn for_superblock(&self) -> Vec<(Block, ValidMask)> {
        let mut all = self.blocks.clone();
        for &(_, block, before) in &self.undo {
            let eighths = all.entry(block.0).or_default();
            *eighths = eighths.union(before);
        }
        let named = all.into_iter().filter(|(_, eighths)| !eighths.is_empty());
        named.map(|(block, eighths)| (Block(block), eighths)).collect()
    }
}
