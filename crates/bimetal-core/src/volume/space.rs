//! Free slots of a cache, and the time at which a slot that was left may be written again.
//!
//! A slot is free again once two conditions hold. The record that took the slot's block out is
//! durable: otherwise, after a crash, an old record would name a slot with another block's content.
//! Every task that started before the block was taken out has ended: otherwise a read under way
//! would find another block's content.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bit_set::BitSet;
use crate::block_map::Slot;
use crate::delta_set::DeltaSet;
use crate::journal::ring::Sequence;

/// Number of a task, in the order in which tasks start.
pub(crate) type Serial = u64;

/// Adjacent slots that were left one after the other, all before the same task began.
struct Freed {
    first: u32,
    count: u32,
    /// The last record that took a block out of one of these slots.
    record: Sequence,
    started_before: Serial,
}

pub(crate) struct CacheSpace {
    /// A mirror takes all its slots at once, which costs nothing.
    taken: DeltaSet,
    slots: u32,
    cursor: u32,
    freed: VecDeque<Freed>,
    /// Number of slots in `freed`.
    freeing: u64,
    buckets: Option<Buckets>,
    /// Free slots that have yet to be discarded on the drive; `None` without discards.
    stale: Option<BitSet>,
}

/// Slots that are filled together.
struct Buckets {
    size: u32,
    /// Number of taken slots in each bucket. `in_use` has the buckets with taken slots.
    taken: Vec<u32>,
    in_use: BitSet,
}

impl Buckets {
    /// Returns the slot from which slots are taken next: the remaining slots of the bucket being
    /// filled, or an empty bucket.
    fn next(&self, cursor: u32, taken: &DeltaSet) -> Option<u32> {
        let current = cursor / self.size;
        let rest = taken.next_gap(cursor).filter(|gap| !cursor.is_multiple_of(self.size) && gap / self.size == current);
        let empty = || self.in_use.next_gap(current).or_else(|| self.in_use.next_gap(0));
        rest.or_else(|| empty().map(|bucket| bucket * self.size))
    }

    fn count(&mut self, slot: u32, now_taken: bool) {
        let bucket = slot / self.size;
        let taken = &mut self.taken[bucket as usize];
        if now_taken {
            *taken += 1;
            self.in_use.insert(bucket);
        } else {
            *taken -= 1;
            if *taken == 0 {
                self.in_use.remove(bucket);
            }
        }
    }
}

impl CacheSpace {
    /// Makes `slots` free slots, to be filled by buckets of `bucket` slots. With `discards`, slots
    /// that become free are to be discarded on the drive.
    pub(crate) fn new(slots: u32, bucket: u32, discards: bool) -> Self {
        let count = slots.div_ceil(bucket.max(1));
        let buckets = Buckets { size: bucket, taken: vec![0; count as usize], in_use: BitSet::new(count) };
        let buckets = (bucket > 1).then_some(buckets);
        let stale = discards.then(|| BitSet::new(slots));
        Self { taken: DeltaSet::empty(slots), slots, cursor: 0, freed: VecDeque::new(), freeing: 0, buckets, stale }
    }

    /// Marks a slot as taken.
    pub(crate) fn occupy(&mut self, slot: Slot) {
        self.set_taken(slot.0);
    }

    /// Takes a slot, whether the slot is free or not.
    fn set_taken(&mut self, slot: u32) {
        let was_free = self.taken.insert(slot);
        self.note_taken(slot, was_free);
    }

    fn note_taken(&mut self, slot: u32, was_free: bool) {
        if let Some(stale) = &mut self.stale {
            stale.remove(slot);
        }
        if let Some(buckets) = &mut self.buckets
            && was_free
        {
            buckets.count(slot, true);
        }
    }

