//! The workloads of a plan: traces, or descriptions of synthetic workloads, alone or several at the
//! same time.
//!
//! Several workloads run side by side on one hybrid. Each workload begins at time zero, and each of
//! its devices has an address range of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_sim::simulator::Replay;
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::synthetic::{Generator, WorkloadSpec};
use bimetal_trace::{Event, Request};

use crate::commands::generate::phases_in;
use crate::error::Error;
use crate::in_memory::InMemory;
use crate::options::simulation::SimulationOptions;
use crate::trace_workload::TraceWorkload;

/// One workload: a trace, or a description from which requests are generated.
enum Part {
    Trace(Box<TraceWorkload>),
    Described { phases: Vec<WorkloadSpec>, seed: u64, limit: Option<u64> },
}

/// The workloads for which a plan is made.
pub(crate) struct Workloads {
    parts: Vec<Part>,
    /// Name of the workloads in results.
    pub(crate) name: String,
    /// Formats of the traces and descriptions.
    pub(crate) format: String,
    /// Set if requests of a trace are queue events.
    pub(crate) queue_events: bool,
    /// Size of the devices that were recorded; `None` if a trace has no such size.
    pub(crate) capacity: Option<Bytes>,
}

impl Workloads {
    /// Opens the traces and descriptions at `paths`, or the traces in `memory` with these names, or
    /// the embedded sample if there are none.
    /// Returns the way in which the requests of the workloads are issued. A description is a TOML
    /// file, as `generate --config` takes it.
    ///
    /// # Errors
    /// Fails if a file cannot be opened or read. Also fails if several files are given and one is a
    /// trace without times, because its requests cannot be placed among the requests of the other
    /// traces.
    pub(crate) fn open(
        paths: &[PathBuf],
        memory: &[InMemory],
        options: &SimulationOptions,
    ) -> Result<(Self, Replay), Error> {
        let mut replay = options.replay_of_described()?;
        if paths.len() > 1 && matches!(replay, Replay::Think { .. }) {
            return Err(Error::new(
                "--replay think: workloads side by side do not wait for each other's answers: expected one trace, or \
                 --replay timed",
            ));
        }
        let (mut parts, mut names, mut formats) = (Vec::new(), Vec::new(), Vec::new());
        let mut queue_events = false;
        let mut capacity = Some(Bytes::ZERO);
        let sources = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
        for (at, path) in sources.into_iter().enumerate() {
            if let Some(path) = path.filter(|path| memory.is_empty() && is_description(path)) {
                let phases = described(path)?;
                // The generator checks the phases before anything runs.
                Generator::new(&phases, options.seed())
                    .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
                parts.push(Part::Described { phases, seed: options.seed(), limit: options.limit() });
                names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
                formats.push("description".to_owned());
                capacity = None;
                continue;
            }
            let trace = match path {
                Some(path) => TraceWorkload::named(path.clone(), memory.get(at), &options.trace)?,
                None => TraceWorkload::of_sample(&options.trace)?,
            };
            let (trace, own) = options.open(trace)?;
            let header = trace.header()?;
            if paths.len() > 1 && !header.has_times {
                return Err(Error::new(format!(
                    "{}: {} has no times, so it cannot run at the same time as other traces: plan for it alone",
                    header.name, header.format
                )));
            }
            replay = own;
            queue_events |= header.event == Some(Event::Queue);
            capacity = capacity.zip(options.capacity_of(&trace, &header)).map(|(all, own)| all + own);
            formats.push(header.format.name.to_owned());
            names.push(header.name);
            parts.push(Part::Trace(Box::new(trace)));
        }
        formats.dedup();
        let (name, format) = (names.join(" + "), formats.join(" + "));
        Ok((Self { parts, name, format, queue_events, capacity }, replay))
    }

    /// Returns the number of unreadable lines, once every trace was read to its end.
    pub(crate) fn skipped_lines(&self) -> u64 {
        let skipped = |part: &Part| if let Part::Trace(trace) = part { trace.skipped_lines() } else { 0 };
        self.parts.iter().map(skipped).sum()
    }
}

