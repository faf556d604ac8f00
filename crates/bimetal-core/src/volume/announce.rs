//! The state of the volume on its home members: what must be known there before something else may happen. That slots hold
//! what home does not, before the first of it is acknowledged; that a member was given up, before home changes in a way
//! that member will never hear of; that a migration writes home, before its first write (Griffin 5.3).
//!
//! One state is written at a time, to two pages in turn, so that a torn one leaves the one before it.

use super::{Job, TaskId, Volume};
use crate::journal::PAGE_SECTORS;
use crate::journal::state::State;
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::SectorRange;

/// So often in a row the state cannot be written before the member counts as gone.
const FAILURES_MAX: u8 = 4;

#[derive(Default)]
pub(crate) struct Announcements {
    /// What is durable, and what shall be.
    durable: State,
    wanted: State,
    /// What is being written.
    writing: Option<State>,
    /// Whether a page of it could not be written, and how often in a row that was so.
    failed: bool,
    failures: u8,
    waiters: Vec<TaskId>,
}

impl Announcements {
    /// After a recovery that found `durable`.
    pub(super) fn new(durable: State) -> Self {
        Self { durable, wanted: durable, ..Self::default() }
    }

    /// Whether everything that shall be known is.
    pub(super) fn are_durable(&self) -> bool {
        self.writing.is_none() && State { sequence: 0, ..self.wanted } == State { sequence: 0, ..self.durable }
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
        if !P::CARRIES_DATA || self.announcements.is_dirty() {
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
        let state = State { sequence: durable.sequence + 1, ..*wanted };
        *writing = Some(state);
        let task = self.begin_task(Job::Running);
        for member in self.view.layout.homes() {
            if self.view.member(member).state == MemberState::Online {
                let place = self.view.layout.state_pages(member);
                let range = SectorRange::new(place.start.0 + state.turn() * PAGE_SECTORS, PAGE_SECTORS);
                let payload = if P::CARRIES_DATA { P::from_metadata(&state.encode(self.identity)) } else { P::empty() };
                self.issue_metadata(task, member, range, true, payload);
            }
        }
        self.put_job(task, Job::Announce);
        if self.outstanding(task) == 0 {
            self.run_announcement(task);
        }
    }

    /// Where one page cannot be written the other is tried. A home that can keep neither is no home any more.
    pub(super) fn note_announcement(&mut self, member: MemberId, status: Status) {
        if status == Status::Done {
            return;
        }
        self.announcements.failed = true;
        if status == Status::Gone || self.announcements.failures >= FAILURES_MAX {
            self.fail_member(member);
        }
    }

    pub(super) fn run_announcement(&mut self, task: TaskId) {
        self.end_task(task);
        let announcements = &mut self.announcements;
        let written = announcements.writing.take().expect("a state was being written");
        if std::mem::take(&mut announcements.failed) && announcements.failures < FAILURES_MAX {
            announcements.failures += 1;
            announcements.durable.sequence = written.sequence;
        } else {
            announcements.failures = 0;
            announcements.durable = written;
        }
        self.write_state();
        if self.announcements.are_durable() {
            let waiters = std::mem::take(&mut self.announcements.waiters);
            self.ready.extend(waiters);
        }
    }
}
