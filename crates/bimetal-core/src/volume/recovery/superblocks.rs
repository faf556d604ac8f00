//! Recovery of the newest superblock. Both copies of each of the two turns are read, one page after
//! the other.

use super::{Answer, Recovery, RecoveryError, only_page};
use crate::journal::superblock::{Pair, Superblock};
use crate::journal::turns::{COPIES, NoneHolds, TURNS, Turns};
use crate::payload::Payload;
use crate::units::SectorRange;
use std::collections::VecDeque;

/// The superblocks found.
#[derive(Default)]
pub(super) struct Superblocks {
    found: Turns<Superblock>,
    /// Planned writes that make the pair of the newest superblock complete, one after the other.
    missing: VecDeque<(SectorRange, Vec<u8>)>,
    /// The sector of an unreadable copy.
    unreadable: Option<u64>,
    of_version_1: bool,
}

impl<P: Payload> Recovery<P> {
    /// Reads all copies.
    pub(super) fn read_superblocks(&mut self) {
        let member = self.volume.member_of_slots();
        for (purpose, place) in (0..).zip(self.superblock_places()) {
            self.read(member, place, purpose);
        }
    }

    /// Returns the places of all copies, turn by turn.
    pub(super) fn superblock_places(&self) -> [SectorRange; TURNS * COPIES] {
        std::array::from_fn(|at| {
            let place = self.layout().superblock_place((at / COPIES) as u64, at % COPIES);
            place.expect("slots have superblocks")
        })
    }

    /// Takes a copy. Returns the newest superblock once all copies were read. If no superblock is
    /// found, the recovery has ended with an error.
    pub(super) fn take_superblock(&mut self, answer: &Answer<P>) -> Option<Superblock> {
        let (turn, copy) = (answer.purpose as usize / COPIES, answer.purpose as usize % COPIES);
        let page = answer.payload.as_ref().and_then(only_page);
        let identity = self.volume.store.identity();
        let found = Superblock::found(turn, page.as_ref(), identity);
        let superblocks = &mut self.superblocks;
        superblocks.found.note(turn, copy, found);
        superblocks.of_version_1 |=
            page.as_ref().is_some_and(|page| Superblock::volume_of_version_1(page) == Some(identity));
        if page.is_none() {
            superblocks.unreadable = Some(answer.range.start.0);
        }
        if !self.in_flight.is_empty() {
            return None;
        }
        self.newest_superblock()
    }

    fn newest_superblock(&mut self) -> Option<Superblock> {
        let member = self.volume.member_of_slots();
        let Superblocks { found, unreadable, of_version_1, .. } = &self.superblocks;
        // Nothing depends on a pair that is incomplete, and a complete pair has its content twice.
        let is_of_pair = |superblock: &&Superblock| superblock.pair != Pair::Unknown;
        let newest = match found.newest().map(|(_, superblock)| superblock) {
            Err(NoneHolds::Damaged { turn, at_most }) => {
                let other = found.content(1 - turn).filter(is_of_pair);
                other.ok_or(NoneHolds::Damaged { turn, at_most })
            }
            newest => newest,
        };
        let newest = newest.cloned();
        let unsound: Vec<_> = found.unsound().collect();
        let (unreadable, of_version_1) = (*unreadable, *of_version_1);
        self.note_bad_superblocks(unsound.into_iter());
        match newest {
            Ok(superblock) if self.is_possible_superblock(&superblock) => return Some(superblock),
            Ok(_) => self.damaged("its superblock has an invalid field"),
            Err(_) if of_version_1 => self.fail(|member, role| RecoveryError::Version1 { member, role }, member),
            Err(NoneHolds::Damaged { at_most: Some(_), .. }) if unreadable.is_none() => {
                self.damaged("both copies of a superblock are damaged, and the superblock may have been the newest");
            }
            Err(_) => match unreadable {
                Some(sector) => {
                    self.fail(|member, role| RecoveryError::Unreadable { member, role, sector }, member);
                }
                None => self.fail(|member, role| RecoveryError::Unformatted { member, role, rescuable: false }, member),
            },
        }
        None
    }

    /// Plans the writes by which both turns get the content of `newest`, in two copies. A power cut
    /// between the superblocks of a pair, or between two copies, leaves the pair incomplete.
    /// Whatever the recovery writes after the repair depends on `newest`. `marks` are the marks to
    /// which the superblock refers. Returns the last superblock of the pair.
    ///
    /// A superblock that was written alone stays alone: if it were repeated under the next number,
    /// pages of a checkpoint that was cut short would count as completed.
    pub(super) fn complete_pair(&mut self, newest: &Superblock, marks: Option<Vec<u8>>) -> Superblock {
        let twin = newest.twin();
        let found = std::mem::take(&mut self.superblocks.found);
        for (superblock, marks) in [(Some(newest), None), (twin.as_ref(), marks)] {
            let Some(superblock) = superblock else { continue };
            let turn = superblock.turn();
            let lacks = |copy: &usize| !found.has(turn as usize, *copy, superblock);
            let missing: Vec<usize> = (0..COPIES).filter(lacks).collect();
            if !missing.is_empty()
                && let (Some(bytes), Some(cache)) = (marks, self.volume.store.cache())
            {
                self.superblocks.missing.push_back((cache.ring.marks_place(turn), bytes));
            }
            let places = missing.into_iter().filter_map(|copy| self.layout().superblock_place(turn, copy));
            let writes: Vec<_> = places.map(|place| (place, superblock.encode().to_vec())).collect();
            self.superblocks.missing.extend(writes);
        }
        twin.filter(|_| newest.pair == Pair::First).unwrap_or_else(|| newest.clone())
    }

    /// Begins the next planned write. Returns false if no write is planned.
    pub(super) fn write_next_of_pair(&mut self) -> bool {
        let Some((place, bytes)) = self.superblocks.missing.pop_front() else { return false };
        self.write(place, &bytes, true);
        true
    }
}
