//! Figures that `simulate`, `status`, `replay`, the metrics and `plan` share: one name, one unit
//! and one formula for each.
//!
//! A driver of the engine records the events, and asks this crate for the figures:
//!
//! - [`durations`]: mean, percentiles and curve of recorded durations.
//! - [`response_time`]: durations of requests by kind.
//! - [`volume`]: figures from the counters of a volume over a span of time.
//! - [`sequentiality`]: writes to a drive that follow the adjacent page.
//! - [`throughput`]: finished work per second.
//! - [`json`]: the form of a document, with the digits of its numbers.
//! - [`text`]: numbers for people: digits, prices, years.
//!
//! A figure that does not apply is `None` (`null` in JSON), never 0. Shares are from 0 to 1.
//!
//! Read first: `volume.rs`.

pub mod durations;
pub mod json;
pub mod response_time;
pub mod sequentiality;
pub mod text;
pub mod throughput;
pub mod volume;

/// Returns a part as a share of the whole; `None` if the whole is 0.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
