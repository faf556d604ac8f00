//! The state of the volume on its home members: what must be known there before something else may happen. That slots hold
//! what home does not, before the first of it is acknowledged; that a member was given up, before home changes in a way
//! that member will never hear of; that a migration writes home, before its first write (Griffin 5.3).
//!
//! One state is written at a time, in two turns, so that a torn one leaves the one before it, and each turn in two copies, the second
//! when the first is stable, so that one page that is damaged later costs nothing. A home that cannot be written is read on, and never written again: what it does not know does not matter then, because it does not change.

use super::{Job, TaskId, Volume};
use crate::journal::state::State;
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::scheme::MemberState;

/// So often in a row the state cannot be written before the member counts as one that refuses writes.
const FAILURES_MAX: u8 = 4;

#[derive(Default)]
pub(crate) struct Announcements {
    /// What is durable, and what shall be.
    durable: State,
    wanted: State,
    /// Whether they are not the same.
    changed: bool,
    /// What is being written.
    writing: Option<State>,
    /// Whether it is the second copies that are being written.
    second: bool,
    /// Whether a page of it was written, whether one could not be, and how often in a row that was so.
    kept: bool,
    failed: bool,
    failures: u8,
    /// Members that some home says were given up, a bit each.
    told: u64,
    waiters: Vec<TaskId>,
}

impl Announcements {
    /// After a recovery that found `durable`.
    pub(super) fn new(durable: State) -> Self {
        Self { told: durable.failed, durable: durable.clone(), wanted: durable, ..Self::default() }
    }

    /// Whether everything that shall be known is.
    pub(super) fn are_durable(&self) -> bool {
        self.writing.is_none() && !self.changed
    }

    /// Returns true if a member was given up and no home says so. A recovery would trust that
    /// member.
    pub(super) fn are_untold(&self) -> bool {
        self.wanted.failed & !self.told != 0
    }

    /// Follows a change of either.
    fn compare(&mut self) {
        self.wanted.sequence = self.durable.sequence;
        self.changed = self.wanted != self.durable;
    }

    /// Whether what the member with the slots has of `region` is not to count any more.
    pub(super) fn has_left(&self, region: u32) -> bool {
        self.wanted.refusing.as_ref().is_some_and(|left| left.contains(region))
    }

    /// Whether it is known that slots hold what home does not.
    pub(super) fn is_dirty(&self) -> bool {
        self.durable.dirty
    }
}

impl<P: Payload> Volume<P> {
    /// Makes a change of the state known.
    pub(super) fn announce(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.announcements.wanted);
        self.announcements.compare();
        self.write_state();
    }

    /// Lets `task` go on when everything announced so far is known.
    pub(super) fn await_announcement(&mut self, task: TaskId) {
        if self.announcements.are_durable() {
            self.ready.push_back(task);
        } else {
            self.announcements.waiters.push(task);
            self.write_state();
        }
    }

    /// Whether a write to slots must wait until it is known that they hold what home does not.
    pub(super) fn must_announce_dirty(&mut self) -> bool {
        if !P::CARRIES_DATA || self.announcements.is_dirty() || !self.is_home_online() {
            return false;
        }
        self.announce(|state| state.dirty = true);
        true
    }

    /// Whether content at home may not change yet, because a member is not known to be out.
    pub(super) fn must_await_state(&self) -> bool {
        P::CARRIES_DATA && !self.announcements.are_durable()
    }

    fn write_state(&mut self) {
        if self.announcements.writing.is_some() || self.announcements.are_durable() {
            return;
        }
        let Announcements { durable, wanted, writing, .. } = &mut self.announcements;
        let state = State { sequence: durable.sequence + 1, ..wanted.clone() };
        *writing = Some(state.clone());
        self.announcements.second = false;
        let task = self.begin_task(Job::Running);
        self.write_copies_of_state(task, &state, 0);
        self.put_job(task, Job::Announce);
        if self.outstanding(task) == 0 {
            self.run_announcement(task);
        }
    }

    fn write_copies_of_state(&mut self, task: TaskId, state: &State, copy: usize) {
        for member in self.view.layout.homes() {
            if self.view.member(member).state == MemberState::Online {
                let range = self.view.layout.state_place(member, state.turn(), copy);
                let payload = if P::CARRIES_DATA { P::from_metadata(&state.encode(self.identity)) } else { P::empty() };
                self.issue_metadata(task, member, range, true, payload);
            }
        }
    }

    /// Goes on with the second copies when the first ones are stable; whether there are any.
    fn write_second_copies(&mut self, task: TaskId) -> bool {
        let Announcements { writing, second, failed, .. } = &mut self.announcements;
        let Some(state) = writing.clone().filter(|_| !*failed && !*second) else { return false };
        *second = true;
        self.write_copies_of_state(task, &state, 1);
        self.put_job(task, Job::Announce);
        self.outstanding(task) > 0
    }

    /// Where one page cannot be written the other is tried. A home that can keep neither refuses writes.
    pub(super) fn note_announcement(&mut self, member: MemberId, status: Status) {
        if status == Status::Done {
            self.announcements.kept = true;
            return;
        }
        self.announcements.failed = true;
        if self.announcements.failures >= FAILURES_MAX {
            self.refuse_writes(member);
        }
    }

    fn is_home_online(&self) -> bool {
        self.view.layout.homes().into_iter().any(|home| self.view.member(home).state == MemberState::Online)
    }

    /// Whether slots can be needed: a home that is not written any more would not know.
    pub(super) fn may_become_dirty(&self) -> bool {
        !P::CARRIES_DATA || self.announcements.is_dirty() || self.is_home_online()
    }

    pub(super) fn run_announcement(&mut self, task: TaskId) {
        if self.write_second_copies(task) {
            return;
        }
        self.end_task(task);
        let online = self.is_home_online();
        let announcements = &mut self.announcements;
        let written = announcements.writing.take().expect("a state was being written");
        let kept = std::mem::take(&mut announcements.kept);
        if std::mem::take(&mut announcements.failed) && announcements.failures < FAILURES_MAX && online {
            announcements.failures += 1;
            announcements.durable.sequence = written.sequence;
        } else {
            announcements.failures = 0;
            if kept {
                announcements.told = written.failed;
            } else {
                // No home changes any more: but none knows that slots are needed either.
                announcements.wanted.dirty = announcements.durable.dirty;
            }
            announcements.durable = State { dirty: written.dirty && (kept || announcements.durable.dirty), ..written };
        }
        announcements.compare();
        self.write_state();
        if self.announcements.are_durable() {
            let waiters = std::mem::take(&mut self.announcements.waiters);
            self.ready.extend(waiters);
        }
    }
}
