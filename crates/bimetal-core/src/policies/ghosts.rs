//! Ghosts: blocks that were evicted and are remembered by their key alone, in order of eviction, in
//! one or more lists.
//!
//! At most 12 bytes a ghost: a ring of keys, and an open-addressed index of ring positions. The
//! ring has a third to spare for the gaps that recognised ghosts leave. When gaps fill the ring, it
//! is compacted, which costs O(1) for each ghost added since.

use super::replacement::Key;
use crate::bit_set::BitSet;
use crate::mixing::GOLDEN_RATIO;

/// Resident bytes for each ghost, in the worst case.
pub(super) const BYTES_PER_GHOST: f64 = 12.0;

/// Number of neighbouring keys whose entries are beside each other: the blocks of a large request
/// wait for one line of memory, and not for a line each.
const GROUP: usize = 8;

/// Returns the number of index entries for `entries` keys: at most two thirds are in use.
fn index_places(entries: u32) -> usize {
    (entries as usize + entries as usize / 2 + 2).next_multiple_of(GROUP)
}

/// Index of ring positions by the key that stands at the position.
pub(super) struct KeyIndex {
    /// Ring positions plus one; 0 marks an empty entry.
    places: Vec<u32>,
}

impl KeyIndex {
    pub(super) fn new(entries: u32) -> Self {
        Self { places: vec![0; index_places(entries)] }
    }

    /// Returns the first entry for `key`. The place within the group is hashed, too, by high bits
    /// of the hash: keys at any distance from each other must not share one place.
    #[inline]
    fn home(&self, key: u32) -> usize {
        let hash = u64::from(key / GROUP as u32).wrapping_mul(GOLDEN_RATIO);
        let group = ((hash >> 32) * (self.places.len() / GROUP) as u64) >> 32;
        group as usize * GROUP + (u64::from(key) ^ (hash >> 29)) as usize % GROUP
    }

    /// Returns the entry after `place`: the same place in the next group, and in the end each entry
    /// once.
    #[inline]
    fn after(&self, place: usize) -> usize {
        let next = place + GROUP;
        if next < self.places.len() { next } else { (next + 1) % GROUP }
    }

    /// Returns the number of steps of [`after`](Self::after) from one entry to another.
    #[inline]
    fn steps(&self, from: usize, to: usize) -> usize {
        let order = |place| place % GROUP * (self.places.len() / GROUP) + place / GROUP;
        let (from, to): (usize, usize) = (order(from), order(to));
        if to >= from { to - from } else { to + self.places.len() - from }
    }

    /// Returns the entry of `key` in the index, if the index has it.
    #[inline]
    fn place(&self, key: u32, ring: &[u32]) -> Option<usize> {
        let mut place = self.home(key);
        loop {
            match self.places[place] {
                0 => return None,
                position if ring[position as usize - 1] == key => return Some(place),
                _ => place = self.after(place),
            }
        }
    }

    /// Returns the position of `key` in `ring`.
    #[inline]
    pub(super) fn get(&self, key: u32, ring: &[u32]) -> Option<u32> {
        self.place(key, ring).map(|place| self.places[place] - 1)
    }

    /// Adds `key`, which is not in the index and stands at `position`.
    pub(super) fn insert(&mut self, key: u32, position: u32) {
        let mut place = self.home(key);
        while self.places[place] != 0 {
            place = self.after(place);
        }
        self.places[place] = position + 1;
    }

    /// Takes `key` out of the index, and returns its position in `ring`. Entries that collided with
    /// `key` move up.
    pub(super) fn take(&mut self, key: u32, ring: &[u32]) -> Option<u32> {
        let mut gap = self.place(key, ring)?;
        let taken = self.places[gap] - 1;
        let mut place = gap;
        loop {
            place = self.after(place);
            let position = self.places[place];
            if position == 0 {
                break;
            }
            let home = self.home(ring[position as usize - 1]);
            if self.steps(home, place) >= self.steps(gap, place) {
                self.places[gap] = position;
                gap = place;
            }
        }
        self.places[gap] = 0;
        Some(taken)
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(0);
    }
}

/// `N` lists of ghosts, together at most `limit` ghosts.
pub(super) struct Ghosts<const N: usize> {
    ring: Vec<u32>,
    /// For each list, the ring positions of its ghosts.
    members: [BitSet; N],
    index: KeyIndex,
    /// Position after the newest ghost.
    head: u32,
    /// Number of positions in use before `head`, gaps included.
    span: u32,
    limit: u32,
}

impl<const N: usize> Ghosts<N> {
    pub(super) fn new(limit: u32) -> Self {
        let capacity = limit + limit / 3 + 1;
        Self {
            ring: vec![0; capacity as usize],
            members: std::array::from_fn(|_| BitSet::new(capacity)),
            index: KeyIndex::new(limit),
            head: 0,
            span: 0,
            limit,
        }
    }

    /// Returns the number of ghosts in `list`.
    #[inline]
    pub(super) fn len(&self, list: usize) -> u32 {
        self.members[list].len()
    }

    fn total(&self) -> u32 {
        self.members.iter().map(BitSet::len).sum()
    }

    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Returns the oldest position in use, which may be a gap.
    fn tail(&self) -> u32 {
        if self.head >= self.span { self.head - self.span } else { self.head + self.capacity() - self.span }
    }

