//! Recording what a live block device is asked for.
//!
//! Here live the events of the kernel ([`event`]), how they become requests ([`pairing`]), and the two places where a
//! kernel hands them out: the block events of tracefs, and blktrace where tracefs is not to be had. Nothing here
//! writes a file: requests go to the caller. Everything that is switched on is switched off when its owner is dropped.
//!
//! Read first: [`Recorder`].

mod blktrace;
mod device;
pub mod event;
pub mod pairing;
mod tracefs;

use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use self::blktrace::Blktrace;
use self::device::Device;
use self::event::{BlockEvent, FieldError, Line, Stage};
use self::pairing::{Pairing, Unpaired};
use self::tracefs::Tracefs;
use crate::Request;

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
    #[error("an event of the kernel cannot be read ({field}) in '{line}'")]
    Event {
        /// The field.
        field: FieldError,
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

    /// How its lines are read.
    fn parse(&self, line: &str) -> Result<Line, FieldError>;

    /// What it is, for the user.
    fn name(&self) -> &'static str;
}

/// A recording that runs from [`start`](Self::start) to [`finish`](Self::finish). Dropped without, it leaves nothing
/// switched on either.
pub struct Recorder {
    device: Device,
    source: Box<dyn Source>,
    pairing: Pairing,
    /// Text whose last line is not complete yet.
    text: Vec<u8>,
    paired: Vec<Request>,
    first_arrival: Option<Nanoseconds>,
    summary: Summary,
}

impl Recorder {
    /// Starts to record the block device at `path`; `arrival` says which event is the arrival of a request
    /// ([`Stage::Queue`] or [`Stage::Issue`]).
    ///
    /// # Errors
    /// It is no block device, the user is not root, or the kernel gives no block events.
    pub fn start(path: &Path, arrival: Stage) -> Result<Self, RecordError> {
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
            pairing: Pairing::new(arrival),
            text: Vec::new(),
            paired: Vec::new(),
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
        self.hand_over(requests);
        Ok(())
    }

    /// Stops recording, and appends the rest to `requests`.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn finish(mut self, requests: &mut Vec<Request>) -> Result<Summary, RecordError> {
        self.source.stop()?;
        self.poll(requests)?;
        let pairing = std::mem::replace(&mut self.pairing, Pairing::new(Stage::Queue));
        let Unpaired(unpaired) = pairing.finish(&mut self.paired);
        self.hand_over(requests);
        let lost_events = self.summary.lost_events.max(self.source.lost_events()?);
        Ok(Summary { unpaired, lost_events, ..self.summary })
    }

    fn take_lines(&mut self) -> Result<(), RecordError> {
        let Some(end) = self.text.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        for line in self.text[..end].split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            match self.source.parse(&line) {
                Ok(Line::Event(event)) => {
                    if let Some(event) = within(&self.device, event) {
                        self.pairing.push(event, &mut self.paired);
                    }
                }
                Ok(Line::Lost(events)) => self.summary.lost_events += events,
                Ok(Line::Other) => {}
                Err(field) => return Err(RecordError::Event { field, line: line.into_owned() }),
            }
        }
        self.text.drain(..=end);
        Ok(())
    }

    fn hand_over(&mut self, requests: &mut Vec<Request>) {
        for mut request in self.paired.drain(..) {
            let first = *self.first_arrival.get_or_insert(request.arrival);
            request.arrival -= first;
            requests.push(request);
            self.summary.requests += 1;
        }
    }
}

/// The event as the recorded device sees it: a partition's sectors count from its start. `None` if it concerns another.
fn within(device: &Device, event: BlockEvent) -> Option<BlockEvent> {
    let Some(partition) = device.partition else { return Some(event) };
    if event.range.is_empty() {
        return Some(event);
    }
    let inside = event.range.start >= partition.start && event.range.end() <= partition.end();
    let start = Sectors(event.range.start.0.saturating_sub(partition.start.0));
    inside.then_some(BlockEvent { range: SectorRange { start, len: event.range.len }, ..event })
}

#[cfg(test)]
mod tests {
    use super::event::Letters;
    use super::*;
    use bimetal_core::operation::OpKind;

    #[test]
    fn a_partition_sees_its_own_requests_from_its_own_start() {
        let partition = Some(SectorRange::new(2048, 1000));
        let device = Device { path: PathBuf::from("sda1"), numbers: vec![(8, 1), (8, 0)], partition };
        let start_seen = |start, len| {
            let letters = Letters { kind: Some(OpKind::Write), preflush: false, fua: false };
            let range = SectorRange::new(start, len);
            let event = BlockEvent { at: Nanoseconds::ZERO, stage: Stage::Issue, device: (8, 0), letters, range };
            within(&device, event).map(|event| event.range.start.0)
        };
        assert_eq!(start_seen(2048, 8), Some(0));
        assert_eq!(start_seen(3040, 8), Some(992));
        assert_eq!(start_seen(3041, 8), None, "ends in the next partition");
        assert_eq!(start_seen(0, 8), None, "lies in front");
        assert_eq!(start_seen(0, 0), Some(0), "a flush is of the whole disk");
    }
}
