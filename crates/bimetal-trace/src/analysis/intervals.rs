//! Distribution of intervals of time, in constant memory, exact at the bounds for which figures are
//! given.

use bimetal_core::units::Nanoseconds;

/// Bounds within a decade, in tenths: ten bounds in each decade, among them 3, 6 and 9 for 30, 60
/// and 900 seconds.
const STEPS: [u64; 10] = [10, 15, 20, 30, 40, 50, 60, 70, 80, 90];
/// Number of decades, from a microsecond to ten million seconds (four months).
const DECADES: usize = 13;
/// Further bounds: an hour and a day, which are not round decimal numbers.
const EXTRA_SECONDS: [u64; 2] = [3_600, 86_400];
const BOUND_COUNT: usize = STEPS.len() * DECADES + EXTRA_SECONDS.len();

/// Upper bounds of the bins in nanoseconds, ascending. The bin after the last bound holds longer
/// intervals.
const BOUNDS: [u64; BOUND_COUNT] = bounds();
/// First bin that can hold an interval, by the number of significant bits of the interval.
const FIRST_BIN: [u8; 65] = first_bins();

const fn bounds() -> [u64; BOUND_COUNT] {
    let mut bounds = [0; BOUND_COUNT];
    let mut count = 0;
    let mut decade = 100; // a tenth of a microsecond, as the steps are in tenths
    while count < STEPS.len() * DECADES {
        bounds[count] = STEPS[count % STEPS.len()] * decade;
        count += 1;
        if count.is_multiple_of(STEPS.len()) {
            decade *= 10;
        }
    }
    let mut extra = 0;
    while extra < EXTRA_SECONDS.len() {
        let bound = EXTRA_SECONDS[extra] * 1_000_000_000;
        let mut at = count;
        while bounds[at - 1] > bound {
            bounds[at] = bounds[at - 1];
            at -= 1;
        }
        bounds[at] = bound;
        count += 1;
        extra += 1;
    }
    bounds
}

const fn first_bins() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let smallest = 1u64 << (bits - 1);
        let mut bin = 0;
        while bin < BOUND_COUNT && BOUNDS[bin] < smallest {
            bin += 1;
        }
        first[bits] = bin as u8;
        bits += 1;
    }
    first
}

/// Counts of intervals in bins of a logarithmic scale from a microsecond to four months.
#[derive(Clone)]
pub(super) struct IntervalHistogram {
    counts: [u64; BOUND_COUNT + 1],
    total: u64,
}

impl IntervalHistogram {
    /// Creates a histogram without intervals.
    pub(super) fn new() -> Self {
        Self { counts: [0; BOUND_COUNT + 1], total: 0 }
    }

    /// Counts one interval of each of `count` blocks.
    #[inline]
    pub(super) fn add(&mut self, interval: Nanoseconds, count: u64) {
        let bits = u64::BITS - interval.get().leading_zeros();
        let mut bin = FIRST_BIN[bits as usize] as usize;
        while bin < BOUND_COUNT && interval.get() > BOUNDS[bin] {
            bin += 1;
        }
        self.counts[bin] += count;
        self.total += count;
    }

    /// Returns the share of intervals no longer than `bound`, which must be a bound of the bins;
    /// `None` without intervals.
    pub(super) fn share_within(&self, bound: Nanoseconds) -> Option<f64> {
        let bin = BOUNDS.binary_search(&bound.get()).expect("shares are asked for at bounds of bins only");
        let within: u64 = self.counts[..=bin].iter().sum();
        (self.total > 0).then(|| within as f64 / self.total as f64)
    }

    /// Returns the cumulative distribution as pairs of seconds and the share of intervals that are
    /// not longer. The first pair is for the first bin that is not empty, the last for the bin at
    /// which all intervals are counted (or for the last bound, if some intervals are longer).
    /// `None` without intervals.
    pub(super) fn cdf(&self) -> Option<Vec<[f64; 2]>> {
        if self.total == 0 {
            return None;
        }
        let mut points = Vec::new();
        let mut within = 0;
        for (bound, count) in BOUNDS.iter().zip(self.counts) {
            within += count;
            if within > 0 {
                points.push([*bound as f64 / 1e9, within as f64 / self.total as f64]);
            }
            if within == self.total {
                break;
            }
        }
        Some(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend_and_contain_the_quoted_intervals() {
        assert!(BOUNDS.is_sorted_by(|a, b| a < b));
        for seconds in [30, 60, 900, 3600] {
            assert!(BOUNDS.contains(&(seconds * 1_000_000_000)), "{seconds} s");
        }
        assert_eq!((BOUNDS[0], BOUNDS[BOUND_COUNT - 1]), (1_000, 9_000_000 * 1_000_000_000));
    }

    #[test]
    fn a_bound_is_within_itself_and_a_nanosecond_more_is_not() {
        for bound in [Nanoseconds(1_000), Nanoseconds::from_seconds(30), Nanoseconds::from_seconds(3600)] {
            let mut histogram = IntervalHistogram::new();
            histogram.add(bound, 1);
            histogram.add(bound + Nanoseconds(1), 1);
            assert_eq!(histogram.share_within(bound), Some(0.5), "{bound}");
        }
    }

    #[test]
    fn every_interval_falls_into_the_bin_that_a_plain_search_finds() {
        let mut interval = 0u64;
        while interval < u64::MAX / 3 {
            let mut histogram = IntervalHistogram::new();
            histogram.add(Nanoseconds(interval), 1);
            let bin = BOUNDS.partition_point(|bound| *bound < interval);
            assert_eq!(histogram.counts[bin], 1, "{interval}");
            interval += interval / 20 + 1;
        }
    }

    #[test]
    fn without_intervals_there_is_no_share_and_no_curve() {
        let histogram = IntervalHistogram::new();
        assert_eq!(histogram.share_within(Nanoseconds::from_seconds(30)), None);
        assert_eq!(histogram.cdf(), None);
    }

    #[test]
    fn the_curve_ends_where_all_intervals_are_counted() {
        let mut histogram = IntervalHistogram::new();
        histogram.add(Nanoseconds::from_seconds(25), 1);
        histogram.add(Nanoseconds::from_seconds(35), 1);
        assert_eq!(histogram.cdf(), Some(vec![[30.0, 0.5], [40.0, 1.0]]));
    }
}
