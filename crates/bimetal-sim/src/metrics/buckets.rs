//! Buckets of time in a fixed number. When a run outgrows the buckets, neighbouring buckets merge,
//! so that each becomes twice as wide.

use bimetal_core::units::Nanoseconds;

/// Largest number of buckets in a series; a run that fills them has at least half as many.
pub(super) const BUCKETS: usize = 512;

/// Width of a bucket at the start, as a power of two in nanoseconds: about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// Content of a bucket.
pub(super) trait Bucket: Clone + Default {
    /// Merges the content of the next bucket, which is removed, into this bucket.
    fn absorb(&mut self, later: Self);
}

/// Time of a run from `start` on, in at most [`BUCKETS`] buckets of equal width.
#[derive(Debug, Clone)]
pub(super) struct Buckets<T> {
    start: Nanoseconds,
    /// Binary logarithm of the width in nanoseconds: finding a bucket takes a shift, not a
    /// division.
    shift: u32,
    /// Buckets up to the last used bucket.
    used: Vec<T>,
}

impl<T: Bucket> Buckets<T> {
    /// Creates empty buckets. Times before `start` count into the first bucket.
    pub(super) fn new(start: Nanoseconds) -> Self {
        Self { start, shift: FIRST_SHIFT, used: Vec::with_capacity(BUCKETS) }
    }

    /// Returns the bucket of time `at`.
    #[inline]
    pub(super) fn at(&mut self, at: Nanoseconds) -> &mut T {
        let mut index = self.index(at);
        if index >= self.used.len() {
            index = self.grow_to(at);
        }
        &mut self.used[index]
    }

    /// Returns the time from `at` to the end of its bucket.
    pub(super) fn left_of_bucket(&self, at: Nanoseconds) -> Nanoseconds {
        let into = at.saturating_sub(self.start).0 & ((1 << self.shift) - 1);
        Nanoseconds((1 << self.shift) - into)
    }

    /// Returns the start of the first bucket.
    pub(super) fn start(&self) -> Nanoseconds {
        self.start
    }

    /// Returns the width of a bucket.
    pub(super) fn width(&self) -> Nanoseconds {
        Nanoseconds(1 << self.shift)
    }

    /// Returns the buckets, from the first to the last used bucket.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.used.iter()
    }

    #[inline]
    fn index(&self, at: Nanoseconds) -> usize {
        (at.saturating_sub(self.start).0 >> self.shift) as usize
    }

    /// Makes room for `at`, and returns the index of its bucket.
    #[cold]
    fn grow_to(&mut self, at: Nanoseconds) -> usize {
        while self.index(at) >= BUCKETS {
            self.merge_neighbours();
        }
        let index = self.index(at);
        if index >= self.used.len() {
            self.used.resize_with(index + 1, T::default);
        }
        index
    }

    fn merge_neighbours(&mut self) {
        let half = self.used.len().div_ceil(2);
        for index in 0..half {
            let mut merged = std::mem::take(&mut self.used[2 * index]);
            if let Some(later) = self.used.get_mut(2 * index + 1) {
                merged.absorb(std::mem::take(later));
            }
            self.used[index] = merged;
        }
        self.used.truncate(half);
        self.shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Bucket for u64 {
        fn absorb(&mut self, later: Self) {
            *self += later;
        }
    }

    const MILLI: u64 = 1 << FIRST_SHIFT;

    #[test]
    fn a_short_run_keeps_the_narrowest_buckets() {
        let mut buckets = Buckets::<u64>::new(Nanoseconds(5 * MILLI));
        *buckets.at(Nanoseconds(5 * MILLI)) += 1;
        *buckets.at(Nanoseconds(8 * MILLI - 1)) += 10;
        *buckets.at(Nanoseconds(0)) += 100;
        assert_eq!(buckets.iter().copied().collect::<Vec<_>>(), [101, 0, 10]);
        assert_eq!(buckets.width(), Nanoseconds(MILLI));
    }

    /// A run that outgrows its buckets doubles their width. No value is lost.
    #[test]
    fn outgrown_buckets_double_their_width_and_keep_all_values() {
        let mut buckets = Buckets::<u64>::new(Nanoseconds::ZERO);
        for index in 0..BUCKETS as u64 + 1 {
            *buckets.at(Nanoseconds(index * MILLI)) += index;
        }
        assert_eq!(buckets.width(), Nanoseconds(2 * MILLI));
        let values: Vec<_> = buckets.iter().copied().collect();
        assert_eq!(values.len(), BUCKETS / 2 + 1);
        assert_eq!((values[0], values[1], values[255], values[256]), (1, 2 + 3, 510 + 511, 512));
        assert_eq!(values.iter().sum::<u64>(), 512 * 513 / 2);
    }

    #[test]
    fn a_far_jump_merges_as_often_as_it_takes() {
        let mut buckets = Buckets::<u64>::new(Nanoseconds::ZERO);
        *buckets.at(Nanoseconds(MILLI)) += 1;
        *buckets.at(Nanoseconds(u64::MAX)) += 2;
        assert_eq!(buckets.iter().copied().sum::<u64>(), 3);
        assert_eq!(buckets.iter().len(), BUCKETS);
        *buckets.at(Nanoseconds(0)) += 4;
        assert_eq!(buckets.iter().next(), Some(&5));
    }

    #[test]
    fn an_instant_knows_what_is_left_of_its_bucket() {
        let buckets = Buckets::<u64>::new(Nanoseconds(7));
        assert_eq!(buckets.left_of_bucket(Nanoseconds(7)), Nanoseconds(MILLI));
        assert_eq!(buckets.left_of_bucket(Nanoseconds(7 + MILLI - 1)), Nanoseconds(1));
    }
}
