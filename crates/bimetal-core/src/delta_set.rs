//! A set of numbers as its difference from the empty set or from the full set. Only the difference
//! takes memory that is resident: a mirror of terabytes begins with copies of all its blocks, or
//! of none.

use std::ops::Range;

use crate::bit_set::BitSet;

/// A set of numbers below a fixed limit.
pub(crate) struct DeltaSet {
    limit: u32,
    /// Set if the set was full before the numbers in `changed` left it.
    was_full: bool,
    changed: BitSet,
}

impl DeltaSet {
    /// Returns the empty set of numbers below `limit`.
    pub(crate) fn empty(limit: u32) -> Self {
        Self { limit, was_full: false, changed: BitSet::new(limit) }
    }

    /// Returns the set of all numbers below `limit`.
    pub(crate) fn full(limit: u32) -> Self {
        Self { was_full: true, ..Self::empty(limit) }
    }

    pub(crate) fn len(&self) -> u32 {
        if self.was_full { self.limit - self.changed.len() } else { self.changed.len() }
    }

    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.changed.contains(number) != self.was_full
    }

    /// Adds `number`. Returns true if `number` was not in the set before.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        if self.was_full { self.changed.remove(number) } else { self.changed.insert(number) }
    }

    /// Removes `number`. Returns true if `number` was in the set.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        if self.was_full { self.changed.insert(number) } else { self.changed.remove(number) }
    }

    /// Adds all numbers of `run`. Returns the number of members that are new.
    pub(crate) fn insert_run(&mut self, run: Range<u32>) -> u32 {
        if self.was_full { self.changed.remove_run(run) } else { self.changed.insert_run(run) }
    }

    /// Removes all numbers of `run`. Returns the number of members that are gone.
    pub(crate) fn remove_run(&mut self, run: Range<u32>) -> u32 {
        if self.was_full { self.changed.insert_run(run) } else { self.changed.remove_run(run) }
    }

    /// Returns the first member at or after `from`.
    pub(crate) fn next_member(&self, from: u32) -> Option<u32> {
        if self.was_full { self.changed.next_gap(from) } else { self.changed.next_member(from) }
    }

    /// Returns the first number at or after `from` that is not a member.
    pub(crate) fn next_gap(&self, from: u32) -> Option<u32> {
        if self.was_full { self.changed.next_member(from) } else { self.changed.next_gap(from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_set_that_began_empty_or_full(
            limit in 1u32..700, is_full in any::<bool>(),
            changes in proptest::collection::vec((0u8..4, 0u32..700, 0u32..300), 0..60),
        ) {
            let mut set = if is_full { DeltaSet::full(limit) } else { DeltaSet::empty(limit) };
            let mut model: BTreeSet<u32> = (0..limit).filter(|_| is_full).collect();
            for (kind, number, len) in changes {
                let number = number % limit;
                let run = number..number.saturating_add(len).min(limit);
                let count = |changed: bool| u32::from(changed);
                let (found, expected) = match kind {
                    0 => (count(set.insert(number)), count(model.insert(number))),
                    1 => (count(set.remove(number)), count(model.remove(&number))),
                    2 => (set.insert_run(run.clone()), run.map(|number| count(model.insert(number))).sum()),
                    _ => (set.remove_run(run.clone()), run.map(|number| count(model.remove(&number))).sum()),
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
