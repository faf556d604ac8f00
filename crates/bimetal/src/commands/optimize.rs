//! `bimetal optimize`: searches, by simulation, for the files that belong on the SSD of a Combo
//! Drive.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use bimetal_core::units::Bytes;
use bimetal_sim::placement::{Found, Placement, Score, Search};
use bimetal_sim::setup::{Choices, DefaultSize};
use bimetal_sim::workload::{Workload, WorkloadError};
use bimetal_trace::{Event, Request};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::JsonOption;
use crate::options::parse::{WarmUpOption, fraction};
use crate::options::simulation::{SimulationOptions, choices};
use crate::output::{OutputFile, print, print_json};
use crate::progress::Stages;
use crate::trace_workload::TraceWorkload;

/// Search for the files that belong on the SSD, by simulation
///
/// Plays the first part of a trace many times, each time with other files on the SSD of a Combo
/// Drive. Keeps the files that save the most response time for each byte that is moved. Compares
/// the result with the three strategies of the paper, over the requests of the search and over the
/// rest of the trace, which the search has not used. No file is moved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal optimize monday.bin.zst --files map.csv --ssd-size 32GiB -o list.txt\n  \
    bimetal optimize monday.bin.zst --files map.csv --ssd-size 32GiB --move-max 2GiB --simulations 1000 --json\n  \
    bimetal simulate tuesday.bin.zst --scheme combo --set strategy=list --files map.csv --list list.txt --ssd-size 32GiB\n\n\
    `bimetal place DIRECTORY -o map.csv` writes the map of files.")]
pub(crate) struct Arguments {
    /// The trace of the device that has the files
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Most bytes that may be moved, to and from the SSD together [default: the SSD's size]
    #[arg(long, value_name = "SIZE")]
    move_max: Option<Bytes>,
    /// Most simulations that the search may run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "500")]
    simulations: u32,
    /// Share of the requests to search with; the remaining requests test the result
    #[arg(long, value_name = "FRACTION", value_parser = fraction, allow_hyphen_values = true, default_value = "0.67")]
    search: f64,
    /// Write the files that belong on the SSD, a path a line, for `simulate --set strategy=list
    /// --list`
    #[arg(short, long, value_name = "LIST")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: SimulationOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    trace: String,
    requests_searched: u64,
    requests_held_out: u64,
    ssd: Option<&'a str>,
    hdd: Option<&'a str>,
    ssd_bytes: Option<u64>,
    hdd_bytes: Option<u64>,
    move_max_bytes: u64,
    simulations: u32,
    placements: Vec<Judged<'a>>,
}

#[derive(Serialize)]
struct Judged<'a> {
    name: &'static str,
    files: &'a [String],
    moved_bytes: u64,
    searched_mean_ms: f64,
    searched_gain: Option<f64>,
    held_out_mean_ms: f64,
    held_out_gain: Option<f64>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { trace, move_max, simulations, search, output, options, json } = arguments;
    if options.warmup != WarmUpOption::Fraction(0.0) {
        return Err(Error::new(
            "--warmup: optimize measures all requests, since its files are on the SSD from the start: leave it out, \
             and judge the list with `bimetal simulate --list LIST --warmup`",
        ));
    }
    if let [false, _] | [_, true] = options.has_files() {
        return Err(Error::new(
            "optimize searches the files of a map and writes a list of them: expected --files MAP.csv, and no --list",
        ));
    }
    // The output is made before the simulations, so that a path that cannot be written is reported
    // at once.
    let output = output.as_deref().map(OutputFile::create).transpose()?;
    let (workload, replay) = options.open(TraceWorkload::of_file(trace.clone(), &options.trace)?)?;
    let unreadable = |error: WorkloadError| Error::new(error.to_string());
    let requests: Result<Vec<Request>, WorkloadError> = workload.open().map_err(unreadable)?.collect();
    let requests = requests.map_err(unreadable)?;
    options.refuse_other_map(&workload, &workload.header()?)?;
    let bar = Stages::default();
    let progress = |made: u32| bar.show("simulations", Some(simulations.into()), made.into());
    let merge = options.merges(workload.header()?.event == Some(Event::Queue));
    // A drive on sale would hold all files, and leave nothing to choose.
    let choices = Choices { merge, default_size: DefaultSize::TENTH, ..choices(&options)? };
    let (share, simulations_max) = (search, simulations);
    let found = Search {
        requests: &requests,
        choices,
        replay,
        share,
        moved_max: move_max,
        simulations_max,
        progress: &progress,
    };
    let found = found.run()?;
    drop(bar);
    if let (Some(mut file), Some(best)) = (output, found.placements.last()) {
        for path in &best.files {
            writeln!(file, "{path}")?;
        }
        file.finish()?;
    }
    let name = trace.display().to_string();
    if json.json {
        return print_json("optimize", &document(name, &found));
    }
    print(&text(&name, &found))
}

