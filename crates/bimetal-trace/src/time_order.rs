//! Sorts the entries of a trace by time, in bounded memory. Equal times stay in file order.
//!
//! Entries wait in a window of [`WINDOW`] entries. An entry that steps back in time is sorted in,
//! if no more entries than the window holds stand between. A time that lies further back than the
//! window is an error. A time more than [`LEAP_NS_MAX`] ahead of both neighbours in the file is
//! refused, too; a missing neighbour, at the ends of the file, agrees. A time more than
//! [`SPAN_NS_MAX`] from the first time of the trace is refused: the sum of such times would not fit
//! a clock. Formats without times and `bin`, whose encoding cannot step back, do not use the
//! window.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use bimetal_core::units::Nanoseconds;

use crate::entry::{Bad, Entry};
use crate::error::Place;

/// Number of entries that wait for earlier entries: 4 to 6 MiB.
pub(crate) const WINDOW: usize = 65_536;

/// Lead over both neighbours, beyond which a time is rejected as garbage: 30 days.
const LEAP_NS_MAX: u64 = 30 * 86_400 * 1_000_000_000;

/// Longest time between the first entry and any other: 100 years.
pub(crate) const SPAN_NS_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Entry with its position in the file.
pub(crate) struct Held {
    pub(crate) entry: Entry,
    pub(crate) sequence: u64,
}

