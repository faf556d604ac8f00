//! Timed commands: one or several at a time, within a budget of time, with progress.

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::target::Target;
use crate::{ExtractError, Options};

/// Longest interval between reports of progress, while commands are issued.
const TELL_NS: u64 = 100_000_000;

/// Times at which a command was submitted and done, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Timed {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Timed {
    /// Returns the response time in nanoseconds.
    pub(crate) fn ns(self) -> f64 {
        (self.to - self.from) as f64
    }
}

/// Context of all parts of a measurement: the drive, the budget, and the progress.
pub(crate) struct Prober<'a> {
    target: &'a mut dyn Target,
    /// Set if commands may change the drive's content.
    pub(crate) writes: bool,
    /// Number of sectors that commands may address: a whole number of granules.
    pub(crate) sectors: u64,
    /// Number of sectors in the smallest command.
    pub(crate) grain: u64,
    /// Number of sectors of which writes have a multiple, so that they need no read before.
    pub(crate) write_grain: u64,
    pub(crate) commands: u64,
    started: u64,
    budget: Nanoseconds,
    under_way: u64,
    random: Pcg64Mcg,
    tokens: u64,
    report: &'a mut dyn FnMut(f64),
    /// Name of the part that is being measured.
    doing: &'static str,
    /// Parts of the whole at which this step started and will end.
    step: (f64, f64),
    /// Part of the whole that was last reported, and time of the report.
    told: (f64, u64),
    /// Names of the parts of the measurement that were left out for lack of time.
    pub(crate) left_out: Vec<&'static str>,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(target: &'a mut dyn Target, options: &Options, report: &'a mut dyn FnMut(f64)) -> Self {
        let grain = target.granularity().0.max(1);
        // A size that no profile can have is a mistake of the drive.
        let physical = Some(target.physical_sector().0).filter(|sectors| sectors.is_power_of_two() && *sectors <= 128);
        let write_grain = physical.unwrap_or(grain).next_multiple_of(grain);
        let started = target.now().0;
        Self {
            writes: options.writes,
            sectors: target.capacity().0 / grain * grain,
            grain,
            write_grain,
            commands: 0,
            started,
            budget: options.budget,
            under_way: 0,
            random: Pcg64Mcg::seed_from_u64(options.seed),
            tokens: 0,
            report,
            doing: "anything",
            step: (0.0, 0.0),
            told: (0.0, started),
            left_out: Vec::new(),
            target,
        }
    }

    /// Returns the number of sectors of the drive, in full.
    pub(crate) fn capacity(&self) -> Sectors {
        self.target.capacity()
    }

    /// Begins the next part of the measurement, which ends when `until` of the whole is done.
    /// Returns false when the budget is used up, and then records that `name` is left out.
    pub(crate) fn step(&mut self, name: &'static str, until: f64) -> bool {
        (self.doing, self.step) = (name, (self.step.1, until));
        self.done(0.0);
        if self.is_late() {
            self.leave_out(name);
            return false;
        }
        true
    }

    /// Reports that `part` of this step is done.
    pub(crate) fn done(&mut self, part: f64) {
        self.tell(self.step.0 + (self.step.1 - self.step.0) * part.clamp(0.0, 1.0));
    }

    /// Reports `part` of the whole as done, or the used part of the budget whichever is larger,
    /// because the measurement ends with the budget.
    fn tell(&mut self, part: f64) {
        self.told = (part.max(self.told.0).max(self.used()).min(1.0), self.target.now().0);
        (self.report)(self.told.0);
    }

    /// Returns the part of the budget that is used.
    pub(crate) fn used(&self) -> f64 {
        self.elapsed_ns() as f64 / (self.budget.0 as f64).max(1.0)
    }

    /// Returns true if the budget is used up.
    pub(crate) fn is_late(&self) -> bool {
        self.elapsed_ns() >= self.budget.0
    }

    /// Returns true if more than `share` of the budget is used. If it is used, the figure `name` is
    /// left out, so that time is left for later parts.
    pub(crate) fn is_past(&mut self, share: f64, name: &'static str) -> bool {
        let past = self.used() >= share;
        if past {
            self.leave_out(name);
        }
        past
    }

    pub(crate) fn leave_out(&mut self, name: &'static str) {
        if !self.left_out.contains(&name) {
            self.left_out.push(name);
        }
    }

    /// Returns the result of a part of the measurement. If the part ended for lack of time, returns
    /// nothing, waits for the pending commands, and records the missing figures.
    ///
    /// # Errors
    /// Fails if the part failed for another reason, or if a pending command failed.
    pub(crate) fn unless_late<T>(&mut self, result: Result<T, ExtractError>) -> Result<Option<T>, ExtractError> {
        match result {
            Err(ExtractError::NoTime { what, .. }) => {
                while self.under_way > 0 {
                    self.await_one()?;
                }
                self.leave_out(what);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Returns the nanoseconds since the measurement began.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.target.now().0 - self.started
    }

    pub(crate) fn now(&self) -> u64 {
        self.target.now().0
    }

    /// Returns a random whole number below `below`, which is above 0.
    pub(crate) fn random(&mut self, below: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// Returns the start of a random granule with at least `room` sectors after it.
    pub(crate) fn anywhere(&mut self, room: u64) -> u64 {
        let places = (self.sectors.saturating_sub(room) / self.grain).max(1);
        self.random(places) * self.grain
    }

    /// Returns the number of sectors of a sector on the medium, if commands may be shorter.
    pub(crate) fn larger_physical_sector(&self) -> Option<u64> {
        (self.write_grain > self.grain).then_some(self.write_grain)
    }

    /// Returns the start of a random granule of writes with at least `room` sectors after it.
    pub(crate) fn anywhere_to_write(&mut self, room: u64) -> u64 {
        let places = (self.sectors.saturating_sub(room) / self.write_grain).max(1);
        self.random(places) * self.write_grain
    }

    /// Returns the start of the granule of writes of `lbn`, with at least such a granule after it.
    pub(crate) fn aligned_to_write(&self, lbn: u64) -> u64 {
        lbn.min(self.sectors.saturating_sub(self.write_grain)) / self.write_grain * self.write_grain
    }

    /// Returns the start of the granule of `lbn`, with at least a granule after it.
    pub(crate) fn aligned(&self, lbn: u64) -> u64 {
        lbn.min(self.sectors - self.grain) / self.grain * self.grain
    }

    /// Lets `ns` nanoseconds pass.
    pub(crate) fn pause(&mut self, ns: u64) {
        self.target.wait_until(Nanoseconds(self.target.now().0 + ns));
    }

    /// Performs one command.
    pub(crate) fn run(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> Result<Timed, ExtractError> {
        let from = self.hand_over(kind, start, sectors, fua)?.1;
        Ok(Timed { from, to: self.await_one()?.1 })
    }

    /// Reads `sectors` sectors.
    pub(crate) fn read(&mut self, start: u64, sectors: u64) -> Result<Timed, ExtractError> {
        self.run(OpKind::Read, start, sectors, false)
    }

    /// Submits a command without waiting. Returns the command's number and the time of its
    /// submission.
    ///
    /// # Errors
    /// Fails if the budget is used up.
    pub(crate) fn hand_over(
        &mut self,
        kind: OpKind,
        start: u64,
        sectors: u64,
        fua: bool,
    ) -> Result<(u64, u64), ExtractError> {
        assert!(self.writes || matches!(kind, OpKind::Read), "only what may be changed is written to");
        if self.is_late() {
            return Err(ExtractError::NoTime { budget: self.budget, what: self.doing });
        }
        if self.target.now().0 >= self.told.1 + TELL_NS {
            self.tell(0.0);
        }
        self.tokens += 1;
        self.commands += 1;
        let from = self.target.now().0;
        let command = Command { kind, range: SectorRange::new(start, sectors), fua };
        self.target.submit(Token(self.tokens), command);
        self.under_way += 1;
        Ok((self.tokens, from))
    }

    /// Waits for a command to be done. Returns the command's number and the time of its submission.
    pub(crate) fn await_one(&mut self) -> Result<(u64, u64), ExtractError> {
        self.under_way = self.under_way.saturating_sub(1);
        match self.target.next_done() {
            Some(done) if done.status == Status::Done => Ok((done.token.0, done.at.0)),
            Some(done) => Err(ExtractError::Failed { status: done.status }),
            None => Err(ExtractError::Failed { status: Status::Gone }),
        }
    }

    /// Performs commands, `depth` at a time. Returns the times of the commands in the order of
    /// `commands`.
    pub(crate) fn batch(&mut self, commands: &[(OpKind, u64, u64)], depth: usize) -> Result<Vec<Timed>, ExtractError> {
        let mut times = vec![Timed { from: 0, to: 0 }; commands.len()];
        let (mut next, mut under_way) = (0, 0);
        let first = self.tokens + 1;
        for _ in 0..commands.len() {
            while next < commands.len() && under_way < depth {
                let (kind, start, sectors) = commands[next];
                times[next].from = self.hand_over(kind, start, sectors, false)?.1;
                (next, under_way) = (next + 1, under_way + 1);
            }
            let (token, at) = self.await_one()?;
            times[(token - first) as usize].to = at;
            under_way -= 1;
        }
        Ok(times)
    }
}
