//! Commits: a commit makes all acknowledged writes stable, for all waiting tasks at once.
//!
//! A commit writes what is only in memory (the log's segment, or pages of the journal's ring) and
//! then flushes. Records carry checksums of their data, so no flush is needed between data and
//! records. A commit for a flush request flushes every member. A commit that only makes records
//! durable (to free slots, or for a mark) flushes the member that holds the records. If that member
//! is read-only, a commit waits instead until the affected regions are evacuated (`refusal.rs`).

use super::log_index::Position;
use super::operations::purpose;
use super::refusal::Departure;
use super::store::cache::Cache;
use super::store::cache::checkpoint::{Checkpoint, Facts, Place, Step, next_superblock};
use super::store::{CommitState, CommitWrite, MakeRoom};
use super::{Job, TaskId, Volume, blocks_bytes};
use crate::block::{Block, BlockRun};
use crate::journal::SEGMENT_PAGES;
use crate::journal::record::{self, Kind, PageHeader, Record};
use crate::journal::ring::{Sequence, Taken};
use crate::journal::superblock::Superblock;
use crate::journal::turns::COPIES;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::{SectorRange, Sectors};

/// Number of writes of a segment that are tried before the segment's drive becomes read-only.
const SEGMENT_TRIES: u8 = 3;
/// Failed commits in a row after which the drive with the records becomes read-only.
const COMMIT_TRIES: u8 = 3;

#[derive(Default)]
pub(crate) struct Commit {
    phase: Phase,
    /// Tasks that wait for the commit under way. `next` has the tasks that wait for the next
    /// commit. `all` and `next_all` are set if the commit under way, or the next commit, flushes
    /// all members.
    waiters: Vec<TaskId>,
    next: Vec<TaskId>,
    all: bool,
    next_all: bool,
    /// A lost or possibly lost write that no covering flush has reported yet (as in Linux's
    /// errseq).
    untold: Option<Status>,
    /// The unreported loss that the flushes in the commit under way report, even if the commit
    /// itself succeeds.
    told: Option<Status>,
    /// Set if a flush waits for the next commit, and that flush covers, and so reports, every
    /// unreported loss.
    next_tells: bool,
    /// Number of operations begun when a flush joined the commit under way, if no change was open
    /// at that time. `next_quiet_at` is the same number for the next commit.
    quiet_at: Option<u64>,
    next_quiet_at: Option<u64>,
    /// The newest record when the commit began.
    up_to: Sequence,
    /// Set once all segments of the log are being written. `log_end` is the end of the last
    /// segment.
    sealed: bool,
    log_end: Position,
    status: Option<Status>,
    /// Set if the drive with the records failed.
    records_failed: bool,
    /// Set while the commit waits for evacuations.
    parked: bool,
    /// Set if the drive with the records could not be flushed, so the commit must begin anew.
    again: bool,
    failures: u8,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Writing,
    /// The ring is full, and the commit waits for room. The part of the commit written so far is
    /// made durable, so that a checkpoint can make room.
    FlushingPart,
    Flushing,
}

impl Commit {
    pub(super) fn is_busy(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Removes `task` from the waiting tasks. Returns true if `task` was waiting.
    pub(super) fn forget(&mut self, task: TaskId) -> bool {
        let waited = self.waiters.len() + self.next.len();
        self.waiters.retain(|&waiter| waiter != task);
        self.next.retain(|&waiter| waiter != task);
        self.waiters.len() + self.next.len() < waited
    }
}

impl<P: Payload> Volume<P> {
    /// Parks `task` until a commit that begins from now on has ended. With `all`, that commit
    /// flushes every member.
    pub(super) fn await_commit(&mut self, task: TaskId, all: bool) {
        self.commit.next.push(task);
        self.commit.next_all |= all;
    }

    pub(super) fn commit_is_due(&self) -> bool {
        if self.commit.is_busy() || self.is_noting() {
            return false;
        }
        if !self.commit.next.is_empty() {
            return true;
        }
        if self.newest_is_gone() {
            // No records can be written, and no slot will be free.
            return false;
        }
        let pressed = self.view.free_slots < self.view.freeing_slots;
        let starved = self.requests.waiters.any_for_slots() && self.view.freeing_slots > 0;
        // The slots of a read-only member are not reused.
        let cache = self.store.cache().is_some() && !self.slots_refuse();
        (cache && (pressed || starved) && self.store.has_records_to_commit())
            || self.store.has_many_records()
            || self.store.log().is_some_and(|log| log.index.wants_commit())
    }

