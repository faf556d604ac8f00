//! Makes requests with response times out of block events.
//!
//! The kernel queues a request, merges and splits it on its way, and tells of what the drive has finished. So a
//! request is done when completions of its kind have covered all of its range, whatever pieces they came in. What else
//! has to be known, as seen on Linux 6.18:
//!
//! * A flush is queued as `FWS 0 + 0`, issued as `FF 0 + 0`, completed as `FF −1 + 0`; one flush of the drive may
//!   serve several queued ones, and then each of them completes as `WS 0 + 0`.
//! * A write with a flush in front (`FWFS`) completes as a write, and once more with length 0 when it is stable.
//! * The events of several CPUs come a little out of order.

use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::{cmp, mem};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use super::event::{BlockEvent, Letters, Stage};
use crate::Request;

/// How far the events of several CPUs may be out of order.
const DISORDER: Nanoseconds = Nanoseconds::from_millis(200);
/// How long a request waits for its completion before it is given without.
const PATIENCE: Nanoseconds = Nanoseconds::from_seconds(60);
/// How long a stable write waits for the completion with length 0.
const PATIENCE_STABLE: Nanoseconds = Nanoseconds::from_seconds(2);
/// Requests that may wait; beyond it, the oldest is given without its response time.
const WAITING_MAX: usize = 1 << 20;

/// An event on its way to be put in order; the earliest is the greatest, equal times in the order seen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Unordered {
    event: BlockEvent,
    seen: u64,
}

impl Ord for Unordered {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        (other.event.at, other.seen).cmp(&(self.event.at, self.seen))
    }
}

impl PartialOrd for Unordered {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// When a request was done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not yet.
    Open,
    /// Then.
    At(Nanoseconds),
    /// The kernel does not tell.
    Untold,
}

/// A request that waits for its completion.
struct Waiting {
    request: Request,
    /// Sectors that no completion has covered yet.
    remaining: u64,
    /// When the drive finished the last of it.
    end: End,
    /// Another completion, of length 0, says when it is stable.
    stable_later: bool,
}

/// Pairs events of one address space into requests in order of arrival. Memory grows with what is in flight.
pub struct Pairing {
    arrival: Stage,
    unordered: BinaryHeap<Unordered>,
    seen: u64,
    newest: Nanoseconds,
    /// In order of arrival; the first has the number `given`.
    waiting: VecDeque<Waiting>,
    given: u64,
    /// By kind and first sector: the numbers of waiting requests with sectors that are not covered.
    open: BTreeSet<(u8, u64, u64)>,
    /// The longest range that was open, by kind: how far in front of a completion to look.
    longest: [u64; 4],
    flushes: VecDeque<u64>,
    unpaired: u64,
}

impl Pairing {
    /// Takes the events of `arrival` ([`Stage::Queue`] or [`Stage::Issue`]) for the arrival of requests.
    pub fn new(arrival: Stage) -> Self {
        assert_ne!(arrival, Stage::Complete, "a completion is no arrival");
        Self {
            arrival,
            unordered: BinaryHeap::new(),
            seen: 0,
            newest: Nanoseconds::ZERO,
            waiting: VecDeque::new(),
            given: 0,
            open: BTreeSet::new(),
            longest: [0; 4],
            flushes: VecDeque::new(),
            unpaired: 0,
        }
    }

    /// Takes the next event, and appends the requests that are known by it to `requests`, with arrivals on the clock of
    /// the events and device 0.
    pub fn push(&mut self, event: BlockEvent, requests: &mut Vec<Request>) {
        self.newest = self.newest.max(event.at);
        self.unordered.push(Unordered { event, seen: self.seen });
        self.seen += 1;
        while let Some(first) = self.unordered.peek() {
            if first.event.at.saturating_add(DISORDER) > self.newest {
                break;
            }
            let event = first.event;
            self.unordered.pop();
            self.take(event);
            self.give(event.at, requests);
        }
    }

