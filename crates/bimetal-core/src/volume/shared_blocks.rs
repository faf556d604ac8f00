//! Blocks that several changes share. The [order](super::requests::ordering) of changes lets two
//! changes run at once in one block if they replace different eighths of the block.
//!
//! Only the first and the last block of a request can be shared: a block that a change touches
//! whole is in no other change's lane.

use super::requests::ordering::Claim;
use super::write::WriteJob;
use super::{TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::payload::Payload;
use crate::scheme::Placement;
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

    /// Returns the claim that a write of `block` needs with `placement`. A write at home of a block
    /// without a slot needs no claim of its own, but waits for the same claims as a shared one.
    fn claim_of(&self, block: Block, placement: Placement) -> Claim {
        match placement {
            Placement::Slot | Placement::Both => Claim::Alone,
            Placement::Home(_) | Placement::Wait => {
                Claim::at_home(self.view.map.get(block).is_some_and(|(_, entry)| entry.dirty))
            }
        }
    }

    /// Returns `run` up to the first block that `task` cannot write now with `placement`, because
    /// another task has claimed the block.
    ///
    /// # Errors
    /// Returns the first block of `run`, if already that block cannot be written.
    pub(super) fn unclaimed(&self, task: TaskId, run: BlockRun, placement: Placement) -> Result<BlockRun, Block> {
        let ordering = &self.requests.ordering;
        // Few blocks are claimed, and only for these the map is asked.
        let is_claimed = |block| {
            ordering.is_claimed(task, block, Claim::Alone)
                && ordering.is_claimed(task, block, self.claim_of(block, placement))
        };
        // Of the blocks of a request, only the first and the last can be claimed.
        match run.count {
            _ if is_claimed(run.first) => Err(run.first),
            2.. if is_claimed(Block(run.end() - 1)) => Ok(BlockRun { count: run.count - 1, ..run }),
            _ => Ok(run),
        }
    }

    /// Claims the shared blocks of the part that was just placed, unless they change in place at
    /// home and keep the slot that they have.
    pub(super) fn claim_shared_blocks(&mut self, task: TaskId, job: &WriteJob<P>) {
        for block in self.may_be_shared(job.sectors()) {
            if let Some(claim) = self.claim_of_placed(job, block) {
                self.requests.ordering.claim(task, block, claim);
            }
        }
    }

    /// Returns the claim of `block` in the part that was just placed, or `None` if the part needs
    /// no claim of the block.
    fn claim_of_placed(&self, job: &WriteJob<P>, block: Block) -> Option<Claim> {
        if job.places_in_slot(block) {
            return Some(Claim::Alone);
        }
        if !job.homes().any(|run| (run.first.0..run.end()).contains(&block.0)) {
            return None;
        }
        let (_, entry) = self.view.map.get(block)?;
        let size = self.view.layout.block;
        let (touched, _) = size.masks(size.clip(job.sectors(), block));
        // A clean copy of other eighths stays where it is. Writes that leave the copy could follow
        // each other for ever, and would hold up a change that needs the block alone.
        let keeps_copy = !entry.dirty && entry.valid.intersection(touched).is_empty();
        (!keeps_copy).then(|| Claim::at_home(entry.dirty))
    }

    /// Claims the shared blocks of a range.
    ///
    /// # Errors
    /// Returns a block that another task has claimed; then no block was claimed.
    pub(super) fn claim_ends(&mut self, task: TaskId, sectors: SectorRange) -> Result<(), Block> {
        let ordering = &self.requests.ordering;
        let is_claimed = |&block: &Block| ordering.is_claimed(task, block, Claim::Alone);
        if let Some(block) = self.may_be_shared(sectors).find(is_claimed) {
            return Err(block);
        }
        self.may_be_shared(sectors).for_each(|block| self.requests.ordering.claim(task, block, Claim::Alone));
        Ok(())
    }

    /// Makes `task` wait for the end of the claims of `block`.
    ///
    /// # Panics
    /// Panics if `task` shares a block: tasks could then wait for each other in a circle.
    pub(super) fn await_claim(&mut self, task: TaskId, block: Block) {
        assert!(!self.requests.ordering.shares_a_block(task), "a task waits for block {} and shares another", block.0);
        self.statistics.waited += 1;
        self.requests.waiters.await_claim(task, block);
    }

    /// Ends the claims of a part of a change. If `kept`, the blocks that the part claimed alone
    /// stay claimed. Tasks that wait for one of the claims look again.
    pub(super) fn end_claims(&mut self, task: TaskId, kept: bool) {
        let ending: &[Claim] = if kept { &[Claim::Shared] } else { &[Claim::Shared, Claim::Alone] };
        while let Some(block) = self.requests.ordering.end_claim(task, ending) {
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
        self.end_claims(task, false);
        self.changes_home(task, false);
        let tasks = &mut self.tasks;
        self.requests.ordering.leave(task, &mut |freed| tasks.wake(freed));
    }
}
