//! Moves: content that is off home is written back, in batches of bounded size.
//!
//! The batches are of consecutive addresses ([`order`]). A migration that is much larger than
//! memory sorts itself in the free part of its log first ([`runs`]). A batch reads its slots in the
//! order in which they lie, and makes sure that their records are durable. The batch writes home in
//! order of address, flushes home, and only then changes the block map. So a crash at any point
//! finds the content whole in its slot or at home. A block that was written again during the batch
//! keeps its new slot. A few operations of a move are under way at a time, and fewer while a
//! request uses the drive. Moves yield to requests, unless the scheme finds them
//! [urgent](crate::scheme::Scheme::is_move_urgent). Even urgent moves yield to appends to a log on
//! a disk ([`turns`]).
//!
//! A move of everything that is off home is a *migration*. In a log, the end of a migration frees
//! all slots written before its start. The state on the home drive records the migration from
//! before its first write until its last write is stable (Griffin 5.2, 5.3).

mod begin;
mod order;
mod reads;
mod runs;
mod turns;
mod writes;

use std::collections::VecDeque;

use super::log_index::Position;
use super::members::health::ASK_AGAIN;
use super::mover::age::DirtySince;
use super::operations::purpose;
use super::{Job, TaskId, Volume, blocks_bytes};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::ring::Sequence;
use crate::journal::superblock::Superblock;
use crate::journal::turns::{COPIES, TURNS};
use crate::label::report::Kind;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use order::{Batch, MoveOrder, ToMove};

/// Largest gap, in blocks, that a migration reads through in a log on a disk. 128 KiB of 4 KiB
/// blocks pass under the head sooner than a second command would be served.
const GAP_BLOCKS_MAX: u32 = 32;
/// Largest number of blocks in one operation of a move. 512 KiB of 4 KiB blocks bound the time for
/// which a request waits behind the operation.
const OPERATION_BLOCKS: u64 = 128;
/// Number of incomplete moves in a row from which on a move that moved nothing leaves no hope for
/// requests that wait for slots.
const EMPTY_MOVES: u32 = 2;
/// Number of times that an unreadable block is read again before content only in its slot counts as
/// lost.
const READ_TRIES: u8 = 5;

pub(crate) struct MoveJob<P> {
    /// Content that the move has not taken yet, batch by batch.
    left: Box<MoveOrder>,
    /// Set while `left` is in the order of an urgent move.
    urgent: bool,
    /// Slots passed over because a request is changing their block's home. The change at home makes
    /// the content of these slots old.
    held_back: Vec<ToMove>,
    keep: bool,
    /// End of the part of a log that a migration moves; `None` for other moves.
    log_end: Option<Position>,
    /// Set if home members must record the migration while it is under way.
    marked: bool,
    phase: Phase,
    /// The batch's pieces, in order of address.
    batch: Vec<Moving<P>>,
    /// Place in the log's scratch part of the run that is made of the batch; `None` if the batch
    /// goes home.
    run: Option<usize>,
    /// Set once a run could not be written.
    run_failed: bool,
    /// Operations of the phase that have not started. `order` counts reads, and `batch` counts
    /// writes.
    todo: VecDeque<Transfer>,
    /// Number of blocks in the batch that is being written home.
    blocks: u64,
    /// Number of blocks of the batch whose write has not started.
    blocks_waiting: u64,
    /// Positions in `batch`, in order of slot.
    order: Vec<u32>,
    /// Superblock that ends the migration.
    superblock: Option<Superblock>,
    /// End of the log's part that the next flush of the move makes stable, and the newest record in
    /// that part.
    settled: (Position, Sequence),
    /// Number of operations that the volume had begun before the batch was written home.
    begun_before_writing: u64,
    /// Set once the step that makes the batch's records durable has begun, or is not needed.
    committed: bool,
    /// Set once everything that a migration moves is stable in the log.
    log_is_stable: bool,
    /// Set once some content could not be moved.
    incomplete: bool,
    /// Set once some content was moved.
    moved: bool,
    /// Set for the job that writes for instant moves. The block map of an instant move has changed
    /// already.
    instant: bool,
    /// Start of a move of all dirty slots; `None` for other moves.
    all_since: Option<Nanoseconds>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Marking,
    NextBatch,
    Reading,
    /// Writes the batch as a run.
    Sorting,
    /// Waits for the log's segments with the batch's content. The segments must be stable on the
    /// log's drive before home changes.
    Logging,
    FlushingLog,
    Writing,
    Flushing,
    /// Waits for newer versions of moved blocks. Newer versions must be stable in the log before
    /// the log frees the older versions' slots.
    Settling,
    Settled,
    MakingStable,
    Unmarking,
    /// Writes a pair of superblocks. The number in this phase counts the copies whose write has
    /// begun.
    Superblock(usize),
    Ended,
}

