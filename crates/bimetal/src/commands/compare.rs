//! `bimetal compare`: schemes side by side.

use std::io::Write as _;
use std::path::PathBuf;

use bimetal_core::scheme::SchemeInfo;
use bimetal_sim::results::to_json;
use clap::Args;

use crate::error::Error;
use crate::geometric::Comparison;
use crate::options::JsonOption;
use crate::output::{OutputFile, note, print};
use crate::report;
use crate::simulation::{HintsOption, RestoreOption, SimulationOptions, head, run as run_experiment, schemes_named};
use crate::table;

/// Compare schemes over a trace: latency, flash wear and cost side by side
///
/// Without a trace, the embedded sample: some minutes of a small server. Sizes that are not given
/// follow from the trace; what was assumed is in the report and in the JSON.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal compare\n  \
    bimetal compare monday.bin.zst --schemes griffin,smart-response,hdd-only --report report.html\n  \
    bimetal compare monday.bin.zst --ssd-size 20% --hdd seagate-exos-x18-18tb --json")]
pub(crate) struct Arguments {
    /// The trace [default: the embedded sample]; of several, geometric means are given as well
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The schemes, with commas between, or all [default: all, or only the volumes of --config]
    #[arg(long, value_name = "a,b|all")]
    schemes: Option<String>,
    /// Also write the comparison as a page that opens in any browser, offline
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    hints: HintsOption,
    #[command(flatten)]
    restore: RestoreOption,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let trees = arguments.options.trees()?;
    let schemes = match &arguments.schemes {
        None if !trees.is_empty() => Vec::new(),
        list => schemes_named(list.as_deref().unwrap_or("all"))?,
    };
    if arguments.report.is_some() && arguments.traces.len() > 1 {
        return Err(Error::new("--report is a page about one trace: expected one trace, or --json for several"));
    }
    if arguments.hints.is_given() && arguments.traces.len() > 1 {
        return Err(Error::new("--hints are the evictions beside one trace: expected one trace"));
    }
    // The file is created before the simulation: a path that cannot be written must fail at once,
    // not after a long run.
    let report = arguments.report.as_deref().map(OutputFile::create).transpose()?;
    if arguments.traces.len() > 1 {
        return compare_over_several(&arguments, &schemes);
    }
    let document = run_experiment(
        arguments.traces.into_iter().next(),
        schemes,
        trees,
        &arguments.options,
        &arguments.restore,
        &arguments.hints,
        None,
    )?;
    if let (Some(mut file), Some(path)) = (report, &arguments.report) {
        file.write_all(report::html(&document).as_bytes())?;
        file.finish()?;
        note(format_args!("the report is in {}", path.display()));
    }
    if arguments.json.json {
        return print(&document.to_json());
    }
    print(&format!("{}\n\n{}", head(&document), table::comparison(&document.runs)))
}

/// Runs one comparison per trace, and prints the geometric means over all traces.
fn compare_over_several(arguments: &Arguments, schemes: &[&'static SchemeInfo]) -> Result<(), Error> {
    let mut documents = Vec::new();
    for trace in &arguments.traces {
        let (schemes, trees) = (schemes.to_vec(), arguments.options.trees()?);
        let options = &arguments.options;
        documents.push(run_experiment(
            Some(trace.clone()),
            schemes,
            trees,
            options,
            &arguments.restore,
            &arguments.hints,
            None,
        )?);
    }
    let comparison = Comparison::of(documents);
    if arguments.json.json {
        return print(&to_json(&comparison));
    }
    for document in comparison.traces() {
        print(&format!("{}\n\n{}\n", head(document), table::comparison(&document.runs)))?;
    }
    print(&comparison.table())
}
