//! The last flush of a log, of which nothing on the drive says that it has ended. A slot in doubt
//! that does not match its record is left out. Each test is the shortest story of other content
//! that may be lost together with the slot, or come back later.

mod story;

use bimetal_core::block::{Block, BlockSize};
use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use story::{ALL, Answers, HDD, SSD, Story};

const ONLY_TIMEOUT: &[(&str, &str)] = &[("timeout", "60s"), ("read_threshold", "off")];
const NO_MIGRATION: &[(&str, &str)] = &[("timeout", "off"), ("read_threshold", "off")];

/// Rots the slot of `block` that lies `back` slots before its newest slot.
fn rot_slot(story: &mut Story, block: u64, back: u64) {
    let view = story.volume().view();
    let slots = view.map.occupied().filter(|(_, entry)| entry.block == Block(block)).map(|(slot, _)| slot);
    let slot = slots.max().expect("the block is in the log");
    let sectors = view.block().sectors();
    let first = view.layout.slots.expect("a log").first_sector;
    story.drives[usize::from(HDD)].rot(first + (u64::from(slot.0) - back) * sectors);
}

/// Regression: the loss of a block had ended with a write, whose slot was then damaged while the
/// slot was in doubt. Recovery left the slot out, and the loss went on. Nevertheless the log's
/// index got the record that the loss had ended. After the next recovery home's older content came
/// back without an error.
#[test]
fn loss_goes_on_after_two_recoveries() {
    let mut story = Story::new(0, "griffin", ONLY_TIMEOUT, 4000);
    story.write(24, 8);
    story.pass(Nanoseconds::from_seconds(200), ALL);
    assert!(story.volume().view().map.is_empty(), "home has the first content");
    story.write(24, 8);
    story.flush();
    rot_slot(&mut story, 3, 0);
    story.pass(Nanoseconds::from_seconds(200), ALL);
    assert_eq!(story.volume().lost_blocks(), 1);
    story.flush();
    story.write(24, 8);
    story.flush();
    assert_eq!(story.volume().lost_blocks(), 0);
    rot_slot(&mut story, 3, 0);
    for recovery in 0..3 {
        story.cut();
        assert_eq!(story.status_of_read(24, 8), Status::MediaError, "recovery {recovery}");
        // The index is completed.
        story.write(800, 8);
        story.flush();
        story.pass(Nanoseconds::from_seconds(2), ALL);
    }
    let found = story.write(24, 8);
    story.flush();
    story.pass(Nanoseconds::from_seconds(2), ALL);
    story.cut();
    assert_eq!(story.read(24, 8), [found; 8]);
}

/// Regression: a migration flushed the log, which no flush of a client had done, and then wrote
/// home for a long time. Nothing on the drive recorded the flush. When a slot was damaged and the
/// power was cut, recovery took the slot for a slot that was never written, although home had got a
/// part of its content.
#[test]
fn migration_that_takes_long_leaves_no_slot_in_doubt() {
    let mut story = Story::new(0, "griffin", ONLY_TIMEOUT, 8000);
    story.write(24, 8);
    story.pass(Nanoseconds::from_seconds(200), ALL);
    assert!(story.volume().view().map.is_empty(), "home has the first content");
    story.write(24, 8);
    let is_no_move: Answers = |operation| operation.target != SSD || operation.command.range.start != Sectors(24);
    story.pass(Nanoseconds::from_seconds(70), is_no_move);
    assert!(story.volume().view().moving, "the migration goes on");
    rot_slot(&mut story, 3, 0);
    story.cut();
    assert_eq!(story.status_of_read(24, 8), Status::MediaError);
}

/// Regression: a slot was damaged whose block had been written again before the flush. The newer
/// slot was sound, and was left out together with the damaged slot.
#[test]
fn damaged_older_slot_costs_no_newer_whole_one() {
    for sectors in [8, 16, 128] {
        let block = BlockSize::new(Bytes(sectors * 512)).expect("a size of blocks");
        let mut story = Story::with_blocks(0, "griffin", NO_MIGRATION, 8000, block);
        story.write(0, sectors);
        let newer = story.write(0, sectors);
        story.flush();
        rot_slot(&mut story, 0, 1);
        story.cut();
        assert_eq!(story.read(0, sectors), vec![newer; sectors as usize], "{sectors} sectors");
    }
}

