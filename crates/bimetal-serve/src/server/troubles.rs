//! Messages that people should get without asking: the first error of each kind of each drive, and
//! changes of a drive's state. Each message is one line and is printed once; `status` counts
//! repetitions. The [ledger](super::ledger) reports bad content.

use bimetal_core::layout::MemberId;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::Nanoseconds;
use bimetal_volumes::lost::meaning;

use rustix::io::Errno;

use super::Server;
use super::traffic::{Mishap, in_words};
use crate::snapshot::Failing;

/// Function that prints a line.
type Tell = Box<dyn FnMut(&str) + Send>;

/// Texts of messages that were printed already.
#[derive(Default)]
pub(super) struct Troubles {
    tell: Option<Tell>,
    errors: Vec<(u16, OpKind)>,
    states: Vec<MemberState>,
    /// Kinds of operations of each drive that were reported as failing.
    failing: Vec<Failing>,
    /// Set for members that were reported as members whose file system is full.
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
        "its file system is full: {}: writes to it wait; free some space, or extend the file system",
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
        self.tell_bad_pages();
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
        let line = format!("{}: {}; `bimetal status` counts further errors", self.called(member), mishap.describe());
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
                None if before => "the file system has space again, and the waiting writes go on".to_owned(),
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
            (MemberState::Online, _) => "is online again",
            (MemberState::ReadOnly, true) => {
                "is read-only: it gets no new blocks, and blocks that only it has are being written back"
            }
            (MemberState::ReadOnly, false) => {
                "is read-only: blocks at home there can be read, and writes to them fail. Copy the volume to another \
                 drive"
            }
            (MemberState::Failed, true) if self.volume.newest_is_gone() => {
                "is missing, and only it has some content: writes fail from now on, so that nothing of that content is \
                 lost. Connect the drive and restart the server"
            }
            (MemberState::Failed, true) => {
                "is detached: home serves alone; `bimetal attach` puts a new drive in its place"
            }
            (MemberState::Failed, _) => "is missing or has failed; `bimetal status` shows the consequence for the data",
        }
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::{OpKind, Status};

    use super::super::testing::{Answer, Bench, HDD, SSD, command};
    use super::*;

    /// Reads a block, and ends the read of the drive with this status.
    fn read(bench: &mut Bench, client: usize, drive: usize, block: u64, status: Status) -> Answer {
        let cookie = bench.ask(client, command(OpKind::Read, block * 8, 8), &[]);
        bench.end(drive, status);
        let answers = bench.answers(client);
        assert!(answers.len() == 1 && answers[0].cookie == cookie, "{answers:?}");
        answers[0].clone()
    }

    /// The first error of a kind is printed as one line, and the third at another address as one
    /// more line. Further errors are only counted.
    #[test]
    fn drive_that_fails_reads_is_reported_in_two_lines() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let first = read(&mut bench, client, SSD, 1, Status::MediaError);
        assert_eq!(first.error, 5);
        let line = "ssd: a read at byte 4096 failed with an error of the drive; `bimetal status` counts further errors";
        assert_eq!(bench.lines(), [line]);
        read(&mut bench, client, SSD, 2, Status::MediaError);
        assert_eq!(bench.lines(), Vec::<String>::new());
        read(&mut bench, client, SSD, 3, Status::MediaError);
        assert_eq!(bench.lines(), ["ssd cannot be read: all of its last reads failed"]);
        read(&mut bench, client, SSD, 4, Status::MediaError);
        assert_eq!(bench.lines(), Vec::<String>::new());
        assert_eq!(bench.server.snapshot().members[SSD].errors, 4);
    }

    /// Repeated errors of one bad sector do not show that the drive fails.
    #[test]
    fn bad_sector_is_no_failing_drive() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        for _ in 0..4 {
            read(&mut bench, client, SSD, 1, Status::MediaError);
        }
        assert_eq!(bench.lines().len(), 1);
        assert!(!bench.server.snapshot().members[SSD].failing.reads);
    }

    /// After home is gone, reads of its blocks are errors, and the drive gets no further operation.
    #[test]
    fn home_that_is_gone_is_reported_once_and_fails_its_reads() {
        let mut bench = Bench::new("hybrid-disk");
        let client = bench.connect();
        read(&mut bench, client, HDD, 1, Status::Gone);
        let lines = bench.lines();
        let told = |line: &&String| line.starts_with("hdd is missing or has failed");
        assert_eq!(lines.iter().filter(told).count(), 1, "{lines:?}");
        let cookie = bench.ask(client, command(OpKind::Read, 800, 8), &[]);
        assert_eq!(bench.waiting(HDD), []);
        assert_eq!(bench.answers(client), [Answer::failed(cookie)]);
        assert_eq!(bench.lines().iter().filter(told).count(), 0);
    }

    /// An empty cache that is gone loses no content, and home serves.
    #[test]
    fn empty_cache_that_is_gone_is_detached_and_home_serves() {
        let mut bench = Bench::new("hybrid-disk");
        let client = bench.connect();
        bench.server.volume.member_gone(bench.server.now, MemberId(SSD as u16));
        bench.run();
        let lines = bench.lines();
        assert!(lines.iter().any(|line| line.starts_with("ssd is detached: home serves alone")), "{lines:?}");
        let answer = read(&mut bench, client, HDD, 1, Status::Done);
        assert_eq!((answer.error, answer.data), (0, vec![0; 4096]));
        let cookie = bench.ask(client, command(OpKind::Write, 8, 8), &[4; 4096]);
        bench.run();
        assert_eq!(bench.answers(client), [Answer::done(cookie)]);
    }

    /// A cache that is gone with the only copy of some content must be able to come back, so home
    /// does not change any more.
    #[test]
    fn cache_that_is_gone_with_content_stops_all_changes() {
        let mut bench = Bench::new("hybrid-disk");
        let client = bench.connect();
        bench.write(client, 1, 4);
        bench.server.volume.member_gone(bench.server.now, MemberId(SSD as u16));
        bench.run();
        let lines = bench.lines();
        assert!(lines.iter().any(|line| line.starts_with("ssd is missing, and only it has some content")), "{lines:?}");
        for kind in [OpKind::Write, OpKind::WriteZeroes, OpKind::Discard, OpKind::Flush] {
            let (first, len) = if kind == OpKind::Flush { (0, 0) } else { (80, 8) };
            let data = if kind == OpKind::Write { &[5; 4096][..] } else { &[] };
            let cookie = bench.ask(client, command(kind, first, len), data);
            bench.run();
            assert_eq!(bench.answers(client), [Answer::failed(cookie)], "{kind:?}");
        }
        assert_eq!(read(&mut bench, client, HDD, 10, Status::Done).error, 0, "home is read");
        let cookie = bench.ask(client, command(OpKind::Read, 8, 8), &[]);
        assert_eq!(bench.answers(client), [Answer::failed(cookie)], "only the cache has this block");
        assert_eq!(crate::status::state(&bench.server.snapshot()), "failed");
    }

    #[test]
    fn refused_clients_are_reported_once_a_minute() {
        let mut bench = Bench::new("ssd-only");
        for _ in 0..3 {
            bench.server.note_turned_away();
        }
        bench.pass(TURNED_AWAY_EVERY.saturating_sub(Nanoseconds(1)));
        bench.server.note_turned_away();
        assert_eq!(bench.lines().len(), 1);
        bench.pass(Nanoseconds(1));
        bench.server.note_turned_away();
        let lines = bench.lines();
        assert!(lines.len() == 1 && lines[0].starts_with("4 clients were refused"), "{lines:?}");
        assert_eq!(bench.server.clients_turned_away(), 5);
    }
}
