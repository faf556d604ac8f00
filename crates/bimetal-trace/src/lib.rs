//! Traces of block I/O: readers and writers of formats, synthetic workloads, and analysis of
//! workloads.
//!
//! Everything here exchanges [`Request`]s in order of time.

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

/// Request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Time of arrival since the first request of the trace; always 0 if the format has no time.
    pub arrival: Nanoseconds,
    /// Number of the device in the trace; 0 if the format has one device.
    pub device: u32,
    /// Operation of the request. Formats without operations give reads.
    pub kind: OpKind,
    /// Set for a write that must be stable when it completes.
    pub fua: bool,
    /// Sectors of the request. A byte range that is no whole number of sectors is widened to the
    /// sectors that it touches.
    pub range: SectorRange,
    /// Response time measured when the trace was recorded, if the format has it.
    pub response: Option<Nanoseconds>,
}
