//! Finds the completion of each request in formats that record both, for its response time.
//!
//! Requests wait, in order, until the first of them is complete or [`WAITING_MAX`] of them wait; what has no
//! completion by then comes out without a response time. A completion ends the oldest request of exactly its range; if
//! there is none (requests were merged or split on their way to the drive), all requests it overlaps, each done once
//! every sector of it is. Flushes complete in order, whatever address the kernel prints for them; a completion
//! without sectors that is no flush belongs to nothing.

use std::collections::{BTreeSet, VecDeque};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

use crate::entry::{Entry, Moment};

/// Requests that wait for their completion.
pub(crate) const WAITING_MAX: usize = 65_536;

struct Waiting {
    entry: Entry,
    /// Sectors whose completion was not seen; a flush counts as one.
    open_sectors: u64,
}

/// Requests in order of time that wait for their completions.
pub(crate) struct Pairing {
    waiting: VecDeque<Waiting>,
    /// The number of the first request in `waiting`.
    first: u64,
    /// Device, kind, first sector and number of every request that is not complete.
    open: BTreeSet<(u32, u8, u64, u64)>,
    /// The longest range seen of each kind: how far before a completion a request that overlaps it may start.
    sectors_max: [u64; KINDS],
    /// Numbers of the requests that a completion touches; kept to save allocations.
    touched: Vec<u64>,
}

impl Pairing {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::new(), first: 0, open: BTreeSet::new(), sectors_max: [0; KINDS], touched: Vec::new() }
    }

    /// Takes the next entry, a request or a completion, in order of time.
    pub(crate) fn push(&mut self, entry: Entry) {
        if entry.moment == Moment::Completed {
            self.complete(&entry);
            return;
        }
        let number = self.first + self.waiting.len() as u64;
        let sectors_max = &mut self.sectors_max[usize::from(kind_number(entry.kind))];
        *sectors_max = (*sectors_max).max(entry.range.len.0);
        let _ = self.open.insert(key(&entry, number));
        self.waiting.push_back(Waiting { entry, open_sectors: entry.range.len.0.max(1) });
    }

    /// The earliest request, once it is complete or too many wait, or, with `all`, as long as there is one.
    pub(crate) fn pop(&mut self, all: bool) -> Option<Entry> {
        let head = self.waiting.front()?;
        let open = head.open_sectors > 0;
        if open && !all && self.waiting.len() <= WAITING_MAX {
            return None;
        }
        let head = self.waiting.pop_front()?;
        if open {
            let was_open = self.open.remove(&key(&head.entry, self.first));
            debug_assert!(was_open);
        }
        self.first += 1;
        Some(head.entry)
    }

    fn complete(&mut self, completion: &Entry) {
        let (device, kind) = (completion.device, kind_number(completion.kind));
        let SectorRange { start, len } = completion.range;
        let same_start = self.open.range((device, kind, start.0, 0)..=(device, kind, start.0, u64::MAX));
        let exact = same_start.map(|key| key.3).find(|&number| self.entry(number).range.len == len);
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        match exact {
            Some(number) => touched.push(number),
            None => {
                let from = (device, kind, start.0.saturating_sub(self.sectors_max[usize::from(kind)]), 0);
                let overlapping = self.open.range(from..(device, kind, completion.range.end().0, 0));
                let reaches = |number: &u64| self.entry(*number).range.overlaps(completion.range);
                touched.extend(overlapping.map(|key| key.3).filter(reaches));
            }
        }
        for &number in &touched {
            self.answer(number, completion);
        }
        self.touched = touched;
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.waiting[(number - self.first) as usize].entry
    }

    fn answer(&mut self, number: u64, completion: &Entry) {
        let waiting = &mut self.waiting[(number - self.first) as usize];
        let range = waiting.entry.range;
        let done = range.end().0.min(completion.range.end().0) - range.start.0.max(completion.range.start.0);
        waiting.open_sectors = waiting.open_sectors.saturating_sub(done.max(1));
        if waiting.open_sectors == 0 {
            waiting.entry.response = Some(Nanoseconds(completion.time.0 - waiting.entry.time.0));
            let key = key(&waiting.entry, number);
            let was_open = self.open.remove(&key);
            debug_assert!(was_open);
        }
    }
}

