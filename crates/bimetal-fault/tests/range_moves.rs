//! Ranges that change their homes while drives fail.

mod story;

use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::damage::Structure;
use bimetal_fault::payload::Tags;
use story::{ALL, Answers, HDD, SSD, Story, flip_bit, pages};

/// Sectors of a range of 64 KiB.
const RANGE: u64 = 128;
const RANGES: u64 = 110;
/// First sector of a range that is at home on the HDD at first.
const ON_HDD: u64 = 100 * RANGE;

fn combo(range: &str, repeat: &str) -> Story {
    let settings =
        [("strategy", "frequency"), ("range", range), ("period", "10s"), ("idle", "1ms"), ("repeat", repeat)];
    Story::new(1, "combo", &settings, 8000)
}

/// Returns a volume that is about to move a range that is often read to the SSD. Range n has the
/// content of request n + 1.
fn combo_with_a_hot_range(repeat: &str) -> Story {
    let mut story = combo("64KiB", repeat);
    for range in 0..RANGES {
        story.write(range * RANGE, 8);
    }
    story.flush();
    for _ in 0..20 {
        story.read(ON_HDD, 8);
    }
    story
}

/// Lets time pass. The operations that `fails` selects end with an error of the medium.
fn pass_failing(story: &mut Story, time: Nanoseconds, mut fails: impl FnMut(&Operation<Tags>) -> bool) {
    let end = story.now + time;
    story.answer_failing(&mut fails);
    while let Some(at) = story.volume().next_timeout().filter(|&at| at <= end) {
        story.now = story.now.max(at);
        let now = story.now;
        story.volume().advance(now);
        story.answer_failing(&mut fails);
    }
    story.now = story.now.max(end);
}

/// The HDD refused the write of the second copy of a page of the table of places. The range served
/// from its new place, and the witness kept the digest of the table before. Once the first copy of
/// the page was damaged, the second copy fitted the digest, and the range was read from its old
/// place.
#[test]
fn range_whose_second_copy_was_refused_never_comes_back_old() {
    // The first move takes a range out of the SSD, and the second move brings the hot range.
    for nth in 0..2 {
        let mut story = combo_with_a_hot_range("off");
        let table = pages(&mut story, Structure::Places);
        let (second, mut moves, mut fails) = (table[1].sector, 0, false);
        pass_failing(&mut story, Nanoseconds::from_seconds(30), |operation| {
            let Operation { target, command, .. } = operation;
            let is_second = *target == HDD && command.kind == OpKind::Write && command.range.start.0 == second;
            if is_second && !fails {
                fails = moves == nth;
                moves += 1;
            }
            is_second && fails
        });
        assert!(fails, "the second copy was written");
        let mut written = Vec::new();
        for range in 0..RANGES {
            let write = story.send(OpKind::Write, range * RANGE, 8, false);
            story.answer(ALL);
            written.push((range, write));
        }
        written.retain(|(_, write)| story.finished[write].status == Status::Done);
        let flush = story.send(OpKind::Flush, 0, 0, false);
        story.answer(ALL);
        story.cut_power();
        flip_bit(&mut story, &table[0], 100);
        let Ok(volume) = story.try_to_recover(&[]) else { continue };
        story.volume = Some(volume);
        assert_eq!(story.finished[&flush].status, Status::Done);
        for (range, write) in written {
            assert_eq!(story.read(range * RANGE, 8), [write; 8], "move {nth}, range {range}");
        }
    }
}

/// A power cut left the table of places one version ahead of the digest. At the next start the
/// witness was slow to refuse writes, and a move began meanwhile. The table became two versions
/// ahead: the volume was refused for good, although no page was damaged.
#[test]
fn table_is_never_two_versions_ahead_of_a_witness() {
    const BUT_WRITES_OF_THE_SSD: Answers =
        |operation| operation.target != SSD || operation.command.kind != OpKind::Write;
    for steps in 0.. {
        let mut story = combo_with_a_hot_range("on");
        let is_over = story.pass_some(Nanoseconds::from_seconds(20), steps);
        story.cut();
        for _ in 0..20 {
            let read = story.send(OpKind::Read, 105 * RANGE, 8, false);
            story.answer(BUT_WRITES_OF_THE_SSD);
            assert!(story.finished.contains_key(&read));
        }
        story.pass(Nanoseconds::from_seconds(30), BUT_WRITES_OF_THE_SSD);
        story.answer_failing(|operation| !BUT_WRITES_OF_THE_SSD(operation));
        story.cut_power();
        let recovered = story.try_to_recover(&[]);
        story.volume = Some(recovered.unwrap_or_else(|error| panic!("cut after {steps} operations: {error}")));
        if is_over {
            return;
        }
    }
}

