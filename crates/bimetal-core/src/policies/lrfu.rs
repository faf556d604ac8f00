//! LRFU (Lee, Choi, Kim, Noh, Min, Cho, Kim: *LRFU: A Spectrum of Policies that Subsumes the Least
//! Recently Used and Least Frequently Used Policies*, IEEE Transactions on Computers 2001, section
//! 2): each use of a block weighs (1/2)^(λ·age). The block with the least sum of weights is
//! evicted. Age is counted in accesses.
//!
//! The paper leaves λ to the workload; ours is 0.001, in the middle of the range where its figures
//! show the best hit ratios. An evicted block leaves no ghost. Sums are kept as the logarithm to
//! base 2 of their value at time 0, so that their order does not change as they age. The logarithm
//! is exact to about ten digits after a billion accesses.

use super::indexed_heap::{self, IndexedHeap};
use super::replacement::{Key, Replacement, Verdict};
use crate::block_map::Slot;

/// Resident bytes for each slot.
pub const BYTES_PER_SLOT: f64 = indexed_heap::BYTES_PER_SLOT;

/// Rate at which a use loses weight: it halves in 1/λ accesses.
pub const LAMBDA: f64 = 0.001;

/// The LRFU policy.
pub struct Lrfu {
    heap: IndexedHeap,
    now: u64,
}

/// Returns an integer that sorts in the same order as `weight`. Every weight is at least 0, where
/// the bits of floats order like their values.
fn rank(weight: f64) -> u64 {
    debug_assert!(weight >= 0.0);
    weight.to_bits()
}

impl Lrfu {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { heap: IndexedHeap::new(slots), now: 0 }
    }
}

impl Replacement for Lrfu {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.now += 1;
        self.heap.set(slot, rank(LAMBDA * self.now as f64));
    }

    fn touch(&mut self, slot: Slot) {
        self.now += 1;
        let age = LAMBDA * self.now as f64;
        let before = f64::from_bits(self.heap.rank(slot));
        self.heap.set(slot, rank(age + (1.0 + (before - age).exp2()).log2()));
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.heap.rename(from, to);
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
