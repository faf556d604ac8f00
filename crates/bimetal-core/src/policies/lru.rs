//! Least recently used: the slot whose block was used longest ago is evicted first.
//!
//! A doubly linked list threaded through an array indexed by slot. Every step is O(1), and nothing
//! is allocated while requests are served.

use super::replacement::{Key, Replacement, Verdict};
use crate::block_map::Slot;

/// Name of the policy.
pub const NAME: &str = "lru";

/// Resident bytes for each slot in use: two links.
pub const BYTES_PER_BLOCK: f64 = 8.0;

const NONE: u32 = u32::MAX;

/// A list of slots from the least to the most recently used.
pub struct Lru {
    /// For each slot, the slot touched before it and the slot touched after it. A link is stored as
    /// the slot number plus two and the list's end as one, so that untouched memory (zero) means
    /// "in no list".
    links: Vec<[u32; 2]>,
    oldest: u32,
    newest: u32,
    len: u32,
}

const OLDER: usize = 0;
const NEWER: usize = 1;

impl Lru {
    /// Returns the empty list over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { links: vec![[0, 0]; slots as usize], oldest: NONE, newest: NONE, len: 0 }
    }

    /// Returns the number of slots in the list.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if no slot is in the list.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn link(&self, slot: u32, side: usize) -> u32 {
        self.links[slot as usize][side].wrapping_sub(1).wrapping_sub(1)
    }

    fn set_link(&mut self, slot: u32, side: usize, to: u32) {
        self.links[slot as usize][side] = to.wrapping_add(2);
    }

    /// Returns true if `slot` is in the list.
    pub fn contains(&self, slot: Slot) -> bool {
        self.links[slot.0 as usize] != [0, 0]
    }

    /// Puts `slot` at the most recent end, regardless of its present position.
    pub fn touch(&mut self, slot: Slot) {
        if self.newest == slot.0 {
            return;
        }
        self.remove(slot);
        let newest = self.newest;
        self.set_link(slot.0, OLDER, newest);
        self.set_link(slot.0, NEWER, NONE);
        if newest == NONE {
            self.oldest = slot.0;
        } else {
            self.set_link(newest, NEWER, slot.0);
        }
        self.newest = slot.0;
        self.len += 1;
    }

    /// Takes `slot` out of the list. Nothing happens if `slot` is not in the list.
    pub fn remove(&mut self, slot: Slot) {
        if !self.contains(slot) {
            return;
        }
        let (older, newer) = (self.link(slot.0, OLDER), self.link(slot.0, NEWER));
        match older {
            NONE => self.oldest = newer,
            older => self.set_link(older, NEWER, newer),
        }
        match newer {
            NONE => self.newest = older,
            newer => self.set_link(newer, OLDER, older),
        }
        self.links[slot.0 as usize] = [0, 0];
        self.len -= 1;
    }

    /// Returns the slots from the least to the most recently used.
    pub fn oldest_first(&self) -> impl Iterator<Item = Slot> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let slot = (next != NONE).then_some(Slot(next))?;
            next = self.link(slot.0, NEWER);
            Some(slot)
        })
    }
}

impl Replacement for Lru {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.touch(slot);
    }

    fn touch(&mut self, slot: Slot) {
        Lru::touch(self, slot);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        let (older, newer) = (self.link(from.0, OLDER), self.link(from.0, NEWER));
        self.links[to.0 as usize] = std::mem::take(&mut self.links[from.0 as usize]);
        match older {
            NONE => self.oldest = to.0,
            older => self.set_link(older, NEWER, to.0),
        }
        match newer {
            NONE => self.newest = to.0,
            newer => self.set_link(newer, OLDER, to.0),
        }
    }

    fn remove(&mut self, slot: Slot) {
        Lru::remove(self, slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let mut next = self.oldest;
        while next != NONE {
            let slot = Slot(next);
            next = self.link(slot.0, NEWER);
            let verdict = judge(slot);
            if verdict.take {
                Lru::remove(self, slot);
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        Lru::len(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_list_in_order_of_last_touch(steps in proptest::collection::vec((any::<bool>(), 0u32..12), 0..200)) {
            let mut lru = Lru::new(12);
            let mut model: Vec<u32> = Vec::new();
            for (touch, slot) in steps {
                model.retain(|&other| other != slot);
                if touch {
                    lru.touch(Slot(slot));
                    model.push(slot);
                } else {
                    lru.remove(Slot(slot));
                }
                prop_assert_eq!(lru.oldest_first().map(|slot| slot.0).collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(lru.len() as usize, model.len());
            }
        }
    }
}
