//! Target of a measurement: takes commands and returns the time at which each is done. There are
//! two kinds: a model ([`ModelTarget`]), and a file or block device (`file.rs`).

use std::collections::VecDeque;

use bimetal_core::operation::{Command, Status, Token};
use bimetal_core::units::{Nanoseconds, Sectors};
use bimetal_models::profile::Profile;
use bimetal_models::{DeviceModel, Finished};

/// Drive that can be timed. The drive has its own clock, which the prober only reads.
pub trait Target {
    /// Returns the number of sectors.
    fn capacity(&self) -> Sectors;

    /// Returns the granularity: commands start and end on multiples of the granularity.
    fn granularity(&self) -> Sectors;

    /// Returns the size of a sector on the medium: a write that begins or ends inside such a sector
    /// reads the sector first.
    fn physical_sector(&self) -> Sectors {
        self.granularity()
    }

    /// Returns the current time.
    fn now(&self) -> Nanoseconds;

    /// Lets time pass, at least until `at`. Commands under way continue.
    fn wait_until(&mut self, at: Nanoseconds);

    /// Submits a command now.
    fn submit(&mut self, token: Token, command: Command);

    /// Waits for the next finished command; `None` when none is under way.
    fn next_done(&mut self) -> Option<Finished>;
}

/// Model of a drive in virtual time, which gives the same times in each run.
pub struct ModelTarget {
    model: Box<dyn DeviceModel>,
    physical_sector: Sectors,
    now: Nanoseconds,
    under_way: usize,
    done: VecDeque<Finished>,
}

impl ModelTarget {
    /// Creates a target from `model` at time zero.
    pub fn new(model: Box<dyn DeviceModel>) -> Self {
        let (now, done) = (Nanoseconds::ZERO, VecDeque::new());
        Self { model, physical_sector: Sectors(1), now, under_way: 0, done }
    }

    /// Returns the target with the sectors on the medium of the drive of `profile`.
    pub fn with_sectors_of(self, profile: &Profile) -> Self {
        let physical_sector = profile.hdd().map_or(Sectors(1), |hdd| hdd.physical_sector.0.sectors());
        Self { physical_sector, ..self }
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

    fn physical_sector(&self) -> Sectors {
        self.physical_sector
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
                    // A model that loses a command is treated as a drive that is gone.
                    self.under_way = 0;
                    return Some(Finished { token: Token(u64::MAX), at: self.now, status: Status::Gone });
                }
            }
        }
        self.done.pop_front()
    }
}
