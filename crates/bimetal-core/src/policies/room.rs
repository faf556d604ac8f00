//! Room in a cache of blocks: keeps some slots free, in the eviction order of a replacement policy.
//! Clean copies are evicted at once. If no clean copies are left, dirty blocks are written back
//! first.

use super::replacement::{Key, Replacement, Verdict};
use crate::block::Block;
use crate::block_map::{BlockMap, Slot};
use crate::scheme::{View, Work};
use crate::units::Nanoseconds;

/// Number of dirty blocks that are written back together: 1 MiB of 4 KiB blocks, so that a request
/// that arrives during the move waits only briefly.
pub const BATCH_BLOCKS: usize = 256;

/// Number of copies looked at for each free slot that is wanted, before dirty blocks are written
/// back instead.
const LOOKS: usize = 4;

/// Copies in a cache, in the order in which they are evicted.
pub struct Room<R = Box<dyn Replacement>> {
    replacement: R,
    /// Number of slots.
    slots: u32,
    /// Number of slots that are kept free or are being freed, so that a write need not wait until
    /// an eviction is durable.
    reserve: u64,
    /// Set if no clean copy was found to evict while a move was under way.
    starved: bool,
}

impl<R: Replacement> Room<R> {
    /// Returns the room of a cache with `slots` slots, all empty.
    pub fn new(mut replacement: R, slots: u32) -> Self {
        let reserve = (slots / 64).clamp(1, 4096);
        replacement.keep_free(2 * reserve);
        Self { replacement, slots, reserve: reserve.into(), starved: false }
    }

    /// [`Scheme::lacks_policy`](crate::scheme::Scheme::lacks_policy).
    pub fn lacks_policy(&self) -> bool {
        self.replacement.is_missing()
    }

    /// [`Scheme::take_policy`](crate::scheme::Scheme::take_policy).
    pub fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        let taken = self.replacement.is_empty() && self.replacement.replace(&mut || make(self.slots));
        if taken {
            self.replacement.keep_free(2 * self.reserve as u32);
        }
        taken
    }

    /// [`Scheme::arrived`](crate::scheme::Scheme::arrived).
    pub fn arrived(&mut self) {
        self.replacement.arrived();
    }

    /// [`Scheme::touched`](crate::scheme::Scheme::touched).
    pub fn touched(&mut self, slot: Slot) {
        self.replacement.touch(slot);
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped). A write to a block that had a slot counts
    /// as a use of the block.
    pub fn mapped(&mut self, view: &View, slot: Slot, replaced: Option<Slot>) {
        match replaced {
            Some(old) => {
                self.replacement.rename(old, slot);
                self.replacement.touch(slot);
            }
            None => {
                let block = view.map.in_slot(slot).expect("a slot that was just mapped is in the map").block;
                self.replacement.insert(slot, Key::from(block));
            }
        }
    }

    /// [`Scheme::unmapped`](crate::scheme::Scheme::unmapped).
    pub fn unmapped(&mut self, slot: Slot) {
        self.replacement.remove(slot);
    }

    /// Returns true if more slots are free than the target, which is twice the reserve.
    pub fn is_ample(&self, view: &View) -> bool {
        view.free_slots + view.freeing_slots > 2 * self.reserve
    }

    /// Returns true if [`make`](Self::make) is due now.
    pub fn is_due(&self, view: &View) -> bool {
        let short = view.free_slots + view.freeing_slots < self.reserve;
        short && !self.replacement.is_empty() && view.slots_online() && !(self.starved && view.moving)
    }

    /// Returns the work that frees slots up to the target. If dirty blocks must be written back,
    /// the work moves at least a batch, so that one seek serves many blocks.
    pub fn make(&mut self, view: &View) -> Work {
        let wanted = (2 * self.reserve - (view.free_slots + view.freeing_slots).min(2 * self.reserve)) as usize;
        self.make_for(view, wanted, BATCH_BLOCKS)
    }

    /// Returns the work that frees slots up to the target. Among the first quarter of the copies in
    /// the policy's order, clean copies of blocks that are not `spared` are evicted first.
    pub fn make_sparing(&mut self, view: &View, spared: impl Fn(Block) -> bool) -> Work {
        let wanted = (2 * self.reserve - (view.free_slots + view.freeing_slots).min(2 * self.reserve)) as usize;
        let looks = (self.replacement.len() / 4) as usize;
        let others = self.evict_clean(view, wanted, looks.max(wanted), spared);
        if others.is_empty() { self.make(view) } else { Work::Evict(others) }
    }

    /// Returns the next work of a cache that writes back in rounds. Making room comes first, if
    /// room is due. If no room is due, the next dirty slots are written back once `write_back_at`
    /// has passed.
    pub fn work(&mut self, view: &View, write_back_at: Option<Nanoseconds>, round: &mut Round) -> Work {
        if self.is_due(view) {
            return self.make(view);
        }
        match write_back_at {
            Some(at) if at <= view.now => Work::MoveHome { slots: round.next(&view.map, BATCH_BLOCKS), keep: true },
            _ => Work::Nothing,
        }
    }

    /// Returns the work that frees `wanted` slots in the policy's order. Clean copies are evicted.
    /// If none of the first slots is clean, dirty slots are moved home: at least `moved_min` slots,
    /// if the policy holds as many.
    pub fn make_for(&mut self, view: &View, wanted: usize, moved_min: usize) -> Work {
        let clean = self.evict_clean(view, wanted, LOOKS * wanted, |_| false);
        if !clean.is_empty() {
            self.starved = false;
            return Work::Evict(clean);
        }
        self.starved = view.moving;
        let slots = if view.moving { Vec::new() } else { self.first(wanted.max(moved_min)) };
        if slots.is_empty() { Work::Nothing } else { Work::MoveHome { slots, keep: false } }
    }

    /// Returns the replacement policy.
    pub fn replacement(&self) -> &R {
        &self.replacement
    }

    /// Returns the replacement policy, for changes of its state.
    pub fn replacement_mut(&mut self) -> &mut R {
        &mut self.replacement
    }

    /// Returns true if no slot has a copy.
    pub fn is_empty(&self) -> bool {
        self.replacement.is_empty()
    }

    /// Takes up to `wanted` clean copies out of the policy, from the first `looks` slots that it
    /// offers. Copies of `spared` blocks stay.
    fn evict_clean(&mut self, view: &View, wanted: usize, looks: usize, spared: impl Fn(Block) -> bool) -> Vec<Slot> {
        let (mut clean, mut looked) = (Vec::with_capacity(wanted), 0);
        self.replacement.evict(&mut |slot| {
            looked += 1;
            let take = !view.map.in_slot(slot).is_some_and(|entry| entry.dirty || spared(entry.block));
            if take {
                clean.push(slot);
            }
            Verdict { take, more: looked < looks && clean.len() < wanted }
        });
        clean
    }

    /// Returns the first `wanted` copies that the policy offers. The returned copies stay in the
    /// policy.
    pub fn first(&mut self, wanted: usize) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(wanted);
        self.replacement.evict(&mut |slot| {
            slots.push(slot);
            Verdict { take: false, more: slots.len() < wanted }
        });
        slots
    }
}

