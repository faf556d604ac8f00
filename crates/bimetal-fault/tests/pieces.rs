//! Blocks of a log that lie in several pieces. Each test is the shortest story of a crash, a
//! migration or damage of one piece, and its effect on the other pieces.

mod story;

use bimetal_core::block::Block;
use bimetal_core::block_map::Slot;
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::units::Nanoseconds;
use bimetal_fault::payload::Sector;
use story::{ALL, HDD, SSD, Story};

/// Number of times that a story runs.
const TIMES: u64 = 100;
const ONLY_TIMEOUT: &[(&str, &str)] = &[("timeout", "60s"), ("read_threshold", "off")];
/// As `ONLY_TIMEOUT`; a migration moves few blocks at a time, because a change of blocks on their
/// way waits for them.
const SMALL_BATCHES: &[(&str, &str)] = &[("timeout", "60s"), ("read_threshold", "off"), ("move_memory", "16KiB")];

/// Writes at random to a few blocks, mostly to parts of blocks. `expected` gets the number of the
/// last write of each sector.
fn write_at_random(story: &mut Story, expected: &mut [u64], count: u64) {
    for _ in 0..count {
        let start = story.random.below(expected.len() as u64);
        let sectors = story.random.between(1, 11).min(expected.len() as u64 - start);
        let number = story.write(start, sectors);
        expected[start as usize..(start + sectors) as usize].fill(number);
        if story.random.one_in(8) {
            story.flush();
        }
    }
}

/// Begins the migration of a log with a timeout of 60 s, and answers fewer than `steps_max` of its
/// operations, a random number. Returns true if no operation is left.
fn begin_migration(story: &mut Story, steps_max: u64) -> bool {
    story.pass(Nanoseconds::from_seconds(59), ALL);
    let at = story.volume().next_timeout().expect("the migration is a second away");
    story.now = story.now.max(at);
    let (now, steps) = (story.now, story.random.below(steps_max));
    story.volume().advance(now);
    story.answer_some(ALL, steps)
}

fn assert_reads(story: &mut Story, expected: &[u64], when: &str) {
    assert_eq!(story.read(0, expected.len() as u64), expected, "{when}");
    for start in (0..expected.len() - 5).step_by(3) {
        assert_eq!(story.read(start as u64, 5), expected[start..start + 5], "{when}, from sector {start}");
    }
}

/// Flushed content survives a cut, whatever pieces it lies in. Recovery finds the pieces that the
/// log had.
#[test]
fn flushed_pieces_survive_a_power_cut() {
    for seed in 0..TIMES {
        let settings = [("timeout", "off"), ("read_threshold", "off"), ("log_buffer", "24KiB")];
        let mut story = Story::new(seed, "griffin", &settings, 4000);
        let mut expected = vec![0; 100];
        for round in 0..3 {
            write_at_random(&mut story, &mut expected, 40);
            assert_reads(&mut story, &expected, "before the cut");
            story.flush();
            let slots = |story: &mut Story| {
                let map = &story.volume().view().map;
                let pieces = (0..13).flat_map(|block| map.pieces(Block(block)).to_vec());
                pieces.map(|(slot, entry)| (slot, entry.block, entry.valid, entry.checksum)).collect::<Vec<_>>()
            };
            let before = slots(&mut story);
            story.cut();
            assert_eq!(slots(&mut story), before, "{seed}, round {round}");
            assert_reads(&mut story, &expected, "after the cut");
        }
    }
}

/// A migration cut at any operation leaves the flushed content in the log, at home, or both in the
/// log and at home.
#[test]
fn cut_migration_of_pieces_leaves_what_was_flushed() {
    let (mut whole, mut cut) = (0, 0);
    for seed in 0..TIMES {
        let mut story = Story::new(seed, "griffin", ONLY_TIMEOUT, 4000);
        let mut expected = vec![0; 100];
        write_at_random(&mut story, &mut expected, 60);
        story.flush();
        let ended = begin_migration(&mut story, 40);
        // Blocks that are written again meanwhile are written back with their older content.
        let number = story.send(OpKind::Write, 3, 7, false);
        story.answer_some(ALL, 2);
        *(if ended { &mut whole } else { &mut cut }) += 1;
        story.cut();
        let found = story.read(0, 100);
        let is_new = found[3] == number;
        if is_new {
            expected[3..10].fill(number);
        }
        // Two blocks have a part of the last write. Each is old or new as a whole.
        if found[8] == number {
            expected[8..10].fill(number);
        } else if is_new {
            expected[8..10].copy_from_slice(&found[8..10]);
        }
        assert_eq!(found, expected, "{seed}");
        story.pass(Nanoseconds::from_seconds(100), ALL);
        assert!(story.volume().view().map.is_empty(), "all of it went home");
        assert_reads(&mut story, &expected, "from home");
    }
    assert!(whole > 0 && cut > 0, "{whole} migrations were over, {cut} were not");
}

