//! Writing the volume's [state](crate::journal::state) to its home members.
//!
//! Some facts must be durable on the home members before other steps may happen:
//!
//! - Slots hold content that home lacks: before the first write to a slot is acknowledged.
//! - A member is detached or has failed: before home changes in a way that this member misses.
//! - A migration writes home: before its first write (Griffin 5.3).
//! - A page of the table of places was written: before the old place of the range is free. Only the
//!   [witness](crate::layout::Layout::places_witness) records the write.
//!
//! One state is written at a time, in two turns, so that a torn state leaves the previous state.
//! Each turn has two copies. The second copy is written when the first is stable, so a page that is
//! damaged later loses nothing. A copy that recovery found damaged, or whose write failed, is
//! written before the other copy of its turn: a failed write may destroy a page, and recovery
//! refuses a turn without an undamaged copy.
//!
//! A state may record more than the state before about other members' content: that the content is
//! needed, old or void. In this case the other turn gets the same content under the next number,
//! while requests go on. A new digest of the table of places goes to the other turn of the witness
//! as well. Until both turns have the digest, home does not change, because a range that has moved
//! would then differ from its old place. So both copies of one turn may revert to earlier content,
//! and no fact is lost. A recovery that finds such facts in one turn alone writes the other turn. A
//! write of an old turn that fails is repeated up to [`OLD_TURN_TRIES`] times, and again after the
//! next recovery.
//!
//! A home that cannot be written is still read, and is never written again. The content of such a
//! home no longer changes. It may have changed before, so if the state that was given up says that
//! content of other members is old, flushes and forced changes fail from then on, and in a mirror
//! all changes.

use std::collections::BTreeSet;

use super::{Job, TaskId, Volume};
use crate::journal::state::State;
use crate::journal::turns::TURNS;
use crate::layout::MemberId;
use crate::operation::Status;
use crate::payload::Payload;
use crate::scheme::MemberState;

/// Failed writes of the state in a row after which a member counts as read-only.
const FAILURES_MAX: u8 = 4;
/// Number of writes of an old turn, at most. A page that can never be written causes no more than
/// this number of failed writes.
const OLD_TURN_TRIES: u8 = 3;

/// Facts of the durable state that one turn of the state lacks.
#[derive(Clone, Copy, Default)]
pub(super) struct OldTurn {
    /// Number of writes that the turn may still get; 0 if the turn lacks nothing, or was given up.
    tries: u8,
    /// Set if the turn lacks, on some home, a fact about other members' content.
    lacks_members: bool,
    /// Set if the witness lacks the digest of the table of places.
    lacks_places: bool,
}

impl OldTurn {
    /// Returns a turn that lacks facts about members if `members` is set, and facts about places if
    /// `places` is set.
    pub(super) fn lacking(members: bool, places: bool) -> Self {
        let tries = if members || places { OLD_TURN_TRIES } else { 0 };
        Self { tries, lacks_members: members, lacks_places: places }
    }

    /// Records that the turn was written, to the witness alone or to all homes.
    fn written(self, to_witness_alone: bool) -> Self {
        Self::lacking(self.lacks_members && to_witness_alone, false)
    }

    /// Records that a write of the turn failed. The last of the allowed writes gives up the turn.
    fn failed(self) -> Self {
        let tries = self.tries.saturating_sub(1);
        if tries > 0 { Self { tries, ..self } } else { Self::default() }
    }
}

/// The turns of a state.
pub(super) type OldTurns = [OldTurn; TURNS];

/// Turns of homes whose second copy is written first, because it may be damaged.
pub(super) type SecondFirst = BTreeSet<(MemberId, usize)>;

#[derive(Default)]
pub(crate) struct Announcements {
    /// The state that is durable.
    durable: State,
    wanted: State,
    /// Set while the wanted state differs from the durable state.
    changed: bool,
    /// The state that is being written.
    writing: Option<State>,
    /// Kind of the write of a state that is under way.
    extent: Extent,
    old_turns: OldTurns,
    second_first: SecondFirst,
    /// Set while the second copies are being written.
    second: bool,
    /// Set once a home has stored a page of the state being written. `failed` is set once a page
    /// could not be stored; `failures` counts such states in a row.
    kept: bool,
    failed: bool,
    failures: u8,
    /// Members that the state on some home records as failed, a bit each.
    told: u64,
    /// Set if no home could store that content of other members is old, and none has stored a state
    /// since.
    lack_what_is_old: bool,
    waiters: Vec<TaskId>,
    /// Set if copies may be blank: version 1 of the format wrote each turn once.
    pub(super) may_lack_copies: bool,
    /// Copies that could not be repeated, and were not stored since. Another try would skip further
    /// numbers of states, and a recovery takes a member for old only within a limited number of
    /// states.
    unwritable: BTreeSet<(MemberId, usize, usize)>,
}