    /// Returns true if a slot is taken.
    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        self.taken.contains(slot.0)
    }

    /// Returns the number of slots that can be taken now.
    pub(crate) fn free(&self) -> u64 {
        u64::from(self.slots - self.taken.len())
    }

    /// Returns the number of slots that were left and cannot be taken yet.
    pub(crate) fn freeing(&self) -> u64 {
        self.freeing
    }

    /// Takes a run of adjacent free slots, at most `count_max`, from the end of the last run on.
    pub(crate) fn take(&mut self, count_max: u64) -> Option<(Slot, u64)> {
        let in_bucket = self.buckets.as_ref().and_then(|buckets| buckets.next(self.cursor, &self.taken));
        let any = || self.taken.next_gap(self.cursor).or_else(|| self.taken.next_gap(0));
        let first = in_bucket.or_else(any)?;
        let end_of_bucket =
            self.buckets.as_ref().map_or(self.slots, |buckets| (first / buckets.size + 1) * buckets.size);
        let limit = end_of_bucket.min(self.slots);
        let wanted_end = limit.min(first.saturating_add(u32::try_from(count_max).unwrap_or(u32::MAX)));
        let end = self.taken.fill(first..wanted_end);
        if self.stale.is_some() || self.buckets.is_some() {
            (first..end).for_each(|slot| self.note_taken(slot, true));
        }
        self.cursor = end;
        Some((Slot(first), u64::from(end - first)))
    }

    /// Queues `count` adjacent slots for reuse. The record numbered `record` is the last that took
    /// one of the slots' blocks out; `next` is the serial of the next task to start.
    pub(crate) fn give_up(&mut self, first: Slot, count: u32, record: Sequence, next: Serial) {
        debug_assert!(self.taken.next_gap(first.0).is_none_or(|gap| gap >= first.0 + count));
        self.freeing += u64::from(count);
        match self.freed.back_mut() {
            Some(last) if last.started_before == next && last.first + last.count == first.0 => {
                (last.count, last.record) = (last.count + count, record);
            }
            _ => self.freed.push_back(Freed { first: first.0, count, record, started_before: next }),
        }
    }

    /// Frees a slot that never held a known block.
    pub(crate) fn give_back_unused(&mut self, slot: Slot) {
        let was_taken = self.taken.remove(slot.0);
        assert!(was_taken, "slot {} was given back twice", slot.0);
        if let Some(buckets) = &mut self.buckets {
            buckets.count(slot.0, false);
        }
    }

    /// Returns true if free slots have yet to be discarded.
    pub(crate) fn holds_stale(&self) -> bool {
        self.stale.as_ref().is_some_and(|stale| stale.len() > 0)
    }

    /// Takes up to `count_max` adjacent free slots that have yet to be discarded.
    pub(crate) fn take_stale(&mut self, count_max: u32) -> Option<(Slot, u32)> {
        let first = self.stale.as_ref()?.next_member(0)?;
        let mut end = first;
        while end - first < count_max && end < self.slots && self.stale.as_ref()?.contains(end) {
            self.set_taken(end);
            end += 1;
        }
        Some((Slot(first), end - first))
    }

    /// Ends all discards: no free slot is discarded any more.
    pub(crate) fn forget_stale(&mut self) {
        self.stale = None;
    }

    /// Frees the slots that may be free now. Returns their number.
    pub(crate) fn release(&mut self, durable: Sequence, oldest_task: Serial) -> u64 {
        let before = self.freeing;
        while let Some(freed) = self.freed.front() {
            if freed.record > durable || freed.started_before > oldest_task {
                break;
            }
            let slots = freed.first..freed.first + freed.count;
            self.freeing -= u64::from(freed.count);
            self.freed.pop_front();
            if let Some(stale) = &mut self.stale {
                stale.insert_run(slots.clone());
            }
            self.give_back_run(slots);
        }
        before - self.freeing
    }

    /// Frees the slots of `run`, which are all taken.
    fn give_back_run(&mut self, run: Range<u32>) {
        if self.buckets.is_some() {
            return run.for_each(|slot| self.give_back_unused(Slot(slot)));
        }
        let count = run.len() as u32;
        let removed = self.taken.remove_run(run);
        assert!(removed == count, "{removed} slots of {count} were taken");
    }
}

