//! Room in a cache of blocks: which copies have slots, in the order of a replacement policy, and what is given up so that some
//! slots are always free. Clean copies go at once; where there are none, dirty ones go home first.

use super::replacement::{Key, Replacement, Verdict};
use super::uses::Uses;
use crate::block_map::{BlockMap, Slot};
use crate::scheme::{View, Work};
use crate::units::Nanoseconds;

/// Dirty blocks that go home together: 1 MiB of 4 KiB blocks, so that a request that arrives waits for little.
pub const BATCH_BLOCKS: usize = 256;

/// Copies looked at for each that is wanted, before dirty ones are moved instead.
const LOOKS: usize = 4;

/// The copies of a cache.
pub struct Room<R = Box<dyn Replacement>> {
    replacement: R,
    /// Slots kept free or being freed, so that a write need not wait for an eviction to become durable.
    reserve: u64,
    /// Nothing clean was found to evict while a move is under way.
    starved: bool,
}

impl<R: Replacement> Room<R> {
    /// Room among `slots` slots, all empty.
    pub fn new(mut replacement: R, slots: u32) -> Self {
        let reserve = (slots / 64).clamp(1, 4096);
        replacement.keep_free(2 * reserve);
        Self { replacement, reserve: reserve.into(), starved: false }
    }

    /// [`Scheme::lacks_foresight`](crate::scheme::Scheme::lacks_foresight).
    pub fn lacks_foresight(&self) -> bool {
        self.replacement.lacks_foresight()
    }

    /// [`Scheme::foresee_uses`](crate::scheme::Scheme::foresee_uses).
    pub fn foresee_uses(&mut self, uses: Uses) {
        self.replacement.foresee(uses);
    }

    /// [`Scheme::arrived`](crate::scheme::Scheme::arrived).
    pub fn arrived(&mut self) {
        self.replacement.arrived();
    }

    /// [`Scheme::touched`](crate::scheme::Scheme::touched).
    pub fn touched(&mut self, slot: Slot) {
        self.replacement.touch(slot);
    }

    /// [`Scheme::mapped`](crate::scheme::Scheme::mapped): a block written again is a use of it.
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

    /// Whether more slots are free than are to be.
    pub fn is_ample(&self, view: &View) -> bool {
        view.free_slots + view.freeing_slots > 2 * self.reserve
    }

    /// Whether [`make`](Self::make) is due now.
    pub fn is_due(&self, view: &View) -> bool {
        let short = view.free_slots + view.freeing_slots < self.reserve;
        short && !self.replacement.is_empty() && view.slots_online() && !(self.starved && view.moving)
    }

    /// Makes as much room as is to be; while that is not there yet, no less is moved home than pays for the way.
    pub fn make(&mut self, view: &View) -> Work {
        let wanted = (2 * self.reserve - (view.free_slots + view.freeing_slots).min(2 * self.reserve)) as usize;
        self.make_for(view, wanted, BATCH_BLOCKS)
    }

    /// What a cache does that writes back in rounds: room, if that is due, and else the next dirty slots, if they may go home.
    pub fn work(&mut self, view: &View, write_back_at: Option<Nanoseconds>, round: &mut Round) -> Work {
        if self.is_due(view) {
            return self.make(view);
        }
        match write_back_at {
            Some(at) if at <= view.now => Work::MoveHome { slots: round.next(&view.map, BATCH_BLOCKS), keep: true },
            _ => Work::Nothing,
        }
    }

    /// What the policy gives up first, for `wanted` slots: clean copies to evict, or, if there is none among the first, dirty
    /// ones to move, at least `moved_min` if there are so many.
    pub fn make_for(&mut self, view: &View, wanted: usize, moved_min: usize) -> Work {
        let clean = self.evict_clean(view, wanted, LOOKS * wanted);
        if !clean.is_empty() {
            self.starved = false;
            return Work::Evict(clean);
        }
        self.starved = view.moving;
        let slots = if view.moving { Vec::new() } else { self.first(wanted.max(moved_min)) };
        if slots.is_empty() { Work::Nothing } else { Work::MoveHome { slots, keep: false } }
    }

    /// The order in which copies are given up.
    pub fn replacement(&self) -> &R {
        &self.replacement
    }

    /// The same, to change it.
    pub fn replacement_mut(&mut self) -> &mut R {
        &mut self.replacement
    }

    /// Whether no slot has a copy.
    pub fn is_empty(&self) -> bool {
        self.replacement.is_empty()
    }

    /// Up to `wanted` clean copies among the first `looks` that the policy offers; they leave it.
    fn evict_clean(&mut self, view: &View, wanted: usize, looks: usize) -> Vec<Slot> {
        let (mut clean, mut looked) = (Vec::with_capacity(wanted), 0);
        self.replacement.evict(&mut |slot| {
            looked += 1;
            let take = !view.map.in_slot(slot).is_some_and(|entry| entry.dirty);
            if take {
                clean.push(slot);
            }
            Verdict { take, more: looked < looks && clean.len() < wanted }
        });
        clean
    }

    /// The first `wanted` copies that the policy offers; they stay in it.
    pub fn first(&mut self, wanted: usize) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(wanted);
        self.replacement.evict(&mut |slot| {
            slots.push(slot);
            Verdict { take: false, more: slots.len() < wanted }
        });
        slots
    }
}

/// Goes round the dirty slots, in order of slot.
#[derive(Default)]
pub struct Round {
    up_to: Slot,
}

impl Round {
    /// The next dirty slots, at most `wanted`, none twice.
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

/// No dirty block has been so since before this time.
#[derive(Default)]
pub struct DirtySince {
    time: Nanoseconds,
    /// Something has been dirty since the last time that nothing was.
    any: bool,
}

impl DirtySince {
    /// The time.
    pub fn time(&self) -> Nanoseconds {
        self.time
    }

    /// All that is dirty begins to go home.
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
