//! A home that vanishes with a change under way. What clean copies answer meanwhile is what home
//! has when it is back.

mod story;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Status};
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_fault::payload::Tags;
use story::{ALL, Answers, HDD, Story};

const OF_THE_SSD: Answers = |operation| operation.target != HDD;

/// Returns a volume with a clean copy of the first eight sectors on the SSD.
fn with_a_clean_copy(scheme: &'static str, settings: &'static [(&'static str, &'static str)]) -> Story {
    let mut story = Story::new(1, scheme, settings, 2000);
    story.write(0, 8);
    story.flush();
    for _ in 0..10 {
        story.read(0, 8);
    }
    story.pass(Nanoseconds::from_seconds(10), ALL);
    story.flush();
    story
}

/// Home vanishes with all its operations under way. Home stores its changes if `stores` is set.
fn home_vanishes(story: &mut Story, stores: bool) {
    let now = story.now;
    story.volume().member_gone(now, MemberId(HDD));
    while let Some(at) = story.waiting.iter().position(|operation| operation.target == HDD) {
        let operation = story.waiting.remove(at).unwrap();
        let token = operation.token;
        if stores && operation.command.kind.changes_content() {
            story.apply(operation);
        }
        story.volume().complete(now, Completion { token, status: Status::Gone, payload: Tags::default() });
        story.answer_some(ALL, 0);
    }
    story.answer(OF_THE_SSD);
}

/// Reads the first eight sectors while home is gone.
fn read_without_home(story: &mut Story) -> Option<Vec<u64>> {
    let read = story.send(OpKind::Read, 0, 8, false);
    story.answer(OF_THE_SSD);
    let is_done = story.finished.get(&read).is_some_and(|read| read.status == Status::Done);
    is_done.then(|| story.found_by(read))
}

/// Home vanishes with a change under way, which it has stored if `stores` is set. Asserts that a
/// read without home finds nothing, or what home has when it is back.
fn assert_same_content_once_home_is_back(kind: OpKind, stores: bool) {
    let smart_response = ("smart-response", &[("stream_bypass", "off")][..]);
    for (scheme, settings) in [("hddboost", &[][..]), ("hyperduo", &[][..]), smart_response, ("dataplex", &[][..])] {
        let mut story = with_a_clean_copy(scheme, settings);
        let change = story.send(kind, 0, 8, false);
        story.answer(|operation| operation.target != HDD || operation.command.range.start.0 != 0);
        home_vanishes(&mut story, stores);
        assert_ne!(story.finished.get(&change).map(|change| change.status), Some(Status::Done), "{scheme}");
        let before = read_without_home(&mut story);
        (story.volume, story.waiting) = (None, [].into());
        story.recover();
        let after = story.read(0, 8);
        assert!(before.is_none_or(|before| before == after), "{scheme} {kind:?}: other content was read");
    }
}

/// Home stored a write and vanished before it answered. The write failed, the clean copy answered a
/// read with the content before it, and a flush was done. At the next start the same sectors had
/// other content, although nobody had written.
#[test]
fn copy_is_not_read_while_home_may_have_newer_content() {
    for stores in [true, false] {
        assert_same_content_once_home_is_back(OpKind::Write, stores);
    }
}

/// Home vanishes with nothing under way: the clean copy is read on, since home has the same
/// content.
#[test]
fn copy_is_read_while_home_is_gone_with_the_same_content() {
    let mut story = with_a_clean_copy("smart-response", &[("stream_bypass", "off")]);
    let now = story.now;
    story.volume().member_gone(now, MemberId(HDD));
    story.answer(OF_THE_SSD);
    let write = story.send(OpKind::Write, 0, 8, false);
    story.answer(OF_THE_SSD);
    assert_ne!(story.finished[&write].status, Status::Done);
    assert_eq!(read_without_home(&mut story), Some(vec![1; 8]));
}

/// Home carried out zeroes or a discard, and vanished before it answered.
#[test]
fn copy_is_not_read_while_home_may_have_zeroes() {
    for (kind, stores) in [(OpKind::WriteZeroes, true), (OpKind::WriteZeroes, false), (OpKind::Discard, true)] {
        assert_same_content_once_home_is_back(kind, stores);
    }
}

/// A write goes home in two parts, and home vanishes before the second part is sent. The clean copy
/// of the second part was dropped, too, although home cannot have changed there.
#[test]
fn copy_of_a_part_that_home_was_never_sent_is_read() {
    let second = 1030 * 8;
    for (scheme, settings) in
        [("smart-response", &[("stream_bypass", "off")][..]), ("hyperduo", &[][..]), ("dataplex", &[][..])]
    {
        let home = Bytes::from_mib(32).sectors();
        let mut story = Story::with_home(1, scheme, settings, (30_000, home), BlockSize::default());
        let written = story.write(second, 8);
        story.flush();
        for _ in 0..10 {
            story.read(second, 8);
        }
        story.pass(Nanoseconds::from_seconds(10), ALL);
        story.flush();
        let write = story.send(OpKind::Write, 0, 1040 * 8, false);
        story.answer(|operation| operation.target == HDD && operation.command.range.start.0 < 1023 * 8);
        home_vanishes(&mut story, false);
        assert_ne!(story.finished.get(&write).map(|write| write.status), Some(Status::Done), "{scheme}");
        let read = story.send(OpKind::Read, second, 8, false);
        story.answer(OF_THE_SSD);
        assert_eq!(story.finished[&read].status, Status::Done, "{scheme}");
        assert_eq!(story.found_by(read), [written; 8], "{scheme}");
    }
}
