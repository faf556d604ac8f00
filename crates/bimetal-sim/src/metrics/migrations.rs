//! Background moves by batches: how many, how much, how often.

use bimetal_core::units::{Bytes, Nanoseconds};

use crate::results::MigrationSummary;

/// Counts migrations; a trigger's whole batch is one.
#[derive(Debug, Clone, Default)]
pub struct Migrations {
    count: u64,
    bytes: u64,
    /// Starts of the earliest and of the latest.
    first_and_last: Option<(Nanoseconds, Nanoseconds)>,
}

impl Migrations {
    /// A migration that started at `start` and moved `bytes` all in all.
    pub fn record(&mut self, start: Nanoseconds, bytes: Bytes) {
        self.count += 1;
        self.bytes += bytes.0;
        let (first, last) = self.first_and_last.unwrap_or((start, start));
        self.first_and_last = Some((first.min(start), last.max(start)));
    }

    /// The figures. The mean interval is that between the starts of two that follow each other (Griffin figure 6b).
    pub fn summary(&self) -> MigrationSummary {
        let interval = self.first_and_last.filter(|_| self.count > 1);
        MigrationSummary {
            count: Some(self.count),
            bytes: Some(self.bytes),
            mean_interval_s: interval.map(|(first, last)| (last - first).as_seconds_f64() / (self.count - 1) as f64),
            mean_bytes: (self.count > 0).then(|| self.bytes as f64 / self.count as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_between_starts_that_follow_each_other() {
        let mut migrations = Migrations::default();
        for (start, kib) in [(900, 4), (1800, 8), (3000, 12)] {
            migrations.record(Nanoseconds::from_seconds(start), Bytes::from_kib(kib));
        }
        let summary = migrations.summary();
        assert_eq!((summary.count, summary.bytes), (Some(3), Some(24 * 1024)));
        assert_eq!(summary.mean_interval_s, Some(1050.0));
        assert_eq!(summary.mean_bytes, Some(8192.0));
    }

    #[test]
    fn none_is_a_count_of_zero_without_means() {
        let summary = Migrations::default().summary();
        assert_eq!((summary.count, summary.bytes), (Some(0), Some(0)));
        assert_eq!((summary.mean_interval_s, summary.mean_bytes), (None, None));
    }

    #[test]
    fn a_single_one_has_no_interval() {
        let mut migrations = Migrations::default();
        migrations.record(Nanoseconds::from_seconds(1), Bytes(10));
        assert_eq!(migrations.summary().mean_interval_s, None);
        assert_eq!(migrations.summary().mean_bytes, Some(10.0));
    }
}
