//! Scrubs on a schedule: a scrub begins a given time after the end of the last one. This holds even
//! if the last one was requested, or ran in an earlier server. The rate of scrubs is limited. The
//! volume does the work ([`Volume::scrub`](bimetal_core::volume::Volume::scrub)).
//!
//! A scrub that is interrupted, by the end of the server or a missing drive, does not count: it
//! begins anew.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Scrub;

use super::Server;
use super::stop::Phase;
use crate::control::message::Progress;
use crate::member::create::seconds_since_1970;

/// Minimum time between the start of the server and a scrub that is overdue.
const DELAY: Nanoseconds = Nanoseconds::from_seconds(60);
/// Maximum time after which an interrupted scrub begins anew.
const AGAIN: Nanoseconds = Nanoseconds::from_seconds(3600);

/// Schedule and rate of scrubs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubPlan {
    /// Time between the end of a scrub and the next one; `None` for no scheduled scrubs.
    pub every: Option<Nanoseconds>,
    /// Maximum of bytes read in a second.
    pub rate: Option<Bytes>,
}

/// State of the schedule. The last scrub itself is in the [report](super::ledger).
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// Time at which the next scrub begins.
    next_at: Option<Nanoseconds>,
    /// Start of the last scrub whose end was recorded.
    seen: Option<Nanoseconds>,
}

impl Server {
    /// Plans the next scrub after the last one in the report.
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
        let ended = self.volume.scrub_progress().filter(|scrub| scrub.finished);
        if let Some(scrub) = ended.filter(|scrub| self.control.scrubs.seen != Some(scrub.began)).cloned() {
            self.note_scrub(&scrub);
        }
        if self.scrubs_deadline().is_none_or(|at| at > self.now) {
            return false;
        }
        self.control.scrubs.next_at = None;
        self.volume.scrub(self.now, self.options.scrub.rate);
        true
    }

    fn note_scrub(&mut self, scrub: &Scrub) {
        self.control.scrubs.seen = Some(scrub.began);
        let every = self.options.scrub.every;
        if scrub.interrupted {
            self.control.scrubs.next_at = every.map(|every| self.now.saturating_add(every.min(AGAIN)));
            return;
        }
        self.control.scrubs.next_at = every.map(|every| self.now.saturating_add(every));
        self.take_troubles();
        if scrub.bad_blocks > 0 {
            let Scrub { blocks_read, bad_blocks, lost_blocks, .. } = scrub;
            let line = format!(
                "a scrub has found bad blocks: {bad_blocks} of {blocks_read}, and of {lost_blocks} there is no good copy \
                 (`bimetal check --scrub` lists them)"
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