    pub(super) fn begin_commit(&mut self) {
        self.statistics.commits += 1;
        self.commit.phase = Phase::Writing;
        if let Some(log) = self.store.log_mut() {
            log.index.commit_began();
        }
        self.commit.waiters = std::mem::take(&mut self.commit.next);
        self.statistics.unasked_commits += u64::from(self.commit.waiters.is_empty());
        self.commit.all = std::mem::take(&mut self.commit.next_all);
        self.commit.up_to = self.store.pending.appended;
        self.commit.sealed = false;
        self.commit.status = self.newest_is_gone().then_some(Status::Gone);
        self.commit.told = self.commit.untold.filter(|_| self.commit.all);
        self.commit.quiet_at = self.commit.next_quiet_at.take();
        if std::mem::take(&mut self.commit.next_tells) {
            self.commit.untold = None;
        }
        let task = self.begin_task(Job::Running);
        self.run_commit(task);
    }

    /// Notes that the drive with the slots is gone. If only this member had some content, the next
    /// flush reports the loss.
    pub(super) fn note_loss(&mut self) {
        let is_loss = self.view.map.dirty_blocks() > 0;
        if is_loss {
            self.note_untold(Status::Gone);
        }
        if self.commit.is_busy() && (is_loss || self.newest_is_gone()) {
            self.commit.status = Some(Status::Gone);
        }
    }

    /// Notes that a home is gone. If the member had changes that were not stable, the next flush
    /// reports the loss.
    pub(super) fn note_loss_of_home(&mut self, member: MemberId) {
        let unstable = self.operations.stability(member).wants_flush();
        let is_only_home = self.view.layout.homes().contains(&member) && !self.has_other_copy(member);
        if unstable && is_only_home {
            self.note_untold(Status::Gone);
        }
    }

    /// Records a possible loss. A flush reports the loss, until a flush that covers the loss has
    /// reported it.
    pub(super) fn note_untold(&mut self, status: Status) {
        self.commit.untold = Some(status);
        self.commit.next_tells = false;
        // The commit under way has yet to flush the homes. Its flush may succeed without the data
        // that were lost, so the flushes that wait for this commit report the loss.
        if self.commit.all && matches!(self.commit.phase, Phase::Writing | Phase::FlushingPart) {
            self.commit.told = Some(status);
            self.note_told();
        }
    }

    /// Parks a flush until a commit that begins from now on has ended. The parked flush reports an
    /// unreported loss. If no change was open when the flush arrived, the flush covers the loss,
    /// and is the last flush to report the loss. If the flush `has_waited` for its admission while
    /// requests were answered, changes may have ended since: it does not cover them.
    pub(super) fn await_flush(&mut self, task: TaskId, has_waited: bool) {
        self.await_commit(task, true);
        let is_quiet = !has_waited && !self.tasks.jobs().any(|job| matches!(job, Job::Write(_) | Job::Range(_)));
        self.commit.next_tells |= is_quiet && self.commit.untold.is_some();
        self.commit.next_quiet_at = is_quiet.then_some(self.operations.begun());
    }

    /// Handles a flush request that failed because a member failed. The failed request reports the
    /// loss to its client. After the report the unreported loss is cleared, if no change was open
    /// when the request arrived and no change has begun since.
    fn note_told(&mut self) {
        if self.commit.quiet_at.is_some_and(|at| !self.operations.has_change_since(at)) {
            self.commit.untold = None;
        }
    }

    /// Handles a failed flush of `member`. The drive may have dropped the data that the flush was
    /// to make stable, and the next flush may succeed without that data.
    ///
    /// - Slots and records on the member that failed the flush count only if they are read back and
    ///   are undamaged.
    /// - A flush request must report the loss of changes that requests made at home on that member,
    ///   regardless of the task that issued the failed flush.
    /// - Moves that wrote to a home on that member begin anew.
    pub(super) fn flush_failed(&mut self, member: MemberId) {
        let is_home = self.view.layout.homes().contains(&member);
        let owes = self.operations.stability(member).owes_requests() || self.operations.is_changing(member);
        if owes && is_home && !self.has_other_copy(member) {
            self.note_untold(Status::MediaError);
        }
        if !is_home || self.view.layout.slots.is_some_and(|slots| slots.member == member) {
            self.refuse_writes(member);
        }
    }

