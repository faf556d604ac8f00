//! A member that refuses writes and still reads. Everything on it stays readable; nothing new is put on it; what only it has
//! goes home, and then the volume is as without it.
//!
//! The map that lies on it cannot be changed any more: after a crash it says what it said when the first write was refused.
//! So the homes keep, in their [state](crate::journal::state), which regions have *left*: of those nothing counts that this
//! map says. The rules, and why they suffice:
//!
//! 1. A region leaves when home has all its blocks and is flushed; that it has left is durable before a request changes
//!    home there. In a region that has not left, home changes only by moves, to what the map on the member has: whoever follows
//!    that map after a crash reads the same, however far a move came.
//! 2. What the map on the member may not have, because it changed after the last commit, makes its region *owed*: no flush is
//!    answered before every owed region has left. So what was flushed is at home, or where that map says. After a recovery
//!    all regions are owed that have something to move: what was read then may lie in the member's cache alone.
//! 3. When nothing is left to move, one state says at once that nothing is needed and that the member is given up.
//!
//! A recovery that finds the state drops what has left and goes on; it writes nothing on the member, so any number of them
//! end the same. A region with a block that cannot be read does not leave: writes to it are errors, reads go on. What was
//! written and never flushed may go home in place, and is torn by a crash as on a bare drive.
//!
//! A log promises that home alone is of one time. That ends here: home counts as being between two states, as in a
//! migration, until all of the log has gone home.

use std::collections::BTreeSet;

use super::{Job, Store, TaskId, Volume};
use crate::block::{Block, BlockRun};
use crate::block_map::Slot;
use crate::journal::state::{Left, left_region, left_region_of};
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::scheme::MemberState;

/// Blocks of a move, if a region does not have more: it bounds how long a request waits for another region.
const MOVE_BLOCKS: usize = 1024;

/// What is on its way from a member that refuses writes.
#[derive(Default)]
pub(crate) struct Departures {
    /// Regions that requests want to change, and those that a flush waits for.
    wanted: BTreeSet<u32>,
    owed: BTreeSet<u32>,
    /// Those that could not be moved when they were tried last: others come first.
    stuck: BTreeSet<u32>,
    /// Those that the move under way is about.
    moving: Vec<u32>,
    /// Requests that wait, with their blocks.
    waiters: Vec<(TaskId, BlockRun)>,
    /// The commit that waits.
    commit: Option<TaskId>,
}

impl Departures {
    /// Whether requests wait for them.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiters.is_empty() || self.commit.is_some()
    }
}

/// What stands between a request and the home of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Departure {
    /// Nothing.
    Over,
    /// Blocks are still to leave.
    Awaited,
    /// Blocks cannot leave.
    Never,
}

impl<P: Payload> Volume<P> {
    /// Whether the member with the slots refuses writes.
    #[inline]
    pub(super) fn slots_refuse(&self) -> bool {
        self.view.layout.slots.is_some_and(|slots| self.view.member(slots.member).state == MemberState::ReadOnly)
    }

    /// `member` cannot be written, and can be read as far as anybody knows.
    pub(super) fn refuse_writes(&mut self, member: MemberId) {
        if self.view.member(member).state != MemberState::Online {
            return;
        }
        if self.has_other_copy(member) {
            // What it does not take makes it old.
            return self.fail_member(member);
        }
        self.view.members[usize::from(member.0)].state = MemberState::ReadOnly;
        if self.view.layout.slots.is_some_and(|slots| slots.member == member) {
            self.begin_refusal();
        }
        self.update_free_slots();
    }

    /// The member with the slots takes nothing any more. Whoever waits for it goes another way.
    pub(super) fn begin_refusal(&mut self) {
        self.owe_what_is_not_durable();
        self.release_move_from_commit();
        self.wake_slot_waiters();
        let waiters = std::mem::take(&mut self.buffer_waiters);
        self.ready.extend(waiters);
        self.move_failures = 0;
        if P::CARRIES_DATA {
            let log = self.log_is_in_use();
            self.announce(|state| {
                state.refusing.get_or_insert_with(Left::default);
                state.migrating |= log;
            });
        }
    }

    /// Rule 2, for what there is when the first write is refused.
    fn owe_what_is_not_durable(&mut self) {
        let mut blocks = self.pending.blocks_not_durable(&self.view.map);
        blocks.extend(self.lost.found_again());
        if let Store::Log(log) = &self.store {
            let unstable = |slot: Slot| log.position(slot) >= log.stable();
            blocks.extend(self.view.map.occupied().filter(|(slot, _)| unstable(*slot)).map(|(_, entry)| entry.block));
        }
        blocks.into_iter().for_each(|block| self.owe(BlockRun { first: block, count: 1 }));
        let dropped: Vec<BlockRun> = self.pending.dropped_not_durable().collect();
        dropped.into_iter().for_each(|run| self.owe(run));
    }

    /// `blocks` are not any more what the map says that lies on the member.
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

