//! Trees of volumes: the usual trees, and random trees around each scheme. A failure prints the
//! variables that replay the failed case. `BIMETAL_FAULT_SEED=N` (and `BIMETAL_FAULT_SCHEME=NAME`)
//! runs that case alone. `BIMETAL_FAULT_FROM=N` runs the cases from that seed on.

use bimetal_core::layout::Role;
use bimetal_core::schemes;
use bimetal_fault::tree::shape::Shape;
use bimetal_fault::tree::{run_shape_case, run_tree_case};
use bimetal_fault::{Failure, Report};

/// Number of cases of each tree.
const SEEDS: u64 = 400;

fn chosen(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run_all(name: &str, seeds: u64, run: impl Fn(u64) -> Result<Report, Box<Failure>>) {
    let seeds = chosen("BIMETAL_FAULT_SEEDS").unwrap_or(seeds);
    let from = chosen("BIMETAL_FAULT_FROM").unwrap_or(0);
    let (from, count) = chosen("BIMETAL_FAULT_SEED").map_or((from, seeds), |seed| (seed, 1));
    let (mut total, mut failures) = (Report::default(), Vec::new());
    for seed in (0..count).map(|index| from.wrapping_add(index)) {
        match run(seed) {
            Ok(report) => total.add(&report),
            Err(failure) => {
                failures.push(format!(
                    "{}\nThe case: {}\nReplay: BIMETAL_FAULT_SEED={seed}",
                    failure.message, failure.case
                ));
            }
        }
    }
    eprintln!("{name}: {} failures of {count} from {from}; {total}", failures.len());
    failures.truncate(8);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(total.cuts > 0 || chosen("BIMETAL_FAULT_SEED").is_some(), "no case had a power cut");
}

fn volume(scheme: &'static str, role: Role, members: Vec<Shape>) -> Shape {
    Shape::Volume(scheme, role, members)
}

fn drives() -> Vec<Shape> {
    vec![Shape::Drive(Role::Ssd), Shape::Drive(Role::Hdd)]
}

#[test]
fn a_mirror_of_griffins_misses_no_drive() {
    let griffin = || volume("griffin", Role::Hdd, drives());
    let tree = volume("raid1", Role::Hdd, vec![griffin(), griffin()]);
    run_all("raid1 of griffin", SEEDS, |seed| run_shape_case(&tree, seed));
}

#[test]
fn stripes_over_caches_keep_their_word() {
    let cache = || volume("smart-response", Role::Hdd, drives());
    let tree = volume("raid0", Role::Hdd, vec![cache(), cache()]);
    run_all("raid0 of smart-response", SEEDS, |seed| run_shape_case(&tree, seed));
}

#[test]
fn a_chain_whose_ssd_is_flash_with_a_log_keeps_its_word() {
    let durable = volume("griffin", Role::Ssd, vec![Shape::Drive(Role::Ssd), Shape::Drive(Role::Log)]);
    let tree = volume("smart-response", Role::Hdd, vec![durable, Shape::Drive(Role::Hdd)]);
    run_all("smart-response over griffin", SEEDS, |seed| run_shape_case(&tree, seed));
}

#[test]
fn one_log_serves_several_ssds() {
    let members = vec![Shape::Drive(Role::Ssd), Shape::Drive(Role::Ssd), Shape::Drive(Role::Hdd)];
    let tree = volume("griffin", Role::Hdd, members);
    run_all("griffin with two SSDs", SEEDS, |seed| run_shape_case(&tree, seed));
}

/// A volume that moves data while its sibling is recovered gets the completions of its drives.
#[test]
fn moving_volume_gets_completions_during_sibling_recovery() {
    let moves = volume("hybrid-disk", Role::Ssd, drives());
    let reads = volume("dataplex", Role::Ssd, vec![Shape::Drive(Role::Hdd), moves]);
    let tree = volume("dataplex", Role::Hdd, vec![volume("os-managed", Role::Hdd, drives()), reads]);
    run_all("dataplex beside os-managed", SEEDS, |seed| run_shape_case(&tree, seed));
}

#[test]
fn trees_of_any_schemes_keep_their_word() {
    let only = std::env::var("BIMETAL_FAULT_SCHEME").ok();
    for scheme in schemes::every().filter(|scheme| only.as_deref().is_none_or(|only| only == scheme.name)) {
        run_all(scheme.name, SEEDS / 20, |seed| run_tree_case(scheme, seed));
    }
}
