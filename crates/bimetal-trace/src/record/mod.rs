//! Records the requests to a live block device.
//!
//! This folder holds the two sources of the kernel's block events: tracefs, and blktrace if tracefs
//! is not available. The readers of traces (`formats`) parse the text of both sources, and
//! `pairing` joins the events to requests, as for a trace. No part of this folder writes a file:
//! requests go to the caller. Tracing that a value of this folder switches on is switched off when
//! that value is dropped.
//!
//! Read first: [`Recorder`].

mod blktrace;
mod device;
mod order;
mod tracefs;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use self::blktrace::Blktrace;
use self::device::Device;
use self::order::Order;
use self::tracefs::Tracefs;
use crate::entry::{Bad, Entry, Moment};
use crate::error::shown;
use crate::formats::{LineFormat, tracefs::lost_events};
use crate::pairing::{Pairing, Patience};
use crate::{Event, Request};

/// Number of reads of events in one call of [`Recorder::poll`], at most.
const READS_MAX: u32 = 256;

/// Limits for requests that wait for their completions; after this wait a request is handed out
/// without a completion. So a recording continues even if the kernel has lost a completion.
const PATIENCE: Patience = Patience { requests: 1 << 20, time: Nanoseconds::from_seconds(60) };

/// Reasons for which nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The path is not a block device.
    #[error("{path}: {reason}; expected a block device like /dev/sdb")]
    NotADevice {
        /// Path that was given.
        path: PathBuf,
        /// Reason for which the path is refused.
        reason: String,
    },
    /// The user lacks the rights to record.
    #[error("recording the kernel's block events needs root ({path}: {error}): run bimetal with sudo")]
    NeedsRoot {
        /// File that could not be opened.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The kernel gives no block events through either source.
    #[error("this kernel offers no block events: tracefs: {tracefs}; blktrace: {blktrace}")]
    NotPermitted {
        /// Reason for which tracefs failed.
        tracefs: String,
        /// Reason for which blktrace failed.
        blktrace: String,
    },
    /// A file of the kernel could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// An event has an unknown form.
    #[error("a kernel event cannot be read ({field} '{value}': expected {expected}) in '{line}'")]
    Event {
        /// Name of the field in the format's description.
        field: &'static str,
        /// Content of the field.
        value: String,
        /// Content that was expected.
        expected: Cow<'static, str>,
        /// Line with the event.
        line: String,
    },
}

/// Counts of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of requests handed to the caller.
    pub requests: u64,
    /// Number of requests whose completion was not seen, so they have no response time.
    pub unpaired: u64,
    /// Number of events that the kernel dropped because they were not fetched in time: the trace
    /// has gaps.
    pub lost_events: u64,
}

/// Source of the lines of events.
trait Source {
    /// Appends the text that arrived since the last call. Returns true if any text arrived. Does
    /// not wait.
    fn read(&mut self, text: &mut Vec<u8>) -> Result<bool, RecordError>;

    /// Returns true if the source has ended, so that no further event comes. A source that was not
    /// stopped has ended by itself.
    fn is_over(&self) -> bool {
        false
    }

    /// Asks the kernel to stop the events. Events that were recorded before the stop can still be
    /// read.
    fn stop(&mut self) -> Result<(), RecordError>;

    /// Returns the number of events lost so far, beyond the losses that the text reports.
    fn lost_events(&mut self) -> Result<u64, RecordError>;

    /// Returns the parser of the source's lines.
    fn reader(&mut self) -> &mut dyn LineFormat;

    /// Returns the name of the source, for the user.
    fn name(&self) -> &'static str;
}

/// Recording that runs from [`start`](Self::start) to [`finish`](Self::finish). A dropped recording
/// switches tracing off as well.
pub struct Recorder {
    device: Device,
    source: Box<dyn Source>,
    /// Moment that counts as the arrival of a request.
    arrival: Moment,
    order: Order,
    pairing: Pairing,
    /// Text of events that is not parsed yet; its last line may be incomplete.
    text: Vec<u8>,
    first_arrival: Option<Nanoseconds>,
    summary: Summary,
}

impl Recorder {
    /// Returns the size of the block device at `path`.
    ///
    /// # Errors
    /// Fails if `path` is not a block device.
    pub fn size_of(path: &Path) -> Result<Sectors, RecordError> {
        Device::find(path).map(|device| device.size)
    }

    /// Starts to record the block device at `path`; `arrival` chooses the event that counts as a
    /// request's arrival.
    ///
    /// # Errors
    /// Fails if `path` is not a block device, if the user is not root, or if the kernel gives no
    /// block events.
    pub fn start(path: &Path, arrival: Event) -> Result<Self, RecordError> {
        let device = Device::find(path)?;
        let source: Box<dyn Source> = match Tracefs::start(&device) {
            Ok(source) => Box::new(source),
            Err(error @ RecordError::NeedsRoot { .. }) => return Err(error),
            Err(error) => match Blktrace::start(&device) {
                Ok(source) => Box::new(source),
                Err(reason) => {
                    return Err(RecordError::NotPermitted { tracefs: error.to_string(), blktrace: reason.to_string() });
                }
            },
        };
        Ok(Self {
            device,
            source,
            arrival: match arrival {
                Event::Queue => Moment::Queued,
                Event::Issue => Moment::Issued,
            },
            order: Order::default(),
            pairing: Pairing::new(PATIENCE),
            text: Vec::new(),
            first_arrival: None,
            summary: Summary::default(),
        })
    }

