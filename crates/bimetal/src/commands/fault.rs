//! `bimetal fault`: runs the fault tester.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};

use bimetal_core::schemes;
use bimetal_fault::{CaseKind, Failure, Options, Report, run_seed};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde::Serialize;

use crate::error::Error;
use crate::names::schemes_named;
use crate::options::JsonOption;
use crate::options::parse::at_least_one;
use crate::output::{print, print_json};
use crate::progress::Progress;

/// Number of seeds of each scheme that run between two updates of the progress bar.
const SEEDS_AT_ONCE: u64 = 128;

/// Test schemes with drives that reorder, fail, rot and vanish, and with power cuts
///
/// A seed stands for five cases of a scheme, each with random drives, settings and requests in
/// memory. `faults`: drives fail. `cuts`: the power is cut at any operation, also during recovery.
/// `refusals`: a drive becomes read-only at some operation. `damage`: pages of metadata and of
/// slots change at rest while the power is off. `scrubs`: scrubs run again and again, with faults
/// and cuts. A read must return the newest acknowledged write, or an error that a fault explains.
/// After a cut a read may return any content that is no older than the last flush. One damaged page
/// of metadata must cost nothing. The first failure ends the run with the command that replays it.
/// All cores are used; equal seeds give equal cases. After the greatest number, seeds continue from
/// 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal fault --seeds 1000\n  \
    bimetal fault --scheme griffin,smart-response --seeds 10000\n  \
    bimetal fault --from random --seeds 10000\n  \
    bimetal fault --only damage --seeds 60000\n  \
    bimetal fault --scheme griffin --seed 1234")]
pub(crate) struct Arguments {
    /// The schemes to test: names with commas between, or all
    #[arg(long, value_name = "a,b|all", default_value = "all")]
    scheme: String,
    /// Number of seeds for each scheme
    #[arg(long, value_name = "N", default_value = "200", conflicts_with = "seed", value_parser = at_least_one, allow_hyphen_values = true)]
    seeds: u64,
    /// The first seed; random: a number from the system's random source, which is printed first
    #[arg(long, value_name = "N|random", value_parser = start, default_value = "0", conflicts_with = "seed")]
    from: Start,
    /// Run this seed only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run cases of this kind only
    #[arg(long, value_name = "KIND", value_enum)]
    only: Option<Only>,
    #[command(flatten)]
    json: JsonOption,
}

/// A kind of case, by its name on the command line.
#[derive(Debug, Clone, Copy)]
struct Only(CaseKind);

impl ValueEnum for Only {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Only; CaseKind::ALL.len()] = {
            let [faults, cuts, refusals, damage, scrubs, holds, returns] = CaseKind::ALL;
            [Only(faults), Only(cuts), Only(refusals), Only(damage), Only(scrubs), Only(holds), Only(returns)]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// The first seed.
#[derive(Clone, Copy, Debug)]
enum Start {
    Seed(u64),
    Random,
}

fn start(text: &str) -> Result<Start, String> {
    match text {
        "random" => Ok(Start::Random),
        number => number.parse().map(Start::Seed).map_err(|_| "expected a whole number, like 100000, or random".into()),
    }
}

impl Start {
    fn seed(self) -> Result<u64, Error> {
        match self {
            Self::Seed(seed) => Ok(seed),
            Self::Random => random_seed().map_err(|error| {
                Error::new(format!("/dev/urandom: {error}; `bimetal fault --from N` starts at a seed of your choice"))
            }),
        }
    }
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Cases that passed, for programs. A failure is a message and status 1, as without JSON.
#[derive(Serialize)]
struct Document<'a> {
    /// First seed.
    from: u64,
    /// Number of seeds of each scheme.
    seeds: u64,
    schemes: Vec<SchemeDocument<'a>>,
}

/// Totals of a scheme's cases.
#[derive(Serialize)]
struct SchemeDocument<'a> {
    scheme: &'a str,
    requests: u64,
    failed_requests: u64,
    operations: u64,
    failed_operations: u64,
    power_cuts: u64,
    /// Power cuts during a recovery.
    cut_recoveries: u64,
    scrubs: u64,
    /// Volumes with damaged pages, and the outcomes of their recoveries.
    damaged: u64,
    damaged_right: u64,
    damaged_with_errors: u64,
    damaged_refused: u64,
}

impl<'a> Document<'a> {
    fn new(from: u64, seeds: u64, passed: &[(&'a str, &Report)]) -> Self {
        let scheme = |&(scheme, total): &(&'a str, &Report)| SchemeDocument {
            scheme,
            requests: total.requests,
            failed_requests: total.failed,
            operations: total.operations,
            failed_operations: total.faults,
            power_cuts: total.cuts,
            cut_recoveries: total.cut_recoveries,
            scrubs: total.scrubs,
            damaged: total.damage.cases(),
            damaged_right: total.damage.right,
            damaged_with_errors: total.damage.errors,
            damaged_refused: total.damage.refusals,
        };
        Self { from, seeds, schemes: passed.iter().map(scheme).collect() }
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let chosen = match arguments.scheme.as_str() {
        "all" => schemes::every().collect(),
        list => schemes_named(list)?,
    };
    let (start, count) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => {
            let start = arguments.from.seed()?;
            if !arguments.json.json {
                print(&format!("seeds from {start}\n"))?;
            }
            (start, arguments.seeds)
        }
    };
    let options = Options { only: arguments.only.map(|Only(kind)| kind), ..Options::default() };
    let mut progress = Progress::new(Some(count.saturating_mul(chosen.len() as u64)), "seeds");
    let mut totals = vec![Report::default(); chosen.len()];
    let mut done = 0;
    let mut next = 0;
    while next < count {
        let end = count.min(next.saturating_add(SEEDS_AT_ONCE));
        for (scheme, total) in chosen.iter().copied().zip(&mut totals) {
            let run = |index| run_seed(scheme, start.wrapping_add(index), options);
            let reports: Vec<Result<Report, Box<Failure>>> = (next..end).into_par_iter().map(run).collect();
            for report in reports {
                total.add(&report.map_err(|failure| Error::new(failure.to_string()))?);
            }
            done += end - next;
            progress.set(done);
        }
        next = end;
    }
    drop(progress);
    let passed: Vec<(&str, &Report)> = chosen.iter().map(|scheme| scheme.name).zip(&totals).collect();
    if arguments.json.json {
        print_json("fault", &Document::new(start, count, &passed))
    } else {
        print(&table(count, &passed))
    }
}

/// Returns a line for each scheme; all seeds of these schemes passed.
fn table(count: u64, passed: &[(&str, &Report)]) -> String {
    let width = schemes::every().map(|scheme| scheme.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut all = Report::default();
    for (scheme, total) in passed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{scheme:width$}  {count} seeds passed: {total}");
        all.add(total);
    }
    if all.damage.cases() > 0 {
        let _ = writeln!(text, "{}", all.damage.details());
    }
    text
}