/// Kinds of writes of a state.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Extent {
    /// New content of the state is written to all homes.
    #[default]
    Homes,
    /// A new digest of the table of places is written to the table's witness.
    Witness,
    /// The durable content of the state is written to an old turn of all homes.
    OldTurn,
    /// The durable content of the state is written to an old turn of the witness.
    OldTurnOfWitness,
}

impl Extent {
    fn is_repetition(self) -> bool {
        matches!(self, Self::OldTurn | Self::OldTurnOfWitness)
    }

    fn is_of_witness(self) -> bool {
        matches!(self, Self::Witness | Self::OldTurnOfWitness)
    }
}

impl Announcements {
    /// Returns the announcements of a volume whose recovery found the state `durable` on the home
    /// members. Facts that a power cut or an error kept from the turns are in `old_turns`.
    pub(super) fn new(durable: State, old_turns: OldTurns, second_first: SecondFirst) -> Self {
        let (told, wanted) = (durable.failed, durable.clone());
        Self { told, durable, wanted, old_turns, second_first, ..Self::default() }
    }

    /// Returns the copy that is written as number `at` to a home's turn, 0 or 1.
    fn copy_at(&self, member: MemberId, turn: u64, at: usize) -> usize {
        if self.second_first.contains(&(member, turn as usize)) { 1 - at } else { at }
    }

    /// Returns the copy of a home's turn that is being written.
    fn copy_under_way(&self, member: MemberId) -> Option<(MemberId, usize, usize)> {
        let turn = self.writing.as_ref()?.turn();
        Some((member, turn as usize, self.copy_at(member, turn, usize::from(self.second))))
    }

    /// Makes the copy whose write failed the first copy to be written of its turn. If the content
    /// was only repeated, the copy counts as unwritable.
    fn note_failure(&mut self, member: MemberId) {
        let Some(copy) = self.copy_under_way(member) else { return };
        if self.extent.is_repetition() {
            self.unwritable.insert(copy);
        }
        let (_, turn, _) = copy;
        if self.second && !self.second_first.remove(&(member, turn)) {
            self.second_first.insert((member, turn));
        }
    }

    /// Notes that a copy was stored.
    fn note_success(&mut self, member: MemberId) {
        if let Some(copy) = self.copy_under_way(member) {
            self.unwritable.remove(&copy);
        }
    }

    /// Returns true if the wanted state is durable, with the digest of the table of places in both
    /// turns.
    pub(super) fn are_durable(&self) -> bool {
        let is_written = !self.changed && (self.writing.is_none() || self.extent.is_repetition());
        is_written && !self.old_turns.iter().any(|turn| turn.lacks_places)
    }

    /// Begins to write the wanted state. Returns false if a state is being written, or if the
    /// wanted state is durable already.
    fn begin(&mut self) -> bool {
        let old_turn = |number: u64| self.old_turns[number as usize % TURNS];
        let next = self.durable.sequence + 1;
        let of_old_turn = [next, next + 1].into_iter().find(|&number| old_turn(number).tries > 0);
        let Some(sequence) = (if self.changed { Some(next) } else { of_old_turn }) else { return false };
        if self.writing.is_some() {
            return false;
        }
        let without_digest = State { places: self.wanted.places, ..self.durable.clone() };
        self.extent = match () {
            () if !self.changed && old_turn(sequence).lacks_members => Extent::OldTurn,
            () if !self.changed => Extent::OldTurnOfWitness,
            () if without_digest == self.wanted => Extent::Witness,
            () => Extent::Homes,
        };
        self.second = false;
        self.writing = Some(State { sequence, ..self.wanted.clone() });
        true
    }

    /// Updates the old turns after a state was written to its turn.
    fn note_turn(&mut self, written: &State, is_stored: bool) {
        let (turn, extent) = (written.turn() as usize, self.extent);
        if !is_stored {
            if extent.is_repetition() {
                self.old_turns[turn] = self.old_turns[turn].failed();
            }
            return;
        }
        self.old_turns[turn] = self.old_turns[turn].written(extent.is_of_witness());
        let (members, places) = written.tells_more_than(&self.durable);
        if members || places {
            let other = &mut self.old_turns[1 - turn];
            *other = OldTurn::lacking(members || other.lacks_members, places || other.lacks_places);
        }
    }

