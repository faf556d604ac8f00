//! Commits: everything acknowledged becomes stable, for everybody who waits, at once.
//!
//! A commit writes what is only in memory (the log's segment, or pages of the journal's ring) and then flushes. Records carry
//! checksums of their data, so data and records need no flush between them. A commit for a flush request flushes every
//! member; one that only makes records durable (to free slots, for a mark) flushes the member that holds them.

use std::collections::BTreeMap;

use super::log_tail::Position;
use super::operations::purpose;
use super::{Job, Store, TaskId, Volume};
use crate::bit_set::BitSet;
use crate::block::BlockRun;
use crate::block_map::Slot;
use crate::journal::record::{self, Record};
use crate::journal::ring::Sequence;
use crate::journal::{SLOTS_PER_TABLE_PAGE, table};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::{SectorRange, Sectors};

/// Records that wait in memory at most: 48 KiB of them.
const RECORDS_MAX: usize = 2048;
/// A segment is written this often before its drive counts as gone.
const SEGMENT_TRIES: u8 = 3;
/// Commits that fail one after the other before the drive that holds the records counts as gone.
const COMMIT_TRIES: u8 = 3;
/// Table pages of one operation of a checkpoint, and operations under way at once.
const TABLE_PAGES_MAX: u32 = 64;
const TABLE_OPERATIONS_MAX: u32 = 4;
/// Blocks that share a mark: 64 MiB of 4 KiB blocks.
const INTENT_REGION_BLOCKS: u64 = 16 * 1024;

#[derive(Default)]
pub(crate) struct Commit {
    phase: Phase,
    /// Who waits for the commit under way, and who for the next; and whether all members are flushed.
    waiters: Vec<TaskId>,
    next: Vec<TaskId>,
    all: bool,
    next_all: bool,
    /// The newest record that there was when the commit began.
    up_to: Sequence,
    /// Whether the log's segments are on their way.
    sealed: bool,
    status: Option<Status>,
    /// Whether it was the drive with the records that failed.
    records_failed: bool,
    failures: u8,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Writing,
    Flushing,
}

impl Commit {
    pub(super) fn is_busy(&self) -> bool {
        self.phase != Phase::Idle
    }
}

/// Which regions of home may differ from clean copies: a durable mark precedes the first change in place, so that after a
/// crash no copy outlives the content it was made of.
pub(crate) struct Intents {
    durable: BitSet,
    asked: BTreeMap<u32, Sequence>,
}

impl Intents {
    pub(super) fn new(blocks: u64) -> Self {
        Self { durable: BitSet::new(blocks.div_ceil(INTENT_REGION_BLOCKS) as u32), asked: BTreeMap::new() }
    }
}

pub(crate) struct Checkpoint {
    phase: CheckpointPhase,
    failed: bool,
    flush_failures: u8,
    flush_again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckpointPhase {
    Table,
    Flushing,
    Superblock,
}

impl Checkpoint {
    pub(super) fn note(&mut self, kind: OpKind, status: Status) {
        let failed = !matches!(status, Status::Done | Status::Unsupported);
        if kind == OpKind::Flush && status == Status::MediaError {
            self.flush_failures += 1;
            self.flush_again = self.flush_failures < COMMIT_TRIES;
        }
        self.failed |= failed && !self.flush_again;
    }
}

impl<P: Payload> Volume<P> {
    /// Parks `task` until a commit that begins from now on has ended; with `all`, one that flushes every member.
    pub(super) fn await_commit(&mut self, task: TaskId, all: bool) {
        self.commit.next.push(task);
        self.commit.next_all |= all;
    }

    pub(super) fn commit_is_due(&self) -> bool {
        if self.commit.is_busy() {
            return false;
        }
        let pressed = self.view.free_slots < self.view.freeing_slots;
        let starved = !self.slot_waiters.is_empty() && self.view.freeing_slots > 0;
        let cache = matches!(self.store, Store::Cache { .. });
        !self.commit.next.is_empty()
            || (cache && (pressed || starved) && self.pending.durable < self.pending.appended)
            || self.pending.records.len() >= RECORDS_MAX
    }

    pub(super) fn begin_commit(&mut self) {
        self.statistics.commits += 1;
        self.commit.phase = Phase::Writing;
        self.commit.waiters = std::mem::take(&mut self.commit.next);
        self.commit.all = std::mem::take(&mut self.commit.next_all);
        self.commit.up_to = self.pending.appended;
        self.commit.sealed = false;
        self.commit.status = None;
        let task = self.begin_task(Job::Running);
        self.run_commit(task);
    }

