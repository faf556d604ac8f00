//! Defects that one damaged page once caused, each as the shortest story that shows it, and damage
//! cases under every scheme.
//!
//! A failed case prints the line that replays it. `BIMETAL_FAULT_SEED=N` (and
//! `BIMETAL_FAULT_SCHEME=NAME`) runs that case alone. `BIMETAL_FAULT_TRACE=1` prints all its
//! requests and operations.

mod seeds;
mod story;

use bimetal_core::block::{Block, BlockSize};
use bimetal_core::journal::record::RECORDS_PER_PAGE;
use bimetal_core::journal::{MARK_REGION_BLOCKS, SEGMENT_PAGES};
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Operation, Status};
use bimetal_core::schemes;
use bimetal_core::units::{Nanoseconds, Sectors};
use bimetal_core::volume::GaveUp;
use bimetal_fault::damage::{Page, Structure, copies_of, survey};
use bimetal_fault::payload::{Sector, Tags};
use bimetal_fault::run_damage_case;
use story::{ALL, BLOCKS, Kept, SSD, Story, flip_bit, flushed, keep, pages, put_back, reads_back, sectors};

/// Smallest number of cases of all schemes together, in the two tests that run at the same time on
/// two cores.
const CASES: u64 = 10_000;
fn run_all(half: u64) {
    seeds::run_all(half, CASES.div_ceil(2 * schemes::every().count() as u64), run_damage_case, |scheme, total, _| {
        eprintln!("{}: {}", scheme.name, total.damage.details());
    });
}

#[test]
fn every_scheme_keeps_its_word_when_pages_are_damaged() {
    run_all(0);
}

/// Runs other seeds at the same time on the other core.
#[test]
fn every_scheme_keeps_its_word_when_pages_are_damaged_again() {
    run_all(1);
}

/// Flips one bit of each page of `structure` in turn, in a volume that was not closed. Recovery
/// tells of each bad page that it reads: of all but `unread` pages.
fn one_bit_of_each(scheme: &'static str, settings: &[(&str, &str)], structure: Structure, unread: usize) {
    each_damaged(scheme, settings, structure, unread, |story, page| flip_bit(story, page, 100));
}

/// Does the same as [`one_bit_of_each`] with another `damage`.
fn each_damaged(
    scheme: &'static str,
    settings: &[(&str, &str)],
    structure: Structure,
    unread: usize,
    damage: impl Fn(&mut Story, &Page),
) {
    let mut told = 0;
    let (mut story, _) = flushed(scheme, settings);
    let count = pages(&mut story, structure).len();
    assert!(count > 0, "{scheme} has no {} page", structure.name());
    for at in 0..count {
        let (mut story, written) = flushed(scheme, settings);
        let page = pages(&mut story, structure).swap_remove(at);
        story.cut_power();
        damage(&mut story, &page);
        reads_back(&mut story, &written, &format!("{scheme}, damage of {page}"));
        let bad: Vec<_> = story.volume().bad_pages().collect();
        assert!(bad.is_empty() || bad == [(MemberId(page.member), 1)], "{scheme}, damage of {page}: {bad:?}");
        told += bad.len();
        story.cut();
        assert_eq!(story.volume().bad_pages().count(), 0, "{scheme}: {page} was written again");
    }
    assert_eq!(count - told, unread, "{scheme}: recovery is silent about pages of the structure {}", structure.name());
}

const MAXIMIZED: &[(&str, &str)] = &[("mode", "maximized"), ("idle", "1h")];

/// Regression: a ring page that did not decode was taken for the ring's end, although later pages
/// declared all of it stable. One flipped bit took back half a ring of flushed writes. Recovery,
/// status and scrub reported no error.
#[test]
fn one_bit_of_a_ring_page_takes_nothing_back() {
    // Recovery reads the second copy of a page only if the first copy is bad.
    let second_copies = |scheme, settings| {
        let (mut story, _) = flushed(scheme, settings);
        pages(&mut story, Structure::Ring).len() / 2
    };
    one_bit_of_each("smart-response", MAXIMIZED, Structure::Ring, second_copies("smart-response", MAXIMIZED));
    let settings = &[("idle", "1h")];
    one_bit_of_each("hybrid-disk", settings, Structure::Ring, second_copies("hybrid-disk", settings));
}

/// Regression: recovery took an empty page for a page that a power cut had prevented, also where a
/// later page recorded the empty page as stable. Recovery wrote the page again, and told nobody.
#[test]
fn zeroed_ring_page_that_was_stable_is_told() {
    let settings = &[("idle", "1h")];
    let (mut story, _) = flushed("hybrid-disk", settings);
    let count = pages(&mut story, Structure::Ring).len();
    let zero = |story: &mut Story, page: &Page| {
        let drive = &mut story.drives[usize::from(page.member)];
        (page.sector..page.sector + 8).for_each(|sector| drive.replace(sector, Sector::Zero));
    };
    // Recovery does not read second copies. Nothing records the last page as stable.
    each_damaged("hybrid-disk", settings, Structure::Ring, count / 2 + 1, zero);
}