    /// There are no more events: appends what is left.
    pub fn finish(mut self, requests: &mut Vec<Request>) -> Unpaired {
        for unordered in mem::take(&mut self.unordered).into_sorted_vec().into_iter().rev() {
            self.take(unordered.event);
        }
        while let Some(first) = self.waiting.pop_front() {
            self.give_one(first, requests);
        }
        Unpaired(self.unpaired)
    }

    fn take(&mut self, event: BlockEvent) {
        if event.stage == self.arrival {
            self.arrive(event);
        } else if event.stage == Stage::Complete {
            self.complete(event);
        }
    }

    fn arrive(&mut self, event: BlockEvent) {
        let Letters { kind: Some(kind), preflush, fua } = event.letters else { return };
        let empty = event.range.is_empty();
        // What was issued is already taken apart: its flushes are requests of their own.
        let flush = kind == OpKind::Flush || (preflush && self.arrival == Stage::Queue);
        if flush {
            let number = self.wait(event.at, OpKind::Flush, false, SectorRange::default(), 0);
            if empty {
                self.flushes.push_back(number);
            } else {
                // Its end is not told of; what it is in front of is.
                self.close(number, End::Untold);
            }
        }
        if empty || kind == OpKind::Flush {
            return;
        }
        let number = self.wait(event.at, kind, fua, event.range, event.range.len.0);
        let waiting = self.waiting.back_mut().expect("it was just put there");
        waiting.stable_later = self.arrival == Stage::Queue && (preflush || fua);
        let code = code(kind);
        self.open.insert((code, event.range.start.0, number));
        let longest = &mut self.longest[usize::from(code)];
        *longest = (*longest).max(event.range.len.0);
    }

    fn wait(&mut self, at: Nanoseconds, kind: OpKind, fua: bool, range: SectorRange, remaining: u64) -> u64 {
        let request = Request { arrival: at, device: 0, kind, fua, range, response: None };
        self.waiting.push_back(Waiting { request, remaining, end: End::Open, stable_later: false });
        self.given + self.waiting.len() as u64 - 1
    }

    fn complete(&mut self, event: BlockEvent) {
        let Some(kind) = event.letters.kind else { return };
        if event.range.is_empty() {
            self.complete_without_data(kind, event.range.start, event.at);
            return;
        }
        if kind == OpKind::Flush {
            return;
        }
        let code = code(kind);
        let (start, end) = (event.range.start.0, event.range.end().0);
        let from = start.saturating_sub(self.longest[usize::from(code)]);
        let candidates: Vec<(u8, u64, u64)> = self.open.range((code, from, 0)..(code, end, 0)).copied().collect();
        // A completion covers each sector once: of two requests for the same sectors, the older is done first.
        let mut covered = start;
        for key in candidates {
            let (_, first, number) = key;
            let waiting = self.of_number(number).expect("what is open is waiting");
            let last = first + waiting.request.range.len.0;
            let (overlap_start, overlap_end) = (first.max(covered), last.min(end));
            if overlap_start >= overlap_end {
                continue;
            }
            waiting.remaining = waiting.remaining.saturating_sub(overlap_end - overlap_start);
            covered = overlap_end;
            if waiting.remaining == 0 {
                self.close(number, End::At(event.at));
                self.open.remove(&key);
            }
        }
        if self.open.is_empty() {
            self.longest = [0; 4];
        }
    }

    /// A completion of length 0: a flush is done, or a write is stable.
    fn complete_without_data(&mut self, kind: OpKind, start: Sectors, at: Nanoseconds) {
        let told_by = if self.arrival == Stage::Issue { OpKind::Flush } else { OpKind::Write };
        if kind != told_by {
            return;
        }
        let stable = self
            .waiting
            .iter_mut()
            .find(|waiting| waiting.stable_later && waiting.end != End::Open && waiting.request.range.start == start);
        if let Some(waiting) = stable {
            waiting.end = End::At(at);
            waiting.stable_later = false;
        } else if let Some(number) = self.flushes.pop_front() {
            self.close(number, End::At(at));
        }
    }

