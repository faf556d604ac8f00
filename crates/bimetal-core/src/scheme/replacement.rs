//! The interface of replacement policies: the order in which cached blocks are evicted from their
//! slots. [`policies::replacement`](crate::policies::replacement) has the table of the policies.

use crate::block::Key;
use crate::block_map::Slot;

/// Answer of the caller to a slot that a policy offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Set if the slot is evicted: the policy no longer holds the slot.
    pub take: bool,
    /// Set if the policy shall offer another slot.
    pub more: bool,
}

impl Verdict {
    /// The slot is evicted, and the caller needs no more slots.
    pub const TAKE_AND_STOP: Self = Self { take: true, more: false };
}

/// A replacement policy over slots.
pub trait Replacement: Send {
    /// Returns true if this is only the place of a policy, which a simulation must
    /// [put in](Self::replace) before the first request.
    fn is_missing(&self) -> bool {
        false
    }

    /// Announces that up to `slots` slots are kept free, so that evictions begin before all slots
    /// have blocks. Called while the policy holds no slot.
    fn keep_free(&mut self, slots: u32) {
        let _ = slots;
    }

    /// Puts the policy that `make` makes in the place of this policy. Returns false if this policy
    /// cannot be replaced.
    fn replace(&mut self, make: &mut dyn FnMut() -> Box<dyn Replacement>) -> bool {
        let _ = make;
        false
    }

    /// Notes that a request arrives. Called before all other calls that the request causes.
    fn arrived(&mut self) {}

    /// Announces that the block `key` will be inserted next, after room was made for it. Only
    /// callers that know the next block before they make room call this function.
    fn expect(&mut self, key: Key) {
        let _ = key;
    }

    /// Adds `slot`, which the policy does not hold, with the block `key`.
    fn insert(&mut self, slot: Slot, key: Key);

    /// Notes a use of the block in `slot`.
    fn touch(&mut self, slot: Slot);

    /// Moves a block from the slot `from` to the slot `to`, which the policy does not hold. A
    /// change of the slot is not a use of the block.
    fn rename(&mut self, from: Slot, to: Slot);

    /// Removes `slot` for any reason other than [`evict`](Self::evict). A policy with ghosts
    /// remembers the block nevertheless. Nothing happens if the policy does not hold the slot.
    fn remove(&mut self, slot: Slot);

    /// Offers slots in the order in which the policy would evict them, each at most once. The offer
    /// ends when no slot is left, or when `judge` wants no more slots. Slots that `judge` takes
    /// leave the policy.
    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict);

    /// Returns the number of slots that the policy holds.
    fn len(&self) -> u32;

    /// Returns true if the policy holds no slot.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Replacement for Box<dyn Replacement> {
    fn is_missing(&self) -> bool {
        (**self).is_missing()
    }

    fn keep_free(&mut self, slots: u32) {
        (**self).keep_free(slots);
    }

    fn replace(&mut self, make: &mut dyn FnMut() -> Box<dyn Replacement>) -> bool {
        *self = make();
        true
    }

    fn arrived(&mut self) {
        (**self).arrived();
    }

    fn expect(&mut self, key: Key) {
        (**self).expect(key);
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        (**self).insert(slot, key);
    }

    fn touch(&mut self, slot: Slot) {
        (**self).touch(slot);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        (**self).rename(from, to);
    }

    fn remove(&mut self, slot: Slot) {
        (**self).remove(slot);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        (**self).evict(judge);
    }

    fn len(&self) -> u32 {
        (**self).len()
    }
}
