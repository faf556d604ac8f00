//! Requests of one second, spread over that second. A trace that was recorded in whole seconds has
//! many requests at the same time. If such a trace is played without a change, it measures queues
//! that the recorded machine never had.
//!
//! Real requests come in bursts, and nothing in the trace tells the strength of the bursts. So the
//! first drawing has no bursts, and each further drawing has bursts of its own strength. The
//! difference between the drawings shows how much a figure depends on the bursts. The bursts are
//! those of the b-model (Wang et al., ICDE 2002): one half of each stretch of time has a share `b`
//! of the requests of the stretch, and so do the halves of the halves. A `b` of 0.5 is a Poisson
//! process. Each further drawing has a `b` between 0.5 and 0.8, our choice.

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
    /// At random times: in drawing 0 as in a Poisson process, in other drawings in bursts.
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
        Within::Random { seed, drawing } => Some(Times::of(generator(seed, drawing), drawing > 0)),
    };
    Box::new(Seconds { requests, next: None, second: Vec::new().into_iter(), random })
}

/// Iterator over the requests, one second after the other.
struct Seconds<'a> {
    requests: Requests<'a>,
    /// First request of the next second of the trace.
    next: Option<Result<Request, WorkloadError>>,
    second: std::vec::IntoIter<Request>,
    random: Option<Times>,
}

/// Random times within a second.
struct Times {
    random: Pcg64Mcg,
    /// Share of the requests of a stretch of time that the busier half has, of 2^32; `None` without
    /// bursts.
    busier: Option<u64>,
}

/// Half of the range of random numbers of 32 bits.
const HALF: u64 = 1 << 31;

/// Length of a stretch of time within which times are equally likely.
const SHORTEST: u64 = 1000;

impl Times {
    /// Returns times of one strength of bursts, which is drawn first.
    fn of(mut random: Pcg64Mcg, is_bursty: bool) -> Self {
        // From 0.5 to 0.8.
        let busier = is_bursty.then(|| HALF + u64::from(random.next_u32()) * 3 / 10);
        Self { random, busier }
    }

    /// Returns `count` times within a second, in no order.
    fn draw(&mut self, count: u64) -> Vec<u64> {
        let mut times = Vec::with_capacity(count as usize);
        self.fill(count, 0..SECOND.0, &mut times);
        times
    }

    fn fill(&mut self, count: u64, stretch: std::ops::Range<u64>, times: &mut Vec<u64>) {
        let (start, length) = (stretch.start, stretch.end - stretch.start);
        let Some(busier) = self.busier.filter(|_| count > 1 && length > SHORTEST) else {
            times.extend((0..count).map(|_| start + self.random.next_u64() % length));
            return;
        };
        let is_first_busier = u64::from(self.random.next_u32()) < HALF;
        let of_busier = (0..count).filter(|_| u64::from(self.random.next_u32()) < busier).count() as u64;
        let first = if is_first_busier { of_busier } else { count - of_busier };
        let middle = start + length / 2;
        self.fill(first, start..middle, times);
        self.fill(count - first, middle..stretch.end, times);
    }
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
            Some(times) => times.draw(count),
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

    /// Returns the share of 1,000 times of a second that lie in its ten busiest hundredths.
    fn in_busiest_hundredths(drawing: u64) -> f64 {
        let mut hundredths = [0; 100];
        let mut times = Times::of(generator(1, drawing), drawing > 0);
        times.draw(1000).into_iter().for_each(|time| hundredths[(time / (SECOND.0 / 100)) as usize] += 1);
        hundredths.sort_unstable();
        f64::from(hundredths[90..].iter().sum::<i32>()) / 1000.0
    }

    /// Without bursts the busiest tenth of a second has a sixth of the requests, by chance.
    #[test]
    fn only_the_first_drawing_has_no_bursts() {
        assert!((0.13..0.2).contains(&in_busiest_hundredths(0)), "{}", in_busiest_hundredths(0));
        let shares: Vec<f64> = (1..20).map(in_busiest_hundredths).collect();
        let least = shares.iter().copied().fold(1.0, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        assert!(least < 0.3 && most > 0.6 && most < 0.95, "{shares:?}");
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
