//! Pages of metadata that recovery finds bad: a page cannot be read, or its content does not match
//! its checksum. If another copy has the content, nothing is lost, and recovery writes the page
//! again or needs it no longer. The owner is told how many pages were bad on each member.
//!
//! A power cut in the middle of a write leaves bad pages, too. Where the order of writes tells that
//! a page was complete before a cut, an empty page counts as bad. Elsewhere it may be a page that
//! was never written.

use std::collections::BTreeSet;

use super::Recovery;
use crate::journal::page::{self, Page};
use crate::journal::record::{self, Kind};
use crate::journal::turns::Repair;
use crate::layout::MemberId;
use crate::payload::Payload;
use crate::units::SectorRange;
use crate::volume::Volume;

/// Places of bad pages: the member, and the first sector.
pub(super) type BadPages = BTreeSet<(MemberId, u64)>;

impl<P: Payload> Recovery<P> {
    pub(super) fn note_bad_page(&mut self, member: MemberId, place: SectorRange) {
        self.bad_pages.insert((member, place.start.0));
    }

    /// Notes the copies of a home's states that are not sound. All copies were written when the
    /// volume was made.
    pub(super) fn note_bad_states(&mut self, home: MemberId, unsound: impl Iterator<Item = Repair>) {
        for Repair { turn, copy } in unsound {
            self.note_bad_page(home, self.layout().state_place(home, turn as u64, copy));
        }
    }

    /// Notes the copies of superblocks that are not sound. All copies were written when the volume
    /// was made.
    pub(super) fn note_bad_superblocks(&mut self, unsound: impl Iterator<Item = Repair>) {
        for Repair { turn, copy } in unsound {
            let place = self.layout().superblock_place(turn as u64, copy).expect("slots have superblocks");
            self.note_bad_page(self.volume.member_of_slots(), place);
        }
    }

    /// Notes the first copy of a page of the ring, or of the index, whose second copy is sound.
    /// Returns false if the first copy is another sound page, or is empty: a power cut may have
    /// come before its write.
    pub(super) fn note_bad_first_copy(&mut self, kind: Kind, page: Option<&Page>, place: SectorRange) -> bool {
        let is_bad = page.is_none_or(|page| record::decode_page(kind, page).is_err() && !page::is_blank(page));
        if is_bad {
            self.note_bad_page(self.volume.member_of_slots(), place);
        }
        is_bad
    }

    /// Forgets the bad pages of a member whose content does not count any more.
    pub(super) fn forget_bad_pages(&mut self, member: MemberId) {
        self.bad_pages.retain(|&(of, _)| of != member);
    }

    /// Tells the volume how many pages were bad on each member.
    pub(super) fn tell_bad_pages(&mut self) {
        for (member, _) in std::mem::take(&mut self.bad_pages) {
            *self.volume.damage.bad_pages.entry(member).or_default() += 1;
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Returns the members on which recovery found bad pages of metadata, and the number of these
    /// pages. A bad page cannot be read, or does not match its checksum. A power cut in the middle
    /// of a write leaves bad pages, too.
    pub fn bad_pages(&self) -> impl Iterator<Item = (MemberId, u64)> {
        self.damage.bad_pages.iter().map(|(&member, &pages)| (member, pages))
    }
}
