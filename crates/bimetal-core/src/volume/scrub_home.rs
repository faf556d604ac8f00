//! Scrub of clean copies: compares home with the copies that a cache has of it.
//!
//! Home's own data have no checksums. But a clean copy has a checksum of what its home must have.
//! So after a scrub has read all slots, it reads home in order of address wherever there are clean
//! copies of whole blocks. If a block differs from the checksum in two reads, or cannot be read,
//! its slot is read. If the slot matches the checksum, home is written again from the slot.
//! Requests wait while their blocks are compared, so that no write falls between a read and its
//! comparison.

use super::bad_block::{BadBlock, Outcome};
use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};

/// Blocks of one read: 512 KiB of 4 KiB blocks limit the time for which a request waits behind the
/// read.
pub(super) const READ_BLOCKS: usize = 128;

/// Blocks that are searched for clean copies before the scrub pauses: some milliseconds.
const SEARCHED_AT_ONCE: u64 = 65_536;

/// A run of home that is being compared with clean copies.
pub(crate) struct HomeJob<P> {
    run: BlockRun,
    copies: Vec<(Slot, Entry)>,
    /// Copies from which home differs, or whose home cannot be read. The last copy of the list is
    /// being looked at.
    suspects: Vec<(Slot, Entry)>,
    phase: Phase<P>,
}

enum Phase<P> {
    /// The run waits for earlier changes.
    Waiting,
    /// The run is read from home.
    Reading,
    /// One block is read from home again.
    Again,
    /// The slot of the block is read.
    Slot,
    /// The content of the slot is written home.
    Rewriting(P),
}

/// Result of a search for clean copies.
pub(super) enum Search {
    /// The next run of blocks on one member that begins and ends with clean copies.
    Found(BlockRun),
    /// No copy was found before this block.
    NotBefore(Block),
    /// No block is left.
    Over,
}

impl<P: Payload> Volume<P> {
    /// Returns the number of clean copies that can be compared with home, at most.
    pub(super) fn copies_to_compare(&self) -> u64 {
        let is_cache = self.store.cache().is_some();
        if is_cache { self.view.map.len() - u64::from(self.view.map.dirty_blocks()) } else { 0 }
    }

    /// Searches for clean copies from block `from` on.
    pub(super) fn search_clean_copies(&self, from: Block) -> Search {
        if self.copies_to_compare() == 0 {
            return Search::Over;
        }
        let total = self.view.layout.total_blocks();
        let end = total.min(from.0 + SEARCHED_AT_ONCE);
        let Some(first) = (from.0..end).map(Block).find(|&block| self.clean_copy(block).is_some()) else {
            return if end == total { Search::Over } else { Search::NotBefore(Block(end)) };
        };
        let most = (READ_BLOCKS as u64).min(total - first.0);
        let (_, piece) = self.home_of_run(BlockRun { first, count: most });
        let run = BlockRun { first, count: (piece.len.0 / self.view.layout.block.sectors()).max(1) };
        let last = run.blocks().filter(|&block| self.clean_copy(block).is_some()).last().unwrap_or(first);
        Search::Found(BlockRun { first, count: last.0 + 1 - first.0 })
    }

    fn clean_copy(&self, block: Block) -> Option<(Slot, Entry)> {
        self.view.map.get(block).filter(|(_, entry)| !entry.dirty && entry.valid == ValidMask::ALL)
    }

    /// Returns true if the member that is home of `block` can be read.
    pub(super) fn home_can_be_read(&self, block: Block) -> bool {
        self.is_readable(self.view.layout.home_of(block).0)
    }

    /// Returns true if the member that is home of `block` has failed.
    pub(super) fn home_is_gone(&self, block: Block) -> bool {
        self.is_gone(self.view.layout.home_of(block).0)
    }

    /// Queues a run behind the earlier changes of its blocks, and compares the run.
    pub(super) fn begin_home_comparison(&mut self, run: BlockRun) {
        let job = HomeJob { run, copies: Vec::new(), suspects: Vec::new(), phase: Phase::Waiting };
        let task = self.begin_task(Job::Running);
        let lane = self.lane(self.view.layout.block.sectors_of(run));
        if self.requests.ordering.enter(task, lane, run) {
            self.run_home_comparison(task, job);
        } else {
            self.park(task, Job::CompareHome(job));
        }
    }