    fn of_number(&mut self, number: u64) -> Option<&mut Waiting> {
        let index = number.checked_sub(self.given)?;
        self.waiting.get_mut(usize::try_from(index).ok()?)
    }

    fn close(&mut self, number: u64, end: End) {
        if let Some(waiting) = self.of_number(number) {
            waiting.remaining = 0;
            waiting.end = end;
        }
    }

    /// Gives what is done or has waited too long, oldest first.
    fn give(&mut self, now: Nanoseconds, requests: &mut Vec<Request>) {
        while let Some(first) = self.waiting.front() {
            let age = now.saturating_sub(first.request.arrival);
            let ready = match first.end {
                End::At(at) => !first.stable_later || now.saturating_sub(at) > PATIENCE_STABLE,
                End::Untold => true,
                End::Open => age > PATIENCE || self.waiting.len() > WAITING_MAX,
            };
            if !ready {
                return;
            }
            let first = self.waiting.pop_front().expect("it was just looked at");
            self.give_one(first, requests);
        }
    }

    fn give_one(&mut self, waiting: Waiting, requests: &mut Vec<Request>) {
        let mut request = waiting.request;
        match waiting.end {
            End::Untold => {}
            End::At(at) => request.response = Some(at.saturating_sub(request.arrival)),
            End::Open => {
                self.unpaired += 1;
                self.open.remove(&(code(request.kind), request.range.start.0, self.given));
                self.flushes.retain(|number| *number != self.given);
            }
        }
        self.given += 1;
        requests.push(request);
    }
}

/// How many requests were given without their completion having been seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unpaired(pub u64);

