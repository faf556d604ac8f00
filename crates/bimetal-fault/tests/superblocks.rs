//! Defects that damaged or outdated superblocks once caused, each as the shortest story that shows
//! it.

mod story;

use std::sync::Arc;

use bimetal_core::journal::superblock::{Pair, Superblock};
use bimetal_core::operation::{OpKind, Operation};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::damage::{Page, Structure};
use bimetal_fault::payload::{Sector, Tags};
use story::{ALL, BLOCKS, SSD, Story, flip_bit, flushed, keep, pages, put_back, reads_back, sectors};

type Change = fn(&mut Story);
const MAXIMIZED: Settings = &[("mode", "maximized"), ("idle", "1h")];

type Settings = &'static [(&'static str, &'static str)];

const RESTART: Change = |story| story.cut();
/// A migration, and writes until the log begins again from its start.
const MIGRATION: Change = |story| {
    story.pass(Nanoseconds::from_seconds(60), ALL);
    for number in 0..400 {
        story.write((20 + number % 20) * 8, 8);
        story.flush();
    }
};
/// Writes until a checkpoint has given back pages of the ring.
const CHECKPOINT: Change = |story| {
    let before = story.volume().statistics().checkpoints;
    while story.volume().statistics().checkpoints < before + 2 {
        story.write(160, 8);
        story.flush();
    }
};
const PAIRS: [(&str, Settings, Change); 5] = [
    ("writeboost", &[("idle", "off")], RESTART),
    ("griffin", &[("timeout", "10s"), ("read_threshold", "off")], RESTART),
    ("griffin", &[("timeout", "10s"), ("read_threshold", "off")], MIGRATION),
    ("smart-response", MAXIMIZED, RESTART),
    ("smart-response", MAXIMIZED, CHECKPOINT),
];

/// Runs each of [`PAIRS`] for each turn, with new writes after the change. Lets `harm` damage both
/// copies of a superblock, of which it gets the content before the change, and reads everything.
fn harm_superblocks(harm: fn(&mut Story, &Page, &[Sector])) {
    for (scheme, settings, change) in PAIRS {
        for turn in 0..2 {
            let (mut story, mut written) = flushed(scheme, settings);
            let earlier = keep(&mut story, Structure::Superblock);
            change(&mut story);
            for block in 0..BLOCKS {
                written[block as usize] = story.write(block * 8, 8);
                story.flush();
            }
            story.cut_power();
            for copy in [turn, turn + 2] {
                harm(&mut story, &earlier[copy].0, &earlier[copy].1);
            }
            reads_back(&mut story, &written, &format!("{scheme}, turn {turn}"));
        }
    }
}

/// Regression: both copies of the newest superblock of a log came back from an earlier time. The
/// older superblock did not know the epoch of the newest segments, or took segments for the log's
/// beginning that newer segments had replaced. Flushed writes read as their older content.
#[test]
fn superblock_put_back_in_both_copies_takes_nothing_back() {
    harm_superblocks(put_back);
}

/// Regression: both copies of a superblock were damaged, even the copies of the older turn. All
/// content that only the cache or log had was given up.
#[test]
fn superblock_damaged_in_both_copies_takes_nothing_back() {
    harm_superblocks(|story, page, _| flip_bit(story, page, 100));
}

/// Regression: all superblocks of a log came back from the time before a restart. Nothing refuted
/// them, so the log ended where it had ended then. Flushed writes read as their older content, and
/// no error told of it.
#[test]
fn all_superblocks_of_a_log_put_back_are_refused() {
    for (scheme, settings, restart) in &PAIRS[..2] {
        for writes in [1, BLOCKS] {
            let (mut story, _) = flushed(scheme, settings);
            let earlier = keep(&mut story, Structure::Superblock);
            restart(&mut story);
            for block in 0..writes {
                story.write(block * 8, 8);
                story.flush();
            }
            story.cut_power();
            earlier.iter().for_each(|(page, content)| put_back(&mut story, page, content));
            let error = story.try_to_recover(&[]).err().expect("the newer writes would be old").to_string();
            assert!(error.contains("a newer superblock must be lost"), "{scheme}, {writes} writes: {error}");
        }
    }
}

/// Superblock pages that are damaged together, by position: each page alone, and both copies of
/// each turn.
const TOGETHER: [&[usize]; 6] = [&[0], &[1], &[2], &[3], &[0, 2], &[1, 3]];

