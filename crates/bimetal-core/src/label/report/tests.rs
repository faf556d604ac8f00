//! The report against a plain list of blocks, and its page against damage.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::page::{LISTED_MAX, Pages, newest, places};
use super::*;
use crate::journal::page::{self as pages, PAGE_BYTES};
use crate::label::lifetime;
use crate::label::places::CopyPlace;
use crate::units::Bytes;

const VOLUME: u64 = 7;

fn run(first: u64, count: u64) -> BlockRun {
    BlockRun { first: Block(first), count }
}

fn lost(first: u64, count: u64) -> Finding {
    let (kind, state, member) = (Kind::Checksum, State::Lost, MemberId(1));
    Finding { run: run(first, count), kind, state, member, at: 100, acknowledged: false }
}

/// Single blocks are lost, each far from the next.
fn find_each(report: &mut Report, places: impl Iterator<Item = u64>) {
    for at in places {
        report.found(lost(2 * at, 1));
    }
}

/// A change of a report.
#[derive(Clone, Debug)]
enum Event {
    Lost(u64, u64),
    Repaired(u64, u64),
    Over(u64, u64),
    Unclear(u64, u64),
    Acknowledge,
    Accept,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let range = || (0u64..600, 1u64..40);
    prop_oneof![
        4 => range().prop_map(|(first, count)| Event::Lost(first, count)),
        // Single blocks far from each other do not fit a page.
        4 => (0u64..300).prop_map(|at| Event::Lost(2 * at, 1)),
        2 => range().prop_map(|(first, count)| Event::Repaired(first, count)),
        2 => range().prop_map(|(first, count)| Event::Over(first, count)),
        1 => range().prop_map(|(first, count)| Event::Unclear(first, count)),
        1 => Just(Event::Acknowledge),
        1 => Just(Event::Accept),
        1 => Just(Event::Restart),
    ]
}

fn apply(report: &mut Report, event: &Event) {
    match *event {
        Event::Lost(first, count) => {
            report.found(lost(first, count));
        }
        Event::Repaired(first, count) => {
            report.found(Finding { state: State::Repaired, ..lost(first, count) });
        }
        Event::Over(first, count) => {
            report.over(run(first, count));
        }
        Event::Unclear(first, count) => report.unclear(run(first, count)),
        Event::Acknowledge => {
            report.acknowledge(5, "somebody");
        }
        Event::Accept => {
            report.accept(AcceptedLoss { at: 3, member: MemberId(0), what: GivenUp::Content, blocks: Some(9) });
        }
        Event::Restart => {}
    }
}

/// A model of the report as a list of blocks: the state of each, and its acknowledgement.
fn apply_to_blocks(blocks: &mut BTreeMap<u64, (State, bool)>, event: &Event) {
    match *event {
        Event::Lost(first, count) => (first..first + count).for_each(|block| {
            let known = blocks.get(&block).is_some_and(|&(state, _)| state == State::Lost);
            if !known {
                blocks.insert(block, (State::Lost, false));
            }
        }),
        Event::Repaired(first, count) => (first..first + count).for_each(|block| {
            blocks.insert(block, (State::Repaired, false));
        }),
        Event::Over(first, count) => (first..first + count).for_each(|block| match blocks.get(&block) {
            Some((State::Lost, true)) => drop(blocks.remove(&block)),
            Some((State::Lost, false)) => drop(blocks.insert(block, (State::Rewritten, false))),
            _ => {}
        }),
        Event::Unclear(first, count) => blocks.range_mut(first..first + count).for_each(|(_, it)| {
            *it = if it.0 == State::Lost { (State::Uncertain, false) } else { *it };
        }),
        Event::Acknowledge => {
            blocks.retain(|_, (state, _)| *state == State::Lost);
            blocks.values_mut().for_each(|(_, acknowledged)| *acknowledged = true);
        }
        Event::Accept => blocks.values_mut().for_each(|it| {
            *it = if it.0 == State::Lost { (State::GivenUp, false) } else { (it.0, false) };
        }),
        Event::Restart => {}
    }
}