struct Moving<P> {
    slot: Slot,
    /// The slot that is read: `slot`, or the place of its copy in a run.
    place: Slot,
    entry: Entry,
    content: Option<P>,
    /// Number of failed reads of the slot.
    failures: u8,
    /// Set if the slot's content failed its checksum when last read.
    differs: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Moved,
    /// The slot cannot be read. Content that only the slot held is lost.
    Lost,
    /// The content stays in its slot: its write home, or a step before that write, failed.
    Stays,
}

/// One operation of a batch.
struct Transfer {
    member: MemberId,
    range: SectorRange,
    first: u32,
    count: u32,
    /// Eighths of a single block that are written home; all eighths in a transfer of whole blocks.
    /// (`first` and `count` count pieces.)
    valid: ValidMask,
}

impl<P: Payload> Volume<P> {
    /// Records on the home members that a migration writes to home, or that it has ended. The job
    /// goes on in `phase` once the record is durable.
    fn announce_migrating(&mut self, task: TaskId, mut job: Box<MoveJob<P>>, migrating: bool, phase: Phase) {
        job.phase = phase;
        self.park(task, Job::Move(job));
        self.announce(|state| state.migrating = migrating || state.refusing.is_some());
        self.await_announcement(task);
    }

    /// Continues a move until it waits for operations.
    pub(super) fn run_move(&mut self, task: TaskId, mut job: Box<MoveJob<P>>) {
        if job.instant {
            return self.run_instant_move(task, job);
        }
        while self.outstanding(task) == 0 {
            if job.log_end.is_some() && job.phase != Phase::Ended && self.slots_refuse() {
                // A log that cannot be written frees no slots. An evacuation writes the rest back.
                job.incomplete = true;
                job.phase = Phase::Ended;
                job.todo.clear();
            }
            self.stop_sorting_if_due(&mut job);
            if !job.todo.is_empty() {
                // The move rate or appends to the log held these operations back.
                self.start_transfers(task, &mut job);
                if self.outstanding(task) == 0 {
                    break;
                }
                continue;
            }
            match job.phase {
                Phase::Marking => return self.announce_migrating(task, job, true, Phase::NextBatch),
                Phase::NextBatch => {
                    self.next_batch(&mut job);
                    if job.phase == Phase::NextBatch && self.all_held_back(&job) {
                        self.mover.hold_back();
                        return self.park(task, Job::Move(job));
                    }
                }
                Phase::Reading if !std::mem::replace(&mut job.committed, true) && !self.slots_refuse() => {
                    if self.store.log().is_some() {
                        // A commit is avoided here: a full log may have no room for its records
                        // before the migration ends.
                        job.settled = self.await_log(task);
                        job.phase = Phase::Logging;
                    } else if !self.store.pending.is_durable() {
                        // The task is not parked: it still reads its slots, so they must not be
                        // reused.
                        self.put_job(task, Job::Move(job));
                        return self.await_commit(task, false);
                    }
                }
                Phase::Logging | Phase::Settled if self.must_await_flush(&job) => break,
                Phase::Logging => {
                    self.take_turn();
                    job.phase = Phase::FlushingLog;
                    self.flush_if_wanted(task, self.member_of_slots());
                }
                Phase::FlushingLog => {
                    job.phase = Phase::Reading;
                    if !job.incomplete {
                        self.log_made_stable(job.settled);
                        // All content of a migration was in the log when the migration began.
                        job.log_is_stable = job.log_end.is_some();
                    }
                }
                Phase::Reading if job.run.is_some() => {
                    job.phase = Phase::Sorting;
                    self.plan_run(&mut job);
                }
                Phase::Sorting => {
                    job.phase = Phase::NextBatch;
                    self.run_is_made(&mut job);
                }
                Phase::Reading => {
                    job.phase = Phase::Writing;
                    job.plan_writes(self);
                }
                Phase::Writing => {
                    job.phase = Phase::Flushing;
                    // Home goes first (`home_first`).
                    self.flush_homes(task);
                }
                Phase::Flushing => {
                    if self.homes_have_failed_since(job.begun_before_writing) {
                        // Another task's flush failed: home may have lost writes that this move's
                        // flush took for stable.
                        job.commit_failed();
                    }
                    self.apply_batch(&mut job);
                    job.phase = Phase::NextBatch;
                }
                Phase::Settling => {
                    job.phase = Phase::Settled;
                    job.settled = self.settle_log(task);
                }
                Phase::Settled if !job.incomplete => {
                    self.take_turn();
                    job.phase = Phase::MakingStable;
                    self.flush_if_wanted(task, self.member_of_slots());
                }
                Phase::MakingStable if !job.incomplete => {
                    job.phase = Phase::Unmarking;
                    self.log_made_stable(job.settled);
                }
                Phase::Settled | Phase::MakingStable => job.phase = Phase::Ended,
                Phase::Unmarking if job.marked => {
                    return self.announce_migrating(task, job, false, Phase::Superblock(0));
                }
                Phase::Unmarking => job.phase = Phase::Superblock(0),
                Phase::Superblock(0) if self.scrub.mended.is_under_way() => {
                    self.put_job(task, Job::Move(job));
                    return self.await_mending(task);
                }
                Phase::Superblock(begun) if begun < TURNS * COPIES && !job.incomplete => {
                    job.phase = Phase::Superblock(begun + 1);
                    self.write_log_superblock(task, &mut job, begun);
                }
                Phase::Superblock(_) => job.phase = Phase::Ended,
                Phase::Ended => return self.end_move(task, job),
            }
            self.start_transfers(task, &mut job);
        }
        self.put_job(task, Job::Move(job));
    }

