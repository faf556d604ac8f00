//! A member that refuses writes from some operation on and still reads, under every scheme, with
//! power cuts. No flushed data become unreadable, and service continues. A failure prints the line
//! that replays the failed case. `BIMETAL_FAULT_SEED=N` (and `BIMETAL_FAULT_SCHEME=NAME`) runs that
//! case alone. `BIMETAL_FAULT_TRACE=1` prints all its requests and operations.

mod seeds;
mod story;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::scheme::{Holds, MemberState, Reason};
use bimetal_core::schemes;
use bimetal_core::units::Nanoseconds;
use bimetal_fault::drive::Plan;
use bimetal_fault::{Options, run_refusal_case};
use seeds::{GRIFFIN, GRIFFIN_WITH_MOVE_MEMORY};
use story::{ALL, HDD, SSD, Story};

/// Number of cases of each scheme, in each of two tests that run at the same time on two cores.
const SEEDS: u64 = 150;

fn run_all(half: u64) {
    seeds::run_all(half, SEEDS, run_refusal_case, |scheme, total, cases| {
        let off_home = scheme.members.iter().any(|(_, holds)| matches!(holds, Holds::Cache | Holds::Log));
        let enough = cases < 100 || total.read_only > cases / 10;
        assert!(!off_home || enough, "{}: the cases do not come to what they are about: {total:?}", scheme.name);
    });
}

#[test]
fn every_scheme_keeps_its_word_when_a_member_refuses_writes() {
    run_all(0);
}

/// Runs other seeds at the same time on the other core.
#[test]
fn every_scheme_survives_members_that_refuse_writes_again() {
    run_all(1);
}

/// Parameters that hybrid-disk had when its case failed.
const HYBRID_DISK: &[(&str, bool)] = &[
    ("admission", true),
    ("flush", true),
    ("hold_share", true),
    ("hold_time", true),
    ("idle", true),
    ("low_watermark", true),
    ("move_rate", true),
    ("period", true),
    ("pin", true),
    ("replacement", true),
    ("victim", true),
    ("write_threshold", true),
];

const SMQ: &[(&str, bool)] = &[("admission", true), ("idle", true), ("move_rate", true)];

/// Cases that failed once:
/// - Regression: a move's commit, or its log, could not be flushed. Requests that waited for the
///   room that the move was to make failed.
/// - Regression: a segment with a forced write failed for the last time after all of its content
///   was at home.
/// - Regression: a copy was marked failed as if the other copy was present, although the other copy
///   was gone.
/// - Regression: a part of a write lay in a slot when the drive was marked failed, before the other
///   part was at home. The write was acknowledged, and was on no drive.
/// - Regression: in raid1, a discard that touched no drive counted as a change that a flush had to
///   report.
#[test]
fn what_failed_once_when_a_member_refused_passes() {
    let griffin = [8, 35, 232].map(|seed| ("griffin", GRIFFIN, seed));
    let raid1 = [71, 1047].map(|seed| ("raid1", &[] as &[_], seed));
    let others = [("hybrid-disk", HYBRID_DISK, 222), ("smq", SMQ, 392)];
    for (scheme, drawn, seed) in griffin.into_iter().chain(raid1).chain(others) {
        let scheme = schemes::find(scheme).expect("a scheme that there is");
        if let Err(failure) = run_refusal_case(scheme, seed, Options { drawn: Some(drawn), ..Options::default() }) {
            panic!("{failure}");
        }
    }
}

/// Every bucket has dirty blocks, and home refuses to take them, so no bucket can be evicted.
/// Regression: one clean block counted as room to come after each failed move, and a write that
/// needed a slot never ended.
#[test]
fn write_that_waits_for_a_slot_ends_if_home_refuses() {
    let settings = &[("sequential_cutoff", "off"), ("writeback_percent", "off")];
    let mut story = Story::new(1, "bcache", settings, 895);
    story.write(0, 8);
    story.read(800, 8);
    story.drives[usize::from(HDD)].replace_plan(Plan { refuses_from: Some(0), ..Plan::default() });
    // All of these writes arrive before any block of theirs is dirty.
    let free = story.volume().view().free_slots;
    let writes: Vec<u64> = (1..=free).map(|block| story.send(OpKind::Write, block * 8, 8, false)).collect();
    story.answer(ALL);
    assert!(writes.iter().all(|number| story.finished[number].status == Status::Done));
    let map = &story.volume().view().map;
    assert_eq!((map.len(), u64::from(map.dirty_blocks())), (free + 2, free + 1), "one block is clean");
    // A write of a part of a dirty block needs another slot.
    let part = story.send(OpKind::Write, 0, 3, false);
    story.answer(ALL);
    story.pass(Nanoseconds::from_seconds(300), ALL);
    assert_eq!(story.finished.get(&part).map(|finished| finished.status), Some(Status::MediaError));
}

