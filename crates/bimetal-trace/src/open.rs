//! Opens a trace and hands out its requests in order of time, in bounded memory.
//!
//! The way of a request: bytes (`input`) are taken apart by the format's decoder (`formats`), put in order of time
//! (`time_order`), joined with their completions where the format records them (`pairing`), and rebased so that the
//! first is at 0.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bimetal_core::units::Nanoseconds;

use crate::Request;
use crate::entry::{Bad, Decoder, Entry, Fault, Moment};
use crate::error::{BadLine, Place, TraceError};
use crate::format::Format;
use crate::formats;
use crate::input::Input;
use crate::pairing::{Pairing, Patience};
use crate::recognise::{self, Moments, Recognised};
use crate::time_order::TimeOrder;

/// How long requests wait for their completions: memory is all that waiting costs.
const PATIENCE: Patience = Patience { requests: 65_536, time: Nanoseconds(u64::MAX) };

/// Which event of a request is the request, in formats that record several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Its arrival in the block layer.
    Queue,
    /// Its issue to the drive.
    Issue,
}

/// A text that names no event.
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

/// How to open a trace; the default recognises the format and takes everything.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Its format; recognised by content where it is not given.
    pub format: Option<Format>,
    /// Which event is the request; by default the queue events if the beginning of the trace has any, else the issue
    /// events.
    pub event: Option<Event>,
    /// Only the requests of this device.
    pub device: Option<u32>,
    /// Whether bad lines are counted and passed over; an error otherwise.
    pub skip_bad_lines: bool,
    /// No more than this many requests.
    pub limit: Option<u64>,
}

/// A trace that is read: an iterator over its requests, in order of time, equal times in file order.
///
/// Memory is bounded whatever the length of the trace. After an error the iterator is at its end.
pub struct Trace {
    name: String,
    format: Format,
    has_times: bool,
    has_operations: bool,
    notes: Vec<String>,
    options: OpenOptions,
    /// The event taken, in formats that record several, and whether that was a guess.
    event: Option<Event>,
    event_is_guessed: bool,
    input: Input,
    decoder: Box<dyn Decoder>,
    order: Option<TimeOrder>,
    pairing: Option<Pairing>,
    /// Entries behind the sort and the pairing, where those have nothing to do.
    ready: VecDeque<Entry>,
    /// What the decoder came upon behind those.
    fault: Option<Fault>,
    stage: Stage,
    first_time: Option<Nanoseconds>,
    emitted: u64,
    skipped: u64,
    first_skipped: Option<String>,
    file_size: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// The decoder is at its end; what waits comes out.
    Draining,
    Done,
}