    /// Returns true if requests are changing the home of all blocks that a move has left.
    fn all_held_back(&self, job: &MoveJob<P>) -> bool {
        let entry = |ToMove { slot, .. }| self.to_move(slot);
        let mut left = job.left.left().filter_map(entry).peekable();
        left.peek().is_some() && left.all(|entry| self.requests.ordering.is_changing_home(entry.block))
    }

    /// Remembers the log's pieces of `block`, which is about to be written again, for the running
    /// migration. The migration moves the versions from its start, so that home without the log has
    /// the content of one moment (Griffin 5.3).
    pub(super) fn note_superseded(&mut self, block: Block) {
        if self.view.moving && !self.mover.is_idle() && self.store.appends() {
            let pieces = self.view.map.pieces(block);
            pieces.iter().for_each(|&(slot, entry)| self.mover.superseded.note(slot, entry));
        }
    }

    /// Returns the entry that a move takes from `slot`. A migration takes the version from its
    /// start, even if the block was written again since.
    fn to_move(&self, slot: Slot) -> Option<Entry> {
        let superseded = self.mover.superseded.get(slot);
        let of_newer = superseded.filter(|entry| self.view.map.get(entry.block).is_some());
        of_newer.or_else(|| self.view.map.in_slot(slot))
    }

    fn takes_writes(&self, member: MemberId) -> bool {
        self.view.member(member).state == MemberState::Online
    }

    fn home_takes_writes(&self, block: Block) -> bool {
        self.takes_writes(self.view.layout.home_of(block).0)
    }

    /// Takes the blocks of the next batch. An urgent move takes the batch where a request has just
    /// read from a slot.
    fn take_next(&mut self, job: &mut MoveJob<P>) -> Option<Batch> {
        if !job.urgent && self.decider.scheme.is_move_urgent() {
            job.urgent = true;
            *job.left = self.order_of_move(std::mem::take(&mut *job.left).into_left(), true, 0);
        }
        match self.mover.last_slot_read().filter(|_| job.urgent) {
            Some(block) => job.left.next_batch_at(block),
            None => job.left.next_batch(),
        }
    }

    fn add_to_batch(&mut self, job: &mut MoveJob<P>, to_move: ToMove, home_failed: bool) {
        let ToMove { slot, place, .. } = to_move;
        match self.to_move(slot) {
            Some(entry) if job.run.is_some() => job.batch.push(Moving::new(slot, place, entry)),
            // Home is not online: the content stays in its slot, without an operation that would
            // fail.
            Some(entry) if home_failed && !self.home_takes_writes(entry.block) => job.incomplete = true,
            Some(entry) if self.requests.ordering.is_changing_home(entry.block) => {
                // Another stretch may write its runs over the copy.
                job.held_back.push(ToMove::new(entry.block, slot));
            }
            Some(entry) => job.batch.push(Moving::new(slot, place, entry)),
            None => {}
        }
    }