/// A rate of moves of 64 KiB a second and batches of one block let an evacuation take longer than
/// the tester waited. The tester called the drive kept, although blocks were still written back.
#[test]
fn slow_evacuation_detaches_its_member_in_the_end() {
    let griffin = schemes::find("griffin").expect("a scheme that there is");
    for seed in [5_191_633_287_238_365_649, 17_157_110_204_708_681_119] {
        let report =
            run_refusal_case(griffin, seed, Options { drawn: Some(GRIFFIN_WITH_MOVE_MEMORY), ..Options::default() });
        report.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Tells a story: content is flushed, the drive off home refuses writes, a block is written again,
/// and the power is cut after `count` operations.
fn cut_while_it_leaves(scheme: &'static str, settings: &[(&str, &str)], refusing: u16, count: u64) {
    let mut story = Story::new(count, scheme, settings, 8000);
    let (kept, old) = (story.write(0, 8), story.write(1600, 8));
    story.flush();
    let unflushed = story.write(3200, 8);
    story.drives[usize::from(refusing)].replace_plan(Plan { refuses_from: Some(0), ..Plan::default() });
    let new = story.send(OpKind::Write, 1600, 8, false);
    let flush = story.send(OpKind::Flush, 0, 0, false);
    let over = story.answer_some(ALL, count);
    let flushed = story.finished.get(&flush).map(|finished| finished.status);
    if over {
        assert_eq!(flushed, Some(Status::Done), "{scheme}: a refusal stops nothing");
        let view = story.volume().view();
        assert_eq!(view.member(MemberId(refusing)).state, MemberState::Failed, "{scheme}: it is needed no more");
        let passed_by = story.volume().statistics().bypassed_blocks.get(&Reason::MEMBER_READ_ONLY);
        // A log stored the write in its buffer before it knew of the refusal.
        assert_eq!(passed_by, (scheme == "smart-response").then_some(&1), "{scheme}");
    }
    story.cut();
    assert_eq!(story.read(0, 8), [kept; 8], "{scheme} {count}: flushed data stays readable");
    let read = story.read(1600, 8);
    // Home may have the write in place.
    let possible = |number: &u64| *number == new || (flushed.is_none() && *number == old);
    assert!(read.iter().all(possible), "{scheme} {count}: {read:?}, neither {old} nor {new}, flushed: {flushed:?}");
    assert!(flushed.is_none() || story.read(3200, 8) == [unflushed; 8], "{scheme} {count}");
    let newest = story.write(0, 8);
    story.flush();
    story.cut();
    assert_eq!(story.read(0, 8), [newest; 8], "{scheme} {count}: what the old map has does not come back");
    assert_eq!(story.read(1600, 8), read, "{scheme} {count}");
}

/// A read-only member is evacuated, at whichever operation of the evacuation the power is cut.
#[test]
fn read_only_member_is_evacuated_across_power_cuts() {
    for count in 0..80 {
        cut_while_it_leaves("griffin", &[("timeout", "off")], HDD, count);
        cut_while_it_leaves("smart-response", &[("mode", "maximized"), ("idle", "1h")], SSD, count);
        cut_while_it_leaves("writeboost", &[], SSD, count);
    }
}

/// Recovery checks the last flush of a log. A superblock of the next epoch then ends the doubt. If
/// the log drive refuses the superblock, the next recovery checks the flush again, and content that
/// rotted in between looks as if it was never written. Regression: the volume claimed that this
/// content was trusted.
#[test]
fn recovered_log_stays_in_doubt_on_a_refusing_drive() {
    for refuses in [false, true] {
        let mut story = Story::new(1, "griffin", &[("timeout", "off")], 8000);
        let written = story.write(0, 8);
        story.flush();
        if refuses {
            story.drives[usize::from(HDD)].replace_plan(Plan { refuses_from: Some(0), ..Plan::default() });
        }
        story.cut();
        let volume = story.volume();
        let (slot, _) = volume.view().map.occupied().next().expect("the block is in the log");
        assert_eq!(volume.is_trusted(slot), !refuses);
        assert_eq!(story.read(0, 8), [written; 8]);
    }
}

/// Regression: a flush never ended. A block of a region was lost, and zeroes were on their way to
/// home in this region. Then the SSD refused writes, and the flush waited for the evacuation of
/// another region. The zeroes ended, so the flush had to wait for the region with the lost block
/// too. A region with a lost block is never evacuated, so the flush must be an error.
#[test]
fn flush_fails_if_a_region_with_a_lost_block_becomes_owed() {
    let mut story = Story::new(1, "smart-response", &[("mode", "maximized"), ("idle", "1ms")], 8000);
    story.write(24, 8);
    story.flush();
    let view = story.volume().view();
    let (slot, _) = view.map.get(Block(3)).expect("the block is in a slot");
    let sector = view.layout.slots.expect("a cache has slots").first_sector + u64::from(slot.0) * 8;
    story.drives[usize::from(SSD)].rot(sector);
    story.pass(Nanoseconds::from_seconds(100), ALL);
    assert_eq!((story.volume().view().map.dirty_blocks(), story.volume().lost_blocks()), (0, 1));
    story.flush();
    let dirty = story.write(1600, 8);
    let zeroes = story.send(OpKind::WriteZeroes, 32, 8, false);
    story.drives[usize::from(SSD)].replace_plan(Plan { refuses_from: Some(0), ..Plan::default() });
    let flush = story.send(OpKind::Flush, 0, 0, false);
    story.answer(|operation| operation.target == SSD);
    assert_eq!(story.volume().view().member(MemberId(SSD)).state, MemberState::ReadOnly);
    story.answer(|operation| operation.command.kind == OpKind::WriteZeroes);
    assert!(story.finished[&zeroes].status == Status::Done && !story.finished.contains_key(&flush));
    story.answer(ALL);
    assert_eq!(story.finished[&flush].status, Status::MediaError);
    assert_eq!(story.read(1600, 8), [dirty; 8]);
    assert_eq!(story.status_of_read(24, 8), Status::MediaError);
}
