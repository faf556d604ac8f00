//! Scrubs on a schedule: one begins when the last has ended long enough ago, whoever wanted that
//! one, in this life of the server or before. It reads no faster than it may; the volume does it
//! ([`Volume::scrub`](bimetal_core::volume::Volume::scrub)).
//!
//! One that is interrupted, by the end of the server or a drive that went away, is none: it begins
//! anew.

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Scrub;

use super::Server;
use super::stop::Phase;
use crate::control::message::Progress;
use crate::member::create::seconds_since_1970;

/// How long a server has served at least before it scrubs, if it is due by then.
const DELAY: Nanoseconds = Nanoseconds::from_seconds(60);
/// When one that was interrupted begins anew, at the latest.
const AGAIN: Nanoseconds = Nanoseconds::from_seconds(3600);

/// When to scrub, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubPlan {
    /// How long after the end of one the next begins; none begins by itself where there is no such
    /// time.
    pub every: Option<Nanoseconds>,
    /// Bytes read in a second, at most.
    pub rate: Option<Bytes>,
}

/// The schedule. The last scrub itself stands in the [report](super::ledger).
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    /// When the next begins.
    next_at: Option<Nanoseconds>,
    /// When the last one began whose end was seen.
    seen: Option<Nanoseconds>,
}

impl Server {
    /// Plans the next scrub after the last one that the report knows.
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

    /// Begins a scrub that is due, and takes note of one that has ended; whether the volume has
    /// work to do for it.
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

    /// How far the scrub is that is under way.
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

    /// In how many seconds the next scrub begins, if one is planned.
    pub(super) fn next_scrub_s(&self) -> Option<f64> {
        Some(self.scrubs_deadline()?.saturating_sub(self.now).as_seconds_f64())
    }
}
