//! Starts of moves: their content, order and batches; and instant moves.

use super::order::{Bounds, MoveOrder, ToMove};
use super::{MoveJob, Moving, OPERATION_BLOCKS, Phase};
use crate::block_map::Slot;
use crate::layout::Role;
use crate::payload::Payload;
use crate::units::Bytes;
use crate::volume::log_index::Position;
use crate::volume::log_tail::LogTail;
use crate::volume::mover::pace::LOG_BATCH;
use crate::volume::operations::purpose;
use crate::volume::{Job, TaskId, Volume};

/// Content that a move of cached blocks has in memory at once. The slots of the move are freed
/// batch by batch.
const CACHE_BATCH: Bytes = Bytes::from_mib(32);
/// Content that a migration of a log on an SSD has in memory at once. An SSD reads the blocks of
/// any batch at the same cost, so a batch need only be long for the disk that the batch is written
/// to, which is flushed after each batch.
const SSD_LOG_BATCH: Bytes = Bytes::from_mib(16);
/// Largest cost of a migration's reads of a log on a disk, as a multiple of one read in order.
/// Sorting by address can need several reads of the same part of the log.
const LOG_READS_MAX: f64 = 3.0;
/// Content that an urgent migration of a log has in memory at once. Small batches write a block
/// home sooner than large batches do.
const URGENT_BATCH: Bytes = Bytes::from_mib(8);
/// Largest cost of an urgent migration's reads of a log on a disk, as a multiple of one read in
/// order.
const URGENT_READS_MAX: f64 = 1.25;
/// Largest number of blocks in a batch, limited by the bits that the number has in an operation's
/// purpose.
const BATCH_BLOCKS_MAX: u64 = purpose::MOVED_FIRST as u64;
/// Memory that a batch needs for each block in addition to its content: its entry, its places in
/// the orders of reads and writes, and one operation.
const BOOKKEEPING: Bytes = Bytes(192);
/// Largest number of reads of a log under way at once, in an urgent move.
const LOG_READS_AT_ONCE_MAX: u64 = 16;

impl<P: Payload> Volume<P> {
    /// Begins a move of everything that is off home now.
    pub(in crate::volume) fn begin_migration(&mut self) {
        let mut blocks = Vec::with_capacity(self.view.map.slots_in_use() as usize);
        blocks.extend(self.view.map.occupied().map(|(slot, entry)| ToMove::new(entry.block, slot)));
        if !self.decider.scheme.properties().migrates_instantly {
            // A segment ends here, so that the log's first segment after the migration is whole.
            self.write_segment();
        }
        let log_end = self.store.log().map(LogTail::next);
        // If all logged blocks were discarded meanwhile, no block is written home.
        if let (Some(log), Some(end)) = (self.store.log_mut(), log_end) {
            log.index.migration_began(end);
        }
        let marked = log_end.is_some() && !blocks.is_empty();
        self.begin(blocks, false, log_end, marked);
    }

    /// Begins a move of the content of `slots`; with `keep` the slots stay as clean copies.
    pub(in crate::volume) fn begin_move(&mut self, slots: Vec<Slot>, keep: bool) {
        let block = |slot| self.view.map.in_slot(slot).map(|entry| entry.block);
        let blocks = slots.into_iter().filter_map(|slot| Some(ToMove::new(block(slot)?, slot))).collect();
        self.begin(blocks, keep, None, false);
    }

    /// Returns the order of a move of `blocks`. Blocks may be sorted by runs in `scratch_blocks`
    /// slots.
    pub(super) fn order_of_move(&self, blocks: Vec<ToMove>, urgent: bool, scratch_blocks: u64) -> MoveOrder {
        let block_bytes = self.view.layout.block.bytes().0;
        let in_blocks = |bytes: u64| bytes.clamp(1, BATCH_BLOCKS_MAX) as usize;
        let Some(log) = self.store.log() else {
            return MoveOrder::by_address(blocks, in_blocks(CACHE_BATCH.0 / block_bytes));
        };
        // A migration has in memory one batch, its bookkeeping, and the reads under way.
        let in_memory = |memory: Bytes| {
            let content = memory.min(self.mover.pace.memory()).0 - self.memory_of_log_reads(memory).0;
            in_blocks(content / (block_bytes + BOOKKEEPING.0))
        };
        if !self.slots_are_on_disk() {
            return MoveOrder::by_address(blocks, in_memory(if urgent { URGENT_BATCH } else { SSD_LOG_BATCH }));
        }
        let bounds = if urgent {
            let batch_blocks = [in_memory(URGENT_BATCH); 2];
            Bounds { batch_blocks, reads_max: URGENT_READS_MAX, scratch_blocks: 0 }
        } else {
            let batch_blocks = [LOG_BATCH, self.mover.pace.memory()].map(in_memory);
            Bounds { batch_blocks, reads_max: LOG_READS_MAX, scratch_blocks: scratch_blocks as usize }
        };
        MoveOrder::of_log_on_disk(blocks, &bounds, |slot| log.position(slot))
    }

