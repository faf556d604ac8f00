//! Free slots of a cache region, and when a slot that was given up may be written again.
//!
//! A slot is free again once two things are true: the record that took its block out of it is durable (otherwise a crash
//! would find another block's content under the old record), and every task that started before has ended
//! (otherwise a read under way would find it).

use std::collections::VecDeque;

use crate::bit_set::BitSet;
use crate::block_map::Slot;
use crate::journal::ring::Sequence;

/// Numbers tasks in the order they started.
pub(crate) type Serial = u64;

struct Freed {
    slot: Slot,
    record: Sequence,
    started_before: Serial,
}

pub(crate) struct CacheSpace {
    taken: BitSet,
    slots: u32,
    cursor: u32,
    freed: VecDeque<Freed>,
}

impl CacheSpace {
    pub(crate) fn new(slots: u32) -> Self {
        Self { taken: BitSet::new(slots), slots, cursor: 0, freed: VecDeque::new() }
    }

    /// Says that a slot holds a block.
    pub(crate) fn occupy(&mut self, slot: Slot) {
        self.taken.insert(slot.0);
    }

    /// Slots that can be taken now.
    pub(crate) fn free(&self) -> u64 {
        u64::from(self.slots - self.taken.len())
    }

    /// Slots given up that cannot be taken yet.
    pub(crate) fn freeing(&self) -> u64 {
        self.freed.len() as u64
    }

    /// Takes a run of adjacent free slots, at most `count_max`, from where the last run ended on.
    pub(crate) fn take(&mut self, count_max: u64) -> Option<(Slot, u64)> {
        let first = self.taken.next_gap(self.cursor).or_else(|| self.taken.next_gap(0))?;
        let mut end = first;
        while u64::from(end - first) < count_max && end < self.slots && self.taken.insert(end) {
            end += 1;
        }
        self.cursor = end;
        Some((Slot(first), u64::from(end - first)))
    }

    /// Gives up a slot whose block was taken out of it by the record numbered `record`; `next` is the serial of the
    /// next task to start.
    pub(crate) fn give_up(&mut self, slot: Slot, record: Sequence, next: Serial) {
        debug_assert!(self.taken.contains(slot.0));
        self.freed.push_back(Freed { slot, record, started_before: next });
    }

    /// Gives back a slot that never held a block anybody knows of.
    pub(crate) fn give_back_unused(&mut self, slot: Slot) {
        let was_taken = self.taken.remove(slot.0);
        assert!(was_taken, "slot {} was given back twice", slot.0);
    }

    /// Frees what may be freed; how many slots that were.
    pub(crate) fn release(&mut self, durable: Sequence, oldest_task: Serial) -> u64 {
        let before = self.freed.len();
        while let Some(freed) = self.freed.front() {
            if freed.record > durable || freed.started_before > oldest_task {
                break;
            }
            let slot = freed.slot;
            self.freed.pop_front();
            self.give_back_unused(slot);
        }
        (before - self.freed.len()) as u64
    }
}

/// Which tasks are still under way, by serial: the oldest one bounds what may be reused.
#[derive(Default)]
pub(crate) struct Epochs {
    first: Serial,
    ended: VecDeque<bool>,
}

impl Epochs {
    pub(crate) fn start(&mut self) -> Serial {
        self.ended.push_back(false);
        self.first + self.ended.len() as u64 - 1
    }

    pub(crate) fn end(&mut self, serial: Serial) {
        self.ended[(serial - self.first) as usize] = true;
        while self.ended.front() == Some(&true) {
            self.ended.pop_front();
            self.first += 1;
        }
    }

    /// The serial of the oldest task under way, or of the next one to start.
    pub(crate) fn oldest(&self) -> Serial {
        self.first
    }

    /// The serial of the next task to start.
    pub(crate) fn next(&self) -> Serial {
        self.first + self.ended.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_only_when_its_record_is_durable_and_older_tasks_have_ended() {
        let mut space = CacheSpace::new(8);
        let mut epochs = Epochs::default();
        let (slot, count) = space.take(3).unwrap();
        assert_eq!((slot, count), (Slot(0), 3));
        let reader = epochs.start();
        space.give_up(Slot(1), 10, epochs.next());
        assert_eq!(space.release(9, epochs.oldest()), 0, "the record is not durable");
        assert_eq!(space.release(10, epochs.oldest()), 0, "a reader is under way");
        epochs.end(reader);
        assert_eq!(space.release(10, epochs.oldest()), 1);
        assert_eq!(space.free(), 6);
    }

    #[test]
    fn runs_are_adjacent_and_go_round() {
        let mut space = CacheSpace::new(8);
        assert_eq!(space.take(5), Some((Slot(0), 5)));
        assert_eq!(space.take(5), Some((Slot(5), 3)));
        assert_eq!(space.take(1), None);
        space.give_back_unused(Slot(2));
        assert_eq!(space.take(4), Some((Slot(2), 1)));
    }
}
