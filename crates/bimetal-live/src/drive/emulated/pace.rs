//! The pace of an emulated drive: an operation ends when the model says so, and not before its real part has ended.
//!
//! No clock here: the time is an argument. The model gets each operation when it arrives and never hears of the real
//! part, so one that takes too long delays its own operation and no other, as far as the drive is concerned.

use bimetal_core::operation::{Command, Completion, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::Nanoseconds;
use bimetal_models::{DeviceModel, Finished};
use hashbrown::HashMap;
use hdrhistogram::Histogram;

use crate::buffer::Buffers;

/// How well an emulated drive keeps the times of its model.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// The profile of the drive that it plays.
    pub profile: String,
    /// Operations that ended.
    pub operations: u64,
    /// Those of which the real part took longer than the model's time.
    pub overruns: u64,
    /// By how much, all together.
    pub overrun_total: Nanoseconds,
    /// By how much at most.
    pub overrun_max: Nanoseconds,
    /// How long after the model's time operations were given back, in nanoseconds.
    pub late: Histogram<u64>,
}

impl Emulation {
    fn new(profile: String) -> Self {
        let late = Histogram::new_with_bounds(1, 1 << 40, 2).expect("the bounds are in order");
        let (overrun_total, overrun_max) = (Nanoseconds::ZERO, Nanoseconds::ZERO);
        Self { profile, operations: 0, overruns: 0, overrun_total, overrun_max, late }
    }

    /// An operation is given back that was `due`; how long its parts took.
    fn note(&mut self, due: Nanoseconds, model: Nanoseconds, real: Nanoseconds, now: Nanoseconds) {
        self.operations += 1;
        self.late.saturating_record(now.saturating_sub(due).0);
        let over = real.saturating_sub(model);
        if over > Nanoseconds::ZERO {
            self.overruns += 1;
            self.overrun_total = self.overrun_total.saturating_add(over);
            self.overrun_max = self.overrun_max.max(over);
        }
    }
}

/// An operation of which one part or the other is under way.
#[derive(Default)]
struct Open {
    /// When it was asked for, and when its real part began.
    asked: Nanoseconds,
    begun: Nanoseconds,
    model: Option<(Nanoseconds, Status)>,
    real: Option<(Nanoseconds, Completion<Buffers>)>,
}

/// A model, and what it is asked for.
pub(super) struct Pace {
    model: Box<dyn DeviceModel>,
    /// The latest time that the model was told.
    time: Nanoseconds,
    open: HashMap<Token, Open, foldhash::fast::RandomState>,
    /// Those of which both parts have ended, with the model's time.
    ready: Vec<(Nanoseconds, Token)>,
    /// Operations that the model has.
    in_model: usize,
    finished: Vec<Finished>,
    counted: Emulation,
}

impl Pace {
    pub(super) fn new(model: Box<dyn DeviceModel>, profile: String) -> Self {
        let counted = Emulation::new(profile);
        let (time, open) = (Nanoseconds::ZERO, HashMap::default());
        Self { model, time, open, ready: Vec::new(), in_model: 0, finished: Vec::new(), counted }
    }

    pub(super) fn counted(&self) -> &Emulation {
        &self.counted
    }

    /// Operations that were not given back.
    pub(super) fn under_way(&self) -> usize {
        self.open.len()
    }

    /// An operation arrives, at the latest time that was told where `now` is before that. What was due before is given back by
    /// the next [`advance`](Self::advance).
    pub(super) fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        let now = now.max(self.time);
        self.let_pass(now);
        self.in_model += 1;
        self.open.entry(token).or_default().asked = now;
        self.model.submit(now, token, command);
    }

    /// The real part of an operation that was submitted begins.
    pub(super) fn real_begins(&mut self, at: Nanoseconds, token: Token) {
        self.open.entry(token).or_default().begun = at;
    }

    /// The real part of an operation that was submitted has ended.
    pub(super) fn real_ended(&mut self, at: Nanoseconds, completion: Completion<Buffers>) {
        let token = completion.token;
        let open = self.open.entry(token).or_default();
        assert!(open.real.is_none(), "a real part ends once");
        open.real = Some((at, completion));
        self.ready.extend(open.model.map(|(at, _)| (at, token)));
    }

    /// Lets time pass, and gives back what has ended on both sides, in the order of the model's times.
    pub(super) fn advance(&mut self, now: Nanoseconds, ended: &mut Vec<Completion<Buffers>>) {
        self.let_pass(now);
        // Of one moment, in the order in which the model finished them.
        self.ready.sort_by_key(|&(at, _)| at);
        for (at, token) in self.ready.drain(..) {
            let Some(Open { asked, begun, model: Some((_, status)), real: Some((real_at, completion)) }) =
                self.open.remove(&token)
            else {
                unreachable!("an operation is ready when both parts have ended")
            };
            self.counted.note(at, at.saturating_sub(asked), real_at.saturating_sub(begun), now);
            ended.push(merge(status, completion));
        }
    }

    /// The model goes from event to event, as it does in a simulation.
    fn let_pass(&mut self, now: Nanoseconds) {
        self.time = now;
        while let Some(at) = self.model.next_event().filter(|&at| at <= now) {
            self.model.advance(at, &mut self.finished);
        }
        self.model.advance(now, &mut self.finished);
        for Finished { token, at, status } in self.finished.drain(..) {
            self.in_model -= 1;
            let open = self.open.entry(token).or_default();
            open.model = Some((at, status));
            if open.real.is_some() {
                self.ready.push((at, token));
            }
        }
    }

    /// When something happens in the model next, and whether somebody waits for it.
    pub(super) fn next_event(&self) -> Option<(Nanoseconds, bool)> {
        Some((self.model.next_event()?, self.in_model > 0))
    }
}

/// What went wrong on either side went wrong.
fn merge(model: Status, real: Completion<Buffers>) -> Completion<Buffers> {
    if model == Status::Done || real.status != Status::Done {
        return real;
    }
    Completion { token: real.token, status: model, payload: Buffers::empty() }
}
