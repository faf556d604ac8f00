//! Damage: bad content that the volume finds, for the server that keeps a
//! [report](crate::label::report) of bad content.
//!
//! A slot is *bad* when it cannot be read or its content fails its checksum. If home has the same
//! content the slot is dropped, and nothing is lost. If only the slot had the content, the block is
//! lost until it is written, discarded, or read successfully after all. The volume remembers such
//! blocks while it runs, so that it can tell when the loss is over. A failed read of several slots
//! does not tell which slot is bad, so the slots are read again in the background, one by one.

mod lost;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::recovery_error::RecoveryError;
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{BlockMap, Entry, Slot};
use crate::journal::ring::Sequence;
use crate::label::report::{Kind, State};
use crate::layout::MemberId;
pub(super) use lost::Lost;

/// Largest number of queued troubles. Lost blocks beyond this number are reported once the queue is
/// empty.
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
        /// [`State::Lost`], or [`State::Repaired`] if home has the content of the bad slot.
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
pub(super) struct Troubles {
    /// Blocks, with the bad slots that hold their newest content.
    bad: BTreeSet<(u64, Slot)>,
    queue: VecDeque<Trouble>,
    /// Set when the queue was full: bad blocks from this number on are reported again.
    told_to: Option<u64>,
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
            // The end of a loss is never told again. The number of ends is limited by that of bad
            // slots.
            _ if is_full && matches!(new, Trouble::Found { .. }) => self.told_to = Some(0),
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

/// Content that only one member had, and that is missing since the start of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GaveUp {
    /// All content that only this member had.
    All,
    /// The content of this many slots, whose entries are damaged; `None` if the number is unknown.
    Part(Option<u64>),
}

/// Content without a good copy: blocks that are lost, slots that are bad, and content that is
/// missing since the start of the epoch.
pub(super) struct Damage {
    /// The member with the slots; any member, if the volume has no slots.
    member: MemberId,
    /// Blocks whose newest content no member can return any more: reads of them are errors.
    pub(super) lost: Lost,
    troubles: Troubles,
    pub(super) gave_up: Option<GaveUp>,
    /// Set once the member is gone with content that home lacks.
    pub(super) newest_is_gone: bool,
    pub(super) began_without: Option<RecoveryError>,
    pub(super) began_empty: Option<RecoveryError>,
    /// Number of bad pages of metadata that recovery found on each member.
    pub(super) bad_pages: BTreeMap<MemberId, u64>,
}

/// The consequence of damage of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    /// Home has the content: the copy can be dropped.
    CopyIsUseless,
    /// The slot has the only copy: the slot stays in use.
    NoOtherCopy,
}

impl Damage {
    /// Makes the record of a volume without damage, whose slots are on `member`.
    pub(super) fn new(member: MemberId) -> Self {
        Self {
            member,
            lost: Lost::default(),
            troubles: Troubles::default(),
            gave_up: None,
            newest_is_gone: false,
            began_without: None,
            began_empty: None,
            bad_pages: BTreeMap::new(),
        }
    }

    /// Returns the next change in the knowledge of bad content.
    pub(super) fn next_trouble(&mut self) -> Option<Trouble> {
        if let Some(next) = self.troubles.queue.pop_front() {
            return Some(next);
        }
        let from = self.troubles.told_to.take()?;
        let &(block, _) = self.troubles.bad.range((from, Slot(0))..).next()?;
        self.troubles.told_to = Some(block + 1);
        Some(self.found(Block(block), Kind::Unreadable, State::Lost))
    }

