//! Scrub of a mirror: reads every block from each member and compares the copies.
//!
//! An unreadable copy is written again from a readable copy. Copies that can all be read and differ
//! are reported and left as they are, because nothing tells which copy is right. Requests wait
//! while their blocks are compared, so that a write cannot fall between the reads of two copies.

use super::bad_block::{BadBlock, Outcome};
use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};

/// A run of blocks that is being compared.
pub(crate) struct CopiesJob<P> {
    first: Block,
    count: u64,
    copies: Vec<Copy<P>>,
    /// Blocks that are to be read alone, as (copy, block of the run). The last block of the list is
    /// being read.
    again: Vec<(usize, u64)>,
    /// Blocks to write again, with their content. The last block of the list is being written.
    repairs: Vec<(usize, u64, P)>,
    phase: Phase,
}

/// The content of the run on one member.
struct Copy<P> {
    member: MemberId,
    blocks: Vec<Option<P>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The run waits for earlier changes.
    Waiting,
    Reading,
    ReadingAgain,
    Repairing,
}

impl<P: Payload> Volume<P> {
    /// Queues a run behind the earlier changes of its blocks, and compares the run.
    pub(super) fn begin_comparing(&mut self, first: Block, count: u64) {
        let members: Vec<MemberId> = self.copies_there().collect();
        let copies = members.into_iter().map(|member| Copy { member, blocks: (0..count).map(|_| None).collect() });
        let job = CopiesJob {
            first,
            count,
            copies: copies.collect(),
            again: Vec::new(),
            repairs: Vec::new(),
            phase: Phase::Waiting,
        };
        let task = self.begin_task(Job::Running);
        let lane = self.lane(self.flat_sectors(&job));
        if self.requests.ordering.enter(task, lane, BlockRun { first, count }) {
            self.run_comparison(task, job);
        } else {
            self.park(task, Job::Compare(job));
        }
    }

    fn flat_sectors(&self, job: &CopiesJob<P>) -> SectorRange {
        self.view.layout.block.sectors_of(BlockRun { first: job.first, count: job.count })
    }

    /// Returns the place of `count` blocks from the run's block `at` on, which is the same on each
    /// member.
    fn place_of_copies(&self, job: &CopiesJob<P>, at: u64, count: u64) -> SectorRange {
        let block = self.view.layout.block.sectors();
        let (_, place) = self.home_piece(self.flat_sectors(job));
        SectorRange::new(place.start.0 + at * block, count * block)
    }

    /// Continues a comparison when none of its operations is under way.
    pub(super) fn run_comparison(&mut self, task: TaskId, mut job: CopiesJob<P>) {
        while self.outstanding(task) == 0 {
            match job.phase {
                Phase::Waiting => {
                    job.phase = Phase::Reading;
                    let range = self.place_of_copies(&job, 0, job.count);
                    for (number, copy) in job.copies.iter().enumerate() {
                        let command = Command { kind: OpKind::Read, range, fua: false };
                        self.issue(task, purpose::BACKGROUND | number as u32, copy.member, command, P::empty());
                    }
                }
                Phase::Reading | Phase::ReadingAgain => match job.again.last() {
                    Some(&(copy, at)) if !self.is_unreadable(job.copies[copy].member) => {
                        job.phase = Phase::ReadingAgain;
                        let (member, range) = (job.copies[copy].member, self.place_of_copies(&job, at, 1));
                        let command = Command { kind: OpKind::Read, range, fua: false };
                        self.issue(task, purpose::BACKGROUND, member, command, P::empty());
                    }
                    Some(_) => drop(job.again.pop()),
                    None => {
                        job.phase = Phase::Repairing;
                        self.compare(&mut job);
                    }
                },
                Phase::Repairing => match job.repairs.last() {
                    Some((copy, at, content)) => {
                        let (member, range) = (job.copies[*copy].member, self.place_of_copies(&job, *at, 1));
                        let content = content.slice(Sectors::ZERO, content.sectors());
                        // A flush under way does not cover this write, and the other copy was
                        // acknowledged as stable together with this one.
                        let command = Command { kind: OpKind::Write, range, fua: true };
                        self.issue(task, purpose::BACKGROUND, member, command, content);
                    }
                    None => return self.end_comparison(task, &job),
                },
            }
        }
        self.put_job(task, Job::Compare(job));
    }

    /// Records the end of an operation.
    pub(super) fn note_comparison(&mut self, job: &mut CopiesJob<P>, purpose: u32, status: Status, payload: &P) {
        let block = Sectors(self.view.layout.block.sectors());
        let slice = |at: u64| payload.slice(Sectors(at * block.0), block);
        match job.phase {
            Phase::Reading => {
                let number = (purpose & purpose::INDEX) as usize;
                match status {
                    Status::Done => {
                        let blocks = job.copies[number].blocks.iter_mut().enumerate();
                        blocks.for_each(|(at, content)| *content = Some(slice(at as u64)));
                    }
                    // A member that is gone has no copy to repair.
                    Status::Gone => job.copies[number].blocks.clear(),
                    _ => job.again.extend((0..job.count).rev().map(|at| (number, at))),
                }
            }
            Phase::ReadingAgain => {
                let Some((copy, at)) = job.again.pop() else { return };
                if status == Status::Done
                    && let Some(content) = job.copies[copy].blocks.get_mut(at as usize)
                {
                    *content = Some(slice(0));
                }
            }
            Phase::Repairing => {
                let Some((_, at, _)) = job.repairs.pop() else { return };
                let outcome = if status == Status::Done { Outcome::Rewritten } else { Outcome::OneCopyLeft };
                self.note_found(BadBlock { block: Block(job.first.0 + at), outcome });
            }
            Phase::Waiting => {}
        }
    }

    /// Compares the copies once every readable block was read, and lists the blocks to write again.
    fn compare(&mut self, job: &mut CopiesJob<P>) {
        for at in 0..job.count {
            let block = Block(job.first.0 + at);
            let of = |copy: &Copy<P>| copy.blocks.get(at as usize).and_then(Option::as_ref).map(P::checksum);
            let mut readable = job.copies.iter().filter_map(of);
            let Some(one) = readable.next() else {
                self.note_found(BadBlock { block, outcome: Outcome::NoGoodCopy });
                continue;
            };
            if readable.any(|other| other != one) {
                self.note_found(BadBlock { block, outcome: Outcome::CopiesDiffer });
                self.damage.copies_differ(block, job.copies[0].member);
                continue;
            }
            let content = job.copies.iter().find_map(|copy| copy.blocks.get(at as usize)?.as_ref());
            let Some(content) = content.map(|content| content.slice(Sectors::ZERO, content.sectors())) else {
                continue;
            };
            for (number, copy) in job.copies.iter().enumerate() {
                // A member that fails every read ends the scrub.
                let is_repairable = !self.is_unreadable(copy.member);
                if is_repairable && matches!(copy.blocks.get(at as usize), Some(None)) {
                    let content = content.slice(Sectors::ZERO, content.sectors());
                    job.repairs.push((number, at, content));
                }
            }
        }
    }

    fn end_comparison(&mut self, task: TaskId, job: &CopiesJob<P>) {
        self.note_scrubbed(job.count);
        self.leave_ordering(task);
        self.end_task(task);
    }
}
