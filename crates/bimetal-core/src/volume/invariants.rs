//! Checks that the parts of a volume agree. Builds with debug assertions run them after each event:
//! a contradiction stops a test where it arises, and not where content is read much later.
//!
//! 1. Each open request is a task, and each such task is counted as admitted.
//! 2. Each waiter is a parked task. While a request is open, an operation is under way or a time is
//!    set: otherwise the request would never end.
//! 3. The block map and the slots agree: a slot in the block map is taken, its block names it, and
//!    the counts of free slots that a scheme sees are those of the store.
//!
//! Checks of all tasks look at each place for a task, in use or not. Where places are many, these
//! checks run at every [`EACH`]th operation, and more rarely the more places there are. One slot is
//! checked at a time, a different slot at each operation.

use super::{Job, Volume};
use crate::block_map::Slot;
use crate::payload::Payload;

/// Number of places for tasks up to which all tasks are checked after each event.
const FEW: usize = 32;
/// Number of operations after which all tasks are checked, while their places are many.
const EACH: u64 = 64;
/// Places that the checks look at for each operation, at most, on average.
const PLACES_AN_OPERATION: u64 = 4;
/// Step from one checked slot to the next: a prime, so that all slots have their turn.
const STRIDE: u64 = 7919;

impl<P: Payload> Volume<P> {
    /// Checks the invariants.
    ///
    /// # Panics
    /// if one of the checks fails.
    pub(super) fn check_invariants(&self) {
        let places = self.tasks.places();
        let each = EACH.max(places as u64 / PLACES_AN_OPERATION);
        if places <= FEW || self.operations.begun().is_multiple_of(each) {
            self.check_requests();
            self.check_waiters();
        }
        self.check_progress();
        self.check_a_slot();
    }

    fn check_requests(&self) {
        let is_request = |job: &Job<P>| matches!(job, Job::Read(_) | Job::Write(_) | Job::Range(_) | Job::Flush(..));
        let open = self.tasks.jobs().filter(|job| is_request(job)).count();
        assert_eq!(open, self.requests.admitted() as usize, "open requests, and admitted requests");
        assert!(self.tasks.jobs().all(|job| !matches!(job, Job::Running)), "a task runs after its event");
    }

    fn check_waiters(&self) {
        for waiter in self.requests.waiters.all() {
            assert!(self.tasks.contains(waiter), "task {waiter} waits and does not exist");
            assert_eq!(self.outstanding(waiter), 0, "task {waiter} waits, and for its operations too");
        }
        assert_eq!(self.view.waiting_for_slots, self.requests.waiters.for_slots() as u64, "tasks that wait for slots");
    }

    fn check_progress(&self) {
        if !self.requests.are_all_answered() && self.operations.is_empty() {
            let admitted = self.requests.admitted();
            assert!(self.next_timeout().is_some(), "{admitted} requests are open and nothing is under way");
        }
    }

    fn check_a_slot(&self) {
        let store = self.store.kind();
        let (free, freeing) = (store.free(), store.freeing());
        assert_eq!(
            (self.view.free_slots, self.view.freeing_slots),
            (free, freeing),
            "free slots and slots being freed"
        );
        if !store.has_slots() {
            return;
        }
        let map = &self.view.map;
        let slots = u64::from(map.slots());
        let Some(slot) = (self.operations.begun().wrapping_mul(STRIDE)).checked_rem(slots) else { return };
        let slot = Slot(slot as u32);
        let Some(entry) = map.in_slot(slot) else { return };
        assert!(store.is_taken(slot), "slot {} holds block {} and is free or lent", slot.0, entry.block.0);
        let is_found = match map.get(entry.block) {
            Some(_) if self.store.appends() => map.pieces(entry.block).iter().any(|&(piece, _)| piece == slot),
            found => found.is_some_and(|(found, _)| found == slot),
        };
        assert!(is_found, "slot {} of block {}", slot.0, entry.block.0);
    }
}
