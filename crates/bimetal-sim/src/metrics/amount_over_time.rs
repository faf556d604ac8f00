//! Amount that accrues over the time of the run: bytes written to the SSD in each bucket of time.

use bimetal_core::units::Nanoseconds;

use super::buckets::{Bucket, Buckets};
use crate::results::TimeSeries;

/// Sum for each bucket of time.
#[derive(Debug, Clone)]
pub struct AmountOverTime {
    buckets: Buckets<Sum>,
}

impl AmountOverTime {
    /// Creates an empty recorder for a run that is measured from `start` on.
    pub fn new(start: Nanoseconds) -> Self {
        Self { buckets: Buckets::new(start) }
    }

    /// Adds `amount` at time `at`.
    #[inline]
    pub fn record(&mut self, at: Nanoseconds, amount: u64) {
        self.buckets.at(at).0 += amount;
    }

    /// Returns the sum over all buckets.
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|sum| sum.0).sum()
    }

    /// Returns the curve: the amount of each bucket.
    pub fn series(&self) -> TimeSeries {
        TimeSeries {
            start_s: self.buckets.start().as_seconds_f64(),
            bucket_s: self.buckets.width().as_seconds_f64(),
            values: self.buckets.iter().map(|sum| sum.0 as f64).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum(u64);

impl Bucket for Sum {
    fn absorb(&mut self, later: Self) {
        self.0 += later.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_in_their_bucket_and_over_the_run() {
        let mut amount = AmountOverTime::new(Nanoseconds::ZERO);
        amount.record(Nanoseconds(0), 4096);
        amount.record(Nanoseconds(1), 512);
        amount.record(Nanoseconds(1 << 21), 8192);
        assert_eq!(amount.series().values, [4608.0, 0.0, 8192.0]);
        assert_eq!(amount.series().bucket_s, 0.001_048_576);
        assert_eq!(amount.total(), 12_800);
    }
}