    /// Returns true if a flush of a home failed after more than `operations_begun` operations had
    /// begun.
    pub(super) fn homes_have_failed_since(&self, operations_begun: u64) -> bool {
        let homes = self.view.layout.homes();
        homes.iter().any(|home| self.operations.stability(*home).has_failed_since(operations_begun))
    }

    pub(super) fn run_commit(&mut self, task: TaskId) {
        self.commit.parked = false;
        while self.outstanding(task) == 0 {
            match self.commit.phase {
                Phase::Writing if self.slots_refuse() => {
                    self.store.pending.clear_records();
                    match self.departures_of_commit() {
                        Departure::Over => {}
                        Departure::Awaited => {
                            self.commit.parked = true;
                            self.park(task, Job::Commit);
                            return self.await_departures(task);
                        }
                        Departure::Never => self.commit.status = Some(Status::MediaError),
                    }
                    self.commit.phase = Phase::Flushing;
                    self.flush_members(task, self.commit.all);
                }
                Phase::Writing => {
                    let all = self.write_what_is_in_memory(task);
                    if self.outstanding(task) > 0 {
                        break;
                    }
                    if all {
                        self.commit.phase = Phase::Flushing;
                        self.flush_members(task, self.commit.all);
                    } else if !self.make_room_for_commit(task) {
                        return;
                    }
                }
                Phase::FlushingPart if self.commit.status.is_none() && !self.commit.again => {
                    self.made_durable(self.store.pending.written());
                    self.commit.phase = Phase::Writing;
                }
                _ if std::mem::take(&mut self.commit.again) => self.commit.phase = Phase::Writing,
                _ => return self.end_commit(task),
            }
        }
        self.put_job(task, Job::Commit);
    }

    /// Handles a full ring or log. Returns true if the commit can go on now; otherwise it is run
    /// again when there is room.
    fn make_room_for_commit(&mut self, task: TaskId) -> bool {
        match self.store.kind().make_room() {
            MakeRoom::FlushPart => {
                self.commit.phase = Phase::FlushingPart;
                self.flush_members(task, false);
                return true;
            }
            MakeRoom::Checkpoint => {
                self.put_job(task, Job::Commit);
                if self.may_checkpoint() {
                    self.begin_checkpoint();
                }
            }
            MakeRoom::FreeSlots => {
                self.await_slots(task);
                self.park(task, Job::Commit);
            }
        }
        false
    }

    /// Begins to write everything in memory. Returns true if everything in memory is being written,
    /// and false while the store is full.
    fn write_what_is_in_memory(&mut self, task: TaskId) -> bool {
        loop {
            let Commit { up_to, sealed, .. } = self.commit;
            let is_there = self.view.slots_online();
            match self.store.commit(CommitState { task, up_to, is_there, sealed }) {
                CommitWrite::Nothing => return true,
                CommitWrite::Full => return false,
                CommitWrite::Pages(taken) => self.issue_ring_pages(task, taken, false),
                CommitWrite::Segment => self.write_segment(),
                CommitWrite::Await { segments, end } => {
                    (self.commit.sealed, self.commit.log_end) = (true, end);
                    self.tasks.expect(task, segments);
                    return true;
                }
            }
        }
    }

    /// Begins to write the segment that is filling.
    pub(super) fn write_segment(&mut self) {
        if self.slots_refuse() {
            return;
        }
        let Some(first) = self.store.seal_segment() else { return };
        if P::CARRIES_DATA {
            let records = self.segment_records(first);
            if let Some(log) = self.store.log_mut() {
                log.index.sealed(log.sealed(), records);
            }
        }
        let task = self.begin_task(Job::Running);
        self.issue_segment(task, first);
        self.put_job(task, Job::Segment(first, 1));
        self.update_free_slots();
    }

