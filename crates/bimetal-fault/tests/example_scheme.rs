//! The example of a new scheme, under faults, power cuts, damage and scrubs.

use bimetal_fault::{Options, Report, run_seed};

#[allow(dead_code)]
#[path = "../../bimetal-core/examples/fifo_cache.rs"]
mod fifo_cache;

#[test]
fn example_scheme_keeps_its_promises_under_faults() {
    let mut total = Report::default();
    for seed in 0..500 {
        match run_seed(&fifo_cache::INFO, seed, Options::default()) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    let exercised = [total.faults, total.cuts, total.evictions, total.checkpoints, total.scrubs];
    assert!(exercised.iter().all(|&count| count > 0), "{total:?}");
}
