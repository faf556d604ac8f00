//! Runs of blocks, and sets of free runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::Side;

/// Adjacent blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub len: u64,
}

impl Run {
    /// Returns the run of `len` blocks from `start` on.
    pub fn new(start: u64, len: u64) -> Self {
        Self { start, len }
    }

    /// Returns the block after the last block.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// Returns the part between the blocks `from` and `to`; `None` if the part is empty.
    pub fn clip(self, from: u64, to: u64) -> Option<Self> {
        let (start, end) = (self.start.max(from), self.end().min(to));
        (start < end).then(|| Self::new(start, end - start))
    }

    /// Returns the part on `side` of `boundary`, the first block of the HDD.
    pub fn on(self, side: Side, boundary: u64) -> Option<Self> {
        match side {
            Side::Ssd => self.clip(0, boundary),
            Side::Hdd => self.clip(boundary, u64::MAX),
        }
    }
}

/// Number of blocks of some runs.
pub fn total(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.len).sum()
}

/// Set of free runs, with the runs sorted by size as well.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    len_of: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Runs {
    /// Number of free blocks.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the runs in order of address.
    pub fn iter(&self) -> impl Iterator<Item = Run> {
        self.len_of.iter().map(|(&start, &len)| Run::new(start, len))
    }

    /// Adds a run, and joins it with adjacent runs. Blocks that are free already stay free.
    pub fn insert(&mut self, run: Run) {
        let (mut start, mut end) = (run.start, run.end());
        if start == end {
            return;
        }
        while let Some((&before, &len)) = self.len_of.range(..=end).next_back().filter(|&(&at, &len)| at + len >= start)
        {
            self.remove(Run::new(before, len));
            (start, end) = (start.min(before), end.max(before + len));
        }
        self.add(Run::new(start, end - start));
    }

    /// Takes `len` blocks: from the smallest run that holds them all, or otherwise from the largest
    /// runs. Takes nothing and returns `None` if fewer blocks are free.
    pub fn take(&mut self, len: u64) -> Option<Vec<Run>> {
        if len > self.total {
            return None;
        }
        let mut taken = Vec::new();
        let mut left = len;
        while left > 0 {
            let fitting = self.by_len.range((left, 0)..).next().or_else(|| self.by_len.last());
            let &(size, start) = fitting?;
            let part = size.min(left);
            self.remove(Run::new(start, size));
            if part < size {
                self.add(Run::new(start + part, size - part));
            }
            taken.push(Run::new(start, part));
            left -= part;
        }
        Some(taken)
    }

    fn add(&mut self, run: Run) {
        self.len_of.insert(run.start, run.len);
        self.by_len.insert((run.len, run.start));
        self.total += run.len;
    }

    fn remove(&mut self, run: Run) {
        self.len_of.remove(&run.start);
        self.by_len.remove(&(run.len, run.start));
        self.total -= run.len;
    }
}

impl FromIterator<Run> for Runs {
    fn from_iter<T: IntoIterator<Item = Run>>(runs: T) -> Self {
        let mut all = Self::default();
        runs.into_iter().for_each(|run| all.insert(run));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn smallest_run_that_fits_is_taken() {
        let mut free: Runs = [Run::new(0, 10), Run::new(20, 4), Run::new(30, 6)].into_iter().collect();
        assert_eq!(free.take(4), Some(vec![Run::new(20, 4)]));
        assert_eq!(free.take(5), Some(vec![Run::new(30, 5)]));
        assert_eq!(free.total(), 11);
    }

    #[test]
    fn largest_runs_are_taken_where_no_run_fits() {
        let mut free: Runs = [Run::new(0, 3), Run::new(20, 5), Run::new(30, 4)].into_iter().collect();
        assert_eq!(free.take(10), Some(vec![Run::new(20, 5), Run::new(30, 4), Run::new(0, 1)]));
        assert_eq!(free.take(3), None, "two blocks are left, and nothing is taken");
        assert_eq!(free.total(), 2);
    }

    proptest! {
        /// Compares a set of runs with a list that has one flag for each block.
        #[test]
        fn runs_agree_with_one_flag_a_block(steps in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..40), 1..60)) {
            let mut free = Runs::default();
            let mut flags = [false; 240];
            for (is_insert, start, len) in steps {
                if is_insert {
                    free.insert(Run::new(start, len));
                    (start..start + len).for_each(|block| flags[block as usize] = true);
                } else {
                    let before = flags.iter().filter(|&&is_free| is_free).count() as u64;
                    let taken = free.take(len);
                    prop_assert_eq!(taken.is_some(), len <= before);
                    for run in taken.unwrap_or_default() {
                        for block in run.start..run.end() {
                            prop_assert!(flags[block as usize], "block {} was not free", block);
                            flags[block as usize] = false;
                        }
                    }
                }
                let mut shown = [false; 240];
                free.iter().for_each(|run| (run.start..run.end()).for_each(|block| shown[block as usize] = true));
                prop_assert_eq!(&shown[..], &flags[..]);
                prop_assert_eq!(free.total(), flags.iter().filter(|&&is_free| is_free).count() as u64);
            }
        }
    }
}
