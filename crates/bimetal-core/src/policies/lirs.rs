//! LIRS (Jiang, Zhang: *LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to
//! Improve Buffer Cache Performance*, SIGMETRICS 2002, section 3). Blocks whose last two uses were
//! close together (LIR) keep most slots. All other blocks (HIR) pass through a small queue Q. The
//! stack S orders the blocks that were used since the oldest use of any LIR block, evicted HIR
//! blocks included. A HIR block that is used while it is in S changes places with the LIR block at
//! the bottom of S.
//!
//! As in the paper, Q has 1 % of the slots. Our choices: the paper does not bound S; in this
//! implementation S holds at most two entries for each slot, and beyond that its lowest evicted
//! block is dropped. If slots are kept free, Q gets as many slots more, or Q would always be empty.
//! A slot that the caller refuses stays in its position. When Q has nothing to offer, LIR blocks
//! are evicted from the bottom of S.
//!
//! S is a ring of entries in order of use. The ring has gaps where blocks were used again, and is
//! compacted when full.

use super::ghosts::KeyIndex;
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::bit_set::BitSet;
use crate::block_map::Slot;

/// Resident bytes for each slot and its share of the evicted blocks in S. Each of two ring entries
/// for a slot takes 5.5 bytes, and the index of each evicted block 6 bytes. The bit sets take two
/// bits an entry.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 9.0 + 11.0 + 12.2 + 0.8;

const Q: usize = 0;
/// Position of a slot that is not in S.
const NOWHERE: u32 = u32::MAX;

/// The LIRS policy.
pub struct Lirs {
    stack: Stack,
    /// Resident HIR blocks: the queue Q.
    queue: SlotLists<1>,
    keys: Vec<u32>,
    lir: Vec<bool>,
    lirs: u32,
    lirs_limit: u32,
    len: u32,
    expected: Option<(Key, bool)>,
}

/// The stack S.
struct Stack {
    /// Slots of resident blocks, and keys of evicted blocks.
    ring: Vec<u32>,
    residents: BitSet,
    ghosts: BitSet,
    index: KeyIndex,
    /// For each slot, its position in `ring`, or [`NOWHERE`].
    positions: Vec<u32>,
    head: u32,
    span: u32,
    limit: u32,
}

impl Stack {
    fn new(slots: u32) -> Self {
        let limit = slots.saturating_mul(2);
        let capacity = limit + limit / 3 + 2;
        Self {
            ring: vec![0; capacity as usize],
            residents: BitSet::new(capacity),
            ghosts: BitSet::new(capacity),
            index: KeyIndex::new(limit),
            positions: vec![NOWHERE; slots as usize],
            head: 0,
            span: 0,
            limit,
        }
    }

    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }

    fn tail(&self) -> u32 {
        if self.head >= self.span { self.head - self.span } else { self.head + self.capacity() - self.span }
    }

    fn contains(&self, slot: Slot) -> bool {
        self.positions[slot.0 as usize] != NOWHERE
    }

    /// Returns the lowest entry of `of` at or above `from`. The returned and the given position are
    /// counted from the tail.
    fn lowest(&self, of: &BitSet, from: u32) -> Option<u32> {
        let (tail, capacity) = (self.tail(), self.capacity());
        if tail + from < capacity {
            let above = of.next_member(tail + from).map(|position| position - tail);
            above.or_else(|| of.next_member(0).filter(|&position| position < tail).map(|at| at + capacity - tail))
        } else {
            of.next_member(tail + from - capacity).filter(|&position| position < tail).map(|at| at + capacity - tail)
        }
    }

    fn at(&self, from_tail: u32) -> u32 {
        let position = u64::from(self.tail()) + u64::from(from_tail);
        (position % u64::from(self.capacity())) as u32
    }

    /// Returns the lowest resident block at or above `from`, and its position. The returned and the
    /// given position are counted from the tail.
    fn resident(&self, from: u32) -> Option<(u32, Slot)> {
        let at = self.lowest(&self.residents, from)?;
        Some((at, Slot(self.ring[self.at(at) as usize])))
    }

    /// Puts `slot` on top of S, regardless of its present position.
    fn push(&mut self, slot: Slot) {
        self.remove(slot);
        if self.span == self.capacity() {
            self.drop_gaps();
        }
        self.ring[self.head as usize] = slot.0;
        self.residents.insert(self.head);
        self.positions[slot.0 as usize] = self.head;
        self.head = if self.head + 1 == self.capacity() { 0 } else { self.head + 1 };
        self.span += 1;
    }

    fn remove(&mut self, slot: Slot) {
        let position = std::mem::replace(&mut self.positions[slot.0 as usize], NOWHERE);
        if position != NOWHERE {
            self.residents.remove(position);
        }
    }

    /// Turns the entry of `slot` in S into the ghost of `key`, since the block leaves the slot but
    /// not S.
    fn make_ghost(&mut self, slot: Slot, key: Key) {
        self.take_ghost(key);
        let position = std::mem::replace(&mut self.positions[slot.0 as usize], NOWHERE);
        self.residents.remove(position);
        self.ghosts.insert(position);
        self.ring[position as usize] = key.0;
        self.index.insert(key.0, position);
    }

    /// Takes the ghost of `key` out of S. Returns true if S had the ghost.
    fn take_ghost(&mut self, key: Key) -> bool {
        self.index.take(key.0, &self.ring).is_some_and(|position| self.ghosts.remove(position))
    }

    fn drop_lowest_ghost(&mut self) {
        if let Some(at) = self.lowest(&self.ghosts, 0) {
            self.take_ghost(Key(self.ring[self.at(at) as usize]));
        }
    }

    /// Drops the lowest ghosts until S has no more entries than its limit.
    fn bound(&mut self) {
        while self.residents.len() + self.ghosts.len() > self.limit && self.ghosts.len() > 0 {
            self.drop_lowest_ghost();
        }
    }

    fn drop_gaps(&mut self) {
        let lowest = [&self.residents, &self.ghosts].into_iter().filter_map(|of| self.lowest(of, 0)).min();
        self.span -= lowest.unwrap_or(self.span);
        if self.span == self.capacity() {
            self.close_up();
        }
    }

    fn close_up(&mut self) {
        let (tail, capacity) = (self.tail(), self.capacity());
        self.index.clear();
        let mut to = tail;
        for at in 0..capacity {
            let from = if tail + at < capacity { tail + at } else { tail + at - capacity };
            let what = self.ring[from as usize];
            if self.residents.remove(from) {
                self.residents.insert(to);
                self.positions[what as usize] = to;
            } else if self.ghosts.remove(from) {
                self.ghosts.insert(to);
                self.index.insert(what, to);
            } else {
                continue;
            }
            self.ring[to as usize] = what;
            to = if to + 1 == capacity { 0 } else { to + 1 };
        }
        self.head = to;
        self.span = self.residents.len() + self.ghosts.len();
    }
}