proptest! {
    /// Ranges are joined and cut. Joined and cut ranges must have the same blocks as a plain list
    /// of blocks.
    #[test]
    fn ranges_say_what_single_blocks_say(events in proptest::collection::vec(event(), 0..60)) {
        let (mut report, mut blocks) = (Report::default(), BTreeMap::new());
        for event in &events {
            apply(&mut report, event);
            apply_to_blocks(&mut blocks, event);
        }
        let mut said = BTreeMap::new();
        for finding in report.findings() {
            for block in finding.run.blocks() {
                prop_assert_eq!(said.insert(block.0, (finding.state, finding.acknowledged)), None);
            }
        }
        prop_assert_eq!(&said, &blocks);
        let count = |is: &dyn Fn(&(State, bool)) -> bool| blocks.values().filter(|it| is(it)).count() as u64;
        prop_assert_eq!(report.lost_blocks(), count(&|it| it.0 == State::Lost));
        prop_assert_eq!(report.acknowledged_blocks(), count(&|it| it.1));
        prop_assert_eq!(report.other_blocks(), count(&|it| it.0 != State::Lost));
    }

    /// A page of the report has room for a limited number of ranges. The counts must be right
    /// although ranges are missing, and a restart forgets at most the places of blocks.
    #[test]
    fn a_page_keeps_every_count(events in proptest::collection::vec(event(), 0..400)) {
        let mut report = Report::default();
        for event in &events {
            apply(&mut report, event);
            let (volume, read) = Report::decode(&report.encode(VOLUME)).unwrap();
            prop_assert_eq!(volume, VOLUME);
            prop_assert!(read.findings().count() <= LISTED_MAX);
            prop_assert_eq!(read.lost_blocks(), report.lost_blocks());
            prop_assert_eq!(read.acknowledged_blocks(), report.acknowledged_blocks());
            prop_assert_eq!(read.other_blocks(), report.other_blocks());
            prop_assert_eq!(read.is_empty(), report.is_empty());
            if report.findings().count() <= LISTED_MAX {
                prop_assert_eq!(&read, &report);
            }
            if matches!(event, Event::Restart) {
                report = read;
            }
        }
    }

    /// A block that is found again after a restart is not counted twice, although its place was
    /// forgotten.
    #[test]
    fn blocks_found_again_count_once(places in proptest::collection::btree_set(0u64..5000, 0..300)) {
        let mut report = Report::default();
        find_each(&mut report, places.iter().copied());
        let (_, mut read) = Report::decode(&report.encode(VOLUME)).unwrap();
        find_each(&mut read, places.iter().copied());
        prop_assert_eq!(read.lost_blocks(), places.len() as u64);
        prop_assert_eq!(read.unlisted(), Unlisted::default());
    }

    #[test]
    fn a_report_reads_back(
        numbers: [u64; 3],
        scrub: Option<[u64; 5]>,
        losses in proptest::collection::vec((any::<u64>(), any::<u16>(), any::<bool>(), any::<Option<u64>>()), 0..12),
        lines in proptest::collection::vec((any::<u64>(), ".{0,200}"), 0..12),
        doubtful: bool,
    ) {
        let [sequence, checksum_errors, _] = numbers;
        let last_scrub = scrub.map(|[at, blocks_read, blocks_bad, took_ms, blocks_lost]| {
            LastScrub { at, blocks_read, blocks_bad, took_ms, blocks_lost }
        });
        let mut report = Report { sequence, checksum_errors, last_scrub, doubtful, ..Report::default() };
        for (at, member, foreign, blocks) in losses {
            let what = if foreign { GivenUp::Foreign } else { GivenUp::Content };
            report.accept(AcceptedLoss { at, member: MemberId(member), what, blocks });
        }
        lines.iter().for_each(|(at, text)| report.note(*at, text));
        prop_assert_eq!(Report::decode(&report.encode(VOLUME)), Ok((VOLUME, report)));
    }

    #[test]
    fn any_flipped_bit_is_noticed(at in 0..PAGE_BYTES, bit in 0u8..8) {
        let mut report = Report { sequence: 3, ..Report::default() };
        report.found(lost(5, 9));
        let mut page = report.encode(VOLUME);
        page[at] ^= 1 << bit;
        prop_assert!(Report::decode(&page).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
        let mut page = Report::default().encode(VOLUME);
        page[6..28].copy_from_slice(&bytes[6..28]);
        page[32..].copy_from_slice(&bytes[32..]);
        pages::seal(&mut page);
        let _ = Report::decode(&page).map(|(_, report)| report.encode(VOLUME));
    }

    /// Cuts writings of a report to two members at any of their pages; then any page is damaged.
    /// The last report that was written completely is read, or a newer report. An older report is
    /// read only as a doubtful report.
    #[test]
    fn a_rotten_page_brings_no_older_report_back(
        cuts in proptest::collection::vec(0usize..=4, 1..8),
        rot in proptest::option::of((0usize..2, 0usize..2, 0usize..2, 0..PAGE_BYTES)),
    ) {
        let mut members: [Pages; 2] = [[[Some([0; PAGE_BYTES]); 2]; 2]; 2];
        let (mut whole, mut sequence) = (0, 0);
        for cut in cuts {
            sequence += 1;
            let report = Report { sequence, checksum_errors: sequence, ..Report::default() };
            let page = report.encode(VOLUME);
            let order = [(0, 0), (0, 1), (1, 0), (1, 1)];
            for (member, copy) in order.into_iter().take(cut) {
                members[member][report.turn()][copy] = Some(page);
            }
            if cut < 4 {
                // The next start goes on from the report that it reads.
                let (member, copy) = order[cut];
                members[member][report.turn()][copy].as_mut().unwrap()[99] ^= 1;
                sequence = newest(&members, VOLUME, 0).sequence;
            }
            whole = if cut == 4 { sequence } else { whole };
        }
        if let Some((member, turn, copy, at)) = rot {
            members[member][turn][copy].as_mut().unwrap()[at] ^= 4;
        }
        let read = newest(&members, VOLUME, 1);
        prop_assert!(read.sequence >= whole || read.doubtful, "{} < {whole}", read.sequence);
        prop_assert_eq!(read.checksum_errors, read.sequence);
    }
}

#[test]
fn rot_of_both_copies_of_the_newest_report_is_told() {
    let page = |sequence| Some(Report { sequence, ..Report::default() }.encode(VOLUME));
    let rotten = |sequence| {
        let mut page: [u8; PAGE_BYTES] = page(sequence).unwrap();
        page[40] ^= 1;
        Some(page)
    };
    let sound = [[page(6); 2], [page(5); 2]];
    assert_eq!(newest(&[sound], VOLUME, 9), Report { sequence: 6, ..Report::default() });
    let one = [[rotten(6), page(6)], [page(5); 2]];
    assert!(!newest(&[one], VOLUME, 9).doubtful);
    for gone in [rotten(6), None, Some([0; PAGE_BYTES])] {
        let both = [[gone; 2], [page(5); 2]];
        let read = newest(&[both], VOLUME, 9);
        assert_eq!((read.sequence, read.doubtful, read.is_empty()), (5, true, false));
        assert!(read.history()[0].text.contains("could not be read"), "{:?}", read.history());
        assert!(!newest(&[both, sound], VOLUME, 9).doubtful, "another member has it");
    }
    assert_eq!(newest(&[[[Some([0; PAGE_BYTES]); 2]; 2]], VOLUME, 9), Report::default());
    assert_eq!(newest(&[sound], VOLUME + 1, 9), Report::default(), "another volume's");
}

/// Regression: one flipped bit in a page that was never written made the report of a new volume
/// doubtful.
#[test]
fn damage_of_a_page_that_was_never_written_is_no_doubt() {
    let blank = [[Some([0; PAGE_BYTES]); 2]; 2];
    let mut bit = [0; PAGE_BYTES];
    bit[100] = 1;
    for (turn, copy) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut damaged = blank;
        damaged[turn][copy] = Some(bit);
        assert_eq!(newest(&[damaged, blank], VOLUME, 9), Report::default());
        // With both copies gone a report may have been there.
        damaged[turn] = [Some(bit); 2];
        assert!(newest(&[damaged, blank], VOLUME, 9).doubtful);
    }
}

