//! Timed commands: one at a time or several at once, within a time budget, with progress.

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::target::Target;
use crate::{ExtractError, Options};

/// How often the progress is told at least, while commands go on.
const TELL_NS: u64 = 100_000_000;

/// When a command was handed over and when it was done, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Timed {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Timed {
    /// The response time in nanoseconds.
    pub(crate) fn ns(self) -> f64 {
        (self.to - self.from) as f64
    }
}

/// What every part of a measurement works with.
pub(crate) struct Prober<'a> {
    target: &'a mut dyn Target,
    /// Whether commands may change what the drive holds.
    pub(crate) writes: bool,
    /// The sectors that may be asked for: a whole number of granules.
    pub(crate) sectors: u64,
    /// The smallest command, in sectors.
    pub(crate) grain: u64,
    pub(crate) commands: u64,
    started: u64,
    budget: Nanoseconds,
    under_way: u64,
    random: Pcg64Mcg,
    tokens: u64,
    report: &'a mut dyn FnMut(f64),
    /// What is being measured.
    doing: &'static str,
    /// Part of the whole that is done, where this step started and ends.
    step: (f64, f64),
    /// The part of the whole that was told last, and when.
    told: (f64, u64),
    /// Parts of the measurement for which there was no time.
    pub(crate) left_out: Vec<&'static str>,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(target: &'a mut dyn Target, options: &Options, report: &'a mut dyn FnMut(f64)) -> Self {
        let grain = target.granularity().0.max(1);
        let started = target.now().0;
        Self {
            writes: options.writes,
            sectors: target.capacity().0 / grain * grain,
            grain,
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

    /// Sectors of the drive, in full.
    pub(crate) fn capacity(&self) -> Sectors {
        self.target.capacity()
    }

    /// The next part of the measurement begins; it ends when `until` of the whole is done. False when the time is
    /// up: then `name` is left out.
    pub(crate) fn step(&mut self, name: &'static str, until: f64) -> bool {
        (self.doing, self.step) = (name, (self.step.1, until));
        self.done(0.0);
        if self.is_late() {
            self.leave_out(name);
            return false;
        }
        true
    }

    /// `part` of this step is done.
    pub(crate) fn done(&mut self, part: f64) {
        self.tell(self.step.0 + (self.step.1 - self.step.0) * part.clamp(0.0, 1.0));
    }

    /// Says that `part` of the whole is done, or as much as the budget is used up, if that is more: then all is over.
    fn tell(&mut self, part: f64) {
        self.told = (part.max(self.told.0).max(self.used()).min(1.0), self.target.now().0);
        (self.report)(self.told.0);
    }

    /// The part of the budget that is used up.
    pub(crate) fn used(&self) -> f64 {
        self.elapsed_ns() as f64 / (self.budget.0 as f64).max(1.0)
    }

    /// Whether the budget is used up.
    pub(crate) fn is_late(&self) -> bool {
        self.elapsed_ns() >= self.budget.0
    }

    /// Whether more than `share` of the budget is used up, so that `name` must be left out for what comes behind it.
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

    /// What came of a part of the measurement; nothing where the time was up meanwhile: then what is missing is noted, and nothing is
    /// under way any more.
    ///
    /// # Errors
    /// It failed otherwise, or a command that was under way did.
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

    /// Nanoseconds since the measurement began.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.target.now().0 - self.started
    }

    pub(crate) fn now(&self) -> u64 {
        self.target.now().0
    }

    /// A whole number below `below`, which is above 0.
    pub(crate) fn random(&mut self, below: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// The start of a granule anywhere, with `room` sectors behind it.
    pub(crate) fn anywhere(&mut self, room: u64) -> u64 {
        let places = (self.sectors.saturating_sub(room) / self.grain).max(1);
        self.random(places) * self.grain
    }

    /// `lbn` on the granule that it lies in, with at least a granule behind it.
    pub(crate) fn aligned(&self, lbn: u64) -> u64 {
        lbn.min(self.sectors - self.grain) / self.grain * self.grain
    }

    /// Lets so many nanoseconds pass.
    pub(crate) fn pause(&mut self, ns: u64) {
        self.target.wait_until(Nanoseconds(self.target.now().0 + ns));
    }

    /// Carries one command out.
    pub(crate) fn run(&mut self, kind: OpKind, start: u64, sectors: u64, fua: bool) -> Result<Timed, ExtractError> {
        let from = self.hand_over(kind, start, sectors, fua)?.1;
        Ok(Timed { from, to: self.await_one()?.1 })
    }

    /// Reads so many sectors.
    pub(crate) fn read(&mut self, start: u64, sectors: u64) -> Result<Timed, ExtractError> {
        self.run(OpKind::Read, start, sectors, false)
    }

    /// Hands a command over without waiting; gives its number and the time.
    ///
    /// # Errors
    /// The budget is used up.
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

    /// Waits for a command to be done; gives its number and the time.
    pub(crate) fn await_one(&mut self) -> Result<(u64, u64), ExtractError> {
        self.under_way = self.under_way.saturating_sub(1);
        match self.target.next_done() {
            Some(done) if done.status == Status::Done => Ok((done.token.0, done.at.0)),
            Some(done) => Err(ExtractError::Failed { status: done.status }),
            None => Err(ExtractError::Failed { status: Status::Gone }),
        }
    }

    /// Carries commands out, `depth` at a time; gives their times in the order of `commands`.
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
