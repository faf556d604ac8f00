//! Discard and write-zeroes: ranges stay ranges. Home is told of the range as a whole; blocks of it that were off home are
//! given up, found in the map or in the range, whichever is smaller.

use super::refusal::Departure;
use super::{Job, Store, TaskId, Volume};
use crate::block::{Block, BlockRun, ValidMask};
use crate::operation::{Command, OpKind, Status, Token};
use crate::payload::Payload;
use crate::units::SectorRange;

pub(crate) struct RangeJob {
    token: Token,
    command: Command,
    sectors: SectorRange,
    phase: Phase,
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    AtHome,
    Committing,
}

impl RangeJob {
    pub(super) fn note(&mut self, status: Status) {
        // A drive that cannot discard has lost nothing by it.
        let harmless = status == Status::Unsupported && self.command.kind == OpKind::Discard;
        if self.status == Status::Done && !harmless {
            self.status = status;
        }
    }

    /// The commit that this waited for has failed.
    pub(super) fn commit_failed(&mut self, status: Status) {
        if self.phase == Phase::Committing {
            self.status = status;
        }
    }
}

impl<P: Payload> Volume<P> {
    pub(super) fn start_range(&mut self, token: Token, sectors: SectorRange, command: Command) {
        let blocks = self.view.layout.block.touched(sectors);
        self.promotions.cancel(blocks);
        let job = RangeJob { token, command, sectors, phase: Phase::Waiting, status: Status::Done };
        let task = self.begin_task(Job::Running);
        if self.ordering.enter(task, self.lane(sectors)) {
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
        let blocks = self.view.layout.block.touched(job.sectors);
        if job.phase == Phase::Waiting {
            if job.command.kind == OpKind::WriteZeroes && (self.log_serves() || self.zeroes_must_merge(job.sectors)) {
                return self.write_zeroes(task, &job);
            }
            if self.is_moving(blocks) {
                self.park(task, Job::Range(job));
                self.statistics.waited += 1;
                return self.move_waiters.push(task);
            }
            if self.must_await_state() {
                self.park(task, Job::Range(job));
                return self.await_announcement(task);
            }
            if self.view.layout.is_mirrored() && self.must_announce_dirty() {
                self.park(task, Job::Range(job));
                return self.await_announcement(task);
            }
            match self.departure_of(blocks) {
                Departure::Over => {}
                Departure::Awaited => {
                    self.park(task, Job::Range(job));
                    return self.await_departure(task, blocks);
                }
                Departure::Never => return self.end_range(task, &job, Status::MediaError),
            }
            if self.is_frozen(blocks) {
                return self.end_range(task, &job, Status::MediaError);
            }
            if self.marks_needed(blocks) {
                self.park(task, Job::Range(job));
                return self.await_commit(task, false);
            }
            job.phase = Phase::AtHome;
            // What the log's drive would lose is newer than what home has (Griffin 5.3): home hears of it when nothing is logged.
            // Two drives may keep different content of what is discarded: copies do not hear of it.
            let unheard = self.view.layout.is_mirrored() && job.command.kind == OpKind::Discard;
            if !(unheard || self.log_serves() && self.log_is_in_use()) {
                self.changes_home(task, true);
                self.issue_range(task, &job);
            }
        }
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::Range(job));
        }
        if job.phase == Phase::AtHome {
            let newest = self.pending.appended;
            if job.status == Status::Done {
                self.give_up_range(job.sectors);
            }
            self.give_up_copies(job.sectors);
            self.changes_home(task, false);
            job.phase = Phase::Committing;
            if job.command.fua && (self.pending.appended > newest || self.pending.could_come_back(blocks, true)) {
                self.park(task, Job::Range(job));
                return self.await_commit(task, false);
            }
        }
        if self.must_tell_of_a_copy() {
            self.park(task, Job::Range(job));
            return self.await_announcement(task);
        }
        let status = self.status_if_told(job.status);
        self.end_range(task, &job, status);
    }

    pub(super) fn end_range(&mut self, task: TaskId, job: &RangeJob, status: Status) {
        self.leave_ordering(task);
        self.end_request(task, job.token, status, P::empty());
    }

    /// Whether changes go to a log that is there.
    fn log_serves(&self) -> bool {
        P::CARRIES_DATA && matches!(self.store, Store::Log(_)) && self.view.slots_online() && !self.is_draining()
    }

    /// Whether the log has anything in it, live or not.
    pub(super) fn log_is_in_use(&self) -> bool {
        matches!(&self.store, Store::Log(log) if log.is_in_use())
    }

    /// Goes on as an ordinary write, which can merge.
    fn write_zeroes(&mut self, task: TaskId, job: &RangeJob) {
        let RangeJob { token, command, sectors, .. } = *job;
        let write = self.arrived_write(token, sectors, command, P::zeroes(sectors.len));
        self.run_write(task, write);
    }

    fn issue_range(&mut self, task: TaskId, job: &RangeJob) {
        // The journal will say that home is newest: it must not be stable before home is.
        let fua = job.command.fua || (P::CARRIES_DATA && self.view.map.dirty_blocks() > 0);
        let mut done = 0;
        while done < job.sectors.len.0 {
            let rest = SectorRange::new(job.sectors.start.0 + done, job.sectors.len.0 - done);
            let (member, range) = self.home_piece(rest);
            self.change_home(task, member, Command { range, fua, ..job.command }, P::empty());
            done += range.len.0;
        }
    }

    /// Takes every block that lies whole in `sectors` out of the map.
    fn give_up_range(&mut self, sectors: SectorRange) {
        let Some(whole) = self.whole_blocks(sectors) else { return };
        let blocks = self.blocks_off_home(whole);
        self.owe(whole);
        blocks.iter().for_each(|&block| self.only_home_has(block));
        // In a log one record for all, for those too that have moved home while the log still has what they were.
        self.drop_from_log(whole);
        for block in blocks {
            if matches!(self.store, Store::Log(_)) {
                self.take_pieces(block);
            } else {
                self.leave_slot(block);
            }
        }
        let lost: Vec<Block> = self.lost.between(whole.first.0, whole.end()).map(|(block, _)| block).collect();
        lost.into_iter().for_each(|block| self.set_lost(block, ValidMask::NONE));
        self.update_free_slots();
    }

    /// A slot of `block` is about to be given up for a discard of which home does not hear. A move
    /// may have written its content home and not have flushed that yet: reads show it from now on,
    /// so it counts as a request's.
    fn only_home_has(&mut self, block: Block) {
        let (home, ..) = self.view.layout.home_of(block);
        let stability = &mut self.stability[usize::from(home.0)];
        stability.requested = stability.changed;
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
    pub(super) fn blocks_off_home(&self, run: BlockRun) -> Vec<Block> {
        if self.view.map.len() < run.count {
            let occupied = self.view.map.occupied().map(|(_, entry)| entry.block);
            let mut found: Vec<Block> = occupied.filter(|block| (run.first.0..run.end()).contains(&block.0)).collect();
            if self.view.map.slots_in_use() > self.view.map.len() {
                // A block of a log comes once for each of its pieces.
                found.sort_unstable();
                found.dedup();
            }
            found
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
