//! What is measured: something that takes commands and says when each is done. Two kinds: one of our models
//! ([`ModelTarget`]), and a file or block device (`file.rs`).

use std::collections::VecDeque;

use bimetal_core::operation::{Command, Status, Token};
use bimetal_core::units::{Nanoseconds, Sectors};
use bimetal_models::{DeviceModel, Finished};

/// A drive that can be timed. It has its own clock, which the prober only reads.
pub trait Target {
    /// How many sectors it has.
    fn capacity(&self) -> Sectors;

    /// Commands start and end on multiples of this.
    fn granularity(&self) -> Sectors;

    /// What time it is.
    fn now(&self) -> Nanoseconds;

    /// Lets time pass, until `at` at least. Commands under way go on.
    fn wait_until(&mut self, at: Nanoseconds);

    /// Hands a command over now.
    fn submit(&mut self, token: Token, command: Command);

    /// Waits for the next command that is done; `None` when none is under way.
    fn next_done(&mut self) -> Option<Finished>;
}

/// One of our models, in virtual time: deterministic.
pub struct ModelTarget {
    model: Box<dyn DeviceModel>,
    now: Nanoseconds,
    under_way: usize,
    done: VecDeque<Finished>,
}

impl ModelTarget {
    /// `model` at time zero.
    pub fn new(model: Box<dyn DeviceModel>) -> Self {
        Self { model, now: Nanoseconds::ZERO, under_way: 0, done: VecDeque::new() }
    }

    fn advance(&mut self, to: Nanoseconds) {
        let mut finished = Vec::new();
        self.model.advance(to, &mut finished);
        self.under_way -= finished.len();
        self.done.extend(finished);
        self.now = to;
    }
}

impl Target for ModelTarget {
    fn capacity(&self) -> Sectors {
        self.model.capacity()
    }

    fn granularity(&self) -> Sectors {
        Sectors(1)
    }

    fn now(&self) -> Nanoseconds {
        self.now
    }

    fn wait_until(&mut self, at: Nanoseconds) {
        if at > self.now {
            self.advance(at);
        }
    }

    fn submit(&mut self, token: Token, command: Command) {
        self.under_way += 1;
        self.model.submit(self.now, token, command);
    }

    fn next_done(&mut self) -> Option<Finished> {
        while self.done.is_empty() {
            if self.under_way == 0 {
                return None;
            }
            match self.model.next_event() {
                Some(at) => self.advance(at.max(self.now)),
                None => {
                    // A model that forgets a command is a drive that is gone.
                    self.under_way = 0;
                    return Some(Finished { token: Token(u64::MAX), at: self.now, status: Status::Gone });
                }
            }
        }
        self.done.pop_front()
    }
}
