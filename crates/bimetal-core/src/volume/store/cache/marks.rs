//! The dirty-region marks: regions of home that may differ from clean copies. A durable mark
//! precedes the first change in place, so that after a crash no copy counts whose home has changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::bit_set::BitSet;
use crate::block::{Block, BlockRun};
use crate::block_map::{BlockMap, Entry, Slot};
use crate::journal::record::Record;
use crate::journal::ring::{Pending, Sequence};
use crate::journal::{MARK_REGION_BLOCKS, marks_pages, page};

/// The marks of a cache.
pub(in crate::volume) struct Marks {
    /// Pages of the marks on a drive.
    pages: u64,
    durable: BitSet,
    asked: BTreeMap<u32, Sequence>,
}

impl Marks {
    pub(in crate::volume) fn new(blocks: u64) -> Self {
        Self {
            pages: marks_pages(blocks),
            durable: BitSet::new(blocks.div_ceil(MARK_REGION_BLOCKS) as u32),
            asked: BTreeMap::new(),
        }
    }

    /// Clears all marks: home durably has the content of all clean copies.
    pub(in crate::volume) fn clear(&mut self) {
        while let Some(region) = self.durable.next_member(0) {
            self.durable.remove(region);
        }
        self.asked.clear();
    }

    /// Returns all marks, a bit each, as whole pages; `None` if no region is marked.
    pub(in crate::volume) fn encode(&self) -> Option<Vec<u8>> {
        if self.durable.len() == 0 && self.asked.is_empty() {
            return None;
        }
        let mut bytes = vec![0; self.pages as usize * page::PAGE_BYTES];
        let durable = std::iter::successors(self.durable.next_member(0), |&last| self.durable.next_member(last + 1));
        for region in durable.chain(self.asked.keys().copied()) {
            bytes[region as usize / 8] |= 1 << (region % 8);
        }
        Some(bytes)
    }

    /// Asks for the mark of the region of `block`.
    pub(in crate::volume) fn ask_for(&mut self, block: Block, pending: &mut Pending) {
        self.ask(region_of(block.0), pending);
    }

    fn ask(&mut self, region: u32, pending: &mut Pending) {
        if !self.durable.contains(region) && !self.asked.contains_key(&region) {
            let sequence = pending.append(Record::Intent { region });
            self.asked.insert(region, sequence);
        }
    }

    /// Returns true if a change in place of `blocks` must wait for a mark, and asks for the mark.
    pub(in crate::volume) fn are_needed(&mut self, blocks: BlockRun, map: &BlockMap, pending: &mut Pending) -> bool {
        let all_dirty = map.len() == u64::from(map.dirty_blocks());
        if all_dirty && pending.nothing_could_come_back() {
            return false;
        }
        let wanted = self.regions_to_mark(blocks, map, pending);
        wanted.iter().for_each(|&region| self.ask(region, pending));
        !wanted.is_empty()
    }

    /// Returns the regions of `blocks` that lack a durable mark, and that have clean copies or
    /// could have clean copies after a crash.
    fn regions_to_mark(&self, blocks: BlockRun, map: &BlockMap, pending: &Pending) -> Vec<u32> {
        let is_unmarked = |region: &u32| !self.durable.contains(*region);
        if blocks.count <= map.len() {
            let unmarked: Vec<u32> =
                (region_of(blocks.first.0)..=region_of(blocks.end() - 1)).filter(is_unmarked).collect();
            let has_copies = || has_clean_copies(blocks, map) || pending.could_come_back(blocks, false);
            return if unmarked.is_empty() || has_copies() { unmarked } else { Vec::new() };
        }
        // If the block map is smaller than `blocks`, the block map is walked. So a discard of a
        // whole drive costs only as much as it changes.
        let within = |block: &Block| (blocks.first.0..blocks.end()).contains(&block.0);
        let copies = map.filled_from(Slot(0)).filter(|(_, entry)| !entry.dirty).map(|(_, entry)| entry.block);
        let all = copies.chain(pending.copies_that_could_come_back()).filter(within);
        let mut regions: BTreeSet<u32> = all.map(|block| region_of(block.0)).collect();
        for run in map.granted_runs(blocks) {
            regions.extend(region_of(run.first.0)..=region_of(run.end() - 1));
        }
        regions.into_iter().filter(is_unmarked).collect()
    }

