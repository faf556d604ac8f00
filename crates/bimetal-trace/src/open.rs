//! Opens a trace and returns its requests in order of time, in bounded memory.
//!
//! The path of a request: the format's decoder (`formats`) parses bytes (`input`) into entries.
//! `time_order` sorts the entries, and `pairing` joins them with their completions, if the format
//! records completions. Last, times are rebased so that the first request is at 0.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bimetal_core::units::{Bytes, Nanoseconds, Sectors};

use crate::Request;
use crate::entry::{Bad, Decoder, Entry, Fault, Moment};
use crate::error::{BadLine, Place, TraceError};
use crate::format::{Events, Format};
use crate::input::Input;
use crate::pairing::{Pairing, Patience};
use crate::recognise::{self, Moments, Recognised};
use crate::time_order::{SPAN_NS_MAX, SPANS, TimeOrder, bad_time};

/// Path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// Limits for requests that wait for their completions. Waiting requests cost only memory, so there
/// is no limit of time.
const PATIENCE: Patience = Patience { requests: 65_536, time: Nanoseconds(u64::MAX) };

/// Event that stands for a request, in formats that record several events for each request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Arrival in the block layer.
    Queue,
    /// Issue to the drive.
    Issue,
}

/// A text that is not the name of an event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown event '{0}': expected queue or issue")]
pub struct UnknownEvent(String);

impl FromStr for Event {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        match text {
            "queue" => Ok(Event::Queue),
            "issue" => Ok(Event::Issue),
            _ => Err(UnknownEvent(text.to_owned())),
        }
    }
}

/// Options for opening a trace. The default recognises the format and takes all requests.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Format of the trace; recognised by content if not given.
    pub format: Option<&'static Format>,
    /// Event that stands for a request. By default the queue events, if the beginning of the trace
    /// has any, and otherwise the issue events.
    pub event: Option<Event>,
    /// Device whose requests alone are read.
    pub device: Option<u32>,
    /// Set if bad lines are counted and skipped; otherwise a bad line is an error.
    pub skip_bad_lines: bool,
    /// Largest number of requests that are read.
    pub limit: Option<u64>,
}

/// Reader of a trace: an iterator over the requests, in order of time; equal times are in file
/// order.
///
/// Memory is bounded for traces of any length. After an error the iterator is at its end.
pub struct Trace {
    name: String,
    format: &'static Format,
    has_times: bool,
    has_operations: bool,
    capacity: Option<Sectors>,
    notes: Vec<String>,
    options: OpenOptions,
    /// Event that stands for a request, in formats that record several events or name the event
    /// that they record.
    event: Option<Event>,
    event_is_guessed: bool,
    input: Input,
    decoder: Box<dyn Decoder>,
    order: Option<TimeOrder>,
    pairing: Option<Pairing>,
    /// Entries that have passed the sort and the pairing, or that need neither sort nor pairing.
    ready: VecDeque<Entry>,
    /// Fault that the decoder found after the entries in `ready`.
    fault: Option<Fault>,
    stage: Stage,
    first_time: Option<Nanoseconds>,
    emitted: u64,
    skipped: u64,
    first_skipped: Option<String>,
    /// Devices whose requests were left out before the first request, the first few.
    other_devices: BTreeSet<u32>,
    file_size: Option<u64>,
}

/// Largest number of devices that a message names.
const OTHERS_MAX: usize = 16;

