//! Numbers objects: each address gets the next number when it first occurs, so that all other
//! tables can be arrays.
//!
//! The numbers are in an open-addressed table of 12 bytes an entry, at most three quarters full.
//! Neighbouring addresses have neighbouring entries, so that a large request waits for a few lines
//! of memory instead of one line for each of its blocks.

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

/// Number of neighbouring addresses whose entries are beside each other. An address that finds its
/// entry taken goes to the next group, and its neighbours go with it.
const GROUP: usize = 8;

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

    /// Returns true if no address was seen.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the numbers of `ids`, in their order, into `numbers`. Calls `new` with the index of
    /// each new address.
    pub fn number_all(&mut self, ids: &[u64], numbers: &mut Vec<u32>, mut new: impl FnMut(usize)) {
        numbers.clear();
        // Most addresses are found at their first position. The loads miss the processor's caches,
        // and are independent of each other.
        numbers.extend(ids.iter().map(|&id| {
            let entry = self.entries[self.home(id)];
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

    /// Returns the first position of `id` in the table. The place within the group is hashed, too:
    /// addresses that are multiples of a group must not share one place.
    #[inline]
    fn home(&self, id: u64) -> usize {
        let hash = folded(id / GROUP as u64);
        let place = (id ^ hash >> 32) as usize % GROUP;
        hash as usize & (self.entries.len() - GROUP) | place
    }

    /// Returns the position after `at`: the same place in the next group, and in the end each
    /// position of the table once.
    #[inline]
    fn after(&self, at: usize) -> usize {
        let next = at + GROUP;
        if next < self.entries.len() { next } else { (next + 1) % GROUP }
    }

    /// Returns the number of `id`, and whether it is new.
    #[inline]
    pub fn number(&mut self, id: u64) -> (u32, bool) {
        let mut at = self.home(id);
        loop {
            let entry = self.entries[at];
            if entry.number == EMPTY.number {
                break;
            }
            if entry.is(id) {
                return (entry.number, false);
            }
            at = self.after(at);
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
        let old = std::mem::replace(&mut self.entries, larger);
        for entry in old.into_iter().filter(|entry| entry.number != EMPTY.number) {
            let mut at = self.home(u64::from(entry.high) << 32 | u64::from(entry.low));
            while self.entries[at].number != EMPTY.number {
                at = self.after(at);
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

    /// Addresses of all distances, also those that have one place in their groups, and more of them
    /// than one place of all groups holds.
    #[test]
    fn addresses_at_any_distance_get_their_own_numbers() {
        for distance in [1, 2, 8, 64, 1 << 20, 1 << 40] {
            let mut numbering = Numbering::default();
            for n in 0..20_000 {
                assert_eq!(numbering.number(n * distance), (n as u32, true), "{distance}");
            }
            for n in 0..20_000 {
                assert_eq!(numbering.number(n * distance), (n as u32, false), "{distance}");
            }
        }
    }

    #[test]
    fn every_position_is_reached_from_every_other() {
        let numbering = Numbering::default();
        let mut at = 77;
        let mut reached = std::collections::HashSet::new();
        while reached.insert(at) {
            at = numbering.after(at);
        }
        assert_eq!(reached.len(), numbering.entries.len());
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
