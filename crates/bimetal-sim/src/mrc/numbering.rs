//! Numbers objects: each address gets the next number when it first occurs, so that everything else
//! is an array.
//!
//! The numbers are in an open-addressed table of 12 bytes an entry, at most three quarters full.

use bimetal_core::mixing::folded;

/// Numbers of the addresses seen so far.
pub struct Numbering {
    entries: Vec<Entry>,
    len: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    low: u32,
    high: u32,
    number: u32,
}

impl Entry {
    #[inline]
    fn is(self, id: u64) -> bool {
        self.low == id as u32 && self.high == (id >> 32) as u32
    }
}

const EMPTY: Entry = Entry { low: 0, high: 0, number: u32::MAX };

impl Default for Numbering {
    fn default() -> Self {
        Self { entries: vec![EMPTY; 1 << 10], len: 0 }
    }
}

impl Numbering {
    /// Returns the number of addresses.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the numbers of `ids`, in their order, into `numbers`. Calls `new` with the index of
    /// each new address.
    pub fn number_all(&mut self, ids: &[u64], numbers: &mut Vec<u32>, mut new: impl FnMut(usize)) {
        let mask = self.entries.len() - 1;
        numbers.clear();
        // Most addresses are found at their first position. The loads miss the processor's caches,
        // and are independent of each other.
        numbers.extend(ids.iter().map(|&id| {
            let entry = self.entries[folded(id) as usize & mask];
            if entry.is(id) { entry.number } else { EMPTY.number }
        }));
        for (at, number) in numbers.iter_mut().enumerate().filter(|(_, number)| **number == EMPTY.number) {
            let (found, is_new) = self.number(ids[at]);
            *number = found;
            if is_new {
                new(at);
            }
        }
    }

    /// Returns the number of `id`, and whether it is new.
    #[inline]
    pub fn number(&mut self, id: u64) -> (u32, bool) {
        let mask = self.entries.len() - 1;
        let mut at = folded(id) as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry.number == EMPTY.number {
                break;
            }
            if entry.is(id) {
                return (entry.number, false);
            }
            at = (at + 1) & mask;
        }
        assert!(self.len < EMPTY.number, "more than 2^32 - 1 distinct objects");
        let number = self.len;
        self.entries[at] = Entry { low: id as u32, high: (id >> 32) as u32, number };
        self.len += 1;
        if self.len as usize > self.entries.len() / 4 * 3 {
            self.grow();
        }
        (number, true)
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![EMPTY; self.entries.len() * 2];
        let mask = larger.len() - 1;
        let old = std::mem::replace(&mut self.entries, larger);
        for entry in old.into_iter().filter(|entry| entry.number != EMPTY.number) {
            let mut at = folded(u64::from(entry.high) << 32 | u64::from(entry.low)) as usize & mask;
            while self.entries[at].number != EMPTY.number {
                at = (at + 1) & mask;
            }
            self.entries[at] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_keeps_the_number_it_got_first() {
        let mut numbering = Numbering::default();
        let id = |n: u64| n * 0x1_0000_0007;
        for n in 0..50_000 {
            assert_eq!(numbering.number(id(n)), (n as u32, true));
        }
        for n in (0..50_000).rev() {
            assert_eq!(numbering.number(id(n)), (n as u32, false));
        }
        assert_eq!(numbering.len(), 50_000);
    }

    #[test]
    fn many_at_once_get_the_numbers_that_they_get_one_by_one() {
        let (mut one_by_one, mut at_once) = (Numbering::default(), Numbering::default());
        // The ids recur within a batch, in later batches, and while the table grows.
        let ids: Vec<u64> = (0..60_000u64).map(|n| n * n % 40_009).collect();
        let mut numbers = Vec::new();
        for batch in ids.chunks(700) {
            let expected: Vec<_> = batch.iter().map(|&id| one_by_one.number(id)).collect();
            let mut new = Vec::new();
            at_once.number_all(batch, &mut numbers, |at| new.push(at));
            assert!(numbers.iter().eq(expected.iter().map(|(number, _)| number)));
            assert!(new.iter().copied().eq((0..batch.len()).filter(|&at| expected[at].1)));
        }
    }
}
