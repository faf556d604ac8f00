//! Drains: all dirty blocks are written back, on request. The volume does the work
//! ([`Volume::drain`]). This module keeps the requester's intent, the rate, and the limit of
//! attempts. After some attempts in a row that could not write everything back, the drain ends
//! without success. After that, writes follow the scheme again, and the volume stays attached and
//! readable.

use std::collections::VecDeque;
use std::sync::PoisonError;

use bimetal_core::layout::MemberId;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::Nanoseconds;
use bimetal_core::volume::{Drain, Volume};
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::absent::Absent;
use bimetal_volumes::status::Progress;

use super::Server;
use super::control::Watch;
use crate::control::message::{Done, Reply};

/// Number of attempts in a row that could not write everything back, after which a drain ends
/// without success.
const ATTEMPTS_MAX: u32 = 6;
/// Number of samples, one a second, over which the rate is measured.
const RATE_SAMPLES: usize = 10;

/// Behaviour of the server after a drain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Then {
    /// The server serves as before.
    GoOn,
    /// The drive off home is detached, and home serves.
    LetGo,
    /// The server ends.
    Stop,
}

/// Drain that was requested.
#[derive(Debug)]
pub(super) struct Drainage {
    then: Then,
    /// Set if the server ends although clients are connected.
    force: bool,
    /// Number of dirty blocks at the beginning.
    blocks: u64,
    /// Times, in order, each with the number of dirty blocks left.
    left: VecDeque<(Nanoseconds, u64)>,
}

impl Drainage {
    /// Records the number of blocks left.
    pub(super) fn note(&mut self, volume: &Volume<Buffers>, now: Nanoseconds) {
        if self.left.len() > RATE_SAMPLES {
            self.left.pop_front();
        }
        self.left.push_back((now, to_move(volume)));
    }

    pub(super) fn progress(&self, volume: &Volume<Buffers>, trouble: &Option<String>) -> Progress {
        let block = volume.view().block().bytes().0;
        let left = to_move(volume);
        let rate = self.left.front().zip(self.left.back()).and_then(|(&(then, before), &(now, after))| {
            let seconds = now.saturating_sub(then).as_seconds_f64();
            (seconds > 0.0).then(|| before.saturating_sub(after) as f64 * block as f64 / seconds)
        });
        let left_bytes = left * block;
        let failing = matches!(volume.drain_progress(), Drain::UnderWay { failures: 1.., .. });
        Progress {
            task: "drain".into(),
            done_bytes: self.blocks.saturating_sub(left) * block,
            left_bytes,
            bytes_per_s: rate,
            eta_s: rate.filter(|&rate| rate > 0.0).map(|rate| left_bytes as f64 / rate),
            trouble: trouble.clone().filter(|_| failing),
        }
    }
}

/// Returns the number of dirty blocks whose write-back has not begun. Blocks of a batch become
/// clean together, which takes long at a low `move_rate`.
fn to_move(volume: &Volume<Buffers>) -> u64 {
    match volume.drain_progress() {
        Drain::UnderWay { blocks_left, blocks_on_their_way, .. } => blocks_left - blocks_on_their_way,
        Drain::Idle | Drain::Done => dirty(volume),
    }
}

fn dirty(volume: &Volume<Buffers>) -> u64 {
    volume.view().map.dirty_blocks().into()
}

impl Server {
    pub(super) fn hear_drain(&mut self, key: usize, stop: bool, force: bool) -> Option<Reply> {
        if let Some(message) = self.clients_in_the_way().filter(|_| stop && !force) {
            return Some(Reply::Error { message });
        }
        self.begin_drain(key, if stop { Then::Stop } else { Then::GoOn }, force)
    }

    /// Returns the connected clients, as the reason for which the server should not stop serving;
    /// `None` if no client is connected.
    pub(super) fn clients_in_the_way(&mut self) -> Option<String> {
        // A client that has just disconnected still counts until its socket is read.
        self.look_at_clients();
        let clients = match self.clients_connected() {
            0 => return None,
            1 => "1 client is".to_owned(),
            clients => format!("{clients} clients are"),
        };
        let name = self.exports.first().map_or("", |export| export.name.as_str());
        Some(format!(
            "{clients} connected to '{name}': a file system mounted on the volume would lose its device. Unmount it \
             and disconnect the clients first (umount, nbd-client -d, qemu), or disconnect them with --force"
        ))
    }

    pub(super) fn hear_detach(&mut self, key: usize) -> Option<Reply> {
        let view = self.volume.view();
        let homes = view.layout.homes();
        let Some(slots) = view.layout.slots.filter(|slots| !homes.contains(&slots.member)) else {
            return Some(Reply::error("no drive of this volume can be detached: every drive is home of blocks"));
        };
        if view.member(slots.member).state == MemberState::Failed && !self.volume.newest_is_gone() {
            return Some(Reply::Done(Done::new(
                "the drive off home is detached or missing already: everything is \
                                               served from home",
            )));
        }
        self.begin_drain(key, Then::LetGo, false)
    }

