//! Sorts the events of several CPUs while they arrive. The window of a trace's reader counts
//! entries, so events of a quiet device would wait for hours; this window measures time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bimetal_core::units::Nanoseconds;

use crate::entry::Entry;
use crate::time_order::Held;

/// Longest time by which events of several CPUs may be out of order.
const DISORDER: Nanoseconds = Nanoseconds::from_millis(200);

/// Window of events that wait for earlier events.
#[derive(Default)]
pub(super) struct Order {
    held: BinaryHeap<Reverse<Held>>,
    sequence: u64,
    newest: Nanoseconds,
}

impl Order {
    pub(super) fn push(&mut self, entry: Entry) {
        self.newest = self.newest.max(entry.time);
        self.held.push(Reverse(Held { entry, sequence: self.sequence }));
        self.sequence += 1;
    }

    /// Removes the earliest entry once no earlier entry can arrive; if `all` is set, removes it in
    /// any case.
    pub(super) fn pop(&mut self, all: bool) -> Option<Entry> {
        let Reverse(first) = self.held.peek()?;
        let is_due = all || first.entry.time.saturating_add(DISORDER) <= self.newest;
        is_due.then(|| self.held.pop()).flatten().map(|Reverse(held)| held.entry)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    /// Events wait 200 ms for earlier events. Events of equal times stay in the order of their
    /// arrival.
    #[test]
    fn events_wait_200_ms_and_equal_times_keep_their_order() {
        let mut order = Order::default();
        let push = |order: &mut Order, ms: u64, sector| {
            order.push(Entry::request(ms * 1_000_000, 0, OpKind::Read, SectorRange::new(sector, 8)));
            std::iter::from_fn(|| order.pop(false)).map(|entry| entry.range.start.0).collect::<Vec<_>>()
        };
        assert_eq!(push(&mut order, 300, 1), [0; 0]);
        assert_eq!(push(&mut order, 100, 2), [2]);
        assert_eq!(push(&mut order, 299, 3), [0; 0]);
        assert_eq!(push(&mut order, 300, 4), [0; 0]);
        assert_eq!(push(&mut order, 500, 5), [3, 1, 4]);
        assert_eq!(order.pop(true).map(|entry| entry.range.start.0), Some(5));
        assert_eq!(order.pop(true), None);
    }
}
