//! Belady's MIN (Belady: *A Study of Replacement Algorithms for a Virtual-Storage Computer*, 1966): the block whose next use is farthest
//! off goes. No policy misses less; it needs to be told the future, so it is a bound and not a choice.
//!
//! [`Belady`] is told the next use of each block that it hears of; [`Foretold`] finds it itself, in a schedule of all uses, and so
//! is a policy for schemes in a simulation.
//!
//! Of blocks that are never used again the one in the lowest slot goes first, which changes no miss ratio.

use super::indexed_heap::IndexedHeap;
use super::replacement::{Key, Replacement, Verdict};
use super::uses::Uses;
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

/// The policy for a scheme, whose cache hears of uses late and out of order: told once when every block is used, and of each
/// request that arrives.
pub struct Foretold {
    belady: Belady,
    uses: Option<Uses>,
    /// Requests that arrived.
    arrived: u32,
    /// The block in each slot.
    keys: Vec<Key>,
}

impl Foretold {
    /// The policy over `slots` slots, which has to be told the uses before the first request.
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
