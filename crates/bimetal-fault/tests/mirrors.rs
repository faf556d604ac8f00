//! Mirrors with a copy that refuses writes, returns with old content, or is absent. An old copy is
//! never read.

mod story;

use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Status};
use bimetal_core::scheme::MemberState;
use bimetal_core::volume::Recovery;
use bimetal_fault::drive::Plan;
use bimetal_fault::payload::Tags;
use story::{ALL, Story};

const REFUSES: Plan = Plan {
    read_error: 0,
    write_error: 0,
    short: 0,
    flush_error: 0,
    forgets: false,
    stuck: 0,
    no_discard: false,
    refuses_from: Some(0),
    refuses_flushes: true,
    lie: None,
};

fn mirror(seed: u64) -> Story {
    Story::new(seed, "raid1", &[], 4000)
}

/// Returns a mirror whose copies may differ in eight sectors once the power is cut.
fn mirror_with_unflushed_write(seed: u64) -> Story {
    let mut story = mirror(seed);
    story.write(0, 8);
    story.flush();
    story.write(0, 8);
    story
}

impl Story {
    fn plan(&mut self, member: u16, plan: Plan) {
        self.drives[usize::from(member)].replace_plan(plan);
    }

    /// Recovers while `member` fails its second flush, the one after the copies were made equal.
    fn recover_failing_second_flush(&mut self, member: u16) {
        let mut recovery = Recovery::new(&self.config(), &[]).unwrap();
        let mut flushes = 0;
        while let Some(operation) = recovery.next_operation() {
            flushes += u32::from(operation.target == member && operation.command.kind == OpKind::Flush);
            let token = operation.token;
            let completion = match flushes == 2 && operation.command.kind == OpKind::Flush {
                true => Completion { token, status: Status::MediaError, payload: Tags::default() },
                false => self.apply(operation),
            };
            recovery.complete(completion);
        }
        assert!(flushes >= 2, "member {member} was flushed {flushes} times");
        self.volume = Some(recovery.finish().unwrap());
    }

    fn status(&self, request: u64) -> Option<Status> {
        self.finished.get(&request).map(|finished| finished.status)
    }

    fn state(&mut self, member: u16) -> MemberState {
        self.volume().view().member(MemberId(member)).state
    }
}

/// Copy A is marked failed because it refuses a write, and copy B records the failure. Then B
/// refuses writes and flushes, and the power is cut. Recovery flushes all members first. B cannot
/// be flushed, and only B has the record that A is old.
#[test]
fn old_copy_is_not_read_where_the_newest_refuses_flushes() {
    for old in 0..2 {
        let newest = 1 - old;
        let mut story = mirror(0);
        story.write(0, 8);
        story.flush();
        story.plan(old, REFUSES);
        let written = story.write(0, 8);
        story.flush();
        assert_eq!(story.state(old), MemberState::Failed);
        story.plan(old, Plan::default());
        story.plan(newest, REFUSES);
        story.cut();
        assert_eq!(story.read(0, 8), [written; 8], "member {old} has what was there before");
        assert_eq!((story.state(old), story.state(newest)), (MemberState::Failed, MemberState::ReadOnly));
    }
}

/// Copies A and B are good when A begins to refuse writes and flushes. B serves, with all flushed
/// content.
#[test]
fn copy_that_refuses_flushes_is_left_out_where_another_is_good() {
    for refusing in 0..2 {
        for seed in 0..20 {
            let mut story = mirror(seed);
            let kept = story.write(0, 8);
            story.flush();
            let doubtful = story.write(80, 8);
            story.plan(refusing, REFUSES);
            story.cut();
            let read = story.read(80, 8);
            assert!(read.iter().all(|number| [0, doubtful].contains(number)), "{read:?}");
            let newest = story.write(800, 8);
            // The first flush reports the flush that recovery could not do.
            story.send(OpKind::Flush, 0, 0, false);
            story.answer(ALL);
            story.flush();
            assert_eq!(story.state(refusing), MemberState::Failed);
            story.plan(refusing, Plan::default());
            story.cut();
            assert_eq!(story.state(refusing), MemberState::Failed, "the other copy says so");
            assert_eq!(story.read(0, 8), [kept; 8]);
            assert_eq!(story.read(80, 8), read, "what was read stays");
            assert_eq!(story.read(800, 8), [newest; 8]);
        }
    }
}

/// Copy A is absent for one recovery epoch of the volume, and comes back. The copies then differ in
/// unflushed content. A value that was read in the meantime must stay. To keep this value, copy B
/// must record that A is old before anything is read.
#[test]
fn what_is_read_while_a_copy_is_absent_stays_when_it_is_back() {
    let mut waited = 0;
    for seed in 0..100 {
        for absent in 0..2 {
            let mut story = mirror(seed);
            story.write(0, 8);
            story.cut_power();
            story.volume = Some(story.try_to_recover(&[MemberId(absent)]).unwrap());
            let read = story.send(OpKind::Read, 0, 8, false);
            story.answer(|operation| operation.command.kind == OpKind::Read);
            let early = story.finished.contains_key(&read);
            waited += u32::from(!early);
            if !early {
                story.answer(ALL);
            }
            let seen = story.finished[&read].payload.clone();
            story.cut();
            let read = story.send(OpKind::Read, 0, 8, false);
            story.answer(ALL);
            assert_eq!(story.finished[&read].payload, seen, "seed {seed}, without member {absent}");
        }
    }
    assert_eq!(waited, 200, "nothing is read before it is known which copy is old");
}

