//! States and the table of places that are damaged, or return from an earlier time: each defect
//! that such damage once caused, as the shortest story that shows the defect.

mod story;

use bimetal_core::layout::MemberId;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::Nanoseconds;
use bimetal_core::volume::RecoveryError;
use bimetal_fault::damage::Structure;
use story::{ALL, HDD, Kept, SSD, Story, flip_bit, keep, pages, put_back};

const MAXIMIZED: &[(&str, &str)] = &[("mode", "maximized"), ("idle", "1h")];

/// Sectors of a range that can change its place, in [`begin_combo`].
const RANGE: u64 = 128;
/// First sector of a range that lies on the HDD at first.
const ON_HDD: u64 = 100 * RANGE;

/// Returns a volume whose ranges of addresses are about to change places: a range of the HDD was
/// read often, so it moves to the SSD. Each range has content of its own.
fn begin_combo() -> (Story, Vec<u64>) {
    let settings =
        [("strategy", "frequency"), ("range", "64KiB"), ("period", "10s"), ("idle", "1ms"), ("repeat", "off")];
    let mut story = Story::new(1, "combo", &settings, 8000);
    let written = (0..110).map(|range| story.write(range * RANGE, 8)).collect();
    story.flush();
    for _ in 0..20 {
        story.read(ON_HDD, 8);
    }
    (story, written)
}

fn ranges_read_back(story: &mut Story, written: &[u64], what: &str) {
    for (range, &number) in (0..).zip(written) {
        assert_eq!(story.read(range * RANGE, 8), [number; 8], "{what}: range {range}");
    }
}