    pub(super) fn run_commit(&mut self, task: TaskId) {
        if self.commit.phase == Phase::Writing {
            // False while the ring is full: its checkpoint calls again.
            let written = self.write_what_is_in_memory(task);
            if written && self.outstanding(task) == 0 {
                self.commit.phase = Phase::Flushing;
                self.flush_members(task);
            }
        }
        if self.commit.phase == Phase::Flushing && self.outstanding(task) == 0 {
            return self.end_commit(task);
        }
        self.put_job(task, Job::Commit);
    }

    /// Starts to write the records that there were when the commit began; whether all of them are on their way.
    fn write_what_is_in_memory(&mut self, task: TaskId) -> bool {
        match &self.store {
            Store::HomeOnly => self.pending.records.clear(),
            Store::Log(_) => self.write_log_out(task),
            Store::Cache { .. } => return self.write_pages(task),
        }
        true
    }

    /// Every segment that is not on the drive yet; the commit goes on when all of them are.
    fn write_log_out(&mut self, task: TaskId) {
        if !self.view.slots_online() {
            self.pending.records.clear();
            return;
        }
        if std::mem::replace(&mut self.commit.sealed, true) {
            return;
        }
        while self.pending.written() < self.commit.up_to || self.log_is_filling() {
            if let Store::Log(log) = &mut self.store {
                log.open();
            }
            self.write_segment();
        }
        if let Store::Log(log) = &mut self.store {
            let segments = log.await_all(task);
            self.tasks[task as usize].outstanding += segments;
        }
    }

    fn log_is_filling(&self) -> bool {
        matches!(&self.store, Store::Log(log) if log.filling.as_ref().is_some_and(|segment| !segment.pieces.is_empty()))
    }

    /// Puts the segment that is filling on its way.
    pub(super) fn write_segment(&mut self) {
        let Store::Log(log) = &mut self.store else { return };
        if log.filling.is_none() {
            return;
        }
        let first = log.seal(&mut self.pending.records).first;
        let task = self.begin_task(Job::Running);
        self.issue_segment(task, first);
        self.put_job(task, Job::Segment(first, 1));
        self.update_free_slots();
    }

    fn issue_segment(&mut self, task: TaskId, first: Position) {
        let Store::Log(log) = &self.store else { return };
        let segment = log.segment_being_written(first);
        let blocks = segment.pieces.len() as u64 + 1;
        let start = log.slot(first);
        let mut payload = P::empty();
        if P::CARRIES_DATA {
            payload = self.segment_page(first);
            for piece in &segment.pieces {
                payload.join(piece.content.slice(Sectors::ZERO, piece.content.sectors()));
            }
        }
        let range = self.slot_sectors(start, blocks);
        let member = self.member_of_slots();
        self.count_metadata(member, Sectors(self.view.layout.block.sectors()));
        self.issue(task, purpose::BACKGROUND, member, Command { kind: OpKind::Write, range, fua: false }, payload);
    }

    /// The page that describes a segment, as large as a block.
    fn segment_page(&self, first: Position) -> P {
        let Store::Log(log) = &self.store else { return P::empty() };
        let segment = log.segment_being_written(first);
        let mut records: Vec<Record> = Vec::with_capacity(record::RECORDS_PER_PAGE);
        records.extend(segment.pieces.iter().enumerate().map(|(at, piece)| Record::Map {
            block: piece.block,
            slot: log.slot(first + 1 + at as u64),
            valid: piece.valid,
            dirty: true,
            checksum: piece.checksum,
        }));
        records.extend(&segment.records);
        let mut page = P::from_metadata(&record::encode_page(0, first, &records));
        page.join(P::zeroes(Sectors(self.view.layout.block.sectors() - page.sectors().0)));
        page
    }

    pub(super) fn note_segment(&mut self, task: TaskId, first: Position, tries: u8, status: Status) {
        if status != Status::Done && status != Status::Gone && tries < SEGMENT_TRIES {
            self.issue_segment(task, first);
            return self.put_job(task, Job::Segment(first, tries + 1));
        }
        if status != Status::Done {
            // What was acknowledged from the buffer is not on any drive.
            let member = self.member_of_slots();
            self.fail_member(member);
        }
        let Store::Log(log) = &mut self.store else { return };
        let waiting = log.written(first);
        self.end_task(task);
        for waiter in waiting {
            self.tasks[waiter as usize].outstanding -= 1;
            if status != Status::Done {
                self.tell_segment_failed(waiter, status);
            }
            if self.outstanding(waiter) == 0 {
                self.run(waiter);
            }
        }
        let waiters = std::mem::take(&mut self.buffer_waiters);
        self.ready.extend(waiters);
    }

    fn tell_segment_failed(&mut self, waiter: TaskId, status: Status) {
        match &mut self.tasks[waiter as usize].job {
            Job::Write(job) => job.note(self.view.layout.block, 0, status, P::empty()),
            Job::Commit => self.commit.status = Some(status),
            _ => {}
        }
    }

