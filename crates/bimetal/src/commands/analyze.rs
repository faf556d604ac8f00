//! `bimetal analyze`: a workload in figures.

use std::path::PathBuf;

use bimetal_sim::findings::{Finding, OfTrace};
use bimetal_trace::analysis::{Analysis, Analyzer, MapCheck};
use bimetal_trace::{Event, Request};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::files::{file_map, refuse_other_map};
use crate::in_memory::InMemory;
use crate::options::{BlockOption, ConfigOption, TableForm, TraceOptions};
use crate::output::{json_text, print};
use crate::sheet::{Cell, Sheet};
use crate::trace_file::TraceReader;

/// Characterise a workload
///
/// Prints the amounts and sizes of reads and writes, the share of the data that is accessed again,
/// and the time until the next access: the figures of the Griffin paper, section 4, and further
/// figures. The figures depend on the trace alone. Lines above the figures are findings: limits of
/// a simulation over the trace.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal analyze monday.bin.zst\n  \
    bimetal analyze web_0.csv.gz --format msr --limit 1000000 --json\n  \
    bimetal analyze monday.bin.zst --markdown\n  \
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
    form: TableForm,
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    trace: Trace<'a>,
    #[serde(flatten)]
    analysis: &'a Analysis,
    findings: &'a [Finding],
}

/// Summary of the trace.
#[derive(Serialize)]
struct Trace<'a> {
    name: &'a str,
    format: &'static str,
    skipped_lines: u64,
}

/// Counters of requests: of the figures, and of what qualifies them.
struct Counters {
    analyzer: Analyzer,
    of_trace: OfTrace,
}

impl Counters {
    fn new(arguments: &Arguments) -> Result<Self, Error> {
        let analyzer = Analyzer::new(arguments.block.block)?;
        let analyzer = match &arguments.files {
            Some(path) => analyzer.with_files(file_map(path)?),
            None => analyzer,
        };
        Ok(Self { analyzer, of_trace: OfTrace::new(arguments.block.size()?) })
    }

    fn count(&mut self, request: &Request) {
        self.analyzer.request(request);
        self.of_trace.note(request);
    }

    fn finish(self, event: Option<Event>) -> (Analysis, Vec<Finding>) {
        (self.analyzer.finish(), self.of_trace.finish(event == Some(Event::Queue)))
    }
}

/// Analyzes the requests of `trace`, and returns the document as `--json` prints it.
///
/// # Errors
/// An option is wrong, or a request cannot be read.
pub(crate) fn json_of(arguments: &Arguments, trace: &InMemory) -> Result<String, Error> {
    let mut counters = Counters::new(arguments)?;
    for request in trace.read()? {
        counters.count(&request?);
    }
    let (analysis, findings) = counters.finish(trace.event);
    json(&trace.name, trace.format.name, trace.skipped_lines, &analysis, &findings)
}

fn json(
    name: &str,
    format: &'static str,
    skipped_lines: u64,
    analysis: &Analysis,
    findings: &[Finding],
) -> Result<String, Error> {
    let trace = Trace { name, format, skipped_lines };
    json_text("analyze", &Document { bimetal: env!("CARGO_PKG_VERSION"), trace, analysis, findings })
}

/// Spans within which the shares of `waw` and `raw` are counted, in seconds.
const SPANS: [&str; 4] = ["30", "60", "900", "3600"];

/// Returns the single figures of the document as a row. Curves and histograms are only in the JSON.
fn sheet(name: &str, analysis: &Analysis) -> Result<Sheet, Error> {
    let document = serde_json::to_value(analysis)?;
    let (mut headings, mut row): (Vec<String>, Vec<Cell>) = (vec!["trace".to_owned()], vec![name.into()]);
    for (key, value) in document.as_object().into_iter().flatten() {
        if key == "waw" || key == "raw" {
            headings.extend(SPANS.map(|span| format!("{key}_{span}s")));
            row.extend(SPANS.map(|span| Cell::from(value[span].as_f64())));
        } else if let Some(count) = value.as_u64() {
            headings.push(key.clone());
            row.push(count.into());
        } else if (value.is_null() && !key.ends_with("_cdf")) || value.is_f64() {
            headings.push(key.clone());
            row.push(value.as_f64().into());
        }
    }
    let mut sheet = Sheet::new(headings);
    sheet.push(row);
    Ok(sheet)
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut counters = Counters::new(&arguments)?;
    let map_check = |path| Ok::<_, Error>((path, MapCheck::new(&file_map(path)?)));
    let mut check = arguments.files.as_deref().map(map_check).transpose()?;
    let mut reader = TraceReader::open(&arguments.trace, &arguments.options)?;
    while let Some(request) = reader.next()? {
        counters.count(&request);
        if let Some((_, check)) = &mut check {
            check.count(&request);
        }
    }
    let trace = reader.finish();
    if let Some((path, check)) = &check {
        refuse_other_map(check, path, trace.name(), trace.capacity())?;
    }
    let (analysis, findings) = counters.finish(trace.event());
    let form = &arguments.form;
    if form.csv || form.markdown {
        let sheet = sheet(trace.name(), &analysis)?;
        return print(&if form.csv { sheet.csv() } else { sheet.transposed().markdown() });
    }
    if form.json {
        return print(&json(trace.name(), trace.format().name, trace.skipped_lines(), &analysis, &findings)?);
    }
    let lines: String = findings.iter().map(|finding| finding.line() + "\n").collect();
    print(&format!("{lines}trace        {} ({})\n{analysis}", trace.name(), trace.format()))
}
