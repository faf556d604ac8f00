//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: *SIEVE is Simpler than LRU*, NSDI 2024, section 3,
//! algorithm 1): a queue in order of arrival, and a hand that goes from the old to the new end. A
//! block that was used since the hand's last visit stays in its position, unmarked. The hand evicts
//! the first block that was not used since its last visit. Nothing moves on a hit.

use super::refusals::Refusals;
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 5.0;

/// The SIEVE policy.
pub struct Sieve {
    queue: SlotLists<1>,
    visited: Vec<bool>,
    refusals: Refusals,
    /// Slot that the hand looks at next; `None` is the old end.
    hand: Option<Slot>,
}

impl Sieve {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self {
            queue: SlotLists::new(slots),
            visited: vec![false; slots as usize],
            refusals: Refusals::new(slots),
            hand: None,
        }
    }

    fn take_out(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.remove(slot);
    }
}

impl Replacement for Sieve {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.queue.push(0, slot);
        self.visited[slot.0 as usize] = false;
    }

    fn touch(&mut self, slot: Slot) {
        self.visited[slot.0 as usize] = true;
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.queue.rename(from, to);
        self.visited[to.0 as usize] = self.visited[from.0 as usize];
        if self.hand == Some(from) {
            self.hand = Some(to);
        }
    }

    fn remove(&mut self, slot: Slot) {
        if self.queue.list_of(slot).is_some() {
            self.take_out(slot);
        }
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        self.refusals.begin_eviction();
        let mut refused = 0;
        while refused < self.queue.len(0) {
            let Some(slot) = self.hand.or(self.queue.oldest(0)) else { return };
            self.hand = self.queue.newer(slot);
            if std::mem::take(&mut self.visited[slot.0 as usize]) || self.refusals.contains(slot) {
                continue;
            }
            let verdict = judge(slot);
            if verdict.take {
                self.take_out(slot);
            } else {
                self.refusals.note(slot);
                refused += 1;
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        self.queue.len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::refusals::offered_if_all_are_refused;
    use super::*;

    /// Regression: the number of the round became 0, which is the number of a slot that was never
    /// refused. All slots were passed over, without an end.
    #[test]
    fn round_after_the_last_number_ends() {
        let mut policy = Sieve::new(2);
        policy.refusals.use_up_numbers();
        assert_eq!(offered_if_all_are_refused(&mut policy, 2), 2);
    }
}