/// Kinds by number: an order for the map of what is open.
fn code(kind: OpKind) -> u8 {
    match kind {
        OpKind::Read => 0,
        OpKind::Write => 1,
        OpKind::Discard => 2,
        OpKind::WriteZeroes | OpKind::Flush | OpKind::Hint => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Line, parse_tracefs_line};
    use super::*;

    /// Each line: microseconds, event, letters, sector, length.
    fn pair(arrival: Stage, lines: &str) -> (Vec<Request>, u64) {
        let mut pairing = Pairing::new(arrival);
        let mut requests = Vec::new();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [at, event, letters, sector, len] = fields[..] else { panic!("{line}") };
            let between = if event == "bio_queue" { "" } else { "0 () " };
            let text =
                format!("x-1 [000] ..... 5.{at:0>6}: block_{event}: 7,0 {letters} {between}{sector} + {len} [x]");
            match parse_tracefs_line(&text) {
                Ok(Line::Event(event)) => pairing.push(event, &mut requests),
                other => panic!("{text}: {other:?}"),
            }
        }
        let Unpaired(unpaired) = pairing.finish(&mut requests);
        (requests, unpaired)
    }

    /// Kind, fua, first sector, response in microseconds.
    fn seen(requests: &[Request]) -> Vec<(OpKind, bool, u64, Option<u64>)> {
        let micros = |response: Nanoseconds| response.0 / 1000;
        requests.iter().map(|r| (r.kind, r.fua, r.range.start.0, r.response.map(micros))).collect()
    }

    #[test]
    fn merged_requests_are_done_when_the_one_they_became_is() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "10 bio_queue WSM 160 8
 12 bio_queue WSM 168 8
 20 rq_issue WSM 160 16
 30 rq_complete WSM 160 16",
        );
        assert_eq!(unpaired, 0);
        assert_eq!(seen(&requests), [(OpKind::Write, false, 160, Some(20)), (OpKind::Write, false, 168, Some(18))]);
    }

    #[test]
    fn a_split_request_is_done_with_its_last_piece() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "10 bio_queue R 0 4000
 11 rq_issue R 0 2560
 12 rq_issue R 2560 1440
              50 rq_complete R 2560 1440
 90 rq_complete R 0 2560",
        );
        assert_eq!((seen(&requests), unpaired), (vec![(OpKind::Read, false, 0, Some(80))], 0));
        let (requests, _) = pair(
            Stage::Issue,
            "10 bio_queue R 0 4000
 11 rq_issue R 0 2560
 12 rq_issue R 2560 1440
              50 rq_complete R 2560 1440
 90 rq_complete R 0 2560",
        );
        assert_eq!(seen(&requests), [(OpKind::Read, false, 0, Some(79)), (OpKind::Read, false, 2560, Some(38))]);
    }

    #[test]
    fn two_flushes_that_one_flush_of_the_drive_serves_are_both_done() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "10 bio_queue FWS 0 0
 11 bio_queue FWS 0 0
 12 rq_issue FF 0 0
              40 rq_complete FF 18446744073709551615 0
 41 rq_complete WS 0 0
 43 rq_complete WS 0 0",
        );
        assert_eq!(
            (seen(&requests), unpaired),
            (vec![(OpKind::Flush, false, 0, Some(31)), (OpKind::Flush, false, 0, Some(32))], 0)
        );
        let (requests, _) = pair(
            Stage::Issue,
            "12 rq_issue FF 0 0
 40 rq_complete FF 18446744073709551615 0
 41 rq_complete WS 0 0",
        );
        assert_eq!(seen(&requests), [(OpKind::Flush, false, 0, Some(28))]);
    }

    #[test]
    fn a_journal_commit_is_a_flush_and_a_write_that_is_done_when_it_is_stable() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "10 bio_queue FWFSM 800 8
 11 rq_issue FF 0 0
 20 rq_complete FF 18446744073709551615 0
              21 rq_issue WSM 800 8
 30 rq_complete WSM 800 8
 31 rq_issue FF 0 0
              40 rq_complete FF 18446744073709551615 0
 41 rq_complete WSM 800 0",
        );
        assert_eq!(
            (seen(&requests), unpaired),
            (vec![(OpKind::Flush, false, 0, None), (OpKind::Write, true, 800, Some(31))], 0)
        );
    }

    #[test]
    fn flushes_do_not_mix_with_data_of_the_same_sector() {
        let (requests, _) = pair(
            Stage::Queue,
            "10 bio_queue WS 0 8
 11 bio_queue FWS 0 0
 20 rq_complete WS 0 8
 99 rq_complete WS 0 0",
        );
        assert_eq!(seen(&requests), [(OpKind::Write, false, 0, Some(10)), (OpKind::Flush, false, 0, Some(88))]);
    }

    #[test]
    fn of_two_requests_for_the_same_sectors_the_older_is_done_first() {
        let (requests, _) = pair(
            Stage::Queue,
            "10 bio_queue R 64 8
 12 bio_queue R 64 8
 20 rq_complete R 64 8
 50 rq_complete R 64 8",
        );
        assert_eq!(seen(&requests), [(OpKind::Read, false, 64, Some(10)), (OpKind::Read, false, 64, Some(38))]);
    }

    #[test]
    fn events_of_several_processors_are_put_in_order() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "30 rq_complete W 8 8
 10 bio_queue W 8 8",
        );
        assert_eq!((seen(&requests), unpaired), (vec![(OpKind::Write, false, 8, Some(20))], 0));
    }

    #[test]
    fn a_request_without_completion_is_kept_and_counted() {
        let (requests, unpaired) = pair(
            Stage::Queue,
            "10 bio_queue W 8 8
 20 bio_queue R 8 8
 30 rq_complete R 8 8",
        );
        assert_eq!(unpaired, 1);
        assert_eq!(seen(&requests), [(OpKind::Write, false, 8, None), (OpKind::Read, false, 8, Some(10))]);
    }
}