impl Held {
    fn key(&self) -> (Nanoseconds, u64) {
        (self.entry.time, self.sequence)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Window in which entries wait to be sorted.
pub(crate) struct TimeOrder {
    /// Entries that arrived in order of time.
    steady: VecDeque<Held>,
    /// Entries with a time before the end of `steady`.
    late: BinaryHeap<Reverse<Held>>,
    sequence: u64,
    /// Time of the last entry that was handed out.
    released: Nanoseconds,
    /// Newest entry, which the next entry's time decides on.
    newest: Option<(Entry, Place)>,
    /// Time of the entry before the entry `newest`.
    previous: Option<Nanoseconds>,
    /// Time of the file's first entry.
    first: Option<Nanoseconds>,
}

impl TimeOrder {
    pub(crate) fn new() -> Self {
        Self {
            steady: VecDeque::new(),
            late: BinaryHeap::new(),
            sequence: 0,
            released: Nanoseconds::ZERO,
            newest: None,
            previous: None,
            first: None,
        }
    }

    /// Takes the next entry of the file.
    ///
    /// # Errors
    /// Returns the place of the previous entry, and the reason for which that entry is refused.
    /// `entry` itself is taken even after an error.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, place: Place) -> Result<(), (Box<Bad>, Place)> {
        match self.newest.replace((entry, place)) {
            Some((judged, place)) => self.settle(judged, place, Some(entry.time)),
            None => Ok(()),
        }
    }

    /// Handles the end of the file.
    ///
    /// # Errors
    /// Returns the errors of [`push`](Self::push), for the last entry.
    pub(crate) fn finish(&mut self) -> Result<(), (Box<Bad>, Place)> {
        match self.newest.take() {
            Some((judged, place)) => self.settle(judged, place, None),
            None => Ok(()),
        }
    }

    #[inline]
    fn settle(&mut self, entry: Entry, place: Place, next: Option<Nanoseconds>) -> Result<(), (Box<Bad>, Place)> {
        let leaps =
            |from: Option<Nanoseconds>| from.is_none_or(|from| entry.time.0.saturating_sub(from.0) > LEAP_NS_MAX);
        if (self.previous.is_some() || next.is_some()) && leaps(self.previous) && leaps(next) {
            return Err((bad_time(entry.time, "a time at most 30 days ahead of the entries around it"), place));
        }
        if entry.time < self.released {
            return Err((bad_time(entry.time, STEPS_BACK), place));
        }
        if entry.time.0.abs_diff(self.first.get_or_insert(entry.time).0) > SPAN_NS_MAX {
            return Err((bad_time(entry.time, SPANS), place));
        }
        self.previous = Some(entry.time);
        let held = Held { entry, sequence: self.sequence };
        self.sequence += 1;
        match self.steady.back() {
            Some(last) if entry.time < last.entry.time => self.late.push(Reverse(held)),
            _ => self.steady.push_back(held),
        }
        Ok(())
    }

    /// Removes the earliest entry once more entries than the window holds wait; if `all` is set,
    /// removes it in any case.
    #[inline]
    pub(crate) fn pop(&mut self, all: bool) -> Option<Entry> {
        if !all && self.steady.len() + self.late.len() <= WINDOW {
            return None;
        }
        let late_first = match (self.steady.front(), self.late.peek()) {
            (Some(steady), Some(Reverse(late))) => late < steady,
            (None, late) => late.is_some(),
            (Some(_), None) => false,
        };
        let held = if late_first { self.late.pop().map(|Reverse(held)| held) } else { self.steady.pop_front() }?;
        debug_assert!(held.entry.time >= self.released);
        self.released = held.entry.time;
        Some(held.entry)
    }
}

const _: () = assert!(WINDOW == 65_536, "the message below says so");

const STEPS_BACK: &str = "no step back beyond the 65536 entries that are sorted (merge the pieces of a trace, such as \
                          one for each CPU, by time first, as blkparse does)";

pub(crate) const SPANS: &str = "a time at most 100 years from that of the first entry";

pub(crate) fn bad_time(time: Nanoseconds, expected: &'static str) -> Box<Bad> {
    Bad::value("time", format!("{}.{:09} s", time.0 / 1_000_000_000, time.0 % 1_000_000_000), expected)
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    const DAY_NS: u64 = 86_400_000_000_000;

    fn run(times: impl IntoIterator<Item = u64>) -> (Vec<(u64, u64)>, Vec<Place>) {
        let mut order = TimeOrder::new();
        let (mut out, mut refused) = (Vec::new(), Vec::new());
        let mut keep = |order: &mut TimeOrder, result: Result<(), (Box<Bad>, Place)>, all| {
            refused.extend(result.err().map(|(_, place)| place));
            while let Some(entry) = order.pop(all) {
                out.push((entry.time.0, entry.range.start.0));
            }
        };
        for (number, time) in (0..).zip(times) {
            let entry = Entry::request(time, 0, OpKind::Read, SectorRange::new(number, 1));
            let result = order.push(entry, Place::Line(number + 1));
            keep(&mut order, result, false);
        }
        let result = order.finish();
        keep(&mut order, result, true);
        (out, refused)
    }

    /// Steps back in time within the window are sorted. Requests of equal times stay in the order
    /// of the file.
    #[test]
    fn steps_back_within_the_window_are_sorted_stably() {
        let (out, refused) = run([5, 3, 5, 3, 9, 1]);
        assert_eq!(out, [(1, 5), (3, 1), (3, 3), (5, 0), (5, 2), (9, 4)]);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_step_back_beyond_the_window_is_refused() {
        let window = WINDOW as u64;
        let (out, refused) = run((1..=window + 2).chain([1, window]));
        assert_eq!(refused, [Place::Line(window + 3)]);
        assert_eq!(out.len(), WINDOW + 3);
        assert!(out.is_sorted_by_key(|&(time, _)| time));
    }

    /// Regression: the clock of a simulation ended before such a time, and stopped the program.
    #[test]
    fn a_time_a_century_from_the_first_is_refused() {
        let far = SPAN_NS_MAX + 2;
        assert_eq!(run([1, far, far + 1]).1, [Place::Line(2), Place::Line(3)]);
        assert_eq!(run([1, SPAN_NS_MAX + 1, SPAN_NS_MAX + 1]).1, []);
    }

    /// A time more than thirty days ahead of both neighbours is refused, also at either end of the
    /// trace.
    #[test]
    fn time_30_days_ahead_of_both_neighbours_is_refused() {
        let far = 31 * DAY_NS;
        assert_eq!(run([0, far, 1]).1, [Place::Line(2)]);
        assert_eq!(run([far, 0, 1]).1, [Place::Line(1)]);
        assert_eq!(run([0, 1, far]).1, [Place::Line(3)]);
        assert_eq!(run([far]).1, []);
        // A leap of more than 30 days is accepted if the trace goes on from there.
        assert_eq!(run([0, far, far + 1]).1, []);
    }
}
