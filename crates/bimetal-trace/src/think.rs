//! Think times: the dependencies of requests that a recording shows, for a replay in which a host
//! waits for answers as the recorded host did.
//!
//! A recording has the arrival of each request, and in many formats its response time. A request
//! depends on the requests that were complete when it arrived. The think time of a request is the
//! host's own time before it: the time from the latest of these completions, or from the arrival
//! before it if that was later, to its arrival. A request is due its think time after the replay
//! has finished the last request on which it depends, and has issued the request before it. The
//! data flow so, for each request in order of arrival:
//!
//! 1. [`expect`](Dependencies::expect) takes the arrival. Recorded completions up to this time
//!    leave the heap of future completions, and the request depends on their requests.
//! 2. [`finish`](Dependencies::finish) takes the completions of the replay. The latest completion
//!    of the requests on which the next request depends is kept. If a request is faster in the
//!    replay than in the recording, its completion in the replay is kept until its recorded
//!    completion is passed, too.
//! 3. [`due`](Dependencies::due) returns `None` while a request on which the next request depends
//!    is under way, and then the time at which the next request is due. A request never overtakes
//!    an earlier request.
//! 4. [`issue`](Dependencies::issue) puts the request's own recorded completion on the heap.
//!
//! The think time also counts from the request before. So requests that all wait for one late
//! request are issued with the distances that they had, and not in one burst that no host made.
//!
//! Requests that overlap in the recording overlap in the replay, because neither request waits for
//! the other. If each request takes as long as in the recording, each request is issued at its
//! recorded time.
//!
//! A request without a response time counts as a request that was answered at once: the next later
//! request waits for it, and the whole gap between the two arrivals is think time. The host's own
//! time is then too long by the response that nobody recorded. No shorter time is certain, and no
//! request is issued before a request on which it may depend. Requests with equal arrivals never
//! wait for each other.
//!
//! Memory holds the requests under way in the recording, and those under way in the replay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use bimetal_core::units::Nanoseconds;

use crate::Request;

/// Dependencies of the next request of a replay; see the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// Recorded completions after the arrival that was expected last, with the request's number.
    recorded: BinaryHeap<Reverse<(Nanoseconds, u64)>>,
    /// Requests that the replay has finished, and whose recorded completions are still in the
    /// future.
    early: BTreeMap<u64, Nanoseconds>,
    /// Requests under way in the replay that the expected request depends on.
    awaited: BTreeSet<u64>,
    /// Latest completion, in the replay, of a request on which the expected request depends.
    ready: Nanoseconds,
    /// Latest completion, in the recording, of a request on which the expected request depends.
    complete: Nanoseconds,
    /// Time at which the replay issued the last request, and the recorded arrival of that request.
    last: (Nanoseconds, Nanoseconds),
    /// Think time of the expected request.
    think: Nanoseconds,
    /// Number of requests issued.
    issued: u64,
}

impl Dependencies {
    /// Creates the dependencies of a replay that begins at this time.
    pub fn new(start: Nanoseconds) -> Self {
        Self { ready: start, last: (start, Nanoseconds::ZERO), ..Self::default() }
    }

    /// Takes the recorded arrival of the next request. Arrivals never go back in time.
    pub fn expect(&mut self, arrival: Nanoseconds) {
        while let Some(&Reverse((complete, number))) = self.recorded.peek().filter(|Reverse((at, _))| *at <= arrival) {
            self.recorded.pop();
            self.complete = complete;
            match self.early.remove(&number) {
                Some(at) => self.ready = self.ready.max(at),
                None => _ = self.awaited.insert(number),
            }
        }
        let (_, before) = self.last;
        self.think = arrival.saturating_sub(self.complete.max(before));
    }

    /// Returns the time of the replay at which the expected request is due, with think times
    /// divided by `speedup`; `None` as long as a request that it depends on is under way.
    pub fn due(&self, speedup: f64) -> Option<Nanoseconds> {
        let (issued, _) = self.last;
        self.awaited.is_empty().then(|| self.ready.max(issued).saturating_add(faster(self.think, speedup)))
    }

    /// Takes the expected request, which is issued at the time `at` of the replay, and returns its
    /// number, from 1.
    pub fn issue(&mut self, request: &Request, at: Nanoseconds) -> u64 {
        self.issued += 1;
        self.last = (at, request.arrival);
        // A request without a duration would be complete before one that arrives with it.
        let took = request.response.unwrap_or_default().max(Nanoseconds(1));
        self.recorded.push(Reverse((request.arrival.saturating_add(took), self.issued)));
        self.issued
    }

    /// Takes the time at which the replay finished a request.
    pub fn finish(&mut self, number: u64, at: Nanoseconds) {
        if self.awaited.remove(&number) {
            self.ready = self.ready.max(at);
        } else {
            self.early.insert(number, at);
        }
    }

    /// Returns true if a request with this arrival depends on no other requests than the request
    /// that was expected last, so that only think time separates the two requests.
    pub fn go_on_until(&self, arrival: Nanoseconds) -> bool {
        self.recorded.peek().is_none_or(|Reverse((complete, _))| *complete > arrival)
    }
}

