//! A trace as a workload: it is opened anew for every run, and played with the alignment and the
//! times that the options ask for.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bimetal_core::block::BlockSize;
use bimetal_core::units::Bytes;
use bimetal_sim::findings::Finding;
use bimetal_sim::workload::aligned::aligned;
use bimetal_sim::workload::glance::Glance;
use bimetal_sim::workload::spread::{Within, spread};
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::{Event, Format, OpenOptions, STANDARD_INPUT, Trace, TraceError};

use crate::error::Error;
use crate::in_memory::InMemory;
use crate::kept::Kept;
use crate::options::TraceOptions;
use crate::output::note;
use crate::sample;
use crate::standard_input::InputCopy;

/// First sector of the grid of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alignment {
    /// The given sector of the trace is the first sector of a block.
    Sector(u64),
    /// The sector at which most requests begin.
    Auto,
}

impl FromStr for Alignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text
                .parse()
                .map(Self::Sector)
                .map_err(|_| "expected a sector of the trace, like 63, or auto".to_owned()),
        }
    }
}

/// Times of the requests of a trace in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// The times of the trace.
    AsIs,
    /// Random times within each second.
    Spread,
    /// Equal distances within each second.
    Equal,
}

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "as-is" => Ok(Self::AsIs),
            "spread" | "poisson" => Ok(Self::Spread),
            "equal" => Ok(Self::Equal),
            _ => Err("expected as-is, spread or equal".to_owned()),
        }
    }
}

/// Options for the way in which the requests of a trace are played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played {
    /// Alignment; `None` for addresses as they are.
    pub(crate) align: Option<Alignment>,
    /// Times; `None`: spread if the trace is in whole seconds, and several requests share a second.
    pub(crate) times: Option<Times>,
    /// Size of a block.
    pub(crate) block: BlockSize,
    /// Seed of random times.
    pub(crate) seed: u64,
    /// Set if requests are issued at their times.
    pub(crate) is_timed: bool,
}

/// Source of the requests.
enum Source {
    /// A trace that is decoded anew for every run.
    Read(Readable),
    /// Requests that a caller has in memory.
    Memory(InMemory),
}

/// Source of bytes that are decoded.
enum Readable {
    /// A file.
    File(PathBuf),
    /// The embedded sample.
    Sample,
    /// Standard input, which was copied because it can be read only once.
    Input(InputCopy),
}

impl Readable {
    /// Returns the source at `path`. Standard input is read to its end by this call.
    fn at(path: PathBuf) -> Result<Self, Error> {
        let is_input = path == Path::new(STANDARD_INPUT);
        if is_input { InputCopy::of_standard_input().map(Self::Input) } else { Ok(Self::File(path)) }
    }

    fn open(&self, options: &OpenOptions) -> Result<Trace, TraceError> {
        match self {
            Self::File(path) => Trace::open(path, options),
            Self::Sample => sample::open(options),
            Self::Input(copy) => copy.open(options),
        }
    }
}

/// Properties of a trace that are known when it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// Name of the file, or of the embedded sample.
    pub(crate) name: String,
    /// Format of the trace.
    pub(crate) format: &'static Format,
    /// Event that counts as a request, in formats that record several events for each request.
    pub(crate) event: Option<Event>,
    /// Set if requests have times.
    pub(crate) has_times: bool,
    /// Size of the device that was recorded.
    pub(crate) capacity: Option<Bytes>,
}

impl Header {
    /// Returns the properties of `trace`.
    pub(crate) fn of(trace: &Trace) -> Self {
        Self {
            name: trace.name().to_owned(),
            format: trace.format(),
            event: trace.event(),
            has_times: trace.has_times(),
            capacity: trace.capacity(),
        }
    }
}

/// A trace that is opened anew for every run, or [kept](Self::keep) in memory.
pub(crate) struct TraceWorkload {
    source: Source,
    options: OpenOptions,
    /// Requests of a trace that was decoded.
    kept: Kept,
    /// Set once the user was told what the reader assumed, so that each note is printed once.
    told: AtomicBool,
    skipped: AtomicU64,
    /// First sector of the grid of blocks.
    grid: Option<(BlockSize, u64)>,
    /// Times of the requests within a second.
    within: Option<Within>,
}

impl TraceWorkload {
    /// Returns the trace at `path` as a workload.
    ///
    /// # Errors
    /// A name is not a format or event.
    pub(crate) fn of_file(path: PathBuf, options: &TraceOptions) -> Result<Self, Error> {
        let options = options.to_open_options()?;
        Ok(Self::new(Source::Read(Readable::at(path)?), options))
    }