/// The tasks under way, by serial: the oldest task limits the slots that may be reused.
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

    /// Returns the serial of the oldest task under way, or of the next task to start.
    pub(crate) fn oldest(&self) -> Serial {
        self.first
    }

    /// Returns the serial of the next task to start.
    pub(crate) fn next(&self) -> Serial {
        self.first + self.ended.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dropped slot becomes free only once its record is durable and all older tasks have ended.
    #[test]
    fn dropped_slot_waits_for_its_record_and_older_tasks() {
        let mut space = CacheSpace::new(8, 1, false);
        let mut epochs = Epochs::default();
        let (slot, count) = space.take(3).unwrap();
        assert_eq!((slot, count), (Slot(0), 3));
        let reader = epochs.start();
        space.give_up(Slot(1), 1, 10, epochs.next());
        assert_eq!(space.release(9, epochs.oldest()), 0, "the record is not durable");
        assert_eq!(space.release(10, epochs.oldest()), 0, "a reader is under way");
        epochs.end(reader);
        assert_eq!(space.release(10, epochs.oldest()), 1);
        assert_eq!(space.free(), 6);
    }

    /// Buckets are filled in order. A bucket is taken again once all of it is free. Single free
    /// slots are taken last.
    #[test]
    fn buckets_fill_in_order_and_are_reused_when_empty() {
        let mut space = CacheSpace::new(14, 4, false);
        assert_eq!(
            [3, 9, 9, 9].map(|wanted| space.take(wanted)),
            [(0, 3), (3, 1), (4, 4), (8, 4)].map(|(slot, count)| { Some((Slot(slot), count)) })
        );
        assert_eq!(space.take(1), Some((Slot(12), 1)), "the last bucket is a short one");
        [1, 4, 5, 6, 7].into_iter().for_each(|slot| space.give_back_unused(Slot(slot)));
        assert_eq!(space.take(9), Some((Slot(13), 1)), "the remaining slots of the bucket being filled");
        assert_eq!(space.take(2), Some((Slot(4), 2)), "a bucket that is all free, not the single slot before it");
        space.give_back_unused(Slot(8));
        assert_eq!(space.take(9), Some((Slot(6), 2)));
        assert_eq!(space.take(9), Some((Slot(8), 1)), "there is no such bucket");
        assert_eq!(space.take(9), Some((Slot(1), 1)));
        assert_eq!(space.take(9), None);
    }

    /// The drive gets discards for slots that became free and were not taken again.
    #[test]
    fn freed_slots_are_discarded_unless_taken_again() {
        let mut space = CacheSpace::new(8, 1, true);
        space.take(6);
        assert_eq!(space.take_stale(9), None, "nothing was written to free slots");
        [1, 2, 3, 5].into_iter().for_each(|slot| space.give_up(Slot(slot), 1, 1, 0));
        assert_eq!((space.holds_stale(), space.release(1, 0)), (false, 4));
        assert_eq!(space.take_stale(2), Some((Slot(1), 2)));
        assert_eq!((space.free(), space.take(9)), (4, Some((Slot(6), 2))), "what is being discarded is not taken");
        assert_eq!(space.take(9), Some((Slot(3), 1)));
        assert_eq!(space.take_stale(9), Some((Slot(5), 1)), "slot 3 is in use again");
        [1, 2, 5].into_iter().for_each(|slot| space.give_back_unused(Slot(slot)));
        assert_eq!((space.holds_stale(), space.free()), (false, 3));
    }

    #[test]
    fn runs_are_adjacent_and_go_round() {
        let mut space = CacheSpace::new(8, 1, false);
        assert_eq!(space.take(5), Some((Slot(0), 5)));
        assert_eq!(space.take(5), Some((Slot(5), 3)));
        assert_eq!(space.take(1), None);
        space.give_back_unused(Slot(2));
        assert_eq!(space.take(4), Some((Slot(2), 1)));
    }
}
