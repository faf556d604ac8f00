//! Power cuts under every scheme. A failure prints the line that replays it; `BIMETAL_FAULT_SEED=N` (and
//! `BIMETAL_FAULT_SCHEME=NAME`) runs that case alone, `BIMETAL_FAULT_TRACE=1` with all that happens in it.

mod seeds;

use bimetal_core::schemes;
use bimetal_fault::{Options, run_crash_case};
use seeds::GRIFFIN;

/// Cases of all schemes together, at least, in the two tests that run at the same time on two cores.
const CASES: u64 = 20_000;

fn run_all(half: u64) {
    seeds::run_all(half, CASES.div_ceil(2 * schemes::every().count() as u64), run_crash_case, |_, _, _| {});
}

#[test]
fn every_scheme_keeps_its_word_when_the_power_is_cut() {
    run_all(0);
}

/// Other seeds at the same time on the other core.
#[test]
fn every_scheme_keeps_its_word_when_the_power_is_cut_again() {
    run_all(1);
}

/// The parameters that griffin had when these cases failed. Two took their defaults only.
const THEN: &[(&str, bool)] = &[
    ("timeout", true),
    ("read_threshold", true),
    ("read_window", true),
    ("migration_size", true),
    ("log_buffer", true),
    ("overwrite_threshold", false),
    ("log_bypass", false),
    ("migration", true),
    ("move_rate", true),
];

/// The parameters that bcache had, and those of smq.
const BCACHE: &[(&str, bool)] = &[
    ("bucket_size", true),
    ("sequential_cutoff", true),
    ("writeback_percent", true),
    ("writeback_delay", true),
    ("replacement", true),
    ("admission", true),
    ("move_rate", true),
];
const SMQ: &[(&str, bool)] = &[("idle", true), ("admission", true), ("move_rate", true)];

/// What failed once: a block that was written again before a migration reached it, a log that gave back what had been replaced
/// by what was not stable, a superblock that named as lost what had been written again, an index whose ring came round; a write to both
/// drives whose slot failed over an older slot with more; a copy that rotted just after it had been sent home.
#[test]
fn cases_that_failed_once_pass() {
    let griffin = [411, 1810, 4101, 5861, 6037, 22873, 23277, 25076, 27994, 33471, 37833];
    let cases = griffin.map(|seed| ("griffin", THEN, seed));
    for (scheme, drawn, seed) in cases.into_iter().chain([("bcache", BCACHE, 1040), ("smq", SMQ, 1602)]) {
        let scheme = schemes::find(scheme).expect("a scheme that there is");
        if let Err(failure) = run_crash_case(scheme, seed, Options { drawn: Some(drawn), ..Options::default() }) {
            panic!("{failure}");
        }
    }
}

/// A write of which a part went home and a part waited for room in a full log, while the migration that makes room waited for it.
#[test]
fn a_write_that_a_full_log_divides_is_no_deadlock() {
    let griffin = schemes::find("griffin").expect("a scheme that there is");
    for seed in [31, 66] {
        if let Err(failure) = run_crash_case(griffin, seed, Options { drawn: Some(GRIFFIN), ..Options::default() }) {
            panic!("{failure}");
        }
    }
}
