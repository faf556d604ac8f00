//! ARC (Megiddo, Modha: *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST 2003, figure 4).
//! List T1 has the blocks that were used once recently, T2 has the blocks used more often. B1 has
//! the ghosts of T1, and B2 the ghosts of T2. A target for the size of T1 moves towards the list
//! whose ghosts are requested.
//!
//! The target is a real number, as in the paper: it moves by the quotient of the ghosts' numbers,
//! not rounded.
//!
//! Our choices: ghosts beyond the paper's bounds are dropped when a block is inserted, not before
//! room is made, which leaves the same ghosts. A slot that the caller refuses stays in its
//! position. When a list has no more slots to offer, the other list offers slots.

use super::ghosts::{self, Ghosts};
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot, and for a ghost.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 4.0 + ghosts::BYTES_PER_GHOST;

/// Blocks used once: List T1, and its ghosts B1.
const ONCE: usize = 0;
/// Blocks used more than once recently: List T2, and its ghosts B2.
const OFTEN: usize = 1;

/// The ARC policy.
pub struct Arc {
    lists: SlotLists<2>,
    keys: Vec<u32>,
    ghosts: Ghosts<2>,
    slots: u32,
    /// Target for the size of T1: p in the paper.
    once_target: f64,
    /// Block that was announced, and the list that its ghost was in.
    expected: Option<(Key, Option<usize>)>,
}

impl Arc {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self {
            lists: SlotLists::new(slots),
            keys: vec![0; slots as usize],
            // One ghost above the bound, for the time between making room and filling it.
            ghosts: Ghosts::new(slots.saturating_add(1)),
            slots,
            once_target: 0.0,
            expected: None,
        }
    }

    /// Takes the ghost of `key` and adapts the target (cases II and III of the paper).
    fn recognise(&mut self, key: Key) -> Option<usize> {
        let (once, often) = (f64::from(self.ghosts.len(ONCE)), f64::from(self.ghosts.len(OFTEN)));
        let list = self.ghosts.take(key)?;
        if list == ONCE {
            self.once_target = (self.once_target + (often / once).max(1.0)).min(f64::from(self.slots));
        } else {
            self.once_target = (self.once_target - (once / often).max(1.0)).max(0.0);
        }
        Some(list)
    }

    /// Drops the ghosts that exceed the bounds of case IV: |T1| + |B1| ≤ c, and all four lists
    /// together ≤ 2c.
    fn bound_ghosts(&mut self) {
        if self.lists.len(ONCE) + self.ghosts.len(ONCE) > self.slots && self.ghosts.len(ONCE) > 0 {
            self.ghosts.drop_oldest(ONCE);
        }
        if self.len() + self.ghosts.len(ONCE) + self.ghosts.len(OFTEN) > 2 * self.slots {
            self.ghosts.drop_oldest(OFTEN);
        }
    }
}

impl Replacement for Arc {
    fn expect(&mut self, key: Key) {
        let list = self.recognise(key);
        self.expected = Some((key, list));
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        let ghost_of = match self.expected.take() {
            Some((expected, list)) if expected == key => list,
            _ => self.recognise(key),
        };
        self.keys[slot.0 as usize] = key.0;
        self.lists.push(if ghost_of.is_some() { OFTEN } else { ONCE }, slot);
        self.bound_ghosts();
    }

    fn touch(&mut self, slot: Slot) {
        self.lists.refresh(OFTEN, slot);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.lists.rename(from, to);
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
    }

    fn remove(&mut self, slot: Slot) {
        if let Some(list) = self.lists.remove(slot) {
            self.ghosts.push(list, Key(self.keys[slot.0 as usize]));
        }
    }

    /// Implements the paper's REPLACE.
    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let mut next = [self.lists.oldest(ONCE), self.lists.oldest(OFTEN)];
        let ghost_of_often = matches!(self.expected, Some((_, Some(OFTEN))));
        loop {
            let once = self.lists.len(ONCE);
            let size = f64::from(once);
            let from_once = size > self.once_target || size == self.once_target && ghost_of_often;
            let list = match (next[ONCE], next[OFTEN]) {
                (Some(_), None) => ONCE,
                (Some(_), Some(_)) if from_once && once > 0 => ONCE,
                _ => OFTEN,
            };
            let Some(slot) = next[list] else { return };
            next[list] = self.lists.newer(slot);
            let verdict = judge(slot);
            if verdict.take {
                self.remove(slot);
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        self.lists.len(ONCE) + self.lists.len(OFTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ghosts of blocks that were used often and two of blocks used once move the target by
    /// one and a half slots.
    #[test]
    fn target_moves_by_the_real_quotient_of_the_ghosts() {
        let mut arc = Arc::new(10);
        (0..3).for_each(|key| arc.ghosts.push(OFTEN, Key(key)));
        (10..12).for_each(|key| arc.ghosts.push(ONCE, Key(key)));
        assert_eq!(arc.recognise(Key(10)), Some(ONCE));
        assert_eq!(arc.once_target, 1.5);
        // One ghost of B1 is left beside three of B2: a quotient below one counts as one.
        assert_eq!(arc.recognise(Key(0)), Some(OFTEN));
        assert_eq!(arc.once_target, 0.5);
        assert_eq!(arc.recognise(Key(1)), Some(OFTEN));
        assert_eq!(arc.once_target, 0.0);
    }
}
