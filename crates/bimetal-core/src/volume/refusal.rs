//! A member that refuses writes and still reads: a read-only member. The content of a read-only
//! member stays readable, and nothing new is put on the member. Content that only this member has
//! is written back, and then the volume no longer needs the member.
//!
//! The block map on that member cannot change any more: a recovery after a crash finds it as it was
//! when the first write was refused. So the homes keep, in their [state](crate::journal::state),
//! the regions that have *left*. The block map's entries for regions that have left the member no
//! longer count. The rules for a read-only member, and why they suffice:
//!
//! 1. A region leaves the member when home has all blocks of the region and is flushed. The state
//!    durably records that a region has left before a request changes the region at home. In a
//!    region that has not left, only moves change home, to the content that the member's block map
//!    names. A recovery that follows that block map after a crash reads the same content, after a
//!    crash in any step of a move.
//! 2. A change of the block map after the last commit may be missing on the member. The missing
//!    change makes its region *owed*: no flush is answered before every owed region has left. So
//!    flushed content is at home, or in the slots that the member's block map names. After a
//!    recovery every region with something to move is owed, because content that the recovery read
//!    may lie in the member's write cache alone.
//! 3. When nothing is left to move, one state records at once that no slots are needed and that the
//!    member has been detached.
//!
//! A recovery that finds the state drops the entries of regions that have left, and goes on. The
//! recovery writes nothing on the member, so repeated recoveries end with the same result. A region
//! with an unreadable block stays on the read-only member: writes to the region are errors, and
//! reads continue. Content that was written and never flushed may be written back in place, and a
//! crash tears it as on a bare drive.
//!
//! A log promises that home alone is consistent as of one time. The promise ends when the log's
//! member becomes read-only: home counts as being between two states, as in a migration, until all
//! of the log has been written back.

use std::collections::BTreeSet;

use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;
use crate::journal::state::{Left, left_region, left_region_of};
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::scheme::MemberState;

/// Blocks of a move, unless a single region has more. The bound limits the time for which a request
/// waits while another region is evacuated.
const MOVE_BLOCKS: usize = 1024;

/// The evacuation of a read-only member with slots.
#[derive(Default)]
pub(crate) struct Departures {
    /// Regions that waiting requests are to change, and regions for which a flush waits.
    wanted: BTreeSet<u32>,
    owed: BTreeSet<u32>,
    /// Regions that could not be moved at the last attempt, and come after all other regions.
    /// Regions without such a failure come first.
    stuck: BTreeSet<u32>,
    /// Regions of the move under way.
    moving: Vec<u32>,
    /// Requests that wait for an evacuation, with their blocks.
    waiters: Vec<(TaskId, BlockRun)>,
    /// The commit that waits for an evacuation.
    commit: Option<TaskId>,
}

impl Departures {
    /// Returns true if a request or commit waits for an evacuation.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiters.is_empty() || self.commit.is_some()
    }
}

/// The obstacle between a request and the home of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Departure {
    /// No obstacle.
    Over,
    /// Blocks have yet to be written back.
    Awaited,
    /// Blocks cannot be written back.
    Never,
}

impl<P: Payload> Volume<P> {
    /// Returns true if the member with the slots is read-only.
    #[inline]
    pub(super) fn slots_refuse(&self) -> bool {
        self.view.layout.slots.is_some_and(|slots| self.view.member(slots.member).state == MemberState::ReadOnly)
    }

    /// Makes `member`, which cannot be written but possibly still be read, read-only.
    pub(super) fn refuse_writes(&mut self, member: MemberId) {
        if self.view.member(member).state != MemberState::Online {
            return;
        }
        if self.has_other_copy(member) {
            // Writes that the member misses make its copy old.
            return self.fail_member(member);
        }
        self.view.members[usize::from(member.0)].state = MemberState::ReadOnly;
        if self.view.layout.slots.is_some_and(|slots| slots.member == member) {
            self.begin_refusal();
        }
        self.update_free_slots();
    }

