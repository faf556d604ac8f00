//! Experiment: a workload under several schemes, each on a core of its own, with one document as
//! its result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bimetal_core::block::BlockSize;
use bimetal_core::scheme::SchemeInfo;
use bimetal_models::flash::state::DriveState;
use bimetal_trace::Request;
use rayon::prelude::*;

use crate::block_layer::BlockLayerSettings;
use crate::figures;
use crate::findings;
use crate::hints;
use crate::keys::check_keys_with;
use crate::results::{Document, Run, RunSpeed, TraceSummary};
use crate::setup::{Choices, Setup, SetupError};
use crate::simulator::{Play, Replay, SimulationError, simulate};
use crate::survey::Survey;
use crate::tree::VolumeChoice;
use crate::workload::{Requests, Workload, WorkloadError};

/// Experiment to be run.
pub struct Experiment<'a> {
    /// Workload to be played.
    pub workload: &'a dyn Workload,
    /// Schemes, in the order of the result.
    pub schemes: Vec<&'static SchemeInfo>,
    /// Trees of volumes, which run after the schemes.
    pub trees: Vec<VolumeChoice>,
    /// Drives, sizes and settings.
    pub choices: Choices,
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Share of the requests that is played before anything is measured.
    pub warmup: f64,
    /// Callback for the state in which each run leaves its flash drives.
    pub keep: Option<&'a (dyn Fn(Vec<DriveState>) + Sync)>,
}

/// Subject of one run.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Scheme(&'static SchemeInfo),
    Tree(&'a VolumeChoice),
}

/// Reasons for which an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The workload cannot be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A run cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A run ended early.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Receiver of the progress of an experiment. `total` is over all runs.
pub trait Progress: Sync {
    /// Reports the number of requests that the survey has read.
    fn surveyed(&self, requests: u64);
    /// Reports that all runs together have issued `requests` of `total`.
    fn simulated(&self, requests: u64, total: u64);
}

/// Receiver that ignores all reports.
pub struct NoProgress;

impl Progress for NoProgress {
    fn surveyed(&self, _requests: u64) {}
    fn simulated(&self, _requests: u64, _total: u64) {}
}

