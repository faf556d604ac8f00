//! Power cuts under every scheme. A failure prints the line that replays the failed case.
//! `BIMETAL_FAULT_SEED=N` (and `BIMETAL_FAULT_SCHEME=NAME`) runs that case alone.
//! `BIMETAL_FAULT_TRACE=1` prints all its requests and operations.

mod seeds;

use bimetal_core::schemes;
use bimetal_fault::{Options, run_crash_case};
use seeds::GRIFFIN;

/// Smallest number of cases of all schemes together, in the two tests that run at the same time on
/// two cores.
const CASES: u64 = 10_000;

fn run_all(half: u64) {
    seeds::run_all(half, CASES.div_ceil(2 * schemes::every().count() as u64), run_crash_case, |_, _, _| {});
}

#[test]
fn every_scheme_keeps_its_word_when_the_power_is_cut() {
    run_all(0);
}

/// Runs other seeds at the same time on the other core.
#[test]
fn every_scheme_keeps_its_word_when_the_power_is_cut_again() {
    run_all(1);
}

/// Parameters that griffin had when the listed cases failed. Two of these parameters took only
/// their defaults.
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

/// Parameters that bcache had when its cases failed. `SMQ` has the parameters that smq had.
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

/// Cases that failed once:
/// - A block was written again before a migration reached it.
/// - A log freed slots whose content only unstable content had replaced.
/// - A superblock listed a block as lost that had been written again.
/// - The ring of a log's index began again at its first page.
/// - A write to both drives failed in its slot, over an older slot with more content.
/// - A copy rotted just after it had been written home.
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

/// A part of a write went home and a part waited for room in a full log. The migration that makes
/// room waited for the write.
#[test]
fn a_write_that_a_full_log_divides_is_no_deadlock() {
    let griffin = schemes::find("griffin").expect("a scheme that there is");
    for seed in [31, 66] {
        if let Err(failure) = run_crash_case(griffin, seed, Options { drawn: Some(GRIFFIN), ..Options::default() }) {
            panic!("{failure}");
        }
    }
}

/// A home forgot a promised sector in a flush that failed, and a flush of the volume reported the
/// failure. A later write of a neighbour brought the sector into a new slot, which no flush had
/// promised when the power was cut. The tester expected the sector in that slot.
#[test]
fn slot_without_a_flush_promises_nothing_of_a_forgetful_home() {
    let (bcache, seed) = (schemes::find("bcache").expect("a scheme that there is"), 14662115510718290036);
    if let Err(failure) = run_crash_case(bcache, seed, Options { drawn: Some(BCACHE), ..Options::default() }) {
        panic!("{failure}");
    }
}
