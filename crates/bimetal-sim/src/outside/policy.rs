//! Replacement by a policy of another program, such as a class in Python: the program sees blocks
//! by their keys, and this adapter their slots.
//!
//! The other program may make mistakes. A block that the other program offers twice, or that is not
//! in the cache, is passed over. If the program offers too few blocks, the blocks in the lowest
//! slots are next.

use std::collections::{BTreeMap, BTreeSet};

use bimetal_core::block::Key;
use bimetal_core::block_map::Slot;
use bimetal_core::scheme::{Replacement, Verdict};

/// Policy of another program that chooses the blocks that leave a cache.
pub trait OutsidePolicy: Send {
    /// Notes that the block `key` came into the cache.
    fn insert(&mut self, key: Key);

    /// Notes a use of the block `key`, which is in the cache.
    fn touch(&mut self, key: Key);

    /// Notes that the block `key` left the cache.
    fn remove(&mut self, key: Key);

    /// Offers blocks in the order in which they shall leave, until `offer` returns false. A block
    /// that is not in the cache is passed over.
    fn order(&mut self, offer: &mut dyn FnMut(Key) -> bool);
}

/// Policy of another program over slots.
pub(crate) struct Outside {
    policy: Box<dyn OutsidePolicy>,
    /// Key of the block in each slot.
    keys: Vec<Option<u32>>,
    /// Slot of each key.
    places: BTreeMap<u32, Slot>,
}

impl Outside {
    /// Returns `policy` over `slots` slots.
    pub(crate) fn new(policy: Box<dyn OutsidePolicy>, slots: u32) -> Self {
        Self { policy, keys: vec![None; slots as usize], places: BTreeMap::new() }
    }

    fn forget(&mut self, slot: Slot) {
        let Some(key) = self.keys.get_mut(slot.0 as usize).and_then(Option::take) else { return };
        if self.places.get(&key) == Some(&slot) {
            self.places.remove(&key);
        }
        self.policy.remove(Key(key));
    }
}

impl Replacement for Outside {
    fn insert(&mut self, slot: Slot, key: Key) {
        self.keys[slot.0 as usize] = Some(key.0);
        self.places.insert(key.0, slot);
        self.policy.insert(key);
    }

    fn touch(&mut self, slot: Slot) {
        if let Some(key) = self.keys[slot.0 as usize] {
            self.policy.touch(Key(key));
        }
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        let key = self.keys[from.0 as usize].take();
        self.keys[to.0 as usize] = key;
        self.places.extend(key.map(|key| (key, to)));
    }

    fn remove(&mut self, slot: Slot) {
        self.forget(slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let (mut taken, mut seen, mut more) = (Vec::new(), BTreeSet::new(), true);
        let mut offer = |slot: Slot| {
            if more && seen.insert(slot.0) {
                let verdict = judge(slot);
                taken.extend(verdict.take.then_some(slot));
                more = verdict.more;
            }
            more
        };
        let places = &self.places;
        self.policy.order(&mut |key| places.get(&key.0).is_none_or(|&slot| offer(slot)));
        let held = self.keys.iter().enumerate().filter(|(_, key)| key.is_some());
        held.map(|(slot, _)| Slot(slot as u32)).take_while(|&slot| offer(slot)).for_each(drop);
        taken.into_iter().for_each(|slot| self.forget(slot));
    }

    fn len(&self) -> u32 {
        self.keys.iter().flatten().count() as u32
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers blocks first in, first out, with a stranger in front and each block twice.
    #[derive(Default)]
    struct Careless(Vec<u32>);

    impl OutsidePolicy for Careless {
        fn insert(&mut self, key: Key) {
            self.0.push(key.0);
        }

        fn touch(&mut self, _key: Key) {}

        fn remove(&mut self, key: Key) {
            self.0.retain(|known| *known != key.0);
        }

        fn order(&mut self, offer: &mut dyn FnMut(Key) -> bool) {
            let offered = [99].into_iter().chain(self.0.iter().flat_map(|&key| [key, key]).take(2));
            offered.take_while(|&key| offer(Key(key))).for_each(drop);
        }
    }

    fn offered(policy: &mut Outside, take: impl Fn(Slot) -> bool, most: usize) -> Vec<u32> {
        let mut slots = Vec::new();
        policy.evict(&mut |slot| {
            slots.push(slot.0);
            Verdict { take: take(slot), more: slots.len() < most }
        });
        slots
    }

    #[test]
    fn careless_policy_offers_each_slot_once_and_all_slots() {
        let mut policy = Outside::new(Box::new(Careless::default()), 4);
        [(2, 7), (0, 8), (3, 9)].into_iter().for_each(|(slot, key)| policy.insert(Slot(slot), Key(key)));
        assert_eq!(offered(&mut policy, |_| false, 10), [2, 0, 3]);
        assert_eq!(offered(&mut policy, |slot| slot.0 != 2, 2), [2, 0]);
        assert_eq!((policy.len(), offered(&mut policy, |_| false, 10)), (2, vec![2, 3]));
    }

    #[test]
    fn renamed_block_keeps_its_place_in_the_order() {
        let mut policy = Outside::new(Box::new(Careless::default()), 4);
        [(0, 7), (1, 8)].into_iter().for_each(|(slot, key)| policy.insert(Slot(slot), Key(key)));
        policy.rename(Slot(0), Slot(3));
        assert_eq!(offered(&mut policy, |_| true, 1), [3]);
        policy.remove(Slot(1));
        assert!(policy.is_empty() && policy.len() == 0);
    }
}
