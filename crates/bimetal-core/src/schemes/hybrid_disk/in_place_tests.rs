//! `in_place=on`: a page keeps its place on flash, without a journal.

use crate::block::Block;
use crate::block_map::Slot;
use crate::operation::{Completion, OpKind, Status, Token};
use crate::payload::NoPayload;
use crate::testing::Bench;
use crate::units::{Bytes, Nanoseconds};

const IN_PLACE: (&str, &str) = ("in_place", "on");

fn slot(bench: &Bench, block: u64) -> Option<Slot> {
    bench.volume.view().map.get(Block(block)).map(|(slot, _)| slot)
}

fn is_dirty(bench: &Bench, block: u64) -> bool {
    bench.volume.view().map.get(Block(block)).is_some_and(|(_, entry)| entry.dirty)
}

fn fill(bench: &mut Bench) -> u64 {
    let slots = u64::from(bench.volume.view().map.slots());
    (0..slots).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
    assert_eq!(bench.volume.view().free_slots, 0);
    bench.take_log();
    slots
}

/// Konanki, section 3.3: flash has the newest content of each of its pages, at one place.
#[test]
fn overwritten_page_keeps_its_slot_in_place() {
    for (in_place, kept) in [("on", true), ("off", false)] {
        let mut bench = Bench::new("hybrid-disk", &[("in_place", in_place)]);
        [0, 8, 800].into_iter().for_each(|at| bench.request(OpKind::Write, at, 8));
        let before = [0, 1, 100].map(|block| slot(&bench, block));
        (0..9).for_each(|_| bench.request(OpKind::Write, 8, 8));
        assert_eq!([0, 1, 100].map(|block| slot(&bench, block)) == before, kept, "in_place={in_place}");
        assert_eq!(bench.volume.view().map.len(), 3);
    }
}

#[test]
fn volume_in_place_writes_no_journal() {
    for (in_place, expected) in [("on", true), ("off", false)] {
        let settings = [("in_place", in_place), ("flush", "partial")];
        let mut bench = Bench::new("hybrid-disk", &settings);
        let slots = fill(&mut bench);
        (0..4 * slots).for_each(|at| bench.request(OpKind::Write, at * 8, 8));
        bench.request(OpKind::Flush, 0, 0);
        let metadata: Bytes = bench.volume.statistics().metadata_bytes.iter().copied().sum();
        assert_eq!(metadata == Bytes::ZERO, expected, "in_place={in_place}: {metadata}");
        assert_eq!(bench.volume.statistics().checkpoints == 0, expected, "in_place={in_place}");
    }
}

/// Sectors of a page that are not overwritten need neither a read nor a second write.
#[test]
fn partial_overwrite_in_place_writes_only_its_sectors() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE]);
    bench.request(OpKind::Write, 0, 24);
    bench.request(OpKind::Write, 10, 3);
    bench.request(OpKind::Write, 6, 12);
    assert_eq!(bench.take_log(), ["ssd write 24", "ssd write 3", "ssd write 12"]);
    bench.request(OpKind::Write, 802, 3);
    bench.request(OpKind::Read, 800, 8);
    assert_eq!(bench.take_log(), ["ssd write 3", "ssd read 8", "hdd read 2", "hdd read 3"], "the rest is on the disk");
}

#[test]
fn full_flash_takes_overwrites_in_place_without_a_flush() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE]);
    let slots = fill(&mut bench);
    (0..slots).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
    assert_eq!(bench.volume.statistics().migrations.count, 0);
    // The first half of the request has pages; the other half makes the flash flush.
    bench.request(OpKind::Write, (slots - 4) * 8, 64);
    assert_eq!((bench.volume.statistics().migrations.count, bench.volume.view().map.len()), (1, 4));
}

/// The overwrite waits for the batch of the move that has the page. If the overwrite did not wait,
/// the block map would drop the newest version together with the old version.
#[test]
fn overwrite_in_place_waits_for_the_move_of_its_page() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("flush", "periodic"), ("period", "10s")]);
    bench.request(OpKind::Write, 0, 8);
    bench.take_log();
    // The period is over, so the page is being written home.
    let mut moving = None;
    for second in 1..=20 {
        bench.volume.advance(Nanoseconds::from_seconds(second));
        moving = bench.volume.next_operation();
        if moving.is_some() {
            break;
        }
    }
    let read = moving.expect("the move reads its page").token;
    let write = bench.volume.view().now;
    bench.submit_at(write, OpKind::Write, 0, 8);
    assert!(bench.volume.next_operation().is_none(), "the page is being moved");
    bench.answer_at(write, read);
    bench.serve();
    assert!(bench.volume.next_finished().is_some());
    assert!(is_dirty(&bench, 0), "home has the version before");
}

/// A move passes over a page that a write is changing.
#[test]
fn move_waits_for_the_overwrite_in_place() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("flush", "periodic"), ("period", "10s")]);
    bench.request(OpKind::Write, 0, 8);
    bench.take_log();
    bench.submit(0, OpKind::Write, 0, 8);
    let writing = bench.volume.next_operation().expect("a write to flash").token;
    let late = Nanoseconds::from_seconds(30);
    bench.volume.advance(late);
    assert!(bench.volume.view().moving && bench.volume.next_operation().is_none());
    bench.answer_at(late, writing);
    bench.serve();
    assert_eq!(bench.take_log(), ["ssd read 8", "hdd write 8", "hdd flush 0"]);
    assert!(!is_dirty(&bench, 0));
}

