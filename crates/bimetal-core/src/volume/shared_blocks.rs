//! Blocks that several changes share. The [order](super::requests::ordering) of changes lets two
//! changes run at once in one block if they replace different eighths of the block.
//!
//! Only the first and the last block of a request can be shared: a block that a change touches
//! whole is in no other change's lane.

use super::write::WriteJob;
use super::{TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::payload::Payload;
use crate::units::SectorRange;

impl<P: Payload> Volume<P> {
    /// Returns the run by which a request for `sectors` conflicts with other requests: in sectors,
    /// in eighths of blocks, or in blocks.
    pub(super) fn lane(&self, sectors: SectorRange) -> BlockRun {
        let size = self.view.layout.block;
        let unit_sectors = match (self.store.kind().has_slots(), self.store.appends()) {
            (false, _) => 1,
            (true, false) => size.eighth_sectors(),
            (true, true) => return size.touched(sectors),
        };
        let (first, end) = (sectors.start.0 / unit_sectors, sectors.end().0.div_ceil(unit_sectors));
        BlockRun { first: Block(first), count: end - first }
    }

    /// Returns the blocks of `sectors` that another change may share: the blocks at the ends of
    /// `sectors` that are not covered whole.
    fn may_be_shared(&self, sectors: SectorRange) -> impl Iterator<Item = Block> + use<P> {
        let size = self.view.layout.block;
        let blocks = size.touched(sectors);
        let shares = self.store.kind().has_slots() && !self.store.appends();
        let ends = [blocks.first.0, blocks.end().saturating_sub(1)].map(Block);
        let in_part = move |block: &Block| size.clip(sectors, *block).len.0 < size.sectors();
        ends.into_iter().take(if shares { blocks.count.min(2) as usize } else { 0 }).filter(in_part)
    }

    /// Returns the end of the blocks from the first of `run` on that no other task has claimed.
    pub(super) fn end_of_unclaimed(&self, task: TaskId, run: BlockRun) -> u64 {
        let ordering = &self.requests.ordering;
        // Of the blocks of a request, only the first and the last can be claimed.
        match run.count {
            _ if ordering.is_claimed(task, run.first) => run.first.0,
            2.. if ordering.is_claimed(task, Block(run.end() - 1)) => run.end() - 1,
            _ => run.end(),
        }
    }

    /// Claims the shared blocks of the part that was just placed, unless they change in place at
    /// home and have no slot.
    pub(super) fn claim_shared_blocks(&mut self, task: TaskId, job: &WriteJob<P>) {
        for block in self.may_be_shared(job.sectors()) {
            let has_slot = self.view.map.get(block).is_some();
            if job.places_in_slot(block)
                || has_slot && job.homes().any(|run| (run.first.0..run.end()).contains(&block.0))
            {
                self.requests.ordering.claim(task, block);
            }
        }
    }

    /// Claims the shared blocks of a range.
    ///
    /// # Errors
    /// Returns a block that another task has claimed; then no block was claimed.
    pub(super) fn claim_ends(&mut self, task: TaskId, sectors: SectorRange) -> Result<(), Block> {
        let ordering = &self.requests.ordering;
        if let Some(block) = self.may_be_shared(sectors).find(|&block| ordering.is_claimed(task, block)) {
            return Err(block);
        }
        self.may_be_shared(sectors).for_each(|block| self.requests.ordering.claim(task, block));
        Ok(())
    }

    /// Makes `task` wait for the end of the claim of `block`.
    pub(super) fn await_claim(&mut self, task: TaskId, block: Block) {
        self.statistics.waited += 1;
        self.requests.waiters.await_claim(task, block);
    }

    /// Ends the claims of `task`. Tasks that wait for one of the claims look again.
    pub(super) fn end_claims(&mut self, task: TaskId) {
        while let Some(block) = self.requests.ordering.end_claim(task) {
            let waiting = self.requests.waiters.take_for_claim(block);
            self.tasks.wake_all(waiting);
        }
    }

    /// Sets whether `task` is changing home. If `task` no longer changes home, a move that waited
    /// for its blocks continues.
    pub(super) fn changes_home(&mut self, task: TaskId, at_home: bool) {
        let ended = self.requests.ordering.set_at_home(task, at_home) && !at_home;
        if ended {
            self.tasks.wake_all(self.mover.home_changed());
        }
    }

    /// Ends a change, and starts the requests that waited for the change.
    pub(super) fn leave_ordering(&mut self, task: TaskId) {
        self.end_claims(task);
        self.changes_home(task, false);
        let tasks = &mut self.tasks;
        self.requests.ordering.leave(task, &mut |freed| tasks.wake(freed));
    }
}