    /// Returns true if a member was taken out and no home member has recorded the removal. A
    /// recovery would still trust that member.
    pub(super) fn are_untold(&self) -> bool {
        self.wanted.failed & !self.told != 0
    }

    /// Returns true if content of other members is old, and a recovery would still use it, because
    /// no home could record that it is old.
    pub(super) fn lack_what_is_old(&self) -> bool {
        self.lack_what_is_old
    }

    /// Updates `changed` after a change of `durable` or `wanted`.
    fn compare(&mut self) {
        self.wanted.sequence = self.durable.sequence;
        self.changed = self.wanted != self.durable;
    }

    /// Returns true if `region` has been evacuated, so that its entries in the read-only member's
    /// block map no longer count.
    pub(super) fn has_left(&self, region: u32) -> bool {
        self.wanted.refusing.as_ref().is_some_and(|left| left.contains(region))
    }

    /// Returns true while a state is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Records that a copy of a turn is bad: the durable state is written to this turn, and to the
    /// bad copy first. Returns false if an earlier write of the copy failed.
    pub(super) fn repeat_copy(&mut self, home: MemberId, turn: u64, copy: usize) -> bool {
        let turn = turn as usize;
        if self.unwritable.contains(&(home, turn, copy)) {
            return false;
        }
        self.old_turns[turn] = OldTurn::lacking(true, self.old_turns[turn].lacks_places);
        if copy == 0 {
            self.second_first.remove(&(home, turn));
        } else {
            self.second_first.insert((home, turn));
        }
        true
    }

    /// Returns the number of the durable state.
    pub(super) fn sequence(&self) -> u64 {
        self.durable.sequence
    }

    /// Returns true if home durably records that slots hold content that home lacks. Returns false
    /// if a write of the state is about to record the opposite, and while home still records as
    /// failed a member that serves again.
    pub(super) fn is_dirty(&self) -> bool {
        let stays = self.writing.as_ref().is_none_or(|state| state.dirty);
        let none_is_back = self.durable.failed & !self.wanted.failed == 0;
        self.durable.dirty && self.wanted.dirty && stays && none_is_back
    }
}

