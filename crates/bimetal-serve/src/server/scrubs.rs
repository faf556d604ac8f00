//! Scrubs on a schedule: a scrub begins a given time after the end of the last scrub. The schedule
//! counts from the last scrub even if that scrub was requested, or ran in an earlier server. The
//! rate of scrubs is limited. The volume does the work
//! ([`Volume::scrub`](bimetal_core::volume::Volume::scrub)).
//!
//! A scrub that is interrupted, by the end of the server or a missing drive, does not count, and
//! begins anew.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Scrub;
use bimetal_volumes::status::Progress;
use bimetal_volumes::system::seconds_since_1970;

use super::Server;
use super::stop::Phase;

/// Minimum time between the start of the server and a scrub that is overdue.
const DELAY: Nanoseconds = Nanoseconds::from_seconds(60);
/// Maximum time after which an interrupted scrub begins anew.
const AGAIN: Nanoseconds = Nanoseconds::from_seconds(3600);

/// Schedule and rate of scrubs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubPlan {
    /// Time between the end of a scrub and the next scrub; `None` for no scheduled scrubs.
    pub every: Option<Nanoseconds>,
    /// Maximum number of bytes that a scrub reads in a second.
    pub rate: Option<Bytes>,
}

/// State of the schedule. The last scrub itself is in the [report](super::ledger).
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// Time at which the next scrub begins.
    next_at: Option<Nanoseconds>,
    /// Start of the last scrub whose end was recorded.
    seen: Option<Nanoseconds>,
    /// Start of the first scrub whose end was recorded.
    first: Option<Nanoseconds>,
}

impl Server {
    /// Plans the next scrub after the last scrub in the report.
    pub(super) fn plan_scrubs(&mut self) {
        let last = self.known_report().last_scrub;
        let next_at = self.options.scrub.every.map(|every| {
            let passed = last.map(|last| seconds_since_1970().saturating_sub(last.at));
            let left =
                passed.map_or(Nanoseconds::ZERO, |passed| every.saturating_sub(Nanoseconds::from_seconds(passed)));
            self.now.saturating_add(left.max(DELAY.min(every)))
        });
        self.control.scrubs = Scrubs { next_at, ..Scrubs::default() };
    }

    pub(super) fn scrubs_deadline(&self) -> Option<Nanoseconds> {
        self.control.scrubs.next_at.filter(|_| matches!(self.phase, Phase::Serving))
    }

    /// Begins a scrub whose time has come, and records the end of a scrub. Returns true if the
    /// volume has new work.
    pub(super) fn go_on_scrubbing(&mut self) -> bool {
        self.note_first_pages_of_scrub();
        if !self.is_reading_labels() {
            self.note_last_scrub();
        }
        if self.scrubs_deadline().is_none_or(|at| at > self.now) {
            return false;
        }
        self.control.scrubs.next_at = None;
        self.begin_scrub(self.options.scrub.rate);
        true
    }

    /// Records the last scrub of the volume, if the scrub has ended since.
    fn note_last_scrub(&mut self) {
        let ended = self.volume.scrub_progress().filter(|scrub| scrub.finished);
        if let Some(scrub) = ended.filter(|scrub| self.control.scrubs.seen != Some(scrub.began)).cloned() {
            self.note_scrub(&scrub);
        }
    }

    /// Records what scrubs have found when the server ends. Labels that are still being read are
    /// not waited for: their drive may not answer.
    pub(super) fn close_scrubs(&mut self) {
        self.take_label_pages();
        self.note_first_pages_of_scrub();
        self.note_last_scrub();
    }

    /// Returns true if no other scrub has ended since the start.
    pub(super) fn is_first_scrub(&self, scrub: &Scrub) -> bool {
        self.control.scrubs.first.is_none_or(|first| first == scrub.began)
    }

    fn note_scrub(&mut self, scrub: &Scrub) {
        self.control.scrubs.seen = Some(scrub.began);
        self.control.scrubs.first.get_or_insert(scrub.began);
        let every = self.options.scrub.every;
        self.note_pages_of_scrub(scrub);
        if self.is_interrupted(scrub) {
            self.control.scrubs.next_at = every.map(|every| self.now.saturating_add(every.min(AGAIN)));
            return;
        }
        self.control.scrubs.next_at = every.map(|every| self.now.saturating_add(every));
        self.take_troubles();
        if scrub.bad_blocks > 0 {
            let Scrub { blocks_read, bad_blocks, lost_blocks, .. } = scrub;
            let line = format!(
                "a scrub has found bad blocks: {bad_blocks} of {blocks_read}, {lost_blocks} of them without a good \
                 copy (`bimetal check --scrub` lists them)"
            );
            self.say(&line);
        }
    }

