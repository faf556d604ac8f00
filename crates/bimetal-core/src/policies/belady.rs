//! Belady's MIN (Belady: *A Study of Replacement Algorithms for a Virtual-Storage Computer*, 1966): the block whose next use is farthest
//! off goes. No policy misses less; it needs to be told the future, so it is a bound and not a choice.
//!
//! Of blocks that are never used again the one in the lowest slot goes first, which changes no miss ratio.

use super::indexed_heap::IndexedHeap;
use super::replacement::{Key, Replacement, Verdict};
use crate::block_map::Slot;

/// Its name on the command line.
pub const NAME: &str = "belady";

/// "Never again", as the time of a next use.
pub const NEVER: u64 = u64::MAX;

/// The policy.
pub struct Belady {
    heap: IndexedHeap,
    next_use: u64,
}

impl Belady {
    /// The policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { heap: IndexedHeap::new(slots), next_use: NEVER }
    }

    /// When the block that is inserted or touched next will be used after that, or [`NEVER`].
    #[inline]
    pub fn foresee(&mut self, next_use: u64) {
        self.next_use = next_use;
    }
}

impl Replacement for Belady {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.heap.set(slot, !self.next_use);
    }

    fn touch(&mut self, slot: Slot) {
        self.heap.set(slot, !self.next_use);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        let rank = self.heap.rank(from);
        self.heap.remove(from);
        self.heap.set(to, rank);
    }

    fn remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        self.heap.evict(judge);
    }

    fn len(&self) -> u32 {
        self.heap.len()
    }
}