    /// Takes the ghost of `key` out of its list, and returns the list.
    pub(super) fn take(&mut self, key: Key) -> Option<usize> {
        let position = self.index.take(key.0, &self.ring)?;
        let list = (0..N).find(|&list| self.members[list].remove(position));
        debug_assert!(list.is_some(), "a ghost in the index is in a list");
        list
    }

    /// Drops the oldest ghost of `list`.
    pub(super) fn drop_oldest(&mut self, list: usize) {
        let members = &self.members[list];
        if let Some(position) = members.next_member(self.tail()).or_else(|| members.next_member(0)) {
            self.take(Key(self.ring[position as usize]));
        }
    }

    /// Adds the ghost of `key` to `list` as its newest. If there is no room, the oldest ghost of
    /// `list` is dropped; if `list` is empty, the oldest ghost of another list.
    pub(super) fn push(&mut self, list: usize, key: Key) {
        if self.limit == 0 {
            return;
        }
        self.take(key);
        if self.total() == self.limit {
            let from = std::iter::once(list).chain(0..N).find(|&list| self.len(list) > 0);
            from.into_iter().for_each(|list| self.drop_oldest(list));
        }
        if self.span == self.capacity() {
            self.drop_gaps();
        }
        self.ring[self.head as usize] = key.0;
        self.members[list].insert(self.head);
        self.index.insert(key.0, self.head);
        self.head = if self.head + 1 == self.capacity() { 0 } else { self.head + 1 };
        self.span += 1;
    }

    /// Makes room in the ring: frees the gaps at the old end, or compacts the ring if the old end
    /// has no gaps.
    fn drop_gaps(&mut self) {
        let tail = self.tail();
        let capacity = self.capacity();
        let next = |members: &BitSet| {
            let position = members.next_member(tail).map(|position| position - tail);
            position.or_else(|| members.next_member(0).map(|position| position + capacity - tail))
        };
        let gaps = self.members.iter().filter_map(next).min().unwrap_or(self.span);
        self.span -= gaps;
        if self.span == capacity {
            self.close_up();
        }
    }

    fn close_up(&mut self) {
        let (tail, capacity) = (self.tail(), self.capacity());
        self.index.clear();
        let mut to = tail;
        for at in 0..capacity {
            let from = if tail + at < capacity { tail + at } else { tail + at - capacity };
            let Some(list) = (0..N).find(|&list| self.members[list].remove(from)) else { continue };
            let key = self.ring[from as usize];
            self.ring[to as usize] = key;
            self.members[list].insert(to);
            self.index.insert(key, to);
            to = if to + 1 == capacity { 0 } else { to + 1 };
        }
        self.head = to;
        self.span = self.total();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Regression: keys that are multiples of 64 all began at one place of their groups, and a
    /// lookup took thousands of steps.
    #[test]
    fn keys_at_any_distance_are_found_in_a_few_steps() {
        const KEYS: u32 = 4000;
        for distance in (0..18).map(|power| 1 << power).chain([3, 24, 1000]) {
            let ring: Vec<u32> = (0..KEYS).map(|number| number.wrapping_mul(distance)).collect();
            let mut index = KeyIndex::new(KEYS);
            (0..KEYS).for_each(|position| index.insert(ring[position as usize], position));
            let steps = |key: &u32| index.place(*key, &ring).map(|place| index.steps(index.home(*key), place));
            let all: usize = ring.iter().map(|key| steps(key).expect("it is in the index")).sum();
            assert!(all < 8 * KEYS as usize, "distance {distance}: {all} steps for {KEYS} keys");
        }
    }

    proptest! {
        #[test]
        fn behave_as_lists_of_keys_in_order_of_age(
            limit in 1u32..20,
            steps in proptest::collection::vec((0usize..4, 0usize..2, 0u32..40), 0..400),
        ) {
            let mut ghosts = Ghosts::<2>::new(limit);
            let mut model: [Vec<u32>; 2] = Default::default();
            for (step, list, key) in steps {
                match step {
                    0 => {
                        let expected = (0..2).find(|&list| model[list].contains(&key));
                        model.iter_mut().for_each(|list| list.retain(|&other| other != key));
                        prop_assert_eq!(ghosts.take(Key(key)), expected);
                    }
                    1 => {
                        ghosts.drop_oldest(list);
                        if !model[list].is_empty() {
                            model[list].remove(0);
                        }
                    }
                    _ => {
                        ghosts.push(list, Key(key));
                        model.iter_mut().for_each(|list| list.retain(|&other| other != key));
                        if model[0].len() + model[1].len() == limit as usize {
                            let from = if model[list].is_empty() { 1 - list } else { list };
                            model[from].remove(0);
                        }
                        model[list].push(key);
                    }
                }
                prop_assert_eq!([0, 1].map(|list| ghosts.len(list) as usize), [model[0].len(), model[1].len()]);
            }
        }
    }

    #[test]
    fn a_ghost_takes_at_most_twelve_bytes() {
        let limit = 100_000;
        let ghosts = Ghosts::<2>::new(limit);
        let bits = 2 * (ghosts.ring.len() / 8 + 2 * ghosts.ring.len() / 512);
        let bytes = 4 * (ghosts.ring.len() + ghosts.index.places.len()) + bits;
        assert!(bytes as f64 <= BYTES_PER_GHOST * f64::from(limit), "{bytes}");
    }
}