/// Writes until a checkpoint has written its first page of a superblock, lets `steps` more
/// operations end and cuts the power. Returns the superblock pages.
fn cut_in_a_checkpoint(story: &mut Story, steps: u64) -> Vec<Page> {
    let superblocks = pages(story, Structure::Superblock);
    let contents = |story: &Story| superblocks.iter().map(|page| sectors(story, page)).collect::<Vec<_>>();
    let before = contents(story);
    while contents(story) == before {
        story.send(OpKind::Write, 160, 8, false);
        story.send(OpKind::Flush, 0, 0, false);
        while contents(story) == before && !story.answer_some(ALL, 1) {}
    }
    story.answer_some(ALL, steps);
    // More records become stable before the next superblock.
    for block in 20..24 {
        story.send(OpKind::Write, block * 8, 8, false);
    }
    story.send(OpKind::Flush, 0, 0, false);
    story.answer(|operation| !operation.command.fua);
    story.cut_power();
    superblocks
}

/// Regression: a power cut between the two superblocks of a pair, or between two copies, left the
/// pair incomplete. The next recovery wrote pages of the slot table, and was cut, too. If the only
/// page with the newest superblock was then damaged, the table did not fit to the older superblock,
/// and the cache was refused.
#[test]
fn superblock_lost_after_a_cut_recovery_takes_nothing_back() {
    let mut recoveries = 0;
    for (steps, together) in (0..8).flat_map(|steps| TOGETHER.map(|together| (steps, together))) {
        for answered in 0.. {
            let (mut story, written) = flushed("smart-response", MAXIMIZED);
            let superblocks = cut_in_a_checkpoint(&mut story, steps);
            let is_over = story.recover_some(answered, |recovery| recovery);
            story.cut_power();
            together.iter().for_each(|&at| flip_bit(&mut story, &superblocks[at], 100));
            reads_back(&mut story, &written, &format!("{steps} steps, {answered} of a recovery, pages {together:?}"));
            recoveries += 1;
            if is_over {
                break;
            }
        }
    }
    assert!(recoveries > 8 * 6 * 20, "{recoveries} recoveries are fewer than a recovery has steps");
}

/// Rewrites superblocks as an earlier build wrote them: each alone, without a pair.
fn write_alone(story: &mut Story, superblocks: &[Page]) {
    for page in superblocks {
        let sectors = sectors(story, page);
        let bytes: Vec<u8> = sectors.iter().filter_map(Sector::metadata).flatten().copied().collect();
        let found = Superblock::decode(bytes.as_slice().try_into().expect("a page")).expect("a superblock");
        let alone = Superblock { pair: Pair::Unknown, ..found }.encode();
        let sector = |part: &[u8]| Sector::Metadata { bytes: Arc::new(part.to_vec()), at: 0 };
        put_back(story, page, &alone.chunks(512).map(sector).collect::<Vec<_>>());
    }
}

/// Regression: an earlier build wrote its superblocks alone, and a power cut interrupted its next
/// checkpoint. Recovery repeated the superblock under the next number, which was the number of the
/// checkpoint's superblock. If recovery was cut at this point, the pages of the checkpoint counted
/// as completed, and the sound cache was refused.
#[test]
fn superblock_written_alone_survives_cuts_of_its_recovery() {
    let is_superblock = |operation: &Operation<Tags>| operation.target == SSD && operation.command.fua;
    let is_open = |operation: &Operation<Tags>| operation.target != SSD || !operation.command.fua;
    for answered in 0.. {
        let (mut story, mut written) = flushed("smart-response", MAXIMIZED);
        while !story.waiting.iter().any(is_superblock) {
            written[0] = story.send(OpKind::Write, 0, 8, false);
            story.answer(is_open);
            story.send(OpKind::Flush, 0, 0, false);
            story.answer(is_open);
        }
        let superblocks = pages(&mut story, Structure::Superblock);
        story.cut_power();
        write_alone(&mut story, &superblocks);
        let is_over = story.recover_some(answered, |recovery| recovery);
        story.cut_power();
        reads_back(&mut story, &written, &format!("{answered} steps of the first recovery"));
        if is_over {
            return assert!(answered > 20, "a recovery has more steps than {answered}");
        }
    }
}

/// The same as the test before, for recoveries of a log that are cut twice.
#[test]
fn log_survives_a_lost_superblock_after_two_cut_recoveries() {
    for (first, together) in (0..30).flat_map(|first| TOGETHER.map(|together| (first, together))) {
        for second in 0..30 {
            let (mut story, written) = flushed("writeboost", &[("idle", "off")]);
            let superblocks = pages(&mut story, Structure::Superblock);
            story.cut_power();
            let mut is_over = false;
            for answered in [first, second] {
                is_over = story.recover_some(answered, |recovery| recovery);
                story.cut_power();
            }
            together.iter().for_each(|&at| flip_bit(&mut story, &superblocks[at], 100));
            reads_back(&mut story, &written, &format!("{first} and {second} of two recoveries, pages {together:?}"));
            if is_over {
                // With more answers, the recovery would be the same.
                break;
            }
        }
    }
}
