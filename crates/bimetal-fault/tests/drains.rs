//! Drains that a power cut interrupts at each of their operations, and volumes whose formatting is
//! interrupted.

mod story;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Drain;
use story::{ALL, Answers, HDD, SSD, Story};

/// A scheme, its settings, and the member whose slots are drained.
type Plan = (&'static str, &'static [(&'static str, &'static str)], u16);

const PLANS: [Plan; 3] = [
    ("griffin", &[("timeout", "off"), ("read_threshold", "off")], HDD),
    ("smart-response", &[("mode", "maximized"), ("idle", "1h")], SSD),
    ("hybrid-disk", &[], SSD),
];
/// Number of power cuts at one operation. Each power cut loses other unflushed changes.
const TIMES: u64 = 6;
/// Largest number of operations of a drain.
const OPERATIONS_MAX: u64 = 2000;

/// Returns a volume with flushed content off home, partly in parts of blocks and partly written
/// twice, and that content.
fn filled(seed: u64, (scheme, settings, _): Plan) -> (Story, Vec<(u64, u64)>) {
    let mut story = Story::new(seed, scheme, settings, 4000);
    let mut content = vec![(0, 0); 480];
    for (start, sectors) in [(0, 64), (100, 8), (103, 3), (200, 40), (16, 8), (205, 1), (400, 24), (410, 2)] {
        let number = story.write(start, sectors);
        (start..start + sectors).for_each(|sector| content[sector as usize] = (sector, number));
    }
    story.flush();
    content.retain(|&(_, number)| number > 0);
    (story, content)
}

fn assert_holds(story: &mut Story, content: &[(u64, u64)], when: &str) {
    for run in content.chunk_by(|one, next| one.0 + 1 == next.0) {
        let numbers: Vec<u64> = run.iter().map(|&(_, number)| number).collect();
        assert_eq!(story.read(run[0].0, run.len() as u64), numbers, "{when}: from sector {}", run[0].0);
    }
}

/// Regression: a drain of a log did not end while a client wrote and flushed. Each write at home
/// near the end of a migration left a record in the log, and the drain migrated this record.
#[test]
fn drain_of_a_log_ends_beside_writes_with_flushes() {
    let all_but_superblocks: Answers = |operation| !(operation.target == HDD && operation.command.fua);
    let mut story = Story::new(1, "griffin", PLANS[0].1, 8000);
    story.write(0, 8);
    story.flush();
    let now = story.now;
    story.volume().drain(now, false);
    for round in 0..200 {
        story.answer(all_but_superblocks);
        story.send(OpKind::Write, 800 + round % 100 * 8, 8, false);
        story.answer(all_but_superblocks);
        story.send(OpKind::Flush, 0, 0, false);
        story.answer(all_but_superblocks);
        story.now += Nanoseconds::from_millis(10);
        let now = story.now;
        if let Some(superblock) = story.waiting.pop_front() {
            let completion = story.apply(superblock);
            story.volume().complete(now, completion);
        }
        story.volume().advance(now);
        if story.volume().drain_progress() == Drain::Done {
            return;
        }
    }
    panic!("{:?}", story.volume().drain_progress());
}

/// Begins a drain and executes `operations` operations of it. Returns true if the drain is done.
fn drain(story: &mut Story, detach: bool, operations: u64) -> bool {
    let now = story.now;
    story.volume().drain(now, detach);
    let mut left = operations;
    // Work that waits for a timer continues when the timer fires.
    for _ in 0..100 {
        let all = story.answer_some(ALL, left);
        if !all {
            return false;
        }
        if story.volume().drain_progress() == Drain::Done {
            return true;
        }
        let Some(at) = story.volume().next_timeout() else { break };
        story.now = story.now.max(at) + Nanoseconds(1);
        let now = story.now;
        story.volume().advance(now);
        left = left.min(OPERATIONS_MAX);
    }
    panic!("a drain of sound drives does not end: {:?}", story.volume().drain_progress());
}

#[test]
fn a_drain_that_is_cut_at_any_operation_resumes() {
    for plan in PLANS {
        for detach in [false, true] {
            let mut at = 0;
            while cut_drain(plan, detach, at) {
                at += 1;
                assert!(at < OPERATIONS_MAX, "{}: a drain without an end", plan.0);
            }
            assert!(at > 5, "{}: a drain of {at} operations is none", plan.0);
        }
    }
}

