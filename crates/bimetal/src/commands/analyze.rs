//! `bimetal analyze`: a workload in figures.

use std::path::PathBuf;

use bimetal_trace::analysis::{Analysis, Analyzer};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::{BlockOption, ConfigOption, JsonOption, TraceOptions, file_map};
use crate::output::{print, print_json};
use crate::trace_file::TraceReader;

/// Characterise a workload
///
/// Prints the amounts and sizes of reads and writes, the share that is accessed again, and the time
/// until then: the figures of the Griffin paper, section 4, and others of that kind. They depend on
/// the trace alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal analyze monday.bin.zst\n  \
    bimetal analyze web_0.csv.gz --format msr --limit 1000000 --json")]
pub(crate) struct Arguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    block: BlockOption,
    /// Map of files: a line for each range of the device, `offset,length,path`, in bytes
    #[arg(long, value_name = "MAP.csv")]
    files: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigOption,
    #[command(flatten)]
    json: JsonOption,
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    trace: Trace<'a>,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

/// Summary of the trace.
#[derive(Serialize)]
struct Trace<'a> {
    name: &'a str,
    format: &'static str,
    skipped_lines: u64,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut analyzer = Analyzer::new(arguments.block.block)?;
    if let Some(path) = &arguments.files {
        analyzer = analyzer.with_files(file_map(path)?);
    }
    let mut reader = TraceReader::open(&arguments.trace, &arguments.options)?;
    while let Some(request) = reader.next()? {
        analyzer.request(&request);
    }
    let trace = reader.finish();
    let analysis = analyzer.finish();
    if arguments.json.json {
        let read = Trace { name: trace.name(), format: trace.format().name(), skipped_lines: trace.skipped_lines() };
        return print_json(&Document { bimetal: env!("CARGO_PKG_VERSION"), trace: read, analysis: &analysis });
    }
    print(&format!("trace        {} ({})\n{analysis}", trace.name(), trace.format()))
}
