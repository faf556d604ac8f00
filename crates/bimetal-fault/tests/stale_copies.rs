//! A mirror's copy that is old, when the copy that records it cannot be asked: the old copy is
//! never read in silence.

mod story;

use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::scheme::MemberState;
use bimetal_core::volume::{Recovery, RecoveryError, Volume};
use bimetal_fault::drive::Plan;
use bimetal_fault::payload::Tags;
use story::{ALL, Story};

/// Returns a mirror whose copy `old` refused a write and was taken out, and the number of a write
/// that only the other copy has, flushed.
fn with_an_old_copy(old: u16) -> (Story, u64) {
    let mut story = Story::new(0, "raid1", &[], 4000);
    story.write(0, 8);
    story.flush();
    story.drives[usize::from(old)].replace_plan(Plan {
        refuses_from: Some(0),
        refuses_flushes: true,
        ..Plan::default()
    });
    let newest = story.write(0, 8);
    story.flush();
    assert_eq!(story.volume().view().member(MemberId(old)).state, MemberState::Failed);
    let now = story.now;
    story.volume().close(now);
    story.answer(ALL);
    story.drives[usize::from(old)].replace_plan(Plan::default());
    story.volume = None;
    (story, newest)
}

/// Recovers; an operation that `fails` selects ends with its status.
fn recover_failing(
    story: &mut Story,
    mut fails: impl FnMut(&Operation<Tags>) -> Option<Status>,
) -> Result<Volume<Tags>, RecoveryError> {
    let mut recovery = Recovery::new(&story.config(), &[]).unwrap();
    while let Some(operation) = recovery.next_operation() {
        let token = operation.token;
        let completion = match fails(&operation) {
            Some(status) => Completion { token, status, payload: Tags::default() },
            None => story.apply(operation),
        };
        recovery.complete(completion);
    }
    recovery.finish()
}

/// Asserts that a read has failed or has found the newest content.
fn assert_newest_or_failed(story: &mut Story, read: u64, newest: u64, what: &str) {
    let is_done = story.finished[&read].status == Status::Done;
    assert!(!is_done || story.found_by(read) == [newest; 8], "{what}: {:?} is read", story.found_by(read));
}

/// Checks that a start refused, or that its volume has the newest content. Then the drives are
/// sound again, and the next start has the newest content.
fn assert_newest_or_refused(story: &mut Story, outcome: Result<Volume<Tags>, RecoveryError>, newest: u64, what: &str) {
    if let Ok(volume) = outcome {
        story.volume = Some(volume);
        let read = story.send(OpKind::Read, 0, 8, false);
        story.answer(ALL);
        assert_newest_or_failed(story, read, newest, what);
        story.cut();
    } else {
        story.recover();
    }
    assert_eq!(story.read(0, 8), [newest; 8], "{what}: later");
}

/// The copy with the newest content cannot be read for a time.
#[test]
fn old_copy_is_not_read_where_the_newest_cannot_be_read() {
    for old in 0..2 {
        let (mut story, newest) = with_an_old_copy(old);
        let outcome = recover_failing(&mut story, |operation| {
            (operation.target != old && operation.command.kind == OpKind::Read).then_some(Status::MediaError)
        });
        assert_newest_or_refused(&mut story, outcome, newest, &format!("copy {old} is old"));
    }
}

/// The copy with the newest content vanishes while the volume starts, before it was asked for its
/// state.
#[test]
fn old_copy_is_not_read_where_the_newest_vanishes_at_the_start() {
    for old in 0..2 {
        for after in 0..6 {
            let (mut story, newest) = with_an_old_copy(old);
            let mut count = 0;
            let outcome = recover_failing(&mut story, |operation| {
                count += u32::from(operation.target != old);
                (operation.target != old && count > after).then_some(Status::Gone)
            });
            let what = format!("copy {old} is old, the other vanishes after {after} operations");
            assert_newest_or_refused(&mut story, outcome, newest, &what);
        }
    }
}

/// Both copies of one turn of the newest state are damaged: the state may have said that the other
/// copy is old.
#[test]
fn old_copy_is_not_read_where_a_turn_of_the_newest_is_damaged() {
    for old in 0..2 {
        for turn in 0..2 {
            let (mut story, newest) = with_an_old_copy(old);
            let layout = Volume::<Tags>::new(&story.config()).unwrap().view().layout.clone();
            let bad = [0, 1].map(|copy| layout.state_place(MemberId(1 - old), turn, copy));
            let outcome = recover_failing(&mut story, |operation| {
                let is_bad = bad.iter().any(|bad| bad.overlaps(operation.command.range));
                (operation.target != old && operation.command.kind == OpKind::Read && is_bad)
                    .then_some(Status::MediaError)
            });
            assert_newest_or_refused(&mut story, outcome, newest, &format!("copy {old} is old, turn {turn}"));
        }
    }
}

