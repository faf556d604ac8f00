//! Settling: once home has the newest content of every block, the drive with the slots records
//! this fact.
//!
//! The move of the last dirty block leaves its records in memory, and the last flush may be in
//! doubt. After a crash at that time, recovery took earlier records for the newest: slots with
//! older content counted, and were later written home over the newest content. A damaged slot
//! counted as lost, although home had its content. So the records are committed, and then a
//! [note](super::note) of this commit is written.
//!
//! A drain waits for both before the homes record that no slot is needed. Without a drain, both
//! follow [`SETTLE_AFTER`] after the last dirty block has come home: blocks that come home one
//! after the other share one commit. A log is settled by the superblock that ends a migration.
//! Simulations without data settle nothing.

use super::Volume;
use super::store::cache::Cache;
use crate::journal::ring::Sequence;
use crate::payload::Payload;
use crate::units::Nanoseconds;

/// Time from the end of the last dirty block to the commit of its records.
const SETTLE_AFTER: Nanoseconds = Nanoseconds::from_millis(500);

/// Records that are to be made stable, and noted as stable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// Time at which the first step is due.
    at: Nanoseconds,
    /// Number of the newest record that is to be committed.
    records: Sequence,
}

impl<P: Payload> Volume<P> {
    /// Settles all records now.
    pub(super) fn settle(&mut self) {
        self.settle_at(self.view.now);
    }

    /// Settles all records after a time, unless they are being settled already.
    pub(super) fn settle_later(&mut self) {
        self.settle_at(self.view.now.saturating_add(SETTLE_AFTER));
    }

    fn settle_at(&mut self, at: Nanoseconds) {
        let at = self.mover.settling.map_or(at, |earlier| earlier.at.min(at));
        let records = self.store.pending.appended;
        self.mover.settling = self.may_settle().then_some(Settling { at, records });
    }

    /// Returns true if no records are being settled.
    pub(super) fn is_settled(&self) -> bool {
        self.mover.settling.is_none()
    }

    /// Returns the time at which settling begins; `None` if it has begun, or nothing is to be
    /// settled.
    pub(super) fn settles_at(&self) -> Option<Nanoseconds> {
        self.mover.settling.map(|settling| settling.at).filter(|&at| at > self.view.now)
    }

    /// Returns true if the drive with the slots can record what home has.
    fn may_settle(&self) -> bool {
        let is_cache = P::CARRIES_DATA && self.store.cache().is_some();
        is_cache && self.view.slots_online() && !self.slots_refuse() && !self.newest_is_gone() && !self.is_closing()
    }

    /// Takes the next step. Returns true if there was a step to take.
    pub(super) fn settle_on(&mut self) -> bool {
        let Some(settling) = self.mover.settling.filter(|settling| settling.at <= self.view.now) else { return false };
        // The volume settles again when the blocks that are dirty now have come home.
        if !self.may_settle() || self.view.map.dirty_blocks() > 0 {
            self.mover.settling = None;
            return true;
        }
        if self.commit.is_busy() || self.is_noting() {
            return false;
        }
        if self.store.pending.durable < settling.records {
            self.begin_commit();
            return true;
        }
        if !self.store.cache().is_some_and(|cache: &Cache| cache.ring.wants_note()) {
            self.mover.settling = None;
            return true;
        }
        self.begin_note();
        if !self.is_noting() && self.may_checkpoint() {
            // The ring is full: a checkpoint ends the doubt, too.
            self.begin_checkpoint();
            return true;
        }
        self.is_noting()
    }
}