    /// Takes the next batch. Blocks of a cache that were written again during the move are left
    /// out. The job stays in its phase if requests are changing the home of every remaining block.
    fn next_batch(&mut self, job: &mut MoveJob<P>) {
        job.batch.clear();
        let home_failed = !self.view.layout.homes().into_iter().all(|member| self.takes_writes(member));
        // All content of a batch may be gone from its slots by now. Instead of such a batch the
        // next batch is taken.
        while job.batch.is_empty()
            && let Some(batch) = self.take_next(job)
        {
            let (batch, run) = match batch {
                Batch::Home(batch) => (batch, None),
                Batch::Run(batch, into) => (batch, Some(into)),
            };
            job.run = run;
            job.batch.reserve_exact(batch.len());
            batch.into_iter().for_each(|to_move| self.add_to_batch(job, to_move, home_failed));
        }
        if job.batch.is_empty() && !job.held_back.is_empty() {
            *job.left = self.order_of_move(std::mem::take(&mut job.held_back), job.urgent, 0);
            self.give_scratch_back();
            return;
        }
        if job.batch.is_empty() {
            job.phase = match job.log_end {
                Some(_) if job.incomplete => Phase::Ended,
                Some(_) => Phase::Settling,
                None => Phase::Ended,
            };
            return;
        }
        job.order = (0..job.batch.len() as u32).collect();
        job.batch.sort_unstable_by_key(|moving| (moving.entry.block, moving.slot));
        let batch = &job.batch;
        let store = self.store.kind();
        job.order.sort_by_cached_key(|&at| store.order_of(batch[at as usize].place));
        job.phase = Phase::Reading;
        // A run changes nothing at home.
        job.committed = job.log_is_stable || job.run.is_some();
        self.plan_reads(job);
    }

    /// Starts operations of the phase, up to the move's share of the drive.
    fn start_transfers(&mut self, task: TaskId, job: &mut MoveJob<P>) {
        let reading = job.phase == Phase::Reading;
        let uses_slots = reading || job.phase == Phase::Sorting;
        // Reads that begin at the same time are one turn, and so are writes of a run.
        if uses_slots && self.next_turn_at() > self.view.now {
            return;
        }
        while let Some(next) = job.todo.front() {
            if self.outstanding(task) >= self.operations_of_move_max(job, next.member) {
                return;
            }
            if !uses_slots && !job.instant && self.move_may_go_on_at() > self.view.now {
                return;
            }
            let Some(Transfer { member, range, first, count, valid }) = job.todo.pop_front() else { return };
            if uses_slots {
                self.take_turn();
            } else {
                self.mover.pace.wrote(self.view.now, range.len.bytes());
                job.note_started(first, count);
            }
            let kind = if reading { OpKind::Read } else { OpKind::Write };
            let payload = match job.phase {
                _ if reading || !P::CARRIES_DATA => P::empty(),
                Phase::Sorting => self.content_of_run(job, first, count),
                _ => job.content_home(self, first, count, valid),
            };
            let purpose = purpose::BACKGROUND | count << purpose::MOVED_COUNT_SHIFT | first;
            self.issue(task, purpose, member, Command { kind, range, fua: false }, payload);
        }
    }

    /// Returns the number of blocks of the current batch that are being written home, or are
    /// written and not flushed.
    pub(super) fn blocks_on_their_way(&self) -> u64 {
        let Some(Job::Move(job)) = self.mover.task().map(|task| self.tasks.job(task)) else {
            return 0;
        };
        match job.phase {
            Phase::Writing => job.blocks.saturating_sub(job.blocks_waiting),
            Phase::Flushing => job.blocks,
            _ => 0,
        }
    }

    /// Returns the time at which a move's next write may begin: now, if requests wait for the move.
    fn move_may_go_on_at(&self) -> Nanoseconds {
        if self.is_move_awaited() { self.view.now } else { self.mover.pace.next_at() }
    }

