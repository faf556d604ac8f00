//! Replacement policies: the order in which cached blocks are evicted from their slots.
//!
//! A policy knows slots, and a [`Key`] for each block, by which it recognises blocks that it
//! evicted before. A policy is notified when a block is inserted, used, moved to another slot or
//! removed. The policy offers slots to a caller that needs room. A scheme may refuse slots with
//! dirty content. Every step is deterministic and allocates nothing: all memory is allocated when
//! the policy is made.

use super::{arc, clock, lirs, lrfu, lru, s3fifo, sieve, two_queues, wtinylfu};
pub use crate::block::Key;
use crate::block_map::Slot;
pub use crate::scheme::{Replacement, Verdict};
use crate::settings::{Kind, Value};

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

/// Name of Belady's MIN, which must know all future uses. Only a simulation has this policy.
pub const OFFLINE_NAME: &str = "belady";

/// Place of Belady's MIN in a scheme. The policy's memory is the list of the workload's uses, so no
/// bytes are counted for each slot.
static OFFLINE: PolicyInfo = PolicyInfo { name: OFFLINE_NAME, bytes_per_slot: 0.0, build: |_| Box::new(Missing) };

/// Place of a policy that a simulation puts in before the first request.
struct Missing;

impl Replacement for Missing {
    fn is_missing(&self) -> bool {
        true
    }

    fn insert(&mut self, _slot: Slot, _key: Key) {
        unreachable!("a volume without its policy is refused before its first request");
    }

    fn touch(&mut self, _slot: Slot) {}

    fn rename(&mut self, _from: Slot, _to: Slot) {}

    fn remove(&mut self, _slot: Slot) {}

    fn evict(&mut self, _judge: &mut dyn FnMut(Slot) -> Verdict) {}

    fn len(&self) -> u32 {
        0
    }
}
