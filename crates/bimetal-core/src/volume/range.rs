//! Discard and write-zeroes: a range is not cut into blocks. Home gets the range as a whole. The
//! range's blocks off home leave their slots; the blocks are found in the map or in the range,
//! whichever is smaller.

use super::log_tail::LogTail;
use super::off_home::OffHome;
use super::refusal::Departure;
use super::write::WriteJob;
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun, BlockSize, ValidMask};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status, Token};
use crate::payload::Payload;
use crate::units::SectorRange;

/// Largest number of stripes of a range that are addressed one by one; fewer in the tests below,
/// whose arrays are small.
const STRIPES_APART_MAX: u64 = if cfg!(test) { 64 } else { 4096 };

pub(crate) struct RangeJob {
    token: Token,
    command: Command,
    sectors: SectorRange,
    phase: Phase,
    status: Status,
    /// Set for a discard that changes nothing but the list of lost blocks.
    is_unheeded: bool,
    /// Set once home was sent the change: home may have it even if home is gone.
    is_sent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    AtHome,
    Committing,
}

impl RangeJob {
    pub(super) fn note(&mut self, status: Status) {
        // A drive that does not support discards loses nothing.
        let harmless = status == Status::Unsupported && self.command.kind == OpKind::Discard;
        if self.status == Status::Done && !harmless {
            self.status = status;
        }
    }

    /// Records the failure of the commit that this job waited for.
    pub(super) fn commit_failed(&mut self, status: Status) {
        if self.phase == Phase::Committing {
            self.status = status;
        }
    }
}

/// Returns the blocks at the ends of `sectors` of which only a part lies in `sectors`, each once,
/// with the eighths that lie whole in `sectors`.
fn ends_in_part(size: BlockSize, sectors: SectorRange) -> impl Iterator<Item = (Block, ValidMask)> {
    let BlockRun { first, count } = size.touched(sectors);
    let last = (count > 1).then(|| Block(first.0 + count - 1));
    let ends = std::iter::once(first).chain(last);
    let covered = move |block| (block, size.masks(size.clip(sectors, block)).1);
    ends.map(covered).filter(|&(_, covered)| covered != ValidMask::ALL)
}

impl<P: Payload> Volume<P> {
    pub(super) fn start_range(&mut self, token: Token, sectors: SectorRange, command: Command) {
        let blocks = self.view.layout.block.touched(sectors);
        let (phase, status) = (Phase::Waiting, Status::Done);
        let (is_unheeded, is_sent) = (false, false);
        let job = RangeJob { token, command, sectors, phase, status, is_unheeded, is_sent };
        let task = self.begin_task(Job::Running);
        if self.requests.begin_change(task, self.lane(sectors), blocks) {
            self.run_range(task, job);
        } else {
            self.statistics.waited += 1;
            self.park(task, Job::Range(job));
        }
    }

    /// Returns true if a block at an end of the range is off home and only a part of the block is
    /// to be zeroed. The answer is final only once earlier changes have ended.
    fn zeroes_must_merge(&self, sectors: SectorRange) -> bool {
        ends_in_part(self.view.layout.block, sectors).any(|(block, _)| self.view.map.get(block).is_some())
    }

