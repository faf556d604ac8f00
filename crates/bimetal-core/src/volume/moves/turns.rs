//! Turns of a move on a drive that requests use: the number of its operations at once, and the
//! times at which it may read the disk of a log.
//!
//! Appends come first. A read of a log on a disk takes the arm from the end of the log and back.
//! Each movement of the arm costs a seek and half a turn of the platter, some 12 ms together. An
//! append of 128 KiB costs about one seek and half a turn. So a disk that reads between appends
//! takes a fraction of the appends that it could otherwise take, and requests wait. A flush of a
//! log's disk delays all appends until the disk's cache is written. So a move begins neither a read
//! nor a flush while an append is under way. Reads and flushes of a move go on in the pauses
//! between appends, but not within a burst: appends that come nearly as fast as the disk writes
//! would wait for a read until the burst is over, and the cache of the disk is full of the burst
//! when it is flushed.
//!
//! A log that is appended to without pause must still be emptied. If such a log is not emptied, it
//! fills, and the writes that a loss of its drive would lose reach further back in time. So a move
//! then takes a turn of a few reads once in [`TURN_EVERY`], and flushes in a burst after
//! [`FLUSH_AFTER`].

use super::{MoveJob, Phase};
use crate::layout::MemberId;
use crate::payload::Payload;
use crate::units::Nanoseconds;
use crate::volume::Volume;
use crate::volume::log_tail::LogTail;

/// Largest number of operations of a move under way at once on a drive that no request uses.
const OPERATIONS_MAX: u32 = 4;
/// Number of foreground operations for which a move gets one operation, if requests wait for the
/// move. Requests always count as waiting for a migration of a log, because reads are served from
/// the log until the migration ends. Any other move gets one operation while requests use the
/// drive.
const REQUESTS_FOR_ONE: u32 = 4;
/// Time between two turns of a move on a log's disk if appends leave no pause. A turn reads 2 MiB
/// at most. A turn takes some 30 ms with the movements of the arm, so appends lose 3 % of the
/// disk's time.
const TURN_EVERY: Nanoseconds = Nanoseconds::from_seconds(1);

/// Time after which a move flushes a log's disk, even within a burst of appends. A migration
/// flushes the log twice. A disk writes its cache in about half a second.
const FLUSH_AFTER: Nanoseconds = Nanoseconds::from_seconds(10);

/// Returns the largest number of operations of a move on a drive on which requests have
/// `foreground` operations under way.
fn operations_at_once(foreground: u32, wanted: bool, urgent: bool) -> u32 {
    match foreground {
        0 => OPERATIONS_MAX,
        requests if urgent => requests.max(OPERATIONS_MAX),
        requests if wanted => (requests / REQUESTS_FOR_ONE).max(1),
        _ => 1,
    }
}

impl<P: Payload> Volume<P> {
    /// Returns the time at which the next operation of a move may begin.
    pub(super) fn job_may_go_on_at(&self, job: &MoveJob<P>) -> Nanoseconds {
        match job.phase {
            Phase::Reading | Phase::Sorting => self.next_turn_at(),
            Phase::Logging | Phase::Settled => self.next_flush_at(),
            _ => self.move_may_go_on_at(),
        }
    }

    /// Returns true if a move may not flush the drive of a log at this time.
    pub(super) fn must_await_flush(&self, job: &MoveJob<P>) -> bool {
        !job.incomplete && self.next_flush_at() > self.view.now
    }

    /// Returns the time at which a move may begin to use the drive with the slots. The returned
    /// time is now if nothing is appended to a log on a disk, or if requests wait for the move.
    /// Otherwise the time is [`TURN_EVERY`] after the last turn, or the end of a burst of appends.
    pub(super) fn next_turn_at(&self) -> Nanoseconds {
        self.next_pause(self.mover.pace.last_turn().saturating_add(TURN_EVERY))
    }

