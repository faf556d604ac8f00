//! Fetches: reads of home in the background, for blocks that the scheme chose to copy without a
//! request. The blocks are then promoted as if a request had read them.

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::FETCH_BLOCKS_MAX;
use crate::units::SectorRange;

pub(crate) struct FetchJob<P> {
    sectors: SectorRange,
    status: Status,
    /// Content of each read, in order of address.
    parts: Vec<P>,
}

impl<P: Payload> FetchJob<P> {
    /// Notes the end of the read of part `purpose`.
    pub(super) fn note(&mut self, purpose: u32, status: Status, payload: P) {
        if status == Status::Done {
            self.parts[(purpose & purpose::INDEX) as usize] = payload;
        } else {
            self.status = status;
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Fetches the blocks of `run` that have no slot.
    pub(super) fn fetch(&mut self, run: BlockRun) {
        assert!(run.count <= FETCH_BLOCKS_MAX, "a fetch of {} blocks", run.count);
        assert!(run.end() <= self.view.layout.total_blocks(), "a fetch beyond the last block: {run:?}");
        let mut first = run.first.0;
        while first < run.end() {
            let at_home = |block: &u64| self.view.map.get(Block(*block)).is_none();
            let count = (first..run.end()).take_while(at_home).count() as u64;
            if count > 0 {
                self.begin_fetch(BlockRun { first: Block(first), count });
            }
            first += count + 1;
        }
    }

    fn begin_fetch(&mut self, run: BlockRun) {
        let changing =
            self.requests.ordering.touches(run) || self.damage.lost.between(run.first.0, run.end()).next().is_some();
        if changing || self.requests.promotions.is_full() {
            return;
        }
        let task = self.begin_task(Job::Running);
        self.requests.promotions.announce(task, run);
        self.view.fetching += 1;
        let sectors = self.view.layout.block.sectors_of(run);
        let mut job = FetchJob { sectors, status: Status::Done, parts: Vec::new() };
        let mut done = 0;
        while done < sectors.len.0 {
            let rest = SectorRange::new(sectors.start.0 + done, sectors.len.0 - done);
            let (member, range) = self.home_piece(rest);
            let purpose = purpose::BACKGROUND | job.parts.len() as u32;
            job.parts.push(P::empty());
            self.issue(task, purpose, member, Command { kind: OpKind::Read, range, fua: false }, P::empty());
            done += range.len.0;
        }
        self.put_job(task, Job::Fetch(job));
    }

    pub(super) fn end_fetch(&mut self, task: TaskId, job: FetchJob<P>) {
        let mut payload = P::empty();
        job.parts.into_iter().for_each(|part| payload.join(part));
        let wanted = job.status == Status::Done && !self.view.draining;
        self.begin_promotions_of(task, job.sectors, wanted, &payload);
        self.view.fetching -= 1;
        self.end_task(task);
    }

    /// Returns the sectors of `member` that hold content before the first request. The blocks are
    /// the member's part of home, or the copies that a simulation assumes, from the first to the
    /// last.
    pub fn held_at_first(&self, member: MemberId) -> SectorRange {
        let home = self.view.layout.home_on(member);
        let copies = self.view.map.slots_in_use();
        let has_copies = copies > 0 && self.view.layout.slots.is_some_and(|slots| slots.member == member);
        if home.is_empty() && has_copies { self.slot_sectors(Slot(0), copies) } else { home }
    }

    /// Maps the copies that the scheme assumes before the first request: the first blocks, each in
    /// the slot with the block's number.
    pub(super) fn copy_at_first(&mut self) {
        let blocks = self.decider.scheme.copied_at_first(&self.view);
        let mut taken = 0;
        while taken < blocks {
            let Some((first, count)) = self.take_cache_slots(blocks - taken) else { break };
            assert_eq!(u64::from(first.0), taken, "an empty cache gives its slots in order");
            taken += count;
        }
        self.view.map.grant(taken as u32);
        self.decider.scheme.began_with(taken);
    }
}