/// Regression: a log ended before the first segment whose page did not decode.
#[test]
fn one_bit_of_a_segment_page_takes_nothing_back() {
    // Nothing proves that the power cut did not come before the head or foot of the last segment.
    one_bit_of_each("writeboost", &[("idle", "off")], Structure::Segment, 2);
    one_bit_of_each("griffin", &[("timeout", "off"), ("read_threshold", "off")], Structure::Segment, 2);
}

/// Regression: two superblocks are written in turn. If the newer superblock did not decode, the
/// older superblock counted, as if the power had been cut before the newer superblock was written.
#[test]
fn one_bit_of_a_superblock_takes_nothing_back() {
    one_bit_of_each("smart-response", MAXIMIZED, Structure::Superblock, 0);
    one_bit_of_each("writeboost", &[("idle", "off")], Structure::Superblock, 0);
}

/// Regression: a new volume had only one written page of state. If that page was damaged, the
/// volume was lost.
#[test]
fn one_bit_of_the_state_of_a_new_volume_costs_nothing() {
    one_bit_of_each("hdd-only", &[], Structure::State, 0);
    one_bit_of_each("smart-response", MAXIMIZED, Structure::State, 0);
}

/// Both superblocks of a pair have the same marks, each in an area of its own. Regression: if the
/// area of the newer superblock was damaged, every clean copy was dropped, and nobody was told.
#[test]
fn damaged_marks_are_read_from_the_other_area() {
    const FAR: u64 = MARK_REGION_BLOCKS * 8;
    let copies_after = |damage: &dyn Fn(&mut Story, &[Page])| {
        let sizes = (8000, Sectors(2 * FAR));
        let mut story = Story::with_home(1, "smart-response", &[], sizes, BlockSize::default());
        (0..20).for_each(|block| drop(story.read(FAR + block * 8, 8)));
        // Each write changes home in place, under a copy in the cache.
        for round in 0..400 {
            story.read(round % 10 * 8, 8);
            story.write(round % 10 * 8, 8);
            story.flush();
        }
        let table = pages(&mut story, Structure::Table);
        story.cut_power();
        damage(&mut story, &table);
        story.recover();
        let bad = story.volume().bad_pages().map(|(_, pages)| pages).sum::<u64>();
        (story.volume().view().map.len(), bad, table.len())
    };
    let (copies, bad, count) = copies_after(&|_, _| {});
    assert_eq!((copies, bad), (20, 0), "the marked region has no copies left");
    let mut told = 0;
    for at in 0..count {
        let (copies, bad, _) = copies_after(&|story, table| flip_bit(story, &table[at], 0));
        assert_eq!(copies, 20, "page {at} of {count}");
        told += bad;
    }
    // Recovery does not read the area of marks of the other turn.
    assert_eq!(told, count as u64 - 1);
}

/// Regression: an entry of the slot table that failed its check made the whole volume unservable.
/// The only remaining way, a start that accepts the loss, lost every dirty block.
#[test]
fn one_bit_of_the_slot_table_costs_nothing() {
    for byte in (0..BLOCKS * 16).step_by(7) {
        let (mut story, written) = flushed("smart-response", MAXIMIZED);
        let now = story.now;
        story.volume().close(now);
        story.answer(ALL);
        assert!(story.volume().is_closed());
        let table = pages(&mut story, Structure::Table);
        story.cut_power();
        flip_bit(&mut story, &table[0], byte);
        reads_back(&mut story, &written, &format!("bit 0 of byte {byte} of {}", table[0]));
    }
}

/// The power cut interrupted a checkpoint whose table pages were already on the drive. Recovery
/// wrote the same page for the same superblock, with other entries. Later the checkpoint's page
/// came back in the first copy and passed for the recovery's page. Flushed data read as before
/// their last write.
#[test]
fn page_of_a_checkpoint_that_was_cut_short_is_not_taken() {
    let is_superblock = |operation: &Operation<Tags>| operation.target == SSD && operation.command.fua;
    let is_open = |operation: &Operation<Tags>| operation.target != SSD || !operation.command.fua;
    let mut story = Story::new(1, "smart-response", MAXIMIZED, 2000);
    let mut written = Vec::new();
    let mut flushed_write = |story: &mut Story| {
        written.push(story.send(OpKind::Write, 8 * written.len() as u64, 8, false));
        story.answer(is_open);
        story.send(OpKind::Flush, 0, 0, false);
        story.answer(is_open);
    };
    while !story.waiting.iter().any(is_superblock) {
        flushed_write(&mut story);
    }
    let first = pages(&mut story, Structure::Table).swap_remove(0);
    let drive = usize::from(first.member);
    let unfinished: Vec<Sector> = (0..8).map(|at| story.drives[drive].content(first.sector + at)).collect();
    flushed_write(&mut story);
    story.cut();
    story.cut_power();
    for (at, sector) in (0..).zip(unfinished) {
        story.drives[drive].replace(first.sector + at, sector);
    }
    reads_back(&mut story, &written, "an earlier page of the table");
}