    /// Returns the name of the source of the events: `tracefs` or `blktrace`.
    pub fn source(&self) -> &'static str {
        self.source.name()
    }

    /// Returns true if the source of the events has ended by itself: later requests are missing.
    pub fn is_over(&self) -> bool {
        self.source.is_over()
    }

    /// Fetches the events since the last call, and appends the requests that are now final to
    /// `requests`. Appended requests are in order of arrival, the first at time 0. The call does
    /// not wait, and should be made some twenty times a second. Returns true if more events are
    /// waiting: a fast device may make events as fast as they are read.
    ///
    /// # Errors
    /// Fails if the kernel's files cannot be read or have unknown content.
    pub fn poll(&mut self, requests: &mut Vec<Request>) -> Result<bool, RecordError> {
        let mut more = true;
        for _ in 0..READS_MAX {
            more = self.source.read(&mut self.text)?;
            if !more {
                break;
            }
            self.take_lines()?;
        }
        self.hand_over(false, requests);
        Ok(more)
    }

    /// Stops recording, and appends the remaining requests to `requests`.
    ///
    /// # Errors
    /// Returns the errors of [`poll`](Self::poll).
    pub fn finish(mut self, requests: &mut Vec<Request>) -> Result<Summary, RecordError> {
        self.source.stop()?;
        while self.poll(requests)? {}
        self.hand_over(true, requests);
        let lost_events = self.summary.lost_events.max(self.source.lost_events()?);
        Ok(Summary { unpaired: self.pairing.unpaired(), lost_events, ..self.summary })
    }

    fn take_lines(&mut self) -> Result<(), RecordError> {
        let Some(end) = self.text.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = self.text.split_off(end + 1);
        let text = std::mem::replace(&mut self.text, rest);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            match self.source.reader().entry(line) {
                Ok(Some(entry)) if entry.moment == self.arrival || entry.moment == Moment::Completed => {
                    if let Some(entry) = within(&self.device, entry) {
                        self.order.push(entry);
                    }
                }
                Ok(_) => {}
                Err(bad) => match lost_events(line) {
                    Some(events) => self.summary.lost_events += events,
                    None => {
                        let Bad { field, value, expected, .. } = *bad;
                        return Err(RecordError::Event { field, value, expected, line: shown(line) });
                    }
                },
            }
        }
        Ok(())
    }

    /// Appends the requests that are final by now; if `all` is set, appends all requests.
    fn hand_over(&mut self, all: bool, requests: &mut Vec<Request>) {
        while let Some(entry) = self.order.pop(all) {
            self.pairing.push(entry);
            self.take_paired(false, requests);
        }
        self.take_paired(all, requests);
    }

    fn take_paired(&mut self, all: bool, requests: &mut Vec<Request>) {
        while let Some(Entry { time, device, kind, fua, range, response, .. }) = self.pairing.pop(all) {
            let first = *self.first_arrival.get_or_insert(time);
            requests.push(Request { arrival: time.saturating_sub(first), device, kind, fua, range, response });
            self.summary.requests += 1;
        }
    }
}

/// Returns the event relative to the recorded device, under number 0: sectors of a partition count
/// from the start of the partition. Returns `None` if the event concerns another device.
fn within(device: &Device, entry: Entry) -> Option<Entry> {
    let SectorRange { start, len } = entry.range;
    let whole_disk = start == Sectors(0) && entry.range.is_empty();
    let start = match device.partition {
        Some(partition) if !whole_disk => {
            let inside = start >= partition.start && entry.range.end() <= partition.end();
            inside.then(|| start - partition.start)?
        }
        _ => start,
    };
    Some(Entry { device: 0, range: SectorRange { start, len }, ..entry })
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;

    use super::*;

    #[test]
    fn a_partition_sees_its_own_requests_from_its_own_start() {
        let partition = Some(SectorRange::new(2048, 1000));
        let device = Device { path: PathBuf::from("sda1"), numbers: vec![(8, 1), (8, 0)], size: Sectors(0), partition };
        let start_seen = |start, len| {
            let entry = Entry::request(0, 1, OpKind::Write, SectorRange::new(start, len));
            within(&device, entry).map(|entry| (entry.device, entry.range.start.0))
        };
        assert_eq!(start_seen(2048, 8), Some((0, 0)));
        assert_eq!(start_seen(3040, 8), Some((0, 992)));
        assert_eq!(start_seen(3041, 8), None, "ends in the next partition");
        assert_eq!(start_seen(0, 8), None, "lies in front");
        assert_eq!(start_seen(0, 0), Some((0, 0)), "a flush is of the whole disk");
        assert_eq!(start_seen(2056, 0), Some((0, 8)), "a write is stable");
        assert_eq!(start_seen(4096, 0), None, "a write of another partition is stable");
    }
}
