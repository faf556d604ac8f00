//! Traces of block I/O: formats in and out, synthetic workloads, analysis of workloads.
//!
//! Everything here speaks in [`Request`]s, in order of time.

pub mod analysis;
mod entry;
pub mod error;
mod fields;
pub mod format;
mod formats;
pub mod fuzz;
pub mod hints;
mod input;
pub mod open;
mod pairing;
mod recognise;
pub mod record;
pub mod summary;
pub mod synthetic;
mod time_order;
pub mod write;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

pub use error::TraceError;
pub use format::Format;
pub use hints::{Hint, Hints};
pub use open::{Event, OpenOptions, Trace};
pub use summary::Summary;
pub use write::Writer;

/// One request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it arrived, since the first request of the trace (0 throughout where a format has no time).
    pub arrival: Nanoseconds,
    /// The device, as the trace numbers it (0 where a format has one device).
    pub device: u32,
    /// What it does. Formats that know no operation give reads.
    pub kind: OpKind,
    /// A write that must be stable when it completes.
    pub fua: bool,
    /// Where. A byte range that is no whole number of sectors is widened to the sectors it touches.
    pub range: SectorRange,
    /// The response time that was measured when the trace was taken, where the format has it.
    pub response: Option<Nanoseconds>,
}