    pub(super) fn run_range(&mut self, task: TaskId, mut job: RangeJob) {
        let blocks = self.view.layout.block.touched(job.sectors);
        if job.phase == Phase::Waiting && self.newest_is_gone() {
            return self.end_range(task, &job, Status::MediaError);
        }
        if job.phase == Phase::Waiting && job.command.kind == OpKind::Discard && self.log_is_migrating() {
            (job.phase, job.is_unheeded) = (Phase::AtHome, true);
        }
        if job.phase == Phase::Waiting {
            if job.command.kind == OpKind::WriteZeroes && (self.log_serves() || self.zeroes_must_merge(job.sectors)) {
                return self.write_zeroes(task, &job);
            }
            if self.is_moving(blocks) {
                self.park(task, Job::Range(job));
                self.statistics.waited += 1;
                return self.requests.waiters.await_move(task);
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
            if let Err(block) = self.claim_ends(task, job.sectors) {
                self.park(task, Job::Range(job));
                return self.await_claim(task, block);
            }
            job.phase = Phase::AtHome;
            // The content that the log's drive would lose is newer than home's (Griffin 5.3), so
            // home gets the range only if the log is empty. Copies of a mirror get no discards: two
            // drives may return different content of discarded sectors.
            let unheard = self.view.layout.is_mirrored() && job.command.kind == OpKind::Discard;
            if !(unheard || self.log_serves() && self.log_is_in_use()) {
                self.changes_home(task, true);
                job.is_sent = self.view.layout.homes().iter().any(|&home| !self.is_gone(home));
                self.issue_range(task, &job);
            }
        }
        if self.outstanding(task) > 0 {
            return self.put_job(task, Job::Range(job));
        }
        if job.phase == Phase::AtHome {
            let newest = self.store.pending.appended;
            if job.is_unheeded {
                self.end_losses_in(job.sectors);
            } else {
                if job.status == Status::Done {
                    if job.command.kind == OpKind::WriteZeroes {
                        self.zeroed_in_part(job.sectors);
                    }
                    self.give_up_range(job.sectors);
                }
                self.give_up_copies(job.sectors, job.is_sent);
            }
            self.changes_home(task, false);
            job.phase = Phase::Committing;
            if job.command.fua
                && (self.store.pending.appended > newest || self.store.pending.could_come_back(blocks, true))
            {
                self.park(task, Job::Range(job));
                return self.await_commit(task, false);
            }
        }
        if self.must_tell_who_is_out() {
            self.park(task, Job::Range(job));
            return self.await_announcement(task);
        }
        let status = self.status_if_told(job.status, job.command.fua);
        self.end_range(task, &job, status);
    }

    pub(super) fn end_range(&mut self, task: TaskId, job: &RangeJob, status: Status) {
        self.leave_ordering(task);
        self.end_request(task, job.token, status, P::empty());
    }

    /// Returns true if changes go to the log, and the log's drive is present.
    fn log_serves(&self) -> bool {
        P::CARRIES_DATA && self.store.appends() && self.view.slots_online() && !self.is_draining()
    }

    /// Returns true if a migration moves the content that the log had at the migration's start. A
    /// discard that begins then changes nothing, as a drive may do with any discard: home without
    /// the log is to have the content of one moment (Griffin 5.3), at which the blocks were in use.
    fn log_is_migrating(&self) -> bool {
        self.log_serves() && self.view.moving && !self.mover.is_idle()
    }

    /// Returns true if the log has any blocks, whether or not their content is still the newest.
    pub(super) fn log_is_in_use(&self) -> bool {
        self.store.log().is_some_and(LogTail::is_in_use)
    }

    /// Continues the job as an ordinary write, which can merge content.
    fn write_zeroes(&mut self, task: TaskId, job: &RangeJob) {
        let RangeJob { token, command, sectors, .. } = *job;
        let write = self.arrived_write(token, sectors, command, P::zeroes(sectors.len));
        self.run_write(task, write);
    }

    fn issue_range(&mut self, task: TaskId, job: &RangeJob) {
        let fua = job.command.fua || self.home_goes_first(self.view.layout.block.touched(job.sectors));
        if self.issue_by_member(task, job, fua) {
            return;
        }
        let (mut done, mut found) = (0, None::<(MemberId, SectorRange)>);
        while done < job.sectors.len.0 {
            let rest = SectorRange::new(job.sectors.start.0 + done, job.sectors.len.0 - done);
            let (member, piece) = self.home_piece(rest);
            done += piece.len.0;
            found = match found {
                // Pieces that are adjacent on their drive are one operation.
                Some((before, range)) if before == member && range.end() == piece.start => {
                    Some((member, SectorRange::new(range.start.0, range.len.0 + piece.len.0)))
                }
                other => {
                    self.change_home_if_any(task, other, fua, job.command);
                    Some((member, piece))
                }
            };
        }
        self.change_home_if_any(task, found, fua, job.command);
    }

    fn change_home_if_any(&mut self, task: TaskId, part: Option<(MemberId, SectorRange)>, fua: bool, command: Command) {
        if let Some((member, range)) = part {
            self.change_home(task, member, Command { range, fua, ..command }, P::empty());
        }
    }

    /// Issues one operation to each member of a striped array for its part of a range, if the range
    /// has many stripes. With one operation for each stripe, a discard of a large array would be
    /// millions of operations. Returns true if one operation for each member was issued.
    fn issue_by_member(&mut self, task: TaskId, job: &RangeJob, fua: bool) -> bool {
        let layout = &self.view.layout;
        let parts = layout.homes().into_iter().map(|member| Some((member, layout.striped_part(job.sectors, member)?)));
        let Some(parts) = parts.collect::<Option<Vec<_>>>() else { return false };
        if layout.stripes_of(job.sectors) <= STRIPES_APART_MAX {
            return false;
        }
        for (member, range) in parts.into_iter().filter(|(_, range)| !range.is_empty()) {
            self.change_home(task, member, Command { range, fua, ..job.command }, P::empty());
        }
        true
    }

    /// Makes home the newest place of the blocks at the ends of zeroed sectors, of which a part is
    /// zeroed. The blocks are in no slot, but a log that is being drained may still have records of
    /// them: after a power cut their older content must not come back.
    fn zeroed_in_part(&mut self, sectors: SectorRange) {
        for (block, covered) in ends_in_part(self.view.layout.block, sectors) {
            self.find_again(block, covered);
            self.replaced_in_log(BlockRun { first: block, count: 1 });
        }
    }

    /// Takes every block that lies whole in `sectors` out of the map.
    fn give_up_range(&mut self, sectors: SectorRange) {
        let Some(whole) = self.whole_blocks(sectors) else { return };
        self.owe(whole);
        // A log needs one record for all, including blocks that were written back while the log
        // still has their old pieces.
        self.drop_from_log(whole);
        while let Some(run) = self.next_granted(whole) {
            self.only_home_has(run);
            self.leave_granted(run);
        }
        let mut next = OffHome::of(whole, &self.view.map);
        loop {
            let blocks = next.some(&self.view.map);
            if blocks.is_empty() {
                break;
            }
            for block in blocks {
                self.only_home_has(BlockRun { first: block, count: 1 });
                if self.store.appends() {
                    self.take_pieces(block);
                } else {
                    self.leave_slot(block);
                }
            }
        }
        self.end_losses_in(sectors);
        self.update_free_slots();
    }

    /// Ends the loss of every block that lies whole in `sectors`.
    fn end_losses_in(&mut self, sectors: SectorRange) {
        let Some(whole) = self.whole_blocks(sectors) else { return };
        let lost: Vec<Block> = self.damage.lost.between(whole.first.0, whole.end()).map(|(block, _)| block).collect();
        lost.into_iter().for_each(|block| self.set_lost(block, ValidMask::NONE));
    }

    /// Counts the changes of a home as changes by a request. A discard that is not passed on to
    /// home is about to free the slots of `blocks`. A move may have written the blocks' content to
    /// home without a flush. Reads return that content from now on, so a loss of that content must
    /// be reported to requests.
    fn only_home_has(&mut self, blocks: BlockRun) {
        let mut from = blocks.first.0;
        while from < blocks.end() {
            let (home, _, count) = self.view.layout.home_of(Block(from));
            self.operations.stability_mut(home).all_requested();
            from += count;
        }
    }

    /// Returns the next run of granted copies in `blocks`.
    fn next_granted(&self, blocks: BlockRun) -> Option<BlockRun> {
        self.view.map.granted_runs(blocks).next()
    }

    /// Drops clean copies from which home may differ now: at the ends of the range, and in the
    /// whole range if the operation failed. If clean copies that differ from home stayed, reads
    /// would return their content until the copies are evicted, and other content after the
    /// eviction. Copies of a home that is gone stay, because nothing else has their content. They
    /// are dropped, too, if home `may_have` the change: reads would change once home is back.
    fn give_up_copies(&mut self, sectors: SectorRange, may_have: bool) {
        let blocks = self.view.layout.block.touched(sectors);
        let granted = self.view.map.granted_runs(blocks).filter(|run| may_have || !self.home_is_gone(run.first));
        for run in granted.collect::<Vec<_>>() {
            self.owe(run);
            self.leave_granted(run);
        }
        for block in self.blocks_off_home(blocks) {
            if self.view.map.get(block).is_some_and(|(_, entry)| !entry.dirty)
                && (may_have || !self.home_is_gone(block))
            {
                self.send_home(block);
            }
        }
        self.update_free_slots();
    }

    /// Drops clean copies of the blocks that a part of a write placed at home, because the part is
    /// not in the block map: home may have the old or the new content.
    pub(super) fn give_up_copies_of(&mut self, job: &WriteJob<P>) {
        for run in job.homes() {
            self.give_up_copies(self.sectors_of(job.sectors(), run), job.is_sent_home);
        }
    }

    /// Returns the blocks of `run` that are in the block map.
    pub(super) fn blocks_off_home(&self, run: BlockRun) -> Vec<Block> {
        let map = &self.view.map;
        let granted = map.granted_runs(run).flat_map(|run| run.blocks());
        granted.chain(OffHome::of(run, map).all(map)).collect()
    }

    fn whole_blocks(&self, sectors: SectorRange) -> Option<BlockRun> {
        let size = self.view.layout.block;
        let first = sectors.start.0.div_ceil(size.sectors());
        let end = sectors.end().0 / size.sectors();
        (end > first).then(|| BlockRun { first: Block(first), count: end - first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_map::{Entry, Slot};
    use crate::testing::Bench;
    use crate::units::Nanoseconds;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// State of a volume that requests can observe, and the entries of its block map.
    fn state(bench: &mut Bench) -> (Vec<String>, [u64; 4], BTreeMap<Slot, Entry>) {
        let log = bench.take_log();
        let Volume { view, store, .. } = &bench.volume;
        let counts = [view.free_slots, view.freeing_slots, store.pending.appended, store.pending.durable];
        (log, counts, view.map.occupied().collect())
    }

    /// Asserts that two volumes are in the same state.
    fn assert_alike(one: &mut Bench, other: &mut Bench) -> Result<(), TestCaseError> {
        let ((log, counts, entries), (other_log, other_counts, other_entries)) = (state(one), state(other));
        prop_assert_eq!(log, other_log);
        prop_assert_eq!(counts, other_counts);
        let unlike = entries.iter().find(|&(slot, entry)| other_entries.get(slot) != Some(entry));
        prop_assert_eq!((unlike, entries.len()), (None, other_entries.len()));
        Ok(())
    }

    /// Takes back the grants of a volume: the same copies lie in the same slots, each with an entry
    /// of its own.
    fn fill_in(bench: &mut Bench) {
        let map = &mut bench.volume.view.map;
        let slots: Vec<Slot> = map.occupied().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| map.narrow(slot, ValidMask::ALL, 0));
        assert!(map.filled() == map.len() && !map.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Compares a mirror whose granted copies are dropped by runs with a mirror whose copies
        /// are dropped one by one.
        #[test]
        fn granted_run_leaves_as_its_blocks_one_by_one(
            hyperduo in any::<bool>(),
            steps in proptest::collection::vec((0u8..4, 0u64..10_000, 1u64..9_000), 1..30),
        ) {
            let scheme = if hyperduo { "hyperduo" } else { "hddboost" };
            let (mut runs, mut apart) = (Bench::new(scheme, &[]), Bench::new(scheme, &[]));
            fill_in(&mut apart);
            for (step, start, len) in steps {
                for bench in [&mut runs, &mut apart] {
                    match step {
                        0 => bench.request(OpKind::Write, start, len.div_ceil(50)),
                        1 => bench.request(OpKind::Read, start, len.div_ceil(50)),
                        2 => bench.request(OpKind::Discard, start, len),
                        _ => bench.pass(Nanoseconds::from_millis(len / 10)),
                    }
                }
                assert_alike(&mut runs, &mut apart)?;
            }
            for bench in [&mut runs, &mut apart] {
                bench.pass(Nanoseconds::from_seconds(100));
            }
            assert_alike(&mut runs, &mut apart)?;
        }
    }

    /// Regression: a discard walked a hundred million granted copies one by one, and a simulation
    /// of two requests took 13 seconds.
    #[test]
    fn discard_of_granted_copies_is_one_step() {
        let mut bench = Bench::new("hddboost", &[]);
        let granted = bench.volume.view.map.len();
        let blocks = BlockRun { first: Block(0), count: bench.volume.view.layout.total_blocks() };
        assert_eq!(bench.volume.next_granted(blocks), Some(BlockRun { first: Block(0), count: granted }));
        assert!(OffHome::of(blocks, &bench.volume.view.map).some(&bench.volume.view.map).is_empty());
        bench.request(OpKind::Discard, 0, blocks.count * 8);
        assert!(bench.volume.view.map.is_empty());
        bench.pass(Nanoseconds::from_seconds(100));
        assert_eq!(bench.volume.view.map.len(), granted);
    }
}
