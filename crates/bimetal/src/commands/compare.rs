//! `bimetal compare`: schemes side by side.

use std::io::Write as _;
use std::path::PathBuf;

use bimetal_measure::json::to_json;
use bimetal_sim::experiment::Progress;
use bimetal_sim::results::Document;
use bimetal_sim::setup::Sizing;
use clap::Args;

use crate::choices::Choices;
use crate::error::Error;
use crate::experiment::{self, Described};
use crate::exported_table;
use crate::geometric::Comparison;
use crate::in_memory::InMemory;
use crate::life;
use crate::names::schemes_chosen;
use crate::options::parse::day;
use crate::options::simulation::{HintsOption, RepeatOption, RestoreOption, RunsOption, SimulationOptions};
use crate::options::{TableForm, heading};
use crate::output::{OutputFile, Versioned, note, note_small_capacity, note_unknown_capacity, print, tell};
use crate::prices;
use crate::progress::Stages;
use crate::report::{self, sections::label};
use crate::self_check::{self, head};
use crate::table;
use crate::trace_workload::TraceWorkload;

/// Default number of runs of each scheme.
const RUNS: u32 = 5;

/// Compare schemes over a trace: latency, flash wear and cost side by side
///
/// Without a trace, the embedded sample is played: some minutes of a small server. Drives without a
/// size are the smallest on sale, at their whole prices. Without sizes, each scheme also runs with
/// an SSD of 10 % of the footprint. The report and the JSON list all assumptions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal compare\n  \
    bimetal compare monday.bin.zst --schemes griffin,smart-response,hdd-only --report report.html\n  \
    bimetal compare monday.bin.zst --schemes 'griffin,griffin:timeout=30s'\n  \
    bimetal compare monday.bin.zst --ssd-size 20% --hdd seagate-exos-x18-18tb --json")]
pub(crate) struct Arguments {
    /// The traces, or - for standard input [default: the embedded sample]; several traces also give
    /// geometric means
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The schemes, with commas between, or all; settings after a colon apply to one entry alone
    /// and precede --set: griffin,griffin:timeout=30s:read_window=50 [default: all, or only the
    /// volumes of --config]
    #[arg(long, value_name = "a,b[:KEY=VALUE]|all")]
    schemes: Option<String>,
    /// Day on which the lives of the SSDs begin, from which follows the year of their end [default:
    /// today]
    #[arg(long, help_heading = heading::OUTPUT, value_name = "YYYY-MM-DD", value_parser = day)]
    today: Option<f64>,
    /// Also write the comparison as a page that opens in any browser, offline
    #[arg(long, alias = "html", help_heading = heading::OUTPUT, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    repeat: RepeatOption,
    #[command(flatten)]
    runs: RunsOption,
    #[command(flatten)]
    hints: HintsOption,
    #[command(flatten)]
    restore: RestoreOption,
    #[command(flatten)]
    form: TableForm,
}

/// Result of a comparison.
pub(crate) enum Compared {
    /// Comparison over one trace.
    One(Box<Document>),
    /// Comparison over several traces.
    Several(Comparison),
}

impl Compared {
    /// Returns the document as `--json` prints it.
    pub(crate) fn json(&self) -> String {
        match self {
            Self::One(document) => to_json(&Versioned::new("compare", document)),
            Self::Several(comparison) => to_json(&Versioned::new("compare-traces", comparison)),
        }
    }

