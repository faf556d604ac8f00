//! Failed flushes. Data that a home should have made stable may be lost at the next power cut, as
//! on a bare drive. One flush of the volume must report the possible loss, whether a request or the
//! engine itself issued the drive's flush. The volume still promises all data in slots.

use std::collections::BTreeSet;

use bimetal_core::layout::MemberId;
use bimetal_core::units::SectorRange;

use super::Tester;
use crate::drive::Drive;

impl Tester {
    /// Returns the sectors that homes lose if drives lose `lost`, and that no slot has for certain.
    fn lost_at_home(&self, lost: &[BTreeSet<u64>]) -> Vec<u64> {
        if lost.iter().all(BTreeSet::is_empty) {
            return Vec::new();
        }
        let layout = &self.volume.view().layout;
        let copies: Vec<MemberId> = layout.copies().filter(|&copy| !self.atlas.has_given_up(copy)).collect();
        let is_lost = |sector: &u64| {
            let (home, at) = self.home_of(*sector);
            let homes = if copies.is_empty() { std::slice::from_ref(&home) } else { copies.as_slice() };
            homes.iter().all(|home| lost[usize::from(home.0)].contains(&at))
        };
        let promised_in_slot = |sector: &u64| self.is_promised_in_slot(*sector) || self.was_promised_in_slot(*sector);
        let sectors = 0..layout.total_blocks() * layout.block.sectors();
        sectors.filter(|sector| is_lost(sector) && !promised_in_slot(sector)).collect()
    }

    /// Returns true if a slot has the newest content of `sector`, and a flush has promised the
    /// slot. A write of a part of an eighth of a block brings the rest of the eighth from home into
    /// a new slot. Until a flush has promised that write, the power may take the slot back, so the
    /// slot promises nothing.
    fn is_promised_in_slot(&self, sector: u64) -> bool {
        let slot = self.slot_of(sector).filter(|&slot| self.volume.is_trusted(slot));
        let is_promised = |sector: u64| self.shadow.promised(sector).is_some();
        let is_whole = || self.eighth_of(sector).all(|other| is_promised(other) || !self.shadow.is_touched(other));
        slot.is_some() && is_promised(sector) && is_whole()
    }

    /// Returns the sectors of the eighth of a block that has `sector`.
    fn eighth_of(&self, sector: u64) -> std::ops::Range<u64> {
        let size = self.volume.view().block();
        let block = size.first_sector(size.block_of(sector));
        let begin = block + (sector - block) / size.eighth_sectors() * size.eighth_sectors();
        begin..begin + size.eighth_sectors()
    }

    /// Returns true if a slot had the newest, promised content of `sector` at the end of a flush
    /// since the last power cut. The home must get the content again before the slot may be reused.
    pub(super) fn was_promised_in_slot(&self, sector: u64) -> bool {
        let promised = self.promised_in_slots.get(&sector);
        promised.is_some_and(|&change| self.shadow.promised(sector) == Some(change))
    }

    /// Records a failed flush of a drive.
    pub(super) fn note_failed_flush(&mut self, member: usize) {
        let mut lost = vec![BTreeSet::new(); self.drives.len()];
        lost[member] = self.drives[member].forgotten_last();
        let lost = self.lost_at_home(&lost).into_iter().filter(|&sector| self.slot_of(sector).is_none());
        // A log may have stored newer content since, and dropped it. The content at risk is the
        // home's.
        let there = |sector: u64| self.drives[member].content(self.home_of(sector).1);
        let at_risk = lost.filter_map(|sector| self.shadow.answered(sector, &there(sector))).max();
        self.atlas.note_failed_flush(member, self.shadow.now(), at_risk);
        self.note_promises_in_slots();
    }

    /// Records the content that slots promise after a flush of the volume or of a drive, if a drive
    /// may lose content in a failed flush.
    pub(super) fn note_promises_in_slots(&mut self) {
        if !self.drives.iter().any(Drive::may_forget) {
            return;
        }
        let promised = (0..self.shadow.sectors()).filter(|&sector| self.is_promised_in_slot(sector));
        let promised = promised.filter_map(|sector| Some((sector, self.shadow.promised(sector)?)));
        let promised: Vec<(u64, u32)> = promised.collect();
        self.promised_in_slots.extend(promised);
    }

    /// Permits any older value for sectors whose newest content a home has lost, just before a
    /// power cut. The sectors of such lost content may have any older value.
    pub(super) fn distrust_what_homes_forgot(&mut self) {
        let forgotten: Vec<BTreeSet<u64>> = self.drives.iter().map(Drive::forgotten).collect();
        for sector in self.lost_at_home(&forgotten) {
            self.shadow.distrust(SectorRange::new(sector, 1));
        }
        self.atlas.forget_flushes();
        self.promised_in_slots.clear();
    }
}
