//! Times at which copies may be made in the background because the drive with the originals is
//! idle.

use crate::layout::MemberId;
use crate::scheme::View;
use crate::units::Nanoseconds;

/// Pause after a fetch that made no copy, because its blocks were being changed or a drive failed.
/// Each further pause is twice the pause before, up to `PAUSE_MAX`.
const PAUSE: Nanoseconds = Nanoseconds::from_millis(1);
const PAUSE_MAX: Nanoseconds = Nanoseconds::from_seconds(60);

/// Times of fetches: one run of blocks at a time, while home is idle.
pub(crate) struct IdleFetch {
    /// Member that has the originals.
    pub(crate) home: MemberId,
    /// Time without requests after which `home` counts as idle.
    pub(crate) idle: Nanoseconds,
    not_before: Nanoseconds,
    pause: Nanoseconds,
}

impl IdleFetch {
    /// Returns the schedule for `home`, which counts as idle if it had no request for the time
    /// `idle`.
    pub(crate) fn new(home: MemberId, idle: Nanoseconds) -> Self {
        Self { home, idle, not_before: Nanoseconds::ZERO, pause: PAUSE }
    }

    /// Returns the time at which the next run may be fetched, provided that `reserve` slots stay
    /// free.
    pub(crate) fn due_at(&self, view: &View, reserve: u64) -> Option<Nanoseconds> {
        Some(view.fetch_at(self.home, self.idle, reserve + 1)?.max(self.not_before))
    }

    /// Notes that a fetch begins.
    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        self.not_before = now.saturating_add(self.pause);
        self.pause = Nanoseconds(self.pause.0 * 2).min(PAUSE_MAX);
    }

    /// Notes that a copy was made.
    pub(crate) fn copied(&mut self) {
        self.pause = PAUSE;
    }
}