/// Reads each block. Returns the blocks whose reads return the content `written`.
fn blocks_as_written(story: &mut Story, written: &[u64]) -> Vec<u64> {
    let mut right = Vec::new();
    for (block, &number) in (0..).zip(written) {
        if story.read(block * 8, 8) == [number; 8] {
            right.push(block);
        }
    }
    right
}

/// Regression: bits were flipped in both copies of a page of the slot table. The only remaining
/// way, a start that accepts the loss, lost every dirty block of the cache, although each entry has
/// a check of its own.
#[test]
fn entries_of_twice_damaged_page_count_after_accepted_loss() {
    // The bits hit different entries in the two copies, then the same entry. The other content of a
    // page with zeroes in it cannot be known.
    for (bytes, lost) in [([40 + 16 * 3, 40 + 16 * 5], 0), ([40 + 16 * 4, 40 + 16 * 4], 1)] {
        let (mut story, written) = flushed("smart-response", MAXIMIZED);
        let now = story.now;
        story.volume().close(now);
        story.answer(ALL);
        let table = pages(&mut story, Structure::Table);
        let copies: Vec<&Page> = std::iter::once(&table[0]).chain(copies_of(&table[0], &table)).collect();
        assert_eq!(copies.len(), 2);
        story.cut_power();
        copies.iter().zip(bytes).for_each(|(copy, byte)| flip_bit(&mut story, copy, byte));
        let refused = story.try_to_recover(&[]).map(drop).expect_err("both copies are damaged");
        assert!(refused.to_string().contains("--accept-loss"), "{refused}");
        story.recover_giving_up();
        assert_eq!(story.volume().gave_up(), Some(GaveUp::Part(None)));
        assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS - lost);
        // The next start finds the metadata whole again.
        story.cut();
        assert_eq!(story.volume().gave_up(), None);
        assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS - lost);
    }
}

/// Regression: the second copy of a page of the slot table was damaged. Recovery read first copies
/// alone, so the damage stayed. Later a power cut tore the first copy while a checkpoint wrote it,
/// and the cache was refused. Recovery itself writes first copies, and may be cut as well: so
/// recovery must write the second copy before the first copy.
#[test]
fn second_copy_of_the_slot_table_is_written_again_first() {
    let mut mended = 0;
    for steps in 0.. {
        let (mut story, written) = flushed("smart-response", MAXIMIZED);
        let now = story.now;
        story.volume().close(now);
        story.answer(ALL);
        story.cut();
        // The ring has newer records of the page, so that recovery writes both copies.
        let newest = story.write(0, 8);
        story.flush();
        let table = pages(&mut story, Structure::Table);
        let [first, second] = [&table[0], copies_of(&table[0], &table).next().expect("two copies")];
        let before = sectors(&story, first);
        story.cut_power();
        flip_bit(&mut story, second, 100);
        let bad = sectors(&story, second);
        let has_ended = story.recover_some(steps, |recovery| recovery);
        let is_bad = sectors(&story, second) == bad;
        assert!(!is_bad || sectors(&story, first) == before, "{steps} steps: neither copy is whole if one is torn");
        mended += u64::from(!is_bad);
        if has_ended {
            assert!(!is_bad, "the damage stays");
            flip_bit(&mut story, first, 100);
            let written: Vec<u64> = std::iter::once(newest).chain(written[1..].iter().copied()).collect();
            reads_back(&mut story, &written, "the first copy is damaged");
            break;
        }
    }
    assert!(mended > 2, "recovery was cut behind its first write of the second copy");
}