    fn issue_segment(&mut self, task: TaskId, first: Position) {
        let Some(log) = self.store.log() else { return };
        let segment = log.segment_being_written(first);
        let (blocks, fua) = (segment.pieces.len() as u64 + SEGMENT_PAGES, segment.is_note);
        let start = log.slot(first);
        let mut payload = P::empty();
        if P::CARRIES_DATA {
            payload = self.segment_page(Kind::Head, first);
            for piece in &segment.pieces {
                payload.join(piece.content.slice(Sectors::ZERO, piece.content.sectors()));
            }
            payload.join(self.segment_page(Kind::Foot, first));
        }
        if let Some(log) = self.store.log_mut() {
            log.claim_stable(first);
        }
        let range = self.slot_sectors(start, blocks);
        let member = self.member_of_slots();
        self.count_metadata(member, Sectors(SEGMENT_PAGES * self.view.layout.block.sectors()));
        self.issue(task, purpose::BACKGROUND, member, Command { kind: OpKind::Write, range, fua }, payload);
    }

    /// Returns the head or foot of a segment, as large as a block.
    fn segment_page(&self, kind: Kind, first: Position) -> P {
        let Some(log) = self.store.log() else { return P::empty() };
        let header = self.page_header(first, log.stable());
        let mut page = P::from_metadata(&record::encode_page(kind, header, &self.segment_records(first)));
        page.join(P::zeroes(Sectors(self.view.layout.block.sectors() - page.sectors().0)));
        page
    }

    pub(super) fn page_header(&self, number: u64, stable: u64) -> PageHeader {
        PageHeader { volume: self.store.identity(), number, life: self.store.superblock.life().number, stable }
    }

    pub(super) fn note_segment(&mut self, task: TaskId, first: Position, tries: u8, status: Status) {
        if status != Status::Done && status != Status::Gone && tries < SEGMENT_TRIES {
            self.issue_segment(task, first);
            return self.put_job(task, Job::Segment(first, tries + 1));
        }
        if status != Status::Done {
            // Writes acknowledged from the buffer are on no drive: the segment stays in memory
            // until it is written back.
            let member = self.member_of_slots();
            self.refuse_writes(member);
        }
        let Some(log) = self.store.log_mut() else { return };
        let blocks = log.segment_being_written(first).pieces.len() as u64 + SEGMENT_PAGES;
        let landed = matches!(status, Status::Done | Status::Gone);
        let waiting = if landed { log.written(first) } else { log.stays(first) };
        self.mover.pace.appended(self.view.now, blocks_bytes(&self.view.layout, blocks));
        self.end_task(task);
        for waiter in waiting {
            let was_last = self.tasks.arrived(waiter);
            if status != Status::Done {
                self.tell_segment_failed(waiter, status);
            }
            if was_last {
                self.run(waiter);
            }
        }
        let waiters = self.requests.waiters.take_for_buffer();
        self.tasks.wake_all(waiters);
    }

    /// Reports a failed segment to a waiting task. The loss of a drive is skipped by this function:
    /// the code that detects the loss notes it.
    fn tell_segment_failed(&mut self, waiter: TaskId, status: Status) {
        match self.tasks.job_mut(waiter) {
            Job::Write(job) => job.note(self.view.layout.block, 0, status, P::empty()),
            Job::Move(job) => job.commit_failed(),
            _ => {}
        }
    }

    /// Writes pages that were taken from the ring, with the oldest records, in both copies.
    pub(super) fn issue_ring_pages(&mut self, task: TaskId, taken: Taken, fua: bool) {
        let ring = &self.store.cache().expect("only a cache has a ring").ring;
        let places: [SectorRange; COPIES] = std::array::from_fn(|copy| ring.place(taken.first, taken.count, copy));
        let header = self.page_header(taken.first, ring.durable());
        let records = self.store.pending.take(taken.records);
        let payload: P = encode_pages(header, &records, taken.count);
        let member = self.metadata_member();
        for place in places {
            self.issue_metadata(task, member, place, fua, payload.slice(Sectors::ZERO, payload.sectors()));
        }
    }

    /// Flushes every member, or only the member with the metadata.
    fn flush_members(&mut self, task: TaskId, all: bool) {
        let only = self.view.layout.metadata.map(|metadata| metadata.member);
        for index in 0..self.view.members.len() {
            let wanted = all || only == Some(MemberId(index as u16));
            let member = MemberId(index as u16);
            let there = match self.view.members[index].state {
                MemberState::Online => true,
                // Earlier writes may still be only in the write cache of a read-only home.
                MemberState::ReadOnly => self.view.layout.homes().contains(&member),
                MemberState::Failed => false,
            };
            if wanted && there && self.operations.stability(member).wants_flush() {
                self.issue(task, purpose::BACKGROUND, member, Command::FLUSH, P::empty());
            }
        }
    }

