//! A set of slot numbers as bits with one summary level. The next member or the next gap is found
//! without a walk over all words. The system zeroes the memory of the set on demand: an untouched
//! part is never resident.

use std::ops::Range;

/// A set of numbers below a fixed limit.
pub(crate) struct BitSet {
    words: Vec<u64>,
    /// A bit for each word, set if the word has a bit set.
    any: Vec<u64>,
    /// A bit for each word, set if all bits of the word are set.
    full: Vec<u64>,
    limit: u32,
    len: u32,
}

impl BitSet {
    /// Returns the empty set of numbers below `limit`.
    pub(crate) fn new(limit: u32) -> Self {
        let words = limit.div_ceil(64) as usize;
        let summary = words.div_ceil(64);
        Self { words: vec![0; words], any: vec![0; summary], full: vec![0; summary], limit, len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.words[number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// Adds `number`. Returns true if `number` was not in the set before.
    #[inline]
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        assert!(number < self.limit, "slot {number} beyond {}", self.limit);
        let word = number as usize / 64;
        let bit = 1 << (number % 64);
        if self.words[word] & bit != 0 {
            return false;
        }
        self.add(word, bit);
        self.len += 1;
        true
    }

    /// Adds bits, at least one, to a word.
    #[inline]
    fn add(&mut self, word: usize, bits: u64) {
        self.words[word] |= bits;
        self.any[word / 64] |= 1 << (word % 64);
        if self.words[word] == u64::MAX {
            self.full[word / 64] |= 1 << (word % 64);
        }
    }

    /// Adds the numbers of `run` before the first member in `run`. Returns the end of the numbers
    /// that were added.
    pub(crate) fn fill(&mut self, run: Range<u32>) -> u32 {
        assert!(run.end <= self.limit, "slot {} beyond {}", run.end, self.limit);
        let mut from = run.start;
        while from < run.end {
            let word = from as usize / 64;
            let wanted = (run.end - from).min(64 - from % 64);
            let count = (self.words[word] >> (from % 64)).trailing_zeros().min(wanted);
            if count > 0 {
                self.add(word, u64::MAX >> (64 - count) << (from % 64));
            }
            from += count;
            if count < wanted {
                break;
            }
        }
        self.len += from - run.start;
        from
    }

    /// Removes `number`. Returns true if `number` was in the set.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let word = number as usize / 64;
        let bit = 1 << (number % 64);
        if self.words[word] & bit == 0 {
            return false;
        }
        self.words[word] &= !bit;
        self.full[word / 64] &= !(1 << (word % 64));
        if self.words[word] == 0 {
            self.any[word / 64] &= !(1 << (word % 64));
        }
        self.len -= 1;
        true
    }

    /// Adds all numbers of `run`. Returns the number of members that are new.
    pub(crate) fn insert_run(&mut self, run: Range<u32>) -> u32 {
        assert!(run.end <= self.limit, "slot {} beyond {}", run.end, self.limit);
        let mut added = 0;
        for (word, bits) in words_of(run) {
            added += (bits & !self.words[word]).count_ones();
            self.add(word, bits);
        }
        self.len += added;
        added
    }

    /// Removes all numbers of `run`. Returns the number of members that are gone.
    pub(crate) fn remove_run(&mut self, run: Range<u32>) -> u32 {
        let mut removed = 0;
        for (word, bits) in words_of(run) {
            let gone = bits & self.words[word];
            if gone != 0 {
                self.words[word] &= !gone;
                self.full[word / 64] &= !(1 << (word % 64));
                if self.words[word] == 0 {
                    self.any[word / 64] &= !(1 << (word % 64));
                }
                removed += gone.count_ones();
            }
        }
        self.len -= removed;
        removed
    }

    /// Returns the first member at or after `from`.
    pub(crate) fn next_member(&self, from: u32) -> Option<u32> {
        if from >= self.limit {
            return None;
        }
        let word = from as usize / 64;
        let rest = self.words[word] & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(word as u32 * 64 + rest.trailing_zeros());
        }
        let word = next_summary_bit(&self.any, word + 1, false)?;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }

