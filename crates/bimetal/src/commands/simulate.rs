//! `bimetal simulate`: plays one trace with one scheme.

use std::path::PathBuf;

use bimetal_measure::json::to_json;
use bimetal_sim::experiment::Progress;
use bimetal_sim::results::{Document, Run};
use clap::Args;

use crate::error::Error;
use crate::experiment::{self, Described};
use crate::exported_table;
use crate::in_memory::InMemory;
use crate::life;
use crate::names::schemes_chosen;
use crate::options::TableForm;
use crate::options::simulation::{HintsOption, RepeatOption, RestoreOption, RunsOption, SimulationOptions};
use crate::output::{Versioned, note, print};
use crate::progress::Stages;
use crate::self_check::head;
use crate::table;
use crate::trace_workload::TraceWorkload;

/// Simulate one scheme over one trace
///
/// Plays the trace over models of the drives. Prints response times, the work of each drive, the
/// wear of the flash, and the cost.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal simulate monday.bin.zst --scheme griffin\n  \
    bimetal simulate web_0.csv.gz --scheme smart-response --set mode=maximized --ssd-size 20% --json\n  \
    bimetal simulate monday.bin.zst --config mirror-of-griffins.toml\n  \
    bimetal simulate monday.bin.zst --scheme ssd-only --save-state monday.state\n  \
    bimetal simulate tuesday.bin.zst --scheme ssd-only --restore-state monday.state")]
pub(crate) struct Arguments {
    /// The trace: a file in any format that `bimetal formats` lists, or - for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The scheme, see `bimetal schemes`; settings may follow: griffin:timeout=30s. Leave it out if
    /// --config has a tree of volumes
    #[arg(long, value_name = "NAME", required_unless_present = "config")]
    scheme: Option<String>,
    #[command(flatten)]
    pub(crate) options: SimulationOptions,
    #[command(flatten)]
    repeat: RepeatOption,
    #[command(flatten)]
    runs: RunsOption,
    #[command(flatten)]
    hints: HintsOption,
    #[command(flatten)]
    restore: RestoreOption,
    /// Write the state of the flash after the run, for --restore-state: place of the data and
    /// erases of each block
    #[arg(long, value_name = "FILE")]
    save_state: Option<PathBuf>,
    #[command(flatten)]
    form: TableForm,
}

/// Runs the simulation and returns its document. The trace may be in `memory`.
///
/// # Errors
/// The trace, a drive, a setting or the run is wrong.
pub(crate) fn document(
    mut arguments: Arguments,
    memory: &[InMemory],
    progress: &dyn Progress,
) -> Result<Document, Error> {
    arguments.options.repeat = arguments.repeat.repeat;
    arguments.options.runs = arguments.runs.runs.unwrap_or(1);
    let Arguments { trace, scheme, options, hints, restore, save_state, .. } = &arguments;
    let trees = options.trees()?;
    let schemes = scheme.as_deref().map_or_else(|| Ok(Vec::new()), |list| schemes_chosen("--scheme", list))?;
    check_is_one(scheme.as_deref().unwrap_or_default(), schemes.len(), trees.len())?;
    let workload = TraceWorkload::named(trace.clone(), memory.first(), &options.trace)?;
    let experiment = Described { schemes, trees, options, restore, hints, save_state: save_state.as_deref() };
    experiment::run(workload, experiment, progress)
}

/// Returns a document of [`document()`] as `--json` prints it.
pub(crate) fn json(document: &Document) -> String {
    to_json(&Versioned::new("simulate", document))
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let form = arguments.form.clone();
    let (asks_for_ssd, asks_for_hdd) = arguments.options.asks_for_drives();
    let document = document(arguments, &[], &Stages::default())?;
    for run in &document.runs {
        for (asked, used, drive) in [(asks_for_ssd, &run.ssd, "ssd"), (asks_for_hdd, &run.hdd, "hdd")] {
            if asked && used.is_none() {
                note(format_args!("--{drive} and --{drive}-size have no effect: {} has no such drive", run.label));
            }
        }
    }
    match form {
        TableForm { json: true, .. } => return print(&json(&document)),
        TableForm { csv: true, .. } => return print(&exported_table::csv(&document)),
        TableForm { markdown: true, .. } => return print(&exported_table::markdown(&document)),
        _ => {}
    }
    let predictions: String = document.runs.iter().filter_map(prediction).collect();
    let lives: String = document.runs.iter().map(|run| life::of_drives(run, life::today())).collect();
    print(&format!("{}{}{lives}{predictions}", head(&document, ""), table::comparison(&document.runs)))
}

/// Returns the forecast of a scheme that makes one, and the regression that the forecast uses.
fn prediction(run: &Run) -> Option<String> {
    let error = run.prediction_error.as_ref()?;
    let mut text = format!(
        "\nPrediction of the SSD's response time: mean error {:.3} ms, and {:.3} ms if the last response time is the \
         prediction; R² {:.3}.\n",
        error.mean_ms, error.last_value_mean_ms, error.r2
    );
    let Some(r2) = error.training_r2 else { return Some(text) };
    text += &format!(
        "The regression made {:.0} % of the predictions; alone, the regression errs by {:.3} ms. R² of its training \
         {r2:.3}.\n",
        error.by_regression * 100.0,
        error.regression_mean_ms
    );
    for (term, coefficient) in &error.coefficients {
        let error = coefficient.standard_error.map_or_else(|| "unknown".to_owned(), |error| format!("{error:.6}"));
        text += &format!("  {term:16} {:>12.6} ± {error}\n", coefficient.value);
    }
    Some(text)
}

/// Checks that exactly one scheme or one tree is given.
fn check_is_one(scheme: &str, schemes: usize, trees: usize) -> Result<(), Error> {
    Err(Error::new(match (schemes, trees) {
        (1, 0) | (0, 1) => return Ok(()),
        (0, 0) => "--scheme is missing: expected one, or a [volume.NAME] in the file of --config".to_owned(),
        (_, 0) => format!("--scheme {scheme}: expected one scheme; bimetal compare takes several"),
        (0, several) => format!(
            "--config: expected one volume that is not a member of another, found {several}; bimetal compare takes \
             several"
        ),
        _ => format!(
            "--scheme {scheme}: the volumes of --config have schemes of their own: leave --scheme or --config out"
        ),
    }))
}
