//! Requests that share a block and no sector of it, as in a stream that is not aligned with the
//! blocks.

mod story;

use bimetal_core::block::{Block, ValidMask};
use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_fault::payload::Tags;
use story::{ALL, HDD, SSD, Story};

const ON_SSD: fn(&Operation<Tags>) -> bool = |operation| operation.target == SSD;

/// Returns a volume whose label says already that it is in use.
fn story(scheme: &'static str, settings: &[(&str, &str)]) -> Story {
    let mut story = Story::new(1, scheme, settings, Bytes::from_mib(4).sectors().0);
    story.write(8000, 1);
    story
}

/// Returns the sectors of the operations of `kind` that wait for a member, as (start, length).
fn waiting(story: &mut Story, member: u16, kind: OpKind) -> Vec<(u64, u64)> {
    story.answer_some(ALL, 0);
    let wanted = story.waiting.iter().filter(|next| next.target == member && next.command.kind == kind);
    wanted.map(|next| (next.command.range.start.0, next.command.range.len.0)).collect()
}

fn valid(story: &mut Story, block: u64) -> ValidMask {
    story.volume().view().map.valid_of(Block(block))
}

/// A disk that gets two operations for adjacent sectors may lose a turn of the platter before the
/// second operation.
#[test]
fn half_cached_block_does_not_split_a_read_of_home() {
    let mut story = story("smart-response", &[]);
    let number = story.write(8, 4);
    let read = story.send(OpKind::Read, 0, 32, false);
    assert_eq!(waiting(&mut story, HDD, OpKind::Read), [(0, 8), (12, 20)]);
    story.answer(ALL);
    assert_eq!(story.finished[&read].status, Status::Done);
    let mut expected = vec![0; 32];
    expected[8..12].fill(number);
    assert_eq!(story.read(0, 32), expected);
}

/// A stream of writes to the disk, each of which ends in the middle of a block, keeps the disk's
/// queue full.
#[test]
fn changes_in_place_run_at_once_in_one_block() {
    let mut story = story("smart-response", &[("write_allocate", "off")]);
    let numbers = [(0, 12), (12, 12), (24, 3)].map(|(start, sectors)| story.send(OpKind::Write, start, sectors, false));
    assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(0, 12), (12, 12), (24, 3)]);
    let overlaps = story.send(OpKind::Write, 11, 2, false);
    assert_eq!(waiting(&mut story, HDD, OpKind::Write).len(), 3, "it waits for both writes before it");
    story.answer(ALL);
    let mut expected = [[numbers[0]; 12], [numbers[1]; 12]].concat();
    expected[11..13].fill(overlaps);
    assert_eq!(story.read(0, 24), expected);
}

/// A slot has the content of both writes only if the second merges with the result of the first.
#[test]
fn writes_to_slots_of_one_block_run_one_by_one() {
    let mut story = story("smart-response", &[("mode", "maximized")]);
    let first = story.send(OpKind::Write, 4, 8, false);
    let second = story.send(OpKind::Write, 12, 8, false);
    assert_eq!(waiting(&mut story, SSD, OpKind::Write).len(), 1);
    story.answer(ALL);
    story.flush();
    story.cut();
    assert_eq!(story.read(4, 16), [[first; 8], [second; 8]].concat());
    assert_eq!(valid(&mut story, 1), ValidMask::ALL);
}

/// A write in place is under way when another write places the block in a slot. The slot holds the
/// eighths of the second write alone, and keeps them when the write in place ends.
#[test]
fn slot_lacks_what_a_write_in_place_is_writing() {
    for mode in ["enhanced", "maximized"] {
        let mut story = story("smart-response", &[("mode", mode), ("stream_bypass", "8KiB")]);
        let in_place = story.send(OpKind::Write, 12, 20, false);
        assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(12, 20)]);
        let in_slot = story.send(OpKind::Write, 8, 4, false);
        story.answer(ON_SSD);
        if mode == "enhanced" {
            let at = story.waiting.iter().position(|next| next.command.range.start.0 == 8);
            let at = at.expect("a write to both drives");
            story.waiting.swap(0, at);
            story.answer_some(ALL, 1);
        }
        assert_eq!(story.finished[&in_slot].status, Status::Done);
        assert_eq!(valid(&mut story, 1), ValidMask(0b1111));
        assert!(!story.finished.contains_key(&in_place));
        story.answer(ALL);
        assert_eq!(valid(&mut story, 1), ValidMask(0b1111), "{mode}: the slot is kept");
        let expected = [vec![in_slot; 4], vec![in_place; 20]].concat();
        assert_eq!(story.read(8, 24), expected);
        story.flush();
        story.cut();
        assert_eq!(story.read(8, 24), expected, "{mode}: after a cut");
    }
}

