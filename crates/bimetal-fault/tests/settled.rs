//! Crashes after all content has come home: the slots no longer decide what is read.

mod story;

use bimetal_core::block::Block;
use bimetal_core::operation::Status;
use bimetal_core::units::Nanoseconds;
use bimetal_core::volume::Drain;
use bimetal_fault::damage::Structure;
use bimetal_fault::payload::Sector;
use story::{ALL, SSD, Story, pages, put_back};

/// Schemes whose dirty blocks wait for a drain.
const WAITING: [(&str, &[(&str, &str)]); 5] = [
    ("smart-response", &[("mode", "maximized"), ("idle", "1h")]),
    ("smq", &[("idle", "1h")]),
    ("bcache", &[("writeback_percent", "off")]),
    ("hybrid-disk", &[]),
    ("mixedstore", &[("idle", "1h"), ("partition", "static")]),
];
const BLOCKS_HERE: u64 = 20;

/// Returns a volume whose blocks were each written and flushed twice, and the numbers of the newest
/// writes.
fn written_twice(scheme: &'static str, settings: &[(&str, &str)]) -> (Story, Vec<u64>) {
    let mut story = Story::new(3, scheme, settings, 8000);
    let mut write_all = || {
        let numbers: Vec<u64> = (0..BLOCKS_HERE).map(|at| story.write(100 + at * 56, 8)).collect();
        story.flush();
        numbers
    };
    write_all();
    let newest = write_all();
    (story, newest)
}

/// Returns the first sector of the slot with the block of `sector`, if the block has a slot.
fn slot_of(story: &mut Story, sector: u64) -> Option<u64> {
    let view = story.volume().view();
    let slots = view.layout.slots.expect("a cache has slots");
    let slot = view.map.get(Block(sector / 8))?.0;
    Some(slots.first_sector + u64::from(slot.0) * 8)
}

/// Cuts the power and zeroes the slot with the block of `sector`. Returns false, and does nothing,
/// if the block has no slot.
fn cut_and_zero_slot(story: &mut Story, sector: u64) -> bool {
    let Some(slot) = slot_of(story, sector) else { return false };
    story.cut_power();
    (slot..slot + 8).for_each(|sector| story.drives[usize::from(SSD)].replace(sector, Sector::Zero));
    true
}

/// Drains the volume without a pause of more than a moment.
fn drain(story: &mut Story) {
    let now = story.now;
    story.volume().drain(now, false);
    story.answer(ALL);
    for _ in 0..100 {
        if story.volume().drain_progress() == Drain::Done {
            return;
        }
        story.pass(Nanoseconds::from_millis(1), ALL);
    }
    panic!("a drain of sound drives does not end: {:?}", story.volume().drain_progress());
}

/// Checks that the volume returns the newest content, also of home alone after another drain.
fn assert_newest(story: &mut Story, newest: &[u64], what: &str) {
    story.recover();
    for again in [false, true] {
        for (at, &number) in (0..).zip(newest) {
            assert_eq!(story.read(100 + at * 56, 8), [number; 8], "{what}, block {at}, after another drain: {again}");
        }
        drain(story);
    }
}

/// Regression: a drain ended before the records were stable that its blocks had come home, and
/// while the last flush was in doubt. The power was cut, and one slot of that flush was damaged.
/// Recovery took the flush for one that never ended: the slot with the older content was read, and
/// the next drain wrote it over the newest content at home.
#[test]
fn damaged_slot_after_a_drain_is_served_from_home() {
    for (scheme, settings) in WAITING {
        for damaged in 0..BLOCKS_HERE {
            let (mut story, newest) = written_twice(scheme, settings);
            drain(&mut story);
            if cut_and_zero_slot(&mut story, 100 + damaged * 56) {
                assert_newest(&mut story, &newest, &format!("{scheme}, damaged {damaged}"));
            }
        }
    }
}

/// Regression: as above, with both copies of a page of the ring damaged. All blocks of the last
/// flush were read as before the flush, although home had them.
#[test]
fn damaged_ring_after_a_drain_returns_nothing_old() {
    for (scheme, settings) in WAITING {
        let count = {
            let (mut story, _) = written_twice(scheme, settings);
            pages(&mut story, Structure::Ring).len()
        };
        for at in 0..count / 2 {
            let (mut story, newest) = written_twice(scheme, settings);
            drain(&mut story);
            let ring = pages(&mut story, Structure::Ring);
            story.cut_power();
            for page in [&ring[at], &ring[at + ring.len() / 2]] {
                put_back(&mut story, page, &vec![Sector::Zero; 8]);
            }
            let Ok(volume) = story.try_to_recover(&[]) else { continue };
            story.volume = Some(volume);
            for (block, &number) in (0..).zip(&newest) {
                if story.status_of_read(100 + block * 56, 8) == Status::Done {
                    assert_eq!(story.read(100 + block * 56, 8), [number; 8], "{scheme}, page {at}, block {block}");
                }
            }
        }
    }
}

/// Regression: dirty blocks came home while the disk was idle, and the status said that home has
/// everything. No commit followed until a client asked for a flush. After a power cut a damaged
/// slot was lost for a read, although home had its content.
#[test]
fn damaged_slot_after_idle_write_back_is_served_from_home() {
    for damaged in 0..BLOCKS_HERE {
        let (mut story, newest) = written_twice("smart-response", &[("mode", "maximized"), ("idle", "50ms")]);
        story.pass(Nanoseconds::from_seconds(4), ALL);
        assert_eq!(story.volume().view().map.dirty_blocks(), 0);
        if cut_and_zero_slot(&mut story, 100 + damaged * 56) {
            assert_newest(&mut story, &newest, &format!("damaged {damaged}"));
        }
    }
}

/// A volume whose content has come home is at rest: it wakes no drive any more.
#[test]
fn settled_volume_sleeps() {
    let (mut story, _) = written_twice("smart-response", &[("mode", "maximized"), ("idle", "50ms")]);
    story.pass(Nanoseconds::from_seconds(4), ALL);
    let changes: Vec<u64> = story.drives.iter().map(|drive| drive.changes()).collect();
    story.pass(Nanoseconds::from_seconds(60), ALL);
    let later: Vec<u64> = story.drives.iter().map(|drive| drive.changes()).collect();
    assert_eq!(changes, later);
}