/// Reads are under way on all ranges of the SSD while one of the ranges leaves and another range
/// comes. The reads find the content of their own ranges.
#[test]
fn place_that_is_read_gets_no_other_range() {
    let mut story = combo_with_a_hot_range("off");
    let places = story.volume().view().layout.places.as_ref().unwrap();
    let (on_ssd, _) = places.held_by(MemberId(SSD));
    let reads: Vec<(u64, u64)> =
        (0..u64::from(on_ssd)).map(|range| (range, story.send(OpKind::Read, range * RANGE, 8, false))).collect();
    story.answer_some(ALL, 0);
    let held: Vec<Operation<Tags>> = story.waiting.drain(..).collect();
    assert!(held.len() == reads.len() && held.iter().all(|operation| operation.target == SSD));
    story.pass(Nanoseconds::from_seconds(30), ALL);
    assert!(story.volume().statistics().relocated_ranges >= 2, "two ranges moved");
    story.write(ON_HDD, 8);
    story.flush();
    for operation in held {
        let completion = story.apply(operation);
        let now = story.now;
        story.volume().complete(now, completion);
    }
    story.answer(ALL);
    for (range, read) in reads {
        assert_eq!(story.found_by(read), [range + 1; 8], "range {range}");
    }
}

/// A client's flush fails while a range is being written to its new place, and the drive drops what
/// was written. The move's own flush comes later and succeeds: it proves nothing.
#[test]
fn move_begins_anew_where_a_flush_failed_amid_its_writes() {
    /// Sectors of a range of 1 MiB, and of one operation of a move.
    const LONG: u64 = 2048;
    const HALF: u64 = LONG / 2;
    const BUT_MOVES: Answers =
        |operation| !(operation.command.kind == OpKind::Write && operation.command.range.len.0 == HALF);
    let mut story = combo("1MiB", "off");
    let ranges = story.volume().view().layout.total_blocks() * 8 / LONG;
    let written: Vec<u64> = (0..ranges).map(|range| story.run(OpKind::Write, range * LONG, LONG, false)).collect();
    story.flush();
    for _ in 0..20 {
        story.read((ranges - 1) * LONG, 8);
    }
    story.pass(Nanoseconds::from_seconds(30), BUT_MOVES);
    let halves: Vec<Operation<Tags>> = story.waiting.drain(..).collect();
    let [first, second] = halves.try_into().expect("a move is writing a range in two operations");
    let (member, start) = (usize::from(first.target), first.command.range.start.0);
    let old: Vec<_> = (start..start + HALF).map(|at| story.drives[member].content(at)).collect();
    let completion = story.apply(first);
    let now = story.now;
    story.volume().complete(now, completion);
    story.send(OpKind::Flush, 0, 0, false);
    story.answer_some(ALL, 0);
    let flush = story.waiting.pop_front().expect("the member is flushed");
    assert!(flush.command.kind == OpKind::Flush && usize::from(flush.target) == member);
    (start..).zip(old).for_each(|(at, sector)| story.drives[member].replace(at, sector));
    let failed = Completion { token: flush.token, status: Status::MediaError, payload: Tags::default() };
    story.volume().complete(now, failed);
    let completion = story.apply(second);
    story.volume().complete(now, completion);
    story.answer(ALL);
    story.pass(Nanoseconds::from_seconds(30), ALL);
    assert!(story.volume().statistics().relocated_ranges > 0, "the move was made in the end");
    for (range, number) in (0..).zip(written) {
        assert_eq!(story.read(range * LONG, LONG), vec![number; LONG as usize], "range {range}");
    }
}
