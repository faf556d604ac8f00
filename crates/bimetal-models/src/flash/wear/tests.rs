//! Tests of each policy's promises, on one die of which a tenth of the data takes all writes.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::WearLevellingKind;
use crate::flash::ftl::TranslationLayer;
use crate::flash::ftl::page::{Options, PageMapping};
use crate::flash::gc::greedy::Greedy;
use crate::flash::geometry::Geometry;
use crate::flash::operation::Cause;
use crate::flash::precondition::{Layout, Precondition};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 64,
    pages_per_block: 32,
    page_bytes: 4096,
    unit_bytes: 4096,
    logical_units: 1700,
};

const THRESHOLD: u32 = 8;

/// Returns the drive, filled once in order.
fn drive(levelling: WearLevellingKind, cycles: Option<u32>) -> PageMapping {
    let layout = Layout::new(Precondition::Sequential, &GEOMETRY, 0, GEOMETRY.logical_units, 3, 1);
    let victims = Box::new(Greedy::new(&GEOMETRY, &layout));
    let options = Options { levelling, threshold: THRESHOLD, cycles, ..Options::default() };
    PageMapping::new(GEOMETRY, layout, victims, options)
}

/// Writes `count` units, drawn from the first tenth. Returns the number of units that were
/// accepted.
fn write_hot(drive: &mut PageMapping, count: u32, random: &mut Pcg64) -> u32 {
    let mut operations = Vec::new();
    for done in 0..count {
        drive.write(random.next_u32() % (GEOMETRY.logical_units / 10), &mut operations);
        operations.clear();
        if drive.take_refused() > 0 {
            return done;
        }
    }
    count
}

/// Returns the erases of the block erased least and most often, and the pages moved for wear
/// levelling.
fn wear(drive: &PageMapping) -> (u32, u32, u64) {
    drive.check().unwrap();
    let erases = drive.erases_of_blocks();
    let moved = drive.counters().pages_programmed[Cause::WearLevelling as usize];
    (*erases.first_key_value().unwrap().0, *erases.last_key_value().unwrap().0, moved)
}

fn wear_after(levelling: WearLevellingKind, count: u32) -> (u32, u32, u64) {
    let mut drive = drive(levelling, None);
    write_hot(&mut drive, count, &mut Pcg64::seed_from_u64(1));
    wear(&drive)
}

#[test]
fn cold_blocks_are_never_erased_without_static_levelling() {
    for levelling in [WearLevellingKind::None, WearLevellingKind::Dynamic] {
        let (least, most, moved) = wear_after(levelling, 30_000);
        assert!(least == 0 && most > 5 * THRESHOLD && moved == 0, "{levelling:?}: {least} to {most}, {moved} moved");
    }
}

/// Static levelling keeps every block near the threshold below the most worn block, at the cost of
/// moves.
#[test]
fn static_levelling_bounds_the_spread_of_wear_by_moves() {
    let (least, most, moved) = wear_after(WearLevellingKind::Static, 30_000);
    // Moves wait for collections, which are more urgent.
    assert!(most - least <= 2 * THRESHOLD, "{least} to {most}");
    assert!(moved > 0);
    let unlevelled = wear_after(WearLevellingKind::None, 30_000);
    assert!(most < unlevelled.1 / 2, "the most worn block: {most}, without levelling {}", unlevelled.1);
}

/// Dynamic levelling writes the host's data to the block with the fewest erases. The collector gets
/// the most worn block.
#[test]
fn dynamic_levelling_gives_the_host_the_least_worn_block() {
    let mut policy = super::make(WearLevellingKind::Dynamic, &GEOMETRY, &empty_layout(), 0);
    for (block, erases) in [(4, 7), (5, 2), (6, 9), (7, 3)] {
        policy.erased(0, block, erases);
    }
    let mut fresh = 0..0;
    assert_eq!(policy.take(0, &mut fresh, false), Some(5), "the host");
    assert_eq!(policy.take(0, &mut fresh, true), Some(6), "the collector");
    let mut fresh = 20..21;
    assert_eq!(policy.take(0, &mut fresh, true), Some(4), "what was erased before what never was");
    assert_eq!(policy.take(0, &mut fresh, false), Some(20));
    assert_eq!((policy.take(0, &mut fresh, false), policy.take(0, &mut fresh, true)), (Some(7), None));
}