fn document(trace: String, found: &Found) -> Document<'_> {
    let [requests_searched, requests_held_out] = found.requests;
    let none = &found.placements[0];
    let judged = |placement: &'_ Placement| (placement.searched, placement.held_out);
    let placements = found.placements.iter().map(|placement| {
        let (searched, held_out) = judged(placement);
        Judged {
            name: placement.name,
            files: &placement.files,
            moved_bytes: searched.moved.0,
            searched_mean_ms: searched.mean_ms,
            searched_gain: gain(none.searched, searched),
            held_out_mean_ms: held_out.mean_ms,
            held_out_gain: gain(none.held_out, held_out),
        }
    });
    Document {
        bimetal: env!("CARGO_PKG_VERSION"),
        trace,
        requests_searched,
        requests_held_out,
        ssd: found.unmoved.ssd.as_deref(),
        hdd: found.unmoved.hdd.as_deref(),
        ssd_bytes: found.unmoved.ssd_bytes,
        hdd_bytes: found.unmoved.hdd_bytes,
        move_max_bytes: found.moved_max.0,
        simulations: found.simulations,
        placements: placements.collect(),
    }
}

/// Returns the share of the mean response time that a placement saves.
fn gain(none: Score, score: Score) -> Option<f64> {
    (none.mean_ms > 0.0).then(|| 1.0 - score.mean_ms / none.mean_ms)
}

fn text(trace: &str, found: &Found) -> String {
    let [searched, held_out] = found.requests;
    let drive = |name: &Option<String>, bytes: Option<u64>| {
        format!("{} of {}", name.as_deref().unwrap_or("none"), Bytes(bytes.unwrap_or(0)))
    };
    let (unmoved, none) = (&found.unmoved, &found.placements[0]);
    let mut text = format!(
        "trace        {trace}: {searched} requests to search with, {held_out} held out\nSSD          {}\nHDD          \
         {}\nmoved        at most {}; {} simulations\n\n",
        drive(&unmoved.ssd, unmoved.ssd_bytes),
        drive(&unmoved.hdd, unmoved.hdd_bytes),
        found.moved_max,
        found.simulations
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:10} {:>7} {:>10} {:>14} {:>7} {:>14} {:>7}",
        "placement", "files", "moved", "searched by ms", "gain", "held out ms", "gain"
    );
    let percent = |gain: Option<f64>| gain.map_or_else(String::new, |gain| format!("{:.1} %", 100.0 * gain));
    for Placement { name, files, searched, held_out } in &found.placements {
        let _ = writeln!(
            text,
            "{name:10} {:>7} {:>10} {:>14.3} {:>7} {:>14.3} {:>7}",
            files.len(),
            searched.moved.to_string(),
            searched.mean_ms,
            percent(gain(none.searched, *searched)),
            held_out.mean_ms,
            percent(gain(none.held_out, *held_out)),
        );
    }
    text
}