/// Regression: a power cut tore one copy of a page of the slot table, and the other copy was
/// damaged. The cache had only copies of home. Although home had all content, the cache was given
/// up, and the volume was served without the cache. If the loss was accepted, the entries of blocks
/// that had since gone home came back as dirty, and were silently old.
#[test]
fn cache_that_home_does_not_need_begins_empty_when_damaged() {
    let mut begun_empty = [0; 2];
    for (kind, structure) in [Structure::Table, Structure::Ring].into_iter().enumerate() {
        for page in 0.. {
            let (mut story, mut written) = flushed("smart-response", MAXIMIZED);
            let now = story.now;
            if structure == Structure::Table {
                story.volume().close(now);
                story.answer(ALL);
                story.cut();
            }
            let now = story.now;
            story.volume().drain(now, false);
            story.answer(ALL);
            assert_eq!(story.volume().view().map.dirty_blocks(), 0);
            // The drain sends these writes home. A checkpoint has emptied the ring before, so the
            // writes leave several pages in the ring.
            for block in [3, 7, 2, 9, 4] {
                written[block] = story.write(block as u64 * 8, 8);
                story.flush();
            }
            let all = pages(&mut story, structure);
            // The last page of the ring proves that those before it are damaged.
            let firsts = all.len() / 2 - usize::from(structure == Structure::Ring);
            if page == firsts {
                break;
            }
            story.cut_power();
            for first in &all[page..firsts.min(page + 3)] {
                for copy in std::iter::once(first).chain(copies_of(first, &all)) {
                    flip_bit(&mut story, copy, 100);
                }
            }
            if page % 2 == 0 {
                story.recover()
            } else {
                story.recover_giving_up()
            }
            assert!(story.volume().view().slots_online(), "page {page}: the cache takes part");
            begun_empty[kind] += usize::from(story.volume().began_empty().is_some());
            assert_eq!(story.volume().gave_up(), None);
            assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS, "{structure:?} {page}");
            written[5] = story.write(5 * 8, 8);
            story.flush();
            story.cut();
            assert!(story.volume().began_empty().is_none(), "page {page}: the metadata is whole again");
            assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS, "{structure:?} {page}");
        }
    }
    assert!(begun_empty.into_iter().all(|caches| caches > 0), "{begun_empty:?}");
}

/// Runs a request to the unit whose home is the flash.
fn on_flash_unit<T>(story: &mut Story, run: impl FnOnce(&mut Story) -> T) -> T {
    story.unit = 1;
    let answer = run(story);
    story.unit = 0;
    answer
}

/// A volume of `os-managed` whose superblocks are damaged.
struct OsManaged {
    story: Story,
    /// Writes of the disk's first blocks.
    written: Vec<u64>,
    /// Write of the flash's own unit.
    of_flash: u64,
    superblocks: Vec<Page>,
    /// The journal and the slot table.
    map: Kept,
}

/// Returns a volume of `os-managed` with writes offloaded to its flash and a block of the flash's
/// own unit, all flushed. `goes_home` sends the offloaded writes home. Then all superblocks are
/// damaged by `harm`.
fn os_managed(goes_home: bool, harm: fn(&mut Story, &Page)) -> OsManaged {
    let (mut story, written) = flushed("os-managed", &[("flush_period", "off")]);
    let of_flash = on_flash_unit(&mut story, |story| story.write(8, 8));
    story.flush();
    if goes_home {
        let now = story.now;
        story.volume().drain(now, false);
        story.answer(ALL);
        story.flush();
    }
    assert_eq!(story.volume().view().map.dirty_blocks() == 0, goes_home);
    let superblocks = pages(&mut story, Structure::Superblock);
    assert_eq!(superblocks.len(), 4);
    let map = [Structure::Ring, Structure::Table].map(|structure| keep(&mut story, structure)).concat();
    story.cut_power();
    superblocks.iter().for_each(|page| harm(&mut story, page));
    OsManaged { story, written, of_flash, superblocks, map }
}

const ONE_BIT: fn(&mut Story, &Page) = |story, page| flip_bit(story, page, 100);
const ZEROED: fn(&mut Story, &Page) = |story, page| {
    (page.sector..page.sector + 8).for_each(|at| story.drives[usize::from(page.member)].replace(at, Sector::Zero));
};

/// Regression: all superblocks of a cache were damaged, on a drive that is home of other blocks.
/// The volume was refused for good, even where the loss was accepted: its sound blocks could not be
/// read any more.
#[test]
fn cache_on_a_home_begins_anew_without_superblocks() {
    for (goes_home, harm) in [(false, ONE_BIT), (false, ZEROED), (true, ONE_BIT), (true, ZEROED)] {
        let OsManaged { mut story, mut written, of_flash, .. } = os_managed(goes_home, harm);
        if goes_home {
            story.recover();
            assert!(story.volume().began_empty().is_some() && story.volume().gave_up().is_none());
            assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS);
        } else {
            let Err(error) = story.try_to_recover(&[]) else { panic!("old content is served in silence") };
            assert!(error.to_string().contains("--accept-loss"), "{error}");
            story.recover_giving_up();
            assert_eq!(story.volume().gave_up(), Some(GaveUp::All));
            assert!(story.volume().began_empty().is_some());
            assert!(blocks_as_written(&mut story, &written).is_empty(), "home has older content");
        }
        assert_eq!(on_flash_unit(&mut story, |story| story.read(8, 8)), [of_flash; 8], "the flash's own unit is sound");
        for block in 0..BLOCKS {
            written[block as usize] = story.write(block * 8, 8);
            story.flush();
        }
        story.cut_power();
        reads_back(&mut story, &written, "the cache is used again");
        assert!(story.volume().began_empty().is_none());
    }
}