    /// Begins the evacuation of the member with the slots. Tasks that wait for slots or for the
    /// log's buffer get new places.
    pub(super) fn begin_refusal(&mut self) {
        self.owe_what_is_not_durable();
        self.release_move_from_commit();
        self.wake_slot_waiters();
        let waiters = self.requests.waiters.take_for_buffer();
        self.tasks.wake_all(waiters);
        self.mover.pauses.forget_failures();
        if P::CARRIES_DATA {
            let log = self.log_is_in_use();
            self.announce(|state| {
                state.refusing.get_or_insert_with(Left::default);
                state.migrating |= log;
            });
        }
    }

    /// Makes regions owed by rule 2, for changes that are not durable when the first write is
    /// refused.
    fn owe_what_is_not_durable(&mut self) {
        let mut blocks = self.store.pending.blocks_not_durable(&self.view.map);
        blocks.extend(self.damage.lost.found_again());
        let store = self.store.kind();
        let unstable = self.view.map.occupied().filter(|&(slot, _)| store.is_unstable(slot));
        blocks.extend(unstable.map(|(_, entry)| entry.block));
        blocks.into_iter().for_each(|block| self.owe(BlockRun { first: block, count: 1 }));
        let dropped: Vec<BlockRun> = self.store.pending.dropped_not_durable().collect();
        dropped.into_iter().for_each(|run| self.owe(run));
    }

    /// Makes the regions of `blocks` owed: these blocks no longer match the block map on the
    /// member.
    pub(super) fn owe(&mut self, blocks: BlockRun) {
        if !self.slots_refuse() {
            return;
        }
        for region in self.left_regions(blocks) {
            if !self.announcements.has_left(region) {
                self.departures.owed.insert(region);
            }
        }
    }

    /// Makes regions owed by rule 2, after a recovery.
    pub(super) fn owe_what_is_dirty(&mut self) {
        if self.slots_refuse() {
            let dirty = self.view.map.occupied().filter(|(_, entry)| entry.dirty);
            let blocks: Vec<Block> = dirty.map(|(_, entry)| entry.block).collect();
            blocks.into_iter().for_each(|block| self.owe(BlockRun { first: block, count: 1 }));
        }
    }

    /// Takes the move under way out of the commit that it waits for. The commit waits for
    /// evacuations, and so for the move.
    fn release_move_from_commit(&mut self) {
        let Some(task) = self.mover.task().filter(|&task| self.commit.forget(task)) else { return };
        if let Job::Move(job) = self.tasks.job_mut(task) {
            job.commit_failed();
        }
        self.tasks.wake(task);
    }

    fn left_regions(&self, blocks: BlockRun) -> std::ops::RangeInclusive<u32> {
        let total = self.view.layout.total_blocks();
        left_region_of(blocks.first, total)..=left_region_of(Block(blocks.end() - 1), total)
    }

    fn blocks_of_region(&self, region: u32) -> BlockRun {
        left_region(region, self.view.layout.total_blocks())
    }

    fn has_lost(&self, region: u32) -> bool {
        let run = self.blocks_of_region(region);
        self.damage.lost.between(run.first.0, run.end()).next().is_some()
    }

    /// Returns the dirty slots of `region`.
    fn dirty_in(&self, region: u32) -> Vec<Slot> {
        let found = self.blocks_off_home(self.blocks_of_region(region)).into_iter();
        let pieces = found.flat_map(|block| self.view.map.pieces(block).to_vec());
        pieces.filter(|(_, entry)| entry.dirty).map(|(slot, _)| slot).collect()
    }

    /// Returns the obstacle to a change of home at `blocks`, and asks for the evacuation of their
    /// regions.
    pub(super) fn departure_of(&mut self, blocks: BlockRun) -> Departure {
        if !P::CARRIES_DATA || !self.slots_refuse() {
            return Departure::Over;
        }
        let mut departure = Departure::Over;
        for region in self.left_regions(blocks) {
            if self.announcements.has_left(region) {
                continue;
            }
            if self.has_lost(region) || self.cannot_leave_now(region) {
                return Departure::Never;
            }
            self.departures.wanted.insert(region);
            departure = Departure::Awaited;
        }
        departure
    }