/// A discard took blocks out of a migration that had not moved them yet. Home without the log then
/// had older content of these blocks than of all others, although the blocks were in use at the
/// migration's start, of which home is to have the content (Griffin 5.3).
#[test]
fn discard_during_a_migration_leaves_the_content_of_its_start() {
    let mut during = 0;
    for seed in 0..TIMES {
        let mut story = Story::new(seed, "griffin", SMALL_BATCHES, 4000);
        let number = story.write(0, 96) as u32;
        story.flush();
        begin_migration(&mut story, 40);
        if !story.volume().view().moving {
            continue;
        }
        during += 1;
        story.run(OpKind::Discard, 40, 24, false);
        story.pass(Nanoseconds::from_seconds(100), ALL);
        assert!(story.volume().view().map.is_empty(), "all of it went home");
        for block in 0..12 {
            let (home, first, _) = story.volume().view().layout.home_of(Block(block));
            let found: Vec<Sector> =
                (first..first + 8).map(|sector| story.drives[usize::from(home.0)].content(sector)).collect();
            let sectors = 8 * block as u32..8 * block as u32 + 8;
            let wanted: Vec<Sector> = sectors.map(|sector| Sector::Data { request: number, sector }).collect();
            assert_eq!(found, wanted, "seed {seed}: block {block} at home");
        }
    }
    assert!(during > 0, "no discard came during a migration");
}

/// A block that a migration could not read is lost until it is written or discarded, also while the
/// migration goes on.
#[test]
fn discard_during_a_migration_ends_a_loss() {
    let mut during = 0;
    for seed in 0..TIMES {
        let mut story = Story::new(seed, "griffin", SMALL_BATCHES, 4000);
        story.write(0, 96);
        story.flush();
        let region = story.volume().view().layout.slots.expect("a log");
        let (slot, _) = story.volume().view().map.get(Block(0)).expect("a block in the log");
        let first = region.first_sector + u64::from(slot.0) * 8;
        (first..first + 8).for_each(|sector| story.drives[usize::from(HDD)].spoil(sector));
        begin_migration(&mut story, 60);
        if !story.volume().view().moving || story.volume().lost_blocks() == 0 {
            continue;
        }
        during += 1;
        story.run(OpKind::Discard, 0, 8, false);
        assert_eq!(story.status_of_read(0, 8), Status::Done, "seed {seed}");
        story.pass(Nanoseconds::from_seconds(100), ALL);
        assert_eq!((story.status_of_read(0, 8), story.volume().lost_blocks()), (Status::Done, 0), "seed {seed}");
    }
    assert!(during > 0, "no discard came during a migration that had lost the block");
}

/// Writes a block as three stable pieces. Eighths 0 and 1 are of the first write, 2 to 4 of the
/// second, 5 to 7 of the third. Returns the numbers of the writes and the slots.
fn three_pieces(story: &mut Story) -> ([u64; 3], Vec<Slot>) {
    let numbers = [(80, 8), (82, 6), (85, 3)].map(|(start, sectors)| {
        let number = story.write(start, sectors);
        story.flush();
        number
    });
    // Records of the following writes declare the pieces stable.
    (0..2).for_each(|_| {
        story.write(800, 8);
        story.flush();
    });
    let pieces = story.volume().view().map.pieces(Block(10));
    assert_eq!(pieces.iter().map(|(_, entry)| entry.valid.0).collect::<Vec<_>>(), [0b11, 0b1_1100, 0b1110_0000]);
    (numbers, pieces.iter().map(|(slot, _)| *slot).collect())
}