/// Regression: one of the superblocks could not be erased. The rest of the map was erased after
/// this failure, and the remaining superblock might have counted at the next start, without its
/// journal.
#[test]
fn superblock_that_is_not_erased_keeps_the_rest_of_the_map() {
    for at in 0..4 {
        let OsManaged { mut story, superblocks, map, .. } = os_managed(false, ONE_BIT);
        let place = superblocks[at].sector;
        let fails = |operation: &Operation<Tags>| {
            operation.target == SSD
                && operation.command.kind == OpKind::WriteZeroes
                && operation.command.range.start.0 == place
        };
        assert!(story.recover_giving_up_failing(fails).is_err());
        for (page, content) in &map {
            assert!(sectors(&story, page) == *content, "{page} is erased");
        }
    }
}

/// A recovery that begins a cache anew is cut after each of its operations. Old superblocks are
/// erased first: nothing of the old map counts together with new superblocks.
#[test]
fn cut_while_a_cache_begins_anew_takes_nothing_back() {
    for goes_home in [true, false] {
        let mut cuts = 0;
        for count in 0.. {
            let OsManaged { mut story, written, of_flash, .. } = os_managed(goes_home, ONE_BIT);
            let ended = story.recover_some(count, |recovery| if goes_home { recovery } else { recovery.accept_loss() });
            story.cut_power();
            story.recover_giving_up();
            assert_eq!(
                on_flash_unit(&mut story, |story| story.read(8, 8)),
                [of_flash; 8],
                "cut behind {count} operations"
            );
            let right = if goes_home { BLOCKS } else { 0 };
            assert_eq!(blocks_as_written(&mut story, &written).len() as u64, right, "cut behind {count} operations");
            cuts += 1;
            if ended {
                break;
            }
        }
        assert!(cuts > 20, "{cuts} cuts");
    }
}

/// Regression: a stretch of a log longer than three segments was wiped. The stretch was taken for
/// the log's end. The blocks in it and after it read as before their last write.
#[test]
fn wiped_stretch_of_a_log_is_not_its_end() {
    let mut story = Story::new(1, "writeboost", &[("idle", "off")], 3_000_000);
    for block in 0..1000 {
        story.write(block * 8 % 8000, 8);
        if block % 20 == 0 {
            story.flush();
        }
    }
    story.flush();
    let log = story.volume().view().layout.slots.expect("a log");
    story.cut_power();
    let drive = &mut story.drives[usize::from(log.member.0)];
    (log.first_sector + 80..log.first_sector + 80 + 600 * 8).for_each(|sector| drive.replace(sector, Sector::Zero));
    assert!(story.try_to_recover(&[]).is_err());
}

/// A ring page, or a segment's head and foot, is damaged in both copies. Regression: the content of
/// the pages after the damaged page was lost too.
#[test]
fn pages_behind_one_damaged_twice_count_when_a_loss_is_accepted() {
    for (scheme, settings, structure) in
        [("smart-response", MAXIMIZED, Structure::Ring), ("writeboost", &[("idle", "off")], Structure::Segment)]
    {
        let (mut story, written) = flushed(scheme, settings);
        let all = pages(&mut story, structure);
        let copies: Vec<&Page> = std::iter::once(&all[2]).chain(copies_of(&all[2], &all)).collect();
        assert_eq!(copies.len(), 2, "{scheme}: {all:?}");
        story.cut_power();
        copies.iter().for_each(|copy| flip_bit(&mut story, copy, 100));
        story.try_to_recover(&[]).map(drop).expect_err("both copies are damaged");
        story.recover_giving_up();
        assert_eq!(story.volume().gave_up(), Some(GaveUp::Part(None)));
        assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS - 1, "{scheme}");
        // The next start loses nothing more.
        story.cut();
        assert_eq!(story.volume().gave_up(), None);
        assert_eq!(blocks_as_written(&mut story, &written).len() as u64, BLOCKS - 1, "{scheme}");
    }
}

/// Regression: recovery met an unreadable page at the ring's end, where nothing was ever written,
/// and refused.
#[test]
fn unreadable_page_behind_the_ring_costs_nothing() {
    let (mut story, written) = flushed("smart-response", MAXIMIZED);
    let blank = pages(&mut story, Structure::Blank);
    story.cut_power();
    let drive = &mut story.drives[usize::from(blank[0].member)];
    (blank[0].sector..blank[0].sector + 8).for_each(|sector| drive.spoil(sector));
    reads_back(&mut story, &written, &format!("{} cannot be read", blank[0]));
}