impl Experiment<'_> {
    /// Runs every scheme and returns the document. `describe` completes the facts that only the
    /// reader of the trace knows (name, format, skipped lines).
    ///
    /// # Errors
    /// Returns the first error in the order of the schemes.
    pub fn run(
        &self,
        progress: &dyn Progress,
        describe: impl FnOnce(&Survey, TraceSummary) -> TraceSummary,
    ) -> Result<Document, ExperimentError> {
        let schemes: Vec<_> =
            self.schemes.iter().copied().chain(self.trees.iter().flat_map(VolumeChoice::schemes)).collect();
        let mut named: Vec<&str> = self.trees.iter().flat_map(VolumeChoice::names).collect();
        if self.schemes.is_empty() {
            // The drives of trees also check the settings for all drives of their kind.
            named.extend(["ssd", "hdd"]);
        }
        check_keys_with(&schemes, &self.choices, &named)?;
        let mut outermost = self.schemes.iter().copied().chain(self.trees.iter().map(|tree| tree.scheme));
        if !self.choices.hints.is_empty() && !outermost.any(|scheme| hints::has_use(scheme, &self.choices.hints)) {
            let error =
                if self.choices.hints.are_pins() { SetupError::NoUseForPins } else { SetupError::NoUseForHints };
            return Err(error.into());
        }
        let survey = Survey::of(self.workload, self.choices.block, &|read| progress.surveyed(read))?;
        let schemes = self.schemes.iter().map(|scheme| Subject::Scheme(scheme));
        let subjects: Vec<Subject<'_>> = schemes.chain(self.trees.iter().map(Subject::Tree)).collect();
        let total = survey.requests * subjects.len() as u64;
        let issued = AtomicU64::new(0);
        let count = |requests: u64| {
            let before = issued.fetch_add(requests, Ordering::Relaxed);
            progress.simulated(before + requests, total);
        };
        let runs: Vec<Result<Run, ExperimentError>> =
            subjects.par_iter().with_max_len(1).map(|subject| self.run_one(*subject, &survey, &count)).collect();
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let trace = describe(&survey, summary_of(&survey, self.choices.block));
        let (command, options) = (None, self.options());
        let timed = matches!(self.replay, Replay::Timed { .. });
        let findings = findings::of(&survey, &runs, self.choices.block, timed);
        Ok(Document { bimetal: env!("CARGO_PKG_VERSION").to_owned(), command, options, trace, findings, runs })
    }

    fn run_one(
        &self,
        subject: Subject<'_>,
        survey: &Survey,
        count: &(dyn Fn(u64) + Sync),
    ) -> Result<Run, ExperimentError> {
        let mut setup = match subject {
            Subject::Scheme(scheme) => Setup::new(scheme, &self.choices, survey)?,
            Subject::Tree(tree) => Setup::of_tree(tree, &self.choices, survey)?,
        };
        let warmup_requests = (survey.requests as f64 * self.warmup) as u64;
        setup.foresee_uses(|| self.requests(survey))?;
        setup.foresee_idle(self.replay, || self.requests(survey))?;
        let block_layer = BlockLayerSettings::chosen(&self.choices, &setup)?;
        let play = Play { replay: self.replay, warmup_requests, block_layer };
        let counted = std::cell::Cell::new(0);
        let began = Instant::now();
        let measured = simulate(&mut setup, self.requests(survey)?, play, &|issued| {
            count(issued - counted.replace(issued));
        })?;
        count(survey.requests - counted.get());
        let wall_s = began.elapsed().as_secs_f64();
        if let Some(keep) = self.keep {
            keep(setup.save_states());
        }
        let speed = RunSpeed {
            wall_s: Some(wall_s),
            requests_per_s: Some(survey.requests as f64 / wall_s),
            peak_rss_bytes: peak_rss_bytes(),
        };
        Ok(figures::run_of(&setup, &measured, self.replay, speed))
    }

    /// Returns the options in force for every run, for the document.
    fn options(&self) -> BTreeMap<String, String> {
        let replay = match self.replay {
            Replay::Timed { speedup } => format!("timed, speedup {speedup}"),
            Replay::Closed { depth } => format!("closed:{depth}"),
        };
        let choices = &self.choices;
        let set = choices.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
        [
            ("block", choices.block.bytes().to_string()),
            ("compact", choices.compact.to_string()),
            ("merge", if choices.merge { "on" } else { "off" }.to_owned()),
            ("replay", replay),
            ("seed", choices.seed.to_string()),
            ("set", set),
            ("warmup", self.warmup.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    fn requests(&self, survey: &Survey) -> Result<Requests<'_>, WorkloadError> {
        let requests = self.workload.open()?;
        if !self.choices.compact {
            return Ok(requests);
        }
        let (compaction, block) = (survey.compacted.clone(), self.choices.block);
        let place = move |request: Request| compaction.place(&request, block);
        Ok(Box::new(requests.map(move |request| request.map(&place))))
    }
}

/// Returns the survey in the form of the document.
pub fn summary_of(survey: &Survey, block: BlockSize) -> TraceSummary {
    let end: u64 = survey.address_end.values().map(|end| end.0.next_multiple_of(block.sectors())).sum();
    TraceSummary {
        requests: survey.requests,
        reads: survey.reads,
        writes: survey.writes,
        flushes: survey.flushes,
        discards: survey.discards,
        read_bytes: survey.read_bytes.0,
        write_bytes: survey.write_bytes.0,
        footprint_bytes: survey.footprint_blocks * block.bytes().0,
        duration_s: survey.duration.as_seconds_f64(),
        address_end_bytes: Some(end * bimetal_core::units::SECTOR_BYTES),
        ..TraceSummary::default()
    }
}

/// Returns the most memory that this process ever had resident, if the system reports it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