    /// Pages for all records, and where the ring ends for the rest of them. False while the ring is full.
    fn write_pages(&mut self, task: TaskId) -> bool {
        let metadata = self.view.layout.metadata.expect("a cache has its journal");
        while self.pending.written() < self.commit.up_to {
            if self.view.member(metadata.member).state == MemberState::Failed {
                self.pending.records.clear();
                break;
            }
            let Store::Cache { ring, .. } = &mut self.store else { unreachable!("only a cache has a ring") };
            let Some((range, first_page, fit)) = ring.take_pages(self.pending.records.len()) else {
                // What is under way calls again, or else the checkpoint does.
                if self.outstanding(task) == 0 && !self.checkpointing {
                    self.begin_checkpoint();
                }
                return false;
            };
            let records: Vec<Record> = self.pending.records.drain(..fit).collect();
            let payload = encode_pages(first_page, &records, range);
            self.issue_metadata(task, metadata.member, range, false, payload);
        }
        true
    }

    fn flush_members(&mut self, task: TaskId) {
        let only = self.view.layout.metadata.map(|metadata| metadata.member);
        for index in 0..self.view.members.len() {
            let wanted = self.commit.all || only == Some(MemberId(index as u16));
            let online = self.view.members[index].state == MemberState::Online;
            if wanted && online && self.stability[index].wants_flush() {
                let command = Command { kind: OpKind::Flush, range: SectorRange::default(), fua: false };
                self.issue(task, purpose::BACKGROUND, MemberId(index as u16), command, P::empty());
            }
        }
    }

    /// The loss of a drive that held nothing but copies does not make a flush fail.
    pub(super) fn note_commit(&mut self, member: MemberId, kind: OpKind, status: Status) {
        if matches!(status, Status::Done | Status::Unsupported) {
            return;
        }
        let holds_data = self.view.layout.home.iter().any(|extent| extent.member == member);
        let lost = holds_data || self.view.map.dirty_blocks() > 0;
        if lost || status != Status::Gone {
            self.commit.status = Some(status);
        }
        self.commit.records_failed |= self.view.layout.metadata.is_some_and(|metadata| metadata.member == member);
        if kind == OpKind::Write {
            // Tried again and again: the records are on no drive, and the ring has a hole.
            self.fail_member(member);
        }
    }

    fn end_commit(&mut self, task: TaskId) {
        self.commit.phase = Phase::Idle;
        let failed = self.commit.status.take();
        if failed.is_none() {
            self.commit.failures = 0;
            self.pending.durable = self.commit.up_to;
            self.make_marks_durable();
        } else {
            self.count_failure();
        }
        self.commit.records_failed = false;
        for waiter in std::mem::take(&mut self.commit.waiters) {
            if let Some(status) = failed {
                match &mut self.tasks[waiter as usize].job {
                    Job::Flush(_, outcome) => *outcome = status,
                    Job::Write(job) => job.commit_failed(status),
                    _ => {}
                }
            }
            self.ready.push_back(waiter);
        }
        self.end_task(task);
        self.release_slots();
        self.update_free_slots();
        self.work_requested = true;
    }

    /// A drive that cannot make records stable again and again protects nothing any more.
    fn count_failure(&mut self) {
        self.commit.failures += u8::from(self.commit.records_failed);
        if let Some(metadata) = self.view.layout.metadata
            && self.commit.failures >= COMMIT_TRIES
        {
            self.commit.failures = 0;
            self.fail_member(metadata.member);
        }
    }

    pub(super) fn checkpoint_is_due(&self) -> bool {
        matches!(&self.store, Store::Cache { ring, .. } if !self.checkpointing && ring.wants_checkpoint())
            && self.view.slots_online()
    }

    pub(super) fn begin_checkpoint(&mut self) {
        let Store::Cache { ring, .. } = &mut self.store else { return };
        ring.begin_checkpoint();
        self.checkpointing = true;
        self.statistics.checkpoints += 1;
        let task = self.begin_task(Job::Running);
        self.run_checkpoint(
            task,
            Checkpoint { phase: CheckpointPhase::Table, failed: false, flush_failures: 0, flush_again: false },
        );
    }