/// Damage of one piece is an error of the eighths that it holds. The other pieces are read,
/// migrated and read again. An eighth is lost until it is written.
#[test]
fn damaged_piece_is_an_error_of_its_eighths_alone() {
    for damaged in 0..3 {
        let mut story = Story::new(damaged as u64, "griffin", ONLY_TIMEOUT, 4000);
        let (numbers, slots) = three_pieces(&mut story);
        let region = story.volume().view().layout.slots.expect("a log");
        let first = region.first_sector + u64::from(slots[damaged].0) * 8;
        (first..first + 8).for_each(|sector| story.drives[usize::from(HDD)].spoil(sector));
        let parts = [(80, 2), (82, 3), (85, 3)];
        let check = |story: &mut Story, when: &str| {
            for (piece, (start, sectors)) in parts.into_iter().enumerate() {
                let wanted = if piece == damaged { Status::MediaError } else { Status::Done };
                assert_eq!(story.status_of_read(start, sectors), wanted, "{when}: piece {piece}, {damaged} is damaged");
                if piece != damaged {
                    assert_eq!(story.read(start, sectors), vec![numbers[piece]; sectors as usize], "{when}");
                }
            }
        };
        check(&mut story, "in the log");
        assert_eq!(story.volume().lost_blocks(), 1);
        story.cut();
        check(&mut story, "after a cut");
        story.pass(Nanoseconds::from_seconds(200), ALL);
        assert!(story.volume().view().map.is_empty(), "the migration has ended");
        check(&mut story, "at home");
        story.flush();
        story.cut();
        check(&mut story, "at home, after a cut");
        // Writes all sectors of the piece but one. That sector stays an error.
        let (start, sectors) = parts[damaged];
        let new = story.write(start + 1, sectors - 1);
        assert_eq!(story.read(start + 1, sectors - 1), vec![new; sectors as usize - 1]);
        assert_eq!(story.status_of_read(start, sectors), Status::MediaError);
        let last = story.write(start, 1);
        story.flush();
        story.cut();
        assert_eq!(story.read(start, 2), [last, new]);
        assert_eq!(story.volume().lost_blocks(), 0);
    }
}

/// Pieces of two segments are read together with the foot and the head between them. An error in
/// the foot or the head fails no read.
#[test]
fn error_between_two_segments_is_no_error_of_a_read() {
    let settings = [("timeout", "off"), ("read_threshold", "off"), ("log_buffer", "16KiB")];
    let mut story = Story::new(0, "griffin", &settings, 4000);
    let numbers = [story.write(80, 32), story.write(112, 32)];
    story.flush();
    let slot_of = |story: &mut Story, block| story.volume().view().map.get(Block(block)).expect("it is logged").0;
    let (last, first) = (slot_of(&mut story, 13), slot_of(&mut story, 14));
    assert_eq!(first.0, last.0 + 3, "a foot and a head lie between");
    let expected: Vec<u64> = numbers.iter().flat_map(|&number| [number; 32]).collect();
    assert_eq!(story.read(80, 64), expected);
    let region = story.volume().view().layout.slots.expect("a log");
    let foot = region.first_sector + u64::from(last.0 + 1) * 8;
    story.drives[usize::from(HDD)].spoil(foot + 2);
    assert_eq!(story.read(80, 64), expected);
    assert_eq!(story.volume().lost_blocks(), 0);
}

/// A discard drops all pieces of a block. Later writes are joined with home's content, and stay so
/// after a cut.
#[test]
fn discarded_pieces_do_not_come_back() {
    for seed in 0..TIMES {
        let mut story = Story::new(seed, "griffin", ONLY_TIMEOUT, 4000);
        let (numbers, _) = three_pieces(&mut story);
        story.run(OpKind::Discard, 80, 8, false);
        let new = story.write(82, 2);
        story.flush();
        let before = story.read(80, 8);
        story.cut();
        let found = story.read(80, 8);
        assert_eq!(found, before, "{seed}");
        assert_eq!(found[2..4], [new; 2], "{seed}");
        let home = story.drives[usize::from(SSD)].content(80);
        assert!(!matches!(home, Sector::Data { .. }), "nothing went home");
        assert!(!found.iter().any(|number| numbers.contains(number)), "{seed}: {found:?}");
    }
}
