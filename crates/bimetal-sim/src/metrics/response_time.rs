//! Response times: exact mean and maximum, percentiles from a histogram of bounded error.

use bimetal_core::units::Nanoseconds;
use hdrhistogram::Histogram;

use crate::results::{Cdf, CdfByKind, Distribution, ResponseTimes};

/// Number of significant digits of a response time in the histogram: percentiles are at most 0.1 %
/// too high.
const DIGITS: u8 = 3;

/// Longest response time that the histogram distinguishes, 2⁵³ ns (104 days). A longer time counts
/// as this time in percentiles, and exactly in mean and maximum.
const LONGEST: u64 = 1 << 53;

/// Number of points of a distribution curve for each power of ten of response time.
const CURVE_POINTS_PER_DECADE: f64 = 50.0;

/// Response times of reads and of writes, from arrival to completion.
#[derive(Debug, Clone)]
pub struct ResponseTimeRecorder {
    reads: OneKind,
    writes: OneKind,
}

impl Default for ResponseTimeRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseTimeRecorder {
    /// Creates an empty recorder, which takes some 700 KiB.
    pub fn new() -> Self {
        Self { reads: OneKind::new(), writes: OneKind::new() }
    }

    /// Records a read that took `response`.
    #[inline]
    pub fn record_read(&mut self, response: Nanoseconds) {
        self.reads.record(response);
    }

    /// Records a write that took `response`.
    #[inline]
    pub fn record_write(&mut self, response: Nanoseconds) {
        self.writes.record(response);
    }

    /// Returns the number of reads and writes recorded.
    pub fn count(&self) -> u64 {
        self.reads.histogram.len() + self.writes.histogram.len()
    }

    /// Returns the largest vertical distance of two distributions (Kolmogorov and Smirnov): of all
    /// requests, of reads, and of writes. It is `None` if either distribution has no request of the
    /// kind. Times closer to each other than 0.1 % count as equal.
    pub fn ks_distances(&self, other: &Self) -> [Option<f64>; 3] {
        [
            self.all().ks_distance(&other.all()),
            self.reads.ks_distance(&other.reads),
            self.writes.ks_distance(&other.writes),
        ]
    }

    /// Returns mean, percentiles and maximum of reads, writes and both.
    pub fn response_times(&self) -> ResponseTimes {
        ResponseTimes {
            all: self.all().distribution(),
            read: self.reads.distribution(),
            write: self.writes.distribution(),
        }
    }

    /// Returns the distribution curves of reads, writes and both.
    pub fn cdf(&self) -> CdfByKind {
        CdfByKind { all: self.all().cdf(), read: self.reads.cdf(), write: self.writes.cdf() }
    }

    fn all(&self) -> OneKind {
        let mut all = self.reads.clone();
        all.histogram += &self.writes.histogram;
        all.sum += self.writes.sum;
        all.max = all.max.max(self.writes.max);
        all
    }
}

#[derive(Debug, Clone)]
struct OneKind {
    histogram: Histogram<u64>,
    sum: u128,
    max: Nanoseconds,
}