    /// Returns true if requests wait for the slots that a move frees, or for the evacuation of a
    /// read-only member, or if the volume is closing.
    fn is_move_awaited(&self) -> bool {
        self.is_closing() || self.requests.waiters.any_for_slots() || self.departures.are_awaited()
    }

    /// Returns the time at which a move continues that only its rate limit or appends delay.
    pub(super) fn move_goes_on_at(&self) -> Option<Nanoseconds> {
        let task = self.mover.task().filter(|&task| self.outstanding(task) == 0)?;
        let Job::Move(job) = self.tasks.job(task) else { return None };
        let waits = !job.todo.is_empty() || matches!(job.phase, Phase::Logging | Phase::Settled);
        waits.then(|| self.job_may_go_on_at(job))
    }

    /// Continues a move that its rate limit or appends delayed.
    pub(super) fn go_on_moving(&mut self) {
        let Some(task) = self.mover.task() else { return };
        match self.take_job(task) {
            Job::Move(job) => self.run_move(task, job),
            other => self.put_job(task, other),
        }
    }

    pub(super) fn note_move(
        &mut self,
        task: TaskId,
        mut job: Box<MoveJob<P>>,
        purpose: u32,
        status: Status,
        payload: P,
    ) {
        if job.instant {
            self.start_transfers(task, &mut job);
            return self.run_instant_move(task, job);
        }
        let purpose = purpose & !purpose::BACKGROUND;
        let first = (purpose & purpose::MOVED_FIRST) as usize;
        let count = (purpose >> purpose::MOVED_COUNT_SHIFT) as usize;
        match job.phase {
            Phase::Reading if status == Status::Done => self.note_slots_read(&mut job, first, count, &payload),
            Phase::Reading if self.is_unreadable(self.member_of_slots()) => job.stop_reading(),
            Phase::Reading => (first..first + count).for_each(|position| self.read_again(&mut job, position)),
            Phase::Writing if status != Status::Done => {
                job.batch[first..first + count].iter_mut().for_each(|moving| moving.state = State::Stays);
                job.stop_writing(|transfer| self.is_unwritable(transfer.member));
            }
            Phase::Sorting if status != Status::Done => {
                job.run_failed = true;
                job.todo.clear();
            }
            // After a failed state write or flush, no slot of this batch may be freed.
            Phase::Marking
            | Phase::FlushingLog
            | Phase::Flushing
            | Phase::MakingStable
            | Phase::Unmarking
            | Phase::Superblock(_)
                // A drive without a volatile cache supports no flush.
                if !matches!(status, Status::Done | Status::Unsupported) =>
            {
                job.commit_failed();
            }
            _ => {}
        }
        let of_superblock = matches!(job.phase, Phase::Superblock(1..));
        if of_superblock && status == Status::MediaError {
            self.refuse_writes(self.member_of_slots());
        }
        self.start_transfers(task, &mut job);
        self.run_move(task, job);
    }

    fn note_slots_read(&mut self, job: &mut MoveJob<P>, first: usize, count: usize, payload: &P) {
        if !P::CARRIES_DATA {
            return;
        }
        let whole = self.view.layout.block.sectors();
        let first_slot = job.batch[job.order[first] as usize].place;
        let (mut kept, mut kept_of) = (P::empty(), Vec::with_capacity(count));
        for position in first..first + count {
            let moving = &mut job.batch[job.order[position] as usize];
            let into = u64::from(moving.place.0 - first_slot.0);
            let content = payload.slice(Sectors(into * whole), Sectors(whole));
            moving.differs = content.checksum() != moving.entry.checksum;
            let is_copy = moving.place != moving.slot;
            if moving.differs {
                self.statistics.checksum_errors += u64::from(!is_copy);
                self.read_again(job, position);
            } else {
                if !is_copy {
                    self.damage.slot_is_sound(moving.entry.block, moving.slot);
                }
                kept.join(content);
                kept_of.push(position);
            }
        }
        // Bytes of gaps and of rounded-up buffers must not stay in memory with the kept content.
        // The kept blocks are copied together: page-aligned memory for each block would take twice
        // as much.
        let kept = kept.detached();
        for (at, position) in kept_of.into_iter().enumerate() {
            let content = kept.slice(Sectors(at as u64 * whole), Sectors(whole));
            job.batch[job.order[position] as usize].content = Some(content);
        }
    }