    /// Returns the first number at or after `from` that is not a member.
    pub(crate) fn next_gap(&self, from: u32) -> Option<u32> {
        if from >= self.limit {
            return None;
        }
        let word = from as usize / 64;
        let rest = !self.words[word] & (u64::MAX << (from % 64));
        let gap = if rest != 0 {
            word as u32 * 64 + rest.trailing_zeros()
        } else {
            let word = next_summary_bit(&self.full, word + 1, true)?;
            if word >= self.words.len() {
                return None;
            }
            word as u32 * 64 + (!self.words[word]).trailing_zeros()
        };
        (gap < self.limit).then_some(gap)
    }
}

/// Returns the words of the numbers of `run`, each with the bits of these numbers.
fn words_of(run: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let words = run.start / 64..if run.is_empty() { run.start / 64 } else { run.end.div_ceil(64) };
    words.map(move |word| {
        let (from, end) = (run.start.max(word * 64) % 64, (run.end - word * 64).min(64));
        (word as usize, u64::MAX >> (64 - (end - from)) << from)
    })
}

/// Returns the first bit at or after `from` that is set (or, with `inverted`, clear).
fn next_summary_bit(summary: &[u64], from: usize, inverted: bool) -> Option<usize> {
    let flip = if inverted { u64::MAX } else { 0 };
    let mut index = from / 64;
    let mut word = (summary.get(index)? ^ flip) & (u64::MAX << (from % 64));
    while word == 0 {
        index += 1;
        word = summary.get(index)? ^ flip;
    }
    Some(index * 64 + word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn parts(set: &BitSet) -> (Vec<u64>, Vec<u64>, Vec<u64>, u32) {
        (set.words.clone(), set.any.clone(), set.full.clone(), set.len)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(limit in 1u32..9000, numbers in proptest::collection::vec((any::<bool>(), 0u32..9000), 0..300),
                            probes in proptest::collection::vec(0u32..9000, 20)) {
            let mut set = BitSet::new(limit);
            let mut model = BTreeSet::new();
            for (insert, number) in numbers {
                let number = number % limit;
                if insert {
                    prop_assert_eq!(set.insert(number), model.insert(number));
                } else {
                    prop_assert_eq!(set.remove(number), model.remove(&number));
                }
            }
            prop_assert_eq!(set.len() as usize, model.len());
            for probe in probes {
                let probe = probe % limit;
                prop_assert_eq!(set.contains(probe), model.contains(&probe));
                prop_assert_eq!(set.next_member(probe), model.range(probe..).next().copied());
                prop_assert_eq!(set.next_gap(probe), (probe..limit).find(|n| !model.contains(n)));
            }
        }

        #[test]
        fn fill_adds_numbers_up_to_the_first_member(
            limit in 1u32..9000, members in proptest::collection::vec(0u32..9000, 0..40),
            runs in proptest::collection::vec((0u32..9000, 0u32..9000), 1..20)
        ) {
            let (mut set, mut twin) = (BitSet::new(limit), BitSet::new(limit));
            members.iter().for_each(|number| assert_eq!(set.insert(number % limit), twin.insert(number % limit)));
            for (start, len) in runs {
                let run = start % limit..(start % limit + len).min(limit);
                let mut end = run.start;
                while end < run.end && twin.insert(end) {
                    end += 1;
                }
                prop_assert_eq!(set.fill(run), end);
                prop_assert_eq!(parts(&set), parts(&twin));
            }
        }

        /// Compares runs that are added or removed at once with their numbers one by one.
        #[test]
        fn run_changes_as_its_numbers_one_by_one(
            limit in 1u32..9000, runs in proptest::collection::vec((any::<bool>(), 0u32..9000, 0u32..9000), 1..40)
        ) {
            let (mut set, mut twin) = (BitSet::new(limit), BitSet::new(limit));
            for (insert, start, len) in runs {
                let run = start % limit..(start % limit + len).min(limit);
                let (changed, expected) = if insert {
                    (set.insert_run(run.clone()), run.filter(|&number| twin.insert(number)).count())
                } else {
                    (set.remove_run(run.clone()), run.filter(|&number| twin.remove(number)).count())
                };
                prop_assert_eq!(changed as usize, expected);
                prop_assert_eq!(parts(&set), parts(&twin));
            }
        }

        #[test]
        fn a_full_set_has_no_gap(limit in 1u32..9000) {
            let mut set = BitSet::new(limit);
            (0..limit).for_each(|n| { set.insert(n); });
            prop_assert_eq!(set.next_gap(0), None);
            prop_assert_eq!(set.next_member(limit - 1), Some(limit - 1));
        }
    }
}