    /// Returns true if `region` has something to move that could not be moved at the last attempt
    /// and has not been tried again.
    fn cannot_leave_now(&self, region: u32) -> bool {
        self.is_move_futile() && self.mover.pauses.is_on() && !self.dirty_in(region).is_empty()
    }

    /// Lets `task` wait until more regions have left.
    pub(super) fn await_departure(&mut self, task: TaskId, blocks: BlockRun) {
        self.statistics.waited += 1;
        self.departures.waiters.push((task, blocks));
    }

    /// Returns the obstacle that keeps the waiting commit from going on.
    pub(super) fn departures_of_commit(&self) -> Departure {
        let never = |&region: &u32| self.has_lost(region) || self.cannot_leave_now(region);
        if self.departures.owed.iter().any(never) {
            return Departure::Never;
        }
        let over = self.departures.owed.is_empty() && self.announcements.are_durable();
        if over { Departure::Over } else { Departure::Awaited }
    }

    /// Lets the commit wait until no region is owed.
    pub(super) fn await_departures(&mut self, commit: TaskId) {
        self.departures.commit = Some(commit);
    }

    /// Takes the next step of an evacuation. Returns true if there was a step to take.
    pub(super) fn refusal_on(&mut self) -> bool {
        if !self.slots_refuse() || !self.announcements.are_durable() {
            return false;
        }
        if self.wake_commit() {
            return true;
        }
        if self.view.moving {
            let awaited = !self.departures.wanted.is_empty() || self.departures.commit.is_some();
            // A futile move is not repeated sooner for any request: requests that arrive meanwhile
            // fail at once.
            let urgent = self.mover.pauses.is_on() && awaited && !self.is_move_futile();
            if urgent {
                self.end_pause();
            }
            return urgent;
        }
        self.let_regions_leave() || self.end_refusal() || self.move_on_from_member()
    }

    /// Wakes the waiting commit if its wait is over or can never end. A change of home that began
    /// before the refusal may make a region with a lost block owed while the commit waits. No move
    /// evacuates such a region, so no end of a move would wake the commit.
    fn wake_commit(&mut self) -> bool {
        if self.departures.commit.is_none() || self.departures_of_commit() == Departure::Awaited {
            return false;
        }
        self.tasks.wake_all(self.departures.commit.take());
        true
    }

    /// Lets the wanted and owed regions leave of which home has all blocks. Waiting requests go on
    /// once the state with these regions is durable.
    fn let_regions_leave(&mut self) -> bool {
        let asked: BTreeSet<u32> = self.departures.wanted.union(&self.departures.owed).copied().collect();
        let may_leave = |&region: &u32| !self.has_lost(region) && self.dirty_in(region).is_empty();
        let leaving: Vec<u32> = asked.into_iter().filter(may_leave).collect();
        if leaving.is_empty() {
            return false;
        }
        for &region in &leaving {
            for block in self.blocks_off_home(self.blocks_of_region(region)) {
                self.leave_slot(block);
            }
            self.departures.wanted.remove(&region);
            self.departures.owed.remove(&region);
        }
        self.update_free_slots();
        self.announce(|state| {
            let left = state.refusing.get_or_insert_with(Left::default);
            leaving.iter().for_each(|&region| left.insert(region));
        });
        // The requests check again, and wait until the state is durable.
        let waiters = std::mem::take(&mut self.departures.waiters);
        self.tasks.wake_all(waiters.into_iter().map(|(task, _)| task));
        true
    }

    /// Detaches the member once home has everything. A member that is itself home of blocks is not
    /// detached.
    fn end_refusal(&mut self) -> bool {
        let member = self.member_of_slots();
        let needed = self.view.map.dirty_blocks() > 0 || !self.damage.lost.is_empty();
        if needed || self.view.layout.homes().contains(&member) {
            return false;
        }
        self.announce(|state| {
            (state.dirty, state.migrating) = (false, false);
            state.failed |= 1 << member.0;
            state.refusing = None;
        });
        self.fail_member(member);
        true
    }

