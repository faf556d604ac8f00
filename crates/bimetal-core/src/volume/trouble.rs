//! Trouble: bad content that the volume comes across, told to whoever keeps a
//! [report](crate::label::report) of it.
//!
//! A slot is *bad* when it cannot be read or its content does not have its checksum. Where home has
//! the same content the slot is dropped, and nothing is lost. Where only the slot had it the block
//! is lost until it is written, discarded, or read well after all; the volume remembers such blocks
//! while it lives, so that it can tell when they are over. A read of several slots that fails as a
//! whole says nothing of a single one: they are looked at again in the background, one by one.

use std::collections::{BTreeSet, VecDeque};

use super::Volume;
use crate::block::{Block, BlockRun};
use crate::block_map::{Entry, Slot};
use crate::label::report::{Kind, State};
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::units::Sectors;

/// Tidings that wait to be taken; beyond them lost blocks are told when those have been taken.
const QUEUE_MAX: usize = 4096;
/// Bad slots that are remembered: about 5 MiB.
const BAD_MAX: usize = 1 << 18;

/// A change of what is known of bad content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Blocks were found bad.
    Found {
        /// The blocks.
        blocks: BlockRun,
        /// The way in which it was noticed.
        kind: Kind,
        /// [`State::Lost`], or [`State::Repaired`] where home has the content.
        state: State,
        /// The member with the bad content.
        member: MemberId,
    },
    /// Blocks that were lost have good content again.
    Over {
        /// The blocks.
        blocks: BlockRun,
    },
}

/// Bad content that is known, and tidings of it.
#[derive(Default)]
pub(crate) struct Troubles {
    /// Blocks, with the bad slots that have newest content of theirs.
    bad: BTreeSet<(u64, Slot)>,
    queue: VecDeque<Trouble>,
    /// Findings had no room: bad blocks from here on are told once more.
    told_to: Option<u64>,
    /// Slots are being looked at again for a read that failed.
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
    /// The next change of what is known of bad content.
    pub fn next_trouble(&mut self) -> Option<Trouble> {
        if let Some(next) = self.troubles.queue.pop_front() {
            return Some(next);
        }
        let from = self.troubles.told_to.take()?;
        let &(block, _) = self.troubles.bad.range((from, Slot(0))..).next()?;
        self.troubles.told_to = Some(block + 1);
        Some(self.found(Block(block), Kind::Unreadable, State::Lost))
    }

    /// Says that an earlier life found `blocks` lost, and looks which of them still have the slot
    /// that they may have had then. Gives the others: they were written and moved since, or
    /// recovery took their last write for one that never happened.
    pub fn recall_lost(&mut self, blocks: BlockRun) -> Vec<BlockRun> {
        let mut others: Vec<BlockRun> = Vec::new();
        for block in blocks.blocks() {
            let pieces = self.view.map.pieces(block);
            let dirty = || pieces.iter().filter(|(_, entry)| entry.dirty).map(|&(slot, _)| (block.0, slot));
            match dirty().next() {
                _ if self.troubles.has_bad_slot(block) => {}
                // Nobody knows in which of its pieces it was lost.
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

    /// The number of blocks without good content: those that recovery would find lost, and those whose
    /// only slot is bad.
    pub fn lost_blocks(&self) -> u64 {
        let mut before = None;
        let mut is_another = |block: u64| before.replace(block) != Some(block);
        let only_bad = self.troubles.bad.iter().filter(|(block, _)| self.lost.of(Block(*block)).is_empty());
        self.lost.len() + only_bad.filter(|(block, _)| is_another(*block)).count() as u64
    }

    /// Tells of all that a recovery found lost.
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

    /// Two readable copies of `block` in a mirror differ, that of `member` and that of another:
    /// reads give either.
    pub(super) fn copies_differ(&mut self, block: Block, member: MemberId) {
        let blocks = BlockRun { first: block, count: 1 };
        self.troubles.push(Trouble::Found { blocks, kind: Kind::CopiesDiffer, state: State::Uncertain, member });
    }

    /// The content of `slot` is not what `entry` says, or cannot be read. A copy is dropped, so that
    /// home serves, if `drops`.
    pub(super) fn slot_is_bad(&mut self, slot: Slot, entry: &Entry, kind: Kind, drops: bool) {
        // Content that was written again meanwhile is nobody's any more.
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

    /// Whether `slot` has what it had as `entry`, or the eighths of it that were not written again since.
    pub(super) fn still_holds(&self, slot: Slot, entry: &Entry) -> bool {
        let now = self.view.map.in_slot(slot);
        now.is_some_and(|now| Entry { valid: entry.valid, ..now } == *entry && entry.valid.contains(now.valid))
    }

    /// `slot` was read, and is what was written there.
    #[inline]
    pub(super) fn slot_is_sound(&mut self, block: Block, slot: Slot) {
        if !self.troubles.bad.is_empty() && self.troubles.bad.remove(&(block.0, slot)) {
            self.note_sound(block);
        }
    }

    /// `block` is not in `slot` any more.
    #[inline]
    pub(super) fn left_bad_slot(&mut self, block: Block, slot: Slot) {
        self.slot_is_sound(block, slot);
    }

    fn note_sound(&mut self, block: Block) {
        if self.lost.of(block).is_empty() && !self.troubles.has_bad_slot(block) {
            self.troubles.over(block);
        }
    }

    /// The list of lost blocks has changed where `block` is.
    pub(super) fn lost_changed(&mut self, block: Block, was_lost: bool) {
        let is_lost = !self.lost.of(block).is_empty();
        if is_lost && !was_lost {
            self.tell_found(block, Kind::Unreadable, State::Lost);
        } else if was_lost && !is_lost && !self.troubles.has_bad_slot(block) {
            self.troubles.over(block);
        }
    }

    /// A read of slots, from the first of them to the last, which held blocks with these checksums, came out wrong.
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

    /// A read of slots, which held these blocks, came out as written.
    pub(super) fn slots_read_well(&mut self, held: impl Iterator<Item = (Slot, Block)>) {
        if !self.troubles.bad.is_empty() {
            for (slot, block) in held {
                self.slot_is_sound(block, slot);
            }
        }
    }
}
