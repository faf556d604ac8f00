//! `bimetal generate`: writes a synthetic workload as a trace.

use std::path::{Path, PathBuf};

use bimetal_core::units::Bytes;
use bimetal_trace::synthetic::{Generator, Interarrival, SizeMix, Skew, WorkloadSpec};
use bimetal_trace::write::Content;
use clap::Args;
use serde::Deserialize;
use toml::Value;

use crate::config;
use crate::error::Error;
use crate::options::parse::{fraction, whole_number};
use crate::options::{ConfigOption, JsonOption};
use crate::output::print_json;
use crate::progress::Progress;
use crate::trace_file::TraceWriter;

/// Generate a synthetic workload
///
/// Equal flags and seeds give equal traces. A file for --config describes several phases, one after
/// another, as a list `[[phase]]` of the same keys.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal generate --requests 1000000 --footprint 4GiB --read-fraction 0.7 \\\n      \
    --size 4KiB:0.7,64KiB:0.3 --interarrival poisson:2ms --skew zipf:0.9 -o zipf.bin.zst\n  \
    bimetal generate --config day-and-night.toml -o day-and-night.bin.zst\n\n\
    where day-and-night.toml is\n  \
    [[phase]]\n  requests = 50000\n  footprint = \"2GiB\"\n  interarrival = \"bursty:1ms,100,1s\"\n  \
    [[phase]]\n  requests = 5000\n  footprint = \"2GiB\"\n  sequential = 1.0\n  size = \"256KiB\"")]
pub(crate) struct Arguments {
    /// Number of requests
    #[arg(long, value_name = "N", value_parser = whole_number, allow_hyphen_values = true)]
    requests: Option<u64>,
    /// Size of the address range that is used, from address 0, like 4GiB
    #[arg(long, value_name = "SIZE")]
    footprint: Option<Bytes>,
    /// The fraction of requests that are reads, from 0 to 1; all other requests are writes
    /// [default: 0.5]
    #[arg(long, value_name = "F", value_parser = fraction, allow_hyphen_values = true)]
    read_fraction: Option<f64>,
    /// The sizes of requests: one size, or several with their fractions, like 4KiB:0.7,64KiB:0.3
    /// [default: 4KiB]
    #[arg(long, value_name = "SIZES")]
    size: Option<SizeMix>,
    /// The fraction of requests that start where the previous read or write ended [default: 0]
    #[arg(long, value_name = "F", value_parser = fraction, allow_hyphen_values = true)]
    sequential: Option<f64>,
    /// The time between requests; constant:1ms, poisson:1ms (mean), or bursty:1ms,100,1s (time
    /// inside a burst, requests a burst, time between bursts) [default: constant:1ms]
    #[arg(long, value_name = "TIMES")]
    interarrival: Option<Interarrival>,
    /// Popularity of blocks; uniform, zipf:0.9 (exponent), or hot:0.2,0.8 (a fifth of the blocks
    /// gets four fifths of the accesses) [default: uniform]
    #[arg(long, value_name = "SKEW")]
    skew: Option<Skew>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole_number, allow_hyphen_values = true)]
    seed: u64,
    /// The trace to write; its ending names the format: .bin.zst (compressed) or .csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the trace, which `bimetal formats` marks as written [default: by the ending of
    /// FILE, else bin]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    #[command(flatten)]
    config: ConfigOption,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let phases = match &arguments.config.config {
        Some(path) => phases_in(path)?,
        None => Vec::new(),
    };
    let phases = if phases.is_empty() { vec![phase_of(&arguments)?] } else { only_phases(&arguments, phases)? };
    let generator = Generator::new(&phases, arguments.seed)?;
    let mut progress = Progress::new(Some(phases.iter().map(|phase| phase.requests).sum()), "requests");
    let mut file = TraceWriter::create(&arguments.output, arguments.format.as_deref(), Content::default())?;
    for (index, request) in generator.enumerate() {
        file.write(&request)?;
        if index % 8192 == 0 {
            progress.set(index as u64);
        }
    }
    let written = file.finish()?;
    if arguments.json.json { print_json("generate", &written) } else { Ok(()) }
}

/// Returns the single phase that the flags describe.
fn phase_of(arguments: &Arguments) -> Result<WorkloadSpec, Error> {
    let (Some(requests), Some(footprint)) = (arguments.requests, arguments.footprint) else {
        return Err(Error::new("expected --requests and --footprint, or --config with a [[phase]] list"));
    };
    let defaults = WorkloadSpec::new(requests, footprint);
    Ok(WorkloadSpec {
        read_fraction: arguments.read_fraction.unwrap_or(defaults.read_fraction),
        size: arguments.size.clone().unwrap_or(defaults.size),
        sequential: arguments.sequential.unwrap_or(defaults.sequential),
        interarrival: arguments.interarrival.unwrap_or(defaults.interarrival),
        skew: arguments.skew.unwrap_or(defaults.skew),
        ..defaults
    })
}

/// Returns `phases`, unless flags describe a phase, too: a choice between the file and the flags
/// would be a guess.
fn only_phases(arguments: &Arguments, phases: Vec<WorkloadSpec>) -> Result<Vec<WorkloadSpec>, Error> {
    let given = [
        ("requests", arguments.requests.is_some()),
        ("footprint", arguments.footprint.is_some()),
        ("read-fraction", arguments.read_fraction.is_some()),
        ("size", arguments.size.is_some()),
        ("sequential", arguments.sequential.is_some()),
        ("interarrival", arguments.interarrival.is_some()),
        ("skew", arguments.skew.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Error::new(format!("{flag} has no effect beside a [[phase]] list: expected it inside each [[phase]]")))
        }
        None => Ok(phases),
    }
}

/// Returns the `[[phase]]` list of a file; empty if the file has none.
pub(crate) fn phases_in(path: &Path) -> Result<Vec<WorkloadSpec>, Error> {
    let table = config::read(path)?;
    let wrong = |message: String| Error::new(format!("{}: {message}", path.display()));
    match table.get("phase") {
        None => Ok(Vec::new()),
        Some(Value::Array(phases)) => {
            let read = |(index, phase): (usize, &Value)| {
                WorkloadSpec::deserialize(phase.clone()).map_err(|error| {
                    wrong(format!("phase {}: {}", index + 1, error.to_string().trim().replace('\n', " ")))
                })
            };
            phases.iter().enumerate().map(read).collect()
        }
        Some(other) => Err(wrong(format!("key 'phase': expected a list [[phase]], found {}", other.type_str()))),
    }
}
