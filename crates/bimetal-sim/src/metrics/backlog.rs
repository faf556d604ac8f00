//! Times at which a run was behind its trace. A run is behind while a request has waited for longer
//! than any drive alone would need for the request.

use bimetal_core::units::Nanoseconds;

/// Wait of a request after which the run counts as behind.
pub const BEHIND_AFTER: Nanoseconds = Nanoseconds::from_seconds(1);

/// Times at which any request had waited for longer than [`BEHIND_AFTER`].
#[derive(Debug, Clone)]
pub struct Backlog {
    start: Nanoseconds,
    /// Periods behind the trace in order, which are not adjacent.
    behind: Vec<(Nanoseconds, Nanoseconds)>,
}

impl Backlog {
    /// Creates a recorder that counts nothing before `start`.
    pub fn new(start: Nanoseconds) -> Self {
        Self { start, behind: Vec::new() }
    }

    /// Records a request that arrived at `arrival` and finished at `now`, no earlier than the
    /// previous request.
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

    /// Returns the time from the start until the run was behind for the first time.
    pub fn first(&self) -> Option<Nanoseconds> {
        self.behind.first().map(|(first, _)| first.saturating_sub(self.start))
    }

    /// Returns the share of the time until `end`; `None` if no time has passed.
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
        assert_eq!((backlog.share(at(11)), backlog.first()), (Some(0.0), None), "a second is not longer than a second");
        backlog.finished(at(3), at(5));
        assert_eq!(backlog.first(), Some(at(3)), "from second 4 on, and it began at second 1");
        backlog.finished(at(6), at(8));
        assert_eq!(backlog.share(at(11)), Some(0.2));
        // The run is behind from 2.5 s on, which includes both periods and the time between.
        backlog.finished(Nanoseconds(SECOND * 3 / 2), at(9));
        assert_eq!(backlog.share(at(11)), Some(0.65));
        backlog.finished(at(0), at(11));
        assert_eq!(backlog.share(at(11)), Some(1.0), "nothing before the start counts");
    }
}
