//! Trace of several jobs: it is read once, and kept in memory while its jobs run.

use std::path::PathBuf;

use bimetal_sim::findings::Finding;
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::Request;

use super::jobs::Prepared;
use crate::error::Error;
use crate::options::replay::choose_replay;
use crate::trace_workload::{Header, TraceWorkload};

/// Memory for requests where the system does not tell how much is free.
const BYTES_DEFAULT: u64 = 1 << 30;
/// Share of the free memory for the requests of all traces that are kept at a time.
const MEMORY_SHARE: u64 = 4;

/// Options that the requests depend on, beside the trace.
const OF_THE_REQUESTS: [&str; 8] = ["align", "block", "device", "event", "format", "limit", "skip-bad-lines", "times"];

/// Trace that was read.
pub(super) struct Loaded {
    workload: TraceWorkload,
    /// Requests; `None` if memory has no room for them, and each job reads the trace anew.
    requests: Option<Vec<Request>>,
    /// Properties of the trace's file.
    pub(super) header: Header,
    /// Properties of the requests.
    pub(super) survey: Survey,
    /// Findings about the times.
    pub(super) findings: Vec<Finding>,
    /// Number of unreadable lines.
    pub(super) skipped_lines: u64,
}

/// Returns the name of the requests of a job. Jobs with equal names have equal requests.
pub(super) fn name_of_requests(job: &Prepared) -> String {
    let mut name = job.job.trace.clone();
    let given = |option: &str| job.spelled.get(option).map_or("", String::as_str);
    OF_THE_REQUESTS.iter().for_each(|option| name += &format!("\n{option}={}", given(option)));
    name += &format!("\nclosed={}", given("replay").starts_with("closed"));
    if given("times") == "poisson" {
        name += &format!("\nseed={}", given("seed"));
    }
    name
}

impl Loaded {
    /// Reads the trace of `job`. Up to `bytes_max` of requests are kept in memory.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub(super) fn read(job: &Prepared, bytes_max: u64) -> Result<Self, Error> {
        let options = &job.options;
        let mut workload = TraceWorkload::of_file(PathBuf::from(&job.job.trace), &options.trace)?;
        let header = workload.header()?;
        // A speed does not change the requests, and each job checks its own.
        let replay = choose_replay(options.replay, 1.0, &header)?;
        let played = options.played(replay)?;
        let findings = workload.play(played)?;
        let text = |error: WorkloadError| Error::new(error.to_string());
        let requests = read_all(&workload, bytes_max).map_err(text)?;
        let survey = match &requests {
            Some(requests) => Survey::of(requests, played.block, &|_| {}),
            None => Survey::of(&workload, played.block, &|_| {}),
        };
        let survey = survey.map_err(text)?;
        let skipped_lines = workload.skipped_lines();
        Ok(Self { workload, requests, header, survey, findings, skipped_lines })
    }
}

/// Returns the requests, or `None` if they take more than `bytes_max`.
fn read_all(workload: &TraceWorkload, bytes_max: u64) -> Result<Option<Vec<Request>>, WorkloadError> {
    let most = usize::try_from(bytes_max / size_of::<Request>() as u64).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for request in workload.open()? {
        if all.len() == most {
            return Ok(None);
        }
        all.push(request?);
    }
    all.shrink_to_fit();
    Ok(Some(all))
}

impl Workload for Loaded {
    fn open(&self) -> Result<Requests<'_>, WorkloadError> {
        match &self.requests {
            Some(requests) => requests.open(),
            None => self.workload.open(),
        }
    }
}

/// Returns the most bytes of requests of a trace, if each of `threads` may hold another trace.
pub(super) fn bytes_max(threads: usize) -> u64 {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    free.map_or(BYTES_DEFAULT, |kib| kib * 1024 / MEMORY_SHARE / threads as u64)
}
