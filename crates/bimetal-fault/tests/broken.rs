//! The tester notices a broken engine: a flush that never reaches its drive, a checksum that is not
//! checked, two writes in the wrong order. Each defect is caught under every scheme that it can
//! hurt, within a stated number of seeds. Only the values of reads catch this defect: in this test
//! the tester ignores the content of the drives.

use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_fault::{Options, Sabotage, run_crash_case, run_damage_case};

fn has_slots(scheme: &SchemeInfo) -> bool {
    scheme.members.iter().any(|(_, holds)| matches!(holds, Holds::Cache | Holds::Log))
}

/// Runs at most `seeds` crash cases without drive faults, until one fails.
fn caught_within(seeds: u64, sabotage: Sabotage, can_hurt: impl Fn(&SchemeInfo) -> bool) {
    for scheme in schemes::every().filter(|scheme| can_hurt(scheme)) {
        let options = Options { faults: false, sabotage: Some(sabotage), ..Options::default() };
        let caught = (0..seeds).find_map(|seed| run_crash_case(scheme, seed, options).err());
        let failure = caught.unwrap_or_else(|| panic!("{}: nobody notices {sabotage:?}", scheme.name));
        let message = failure.message.lines().next().unwrap_or_default();
        eprintln!("{}: {sabotage:?} is caught by seed {}: {message}", scheme.name, failure.seed);
    }
}

#[test]
fn a_flush_that_is_skipped_is_caught() {
    caught_within(100, Sabotage::SkipsFlushes(3), |_| true);
}

#[test]
fn a_checksum_that_is_not_checked_is_caught() {
    caught_within(4000, Sabotage::ChecksumsPass, has_slots);
}

#[test]
fn two_writes_that_change_places_are_caught() {
    caught_within(20, Sabotage::SwapsWrites(8), |_| true);
}

/// Runs at most `seeds` damage cases, each with a sound and then a broken engine, until the
/// sabotage makes one fail.
fn damage_case_notices(seeds: u64, sabotage: Sabotage, can_hurt: impl Fn(&SchemeInfo) -> bool) {
    for scheme in schemes::every().filter(|scheme| can_hurt(scheme)) {
        let run = |seed, sabotage| run_damage_case(scheme, seed, Options { sabotage, ..Options::default() });
        let caught = (0..seeds).filter(|&seed| run(seed, None).is_ok());
        let failure = caught.into_iter().find_map(|seed| run(seed, Some(sabotage)).err());
        let failure = failure.unwrap_or_else(|| panic!("{}: nobody notices {sabotage:?}", scheme.name));
        let message = failure.message.lines().next().unwrap_or_default();
        eprintln!("{}: {sabotage:?} is caught by seed {}: {message}", scheme.name, failure.seed);
    }
}

/// Content of a rotten slot passes for the written content.
#[test]
fn unchecked_rot_in_a_slot_is_caught() {
    damage_case_notices(400, Sabotage::ChecksumsPass, has_slots);
}

#[test]
fn older_metadata_served_to_a_recovery_is_caught() {
    damage_case_notices(400, Sabotage::ServesOlderPages(2), has_slots);
}

/// The tester counts one damaged page, but the recovery finds its copies damaged as well.
#[test]
fn copies_lost_beside_a_damaged_page_are_caught() {
    damage_case_notices(2000, Sabotage::LosesCopies, |scheme| scheme.name == "combo");
}
