//! What a replacement policy is: the order in which cached blocks give up their slots.
//!
//! A policy knows slots and, to recognise what it gave up before, a [`Key`] for each block. It hears of every block that
//! comes in, is used, moves or goes, and offers slots to whoever needs room; a scheme may refuse those with dirty
//! content. Every step is deterministic and allocates nothing; memory is laid out when the policy is made.

use super::uses::Uses;
use super::{arc, belady, clock, lirs, lrfu, lru, s3fifo, sieve, two_queues, wtinylfu};
use crate::block::Block;
use crate::block_map::Slot;
use crate::settings::Settings;

/// By what a policy recognises a block that is no longer in a slot: a block's number, folded to 32 bits. Below 2^32
/// (16 TiB of 4 KiB blocks) no two blocks share one; beyond that a mistaken recognition only costs a better choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub u32);

impl From<Block> for Key {
    #[inline]
    fn from(block: Block) -> Self {
        Self(block.0 as u32 ^ ((block.0 >> 32) as u32).wrapping_mul(0x9e37_79b1))
    }
}

/// What is to become of a slot that a policy offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The slot is given up: it leaves the policy.
    pub take: bool,
    /// Offer another one.
    pub more: bool,
}

impl Verdict {
    /// The slot goes and no more are needed.
    pub const TAKE_AND_STOP: Self = Self { take: true, more: false };
}

/// A replacement policy over slots.
pub trait Replacement: Send {
    /// Whether it has to be told when each block is used, and has not been.
    fn lacks_foresight(&self) -> bool {
        false
    }

    /// When each block is used; before the first request, and only in a simulation.
    fn foresee(&mut self, uses: Uses) {
        let _ = uses;
    }

    /// Up to so many slots are kept free: it is asked to give up slots before all of them have blocks. Before it holds any.
    fn keep_free(&mut self, slots: u32) {
        let _ = slots;
    }

    /// A request arrives: comes before anything else that it causes.
    fn arrived(&mut self) {}

    /// The block `key` is about to come in and room will be made for it. Only who knows what comes in before it makes
    /// room calls this; the block must be inserted next.
    fn expect(&mut self, key: Key) {
        let _ = key;
    }

    /// The block `key` has come into `slot`, which the policy does not hold.
    fn insert(&mut self, slot: Slot, key: Key);

    /// The block in `slot` was used.
    fn touch(&mut self, slot: Slot);

    /// The block in `from` lies in `to` from now on, which the policy does not hold. No use of it.
    fn rename(&mut self, from: Slot, to: Slot);

    /// The block in `slot` goes, for whatever reason but [`evict`](Self::evict). A policy with a memory remembers it
    /// all the same. Nothing happens if the policy does not hold the slot.
    fn remove(&mut self, slot: Slot);

    /// Offers slots in the order in which the policy would give them up, each at most once, until there is no other or
    /// no more are wanted. What is taken leaves the policy.
    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict);

    /// How many slots it holds.
    fn len(&self) -> u32;

    /// Whether it holds no slot.
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

/// A policy's name and how it is made.
pub struct PolicyInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// Resident bytes for each slot, ghosts included, in the worst case.
    pub bytes_per_slot: f64,
    /// Makes one over so many slots.
    pub build: fn(u32) -> Box<dyn Replacement>,
}

/// The policies that work without knowledge of the future, in the order in which tables show them.
pub const ONLINE: &[PolicyInfo] = &[
    PolicyInfo { name: "lru", bytes_per_slot: lru::BYTES_PER_BLOCK, build: |slots| Box::new(lru::Lru::new(slots)) },
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

/// The names of [`ONLINE`], as the parameter takes them of a scheme that replaces other things than blocks.
pub const ONLINE_NAMES: &[&str] = &["lru", "clock", "arc", "lirs", "2q", "s3fifo", "sieve", "wtinylfu", "lrfu"];

/// The names of all, as a scheme's parameter takes them; the last is for simulations only.
pub const NAMES: &[&str] = &["lru", "clock", "arc", "lirs", "2q", "s3fifo", "sieve", "wtinylfu", "lrfu", OFFLINE_NAME];

/// The most that any of [`ONLINE`] needs for each slot.
pub const BYTES_PER_SLOT_MAX: f64 = lirs::BYTES_PER_SLOT;

/// The online policy called `name`.
pub fn online(name: &str) -> Option<&'static PolicyInfo> {
    ONLINE.iter().find(|info| info.name == name)
}

/// The policy that the parameter `key` of `settings` names.
pub fn chosen(settings: &Settings, key: &str) -> &'static PolicyInfo {
    let name = settings.text(key);
    if name == OFFLINE_NAME {
        return &OFFLINE;
    }
    online(name).expect("settings are checked against the table of policies")
}

/// The name of Belady's MIN, which needs to be told the future: [`belady::Belady`].
pub const OFFLINE_NAME: &str = belady::NAME;

/// Belady's MIN for a scheme in a simulation. Its memory is that of the workload's uses.
const OFFLINE: PolicyInfo =
    PolicyInfo { name: OFFLINE_NAME, bytes_per_slot: 0.0, build: |slots| Box::new(belady::Foretold::new(slots)) };
