//! The pace of moves: the rate at which moves write home, the memory of a move, and the time of its
//! last turn.

use crate::settings::{MOVE_MEMORY, MOVE_RATE, Rate, Settings};
use crate::units::{Bytes, Nanoseconds};

/// Content that a migration of a log has in memory at once, where that is enough.
pub(in crate::volume) const LOG_BATCH: Bytes = Bytes::from_mib(64);

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
}