    /// Plans another read of a block whose read failed, alone or with others. The block is read
    /// alone up to [`READ_TRIES`] times before it counts as lost. A block whose copy in a run
    /// cannot be read is read from its slot instead.
    fn read_again(&self, job: &mut MoveJob<P>, position: usize) {
        let moving = &mut job.batch[job.order[position] as usize];
        moving.failures += u8::from(moving.place == moving.slot);
        moving.place = moving.slot;
        if moving.failures > READ_TRIES || !self.view.slots_readable() {
            moving.state = State::Lost;
            return;
        }
        let slot = moving.slot;
        job.todo.push_back(self.slot_read(slot, position as u32));
    }

    fn flush_homes(&mut self, task: TaskId) {
        let mut homes: Vec<MemberId> = self.view.layout.home.iter().map(|extent| extent.member).collect();
        homes.dedup();
        for member in homes {
            self.flush_if_wanted(task, member);
        }
    }

    fn flush_if_wanted(&mut self, task: TaskId, member: MemberId) {
        if self.operations.stability(member).wants_flush() {
            self.issue(task, purpose::BACKGROUND, member, Command::FLUSH, P::empty());
        }
    }

    fn apply_batch(&mut self, job: &mut MoveJob<P>) {
        self.apply_batch_to_map(job);
        job.batch.clear();
        self.update_free_slots();
        let waiters = self.requests.waiters.take_for_move();
        self.tasks.wake_all(waiters);
    }

    fn apply_batch_to_map(&mut self, job: &mut MoveJob<P>) {
        let mut blocks = 0;
        let mut bytes = Bytes::ZERO;
        let eighth = self.view.layout.block.bytes().0 / 8;
        let mut last = None;
        for moving in &job.batch {
            let moved = moving.state == State::Moved;
            // The pieces of a block are written home together, and count as one block.
            blocks += u64::from(moved && last.replace(moving.entry.block) != Some(moving.entry.block));
            let Some(entry) = self.view.map.in_slot(moving.slot).filter(|entry| entry.block == moving.entry.block)
            else {
                // The block was written again meanwhile, so its new slot is newer than the version
                // written home.
                job.incomplete |= moving.state == State::Stays;
                continue;
            };
            if moving.state == State::Lost && self.view.slots_readable() {
                let kind = if moving.differs { Kind::Checksum } else { Kind::Unreadable };
                self.slot_is_bad(moving.slot, &moving.entry, kind, false);
            }
            match moving.state {
                State::Moved => {
                    bytes += Bytes(eighth * u64::from(moving.entry.valid.0.count_ones()));
                    self.moved_home(moving.slot, &moving.entry, job.keep);
                }
                State::Lost if self.view.slots_online() && self.damage.lost.has_room() => {
                    self.lose(moving.slot, &entry)
                }
                State::Lost | State::Stays => job.incomplete = true,
            }
        }
        job.moved |= blocks > 0;
        self.statistics.home_blocks_written += blocks;
        self.statistics.migrations.blocks += blocks;
        self.statistics.migrations.bytes += bytes;
        self.update_free_slots();
        debug_assert!(bytes <= blocks_bytes(&self.view.layout, blocks));
    }

    /// Records that a slot with the only copy of a block, or of eighths of a block, cannot be read.
    /// Reads of the lost eighths fail until the eighths are written again.
    fn lose(&mut self, slot: Slot, entry: &Entry) {
        if entry.dirty {
            self.set_lost(entry.block, self.damage.lost.of(entry.block).union(entry.valid));
        }
        if self.view.map.pieces(entry.block).len() > 1 {
            // Other pieces stay, so no record may void the log's whole content of the block. A
            // recovery that finds this piece again also finds its eighths lost.
            self.owe(BlockRun { first: entry.block, count: 1 });
            return self.take_piece(slot, entry.block);
        }
        self.send_home(entry.block);
    }

    /// Starts writing everything that the log has in memory. Returns the end of the written part of
    /// the log, and the newest record in that part.
    fn settle_log(&mut self, task: TaskId) -> (Position, Sequence) {
        self.write_segment();
        self.await_log(task)
    }

    /// Makes `task` wait for the segments of the log that are being written. Returns the end of the
    /// written part of the log, and the newest record in that part.
    fn await_log(&mut self, task: TaskId) -> (Position, Sequence) {
        let newest = self.store.pending.written();
        let Some(log) = self.store.log_mut() else { return (0, newest) };
        let segments = log.await_all(task);
        let end = log.sealed();
        self.tasks.expect(task, segments);
        (end, newest)
    }

