//! Recorders: what the event loop counts while it runs, and the figures that come out of it.
//!
//! Each file is one measure, a plain struct with `record`; together they cost the hot loop some twenty nanoseconds a
//! request and a bounded amount of memory, however long the trace. What is *shown* is in [`crate::results`], and what
//! a drive counts of itself (erases, seeks, energy) stays with its model. All times are instants of the run; a recorder
//! made at the end of the warm-up sees only what comes after it.
//!
//! Read first: `response_time.rs`, then `buckets.rs`, on which everything over time rests.

mod amount_over_time;
mod backlog;
mod buckets;
mod gauge;
mod latency_over_time;
mod response_time;
mod sequentiality;

pub use amount_over_time::AmountOverTime;
pub use backlog::{BEHIND_AFTER, Backlog};
pub use gauge::Gauge;
pub use latency_over_time::LatencyOverTime;
pub use response_time::ResponseTimeRecorder;
pub use sequentiality::WriteSequentiality;
