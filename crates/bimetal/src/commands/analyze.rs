//! `bimetal analyze`: a workload in figures.

use std::path::PathBuf;

use bimetal_trace::analysis::{Analysis, Analyzer};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::files::file_map;
use crate::in_memory::InMemory;
use crate::options::{BlockOption, ConfigOption, JsonOption, TraceOptions};
use crate::output::{json_text, print};
use crate::trace_file::TraceReader;

/// Characterise a workload
///
/// Prints the amounts and sizes of reads and writes, the share that is accessed again, and the time
/// until then: the figures of the Griffin paper, section 4, and others of that kind. They depend on
/// the trace alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal analyze monday.bin.zst\n  \
    bimetal analyze web_0.csv.gz --format msr --limit 1000000 --json\n  \
    ssh server cat monday.bin.zst | bimetal analyze -")]
pub(crate) struct Arguments {
    /// The trace: a file in any format that `bimetal formats` lists, or - for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    block: BlockOption,
    /// Map of files: a line `offset,length,path` for each range of the device, in bytes
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

fn analyzer(arguments: &Arguments) -> Result<Analyzer, Error> {
    let analyzer = Analyzer::new(arguments.block.block)?;
    Ok(match &arguments.files {
        Some(path) => analyzer.with_files(file_map(path)?),
        None => analyzer,
    })
}

/// Analyzes the requests of `trace`, and returns the document as `--json` prints it.
///
/// # Errors
/// An option is wrong, or a request cannot be read.
pub(crate) fn json_of(arguments: &Arguments, trace: &InMemory) -> Result<String, Error> {
    let mut analyzer = analyzer(arguments)?;
    for request in trace.read()? {
        analyzer.request(&request?);
    }
    json(&trace.name, trace.format.name, trace.skipped_lines, &analyzer.finish())
}

fn json(name: &str, format: &'static str, skipped_lines: u64, analysis: &Analysis) -> Result<String, Error> {
    let trace = Trace { name, format, skipped_lines };
    json_text("analyze", &Document { bimetal: env!("CARGO_PKG_VERSION"), trace, analysis })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut analyzer = analyzer(&arguments)?;
    let mut reader = TraceReader::open(&arguments.trace, &arguments.options)?;
    while let Some(request) = reader.next()? {
        analyzer.request(&request);
    }
    let trace = reader.finish();
    let analysis = analyzer.finish();
    if arguments.json.json {
        return print(&json(trace.name(), trace.format().name, trace.skipped_lines(), &analysis)?);
    }
    print(&format!("trace        {} ({})\n{analysis}", trace.name(), trace.format()))
}
