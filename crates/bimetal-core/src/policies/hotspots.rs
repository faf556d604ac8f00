//! The hotspot queue of dm-cache's policy smq. The queue ranks regions of the address space by how
//! steadily they are requested, regardless of whether any block of a region is cached. See
//! `multi_queue` for how regions rise and sink.

use super::ghosts::KeyIndex;
use super::multi_queue::{self, LEVELS, MultiQueue};
use super::replacement::{Key, Replacement, Verdict};
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;

/// Resident bytes for each slot of the cache. There is a region for every four slots, with its
/// number, its index entry and its queue entry.
pub const BYTES_PER_SLOT: f64 = (multi_queue::BYTES_PER_SLOT + 4.0 + 6.0) / 4.0;

/// Number of blocks in a region, unless the drive is too small for the least number of regions.
const REGION_BLOCKS: u64 = 16;
/// Smallest number of regions that are followed.
const REGIONS_MIN: u32 = 1024;

/// Counts of requests by the level of the requested region or block.
#[derive(Clone, Copy, Default)]
pub struct Standing {
    high: u64,
    other: u64,
}

impl Standing {
    /// Counts a request for a region or block at `level`; `None` if the region or block is in no
    /// level.
    #[inline]
    pub fn count(&mut self, level: Option<usize>) {
        if level.is_some_and(|level| level >= LEVELS * 3 / 4) {
            self.high += 1;
        } else {
            self.other += 1;
        }
    }

    /// Returns the share of requests in the upper quarter of the levels, in sixteenths.
    pub fn sixteenths(&self) -> u64 {
        self.high * 16 / (self.high + self.other).max(1)
    }
}

/// Queue of regions.
pub struct Hotspots {
    queue: MultiQueue,
    /// Number of the region at each position of the queue.
    regions: Vec<u32>,
    index: KeyIndex,
    region_blocks: u64,
    standing: Standing,
    /// Number of levels by which a requested region rises.
    jump: usize,
}

impl Hotspots {
    /// Returns the queue for a cache of `slots` slots in front of `blocks` blocks.
    pub fn new(slots: u32, blocks: u64) -> Self {
        let count = (slots / 4).max(REGIONS_MIN);
        let mut region_blocks = REGION_BLOCKS;
        while region_blocks > 1 && region_blocks * u64::from(count) > blocks {
            region_blocks /= 2;
        }
        Self {
            queue: MultiQueue::new(count),
            regions: vec![0; count as usize],
            index: KeyIndex::new(count),
            region_blocks,
            standing: Standing::default(),
            jump: 1,
        }
    }

    fn key(&self, block: Block) -> u32 {
        Key::from(Block(block.0 / self.region_blocks)).0
    }

    fn place(&self, key: u32) -> Option<Slot> {
        self.index.get(key, &self.regions).map(Slot)
    }

    /// Notes a request for every region of `blocks`.
    pub fn asked_for(&mut self, blocks: BlockRun) {
        let last = (blocks.end() - 1) / self.region_blocks;
        for region in blocks.first.0 / self.region_blocks..=last {
            self.region_asked_for(Key::from(Block(region)).0);
        }
    }

    fn region_asked_for(&mut self, key: u32) {
        let place = self.place(key);
        self.standing.count(place.and_then(|place| self.queue.level(place)));
        match place {
            Some(place) => self.queue.rise(place, self.jump),
            None => self.bring_in(key),
        }
    }

    /// Adds a region that is not followed yet. If the queue is full, the new region replaces the
    /// region at the lowest level.
    fn bring_in(&mut self, key: u32) {
        let mut place = Slot(self.queue.len());
        if place.0 as usize == self.regions.len() {
            self.queue.evict(&mut |lowest| {
                place = lowest;
                Verdict::TAKE_AND_STOP
            });
            self.index.take(self.regions[place.0 as usize], &self.regions);
        }
        self.regions[place.0 as usize] = key;
        self.index.insert(key, place.0);
        self.queue.insert(place, Key(key));
    }

    /// Returns the level of the region of `block`, if the region is followed.
    pub fn level(&self, block: Block) -> Option<usize> {
        self.queue.level(self.place(self.key(block))?)
    }

    /// Returns a factor that is larger the worse the queue predicts. The number of levels that are
    /// promoted is divided by the factor, and regions rise by as many levels.
    pub fn caution(&self) -> usize {
        match self.standing.sixteenths() {
            0 => 4,
            1 => 2,
            _ => 1,
        }
    }

    /// Ends a period: sets the jump for the next period and makes the levels equally full.
    pub fn end_period(&mut self) {
        self.jump = self.caution();
        self.queue.end_period();
        self.standing = Standing::default();
    }
}
