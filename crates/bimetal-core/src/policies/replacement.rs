//! Replacement policies: the order in which cached blocks are evicted from their slots.
//!
//! A policy knows slots, and a [`Key`] for each block, by which it recognises blocks that it
//! evicted before. A policy is notified when a block is inserted, used, moved to another slot or
//! removed. The policy offers slots to a caller that needs room. A scheme may refuse slots with
//! dirty content. Every step is deterministic and allocates nothing: all memory is allocated when
//! the policy is made.

use super::{arc, belady, clock, lirs, lrfu, lru, s3fifo, sieve, two_queues, wtinylfu};
pub use crate::block::Key;
use crate::block_map::Slot;
use crate::settings::{Kind, Value};
use crate::uses::Uses;

/// Answer of the caller to a slot that a policy offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Set if the slot is evicted: the policy no longer holds the slot.
    pub take: bool,
    /// Set if the policy must offer another slot.
    pub more: bool,
}

impl Verdict {
    /// The slot is evicted, and the caller needs no more slots.
    pub const TAKE_AND_STOP: Self = Self { take: true, more: false };
}

/// A replacement policy over slots.
pub trait Replacement: Send {
    /// Returns true if the policy needs to know all future uses of each block, and does not know
    /// them yet.
    fn lacks_foresight(&self) -> bool {
        false
    }

    /// Supplies the future uses of each block. Called before the first request, and only in a
    /// simulation.
    fn foresee(&mut self, uses: Uses) {
        let _ = uses;
    }

    /// Announces that up to `slots` slots are kept free, so that evictions begin before all slots
    /// have blocks. Called while the policy holds no slot.
    fn keep_free(&mut self, slots: u32) {
        let _ = slots;
    }

    /// Puts the policy that `make` makes in the place of this policy. Returns false if this policy
    /// cannot be replaced.
    fn replace(&mut self, make: &dyn Fn() -> Box<dyn Replacement>) -> bool {
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
    /// ends when no slot is left, or when `judge` ends the search. Slots that `judge` takes leave
    /// the policy.
    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict);

    /// Returns the number of slots that the policy holds.
    fn len(&self) -> u32;

    /// Returns true if the policy holds no slot.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Replacement for Box<dyn Replacement> {
    fn lacks_foresight(&self) -> bool {
        (**self).lacks_foresight()
    }

    fn foresee(&mut self, uses: Uses) {
        (**self).foresee(uses);
    }

    fn keep_free(&mut self, slots: u32) {
        (**self).keep_free(slots);
    }

    fn replace(&mut self, make: &dyn Fn() -> Box<dyn Replacement>) -> bool {
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

/// Name of a policy and the function that makes it.
pub struct PolicyInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// Resident bytes for each slot, ghosts included, in the worst case.
    pub bytes_per_slot: f64,
    /// Function that makes the policy for a number of slots.
    pub build: fn(u32) -> Box<dyn Replacement>,
}

/// The policies that work without knowledge of the future, in the order in which tables show them.
pub const ONLINE: &[PolicyInfo] = &[
    PolicyInfo { name: lru::NAME, bytes_per_slot: lru::BYTES_PER_BLOCK, build: |slots| Box::new(lru::Lru::new(slots)) },
    PolicyInfo {
        name: "clock",
        bytes_per_slot: clock::BYTES_PER_SLOT,
        build: |slots| Box::new(clock::Clock::new(slots)),
    },
    PolicyInfo { name: "arc", bytes_per_slot: arc::BYTES_PER_SLOT, build: |slots| Box::new(arc::Arc::new(slots)) },
    PolicyInfo { name: "lirs", bytes_per_slot: lirs::BYTES_PER_SLOT, build: |slots| Box::new(lirs::Lirs::new(slots)) },
    PolicyInfo {
        name: "2q",
        bytes_per_slot: two_queues::BYTES_PER_SLOT,
        build: |slots| Box::new(two_queues::TwoQueues::new(slots)),
    },
    PolicyInfo {
        name: "s3fifo",
        bytes_per_slot: s3fifo::BYTES_PER_SLOT,
        build: |slots| Box::new(s3fifo::S3Fifo::new(slots)),
    },
    PolicyInfo {
        name: "sieve",
        bytes_per_slot: sieve::BYTES_PER_SLOT,
        build: |slots| Box::new(sieve::Sieve::new(slots)),
    },
    PolicyInfo {
        name: "wtinylfu",
        bytes_per_slot: wtinylfu::BYTES_PER_SLOT,
        build: |slots| Box::new(wtinylfu::WTinyLfu::new(slots)),
    },
    PolicyInfo { name: "lrfu", bytes_per_slot: lrfu::BYTES_PER_SLOT, build: |slots| Box::new(lrfu::Lrfu::new(slots)) },
];

/// Names of [`ONLINE`], for the parameter of a scheme that replaces other things than blocks.
pub const ONLINE_NAMES: &[&str] = &["lru", "clock", "arc", "lirs", "2q", "s3fifo", "sieve", "wtinylfu", "lrfu"];

/// Names of all policies, for a scheme's parameter. The last policy in the list is for simulations
/// only.
pub const NAMES: &[&str] = &["lru", "clock", "arc", "lirs", "2q", "s3fifo", "sieve", "wtinylfu", "lrfu", OFFLINE_NAME];

/// Largest number of bytes that any policy of [`ONLINE`] needs for each slot.
pub const BYTES_PER_SLOT_MAX: f64 = lirs::BYTES_PER_SLOT;

/// Returns the online policy called `name`.
pub fn online(name: &str) -> Option<&'static PolicyInfo> {
    ONLINE.iter().find(|info| info.name == name)
}

/// Value of a parameter: the name of any policy.
#[derive(Clone, Copy)]
pub struct Policy(pub &'static PolicyInfo);

impl Value for Policy {
    const KIND: Kind = Kind::Choice(NAMES);

    fn read(text: &str) -> Option<Self> {
        if text == OFFLINE_NAME { Some(Self(&OFFLINE)) } else { online(text).map(Self) }
    }
}

/// Value of a parameter: the name of a policy of [`ONLINE`].
#[derive(Clone, Copy)]
pub struct OnlinePolicy(pub &'static PolicyInfo);

impl Value for OnlinePolicy {
    const KIND: Kind = Kind::Choice(ONLINE_NAMES);

    fn read(text: &str) -> Option<Self> {
        online(text).map(Self)
    }
}

/// Name of Belady's MIN, which needs to know all future uses: [`belady::Belady`].
pub const OFFLINE_NAME: &str = belady::NAME;

/// Belady's MIN for a scheme in a simulation. The policy's memory is the list of the workload's
/// uses, so no bytes are counted for each slot.
static OFFLINE: PolicyInfo =
    PolicyInfo { name: OFFLINE_NAME, bytes_per_slot: 0.0, build: |slots| Box::new(belady::Foretold::new(slots)) };
