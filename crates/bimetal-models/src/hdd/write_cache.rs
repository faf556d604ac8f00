//! Part of the buffer in which writes wait for the medium.

use std::collections::BTreeMap;

/// Dirty sectors: written by the host, not yet on the medium.
#[derive(Clone, Debug)]
pub struct WriteCache {
    /// First sector of each dirty run, and the first sector after the run. Runs neither overlap nor
    /// touch.
    runs: BTreeMap<u64, u64>,
    /// Number of sectors in all runs.
    dirty: u64,
    /// Sectors that are being written to the medium, as the first sector and the sector after the
    /// last. Sectors that are being written to the medium still occupy room in the cache.
    leaving: (u64, u64),
    /// Number of sectors that fit into the cache.
    room: u64,
    /// Number of sectors of the buffer that the other actuators of the drive use, or have waited
    /// for longer.
    pub(super) taken: u64,
}

impl WriteCache {
    /// Creates an empty cache of `room` sectors.
    pub fn new(room: u64) -> Self {
        Self { runs: BTreeMap::new(), dirty: 0, leaving: (0, 0), room, taken: 0 }
    }

    /// Returns true if `sectors` sectors fit into the empty cache.
    pub fn could_hold(&self, sectors: u64) -> bool {
        sectors <= self.room
    }

    /// Returns true if there is room for `sectors` sectors now.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.taken + self.sectors() + sectors <= self.room
    }

    /// Returns true if everything is on the medium.
    pub fn is_clean(&self) -> bool {
        self.sectors() == 0
    }

    /// Returns true if any sectors wait to be written to the medium.
    pub fn has_dirty(&self) -> bool {
        self.dirty > 0
    }

    /// Returns true if all sectors from `start` to before `end` are in the cache, in one run or
    /// together in the current write to the medium.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        if self.leaving.0 <= start && end <= self.leaving.1 {
            return true;
        }
        self.runs.range(..=start).next_back().is_some_and(|(_, &run_end)| run_end >= end)
    }

    /// Adds the sectors from `start` to before `end`; older content of these sectors is
    /// overwritten.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (mut first, mut last) = (start, end);
        while let Some((&run_start, &run_end)) = self.runs.range(..=last).next_back() {
            if run_end < first {
                break;
            }
            self.runs.remove(&run_start);
            self.dirty -= run_end - run_start;
            (first, last) = (first.min(run_start), last.max(run_end));
        }
        self.runs.insert(first, last);
        self.dirty += last - first;
    }

    /// Drops the sectors from `start` to before `end`, of which newer content is on the medium.
    pub fn remove(&mut self, start: u64, end: u64) {
        while let Some((&run_start, &run_end)) = self.runs.range(..end).next_back() {
            if run_end <= start {
                break;
            }
            self.runs.remove(&run_start);
            self.dirty -= run_end - run_start;
            for (rest_start, rest_end) in [(run_start, start.min(run_end)), (end.max(run_start), run_end)] {
                if rest_start < rest_end {
                    self.runs.insert(rest_start, rest_end);
                    self.dirty += rest_end - rest_start;
                }
            }
        }
    }

    /// Returns the runs to write next, in C-LOOK order from `head_lbn` on, each once.
    pub fn next_runs(&self, head_lbn: u64) -> impl Iterator<Item = (u64, u64)> {
        let ahead = self.runs.range(head_lbn..);
        ahead.chain(self.runs.range(..head_lbn)).map(|(&start, &end)| (start, end))
    }

    /// Begins to write the sectors from `start` to before `end` to the medium.
    pub fn begin_leaving(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        self.leaving = (start, end);
    }

    /// Ends the write to the medium.
    pub fn finish_leaving(&mut self) {
        self.leaving = (0, 0);
    }

    /// Returns the number of sectors that are not on the medium.
    pub fn sectors(&self) -> u64 {
        self.dirty + (self.leaving.1 - self.leaving.0)
    }

    /// Returns true if all sectors from `start` to before `end` are on the medium.
    pub fn is_clean_in(&self, start: u64, end: u64) -> bool {
        let waits = self.runs.range(..end).next_back().is_some_and(|(_, &run_end)| run_end > start);
        let leaves = self.leaving.0 < end && self.leaving.1 > start;
        !waits && !leaves
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_exactly_the_sectors_that_a_plain_set_holds(
            steps in proptest::collection::vec((0u8..3, 0u64..100, 1u64..20), 1..80)
        ) {
            let mut cache = WriteCache::new(1000);
            let mut plain = std::collections::BTreeSet::new();
            for (step, start, length) in steps {
                let end = start + length;
                match step {
                    0 | 1 => {
                        cache.insert(start, end);
                        plain.extend(start..end);
                    }
                    _ => {
                        cache.remove(start, end);
                        plain.retain(|sector| !(start..end).contains(sector));
                    }
                }
                prop_assert_eq!(cache.sectors(), plain.len() as u64);
                for sector in 0..120 {
                    prop_assert_eq!(cache.covers(sector, sector + 1), plain.contains(&sector));
                    prop_assert_eq!(cache.is_clean_in(sector, sector + 1), !plain.contains(&sector));
                }
                let whole = (start..end).all(|sector| plain.contains(&sector));
                prop_assert_eq!(cache.covers(start, end), whole);
                let sectors: u64 = cache.next_runs(start).map(|(start, end)| end - start).sum();
                prop_assert_eq!(sectors, plain.len() as u64);
            }
        }
    }

    #[test]
    fn what_leaves_takes_up_room_until_it_has_arrived() {
        let mut cache = WriteCache::new(10);
        cache.insert(0, 8);
        cache.begin_leaving(0, 8);
        assert!(!cache.has_room(3) && !cache.is_clean() && !cache.has_dirty());
        assert!(!cache.is_clean_in(7, 9) && cache.is_clean_in(8, 9));
        cache.finish_leaving();
        assert!(cache.has_room(10) && cache.is_clean() && cache.is_clean_in(0, 8));
    }
}
