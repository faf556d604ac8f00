//! W-TinyLFU (Einziger, Friedman, Manes: *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//! Transactions on Storage 2017, sections 3 and 4). New blocks enter a small window in order of
//! use. A block that leaves the window is kept only if it was used more often than the block that
//! the main part would evict in its place. The main part is a segmented LRU: a block used there
//! moves from *probation* to *protected*.
//!
//! As in the paper, the window has 1 % of the slots, protected has 80 % of the remaining slots, and
//! counts are halved after ten uses a slot. Our choices: counts of four bits in four rows, each
//! with four counters or more for each slot, and no doorkeeper. On a tie, the older block stays. A
//! slot that the caller refuses stays in its position.

use super::replacement::{Key, Replacement, Verdict};
use super::sketch::{self, Sketch};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot: links, list number, key, and counts.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 4.0 + sketch::BYTES_PER_SLOT;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// The W-TinyLFU policy.
pub struct WTinyLfu {
    lists: SlotLists<3>,
    keys: Vec<u32>,
    sketch: Sketch,
    slots: u32,
    window_limit: u32,
    protected_limit: u32,
}

impl WTinyLfu {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        let window_limit = (slots / 100).max(1);
        Self {
            lists: SlotLists::new(slots),
            keys: vec![0; slots as usize],
            sketch: Sketch::new(slots),
            slots,
            window_limit,
            protected_limit: (u64::from(slots.saturating_sub(window_limit)) * 4 / 5) as u32,
        }
    }

    fn count(&self, slot: Slot) -> u64 {
        self.sketch.count(self.keys[slot.0 as usize])
    }
}

impl Replacement for WTinyLfu {
    fn insert(&mut self, slot: Slot, key: Key) {
        self.sketch.add(key.0);
        self.keys[slot.0 as usize] = key.0;
        self.lists.push(WINDOW, slot);
        // While slots are free, a block moves from the window to probation without a comparison of
        // counts.
        if self.lists.len(WINDOW) > self.window_limit
            && let Some(oldest) = self.lists.oldest(WINDOW)
        {
            self.lists.refresh(PROBATION, oldest);
        }
        debug_assert!(self.len() <= self.slots);
    }

    fn touch(&mut self, slot: Slot) {
        self.sketch.add(self.keys[slot.0 as usize]);
        match self.lists.list_of(slot) {
            Some(PROBATION) => {
                self.lists.refresh(PROTECTED, slot);
                if self.lists.len(PROTECTED) > self.protected_limit
                    && let Some(oldest) = self.lists.oldest(PROTECTED)
                {
                    self.lists.refresh(PROBATION, oldest);
                }
            }
            Some(list) => self.lists.refresh(list, slot),
            None => {}
        }
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.lists.rename(from, to);
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
    }

    fn remove(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    /// Compares the oldest block of the window with the block that the main part would evict, and
    /// evicts the block that was used less often.
    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let mut next = [WINDOW, PROBATION, PROTECTED].map(|list| self.lists.oldest(list));
        loop {
            let main = if next[PROBATION].is_some() { PROBATION } else { PROTECTED };
            let window_is_full = self.lists.len(WINDOW) >= self.window_limit;
            let (list, slot) = match (next[WINDOW], next[main]) {
                (Some(new), Some(old)) if window_is_full => {
                    if self.count(new) > self.count(old) {
                        next[WINDOW] = self.lists.newer(new);
                        next[main] = self.lists.newer(old);
                        self.lists.refresh(PROBATION, new);
                        next[PROBATION] = next[PROBATION].or(Some(new));
                        let verdict = judge(old);
                        if verdict.take {
                            self.lists.remove(old);
                        }
                        if !verdict.more {
                            return;
                        }
                        continue;
                    }
                    (WINDOW, new)
                }
                (_, Some(old)) => (main, old),
                (Some(new), None) => (WINDOW, new),
                (None, None) => return,
            };
            next[list] = self.lists.newer(slot);
            let verdict = judge(slot);
            if verdict.take {
                self.lists.remove(slot);
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        self.lists.len(WINDOW) + self.lists.len(PROBATION) + self.lists.len(PROTECTED)
    }
}
