//! Errors of traces. An error about content names the file, the place in it, the value, and what
//! was expected.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::format::Format;

/// Position in a trace: a line of a text format, or a record of a binary format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// A record, counted from 1, and the byte (after decompression) at which the record starts.
    Record {
        /// Number of the record, from 1.
        number: u64,
        /// First byte of the record, from 0.
        offset: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "{line}"),
            Place::Record { number, offset } => write!(f, "record {number} (byte {offset})"),
        }
    }
}

/// A line (or record) that a reader does not accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Name under which the trace was opened.
    pub trace: String,
    /// Position of the line or record in the trace.
    pub place: Place,
    /// Name of the field in the format's description.
    pub field: &'static str,
    /// Content of the field, cut to a readable length.
    pub value: String,
    /// Content that the reader expected instead.
    pub expected: Cow<'static, str>,
    /// Set if the lines after this one can be read.
    pub can_be_skipped: bool,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, place, field, value, expected, .. } = self;
        write!(f, "{trace}:{place}: {field} '{value}': expected {expected}")
    }
}

impl BadLine {
    /// Returns the remedy as the end of a message; an empty text if there is none.
    fn remedy(&self) -> &'static str {
        if self.can_be_skipped { " (--skip-bad-lines leaves such lines out and counts them)" } else { "" }
    }
}

/// Reasons for which a trace cannot be opened, read to its end or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("{trace}: cannot be opened: {source}")]
    Open {
        /// Name of the file.
        trace: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Reading or decompressing failed before the end.
    #[error("{trace}: cannot be read after byte {offset} of its (decompressed) content: {source}{}", remedy(source))]
    Read {
        /// Name of the trace.
        trace: String,
        /// Number of bytes read before the error.
        offset: u64,
        /// Error of the operating system or of the decompressor.
        source: io::Error,
    },
    /// The trace has no content.
    #[error("{trace}: is empty, expected a trace of block I/O")]
    Empty {
        /// Name of the trace.
        trace: String,
    },
    /// No reader recognises the content.
    #[error("{trace}: unknown format: {rejected}; tried {tried}; --format NAME chooses one of them")]
    UnknownFormat {
        /// Name of the trace.
        trace: String,
        /// Names of the formats that were tried.
        tried: String,
        /// First line that was rejected, or another reason if there is no such line.
        rejected: String,
    },
    /// The reader rejects a line, and bad lines are not skipped.
    #[error("{line}{}", .0.remedy(), line = .0)]
    BadLine(Box<BadLine>),
    /// The trace contains no request.
    #[error("{trace}: no request found when read as {format}: {reason}")]
    NoRequests {
        /// Name of the trace.
        trace: String,
        /// Format as which the trace was read.
        format: &'static Format,
        /// First rejected line and the reason for it, or another reason.
        reason: String,
    },
    /// Issue events were taken as the requests, because the beginning of the trace has no queue
    /// event. Nevertheless the trace has a queue event at a later place.
    #[error(
        "{trace}:{place}: a queue event, but the beginning of the trace has only issue events, which count as the \
         requests: choose with --event queue or --event issue"
    )]
    LateQueueEvent {
        /// Name of the trace.
        trace: String,
        /// Position of the queue event.
        place: Place,
    },
    /// The output cannot be written.
    #[error("{path}: cannot be written: {source}")]
    Write {
        /// Name of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// There is no writer for the format.
    #[error("{path}: {format} can be read but not written, expected one of {writable}")]
    NotWritable {
        /// Name of the requested file.
        path: String,
        /// Requested format.
        format: &'static Format,
        /// Names of the formats that can be written.
        writable: String,
    },
}

/// Returns the remedy for an error of a decompressor at the end of a file; an empty text for other
/// errors.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ": the compressed file ends too soon, so copy it again",
        _ => "",
    }
}

impl TraceError {
    /// Returns the bad line behind this error; `None` for any other error.
    pub fn bad_line(&self) -> Option<&BadLine> {
        match self {
            TraceError::BadLine(bad) => Some(bad),
            _ => None,
        }
    }
}

/// Largest number of characters of a rejected line or value that a message shows.
const SHOWN_CHARACTERS: usize = 100;

/// Returns `bytes` as a message shows them: one printable line of at most [`SHOWN_CHARACTERS`].
pub(crate) fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN_CHARACTERS * 4)];
    let text = String::from_utf8_lossy(head);
    let mut short: String = text.chars().take(SHOWN_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() || head.len() < bytes.len() {
        short.push('…');
    }
    short
}
