//! Operations that drives hold back under every scheme, while requests arrive for their blocks, and
//! while moves, scrubs and drains begin and end. A failure prints the line that replays the failed
//! case.

mod seeds;

use std::cell::Cell;

use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_fault::{Options, Report, run_hold_case};

/// Number of cases of each scheme.
const SEEDS: u64 = 60;

#[test]
fn held_operations_harm_no_content_under_any_scheme() {
    let (ran, lost) = (Cell::new(0), Cell::new(0));
    seeds::run_all(0, SEEDS, run_hold_case, |scheme, total, cases| {
        assert!(cases < SEEDS || total.held > cases, "{}: few held operations: {total:?}", scheme.name);
        ran.set(ran.get() + cases);
        lost.set(lost.get() + total.failed);
    });
    assert!(ran.get() < 800 || lost.get() > 500, "{} cases: {} requests failed", ran.get(), lost.get());
}

/// Sums the reports of some cases of a cache.
fn some_cases(options: Options) -> Report {
    let cache = schemes::every().find(|scheme| scheme.members.iter().any(|&(_, holds)| holds == Holds::Cache));
    let mut total = Report::default();
    for seed in 0..40 {
        total.add(&run_hold_case(cache.expect("a cache"), seed, options).unwrap_or_else(|failure| panic!("{failure}")));
    }
    total
}

#[test]
fn same_seed_holds_the_same_operations() {
    let first = some_cases(Options::default());
    assert_eq!(some_cases(Options::default()), first);
    assert!(first.held > 40 && first.cuts > 0 && first.scrubs > 0 && first.migrations > 0, "{first}");
}

#[test]
fn requests_beside_held_operations_fail_on_failing_drives_only() {
    let total = some_cases(Options { faults: false, ..Options::default() });
    assert!(total.held > 40, "{total}");
}