/// Without levelling, fresh blocks come first, then blocks in the order in which they were erased.
#[test]
fn blocks_are_taken_in_order_of_erase_without_levelling() {
    let mut policy = super::make(WearLevellingKind::None, &GEOMETRY, &empty_layout(), 0);
    policy.erased(0, 4, 7);
    policy.erased(0, 5, 2);
    let mut fresh = 20..21;
    let taken: Vec<_> = (0..4).map(|n| policy.take(0, &mut fresh, n % 2 == 0)).collect();
    assert_eq!(taken, [Some(20), Some(4), Some(5), None]);
}

fn empty_layout() -> Layout {
    Layout::new(Precondition::Clean, &GEOMETRY, 0, 0, 3, 1)
}

/// Adaptive levelling moves nothing while the host writes more than planned. Levelling makes up for
/// the delay in later writes.
#[test]
fn adaptive_levelling_waits_for_the_end_of_a_burst() {
    let mut random = Pcg64::seed_from_u64(1);
    let mut adaptive = drive(WearLevellingKind::Adaptive, None);
    adaptive.set_intense(true);
    write_hot(&mut adaptive, 15_000, &mut random);
    let (least, most, moved) = wear(&adaptive);
    assert!(least == 0 && moved == 0, "{least} to {most}, {moved} moved");
    let static_erases: u64 = {
        let mut drive = drive(WearLevellingKind::Static, None);
        write_hot(&mut drive, 15_000, &mut Pcg64::seed_from_u64(1));
        drive.counters().blocks_erased.iter().sum()
    };
    let erases: u64 = adaptive.counters().blocks_erased.iter().sum();
    assert!(erases < static_erases, "erases during the burst: {erases}, static {static_erases}");
    adaptive.set_intense(false);
    write_hot(&mut adaptive, 60_000, &mut random);
    let (least, most, moved) = wear(&adaptive);
    assert!(most - least <= THRESHOLD + 3 && moved > 0, "{least} to {most}, {moved} moved");
}

/// MixedStore, section 5.5: a drive with hot and cold regions, whose host writes in unexpected
/// bursts, has a lifetime about 33 % longer with adaptive wear levelling. Between the bursts
/// levelling catches up, so the wear is as even in the end.
#[test]
fn adaptive_levelling_lengthens_lifetime_under_bursts() {
    let wear_of = |levelling, threshold| {
        let layout = Layout::new(Precondition::Sequential, &GEOMETRY, 0, GEOMETRY.logical_units, 3, 1);
        let victims = Box::new(Greedy::new(&GEOMETRY, &layout));
        let options = Options { levelling, threshold, ..Options::default() };
        let mut drive = PageMapping::new(GEOMETRY, layout, victims, options);
        let mut random = Pcg64::seed_from_u64(1);
        for _ in 0..20 {
            drive.set_intense(true);
            write_hot(&mut drive, 2000, &mut random);
            drive.set_intense(false);
            write_hot(&mut drive, 200, &mut random);
        }
        let (_, most, _) = wear(&drive);
        (drive.counters().blocks_erased.iter().sum::<u64>() as f64, f64::from(most))
    };
    for threshold in [1, 2, 4, 8] {
        let (levelled, most_levelled) = wear_of(WearLevellingKind::Static, threshold);
        let (adaptive, most_adaptive) = wear_of(WearLevellingKind::Adaptive, threshold);
        let (mean, worst) = (levelled / adaptive - 1.0, most_levelled / most_adaptive - 1.0);
        eprintln!(
            "threshold {threshold}: life by all blocks {:+.1} %, by the worst {:+.1} %",
            mean * 100.0,
            worst * 100.0
        );
        assert!(mean > 0.0, "threshold {threshold}: {levelled} erases, adaptive {adaptive}");
    }
}

/// A drive whose blocks wear out takes more writes if its wear is levelled. A worn-out drive
/// refuses writes for good.
#[test]
fn levelled_drive_takes_more_writes_before_it_wears_out() {
    let mut random = Pcg64::seed_from_u64(1);
    let mut life = |levelling| {
        let mut drive = drive(levelling, Some(60));
        let taken = write_hot(&mut drive, u32::MAX, &mut random);
        drive.check().unwrap();
        let mut operations = Vec::new();
        drive.write(0, &mut operations);
        assert!(operations.is_empty() && drive.take_refused() == 1, "it is worn out for good");
        taken
    };
    let (unlevelled, levelled) = (life(WearLevellingKind::None), life(WearLevellingKind::Static));
    assert!(f64::from(levelled) > 1.5 * f64::from(unlevelled), "{levelled} {unlevelled}");
}