    /// Records that a flush has made the log stable, up to a position and a record. A
    /// [note](super::note) follows, as after a commit: without the note, content that the move then
    /// writes home would stay in doubt in the log as long as the move goes on.
    fn log_made_stable(&mut self, (to, newest): (Position, Sequence)) {
        if let Some(log) = self.store.log_mut() {
            log.made_stable(to);
        }
        self.damage.lost.made_durable(newest);
        self.index_stable_segments(to);
        self.note_later();
    }

    /// Writes copy number `begun` of a pair of superblocks, of four copies in all.
    fn write_log_superblock(&mut self, task: TaskId, job: &mut MoveJob<P>, begun: usize) {
        let superblock = match job.superblock.take() {
            None => self.superblock_after(job),
            Some(superblock) if begun == COPIES => superblock.second(),
            Some(superblock) => superblock,
        };
        self.issue_superblock(task, &superblock, begun % COPIES);
        job.superblock = Some(superblock);
    }

    /// Returns the superblock that ends a migration, and writes the index that it names.
    fn superblock_after(&mut self, job: &MoveJob<P>) -> Superblock {
        let tail = job.log_end.expect("what a log moves has an end");
        let mut superblock = self.next_superblock(tail);
        let header = self.page_header(0, 0);
        if let Some(log) = self.store.log_mut()
            && P::CARRIES_DATA
        {
            let (index_tail, writes) = log.index.tail_after_migration(header);
            superblock.index_tail = index_tail;
            self.write_index(writes);
        }
        superblock.forget_lives();
        superblock
    }

    fn end_move(&mut self, task: TaskId, job: Box<MoveJob<P>>) {
        self.give_scratch_back();
        if let Some(end) = job.log_end.filter(|_| !job.incomplete) {
            self.give_log_up(end);
            if let Some(superblock) = job.superblock {
                self.store.superblock = superblock;
            }
        }
        self.mover.end();
        let waiters = self.requests.waiters.take_for_move();
        self.tasks.wake_all(waiters);
        self.end_task(task);
        self.update_free_slots();
        if job.incomplete {
            let least = if self.is_move_futile() { ASK_AGAIN } else { Nanoseconds::ZERO };
            self.mover.pauses.move_failed(self.view.now, least);
            // One empty move may have been of other slots than the requests need.
            let cleans = job.moved || self.mover.pauses.failures() < EMPTY_MOVES;
            self.fail_slot_waiters_without_hope(job.keep && cleans);
        } else {
            self.mover.pauses.forget_failures();
            if let Some(since) = job.all_since {
                self.mover.dirty_since = DirtySince::At(since);
            }
            self.end_pause();
        }
        self.note_departures();
    }

    /// Ends the pause after an incomplete move, so that another move may begin.
    pub(super) fn end_pause(&mut self) {
        self.mover.pauses.end();
        self.view.moving = false;
        self.requests.waiters.request_work();
    }

    /// Fails the requests that wait for slots after a move failed to free any slot, because the
    /// requests would wait for ever. If the move has freed other slots, requests wait until the
    /// commit that makes these slots free, and then ask again. A move that keeps its slots may
    /// leave clean slots (`cleaned`), which the scheme may evict.
    fn fail_slot_waiters_without_hope(&mut self, cleaned: bool) {
        let has_clean = || self.view.map.len() > u64::from(self.view.map.dirty_blocks());
        let may_free = self.view.freeing_slots > 0 || cleaned && !self.store.appends() && has_clean();
        if may_free && !self.slots_refuse() {
            return self.requests.waiters.request_work();
        }
        if !self.store.appends() && self.view.free_slots > 0 {
            return self.wake_slot_waiters();
        }
        self.view.waiting_for_slots = 0;
        for task in self.requests.waiters.take_for_slots() {
            self.fail_waiter(task);
        }
    }

    /// Returns true while a migration writes superblocks of a log.
    pub(super) fn is_writing_log_superblock(&self) -> bool {
        let job = self.mover.task().map(|task| self.tasks.job(task));
        job.is_some_and(|job| matches!(job, Job::Move(job) if matches!(job.phase, Phase::Superblock(1..))))
    }