impl Lirs {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        let queue_limit = (slots / 100).max(1);
        Self {
            stack: Stack::new(slots),
            queue: SlotLists::new(slots),
            keys: vec![0; slots as usize],
            lir: vec![false; slots as usize],
            lirs: 0,
            lirs_limit: slots.saturating_sub(queue_limit),
            len: 0,
            expected: None,
        }
    }

    /// Prunes the stack: takes HIR blocks off the bottom of S until the bottom block is a LIR
    /// block.
    fn prune(&mut self) {
        while let Some((at, slot)) = self.stack.resident(0) {
            while self.stack.lowest(&self.stack.ghosts, 0).is_some_and(|ghost| ghost < at) {
                self.stack.drop_lowest_ghost();
            }
            if self.lir[slot.0 as usize] {
                return;
            }
            self.stack.remove(slot);
        }
        while self.stack.ghosts.len() > 0 {
            self.stack.drop_lowest_ghost();
        }
    }

    /// Makes the block in `slot`, on top of S, a LIR block. While there are too many LIR blocks,
    /// the block at the bottom of S becomes a HIR block.
    fn promote(&mut self, slot: Slot) {
        self.lir[slot.0 as usize] = true;
        self.lirs += 1;
        while self.lirs > self.lirs_limit {
            self.prune();
            let Some((_, bottom)) = self.stack.resident(0) else { return };
            self.lir[bottom.0 as usize] = false;
            self.lirs -= 1;
            self.stack.remove(bottom);
            self.queue.push(Q, bottom);
        }
        self.prune();
    }

    /// Offers the slots of the queue Q to `judge`. Returns true if `judge` asks for more slots
    /// after the slots of Q.
    fn evict_from_queue(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) -> bool {
        let mut next = self.queue.oldest(Q);
        while let Some(slot) = next {
            next = self.queue.newer(slot);
            let verdict = judge(slot);
            if verdict.take {
                self.remove(slot);
            }
            if !verdict.more {
                return false;
            }
        }
        true
    }
}

impl Replacement for Lirs {
    fn keep_free(&mut self, slots: u32) {
        // Without this, Q would stay empty, and only LIR blocks would be evicted.
        self.lirs_limit = self.lirs_limit.saturating_sub(slots).max(1);
    }

    fn expect(&mut self, key: Key) {
        self.expected = Some((key, self.stack.take_ghost(key)));
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        let in_stack = match self.expected.take() {
            Some((expected, in_stack)) if expected == key => in_stack,
            _ => self.stack.take_ghost(key),
        };
        self.keys[slot.0 as usize] = key.0;
        self.len += 1;
        self.stack.push(slot);
        if in_stack || self.lirs < self.lirs_limit {
            self.promote(slot);
        } else {
            self.lir[slot.0 as usize] = false;
            self.queue.push(Q, slot);
        }
        self.stack.bound();
    }

    fn touch(&mut self, slot: Slot) {
        let in_stack = self.stack.contains(slot);
        self.stack.push(slot);
        if self.lir[slot.0 as usize] {
            self.prune();
        } else if in_stack {
            self.queue.remove(slot);
            self.promote(slot);
        } else {
            self.queue.refresh(Q, slot);
        }
        self.stack.bound();
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.queue.rename(from, to);
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
        self.lir[to.0 as usize] = std::mem::take(&mut self.lir[from.0 as usize]);
        let position = std::mem::replace(&mut self.stack.positions[from.0 as usize], NOWHERE);
        self.stack.positions[to.0 as usize] = position;
        if position != NOWHERE {
            self.stack.ring[position as usize] = to.0;
        }
    }

    fn remove(&mut self, slot: Slot) {
        if std::mem::take(&mut self.lir[slot.0 as usize]) {
            self.lirs -= 1;
            self.stack.remove(slot);
            self.prune();
        } else if self.queue.remove(slot).is_none() {
            return;
        } else if self.stack.contains(slot) {
            self.stack.make_ghost(slot, Key(self.keys[slot.0 as usize]));
        }
        self.len -= 1;
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        if !self.evict_from_queue(judge) {
            return;
        }
        // An eviction may prune S, but every entry below the offered entry has been offered before.
        let mut next = self.stack.resident(0);
        while let Some((at, slot)) = next {
            if self.lir[slot.0 as usize] {
                let verdict = judge(slot);
                if verdict.take {
                    self.remove(slot);
                }
                if !verdict.more {
                    return;
                }
            }
            next = self.stack.resident(at + 1);
        }
    }

    fn len(&self) -> u32 {
        self.len
    }
}
