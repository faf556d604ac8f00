//! A trace as a workload: it is opened anew for every run, and played with the alignment and the
//! times that the options ask for.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bimetal_core::block::BlockSize;
use bimetal_sim::findings::Finding;
use bimetal_sim::workload::aligned::aligned;
use bimetal_sim::workload::glance::Glance;
use bimetal_sim::workload::spread::{Within, spread};
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::{OpenOptions, Trace, TraceError};

use crate::error::Error;
use crate::options::TraceOptions;
use crate::output::note;
use crate::sample;

/// First sector of the grid of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alignment {
    /// This sector of the trace.
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
    /// Equal distances within each second.
    Spread,
    /// Random times within each second.
    Poisson,
}

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "as-is" => Ok(Self::AsIs),
            "spread" => Ok(Self::Spread),
            "poisson" => Ok(Self::Poisson),
            _ => Err("expected as-is, spread or poisson".to_owned()),
        }
    }
}

/// Options for the way in which the requests of a trace are played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played {
    /// Alignment; `None` for addresses as they are.
    pub(crate) align: Option<Alignment>,
    /// Times; `None`: spread if the trace is in whole seconds, and several requests share one.
    pub(crate) times: Option<Times>,
    /// Size of a block.
    pub(crate) block: BlockSize,
    /// Seed of random times.
    pub(crate) seed: u64,
    /// Set if requests are issued at their times.
    pub(crate) is_timed: bool,
}

/// Source of the requests.
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// The embedded sample.
    Sample,
}

/// A trace that is opened anew for every run.
pub(crate) struct TraceWorkload {
    source: Source,
    options: OpenOptions,
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
    /// A name is no format or event.
    pub(crate) fn of_file(path: PathBuf, options: &TraceOptions) -> Result<Self, Error> {
        Self::new(Source::File(path), options)
    }

    pub(crate) fn new(source: Source, options: &TraceOptions) -> Result<Self, Error> {
        let (told, skipped) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { source, options: options.to_open_options()?, told, skipped, grid: None, within: None })
    }

    /// Sets the alignment and the times with which the trace is played from now on. Returns
    /// findings about them.
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
            None | Some(Times::Spread) => Some(Within::Equal),
            Some(Times::Poisson) => Some(Within::Random(played.seed)),
        };
        Ok(vec![Finding::whole_seconds(self.within.is_some())])
    }

    /// Returns the number of unreadable lines, once the trace was read to its end.
    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Opens the trace to read its name, format and other properties.
    ///
    /// # Errors
    /// The trace cannot be opened, or its format is not recognised.
    pub(crate) fn open_trace(&self) -> Result<Trace, TraceError> {
        match &self.source {
            Source::File(path) => Trace::open(path, &self.options),
            Source::Sample => sample::open(&self.options),
        }
    }
}

impl Workload for TraceWorkload {
    fn open(&self) -> Result<Requests<'_>, WorkloadError> {
        let trace = self.open_trace()?;
        if !self.told.swap(true, Ordering::Relaxed) {
            trace.notes().iter().for_each(|assumed| note(format_args!("{}: {assumed}", trace.name())));
        }
        let mut requests: Requests<'_> = Box::new(CountSkipped { trace, skipped: &self.skipped });
        if let Some((block, first)) = self.grid {
            requests = aligned(requests, block, first);
        }
        Ok(match self.within {
            Some(within) => spread(requests, within),
            None => requests,
        })
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
