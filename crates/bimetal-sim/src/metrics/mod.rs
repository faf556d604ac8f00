//! Recorders of the event loop, and the figures that they produce.
//!
//! Each file is one measure, a plain struct with `record`. Together the recorders cost the inner
//! loop some twenty nanoseconds a request, and a bounded amount of memory for any length of the
//! trace. The figures that are shown are in [`crate::results`]; the statistics of a drive itself
//! (erases, seeks, energy) stay with its model. All times are instants of the run; a recorder made
//! at the end of the warm-up excludes the warm-up.
//!
//! Response times and the sequentiality of writes, which a server records as well, are in
//! `bimetal-measure`. Read first: `buckets.rs`, on which every recorder over time is based.

mod amount_over_time;
mod backlog;
mod buckets;
mod gauge;
mod head_time;
mod latency_over_time;

pub use amount_over_time::AmountOverTime;
pub use backlog::{BEHIND_AFTER, Backlog};
pub use gauge::Gauge;
pub use head_time::HeadTime;
pub use latency_over_time::LatencyOverTime;