    /// Ends the evacuation, because the member is gone for good.
    pub(super) fn end_departures(&mut self) {
        let Departures { waiters, commit, .. } = std::mem::take(&mut self.departures);
        self.tasks.wake_all(waiters.into_iter().map(|(task, _)| task));
        self.tasks.wake_all(commit);
    }

    /// Writes back the wanted and owed regions. If no region is wanted or owed, writes back the
    /// next dirty region, unless the volume is closing and no commit waits.
    fn move_on_from_member(&mut self) -> bool {
        let Departures { wanted, owed, stuck, .. } = &self.departures;
        let mut regions: Vec<u32> = wanted.iter().chain(owed.difference(stuck)).copied().collect();
        regions.retain(|&region| !self.has_lost(region));
        if regions.is_empty() && (!self.is_closing() || self.departures.commit.is_some()) {
            regions.extend(self.next_region());
        }
        let mut slots = Vec::new();
        let mut moving = Vec::new();
        for region in regions {
            if slots.len() < MOVE_BLOCKS {
                slots.extend(self.dirty_in(region));
                moving.push(region);
            }
        }
        if slots.is_empty() {
            return false;
        }
        slots.sort();
        slots.dedup();
        self.departures.moving = moving;
        self.begin_move(slots, false);
        true
    }

    /// Returns the next dirty region, for use while no region is wanted or owed. Regions that could
    /// not be moved at the last attempt come last.
    fn next_region(&mut self) -> Option<u32> {
        let total = self.view.layout.total_blocks();
        let dirty =
            std::iter::successors(self.view.map.next_dirty(Slot(0)), |slot| self.view.map.next_dirty(Slot(slot.0 + 1)));
        let mut regions = dirty.filter_map(|slot| Some(left_region_of(self.view.map.in_slot(slot)?.block, total)));
        let next = regions.find(|region| !self.departures.stuck.contains(region));
        next.or_else(|| {
            let stuck = std::mem::take(&mut self.departures.stuck);
            stuck.into_iter().find(|&region| !self.dirty_in(region).is_empty())
        })
    }

    /// Handles the end of a move. Tasks that wait for regions that could not be moved would wait
    /// for ever, so they fail.
    pub(super) fn note_departures(&mut self) {
        let stays: Vec<u32> = std::mem::take(&mut self.departures.moving);
        let mut stays: BTreeSet<u32> = stays.into_iter().filter(|&region| !self.dirty_in(region).is_empty()).collect();
        if self.is_move_futile() {
            // Other regions would fail as well.
            let Departures { wanted, owed, .. } = &self.departures;
            let others = wanted.union(owed).copied().filter(|&region| !self.dirty_in(region).is_empty());
            stays.extend(others.collect::<Vec<_>>());
        }
        if stays.is_empty() || !self.slots_refuse() {
            return;
        }
        self.departures.wanted.retain(|region| !stays.contains(region));
        self.departures.stuck.extend(&stays);
        let waiters = std::mem::take(&mut self.departures.waiters);
        for (task, blocks) in waiters {
            if self.left_regions(blocks).any(|region| stays.contains(&region)) {
                self.fail_waiter(task);
            } else {
                self.departures.waiters.push((task, blocks));
            }
        }
        if stays.iter().any(|region| self.departures.owed.contains(region))
            && let Some(commit) = self.departures.commit.take()
        {
            self.fail_waiter(commit);
        }
    }

    /// Fails a task whose wait can never end.
    pub(super) fn fail_waiter(&mut self, task: TaskId) {
        match self.take_job(task) {
            Job::Write(job) => self.end_write(task, job, Status::MediaError),
            Job::Range(job) => self.end_range(task, &job, Status::MediaError),
            Job::Commit => self.fail_commit(task),
            _ => unreachable!("only changes of content and commits wait for slots or departures"),
        }
    }
}
