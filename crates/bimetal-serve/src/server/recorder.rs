//! The recorder: the requests of clients as a trace, with their response times. The loop only
//! passes requests on; another thread sorts the requests by arrival and writes them to the trace.
//! The number of requests that wait to be written is bounded: further requests are dropped and
//! counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use bimetal_core::operation::Command;
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use bimetal_trace::write::Content;
use bimetal_trace::{Request, Writer, formats};
use bimetal_volumes::status::TraceStatus;

use super::Server;
use super::control::Watch;
use super::stop::Phase;
use crate::control::message::{Done, Reply};

/// Maximum of recorded requests that are under way or wait to be written.
const WAITING_MAX: u64 = 1 << 16;

/// Recording that was ended and is being written.
pub(super) struct EndedRecording {
    path: PathBuf,
    dropped: u64,
    /// Thread that writes, until it is awaited.
    thread: Option<JoinHandle<()>>,
}

/// Request that is being recorded: its position in the order of arrival, and its time of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    place: u64,
    arrival: Nanoseconds,
    unit: u16,
    command: Command,
}

/// Recording under way.
pub(super) struct Recorder {
    path: PathBuf,
    since: Nanoseconds,
    arrived: u64,
    dropped: u64,
    /// Number of requests that are written, or will never be written, as the writing thread counts
    /// them.
    settled: Arc<AtomicU64>,
    sender: Sender<(u64, Request)>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Records a request that arrives, if the recorder has room for the request.
    pub(super) fn arrives(&mut self, now: Nanoseconds, unit: u16, command: Command) -> Option<Recorded> {
        if self.arrived - self.settled.load(Ordering::Relaxed) >= WAITING_MAX {
            self.dropped += 1;
            return None;
        }
        self.arrived += 1;
        Some(Recorded { place: self.arrived - 1, arrival: now, unit, command })
    }

    /// Records the end of a request.
    pub(super) fn ends(&self, now: Nanoseconds, Recorded { place, arrival, unit, command }: Recorded) {
        // Requests that arrived during an earlier recording are left out.
        if arrival < self.since {
            return;
        }
        let request = Request {
            arrival: arrival.saturating_sub(self.since),
            device: unit.into(),
            kind: command.kind,
            fua: command.fua,
            range: command.range,
            response: Some(now.saturating_sub(arrival)),
        };
        // If the writing thread has failed, its message says so.
        let _ = self.sender.send((place, request));
    }

    pub(super) fn status(&self) -> TraceStatus {
        let requests = self.settled.load(Ordering::Relaxed);
        TraceStatus { path: self.path.display().to_string(), requests, dropped: self.dropped }
    }
}

/// Creates a trace of a device of this size. The path must not exist, so that a typing error cannot
/// replace the home of a volume.
fn new_trace(path: &Path, capacity: Option<Sectors>) -> Result<Writer, String> {
    if path.symlink_metadata().is_ok() {
        return Err(format!("'{}' exists already: choose another name, or remove it first", path.display()));
    }
    Writer::create(path, &formats::bin::INFO, Content { capacity, ..Content::default() })
        .map_err(|error| error.to_string())
}