impl Trace {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened or read, is empty, or its format is not recognised.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let open = |source| TraceError::Open { trace: name.clone(), source };
        let file = File::open(path).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_dir() {
            return Err(open(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let size = metadata.is_file().then_some(metadata.len());
        Self::from_reader(name, file, size, options)
    }

    /// Opens what `reader` gives, under `name`; `size` is how many bytes that will be, if it is known.
    ///
    /// # Errors
    /// As [`open`](Self::open).
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
            decoder: formats::decoder(recognised.format),
            format: recognised.format,
            has_times: probe.has_times,
            has_operations: probe.has_operations,
            order: (probe.has_times && recognised.format != Format::Bin).then(TimeOrder::new),
            pairing: formats::has_completions(recognised.format).then(|| Pairing::new(PATIENCE)),
            notes: recognised.notes,
            options: options.clone(),
            event: None,
            event_is_guessed: false,
            input,
            ready: VecDeque::new(),
            fault: None,
            stage: Stage::Reading,
            first_time: None,
            emitted: 0,
            skipped: 0,
            first_skipped: None,
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
                if !formats::has_events(self.format) {
                    self.notes.push("it has one entry a request: --event changes nothing".to_owned());
                    return;
                }
                self.event = Some(event);
                return;
            }
            (None, true, issued) => {
                if issued {
                    self.notes.push(
                        "it has queue and issue events: a request is its queue event (--event issue takes the others)"
                            .to_owned(),
                    );
                }
                Event::Queue
            }
            (None, false, true) => {
                self.notes.push(
                    "its beginning has no queue events: a request is its issue event (as --event issue)".to_owned(),
                );
                self.event_is_guessed = true;
                Event::Issue
            }
        };
        self.event = Some(choice);
    }

    fn note_what_is_missing(&mut self) {
        if !self.has_times {
            self.notes.push("it has no times: --replay closed gives its requests in order, without them".to_owned());
        }
        if !self.has_operations {
            self.notes.push("it has no operations: every request is taken for a read".to_owned());
        }
        if matches!(self.format, Format::Lis | Format::Keys32le) {
            self.notes.push("it does not say how large its blocks are: each is taken for 4 KiB".to_owned());
        }
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its format, given or recognised.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it says when requests arrived; all arrive at 0 otherwise.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Whether it says what requests do; all are reads otherwise.
    pub fn has_operations(&self) -> bool {
        self.has_operations
    }

    /// The event that is taken as the request, in a trace that records several.
    pub fn event(&self) -> Option<Event> {
        self.event
    }

    /// What was assumed, why, and the flag that overrides it: sentences for the user, each about "it", the trace.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bad lines passed over so far.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped
    }

    /// What the trace calls `device`, where it has a text for it and that device was seen.
    pub fn device_name(&self, device: u32) -> Option<String> {
        self.decoder.device_name(device)
    }

    /// Bytes of the file (before decompression) read so far.
    pub fn bytes_read(&self) -> u64 {
        self.input.file_bytes().load(Ordering::Relaxed)
    }

    /// The counter behind [`bytes_read`](Self::bytes_read), for a progress bar that outlives a borrow of the trace.
    pub fn byte_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(self.input.file_bytes())
    }

    /// Bytes of the file (before decompression) in total, if that is known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.file_size
    }

    /// Reads until an entry is ready behind sort and pairing, or the trace is at its end.
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

    /// Makes the next entries ready: of a format whose order is that of the file, and that has one entry a request.
    fn fill(&mut self) -> Result<(), TraceError> {
        debug_assert!(self.pairing.is_none() && self.event.is_none());
        let filled = self.decoder.fill(&mut self.input, &mut self.ready);
        if let Some(device) = self.options.device {
            self.ready.retain(|entry| entry.device == device);
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
        if self.options.device.is_some_and(|device| device != entry.device) {
            return Ok(false);
        }
        match (entry.moment, self.event) {
            (Moment::Only, _) => Ok(true),
            (Moment::Queued, Some(Event::Issue)) if self.event_is_guessed => {
                Err(TraceError::LateQueueEvent { trace: self.name.clone(), place: self.decoder.place() })
            }
            (Moment::Queued, event) => Ok(event == Some(Event::Queue)),
            (Moment::Issued, event) => Ok(event == Some(Event::Issue)),
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

    /// Moves what the window lets go on to the pairing, and what that lets go to `ready`.
    #[inline]
    fn sorted(&mut self, all: bool) {
        let Some(order) = &mut self.order else { return };
        while let Some(entry) = order.pop(all) {
            let Some(pairing) = &mut self.pairing else {
                self.ready.push_back(entry);
                continue;
            };
            pairing.push(entry);
            self.ready.extend(std::iter::from_fn(|| pairing.pop(false)));
        }
        if let Some(pairing) = self.pairing.as_mut().filter(|_| all) {
            self.ready.extend(std::iter::from_fn(|| pairing.pop(true)));
        }
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

    /// Counts a bad line, or makes it the error that ends the trace.
    #[cold]
    fn refuse(&mut self, bad: Bad, place: Place) -> Result<(), TraceError> {
        let Bad { field, value, expected, fatal, .. } = bad;
        let line = BadLine { trace: self.name.clone(), place, field, value, expected };
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
            (None, Some((place, line))) => format!("the first line read past is {}:{place}: '{line}'", self.name),
            (None, None) => "it has no entry that is a request".to_owned(),
        };
        if let Some(device) = self.options.device {
            reason.push_str(&format!("; only device {device} was asked for (--device)"));
        }
        if let Some(event) = self.event {
            let name = if event == Event::Queue { "queue" } else { "issue" };
            reason.push_str(&format!("; only {name} events were asked for (--event)"));
        }
        TraceError::NoRequests { trace: self.name.clone(), format: self.format, reason }
    }

    #[inline]
    fn request(&mut self, entry: Entry) -> Request {
        let first = *self.first_time.get_or_insert(entry.time);
        rebased(entry, if self.has_times { first } else { entry.time })
    }

    /// Reads the next requests into `requests`, as many as it has room for without growing; none at the end of the trace.
    ///
    /// # Errors
    /// As the iterator; what was read before stays.
    pub fn read(&mut self, requests: &mut Vec<Request>) -> Result<(), TraceError> {
        while requests.len() < requests.capacity() {
            // The first of those that are ready goes the whole way: it may be the first of all, or beyond the limit.
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

/// What the beginning of a trace shows of the rest, once its format is known.
struct Probe {
    moments: Moments,
    has_times: bool,
    has_operations: bool,
}

impl Probe {
    fn of(format: Format, head: Vec<u8>, recognised: &Recognised) -> Self {
        let mut decoder = formats::decoder(format);
        let mut moments = Moments::default();
        // The head is bare already; were its first bytes those of a compressed file, this would only see nothing.
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
        Self { moments, has_times, has_operations: decoder.has_operations() }
    }
}