/// One drive of a mirror cannot write zeroes (or not in this range), and the other can. The copies
/// must not differ in silence.
#[test]
fn zeroes_that_one_copy_does_not_support_leave_equal_copies() {
    for cannot in 0..2 {
        let mut story = Story::new(0, "raid1", &[], 4000);
        story.write(0, 8);
        story.flush();
        let zeroes = story.send(OpKind::WriteZeroes, 0, 8, false);
        while !story.answer_some(ALL, 0) {
            let Some(operation) = story.waiting.pop_front() else { break };
            let (now, token) = (story.now, operation.token);
            let completion = match operation.target == cannot && operation.command.kind == OpKind::WriteZeroes {
                true => Completion { token, status: Status::Unsupported, payload: Tags::default() },
                false => story.apply(operation),
            };
            story.volume().complete(now, completion);
        }
        let status = story.finished[&zeroes].status;
        let first = story.read(0, 8);
        story.flush();
        let mut other = Vec::new();
        for asked in 0..2 {
            let read = story.send(OpKind::Read, 0, 8, false);
            story.answer_failing(|operation| operation.target == asked && operation.command.kind == OpKind::Read);
            if story.finished[&read].status == Status::Done {
                other.push(story.found_by(read));
            }
        }
        assert!(
            other.iter().all(|other| *other == first),
            "member {cannot} cannot zero ({status:?}): {first:?} was read first, then {other:?}"
        );
    }
}

/// Flushes while copy 0 fails its flush and drops the content that was not stable: `old` is what it
/// has again. Copy 0 is taken out, and the flush is answered.
fn flush_that_copy_0_drops(story: &mut Story, old: &[bimetal_fault::payload::Sector]) {
    let flush = story.send(OpKind::Flush, 0, 0, false);
    story.answer(|operation| operation.target == 1 || operation.command.kind == OpKind::Write);
    let at = story.waiting.iter().position(|operation| operation.command.kind == OpKind::Flush).expect("a flush");
    let operation = story.waiting.remove(at).unwrap();
    assert_eq!(operation.target, 0);
    (0..).zip(old).for_each(|(at, sector)| story.drives[0].replace(at, sector.clone()));
    let now = story.now;
    story
        .volume()
        .complete(now, Completion { token: operation.token, status: Status::MediaError, payload: Tags::default() });
    story.answer(|operation| operation.target == 1);
    assert_eq!(story.finished[&flush].status, Status::Done);
    assert_eq!(story.volume().view().member(MemberId(0)).state, MemberState::Failed);
}

/// A read is under way on a copy when the copy fails a flush and drops content. The copy is taken
/// out before the read ends.
#[test]
fn read_of_a_copy_that_is_taken_out_does_not_count() {
    let mut story = Story::new(0, "raid1", &[], 4000);
    story.write(0, 8);
    story.flush();
    let old: Vec<_> = (0..8).map(|at| story.drives[0].content(at)).collect();
    let newest = story.write(0, 8);
    let read = story.send(OpKind::Read, 0, 8, false);
    story.answer_some(ALL, 0);
    let of_copy_0 = |operation: &Operation<Tags>| operation.target == 0 && operation.command.kind == OpKind::Read;
    let at = story.waiting.iter().position(of_copy_0).expect("copy 0 is read");
    let held = story.waiting.remove(at).unwrap();
    flush_that_copy_0_drops(&mut story, &old);
    let completion = story.apply(held);
    let now = story.now;
    story.volume().complete(now, completion);
    story.answer(ALL);
    assert_newest_or_failed(&mut story, read, newest, "taken out");
}

/// A scrub reads a copy when the copy fails a flush and drops content, and the other copy cannot be
/// read for a moment. The other copy must not get the old content.
#[test]
fn scrub_does_not_repair_from_a_copy_that_is_taken_out() {
    let mut story = Story::new(0, "raid1", &[], 4000);
    story.write(0, 8);
    story.flush();
    let old: Vec<_> = (0..8).map(|at| story.drives[0].content(at)).collect();
    let newest = story.write(0, 8);
    let now = story.now;
    story.volume().scrub(now, None);
    let of_block =
        |operation: &Operation<Tags>| operation.command.kind == OpKind::Read && operation.command.range.start.0 == 0;
    story.answer(|operation| !(operation.command.kind == OpKind::Read && operation.command.range.start.0 == 0));
    assert_eq!(story.waiting.iter().filter(|operation| of_block(operation)).count(), 2, "both copies are read");
    let at = story.waiting.iter().position(|operation| operation.target == 0).unwrap();
    let held = story.waiting.remove(at).unwrap();
    let at = story.waiting.iter().position(|operation| operation.target == 1).unwrap();
    let other = story.waiting.remove(at).unwrap();
    flush_that_copy_0_drops(&mut story, &old);
    let completion = story.apply(held);
    let now = story.now;
    story.volume().complete(now, completion);
    let token = other.token;
    story.volume().complete(now, Completion { token, status: Status::MediaError, payload: Tags::default() });
    // The read of the block alone fails, too.
    let mut failures = 0;
    story.answer_failing(|operation| {
        let fails = operation.target == 1
            && operation.command.kind == OpKind::Read
            && operation.command.range.start.0 == 0
            && failures < 4;
        failures += u32::from(fails);
        fails
    });
    let read = story.send(OpKind::Read, 0, 8, false);
    story.answer(ALL);
    assert_newest_or_failed(&mut story, read, newest, "taken out");
}

/// The newest copy records that the other copy is old, and no state of the old copy can be read.
/// The old copy is not needed.
#[test]
fn old_copy_without_a_state_is_not_needed() {
    for old in 0..2 {
        let (mut story, newest) = with_an_old_copy(old);
        let outcome = recover_failing(&mut story, |operation| {
            (operation.target == old && operation.command.kind == OpKind::Read).then_some(Status::MediaError)
        });
        story.volume = Some(outcome.unwrap_or_else(|error| panic!("copy {old}: {error}")));
        assert_eq!(story.read(0, 8), [newest; 8]);
    }
}
