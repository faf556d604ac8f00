//! Members that are gone while a volume serves, and are back at its next start. Content that was
//! flushed is then read, and what a read returned stays until the next write.

mod story;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_fault::payload::Tags;
use story::{HDD, SSD, Story};

/// Ends an operation as a drive does that is gone.
fn end_gone(story: &mut Story, operation: &Operation<Tags>) {
    let (token, now) = (operation.token, story.now);
    story.volume().complete(now, Completion { token, status: Status::Gone, payload: Tags::default() });
}

/// Answers all operations. The home carries changes out if `lands` is set, and is gone before it
/// answers.
fn answer_gone(story: &mut Story, lands: bool) {
    loop {
        story.answer(|operation| operation.target == SSD);
        let Some(operation) = story.waiting.pop_front() else { return };
        if lands && operation.command.kind != OpKind::Flush {
            story.apply(operation.clone());
        }
        end_gone(story, &operation);
    }
}

/// Stops the volume as a server does: a flush, and then a close, whatever the flush's status.
fn stop(story: &mut Story) {
    let flush = story.send(OpKind::Flush, 0, 0, false);
    answer_gone(story, false);
    assert_eq!(story.finished[&flush].status, Status::Gone);
    let now = story.now;
    story.volume().close(now);
    answer_gone(story, false);
    assert!(story.volume().is_closed());
}

/// Asserts that block 0 reads the same before and after its copy is evicted.
fn assert_constant(story: &mut Story) {
    let first = story.read(0, 8);
    for block in 1..1000 {
        if story.volume().view().map.get(Block(0)).is_none() {
            break;
        }
        story.read(block * 8, 8);
        story.flush();
    }
    assert!(story.volume().view().map.get(Block(0)).is_none(), "the copy is evicted");
    assert_eq!(first, story.read(0, 8), "the content changed by itself");
}

fn story_of_a_flushed_block() -> Story {
    let mut story = Story::new(1, "smart-response", &[("stream_bypass", "off")], 2000);
    story.write(0, 8);
    story.flush();
    story
}

/// Regression: a home stored a write and was gone before it answered. The close declared that home
/// had the content of all clean copies. So the next start trusted the older copy.
#[test]
fn copy_is_not_trusted_after_a_close_without_home() {
    let mut story = story_of_a_flushed_block();
    story.send(OpKind::Write, 0, 8, false);
    answer_gone(&mut story, true);
    stop(&mut story);
    story.recover();
    assert_constant(&mut story);
}

/// Regression: a home lost its volatile cache with its power, and was gone. The close declared that
/// home had the content of all clean copies. So the next start trusted the newer copy.
#[test]
fn copy_is_not_trusted_after_home_lost_its_power() {
    let mut story = story_of_a_flushed_block();
    let home = usize::from(HDD);
    let flushed: Vec<_> = (0..8).map(|sector| story.drives[home].content(sector)).collect();
    story.write(0, 8);
    let now = story.now;
    story.volume().member_gone(now, MemberId(HDD));
    stop(&mut story);
    (0..).zip(flushed).for_each(|(sector, content)| story.drives[home].replace(sector, content));
    story.recover();
    assert_constant(&mut story);
}

/// Number of the first sector of a home's state, in a story of 4000 blocks.
const STATE_OF_HOME: u64 = 8064;

/// Cuts the power before the home has recorded that the SSD is gone. The SSD is back at the next
/// start. Asserts that `request`, a change of sector 0 or a flush behind it, was not answered, or
/// that the first sector reads as `expected`.
fn assert_answer_holds(story: &mut Story, scheme: &str, request: u64, expected: u64) {
    let is_answered = story.finished.get(&request).is_some_and(|finished| finished.status == Status::Done);
    story.cut_power();
    story.recover();
    let read = story.read(0, 1);
    assert!(!is_answered || read == [expected], "{scheme}: answered, and {read:?} was read");
}

