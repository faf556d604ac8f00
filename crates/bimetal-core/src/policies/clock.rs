//! CLOCK (Corbató, *A Paging Experiment with the Multics System*, 1968): a hand goes round the
//! slots. The hand passes over a block that was used since the hand's last visit, and evicts every
//! other block.
//!
//! The ring is kept as a queue, which is equivalent (*FIFO with reinsertion*): the hand stands at
//! the old end, and blocks that it passes move to the new end. Each block has one bit of use, which
//! is clear when the block is inserted. A slot that the caller refuses is passed over as if it had
//! been used.

use super::refusals::Refusals;
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 5.0;

/// The CLOCK policy.
pub struct Clock {
    ring: SlotLists<1>,
    used: Vec<bool>,
    refusals: Refusals,
}

impl Clock {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { ring: SlotLists::new(slots), used: vec![false; slots as usize], refusals: Refusals::new(slots) }
    }
}

impl Replacement for Clock {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.ring.push(0, slot);
        self.used[slot.0 as usize] = false;
    }

    fn touch(&mut self, slot: Slot) {
        self.used[slot.0 as usize] = true;
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.ring.rename(from, to);
        self.used[to.0 as usize] = self.used[from.0 as usize];
    }

    fn remove(&mut self, slot: Slot) {
        self.ring.remove(slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        self.refusals.begin_eviction();
        let mut refused = 0;
        while refused < self.ring.len(0) {
            let Some(slot) = self.ring.oldest(0) else { return };
            if std::mem::take(&mut self.used[slot.0 as usize]) || self.refusals.contains(slot) {
                self.ring.refresh(0, slot);
                continue;
            }
            let verdict = judge(slot);
            if verdict.take {
                self.ring.remove(slot);
            } else {
                self.ring.refresh(0, slot);
                self.refusals.note(slot);
                refused += 1;
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        self.ring.len(0)
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
        let mut policy = Clock::new(2);
        policy.refusals.use_up_numbers();
        assert_eq!(offered_if_all_are_refused(&mut policy, 2), 2);
    }
}