/// Cursor that goes round the dirty slots, in order of slot.
#[derive(Default)]
pub struct Round {
    up_to: Slot,
}

impl Round {
    /// Returns the next dirty slots, at most `wanted`, each at most once.
    pub fn next(&mut self, map: &BlockMap, wanted: usize) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(wanted);
        let mut from = self.up_to;
        let mut wrapped = false;
        while slots.len() < wanted {
            match map.next_dirty(from) {
                Some(slot) if wrapped && slot >= self.up_to => break,
                Some(slot) => {
                    slots.push(slot);
                    from = Slot(slot.0 + 1);
                }
                None if wrapped => break,
                None => {
                    wrapped = true;
                    from = Slot(0);
                }
            }
        }
        self.up_to = from;
        slots
    }
}

/// Time since which the oldest dirty block may be dirty. A write-back of all dirty blocks restarts
/// the time.
#[derive(Default)]
pub struct DirtySince {
    time: Nanoseconds,
    /// Set if a block has become dirty since the cache was last found clean.
    any: bool,
}

impl DirtySince {
    /// Returns the time since which the oldest dirty block may be dirty.
    pub fn time(&self) -> Nanoseconds {
        self.time
    }

    /// Restarts the time, because the write-back of all dirty blocks begins now.
    pub fn restart(&mut self, now: Nanoseconds) {
        self.time = now;
    }

    /// [`Scheme::arrived`](crate::scheme::Scheme::arrived).
    pub fn arrived(&mut self, view: &View) {
        self.any &= view.map.dirty_blocks() > 0;
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped).
    pub fn mapped(&mut self, view: &View, dirty: bool) {
        if dirty && !std::mem::replace(&mut self.any, true) {
            self.time = view.now;
        }
    }
}
