//! The stochastic multi-queue of dm-cache (*smq*; Linux, `drivers/md/dm-cache-policy-smq.c` and
//! `Documentation/admin-guide/device-mapper/cache-policies.rst`): 64 levels, each in order of use.
//! A block that is used rises by a level or more, and changes places with the oldest block of its
//! new level. So unused blocks sink without counters or ageing. Once a period the levels are made
//! equally full. The oldest block of the lowest level is evicted first.
//!
//! A block rises only once in a period, regardless of its number of uses. No hit counts are kept,
//! which saves memory.

use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::bit_set::BitSet;
use crate::block_map::Slot;

/// Resident bytes for each slot: its level and links, and a bit for its use in this period.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 0.2;

/// Number of levels.
pub const LEVELS: usize = 64;

/// Slots in levels, ordered by use.
pub struct MultiQueue {
    levels: SlotLists<LEVELS>,
    used: BitSet,
    /// Slots that were added to `used` in this period, so that `used` can be cleared in time
    /// proportional to their number.
    rose: Vec<u32>,
    held: u32,
}

impl MultiQueue {
    /// Returns the empty queue over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { levels: SlotLists::new(slots), used: BitSet::new(slots), rose: Vec::new(), held: 0 }
    }

    /// Returns the level of `slot`, if the queue holds it.
    pub fn level(&self, slot: Slot) -> Option<usize> {
        self.levels.list_of(slot)
    }

    /// Notes a use of `slot`. The slot rises by `jump` levels if it has not risen in this period,
    /// and becomes the newest of its level.
    pub fn rise(&mut self, slot: Slot, jump: usize) {
        let Some(level) = self.level(slot) else { return };
        let rises = self.used.insert(slot.0);
        let to = if rises { (level + jump).min(LEVELS - 1) } else { level };
        if rises {
            self.rose.push(slot.0);
        }
        if to != level
            && let Some(other) = self.levels.oldest(to)
        {
            self.levels.refresh(level, other);
        }
        self.levels.refresh(to, slot);
    }

    /// Ends a period: moves slots between levels until all levels are equally full. What does not
    /// divide evenly goes to the lowest levels, one slot each.
    pub fn end_period(&mut self) {
        for slot in self.rose.drain(..) {
            self.used.remove(slot);
        }
        let (each, left) = (self.len() / LEVELS as u32, self.len() % LEVELS as u32);
        for level in 0..LEVELS - 1 {
            let target = each + u32::from((level as u32) < left);
            while self.levels.len(level) > target
                && let Some(newest) = self.levels.newest(level)
            {
                self.levels.refresh(level + 1, newest);
            }
            let mut above = level + 1;
            while self.levels.len(level) < target && above < LEVELS {
                match self.levels.oldest(above) {
                    Some(oldest) => self.levels.refresh(level, oldest),
                    None => above += 1,
                }
            }
        }
    }
}

impl Replacement for MultiQueue {
    fn insert(&mut self, slot: Slot, _key: Key) {
        self.levels.push(0, slot);
        self.held += 1;
    }

    fn touch(&mut self, slot: Slot) {
        self.rise(slot, 1);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.levels.rename(from, to);
        if self.used.remove(from.0) {
            self.used.insert(to.0);
            self.rose.push(to.0);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.held -= u32::from(self.levels.remove(slot).is_some());
        self.used.remove(slot.0);
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        for level in 0..LEVELS {
            let mut next = self.levels.oldest(level);
            while let Some(slot) = next {
                next = self.levels.newer(slot);
                let verdict = judge(slot);
                if verdict.take {
                    self.remove(slot);
                }
                if !verdict.more {
                    return;
                }
            }
        }
    }

    fn len(&self) -> u32 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &mut MultiQueue) -> Vec<u32> {
        let mut slots = Vec::new();
        queue.evict(&mut |slot| {
            slots.push(slot.0);
            Verdict { take: false, more: true }
        });
        slots
    }

    /// A used slot rises one level in a period. The slot whose place the used slot takes sinks one
    /// level.
    #[test]
    fn used_slot_rises_one_level_and_displaced_slot_sinks() {
        let mut queue = MultiQueue::new(8);
        (0..4).for_each(|slot| queue.insert(Slot(slot), Key(slot)));
        (0..3).for_each(|_| queue.touch(Slot(0)));
        assert_eq!(queue.level(Slot(0)), Some(1));
        assert_eq!(order(&mut queue), [1, 2, 3, 0]);
        queue.touch(Slot(1));
        assert_eq!(queue.level(Slot(0)), Some(0), "slot 1 took its place");
        assert_eq!(order(&mut queue), [2, 3, 0, 1]);
    }

    #[test]
    fn a_period_ends_with_levels_equally_full() {
        let mut queue = MultiQueue::new(1000);
        (0..640).for_each(|slot| queue.insert(Slot(slot), Key(slot)));
        queue.end_period();
        assert_eq!(queue.levels.len(0), 10);
        assert_eq!(queue.levels.len(LEVELS - 1), 10);
        assert_eq!(queue.len(), 640);
        assert_eq!(queue.level(Slot(0)), Some(0));
        (0..10).for_each(|slot| queue.remove(Slot(slot)));
        queue.end_period();
        assert_eq!(queue.levels.len(0), 10, "filled from above");
        assert_eq!(queue.len(), 630);
    }

    /// Regression: all levels but the last ones had one slot more than their share, and the highest
    /// levels were empty, so that the most used slots sank as a period ended.
    #[test]
    fn slots_that_do_not_divide_evenly_leave_no_level_empty() {
        let mut queue = MultiQueue::new(1000);
        (0..645).for_each(|slot| queue.insert(Slot(slot), Key(slot)));
        queue.end_period();
        let lens: Vec<u32> = (0..LEVELS).map(|level| queue.levels.len(level)).collect();
        assert_eq!(lens[..5], [11; 5]);
        assert_eq!(lens[5..], [10; LEVELS - 5]);
    }
}