    /// Returns the time at which a move may flush the drive with the slots, by the same rule.
    /// Within a burst, the time is the end of the burst, or [`FLUSH_AFTER`] after the last turn.
    fn next_flush_at(&self) -> Nanoseconds {
        let pace = &self.mover.pace;
        let turn = pace.last_turn().saturating_add(TURN_EVERY);
        self.next_pause(turn.max(pace.burst_ends()).min(pace.last_turn().saturating_add(FLUSH_AFTER)))
    }

    /// Returns the time of the next pause between appends, or `latest` if that is earlier.
    fn next_pause(&self, latest: Nanoseconds) -> Nanoseconds {
        if !self.appends_come_first() || self.is_move_awaited() {
            return self.view.now;
        }
        let at = if self.is_appending() { latest } else { latest.min(self.mover.pace.burst_ends()) };
        at.max(self.view.now)
    }

    /// Returns true if an append to the log is under way.
    fn is_appending(&self) -> bool {
        self.store.log().is_some_and(LogTail::is_being_written)
    }

    /// Returns true within a burst of appends.
    fn is_burst(&self) -> bool {
        self.mover.pace.burst_ends() > self.view.now
    }

    /// Returns true if a log on a disk is being appended to, or is within a burst of appends.
    fn appends_come_first(&self) -> bool {
        (self.is_appending() || self.is_burst()) && self.slots_are_on_disk()
    }

    /// Notes that a move begins to use the drive with the slots.
    pub(super) fn take_turn(&mut self) {
        self.mover.pace.take_turn(self.view.now);
    }

