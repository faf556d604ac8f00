//! Trace of several jobs: it is read once, and kept in memory while its jobs run.

use std::path::PathBuf;

use bimetal_sim::findings::Finding;
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::{Requests, Workload, WorkloadError};

use super::jobs::Prepared;
use crate::error::Error;
use crate::options::replay::choose_replay;
use crate::trace_workload::{Header, TraceWorkload};

/// Options that the requests depend on, beside the trace.
const OF_THE_REQUESTS: [&str; 8] = ["align", "block", "device", "event", "format", "limit", "skip-bad-lines", "times"];

/// Trace that was read.
pub(super) struct Loaded {
    /// Requests in memory, if memory has room for them; or else each job reads the trace anew.
    workload: TraceWorkload,
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
    // The seed draws the times within a second of a trace in whole seconds.
    if !["as-is", "equal"].contains(&given("times")) {
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
        workload.keep(bytes_max);
        let header = workload.header()?;
        // A speed does not change the requests, and each job checks its own.
        let replay = choose_replay(options.replay, 1.0, &header)?;
        let played = options.played(replay)?;
        let findings = workload.play(played)?;
        let survey = Survey::of(&workload, played.block, &|_| {});
        let survey = survey.map_err(|error| Error::new(error.to_string()))?;
        let skipped_lines = workload.skipped_lines();
        Ok(Self { workload, header, survey, findings, skipped_lines })
    }
}

impl Workload for Loaded {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        self.workload.open_drawn(drawing)
    }

    fn grid(&self) -> u64 {
        self.workload.grid()
    }
}