fn is_description(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

fn described(path: &Path) -> Result<Vec<WorkloadSpec>, Error> {
    let phases = phases_in(path)?;
    if phases.is_empty() {
        let expected = "expected a [[phase]] list with requests and footprint, as `bimetal generate --config` takes it";
        return Err(Error::new(format!("{}: {expected}", path.display())));
    }
    Ok(phases)
}

impl Part {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        match self {
            Self::Trace(trace) => trace.open_drawn(drawing),
            Self::Described { phases, seed, limit } => {
                let requests = Generator::new(phases, *seed)?;
                Ok(Box::new(requests.take(limit.unwrap_or(u64::MAX) as usize).map(Ok)))
            }
        }
    }
}

impl Workload for Workloads {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        if let [only] = self.parts.as_slice() {
            return only.open_drawn(drawing);
        }
        let parts = self.parts.iter().map(|part| part.open_drawn(drawing)).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Together { ahead: parts.into_iter().map(Ahead::new).collect(), devices: BTreeMap::new() }))
    }

    /// Several traces may be moved by different sectors: then no sector is that of all traces.
    fn grid(&self) -> u64 {
        let mut grids = self.parts.iter().map(|part| if let Part::Trace(trace) = part { trace.grid() } else { 0 });
        let first = grids.next().unwrap_or(0);
        if grids.all(|grid| grid == first) { first } else { 0 }
    }
}

/// A workload with its next request read ahead.
struct Ahead<'a> {
    requests: Requests<'a>,
    next: Option<Result<Request, WorkloadError>>,
    /// Arrival of the first request, which becomes time zero.
    start: Option<Nanoseconds>,
}

impl<'a> Ahead<'a> {
    fn new(requests: Requests<'a>) -> Self {
        let mut ahead = Self { requests, next: None, start: None };
        ahead.step();
        ahead
    }

    fn step(&mut self) {
        self.next = self.requests.next();
        if let Some(Ok(request)) = &mut self.next {
            let start = *self.start.get_or_insert(request.arrival);
            request.arrival = request.arrival.saturating_sub(start);
        }
    }

    /// Returns the arrival of the next request. An error of a read is due at once.
    fn due(&self) -> Option<Nanoseconds> {
        self.next.as_ref().map(|next| next.as_ref().map_or(Nanoseconds::ZERO, |request| request.arrival))
    }
}

/// Several workloads, merged in order of time.
struct Together<'a> {
    ahead: Vec<Ahead<'a>>,
    /// Number of each pair of workload and device, in the order in which the pairs appear.
    devices: BTreeMap<(usize, u32), u32>,
}

impl Iterator for Together<'_> {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let due = self.ahead.iter().enumerate().filter_map(|(part, ahead)| Some((ahead.due()?, part)));
        let (_, part) = due.min()?;
        let next = self.ahead[part].next.take();
        self.ahead[part].step();
        let known = self.devices.len() as u32;
        Some(next?.map(|request| {
            let device = *self.devices.entry((part, request.device)).or_insert(known);
            Request { device, ..request }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::Bytes;

    fn described(requests: u64, gap_ms: u64) -> Part {
        let interarrival = bimetal_trace::synthetic::Interarrival::Constant(Nanoseconds::from_millis(gap_ms));
        let phases = vec![WorkloadSpec { interarrival, ..WorkloadSpec::new(requests, Bytes::from_mib(1)) }];
        Part::Described { phases, seed: 1, limit: None }
    }

    /// Requests of parallel workloads come in order of time. Each workload has its own device
    /// number, and therefore its own addresses.
    #[test]
    fn parallel_workloads_merge_by_time_on_separate_devices() {
        let parts = vec![described(10, 2), described(4, 5)];
        let workloads =
            Workloads { parts, name: String::new(), format: String::new(), queue_events: false, capacity: None };
        let requests: Vec<Request> = workloads.open().unwrap().map(Result::unwrap).collect();
        assert_eq!(requests.len(), 14);
        assert!(requests.is_sorted_by_key(|request| request.arrival));
        assert_eq!(requests.iter().filter(|request| request.device == 1).count(), 4);
    }
}