/// A write to a slot would merge with the copy that a change at home is about to drop.
#[test]
fn slot_waits_for_a_change_at_home_of_its_cached_block() {
    for kind in [OpKind::Write, OpKind::Discard] {
        let mut story = story("smart-response", &[("stream_bypass", "8KiB")]);
        let before = story.write(8, 8);
        let at_home = story.send(kind, 12, 20, false);
        // The SSD records first that its copy may be older than home.
        story.answer(ON_SSD);
        assert_eq!(waiting(&mut story, HDD, kind), [(12, 20)]);
        let in_slot = story.send(OpKind::Write, 8, 2, false);
        assert_eq!(waiting(&mut story, SSD, OpKind::Write), [], "{kind:?}");
        story.answer(ALL);
        let after = if kind == OpKind::Write { at_home } else { 0 };
        assert_eq!(story.read(8, 12), [vec![in_slot; 2], vec![before; 2], vec![after; 8]].concat());
    }
}

/// Writes of 64 KiB that begin in the middle of a block waited for each other wherever the border
/// block had a clean copy, and each of them became two writes.
#[test]
fn changes_at_home_of_one_cached_block_run_at_once() {
    let mut story = story("smart-response", &[("stream_bypass", "8KiB")]);
    story.write(24, 8);
    let first = story.send(OpKind::Write, 8, 20, false);
    let second = story.send(OpKind::Write, 28, 20, false);
    story.answer(ON_SSD);
    assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(8, 20), (28, 20)]);
    story.waiting.swap(0, 1);
    story.answer(ALL);
    let expected = [[first; 20], [second; 20]].concat();
    assert_eq!(story.read(8, 40), expected);
    story.flush();
    story.cut();
    assert_eq!(story.read(8, 40), expected);
}

/// A clean copy is older than home until the last of the writes at home has ended. A slot that
/// merged with the copy before that would bring old content back.
#[test]
fn slot_waits_for_all_changes_at_home_of_its_cached_block() {
    for ends_first in [0, 1] {
        let mut story = story("smart-response", &[("stream_bypass", "8KiB")]);
        let before = story.write(24, 8);
        let first = story.send(OpKind::Write, 8, 18, false);
        let second = story.send(OpKind::Write, 30, 18, false);
        story.answer(ON_SSD);
        let in_slot = story.send(OpKind::Write, 27, 2, false);
        assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(8, 18), (30, 18)]);
        story.waiting.swap(0, ends_first);
        story.answer_some(ALL, 1);
        assert!(story.finished.contains_key(&[first, second][ends_first]));
        assert_eq!(waiting(&mut story, SSD, OpKind::Write), [], "the other write has not ended");
        story.answer(ALL);
        let expected = [vec![first; 18], vec![before], vec![in_slot; 2], vec![before], vec![second; 18]].concat();
        assert_eq!(story.read(8, 40), expected);
        story.flush();
        story.cut();
        assert_eq!(story.read(8, 40), expected);
    }
}

/// Returns true for operations of the disk that begin at `START`.
fn begins_at<const START: u64>(operation: &Operation<Tags>) -> bool {
    operation.target == HDD && operation.command.range.start.0 == START
}

/// Keeps two streams of writes going at home, each of `sectors` from `LEFT` or `RIGHT`, until the
/// request `waiter` ends. Each stream has always a write under way.
fn rewrite_until_ended<const LEFT: u64, const RIGHT: u64>(story: &mut Story, sectors: u64, waiter: u64) {
    for _ in 0..1000 {
        story.answer_some(begins_at::<LEFT>, 1);
        story.send(OpKind::Write, LEFT, sectors, false);
        story.answer(ON_SSD);
        story.answer_some(begins_at::<RIGHT>, 1);
        story.send(OpKind::Write, RIGHT, sectors, false);
        story.answer(ON_SSD);
        story.answer(|next| !begins_at::<LEFT>(next) && !begins_at::<RIGHT>(next));
        if story.finished.contains_key(&waiter) {
            return;
        }
    }
    panic!("request {waiter} still waits after 1000 rounds");
}

