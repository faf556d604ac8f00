//! Requests of one second, spread over that second. A trace that was recorded in whole seconds has
//! many requests at the same time. If such a trace is played without a change, it measures queues
//! that the recorded machine never had.

use bimetal_core::units::Nanoseconds;
use bimetal_trace::Request;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::{Requests, WorkloadError};

/// Choice of the times within a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// At equal distances.
    Equal,
    /// At random times, as in a Poisson process.
    Random {
        /// Seed of the random numbers.
        seed: u64,
        /// Number of the drawing.
        drawing: u64,
    },
}

impl Within {
    /// Returns the times of another drawing. Equal distances are drawn from nothing.
    pub fn drawn(self, drawing: u64) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::Random { seed, .. } => Self::Random { seed, drawing },
        }
    }
}

/// Returns the generator with the number `drawing` of this seed. The first numbers of generators
/// with similar seeds are similar, so they are passed over.
pub(crate) fn generator(seed: u64, drawing: u64) -> Pcg64Mcg {
    let mut random = Pcg64Mcg::new(u128::from(seed) << 64 ^ u128::from(drawing) << 1 | 1);
    (0..8).for_each(|_| _ = random.next_u64());
    random
}

/// Spreads the requests that have the same time over the second that begins at this time.
pub fn spread(requests: Requests<'_>, within: Within) -> Requests<'_> {
    let random = match within {
        Within::Equal => None,
        Within::Random { seed, drawing } => Some(generator(seed, drawing)),
    };
    Box::new(Seconds { requests, next: None, second: Vec::new().into_iter(), random })
}

/// Iterator over the requests, one second after the other.
struct Seconds<'a> {
    requests: Requests<'a>,
    /// First request of the next second of the trace.
    next: Option<Result<Request, WorkloadError>>,
    second: std::vec::IntoIter<Request>,
    random: Option<Pcg64Mcg>,
}

const SECOND: Nanoseconds = Nanoseconds::from_seconds(1);

impl Seconds<'_> {
    /// Reads the requests that have the time of the next request, and gives each its own time.
    fn read_second(&mut self) -> Option<Result<(), WorkloadError>> {
        let first = match self.next.take().or_else(|| self.requests.next())? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let mut second = vec![first];
        for request in self.requests.by_ref() {
            match request {
                Ok(request) if request.arrival == first.arrival => second.push(request),
                other => {
                    self.next = Some(other);
                    break;
                }
            }
        }
        let count = second.len() as u64;
        let mut offsets: Vec<u64> = match &mut self.random {
            None => (0..count).map(|at| (u128::from(at) * u128::from(SECOND.0) / u128::from(count)) as u64).collect(),
            Some(random) => (0..count).map(|_| random.next_u64() % SECOND.0).collect(),
        };
        offsets.sort_unstable();
        for (request, offset) in second.iter_mut().zip(offsets) {
            request.arrival = request.arrival.saturating_add(Nanoseconds(offset));
        }
        self.second = second.into_iter();
        Some(Ok(()))
    }
}

impl Iterator for Seconds<'_> {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.second.as_slice().is_empty()
            && let Err(error) = self.read_second()?
        {
            return Some(Err(error));
        }
        self.second.next().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workload;
    use super::*;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    fn workload() -> Vec<Request> {
        let request = |(number, second): (u64, u64)| Request {
            arrival: Nanoseconds::from_seconds(second),
            device: 0,
            kind: OpKind::Read,
            fua: false,
            range: SectorRange::new(number * 8, 8),
            response: None,
        };
        (0..).zip([3, 3, 3, 3, 4, 9, 9]).map(request).collect()
    }

    fn arrivals(within: Within) -> Vec<(u64, u64)> {
        let workload = workload();
        let requests = spread(workload.open().unwrap(), within);
        let read = |request: Result<Request, _>| request.unwrap();
        requests.map(read).map(|request| (request.range.start.0 / 8, request.arrival.0 / 1_000_000)).collect()
    }

    #[test]
    fn requests_of_one_second_get_equal_distances() {
        let expected = [(0, 3000), (1, 3250), (2, 3500), (3, 3750), (4, 4000), (5, 9000), (6, 9500)];
        assert_eq!(arrivals(Within::Equal), expected);
    }

    #[test]
    fn random_times_stay_in_their_second_and_in_order() {
        let random = |seed, drawing| arrivals(Within::Random { seed, drawing: 0 }.drawn(drawing));
        let (one, other, drawn) = (random(2, 0), random(3, 0), random(2, 1));
        assert!(one != other && one != drawn && other != drawn);
        assert_eq!(one, random(2, 0));
        for times in [one, other, drawn] {
            assert!(times.is_sorted_by_key(|&(_, ms)| ms), "{times:?}");
            let seconds: Vec<u64> = times.iter().map(|&(_, ms)| ms / 1000).collect();
            assert_eq!(seconds, [3, 3, 3, 3, 4, 9, 9]);
        }
    }
}