    fn begin_drain(&mut self, key: usize, then: Then, force: bool) -> Option<Reply> {
        let blocks = dirty(&self.volume);
        let now = self.now;
        let begin = || Drainage { then, force, blocks, left: VecDeque::new() };
        let drainage = self.control.drainage.get_or_insert_with(begin);
        // A stronger request changes a drain under way.
        drainage.then = drainage.then.max(then);
        drainage.force |= force;
        let then = drainage.then;
        drainage.note(&self.volume, now);
        self.volume.drain(now, then == Then::LetGo);
        self.watch(key, Watch::Drain);
        None
    }

    /// Checks the progress of the drain. Returns true if the drain has ended, so that the volume
    /// has operations to send.
    pub(super) fn go_on_draining(&mut self) -> bool {
        let slots = self.volume.view().layout.slots.map(|slots| slots.member);
        let gone = slots.is_some_and(|slots| self.volume.view().member(slots).state == MemberState::Failed);
        match self.volume.drain_progress() {
            Drain::Done => self.end_drain(),
            Drain::UnderWay { .. } if gone && self.volume.newest_is_gone() => {
                self.give_drain_up("the drive that has them is missing or has failed: connect it and start the server \
                                    again".to_owned())
            }
            Drain::UnderWay { blocks_left: 0, .. } if self.volume.has_lost_content() => self.give_drain_up(
                "blocks that were off home are lost, and home has older content there (`bimetal check` lists them): write or \
                 discard them first"
                    .to_owned(),
            ),
            Drain::UnderWay { failures, .. } if failures >= ATTEMPTS_MAX => {
                let trouble = self.trouble().unwrap_or_else(|| "blocks cannot be written home".to_owned());
                self.give_drain_up(trouble);
            }
            Drain::UnderWay { .. } => return false,
            Drain::Idle => self.give_drain_up("the drain was cancelled".to_owned()),
        }
        true
    }

    fn end_drain(&mut self) {
        let Some(Drainage { then, force, .. }) = self.control.drainage.take() else { return };
        if let Some(message) = self.clients_in_the_way().filter(|_| then == Then::Stop && !force) {
            // Clients have connected during the drain.
            self.volume.end_drain(self.now);
            let message = format!("everything was written home, and serving goes on: {message}");
            return self.tell_watchers(Watch::Drain, &Reply::Error { message });
        }
        let (home, plain) = if self.volume.view().layout.homes().len() == 1 {
            ("home has everything", ": it is a plain disk")
        } else {
            ("no content is off home; under this scheme, no drive alone has everything", "")
        };
        let message = match then {
            Then::GoOn => format!("{home} until the next write; the volume stays attached"),
            Then::LetGo => format!("{home}; the other drive is detached, and home serves alone"),
            Then::Stop => format!("{home}{plain}; serving ends"),
        };
        if then == Then::Stop {
            self.control.drained = true;
            self.stop();
        } else {
            self.volume.end_drain(self.now);
        }
        let reply = Reply::Done(Done::new(message));
        let slots = self.volume.view().layout.slots.filter(|_| then == Then::LetGo);
        match slots {
            Some(slots) => self.close_drive(slots.member, reply),
            None => self.tell_watchers(Watch::Drain, &reply),
        }
    }

    /// Closes and unlocks a detached drive, so that other programs can use it; then sends the
    /// `reply`. A drive with operations under way is kept until the server ends, because it may
    /// write to the memory of these operations.
    fn close_drive(&mut self, member: MemberId, reply: Reply) {
        let number = usize::from(member.0);
        let idle = self.drives[number].under_way() == 0;
        let (Some(held), Some(absent)) = (self.control.held.clone(), Absent::new().ok().filter(|_| idle)) else {
            return self.tell_watchers(Watch::Drain, &reply);
        };
        self.selector.remove(self.drives[number].event());
        // An absent drive has no events, so the selector does not watch it.
        self.drives[number] = Box::new(absent);
        let unlock = move || {
            // A label that cannot be written now is written when the volume is served next.
            let _ = held.lock().unwrap_or_else(PoisonError::into_inner).let_go(member);
        };
        let answer = reply.clone();
        let begun = self.outside(unlock, move |server, ()| server.tell_watchers(Watch::Drain, &answer));
        if begun.is_err() {
            self.tell_watchers(Watch::Drain, &reply);
        }
    }