/// Two streams rewrite a block's outer parts at home, and its clean copy has the middle. The copy
/// stays, so the writes would share the block for ever while another change needs it alone.
#[test]
fn change_of_a_clean_copy_does_not_wait_for_ever() {
    for kind in [OpKind::Write, OpKind::Discard] {
        let mut story = story("smart-response", &[("stream_bypass", "8KiB")]);
        story.write(27, 2);
        assert_eq!(valid(&mut story, 3), ValidMask(0b11000));
        story.send(OpKind::Write, 8, 18, false);
        story.send(OpKind::Write, 30, 18, false);
        story.answer(ON_SSD);
        assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(8, 18), (30, 18)]);
        let change = story.send(kind, 27, 1, false);
        rewrite_until_ended::<8, 30>(&mut story, 18, change);
    }
}

/// A drained volume sends all writes home, also small ones.
#[test]
fn discard_in_a_drained_volume_does_not_wait_for_ever() {
    let mut story = story("smart-response", &[]);
    story.write(27, 2);
    let now = story.now;
    story.volume().drain(now, false);
    story.answer(ALL);
    story.send(OpKind::Write, 24, 1, false);
    story.send(OpKind::Write, 30, 1, false);
    story.answer(ON_SSD);
    let discard = story.send(OpKind::Discard, 26, 3, false);
    rewrite_until_ended::<24, 30>(&mut story, 1, discard);
}

/// One write at home replaces all that the slot of its last block has. The other write needs that
/// slot, as long as the slot is there.
#[test]
fn write_that_must_merge_waits_for_a_change_at_home() {
    let mut story = story("smart-response", &[("mode", "maximized"), ("stream_bypass", "8KiB")]);
    story.write(28, 4);
    let replaces = story.send(OpKind::Write, 28, 20, false);
    story.answer(ON_SSD);
    let merges = story.send(OpKind::Write, 8, 20, false);
    assert_eq!(waiting(&mut story, HDD, OpKind::Write), [(28, 20), (8, 16)]);
    assert_eq!(waiting(&mut story, SSD, OpKind::Write), []);
    story.answer(ALL);
    assert_eq!(story.read(8, 40), [[merges; 20], [replaces; 20]].concat());
}

/// A write with FUA that has to wait at its last block has written its first block. If it kept that
/// block shared, writes that wait for each other could be a circle.
#[test]
fn write_with_fua_that_waits_shares_no_block() {
    let mut story = story("smart-response", &[("stream_bypass", "8KiB")]);
    story.write(24, 8);
    let cached = story.send(OpKind::Write, 44, 4, false);
    let forced = story.send(OpKind::Write, 28, 16, true);
    let but_of_cached = |next: &Operation<Tags>| next.target == SSD || next.command.range.start.0 != 44;
    story.answer(but_of_cached);
    assert!(!story.finished.contains_key(&forced), "its last block is not alone");
    let in_slot = story.send(OpKind::Write, 24, 2, false);
    story.answer(but_of_cached);
    assert!(story.finished.contains_key(&in_slot), "the first block is free");
    story.answer(ALL);
    assert_eq!(story.read(28, 20), [vec![forced; 16], vec![cached; 4]].concat());
}

/// Zeroes at the end of a block wait until a write has placed the block in a slot, and merge with
/// that write.
#[test]
fn zeroes_wait_for_the_slot_of_their_block() {
    let mut story = story("smart-response", &[("mode", "maximized")]);
    let before = story.write(8, 8);
    let write = story.send(OpKind::Write, 8, 4, false);
    let zeroes = story.send(OpKind::WriteZeroes, 12, 8, false);
    assert_eq!(waiting(&mut story, HDD, OpKind::WriteZeroes), []);
    story.answer(ALL);
    assert_eq!(story.finished[&zeroes].status, Status::Done);
    assert!(before < write);
    assert_eq!(story.read(8, 12), [vec![write; 4], vec![0; 8]].concat());
}

