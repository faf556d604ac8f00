//! Recovery of a cache or log whose block map is damaged in both copies, if the owner accepts the
//! loss: undamaged parts are taken, and damaged parts are given up.
//!
//! Each entry of the slot table has a check of its own. So an entry counts if it is undamaged in
//! either copy of its page, even if both copies of the page are damaged. A page of the journal that
//! is damaged in both copies is left out, and later pages count. A segment of a log that is damaged
//! in both copies is left out in the same way. The generations in damaged pages of the slot table
//! tell whether each page was the newest. If each page is known to be the newest page, it is also
//! known how many slots have content that cannot be found any more.

use super::chunks::Chunk;
use super::{Recovery, RecoveryError};
use crate::block_map::{Entry, Slot};
use crate::journal::page::{self, Page};
use crate::journal::{SLOTS_PER_TABLE_PAGE, table};
use crate::payload::Payload;
use crate::units::SECTOR_BYTES;
use crate::volume::GaveUp;

/// Returns true if a sector of the page is zeroed.
fn has_zeroed_sector(page: &Page) -> bool {
    page.chunks(SECTOR_BYTES as usize).any(|sector| sector.iter().all(|&byte| byte == 0))
}

impl<P: Payload> Recovery<P> {
    /// Returns true if a part of a cache that is damaged in both copies may be left out. A cache
    /// begins empty if home has the newest content of every block: recovery then ignores every
    /// undamaged part of the block map, because it may be older than the damaged part.
    pub(super) fn cache_may_give_up_a_part(&mut self, what: &'static str) -> bool {
        if self.may_be_needed() || self.slots_refuse() {
            return self.may_give_up_a_part(what);
        }
        let member = self.volume.member_of_slots();
        let role = self.volume.view.member(member).role;
        self.volume.damage.began_empty = Some(RecoveryError::Damaged { member, role, what });
        true
    }

    /// Returns true if a part that is damaged in both copies may be left out. Ends the recovery
    /// with `what` if the loss is not accepted.
    pub(super) fn may_give_up_a_part(&mut self, what: &'static str) -> bool {
        if !self.accept_loss {
            let member = self.volume.member_of_slots();
            self.fail(|member, role| RecoveryError::PartDamaged { member, role, what }, member);
        }
        self.accept_loss
    }

    /// Adds to the number of slots that are given up; `None` if that number is unknown.
    pub(super) fn gives_up(&mut self, slots: Option<u64>) {
        // The content of clean copies is at home.
        if !self.may_be_needed() {
            return;
        }
        let before = match self.volume.damage.gave_up {
            Some(GaveUp::Part(before)) => before,
            _ => Some(0),
        };
        let sum = before.zip(slots).map(|(before, slots)| before + slots);
        self.volume.damage.gave_up = Some(GaveUp::Part(sum));
    }

    /// Takes the undamaged entries from pages of the slot table of which both copies are damaged.
    /// Returns the number of slots without an undamaged entry.
    pub(super) fn takes_damaged_table_pages(&mut self, copies: [&Chunk; 2]) -> u64 {
        let mut unknown = 0;
        for number in copies[0].first..copies[0].end() {
            let pages = copies.map(|chunk| chunk.page(number));
            let is_blank = pages.iter().all(|page| page.is_some_and(page::is_blank));
            if !is_blank && !self.cache().has_table_page(number) {
                unknown += self.takes_damaged_table_page(number as u32, pages);
            }
        }
        unknown
    }

    fn takes_damaged_table_page(&mut self, index: u32, pages: [Option<&Page>; 2]) -> u64 {
        // A copy that names another place, or is zeroed, has no information about these slots.
        let volume = self.volume.store.identity();
        let belongs = |page: &&Page| {
            let header = table::header_of_damaged(page);
            header.volume == volume && header.index == index && !page::is_blank(page)
        };
        let pages = pages.map(|page| page.filter(belongs));
        let header = pages.iter().flatten().next().map(|page| table::header_of_damaged(page));
        // A zeroed entry looks like the entry of a free slot.
        let may_be_zeroed = pages.iter().all(|page| page.is_none_or(has_zeroed_sector));
        self.note_damaged_table_page(index, header.filter(|_| !may_be_zeroed));
        let copies = pages.iter().flatten().count();
        let entries = pages.map(|page| page.map(|page| table::decode_entries(page).collect::<Vec<_>>()));
        let first = index * SLOTS_PER_TABLE_PAGE as u32;
        let end = self.volume.view.map.slots().min(first + SLOTS_PER_TABLE_PAGE as u32);
        let mut unknown = 0;
        for slot in (first..end).map(Slot) {
            let at = (slot.0 - first) as usize;
            let mut found = entries.iter().flatten().filter_map(|entries| entries[at].ok());
            let is_possible = |entry: &Entry| self.is_possible(entry.block, slot);
            match found.clone().flatten().find(is_possible) {
                Some(entry) => self.volume.view.map.load(slot, entry),
                // The slot is free if its entry is sound in every readable copy of the page. A
                // damaged entry may have held a block.
                None => unknown += u64::from(found.next().is_none() || found.count() + 1 < copies),
            }
        }
        unknown
    }
}
