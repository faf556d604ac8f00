//! Blocks whose newest content no member can give any more, and which eighths of them: reads are errors until they are
//! written again, before and after a restart.

use std::collections::{BTreeMap, VecDeque};

use crate::block::{Block, ValidMask};
use crate::journal::ring::Sequence;
use crate::journal::superblock::LOST_MAX;

#[derive(Default)]
pub(crate) struct Lost {
    blocks: BTreeMap<u64, ValidMask>,
    /// What was lost before changes whose records are not durable.
    undo: VecDeque<(Sequence, Block, ValidMask)>,
}

impl Lost {
    /// As a recovery found it.
    pub(super) fn new(blocks: BTreeMap<u64, ValidMask>) -> Self {
        Self { blocks, undo: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Which eighths of `block` are lost.
    pub(super) fn of(&self, block: Block) -> ValidMask {
        self.blocks.get(&block.0).copied().unwrap_or_default()
    }

    /// The lost blocks from `first` to `end` (not included), in order.
    pub(super) fn between(&self, first: u64, end: u64) -> impl Iterator<Item = (Block, ValidMask)> {
        self.blocks.range(first..end).map(|(&block, &eighths)| (Block(block), eighths))
    }

    /// Whether there is room for one more where they are kept.
    pub(super) fn has_room(&self) -> bool {
        self.blocks.len() + self.undo.len() < LOST_MAX
    }

    /// Exactly these eighths of `block` are lost from now on; the record numbered `record` says so.
    pub(super) fn set(&mut self, block: Block, eighths: ValidMask, record: Sequence) {
        self.undo.push_back((record, block, self.of(block)));
        if eighths.is_empty() {
            self.blocks.remove(&block.0);
        } else {
            self.blocks.insert(block.0, eighths);
        }
    }

    /// Blocks that were lost and were written again, of which a crash may find that they are lost still.
    pub(super) fn found_again(&self) -> impl Iterator<Item = Block> {
        let found = self.undo.iter().filter(|&&(_, block, before)| !self.of(block).contains(before));
        found.map(|&(_, block, _)| block)
    }

    /// Every record up to `durable` is durable.
    pub(super) fn made_durable(&mut self, durable: Sequence) {
        while self.undo.front().is_some_and(|&(record, ..)| record <= durable) {
            self.undo.pop_front();
        }
    }

    /// What a superblock names: all that is lost, and what may be again if a crash takes records that are not durable.
    pub(super) fn for_superblock(&self) -> Vec<(Block, ValidMask)> {
        let mut all = self.blocks.clone();
        for &(_, block, before) in &self.undo {
            let eighths = all.entry(block.0).or_default();
            *eighths = eighths.union(before);
        }
        let named = all.into_iter().filter(|(_, eighths)| !eighths.is_empty());
        named.map(|(block, eighths)| (Block(block), eighths)).collect()
    }
}
