//! Members that are gone while a volume serves, and are back at its next start. Content that was
//! flushed is then read, and what a read returned stays until the next write.

mod story;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, OpKind, Operation, Status};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::payload::Tags;
use story::{ALL, HDD, SSD, Story};

/// A scheme, its settings, and the member that has content off home.
type OffHome<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);

/// Ends an operation as a drive does that is gone.
fn end_gone(story: &mut Story, operation: &Operation<Tags>) {
    let (token, now) = (operation.token, story.now);
    story.volume().complete(now, Completion { token, status: Status::Gone, payload: Tags::default() });
}

/// Answers all operations. Operations on the members `gone` end as on a drive that is gone.
fn answer_without(story: &mut Story, gone: &[u16]) {
    while !story.answer_some(ALL, 0) {
        let Some(operation) = story.waiting.pop_front() else { return };
        story.now += Nanoseconds(1000);
        if gone.contains(&operation.target) {
            end_gone(story, &operation);
        } else {
            let completion = story.apply(operation);
            let now = story.now;
            story.volume().complete(now, completion);
        }
    }
}

/// Lets a member vanish. Its operations stay under way.
fn vanish(story: &mut Story, member: u16) {
    let now = story.now;
    story.volume().member_gone(now, MemberId(member));
}

/// Lets a member vanish. Its operations end.
fn vanish_and_end(story: &mut Story, member: u16) {
    vanish(story, member);
    while let Some(at) = story.waiting.iter().position(|operation| operation.target == member) {
        let operation = story.waiting.remove(at).expect("just found");
        end_gone(story, &operation);
    }
}

/// Returns true if the request was answered as done.
fn is_done(story: &Story, request: u64) -> bool {
    story.finished.get(&request).is_some_and(|finished| finished.status == Status::Done)
}