    /// Returns the documents of the traces.
    pub(crate) fn documents(&mut self) -> impl Iterator<Item = &mut Document> {
        let (one, several) = match self {
            Self::One(document) => (Some(&mut **document), None),
            Self::Several(comparison) => (None, Some(comparison.traces_mut())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

/// Runs the comparison, writes its report, and returns its result. The traces may be in `memory`.
///
/// # Errors
/// A trace, a drive, a setting or a run is wrong, or the report cannot be written.
pub(crate) fn compared(arguments: Arguments, memory: &[InMemory], progress: &dyn Progress) -> Result<Compared, Error> {
    check_is_about_one(&arguments)?;
    described(&arguments)?;
    // The file is created before the simulation: a path that cannot be written must fail at once,
    // not after a long run.
    let report = arguments.report.as_deref().map(OutputFile::create).transpose()?;
    let compared = simulated(arguments, memory, progress)?;
    if let (Some(mut file), Compared::One(document)) = (report, &compared) {
        file.write_all(report::html(document).as_bytes())?;
        file.finish()?;
    }
    Ok(compared)
}

fn simulated(mut arguments: Arguments, memory: &[InMemory], progress: &dyn Progress) -> Result<Compared, Error> {
    arguments.options.also_share = arguments.restore.restore_state.is_none();
    arguments.options.over_share = arguments.report.is_some();
    arguments.options.repeat = arguments.repeat.repeat;
    arguments.options.runs = arguments.runs.runs.unwrap_or(RUNS);
    let Arguments { traces, options, .. } = &arguments;
    let named = |(at, path): (usize, &PathBuf)| TraceWorkload::named(path.clone(), memory.get(at), &options.trace);
    let workloads = match traces.as_slice() {
        [] => vec![TraceWorkload::of_sample(&options.trace)?],
        traces => traces.iter().enumerate().map(named).collect::<Result<_, _>>()?,
    };
    let mut documents = Vec::new();
    for workload in workloads {
        let mut document = experiment::run(workload, described(&arguments)?, progress)?;
        let runs = document.blocks().0;
        let choices = Choices::of(runs, None);
        let cheaper_to_own = choices.as_ref().and_then(|choices| choices.cheaper_as_data(runs));
        document.choices = Some(choices.map_or_else(Vec::new, |choices| choices.as_data(runs)));
        document.cheaper_to_own = cheaper_to_own;
        documents.push(document);
    }
    Ok(match documents.len() {
        1 => Compared::One(Box::new(documents.remove(0))),
        _ => Compared::Several(Comparison::of(documents)),
    })
}

fn described(arguments: &Arguments) -> Result<Described<'_>, Error> {
    let Arguments { options, restore, hints, .. } = arguments;
    let trees = options.trees()?;
    let schemes = match &arguments.schemes {
        None if !trees.is_empty() => Vec::new(),
        list => schemes_chosen("--schemes", list.as_deref().unwrap_or("all"))?,
    };
    Ok(Described { schemes, trees, options, restore, hints, save_state: None })
}

/// Refuses several traces together with an option that concerns one trace.
fn check_is_about_one(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { traces, report, hints, .. } = arguments;
    if traces.len() <= 1 {
        return Ok(());
    }
    if report.is_some() {
        return Err(Error::new("--report makes a page about one trace: expected one trace, or --json for several"));
    }
    if hints.is_given() {
        return Err(Error::new("--hints has the evictions of one trace: expected one trace"));
    }
    Ok(())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let (report, form) = (arguments.report.clone(), arguments.form.clone());
    let today = arguments.today.unwrap_or_else(life::today);
    let compared = compared(arguments, &[], &Stages::default())?;
    let document = match &compared {
        Compared::One(document) => document,
        Compared::Several(comparison) => return print_several(comparison, &compared, &form, today),
    };
    if let Some(path) = report {
        note(format_args!("the report is in {}", path.display()));
    }
    if let Some(age) = prices::age_note_of(document.blocks().0, prices::today()) {
        note(age);
    }
    if document.trace.capacity_bytes.is_none() && document.runs.iter().any(|run| run.sizing == Sizing::Sold) {
        note_unknown_capacity("drives");
    }
    note_small_capacity(&document.trace, "drives");
    if form.csv || form.markdown {
        // The tables leave no room for findings, and for schemes that are left out.
        self_check::lines(document).into_iter().for_each(tell);
    }
    match form {
        TableForm { json: true, .. } => return print(&compared.json()),
        TableForm { csv: true, .. } => return print(&exported_table::csv(document)),
        TableForm { markdown: true, .. } => return print(&exported_table::markdown(document)),
        _ => {}
    }
    print(&format!("{}{}", head(document, &choices(document, today)), table::blocks(document)))
}

/// Returns the choices that no other run beats.
fn choices(document: &Document, today: f64) -> String {
    let runs = document.blocks().0;
    let choices = Choices::of(runs, Some(today));
    choices.map_or_else(String::new, |choices| choices.lines(|run| label(runs, run)))
}

/// Prints the comparison of each trace, and the geometric means over all traces.
fn print_several(comparison: &Comparison, compared: &Compared, form: &TableForm, today: f64) -> Result<(), Error> {
    match form {
        TableForm { json: true, .. } => return print(&compared.json()),
        TableForm { csv: true, .. } => return print(&exported_table::csv_of_traces(comparison.traces())),
        TableForm { markdown: true, .. } => return print(&exported_table::markdown_of_traces(comparison.traces())),
        _ => {}
    }
    for document in comparison.traces() {
        print(&format!("{}{}\n", head(document, &choices(document, today)), table::blocks(document)))?;
    }
    print(&comparison.table())
}
