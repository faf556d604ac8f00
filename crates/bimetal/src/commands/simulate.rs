//! `bimetal simulate`: one scheme over one trace.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print;
use crate::simulation::{SimulationOptions, run as run_experiment, schemes_named, self_check};
use crate::table;

/// Simulate one scheme over one trace
///
/// Plays the trace over models of the drives and says what it would have been like: response times, what each drive did,
/// how fast the flash wears, what it costs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal simulate monday.bin.zst --scheme griffin\n  \
    bimetal simulate web_0.csv.gz --scheme smart-response --set mode=maximized --ssd-size 20% --json")]
pub(crate) struct Arguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The scheme; see `bimetal schemes`
    #[arg(long, value_name = "NAME")]
    scheme: String,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let schemes = schemes_named(&arguments.scheme)?;
    if schemes.len() != 1 {
        return Err(Error::new(format!(
            "--scheme {}: expected one scheme; bimetal compare takes several",
            arguments.scheme
        )));
    }
    let document = run_experiment(Some(arguments.trace), schemes, &arguments.options)?;
    if arguments.json.json {
        return print(&document.to_json());
    }
    print(&format!("{}\n\n{}", self_check(&document.trace), table::comparison(&document.runs)))
}
