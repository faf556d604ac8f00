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

use bimetal_core::block::Key;
use bimetal_core::block_map::Slot;
use bimetal_core::policies::indexed_heap::IndexedHeap;
use bimetal_core::scheme::{Replacement, Verdict};

use crate::uses::Uses;

/// Time of the next use of a block that is never used again.
pub(crate) const NEVER: u64 = u64::MAX;

/// Belady's MIN, with the next use of each block supplied by the caller.
pub(crate) struct Belady {
    heap: IndexedHeap,
    next_use: u64,
}

impl Belady {
    /// Returns the policy over `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self { heap: IndexedHeap::new(slots), next_use: NEVER }
    }

    /// Supplies the next use, or [`NEVER`], of the block that is inserted or touched next.
    #[inline]
    pub(crate) fn foresee(&mut self, next_use: u64) {
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

/// Belady's MIN for a scheme, whose cache learns of uses late and out of order. The policy gets the
/// list of all uses, and is notified of each request that arrives.
pub(crate) struct Foretold {
    belady: Belady,
    uses: Uses,
    /// Number of requests that arrived.
    arrived: u32,
    /// Key of the block in each slot.
    keys: Vec<Key>,
}

impl Foretold {
    /// Returns the policy over `slots` slots, for a workload with these `uses`.
    pub(crate) fn new(slots: u32, uses: Uses) -> Self {
        Self { belady: Belady::new(slots), uses, arrived: 0, keys: vec![Key(0); slots as usize] }
    }

    fn foresee_for(&mut self, slot: Slot) {
        let next = self.uses.next(self.keys[slot.0 as usize], self.arrived);
        self.belady.foresee(next.map_or(NEVER, u64::from));
    }
}

impl Replacement for Foretold {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_schedule_of_uses_tells_what_goes_first() {
        let mut uses = Uses::default();
        [7, 8, 9, 8, 7].iter().zip(0..).for_each(|(&key, request)| uses.add(request, Key(key)));
        let mut policy = Foretold::new(3, uses);
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Belady misses as often as a reference model that searches for the object with the
        /// farthest next use.
        #[test]
        fn belady_misses_as_often_as_a_farthest_use_search(
            size in 1usize..12,
            objects in prop::collection::vec(prop_oneof![0u32..8, 0u32..30, 0u32..60], 0..600),
        ) {
            let next = |at: usize, object: u32| {
                let far = objects[at..].iter().position(|&other| other == object);
                far.map_or(NEVER, |far| (at + far) as u64)
            };
            let (mut policy, mut holds, mut misses) = (Belady::new(size as u32), Vec::<u32>::new(), [0, 0]);
            let mut twin = Vec::<u32>::new();
            for (at, &object) in objects.iter().enumerate() {
                policy.foresee(next(at + 1, object));
                if let Some(slot) = holds.iter().position(|&held| held == object) {
                    policy.touch(Slot(slot as u32));
                } else {
                    misses[0] += 1;
                    let slot = if holds.len() < size {
                        holds.push(object);
                        holds.len() - 1
                    } else {
                        let mut taken = 0;
                        policy.evict(&mut |slot| { taken = slot.0 as usize; Verdict::TAKE_AND_STOP });
                        holds[taken] = object;
                        taken
                    };
                    policy.insert(Slot(slot as u32), Key(object));
                }
                if !twin.contains(&object) {
                    misses[1] += 1;
                    if twin.len() == size {
                        let farthest = (0..size).max_by_key(|&held| next(at, twin[held])).unwrap();
                        twin.remove(farthest);
                    }
                    twin.push(object);
                }
            }
            prop_assert_eq!(misses[0], misses[1]);
        }
    }
}
