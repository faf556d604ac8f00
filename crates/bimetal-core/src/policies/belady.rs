//! Belady's MIN (Belady: *A Study of Replacement Algorithms for a Virtual-Storage Computer*, 1966):
//! the block whose next use is farthest in the future is evicted. No policy misses less often than
//! Belady's MIN. Belady's MIN needs to know all future uses, so it is a bound, not an option for a
//! real cache.
//!
//! The caller of [`Belady`] supplies the next use of each block. [`Foretold`] finds the next use
//! itself, in a list of all uses, so it is a policy for schemes in a simulation.
//!
//! Among blocks that are never used again, the block in the lowest slot is evicted first, which
//! changes no miss ratio.

use super::indexed_heap::IndexedHeap;
use super::replacement::{Key, Replacement, Verdict};
use crate::block_map::Slot;
use crate::uses::Uses;

/// Name on the command line.
pub const NAME: &str = "belady";

/// Time of the next use of a block that is never used again.
pub const NEVER: u64 = u64::MAX;

/// Belady's MIN, with the next use of each block supplied by the caller.
pub struct Belady {
    heap: IndexedHeap,
    next_use: u64,
}

impl Belady {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { heap: IndexedHeap::new(slots), next_use: NEVER }
    }

    /// Supplies the next use, or [`NEVER`], of the block that is inserted or touched next.
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

/// Belady's MIN for a scheme, whose cache learns of uses late and out of order. The policy gets the
/// list of all uses once, and is notified of each request that arrives.
pub struct Foretold {
    belady: Belady,
    uses: Option<Uses>,
    /// Number of requests that arrived.
    arrived: u32,
    /// Key of the block in each slot.
    keys: Vec<Key>,
}

impl Foretold {
    /// Returns the policy over `slots` slots. The policy needs the list of uses before the first
    /// request.
    pub fn new(slots: u32) -> Self {
        Self { belady: Belady::new(slots), uses: None, arrived: 0, keys: vec![Key(0); slots as usize] }
    }

    fn foresee_for(&mut self, slot: Slot) {
        let uses = self.uses.as_mut().expect("a simulation without foresight is refused before its first request");
        self.belady.foresee(uses.next(self.keys[slot.0 as usize], self.arrived).map_or(NEVER, u64::from));
    }
}

impl Replacement for Foretold {
    fn lacks_foresight(&self) -> bool {
        self.uses.is_none()
    }

    fn foresee(&mut self, uses: Uses) {
        self.uses = Some(uses);
    }

    fn arrived(&mut self) {
        self.arrived = self.arrived.saturating_add(1);
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        self.keys[slot.0 as usize] = key;
        self.foresee_for(slot);
        self.belady.insert(slot, key);
    }

    fn touch(&mut self, slot: Slot) {
        self.foresee_for(slot);
        self.belady.touch(slot);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
        self.belady.rename(from, to);
    }

    fn remove(&mut self, slot: Slot) {
        self.belady.remove(slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        self.belady.evict(judge);
    }

    fn len(&self) -> u32 {
        self.belady.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_of_uses_tells_what_goes_first() {
        let mut policy = Foretold::new(3);
        assert!(policy.lacks_foresight());
        let mut uses = Uses::default();
        [7, 8, 9, 8, 7].iter().zip(0..).for_each(|(&key, request)| uses.add(request, Key(key)));
        policy.foresee(uses);
        assert!(!policy.lacks_foresight());
        for (slot, key) in [(0, 7), (1, 8), (2, 9)] {
            policy.arrived();
            policy.insert(Slot(slot), Key(key));
        }
        let mut order = Vec::new();
        policy.evict(&mut |slot| {
            order.push(slot.0);
            Verdict { take: false, more: true }
        });
        assert_eq!(order, [2, 0, 1], "never again, at the fifth request, at the fourth");
    }
}