    /// Returns the embedded sample as a workload.
    ///
    /// # Errors
    /// A name is not a format or event.
    pub(crate) fn of_sample(options: &TraceOptions) -> Result<Self, Error> {
        Ok(Self::new(Source::Read(Readable::Sample), options.to_open_options()?))
    }

    /// Returns the trace that a command names as `path`: its requests in memory, if `memory` has
    /// them, or otherwise the file.
    ///
    /// # Errors
    /// As [`of_file`](Self::of_file).
    pub(crate) fn named(path: PathBuf, memory: Option<&InMemory>, options: &TraceOptions) -> Result<Self, Error> {
        memory.map_or_else(|| Self::of_file(path, options), |trace| Ok(Self::of_memory(trace.clone())))
    }

    /// Returns requests in memory as a workload. Options that select requests have no effect: the
    /// caller has already selected the requests.
    fn of_memory(trace: InMemory) -> Self {
        let skipped_lines = trace.skipped_lines;
        let workload = Self::new(Source::Memory(trace), OpenOptions::default());
        workload.skipped.store(skipped_lines, Ordering::Relaxed);
        workload
    }

    fn new(source: Source, options: OpenOptions) -> Self {
        let (told, skipped) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { source, options, kept: Kept::default(), told, skipped, grid: None, within: None }
    }

    /// Keeps the requests in memory from the first run to its end on, if they take at most `bytes`.
    pub(crate) fn keep(&mut self, bytes: u64) {
        self.kept = Kept::up_to(bytes);
    }

    /// Sets the shift of addresses and the treatment of arrival times with which the trace is
    /// played from now on. Returns findings about the alignment and the times.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub(crate) fn play(&mut self, played: Played) -> Result<Vec<Finding>, Error> {
        let glances = played.align == Some(Alignment::Auto) || played.is_timed;
        let glance = if glances {
            Glance::of(self, played.block).map_err(|error| Error::new(error.to_string()))?
        } else {
            Glance::default()
        };
        let phase = match played.align {
            None | Some(Alignment::Sector(0)) => None,
            Some(Alignment::Sector(sector)) => Some(sector),
            Some(Alignment::Auto) => Some(glance.phase).filter(|&phase| phase != 0),
        };
        self.grid = phase.map(|phase| (played.block, phase));
        if !played.is_timed || !glance.in_whole_seconds {
            return Ok(Vec::new());
        }
        self.within = match played.times {
            Some(Times::AsIs) => None,
            None | Some(Times::Spread) => Some(Within::Random { seed: played.seed, drawing: 0 }),
            Some(Times::Equal) => Some(Within::Equal),
        };
        Ok(vec![Finding::whole_seconds(self.within)])
    }

    /// Prints a message about the trace, unless the trace is in memory: the owner of a trace in
    /// memory has read the message already.
    pub(crate) fn tell(&self, message: impl std::fmt::Display) {
        if let Source::Read(_) = self.source {
            note(message);
        }
    }

    /// Returns the number of unreadable lines, once the trace was read to its end.
    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Returns the name, the format and other properties of the trace.
    ///
    /// # Errors
    /// The trace cannot be opened, or its format is not recognised.
    pub(crate) fn header(&self) -> Result<Header, TraceError> {
        match &self.source {
            Source::Read(readable) => Ok(Header::of(&readable.open(&self.options)?)),
            Source::Memory(trace) => Ok(trace.header()),
        }
    }
}

impl TraceWorkload {
    fn decode(&self, readable: &Readable) -> Result<CountSkipped<'_>, WorkloadError> {
        let trace = readable.open(&self.options)?;
        if !self.told.swap(true, Ordering::Relaxed) {
            trace.notes().iter().for_each(|assumed| note(format_args!("{}: {assumed}", trace.name())));
        }
        Ok(CountSkipped { trace, skipped: &self.skipped })
    }
}

impl Workload for TraceWorkload {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let mut requests = match &self.source {
            Source::Memory(trace) => trace.requests.open_drawn(drawing)?,
            Source::Read(readable) => self.kept.or_decode(|| self.decode(readable))?,
        };
        if let Some((block, first)) = self.grid {
            requests = aligned(requests, block, first);
        }
        Ok(match self.within {
            Some(within) => spread(requests, within.drawn(drawing)),
            None => requests,
        })
    }

    fn grid(&self) -> u64 {
        self.grid.map_or(0, |(_, first)| first)
    }
}

/// Passes requests on, and at the end adds up the number of skipped lines.
struct CountSkipped<'a> {
    trace: Trace,
    skipped: &'a AtomicU64,
}

impl Iterator for CountSkipped<'_> {
    type Item = Result<bimetal_trace::Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.trace.next();
        if next.is_none() {
            self.skipped.store(self.trace.skipped_lines(), Ordering::Relaxed);
        }
        next.map(|request| request.map_err(WorkloadError::from))
    }
}