    /// Returns the number of operations of a move that may be under way on a drive.
    pub(super) fn operations_of_move_max(&self, job: &MoveJob<P>, member: MemberId) -> u32 {
        let wanted = job.log_end.is_some() || self.is_move_awaited();
        let most =
            operations_at_once(self.view.member(member).foreground, wanted, self.decider.scheme.is_move_urgent());
        if !matches!(job.phase, Phase::Reading | Phase::Sorting) || !self.store.appends() {
            return most;
        }
        let in_turn = self.appends_come_first() && !self.is_move_awaited();
        most.min(self.log_reads_at_once_max()).min(if in_turn { OPERATIONS_MAX } else { u32::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
    use crate::payload::NoPayload;
    use crate::testing::Bench;
    use crate::units::SectorRange;

    #[test]
    fn move_yields_to_requests_unless_it_is_urgent() {
        let limits = |wanted, urgent| [0, 1, 4, 8, 40].map(|requests| operations_at_once(requests, wanted, urgent));
        assert_eq!(limits(false, false), [4, 1, 1, 1, 1]);
        assert_eq!(limits(true, false), [4, 1, 1, 2, 10]);
        assert_eq!(limits(true, true), [4, 4, 4, 8, 40]);
    }

    const SECOND: Nanoseconds = Nanoseconds::from_seconds(1);

    /// A volume with blocks in its log. Home answers at once. The log's drive answers when the
    /// test asks for an answer.
    struct Scene {
        volume: Volume<NoPayload>,
        now: Nanoseconds,
        log: u16,
        under_way: Vec<(String, Token)>,
        requests: u64,
    }

    impl Scene {
        fn new(scheme: &str, settings: &[(&str, &str)]) -> Self {
            Self::with(600, scheme, settings)
        }

        /// Returns a scene with `blocks` blocks in the log.
        fn with(blocks: u64, scheme: &str, settings: &[(&str, &str)]) -> Self {
            let volume = Bench::new(scheme, settings).volume;
            let log = volume.member_of_slots().0;
            let mut scene = Self { volume, now: Nanoseconds::ZERO, log, under_way: Vec::new(), requests: 0 };
            scene.write(0, blocks);
            scene.all_answered();
            scene
        }

        /// Appends a little more than 1 MiB at one moment.
        fn burst(&mut self) {
            (0..4).for_each(|at| self.write(1000 + 100 * at, 66));
            assert_eq!(self.asked().len(), 4);
            (0..4).for_each(|_| assert_eq!(self.answered("Write"), [""; 0]));
        }

        fn write(&mut self, block: u64, blocks: u64) {
            self.request(OpKind::Write, block, blocks);
        }

        fn request(&mut self, kind: OpKind, block: u64, blocks: u64) {
            self.requests += 1;
            let command = Command { kind, range: SectorRange::new(block * 8, blocks * 8), fua: false };
            let operation = Operation { token: Token(self.requests), target: 0, command, payload: NoPayload };
            self.volume.submit(self.now, operation);
        }

        fn complete(&mut self, token: Token) {
            self.volume.complete(self.now, Completion { token, status: Status::Done, payload: NoPayload });
        }

        /// Returns the operations that the log's drive is given next.
        fn asked(&mut self) -> Vec<String> {
            let mut asked = Vec::new();
            while let Some(operation) = self.volume.next_operation() {
                if operation.target == self.log {
                    asked.push(format!("{:?} {}", operation.command.kind, operation.command.range.len.0));
                    self.under_way.push((asked[asked.len() - 1].clone(), operation.token));
                } else {
                    self.complete(operation.token);
                }
            }
            asked
        }

        /// Completes the first operation of the log's drive whose name begins with `kind`. Returns
        /// the operations that the drive is given next.
        fn answered(&mut self, kind: &str) -> Vec<String> {
            let at = self.under_way.iter().position(|(asked, _)| asked.starts_with(kind)).expect("it is under way");
            let (_, token) = self.under_way.remove(at);
            self.complete(token);
            self.asked()
        }

        fn all_answered(&mut self) {
            self.asked();
            while !self.under_way.is_empty() {
                self.answered("");
            }
        }

        fn pass(&mut self, time: Nanoseconds) -> Vec<String> {
            self.now = self.now.saturating_add(time);
            self.volume.advance(self.now);
            self.asked()
        }

        /// Returns a scene in which an append is under way and a migration begins.
        fn migrating(settings: &[(&str, &str)]) -> Self {
            let mut scene = Self::new("griffin", settings);
            scene.write(700, 1);
            assert_eq!(scene.asked(), ["Write 24"]);
            assert_eq!(scene.pass(Nanoseconds::from_seconds(10)), [""; 0], "an append is under way");
            assert!(scene.volume.view().moving);
            scene
        }
    }

    const TIMED: &[(&str, &str)] = &[("timeout", "10s"), ("read_threshold", "off"), ("log_buffer", "0")];

    /// On the trace CloudPhysics, appends left the disk no pause, and the reads of a migration
    /// between the appends took 57 % of the disk's time. Writes of 128 MiB that were recorded in
    /// one second took nine seconds, and the mean response time was 98 ms. With moves that wait for
    /// appends, the mean response time is 18 ms.
    #[test]
    fn migration_reads_the_log_only_between_appends() {
        let mut scene = Scene::migrating(TIMED);
        scene.write(710, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!(scene.answered("Write"), [""; 0], "the other one is under way");
        assert_eq!(scene.answered("Write"), ["Read 1024"; 4]);
        scene.write(720, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!(scene.answered("Read"), [""; 0], "the fifth read waits");
        scene.answered("Write");
        assert_eq!(scene.answered("Read").len(), 1);
    }

    /// On TPC-C a flush of the log's disk delayed appends for 134 ms of each second. The mean
    /// response time was 43 ms; now it is 0.16 ms.
    #[test]
    fn migration_flushes_the_log_only_between_appends() {
        let mut scene = Scene::new("griffin", TIMED);
        assert_eq!(scene.pass(Nanoseconds::from_seconds(10)), ["Read 1024"; 4]);
        assert_eq!((0..4).map(|_| scene.answered("Read").len()).collect::<Vec<_>>(), [1, 0, 0, 0]);
        scene.write(700, 1);
        scene.write(710, 1);
        assert_eq!(scene.asked(), ["Write 24"; 2]);
        assert_eq!(scene.answered("Read"), [""; 0], "what is logged is to be there before home changes");
        scene.write(720, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!([scene.answered("Write"), scene.answered("Write")], [[""; 0]; 2], "a flush would hold one back");
        assert_eq!(scene.answered("Write"), ["Flush 0"]);
        // The order is the same once all content is home: newer versions must be stable before the
        // log frees slots.
        scene.write(730, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!(scene.answered("Flush"), [""; 0]);
        scene.write(740, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!(scene.answered("Write"), [""; 0]);
        assert_eq!(scene.answered("Write"), ["Flush 0"]);
    }

    /// On the trace CloudPhysics, a migration read and flushed the log in the short pauses of a
    /// burst of 290 MiB. Writes waited for up to a second, and the mean of the whole trace was
    /// 6.5 ms.
    #[test]
    fn migration_reads_the_log_after_a_burst() {
        let mut scene = Scene::with(300, "griffin", TIMED);
        scene.pass(Nanoseconds::from_millis(9_999));
        scene.burst();
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)), [""; 0], "the burst may go on");
        assert!(scene.volume.view().moving);
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)).len(), 4);
    }

    #[test]
    fn migration_flushes_the_log_after_a_burst() {
        let mut scene = Scene::with(300, "griffin", TIMED);
        assert_eq!(scene.pass(Nanoseconds::from_seconds(10)).len(), 3);
        scene.burst();
        assert_eq!((0..3).map(|_| scene.answered("Read").len()).collect::<Vec<_>>(), [0; 3]);
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)), [""; 0], "a flush would write the burst first");
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)), ["Flush 0"]);
    }

    #[test]
    fn migration_takes_a_turn_where_appends_leave_no_pause() {
        let mut scene = Scene::migrating(TIMED);
        assert_eq!(scene.volume.next_timeout(), Some(scene.now.saturating_add(SECOND)));
        assert_eq!(scene.pass(Nanoseconds::from_millis(999)), [""; 0], "a second without a pause is rare");
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)), ["Read 1024"; 4], "what begins at one moment is a turn");
        (0..4).for_each(|_| assert_eq!(scene.answered("Read"), [""; 0]));
        assert_eq!(scene.pass(Nanoseconds::from_millis(999)), [""; 0]);
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)).len(), 1);
        scene.write(710, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!([scene.answered("Read"), scene.answered("Write")], [[""; 0]; 2], "the newer one waits for a flush");
        scene.write(720, 1);
        scene.asked();
        scene.answered("Write");
        assert_eq!(scene.pass(Nanoseconds::from_millis(999)), [""; 0]);
        assert_eq!(scene.pass(Nanoseconds::from_millis(1)), ["Flush 0"]);
    }

    /// Forty requests read the log, and the migration that these reads make urgent does not yield
    /// to the reads. A turn between appends still has only four reads.
    #[test]
    fn turn_between_appends_has_four_reads_however_urgent() {
        let mut scene = Scene::migrating(&[("timeout", "10s"), ("read_window", "1"), ("log_buffer", "0")]);
        (0..40).for_each(|block| scene.request(OpKind::Read, block * 4, 1));
        assert_eq!(scene.asked().len(), 40);
        assert_eq!(scene.pass(SECOND).len(), 4);
        scene.answered("Write");
        assert_eq!(scene.answered("Read 1024").len(), 1, "now it may have forty");
    }

    #[test]
    fn migration_that_requests_wait_for_does_not_yield_to_appends() {
        let mut scene = Scene::migrating(TIMED);
        let mut block = 710;
        let mut asked = Vec::new();
        while scene.volume.view().waiting_for_slots == 0 {
            assert!(asked.iter().all(|asked: &String| asked.starts_with("Write")), "{asked:?}");
            block += 10;
            scene.write(block, 1);
            asked = scene.asked();
        }
        assert_eq!(asked, ["Read 1024"; 4], "the log is full");
    }

    /// Between appends to flash a read costs no more than it costs alone.
    #[test]
    fn log_on_an_ssd_is_read_while_it_is_appended_to() {
        let mut scene = Scene::new("writeboost", &[("idle", "1s"), ("log_buffer", "0")]);
        scene.write(700, 1);
        assert_eq!(scene.asked(), ["Write 24"]);
        assert_eq!(scene.pass(SECOND), ["Read 1024"; 4]);
    }
}