    /// Returns the part of `memory` for reads of a log: all reads under way, and a copy of the
    /// content of one read.
    fn memory_of_log_reads(&self, memory: Bytes) -> Bytes {
        let operation = OPERATION_BLOCKS * self.view.layout.block.bytes().0;
        Bytes(((LOG_READS_AT_ONCE_MAX + 1) * operation).min(memory.min(self.mover.pace.memory()).0 / 2))
    }

    /// Returns the number of reads of a log that may be under way in the memory of a move.
    pub(super) fn log_reads_at_once_max(&self) -> u32 {
        let operation = OPERATION_BLOCKS * self.view.layout.block.bytes().0;
        (self.memory_of_log_reads(self.mover.pace.memory()).0 / operation).saturating_sub(1).max(1) as u32
    }

    /// Returns true if a read of a slot may take a disk's arm to the slots. A log's drive without
    /// the role `ssd` counts as a disk.
    pub(super) fn slots_are_on_disk(&self) -> bool {
        self.view.member(self.member_of_slots()).role != Role::Ssd
    }

    fn begin(&mut self, blocks: Vec<ToMove>, keep: bool, log_end: Option<Position>, marked: bool) {
        assert!(!blocks.is_empty() || log_end.is_some(), "a move of nothing");
        if self.decider.scheme.properties().migrates_instantly {
            return self.move_instantly(blocks, keep, log_end);
        }
        assert!(!self.view.moving, "one move at a time");
        // Moves of evicted blocks of a log are not counted as migrations.
        let is_migration = log_end.is_some() || !self.store.appends();
        if !blocks.is_empty() && is_migration {
            self.statistics.migrations.begin(self.view.now);
        }
        let is_dirty = |to_move: &&ToMove| self.view.map.in_slot(to_move.slot).is_some_and(|entry| entry.dirty);
        let all = blocks.iter().filter(is_dirty).count() as u64 == u64::from(self.view.map.dirty_slots());
        let urgent = self.decider.scheme.is_move_urgent();
        let left = self.order_of_move(blocks, urgent, if log_end.is_some() { self.room_for_runs() } else { 0 });
        self.lend_scratch(&left);
        let job = Box::new(MoveJob {
            all_since: all.then_some(self.view.now),
            keep,
            log_end,
            marked,
            phase: if marked { Phase::Marking } else { Phase::NextBatch },
            urgent,
            ..MoveJob::of(left)
        });
        let task = self.begin_task(Job::Running);
        self.view.moving = true;
        self.mover.begin(task);
        self.take_turn();
        self.run_move(task, job);
    }

    /// Moves `blocks` in no time: the block map changes at once, and the log's slots are freed. The
    /// writes of the blocks follow in order, wear the flash, and delay no request.
    fn move_instantly(&mut self, mut blocks: Vec<ToMove>, keep: bool, log_end: Option<Position>) {
        // The moves of single blocks by an oracle are not counted as migrations.
        if !blocks.is_empty() && log_end.is_some() {
            self.statistics.migrations.begin(self.view.now);
        }
        blocks.sort_unstable_by_key(|to_move| to_move.block);
        let mut moved = MoveJob { keep, log_end, ..MoveJob::of(MoveOrder::default()) };
        let entries = blocks.iter().filter_map(|to_move| Some((to_move.slot, self.view.map.in_slot(to_move.slot)?)));
        moved.batch = entries.map(|(slot, entry)| Moving::new(slot, slot, entry)).collect();
        moved.plan_writes(self);
        self.apply_batch_to_map(&mut moved);
        if let Some(end) = log_end {
            self.give_log_up(end);
        }
        let (task, mut job) = match self.mover.task() {
            Some(task) => match self.take_job(task) {
                Job::Move(job) => (task, job),
                _ => unreachable!("instant moves run one after the other"),
            },
            None => {
                // The task reads no slot, so the moved slots are free at once.
                let task = self.begin_idle_task(Job::Running);
                self.mover.begin(task);
                let job = MoveJob { phase: Phase::Writing, instant: true, ..MoveJob::of(MoveOrder::default()) };
                (task, Box::new(job))
            }
        };
        job.todo.append(&mut moved.todo);
        self.start_transfers(task, &mut job);
        self.run_instant_move(task, job);
    }

    /// Continues the writes of instant moves.
    pub(super) fn run_instant_move(&mut self, task: TaskId, job: Box<MoveJob<P>>) {
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::Move(job));
        }
        self.mover.end();
        self.end_task(task);
    }

    /// Frees the log before `end` once no request reads that part any more.
    pub(super) fn give_log_up(&mut self, end: Position) {
        let next = self.tasks.next_serial();
        if let Some(log) = self.store.log_mut() {
            log.truncate(end, next);
            log.index.migration_ended(end);
        }
        self.release_slots();
        self.update_free_slots();
    }
}
