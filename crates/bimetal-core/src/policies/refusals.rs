//! Slots that a scheme has refused to give up in an eviction.

#[cfg(test)]
use super::replacement::{Key, Replacement, Verdict};
use crate::block_map::Slot;

/// Records the slots that were refused in the current eviction, so that each eviction offers a slot
/// once.
pub(super) struct Refusals {
    /// For each slot, the number of the last eviction that refused it; 0 if none did.
    refused_in: Vec<u32>,
    eviction: u32,
}

impl Refusals {
    pub(super) fn new(slots: u32) -> Self {
        Self { refused_in: vec![0; slots as usize], eviction: 0 }
    }

    /// Begins an eviction, in which no slot is refused yet.
    pub(super) fn begin_eviction(&mut self) {
        self.eviction = self.eviction.checked_add(1).unwrap_or_else(|| {
            self.refused_in.fill(0);
            1
        });
    }

    pub(super) fn note(&mut self, slot: Slot) {
        self.refused_in[slot.0 as usize] = self.eviction;
    }

    /// Returns true if the current eviction has refused `slot`.
    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.refused_in[slot.0 as usize] == self.eviction
    }

    /// Lets the next eviction be the first after the last number.
    #[cfg(test)]
    pub(super) fn use_up_numbers(&mut self) {
        self.eviction = u32::MAX;
    }
}

/// Fills `policy` with `slots` slots, and returns the number of slots that an eviction offers if it
/// refuses each.
#[cfg(test)]
pub(super) fn offered_if_all_are_refused(policy: &mut dyn Replacement, slots: u32) -> u32 {
    (0..slots).for_each(|slot| policy.insert(Slot(slot), Key(0)));
    let mut offered = 0;
    policy.evict(&mut |_| {
        offered += 1;
        Verdict { take: false, more: true }
    });
    offered
}