/// Regression: two pages behind the end of a log could not be read. The first was in the place of
/// the next segment's head. Recovery took the second for the foot of this segment also where no
/// segment reaches, and refused.
#[test]
fn unreadable_pages_behind_a_log_cost_nothing() {
    // A segment has at most a head, a foot, and a block for each record of a page.
    let longest = RECORDS_PER_PAGE as u64 + SEGMENT_PAGES;
    for (blocks, refuses) in [(5, true), (longest, true), (longest + 1, false)] {
        let (mut story, written) = flushed("griffin", &[("timeout", "off"), ("read_threshold", "off")]);
        let last = pages(&mut story, Structure::Segment).into_iter().max_by_key(|page| page.sector).unwrap();
        story.cut_power();
        let drive = &mut story.drives[usize::from(last.member)];
        [last.sector + 8, last.sector + 8 * blocks].into_iter().for_each(|sector| drive.spoil(sector));
        if refuses {
            assert!(story.try_to_recover(&[]).is_err(), "a segment may lie there");
        } else {
            reads_back(&mut story, &written, "two pages behind the log cannot be read");
        }
    }
}

/// Damage to a dirty slot whose record is known to be stable is an error of its block. The block
/// never reads as home's content.
#[test]
fn rotten_slot_is_an_error_of_its_block_alone() {
    let (mut story, written) = flushed("smart-response", MAXIMIZED);
    let (drive, sector) = in_slot_of(&mut story, 3);
    story.cut_power();
    story.drives[drive].rot(sector);
    story.recover();
    one_block_is_an_error(&mut story, &written, 3);
}

/// Returns a sector of the slot of a block: the drive, and the sector on that drive.
fn in_slot_of(story: &mut Story, block: u64) -> (usize, u64) {
    let view = story.volume().view();
    let slots = view.layout.slots.expect("a cache or a log has slots");
    let slot = view.map.get(Block(block)).expect("the block is in a slot").0;
    (slots.member.0.into(), slots.first_sector + u64::from(slot.0) * 8 + 2)
}

/// Regression: one bit of a slot of the last flush was damaged, half a second after the flush at
/// most. The log seemed to end at the damaged slot, so the whole flush was lost without a word.
#[test]
fn damaged_slot_of_the_last_flush_costs_its_block_alone() {
    for (scheme, settings) in [("writeboost", [("idle", "off")].as_slice()), ("griffin", &[("timeout", "off")])] {
        for damaged in [0, 13, 29] {
            let mut story = Story::new(7, scheme, settings, 8000);
            let older: Vec<u64> = (0..30).map(|block| story.write(block * 8, 8)).collect();
            story.flush();
            let newer: Vec<u64> = (0..30).map(|block| story.write(block * 8, 8)).collect();
            story.flush();
            let (drive, sector) = in_slot_of(&mut story, damaged);
            story.drives[drive].rot(sector);
            for again in 0..3 {
                story.cut();
                for block in 0..30 {
                    let expected = if block == damaged { &older } else { &newer }[block as usize];
                    let what = format!("{scheme}, block {block}, recovery {again}");
                    assert_eq!(story.read(block * 8, 8), vec![expected; 8], "{what}");
                }
            }
            let again = story.write(damaged * 8, 8);
            story.flush();
            story.cut();
            assert_eq!(story.read(damaged * 8, 8), vec![again; 8], "{scheme}");
        }
    }
}

/// Regression: a power cut lost a segment that was not flushed, and left the page after it that
/// records the flushed segments as stable. Recovery found the end of the log at the gap, and did
/// not take the record from the page. So the last flush was in doubt, and a damaged slot of it read
/// as before.
#[test]
fn page_behind_a_lost_segment_records_what_is_stable() {
    for (scheme, settings) in [("writeboost", [("idle", "off")].as_slice()), ("griffin", &[("timeout", "off")])] {
        for seed in 1..20 {
            let mut story = Story::new(seed, scheme, settings, 8000);
            (0..200).for_each(|block| _ = story.write(block * 8, 8));
            story.flush();
            let newer: Vec<u64> = (0..200).map(|block| story.write(block * 8, 8)).collect();
            story.flush();
            (300..310).for_each(|block| _ = story.write(block * 8, 8));
            story.pass(Nanoseconds::from_millis(900), ALL);
            let (drive, sector) = in_slot_of(&mut story, 199);
            story.cut_power();
            story.drives[drive].rot(sector);
            story.recover();
            for block in 0..200 {
                let what = format!("{scheme}, seed {seed}, block {block}");
                if block == 199 {
                    assert_eq!(story.status_of_read(block * 8, 8), Status::MediaError, "{what} is not old");
                } else {
                    assert_eq!(story.read(block * 8, 8), vec![newer[block as usize]; 8], "{what}");
                }
            }
        }
    }
}

