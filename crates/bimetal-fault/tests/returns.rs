//! Members that vanish and come back, under every scheme, in several lives of a volume. A failure
//! prints the line that replays the failed case.

mod seeds;

use bimetal_core::schemes;
use bimetal_fault::{Options, Report, run_return_case};

/// Number of cases of each scheme.
const SEEDS: u64 = 60;

#[test]
fn drives_that_come_back_bring_no_old_content() {
    seeds::run_all(0, SEEDS, run_return_case, |scheme, total, cases| {
        assert!(cases < SEEDS || total.returns > cases / 2, "{}: few drives came back: {total:?}", scheme.name);
    });
}

#[test]
fn same_seed_brings_the_same_drives_back() {
    let scheme = schemes::find("hybrid-disk").expect("a scheme of the list");
    let run = || {
        let mut total = Report::default();
        (0..30).for_each(|seed| total.add(&run_return_case(scheme, seed, Options::default()).expect("no failure")));
        total
    };
    let first = run();
    assert_eq!(run(), first);
    assert!(first.returns > 15 && first.cuts > 30 && first.migrations > 0, "{first}");
}
