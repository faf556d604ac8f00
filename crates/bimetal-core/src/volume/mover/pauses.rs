//! Pauses after moves that could not move everything. Without a pause the scheme would ask at once
//! for the same move, although home may be gone for good.

use crate::units::Nanoseconds;

/// Half the pause after the first incomplete move. The pause doubles with each further incomplete
/// move.
const UNIT: Nanoseconds = Nanoseconds::from_millis(10);
/// Incomplete moves in a row after which the pause no longer doubles.
const DOUBLED_MAX: u32 = 10;

/// The incomplete moves in a row, and the pause after the last.
#[derive(Default)]
pub(in crate::volume) struct Pauses {
    until: Option<Nanoseconds>,
    failures: u32,
}

impl Pauses {
    /// Notes an incomplete move that ended at `now`. The pause is at least `least`.
    pub(in crate::volume) fn move_failed(&mut self, now: Nanoseconds, least: Nanoseconds) {
        self.failures += 1;
        let pause = Nanoseconds(UNIT.0 << self.failures.min(DOUBLED_MAX));
        self.until = Some(now + pause.max(least));
    }

    /// Forgets the failures, because the next move may succeed. A pause that has begun goes on.
    pub(in crate::volume) fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Ends the pause.
    pub(in crate::volume) fn end(&mut self) {
        self.until = None;
    }

    /// Returns the time from which the next move may begin; `None` outside a pause.
    pub(in crate::volume) fn until(&self) -> Option<Nanoseconds> {
        self.until
    }

    /// Returns true during a pause.
    pub(in crate::volume) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Returns the number of incomplete moves in a row.
    pub(in crate::volume) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_ten_seconds() {
        let mut pauses = Pauses::default();
        let mut next = || {
            pauses.move_failed(Nanoseconds::ZERO, Nanoseconds::ZERO);
            pauses.until().map(|until| until.0 / 1_000_000)
        };
        let lengths: Vec<_> = (0..13).filter_map(|_| next()).collect();
        assert_eq!(lengths, [20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 10240, 10240, 10240]);
    }

    #[test]
    fn pause_has_a_least_length_and_ends_when_asked() {
        let mut pauses = Pauses::default();
        let second = Nanoseconds::from_seconds(1);
        pauses.move_failed(second, second);
        assert_eq!((pauses.until(), pauses.failures()), (Some(second + second), 1));
        pauses.forget_failures();
        assert!(pauses.is_on());
        pauses.end();
        assert_eq!((pauses.until(), pauses.failures()), (None, 0));
    }
}
