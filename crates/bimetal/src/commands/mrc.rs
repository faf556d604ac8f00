//! `bimetal mrc`: measures miss ratios of caches of any size and policy.

use std::fmt::Write as _;
use std::path::PathBuf;

use bimetal_sim::mrc::{CacheSize, CacheSizeError, MissRatios, Options, Unit, measure, measure_with, policies};
use bimetal_sim::outside::OutsidePolicies;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::Error;
use crate::in_memory::InMemory;
use crate::options::parse::whole_number;
use crate::options::{BlockOption, ConfigOption, TableForm, TraceOptions};
use crate::output::{json_text, print};
use crate::sheet::{Cell, Sheet};
use crate::trace_file::TraceReader;

/// Print miss ratios and miss-ratio curves of replacement policies
///
/// The miss ratio is the share of accesses that a cache misses, for each policy and size. The miss
/// ratio depends on the trace alone, and on no drive or scheme.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal mrc monday.bin.zst --policies lru,arc,s3fifo --sizes 1%,10%,64MiB\n  \
    bimetal mrc monday.bin.zst --sample 0.01 --json\n  \
    bimetal mrc monday.bin.zst --policies all --csv > curves.csv\n\n\
    Policies: lru clock arc lirs 2q s3fifo sieve wtinylfu lrfu belady, or all. Belady's MIN knows the future: no policy\n\
    misses less.")]
pub(crate) struct Arguments {
    /// The trace: a file in any format that `bimetal formats` lists, or - for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Replacement policies, with commas between, or all
    #[arg(long, value_name = "a,b|all", default_value = "lru")]
    policies: String,
    /// Sizes of the cache, with commas between: objects (4897), a share of the distinct objects
    /// (10%), or bytes (64MiB)
    #[arg(long, value_name = "SIZES", default_value = "1%,2%,5%,10%,20%,50%", value_delimiter = ',', value_parser = size)]
    sizes: Vec<CacheSize>,
    /// Unit of the cache; the blocks that requests touch, or whole requests, identified by their
    /// start address
    #[arg(long, value_name = "block|request", default_value = "block")]
    unit: UnitName,
    /// Simulate a sample of this share of the objects, like 0.01
    #[arg(long, value_name = "FRACTION", default_value = "1", value_parser = sample)]
    sample: f64,
    /// Seed of the sample: another seed selects other objects
    #[arg(long, value_name = "N", value_parser = whole_number, allow_hyphen_values = true, default_value = "0")]
    seed: u64,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    block: BlockOption,
    #[command(flatten)]
    config: ConfigOption,
    #[command(flatten)]
    form: TableForm,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnitName {
    Block,
    Request,
}

fn size(text: &str) -> Result<CacheSize, String> {
    text.trim().parse().map_err(|error: CacheSizeError| error.to_string())
}

fn sample(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("expected a fraction above 0 and at most 1, like 0.01".to_owned()),
    }
}

/// Returns the policies in a list of names; `all` means every policy.
fn policies_named(list: &str) -> Result<Vec<&'static str>, Error> {
    if list == "all" {
        return Ok(policies().collect());
    }
    let named =
        |name: &str| policies().find(|&known| known == name).ok_or_else(|| Error::unknown("policy", name, policies()));
    list.split(',').map(str::trim).map(named).collect()
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    trace: Trace<'a>,
    #[serde(flatten)]
    measured: &'a MissRatios,
}

/// Summary of the trace.
#[derive(Serialize)]
struct Trace<'a> {
    name: &'a str,
    format: &'static str,
    skipped_lines: u64,
}

/// Returns the options of the measurement.
fn options(arguments: &Arguments) -> Result<Options, Error> {
    let block = arguments.block.size()?;
    Ok(Options {
        policies: policies_named(&arguments.policies)?,
        sizes: arguments.sizes.clone(),
        unit: match arguments.unit {
            UnitName::Block => Unit::Block(block),
            UnitName::Request => Unit::Request,
        },
        sample: arguments.sample,
        seed: arguments.seed,
    })
}

/// Measures the requests of `trace`, also under policies of another program, and returns the
/// document as `--json` prints it.
///
/// # Errors
/// A policy is unknown, or a request cannot be read.
pub(crate) fn json_of(arguments: &Arguments, trace: &InMemory, outside: &[OutsidePolicies]) -> Result<String, Error> {
    let options = options(arguments)?;
    let mut requests = trace.read()?;
    let measured = measure_with(&options, outside, |batch| requests.read(batch))?;
    json(&trace.name, trace.format.name, trace.skipped_lines, &measured)
}

fn json(name: &str, format: &'static str, skipped_lines: u64, measured: &MissRatios) -> Result<String, Error> {
    let trace = Trace { name, format, skipped_lines };
    json_text("mrc", &Document { bimetal: env!("CARGO_PKG_VERSION"), trace, measured })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let options = options(&arguments)?;
    let mut reader = TraceReader::open(&arguments.trace, &arguments.options)?;
    let measured = measure(&options, |requests| reader.read(requests))?;
    let trace = reader.finish();
    if arguments.form.json {
        return print(&json(trace.name(), trace.format().name, trace.skipped_lines(), &measured)?);
    }
    if let Some(table) = arguments.form.of(|| sheet(&measured)) {
        return print(&table);
    }
    print(&format!("trace        {} ({})\n{}", trace.name(), trace.format(), table(&options, &measured)))
}

/// Returns a row for each policy and size.
fn sheet(measured: &MissRatios) -> Sheet {
    let mut sheet = Sheet::new(["policy", "objects", "miss_ratio", "byte_miss_ratio", "error"]);
    for point in &measured.results {
        let policy = Cell::Text(point.policy.to_string());
        sheet.push([
            policy,
            u64::from(point.size).into(),
            point.miss_ratio.into(),
            point.byte_miss_ratio.into(),
            point.error.into(),
        ]);
    }
    sheet
}

/// Returns the table of miss ratios: a row per size, a column per policy.
fn table(options: &Options, measured: &MissRatios) -> String {
    let MissRatios { requests, unit, objects, accesses, .. } = measured;
    let about = if measured.sample.is_some() { "about " } else { "" };
    let mut text = format!("requests     {requests} reads and writes, {accesses} accesses\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "objects      {about}{objects} (unit {unit})");
    let worst = measured.results.iter().filter_map(|point| point.error).fold(0.0, f64::max);
    if let Some(sample) = measured.sample {
        let _ = writeln!(text, "sample       {sample} of the objects; 95 % of ratios within {worst:.4}");
    }
    let _ = write!(text, "\nmiss ratio\n{:>10} {:>12}", "size", "objects");
    options.policies.iter().for_each(|policy| {
        let _ = write!(text, " {policy:>8}");
    });
    text.push('\n');
    for (row, size) in options.sizes.iter().enumerate() {
        let points = measured.results.iter().skip(row).step_by(options.sizes.len());
        let objects = measured.results.get(row).map_or(0, |point| point.size);
        let _ = write!(text, "{:>10} {objects:>12}", size.to_string());
        points.for_each(|point| {
            let _ = write!(text, " {:>8.4}", point.miss_ratio);
        });
        text.push('\n');
    }
    text
}