    /// Records the end of an operation of a commit. The loss of a drive that held only copies does
    /// not make a flush fail.
    pub(super) fn note_commit(&mut self, member: MemberId, kind: OpKind, status: Status) {
        if matches!(status, Status::Done | Status::Unsupported) {
            return;
        }
        if kind == OpKind::Write && status == Status::MediaError {
            // The write failed on every try: the drive becomes read-only, and the commit ends by
            // evacuation.
            return self.refuse_writes(member);
        }
        let holds_data = self.view.layout.homes().contains(&member);
        if kind == OpKind::Flush && status == Status::MediaError && !holds_data {
            // The drive becomes read-only, and the commit ends by evacuation.
            self.commit.again = true;
            return;
        }
        self.note_told();
        let lost = holds_data || self.view.map.dirty_blocks() > 0;
        if lost || status != Status::Gone {
            self.commit.status = Some(status);
        }
        self.commit.records_failed |= self.view.layout.metadata.is_some_and(|metadata| metadata.member == member);
    }

    fn end_commit(&mut self, task: TaskId) {
        self.commit.phase = Phase::Idle;
        let failed = self.commit.status.take();
        if failed.is_none() {
            self.commit.failures = 0;
            self.made_durable(self.commit.up_to);
        } else {
            self.count_failure();
        }
        self.commit.records_failed = false;
        let told = failed.or(self.commit.told.take());
        for waiter in std::mem::take(&mut self.commit.waiters) {
            match (self.tasks.job_mut(waiter), failed) {
                (Job::Flush(_, outcome) | Job::Close(outcome), _) => *outcome = told.unwrap_or(*outcome),
                (Job::Write(job), Some(status)) => job.commit_failed(status),
                (Job::Range(job), Some(status)) => job.commit_failed(status),
                (Job::Move(job), Some(_)) => job.commit_failed(),
                _ => {}
            }
            self.tasks.wake(waiter);
        }
        self.end_task(task);
        self.release_slots();
        self.update_free_slots();
        self.requests.waiters.request_work();
    }

    /// Records that every record up to `durable`, and the data it names, is durable.
    fn made_durable(&mut self, durable: Sequence) {
        let log_end = self.commit.log_end;
        // A read-only member makes nothing stable.
        let stable = (!self.slots_refuse()).then_some(log_end);
        self.store.made_durable(durable, stable);
        if stable.is_some() {
            self.index_stable_segments(log_end);
        }
        self.note_later();
        self.damage.lost.made_durable(durable);
    }

    /// Fails a commit that waited for room in the log, because no room can be made.
    pub(super) fn fail_commit(&mut self, task: TaskId) {
        self.commit.status = Some(Status::MediaError);
        self.end_commit(task);
    }

    /// Counts a failed commit. A drive that cannot make records stable again and again becomes
    /// read-only.
    fn count_failure(&mut self) {
        self.commit.failures += u8::from(self.commit.records_failed);
        if let Some(metadata) = self.view.layout.metadata
            && self.commit.failures >= COMMIT_TRIES
        {
            self.commit.failures = 0;
            self.refuse_writes(metadata.member);
        }
    }

    pub(super) fn checkpoint_is_due(&self) -> bool {
        let is_wanted = self.scrub.mended.wants_checkpoint && !self.scrub.is_at_pages() && !self.is_closing();
        self.store.cache().is_some_and(|cache| is_wanted || cache.wants_checkpoint())
            && self.view.slots_online()
            && self.may_checkpoint()
    }

    /// Returns true if a checkpoint is under way.
    pub(super) fn is_checkpointing(&self) -> bool {
        self.store.cache().is_some_and(|cache| cache.checkpointing)
    }

    /// Returns true if a note is being written to a cache's ring.
    pub(super) fn is_noting(&self) -> bool {
        self.store.cache().is_some_and(Cache::is_noting)
    }

    pub(super) fn begin_checkpoint(&mut self) {
        let Some((cache, _)) = self.store.cache_mut() else { return };
        cache.ring.begin_checkpoint();
        cache.checkpointing = true;
        self.statistics.checkpoints += 1;
        if std::mem::take(&mut self.scrub.mended.wants_checkpoint) {
            self.scrub.mended.checkpoint = self.statistics.checkpoints;
        }
        let task = self.begin_task(Job::Running);
        self.run_checkpoint(task, Box::default());
    }

