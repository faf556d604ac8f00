//! Run of an experiment for `simulate` and `compare`: the trace as a workload, the display of the
//! progress, and the document with the results.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bimetal_models::flash::state::{self, DriveState};
use bimetal_sim::experiment::{Experiment, Progress as ExperimentProgress};
use bimetal_sim::findings::{Finding, MAYBE_QUEUE_EVENTS};
use bimetal_sim::results::{Document, TraceSummary};
use bimetal_sim::scheme_choice::SchemeChoice;
use bimetal_sim::setup::Choices;
use bimetal_sim::simulator::Replay;
use bimetal_sim::tree::VolumeChoice;
use bimetal_sim::workload::rounds::Rounds;
use bimetal_trace::Event;

use crate::cli::command_line;
use crate::error::Error;
use crate::kept::bytes_max;
use crate::options::parse::WarmUpOption;
use crate::options::replay::choose_replay;
use crate::options::simulation::{HintsOption, RestoreOption, SimulationOptions, choices};
use crate::output::OutputFile;
use crate::progress::Stages;
use crate::trace_workload::{Header, TraceWorkload};

/// A bar for the survey of the trace, then a bar for all runs together.
impl ExperimentProgress for Stages {
    fn surveyed(&self, requests: u64) {
        self.show("requests", None, requests);
    }

    fn simulated(&self, requests: u64, total: u64) {
        self.show("requests", Some(total), requests);
    }
}

/// Experiment that a command line describes.
pub(crate) struct Described<'a> {
    /// Schemes, in the order of the result.
    pub(crate) schemes: Vec<SchemeChoice>,
    /// Trees of volumes, which run after the schemes.
    pub(crate) trees: Vec<VolumeChoice>,
    /// Drives, settings and replay.
    pub(crate) options: &'a SimulationOptions,
    /// State of the flash drives at the start.
    pub(crate) restore: &'a RestoreOption,
    /// Information about the host.
    pub(crate) hints: &'a HintsOption,
    /// File for the final state of the flash drives.
    pub(crate) save_state: Option<&'a Path>,
}

/// Runs an experiment over a trace, and returns the document.
///
/// # Errors
/// The trace, a drive, a setting or a run is wrong.
pub(crate) fn run(
    mut workload: TraceWorkload,
    experiment: Described<'_>,
    progress: &dyn ExperimentProgress,
) -> Result<Document, Error> {
    let Described { schemes, trees, options, restore, hints, save_state } = experiment;
    if schemes.is_empty() {
        options.refuse_drives_without_schemes()?;
    }
    if schemes.len() + trees.len() > 1 || options.runs > 1 {
        workload.keep(bytes_max(1));
    }
    let header = workload.header()?;
    let replay = choose_replay(options.replay, options.speedup, &header)?;
    let mut assumed = assumed(options, &header, replay);
    if let Some(path) = &restore.restore_state {
        let text = format!("as {} has it; {PRECONDITION_ASSUMED} for a drive that it does not name", path.display());
        assumed.insert("precondition".to_owned(), text);
    }
    let recorded = options.capacity_of(&workload, &header);
    let of_times = workload.play(options.played(replay)?)?;
    let merge = options.merges(header.event == Some(Event::Queue));
    if options.align.is_some() && hints.hints.is_some() {
        return Err(Error::new(
            "--align: the addresses of --hints would no longer match: expected --align or --hints, but not both"
                .to_owned(),
        ));
    }
    let hints = hints.read(replay, &options.trace, options.repeat)?;
    let given = choices(options)?;
    options.refuse_other_map(&workload, &header)?;
    let capacity = options.least_capacity(&given, recorded)?;
    let choices = Choices { restored: restore.read()?, merge, hints, capacity, ..given };
    // The file is created before the simulation: a path that cannot be written must fail at once,
    // not after a long run.
    let save_to = save_state.map(OutputFile::create).transpose()?;
    let saved = Mutex::new(Vec::new());
    let keep = |states: Vec<DriveState>| saved.lock().unwrap_or_else(PoisonError::into_inner).extend(states);
    let keep: Option<&(dyn Fn(Vec<DriveState>) + Sync)> = if save_to.is_some() { Some(&keep) } else { None };
    let is_auto = options.warmup == WarmUpOption::Auto;
    let warmup = if is_auto { 0.0 } else { options.warmup()? };
    let rounds = Rounds::of(&workload, options.repeat).map_err(|error| Error::new(error.to_string()))?;
    let mut experiment = Experiment { workload: &rounds, schemes, trees, choices, replay, warmup, keep };
    let describe = |_: &_, summary: TraceSummary| TraceSummary {
        name: header.name.clone(),
        format: header.format.name.to_owned(),
        skipped_lines: workload.skipped_lines(),
        ..summary
    };
    let mut document = if is_auto {
        let (survey, finding) = experiment.find_warmup(progress)?;
        assumed.insert("warmup".to_owned(), format!("{} (auto: {})", experiment.warmup, finding.text));
        let mut document = experiment.run_surveyed(&survey, progress, describe)?;
        document.findings.insert(0, finding);
        document
    } else {
        experiment.run(progress, describe)?
    };
    if let Some(file) = save_to {
        write_states(file, &saved.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    }
    if document.trace.skipped_lines > 0 {
        workload.tell(format_args!("{}: {} bad lines were skipped", document.trace.name, document.trace.skipped_lines));
    }
    complete(&mut document, options, &header, &assumed, of_times);
    document.command = Some(command_line());
    Ok(document)
}

/// Adds to a document the facts that only the reader of the trace and the command line know.
pub(crate) fn complete(
    document: &mut Document,
    options: &SimulationOptions,
    header: &Header,
    assumed: &BTreeMap<String, String>,
    of_times: Vec<Finding>,
) {
    for run in &mut document.runs {
        run.assumed.extend(assumed.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let of_events = (header.event == Some(Event::Queue)).then(|| Finding::queue_events(options.merges(true)));
    if header.event.is_some() || options.merges(false) {
        document.findings.retain(|finding| finding.id != MAYBE_QUEUE_EVENTS);
    }
    document.findings.splice(0..0, of_times.into_iter().chain(of_events));
    document.options.extend(options.trace.selection());
    document.options.insert("repeat".to_owned(), options.repeat.max(1).to_string());
}

fn write_states(mut file: OutputFile, states: &[DriveState]) -> Result<(), Error> {
    if states.is_empty() {
        return Err(Error::new("--save-state: this scheme uses no flash drive, so no state exists to save"));
    }
    file.write_all(&state::encode(states))?;
    file.finish()
}

const PRECONDITION_ASSUMED: &str = "sequential fill if flash is home or holds first copies, clean if flash is a cache";

/// Returns the choices about the trace that the user did not make.
pub(crate) fn assumed(options: &SimulationOptions, trace: &Header, replay: Replay) -> BTreeMap<String, String> {
    let mut assumed = BTreeMap::new();
    if options.trace.format.is_none() {
        assumed.insert("format".to_owned(), format!("{} (by content)", trace.format));
    }
    if let (None, Some(event)) = (&options.trace.event, trace.event) {
        assumed.insert("event".to_owned(), format!("{event:?}").to_lowercase());
    }
    if options.replay.is_none() {
        assumed.insert("replay".to_owned(), replay.spelled());
    }
    if options.precondition.is_none() {
        assumed.insert("precondition".to_owned(), PRECONDITION_ASSUMED.to_owned());
    }
    assumed
}