fn key(entry: &Entry, number: u64) -> (u32, u8, u64, u64) {
    (entry.device, kind_number(entry.kind), entry.range.start.0, number)
}

/// Kinds that [`kind_number`] tells apart.
const KINDS: usize = 5;

/// Reads and writes pair among themselves; the kinds need an order only to stand in a key.
fn kind_number(kind: OpKind) -> u8 {
    match kind {
        OpKind::Read => 0,
        // Tools differ in whether they tell writes of zeroes from writes.
        OpKind::Write | OpKind::WriteZeroes => 1,
        OpKind::Flush => 2,
        OpKind::Discard => 3,
        OpKind::Hint => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, moment: Moment, kind: OpKind, start: u64, len: u64) -> Entry {
        Entry { moment, ..Entry::request(time, 0, kind, SectorRange::new(start, len)) }
    }

    fn responses(events: &[Entry]) -> Vec<Option<u64>> {
        let mut pairing = Pairing::new();
        let mut out = Vec::new();
        for &event in events {
            pairing.push(event);
            out.extend(std::iter::from_fn(|| pairing.pop(false)));
        }
        out.extend(std::iter::from_fn(|| pairing.pop(true)));
        assert!(pairing.open.is_empty());
        out.iter().map(|entry| entry.response.map(Nanoseconds::get)).collect()
    }

    use Moment::{Completed, Issued, Queued};
    use OpKind::{Flush, Read, Write};

    #[test]
    fn completions_in_any_order_find_their_requests() {
        let events = [
            event(0, Issued, Read, 0, 8),
            event(1, Issued, Read, 8, 8),
            event(5, Completed, Read, 8, 8),
            event(9, Completed, Read, 0, 8),
        ];
        assert_eq!(responses(&events), [Some(9), Some(4)]);
    }

    #[test]
    fn merged_requests_end_together_and_a_split_one_with_its_last_part() {
        let events = [
            event(0, Queued, Write, 0, 8),
            event(1, Queued, Write, 8, 8),
            event(2, Queued, Write, 16, 32),
            event(7, Completed, Write, 0, 16),
            event(8, Completed, Write, 32, 16),
            event(9, Completed, Write, 16, 16),
        ];
        assert_eq!(responses(&events), [Some(7), Some(6), Some(7)]);
    }

    #[test]
    fn two_requests_of_one_range_end_in_the_order_they_came() {
        let events = [
            event(0, Issued, Read, 0, 8),
            event(1, Issued, Read, 0, 8),
            event(5, Completed, Read, 0, 8),
            event(9, Completed, Read, 0, 8),
        ];
        assert_eq!(responses(&events), [Some(5), Some(8)]);
    }

    #[test]
    fn flushes_end_in_order_and_never_as_data() {
        let events = [
            event(0, Issued, Write, 0, 8),
            event(1, Issued, Flush, 0, 0),
            event(2, Issued, Flush, 0, 0),
            event(4, Completed, Flush, 0, 0),
            event(6, Completed, Flush, 0, 0),
            event(9, Completed, Write, 0, 8),
        ];
        assert_eq!(responses(&events), [Some(9), Some(3), Some(4)]);
    }

    #[test]
    fn a_completion_without_request_and_a_request_without_completion_stay_alone() {
        let events =
            [event(0, Completed, Read, 0, 8), event(1, Issued, Read, 64, 8), event(2, Completed, Write, 64, 8)];
        assert_eq!(responses(&events), [None]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut pairing = Pairing::new();
        for number in 0..WAITING_MAX as u64 + 5 {
            pairing.push(event(number, Issued, Read, number * 8, 8));
            while pairing.pop(false).is_some() {}
        }
        assert_eq!(pairing.waiting.len(), WAITING_MAX);
    }
}
