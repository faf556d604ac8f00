//! Pins: blocks that stay on flash, even if a replacement policy would evict them (Konanki's
//! thesis, section 3.5).

use std::collections::BTreeMap;

use crate::block::{Block, BlockRun};

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
