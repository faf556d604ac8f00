//! Unflushed writes, kept in the memory of the process, so that the writes are lost when the
//! process ends.
//!
//! The cache has blocks of 4 KiB with a bit for each sector. A block keeps its place in the queue
//! at repeated writes. When there is no room, the block whose first write is oldest is written to
//! the file first.

use std::collections::{BTreeMap, VecDeque};

use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};

use crate::buffer::{Buffers, Slice};

const BLOCK_SECTORS: u64 = 8;
const SECTOR: usize = SECTOR_BYTES as usize;

struct Block {
    bytes: Box<[u8; BLOCK_SECTORS as usize * SECTOR]>,
    /// Bit for each sector that is cached.
    mask: u8,
    number: u64,
}

/// Cache of writes, by address.
pub(super) struct VolatileCache {
    blocks: BTreeMap<u64, Block>,
    /// Blocks with their numbers, in order of their first write; some entries are outdated.
    queue: VecDeque<(u64, u64)>,
    begun: u64,
    blocks_max: usize,
}

impl VolatileCache {
    /// Makes a cache of `size`, at least one block.
    pub(super) fn new(size: Bytes) -> Self {
        let blocks_max = ((size.0 / (BLOCK_SECTORS * SECTOR_BYTES)) as usize).max(1);
        Self { blocks: BTreeMap::new(), queue: VecDeque::new(), begun: 0, blocks_max }
    }

    /// Returns true if the cache is full: [`oldest`](Self::oldest) has to be removed before the
    /// next write.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() >= self.blocks_max
    }

    /// Takes a write of `data` at `start`.
    pub(super) fn write(&mut self, start: Sectors, data: &Buffers) {
        let mut at = start.0;
        for part in data.parts().iter().map(Slice::bytes) {
            // Parts are whole sectors, as in every payload.
            for sector in part.chunks_exact(SECTOR) {
                self.write_sector(at, sector);
                at += 1;
            }
        }
    }

    fn write_sector(&mut self, sector: u64, bytes: &[u8]) {
        let (number, queue) = (&mut self.begun, &mut self.queue);
        let block = self.blocks.entry(sector / BLOCK_SECTORS).or_insert_with(|| {
            *number += 1;
            queue.push_back((*number, sector / BLOCK_SECTORS));
            Block { bytes: Box::new([0; BLOCK_SECTORS as usize * SECTOR]), mask: 0, number: *number }
        });
        let within = (sector % BLOCK_SECTORS) as usize;
        block.mask |= 1 << within;
        block.bytes[within * SECTOR..][..SECTOR].copy_from_slice(bytes);
    }

    /// Forgets cached sectors of `range`, because the range is written to the file.
    pub(super) fn forget(&mut self, range: SectorRange) {
        let (first, last) = (range.start.0 / BLOCK_SECTORS, range.end().0.div_ceil(BLOCK_SECTORS));
        let held: Vec<u64> = self.blocks.range(first..last).map(|(&block, _)| block).collect();
        for number in held {
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let gone = |within: &u64| (range.start.0..range.end().0).contains(&(number * BLOCK_SECTORS + within));
            (0..BLOCK_SECTORS).filter(gone).for_each(|within| block.mask &= !(1 << within));
            if block.mask == 0 {
                self.remove(number);
            }
        }
    }

    /// Forgets all cached sectors of a block.
    pub(super) fn remove(&mut self, block: u64) {
        self.blocks.remove(&block);
        // Outdated entries leave at the head of the queue; all of them leave when they are the
        // majority.
        while self.queue.front().is_some_and(|entry| !Self::is_current(&self.blocks, entry)) {
            self.queue.pop_front();
        }
        if self.queue.len() > 2 * self.blocks.len() + 64 {
            self.queue.retain(|entry| Self::is_current(&self.blocks, entry));
        }
    }

    fn is_current(blocks: &BTreeMap<u64, Block>, &(number, block): &(u64, u64)) -> bool {
        blocks.get(&block).is_some_and(|held| held.number == number)
    }

    /// Returns the block whose first write is oldest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.queue.front().map(|&(_, block)| block)
    }

    /// Returns the block with the lowest address.
    pub(super) fn first(&self) -> Option<u64> {
        self.blocks.keys().next().copied()
    }

    /// Returns the runs of sectors of a block that are cached.
    pub(super) fn runs(&self, block: u64) -> Vec<(Sectors, &[u8])> {
        let Some(held) = self.blocks.get(&block) else { return Vec::new() };
        let mut runs = Vec::new();
        let mut at = 0;
        while held.mask >> at != 0 {
            at += (held.mask >> at).trailing_zeros() as usize;
            let len = (held.mask >> at).trailing_ones() as usize;
            runs.push((Sectors(block * BLOCK_SECTORS + at as u64), &held.bytes[at * SECTOR..(at + len) * SECTOR]));
            at += len;
            if at == BLOCK_SECTORS as usize {
                break;
            }
        }
        runs
    }

    /// Returns the cached parts of `range`, each with its offset in the range, to be laid over the
    /// file's content.
    pub(super) fn over(&self, range: SectorRange) -> Vec<(Sectors, Vec<u8>)> {
        let (first, last) = (range.start.0 / BLOCK_SECTORS, range.end().0.div_ceil(BLOCK_SECTORS));
        let mut over = Vec::new();
        for (&block, _) in self.blocks.range(first..last) {
            for (start, bytes) in self.runs(block) {
                let from = start.0.max(range.start.0);
                let to = (start.0 + (bytes.len() / SECTOR) as u64).min(range.end().0);
                if from < to {
                    let (from_byte, to_byte) = ((from - start.0) as usize * SECTOR, (to - start.0) as usize * SECTOR);
                    over.push((Sectors(from - range.start.0), bytes[from_byte..to_byte].to_vec()));
                }
            }
        }
        over
    }
}