#[test]
fn an_acknowledgement_clears_all_but_what_is_still_lost() {
    let mut report = Report::default();
    assert_eq!(report.acknowledge(1, "root"), None);
    report.found(lost(10, 4));
    report.found(Finding { state: State::Repaired, ..lost(20, 2) });
    report.accept(AcceptedLoss { at: 2, member: MemberId(0), what: GivenUp::Foreign, blocks: None });
    let cleared = report.acknowledge(3, "root").unwrap();
    assert_eq!(cleared, Acknowledged { lost_blocks: 4, other_blocks: 2, losses: 1 });
    assert_eq!(
        report.history().last().unwrap().text,
        "root acknowledged 4 lost blocks, 2 other bad blocks and 1 accepted loss"
    );
    assert!(report.is_empty());
    assert_eq!((report.lost_blocks(), report.acknowledged_blocks()), (4, 4));
    assert!(!report.found(lost(11, 1)), "that is known, and acknowledged");
    assert_eq!(report.acknowledge(4, "root"), None);
    assert!(report.over(run(10, 4)));
    assert_eq!((report.lost_blocks(), report.findings().count()), (0, 0));
}

#[test]
fn ranges_beyond_the_bound_are_counted() {
    let mut report = Report::default();
    find_each(&mut report, 0..RANGES_MAX as u64 + 10);
    assert_eq!((report.findings().count(), report.unlisted().lost), (RANGES_MAX, 10));
    assert_eq!(report.lost_blocks(), RANGES_MAX as u64 + 10);
    let (_, read) = Report::decode(&report.encode(VOLUME)).unwrap();
    assert_eq!((read.findings().count(), read.lost_blocks()), (LISTED_MAX, RANGES_MAX as u64 + 10));
}

#[test]
fn a_complete_scrub_knows_every_lost_block() {
    let mut report = Report::default();
    find_each(&mut report, 0..200);
    let (_, mut read) = Report::decode(&report.encode(VOLUME)).unwrap();
    assert_eq!(read.lost_blocks(), 200);
    read.scrubbed(LastScrub { at: 9, blocks_read: 500, ..LastScrub::default() });
    assert_eq!((read.lost_blocks(), read.other_blocks()), (LISTED_MAX as u64, 200 - LISTED_MAX as u64));
}

#[test]
fn report_pages_lie_between_state_and_label() {
    let capacity = Bytes::from_mib(8).sectors();
    let own = places(capacity).unwrap();
    let tail = crate::label::tail_start(capacity).unwrap();
    assert_eq!(own[0][0].start.0, tail.0 + 32);
    assert_eq!(own[0][0].end(), own[1][0].start);
    assert_eq!(own[1][0].end(), own[0][1].start);
    assert!(own[1][1].end() <= CopyPlace::First.pages(capacity).unwrap()[0].start);
    assert!(own[1][1].end() <= lifetime::places(capacity).unwrap()[0][0].start);
}
