//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: *FIFO Queues are All You Need for Cache Eviction*, SOSP
//! 2023, section 4.1, algorithm 1): a small queue for new blocks, a main queue, and ghosts of
//! blocks evicted from the small queue.
//!
//! A block enters the small queue, or the main queue if it has a ghost. A block at the end of the
//! small queue moves to the main queue if it was used more than once in the small queue. A block at
//! the end of the small queue that was used once at most is evicted, and leaves a ghost. In the
//! main queue each use gives a block another round, up to three. As in the paper, the small queue
//! has 10 % of the slots, and there are as many ghosts as the main queue has slots. A block enters
//! the small queue also while the cache fills. Our choice: the main queue evicts when it has more
//! than its 90 % of the slots; otherwise the small queue evicts. A slot that the caller refuses
//! stays in its position.

use super::ghosts::{self, Ghosts};
use super::replacement::{Key, Replacement, Verdict};
use super::slot_lists::{self, SlotLists};
use crate::block_map::Slot;

/// Resident bytes for each slot, its share of the ghosts included.
pub const BYTES_PER_SLOT: f64 = slot_lists::BYTES_PER_SLOT + 5.0 + ghosts::BYTES_PER_GHOST;

const SMALL: usize = 0;
const MAIN: usize = 1;
/// Largest number of uses that is counted.
const USES_MAX: u8 = 3;

/// The S3-FIFO policy.
pub struct S3Fifo {
    queues: SlotLists<2>,
    uses: Vec<u8>,
    keys: Vec<u32>,
    ghosts: Ghosts<1>,
    main_limit: u32,
    /// Block that was announced, and whether it had a ghost.
    expected: Option<(Key, bool)>,
}

impl S3Fifo {
    /// Returns the policy over `slots` slots.
    pub fn new(slots: u32) -> Self {
        let main_limit = slots - slots / 10;
        let ghosts = (u64::from(slots) * 9 / 10) as u32;
        Self {
            queues: SlotLists::new(slots),
            uses: vec![0; slots as usize],
            keys: vec![0; slots as usize],
            ghosts: Ghosts::new(ghosts),
            main_limit,
            expected: None,
        }
    }

    /// Gives `slot` another round in the main queue if its uses allow it. Returns true if `slot`
    /// got another round.
    fn earns_a_round(&mut self, queue: usize, slot: Slot) -> bool {
        let uses = &mut self.uses[slot.0 as usize];
        match queue {
            SMALL if *uses > 1 => *uses = 0,
            MAIN if *uses > 0 => *uses -= 1,
            _ => return false,
        }
        self.queues.refresh(MAIN, slot);
        true
    }
}

impl Replacement for S3Fifo {
    fn expect(&mut self, key: Key) {
        self.expected = Some((key, self.ghosts.take(key).is_some()));
    }

    fn insert(&mut self, slot: Slot, key: Key) {
        let remembered = match self.expected.take() {
            Some((expected, remembered)) if expected == key => remembered,
            _ => self.ghosts.take(key).is_some(),
        };
        self.queues.push(if remembered { MAIN } else { SMALL }, slot);
        self.uses[slot.0 as usize] = 0;
        self.keys[slot.0 as usize] = key.0;
    }

    fn touch(&mut self, slot: Slot) {
        let uses = &mut self.uses[slot.0 as usize];
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        self.queues.rename(from, to);
        self.uses[to.0 as usize] = self.uses[from.0 as usize];
        self.keys[to.0 as usize] = self.keys[from.0 as usize];
    }

    fn remove(&mut self, slot: Slot) {
        if self.queues.remove(slot) == Some(SMALL) {
            self.ghosts.push(0, Key(self.keys[slot.0 as usize]));
        }
    }

    fn evict(&mut self, judge: &mut dyn FnMut(Slot) -> Verdict) {
        let mut next = [self.queues.oldest(SMALL), self.queues.oldest(MAIN)];
        loop {
            let main_gives = self.queues.len(MAIN) > self.main_limit || next[SMALL].is_none();
            let queue = if main_gives && next[MAIN].is_some() { MAIN } else { SMALL };
            let Some(slot) = next[queue] else { return };
            next[queue] = self.queues.newer(slot);
            if self.earns_a_round(queue, slot) {
                // `slot` is the newest of the main queue now, and may be its only slot.
                next[MAIN] = next[MAIN].or(Some(slot));
                continue;
            }
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
        self.queues.len(SMALL) + self.queues.len(MAIN)
    }
}