    /// Counts marks as durable if their records are durable, that is, up to record `durable`.
    pub(in crate::volume) fn made_durable(&mut self, durable: Sequence) {
        let Self { durable: marks, asked, .. } = self;
        asked.retain(|&region, &mut sequence| {
            if sequence <= durable {
                marks.insert(region);
            }
            sequence > durable
        });
    }
}

fn region_of(block: u64) -> u32 {
    (block / MARK_REGION_BLOCKS) as u32
}

fn has_clean_copies(blocks: BlockRun, map: &BlockMap) -> bool {
    if map.granted_runs(blocks).next().is_some() {
        return true;
    }
    let is_copy = |entry: Entry| !entry.dirty;
    if map.filled() < blocks.count {
        let within = blocks.first.0..blocks.end();
        return map.filled_from(Slot(0)).any(|(_, entry)| is_copy(entry) && within.contains(&entry.block.0));
    }
    blocks.blocks().any(|block| map.get(block).is_some_and(|(_, entry)| is_copy(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::ValidMask;

    fn run(first: u64, count: u64) -> BlockRun {
        BlockRun { first: Block(first), count }
    }

    /// A block map with one copy of each of `blocks`.
    fn copies(blocks: &[u64]) -> BlockMap {
        let mut map = BlockMap::new(16);
        for (slot, &block) in (0..).zip(blocks) {
            map.insert(Slot(slot), Entry { block: Block(block), valid: ValidMask::ALL, dirty: false, checksum: 0 });
        }
        map
    }

    /// Home may only change in place once the mark of its region is durable.
    #[test]
    fn mark_is_needed_until_it_is_durable() {
        let (mut marks, map, mut pending) = (Marks::new(1 << 20), copies(&[3]), Pending::default());
        assert!(marks.are_needed(run(3, 1), &map, &mut pending));
        assert!(marks.are_needed(run(3, 1), &map, &mut pending), "asked for, and not durable");
        assert_eq!(pending.appended, 1, "asked for once");
        marks.made_durable(0);
        assert!(marks.are_needed(run(3, 1), &map, &mut pending));
        marks.made_durable(1);
        assert!(!marks.are_needed(run(3, 1), &map, &mut pending));
        marks.clear();
        assert!(marks.encode().is_none() && marks.are_needed(run(3, 1), &map, &mut pending));
    }

    #[test]
    fn change_beside_all_copies_needs_no_mark() {
        let (mut marks, map, mut pending) = (Marks::new(1 << 20), copies(&[3]), Pending::default());
        assert!(!marks.are_needed(run(2, 1), &map, &mut pending));
        assert!(!marks.are_needed(run(4, 9), &map, &mut pending), "a run larger than the map");
        assert!(marks.are_needed(run(0, 9), &map, &mut pending));
    }

    /// A copy that was evicted comes back if a crash loses the record of its eviction.
    #[test]
    fn copy_that_a_crash_brings_back_needs_a_mark() {
        let (mut marks, mut map, mut pending) = (Marks::new(1 << 20), copies(&[3]), Pending::default());
        let held = map.get(Block(3));
        map.remove(Block(3));
        let record = pending.append(Record::Home { block: Block(3) });
        pending.remember_all(record, held);
        assert!(marks.are_needed(run(3, 1), &map, &mut pending));
        pending.made_durable(record, None);
        assert!(!marks.are_needed(run(3, 1), &map, &mut pending));
    }

    #[test]
    fn encoded_marks_have_a_bit_for_each_region() {
        let mut marks = Marks::new(MARK_REGION_BLOCKS * 20);
        marks.ask_for(Block(0), &mut Pending::default());
        marks.ask_for(Block(MARK_REGION_BLOCKS * 9 + 5), &mut Pending::default());
        let bytes = marks.encode().expect("two regions are marked");
        assert_eq!((bytes.len() % page::PAGE_BYTES, &bytes[..3]), (0, &[1, 2, 0][..]));
    }
}
