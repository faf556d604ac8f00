//! When a run was behind its trace: a request waited for longer than any drive alone lets it.

use bimetal_core::units::Nanoseconds;

/// How long a request has waited when the run counts as behind.
pub const BEHIND_AFTER: Nanoseconds = Nanoseconds::from_seconds(1);

/// The times at which some request had waited for longer than [`BEHIND_AFTER`].
#[derive(Debug, Clone)]
pub struct Backlog {
    start: Nanoseconds,
    /// In order, none touching the next.
    behind: Vec<(Nanoseconds, Nanoseconds)>,
}

impl Backlog {
    /// Nothing is counted before `start`.
    pub fn new(start: Nanoseconds) -> Self {
        Self { start, behind: Vec::new() }
    }

    /// A request that arrived at `arrival` has finished at `now`, no earlier than the one before.
    #[inline]
    pub fn finished(&mut self, arrival: Nanoseconds, now: Nanoseconds) {
        let mut since = arrival.saturating_add(BEHIND_AFTER).max(self.start);
        if since >= now {
            return;
        }
        while let Some(&(first, _)) = self.behind.last().filter(|(_, end)| *end >= since) {
            since = since.min(first);
            self.behind.pop();
        }
        self.behind.push((since, now));
    }

    /// The share of the time until `end`; `None` when no time has passed.
    pub fn share(&self, end: Nanoseconds) -> Option<f64> {
        let behind: u64 = self.behind.iter().map(|(first, last)| (*last - *first).0).sum();
        let span = end.saturating_sub(self.start).0;
        (span > 0).then(|| behind as f64 / span as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn times_behind_are_counted_once_however_many_wait() {
        let mut backlog = Backlog::new(Nanoseconds(SECOND));
        let at = Nanoseconds::from_seconds;
        backlog.finished(at(1), at(2));
        assert_eq!(backlog.share(at(11)), Some(0.0), "a second is not longer than a second");
        backlog.finished(at(3), at(5));
        backlog.finished(at(6), at(8));
        assert_eq!(backlog.share(at(11)), Some(0.2));
        // Behind from 2.5 s on: takes both in, and the time between.
        backlog.finished(Nanoseconds(SECOND * 3 / 2), at(9));
        assert_eq!(backlog.share(at(11)), Some(0.65));
        backlog.finished(at(0), at(11));
        assert_eq!(backlog.share(at(11)), Some(1.0), "nothing before the start counts");
    }
}
