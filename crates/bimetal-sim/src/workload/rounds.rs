//! A workload that is played several times in a row. Each round begins one mean gap between
//! requests after the last arrival of the round before.
//!
//! A first pass over the workload finds the span of its times and the tick of their clock. Each
//! round then opens the workload anew, and moves its times by whole [periods](period). So no
//! requests are held in memory.

use bimetal_core::units::Nanoseconds;
use bimetal_trace::Request;

use super::{Requests, Workload, WorkloadError};
use crate::survey::{clock_of, common_divisor};

/// Returns the time from one round to the next of a workload: the span of its times, and a mean
/// gap.
pub fn period(span: Nanoseconds, requests: u64) -> Nanoseconds {
    Nanoseconds(span.0.saturating_add(span.0 / requests.max(1)))
}

/// Returns a request that arrives later.
pub(crate) fn postponed(request: Request, later: Nanoseconds) -> Request {
    Request { arrival: request.arrival.saturating_add(later), ..request }
}

/// A workload in several rounds; see the [module](self).
pub struct Rounds<'a> {
    workload: &'a dyn Workload,
    rounds: u64,
    period: Nanoseconds,
}

/// Longest time of all rounds: 100 years.
const SPAN_NS_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

impl<'a> Rounds<'a> {
    /// Returns `workload`, played `rounds` times. Rounds of a workload without times have no times
    /// either.
    ///
    /// # Errors
    /// Fails if the workload cannot be read, or if all rounds take longer than a simulation's clock
    /// counts.
    pub fn of(workload: &'a dyn Workload, rounds: u64) -> Result<Self, WorkloadError> {
        let (mut requests, mut first, mut span, mut step) = (0, None, Nanoseconds::ZERO, 0);
        if rounds > 1 {
            for request in workload.open()? {
                let arrival = request?.arrival;
                let since = arrival.saturating_sub(*first.get_or_insert(arrival));
                requests += 1;
                span = span.max(since);
                step = if step == 1 { 1 } else { common_divisor(step, since.0) };
            }
        }
        // A round keeps to the ticks of the clock that recorded the trace.
        let period = Nanoseconds(period(span, requests).0.next_multiple_of(clock_of(step, requests).0));
        if rounds > 1 && period.0.saturating_mul(rounds) > SPAN_NS_MAX {
            let most = (SPAN_NS_MAX / period.0).max(1);
            return Err(
                format!("--repeat {rounds}: all rounds take over 100 years: at most {most} are possible").into()
            );
        }
        Ok(Self { workload, rounds, period })
    }
}

impl Workload for Rounds<'_> {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        if self.rounds <= 1 {
            return self.workload.open_drawn(drawing);
        }
        // The period is that of drawing 0: rounds of another drawing might overlap.
        let first = self.workload.open()?;
        let round = move |number: u64| -> Requests<'_> {
            let later = Nanoseconds(self.period.0.saturating_mul(number));
            match self.workload.open() {
                Ok(requests) => Box::new(requests.map(move |request| request.map(|request| postponed(request, later)))),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        };
        Ok(Box::new(first.chain((1..self.rounds).flat_map(round))))
    }

    fn grid(&self) -> u64 {
        self.workload.grid()
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    fn at(times: &[u64]) -> Vec<Request> {
        let range = SectorRange::new(0, 8);
        let request = |&time: &u64| Request {
            arrival: Nanoseconds(time),
            device: 0,
            kind: OpKind::Read,
            fua: false,
            range,
            response: Some(Nanoseconds(7)),
        };
        times.iter().map(request).collect()
    }

    /// Regression: the clock of a simulation ended before the last round, and stopped the program.
    #[test]
    fn rounds_of_over_a_century_are_refused() {
        let requests = at(&[0, SPAN_NS_MAX / 10]);
        assert!(Rounds::of(&requests, 4).is_ok());
        let refused = Rounds::of(&requests, 1000).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("--repeat 1000") && refused.contains("at most 6 "), "{refused}");
    }

    fn arrivals(times: &[u64], rounds: u64) -> Vec<u64> {
        let requests = at(times);
        let rounds = Rounds::of(&requests, rounds).unwrap();
        let read: Vec<Request> = rounds.open().unwrap().map(Result::unwrap).collect();
        assert!(read.iter().all(|request| request.response == Some(Nanoseconds(7))));
        read.iter().map(|request| request.arrival.0).collect()
    }

    /// A span of 30 with 3 requests: the mean gap is 10.
    #[test]
    fn each_round_begins_a_mean_gap_after_the_last() {
        assert_eq!(arrivals(&[5, 10, 35], 1), [5, 10, 35]);
        assert_eq!(arrivals(&[5, 10, 35], 3), [5, 10, 35, 45, 50, 75, 85, 90, 115]);
    }

    #[test]
    fn rounds_keep_the_clock_and_the_lack_of_times() {
        // A span of 15,000 and a gap of 937, up to whole ticks of 1000.
        let ticks: Vec<u64> = (0..32).map(|tick| tick * 1000).collect();
        assert_eq!(arrivals(&ticks[..16], 2), ticks);
        assert_eq!(arrivals(&[0, 0], 2), [0; 4]);
        assert_eq!(arrivals(&[], 3), [0; 0]);
    }

    #[test]
    fn error_of_a_round_is_passed_on() {
        struct OpensOnce(std::sync::atomic::AtomicU32);
        impl Workload for OpensOnce {
            fn open_drawn(&self, _drawing: u64) -> Result<Requests<'_>, WorkloadError> {
                match self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                    0 | 1 => Ok(Box::new(at(&[1]).into_iter().map(Ok))),
                    _ => Err("the trace is gone".into()),
                }
            }

            fn grid(&self) -> u64 {
                0
            }
        }
        let workload = OpensOnce(0.into());
        let rounds = Rounds::of(&workload, 2).unwrap();
        let read: Vec<_> = rounds.open().unwrap().collect();
        assert!(read[0].is_ok() && read.len() == 2, "{read:?}");
        assert_eq!(read[1].as_ref().unwrap_err().to_string(), "the trace is gone");
    }
}
