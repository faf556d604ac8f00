//! Runs of many seeds under every scheme, chosen by `BIMETAL_FAULT_SCHEME`, `_SEEDS`, `_SEED` and
//! `_TRACE`, and the earlier parameters of schemes.

#![allow(dead_code, reason = "each test uses its part of it")]

use std::time::Instant;

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_fault::{Failure, Options, Report};

/// Number of failures of one scheme that are printed in full.
const TOLD_MAX: u64 = 8;

fn chosen(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the first or the second `half` of twice `seeds` seeds of each scheme. Calls `note` with the
/// report of a scheme and its number of seeds.
pub(crate) fn run_all(
    half: u64,
    seeds: u64,
    run: impl Fn(&'static SchemeInfo, u64, Options) -> Result<Report, Box<Failure>>,
    note: impl Fn(&SchemeInfo, &Report, u64),
) {
    let only = std::env::var("BIMETAL_FAULT_SCHEME").ok();
    let seeds = chosen("BIMETAL_FAULT_SEEDS").unwrap_or(seeds);
    let seeds = chosen("BIMETAL_FAULT_SEED").map_or(half * seeds..(half + 1) * seeds, |seed| seed..seed + 1);
    let trace = chosen("BIMETAL_FAULT_TRACE").is_some();
    let count = seeds.end - seeds.start;
    let mut failures = Vec::new();
    for scheme in schemes::every().filter(|scheme| only.as_deref().is_none_or(|only| only == scheme.name)) {
        let (mut total, mut failed) = (Report::default(), 0);
        let begun = Instant::now();
        for seed in seeds.clone() {
            match run(scheme, seed, Options { trace, ..Options::default() }) {
                Ok(report) => total.add(&report),
                Err(failure) => {
                    failed += 1;
                    if failed <= TOLD_MAX {
                        failures.push(format!("{}: {failure}", scheme.name));
                    }
                }
            }
        }
        let per_second = count as f64 / begun.elapsed().as_secs_f64();
        eprintln!("{}: {failed} failures, {per_second:.0} cases a second; {total}", scheme.name);
        note(scheme, &total, count);
    }
    assert!(failures.is_empty(), "{}\n\n{} failures", failures.join("\n\n"), failures.len());
}

/// Parameters that griffin has had since `move_memory` came. The flag is true if the parameter
/// takes its drawn value.
const WITH_MOVE_MEMORY: [(&str, bool); 13] = [
    ("timeout", true),
    ("read_threshold", true),
    ("read_window", true),
    ("migration_size", true),
    ("log_buffer", true),
    ("overwrite_threshold", true),
    ("log_bypass", true),
    ("log_rate", true),
    ("oracle", true),
    ("eviction_hint", true),
    ("migration", true),
    ("move_rate", true),
    ("move_memory", true),
];

/// Parameters that writeboost had when its cases failed.
pub(crate) const WRITEBOOST: &[(&str, bool)] =
    &[("log_buffer", true), ("idle", true), ("writeback_threshold", true), ("move_rate", true)];

/// Parameters that griffin had when its later cases failed.
pub(crate) const GRIFFIN: &[(&str, bool)] = WITH_MOVE_MEMORY.split_at(12).0;

/// Parameters that griffin had when its latest cases failed: those of [`GRIFFIN`], and
/// `move_memory`.
pub(crate) const GRIFFIN_WITH_MOVE_MEMORY: &[(&str, bool)] = &WITH_MOVE_MEMORY;