/// Notes that the trace has a device `found` other than the `wanted` device.
fn note_other(others: &mut BTreeSet<u32>, wanted: u32, found: u32) {
    if found != wanted && others.len() < OTHERS_MAX {
        others.insert(found);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// The decoder has reached the end of the trace. Entries that wait for sort or pairing are
    /// handed out.
    Draining,
    Done,
}

impl Trace {
    /// Opens the file at `path`; [`STANDARD_INPUT`] is the standard input of the process, which can
    /// be read once.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read or is empty, or if its format is not recognised.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let is_input = path == Path::new(STANDARD_INPUT);
        let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
        let open = |source| TraceError::Open { trace: name.clone(), source };
        let opened = if is_input { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
        let file = opened.map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_dir() {
            return Err(open(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let size = metadata.is_file().then_some(metadata.len());
        Self::from_reader(name, file, size, options)
    }

    /// Reads a trace from `reader` under `name`; `size` is the number of bytes, if known.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open).
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        size: Option<u64>,
        options: &OpenOptions,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        let mut input =
            Input::new(reader).map_err(|source| TraceError::Read { trace: name.clone(), offset: 0, source })?;
        let head = match input.peek_all() {
            Ok(head) => head.to_vec(),
            Err(source) => return Err(TraceError::Read { trace: name, offset: 0, source }),
        };
        if head.is_empty() {
            return Err(TraceError::Empty { trace: name });
        }
        let recognised = match options.format {
            Some(format) => Recognised { format, notes: Vec::new(), is_index: false },
            None => recognise::recognise(&head, input.ended()).map_err(|unknown| TraceError::UnknownFormat {
                trace: name.clone(),
                tried: unknown.tried,
                rejected: unknown.rejected,
            })?,
        };
        let probe = Probe::of(recognised.format, head, &recognised);
        let mut trace = Self {
            decoder: (recognised.format.reader.decoder)(),
            format: recognised.format,
            has_times: probe.has_times,
            has_operations: probe.has_operations,
            capacity: probe.capacity,
            order: (probe.has_times && !recognised.format.is_sorted).then(TimeOrder::new),
            pairing: (recognised.format.events == Events::WithCompletions).then(|| Pairing::new(PATIENCE)),
            notes: recognised.notes,
            options: options.clone(),
            event: probe.event,
            event_is_guessed: false,
            input,
            ready: VecDeque::new(),
            fault: None,
            stage: Stage::Reading,
            first_time: None,
            emitted: 0,
            skipped: 0,
            first_skipped: None,
            other_devices: BTreeSet::new(),
            file_size: size,
            name,
        };
        trace.choose_event(probe.moments);
        trace.note_what_is_missing();
        Ok(trace)
    }

    fn choose_event(&mut self, moments: Moments) {
        let choice = match (self.options.event, moments.queued, moments.issued) {
            (None, false, false) => return,
            (Some(event), ..) => {
                if self.format.events == Events::One {
                    self.notes.push("the trace has one entry a request: --event changes nothing".to_owned());
                    return;
                }
                self.event = Some(event);
                return;
            }
            (None, true, issued) => {
                if issued {
                    self.notes.push(
                        "the trace has queue and issue events: a queue event counts as a request (--event issue takes \
                         issue events)"
                            .to_owned(),
                    );
                }
                Event::Queue
            }
            (None, false, true) => {
                self.notes.push(
                    "the trace begins without queue events: an issue event counts as a request (as with --event issue)"
                        .to_owned(),
                );
                self.event_is_guessed = true;
                Event::Issue
            }
        };
        self.event = Some(choice);
    }

    fn note_what_is_missing(&mut self) {
        if !self.has_times {
            self.notes.push("the trace has no times: only the order of its requests is known".to_owned());
        }
        if !self.has_operations {
            self.notes.push("the trace has no operations: every request counts as a read".to_owned());
        }
        if self.format.lacks_block_size {
            self.notes.push("the trace does not give its block size: a block counts as 4 KiB".to_owned());
        }
    }

    /// Returns the name under which the trace was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format, given or recognised.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns true if the trace contains times of arrival; otherwise all requests arrive at 0.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Returns true if the trace contains operations; otherwise all requests are reads.
    pub fn has_operations(&self) -> bool {
        self.has_operations
    }

    /// Returns the size of the device that was recorded, if the trace contains the size.
    pub fn capacity(&self) -> Option<Bytes> {
        self.capacity.map(Sectors::bytes)
    }

    /// Returns the event that stands for a request, in a trace that records several events or names
    /// the event that it records.
    pub fn event(&self) -> Option<Event> {
        self.event
    }

    /// Returns what was assumed, why, and the flag that overrides it: sentences for the user, in
    /// which "it" is the trace.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of bad lines skipped so far.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped
    }

    /// Returns the trace's name for `device`, if the trace has one and the device was seen.
    pub fn device_name(&self, device: u32) -> Option<String> {
        self.decoder.device_name(device)
    }

    /// Returns the bytes of the file (before decompression) read so far.
    pub fn bytes_read(&self) -> u64 {
        self.input.file_bytes().load(Ordering::Relaxed)
    }

    /// Returns the counter behind [`bytes_read`](Self::bytes_read), for a progress bar that
    /// outlives a borrow of the trace.
    pub fn byte_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(self.input.file_bytes())
    }

    /// Returns the size of the file in bytes (before decompression), if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.file_size
    }

    /// Reads until an entry has passed sort and pairing, or until the end of the trace.
    #[inline]
    fn next_entry(&mut self) -> Result<Option<Entry>, TraceError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if let Some(fault) = self.fault.take() {
                self.fault(fault)?;
            }
            match self.stage {
                Stage::Reading if self.order.is_none() => self.fill()?,
                Stage::Reading => match self.decoder.next(&mut self.input) {
                    Ok(Some(entry)) => match entry.bounded() {
                        Ok(entry) if self.is_wanted(&entry)? => self.put_in_order(entry)?,
                        Ok(entry) if self.emitted == 0 => {
                            let device = self.options.device.unwrap_or(entry.device);
                            note_other(&mut self.other_devices, device, entry.device);
                        }
                        Ok(_) => {}
                        Err(bad) => self.fault(bad.into())?,
                    },
                    Ok(None) => self.drain()?,
                    Err(fault) => self.fault(fault)?,
                },
                Stage::Draining => {
                    self.stage = Stage::Done;
                    self.sorted(true);
                }
                Stage::Done => return Ok(None),
            }
        }
    }

    /// Decodes the next entries into `ready`. The format must have one entry for each request, in
    /// order of time.
    fn fill(&mut self) -> Result<(), TraceError> {
        debug_assert!(self.format.events == Events::One);
        let filled = self.decoder.fill(&mut self.input, &mut self.ready);
        if let Some(device) = self.options.device {
            self.retain_device(device);
        }
        let first = self.first_time.or(self.ready.front().map(|entry| entry.time));
        let spans = |entry: &Entry| first.is_some_and(|first| entry.time.0.saturating_sub(first.0) > SPAN_NS_MAX);
        if let Some(entry) = self.ready.back().filter(|entry| spans(entry)) {
            self.fault = Some(Fault::Bad(bad_time(entry.time, SPANS)));
            self.ready.retain(|entry| !spans(entry));
        }
        match filled {
            Ok(true) => Ok(()),
            Ok(false) => self.drain(),
            Err(fault) => {
                self.fault = Some(fault);
                Ok(())
            }
        }
    }

    #[inline]
    fn put_in_order(&mut self, entry: Entry) -> Result<(), TraceError> {
        let place = self.decoder.place();
        if let Some(Err((bad, place))) = self.order.as_mut().map(|order| order.push(entry, place)) {
            self.refuse(*bad, place)?;
        }
        self.sorted(false);
        Ok(())
    }

    #[inline]
    fn is_wanted(&self, entry: &Entry) -> Result<bool, TraceError> {
        // A pairing tells which device is a partition of which.
        if self.pairing.is_none() && self.options.device.is_some_and(|device| device != entry.device) {
            return Ok(false);
        }
        match (entry.moment, self.event) {
            (Moment::Only, _) => Ok(true),
            (Moment::Queued, Some(Event::Issue)) if self.event_is_guessed => {
                Err(TraceError::LateQueueEvent { trace: self.name.clone(), place: self.decoder.place() })
            }
            (Moment::Queued, event) => Ok(event == Some(Event::Queue)),
            (Moment::Issued, event) => Ok(event == Some(Event::Issue)),
            (Moment::Requeued, event) => Ok(event == Some(Event::Issue) && self.pairing.is_some()),
            (Moment::Completed, _) => Ok(self.pairing.is_some()),
        }
    }

    fn drain(&mut self) -> Result<(), TraceError> {
        self.stage = Stage::Draining;
        match self.order.as_mut().map(TimeOrder::finish) {
            Some(Err((bad, place))) => self.refuse(*bad, place),
            _ => Ok(()),
        }
    }

    /// Moves entries that leave the sort to the pairing, and entries that leave the pairing to
    /// `ready`.
    #[inline]
    fn sorted(&mut self, all: bool) {
        let Some(order) = &mut self.order else { return };
        while let Some(entry) = order.pop(all) {
            let Some(pairing) = &mut self.pairing else {
                self.ready.push_back(entry);
                continue;
            };
            if pairing.is_unnamed(entry.device) {
                pairing.name(entry.device, self.decoder.device_name(entry.device).as_deref().unwrap_or_default());
            }
            pairing.push(entry);
            self.ready.extend(std::iter::from_fn(|| pairing.pop(false)));
        }
        if let Some(pairing) = self.pairing.as_mut().filter(|_| all) {
            self.ready.extend(std::iter::from_fn(|| pairing.pop(true)));
        }
        if let Some(device) = self.options.device.filter(|_| self.pairing.is_some()) {
            self.retain_device(device);
        }
    }

    /// Leaves out the entries of `ready` that are not of `device`.
    fn retain_device(&mut self, device: u32) {
        let Self { ready, other_devices, emitted, .. } = self;
        ready.retain(|entry| {
            if *emitted == 0 {
                note_other(other_devices, device, entry.device);
            }
            entry.device == device
        });
    }

    #[cold]
    fn fault(&mut self, fault: Fault) -> Result<(), TraceError> {
        match fault {
            Fault::Bad(bad) => {
                let place = self.decoder.place();
                self.refuse(*bad, place)
            }
            Fault::Read(source) => {
                Err(TraceError::Read { trace: self.name.clone(), offset: self.input.offset(), source })
            }
        }
    }

    /// Counts a bad line, or returns it as the error that ends the trace.
    #[cold]
    fn refuse(&mut self, bad: Bad, place: Place) -> Result<(), TraceError> {
        let Bad { field, value, expected, fatal, .. } = bad;
        let line = BadLine { trace: self.name.clone(), place, field, value, expected, can_be_skipped: !fatal };
        if fatal || !self.options.skip_bad_lines {
            return Err(TraceError::BadLine(Box::new(line)));
        }
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(line.to_string());
        }
        Ok(())
    }

    fn no_requests(&self) -> TraceError {
        let mut reason = match (&self.first_skipped, self.decoder.first_ignored()) {
            (Some(bad), _) => format!("the first rejected line is {bad}"),
            (None, Some((place, line))) => format!("the first ignored line is {}:{place}: '{line}'", self.name),
            (None, None) => "the trace has no entry that is a request".to_owned(),
        };
        if let Some(device) = self.options.device {
            reason.push_str(&format!("; only requests of device {device} were wanted (--device)"));
            if !self.other_devices.is_empty() {
                let more = if self.other_devices.len() == OTHERS_MAX { ", …" } else { "" };
                let others: Vec<String> = self.other_devices.iter().map(u32::to_string).collect();
                let devices = if others.len() == 1 { "device" } else { "devices" };
                reason.push_str(&format!(", and the trace has the {devices} {}{more}", others.join(", ")));
            }
        }
        if let Some(event) = self.event.filter(|_| self.format.events != Events::One) {
            let name = if event == Event::Queue { "queue" } else { "issue" };
            reason.push_str(&format!("; only {name} events were wanted (--event)"));
        }
        TraceError::NoRequests { trace: self.name.clone(), format: self.format, reason }
    }

    #[inline]
    fn request(&mut self, entry: Entry) -> Request {
        let first = *self.first_time.get_or_insert(entry.time);
        rebased(entry, if self.has_times { first } else { entry.time })
    }

    /// Appends the next requests to `requests` without growing it; appends no request at the end of
    /// the trace.
    ///
    /// # Errors
    /// Returns the same errors as the iterator. Requests read before the error are kept.
    pub fn read(&mut self, requests: &mut Vec<Request>) -> Result<(), TraceError> {
        while requests.len() < requests.capacity() {
            // The first ready entry takes the full path of the iterator: it may be the trace's
            // first, or be beyond the limit.
            match self.next() {
                Some(request) => requests.push(request?),
                None => break,
            }
            let left = self.options.limit.map_or(u64::MAX, |limit| limit - self.emitted);
            let room = requests.capacity() - requests.len();
            let ready = self.ready.len().min(room).min(usize::try_from(left).unwrap_or(usize::MAX));
            let first = self.first_time.filter(|_| self.has_times);
            requests.extend(self.ready.drain(..ready).map(|entry| rebased(entry, first.unwrap_or(entry.time))));
            self.emitted += ready as u64;
        }
        Ok(())
    }
}

