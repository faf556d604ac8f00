//! Trouble: bad content that the volume finds, for the server that keeps a
//! [report](crate::label::report) of it.
//!
//! A slot is *bad* when it cannot be read or its content fails its checksum. If home has the same
//! content the slot is dropped, and nothing is lost. If only the slot had it the block is lost
//! until it is written, discarded, or read successfully after all. The volume remembers such blocks
//! while it runs, so that it can tell when the loss is over. A failed read of several slots does
//! not tell which slot is bad: they are read again in the background, one by one.

use std::collections::{BTreeSet, VecDeque};

use super::Volume;
use crate::block::{Block, BlockRun};
use crate::block_map::{Entry, Slot};
use crate::label::report::{Kind, State};
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Sectors;

/// Queued troubles at most. Lost blocks beyond them are listed again once the queue is empty.
const QUEUE_MAX: usize = 4096;
/// Bad slots that are remembered: about 5 MiB.
const BAD_MAX: usize = 1 << 18;

/// A change in the knowledge of bad content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Blocks were found bad.
    Found {
        /// The blocks.
        blocks: BlockRun,
        /// The way in which the damage was noticed.
        kind: Kind,
        /// [`State::Lost`], or [`State::Repaired`] if home has the content.
        state: State,
        /// The member with the bad content.
        member: MemberId,
    },
    /// Lost blocks that have good content again.
    Over {
        /// The blocks.
        blocks: BlockRun,
    },
}

/// The known bad slots, and troubles to report.
#[derive(Default)]
pub(crate) struct Troubles {
    /// Blocks, with the bad slots that hold their newest content.
    bad: BTreeSet<(u64, Slot)>,
    queue: VecDeque<Trouble>,
    /// Set when the queue was full: bad blocks from this number on are reported again.
    told_to: Option<u64>,
    /// Set while slots of a failed read are being read again.
    pub(super) looking: bool,
}

impl Troubles {
    fn push(&mut self, new: Trouble) {
        let is_full = self.queue.len() >= QUEUE_MAX;
        match (self.queue.back_mut(), new) {
            (
                Some(Trouble::Found { blocks, kind, state, member }),
                Trouble::Found { blocks: next, kind: kind_now, state: state_now, member: member_now },
            ) if (*kind, *state, *member) == (kind_now, state_now, member_now) && blocks.end() == next.first.0 => {
                blocks.count += next.count;
            }
            (Some(Trouble::Over { blocks }), Trouble::Over { blocks: next }) if blocks.end() == next.first.0 => {
                blocks.count += next.count;
            }
            _ if is_full => self.told_to = Some(0),
            _ => self.queue.push_back(new),
        }
    }

    fn has_bad_slot(&self, block: Block) -> bool {
        self.bad.range((block.0, Slot(0))..=(block.0, Slot(u32::MAX))).next().is_some()
    }

    fn over(&mut self, block: Block) {
        self.push(Trouble::Over { blocks: BlockRun { first: block, count: 1 } });
    }
}

impl<P: Payload> Volume<P> {
    /// Returns the next change in the knowledge of bad content.
    pub fn next_trouble(&mut self) -> Option<Trouble> {
        if let Some(next) = self.troubles.queue.pop_front() {
            return Some(next);
        }
        let from = self.troubles.told_to.take()?;
        let &(block, _) = self.troubles.bad.range((from, Slot(0))..).next()?;
        self.troubles.told_to = Some(block + 1);
        Some(self.found(Block(block), Kind::Unreadable, State::Lost))
    }

    /// Restores the losses that an earlier epoch reported for `blocks`. Blocks that still have the
    /// slot they may have had then stay lost. Returns the remaining blocks: they were written and
    /// moved since, or recovery dropped their last write, taking it for a write that never
    /// happened.
    pub fn recall_lost(&mut self, blocks: BlockRun) -> Vec<BlockRun> {
        let mut others: Vec<BlockRun> = Vec::new();
        for block in blocks.blocks() {
            let pieces = self.view.map.pieces(block);
            let dirty = || pieces.iter().filter(|(_, entry)| entry.dirty).map(|&(slot, _)| (block.0, slot));
            match dirty().next() {
                _ if self.troubles.has_bad_slot(block) => {}
                // The report does not tell which of its pieces was bad.
                Some(_) if self.troubles.bad.len() < BAD_MAX => self.troubles.bad.extend(dirty()),
                Some(_) => {}
                None if self.lost.of(block).is_empty() => match others.last_mut() {
                    Some(last) if last.end() == block.0 => last.count += 1,
                    _ => others.push(BlockRun { first: block, count: 1 }),
                },
                None => {}
            }
        }
        others
    }