    fn give_drain_up(&mut self, reason: String) {
        let left = dirty(&self.volume) * self.volume.view().block().bytes().0;
        self.control.drainage = None;
        self.volume.end_drain(self.now);
        // Lost blocks alone leave nothing off home.
        let left = if left > 0 { format!("{left} bytes are still off home: ") } else { String::new() };
        let message = format!(
            "not drained: {left}{reason}. The volume stays attached and readable; remove the cause and drain again"
        );
        self.tell_watchers(Watch::Drain, &Reply::No { message });
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::Status;

    use super::super::stop::Phase;
    use super::super::testing::{Bench, HDD, SSD};
    use super::*;
    use crate::control::message::Request;

    const TO_DETACH: Request = Request::Drain { detach: true, force: false };
    const DAY: Nanoseconds = Nanoseconds::from_seconds(86_400);

    /// Makes a server with dirty blocks on the SSD, and one client.
    fn dirty_bench() -> (Bench, usize) {
        let mut bench = Bench::new("hybrid-disk");
        let client = bench.connect();
        bench.write(client, 3, 4);
        assert_eq!(dirty(&bench.server.volume), 4);
        (bench, client)
    }

    fn error(replies: &[Reply]) -> &str {
        match replies {
            [Reply::Error { message } | Reply::No { message }] => message,
            other => panic!("expected one error: {other:?}"),
        }
    }

    fn done(replies: &[Reply]) -> &str {
        match replies {
            [Reply::Done(done)] => &done.message,
            other => panic!("expected one result: {other:?}"),
        }
    }

    /// A file system that is mounted on the export would lose its device.
    #[test]
    fn drain_to_detach_is_refused_while_a_client_is_connected() {
        let (mut bench, _) = dirty_bench();
        let visitor = bench.visit();
        bench.request(visitor, TO_DETACH);
        assert!(error(&bench.replies(visitor)).starts_with("1 client is connected to 'bimetal'"));
        assert!(bench.server.control.drainage.is_none());
        bench.run_for(DAY);
        assert_eq!((dirty(&bench.server.volume), bench.server.phase), (4, Phase::Serving));
    }

    #[test]
    fn drain_with_force_ends_serving_although_a_client_is_connected() {
        let (mut bench, _) = dirty_bench();
        let visitor = bench.visit();
        bench.request(visitor, Request::Drain { detach: true, force: true });
        assert_eq!(bench.replies(visitor), []);
        bench.run_for(DAY);
        assert_eq!(done(&bench.replies(visitor)), "home has everything: it is a plain disk; serving ends");
        assert_eq!(dirty(&bench.server.volume), 0);
        assert!(bench.server.control.drained && bench.server.phase != Phase::Serving);
    }

    /// A drain without `--detach` disconnects no client, and its client may go on writing.
    #[test]
    fn plain_drain_serves_clients_on() {
        let (mut bench, client) = dirty_bench();
        let visitor = bench.visit();
        bench.request(visitor, Request::Drain { detach: false, force: false });
        bench.run_for(DAY);
        assert_eq!(
            done(&bench.replies(visitor)),
            "home has everything until the next write; the volume stays attached"
        );
        assert_eq!((dirty(&bench.server.volume), bench.server.phase), (0, Phase::Serving));
        bench.write(client, 9, 1);
    }

    /// The clients are counted again at the end of the drain, because one of them may be a mounted
    /// file system.
    #[test]
    fn client_that_connects_during_a_drain_keeps_its_device() {
        let (mut bench, first) = dirty_bench();
        bench.disconnect(first);
        let visitor = bench.visit();
        bench.request(visitor, TO_DETACH);
        assert!(bench.server.control.drainage.is_some());
        let second = bench.connect();
        bench.run_for(DAY);
        let replies = bench.replies(visitor);
        let expected = "everything was written home, and serving goes on: 1 client is connected";
        assert!(error(&replies).starts_with(expected), "{replies:?}");
        assert_eq!((bench.server.phase, bench.server.control.drained), (Phase::Serving, false));
        bench.write(second, 9, 1);
    }

    /// The drain cannot end, because only the drive that is gone has some blocks.
    #[test]
    fn drain_is_given_up_when_the_cache_is_gone() {
        let (mut bench, first) = dirty_bench();
        bench.disconnect(first);
        let visitor = bench.visit();
        bench.request(visitor, TO_DETACH);
        bench.server.settle();
        assert!(!bench.waiting(SSD).is_empty(), "the drain reads the cache: {:?}", bench.waiting(HDD));
        bench.end(SSD, Status::Gone);
        bench.run_for(DAY);
        let replies = bench.replies(visitor);
        assert!(error(&replies).starts_with("not drained: 16384 bytes are still off home: "), "{replies:?}");
        assert!(matches!(replies[..], [Reply::No { .. }]), "the answer is no, and the request was right: {replies:?}");
        assert_eq!((bench.server.phase, bench.server.control.drained), (Phase::Serving, false));
    }

    /// A stronger request changes a drain under way, and both requesters are answered.
    #[test]
    fn second_request_makes_a_drain_end_serving() {
        let (mut bench, first) = dirty_bench();
        bench.disconnect(first);
        let (plain, detaching) = (bench.visit(), bench.visit());
        bench.request(plain, Request::Drain { detach: false, force: false });
        bench.request(detaching, TO_DETACH);
        bench.run_for(DAY);
        for visitor in [plain, detaching] {
            assert!(done(&bench.replies(visitor)).ends_with("; serving ends"));
        }
        assert!(bench.server.control.drained);
    }
}
