//! Traces of block I/O: readers and writers of formats, synthetic workloads, and analysis of
//! workloads.
//!
//! All modules of this crate exchange [`Request`]s in order of time. Read first: [`Trace`], the
//! reader of every format; [`formats`] has one file for each format. [`file_system`] reads the
//! places of files from the kernel, for a map of files. No module of this crate knows a drive or a
//! scheme.
//!
//! # Example
//!
//! Three lines in the format of the MSR Cambridge traces, which is recognised by its content:
//!
//! ```
//! use bimetal_core::operation::OpKind;
//! use bimetal_core::units::Nanoseconds;
//! use bimetal_trace::{OpenOptions, Summary, Trace, formats};
//!
//! let text = "\
//! 128166372003061629,usr,0,Read,7014609920,24576,41286
//! 128166372016382155,usr,0,Write,2517131264,4096,1963
//! 128166372026382245,usr,0,Read,8436736,4096,55
//! ";
//! let trace = Trace::from_reader("usr_0.csv", text.as_bytes(), None, &OpenOptions::default())?;
//! assert_eq!(trace.format(), &formats::msr::INFO);
//!
//! let mut summary = Summary::default();
//! for request in trace {
//!     let request = request?; // An error names the trace, the line and the field.
//!     summary.add(&request);
//!     if request.kind == OpKind::Write {
//!         assert_eq!(request.response, Some(Nanoseconds::from_micros(196) + Nanoseconds(300)));
//!     }
//! }
//! assert_eq!((summary.requests, summary.reads), (3, 2));
//! assert_eq!(summary.moved.0, 24576 + 4096 + 4096);
//! println!("{summary}"); // 3 requests (2 reads), 0.000 GiB moved, 2.332 s, …
//! # Ok::<(), bimetal_trace::TraceError>(())
//! ```

pub mod age;
pub mod analysis;
mod entry;
pub mod error;
mod fields;
pub mod file_system;
pub mod format;
pub mod formats;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod hints;
mod input;
pub mod open;
mod pairing;
mod recognise;
pub mod record;
pub mod summary;
pub mod synthetic;
pub mod think;
mod time_order;
pub mod write;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

pub use error::TraceError;
pub use format::Format;
pub use hints::{Hint, Hints};
pub use open::{Event, OpenOptions, STANDARD_INPUT, Trace};
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
    /// Sectors of the request. A byte range that is not a whole number of sectors is widened to the
    /// sectors that it touches.
    pub range: SectorRange,
    /// Response time measured when the trace was recorded, if the format has it.
    pub response: Option<Nanoseconds>,
}

impl Request {
    /// Checks the sectors of a request that was not decoded by a reader, with the checks that
    /// readers make.
    ///
    /// # Errors
    /// The range is empty, too long, or beyond the last possible sector: the field, its value, and
    /// what was expected.
    pub fn check(&self) -> Result<(), String> {
        entry::checked(self).map_err(|bad| format!("{} {}: expected {}", bad.field, bad.value, bad.expected))
    }

    /// Returns the request; a flush loses its first sector, because the first sector of a flush has
    /// no meaning. A first sector outside of the volume would be refused.
    #[must_use]
    pub fn without_place_of_flush(self) -> Self {
        if self.kind == OpKind::Flush { Self { range: SectorRange::default(), ..self } } else { self }
    }
}