/// Copy A refuses a write that copy B takes, and then B cannot record that A is old. Without that
/// record, it would be unknown after a crash that A is old. So neither the write nor a later flush
/// is acknowledged.
#[test]
fn write_fails_where_no_copy_can_say_that_the_other_is_old() {
    for old in 0..2 {
        let newest = 1 - old;
        let mut story = mirror(0);
        let before = story.write(0, 8);
        story.flush();
        story.plan(old, REFUSES);
        let write = story.send(OpKind::Write, 0, 8, false);
        // The state page that records this comes behind the write.
        story.answer_some(|operation| operation.target == 0 && operation.command.range.start.0 == 0, 9);
        story.answer_some(|operation| operation.target == 1 && operation.command.range.start.0 == 0, 9);
        story.plan(newest, Plan { refuses_flushes: false, ..REFUSES });
        story.answer(ALL);
        let flush = story.send(OpKind::Flush, 0, 0, false);
        story.answer(ALL);
        let told = (story.status(write), story.status(flush));
        assert_eq!(told, (Some(Status::MediaError), Some(Status::MediaError)), "without member {old}");
        story.plan(old, Plan::default());
        story.plan(newest, Plan::default());
        story.cut();
        let read = story.read(0, 8);
        assert!(read == [before; 8] || read == [write; 8], "{read:?}");
    }
}

/// The state of copy A is ahead of copy B's when the power is cut, and A is absent in the next
/// recovery epoch. The state that B then records must nevertheless be newer than A's state. If it
/// is not newer, A counts again when A is back.
#[test]
fn copy_that_was_ahead_when_it_went_is_old_when_it_is_back() {
    for count in 0..40 {
        for absent in 0..2 {
            let mut story = mirror(count);
            story.plan(1 - absent, Plan { refuses_flushes: false, ..REFUSES });
            story.send(OpKind::Write, 0, 8, false);
            story.answer_some(ALL, count);
            story.plan(1 - absent, Plan::default());
            if story.state(1 - absent) != MemberState::Online {
                continue;
            }
            story.cut_power();
            story.volume = Some(story.try_to_recover(&[MemberId(absent)]).unwrap());
            let newest = story.write(0, 8);
            story.flush();
            story.cut();
            assert_eq!(story.read(0, 8), [newest; 8], "after {count} operations, without member {absent}");
        }
    }
}

/// Regression: copy 0 could not read a sector, so recovery gave copy 0 the content of copy 1. Later
/// copy 1 refused a write and was taken out. Reads returned the content that copy 0 was given, and
/// a power cut took that content back.
#[test]
fn what_recovery_copied_stays_when_its_source_is_taken_out() {
    for seed in 0..100 {
        let mut story = mirror_with_unflushed_write(seed);
        story.cut_power();
        story.drives[0].spoil(16);
        story.plan(1, Plan { refuses_flushes: false, ..REFUSES });
        story.recover();
        let read = story.read(0, 8);
        assert_eq!(story.state(1), MemberState::Failed, "it refused the second chunk");
        story.cut();
        assert_eq!(story.read(0, 8), read, "seed {seed}: what was read stays");
    }
}

/// Regression: one copy was read-only, and the other copy failed its flush at the end of the
/// recovery. The read-only copy served alone and could not record that. After the next power cut
/// the other copy served, with other content than was read before.
#[test]
fn copy_that_fails_a_flush_stays_where_the_other_is_read_only() {
    for refusing in 0..2 {
        for seed in 0..50 {
            let mut story = mirror_with_unflushed_write(seed);
            story.plan(refusing, REFUSES);
            story.cut_power();
            story.recover_failing_second_flush(1 - refusing);
            let read = story.read(0, 8);
            story.cut();
            assert_eq!(story.read(0, 8), read, "seed {seed}, member {refusing} refuses writes: what was read stays");
        }
    }
}

/// Copy 0 is read-only and cannot read a sector, so copy 1 supplies the whole range. Then copy 1
/// fails its flush. Copy 0 has other content around the unreadable sector than copy 1, from which
/// the next recovery takes the range again. So copy 1 serves.
#[test]
fn copy_that_lacks_a_range_does_not_serve_where_none_can_record() {
    for seed in 0..50 {
        let mut story = mirror_with_unflushed_write(seed);
        story.plan(0, REFUSES);
        story.cut_power();
        story.drives[0].spoil(16);
        story.recover_failing_second_flush(1);
        let read = story.read(0, 8);
        story.cut();
        assert_eq!(story.read(0, 8), read, "seed {seed}: what was read stays");
    }
}
