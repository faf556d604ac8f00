//! The pace of moves: the rate at which moves write home, the memory of a move, and the time of its
//! last turn.

use crate::settings::{MOVE_MEMORY, MOVE_RATE, Rate, Settings};
use crate::units::{Bytes, Nanoseconds};

/// Content that a migration of a log has in memory at once, where that is enough.
pub(in crate::volume) const LOG_BATCH: Bytes = Bytes::from_mib(64);

/// Appends in a second from which on appends are a burst. A disk writes in order two to five times
/// as fast.
const BURST_RATE: Bytes = Bytes::from_mib(48);
/// Bytes appended faster than [`BURST_RATE`] that make a burst.
const BURST_MIN: Bytes = Bytes::from_mib(1);
/// Bytes of a burst that count: a burst is over 21 ms after its last append.
const BURST_MAX: Bytes = Bytes::from_mib(2);

/// Limits of a move's write rate and memory.
#[derive(Default)]
pub(in crate::volume) struct Pace {
    /// Bytes that moves may write home in a second; `None` for no limit.
    rate: Option<Bytes>,
    /// Memory that a batch may take if it must be large.
    memory: Bytes,
    /// Time from which the next write home may begin.
    next_at: Nanoseconds,
    /// Time at which a move last began, or last began to use the drive of a log.
    last_turn: Nanoseconds,
    /// Time at which an append to a log last ended.
    last_append: Nanoseconds,
    /// Bytes appended up to that time, less [`BURST_RATE`] for the time that passed: at most
    /// [`BURST_MAX`].
    burst: Bytes,
}

impl Pace {
    /// Takes the rate and memory from the settings.
    pub(in crate::volume) fn take(&mut self, settings: &Settings) {
        self.rate = settings.declared(MOVE_RATE.name).flatten().map(|Rate(rate)| rate);
        self.memory = settings.declared(MOVE_MEMORY.name).unwrap_or(LOG_BATCH);
        self.next_at = Nanoseconds::ZERO;
    }

    /// Delays the next write for `bytes` written at `now`, as the rate requires.
    pub(in crate::volume) fn wrote(&mut self, now: Nanoseconds, bytes: Bytes) {
        if let Some(rate) = self.rate {
            let takes = u128::from(bytes.0) * 1_000_000_000 / u128::from(rate.0.max(1));
            self.next_at = self.next_at.max(now).saturating_add(Nanoseconds(takes as u64));
        }
    }

    /// Returns the time from which the next write home may begin.
    #[inline]
    pub(in crate::volume) fn next_at(&self) -> Nanoseconds {
        self.next_at
    }

    /// Returns the memory that a batch may take if it must be large.
    pub(in crate::volume) fn memory(&self) -> Bytes {
        self.memory
    }

    /// Notes that a move begins to use the drive with the slots.
    pub(in crate::volume) fn take_turn(&mut self, now: Nanoseconds) {
        self.last_turn = now;
    }

    /// Notes that an append of `bytes` to a log ended.
    pub(in crate::volume) fn appended(&mut self, now: Nanoseconds, bytes: Bytes) {
        let passed = now.0.saturating_sub(self.last_append.0);
        let drained = u128::from(passed) * u128::from(BURST_RATE.0) / 1_000_000_000;
        let drained = u64::try_from(drained).unwrap_or(u64::MAX);
        self.burst = Bytes((self.burst.0.saturating_sub(drained) + bytes.0).min(BURST_MAX.0));
        self.last_append = now;
    }

    /// Returns the time from which on appends are no burst, if none follows.
    pub(in crate::volume) fn burst_ends(&self) -> Nanoseconds {
        let above = self.burst.0.saturating_sub(BURST_MIN.0);
        self.last_append.saturating_add(Nanoseconds(above * 1_000_000_000 / BURST_RATE.0))
    }

    /// Returns the time at which a move last began, or last began to use the drive of a log.
    pub(in crate::volume) fn last_turn(&self) -> Nanoseconds {
        self.last_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_spaces_the_writes_of_a_move() {
        let second = Nanoseconds::from_seconds(1);
        let mut pace = Pace { rate: Some(Bytes::from_mib(2)), ..Pace::default() };
        pace.wrote(second, Bytes::from_mib(1));
        assert_eq!(pace.next_at(), Nanoseconds::from_millis(1500));
        pace.wrote(second, Bytes::from_mib(1));
        assert_eq!(pace.next_at(), Nanoseconds::from_millis(2000), "writes begun together take their time in turn");
        pace.wrote(Nanoseconds::from_seconds(9), Bytes::from_mib(2));
        assert_eq!(pace.next_at(), Nanoseconds::from_seconds(10), "a rest is not made up for");
        let mut free = Pace::default();
        free.wrote(second, Bytes::from_mib(64));
        assert_eq!(free.next_at(), Nanoseconds::ZERO);
    }

    #[test]
    fn burst_begins_above_its_rate_and_ends_soon_after() {
        let mut pace = Pace::default();
        let mut append = |ms: u64, kib: u64| {
            let now = Nanoseconds::from_millis(ms);
            pace.appended(now, Bytes::from_kib(kib));
            pace.burst_ends().saturating_sub(now).0 / 1_000_000
        };
        let slow: Vec<u64> = (0..1000).map(|number| append(1000 + 10 * number, 480)).collect();
        assert!(slow.iter().all(|&left| left == 0), "47 MiB a second are no burst");
        let fast: Vec<u64> = (0..100).map(|number| append(20_000 + number, 160)).collect();
        assert_eq!((fast[8], fast[20] > 0, fast[99]), (0, true, 20), "160 MiB a second are");
        assert_eq!(append(20_500, 4), 0);
    }
}