/// Regression: both copies of a page of the table of places came back from an earlier time. Ranges
/// that had moved since were read from their old places, which had the content of other addresses
/// in the meantime.
#[test]
fn table_of_places_that_is_older_than_the_state_is_refused() {
    let (mut story, mut written) = begin_combo();
    let earlier = keep(&mut story, Structure::Places);
    story.pass(Nanoseconds::from_seconds(20), ALL);
    assert!(story.volume().statistics().relocated_ranges > 0, "no range has moved");
    written[100] = story.write(ON_HDD, 8);
    story.flush();
    let now = keep(&mut story, Structure::Places);
    story.cut_power();
    for (copy, (page, content)) in earlier.iter().enumerate() {
        put_back(&mut story, page, content);
        let what = format!("copy {copy} is older");
        story.recover();
        ranges_read_back(&mut story, &written, &what);
        story.cut_power();
        put_back(&mut story, &now[copy].0, &now[copy].1);
    }
    earlier.iter().for_each(|(page, content)| put_back(&mut story, page, content));
    match story.try_to_recover(&[]) {
        Err(RecoveryError::Damaged { what, .. }) => assert!(what.contains("does not match the version"), "{what}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("an older table of places is taken"),
    }
}

/// A power cut between a page of the table and the state that records it leaves the page one
/// version ahead. Such a page is not damaged.
#[test]
fn power_cut_at_any_step_of_a_move_leaves_a_table_that_fits() {
    for steps in 0.. {
        let (mut story, written) = begin_combo();
        let is_over = story.pass_some(Nanoseconds::from_seconds(20), steps);
        for again in ["", " and another cut"] {
            story.cut();
            ranges_read_back(&mut story, &written, &format!("after {steps} steps{again}"));
        }
        if is_over {
            return assert!(steps >= 14, "a move takes more steps");
        }
    }
}

/// Regression: both copies of a page of the table of places came back from an earlier time, and
/// both copies of the newest state too. The other turn of the state had the digest of that time, so
/// a range was read from its old place, with old content. Now the digest lies in both turns before
/// home changes, wherever a power cut interrupts the move.
#[test]
fn table_and_newest_state_of_an_earlier_time_are_refused() {
    const MOVE: Nanoseconds = Nanoseconds::from_seconds(20);
    const STEPS: u64 = 24;
    let mut refused = 0;
    for (before, behind) in (0..STEPS).flat_map(|before| (0..STEPS).map(move |behind| (before, behind))) {
        let (mut story, mut written) = begin_combo();
        story.pass_some(MOVE, before);
        let (table, states) = (keep(&mut story, Structure::Places), keep(&mut story, Structure::State));
        story.pass_some(MOVE, behind);
        story.cut();
        (0..).zip(&mut written).for_each(|(range, number)| *number = story.write(range * RANGE, 8));
        story.flush();
        let (table_now, states_now) = (keep(&mut story, Structure::Places), keep(&mut story, Structure::State));
        story.cut_power();
        for turn in 0..2 {
            let newest = [&states[turn], &states[turn + 2]];
            table.iter().chain(newest).for_each(|(page, content)| put_back(&mut story, page, content));
            match story.try_to_recover(&[]) {
                Err(_) => refused += 1,
                Ok(volume) => {
                    story.volume = Some(volume);
                    let what = format!("cut after {before} and {behind} steps, turn {turn} is older");
                    ranges_read_back(&mut story, &written, &what);
                    story.cut_power();
                }
            }
            table_now.iter().chain(&states_now).for_each(|(page, content)| put_back(&mut story, page, content));
        }
    }
    assert!(refused > 100, "the table is older than the state in many cases: {refused}");
}

#[test]
fn range_moves_only_when_both_turns_have_the_digest() {
    let (mut story, _) = begin_combo();
    let of_witness = |story: &mut Story| keep(story, Structure::State)[..4].to_vec();
    let earlier = of_witness(&mut story);
    while story.volume().statistics().relocated_ranges == 0 {
        assert!(!story.pass_some(Nanoseconds::from_seconds(20), 1), "no range has moved");
    }
    let now = of_witness(&mut story);
    assert!((0..4).all(|page| earlier[page].1 != now[page].1), "each page has a new state");
}

/// Puts each turn of the state back to an earlier time, in both copies, and asserts that home alone
/// is refused then: the other turn says that the SSD is needed.
fn assert_older_turn_is_refused(story: &mut Story, earlier: &Kept, newest: &Kept, what: &str) {
    for turn in 0..2 {
        for copy in [turn, turn + 2] {
            put_back(story, &earlier[copy].0, &earlier[copy].1);
        }
        assert!(story.try_to_recover(&[MemberId(SSD)]).is_err(), "{what}, turn {turn} is older: home alone is served");
        for copy in [turn, turn + 2] {
            put_back(story, &newest[copy].0, &newest[copy].1);
        }
    }
}

/// Regression: both copies of the newest state came back from an earlier time, when no content was
/// off home. Without the SSD, home was served with old content.
#[test]
fn state_put_back_in_both_copies_forgets_no_needed_member() {
    let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
    let earlier = keep(&mut story, Structure::State);
    story.write(0, 8);
    story.flush();
    let newest = keep(&mut story, Structure::State);
    story.cut_power();
    let changed = |turn: usize| earlier[turn].1 != newest[turn].1;
    assert!(changed(0) && changed(1), "the first dirty block is recorded in both turns");
    assert_older_turn_is_refused(&mut story, &earlier, &newest, "nothing was off home");
}

/// Regression: a power cut came between the two turns of a state that says that the SSD is needed.
/// The next recovery completed the copies of that turn and left the other turn as it was. If the
/// complete turn then came back from an earlier time, no page said that the SSD is needed. With a
/// damaged slot table, or without the SSD, home was served with old content.
#[test]
fn state_cut_between_its_turns_is_completed_by_recovery() {
    let mut completed = 0;
    for steps in 0..8 {
        let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
        let earlier = keep(&mut story, Structure::State);
        story.send(OpKind::Write, 0, 8, false);
        story.answer_some(ALL, steps);
        story.cut();
        story.write(8, 8);
        story.flush();
        let newest = keep(&mut story, Structure::State);
        story.cut_power();
        completed += usize::from((0..4).all(|page| earlier[page].1 != newest[page].1));
        assert_older_turn_is_refused(&mut story, &earlier, &newest, &format!("{steps} steps"));
    }
    assert_eq!(completed, 8, "the state lies in all pages, wherever it was cut");
}

/// Regression: the write of a state's other turn failed three times, and was given up until the
/// next recovery. If the turn that had been written then came back from an earlier time, home was
/// served without the SSD, with old content.
#[test]
fn state_whose_other_turn_failed_is_written_there_again() {
    for (failing, errors) in [(0, 3), (1, 3), (2, 3), (3, 3), (2, 6), (3, 6)] {
        let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
        let earlier = keep(&mut story, Structure::State);
        story.send(OpKind::Write, 0, 8, false);
        let mut writes = 0;
        story.answer_failing(|operation| {
            let is_state = operation.target == HDD && operation.command.kind == OpKind::Write;
            writes += u64::from(is_state);
            is_state && (failing + 1..=failing + errors).contains(&writes)
        });
        story.flush();
        let newest = keep(&mut story, Structure::State);
        story.cut_power();
        assert_older_turn_is_refused(
            &mut story,
            &earlier,
            &newest,
            &format!("{errors} errors behind {failing} writes"),
        );
    }
}

/// Regression: one copy of a state was damaged by a power cut, and its repair failed. After the
/// failed repair the write of the next state destroyed the other copy, and another cut came. The
/// turn had no sound copy, and the volume was refused. Now the copy that may be damaged is written
/// first.
#[test]
fn copy_of_a_state_that_was_damaged_is_written_first() {
    for at in 0..4 {
        let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
        let all = pages(&mut story, Structure::State);
        story.cut_power();
        flip_bit(&mut story, &all[at], 100);
        story.recover();
        story.send(OpKind::Write, 0, 8, false);
        let of_turn = [all[at].sector, all[(at + 2) % 4].sector];
        let mut written = Vec::new();
        story.answer_failing(|operation| {
            let start = operation.command.range.start.0;
            let is_of_turn = operation.target == HDD && of_turn.contains(&start);
            written.extend((is_of_turn && operation.command.kind == OpKind::Write).then_some(start));
            false
        });
        assert_eq!(written, of_turn, "page {at}");
    }
}

/// The write of a copy of a state failed, and destroyed the page. The next state of that turn is
/// first written to the destroyed copy.
#[test]
fn copy_of_a_state_that_could_not_be_written_is_written_first() {
    for failing in 0..2 {
        let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
        let pages: Vec<u64> = pages(&mut story, Structure::State).iter().map(|page| page.sector).collect();
        story.send(OpKind::Write, 0, 8, false);
        let mut written = Vec::new();
        story.answer_failing(|operation| {
            let page = pages.iter().position(|&page| page == operation.command.range.start.0);
            let page = page.filter(|_| operation.target == HDD && operation.command.kind == OpKind::Write);
            written.extend(page);
            page.is_some() && written.len() > failing && written[failing..].iter().all(|page| *page == written[failing])
        });
        let failed = written[failing];
        let others = written[failing..].iter().skip_while(|page| **page == failed);
        let again = others.clone().find(|page| *page % 2 == failed % 2);
        assert_eq!(again, Some(&failed), "{written:?}");
    }
}

/// A page of a state that can never be written costs no home, and its writes come to an end.
#[test]
fn state_page_that_is_never_written_costs_no_home() {
    for at in 0..4 {
        let mut story = Story::new(1, "smart-response", MAXIMIZED, 8000);
        let bad = pages(&mut story, Structure::State).swap_remove(at).sector;
        let mut errors = 0;
        for block in 0..20 {
            story.send(OpKind::Write, block * 8, 8, true);
            story.answer_failing(|operation| {
                let is_bad = operation.target == HDD && operation.command.range.start.0 == bad;
                errors += u64::from(is_bad);
                is_bad
            });
        }
        assert_eq!(story.volume().view().member(MemberId(HDD)).state, MemberState::Online, "page {at}");
        assert!((3..=12).contains(&errors), "page {at} was written {errors} times");
    }
}