    /// Returns true if the current batch of a move has one of `blocks`.
    pub(super) fn is_moving(&self, blocks: BlockRun) -> bool {
        let Some(task) = self.mover.task() else { return false };
        let Job::Move(job) = self.tasks.job(task) else { return false };
        if job.run.is_some() {
            return false;
        }
        let from = job.batch.partition_point(|moving| moving.entry.block < blocks.first);
        job.batch.get(from).is_some_and(|moving| moving.entry.block.0 < blocks.end())
    }
}

impl Transfer {
    /// Returns the number of blocks between the first and the last block, both and all gaps
    /// included.
    fn blocks<P: Payload>(&self, volume: &Volume<P>) -> u64 {
        self.range.len.0 / volume.view.layout.block.sectors()
    }
}

impl<P> Moving<P> {
    fn new(slot: Slot, place: Slot, entry: Entry) -> Self {
        Self { slot, place, entry, content: None, failures: 0, differs: false, state: State::Moved }
    }
}

impl<P: Payload> MoveJob<P> {
    /// Returns a move of `left` that has not begun.
    fn of(left: MoveOrder) -> Self {
        Self {
            left: Box::new(left),
            urgent: false,
            held_back: Vec::new(),
            keep: false,
            log_end: None,
            marked: false,
            phase: Phase::NextBatch,
            batch: Vec::new(),
            run: None,
            run_failed: false,
            todo: VecDeque::new(),
            blocks: 0,
            blocks_waiting: 0,
            order: Vec::new(),
            superblock: None,
            settled: (0, 0),
            begun_before_writing: 0,
            committed: false,
            log_is_stable: false,
            incomplete: false,
            moved: false,
            instant: false,
            all_since: None,
        }
    }

    /// Stops reading after the drive with the slots became unreadable. Content that was not read
    /// stays in its slot.
    fn stop_reading(&mut self) {
        self.todo.clear();
        let unread = self.batch.iter_mut().filter(|moving| moving.content.is_none());
        unread.for_each(|moving| moving.state = State::Stays);
    }

    /// Drops the writes that are `futile`. The content of the dropped writes stays in its slots.
    fn stop_writing(&mut self, futile: impl Fn(&Transfer) -> bool) {
        let batch = &mut self.batch;
        self.todo.retain(|transfer| {
            let is_futile = futile(transfer);
            if is_futile {
                let pieces = &mut batch[transfer.first as usize..(transfer.first + transfer.count) as usize];
                pieces.iter_mut().for_each(|moving| moving.state = State::Stays);
            }
            !is_futile
        });
        self.count_blocks();
    }

    /// Counts the blocks of the batch, and the blocks of the batch whose write has not started.
    /// Progress is reported after every operation, which must not walk through the whole batch.
    fn count_blocks(&mut self) {
        // Adjacent writes may be of the same pieces of one block.
        let mut firsts = self.todo.iter().map(|transfer| (transfer.first, transfer.count)).collect::<Vec<_>>();
        firsts.dedup();
        let of = |&(first, count): &(u32, u32)| blocks_of(self.pieces(first, count));
        self.blocks_waiting = firsts.iter().map(of).sum();
        self.blocks = blocks_of(&self.batch);
    }

    /// Counts the blocks of a write that was started, unless another write of the same pieces
    /// follows.
    fn note_started(&mut self, first: u32, count: u32) {
        let has_more = self.todo.front().is_some_and(|next| next.first == first);
        if !self.instant && !has_more {
            self.blocks_waiting = self.blocks_waiting.saturating_sub(blocks_of(self.pieces(first, count)));
        }
    }

    /// Leaves the whole batch in its slots, because a step that must be durable before home changes
    /// has failed.
    pub(super) fn commit_failed(&mut self) {
        self.batch.iter_mut().for_each(|moving| moving.state = State::Stays);
        self.incomplete = true;
    }

    /// Returns the pieces that a write home carries.
    fn pieces(&self, first: u32, count: u32) -> &[Moving<P>] {
        &self.batch[first as usize..(first + count) as usize]
    }
}

impl<P> Moving<P> {
    /// Returns true if the piece is dirty and its move has not failed.
    fn goes_home(&self) -> bool {
        self.state == State::Moved && self.entry.dirty
    }
}

/// Returns the number of distinct blocks in `pieces`, which are in order of block.
fn blocks_of<P>(pieces: &[Moving<P>]) -> u64 {
    pieces.chunk_by(|piece, next| piece.entry.block == next.entry.block).count() as u64
}