    /// Returns the number of blocks without good content: those that recovery would find lost, and
    /// those whose only slot is bad.
    pub fn lost_blocks(&self) -> u64 {
        let mut before = None;
        let mut is_another = |block: u64| before.replace(block) != Some(block);
        let only_bad = self.troubles.bad.iter().filter(|(block, _)| self.lost.of(Block(*block)).is_empty());
        self.lost.len() + only_bad.filter(|(block, _)| is_another(*block)).count() as u64
    }

    /// Reports all blocks that a recovery found lost.
    pub(super) fn tell_lost(&mut self) {
        let lost: Vec<Block> = self.lost.between(0, u64::MAX).map(|(block, _)| block).collect();
        lost.into_iter().for_each(|block| self.tell_found(block, Kind::Unreadable, State::Lost));
    }

    fn found(&self, block: Block, kind: Kind, state: State) -> Trouble {
        let member = self.view.layout.slots.map_or(MemberId(0), |slots| slots.member);
        Trouble::Found { blocks: BlockRun { first: block, count: 1 }, kind, state, member }
    }

    fn tell_found(&mut self, block: Block, kind: Kind, state: State) {
        let found = self.found(block, kind, state);
        self.troubles.push(found);
    }

    /// Reports that two readable copies of `block` in a mirror differ, one of them on `member`.
    /// Reads return either.
    pub(super) fn copies_differ(&mut self, block: Block, member: MemberId) {
        let blocks = BlockRun { first: block, count: 1 };
        self.troubles.push(Trouble::Found { blocks, kind: Kind::CopiesDiffer, state: State::Uncertain, member });
    }

    /// Reports `slot`, whose content does not match `entry` or cannot be read. With `drops`, a
    /// clean copy is evicted, so that home serves.
    pub(super) fn slot_is_bad(&mut self, slot: Slot, entry: &Entry, kind: Kind, drops: bool) {
        // Content that was replaced meanwhile no longer matters.
        if !P::CARRIES_DATA || !self.still_holds(slot, entry) {
            return;
        }
        let block = entry.block;
        if !entry.dirty {
            self.tell_found(block, kind, State::Repaired);
            if drops && self.view.slots_online() {
                self.evict(&[slot]);
            }
            return;
        }
        let told = self.troubles.has_bad_slot(block);
        if self.troubles.bad.len() < BAD_MAX {
            self.troubles.bad.insert((block.0, slot));
        }
        if !told {
            self.tell_found(block, kind, State::Lost);
        }
    }

    /// Returns true if `slot` still has the content of `entry`, or the eighths of it that were not
    /// written since.
    pub(super) fn still_holds(&self, slot: Slot, entry: &Entry) -> bool {
        let now = self.view.map.in_slot(slot);
        now.is_some_and(|now| Entry { valid: entry.valid, ..now } == *entry && entry.valid.contains(now.valid))
    }

    /// Records that `slot` was read and has the content that was written there.
    #[inline]
    pub(super) fn slot_is_sound(&mut self, block: Block, slot: Slot) {
        if !self.troubles.bad.is_empty() && self.troubles.bad.remove(&(block.0, slot)) {
            self.note_sound(block);
        }
    }

    /// Records that `block` is no longer in `slot`.
    #[inline]
    pub(super) fn left_bad_slot(&mut self, block: Block, slot: Slot) {
        self.slot_is_sound(block, slot);
    }

    fn note_sound(&mut self, block: Block) {
        if self.lost.of(block).is_empty() && !self.troubles.has_bad_slot(block) {
            self.troubles.over(block);
        }
    }

    /// Reports a change of the lost eighths of `block`.
    pub(super) fn lost_changed(&mut self, block: Block, was_lost: bool) {
        let is_lost = !self.lost.of(block).is_empty();
        if is_lost && !was_lost {
            self.tell_found(block, Kind::Unreadable, State::Lost);
        } else if was_lost && !is_lost && !self.troubles.has_bad_slot(block) {
            self.troubles.over(block);
        }
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
        if !self.troubles.bad.is_empty() {
            for (slot, block) in held {
                self.slot_is_sound(block, slot);
            }
        }
    }
}
