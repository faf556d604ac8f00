//! Messages for people that should not wait for a query: the first error of each kind of each
//! drive, and changes of a drive's state. Each is one line, once; `status` counts repetitions. The
//! [ledger](super::ledger) reports bad content.

use bimetal_core::layout::MemberId;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::Nanoseconds;

use rustix::io::Errno;

use super::Server;
use super::traffic::{Failing, Mishap, in_words};
use crate::control::report::meaning;

/// Function that prints a line.
type Tell = Box<dyn FnMut(&str) + Send>;

/// Messages that were printed already.
#[derive(Default)]
pub(super) struct Troubles {
    tell: Option<Tell>,
    errors: Vec<(u16, OpKind)>,
    states: Vec<MemberState>,
    /// Kinds of operations of each drive that were reported as failing.
    failing: Vec<Failing>,
    /// Set for members that were reported as having no room below them.
    without_room: Vec<bool>,
    /// Number of clients that were refused, number of refusals that were reported, and time of the
    /// next report.
    turned_away: u64,
    told_turned_away: u64,
    turned_away_at: Nanoseconds,
}

/// Interval of reports about refused clients.
const TURNED_AWAY_EVERY: Nanoseconds = Nanoseconds::from_seconds(60);

/// Describes the consequence of a full file system below a drive.
pub(super) fn no_room(errno: Errno) -> String {
    format!(
        "the file system below it has no room: {}: writes there wait until there is some; make room, or extend it",
        in_words(errno)
    )
}

impl Server {
    /// Sets the function that gets a line for each new trouble with a drive.
    pub fn on_trouble(&mut self, tell: impl FnMut(&str) + Send + 'static) {
        self.troubles.tell = Some(Box::new(tell));
        let name = self.control.about.as_ref().map(|about| about.name.clone()).unwrap_or_default();
        for line in meaning(self.known_report(), self.volume.lost_blocks(), &name, false) {
            self.say(&line);
        }
        self.tell_states();
    }

    pub(super) fn say(&mut self, line: &str) {
        if let Some(tell) = &mut self.troubles.tell {
            tell(line);
        }
    }

    /// Returns the number of clients that were refused because the maximum was reached.
    pub(super) fn clients_turned_away(&self) -> u64 {
        self.troubles.turned_away
    }

    /// Counts a client that was refused, and reports it, at most once a minute.
    pub(super) fn note_turned_away(&mut self) {
        self.troubles.turned_away += 1;
        if self.now < self.troubles.turned_away_at {
            return;
        }
        self.troubles.turned_away_at = self.now.saturating_add(TURNED_AWAY_EVERY);
        let (all, most) = (self.troubles.turned_away, self.options.clients_max);
        let since = all - std::mem::replace(&mut self.troubles.told_turned_away, all);
        let who = if since == 1 { "a client was".to_owned() } else { format!("{since} clients were") };
        let line = format!("{who} refused: {most} are connected, and --clients-max={most} allows no more");
        self.say(&line);
    }

    /// Reports an operation of a drive that has failed.
    pub(super) fn note_error(&mut self, member: u16, mishap: Mishap) {
        let kind = (member, mishap.kind());
        if self.troubles.tell.is_none() || self.troubles.errors.contains(&kind) {
            return;
        }
        self.troubles.errors.push(kind);
        let line = format!("{}: {}; `bimetal status` counts what follows", self.called(member), mishap.describe());
        self.say(&line);
    }

    /// Reports changes of drives and content since the last call.
    pub(super) fn tell_states(&mut self) {
        if self.troubles.tell.is_none() {
            return;
        }
        let members = self.volume.view().members.len();
        self.troubles.states.resize(members, MemberState::Online);
        for member in 0..members {
            let state = self.volume.view().members[member].state;
            let before = std::mem::replace(&mut self.troubles.states[member], state);
            if before != state {
                let line = format!("{} {}", self.called(member as u16), self.what_became(member as u16, state));
                self.say(&line);
            }
        }
        self.tell_failing();
        self.tell_rooms();
    }

    /// Reports drives that fail at different addresses, each kind of operation once.
    fn tell_failing(&mut self) {
        self.troubles.failing.resize(self.drives.len(), Failing::default());
        for number in 0..self.drives.len() {
            let failing = self.traffic.1[number].failing();
            let said = self.troubles.failing[number];
            self.troubles.failing[number] = said.or(failing);
            if said.or(failing) != said {
                let line = format!("{} {}", self.called(number as u16), failing.in_words());
                self.say(&line);
            }
        }
    }

    /// Reports members whose operations begin to wait for room, and members that have room again.
    fn tell_rooms(&mut self) {
        self.troubles.without_room.resize(self.drives.len(), false);
        for member in 0..self.drives.len() {
            let errno = self.drives[member].no_room();
            let before = std::mem::replace(&mut self.troubles.without_room[member], errno.is_some());
            let line = match errno {
                Some(errno) if !before => no_room(errno),
                None if before => "there is room again, and what waited goes on".to_owned(),
                _ => continue,
            };
            let line = format!("{}: {line}", self.called(member as u16));
            self.say(&line);
        }
    }

    pub(super) fn called(&self, member: u16) -> String {
        let known = self.control.about.as_ref().and_then(|about| about.members.get(usize::from(member)));
        known.map_or_else(
            || format!("member {member}"),
            |member| match &member.path {
                Some(path) => format!("{} ({path})", member.id),
                None => member.id.clone(),
            },
        )
    }

    fn what_became(&self, member: u16, state: MemberState) -> &'static str {
        let view = self.volume.view();
        let off_home = view.layout.slots.is_some_and(|slots| slots.member == MemberId(member));
        match (state, off_home) {
            (MemberState::Online, _) => "takes part again",
            (MemberState::ReadOnly, true) => {
                "refuses writes: it is read on, nothing new goes to it, and what only it has goes home now"
            }
            (MemberState::ReadOnly, false) => {
                "refuses writes: what is at home there can be read, and writes to it are errors. Copy it to another drive"
            }
            (MemberState::Failed, true) if view.map.dirty_blocks() == 0 => {
                "is let go: nothing on it is needed, home serves; `bimetal attach` puts a new drive in its place"
            }
            (MemberState::Failed, _) => "is gone, or failed; `bimetal status` says what that means for the data",
        }
    }
}
