//! Recovery of the newest superblock, from two turns in two copies each, which are read one by one.

use super::{Answer, Recovery, RecoveryError, only_page};
use crate::journal::superblock::Superblock;
use crate::journal::turns::{COPIES, Found, NoneHolds, TURNS, Turns};
use crate::payload::Payload;

/// The superblocks found.
#[derive(Default)]
pub(super) struct Superblocks {
    found: Turns<Superblock>,
    /// The sector of an unreadable copy.
    unreadable: Option<u64>,
    of_version_1: bool,
}

impl<P: Payload> Recovery<P> {
    /// Reads all copies.
    pub(super) fn read_superblocks(&mut self) {
        let member = self.volume.member_of_slots();
        for purpose in 0..TURNS * COPIES {
            let place = self.layout().superblock_place((purpose / COPIES) as u64, purpose % COPIES);
            let place = place.expect("slots have superblocks");
            self.read(member, place, purpose as u64);
        }
    }

    /// Takes a copy. Returns the newest superblock once all copies were read. If there is none, the
    /// recovery has ended.
    pub(super) fn take_superblock(&mut self, answer: &Answer<P>) -> Option<Superblock> {
        let (turn, copy) = (answer.purpose as usize / COPIES, answer.purpose as usize % COPIES);
        let page = answer.payload.as_ref().and_then(only_page);
        let identity = self.volume.identity;
        let decode = |page: &_| {
            let superblock = Superblock::decode(page).ok().filter(|superblock| superblock.volume == identity)?;
            Some((superblock.sequence, superblock))
        };
        let found = Found::of(turn, page.as_ref(), decode);
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
        let Superblocks { found, unreadable, of_version_1 } = &self.superblocks;
        let newest = found.newest().map(|(_, superblock)| superblock.clone());
        let (unreadable, of_version_1) = (*unreadable, *of_version_1);
        match newest {
            Ok(superblock) if self.is_possible_superblock(&superblock) => return Some(superblock),
            Ok(_) => self.damaged("its superblock says what cannot be"),
            Err(_) if of_version_1 => self.fail(|member, role| RecoveryError::Version1 { member, role }, member),
            Err(NoneHolds::Damaged { at_most: Some(_), .. }) if unreadable.is_none() => {
                self.damaged("both copies of a superblock are damaged, and it may have been the newest");
            }
            Err(_) => match unreadable {
                Some(sector) => {
                    self.fail(|member, role| RecoveryError::Unreadable { member, role, sector }, member);
                }
                None => self.fail(|member, role| RecoveryError::Unformatted { member, role }, member),
            },
        }
        None
    }

    /// Queues repairs of the superblocks that were found, except in the turn `written` by this
    /// recovery, so that each has two copies again.
    pub(super) fn repair_superblocks(&mut self, written: Option<u64>) {
        let member = self.volume.member_of_slots();
        let superblocks = std::mem::take(&mut self.superblocks);
        for repair in superblocks.found.repairs() {
            let Some(superblock) = superblocks.found.content(repair.turn) else { continue };
            let place = self.layout().superblock_place(repair.turn as u64, repair.copy);
            if let Some(place) = place.filter(|_| written != Some(repair.turn as u64)) {
                self.repairs.push((member, place, superblock.encode().to_vec()));
            }
        }
    }
}
