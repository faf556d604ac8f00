//! Recovery of the volume's state from its homes: the members that were taken out, and whether
//! slots are needed.

use super::{Answer, PageRepair, Recovery, RecoveryError, only_page};
use crate::journal::state::{State, StateCopies};
use crate::journal::turns::{COPIES, TURNS};
use crate::layout::MemberId;
use crate::payload::Payload;
use crate::volume::announce::OldTurn;

/// The states found on one home.
#[derive(Default)]
pub(super) struct HomeStates {
    found: StateCopies,
    unreadable: Option<u64>,
}

impl HomeStates {
    /// Returns two facts about this turn: whether it lacks a fact of `newest` about other members,
    /// and whether it lacks the digest of the table of places.
    fn lacks_in(&self, turn: usize, newest: &State) -> (bool, bool) {
        if self.found.is_of_version_1() {
            return (false, false);
        }
        self.found.content(turn).map_or((true, true), |found| newest.tells_more_than(found))
    }
}

impl<P: Payload> Recovery<P> {
    /// Reads all copies on the homes that are present, one by one: a power cut may have made a page
    /// that was being written unreadable.
    pub(super) fn read_states(&mut self) {
        for home in self.layout().homes().into_iter().filter(|&home| !self.is_out(home)).collect::<Vec<_>>() {
            for purpose in 0..TURNS * COPIES {
                let place = self.layout().state_place(home, (purpose / COPIES) as u64, purpose % COPIES);
                self.read(home, place, purpose as u64);
            }
        }
    }

    pub(super) fn take_state(&mut self, answer: &Answer<P>) {
        let (turn, copy) = (answer.purpose as usize / COPIES, answer.purpose as usize % COPIES);
        let identity = self.volume.store.identity();
        let page = answer.payload.as_ref().and_then(only_page);
        let home = self.home_states.entry(answer.member).or_default();
        home.found.note(turn, copy, page.as_ref(), identity);
        if page.is_none() {
            home.unreadable = Some(answer.range.start.0);
        }
    }

    /// Takes the newest state of all homes. Returns true if the newest state is known; if not, the
    /// recovery has ended.
    pub(super) fn settle_states(&mut self) -> bool {
        let current = |states: &&HomeStates| !states.found.is_of_version_1();
        let unsound: Vec<_> = self
            .home_states
            .iter()
            .filter(|(_, states)| current(states))
            .map(|(&home, states)| (home, states.found.unsound().collect::<Vec<_>>()))
            .collect();
        unsound.into_iter().for_each(|(home, unsound)| self.note_bad_states(home, unsound.into_iter()));
        let mut doubtful = Vec::new();
        for (&home, states) in &self.home_states {
            let (newest, at_most) = states.found.newest();
            if newest.is_none() || at_most.is_some() {
                doubtful.push((home, at_most, newest.is_none(), states.unreadable));
            }
            if let Some(newest) = newest.filter(|newest| newest.sequence >= self.state.sequence) {
                self.state = newest;
            }
        }
        let witness = self.layout().places_witness();
        let old_turn = |turn| {
            let lacks = |states: &HomeStates| states.lacks_in(turn, &self.state);
            let members = self.home_states.values().any(|states| lacks(states).0);
            let of_witness = witness.and_then(|witness| self.home_states.get(&witness));
            OldTurn::lacking(members, of_witness.is_some_and(|states| lacks(states).1))
        };
        self.old_turns = std::array::from_fn(old_turn);
        let repairs = self
            .home_states
            .iter()
            .flat_map(|(&home, states)| states.found.repairs().into_iter().map(move |(repair, _)| (home, repair)));
        self.second_first = repairs.filter(|(_, repair)| repair.copy > 0).map(|(home, at)| (home, at.turn)).collect();
        self.of_version_1 = !self.home_states.values().any(|states| current(&states));
        if self.of_version_1 && self.state.sequence == 0 && !self.layout().is_mirrored() {
            // Version 1 wrote number 0 alone: number 1 is written beside it when the recovery has
            // succeeded.
            self.state.sequence = 1;
        }
        let known = self.home_states.values().any(|states| states.found.newest().0.is_some());
        for (home, at_most, has_none, unreadable) in doubtful {
            let is_old = at_most.is_some_and(|at_most| at_most <= self.state.sequence);
            if !has_none && is_old {
                continue;
            }
            // A turn that can be read says which copies are old. A copy without such a turn may be
            // the only one that records it.
            let is_out = self.state.failed & 1 << home.0 != 0;
            if self.layout().is_mirrored() && known && (!has_none || is_out) {
                self.absent |= 1 << home.0;
                continue;
            }
            self.state_is_lost(home, !has_none || at_most.is_some(), unreadable);
            return false;
        }
        true
    }

    fn state_is_lost(&mut self, home: MemberId, is_damaged: bool, unreadable: Option<u64>) {
        const WHAT: &str = "both copies of a state are damaged, and the state may have been the newest: `bimetal \
                            rescue` writes a new state";
        self.state_in_doubt = true;
        match unreadable {
            Some(sector) => self.fail(|member, role| RecoveryError::Unreadable { member, role, sector }, home),
            None if is_damaged => {
                self.fail(|member, role| RecoveryError::Damaged { member, role, what: WHAT }, home);
            }
            None => self.fail(|member, role| RecoveryError::Unformatted { member, role, rescuable: true }, home),
        }
    }

    /// Queues repairs of copies that are torn, damaged or older, for the end of a successful
    /// recovery. A state of version 1 stays as it is, and gets the second copies that version 2 of
    /// the format has.
    pub(super) fn repair_states(&mut self) {
        let identity = self.volume.store.identity();
        for (home, states) in std::mem::take(&mut self.home_states) {
            if self.is_out(home) {
                continue;
            }
            if states.found.is_of_version_1() {
                self.add_copies(home, &states);
                continue;
            }
            for (repair, state) in states.found.repairs() {
                let place = self.layout().state_place(home, repair.turn as u64, repair.copy);
                let bytes = state.encode(identity).to_vec();
                self.repairs.push(PageRepair { member: home, range: place, bytes, is_needed: false });
            }
        }
    }

    /// Queues the copies of a state that version 1 wrote once. A mirror gets its copies with the
    /// next state that is written.
    fn add_copies(&mut self, home: MemberId, states: &HomeStates) {
        if self.layout().is_mirrored() {
            return;
        }
        for turn in 0..TURNS {
            let found = states.found.content(turn).cloned();
            let is_found = found.is_some();
            let next = (self.state.sequence as usize % TURNS == turn).then(|| self.state.clone());
            let Some(state) = found.or(next) else { continue };
            let bytes = state.encode(self.volume.store.identity());
            for copy in usize::from(is_found)..COPIES {
                let range = self.layout().state_place(home, turn as u64, copy);
                self.repairs.push(PageRepair { member: home, range, bytes: bytes.to_vec(), is_needed: false });
            }
        }
    }
}