/// Starts the volume again. No drive has lost its power.
fn start_again(story: &mut Story) {
    story.volume = None;
    story.waiting.clear();
    story.recover();
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
fn back_under_os_managed(offloads: bool) -> (Story, [u64; 2]) {
    let mut story = Story::new(1, "os-managed", &[("flush_period", "off")], 2000);
    story.unit = 1;
    let own = story.write(0, 8);
    story.unit = 0;
    let offloaded = if offloads { story.write(0, 8) } else { 0 };
    story.flush();
    let now = story.now;
    story.volume().member_gone(now, MemberId(SSD));
    story.answer(|_| true);
    story.volume = None;
    story.waiting.clear();
    (story, [own, offloaded])
}

/// Regression: an SSD that is a home and has the slots was gone for a moment. The home recorded
/// that it was out, and no later start accepted the SSD, although nothing else had its blocks.
#[test]
fn ssd_that_is_a_home_is_accepted_with_an_empty_cache() {
    let (mut story, [own, _]) = back_under_os_managed(false);
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

/// Regression: an SSD with content that home lacked was gone for a moment. Home recorded that the
/// SSD was out, and went on without it. No later start used the SSD's content.
#[test]
fn slots_of_an_ssd_that_is_a_home_count_once_it_is_back() {
    let (mut story, [own, offloaded]) = back_under_os_managed(true);
    story.recover();
    story.unit = 1;
    assert_eq!(story.read(0, 8), [own; 8]);
    story.unit = 0;
    assert_eq!(story.read(0, 8), [offloaded; 8]);
}

/// Regression: a member vanished with content that home lacked. Home recorded that the member was
/// out, and changed. So no later start used the member, and its flushed content was lost.
#[test]
fn member_that_is_gone_with_content_comes_back_with_it() {
    let write_back: [OffHome; 4] = [
        ("smart-response", &[("mode", "maximized"), ("idle", "1h")], SSD),
        ("hybrid-disk", &[], SSD),
        ("smq", &[], SSD),
        ("griffin", &[("timeout", "off"), ("log_buffer", "0")], HDD),
    ];
    for (scheme, settings, slots) in write_back {
        let mut story = Story::new(1, scheme, settings, 4000);
        let flushed = story.write(0, 8);
        story.flush();
        let now = story.now;
        story.volume().member_gone(now, MemberId(slots));
        story.answer(|_| true);
        let changes = [
            (OpKind::Write, 0, 8, true),
            (OpKind::Write, 800, 8, false),
            (OpKind::WriteZeroes, 0, 8, false),
            (OpKind::Discard, 0, 8, false),
            (OpKind::Flush, 0, 0, false),
        ];
        for (kind, start, sectors, fua) in changes {
            let request = story.send(kind, start, sectors, fua);
            story.answer(|_| true);
            assert_ne!(story.finished[&request].status, Status::Done, "{scheme}: {kind:?}");
        }
        assert_eq!(story.status_of_read(800, 8), Status::Done, "{scheme}: home has it");
        assert_eq!(story.status_of_read(0, 8), Status::Gone, "{scheme}: only the member has it");
        let now = story.now;
        story.volume().close(now);
        story.answer(|_| true);
        assert!(story.volume().is_closed(), "{scheme}");
        story.cut();
        assert_eq!(story.read(0, 8), [flushed; 8], "{scheme}");
    }
}

/// Regression: a member vanished when home had everything. Home recorded that the member was out,
/// but not that it was no longer needed. So the next start asked for it.
#[test]
fn member_that_is_gone_without_content_is_not_needed() {
    let mut story = Story::new(1, "smart-response", &[("mode", "maximized"), ("idle", "1ms")], 4000);
    let moved = story.write(0, 8);
    story.flush();
    story.pass(Nanoseconds::from_seconds(10), |_| true);
    assert_eq!(story.volume().view().map.dirty_blocks(), 0);
    let now = story.now;
    story.volume().member_gone(now, MemberId(SSD));
    story.answer(|_| true);
    story.cut_power();
    story.volume = Some(story.try_to_recover(&[MemberId(SSD)]).expect("home has everything"));
    assert_eq!(story.read(0, 8), [moved; 8]);
}

/// Regression: the loss of an SSD's content was accepted, and a read returned home's older content
/// before home had recorded the loss. After a power cut the SSD was back, and counted.
#[test]
fn read_waits_until_home_records_that_a_loss_is_accepted() {
    let mut story = Story::new(1, "hybrid-disk", &[], 4000);
    let flushed = story.write(0, 8);
    story.flush();
    story.volume = None;
    story.drives[usize::from(SSD)].vanish();
    story.recover_giving_up();
    let read = story.send(OpKind::Read, 0, 8, false);
    story.answer(|operation| operation.target == HDD && operation.command.kind == OpKind::Read);
    let is_answered = story.finished.contains_key(&read);
    story.drives[usize::from(SSD)].come_back();
    story.cut();
    let found = story.read(0, 8);
    assert!(!is_answered || story.found_by(read) == found, "{found:?}");
    assert_eq!(found, [flushed; 8], "no request was answered without the SSD");
}

/// Regression: forced zeroes were under way at home when the SSD vanished, and a flush failed after
/// that. The record that the block's slot was old was given up with the flush, and nothing waited
/// for it any more.
#[test]
fn forced_zeroes_fail_once_the_newest_content_is_gone() {
    let write_back: [(&str, &[(&str, &str)]); 4] = [
        ("hybrid-disk", &[]),
        ("smq", &[]),
        ("smart-response", &[("mode", "maximized"), ("idle", "1h")]),
        ("bcache", &[("bucket_size", "16KiB")]),
    ];
    for (scheme, settings) in write_back {
        let mut story = Story::new(1, scheme, settings, 4000);
        story.write(0, 8);
        story.write(80, 8);
        story.flush();
        story.run(OpKind::WriteZeroes, 0, 8, false);
        let forced = story.send(OpKind::WriteZeroes, 0, 8, true);
        story.answer(|operation| operation.command.kind == OpKind::Flush);
        vanish(&mut story, SSD);
        let flush = story.send(OpKind::Flush, 0, 0, false);
        story.answer(|operation| operation.command.kind == OpKind::Flush);
        answer_without(&mut story, &[SSD]);
        assert!(!is_done(&story, flush) && story.finished.contains_key(&forced), "{scheme}");
        let is_done = is_done(&story, forced);
        story.cut();
        assert!(!is_done || story.read(0, 8) == [0; 8], "{scheme}: forced zeroes are undone");
    }
}

/// Regression: a forced write went home while a log was drained, and the log vanished. The log
/// still had an older piece of the block, and nothing recorded that it was old.
#[test]
fn forced_write_beside_a_drain_fails_once_the_log_is_gone() {
    let logs: [OffHome; 3] = [
        ("griffin", &[("timeout", "off"), ("log_buffer", "0")], HDD),
        ("griffin", &[("timeout", "off"), ("log_buffer", "16KiB")], HDD),
        ("writeboost", &[("log_buffer", "16KiB")], SSD),
    ];
    for (scheme, settings, log) in logs {
        let mut story = Story::new(1, scheme, settings, 4000);
        story.write(0, 8);
        story.write(80, 8);
        story.flush();
        let now = story.now;
        story.volume().drain(now, false);
        // The drain pauses, because its writes to home fail.
        story.answer_failing(|operation| {
            operation.target != log && operation.command.kind == OpKind::Write && operation.command.range.start.0 < 200
        });
        story.write(0, 8);
        let forced = story.send(OpKind::Write, 0, 8, true);
        story.answer(|_| false);
        vanish(&mut story, log);
        answer_without(&mut story, &[log]);
        let is_done = is_done(&story, forced);
        story.cut();
        assert!(!is_done || story.read(0, 8) == [forced; 8], "{scheme}: the forced write is lost");
    }
}

/// Answers all operations that wait, except writes of home's state.
fn answer_all_but_states(story: &mut Story) {
    story.answer(|operation| operation.target == HDD && operation.command.range.start.0 < STATE_OF_HOME);
}

/// The SSD vanishes and then the home, which has not recorded yet that the SSD is out. Asserts that
/// `request` was not answered as done before, or that the first sector reads as `expected`.
fn assert_answer_holds_without_both(story: &mut Story, scheme: &str, request: u64, expected: u64) {
    vanish_and_end(story, SSD);
    answer_all_but_states(story);
    vanish(story, HDD);
    answer_without(story, &[SSD, HDD]);
    let is_done = is_done(story, request);
    start_again(story);
    assert!(!is_done || story.read(0, 1) == [expected], "{scheme}: the answer does not hold");
}

/// Regression: both drives vanished, as when their controller fails. A flush was answered although
/// home could not record any more that the SSD was out.
#[test]
fn flush_fails_if_home_vanishes_before_it_records() {
    let mut story = Story::new(1, "hybrid-disk", &[], 4000);
    story.write(0, 8);
    story.flush();
    story.run(OpKind::WriteZeroes, 0, 8, false);
    let flush = story.send(OpKind::Flush, 0, 0, false);
    story.answer(|operation| operation.target == HDD && operation.command.kind == OpKind::Flush);
    assert_answer_holds_without_both(&mut story, "hybrid-disk", flush, 0);
}

/// Regression: as with a flush, forced changes were answered.
#[test]
fn forced_change_fails_if_home_vanishes_before_it_records() {
    let bypassing: [(&str, &[(&str, &str)]); 2] = [
        ("bcache", &[("bucket_size", "16KiB"), ("sequential_cutoff", "16KiB")]),
        ("smart-response", &[("mode", "maximized"), ("stream_bypass", "16KiB")]),
    ];
    for (scheme, settings) in bypassing {
        for kind in [OpKind::Write, OpKind::WriteZeroes] {
            let mut story = Story::new(1, scheme, settings, 4000);
            story.write(0, 8);
            story.flush();
            let forced = story.send(kind, 0, 512, true);
            answer_all_but_states(&mut story);
            let expected = if kind == OpKind::Write { forced } else { 0 };
            assert_answer_holds_without_both(&mut story, scheme, forced, expected);
        }
    }
}

/// Regression: a read-only SSD was evacuated, and home could not record which regions had left it.
/// A flush was answered, and the next start used the SSD's older slots.
#[test]
fn flush_fails_if_home_cannot_record_what_left() {
    let mut story = Story::new(1, "hybrid-disk", &[], 4000);
    story.write(0, 8);
    // A block of another region cannot be written home, so the SSD is not detached.
    story.write(4000, 8);
    story.flush();
    let newer = story.write(0, 8);
    let flush = story.send(OpKind::Flush, 0, 0, false);
    let mut states = 0;
    story.answer_failing(|operation| {
        let is_state = operation.target == HDD && operation.command.range.start.0 >= STATE_OF_HOME;
        states += u32::from(is_state);
        // The states that record the refusal itself are stored: two turns, each in two copies.
        let is_other = operation.target == HDD && operation.command.range.start.0 == 4000;
        let is_refused = (operation.target == SSD || is_other) && operation.command.kind.changes_content();
        is_state && states > 4 || is_refused
    });
    assert!(states > 4, "the regions that left are announced");
    let is_done = is_done(&story, flush);
    start_again(&mut story);
    assert!(!is_done || story.read(0, 8) == [newer; 8], "flushed content is lost");
}

/// Regression: a block was lost, all others were at home, and the SSD vanished for a moment. The
/// next start refused the SSD, and without it home's older content of the lost block was read.
#[test]
fn lost_block_stays_lost_while_its_ssd_is_gone() {
    let mut story = Story::new(1, "hybrid-disk", &[], 4000);
    story.write(0, 8);
    let other = story.write(80, 8);
    story.flush();
    let view = story.volume().view();
    let (slot, _) = view.map.get(Block(0)).expect("it is in a slot");
    let first = view.layout.slots.expect("a cache").first_sector + u64::from(slot.0) * 8;
    (first..first + 8).for_each(|sector| story.drives[usize::from(SSD)].spoil(sector));
    let now = story.now;
    story.volume().drain(now, false);
    story.pass(Nanoseconds::from_seconds(100), ALL);
    assert!(story.volume().has_lost_content() && story.volume().view().map.dirty_blocks() == 0);
    vanish(&mut story, SSD);
    answer_without(&mut story, &[SSD]);
    start_again(&mut story);
    assert_eq!(story.status_of_read(0, 8), Status::MediaError);
    assert_eq!(story.read(80, 8), [other; 8]);
}

/// Regression: a home vanished, and could not record that it was gone. Flushes and forced writes
/// failed from then on, although the cache or log kept all content.
#[test]
fn cache_serves_flushes_while_home_is_gone() {
    let write_back: [OffHome; 5] = [
        ("hybrid-disk", &[], SSD),
        ("smq", &[], SSD),
        ("bcache", &[("bucket_size", "16KiB")], SSD),
        ("griffin", &[("timeout", "off"), ("log_buffer", "0")], HDD),
        ("writeboost", &[("log_buffer", "16KiB")], SSD),
    ];
    for (scheme, settings, slots) in write_back {
        let home = SSD + HDD - slots;
        let mut story = Story::new(1, scheme, settings, 4000);
        story.write(0, 8);
        story.flush();
        vanish(&mut story, home);
        answer_without(&mut story, &[home]);
        let forced = story.send(OpKind::Write, 0, 8, true);
        answer_without(&mut story, &[home]);
        let flush = story.send(OpKind::Flush, 0, 0, false);
        answer_without(&mut story, &[home]);
        assert!(is_done(&story, forced) && is_done(&story, flush), "{scheme}");
        start_again(&mut story);
        assert_eq!(story.read(0, 8), [forced; 8], "{scheme}");
    }
}