/// Regression: a power cut in a commit lost a page of the ring, and left the page after it that
/// records the commit before as stable. Recovery did not take the record from the page. So the
/// commit before was in doubt, and a damaged slot of it read as before.
#[test]
fn ring_page_behind_a_lost_page_records_what_is_stable() {
    let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
    (0..30).for_each(|block| _ = story.write(block * 8, 8));
    story.flush();
    let newer: Vec<u64> = (0..30).map(|block| story.write(block * 8, 8)).collect();
    story.flush();
    // This commit has two pages. Nothing records it as stable.
    (0..300).for_each(|at| _ = story.write((100 + at * 7 % 300) * 8, 8));
    story.flush();
    let (drive, sector) = in_slot_of(&mut story, 13);
    let ring = pages(&mut story, Structure::Ring);
    let copy = ring.len() / 2;
    assert_eq!(copy, 4, "one page for each of the first two commits");
    story.cut_power();
    [&ring[2], &ring[2 + copy]].into_iter().for_each(|page| put_back(&mut story, page, &vec![Sector::Zero; 8]));
    story.drives[drive].rot(sector);
    story.recover();
    assert_eq!(story.status_of_read(13 * 8, 8), Status::MediaError, "block 13 is not old");
    assert_eq!(story.read(12 * 8, 8), vec![newer[12]; 8]);
}

/// Regression: heads and feet of all segments are gone, long after the last flush or after a close.
/// No other metadata recorded where the log ended, so flushed blocks were old without a word. Now
/// the index records the end of the log.
#[test]
fn index_alone_recovers_a_log_at_rest() {
    for (scheme, settings) in [("writeboost", [("idle", "off")].as_slice()), ("griffin", &[("timeout", "off")])] {
        for closes in [false, true] {
            let mut story = Story::new(7, scheme, settings, 8000);
            let written: Vec<u64> = (0..60).map(|block| story.write(block * 8, 8)).collect();
            story.flush();
            if closes {
                let now = story.now;
                story.volume().close(now);
                story.answer(ALL);
                assert!(story.volume().is_closed());
            } else {
                story.pass(Nanoseconds::from_seconds(1), ALL);
            }
            for page in pages(&mut story, Structure::Segment) {
                put_back(&mut story, &page, &vec![Sector::Zero; 8]);
            }
            story.cut();
            for (block, &number) in written.iter().enumerate() {
                assert_eq!(story.read(block as u64 * 8, 8), vec![number; 8], "{scheme}, block {block}");
            }
        }
    }
}

/// Returns a log after a power cut that the `kept` pages of its index survived: three pages in two
/// copies, for 400 blocks that one flush made durable. Then the slot of block `rotten` is damaged,
/// and both copies of the page `gone` are zero. The numbers of the writes are returned, too. The
/// index is not flushed, so a cut keeps some of its pages.
fn log_with_damaged_index(kept: &[usize], gone: usize, rotten: u64) -> (Story, Vec<u64>) {
    let survivor = (1..100).find_map(|seed| {
        let mut story = Story::new(seed, "writeboost", &[("idle", "off")], 8000);
        let written: Vec<u64> = (0..400).map(|block| story.write(block * 8, 8)).collect();
        story.flush();
        let index = pages(&mut story, Structure::Index);
        assert_eq!(index.len(), 6, "three pages in two copies: {index:?}");
        let layout = story.volume().view().layout.clone();
        let bad = in_slot_of(&mut story, rotten);
        story.cut_power();
        let left = survey(&layout, &story.drives);
        let survives = |page: &Page| left.contains(page) || copies_of(page, &left).next().is_some();
        kept.iter().all(|&page| survives(&index[page])).then_some((story, written, index, bad))
    });
    let (mut story, written, index, (drive, sector)) = survivor.expect("these pages survive some power cuts");
    story.drives[drive].rot(sector);
    let copies: Vec<&Page> = std::iter::once(&index[gone]).chain(copies_of(&index[gone], &index)).collect();
    assert_eq!(copies.len(), 2, "{index:?}");
    for page in copies {
        let drive = &mut story.drives[usize::from(page.member)];
        (page.sector..page.sector + 8).for_each(|sector| drive.replace(sector, Sector::Zero));
    }
    (story, written)
}

/// Checks that each block reads as `written`, and block `rotten` is an error.
fn one_block_is_an_error(story: &mut Story, written: &[u64], rotten: u64) {
    for (block, &number) in (0..).zip(written) {
        let read = story.send(OpKind::Read, block * 8, 8, false);
        story.answer(ALL);
        let finished = &story.finished[&read];
        if block == rotten {
            assert_eq!(finished.status, Status::MediaError, "block {block}, whose slot is damaged");
        } else {
            let expected = Sector::Data { request: number as u32, sector: block as u32 * 8 };
            assert_eq!((finished.status, finished.payload.at(0)), (Status::Done, expected), "block {block}");
        }
    }
}

/// Regression: both copies of a page of a log's index were gone, one by a power cut, and a slot was
/// damaged. The next page of the index proved that the flush had ended. Recovery did not use that
/// page, so the log ended at the damaged slot, and later flushed writes were silently old.
#[test]
fn index_page_behind_a_lost_one_proves_segments_stable() {
    let (mut story, written) = log_with_damaged_index(&[2], 0, 200);
    story.recover();
    one_block_is_an_error(&mut story, &written, 200);
}