/// Cuts a drain before its operation number `at`, and a second drain after some operations. Returns
/// false if the first drain ended earlier.
fn cut_drain(plan: Plan, detach: bool, at: u64) -> bool {
    let (scheme, _, slots) = plan;
    for seed in 0..TIMES {
        let (mut story, content) = filled(seed, plan);
        if drain(&mut story, detach, at) {
            return false;
        }
        let when = format!("{scheme}, detach {detach}, seed {seed}, cut at {at}");
        story.cut();
        assert_holds(&mut story, &content, &when);
        if seed > 0 && !drain(&mut story, detach, at * seed / TIMES) {
            story.cut();
            assert_holds(&mut story, &content, &format!("{when}, and again"));
        }
        // A write between two drains is drained, too.
        let last = story.write(480, 8);
        assert!(drain(&mut story, detach, OPERATIONS_MAX), "{when}: the last one ends");
        // The write may have gone home in place, where only a flush makes it stable.
        story.flush();
        story.cut_power();
        story.volume = Some(story.try_to_recover(&[MemberId(slots)]).unwrap_or_else(|error| panic!("{when}: {error}")));
        assert_holds(&mut story, &content, &format!("{when}, home alone"));
        assert_eq!(story.read(480, 8), [last; 8], "{when}, home alone");
    }
    true
}

/// The older content of the drives belongs to a volume of the same number, as after a resize. None
/// of this content is read. A format that a power cut stops is done again. After the second format
/// the volume is empty, and home keeps its content.
#[test]
fn format_cut_by_a_power_cut_is_repeated_and_leaves_empty() {
    for plan in PLANS {
        let (mut all, mut count) = (false, 0);
        while !all {
            for seed in 0..TIMES {
                let (mut story, content) = filled(seed, plan);
                assert!(drain(&mut story, false, OPERATIONS_MAX), "it is drained before");
                story.run(OpKind::Write, 0, 8, true);
                assert!(drain(&mut story, false, OPERATIONS_MAX), "it is drained before");
                let content: Vec<(u64, u64)> = content.into_iter().filter(|&(sector, _)| sector >= 8).collect();
                story.volume = None;
                all = story.format(1000, count);
                story.cut_power();
                // Labels mark the volume as unfinished, so it is never opened, and it is formatted
                // once more.
                story.format(2000, usize::MAX);
                for _ in 0..2 {
                    story.cut();
                    assert_eq!(story.volume().view().map.dirty_blocks(), 0, "{}, {count}", plan.0);
                    assert_holds(&mut story, &content, plan.0);
                }
            }
            count += 1;
        }
    }
}

/// Regression: a part of a block was zeroed while its log was drained, after the block's content
/// had come home. Home was zeroed, and the log's record of the block stayed. When the power was cut
/// before the end of the drain, the older content came back, although the zeroes were flushed.
#[test]
fn zeroes_over_part_of_a_drained_block_survive_a_power_cut() {
    let block = BlockSize::new(Bytes::from_kib(64)).expect("a size of blocks");
    let (mut cuts, mut after_the_move) = (0, 0);
    for operations in 0..OPERATIONS_MAX {
        let mut story = Story::with_blocks(operations, "griffin", PLANS[0].1, 30_000, block);
        let first = story.write(0, 128);
        story.flush();
        let is_done = drain(&mut story, false, operations);
        let is_moved = story.volume().view().map.is_empty();
        let zeroes = story.send(OpKind::WriteZeroes, 0, 8, false);
        let holds_superblocks: Answers = |operation| operation.target != HDD || !operation.command.fua;
        story.answer(holds_superblocks);
        let flush = story.send(OpKind::Flush, 0, 0, false);
        story.answer(holds_superblocks);
        if [zeroes, flush].iter().all(|number| story.finished.contains_key(number)) {
            story.cut();
            let expected = [[0; 8].as_slice(), &[first; 120]].concat();
            assert_eq!(story.read(0, 128), expected, "after {operations} operations of the drain");
            cuts += 1;
            after_the_move += u64::from(is_moved && !is_done);
        }
        if is_done {
            break;
        }
    }
    assert!(after_the_move > 0 && cuts > after_the_move, "{cuts} power cuts, {after_the_move} after the move");
}