#[inline]
fn rebased(entry: Entry, first: Nanoseconds) -> Request {
    let Entry { time, device, kind, fua, range, response, .. } = entry;
    Request { arrival: time.saturating_sub(first), device, kind, fua, range, response }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.stage == Stage::Done && self.ready.is_empty() {
            return None;
        }
        if self.options.limit == Some(self.emitted) {
            self.stage = Stage::Done;
            self.ready.clear();
            return None;
        }
        match self.next_entry() {
            Ok(Some(entry)) => {
                self.emitted += 1;
                Some(Ok(self.request(entry)))
            }
            Ok(None) if self.emitted == 0 => Some(Err(self.no_requests())),
            Ok(None) => None,
            Err(error) => {
                self.stage = Stage::Done;
                self.ready.clear();
                Some(Err(error))
            }
        }
    }
}

/// Properties of a trace that its beginning shows, once its format is known.
struct Probe {
    moments: Moments,
    has_times: bool,
    has_operations: bool,
    capacity: Option<Sectors>,
    event: Option<Event>,
}

impl Probe {
    fn of(format: &Format, head: Vec<u8>, recognised: &Recognised) -> Self {
        let mut decoder = (format.reader.decoder)();
        let mut moments = Moments::default();
        // The head is decompressed already. If its first bytes look compressed again, the probe
        // sees no entries.
        if let Ok(mut input) = Input::new(io::Cursor::new(head)) {
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(entry)) => moments.see(&entry),
                    Err(Fault::Bad(bad)) if !bad.fatal => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }
        let has_times = decoder.has_times() && !recognised.is_index;
        let (has_operations, capacity) = (decoder.has_operations(), decoder.capacity());
        Self { moments, has_times, has_operations, capacity, event: decoder.event() }
    }
}
