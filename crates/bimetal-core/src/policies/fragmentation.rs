//! MixedStore's fragmentation buster (section 5.3): the pages that leave fragmented flash in an
//! idle period.
//!
//! A drive that names fragments is asked again after writes of as many blocks as leave flash in one
//! batch. Of the pages that the drive names, the least recently used pages leave flash. A drive
//! that names no fragments counts as fragmented while its recent writes take more than twice as
//! long as in training; then the coldest pages leave flash. The two rules of this module, and all
//! its figures, are our choice.

use super::lru::Lru;
use super::mean::Mean;
use crate::bit_set::BitSet;
use crate::block_map::{BlockMap, Slot};

/// Ratio of the recent write time to the training phase's above which flash counts as fragmented.
const FRAGMENTED: f64 = 2.0;
/// Number of writes over which the recent write time goes.
const RECENT_WRITES: f64 = 16.0;
/// Number of pages that leave together, and number of blocks that the drive is asked to name.
const PAGES: usize = 256;
const ASKED_BLOCKS: u64 = 16 * PAGES as u64;
/// Divisor of the cold share: the least recently used half of the pages is cold.
const COLD: usize = 2;

/// Pages that leave flash in the next run of the buster.
pub(crate) enum Leaving {
    /// The coldest pages, as many as the number tells.
    Coldest(usize),
    /// Pages that the drive reported as fragmented.
    Named(Vec<Slot>),
    /// No page yet: the drive is first asked to name up to this many fragmented blocks.
    Ask(u64),
}

/// The fragmentation buster.
#[derive(Default)]
pub(crate) struct Buster {
    on: bool,
    /// Set if the drive does not report fragmented pages.
    unaided: bool,
    /// Set while the drive was asked and has not answered.
    asked: bool,
    /// Pages that the drive named and that have not left yet.
    named: Vec<Slot>,
    /// Number of blocks written to flash since the drive was asked.
    written: usize,
    /// Mean time of the drive's writes in the training phase.
    trained: Mean,
    /// Mean time of the drive's last writes, in milliseconds.
    recent_write_ms: f64,
}

impl Buster {
    /// Returns the buster, which never moves a page unless it is `on`.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// Returns true if pages may ever leave.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Notes that a block was written to flash.
    pub(crate) fn wrote(&mut self) {
        self.written += 1;
    }

    /// Notes the time of a write to flash, in the training phase if `trains` is set.
    pub(crate) fn served(&mut self, took_ms: f64, trains: bool) {
        self.recent_write_ms += (took_ms - self.recent_write_ms) / RECENT_WRITES;
        if trains {
            self.trained.add(took_ms);
        }
    }

    /// Takes the drive's answer: the slots in fragmented flash, or `None` if the drive does not
    /// know. `pages` has all pages, and `map` is the block map with their slots.
    pub(crate) fn answered(&mut self, map: &BlockMap, pages: &Lru, slots: Option<&[Slot]>) {
        self.asked = false;
        self.unaided = slots.is_none();
        self.named = coldest_of(map, pages, slots.unwrap_or_default());
    }

    /// Returns true if pages should leave flash, or if the drive should be asked which pages are to
    /// leave.
    pub(crate) fn is_due(&self) -> bool {
        let slow = self.trained.count() > 0 && self.recent_write_ms > FRAGMENTED * self.trained.ms();
        let aided = !self.asked && (!self.named.is_empty() || self.written >= PAGES);
        self.on && if self.unaided { slow } else { aided }
    }

    /// Returns the pages that are to leave fragmented flash now.
    pub(crate) fn next(&mut self, map: &BlockMap) -> Leaving {
        if self.unaided {
            return Leaving::Coldest(PAGES);
        }
        let mut named = std::mem::take(&mut self.named);
        named.retain(|slot| map.in_slot(*slot).is_some());
        if !named.is_empty() {
            return Leaving::Named(named);
        }
        self.written = 0;
        self.asked = true;
        Leaving::Ask(ASKED_BLOCKS)
    }

    /// Takes back pages of which only a part has left.
    pub(crate) fn keep(&mut self, named: Vec<Slot>) {
        self.named = named;
    }
}

/// Returns the least recently used of `slots` that are among the cold pages.
fn coldest_of(map: &BlockMap, pages: &Lru, slots: &[Slot]) -> Vec<Slot> {
    let mut named = BitSet::new(map.slots());
    slots.iter().for_each(|slot| {
        named.insert(slot.0);
    });
    let cold = (map.len() as usize).div_ceil(COLD);
    let coldest = pages.oldest_first().take(cold).filter(|slot| named.contains(slot.0));
    coldest.take(PAGES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive may not tell which of its blocks are fragmented. A drive without an answer is judged
    /// by its write times, compared with those in training.
    #[test]
    fn unaided_buster_is_due_while_writes_take_twice_as_long() {
        let (map, pages) = (BlockMap::new(16), Lru::new(16));
        let mut buster = Buster::new(true);
        buster.answered(&map, &pages, None);
        (0..20).for_each(|_| buster.served(1.0, true));
        assert!(!buster.is_due());
        (0..60).for_each(|_| buster.served(3.0, false));
        assert!(buster.is_due());
        assert!(matches!(buster.next(&map), Leaving::Coldest(PAGES)));
        (0..60).for_each(|_| buster.served(1.0, false));
        assert!(!buster.is_due());
    }

    #[test]
    fn drive_is_asked_once_for_each_batch_of_writes() {
        let (map, pages) = (BlockMap::new(16), Lru::new(16));
        let mut buster = Buster::new(true);
        (1..PAGES).for_each(|_| buster.wrote());
        assert!(!buster.is_due());
        buster.wrote();
        assert!(buster.is_due());
        assert!(matches!(buster.next(&map), Leaving::Ask(ASKED_BLOCKS)));
        assert!(!buster.is_due());
        buster.answered(&map, &pages, Some(&[]));
        assert!(!buster.is_due());
    }
}
