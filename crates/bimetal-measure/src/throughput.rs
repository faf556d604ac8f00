//! Throughput: finished work per second.

use bimetal_core::units::{Bytes, Nanoseconds};
use serde::{Deserialize, Serialize};

/// Finished work per second of a span. In a simulation or a replay, the span is from the first
/// arrival to the last completion; at a server, the time for which it has served.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// Number of requests of all kinds per second.
    pub iops: Option<f64>,
    /// Megabytes (10⁶ bytes) read and written per second.
    pub mb_per_s: Option<f64>,
}

impl Throughput {
    /// Returns the throughput of a number of requests that moved `bytes`; null for no time.
    pub fn of(requests: u64, bytes: Bytes, span: Nanoseconds) -> Self {
        let seconds = span.as_seconds_f64();
        if seconds <= 0.0 {
            return Self::default();
        }
        Self { iops: Some(requests as f64 / seconds), mb_per_s: Some(bytes.0 as f64 / 1e6 / seconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_work_per_second_in_powers_of_ten() {
        let throughput = Throughput::of(10, Bytes(3_000_000), Nanoseconds::from_seconds(2));
        assert_eq!(throughput, Throughput { iops: Some(5.0), mb_per_s: Some(1.5) });
        assert_eq!(Throughput::of(10, Bytes(1), Nanoseconds::ZERO), Throughput::default());
    }
}
