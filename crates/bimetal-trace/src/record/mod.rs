//! Recording what a live block device is asked for.
//!
//! Here live the two places where a kernel hands out its block events: tracefs, and blktrace where tracefs is not to be
//! had. Their text is read by the readers of traces (`formats`), and events become requests as those of a trace do
//! (`pairing`). Nothing here writes a file: requests go to the caller. Everything that is switched on is switched off
//! when its owner is dropped.
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

/// How long requests wait for their completions before they are given without: a recording goes on even if the kernel
/// has lost one.
const PATIENCE: Patience = Patience { requests: 1 << 20, time: Nanoseconds::from_seconds(60) };

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The path is no block device.
    #[error("{path}: {reason}; expected a block device like /dev/sdb")]
    NotADevice {
        /// What was given.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// The user may not record.
    #[error("recording the block events of the kernel needs root ({path}: {error}): run it with sudo")]
    NeedsRoot {
        /// What could not be opened.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel gives no block events in any way we know.
    #[error("this kernel gives no block events: tracefs: {tracefs}; blktrace: {blktrace}")]
    NotPermitted {
        /// Why not by tracefs.
        tracefs: String,
        /// Why not by blktrace.
        blktrace: String,
    },
    /// A file of the kernel could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// An event has a form that we do not know.
    #[error("an event of the kernel cannot be read ({field} '{value}': expected {expected}) in '{line}'")]
    Event {
        /// The field, by its name in the format's description.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What should.
        expected: Cow<'static, str>,
        /// The line.
        line: String,
    },
}

/// What became of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Requests given to the caller.
    pub requests: u64,
    /// Requests among them whose completion was not seen: they have no response time.
    pub unpaired: u64,
    /// Events that the kernel dropped because they were not fetched in time: the trace has gaps.
    pub lost_events: u64,
}

/// Where lines of events come from.
trait Source {
    /// Appends the text that came since the last call, and says whether there was any; does not wait.
    fn read(&mut self, text: &mut Vec<u8>) -> Result<bool, RecordError>;

    /// Tells the kernel to stop; what was recorded can still be read.
    fn stop(&mut self) -> Result<(), RecordError>;

    /// Events lost so far, beyond those that the text tells of.
    fn lost_events(&mut self) -> Result<u64, RecordError>;

    /// What reads its lines.
    fn reader(&mut self) -> &mut dyn LineFormat;

    /// What it is, for the user.
    fn name(&self) -> &'static str;
}

/// A recording that runs from [`start`](Self::start) to [`finish`](Self::finish). Dropped without, it leaves nothing
/// switched on either.
pub struct Recorder {
    device: Device,
    source: Box<dyn Source>,
    /// What the arrival of a request is.
    arrival: Moment,
    order: Order,
    pairing: Pairing,
    /// Text whose last line is not complete yet.
    text: Vec<u8>,
    first_arrival: Option<Nanoseconds>,
    summary: Summary,
}

impl Recorder {
    /// Starts to record the block device at `path`; `arrival` says which event is the arrival of a request.
    ///
    /// # Errors
    /// It is no block device, the user is not root, or the kernel gives no block events.
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

    /// How the events are got: `tracefs` or `blktrace`.
    pub fn source(&self) -> &'static str {
        self.source.name()
    }

    /// Fetches what came since the last call, and appends the requests that are known by it to `requests`, in order of
    /// arrival, the first at time 0. Does not wait; to be called some twenty times a second.
    ///
    /// # Errors
    /// The kernel's files cannot be read, or hold what we do not know.
    pub fn poll(&mut self, requests: &mut Vec<Request>) -> Result<(), RecordError> {
        while self.source.read(&mut self.text)? {
            self.take_lines()?;
        }
        self.hand_over(false, requests);
        Ok(())
    }

    /// Stops recording, and appends the rest to `requests`.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn finish(mut self, requests: &mut Vec<Request>) -> Result<Summary, RecordError> {
        self.source.stop()?;
        self.poll(requests)?;
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

    /// Appends the requests that are known by now or, with `all`, every one.
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

/// The event as the recorded device sees it, under number 0: a partition's sectors count from its start. `None` if it
/// concerns another.
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
        let device = Device { path: PathBuf::from("sda1"), numbers: vec![(8, 1), (8, 0)], partition };
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
