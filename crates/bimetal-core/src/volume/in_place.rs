//! Slots that keep their blocks: a block that is written again is overwritten in its slot, and no
//! journal records the block map.
//!
//! The hybrid disks of Konanki's thesis overwrite slots in place (sections 3.3 and 4.2); the thesis
//! leaves recovery out. A crash would leave parts of two versions, and no block map. So only a
//! volume without data overwrites in place, in a simulation, if the scheme [asks for
//! it](crate::scheme::Properties::overwrites_in_place).
//!
//! Three rules keep map and slots together:
//!
//! 1. A write waits for the batch of a move that has its block: the batch ends before the slot
//!    changes.
//! 2. A move skips a block while a write changes its slot, as it does while a write changes its
//!    home.
//! 3. A clean copy counts as dirty from the moment at which a write begins to overwrite its slot,
//!    so the copy is not evicted. The scheme learns at the same moment that the copy is dirty: a
//!    timer of the scheme that runs from the first dirty block would otherwise start too early.

use super::Volume;
use crate::block::{BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::record::Record;
use crate::journal::ring::Sequence;
use crate::payload::Payload;

impl<P: Payload> Volume<P> {
    /// Returns true if a block that has a slot is overwritten in that slot.
    pub(super) fn slots_keep_blocks(&self) -> bool {
        !P::CARRIES_DATA && self.decider.scheme.properties().overwrites_in_place
    }

    /// Returns true and the number of leading blocks of `run` that have slots, which are
    /// overwritten. Returns false and the number of leading blocks of `run` that need free slots.
    pub(super) fn leading_in_place(&self, run: BlockRun) -> (bool, u64) {
        if !self.slots_keep_blocks() {
            return (false, run.count);
        }
        let has_slot = |block| self.view.map.get(block).is_some();
        let first = has_slot(run.first);
        (first, run.blocks().take_while(|&block| has_slot(block) == first).count() as u64)
    }

    /// Marks the block in `slot`, which a write overwrites now, as dirty. Notifies the scheme.
    pub(super) fn mark_in_place(&mut self, slot: Slot, valid: ValidMask) {
        self.view.map.rewrite(slot, valid, true);
        if let Some(scheme) = self.decider.scheme.in_place() {
            scheme.overwritten(&self.view, slot);
        }
    }

    /// Replaces the entry of a block in `slot` by `entry`.
    pub(super) fn map_in_place(&mut self, slot: Slot, entry: Entry) {
        let is_there = self.view.map.in_slot(slot).is_some_and(|old| old.block == entry.block);
        debug_assert!(is_there, "block {} left slot {} while it was written", entry.block.0, slot.0);
        if is_there {
            self.view.map.rewrite(slot, entry.valid, entry.dirty);
        }
    }

    /// Appends a record to the journal. If slots keep their blocks there is no journal, and the
    /// record counts as durable.
    pub(super) fn journal(&mut self, record: Record) -> Sequence {
        if self.slots_keep_blocks() { 0 } else { self.store.pending.append(record) }
    }
}