    /// Continues a comparison when none of its operations is under way.
    pub(super) fn run_home_comparison(&mut self, task: TaskId, mut job: HomeJob<P>) {
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::CompareHome(job));
        }
        if matches!(job.phase, Phase::Waiting) {
            job.copies = job.run.blocks().filter_map(|block| self.clean_copy(block)).collect();
            if job.copies.is_empty() || !self.home_can_be_read(job.run.first) {
                return self.end_home_comparison(task, &job);
            }
            job.phase = Phase::Reading;
            self.read_run_of_home(task, job.run);
            return self.put_job(task, Job::CompareHome(job));
        }
        let Some(&(slot, entry)) = job.suspects.last() else { return self.end_home_comparison(task, &job) };
        match &job.phase {
            Phase::Slot => self.read_to_scrub(task, slot, 1),
            Phase::Rewriting(content) => {
                let (home, range) = self.home_of_run(BlockRun { first: entry.block, count: 1 });
                // A flush under way does not cover this write, and home had the content as stable.
                let command = Command { kind: OpKind::Write, range, fua: true };
                let content = content.slice(Sectors::ZERO, content.sectors());
                self.issue(task, purpose::BACKGROUND, home, command, content);
            }
            _ => self.read_run_of_home(task, BlockRun { first: entry.block, count: 1 }),
        }
        self.put_job(task, Job::CompareHome(job));
    }

    /// Returns the beginning of `run` at home, as far as it lies on one member.
    fn home_of_run(&self, run: BlockRun) -> (MemberId, SectorRange) {
        self.home_piece(self.view.layout.block.sectors_of(run))
    }

    fn read_run_of_home(&mut self, task: TaskId, run: BlockRun) {
        let (home, range) = self.home_of_run(run);
        self.issue(task, purpose::BACKGROUND, home, Command { kind: OpKind::Read, range, fua: false }, P::empty());
    }

    /// Records the end of an operation.
    pub(super) fn note_home_comparison(&mut self, job: &mut HomeJob<P>, status: Status, payload: &P) {
        let block = Sectors(self.view.layout.block.sectors());
        let matches = |at: u64, entry: &Entry| {
            status == Status::Done && payload.slice(Sectors(at * block.0), block).checksum() == entry.checksum
        };
        match job.phase {
            Phase::Waiting => {}
            // A member that is gone has nothing to repair.
            _ if status == Status::Gone => job.suspects.clear(),
            Phase::Reading => {
                let differs = |(_, entry): &&(Slot, Entry)| !matches(entry.block.0 - job.run.first.0, entry);
                job.suspects = job.copies.iter().rev().filter(differs).copied().collect();
                job.phase = Phase::Again;
            }
            Phase::Again => match job.suspects.last() {
                Some((_, entry)) if !matches(0, entry) => job.phase = Phase::Slot,
                _ => drop(job.suspects.pop()),
            },
            Phase::Slot => match job.suspects.last() {
                Some((slot, entry)) if matches(0, entry) && self.still_holds(*slot, entry) => {
                    job.phase = Phase::Rewriting(payload.slice(Sectors::ZERO, block));
                }
                // The slot is bad, too: the scrub of slots tells of it.
                _ => self.next_suspect(job),
            },
            Phase::Rewriting(_) => {
                if let Some((_, entry)) = job.suspects.last() {
                    let outcome = if status == Status::Done { Outcome::Rewritten } else { Outcome::OneCopyLeft };
                    self.note_found(BadBlock { block: entry.block, outcome });
                }
                self.next_suspect(job);
            }
        }
    }

    fn next_suspect(&self, job: &mut HomeJob<P>) {
        job.suspects.pop();
        job.phase = Phase::Again;
    }

    fn end_home_comparison(&mut self, task: TaskId, job: &HomeJob<P>) {
        self.scrub.home_compared(job.copies.len() as u64);
        self.leave_ordering(task);
        self.end_task(task);
    }
}
