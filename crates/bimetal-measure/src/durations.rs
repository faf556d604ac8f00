//! Durations: exact count, sum and maximum, percentiles from a histogram of bounded error.

use bimetal_core::units::Nanoseconds;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Number of significant digits of a duration in the histogram: percentiles are at most 0.1 % too
/// high.
const DIGITS: u8 = 3;

/// Longest duration that the histogram distinguishes, 2⁵³ ns (104 days). A longer duration counts
/// as this duration in percentiles, and exactly in mean and maximum.
const LONGEST: u64 = 1 << 53;

/// Number of points of a distribution curve for each power of ten of response time.
pub const CURVE_POINTS_PER_DECADE: f64 = 50.0;

/// Returns the number of the step of a curve in which a response time lies. A curve has one point
/// for each step, at the longest time within the step. So two curves are exact at the end of a
/// step, and not between their points.
pub fn curve_step(time: Nanoseconds) -> u32 {
    ((time.0.max(1) as f64).log10() * CURVE_POINTS_PER_DECADE) as u32
}

/// Mean, percentiles and maximum; all null if there was no request of the kind. Mean and maximum
/// are exact, a percentile is at most 0.1 % too high. Each figure has half its 95 % interval beside
/// it, which is null without disturbed runs of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Mean.
    pub mean: Option<f64>,
    /// Half the interval of `mean`.
    pub mean_pm: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Half the interval of `p50`.
    pub p50_pm: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// Half the interval of `p90`.
    pub p90_pm: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// Half the interval of `p95`.
    pub p95_pm: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Half the interval of `p99`.
    pub p99_pm: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Half the interval of `p999`.
    pub p999_pm: Option<f64>,
    /// 99.99th percentile.
    pub p9999: Option<f64>,
    /// Half the interval of `p9999`.
    pub p9999_pm: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Half the interval of `max`.
    pub max_pm: Option<f64>,
}

/// Cumulative distribution: `requests[i]` requests took at most `ms[i]`. The curve holds counts of
/// requests instead of shares, so that the tail is exact.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cdf {
    /// Response times in milliseconds, ascending.
    pub ms: Vec<f64>,
    /// Number of requests that took at most this time; the last number is the number of all
    /// requests.
    pub requests: Vec<u64>,
}

/// Recorder of durations. The recorder grows with the longest duration: to some 250 KiB for an
/// hour, and to 350 KiB at most.
#[derive(Debug, Clone)]
pub struct Durations {
    histogram: Histogram<u64>,
    sum: u128,
    max: Nanoseconds,
}

impl Default for Durations {
    fn default() -> Self {
        Self::new()
    }
}

impl Durations {
    /// Creates an empty recorder.
    ///
    /// # Panics
    /// Never: the number of digits is constant and valid.
    pub fn new() -> Self {
        let histogram = Histogram::new(DIGITS).expect("the number of digits is constant and valid");
        Self { histogram, sum: 0, max: Nanoseconds::ZERO }
    }

    /// Records a duration.
    #[inline]
    pub fn record(&mut self, duration: Nanoseconds) {
        // The histogram grows up to its longest value, so there is room.
        let recorded = self.histogram.record(duration.0.min(LONGEST));
        debug_assert!(recorded.is_ok());
        self.sum += u128::from(duration.0);
        self.max = self.max.max(duration);
    }

    /// Adds the durations of another recorder.
    pub fn absorb(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the sum of all durations in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum as f64 / 1e9
    }

    /// Returns the longest duration; zero if no duration was recorded.
    pub fn max(&self) -> Nanoseconds {
        self.max
    }

    /// Returns the number of durations in each bucket, by the buckets' upper bounds in seconds,
    /// ascending; the last bucket, without a bound, is added.
    pub fn buckets(&self, bounds_s: &[f64]) -> Vec<(f64, u64)> {
        let mut buckets: Vec<(f64, u64)> = bounds_s.iter().map(|&bound| (bound, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        for recorded in self.histogram.iter_recorded() {
            // A duration that equals a bound is within it, so its bin counts by its lower end.
            let seconds = Nanoseconds(self.histogram.lowest_equivalent(recorded.value_iterated_to())).as_seconds_f64();
            let at = bounds_s.partition_point(|&bound| bound < seconds);
            buckets[at].1 += recorded.count_since_last_iteration();
        }
        buckets
    }

    /// Returns the largest vertical distance of the two distributions (Kolmogorov and Smirnov);
    /// `None` if either is empty. Durations closer to each other than 0.1 % count as equal.
    pub fn ks_distance(&self, other: &Self) -> Option<f64> {
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

    /// Returns mean, percentiles and maximum in milliseconds.
    pub fn distribution(&self) -> Distribution {
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

    /// Returns the curve, with at most one point for each `CURVE_POINTS_PER_DECADE`th of a power of
    /// ten. The curve ends at the exact maximum.
    pub fn cdf(&self) -> Cdf {
        let mut cdf = Cdf::default();
        let mut bin_of_last = None;
        let mut requests = 0;
        for step in self.histogram.iter_recorded() {
            requests += step.count_since_last_iteration();
            let value = Nanoseconds(step.value_iterated_to()).min(self.max);
            let bin = curve_step(value);
            if bin_of_last == Some(bin) {
                cdf.ms.pop();
                cdf.requests.pop();
            }
            bin_of_last = Some(bin);
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

    #[test]
    fn durations_fall_into_the_bucket_whose_bound_they_reach() {
        let mut durations = Durations::new();
        for micros in [50, 100, 101, 5000] {
            durations.record(Nanoseconds::from_micros(micros));
        }
        assert_eq!(durations.buckets(&[50e-6, 100e-6, 1e-3]), [(50e-6, 1), (100e-6, 1), (1e-3, 1), (f64::INFINITY, 1)]);
        assert_eq!((durations.count(), durations.max()), (4, Nanoseconds::from_millis(5)));
        assert!((durations.sum_seconds() - 0.005_251).abs() < 1e-12);
    }

    /// Percentiles of times from one microsecond to a minute are within a thousandth.
    #[test]
    fn percentiles_are_within_a_thousandth_at_any_length() {
        for nanoseconds in [1_003, 5_077, 51_234, 1_234_567, 60_000_000_123] {
            let mut durations = Durations::new();
            (0..3).for_each(|_| durations.record(Nanoseconds(nanoseconds)));
            // A longer one: the bound of the median is not the maximum.
            durations.record(Nanoseconds(2 * nanoseconds));
            let (exact, median) = (nanoseconds as f64 / 1e6, durations.distribution().p50.unwrap());
            assert!(median >= exact && median <= exact * 1.001, "{median} for {exact}");
        }
    }

    #[test]
    fn absorbed_durations_count_beside_the_own() {
        let (mut one, mut other) = (Durations::new(), Durations::new());
        one.record(Nanoseconds::from_micros(1));
        other.record(Nanoseconds::from_seconds(3));
        one.absorb(&other);
        let distribution = one.distribution();
        assert_eq!((one.count(), distribution.max), (2, Some(3000.0)));
        assert_eq!(distribution.mean, Some(3_000_001_000.0 / 2.0 / 1e6));
    }
}
