//! Response times, from a request's arrival to its completion, by kind of request.

use bimetal_core::units::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::durations::{Cdf, Distribution, Durations};

/// Response times in milliseconds; `all` is reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// Reads and writes.
    pub all: Distribution,
    /// Reads.
    pub read: Distribution,
    /// Writes, writes of zeroes included.
    pub write: Distribution,
    /// Flushes.
    #[serde(default)]
    pub flush: Distribution,
}

impl ResponseTimes {
    /// Returns the figures of recorded reads, writes and flushes.
    pub fn of(reads: &Durations, writes: &Durations, flushes: &Durations) -> Self {
        Self {
            all: together(reads, writes).distribution(),
            read: reads.distribution(),
            write: writes.distribution(),
            flush: flushes.distribution(),
        }
    }
}

/// Distribution of response times, by kind of request.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CdfByKind {
    /// Reads and writes.
    pub all: Cdf,
    /// Reads.
    pub read: Cdf,
    /// Writes.
    pub write: Cdf,
}

/// Response times of reads, writes and flushes, from arrival to completion.
#[derive(Debug, Clone)]
pub struct ResponseTimeRecorder {
    reads: Durations,
    writes: Durations,
    flushes: Durations,
}

impl Default for ResponseTimeRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseTimeRecorder {
    /// Creates an empty recorder.
    pub fn new() -> Self {
        Self { reads: Durations::new(), writes: Durations::new(), flushes: Durations::new() }
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

    /// Records a flush that took `response`.
    #[inline]
    pub fn record_flush(&mut self, response: Nanoseconds) {
        self.flushes.record(response);
    }

    /// Returns the number of reads and writes recorded.
    pub fn count(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    /// Returns the largest vertical distance of two distributions (Kolmogorov and Smirnov): of all
    /// requests, of reads, and of writes. A distance is `None` if either distribution has no
    /// request of the kind. Times closer to each other than 0.1 % count as equal.
    pub fn ks_distances(&self, other: &Self) -> [Option<f64>; 3] {
        [
            self.all().ks_distance(&other.all()),
            self.reads.ks_distance(&other.reads),
            self.writes.ks_distance(&other.writes),
        ]
    }

    /// Returns mean, percentiles and maximum of each kind, and of reads and writes together.
    pub fn response_times(&self) -> ResponseTimes {
        ResponseTimes::of(&self.reads, &self.writes, &self.flushes)
    }

    /// Returns the distribution curves of reads, of writes, and of reads and writes together.
    pub fn cdf(&self) -> CdfByKind {
        CdfByKind { all: self.all().cdf(), read: self.reads.cdf(), write: self.writes.cdf() }
    }

    fn all(&self) -> Durations {
        together(&self.reads, &self.writes)
    }
}

/// Returns the durations of two sets together.
fn together(one: &Durations, other: &Durations) -> Durations {
    let mut both = one.clone();
    both.absorb(other);
    both
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
        recorder.record_flush(Nanoseconds::from_millis(7));
        let times = recorder.response_times();
        assert_eq!(times.write, Distribution::default());
        // A flush is not a read or write: it has figures of its own alone.
        assert_eq!((times.all.max, times.flush.max), (Some(5e-6), Some(7.0)));
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