/// Writes requests in order of arrival until the sender closes. Returns the number of requests.
fn write(mut writer: Writer, receiver: &Receiver<(u64, Request)>, settled: &AtomicU64) -> Result<u64, String> {
    let mut early: BinaryHeap<Reverse<(u64, Key)>> = BinaryHeap::new();
    let mut next = 0;
    let mut put = |early: &mut BinaryHeap<Reverse<(u64, Key)>>, all: bool| -> Result<(), String> {
        while early.peek().is_some_and(|Reverse((place, _))| all || *place == next) {
            let Some(Reverse((place, Key(request)))) = early.pop() else { break };
            next = place + 1;
            settled.fetch_add(1, Ordering::Relaxed);
            writer.write(&request).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    for (place, request) in receiver {
        early.push(Reverse((place, Key(request))));
        put(&mut early, false)?;
    }
    // Requests that were never answered leave gaps.
    put(&mut early, true)?;
    writer.finish().map(|written| written.requests).map_err(|error| error.to_string())
}

/// A request in the heap whose own order does not count.
struct Key(Request);

impl PartialEq for Key {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Server {
    pub(super) fn hear_trace_start(&mut self, key: usize, path: PathBuf) -> Option<Reply> {
        if let Some(recorder) = &self.control.recorder {
            return Some(Reply::error(format!(
                "requests are being recorded already, to {}: end that recording with `bimetal trace stop`",
                recorder.path.display()
            )));
        }
        if !path.is_absolute() {
            return Some(Reply::error(format!(
                "'{}' is a relative path, and the server has another working directory: expected an absolute path",
                path.display()
            )));
        }
        self.watch(key, Watch::TraceStart);
        let file = path.clone();
        // Requests to several exports have no common size.
        let capacity = match &self.exports[..] {
            [export] => Some(Bytes(export.bytes).sectors()),
            _ => None,
        };
        let begun = self
            .outside(move || new_trace(&file, capacity), move |server, writer| server.begin_recording(path, writer));
        begun.err().map(|error| Reply::error(format!("no thread to write a trace: {error}")))
    }

    fn begin_recording(&mut self, path: PathBuf, writer: Result<Writer, String>) {
        let reply = match writer.and_then(|writer| self.record_to(path.clone(), writer)) {
            Ok(()) => Reply::Done(Done::new(format!("recording requests to {}", path.display()))),
            Err(message) => Reply::Error { message },
        };
        self.tell_watchers(Watch::TraceStart, &reply);
    }

    fn record_to(&mut self, path: PathBuf, writer: Writer) -> Result<(), String> {
        if let Some(recorder) = &self.control.recorder {
            return Err(format!("requests are being recorded already, to {}", recorder.path.display()));
        }
        let settled = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = channel();
        let counter = Arc::clone(&settled);
        let thread = self
            .outside(move || write(writer, &receiver, &counter), |server, written| server.recording_ended(written))
            .map_err(|error| format!("no thread to write a trace: {error}"))?;
        let recorder = Recorder { path, since: self.now, arrived: 0, dropped: 0, settled, sender, thread };
        self.control.recorder = Some(recorder);
        self.control.recording_failed = None;
        Ok(())
    }

    pub(super) fn hear_trace_stop(&mut self, key: usize) -> Option<Reply> {
        let Some(recorder) = self.control.recorder.take() else {
            let failed = self.control.recording_failed.take().map(|(_, reason)| reason);
            let message = failed.unwrap_or_else(|| "no recording is under way".to_owned());
            return Some(Reply::error(message));
        };
        self.watch(key, Watch::TraceStop);
        self.end_recording(recorder);
        None
    }

    /// Lets the writing thread end: it ends when its sender is dropped.
    fn end_recording(&mut self, Recorder { path, dropped, sender, thread, .. }: Recorder) {
        self.control.recorded = Some(EndedRecording { path, dropped, thread: Some(thread) });
        drop(sender);
    }

    /// Ends the recording, waits until it is written, and says so if requests are missing from it:
    /// no requester is left.
    pub(super) fn finish_recording(&mut self) {
        if let Some(recorder) = self.control.recorder.take() {
            self.end_recording(recorder);
        }
        if let Some(thread) = self.control.recorded.as_mut().and_then(|recorded| recorded.thread.take()) {
            let is_written = thread.join().is_ok();
            self.read_mailbox();
            if let Some(EndedRecording { path, .. }) = self.control.recorded.take().filter(|_| !is_written) {
                self.say_what_is_missing(&path, "its thread has failed");
            }
        }
        if let Some((path, reason)) = self.control.recording_failed.take() {
            self.say_what_is_missing(&path, &reason);
        }
    }

    fn say_what_is_missing(&mut self, path: &Path, reason: &str) {
        self.say(&format!("the trace {} is not complete: {reason}", path.display()));
    }

    fn recording_ended(&mut self, written: Result<u64, String>) {
        let Some(EndedRecording { path, dropped, .. }) = self.control.recorded.take() else {
            // The recording ended by itself, so it failed.
            let recorder = self.control.recorder.take();
            self.control.recording_failed = recorder.map(|recorder| recorder.path).zip(written.err());
            return;
        };
        let missing = match (&written, dropped) {
            (Err(reason), _) => Some(reason.clone()),
            (Ok(_), 0) => None,
            (Ok(_), dropped) => {
                Some(format!("{dropped} requests were left out, because the file was written too slowly"))
            }
        };
        if matches!(self.phase, Phase::Ended { .. })
            && let Some(reason) = &missing
        {
            self.say_what_is_missing(&path, reason);
        }
        let reply = match written {
            Ok(requests) => {
                let left_out = missing.map_or_else(String::new, |missing| format!("; {missing}"));
                Reply::Done(Done::new(format!("{requests} requests are in {}{left_out}", path.display())))
            }
            Err(message) => Reply::Error { message },
        };
        self.tell_watchers(Watch::TraceStop, &reply);
    }
}
