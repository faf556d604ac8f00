//! Level that changes over the time of the run (queue depth, dirty bytes), averaged over time.

use bimetal_core::units::Nanoseconds;

use super::buckets::{Bucket, Buckets};
use crate::results::TimeSeries;

/// Level, with its average weighted by time, its maximum, and its course.
#[derive(Debug, Clone)]
pub struct Gauge {
    buckets: Buckets<Held>,
    level: u64,
    /// Time up to which `level` has been counted.
    since: Nanoseconds,
    max: u64,
}

impl Gauge {
    /// Creates a gauge with `level` at time `start`. The average counts from `start` on.
    pub fn new(start: Nanoseconds, level: u64) -> Self {
        Self { buckets: Buckets::new(start), level, since: start, max: level }
    }

    /// Sets the level from `at` on. If `at` is earlier than in the previous call, the time of the
    /// previous call counts.
    #[inline]
    pub fn record(&mut self, at: Nanoseconds, level: u64) {
        self.advance(at);
        self.level = level;
        self.max = self.max.max(level);
    }

    /// Increases the level by one from `at` on.
    #[inline]
    pub fn increment(&mut self, at: Nanoseconds) {
        self.record(at, self.level + 1);
    }

    /// Decreases the level by one from `at` on.
    #[inline]
    pub fn decrement(&mut self, at: Nanoseconds) {
        debug_assert!(self.level > 0, "a gauge fell below zero");
        self.record(at, self.level.saturating_sub(1));
    }

    /// Counts the current level up to `at`. To be called at the end of the run, before the average
    /// is requested.
    #[inline]
    pub fn advance(&mut self, at: Nanoseconds) {
        while self.since < at {
            // Room for `at` is made first, so that no bucket is split by a merge half-way.
            self.buckets.at(at);
            let span = self.buckets.left_of_bucket(self.since).min(at - self.since);
            let held = self.buckets.at(self.since);
            held.time += span;
            held.integral += u128::from(self.level) * u128::from(span.0);
            self.since += span;
        }
    }

    /// Returns the current level.
    pub fn level(&self) -> u64 {
        self.level
    }

    /// Returns the highest level so far.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the average over the time since the start; `None` if no time has passed.
    pub fn mean(&self) -> Option<f64> {
        let mut all = Held::default();
        for held in self.buckets.iter() {
            all.absorb(*held);
        }
        (all.time > Nanoseconds::ZERO).then(|| all.mean())
    }

    /// Returns the curve: the average of each bucket.
    pub fn series(&self) -> TimeSeries {
        TimeSeries {
            start_s: self.buckets.start().as_seconds_f64(),
            bucket_s: self.buckets.width().as_seconds_f64(),
            // The last bucket may have been opened without any time in it.
            values: self.buckets.iter().filter(|held| held.time > Nanoseconds::ZERO).map(Held::mean).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    time: Nanoseconds,
    /// Level × nanoseconds.
    integral: u128,
}

impl Held {
    fn mean(&self) -> f64 {
        self.integral as f64 / self.time.0 as f64
    }
}

impl Bucket for Held {
    fn absorb(&mut self, later: Self) {
        self.time += later.time;
        self.integral += later.integral;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u64 = 1 << 20;

    #[test]
    fn the_average_weighs_each_level_by_how_long_it_lasted() {
        let mut depth = Gauge::new(Nanoseconds(100), 0);
        depth.increment(Nanoseconds(200));
        depth.increment(Nanoseconds(300));
        depth.decrement(Nanoseconds(600));
        depth.advance(Nanoseconds(1100));
        // The level is 0 for 100 ns, 1 for 100, 2 for 300, 1 for 500.
        assert_eq!(depth.mean(), Some((100.0 + 600.0 + 500.0) / 1000.0));
        assert_eq!((depth.level(), depth.max()), (1, 2));
    }

    #[test]
    fn no_time_no_average() {
        let mut gauge = Gauge::new(Nanoseconds(5), 7);
        gauge.record(Nanoseconds(5), 9);
        assert_eq!(gauge.mean(), None);
        assert!(gauge.series().values.is_empty());
    }

    #[test]
    fn a_level_that_lasts_is_spread_over_the_buckets_it_spans() {
        let mut gauge = Gauge::new(Nanoseconds::ZERO, 10);
        gauge.record(Nanoseconds(2 * WIDTH + WIDTH / 2), 20);
        gauge.advance(Nanoseconds(4 * WIDTH));
        assert_eq!(gauge.series().values, [10.0, 10.0, 15.0, 20.0]);
        assert_eq!(gauge.mean(), Some((25.0 + 30.0) / 4.0));
    }

    #[test]
    fn a_jump_over_all_buckets_keeps_the_average() {
        let mut gauge = Gauge::new(Nanoseconds::ZERO, 4);
        gauge.record(Nanoseconds(1), 8);
        gauge.record(Nanoseconds(100_000 * WIDTH + 1), 0);
        gauge.advance(Nanoseconds(200_000 * WIDTH + 1));
        let expected = (4.0 + 8.0 * 100_000.0 * WIDTH as f64) / (200_000.0 * WIDTH as f64 + 1.0);
        assert!((gauge.mean().unwrap() - expected).abs() < 1e-9);
        assert!(gauge.series().values.len() <= 512);
    }
}
