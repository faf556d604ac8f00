//! `bimetal fault`: the fault tester.

use std::fmt::Write as _;

use bimetal_core::schemes;
use bimetal_fault::{Options, Report, run_case};
use clap::Args;

use crate::error::Error;
use crate::output::print;
use crate::progress::Progress;
use crate::simulation::schemes_named;

/// Test schemes against drives that answer in any order, fail, rot and vanish
///
/// Each case is one scheme and one seed: random drives, settings, requests and faults, in memory. Every read must return the
/// newest acknowledged write, or an error that a fault explains. The first failure ends the run with the line that
/// replays it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal fault --seeds 1000\n  \
    bimetal fault --scheme griffin,smart-response --seeds 10000\n  \
    bimetal fault --scheme griffin --seed 1234")]
pub(crate) struct Arguments {
    /// The schemes to test: names separated by commas, or all
    #[arg(long, value_name = "a,b|all", default_value = "all")]
    scheme: String,
    /// How many cases of each scheme, from seed 0 on
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "seed")]
    seeds: u64,
    /// Run this case alone
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let chosen = schemes_named(&arguments.scheme)?;
    let seeds = arguments.seed.map_or(0..arguments.seeds, |seed| seed..seed.saturating_add(1));
    let cases = seeds.end - seeds.start;
    let mut progress = Progress::new(Some(cases * chosen.len() as u64), "cases");
    let width = schemes::ALL.iter().map(|scheme| scheme.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut done = 0;
    for scheme in chosen {
        let mut total = Report::default();
        for seed in seeds.clone() {
            total.add(&run_case(scheme, seed, Options::default()).map_err(|failure| Error::new(failure.to_string()))?);
            done += 1;
            progress.set(done);
        }
        let _ = writeln!(text, "{:width$}  {cases} cases passed: {total}", scheme.name);
    }
    drop(progress);
    print(&text)
}