    pub(super) fn run_checkpoint(&mut self, task: TaskId, mut job: Checkpoint) {
        while !job.failed && job.phase == CheckpointPhase::Table && self.outstanding(task) < TABLE_OPERATIONS_MAX {
            let Store::Cache { ring, .. } = &mut self.store else { unreachable!("only a cache has a slot table") };
            let Some((range, first)) = ring.next_table_pages(TABLE_PAGES_MAX) else { break };
            let payload = self.table_pages(first, range);
            self.write_metadata(task, range, false, payload);
        }
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::Checkpoint(job));
        }
        match job.phase {
            _ if job.failed => return self.end_checkpoint(task, true),
            phase if phase == CheckpointPhase::Table || std::mem::take(&mut job.flush_again) => {
                job.phase = CheckpointPhase::Flushing;
                let command = Command { kind: OpKind::Flush, range: SectorRange::default(), fua: false };
                self.issue(task, purpose::BACKGROUND, self.metadata_member(), command, P::empty());
            }
            CheckpointPhase::Flushing => {
                job.phase = CheckpointPhase::Superblock;
                let Store::Cache { ring, .. } = &mut self.store else { unreachable!("only a cache has a slot table") };
                let range = ring.superblock();
                let payload = self.metadata_page();
                self.write_metadata(task, range, true, payload);
            }
            _ => return self.end_checkpoint(task, false),
        }
        self.put_job(task, Job::Checkpoint(job));
    }

    fn metadata_member(&self) -> MemberId {
        self.view.layout.metadata.expect("this layout has metadata").member
    }

    fn write_metadata(&mut self, task: TaskId, range: SectorRange, fua: bool, payload: P) {
        self.issue_metadata(task, self.metadata_member(), range, fua, payload);
    }

    fn end_checkpoint(&mut self, task: TaskId, failed: bool) {
        self.checkpointing = false;
        if let Store::Cache { ring, .. } = &mut self.store {
            if failed { ring.abandon_checkpoint() } else { ring.end_checkpoint() }
        }
        if failed {
            // A journal that cannot be written protects nothing any more.
            self.fail_member(self.metadata_member());
        }
        self.end_task(task);
        let stuck = self.tasks.iter().find(|(_, task)| matches!(task.job, Job::Commit) && task.outstanding == 0);
        if let Some((commit, _)) = stuck {
            self.ready.push_back(commit as TaskId);
        }
    }

    fn table_pages(&self, first: Slot, range: SectorRange) -> P {
        if !P::CARRIES_DATA {
            return P::empty();
        }
        let pages = range.len.0 / crate::journal::PAGE_SECTORS;
        let mut bytes = Vec::new();
        for page in 0..pages {
            let start = u64::from(first.0) + page * SLOTS_PER_TABLE_PAGE;
            let entries = (start..start + SLOTS_PER_TABLE_PAGE).map(|slot| self.view.map.in_slot(Slot(slot as u32)));
            bytes.extend_from_slice(&table::encode_page(entries));
        }
        P::from_metadata(&bytes)
    }

    /// A page that says how far the metadata reaches: a superblock or a migration's mark.
    pub(super) fn metadata_page(&self) -> P {
        if !P::CARRIES_DATA {
            return P::empty();
        }
        P::from_metadata(&record::encode_page(0, self.pending.appended, &[]))
    }

    /// Whether a change in place of `blocks` must wait for a mark; asks for the mark.
    pub(super) fn marks_needed(&mut self, blocks: BlockRun) -> bool {
        if self.view.map.len() == u64::from(self.view.map.dirty_blocks()) || !self.view.slots_online() {
            return false;
        }
        let regions = blocks.first.0 / INTENT_REGION_BLOCKS..=(blocks.end() - 1) / INTENT_REGION_BLOCKS;
        let mut needed = false;
        for region in regions {
            let region = region as u32;
            if self.intents.durable.contains(region) || !self.has_clean_copies(blocks) {
                continue;
            }
            needed = true;
            if !self.intents.asked.contains_key(&region) {
                let sequence = self.pending.append(Record::Intent { region });
                self.intents.asked.insert(region, sequence);
            }
        }
        needed
    }

    fn has_clean_copies(&self, blocks: BlockRun) -> bool {
        // A range larger than the map is not walked: a mark too many is harmless.
        blocks.count > self.view.map.len()
            || blocks.blocks().any(|block| self.view.map.get(block).is_some_and(|(_, entry)| !entry.dirty))
    }

    fn make_marks_durable(&mut self) {
        let durable = self.pending.durable;
        let Intents { durable: marks, asked } = &mut self.intents;
        asked.retain(|&region, &mut sequence| {
            if sequence <= durable {
                marks.insert(region);
            }
            sequence > durable
        });
    }
}

fn encode_pages<P: Payload>(first_page: u64, records: &[Record], range: SectorRange) -> P {
    if !P::CARRIES_DATA {
        return P::empty();
    }
    let mut bytes = Vec::new();
    let mut pages = records.chunks(record::RECORDS_PER_PAGE);
    for page in 0..range.len.0 / crate::journal::PAGE_SECTORS {
        bytes.extend_from_slice(&record::encode_page(0, first_page + page, pages.next().unwrap_or(&[])));
    }
    P::from_metadata(&bytes)
}
