//! 2Q (Johnson, Shasha: *2Q: A Low Overhead High Performance Buffer Management Replacement
//! Algorithm*, VLDB 1994, the full version of section 3). New blocks wait in a queue in order of
//! arrival (A1in). A block evicted from A1in leaves a ghost (A1out). A block that is requested
//! while it has a ghost enters the list Am, which is in order of use.
//!
//! The two tunables have the paper's own values: A1in has 25 % of the slots, and A1out has half as
//! many ghosts as there are slots. A slot that the caller refuses stays in its position.

use super::ghosts::{self, Ghosts};
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot, its share of the ghosts included.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 4.0 + ghosts::BYTES_PER_GHOST / 2.0;

const A1_IN: usize = 0;
const AM: usize = 1;

/// The 2Q policy.
pub struct TwoQueues {
    queues: SlotLists<2>,
    keys: Vec<u32>,
    a1_out: Ghosts<1>,
    a1_in_limit: u32,
    /// Block that was announced, and whether it had a ghost.
    expected: Option<(Key, bool)>,
}

impl TwoQueues {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self {
            queues: SlotLists::new(slots),
            keys: vec![0; slots as usize],
            a1_out: Ghosts::new(slots / 2),
            a1_in_limit: slots / 4,
            expected: None,
        }
    }
}

impl Replacement for TwoQueues {
    fn expect(&mut self, key: Key) {
        self.expected = Some((key, self.a1_out.take(key).is_some()));
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        let remembered = match self.expected.take() {
            Some((expected, remembered)) if expected == key => remembered,
            _ => self.a1_out.take(key).is_some(),
        };
        self.queues.push(if remembered { AM } else { A1_IN }, slot);
        self.keys[slot.0 as usize] = key.0;
    }

    fn touch(&mut self, slot: Slot) {
        if self.queues.list_of(slot) == Some(AM) {
            self.queues.refresh(AM, slot);
        }
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.queues.rename(from, to);
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
    }

    fn remove(&mut self, slot: Slot) {
        if self.queues.remove(slot) == Some(A1_IN) {
            self.a1_out.push(0, Key(self.keys[slot.0 as usize]));
        }
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let mut next = [self.queues.oldest(A1_IN), self.queues.oldest(AM)];
        loop {
            let from_a1_in = self.queues.len(A1_IN) > self.a1_in_limit || next[AM].is_none();
            let queue = if from_a1_in && next[A1_IN].is_some() { A1_IN } else { AM };
            let Some(slot) = next[queue] else { return };
            next[queue] = self.queues.newer(slot);
            let verdict = judge(slot);
            if verdict.take {
                self.remove(slot);
            }
            if !verdict.more {
                return;
            }
        }
    }

    fn len(&self) -> u32 {
        self.queues.len(A1_IN) + self.queues.len(AM)
    }
}