    /// Returns the progress of the scrub under way.
    pub(super) fn scrub_in_progress(&self) -> Option<Progress> {
        let scrub = self.volume.scrub_progress().filter(|scrub| !scrub.finished)?;
        let block = self.volume.view().block().bytes().0;
        let seconds = self.now.saturating_sub(scrub.began).as_seconds_f64();
        let (done_bytes, left_bytes) = (scrub.blocks_read * block, scrub.blocks_left * block);
        let rate = (seconds > 0.0 && done_bytes > 0).then(|| done_bytes as f64 / seconds);
        Some(Progress {
            task: "scrub".into(),
            done_bytes,
            left_bytes,
            bytes_per_s: rate,
            eta_s: rate.map(|rate| left_bytes as f64 / rate),
            trouble: (scrub.bad_blocks > 0).then(|| format!("{} bad blocks so far", scrub.bad_blocks)),
        })
    }

    /// Returns the number of seconds until the next planned scrub.
    pub(super) fn next_scrub_s(&self) -> Option<f64> {
        Some(self.scrubs_deadline()?.saturating_sub(self.now).as_seconds_f64())
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::{OpKind, Status};

    use super::super::ServerOptions;
    use super::super::event::Event;
    use super::super::testing::{Bench, HDD, SSD};
    use super::*;

    const WEEK: Nanoseconds = Nanoseconds::from_seconds(7 * 86_400);

    /// Makes a server with content off home, and a scrub planned once a week.
    fn planned_bench() -> Bench {
        let scrub = ScrubPlan { every: Some(WEEK), rate: None };
        let mut bench = Bench::with("hybrid-disk", ServerOptions { scrub, ..ServerOptions::default() });
        bench.server.plan_scrubs();
        let client = bench.connect();
        bench.write(client, 3, 4);
        bench.disconnect(client);
        bench
    }

    fn reads(bench: &Bench) -> usize {
        let of = |drive| bench.waiting(drive).iter().filter(|command| command.kind == OpKind::Read).count();
        of(SSD) + of(HDD)
    }

    /// Lets time pass until `time` after the start of the server.
    fn pass_until(bench: &mut Bench, time: Nanoseconds) {
        let passed = bench.server.now.saturating_sub(bench.server.time_before);
        bench.pass(time.saturating_sub(passed));
    }

    /// An overdue scrub begins a minute after the start, reads the content off home, and the next
    /// scrub is due a week after the scrub's end.
    #[test]
    fn scrub_begins_when_it_is_due_and_again_after_a_week() {
        let mut bench = planned_bench();
        pass_until(&mut bench, DELAY.saturating_sub(Nanoseconds(1)));
        assert_eq!(reads(&bench), 0);
        assert_eq!(bench.server.scrub_in_progress(), None);
        pass_until(&mut bench, DELAY);
        assert!(reads(&bench) > 0, "{:?}", bench.waiting(SSD));
        assert!(bench.server.scrub_in_progress().is_some());
        bench.run();
        assert_eq!(bench.server.scrub_in_progress(), None);
        assert_eq!(bench.server.known_report().last_scrub.map(|scrub| scrub.blocks_read), Some(4));
        let ended = bench.server.now;
        assert_eq!(bench.server.scrubs_deadline(), Some(ended.saturating_add(WEEK)));
        bench.pass(WEEK);
        assert!(reads(&bench) > 0, "{:?}", bench.waiting(SSD));
    }

    /// Content that fell to rot is found by the scrub, reported in a line, and counted.
    #[test]
    fn scrub_that_finds_a_bad_block_says_so() {
        let mut bench = planned_bench();
        pass_until(&mut bench, DELAY);
        // Pages of metadata are read first, and lie behind the slots.
        let metadata = bench.server.volume.view().layout.metadata.expect("a cache has metadata").first_sector;
        while reads(&bench) > 0 {
            match bench.waiting(SSD).first() {
                Some(command) if command.range.start.0 < metadata => bench.end(SSD, Status::MediaError),
                Some(_) => bench.end(SSD, Status::Done),
                None => bench.end(HDD, Status::Done),
            }
        }
        bench.run();
        let lines = bench.lines();
        let said = lines.iter().filter(|line| line.starts_with("a scrub has found bad blocks: 4 of 4")).count();
        assert_eq!(said, 1, "{lines:?}");
    }

    /// A server that is stopping begins no scrub, and the next server of the volume catches up.
    #[test]
    fn scrub_is_not_begun_by_a_server_that_stops() {
        let mut bench = planned_bench();
        bench.apply(Event::Signal);
        pass_until(&mut bench, DELAY);
        assert_eq!(reads(&bench), 0);
        assert_eq!((bench.server.scrub_in_progress(), bench.server.scrubs_deadline()), (None, None));
    }
}
