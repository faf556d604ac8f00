//! A binary heap of slots by a rank that can change. The smallest rank comes first; of equal ranks,
//! the lower slot.

use crate::block_map::Slot;

/// Resident bytes for each slot: its position, its rank, and the heap itself.
pub(super) const BYTES_PER_SLOT: f64 = 16.0;

const ABSENT: u32 = 0;

/// Heap of slots, ordered by rank.
pub struct IndexedHeap {
    /// The heap lies in `..len`. Slots that an eviction offered and that were refused lie behind
    /// the heap, until the eviction ends.
    heap: Vec<u32>,
    /// For each slot, its position in the heap plus one; 0: the slot is not in the heap.
    places: Vec<u32>,
    ranks: Vec<u64>,
    len: u32,
}

impl IndexedHeap {
    /// Returns an empty heap for `slots` slots.
    pub fn new(slots: u32) -> Self {
        let slots = slots as usize;
        Self { heap: vec![0; slots], places: vec![ABSENT; slots], ranks: vec![0; slots], len: 0 }
    }

    /// Returns the number of slots in the heap.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if no slot is in the heap.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the rank of `slot`, which must be in the heap.
    pub fn rank(&self, slot: Slot) -> u64 {
        debug_assert!(self.contains(slot));
        self.ranks[slot.0 as usize]
    }

    /// Returns true if `slot` is in the heap.
    pub fn contains(&self, slot: Slot) -> bool {
        self.places[slot.0 as usize] != ABSENT
    }

    /// Adds `slot`, or changes its rank.
    pub fn set(&mut self, slot: Slot, rank: u64) {
        self.ranks[slot.0 as usize] = rank;
        let at = match self.places[slot.0 as usize] {
            ABSENT => {
                self.put(self.len, slot.0);
                self.len += 1;
                self.len - 1
            }
            place => place - 1,
        };
        let at = self.up(at);
        self.down(at);
    }

    /// Gives the rank of `from`, which must be in the heap, to `to`, and takes `from` out.
    pub fn rename(&mut self, from: Slot, to: Slot) {
        let rank = self.rank(from);
        self.remove(from);
        self.set(to, rank);
    }

    /// Takes `slot` out of the heap, if `slot` is in the heap.
    pub fn remove(&mut self, slot: Slot) {
        let Some(at) = self.places[slot.0 as usize].checked_sub(1) else { return };
        self.places[slot.0 as usize] = ABSENT;
        self.len -= 1;
        if at < self.len {
            self.put(at, self.heap[self.len as usize]);
            let at = self.up(at);
            self.down(at);
        }
    }

    /// Offers slots in order of rank until no slot is left or `judge` ends the search. Slots that
    /// `judge` takes leave the heap.
    pub fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> crate::scheme::Verdict) {
        let mut kept = 0;
        while !self.is_empty() {
            let first = self.heap[0];
            let verdict = judge(Slot(first));
            self.remove(Slot(first));
            if !verdict.take {
                // Each slot that is offered frees an entry after the heap, so refused slots fill
                // the array from its end.
                kept += 1;
                let end = self.heap.len() - kept;
                self.heap[end] = first;
            }
            if !verdict.more {
                break;
            }
        }
        for back in (1..=kept).rev() {
            let slot = self.heap[self.heap.len() - back];
            self.set(Slot(slot), self.ranks[slot as usize]);
        }
    }

    #[inline]
    fn before(&self, a: u32, b: u32) -> bool {
        (self.ranks[a as usize], a) < (self.ranks[b as usize], b)
    }

    #[inline]
    fn put(&mut self, at: u32, slot: u32) {
        self.heap[at as usize] = slot;
        self.places[slot as usize] = at + 1;
    }

    fn up(&mut self, mut at: u32) -> u32 {
        let slot = self.heap[at as usize];
        while at > 0 {
            let parent = self.heap[(at as usize - 1) / 2];
            if !self.before(slot, parent) {
                break;
            }
            self.put(at, parent);
            at = (at - 1) / 2;
        }
        self.put(at, slot);
        at
    }

    fn down(&mut self, mut at: u32) {
        let slot = self.heap[at as usize];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.len {
                break;
            }
            if child + 1 < self.len && self.before(self.heap[child as usize + 1], self.heap[child as usize]) {
                child += 1;
            }
            if !self.before(self.heap[child as usize], slot) {
                break;
            }
            self.put(at, self.heap[child as usize]);
            at = child;
        }
        self.put(at, slot);
    }
}
