//! Slots that come home, or are lost, while a request reads them. A write that covers a part of an
//! eighth merges with the rest of the eighth, and must merge with its newest content. Each test is
//! the shortest story of a defect.

mod scene;

use bimetal_core::block::Block;
use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::payload::{Sector, Tags};
use scene::{HDD, SSD, Scene, Verdict, touches};

/// A clean copy that cannot be read is lost without the partial write that needed its other
/// sectors.
#[test]
fn unreadable_clean_copy_does_not_lose_a_partial_write() {
    let mut scene = Scene::new("smart-response", &[("mode", "maximized")], 64, 8000);
    scene.read(0, 128).unwrap();
    assert!(scene.volume.view().map.get(Block(0)).is_some());
    let write = scene.send(OpKind::Write, 3, 2);
    scene.answer(|operation| {
        let fails = operation.target == SSD && operation.command.kind == OpKind::Read;
        if fails { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    let read = scene.read(0, 16).unwrap();
    assert_eq!(read[3], Sector::Data { request: write as u32, sector: 3 });
    assert_eq!(read[5], Sector::Zero);
}

/// Asserts that the write `part` of the first two sectors of block 1 is done, and that the other
/// sectors are those of the write `whole`.
fn assert_merged(scene: &mut Scene, whole: u64, part: u64) {
    assert_eq!(scene.finished[&part].status, Status::Done);
    let read = scene.read(8, 8).unwrap();
    assert_eq!(read[1], Sector::Data { request: part as u32, sector: 9 });
    assert_eq!(read[2], Sector::Data { request: whole as u32, sector: 10 });
}

/// A write merged with a slot whose content had been brought home since the write began. The slot
/// could not be read, and the write failed, although home had the content.
#[test]
fn unreadable_slot_that_has_come_home_fails_no_write() {
    let mut scene = Scene::new("hybrid-disk", &[("flush", "idle"), ("idle", "1s")], 4, 8000);
    let whole = scene.send(OpKind::Write, 8, 8);
    scene.answer(|_| Verdict::Done);
    let part = scene.send(OpKind::Write, 8, 2);
    scene.answer(|operation| {
        let merges = operation.target == SSD && operation.command.kind == OpKind::Read;
        if merges { Verdict::Waits } else { Verdict::Done }
    });
    let merge = scene.waiting.pop().expect("a read of the slot");
    scene.pass(Nanoseconds::from_seconds(3), |_| Verdict::Done);
    let (_, entry) = scene.volume.view().map.get(Block(1)).expect("the copy stays");
    assert!(!entry.dirty, "home has the content");
    scene.fail(merge.token);
    assert_merged(&mut scene, whole, part);
}

/// A write merged with a slot whose content had been brought home since the write began. A scrub
/// found the copy that was left bad, and dropped it. The slot could not be read, and the write
/// failed, although home had the content.
#[test]
fn slot_that_a_scrub_dropped_fails_no_write() {
    let mut scene = Scene::new("hybrid-disk", &[("flush", "idle"), ("idle", "1s")], 4, 8000);
    let whole = scene.send(OpKind::Write, 8, 8);
    scene.answer(|_| Verdict::Done);
    let (slot, _) = scene.volume.view().map.get(Block(1)).expect("a slot has the block");
    let part = scene.send(OpKind::Write, 8, 2);
    let merges = |operation: &Operation<Tags>| touches(operation, SSD, OpKind::Read, u64::from(slot.0) * 8, 8);
    scene.answer(|operation| if merges(operation) { Verdict::Waits } else { Verdict::Done });
    let merge = scene.waiting.pop().expect("a read of the slot");
    scene.pass(Nanoseconds::from_seconds(3), |_| Verdict::Done);
    scene.volume.scrub(scene.now, None);
    let judge = |operation: &Operation<Tags>| {
        if merges(operation) { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    };
    scene.answer(judge);
    scene.pass(Nanoseconds::from_seconds(3), judge);
    assert!(scene.volume.view().map.get(Block(1)).is_none(), "the scrub drops the copy");
    scene.fail(merge.token);
    assert_merged(&mut scene, whole, part);
}

/// A griffin volume of blocks of 64 KiB. Home has block 0, the first write. A later write of the
/// block's first eighth is in the log, and a migration is writing it home.
fn scene_of_a_migrating_eighth() -> Scene {
    let settings = [("timeout", "10s"), ("read_threshold", "off"), ("log_buffer", "0")];
    let mut scene = Scene::new("griffin", &settings, 64, 30_000);
    scene.run(OpKind::Write, 0, 128);
    scene.pass(Nanoseconds::from_seconds(11), |_| Verdict::Done);
    assert!(scene.volume.view().map.is_empty(), "home has the block");
    scene.run(OpKind::Write, 0, 16);
    scene.pass(
        Nanoseconds::from_seconds(11),
        |operation| {
            if goes_home(operation) { Verdict::Waits } else { Verdict::Done }
        },
    );
    assert_eq!(scene.waiting.len(), 1, "the migration writes the first eighth home");
    scene
}

fn goes_home(operation: &Operation<Tags>) -> bool {
    touches(operation, SSD, OpKind::Write, 0, 128)
}

fn reads_log(operation: &Operation<Tags>) -> bool {
    operation.target == HDD && operation.command.kind == OpKind::Read
}

/// Returns the numbers of the requests that wrote the sectors of block 0.
fn writers(scene: &mut Scene) -> Vec<u32> {
    let read = scene.read(0, 128).expect("a sound block");
    let number = |sector: &Sector| if let Sector::Data { request, .. } = sector { *request } else { 0 };
    read.iter().map(number).collect()
}

/// Regression: a write merged with two slots of a log. The first had come home and could not be
/// read. The write also took the eighth of the second slot from home, which has older content.
#[test]
fn slot_that_has_come_home_gives_up_no_other_slot() {
    let mut scene = scene_of_a_migrating_eighth();
    let (first, _) = scene.volume.view().map.get(Block(0)).expect("the migration goes on");
    let hold = |operation: &Operation<Tags>| match operation {
        _ if goes_home(operation) || reads_log(operation) => Verdict::Waits,
        _ => Verdict::Done,
    };
    scene.send(OpKind::Write, 112, 16);
    scene.answer(hold);
    let part = scene.send(OpKind::Write, 4, 120);
    scene.answer(hold);
    let merges_first =
        |operation: &Operation<Tags>| touches(operation, HDD, OpKind::Read, u64::from(first.0) * 128, 128);
    scene.answer(|operation| if merges_first(operation) { Verdict::Waits } else { Verdict::Done });
    scene.pass(
        Nanoseconds::from_seconds(1),
        |operation| {
            if merges_first(operation) { Verdict::Waits } else { Verdict::Done }
        },
    );
    assert_eq!(scene.volume.view().map.pieces(Block(0)).len(), 1, "the first slot has come home");
    scene.answer(|operation| if merges_first(operation) { Verdict::Fails(Status::MediaError) } else { Verdict::Done });
    assert_eq!(scene.finished[&part].status, Status::Done);
    let expected = [[2; 4].as_slice(), &[part as u32; 120], &[part as u32 - 1; 4]].concat();
    assert_eq!(writers(&mut scene), expected);
}

/// Regression: a write merged with a slot and with home. Home was read, then the slot's content
/// came home, and the slot could not be read. The write took the slot's eighth from home's content
/// as it was before.
#[test]
fn home_is_read_again_if_a_slot_has_come_home_since() {
    let mut scene = scene_of_a_migrating_eighth();
    let part = scene.send(OpKind::Write, 4, 120);
    scene.answer(|operation| match operation {
        _ if goes_home(operation) || reads_log(operation) => Verdict::Waits,
        _ => Verdict::Done,
    });
    scene.pass(
        Nanoseconds::from_seconds(1),
        |operation| {
            if reads_log(operation) { Verdict::Waits } else { Verdict::Done }
        },
    );
    assert!(scene.volume.view().map.is_empty(), "the slot has come home");
    scene.answer(|operation| if reads_log(operation) { Verdict::Fails(Status::MediaError) } else { Verdict::Done });
    assert_eq!(scene.finished[&part].status, Status::Done);
    let expected = [[2; 4].as_slice(), &[part as u32; 120], &[1; 4]].concat();
    assert_eq!(writers(&mut scene), expected);
}

/// A write merges with a slot that a migration finds unreadable, and loses, before the write's own
/// read ends. Home has older content, with which the write must not be merged.
#[test]
fn write_merges_with_no_older_content_of_a_lost_slot() {
    let settings = [("timeout", "10s"), ("read_threshold", "off"), ("log_buffer", "0")];
    let mut scene = Scene::new("griffin", &settings, 64, 30_000);
    let older = scene.send(OpKind::Write, 0, 128);
    scene.answer(|_| Verdict::Done);
    scene.pass(Nanoseconds::from_seconds(11), |_| Verdict::Done);
    assert_eq!(scene.read(0, 1).unwrap(), [Sector::Data { request: older as u32, sector: 0 }], "home has it");
    scene.run(OpKind::Write, 0, 128);
    let part = scene.send(OpKind::Write, 3, 2);
    scene.answer(|operation| if reads_log(operation) { Verdict::Waits } else { Verdict::Done });
    let merge = scene.waiting.pop().expect("a read of the slot");
    scene.pass(Nanoseconds::from_seconds(60), |operation| {
        if reads_log(operation) { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    assert_eq!(scene.volume.lost_blocks(), 1);
    scene.fail(merge.token);
    assert_eq!(scene.finished[&part].status, Status::MediaError);
    assert_eq!(scene.read(0, 16), Err(Status::MediaError));
}

/// A griffin volume of blocks of 64 KiB. A migration could not read block 0 from the log, and the
/// block is lost.
fn scene_of_a_lost_block() -> Scene {
    let settings = [("timeout", "10s"), ("read_threshold", "off")];
    let mut scene = Scene::new("griffin", &settings, 64, 30_000);
    scene.run(OpKind::Write, 0, 128);
    scene.run(OpKind::Flush, 0, 0);
    scene.pass(Nanoseconds::from_seconds(11), |operation| {
        if reads_log(operation) { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    scene
}

#[test]
fn what_is_lost_stays_an_error_beside_a_partial_write() {
    let mut scene = scene_of_a_lost_block();
    assert_eq!(scene.read(0, 16), Err(Status::MediaError));
    scene.run(OpKind::Write, 3, 2);
    assert_eq!(scene.read(0, 3), Err(Status::MediaError), "home has something older");
    scene.run(OpKind::Write, 0, 16);
    assert!(scene.read(0, 16).is_ok());
}

/// Regression: zeroes over whole eighths of a lost block went to home, and reads of these eighths
/// stayed errors.
#[test]
fn zeroes_end_the_loss_of_the_eighths_that_they_cover() {
    let mut scene = scene_of_a_lost_block();
    scene.volume.drain(scene.now, false);
    scene.pass(Nanoseconds::from_seconds(11), |_| Verdict::Done);
    assert_eq!(scene.run(OpKind::WriteZeroes, 0, 24), Status::Done);
    assert_eq!(scene.read(0, 16).expect("eighth 0 is zeroed whole"), vec![Sector::Zero; 16]);
    assert_eq!(scene.read(16, 8), Err(Status::MediaError), "eighth 1 is zeroed in part");
    assert_eq!(scene.read(32, 8), Err(Status::MediaError));
}

/// Regression: a slot was lost while a read of it was under way. Another eighth of the block got a
/// clean copy. The read then failed, and returned the older content of home.
#[test]
fn read_of_a_lost_slot_returns_no_older_content_of_home() {
    let settings = [("mode", "maximized"), ("stream_bypass", "8KiB"), ("idle", "1h")];
    let mut scene = Scene::new("smart-response", &settings, 4, 8000);
    scene.run(OpKind::Write, 24, 16);
    assert!(scene.volume.view().map.is_empty(), "home has the first content");
    scene.run(OpKind::Write, 24, 1);
    let read = scene.send(OpKind::Read, 24, 1);
    scene.answer(|operation| match operation {
        Operation { target: SSD, command, .. } if command.kind == OpKind::Read => Verdict::Waits,
        _ => Verdict::Done,
    });
    let held = scene.waiting.pop().expect("a read of the slot").token;
    scene.volume.drain(scene.now, false);
    scene.pass(Nanoseconds::from_seconds(60), |operation| match operation {
        operation if operation.token == held => Verdict::Waits,
        Operation { target: SSD, command, .. } if command.kind == OpKind::Read => Verdict::Fails(Status::MediaError),
        _ => Verdict::Done,
    });
    assert_eq!(scene.volume.lost_blocks(), 1);
    assert!(scene.read(28, 2).is_ok(), "home has the other sectors");
    scene.pass(Nanoseconds::from_seconds(1), |_| Verdict::Done);
    let has_copy = scene.volume.view().map.get(Block(3)).is_some_and(|(_, entry)| !entry.dirty);
    assert!(has_copy, "the read was worth a copy");
    scene.fail(held);
    assert_eq!(scene.finished[&read].status, Status::MediaError);
}
