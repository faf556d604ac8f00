//! Limits on response times that end a run early. Once so many requests took too long that the
//! other requests cannot compensate, the remaining requests cannot change the result. A request
//! that has waited for longer than a limit allows counts before it finishes, because an overloaded
//! drive may not serve it for a long time.
//!
//! Limits are exact in one direction: a run that a limit ends would have broken the limit, if
//! measured to its end. A limit may apply to a part of the requests only, so that a run ends once
//! one part of the trace breaks it.

use std::ops::Range;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

/// Requests to which a limit applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Reads and writes.
    All,
    /// Reads.
    Reads,
    /// Writes.
    Writes,
}

impl Which {
    fn includes(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => self != Self::Writes,
            OpKind::Write | OpKind::WriteZeroes => self != Self::Reads,
            OpKind::Flush | OpKind::Discard | OpKind::Hint => false,
        }
    }
}

/// Figure that is limited.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// Mean response time.
    Mean,
    /// Response time that this share of the requests does not exceed; 1 stands for the longest
    /// response time.
    Quantile(f64),
}

/// Limits of a run, with their progress.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    watched: Vec<Watched>,
    /// Index of the first broken limit.
    broken: Option<usize>,
}

#[derive(Clone, Debug)]
struct Watched {
    which: Which,
    /// Numbers of the requests to which the limit applies.
    span: Range<u64>,
    limit: Nanoseconds,
    /// Name that the user gave the limit.
    name: String,
    /// Number of requests over the limit, or the sum of response times in nanoseconds.
    so_far: u128,
    /// Smallest value of `so_far` that breaks the limit.
    breaks_at: u128,
    sums: bool,
    /// For a mean: number of requests under way to which the limit applies, and the sum of their
    /// arrivals.
    under_way: (u128, u128),
    /// Number of the first request that is not known to be late.
    late_before: u64,
}

impl Watched {
    fn includes(&self, number: u64, kind: OpKind) -> bool {
        self.span.contains(&number) && self.which.includes(kind)
    }
}

/// Request under way, as seen by limits.
pub(crate) trait UnderWay {
    /// Returns the time at which the request arrived.
    fn arrival(&self) -> Nanoseconds;
    /// Returns the operation that the request asks for.
    fn kind(&self) -> OpKind;
    /// Returns true if the request is finished.
    fn is_done(&self) -> bool;
}

impl Limits {
    /// Adds a limit on `figure`, called `name`, for a run that will measure `requests` of the kind.
    pub fn add(&mut self, which: Which, figure: Figure, limit: Nanoseconds, requests: u64, name: String) {
        self.add_in(0..u64::MAX, which, figure, limit, requests, name);
    }

    /// Adds a limit as [`add`](Self::add) does, for the requests with the numbers in `span`. The
    /// first request of a run has the number 1.
    pub fn add_in(
        &mut self,
        span: Range<u64>,
        which: Which,
        figure: Figure,
        limit: Nanoseconds,
        requests: u64,
        name: String,
    ) {
        let (breaks_at, sums) = match figure {
            Figure::Mean => (u128::from(limit.0) * u128::from(requests) + 1, true),
            // One request more than necessary: rounding may decide which of two neighbours is the
            // quantile between them.
            Figure::Quantile(share) if share < 1.0 => {
                let within = (share * requests as f64).ceil() as u64;
                (u128::from(requests.saturating_sub(within)) + 2, false)
            }
            Figure::Quantile(_) => (1, false),
        };
        let (under_way, late_before) = ((0, 0), 0);
        self.watched.push(Watched { which, span, limit, name, so_far: 0, breaks_at, sums, under_way, late_before });
    }

    /// Counts request `number`, which will be measured.
    #[inline]
    pub(crate) fn begin(&mut self, number: u64, kind: OpKind, arrival: Nanoseconds) {
        for watched in self.watched.iter_mut().filter(|watched| watched.sums && watched.includes(number, kind)) {
            watched.under_way.0 += 1;
            watched.under_way.1 += u128::from(arrival.0);
        }
    }

    /// Counts the late requests at time `now` among `requests`. The requests are under way or done,
    /// in order of arrival, and the first of them has the number `first`. Requests up to number
    /// `unmeasured` do not count.
    pub(crate) fn look_at_late<'a, R: UnderWay + 'a>(
        &mut self,
        now: Nanoseconds,
        first: u64,
        unmeasured: u64,
        requests: impl Fn(usize) -> Option<&'a R>,
    ) {
        for (index, watched) in self.watched.iter_mut().enumerate() {
            // No request of the span is under way any more.
            if watched.span.end <= first {
                continue;
            }
            let waited = watched.under_way.0 * u128::from(now.0) - watched.under_way.1;
            let mut so_far = watched.so_far + waited;
            if !watched.sums {
                let mut number = watched.late_before.max(first).max(unmeasured + 1).max(watched.span.start);
                while number < watched.span.end
                    && let Some(request) = requests((number - first) as usize)
                    && request.arrival().saturating_add(watched.limit) < now
                {
                    watched.so_far += u128::from(!request.is_done() && watched.which.includes(request.kind()));
                    number += 1;
                }
                watched.late_before = number;
                so_far = watched.so_far;
            }
            if so_far >= watched.breaks_at {
                self.broken.get_or_insert(index);
            }
        }
    }

