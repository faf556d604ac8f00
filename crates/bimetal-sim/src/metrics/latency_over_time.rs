//! Response times over the time of the run: a mean and a 99th percentile for each bucket of time.

use bimetal_core::units::Nanoseconds;

use super::buckets::{Bucket, Buckets};
use crate::results::LatencySeries;

/// Number of bins for each doubling of response time: the upper edge of a bin is at most 1/16 above
/// its content.
const BINS_PER_OCTAVE: u32 = 16;

/// Exponent of the first octave: times below 2¹⁰ ns (a microsecond) share one bin.
const FIRST_OCTAVE: u32 = 10;

/// Number of bins, up to 2⁴² ns (73 minutes); longer times fall into the last bin.
const BINS: usize = ((42 - FIRST_OCTAVE) * BINS_PER_OCTAVE) as usize + 1;

/// Response times of requests by the time of their arrival, in a bounded number of buckets (about 1
/// MiB).
#[derive(Debug, Clone)]
pub struct LatencyOverTime {
    buckets: Buckets<Responses>,
}

impl LatencyOverTime {
    /// Creates an empty recorder for a run that is measured from `start` on.
    pub fn new(start: Nanoseconds) -> Self {
        Self { buckets: Buckets::new(start) }
    }

    /// Records a request that arrived at `arrival` and took `response`.
    #[inline]
    pub fn record(&mut self, arrival: Nanoseconds, response: Nanoseconds) {
        self.buckets.at(arrival).record(response);
    }

    /// Returns the curves.
    pub fn series(&self) -> LatencySeries {
        let mut series = LatencySeries {
            start_s: self.buckets.start().as_seconds_f64(),
            bucket_s: self.buckets.width().as_seconds_f64(),
            ..LatencySeries::default()
        };
        for bucket in self.buckets.iter() {
            series.requests.push(bucket.requests);
            series.mean_ms.push(bucket.mean_ms());
            series.p99_ms.push(bucket.p99_ms());
        }
        series
    }
}

#[derive(Debug, Clone, Default)]
struct Responses {
    requests: u64,
    sum: u128,
    max: Nanoseconds,
    /// Numbers of requests by response time, in [`BINS`] bins; `None` in a bucket without requests.
    bins: Option<Box<[u32; BINS]>>,
}

impl Responses {
    #[inline]
    fn record(&mut self, response: Nanoseconds) {
        self.requests += 1;
        self.sum += u128::from(response.0);
        self.max = self.max.max(response);
        let bins = self.bins.get_or_insert_with(|| Box::new([0; BINS]));
        let bin = &mut bins[bin_of(response)];
        *bin = bin.saturating_add(1);
    }

    fn mean_ms(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.sum as f64 / self.requests as f64 / 1e6)
    }

    /// Returns the upper edge of the bin with the 99th percentile, or the maximum if the maximum is
    /// lower.
    fn p99_ms(&self) -> Option<f64> {
        let rank = (self.requests * 99).div_ceil(100);
        let mut seen = 0;
        let bin = self.bins.as_ref()?.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        Some(bin.map_or(self.max, |bin| upper_edge(bin).min(self.max)).as_millis_f64())
    }
}

impl Bucket for Responses {
    fn absorb(&mut self, later: Self) {
        self.requests += later.requests;
        self.sum += later.sum;
        self.max = self.max.max(later.max);
        match (&mut self.bins, later.bins) {
            (Some(bins), Some(later)) => {
                for (bin, count) in bins.iter_mut().zip(later.iter()) {
                    *bin = bin.saturating_add(*count);
                }
            }
            (bins @ None, later) => *bins = later,
            (Some(_), None) => {}
        }
    }
}

/// Returns the bin of a response time: its octave and the four bits after its leading bit.
#[inline]
fn bin_of(response: Nanoseconds) -> usize {
    let value = response.0;
    if value < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = value.ilog2();
    let within = (value >> (octave - BINS_PER_OCTAVE.ilog2())) as u32 & (BINS_PER_OCTAVE - 1);
    (((octave - FIRST_OCTAVE) * BINS_PER_OCTAVE + within) as usize + 1).min(BINS - 1)
}

/// Returns the longest response time in a bin; the last bin has no end.
fn upper_edge(bin: usize) -> Nanoseconds {
    if bin == BINS - 1 {
        return Nanoseconds::MAX;
    }
    let octave = bin as u32 / BINS_PER_OCTAVE + FIRST_OCTAVE;
    let within = u64::from(bin as u32 % BINS_PER_OCTAVE);
    Nanoseconds((((1 << BINS_PER_OCTAVE.ilog2()) + within) << (octave - BINS_PER_OCTAVE.ilog2())) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_response_time_lies_in_its_bin() {
        for value in [0, 1, 1023, 1024, 1087, 1088, 2047, 2048, 1_000_000, 8_000_000_000, (1 << 42) - 1] {
            let bin = bin_of(Nanoseconds(value));
            assert!(upper_edge(bin).0 >= value, "{value}");
            assert!(bin == 0 || upper_edge(bin - 1).0 < value, "{value}");
        }
        assert_eq!(bin_of(Nanoseconds(1 << 43)), BINS - 1);
    }

    #[test]
    fn mean_is_exact_and_the_percentile_at_most_a_bin_too_high() {
        let mut latency = LatencyOverTime::new(Nanoseconds::ZERO);
        for micros in 1..=200 {
            latency.record(Nanoseconds::ZERO, Nanoseconds::from_micros(micros));
        }
        let series = latency.series();
        assert_eq!(series.requests, [200]);
        assert_eq!(series.mean_ms, [Some(0.1005)]);
        let p99 = series.p99_ms[0].expect("there are requests");
        assert!((0.198..=0.198 * 1.063).contains(&p99), "{p99}");
    }

    #[test]
    fn a_lone_request_is_its_own_mean_and_percentile() {
        let mut latency = LatencyOverTime::new(Nanoseconds::from_seconds(1));
        latency.record(Nanoseconds::from_seconds(1), Nanoseconds(3_000_001));
        let series = latency.series();
        assert_eq!((series.mean_ms[0], series.p99_ms[0]), (Some(3.000_001), Some(3.000_001)));
        assert_eq!(series.start_s, 1.0);
    }

    #[test]
    fn a_bucket_without_requests_has_no_figures() {
        let mut latency = LatencyOverTime::new(Nanoseconds::ZERO);
        latency.record(Nanoseconds::ZERO, Nanoseconds(1));
        latency.record(Nanoseconds(2 << 20), Nanoseconds(1));
        assert_eq!(latency.series().mean_ms[1], None);
        assert_eq!(latency.series().p99_ms[1], None);
    }

    #[test]
    fn merged_buckets_count_as_if_they_had_been_one() {
        let mut latency = LatencyOverTime::new(Nanoseconds::ZERO);
        for index in 0..1024 {
            latency.record(Nanoseconds(index << 20), Nanoseconds::from_millis(1 + index % 2));
        }
        let series = latency.series();
        assert_eq!(series.requests, vec![2; 512]);
        assert!(series.mean_ms.iter().all(|mean| *mean == Some(1.5)));
        assert!(series.p99_ms.iter().all(|p99| *p99 == Some(2.0)));
    }
}