/// A slot was damaged of which a newer slot has sectors. Both slots are left out, at each recovery:
/// otherwise a part of the older write would be there without the other parts.
#[test]
fn slot_with_sectors_of_a_damaged_one_is_left_out_too() {
    let block = BlockSize::new(Bytes::from_kib(8)).expect("a size of blocks");
    let mut story = Story::with_blocks(0, "griffin", NO_MIGRATION, 8000, block);
    story.write(0, 16);
    story.write(1, 1);
    story.flush();
    rot_slot(&mut story, 0, 1);
    for recovery in 0..3 {
        story.cut();
        assert_eq!(story.read(0, 16), [0; 16], "recovery {recovery}");
    }
}

/// Returns a story in which block 3 was flushed twice, and its newest slot has rotted since; also
/// the older content, and the first sector of the slot. The slot is alone in its segment, with the
/// head before it and the foot after it.
fn story_of_a_rotten_newest_slot() -> (Story, u64, u64) {
    let mut story = Story::new(0, "griffin", NO_MIGRATION, 8000);
    let older = story.write(24, 8);
    story.flush();
    story.pass(Nanoseconds::from_seconds(2), ALL);
    story.write(24, 8);
    story.flush();
    rot_slot(&mut story, 3, 0);
    let view = story.volume().view();
    let (slot, _) = view.map.get(Block(3)).expect("the block is in the log");
    let first = view.layout.slots.expect("a log").first_sector;
    (story, older, first + u64::from(slot.0) * 8)
}

/// Regression: recovery left a damaged slot out, and could not write the head of its segment again.
/// The next recovery trusted the old head: the block was an error, or had the content that had been
/// left out.
#[test]
fn left_out_slot_stays_out_if_its_head_cannot_be_written() {
    let (mut story, older, slot) = story_of_a_rotten_newest_slot();
    let head = slot - 8;
    story.cut_power();
    let is_head = |command: Command| command.kind == OpKind::Write && command.range.start.0 == head;
    story.recover_giving_up_failing(|operation| is_head(operation.command)).expect("a refusal of writes is no error");
    assert_eq!(story.read(24, 8), [older; 8]);
    for recovery in 0..2 {
        story.cut();
        assert_eq!(story.read(24, 8), [older; 8], "recovery {recovery}");
    }
}

/// Regression: recovery left a damaged slot out. Later the head of its segment came back as it was
/// before, or the foot came back. The head counted alone: reads were errors although the drive had
/// the flushed content.
#[test]
fn page_that_comes_back_brings_no_left_out_slot_back() {
    for is_head in [false, true] {
        let (mut story, older, slot) = story_of_a_rotten_newest_slot();
        let page = if is_head { slot - 8 } else { slot + 8 };
        let drive = &story.drives[usize::from(HDD)];
        let before: Vec<_> = (page..page + 8).map(|sector| drive.content(sector)).collect();
        story.cut();
        assert_eq!(story.read(24, 8), [older; 8]);
        let drive = &mut story.drives[usize::from(HDD)];
        let is_newer = (page..page + 8).zip(&before).any(|(sector, before)| drive.content(sector) != *before);
        assert!(is_newer, "recovery writes head and foot again");
        for (sector, before) in (page..).zip(before) {
            drive.replace(sector, before);
        }
        for recovery in 0..2 {
            story.cut();
            assert_eq!(story.read(24, 8), [older; 8], "recovery {recovery}, page {page}");
        }
    }
}

/// Regression: a migration found a slot damaged, and its record drops the old slot from the log. A
/// write of the block followed in the same segment, and a power cut left its slot unwritten. The
/// record counted for the newer slot, too: the loss ended, and home's older content was read.
#[test]
fn loss_outlives_a_record_that_drops_older_slots() {
    let mut errors = 0;
    for seed in 0..40 {
        let mut story = Story::new(seed, "griffin", ONLY_TIMEOUT, 4000);
        let older = story.write(24, 8);
        story.pass(Nanoseconds::from_seconds(200), ALL);
        story.write(24, 8);
        story.flush();
        story.pass(Nanoseconds::from_millis(700), ALL);
        rot_slot(&mut story, 3, 0);
        story.pass(Nanoseconds::from_seconds(200), ALL);
        assert_eq!(story.volume().lost_blocks(), 1);
        let newer = story.write(24, 8);
        story.write(800, 8);
        story.pass(Nanoseconds::from_millis(20), ALL);
        story.cut();
        let read = story.send(OpKind::Read, 24, 8, false);
        story.answer(ALL);
        errors += u64::from(story.finished[&read].status == Status::MediaError);
        if story.finished[&read].status == Status::Done {
            assert_eq!(story.found_by(read), [newer; 8], "seed {seed}: not {older}");
        }
    }
    assert!(errors > 0, "no cut left the slot unwritten");
}