/// Regression: home had zeroes, and the record of that was in memory alone. The SSD was gone, and a
/// flush was answered before home had recorded that. The SSD was back after a power cut, and its
/// older slot was read.
#[test]
fn flush_waits_until_home_records_that_the_ssd_is_gone() {
    let plans: [(&str, &[(&str, &str)]); 5] = [
        ("hybrid-disk", &[]),
        ("smq", &[]),
        ("bcache", &[("bucket_size", "16KiB")]),
        ("smart-response", &[("mode", "maximized"), ("stream_bypass", "off")]),
        ("mixedstore", &[]),
    ];
    for (scheme, settings) in plans {
        let mut story = Story::new(1, scheme, settings, 4000);
        (0..4).for_each(|block| {
            story.write(block * 8, 8);
        });
        story.flush();
        story.send(OpKind::WriteZeroes, 0, 32, false);
        story.answer(|_| true);
        let now = story.now;
        story.volume().member_gone(now, MemberId(SSD));
        let flush = story.send(OpKind::Flush, 0, 0, false);
        story.answer(|operation| operation.target == HDD && operation.command.kind == OpKind::Flush);
        assert_answer_holds(&mut story, scheme, flush, 0);
    }
}

/// Regression: a forced write bypassed a cache with an older slot of its blocks. The SSD was gone
/// before it had the record of that, and the write was answered before home had recorded that.
#[test]
fn forced_write_waits_until_home_records_that_the_ssd_is_gone() {
    let plans: [(&str, &[(&str, &str)]); 2] = [
        ("bcache", &[("bucket_size", "16KiB"), ("sequential_cutoff", "16KiB")]),
        ("smart-response", &[("mode", "maximized"), ("stream_bypass", "16KiB")]),
    ];
    for (scheme, settings) in plans {
        let mut story = Story::new(1, scheme, settings, 4000);
        story.write(0, 8);
        story.flush();
        let forced = story.send(OpKind::Write, 0, 512, true);
        story.answer(|operation| operation.target == HDD && operation.command.range.start.0 < STATE_OF_HOME);
        let now = story.now;
        story.volume().member_gone(now, MemberId(SSD));
        while let Some(at) = story.waiting.iter().position(|operation| operation.target == SSD) {
            let operation = story.waiting.remove(at).expect("just found");
            end_gone(&mut story, &operation);
        }
        story.answer(|operation| operation.target == HDD && operation.command.range.start.0 < STATE_OF_HOME);
        assert_answer_holds(&mut story, scheme, forced, forced);
    }
}

/// Starts an os-managed volume whose SSD was gone and is back. The SSD is the home of unit 1, and a
/// write of unit 0 is offloaded to it if `offloads` is set.
fn back_under_os_managed(offloads: bool) -> (Story, u64) {
    let mut story = Story::new(1, "os-managed", &[("flush_period", "off")], 2000);
    story.unit = 1;
    let own = story.write(0, 8);
    story.unit = 0;
    if offloads {
        story.write(0, 8);
    }
    story.flush();
    let now = story.now;
    story.volume().member_gone(now, MemberId(SSD));
    story.answer(|_| true);
    story.volume = None;
    story.waiting.clear();
    (story, own)
}

/// Regression: an SSD that is a home and has the slots was gone for a moment. The home recorded
/// that it was out, and no later start accepted the SSD, although nothing else had its blocks.
#[test]
fn ssd_that_is_a_home_is_accepted_with_an_empty_cache() {
    let (mut story, own) = back_under_os_managed(false);
    story.recover();
    story.unit = 1;
    assert_eq!(story.read(0, 8), [own; 8]);
    story.unit = 0;
    // The cache is in use again, and survives the next start.
    let offloaded = story.write(0, 8);
    story.flush();
    story.cut_power();
    story.recover();
    assert_eq!(story.read(0, 8), [offloaded; 8]);
}

/// The slots of an SSD that was gone may be older than the disk. The volume starts without them
/// once their loss is accepted, and the SSD's own blocks stay.
#[test]
fn old_slots_of_an_ssd_that_is_a_home_are_given_up() {
    let (mut story, own) = back_under_os_managed(true);
    let refused = story.try_to_recover(&[]).map(|_| ()).expect_err("slots with newer content would be given up");
    assert!(refused.to_string().contains("--accept-loss"), "{refused}");
    story.recover_giving_up();
    story.unit = 1;
    assert_eq!(story.read(0, 8), [own; 8]);
}
