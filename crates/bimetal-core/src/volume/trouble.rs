//! Slots that turn out to be bad or sound when they are read.

use super::Volume;
use super::damage::{Consequence, Trouble};
use crate::block::{Block, BlockRun};
use crate::block_map::{Entry, Slot};
use crate::label::report::Kind;
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Sectors;

impl<P: Payload> Volume<P> {
    /// Returns the next change in the knowledge of bad content.
    pub fn next_trouble(&mut self) -> Option<Trouble> {
        self.damage.next_trouble()
    }

    /// Restores the losses that an earlier epoch reported for `blocks`, in this epoch. Blocks that
    /// still have the slot that they may have had in an earlier epoch stay lost. Returns the
    /// remaining blocks. The blocks were written and moved since, or recovery dropped their last
    /// write as a write that never happened.
    pub fn recall_lost(&mut self, blocks: BlockRun) -> Vec<BlockRun> {
        self.damage.recall(&self.view.map, blocks)
    }

    /// Returns the number of blocks without good content: blocks that a recovery would find lost,
    /// and blocks whose only slot is bad.
    pub fn lost_blocks(&self) -> u64 {
        self.damage.lost_blocks()
    }

    /// Reports `slot`, whose content does not match `entry` or cannot be read. With `drops`, a
    /// clean copy is evicted, so that home serves.
    pub(super) fn slot_is_bad(&mut self, slot: Slot, entry: &Entry, kind: Kind, drops: bool) {
        // Content that was replaced meanwhile no longer matters.
        if !P::CARRIES_DATA || !self.still_holds(slot, entry) {
            return;
        }
        let consequence = self.damage.slot_is_bad(slot, entry, kind);
        if drops && consequence == Consequence::CopyIsUseless && self.view.slots_online() {
            self.evict(&[slot]);
        }
    }

    /// Returns true if `slot` still has the content of `entry`, or at least the eighths of this
    /// content that were not written since.
    pub(super) fn still_holds(&self, slot: Slot, entry: &Entry) -> bool {
        let now = self.view.map.in_slot(slot);
        now.is_some_and(|now| Entry { valid: entry.valid, ..now } == *entry && entry.valid.contains(now.valid))
    }

    /// Handles a failed read of slots, from the first to the last in `held`, which have these
    /// blocks and checksums.
    pub(super) fn slots_read_badly(&mut self, held: &[(Slot, Block, u32)], status: Status, payload: &P) {
        let Some(&(first, ..)) = held.first().filter(|_| P::CARRIES_DATA && status != Status::Gone) else { return };
        let whole = Sectors(self.view.layout.block.sectors());
        let mut suspects = Vec::new();
        for &(slot, block, checksum) in held {
            let read = || payload.slice(Sectors(u64::from(slot.0 - first.0) * whole.0), whole);
            let wrong = status == Status::Done && read().checksum() != checksum;
            self.statistics.checksum_errors += u64::from(wrong);
            let entry = self.view.map.in_slot(slot).filter(|entry| entry.block == block && entry.checksum == checksum);
            let Some(entry) = entry.filter(|_| wrong || status != Status::Done) else { continue };
            if wrong {
                self.slot_is_bad(slot, &entry, Kind::Checksum, true);
            } else if held.len() == 1 {
                self.slot_is_bad(slot, &entry, Kind::Unreadable, true);
            } else {
                suspects.push((slot, entry));
            }
        }
        self.look_again(suspects);
    }

    /// Handles a successful read of slots with their blocks.
    pub(super) fn slots_read_well(&mut self, held: impl Iterator<Item = (Slot, Block)>) {
        if self.damage.knows_bad_slots() {
            for (slot, block) in held {
                self.damage.slot_is_sound(block, slot);
            }
        }
    }
}