    pub(super) fn run_checkpoint(&mut self, task: TaskId, mut job: Box<Checkpoint>) {
        loop {
            let under_way = self.outstanding(task);
            let (cache, pending, newest) = self.store.checkpointed().expect("only a cache has a slot table");
            let (map, lost) = (&self.view.map, &self.damage.lost);
            let facts = Facts { map, pending, lost, newest, carries_data: P::CARRIES_DATA };
            match job.step(under_way, cache, &facts) {
                Step::Write { place, fua, bytes } => self.write_metadata(task, place, fua, &bytes),
                Step::Flush => {
                    self.issue(task, purpose::BACKGROUND, self.metadata_member(), Command::FLUSH, P::empty());
                }
                Step::Wait => return self.put_job(task, Job::Checkpoint(job)),
                Step::End => return self.end_checkpoint(task, *job),
            }
        }
    }

    fn write_metadata(&mut self, task: TaskId, place: Place, fua: bool, bytes: &[u8]) {
        let range = match place {
            Place::Sectors(range) => Some(range),
            Place::Superblock { turn, copy } => self.view.layout.superblock_place(turn, copy),
        };
        let range = range.expect("what has a superblock has metadata of slots");
        let payload = if bytes.is_empty() { P::empty() } else { P::from_metadata(bytes) };
        self.issue_metadata(task, self.metadata_member(), range, fua, payload);
    }

    /// Returns the first superblock of the next pair, with the log beginning at `tail`.
    pub(super) fn next_superblock(&self, tail: u64) -> Superblock {
        next_superblock(&self.store.superblock, &self.damage.lost, tail, None)
    }

    pub(super) fn issue_superblock(&mut self, task: TaskId, superblock: &Superblock, copy: usize) {
        let place = Place::Superblock { turn: superblock.turn(), copy };
        let bytes = if P::CARRIES_DATA { superblock.encode().to_vec() } else { Vec::new() };
        self.write_metadata(task, place, true, &bytes);
    }

    pub(super) fn metadata_member(&self) -> MemberId {
        self.view.layout.metadata.expect("this layout has metadata").member
    }

    fn end_checkpoint(&mut self, task: TaskId, job: Checkpoint) {
        let (cache, _, newest) = self.store.checkpointed().expect("only a cache has a slot table");
        match job.end(cache, newest) {
            Some(superblock) => self.store.superblock = superblock,
            None => self.refuse_writes(self.metadata_member()),
        }
        self.end_task(task);
        self.wake_stuck_commit();
    }

    /// Lets a commit go on that waits for a checkpoint.
    pub(super) fn wake_stuck_commit(&mut self) {
        let waits = |job: &Job<P>| matches!(job, Job::Commit) && !self.commit.parked;
        let stuck = self.tasks.find_waiting(waits);
        self.tasks.wake_all(stuck);
    }

    /// Returns true if a change in place of `blocks` must wait for a mark, and asks for the mark.
    pub(super) fn marks_needed(&mut self, blocks: BlockRun) -> bool {
        if self.slots_keep_blocks() || !self.view.slots_online() {
            return false;
        }
        let map = &self.view.map;
        self.store.cache_mut().is_some_and(|(cache, pending)| cache.marks.are_needed(blocks, map, pending))
    }

    /// Asks for a mark before a copy of `block` counts as clean, if a power cut may still take the
    /// copied content from home.
    pub(super) fn mark_if_home_is_unstable(&mut self, block: Block) {
        let (home, ..) = self.view.layout.home_of(block);
        let stability = self.operations.stability(home);
        let is_unstable = P::CARRIES_DATA && (stability.wants_flush() || stability.has_failed_since(0));
        if let Some((cache, pending)) = self.store.cache_mut().filter(|_| is_unstable) {
            cache.marks.ask_for(block, pending);
        }
    }
}

fn encode_pages<P: Payload>(first: PageHeader, records: &[Record], count: u64) -> P {
    if !P::CARRIES_DATA {
        return P::empty();
    }
    let mut bytes = Vec::new();
    let mut pages = records.chunks(record::RECORDS_PER_PAGE);
    for page in 0..count {
        let header = PageHeader { number: first.number + page, ..first };
        bytes.extend_from_slice(&record::encode_page(Kind::Ring, header, pages.next().unwrap_or(&[])));
    }
    P::from_metadata(&bytes)
}
