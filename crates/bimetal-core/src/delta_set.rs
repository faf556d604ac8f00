//! A set of numbers as its difference from a first set: all numbers below a bound. Only the
//! difference takes memory that is resident: a mirror of terabytes begins with copies of all its
//! blocks, or of none.

use std::ops::Range;

use crate::bit_set::BitSet;

/// A set of numbers below a fixed limit.
pub(crate) struct DeltaSet {
    limit: u32,
    /// The first set has the numbers below this one.
    bound: u32,
    /// The numbers that are in only one of the two: this set and the first set.
    changed: BitSet,
    len: u32,
}

impl DeltaSet {
    /// Returns the empty set of numbers below `limit`.
    pub(crate) fn empty(limit: u32) -> Self {
        Self { limit, bound: 0, changed: BitSet::new(limit), len: 0 }
    }

    /// Returns the set of all numbers below `limit`.
    pub(crate) fn full(limit: u32) -> Self {
        Self { bound: limit, len: limit, ..Self::empty(limit) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.changed.contains(number) != (number < self.bound)
    }

    /// Adds `number`. Returns true if `number` was not in the set before.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let added = if number < self.bound { self.changed.remove(number) } else { self.changed.insert(number) };
        self.len += u32::from(added);
        added
    }

    /// Removes `number`. Returns true if `number` was in the set.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let removed = if number < self.bound { self.changed.insert(number) } else { self.changed.remove(number) };
        self.len -= u32::from(removed);
        removed
    }

    /// Adds all numbers of `run`. Returns the number of members that are new.
    pub(crate) fn insert_run(&mut self, run: Range<u32>) -> u32 {
        let (below, above) = self.split(run);
        let added = self.changed.remove_run(below) + self.changed.insert_run(above);
        self.len += added;
        added
    }

    /// Removes all numbers of `run`. Returns the number of members that are gone.
    pub(crate) fn remove_run(&mut self, run: Range<u32>) -> u32 {
        let (below, above) = self.split(run);
        let removed = self.changed.insert_run(below) + self.changed.remove_run(above);
        self.len -= removed;
        removed
    }

    /// Adds the numbers of `run` before the first member in `run`. Returns the end of the numbers
    /// that were added. A run behind a first set without changes only raises the bound, and touches
    /// no memory.
    pub(crate) fn fill(&mut self, run: Range<u32>) -> u32 {
        assert!(run.end <= self.limit, "slot {} beyond {}", run.end, self.limit);
        let start = run.start;
        let (below, above) = self.split(run);
        let mut end = start;
        if !below.is_empty() {
            end = self.changed.next_gap(start).map_or(below.end, |member| member.min(below.end));
            self.changed.remove_run(start..end);
        }
        if end == above.start {
            end = if self.changed.len() == 0 && end == self.bound {
                self.bound = above.end;
                above.end
            } else {
                self.changed.fill(above)
            };
        }
        self.len += end - start;
        end
    }

    /// Returns the first member at or after `from`.
    pub(crate) fn next_member(&self, from: u32) -> Option<u32> {
        let below = if from < self.bound { self.changed.next_gap(from) } else { None };
        below.filter(|&member| member < self.bound).or_else(|| self.changed.next_member(from.max(self.bound)))
    }

    /// Returns the first number at or after `from` that is not a member.
    pub(crate) fn next_gap(&self, from: u32) -> Option<u32> {
        let below = if from < self.bound { self.changed.next_member(from) } else { None };
        below.filter(|&gap| gap < self.bound).or_else(|| self.changed.next_gap(from.max(self.bound)))
    }

    /// Splits `run` into its numbers below the bound and the others.
    fn split(&self, run: Range<u32>) -> (Range<u32>, Range<u32>) {
        let middle = self.bound.clamp(run.start, run.end.max(run.start));
        (run.start..middle, middle..run.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A simulated mirror may begin with copies of a disk of terabytes, on a larger SSD.
    #[test]
    fn runs_filled_in_order_change_no_bit() {
        let mut set = DeltaSet::empty(1000);
        assert_eq!([set.fill(0..300), set.fill(300..700)], [300, 700]);
        assert_eq!((set.len(), set.changed.len(), set.next_gap(0)), (700, 0, Some(700)));
        assert!(set.remove(5));
        assert_eq!([set.fill(5..9), set.fill(700..800)], [6, 800]);
        assert_eq!((set.len(), set.changed.len()), (800, 0), "number 5 is back");
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_that_began_empty_or_full(
            limit in 1u32..700, is_full in any::<bool>(),
            changes in proptest::collection::vec((0u8..6, 0u32..700, 0u32..300), 0..60),
        ) {
            let mut set = if is_full { DeltaSet::full(limit) } else { DeltaSet::empty(limit) };
            let mut model: BTreeSet<u32> = (0..limit).filter(|_| is_full).collect();
            for (kind, number, len) in changes {
                let number = number % limit;
                let run = number..number.saturating_add(len).min(limit);
                let run = if kind == 5 { 0..run.end } else { run };
                let count = |changed: bool| u32::from(changed);
                let (found, expected) = match kind {
                    0 => (count(set.insert(number)), count(model.insert(number))),
                    1 => (count(set.remove(number)), count(model.remove(&number))),
                    2 => (set.insert_run(run.clone()), run.map(|number| count(model.insert(number))).sum()),
                    3 => (set.remove_run(run.clone()), run.map(|number| count(model.remove(&number))).sum()),
                    _ => (set.fill(run.clone()), run.start + run.take_while(|number| model.insert(*number)).count() as u32),
                };
                prop_assert_eq!(found, expected);
                prop_assert_eq!(set.len() as usize, model.len());
                prop_assert_eq!(set.contains(number), model.contains(&number));
                prop_assert_eq!(set.next_member(number), model.range(number..).next().copied());
                prop_assert_eq!(set.next_gap(number), (number..limit).find(|next| !model.contains(next)));
            }
        }
    }
}