/// A write with FUA was in its slot, and its record on its way, when another write of the block
/// merged its content into a new slot. That slot was not stable when the write with FUA was
/// acknowledged.
#[test]
fn write_with_fua_has_its_block_alone_until_it_is_stable() {
    let mut story = story("smart-response", &[("mode", "maximized")]);
    let forced = story.send(OpKind::Write, 8, 4, true);
    let other = story.send(OpKind::Write, 12, 4, false);
    while !story.finished.contains_key(&forced) {
        assert_eq!(valid(&mut story, 1).without(ValidMask(0b1111)), ValidMask::NONE);
        story.answer_some(ALL, 1);
    }
    story.answer(ALL);
    assert_eq!(story.read(8, 8), [[forced; 4], [other; 4]].concat());
}

/// Content of the first sectors of a volume, and the requests that were sent.
struct Sent {
    /// Number of the last write of each sector; 0 if it was zeroed or never written.
    newest: Vec<u64>,
    /// Reads, as the number, the first sector and the content at arrival.
    reads: Vec<(u64, u64, Vec<u64>)>,
    /// Changes, as the number, the sectors and the content.
    changes: Vec<(u64, std::ops::Range<u64>, u64)>,
}

impl Sent {
    fn send_at_random(&mut self, story: &mut Story) {
        let total = self.newest.len() as u64;
        let start = story.random.below(total);
        let range = start..(start + story.random.between(1, 14)).min(total);
        let sectors = range.start as usize..range.end as usize;
        let kind = story.random.pick(&[OpKind::Write, OpKind::Write, OpKind::Read, OpKind::WriteZeroes]);
        let forced = kind != OpKind::Read && story.random.one_in(4);
        let number = story.send(kind, start, range.end - start, forced);
        if kind == OpKind::Read {
            return self.reads.push((number, start, self.newest[sectors].to_vec()));
        }
        let content = if kind == OpKind::Write { number } else { 0 };
        self.newest[sectors].fill(content);
        self.changes.push((number, range, content));
    }

    /// Checks that each read returned the content at its arrival, or the content of a change that
    /// arrived later.
    fn check_reads(&mut self, story: &Story, what: &str) {
        for (read, start, expected) in self.reads.drain(..) {
            let found = story.found_by(read);
            for (sector, (found, expected)) in (start..).zip(found.into_iter().zip(expected)) {
                let is_later = |(number, range, content): &(u64, std::ops::Range<u64>, u64)| {
                    *number > read && range.contains(&sector) && *content == found
                };
                let is_right = found == expected || self.changes.iter().any(is_later);
                assert!(is_right, "{what}: sector {sector} is of {found}, not of {expected}, in read {read}");
            }
        }
    }
}

/// Lets the drives answer in any order.
fn answer_in_any_order(story: &mut Story) {
    while !story.answer_some(ALL, 0) {
        let count = story.waiting.len() as u64;
        let at = story.random.below(count) as usize;
        story.waiting.swap(0, at);
        story.answer_some(ALL, 1);
    }
}

/// Requests of a few blocks run at once, and the drives answer in any order. Each read returns all
/// changes that arrived before it, and a read after a flush and a power cut returns the flushed
/// changes.
#[test]
fn requests_of_shared_blocks_keep_their_order() {
    let schemes = [
        ("smart-response", [("mode", "enhanced"), ("stream_bypass", "12KiB")].as_slice()),
        ("smart-response", &[("mode", "maximized"), ("stream_bypass", "12KiB")]),
        ("hybrid-disk", &[]),
        ("dataplex", &[]),
        ("hyperduo", &[]),
        ("hddboost", &[]),
        ("bcache", &[]),
        ("smq", &[]),
        ("writeboost", &[]),
        ("griffin", &[("timeout", "1s")]),
    ];
    for (scheme, settings) in schemes {
        for seed in 0..60 {
            let mut story = Story::new(seed, scheme, settings, 6000);
            let mut sent = Sent { newest: vec![0; 44], reads: Vec::new(), changes: Vec::new() };
            for round in 0..8 {
                let what = format!("{scheme} {settings:?}, seed {seed}, round {round}");
                for _ in 0..story.random.between(1, 12) {
                    sent.send_at_random(&mut story);
                    let steps = story.random.below(4);
                    story.answer_some(ALL, steps);
                }
                answer_in_any_order(&mut story);
                sent.check_reads(&story, &what);
                assert_eq!(story.read(0, 44), sent.newest, "{what}");
                if round % 3 == 2 {
                    story.flush();
                    story.cut();
                    assert_eq!(story.read(0, 44), sent.newest, "{what}, after a cut");
                } else {
                    story.pass(Nanoseconds::from_seconds(2), ALL);
                }
            }
        }
    }
}
