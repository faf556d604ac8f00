//! Pages of metadata and of slots damaged while the power is off, under every scheme. A failure
//! prints the line that replays the failed case. `BIMETAL_FAULT_SEED=N` (and
//! `BIMETAL_FAULT_SCHEME=NAME`) runs that case alone. `BIMETAL_FAULT_TRACE=1` prints all its
//! requests and operations.

mod seeds;

use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_fault::damage::{KINDS, STRUCTURES, Structure};
use bimetal_fault::{Options, Report, run_damage_case};
use seeds::WRITEBOOST;

fn holds(scheme: &SchemeInfo, wanted: Holds) -> bool {
    scheme.members.iter().any(|(_, holds)| *holds == wanted)
}

/// Every kind of damage happens, to every structure of the scheme, and all three outcomes are seen.
#[test]
fn damage_cases_cover_every_structure_and_kind() {
    let mut all = Report::default();
    for scheme in schemes::every() {
        let mut total = Report::default();
        let reports = (0..200).filter_map(|seed| run_damage_case(scheme, seed, Options::default()).ok());
        reports.for_each(|report| total.add(&report));
        for structure in STRUCTURES {
            let expected = match structure {
                Structure::State => true,
                Structure::Superblock | Structure::Slot => holds(scheme, Holds::Cache) || holds(scheme, Holds::Log),
                Structure::Ring | Structure::Table => holds(scheme, Holds::Cache),
                Structure::Index | Structure::Segment => holds(scheme, Holds::Log),
                Structure::Places | Structure::Blank => false,
            };
            let count = total.damage.of_structure(structure);
            assert!(count > 0 || !expected, "{}: no {} page is damaged: {total}", scheme.name, structure.name());
        }
        all.add(&total);
    }
    KINDS.into_iter().for_each(|kind| assert!(all.damage.of_kind(kind) > 20, "{}", kind.name()));
    assert!(all.damage.of_structure(Structure::Places) > 0 && all.damage.of_structure(Structure::Blank) > 0);
    let damage = all.damage;
    assert!(damage.right > 100 && damage.errors > 50 && damage.refusals > 10 && damage.accepted > 0, "{all}");
    assert!(damage.single < damage.cases(), "{all}");
}

#[test]
fn same_seed_gives_the_same_damage_case() {
    for scheme in schemes::every() {
        for seed in 0..10 {
            let run = || run_damage_case(scheme, seed, Options::default()).map_err(|failure| failure.to_string());
            assert_eq!(run(), run(), "{} {seed}", scheme.name);
        }
    }
}

/// A slot that nothing records as stable stays in doubt while recoveries are cut, however long they
/// take. In this case the power was cut while a move wrote the block home, a drive was stuck for
/// two hours during the next recovery, and the slot was damaged. The move had left a torn block.
#[test]
fn long_recovery_that_is_cut_ends_no_doubt() {
    let writeboost = schemes::find("writeboost").unwrap();
    let report = run_damage_case(
        writeboost,
        13_126_949_764_956_254_269,
        Options { drawn: Some(WRITEBOOST), ..Options::default() },
    );
    report.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A slot that nothing records as stable stays in doubt while the note of the flush is not due or
/// is late. In this case a drive was stuck for five seconds while a move wrote home. The tester
/// called the volume only then, so the note began at the moment of the power cut. The slot was
/// damaged, and its write counted as never written.
#[test]
fn note_that_begins_late_leaves_the_last_flush_in_doubt() {
    let writeboost = schemes::find("writeboost").unwrap();
    let report = run_damage_case(
        writeboost,
        16_137_077_437_423_205_039,
        Options { drawn: Some(WRITEBOOST), ..Options::default() },
    );
    report.unwrap_or_else(|failure| panic!("{failure}"));
}