/// Regression: a page of a log's index named blocks of a segment after the position up to which the
/// page was complete. The next page was gone, so recovery took that segment for doubtful. A slot of
/// the segment was damaged, so the log ended before it, with its blocks still in the map. The log
/// then appended to a slot in use and stopped.
#[test]
fn segment_that_an_index_page_names_in_part_is_stable() {
    // A segment has 127 blocks. The first two pages name 338 blocks, so they end in the third.
    for rotten in [0, 130, 254, 300, 380] {
        let (mut story, written) = log_with_damaged_index(&[0, 1], 2, rotten);
        story.recover();
        one_block_is_an_error(&mut story, &written, rotten);
        let more: Vec<u64> = (400..700).map(|block| story.write(block * 8, 8)).collect();
        story.flush();
        for (block, number) in (400..).zip(more) {
            assert_eq!(story.read(block * 8, 8), [number; 8], "block {block}, written after the recovery");
        }
    }
}

/// Regression: a damaged foot stayed as it was until its segment's head was damaged, too. When the
/// head was damaged, both copies were gone.
#[test]
fn damaged_head_or_foot_is_written_again_by_recovery() {
    for (scheme, settings) in
        [("writeboost", [("idle", "off")].as_slice()), ("griffin", &[("timeout", "off"), ("read_threshold", "off")])]
    {
        let count = pages(&mut flushed(scheme, settings).0, Structure::Segment).len();
        for (at, unreadable) in (0..count).flat_map(|at| [(at, false), (at, true)]) {
            let (mut story, written) = flushed(scheme, settings);
            let (page, content) = keep(&mut story, Structure::Segment).swap_remove(at);
            story.cut_power();
            let drive = &mut story.drives[usize::from(page.member)];
            if unreadable {
                (page.sector..page.sector + 8).for_each(|sector| drive.spoil(sector));
            } else {
                flip_bit(&mut story, &page, 100);
            }
            reads_back(&mut story, &written, &format!("{scheme}, {page}"));
            let drive = &story.drives[usize::from(page.member)];
            let now: Vec<Sector> = (page.sector..page.sector + 8).map(|sector| drive.content(sector)).collect();
            assert!(now == content, "{scheme}: {page} is as it was damaged, unreadable: {unreadable}");
        }
    }
}

/// Regression: the loss of a block ended with zeroes at its home. The journal recorded the end of
/// the loss at once, but the zeroes were not stable: no block was dirty, so they were not written
/// through. After a power cut the block had home's older content, and no error.
#[test]
fn lost_block_that_was_zeroed_is_not_old_after_a_power_cut() {
    for seed in 1..40 {
        let mut story = Story::new(seed, "smart-response", &[("mode", "maximized"), ("idle", "1ms")], 8000);
        story.write(24, 8);
        story.flush();
        story.pass(Nanoseconds::from_seconds(100), ALL);
        assert_eq!(story.volume().view().map.dirty_blocks(), 0, "home has the first content");
        story.write(24, 8);
        story.flush();
        let (drive, sector) = in_slot_of(&mut story, 3);
        story.drives[drive].rot(sector);
        story.pass(Nanoseconds::from_seconds(100), ALL);
        assert_eq!((story.volume().view().map.dirty_blocks(), story.volume().lost_blocks()), (0, 1));
        story.flush();
        story.run(OpKind::WriteZeroes, 24, 8, false);
        story.run(OpKind::Write, 800, 8, true);
        story.cut();
        let read = story.send(OpKind::Read, 24, 8, false);
        story.answer(ALL);
        let finished = &story.finished[&read];
        let is_zero = finished.payload.iter().all(|sector| sector == Sector::Zero);
        assert!(finished.status == Status::MediaError || is_zero, "seed {seed}: {:?}", finished.payload);
    }
}

/// Regression: a read of a dirty slot was under way while a move wrote the block home. After the
/// write home the slot rotted. The read was an error, although home had the content.
#[test]
fn slot_that_rots_after_its_move_is_read_from_home() {
    let mut story = Story::new(1, "smart-response", &[("mode", "maximized"), ("idle", "1ms")], 8000);
    let written = story.write(24, 8);
    story.flush();
    let (drive, sector) = in_slot_of(&mut story, 3);
    let read = story.send(OpKind::Read, 24, 8, false);
    story.answer_some(ALL, 0);
    let slow = story.waiting.pop_front().expect("the slot is read");
    // The drive is busy with the read, so a flush and not idle time begins the move.
    let now = story.now;
    story.volume().drain(now, false);
    story.answer(ALL);
    assert_eq!(story.volume().view().map.dirty_blocks(), 0, "home has the block");
    story.drives[drive].rot(sector);
    story.waiting.push_back(slow);
    story.answer(ALL);
    assert_eq!(story.finished[&read].status, Status::Done);
    assert_eq!(story.found_by(read), [written; 8]);
}