    /// Counts request `number`, which was measured.
    #[inline]
    pub(crate) fn record(&mut self, number: u64, kind: OpKind, arrival: Nanoseconds, response: Nanoseconds) {
        for (index, watched) in self.watched.iter_mut().enumerate() {
            if !watched.includes(number, kind) {
                continue;
            }
            if watched.sums {
                watched.so_far += u128::from(response.0);
                watched.under_way.0 -= 1;
                watched.under_way.1 -= u128::from(arrival.0);
            } else if number >= watched.late_before {
                watched.so_far += u128::from(response > watched.limit);
            }
            if watched.so_far >= watched.breaks_at {
                self.broken.get_or_insert(index);
            }
        }
    }

    /// Returns true if there are no limits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Returns the name of the broken limit; `None` if no limit is broken.
    #[inline]
    pub(crate) fn broken(&self) -> Option<String> {
        self.broken.map(|index| self.watched[index].name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(figure: Figure) -> Limits {
        let mut limits = Limits::default();
        limits.add(Which::Reads, figure, Nanoseconds(100), 1000, "the limit".to_owned());
        limits
    }

    /// Returns the number of reads of `response` that break the limit; writes do not count.
    fn reads_until_broken(mut limits: Limits, response: u64) -> Option<u64> {
        (1..=1000).find(|number| {
            limits.record(2 * number, OpKind::Write, Nanoseconds(0), Nanoseconds(1_000_000));
            limits.begin(2 * number + 1, OpKind::Read, Nanoseconds(0));
            limits.record(2 * number + 1, OpKind::Read, Nanoseconds(0), Nanoseconds(response));
            limits.broken().is_some()
        })
    }

    struct Read {
        arrival: u64,
        done: bool,
    }

    impl UnderWay for Read {
        fn arrival(&self) -> Nanoseconds {
            Nanoseconds(self.arrival)
        }
        fn kind(&self) -> OpKind {
            OpKind::Read
        }
        fn is_done(&self) -> bool {
            self.done
        }
    }

    #[test]
    fn what_waits_too_long_counts_once_and_before_it_is_finished() {
        // Requests 1 to 20 arrive at their numbers. The first four are not measured, and number 5
        // is done, so these do not count.
        let requests: Vec<Read> = (1..=20).map(|arrival| Read { arrival, done: arrival == 5 }).collect();
        let mut limits = limits(Figure::Quantile(0.99));
        limits.look_at_late(Nanoseconds(116), 1, 4, |at| requests.get(at));
        // Requests 6 to 15 have waited for more than 100.
        assert_eq!(limits.watched[0].so_far, 10);
        limits.record(6, OpKind::Read, Nanoseconds(6), Nanoseconds(200));
        limits.record(16, OpKind::Read, Nanoseconds(16), Nanoseconds(101));
        assert_eq!(limits.watched[0].so_far, 11);
        assert!(limits.broken().is_none());
        limits.look_at_late(Nanoseconds(118), 1, 4, |at| requests.get(at));
        assert!(limits.broken().is_some(), "number 17 is the twelfth");

        let mut mean = super::tests::limits(Figure::Mean);
        requests.iter().for_each(|request| mean.begin(request.arrival, OpKind::Read, request.arrival()));
        mean.look_at_late(Nanoseconds(4000), 1, 0, |at| requests.get(at));
        assert!(mean.broken().is_none(), "20 times less than 4000");
        mean.look_at_late(Nanoseconds(6000), 1, 0, |at| requests.get(at));
        assert!(mean.broken().is_some(), "20 times nearly 6000 is more than 100 000");
    }

    /// A percentile breaks once too many requests were too slow. A mean breaks once the sum of
    /// times is too large.
    #[test]
    fn limit_breaks_once_its_figure_is_certain_to_exceed() {
        // 990 of 1000 must be within: with 11 outside the limit is broken, and one more makes it
        // certain.
        assert_eq!(reads_until_broken(limits(Figure::Quantile(0.99)), 101), Some(12));
        assert_eq!(reads_until_broken(limits(Figure::Quantile(0.99)), 100), None);
        assert_eq!(reads_until_broken(limits(Figure::Quantile(1.0)), 101), Some(1));
        // The sum may be 100 000 ns.
        assert_eq!(reads_until_broken(limits(Figure::Mean), 1000), Some(101));
        assert_eq!(reads_until_broken(limits(Figure::Mean), 100), None);
    }
}
