//! Memory in which writes finish, and the programs that a flush waits for.
//!
//! Flushes divide time into *epochs*. A flush is done when every program of its epoch and of
//! earlier epochs is done. The programs of an epoch are only counted.

use std::collections::VecDeque;

/// Room for units that the host wrote and that no die has programmed yet.
pub(crate) struct WriteBuffer {
    capacity: u32,
    used: u32,
    /// Requests for which there was no room, in order.
    pub(crate) waiting: VecDeque<u32>,
}

impl WriteBuffer {
    /// Creates an empty buffer for `capacity` units.
    pub(crate) fn new(capacity: u32) -> Self {
        Self { capacity, used: 0, waiting: VecDeque::new() }
    }

    /// Returns true if the buffer has no room.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.capacity
    }

    /// Returns the number of units for which there is room.
    pub(crate) fn room(&self) -> u32 {
        self.capacity.saturating_sub(self.used)
    }

    /// Adds `units` units.
    pub(crate) fn take(&mut self, units: u32) {
        self.used += units;
    }

    /// Removes `units` units, which are programmed into the cells.
    pub(crate) fn release(&mut self, units: u32) {
        debug_assert!(units <= self.used);
        self.used -= units;
    }
}

/// Programs that are not done, by epoch.
pub(crate) struct Epochs {
    /// Number of the oldest epoch that is not done, or of the current epoch.
    first: u64,
    epochs: VecDeque<Epoch>,
    outstanding: u64,
}

#[derive(Default)]
struct Epoch {
    programs: u64,
    waiting: Vec<u32>,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { first: 0, epochs: VecDeque::from([Epoch::default()]), outstanding: 0 }
    }

    /// Counts a program that is submitted to its die. Returns its epoch.
    pub(crate) fn start(&mut self) -> u64 {
        let last = self.epochs.len() - 1;
        self.epochs[last].programs += 1;
        self.outstanding += 1;
        self.first + last as u64
    }

    /// Makes `request` wait for every program so far. Returns false if no program is under way.
    pub(crate) fn wait(&mut self, request: u32) -> bool {
        if self.outstanding == 0 {
            return false;
        }
        let last = self.epochs.len() - 1;
        self.epochs[last].waiting.push(request);
        self.epochs.push_back(Epoch::default());
        true
    }

    /// Counts a finished program of `epoch`. Appends the requests for which no program is left to
    /// wait for to `done`.
    pub(crate) fn finish(&mut self, epoch: u64, done: &mut Vec<u32>) {
        self.outstanding -= 1;
        self.epochs[(epoch - self.first) as usize].programs -= 1;
        while self.epochs.len() > 1 && self.epochs[0].programs == 0 {
            if let Some(finished) = self.epochs.pop_front() {
                done.extend(finished.waiting);
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_all_programs_before_it_and_for_none_after() {
        let mut epochs = Epochs::new();
        let mut done = Vec::new();
        assert!(!epochs.wait(1), "nothing to wait for");
        let (a, b) = (epochs.start(), epochs.start());
        assert!(epochs.wait(2));
        let c = epochs.start();
        assert!(epochs.wait(3));
        let d = epochs.start();
        epochs.finish(c, &mut done);
        epochs.finish(a, &mut done);
        assert!(done.is_empty());
        epochs.finish(b, &mut done);
        assert_eq!(done, [2, 3]);
        epochs.finish(d, &mut done);
        assert!(!epochs.wait(4));
    }
}
