//! Defects that random cases found, each as the shortest story that shows the defect.

mod scene;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::Drain;
use bimetal_fault::payload::{Sector, Tags};
use scene::{HDD, SSD, Scene, Verdict, touches, volume};

/// Zeroes behind a write under way reach the slot that the write took.
#[test]
fn write_zeroes_reaches_the_slot_of_a_write_under_way() {
    let mut scene = Scene::new("smart-response", &[("mode", "maximized")], 4, 4000);
    let write = scene.send(OpKind::Write, 0, 8);
    scene.send(OpKind::WriteZeroes, 2, 2);
    scene.answer(|_| Verdict::Done);
    let read = scene.read(0, 8).unwrap();
    assert_eq!(read[2..4], [Sector::Zero, Sector::Zero]);
    assert_eq!(read[4], Sector::Data { request: write as u32, sector: 4 });
}

#[test]
fn a_discard_of_a_part_gives_up_the_clean_copy() {
    let mut scene = Scene::new("smart-response", &[], 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    assert!(scene.volume.view().map.get(Block(0)).is_some());
    scene.run(OpKind::Discard, 0, 4);
    assert!(scene.volume.view().map.get(Block(0)).is_none(), "it would change when it is evicted");
}

/// Regression: a discard at a home that was gone dropped the clean copies of the blocks at its
/// ends, and nothing else had the sectors outside of the discard.
#[test]
fn discard_on_a_home_that_is_gone_drops_no_copy() {
    for (start, sectors) in [(0, 16), (100, 156)] {
        let mut scene = Scene::new("smart-response", &[("mode", "maximized")], 64, 8000);
        scene.read(0, 128).unwrap();
        scene.read(128, 128).unwrap();
        scene.volume.member_gone(scene.now, MemberId(HDD));
        scene.answer(|_| Verdict::Done);
        assert!(scene.read(32, 64).is_ok(), "the copy has the sectors");
        assert_eq!(scene.run(OpKind::Discard, start, sectors), Status::Gone);
        assert!(scene.read(32, 64).is_ok(), "the discard does not touch the sectors");
    }
}

/// Regression: a migration that took longer than half a second left a note in the log. The log
/// counted as in use, so discards did not reach home until the next migration.
#[test]
fn discard_reaches_home_after_a_long_migration() {
    let mut scene = Scene::new("griffin", &[("timeout", "10s"), ("read_threshold", "off")], 64, 30_000);
    scene.send(OpKind::Write, 0, 128);
    scene.answer(|_| Verdict::Done);
    let goes_home = |operation: &Operation<Tags>| touches(operation, SSD, OpKind::Write, 0, 128);
    for _ in 0..2 {
        scene.pass(
            Nanoseconds::from_seconds(11),
            |operation| {
                if goes_home(operation) { Verdict::Waits } else { Verdict::Done }
            },
        );
    }
    assert_eq!(scene.waiting.len(), 1, "the migration writes home");
    scene.answer(|_| Verdict::Done);
    assert!(!scene.volume.view().moving && scene.volume.view().map.is_empty());
    scene.send(OpKind::Discard, 0, 128);
    let is_discard = |operation: &Operation<Tags>| touches(operation, SSD, OpKind::Discard, 0, 128);
    scene.answer(|operation| if is_discard(operation) { Verdict::Waits } else { Verdict::Done });
    assert_eq!(scene.waiting.len(), 1, "home gets the discard");
}

#[test]
fn a_move_does_not_put_old_content_over_a_write_in_place() {
    let settings = [("mode", "maximized"), ("stream_bypass", "8KiB"), ("idle", "1h")];
    let mut scene = Scene::new("smart-response", &settings, 4, 4000);
    let slots = u64::from(scene.volume.view().map.slots());
    let reserve = (slots / 64).max(1);
    for block in (0..slots - reserve).map(|block| 2 * block) {
        scene.run(OpKind::Write, block * 8, 8);
    }
    let in_place = scene.send(OpKind::Write, 0, 16);
    let held = |operation: &Operation<Tags>| {
        let waits = touches(operation, HDD, OpKind::Write, 0, 16) && operation.command.range.len.0 == 16;
        if waits { Verdict::Waits } else { Verdict::Done }
    };
    scene.answer(held);
    scene.send(OpKind::Write, 40_000, 8);
    scene.answer(held);
    assert!(scene.volume.statistics().migrations.count > 0, "slots are short");
    assert_eq!(scene.content[usize::from(HDD)].get(&0), None, "the move holds back");
    scene.answer(|_| Verdict::Done);
    let newest = Sector::Data { request: in_place as u32, sector: 0 };
    assert_eq!(scene.read(0, 1).unwrap()[0], newest);
    assert_eq!(scene.content[usize::from(HDD)][&0], newest);
}

#[test]
fn a_flush_that_failed_is_tried_again_by_the_next() {
    let mut scene = Scene::new("ssd-only", &[], 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    let flush = scene.send(OpKind::Flush, 0, 0);
    scene.answer(|_| Verdict::Fails(Status::MediaError));
    assert_eq!(scene.finished[&flush].status, Status::MediaError);
    let before = scene.answered;
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done);
    assert_eq!(scene.answered, before + 1, "the drive is flushed");
}

#[test]
fn a_short_operation_is_an_error_of_its_request() {
    let mut scene = Scene::new("ssd-only", &[], 4, 4000);
    let write = scene.send(OpKind::Write, 0, 8);
    scene.answer(|_| Verdict::Fails(Status::Short(3)));
    assert_eq!(scene.finished[&write].status, Status::MediaError);
}

#[test]
fn a_log_full_of_discarded_blocks_has_room_again() {
    let mut scene = Scene::new("griffin", &[("log_buffer", "0"), ("timeout", "off")], 4, 2000);
    for _ in 0..1000 {
        assert_eq!(scene.run(OpKind::Write, 40, 8), Status::Done);
        assert_eq!(scene.run(OpKind::Discard, 40, 8), Status::Done);
    }
    assert_eq!(scene.volume.requests_under_way(), 0);
}

#[test]
fn one_unreadable_slot_loses_one_block_of_a_migration() {
    let settings = [("timeout", "10s"), ("read_threshold", "off")];
    let mut scene = Scene::new("griffin", &settings, 4, 4000);
    scene.run(OpKind::Write, 0, 128);
    scene.run(OpKind::Flush, 0, 0);
    let (slot, _) = scene.volume.view().map.get(Block(5)).unwrap();
    let bad = u64::from(slot.0) * 8;
    scene.pass(Nanoseconds::from_seconds(11), |operation| {
        let fails = touches(operation, HDD, OpKind::Read, bad, 8);
        if fails { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    assert!(scene.volume.view().map.is_empty());
    for block in 0..16 {
        assert_eq!(scene.read(block * 8, 8).is_err(), block == 5, "block {block}");
    }
}

#[test]
fn a_read_that_fails_once_loses_nothing_of_a_migration() {
    let mut scene = Scene::new("griffin", &[("timeout", "10s"), ("read_threshold", "off")], 4, 4000);
    scene.run(OpKind::Write, 0, 128);
    scene.run(OpKind::Flush, 0, 0);
    scene.pass(Nanoseconds::from_seconds(11), |operation| {
        let fails = operation.command.kind == OpKind::Read && operation.command.range.len.0 > 8;
        if fails { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    assert!(scene.read(0, 128).is_ok());
}

#[test]
fn metadata_that_fails_once_is_written_again_and_costs_no_drive() {
    let mut scene = Scene::new("hybrid-disk", &[], 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    let flush = scene.send(OpKind::Flush, 0, 0);
    let page = std::cell::Cell::new(true);
    scene.answer(|operation| {
        let first = operation.command.kind == OpKind::Write && page.get();
        if first && operation.target == SSD { Verdict::Waits } else { Verdict::Done }
    });
    let ring = scene.waiting.pop().expect("a page of the journal");
    let failed = Completion { token: ring.token, status: Status::MediaError, payload: Tags::empty() };
    page.set(false);
    scene.volume.complete(scene.now, failed);
    scene.answer(|_| Verdict::Done);
    assert_eq!(scene.finished[&flush].status, Status::Done);
    assert_eq!(scene.volume.view().member(MemberId(SSD)).state, MemberState::Online);
}

#[test]
fn flushes_of_home_that_fail_do_not_cost_the_cache() {
    let mut scene = Scene::new("hybrid-disk", &[], 4, 4000);
    for large in 0..10 {
        scene.run(OpKind::Write, large * 2048, 1024);
        scene.send(OpKind::Flush, 0, 0);
        scene.answer(|operation| {
            let fails = operation.target == HDD && operation.command.kind == OpKind::Flush;
            if fails { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
        });
    }
    assert_eq!(scene.volume.view().member(MemberId(SSD)).state, MemberState::Online);
}

#[test]
fn a_move_to_a_home_that_is_gone_asks_no_drive_for_anything() {
    let griffin = [("timeout", "10s"), ("log_buffer", "0")];
    for (scheme, settings, home) in
        [("smart-response", &[("mode", "maximized")][..], HDD), ("griffin", &griffin[..], SSD)]
    {
        let mut scene = Scene::new(scheme, settings, 4, 4000);
        assert_eq!(scene.run(OpKind::Write, 0, 8), Status::Done);
        scene.volume.member_gone(scene.now, MemberId(home));
        let before = scene.answered;
        scene.pass(Nanoseconds::from_seconds(100), |operation| {
            if operation.target == home { Verdict::Fails(Status::Gone) } else { Verdict::Done }
        });
        assert_eq!(scene.answered, before, "{scheme}");
        assert_eq!(scene.volume.view().map.len(), 1, "{scheme}: what cannot go home stays");
    }
}

#[test]
fn write_half_in_the_log_fails_when_the_log_is_gone() {
    let mut scene = Scene::new("griffin", &[("log_buffer", "0"), ("timeout", "off")], 4, 1000);
    let write = scene.send(OpKind::Write, 0, 4000);
    loop {
        let operation = scene.volume.next_operation().expect("the volume's state, then a segment");
        scene.apply(&operation);
        let completion = Completion { token: operation.token, status: Status::Done, payload: Tags::empty() };
        scene.volume.complete(scene.now, completion);
        if operation.target == HDD {
            break;
        }
    }
    scene.volume.member_gone(scene.now, MemberId(HDD));
    scene.answer(|operation| if operation.target == HDD { Verdict::Fails(Status::Gone) } else { Verdict::Done });
    assert_eq!(scene.finished[&write].status, Status::MediaError);
}

#[test]
fn migrations_in_no_time_are_refused_where_there_is_content() {
    let error = volume("griffin", &[("migration", "instant")], 4, 4000).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("migrations take no time")));
}

/// A write waits for slots. The release of the slots of this write frees a slot, and the write
/// continues.
#[test]
fn parked_write_resumes_when_its_parking_frees_slots() {
    let mut scene = Scene::new("hybrid-disk", &[], 4, 1120);
    for block in 0..u64::from(scene.volume.view().map.slots()) - 3 {
        scene.run(OpKind::Write, block * 8, 8);
    }
    // Of three free slots, one goes to a write of a block that has a slot. The other two serve half
    // of a write that needs four.
    scene.send(OpKind::Write, 0, 8);
    let long = scene.send(OpKind::Write, 8000, 32);
    // A dropped slot is free only once all older requests are done. The long write is older, so
    // the slot waits for it, and then the write parks.
    scene.answer(|operation| if operation.command.range.len.0 == 16 { Verdict::Waits } else { Verdict::Done });
    assert_eq!((scene.volume.view().free_slots, scene.volume.view().freeing_slots), (0, 1));
    scene.answer(|_| Verdict::Done);
    assert_eq!(scene.finished[&long].status, Status::Done);
}

/// A forced write in place also makes the drop of the block's older slot durable.
#[test]
fn forced_write_in_place_commits_the_drop_of_its_slot() {
    let mut scene = Scene::new("smart-response", &[("mode", "maximized"), ("stream_bypass", "8KiB")], 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    scene.run(OpKind::Flush, 0, 0);
    let commits = scene.volume.statistics().commits;
    scene.tokens += 1;
    let command = Command { kind: OpKind::Write, range: SectorRange::new(0, 16), fua: true };
    let payload = Tags::written(scene.tokens as u32, 0, 16);
    let request = Operation { token: Token(scene.tokens), target: 0, command, payload };
    scene.volume.submit(scene.now, request);
    scene.answer(|_| Verdict::Done);
    assert!(scene.volume.view().map.get(Block(0)).is_none(), "it went home in place");
    assert_eq!(scene.volume.statistics().commits, commits + 1, "or a crash would find the slot again");
}

/// A write to both drives fails on its slot. The block's older slot must not hide the new content
/// of home.
#[test]
fn failed_slot_write_leaves_no_older_slot_before_home() {
    let settings = [("writeback_percent", "off"), ("bucket_size", "64KiB")];
    let mut scene = Scene::new("bcache", &settings, 64, 6000);
    let slots = u64::from(scene.volume.view().map.slots());
    for block in 0..slots / 2 {
        scene.run(OpKind::Write, block * 128, 128);
    }
    assert!(u64::from(scene.volume.view().map.dirty_blocks()) > slots * 2 / 5, "writes go to both drives now");
    assert!(scene.volume.view().map.get(Block(1)).is_some_and(|(_, entry)| entry.dirty));
    let write = scene.send(OpKind::Write, 132, 4);
    let failed = std::cell::Cell::new(None);
    scene.answer(|operation| {
        let command = operation.command;
        let to_slot = operation.target == SSD && command.kind == OpKind::Write && command.range.len.0 == 128;
        if to_slot && failed.get().is_none_or(|token| token == operation.token) {
            failed.set(Some(operation.token));
            return Verdict::Fails(Status::MediaError);
        }
        Verdict::Done
    });
    assert!(failed.get().is_some() && scene.finished[&write].status == Status::Done);
    let read = scene.read(128, 16).unwrap();
    assert_eq!(read[4..8], [132, 133, 134, 135].map(|sector| Sector::Data { request: write as u32, sector }));
    assert_eq!(read[8], Sector::Data { request: 2, sector: 136 });
}

/// A write to both drives reaches home, and fails on its slots until the SSD becomes read-only. No
/// block can be written back from the SSD, so the write fails. Reads found the older clean copy,
/// and the content of home once the copy was evicted.
#[test]
fn write_that_fails_on_its_slots_leaves_no_older_copy() {
    let settings = [("writeback_percent", "off"), ("bucket_size", "64KiB")];
    let mut scene = Scene::new("bcache", &settings, 64, 6000);
    let is_clean = |scene: &Scene, block| {
        let entry = scene.volume.view().map.get(Block(block));
        entry.is_some_and(|(_, entry)| !entry.dirty)
    };
    let mut block = 0;
    while !is_clean(&scene, block) {
        block += 1;
        scene.run(OpKind::Write, block * 128, 128);
    }
    // Only the SSD has the rest of the block before, so home alone cannot take the write.
    let failed = scene.send(OpKind::Write, block * 128 - 64, 192);
    scene.answer(|operation| {
        let of_others = touches(operation, HDD, OpKind::Write, 0, block * 128 - 64);
        let Command { kind, range, .. } = operation.command;
        let to_slots = operation.target == SSD && kind == OpKind::Write && range.len.0 >= 128;
        if of_others || to_slots { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    });
    assert_eq!(scene.volume.view().member(MemberId(SSD)).state, MemberState::ReadOnly);
    assert_eq!(scene.finished[&failed].status, Status::MediaError);
    assert!(!is_clean(&scene, block), "home has newer content");
    assert_eq!(scene.read(block * 128, 1).unwrap()[0], scene.content[usize::from(HDD)][&(block * 128)]);
}

/// A client's flush fails while a move writes home. The home may have forgotten the move's earlier
/// writes.
#[test]
fn move_writes_again_after_a_failed_client_flush() {
    let mut scene = Scene::new("smart-response", &[("mode", "maximized"), ("idle", "1h")], 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    scene.run(OpKind::Write, 800, 8);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done);
    let written = std::cell::Cell::new(0);
    let first = |operation: &Operation<Tags>| touches(operation, HDD, OpKind::Write, 0, 8);
    let last = |operation: &Operation<Tags>| touches(operation, HDD, OpKind::Write, 800, 8);
    let count = |operation: &Operation<Tags>| {
        written.set(written.get() + u32::from(first(operation)));
        Verdict::Done
    };
    scene.volume.drain(scene.now, false);
    scene.answer(|operation| if last(operation) { Verdict::Waits } else { Verdict::Done });
    let flush = scene.send(OpKind::Flush, 0, 0);
    let of_home = |operation: &Operation<Tags>| operation.target == HDD && operation.command.kind == OpKind::Flush;
    scene.answer(|operation| match operation {
        _ if of_home(operation) => Verdict::Fails(Status::MediaError),
        _ if last(operation) => Verdict::Waits,
        _ => Verdict::Done,
    });
    assert_eq!(scene.finished[&flush].status, Status::MediaError);
    scene.answer(count);
    scene.pass(Nanoseconds::from_seconds(10), count);
    assert!(written.get() > 0, "it is written again");
    assert_eq!(scene.volume.view().map.dirty_blocks(), 0);
}

fn is_flush(operation: &Operation<Tags>, member: u16) -> bool {
    operation.target == member && operation.command.kind == OpKind::Flush
}

/// Returns a volume whose drain has written a block home and waits for the flush of home, behind a
/// finished write in place.
fn scene_with_a_drain_that_flushes_home() -> Scene {
    let settings = [("mode", "maximized"), ("idle", "1h"), ("stream_bypass", "8KiB")];
    let mut scene = Scene::new("smart-response", &settings, 4, 4000);
    scene.run(OpKind::Write, 0, 8);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done);
    scene.run(OpKind::Write, 1600, 16);
    scene.volume.drain(scene.now, false);
    scene.answer(|operation| if is_flush(operation, HDD) { Verdict::Waits } else { Verdict::Done });
    assert!(scene.waiting.iter().any(|operation| is_flush(operation, HDD)), "the drain flushes home");
    scene
}

/// A migration of a log gives its part of the log up while a client still reads that part, so the
/// part stays in use. A drain took this for content to move: it began empty migrations without an
/// end, each of which wrote the superblock four times.
#[test]
fn drain_of_a_log_waits_for_a_read_of_the_log() {
    let mut scene = Scene::new("griffin", &[("timeout", "10s"), ("read_threshold", "off")], 4, 4000);
    assert_eq!(scene.run(OpKind::Write, 0, 24), Status::Done);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done);
    let read = scene.send(OpKind::Read, 0, 24);
    let of_log = |operation: &Operation<Tags>| operation.target == HDD && operation.command.kind == OpKind::Read;
    scene.answer(|operation| if of_log(operation) { Verdict::Waits } else { Verdict::Done });
    assert_eq!(scene.waiting.len(), 1, "a read of the log waits");
    let held = scene.waiting[0].token;
    let operations = std::cell::Cell::new(0);
    scene.volume.drain(scene.now, false);
    scene.answer(|operation| {
        operations.set(operations.get() + 1);
        assert!(operations.get() < 100, "the drain goes round in circles");
        if operation.token == held { Verdict::Waits } else { Verdict::Done }
    });
    assert!(matches!(scene.volume.drain_progress(), Drain::UnderWay { .. }), "the log is still read");
    scene.answer(|_| Verdict::Done);
    assert_eq!(scene.finished[&read].status, Status::Done);
    assert_eq!(scene.volume.drain_progress(), Drain::Done);
}

/// A flush of a client waits for the journal when a drain's flush of the home fails. The drive may
/// have forgotten an earlier write in place. The commit's own flush of the home began after the
/// failed flush, and ended well without that write. The flush of the client reported no loss.
#[test]
fn flush_tells_of_a_failure_before_its_own_flush_of_home() {
    let mut scene = scene_with_a_drain_that_flushes_home();
    let of_drain = scene.waiting.iter().find(|operation| is_flush(operation, HDD)).unwrap().token;
    let home = |operation: &Operation<Tags>| is_flush(operation, HDD);
    let journal = |operation: &Operation<Tags>| operation.target == SSD && operation.command.kind == OpKind::Write;
    scene.volume.end_drain(scene.now);
    let write = scene.send(OpKind::Write, 2400, 8);
    scene.answer(|operation| if home(operation) { Verdict::Waits } else { Verdict::Done });
    assert_eq!(scene.finished[&write].status, Status::Done);
    let flush = scene.send(OpKind::Flush, 0, 0);
    scene.answer(|operation| if home(operation) || journal(operation) { Verdict::Waits } else { Verdict::Done });
    assert!(scene.waiting.iter().any(journal), "the commit writes records");
    assert_eq!(scene.waiting.iter().filter(|operation| home(operation)).count(), 1, "and has not flushed home");
    scene.answer(|operation| match operation {
        _ if operation.token == of_drain => Verdict::Fails(Status::MediaError),
        _ if home(operation) || journal(operation) => Verdict::Waits,
        _ => Verdict::Done,
    });
    scene.answer(|_| Verdict::Done);
    assert_eq!(scene.finished[&flush].status, Status::MediaError);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done, "it was told");
}

/// A drain's flush of the home and a client's flush are in flight together. The drain's flush
/// fails, so the drive may have forgotten an earlier write in place. The client's flush ends well
/// without that write, so it proves nothing.
#[test]
fn flush_under_way_when_another_fails_proves_nothing() {
    let mut scene = scene_with_a_drain_that_flushes_home();
    let of_drain = scene.waiting.iter().find(|operation| is_flush(operation, HDD)).unwrap().token;
    let flush = scene.send(OpKind::Flush, 0, 0);
    let waits = |operation: &Operation<Tags>| is_flush(operation, HDD);
    scene.answer(|operation| if waits(operation) { Verdict::Waits } else { Verdict::Done });
    assert_eq!(scene.waiting.iter().filter(|operation| waits(operation)).count(), 2, "two flushes are under way");
    scene.answer(|operation| match operation.token {
        token if token == of_drain => Verdict::Fails(Status::MediaError),
        _ if waits(operation) => Verdict::Waits,
        _ => Verdict::Done,
    });
    scene.answer(|_| Verdict::Done);
    assert_eq!(scene.finished[&flush].status, Status::MediaError);
}

/// A forced write in place fails while a drain's flush of the home is in flight, and a flush
/// reports the error. Then the drain's flush ends well. The drain's flush proves nothing about the
/// write, and is not a failure of it either: the next flush has nothing to report.
#[test]
fn failure_is_told_once_though_an_older_flush_proves_nothing() {
    let mut scene = scene_with_a_drain_that_flushes_home();
    let of_drain = scene.waiting.iter().find(|operation| is_flush(operation, HDD)).unwrap().token;
    let held = |operation: &Operation<Tags>| operation.token == of_drain;
    scene.tokens += 1;
    let command = Command { kind: OpKind::Write, range: SectorRange::new(2400, 16), fua: true };
    let payload = Tags::written(scene.tokens as u32, 2400, 16);
    let forced = scene.tokens;
    scene.volume.submit(scene.now, Operation { token: Token(forced), target: 0, command, payload });
    scene.answer(|operation| match operation {
        _ if held(operation) => Verdict::Waits,
        _ if touches(operation, HDD, OpKind::Write, 2400, 16) => Verdict::Fails(Status::MediaError),
        _ => Verdict::Done,
    });
    assert_eq!(scene.finished[&forced].status, Status::MediaError);
    let flush = |scene: &mut Scene| {
        let flush = scene.send(OpKind::Flush, 0, 0);
        scene.answer(|operation| if held(operation) { Verdict::Waits } else { Verdict::Done });
        scene.finished[&flush].status
    };
    assert_eq!(flush(&mut scene), Status::MediaError, "what came before may be lost");
    let later = scene.send(OpKind::Write, 3200, 16);
    scene.answer(|operation| if held(operation) { Verdict::Waits } else { Verdict::Done });
    assert_eq!(scene.finished[&later].status, Status::Done);
    scene.answer(|_| Verdict::Done);
    assert_eq!(flush(&mut scene), Status::Done, "it was told");
}

/// A migration has written a block home when the flush of home fails, and the block is discarded.
/// From the discard on, reads return home's content of the block, which is not stable. The next
/// migration's flush fails too, and a flush of the volume reports the error.
#[test]
fn flush_tells_of_what_a_discard_left_to_an_unstable_home() {
    let mut scene =
        Scene::new("griffin", &[("log_buffer", "0"), ("timeout", "10s"), ("read_threshold", "off")], 4, 4000);
    let fails = |operation: &Operation<Tags>| {
        if is_flush(operation, SSD) { Verdict::Fails(Status::MediaError) } else { Verdict::Done }
    };
    let write = scene.run(OpKind::Write, 0, 8);
    assert_eq!((write, scene.run(OpKind::Flush, 0, 0)), (Status::Done, Status::Done));
    let kept = scene.run(OpKind::Write, 800, 8);
    assert_eq!((kept, scene.run(OpKind::Flush, 0, 0)), (Status::Done, Status::Done));
    scene.pass(Nanoseconds::from_seconds(10), fails);
    assert!(scene.content[usize::from(SSD)].contains_key(&0), "a migration has written home");
    assert_eq!(scene.run(OpKind::Discard, 0, 8), Status::Done);
    assert!(scene.read(0, 8).is_ok(), "home shows what it may forget");
    scene.pass(Nanoseconds::from_seconds(10), fails);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::MediaError);
    assert_eq!(scene.run(OpKind::Flush, 0, 0), Status::Done, "once");
}

/// A log refuses a segment, which stays in memory until it is at home. The log's drive vanishes
/// while its content is evacuated. The move must not wait for the segment, which will never be
/// written. A write of the same blocks waits for the move, and then fails, because home may not
/// change without the log.
#[test]
fn segment_kept_in_memory_stops_no_move_when_the_log_goes() {
    let mut scene = Scene::new("griffin", &[("timeout", "off"), ("read_threshold", "off")], 4, 4000);
    assert_eq!((scene.run(OpKind::Write, 0, 8), scene.run(OpKind::Flush, 0, 0)), (Status::Done, Status::Done));
    // This write lies in another region than the first block.
    assert_eq!(scene.run(OpKind::Write, 1600, 8), Status::Done);
    scene.send(OpKind::Flush, 0, 0);
    let reads_log = |operation: &Operation<Tags>| operation.target == HDD && operation.command.kind == OpKind::Read;
    scene.answer(|operation| match operation {
        _ if reads_log(operation) => Verdict::Waits,
        _ if operation.target == HDD && operation.command.kind == OpKind::Write => Verdict::Fails(Status::MediaError),
        _ => Verdict::Done,
    });
    assert_eq!(scene.volume.view().member(MemberId(HDD)).state, MemberState::ReadOnly);
    assert!(scene.waiting.iter().any(reads_log), "a move reads what the log has of the first block");
    let gone = |operation: &Operation<Tags>| {
        if operation.target == HDD { Verdict::Fails(Status::Gone) } else { Verdict::Done }
    };
    scene.answer(gone);
    let write = scene.send(OpKind::Write, 0, 8);
    scene.answer(gone);
    scene.pass(Nanoseconds::from_seconds(10), gone);
    assert_eq!(scene.finished.get(&write).map(|finished| finished.status), Some(Status::MediaError));
}

/// Regression: a close commits, but the commit found no room in a full log. A discard had left a
/// record that takes a segment. Only a migration makes room, and none began while the volume
/// closed. So the volume never closed, and its server did not stop.
#[test]
fn full_log_closes() {
    for (blocks, flushes) in (0..20).flat_map(|blocks| (0..3).map(move |flushes| (blocks, flushes))) {
        let settings = [("log_buffer", "1B"), ("timeout", "off"), ("read_threshold", "off")];
        let mut scene = Scene::new("griffin", &settings, 4, 400);
        let mut run = |kind, start, sectors| {
            scene.send(kind, start, sectors);
            scene.answer(|_| Verdict::Done);
        };
        (0..blocks).for_each(|block| run(OpKind::Write, 16 * block, 8));
        for _ in 0..flushes {
            run(OpKind::Discard, 0, 8);
            run(OpKind::Flush, 0, 0);
        }
        run(OpKind::Discard, 0, 8);
        let now = scene.now;
        scene.volume.close(now);
        scene.answer(|_| Verdict::Done);
        assert!(scene.volume.is_closed(), "{blocks} blocks, {flushes} flushes");
    }
}

/// A read of a dirty slot was under way while a move wrote the block home, the slot rotted, and the
/// block was written again, to another slot or to the log's buffer. Regression: the read was an
/// error, although the block had sound content at all times. The read has three blocks, and the
/// other two stay where they are: each block is read from its present place.
#[test]
fn slot_that_rots_is_read_from_the_newest_place() {
    let of_log: &[_] = &[("timeout", "10s"), ("read_threshold", "off")];
    let of_cache: &[_] = &[("mode", "maximized"), ("idle", "1h")];
    for (scheme, settings, slots_on) in [("smart-response", of_cache, SSD), ("griffin", of_log, HDD)] {
        let mut scene = Scene::new(scheme, settings, 4, 4000);
        let old = scene.send(OpKind::Write, 0, 24) as u32;
        scene.answer(|_| Verdict::Done);
        scene.run(OpKind::Flush, 0, 0);
        let read = scene.send(OpKind::Read, 0, 24);
        scene.answer(|_| Verdict::Waits);
        let slow = scene.waiting.pop().expect("the slots are read");
        assert_eq!((slow.target, slow.command.kind), (slots_on, OpKind::Read), "{scheme}");
        let rotten = slow.command.range.start.0 + 8;
        if scheme == "smart-response" {
            // The drive is busy with the read, so no idle time begins the move.
            scene.volume.drain(scene.now, false);
        }
        scene.pass(Nanoseconds::from_seconds(11), |_| Verdict::Done);
        assert_eq!(scene.volume.view().map.dirty_blocks(), 0, "{scheme}: home has the blocks");
        scene.volume.end_drain(scene.now);
        scene.content[usize::from(slots_on)].insert(rotten, Sector::Rotten(1));
        let new = scene.send(OpKind::Write, 8, 8) as u32;
        scene.answer(|_| Verdict::Done);
        assert_eq!(scene.volume.view().map.dirty_blocks(), 1, "{scheme}: a slot has the newest content");
        scene.waiting.push(slow);
        scene.answer(|_| Verdict::Done);
        assert_eq!(scene.finished[&read].status, Status::Done, "{scheme}");
        let found = scene.finished[&read].payload.iter().collect::<Vec<_>>();
        let request = |sector| if (8..16).contains(&sector) { new } else { old };
        let expected = (0..24).map(|sector| Sector::Data { request: request(sector), sector });
        assert_eq!(found, expected.collect::<Vec<_>>(), "{scheme}");
    }
}