/// A clean copy is not evicted while a write makes it newer than home.
#[test]
fn clean_page_is_not_evicted_while_it_is_overwritten() {
    let settings = [IN_PLACE, ("flush", "periodic"), ("period", "10s")];
    let mut bench = Bench::new("hybrid-disk", &settings);
    let slots = fill(&mut bench);
    bench.pass(Nanoseconds::from_seconds(30));
    assert_eq!(bench.volume.view().map.dirty_blocks(), 0, "all copies are clean");
    bench.take_log();
    bench.submit(0, OpKind::Write, 0, 8);
    let first: Token = bench.volume.next_operation().expect("a write to flash").token;
    // Each write needs a slot, and page 0 was used longest ago.
    (0..slots - 1).for_each(|at| {
        bench.submit(0, OpKind::Write, (slots + at) * 8, 8);
    });
    bench.serve();
    assert!(is_dirty(&bench, 0), "in its slot until the write ends");
    bench.answer(first);
    bench.serve();
    assert!(is_dirty(&bench, 0) || bench.take_log().contains(&"hdd write 8".to_owned()));
    assert_eq!(bench.volume.requests_under_way(), 0);
}

/// Partial flush with the least recently used victim: a page that was overwritten is not the next.
#[test]
fn overwritten_page_in_place_counts_as_used() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("flush", "partial")]);
    let slots = fill(&mut bench);
    bench.request(OpKind::Write, 0, 8);
    bench.request(OpKind::Write, slots * 8, 8);
    assert!(slot(&bench, 0).is_some() && slot(&bench, 1).is_none(), "page 1 was used longest ago");
}

/// Regression: a page was dirty from the start of its overwrite, but the scheme learned it at the
/// end. The period seemed to be over already, so the page was flushed at once. The period begins
/// with the overwrite, however long all pages were clean before.
#[test]
fn overwritten_page_in_place_stays_dirty_for_a_period() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("flush", "periodic"), ("period", "10s")]);
    bench.request(OpKind::Write, 0, 8);
    bench.pass(Nanoseconds::from_seconds(100));
    assert!(!is_dirty(&bench, 0));
    bench.request(OpKind::Write, 0, 8);
    bench.pass(Nanoseconds::from_seconds(9));
    assert!(is_dirty(&bench, 0));
    bench.pass(Nanoseconds::from_seconds(2));
    assert!(!is_dirty(&bench, 0));
}

/// An hour's share of 24 MiB a day is 256 pages.
#[test]
fn overwrites_in_place_use_up_the_wear_budget() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("admission", "wear-budget:24MiB/d")]);
    (0..600).for_each(|_| bench.request(OpKind::Write, 0, 8));
    let written = bench.volume.statistics().written_blocks_to_slots;
    assert!((200..300).contains(&written), "{written} pages");
}

/// A write waits for as many slots as it has pages that are not on flash.
#[test]
fn write_beside_a_page_in_place_frees_one_slot() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE, ("flush", "partial")]);
    let slots = u64::from(bench.volume.view().map.slots());
    (2..=slots).chain([1]).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
    assert_eq!(bench.volume.view().free_slots, 0);
    bench.request(OpKind::Write, 0, 16);
    assert_eq!(bench.volume.statistics().migrations.blocks, 1);
    assert!(slot(&bench, 0).is_some() && slot(&bench, 1).is_some() && slot(&bench, 2).is_none());
}

/// A failed overwrite does not free the slot of its page, which is still in the block map.
#[test]
fn failed_overwrite_in_place_keeps_the_slot() {
    let mut bench = Bench::new("hybrid-disk", &[IN_PLACE]);
    [0, 80].into_iter().for_each(|at| bench.request(OpKind::Write, at, 8));
    let (before, free) = (slot(&bench, 0), bench.volume.view().free_slots);
    bench.submit(0, OpKind::Write, 0, 8);
    let token = bench.volume.next_operation().expect("a write to flash").token;
    let now = bench.volume.view().now;
    bench.volume.complete(now, Completion { token, status: Status::MediaError, payload: NoPayload });
    bench.serve();
    let finished = bench.volume.next_finished().expect("the write is tried again");
    assert_eq!((finished.status, slot(&bench, 0)), (Status::Done, before));
    assert_eq!(bench.volume.view().free_slots, free);
    bench.request(OpKind::Write, 160, 8);
    assert!(slot(&bench, 20) != before && is_dirty(&bench, 0));
}

/// All policies and flushes serve pages that are overwritten again and again, with slow drives.
/// Every request ends, and the number of slots in use matches the block map.
#[test]
fn every_flush_and_victim_serves_pages_in_place() {
    use crate::policies::replacement;
    for flush in ["full", "partial", "watermark", "idle", "periodic"] {
        for victim in replacement::NAMES.iter().filter(|&&victim| victim != "belady") {
            let settings = [IN_PLACE, ("flush", flush), ("victim", victim), ("period", "2s"), ("idle", "500ms")];
            let mut bench = Bench::new("hybrid-disk", &settings);
            bench.takes = [Nanoseconds::from_micros(300), Nanoseconds::from_millis(2)];
            let slots = u64::from(bench.volume.view().map.slots());
            let mut number = 1u64;
            for round in 0..40 {
                for _ in 0..slots / 4 {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (block, len) = ((number >> 33) % (2 * slots), 1 + (number >> 20) % 20);
                    let kind = if (number >> 60).is_multiple_of(4) { OpKind::Read } else { OpKind::Write };
                    bench.submit(0, kind, block * 8 + (number >> 50) % 8, len);
                }
                bench.serve();
                if round % 8 == 7 {
                    bench.pass(Nanoseconds::from_seconds(3));
                }
                while bench.volume.next_finished().is_some() {}
            }
            assert_eq!(bench.volume.requests_under_way(), 0, "{flush} {victim}");
            let view = bench.volume.view();
            let taken = u64::from(view.map.slots()) - view.free_slots - view.freeing_slots;
            assert_eq!(taken, view.map.len(), "{flush} {victim}: slots are lost");
        }
    }
}
