//! `bimetal fault`: the fault tester.

use std::fmt::Write as _;

use bimetal_core::schemes;
use bimetal_fault::{Failure, Options, Report, run_seed};
use clap::Args;
use rayon::prelude::*;

use crate::error::Error;
use crate::output::print;
use crate::progress::Progress;
use crate::simulation::schemes_named;

/// Seeds of each scheme that run between two looks at the progress.
const SEEDS_AT_ONCE: u64 = 128;

/// Test schemes against drives that answer in any order, fail, rot and vanish, and against power cuts
///
/// A seed is three cases of a scheme: random drives, settings and requests, in memory, once with drives that fail, once with
/// power cuts at any operation, during recovery too, and once with a drive that refuses writes from some operation on and
/// still reads. Every read must return the newest acknowledged write, or after a cut one that is no older than the last
/// flush; or an error that a fault explains. The first failure ends the run with the line that replays it. All cores are
/// used; the same seeds give the same cases.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal fault --seeds 1000\n  \
    bimetal fault --scheme griffin,smart-response --seeds 10000\n  \
    bimetal fault --scheme griffin --seed 1234")]
pub(crate) struct Arguments {
    /// The schemes to test: names separated by commas, or all
    #[arg(long, value_name = "a,b|all", default_value = "all")]
    scheme: String,
    /// How many seeds of each scheme, from 0 on
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "seed")]
    seeds: u64,
    /// Run this seed alone
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let chosen = match arguments.scheme.as_str() {
        "all" => schemes::every().collect(),
        list => schemes_named(list)?,
    };
    let seeds = arguments.seed.map_or(0..arguments.seeds, |seed| seed..seed.saturating_add(1));
    let count = seeds.end - seeds.start;
    let mut progress = Progress::new(Some(count.saturating_mul(chosen.len() as u64)), "seeds");
    let mut totals = vec![Report::default(); chosen.len()];
    let mut done = 0;
    let mut next = seeds.start;
    while next < seeds.end {
        let end = seeds.end.min(next.saturating_add(SEEDS_AT_ONCE));
        for (scheme, total) in chosen.iter().copied().zip(&mut totals) {
            let run = |seed| run_seed(scheme, seed, Options::default());
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
    let width = schemes::every().map(|scheme| scheme.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (scheme, total) in chosen.iter().zip(totals) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:width$}  {count} seeds passed: {total}", scheme.name);
    }
    print(&text)
}