impl OneKind {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are constant and valid");
        Self { histogram, sum: 0, max: Nanoseconds::ZERO }
    }

    #[inline]
    fn record(&mut self, response: Nanoseconds) {
        self.histogram.saturating_record(response.0);
        self.sum += u128::from(response.0);
        self.max = self.max.max(response);
    }

    fn ks_distance(&self, other: &Self) -> Option<f64> {
        let (mine, others) = (self.histogram.len(), other.histogram.len());
        if mine == 0 || others == 0 {
            return None;
        }
        let steps = |one: &Self| {
            let counts =
                one.histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration()));
            counts.collect::<Vec<_>>()
        };
        let (a, b) = (steps(self), steps(other));
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        let (mut below_a, mut below_b, mut largest) = (0, 0, 0.0_f64);
        while let Some(at) = [a.peek(), b.peek()].into_iter().flatten().map(|step| step.0).min() {
            below_a += a.next_if(|step| step.0 == at).map_or(0, |step| step.1);
            below_b += b.next_if(|step| step.0 == at).map_or(0, |step| step.1);
            largest = largest.max((below_a as f64 / mine as f64 - below_b as f64 / others as f64).abs());
        }
        Some(largest)
    }

    fn distribution(&self) -> Distribution {
        let count = self.histogram.len();
        if count == 0 {
            return Distribution::default();
        }
        // A bin of the histogram may extend beyond the longest value in it.
        let quantile = |q| Some(Nanoseconds(self.histogram.value_at_quantile(q)).min(self.max).as_millis_f64());
        Distribution {
            mean: Some(self.sum as f64 / count as f64 / 1e6),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            max: Some(self.max.as_millis_f64()),
            ..Distribution::default()
        }
    }

    /// Returns the curve, thinned to a point for each [`CURVE_POINTS_PER_DECADE`]th of a power of
    /// ten. It ends at the exact maximum.
    fn cdf(&self) -> Cdf {
        let mut cdf = Cdf::default();
        let mut bin_of_last = None;
        let mut requests = 0;
        for step in self.histogram.iter_recorded() {
            requests += step.count_since_last_iteration();
            let value = Nanoseconds(step.value_iterated_to()).min(self.max);
            let bin = (value.0.max(1) as f64).log10() * CURVE_POINTS_PER_DECADE;
            if bin_of_last == Some(bin as u32) {
                cdf.ms.pop();
                cdf.requests.pop();
            }
            bin_of_last = Some(bin as u32);
            cdf.ms.push(value.as_millis_f64());
            cdf.requests.push(requests);
        }
        if let Some(last) = cdf.ms.last_mut() {
            *last = self.max.as_millis_f64();
        }
        cdf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> ResponseTimeRecorder {
        let mut recorder = ResponseTimeRecorder::new();
        for micros in 1..=100 {
            recorder.record_read(Nanoseconds::from_micros(micros));
        }
        recorder.record_write(Nanoseconds::from_seconds(2));
        recorder
    }

    fn within_a_thousandth(figure: Option<f64>, expected: f64) -> bool {
        figure.is_some_and(|value| value >= expected && value <= expected * 1.001)
    }

    /// The mean and the maximum are exact. Percentiles are exact within a thousandth.
    #[test]
    fn mean_and_maximum_are_exact_and_percentiles_near() {
        let times = recorder().response_times();
        // The times are 1 to 100 µs: mean 50.5 µs.
        assert_eq!(times.read.mean, Some(0.0505));
        assert_eq!(times.read.max, Some(0.1));
        assert!(within_a_thousandth(times.read.p50, 0.050), "{:?}", times.read.p50);
        assert!(within_a_thousandth(times.read.p99, 0.099), "{:?}", times.read.p99);
        assert_eq!(times.read.p9999, Some(0.1));
        assert_eq!(times.write.p50, Some(2000.0));
    }

    #[test]
    fn all_is_reads_and_writes_together() {
        let times = recorder().response_times();
        // The mean is (100 × 50.5 µs + 2 s) / 101.
        assert_eq!(times.all.mean, Some(2_005_050_000.0 / 101.0 / 1e6));
        assert_eq!(times.all.max, Some(2000.0));
        assert!(within_a_thousandth(times.all.p99, 0.1), "{:?}", times.all.p99);
    }

    #[test]
    fn the_distance_of_two_distributions_is_their_largest_gap() {
        let (one, mut other) = (recorder(), recorder());
        assert_eq!(one.ks_distances(&other), [Some(0.0); 3]);
        // Half of the reads are unchanged, and equally many take longer than all.
        (0..100).for_each(|_| other.record_read(Nanoseconds::from_micros(500)));
        let [all, reads, writes] = one.ks_distances(&other);
        assert_eq!((reads, writes), (Some(0.5), Some(0.0)));
        assert!((all.unwrap() - (100.0 / 101.0 - 100.0 / 201.0)).abs() < 1e-12, "{all:?}");
        assert_eq!(one.ks_distances(&ResponseTimeRecorder::new()), [None; 3]);
    }

    #[test]
    fn a_kind_without_requests_has_no_figures() {
        let mut recorder = ResponseTimeRecorder::new();
        recorder.record_read(Nanoseconds(5));
        let times = recorder.response_times();
        assert_eq!(times.write, Distribution::default());
        assert_eq!(recorder.cdf().write, Cdf::default());
        assert_eq!(recorder.count(), 1);
    }

    /// The curve ascends from the first request to all requests at the exact maximum.
    #[test]
    fn cdf_ascends_from_the_first_request_to_the_exact_maximum() {
        let cdf = recorder().cdf();
        assert_eq!(cdf.read.ms.last(), Some(&0.1));
        assert_eq!(cdf.read.requests.last(), Some(&100));
        assert_eq!(cdf.read.requests.first(), Some(&1));
        assert_eq!(cdf.all.requests.last(), Some(&101));
        assert_eq!(cdf.all.ms.last(), Some(&2000.0));
        assert!(cdf.read.ms.is_sorted() && cdf.read.requests.is_sorted());
        // The times span two decades.
        assert!(cdf.read.ms.len() <= 101, "{}", cdf.read.ms.len());
    }

    /// A time longer than the histogram's range still counts, and the maximum stays exact.
    #[test]
    fn time_beyond_the_histogram_counts_with_exact_maximum() {
        let mut recorder = ResponseTimeRecorder::new();
        recorder.record_read(Nanoseconds::MAX);
        recorder.record_read(Nanoseconds::ZERO);
        let times = recorder.response_times();
        assert_eq!(times.read.max, Some(Nanoseconds::MAX.as_millis_f64()));
        assert_eq!(recorder.count(), 2);
    }
}