impl<P: Payload> Volume<P> {
    /// Changes the wanted state, and begins to write that state.
    pub(super) fn announce(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.announcements.wanted);
        self.announcements.compare();
        self.write_state();
    }

    /// Makes `task` ready once every state announced so far is durable.
    pub(super) fn await_announcement(&mut self, task: TaskId) {
        if self.announcements.are_durable() {
            self.tasks.wake(task);
        } else {
            self.announcements.waiters.push(task);
            self.write_state();
        }
    }

    /// Returns true if a write to slots must wait until home records that slots are dirty.
    pub(super) fn must_announce_dirty(&mut self) -> bool {
        if !P::CARRIES_DATA || self.announcements.is_dirty() || !self.is_home_online() {
            return false;
        }
        self.announce(|state| state.dirty = true);
        true
    }

    /// Returns true if content at home may not change yet, because the wanted state is not durable.
    pub(super) fn must_await_state(&self) -> bool {
        P::CARRIES_DATA && !self.announcements.are_durable()
    }

    pub(super) fn write_state(&mut self) {
        if !self.announcements.begin() {
            return;
        }
        let state = self.announcements.writing.clone().expect("a state is being written");
        let task = self.begin_task(Job::Running);
        self.write_copies_of_state(task, &state, 0);
        self.put_job(task, Job::Announce);
        if self.outstanding(task) == 0 {
            self.run_announcement(task);
        }
    }

    /// Writes one copy of the state to each home: the first copy if `at` is 0, and otherwise the
    /// second.
    fn write_copies_of_state(&mut self, task: TaskId, state: &State, at: usize) {
        let witness = self.view.layout.places_witness().filter(|_| self.announcements.extent.is_of_witness());
        for member in self.view.layout.homes() {
            let is_addressed = witness.is_none_or(|witness| witness == member);
            if is_addressed && self.view.member(member).state == MemberState::Online {
                let copy = self.announcements.copy_at(member, state.turn(), at);
                let range = self.view.layout.state_place(member, state.turn(), copy);
                let payload =
                    if P::CARRIES_DATA { P::from_metadata(&state.encode(self.store.identity())) } else { P::empty() };
                self.issue_metadata(task, member, range, true, payload);
            }
        }
    }

    /// Begins to write the second copies once the first copies are stable. Returns true if a write
    /// was issued.
    fn write_second_copies(&mut self, task: TaskId) -> bool {
        let Announcements { writing, second, failed, .. } = &mut self.announcements;
        let Some(state) = writing.clone().filter(|_| !*failed && !*second) else { return false };
        *second = true;
        self.write_copies_of_state(task, &state, 1);
        self.put_job(task, Job::Announce);
        self.outstanding(task) > 0
    }

    /// Records the end of a write of a page of the state. If a page cannot be written, the next
    /// state goes to the other turn. A home that stores neither turn becomes read-only.
    pub(super) fn note_announcement(&mut self, member: MemberId, status: Status) {
        if status == Status::Done {
            self.announcements.kept = true;
            self.announcements.note_success(member);
            return;
        }
        self.announcements.failed = true;
        self.announcements.note_failure(member);
        let is_repetition = self.announcements.extent.is_repetition();
        if self.announcements.failures >= FAILURES_MAX && !is_repetition {
            self.refuse_writes(member);
        }
    }

    fn is_home_online(&self) -> bool {
        self.view.layout.homes().into_iter().any(|home| self.view.member(home).state == MemberState::Online)
    }

    /// Returns true if slots may become dirty. A home that cannot be written could not record the
    /// state.
    pub(super) fn may_become_dirty(&self) -> bool {
        !P::CARRIES_DATA || self.announcements.is_dirty() || self.is_home_online()
    }

    pub(super) fn run_announcement(&mut self, task: TaskId) {
        if self.write_second_copies(task) {
            return;
        }
        self.end_task(task);
        let online = self.is_home_online();
        // A home that is no copy has the content that it had when it failed, and no other member
        // has newer content of its blocks.
        let slots = self.view.layout.slots.map(|slots| slots.member);
        let replaceable = self.view.layout.copies().chain(slots).fold(0, |all, member| all | 1 << member.0);
        let announcements = &mut self.announcements;
        let written = announcements.writing.take().expect("a state was being written");
        let kept = std::mem::take(&mut announcements.kept);
        let failed = std::mem::take(&mut announcements.failed);
        let is_repetition = announcements.extent.is_repetition();
        let again = failed && (is_repetition || announcements.failures < FAILURES_MAX && online);
        announcements.note_turn(&written, kept && !again);
        if again {
            announcements.failures += u8::from(!is_repetition);
            announcements.durable.sequence = written.sequence;
        } else {
            announcements.failures = 0;
            if kept {
                announcements.told = written.failed;
                announcements.lack_what_is_old = false;
            } else {
                announcements.lack_what_is_old |= written.takes_out_more_than(&announcements.durable, replaceable);
                // No home changes any more, but no home records that slots are needed either.
                announcements.wanted.dirty = announcements.durable.dirty;
                announcements.old_turns = OldTurns::default();
            }
            announcements.durable = State { dirty: written.dirty && (kept || announcements.durable.dirty), ..written };
        }
        announcements.compare();
        self.write_state();
        if self.announcements.are_durable() {
            let waiters = std::mem::take(&mut self.announcements.waiters);
            self.tasks.wake_all(waiters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a copy whose repetition had failed once was given up until the next start, also
    /// after a later state had been stored there.
    #[test]
    fn copy_is_repeated_again_once_it_was_stored() {
        let home = MemberId(1);
        let mut announcements = Announcements::default();
        assert!(announcements.repeat_copy(home, 1, 0));
        assert!(announcements.begin());
        announcements.note_failure(home);
        announcements.writing = None;
        assert!(!announcements.repeat_copy(home, 1, 0), "another try would skip numbers of states");
        assert!(announcements.repeat_copy(home, 1, 1), "the other copy");
        announcements.writing = Some(State { sequence: 2, ..State::default() });
        announcements.second_first.clear();
        announcements.note_success(home);
        assert!(!announcements.repeat_copy(home, 1, 0), "a copy of another turn was stored");
        announcements.writing = Some(State { sequence: 3, ..State::default() });
        announcements.note_success(home);
        assert!(announcements.repeat_copy(home, 1, 0));
    }
}
