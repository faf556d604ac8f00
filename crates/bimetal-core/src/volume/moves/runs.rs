//! Sorting outside of memory: the runs of a migration, in the free part of a log on a disk (Griffin
//! 5.4 sorts all that a migration moves).
//!
//! A *run* is a batch of the log in order of address. The migration writes all runs of a stretch to
//! room that the log lends it ([`lend_scratch`](crate::volume::log_tail::LogTail::lend_scratch)).
//! Each batch then goes home in order of address, and reads one piece of each run.
//!
//! A run is a copy, and no record names the run. The slots keep counting as the place of the
//! content until the content is home, so a crash forgets the runs and loses nothing. A copy that
//! cannot be read, or has a wrong checksum, is read from its slot. The room is given back as soon
//! as an append waits for room. When the room was given back, and also if a run cannot be written,
//! the move continues without runs. An urgent move makes no more runs.

use super::order::{MoveOrder, ToMove};
use super::{MoveJob, OPERATION_BLOCKS, Phase, State, Transfer};
use crate::block::ValidMask;
use crate::block_map::Slot;
use crate::payload::Payload;
use crate::units::Sectors;
use crate::volume::Volume;

impl<P: Payload> Volume<P> {
    /// Returns the number of slots that a migration may take for runs: half of the free slots of a
    /// log on a disk.
    pub(super) fn room_for_runs(&self) -> u64 {
        match self.store.log() {
            Some(log) if self.slots_are_on_disk() && !self.requests.waiters.any_for_slots() => log.free() / 2,
            _ => 0,
        }
    }

    /// Has the log lend the room that the runs of `order` need.
    pub(super) fn lend_scratch(&mut self, order: &MoveOrder) {
        let blocks = order.scratch_blocks() as u64;
        if let Some(log) = self.store.log_mut()
            && blocks > 0
        {
            log.lend_scratch(blocks);
            self.update_free_slots();
        }
    }

    /// Gives the room of the runs back to the log, and wakes the tasks that wait for room.
    pub(super) fn give_scratch_back(&mut self) {
        if let Some(log) = self.store.log_mut()
            && log.take_scratch_back()
        {
            self.update_free_slots();
            self.wake_slot_waiters();
        }
    }

    /// Goes on without runs if a run could not be written, or if appends wait for the room of the
    /// runs. Leaves the run that is being made if the move has become urgent. No operation of the
    /// move is under way.
    pub(super) fn stop_sorting_if_due(&mut self, job: &mut MoveJob<P>) {
        if self.store.log().is_none_or(|log| log.scratch().is_none()) {
            return;
        }
        let gives_back = job.run_failed || self.requests.waiters.any_for_slots();
        let is_due = gives_back || (!job.urgent && self.decider.scheme.is_move_urgent());
        if is_due && matches!(job.phase, Phase::Reading | Phase::Sorting) && job.run.take().is_some() {
            job.batch.clear();
            job.todo.clear();
            job.phase = Phase::NextBatch;
        }
        if gives_back && job.phase == Phase::NextBatch {
            let left = std::mem::take(&mut *job.left).into_left();
            let left = left.into_iter().map(|to_move| ToMove::new(to_move.block, to_move.slot)).collect();
            *job.left = self.order_of_move(left, job.urgent, 0);
            self.give_scratch_back();
        }
    }

    /// Plans the writes of the run that is made of the batch. Blocks that could not be read are
    /// left out: they go home from their slots.
    pub(super) fn plan_run(&self, job: &mut MoveJob<P>) {
        job.batch.retain(|moving| moving.state == State::Moved && (moving.content.is_some() || !P::CARRIES_DATA));
        let mut transfers: Vec<Transfer> = Vec::new();
        let mut behind = None;
        for at in 0..job.batch.len() {
            let place = self.place_in_run(job, at);
            let write = self.slot_read(place, at as u32);
            let is_adjacent = behind.replace(place.0 + 1) == Some(place.0);
            match transfers.last_mut() {
                Some(last) if is_adjacent && u64::from(last.count) < OPERATION_BLOCKS => {
                    last.range.len += write.range.len;
                    last.count += 1;
                }
                _ => transfers.push(Transfer { valid: ValidMask::ALL, ..write }),
            }
        }
        job.todo = transfers.into();
    }

    /// Returns the place of a block of the batch in the run that is made of the batch.
    fn place_in_run(&self, job: &MoveJob<P>, at: usize) -> Slot {
        let Some(log) = self.store.log() else { unreachable!("only a log lends room for runs") };
        let first = log.scratch().map_or(0, |scratch| scratch.start);
        log.slot(first + (job.run.unwrap_or(0) + at) as u64)
    }

    /// Records that the batch was written as a run, from which its blocks are read from now on.
    pub(super) fn run_is_made(&self, job: &mut MoveJob<P>) {
        let places: Vec<(Slot, Slot)> =
            (0..job.batch.len()).map(|at| (job.batch[at].slot, self.place_in_run(job, at))).collect();
        job.left.run_is_made(places.into_iter());
        job.batch.clear();
        job.run = None;
    }

    /// Returns the content of a write of a run.
    pub(super) fn content_of_run(&self, job: &MoveJob<P>, first: u32, count: u32) -> P {
        let whole = Sectors(self.view.layout.block.sectors());
        let mut payload = P::empty();
        let contents = job.pieces(first, count).iter().filter_map(|moving| moving.content.as_ref());
        contents.for_each(|content| payload.join(content.slice(Sectors::ZERO, whole)));
        payload
    }
}