    /// Restores the losses that an earlier epoch reported for `blocks`, in this epoch. Returns the
    /// blocks that are no longer in a slot in which they may have been in the earlier epoch.
    pub(super) fn recall(&mut self, map: &BlockMap, blocks: BlockRun) -> Vec<BlockRun> {
        let mut others: Vec<BlockRun> = Vec::new();
        for block in blocks.blocks() {
            let pieces = map.pieces(block);
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

    /// Returns the number of blocks without good content: blocks that a recovery would find lost,
    /// and blocks whose only slot is bad.
    pub(super) fn lost_blocks(&self) -> u64 {
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

    /// Reports that two readable copies of `block` in a mirror differ, one of them on `member`. A
    /// read of the block returns one of the two copies.
    pub(super) fn copies_differ(&mut self, block: Block, member: MemberId) {
        let blocks = BlockRun { first: block, count: 1 };
        self.troubles.push(Trouble::Found { blocks, kind: Kind::CopiesDiffer, state: State::Uncertain, member });
    }

    /// Reports `slot`, whose content does not match `entry` or cannot be read.
    pub(super) fn slot_is_bad(&mut self, slot: Slot, entry: &Entry, kind: Kind) -> Consequence {
        let block = entry.block;
        if !entry.dirty {
            self.tell_found(block, kind, State::Repaired);
            return Consequence::CopyIsUseless;
        }
        let told = self.troubles.has_bad_slot(block);
        if self.troubles.bad.len() < BAD_MAX {
            self.troubles.bad.insert((block.0, slot));
        }
        if !told {
            self.tell_found(block, kind, State::Lost);
        }
        Consequence::NoOtherCopy
    }

    /// Records that `slot` has the content that was written to the slot, or no longer has `block`.
    #[inline]
    pub(super) fn slot_is_sound(&mut self, block: Block, slot: Slot) {
        if self.knows_bad_slots() && self.troubles.bad.remove(&(block.0, slot)) {
            self.note_sound(block);
        }
    }

    /// Returns true if a slot is known to be bad.
    #[inline]
    pub(super) fn knows_bad_slots(&self) -> bool {
        !self.troubles.bad.is_empty()
    }

    /// Sets the lost eighths of `block`. The record numbered `record` makes the change durable.
    pub(super) fn set_lost(&mut self, block: Block, eighths: ValidMask, record: Sequence) {
        let was_lost = !self.lost.of(block).is_empty();
        self.lost.set(block, eighths, record);
        let is_lost = !eighths.is_empty();
        if is_lost && !was_lost {
            self.tell_found(block, Kind::Unreadable, State::Lost);
        } else if was_lost && !is_lost {
            self.note_sound(block);
        }
    }

    fn note_sound(&mut self, block: Block) {
        if self.lost.of(block).is_empty() && !self.troubles.has_bad_slot(block) {
            self.troubles.over(block);
        }
    }

    fn tell_found(&mut self, block: Block, kind: Kind, state: State) {
        let found = self.found(block, kind, state);
        self.troubles.push(found);
    }

    fn found(&self, block: Block, kind: Kind, state: State) -> Trouble {
        let blocks = BlockRun { first: block, count: 1 };
        Trouble::Found { blocks, kind, state, member: self.member }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(block: u64, dirty: bool) -> Entry {
        Entry { block: Block(block), valid: ValidMask::ALL, dirty, checksum: 0 }
    }

    fn over(first: u64) -> Option<Trouble> {
        Some(Trouble::Over { blocks: BlockRun { first: Block(first), count: 1 } })
    }

    fn lost(first: u64, count: u64, kind: Kind) -> Option<Trouble> {
        let blocks = BlockRun { first: Block(first), count };
        Some(Trouble::Found { blocks, kind, state: State::Lost, member: MemberId(1) })
    }

    /// The loss of a block is over only when neither a bad slot nor a lost eighth is left.
    #[test]
    fn loss_is_over_when_all_of_its_causes_are() {
        let mut damage = Damage::new(MemberId(1));
        assert_eq!(damage.slot_is_bad(Slot(3), &entry(7, true), Kind::Checksum), Consequence::NoOtherCopy);
        assert_eq!(damage.slot_is_bad(Slot(4), &entry(7, true), Kind::Checksum), Consequence::NoOtherCopy);
        assert_eq!(damage.next_trouble(), lost(7, 1, Kind::Checksum));
        assert_eq!((damage.next_trouble(), damage.lost_blocks()), (None, 1), "one block, reported once");
        damage.set_lost(Block(7), ValidMask(1), 1);
        assert_eq!((damage.next_trouble(), damage.lost_blocks()), (lost(7, 1, Kind::Unreadable), 1));
        damage.slot_is_sound(Block(7), Slot(3));
        damage.slot_is_sound(Block(7), Slot(4));
        assert_eq!(damage.next_trouble(), None, "an eighth is lost");
        damage.set_lost(Block(7), ValidMask::NONE, 2);
        assert_eq!((damage.next_trouble(), damage.lost_blocks()), (over(7), 0));
    }

    #[test]
    fn bad_copy_is_no_loss() {
        let mut damage = Damage::new(MemberId(1));
        assert_eq!(damage.slot_is_bad(Slot(3), &entry(7, false), Kind::Checksum), Consequence::CopyIsUseless);
        assert_eq!(damage.lost_blocks(), 0);
        damage.slot_is_sound(Block(7), Slot(3));
        assert!(matches!(damage.next_trouble(), Some(Trouble::Found { state: State::Repaired, .. })));
        assert_eq!(damage.next_trouble(), None);
    }

    #[test]
    fn adjacent_losses_are_one_trouble() {
        let mut damage = Damage::new(MemberId(1));
        (4..9).for_each(|block| damage.set_lost(Block(block), ValidMask::ALL, block));
        assert_eq!(damage.next_trouble(), lost(4, 5, Kind::Unreadable));
    }

    /// Troubles for which the queue has no room are reported once the queue is empty.
    #[test]
    fn losses_beyond_the_queue_are_told_later() {
        let mut damage = Damage::new(MemberId(1));
        let count = QUEUE_MAX as u64 + 10;
        (0..count).for_each(|at| {
            damage.slot_is_bad(Slot(at as u32), &entry(2 * at, true), Kind::Unreadable);
        });
        let mut told = BTreeSet::new();
        while let Some(Trouble::Found { blocks, .. }) = damage.next_trouble() {
            told.insert(blocks.first.0);
        }
        assert_eq!(told.len() as u64, count);
    }

    /// Regression: ends of losses beyond the queue were dropped, so the report accused sound blocks
    /// for ever.
    #[test]
    fn every_end_of_a_loss_is_told() {
        let mut damage = Damage::new(MemberId(1));
        let count = QUEUE_MAX as u64 + 10;
        for at in 0..count {
            damage.slot_is_bad(Slot(at as u32), &entry(2 * at, true), Kind::Unreadable);
            damage.next_trouble();
        }
        (0..count).for_each(|at| damage.slot_is_sound(Block(2 * at), Slot(at as u32)));
        let told = std::iter::from_fn(|| damage.next_trouble());
        assert_eq!(told.filter(|trouble| matches!(trouble, Trouble::Over { .. })).count() as u64, count);
    }

    #[test]
    fn recalled_loss_counts_while_its_slot_is_dirty() {
        let mut map = BlockMap::new(4);
        map.insert(Slot(2), entry(5, true));
        let mut damage = Damage::new(MemberId(1));
        let others = damage.recall(&map, BlockRun { first: Block(4), count: 3 });
        assert_eq!(others, [4, 6].map(|first| BlockRun { first: Block(first), count: 1 }));
        assert_eq!(damage.lost_blocks(), 1);
    }
}
