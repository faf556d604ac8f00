//! Pace of an emulated drive: an operation ends when its model time and its real part are both
//! over.
//!
//! This module has no clock: the time is an argument. The model gets each operation when it arrives
//! and knows nothing of the real part. So a real part that takes longer than the model's part
//! delays only its own operation.

use bimetal_core::operation::{Command, Completion, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::Nanoseconds;
use bimetal_models::{DeviceModel, Finished};
use hashbrown::HashMap;
use hdrhistogram::Histogram;

use crate::buffer::Buffers;

/// Accuracy with which an emulated drive keeps the times of its model.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// Profile of the emulated drive.
    pub profile: String,
    /// Number of operations that ended.
    pub operations: u64,
    /// Number of operations whose real part took longer than the model's time.
    pub overruns: u64,
    /// Sum of the excess times of overruns.
    pub overrun_total: Nanoseconds,
    /// Largest excess time of an overrun.
    pub overrun_max: Nanoseconds,
    /// Delays of completions after the model's time, in nanoseconds.
    pub late: Histogram<u64>,
}

impl Emulation {
    fn new(profile: String) -> Self {
        let late = Histogram::new_with_bounds(1, 1 << 40, 2).expect("the bounds are in order");
        let (overrun_total, overrun_max) = (Nanoseconds::ZERO, Nanoseconds::ZERO);
        Self { profile, operations: 0, overruns: 0, overrun_total, overrun_max, late }
    }

    /// Records a completion that was due at `due`, with the times of its two parts.
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

/// Operation whose model part or real part is under way.
#[derive(Default)]
struct Open {
    /// Time of the request, and time at which its real part began.
    asked: Nanoseconds,
    begun: Nanoseconds,
    model: Option<(Nanoseconds, Status)>,
    real: Option<(Nanoseconds, Completion<Buffers>)>,
}

/// Model with its open operations.
pub(super) struct Pace {
    model: Box<dyn DeviceModel>,
    /// Latest time that was given to the model.
    time: Nanoseconds,
    open: HashMap<Token, Open, foldhash::fast::RandomState>,
    /// Operations whose real part and part in the model have ended, with the model's time.
    ready: Vec<(Nanoseconds, Token)>,
    /// Number of operations in the model.
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

    /// Returns the number of operations that were not returned.
    pub(super) fn under_way(&self) -> usize {
        self.open.len()
    }

    /// Takes an operation that arrives at `now`, or at the latest time so far, whichever is later.
    /// The next [`advance`](Self::advance) returns operations that were due before.
    pub(super) fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        let now = now.max(self.time);
        self.let_pass(now);
        self.in_model += 1;
        self.open.entry(token).or_default().asked = now;
        self.model.submit(now, token, command);
    }

    /// Records that the real part of a submitted operation begins.
    pub(super) fn real_begins(&mut self, at: Nanoseconds, token: Token) {
        self.open.entry(token).or_default().begun = at;
    }

    /// Records that the real part of a submitted operation has ended.
    pub(super) fn real_ended(&mut self, at: Nanoseconds, completion: Completion<Buffers>) {
        let token = completion.token;
        let open = self.open.entry(token).or_default();
        assert!(open.real.is_none(), "a real part ends once");
        open.real = Some((at, completion));
        self.ready.extend(open.model.map(|(at, _)| (at, token)));
    }

    /// Advances the time, and returns operations whose parts have both ended, in the order of the
    /// model's times.
    pub(super) fn advance(&mut self, now: Nanoseconds, ended: &mut Vec<Completion<Buffers>>) {
        self.let_pass(now);
        // Operations of the same time keep the order in which the model finished them.
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

    /// Advances the model from event to event, as the simulator does.
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

    /// Returns the time of the model's next event, and true if an operation waits in the model.
    pub(super) fn next_event(&self) -> Option<(Nanoseconds, bool)> {
        Some((self.model.next_event()?, self.in_model > 0))
    }
}

/// Merges the statuses: an error of either part is an error of the operation.
fn merge(model: Status, real: Completion<Buffers>) -> Completion<Buffers> {
    if model == Status::Done || real.status != Status::Done {
        return real;
    }
    Completion { token: real.token, status: model, payload: Buffers::empty() }
}
