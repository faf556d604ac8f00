//! Discard and write-zeroes: ranges stay ranges. Home is told of the range as a whole; blocks of it that were off home are
//! given up, found in the map or in the range, whichever is smaller.

use super::operations::purpose;
use super::{Job, Store, TaskId, Volume};
use crate::block::{Block, BlockRun, ValidMask};
use crate::journal::record::Record;
use crate::operation::{Command, OpKind, Status, Token};
use crate::payload::Payload;
use crate::units::SectorRange;

pub(crate) struct RangeJob {
    token: Token,
    command: Command,
    sectors: SectorRange,
    issued: bool,
    status: Status,
}

impl RangeJob {
    pub(super) fn note(&mut self, status: Status) {
        // A drive that cannot discard has lost nothing by it.
        let harmless = status == Status::Unsupported && self.command.kind == OpKind::Discard;
        if self.status == Status::Done && !harmless {
            self.status = status;
        }
    }
}

impl<P: Payload> Volume<P> {
    pub(super) fn start_range(&mut self, token: Token, sectors: SectorRange, command: Command) {
        let blocks = self.view.layout.block.touched(sectors);
        self.promotions.cancel(blocks);
        let job = RangeJob { token, command, sectors, issued: false, status: Status::Done };
        let task = self.begin_task(Job::Running);
        if self.ordering.enter(task, blocks) {
            self.run_range(task, job);
        } else {
            self.statistics.waited += 1;
            self.park(task, Job::Range(job));
        }
    }

    /// Whether a block at an end of the range is off home and only a part of it is to be zeroed. Only known once the
    /// changes before it have ended.
    fn zeroes_must_merge(&self, sectors: SectorRange) -> bool {
        let size = self.view.layout.block;
        let blocks = size.touched(sectors);
        [blocks.first, Block(blocks.end() - 1)].into_iter().any(|block| {
            let (_, covered) = size.masks(size.clip(sectors, block));
            covered != ValidMask::ALL && self.view.map.get(block).is_some()
        })
    }

    pub(super) fn run_range(&mut self, task: TaskId, mut job: RangeJob) {
        if !job.issued {
            if job.command.kind == OpKind::WriteZeroes && self.zeroes_must_merge(job.sectors) {
                return self.write_zeroes(task, &job);
            }
            let blocks = self.view.layout.block.touched(job.sectors);
            if self.is_moving(blocks) {
                self.park(task, Job::Range(job));
                self.statistics.waited += 1;
                return self.move_waiters.push(task);
            }
            if self.marks_needed(blocks) {
                self.park(task, Job::Range(job));
                return self.await_commit(task, false);
            }
            job.issued = true;
            self.changes_home(task, true);
            self.issue_range(task, &job);
        }
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::Range(job));
        }
        if job.status == Status::Done {
            self.give_up_range(job.sectors);
        }
        self.give_up_copies(job.sectors);
        self.leave_ordering(task);
        self.end_request(task, job.token, job.status, P::empty());
    }

    /// Goes on as an ordinary write, which can merge.
    fn write_zeroes(&mut self, task: TaskId, job: &RangeJob) {
        let RangeJob { token, command, sectors, .. } = *job;
        let write = self.arrived_write(token, sectors, command, P::zeroes(sectors.len));
        self.run_write(task, write);
    }

    fn issue_range(&mut self, task: TaskId, job: &RangeJob) {
        let mut done = 0;
        while done < job.sectors.len.0 {
            let rest = SectorRange::new(job.sectors.start.0 + done, job.sectors.len.0 - done);
            let (member, range) = self.home_piece(rest);
            self.issue(task, purpose::HOME, member, Command { range, ..job.command }, P::empty());
            done += range.len.0;
        }
    }

    /// Takes every block that lies whole in `sectors` out of the map.
    fn give_up_range(&mut self, sectors: SectorRange) {
        let Some(whole) = self.whole_blocks(sectors) else { return };
        let within = |block: u64| (whole.first.0..whole.end()).contains(&block);
        let blocks = self.blocks_off_home(whole);
        if matches!(self.store, Store::Log(_)) {
            // One record for all, for those too that have moved home while the log still has what they were.
            self.pending.append(Record::Home { first: whole.first, count: whole.count });
        }
        blocks.into_iter().for_each(|block| self.moved_out(block));
        self.lost.retain(|&block, _| !within(block));
        self.update_free_slots();
    }

    /// Takes clean copies out of the map of which home may differ now: at the ends of the range, and anywhere if it failed.
    /// What they hold would show until they are evicted, and something else afterwards.
    fn give_up_copies(&mut self, sectors: SectorRange) {
        let blocks = self.view.layout.block.touched(sectors);
        for block in self.blocks_off_home(blocks) {
            if self.view.map.get(block).is_some_and(|(_, entry)| !entry.dirty) {
                self.send_home(block);
            }
        }
        self.update_free_slots();
    }

    /// The blocks of `run` that are in the map, found in the map or in the run, whichever is smaller.
    fn blocks_off_home(&self, run: BlockRun) -> Vec<Block> {
        if self.view.map.len() < run.count {
            let occupied = self.view.map.occupied().map(|(_, entry)| entry.block);
            occupied.filter(|block| (run.first.0..run.end()).contains(&block.0)).collect()
        } else {
            run.blocks().filter(|&block| self.view.map.get(block).is_some()).collect()
        }
    }

    fn whole_blocks(&self, sectors: SectorRange) -> Option<BlockRun> {
        let size = self.view.layout.block;
        let first = sectors.start.0.div_ceil(size.sectors());
        let end = sectors.end().0 / size.sectors();
        (end > first).then(|| BlockRun { first: Block(first), count: end - first })
    }
}
