//! `bimetal simulate`: plays one trace with one scheme.

use std::path::PathBuf;

use bimetal_sim::results::Run;
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print;
use crate::simulation::{HintsOption, RestoreOption, SimulationOptions, head, run as run_experiment, schemes_named};
use crate::table;

/// Simulate one scheme over one trace
///
/// Plays the trace over models of the drives and says what it would have been like: response times,
/// what each drive did, how fast the flash wears, what it costs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal simulate monday.bin.zst --scheme griffin\n  \
    bimetal simulate web_0.csv.gz --scheme smart-response --set mode=maximized --ssd-size 20% --json\n  \
    bimetal simulate monday.bin.zst --config mirror-of-griffins.toml\n  \
    bimetal simulate monday.bin.zst --scheme ssd-only --save-state monday.state\n  \
    bimetal simulate tuesday.bin.zst --scheme ssd-only --restore-state monday.state")]
pub(crate) struct Arguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The scheme; see `bimetal schemes`. Not with a tree of volumes in --config
    #[arg(long, value_name = "NAME", required_unless_present = "config")]
    scheme: Option<String>,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    hints: HintsOption,
    #[command(flatten)]
    restore: RestoreOption,
    /// Also write what the flash is like afterwards, where data lie and how often blocks were
    /// erased, for --restore-state
    #[arg(long, value_name = "FILE")]
    save_state: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { trace, scheme, options, hints, restore, save_state, json } = arguments;
    let trees = options.trees()?;
    let schemes = scheme.as_deref().map_or_else(|| Ok(Vec::new()), schemes_named)?;
    check_is_one(&scheme.unwrap_or_default(), schemes.len(), trees.len())?;
    let document = run_experiment(Some(trace), schemes, trees, &options, &restore, &hints, save_state.as_deref())?;
    if json.json {
        return print(&document.to_json());
    }
    let predictions: String = document.runs.iter().filter_map(prediction).collect();
    print(&format!("{}\n\n{}{predictions}", head(&document), table::comparison(&document.runs)))
}

/// Returns the forecast of a scheme that makes one, and the regression behind it.
fn prediction(run: &Run) -> Option<String> {
    let error = run.prediction_error.as_ref()?;
    let mut text = format!(
        "\nPrediction of the SSD's response time: mean error {:.3} ms, of the last value {:.3} ms; R² {:.3}.\n",
        error.mean_ms, error.last_value_mean_ms, error.r2
    );
    let Some(r2) = error.training_r2 else { return Some(text) };
    text += &format!(
        "The regression made {:.0} % of the predictions; alone it errs by {:.3} ms. R² of its training {r2:.3}.\n",
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
            "--config: expected one volume that is nobody's member, found {several}; bimetal compare takes several"
        ),
        _ => format!(
            "--scheme {scheme}: the file of --config has volumes with schemes of their own: leave one of the two out"
        ),
    }))
}