    /// Rule 2, after a recovery.
    pub(super) fn owe_what_is_dirty(&mut self) {
        if self.slots_refuse() {
            let dirty = self.view.map.occupied().filter(|(_, entry)| entry.dirty);
            let blocks: Vec<Block> = dirty.map(|(_, entry)| entry.block).collect();
            blocks.into_iter().for_each(|block| self.owe(BlockRun { first: block, count: 1 }));
        }
    }

    /// A move that waits for a commit would wait for what waits for it.
    fn release_move_from_commit(&mut self) {
        let Some(task) = self.moving.filter(|&task| self.commit.forget(task)) else { return };
        if let Job::Move(job) = &mut self.tasks[task as usize].job {
            job.commit_failed();
        }
        self.ready.push_back(task);
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
        self.lost.between(run.first.0, run.end()).next().is_some()
    }

    /// Slots that only have what is in `region`.
    fn dirty_in(&self, region: u32) -> Vec<Slot> {
        let found = self.blocks_off_home(self.blocks_of_region(region)).into_iter();
        let pieces = found.flat_map(|block| self.view.map.pieces(block).to_vec());
        pieces.filter(|(_, entry)| entry.dirty).map(|(slot, _)| slot).collect()
    }

    /// Whether home may change where `blocks` are: asks for it if not.
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

    /// Whether a region has something to move, and that was tried in vain a moment ago and is not
    /// tried again yet.
    fn cannot_leave_now(&self, region: u32) -> bool {
        self.is_move_futile() && self.move_paused_until.is_some() && !self.dirty_in(region).is_empty()
    }

    /// Lets `task` go on when more has left.
    pub(super) fn await_departure(&mut self, task: TaskId, blocks: BlockRun) {
        self.statistics.waited += 1;
        self.departures.waiters.push((task, blocks));
    }

    /// What the commit `task`, which is parked, waits for.
    pub(super) fn departures_of_commit(&self) -> Departure {
        let never = |&region: &u32| self.has_lost(region) || self.cannot_leave_now(region);
        if self.departures.owed.iter().any(never) {
            return Departure::Never;
        }
        let over = self.departures.owed.is_empty() && self.announcements.are_durable();
        if over { Departure::Over } else { Departure::Awaited }
    }

    /// Lets the commit go on when nothing is owed.
    pub(super) fn await_departures(&mut self, commit: TaskId) {
        self.departures.commit = Some(commit);
    }

    /// Does what a member that refuses writes needs next; whether there was anything.
    pub(super) fn refusal_on(&mut self) -> bool {
        if !self.slots_refuse() || !self.announcements.are_durable() {
            return false;
        }
        if self.departures.owed.is_empty() && self.wake_commit() {
            return true;
        }
        if self.view.moving {
            let awaited = !self.departures.wanted.is_empty() || self.departures.commit.is_some();
            // What is futile is not tried sooner for anybody: those who come meanwhile are told at
            // once.
            let urgent = self.move_paused_until.is_some() && awaited && !self.is_move_futile();
            if urgent {
                self.end_pause();
            }
            return urgent;
        }
        self.let_regions_leave() || self.end_refusal() || self.move_on_from_member()
    }

    fn wake_commit(&mut self) -> bool {
        let commit = self.departures.commit.take();
        self.ready.extend(commit);
        commit.is_some()
    }

    /// Regions that are asked for and of which home has everything have left, once that is durable.
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
        // They look again, and wait until it is durable.
        let waiters = std::mem::take(&mut self.departures.waiters);
        self.ready.extend(waiters.into_iter().map(|(task, _)| task));
        true
    }

    /// When home has everything the member is given up, as one that was let go. One that is home of something stays.
    fn end_refusal(&mut self) -> bool {
        let member = self.member_of_slots();
        let needed = self.view.map.dirty_blocks() > 0 || !self.lost.is_empty();
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

    /// The member is gone for good, so nothing leaves it any more.
    pub(super) fn end_departures(&mut self) {
        let Departures { waiters, commit, .. } = std::mem::take(&mut self.departures);
        self.ready.extend(waiters.into_iter().map(|(task, _)| task));
        self.ready.extend(commit);
    }

    /// Moves home what is asked for; else, while nobody waits, what comes next.
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

    /// The region that goes next while nobody asks for one; those that are stuck when there is no other.
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

    /// A move has ended. Who waits for what it could not move would wait for ever.
    pub(super) fn note_departures(&mut self) {
        let stays: Vec<u32> = std::mem::take(&mut self.departures.moving);
        let mut stays: BTreeSet<u32> = stays.into_iter().filter(|&region| !self.dirty_in(region).is_empty()).collect();
        if self.is_move_futile() {
            // Nothing else would fare better.
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

    /// What a task waits for will not come.
    pub(super) fn fail_waiter(&mut self, task: TaskId) {
        match self.take_job(task) {
            Job::Write(job) => self.end_write(task, job, Status::MediaError),
            Job::Range(job) => self.end_range(task, &job, Status::MediaError),
            Job::Commit => self.fail_commit(task),
            _ => unreachable!("only changes of content and commits wait for slots or departures"),
        }
    }
}