/// Returns a time of a recording that is played faster, by the factor `speedup`.
pub fn faster(time: Nanoseconds, speedup: f64) -> Nanoseconds {
    if speedup == 1.0 { time } else { Nanoseconds((time.0 as f64 / speedup).round() as u64) }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;
    use proptest::prelude::*;

    use super::*;

    fn request(arrival: u64, response: Option<u64>) -> Request {
        let (kind, range) = (OpKind::Read, SectorRange::new(0, 8));
        let (arrival, response) = (Nanoseconds(arrival), response.map(Nanoseconds));
        Request { arrival, device: 0, kind, fua: false, range, response }
    }

    /// Plays requests, each given as arrival, recorded response and response in the replay, and
    /// returns the times of issue. The second figure is the largest number of requests held.
    fn issues(requests: &[(u64, Option<u64>, u64)], speedup: f64) -> (Vec<u64>, usize) {
        let mut dependencies = Dependencies::new(Nanoseconds::ZERO);
        let mut under_way: BTreeSet<(u64, u64)> = BTreeSet::new();
        let (mut now, mut issues, mut held) = (0, Vec::new(), 0);
        for &(arrival, recorded, takes) in requests {
            dependencies.expect(Nanoseconds(arrival));
            now = loop {
                let due = dependencies.due(speedup);
                let first = under_way.first().copied().filter(|(end, _)| due.is_none_or(|due| *end <= due.0.max(now)));
                match (first, due) {
                    (Some((end, number)), _) => {
                        under_way.remove(&(end, number));
                        dependencies.finish(number, Nanoseconds(end));
                        now = now.max(end);
                    }
                    (None, due) => break due.expect("what is awaited is under way").0.max(now),
                }
            };
            let number = dependencies.issue(&request(arrival, recorded), Nanoseconds(now));
            under_way.insert((now + takes, number));
            issues.push(now);
            held = held.max(dependencies.recorded.len() + dependencies.early.len() + dependencies.awaited.len());
        }
        (issues, held)
    }

    /// Two requests overlap from 10 to 30; the third request comes 70 after the end of the second,
    /// and the fourth 5 after the end of the third.
    #[test]
    fn request_waits_for_what_was_complete_and_then_thinks() {
        let recorded = |takes: [u64; 4]| {
            let of = [(0, 30), (10, 20), (100, 40), (145, 1)];
            std::iter::zip(of, takes).map(|((at, response), takes)| (at, Some(response), takes)).collect::<Vec<_>>()
        };
        assert_eq!(issues(&recorded([30, 20, 40, 1]), 1.0).0, [0, 10, 100, 145]);
        // Slower: the second still overlaps the first, which ends last, at 300.
        assert_eq!(issues(&recorded([300, 200, 400, 1]), 1.0).0, [0, 10, 370, 775]);
        // Faster: the second ends last, at 12.
        assert_eq!(issues(&recorded([3, 2, 4, 1]), 1.0).0, [0, 10, 82, 91]);
        // Think times of 10, 70 and 5, divided by 10.
        assert_eq!(issues(&recorded([300, 200, 400, 1]), 10.0).0, [0, 1, 307, 708]);
    }

    #[test]
    fn without_responses_one_request_is_under_way_at_a_time() {
        let requests = [(0, None, 50), (10, None, 50), (10, None, 80), (30, Some(0), 7), (31, None, 1)];
        // The two of time 10 overlap; the gap of 20 counts from the end of the slower one, and the
        // gaps from the unknown answers are a nanosecond short.
        assert_eq!(issues(&requests, 1.0).0, [0, 59, 59, 158, 165]);
    }

    /// The third request thinks for 90 after the first, and the fourth comes at the end of the
    /// second, which the replay finishes long before: the fourth must not overtake the third.
    #[test]
    fn no_request_overtakes_an_earlier_one() {
        let requests = [(0, Some(10), 50), (0, Some(101), 20), (100, Some(5), 5), (101, Some(5), 5)];
        assert_eq!(issues(&requests, 1.0).0, [0, 0, 140, 140]);
    }

    /// Three requests each came 5 after an answer, and 10 after each other. The replay answers the
    /// first request last. Regression: the three requests were issued at once, at 505, in a burst
    /// that the host never made.
    #[test]
    fn requests_behind_a_late_one_keep_their_distances() {
        let first = [(0, Some(100), 500), (50, Some(60), 30), (50, Some(70), 30), (50, Some(80), 30)];
        let then = [105, 115, 125].map(|at| (at, Some(400), 400));
        assert_eq!(issues(&[&first[..], &then].concat(), 1.0).0, [0, 50, 50, 50, 505, 510, 515]);
    }

    proptest! {
        /// On a drive as fast as the recorded drive, the replay equals the recording.
        #[test]
        fn drive_as_fast_as_recorded_gives_the_arrivals_back(
            steps in prop::collection::vec((0u64..100, 1u64..400), 1..200),
        ) {
            let mut arrival = 0;
            let requests: Vec<_> = steps.iter().map(|&(gap, response)| {
                arrival += gap;
                (arrival, Some(response), response)
            }).collect();
            let arrivals: Vec<u64> = requests.iter().map(|(arrival, ..)| *arrival).collect();
            prop_assert_eq!(issues(&requests, 1.0).0, arrivals);
        }

        /// Memory depends on the requests under way, not on the length of the trace.
        #[test]
        fn what_is_held_is_bounded_by_what_is_under_way(
            depth in 1u64..20, factor in 1u64..30, count in 100u64..2000,
        ) {
            let requests: Vec<_> = (0..count).map(|at| (at * 100, Some(depth * 100 - 1), depth * 10 * factor)).collect();
            prop_assert!(issues(&requests, 1.0).1 as u64 <= 2 * depth + 2);
        }
    }
}
