//! A flash drive in virtual time: how a command passes through.
//!
//! A read asks the translation layer for pages, waits for the dies that hold them, then for the link to the host. A
//! write crosses the link, takes room in the write buffer unit by unit (and waits there for room), and is done; without a buffer it is
//! done when its pages are programmed. The translation layer's tables change when a unit enters the buffer, so what is written where does not depend on
//! time. What the layer asks of the dies is queued there. `setup` makes a drive, saves and restores it; `changes` is the way of
//! commands that change content.

mod changes;
mod setup;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use super::dies::{Dies, Job, NO_REQUEST};
use super::ftl::TranslationLayer;
use super::geometry::Geometry;
use super::intensity::Intensity;
use super::operation::{Cause, NandKind, NandOp};
use super::state::Origin;
use super::statistics::Meter;
use super::timing::HostTiming;
use super::write_buffer::{Epochs, WriteBuffer};
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished, Wear};

/// A flash drive.
pub struct Flash {
    capacity: Sectors,
    geometry: Geometry,
    origin: Origin,
    timing: HostTiming,
    /// A flush needs not wait for the buffer.
    protected: bool,
    /// One operation at a time; a request waits for all that it causes.
    serial: bool,
    layer: Box<dyn TranslationLayer>,
    dies: Dies,
    buffer: Option<WriteBuffer>,
    epochs: Epochs,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Requests that arrive from the link or are finished: when, in order of asking, which.
    events: BinaryHeap<Reverse<(Nanoseconds, u64, u32)>>,
    event_count: u64,
    link_in: Nanoseconds,
    link_out: Nanoseconds,
    meter: Meter,
    /// How much the host writes, where the layer wants to know.
    intensity: Option<Intensity>,
    idle: Idle,
    operations: Vec<NandOp>,
    flushed: Vec<u32>,
}

/// A command under way.
struct Request {
    token: Token,
    command: Command,
    stage: Stage,
    status: Status,
    /// Operations of dies it waits for.
    parts: u32,
    /// Its next unit to be written.
    next: u32,
    /// The first unit behind it.
    end: u32,
}

/// What the drive does for itself when the host wants nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Idle {
    /// Nothing.
    No,
    /// It begins at this time.
    From(Nanoseconds),
    /// It is at it.
    Working,
    /// Nothing more until the host has written again.
    Done,
}

/// How long the drive waits for the host before it works for itself.
const IDLE_AFTER: Nanoseconds = Nanoseconds::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// On the link, or behind others that wait for room in the buffer.
    Arriving,
    /// Reads what must be known before it can be read.
    LookingUp,
    /// Reads what it writes only in part.
    Modifying,
    /// Waits for room in the buffer, for dies, or for a flush.
    Working,
    /// Its time is known.
    Finishing,
}

impl Flash {
    /// The shape of its flash.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of memory that the tables of its translation layer use.
    pub fn memory_bytes(&self) -> u64 {
        self.layer.memory_bytes()
    }

    /// Checks every table of the translation layer against the others, unit by unit. For tests.
    ///
    /// # Panics
    /// Where two of them disagree.
    pub fn check(&self) {
        if let Err(what) = self.layer.check() {
            panic!("{what}");
        }
    }

    fn sectors_per_unit(&self) -> u64 {
        u64::from(self.geometry.unit_bytes) / SECTOR_BYTES
    }

    /// The units that `range` touches: first, and first behind it.
    fn units_of(&self, range: SectorRange) -> (u32, u32) {
        let per_unit = self.sectors_per_unit();
        ((range.start.0 / per_unit) as u32, range.end().0.div_ceil(per_unit) as u32)
    }

    /// The units that `range` covers wholly.
    fn whole_units_of(&self, range: SectorRange) -> (u32, u32) {
        let per_unit = self.sectors_per_unit();
        let (start, end) = (range.start.0.div_ceil(per_unit) as u32, (range.end().0 / per_unit) as u32);
        (start, end.max(start))
    }

    fn new_request(&mut self, token: Token, command: Command) -> u32 {
        let (next, end) = if command.range.is_empty() { (0, 0) } else { self.units_of(command.range) };
        let request = Request { token, command, stage: Stage::Arriving, status: Status::Done, parts: 0, next, end };
        self.meter.outstanding += 1;
        match self.free_requests.pop() {
            Some(slot) => {
                self.requests[slot as usize] = request;
                slot
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        }
    }

    fn schedule(&mut self, at: Nanoseconds, slot: u32) {
        self.events.push(Reverse((at, self.event_count, slot)));
        self.event_count += 1;
    }

    /// The drive is done with the request but for what follows the work: overhead, and the link for data read.
    fn respond(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, stage, .. } = &mut self.requests[slot as usize];
        *stage = Stage::Finishing;
        let at = if command.kind == OpKind::Read {
            self.link_out = now.max(self.link_out) + self.timing.link_time(command.range.len.bytes().0);
            self.link_out + self.timing.read_overhead
        } else {
            now + self.timing.write_overhead
        };
        self.schedule(at, slot);
    }

    /// With serial timing, lets a request begin with its overhead.
    fn set_up(&mut self, kind: NandKind) {
        if self.serial {
            self.operations.push(NandOp::new(kind, Cause::Host));
        }
    }

    fn read(&mut self, now: Nanoseconds, slot: u32) {
        let Request { next, end, .. } = self.requests[slot as usize];
        self.set_up(NandKind::ReadSetup);
        let before = self.operations.len();
        self.layer.look_up(next, end, &mut self.operations);
        if self.operations.len() > before {
            self.requests[slot as usize].stage = Stage::LookingUp;
            self.hand_over(now, slot);
        }
        if self.requests[slot as usize].parts == 0 {
            self.read_units(now, slot);
        }
    }

    fn read_units(&mut self, now: Nanoseconds, slot: u32) {
        let Request { next, end, .. } = self.requests[slot as usize];
        self.layer.read(next, end, &mut self.operations);
        self.requests[slot as usize].stage = Stage::Working;
        self.hand_over(now, slot);
        if self.requests[slot as usize].parts == 0 {
            self.respond(now, slot);
        }
    }

    /// Hands the operations that the translation layer asked for to the dies. Request `slot` waits for reads of the host's
    /// data and of the layer's tables, without a buffer also for programs of it, with serial timing for all; [`NO_REQUEST`] waits for nothing.
    fn hand_over(&mut self, now: Nanoseconds, slot: u32) {
        let operations = std::mem::take(&mut self.operations);
        for &operation in &operations {
            let mut job = Job { operation, request: NO_REQUEST, epoch: 0 };
            let program = operation.host_units > 0;
            if program {
                job.epoch = self.epochs.start();
            }
            let waited_for = matches!(operation.cause, Cause::Host | Cause::Translation);
            let read = slot != NO_REQUEST && operation.kind == NandKind::Read && waited_for;
            let all = self.serial && slot != NO_REQUEST;
            if read || all || program && self.buffer.is_none() {
                job.request = slot;
                self.requests[slot as usize].parts += 1;
            }
            self.dies.submit(now, job, read);
        }
        self.operations = operations;
        self.operations.clear();
    }

    /// A die has finished `job`.
    fn job_done(&mut self, now: Nanoseconds, job: Job) {
        let NandOp { kind, host_units, .. } = job.operation;
        if kind == NandKind::Program {
            self.layer.programmed(&job.operation);
            if host_units > 0 {
                self.host_data_programmed(now, job.epoch, host_units);
            }
        }
        if job.request != NO_REQUEST {
            let request = &mut self.requests[job.request as usize];
            request.parts -= 1;
            if request.parts == 0 {
                match request.stage {
                    Stage::LookingUp => self.read_units(now, job.request),
                    Stage::Modifying => {
                        request.stage = Stage::Working;
                        self.write_units(now, job.request);
                    }
                    _ => self.respond(now, job.request),
                }
            }
        }
    }

    fn finish(&mut self, now: Nanoseconds, slot: u32, finished: &mut Vec<Finished>) {
        let Request { token, command, status, .. } = self.requests[slot as usize];
        self.meter.finished(command);
        self.meter.outstanding -= 1;
        self.free_requests.push(slot);
        finished.push(Finished { token, at: now, status });
    }
}

impl Flash {
    /// At `now` the drive may have run out of work for the host, or have some again.
    fn plan_idle_work(&mut self, now: Nanoseconds) {
        let idle = self.meter.outstanding == 0 && !self.dies.is_busy();
        if !idle {
            return;
        }
        self.idle = match self.idle {
            Idle::No if self.layer.wants_idle_time() => Idle::From(now + IDLE_AFTER),
            Idle::Working if self.layer.wants_idle_time() => Idle::From(now),
            Idle::No | Idle::Working => Idle::Done,
            planned => planned,
        };
    }

    fn work_when_idle(&mut self, now: Nanoseconds) {
        let any = self.layer.use_idle_time(&mut self.operations);
        self.idle = if any { Idle::Working } else { Idle::Done };
        self.hand_over(now, NO_REQUEST);
    }
}

impl DeviceModel for Flash {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} lies outside of the drive's {}", self.capacity);
        let slot = self.new_request(token, command);
        self.idle = Idle::No;
        match command.kind {
            OpKind::Flush => self.flush(now, slot),
            OpKind::Hint => {
                self.requests[slot as usize].status = Status::Unsupported;
                self.respond(now, slot);
            }
            _ if command.range.is_empty() => self.respond(now, slot),
            OpKind::Read => self.read(now, slot),
            OpKind::Write | OpKind::Discard | OpKind::WriteZeroes => {
                let bytes = if command.kind == OpKind::Write { command.range.len.bytes().0 } else { 0 };
                self.link_in = now.max(self.link_in) + self.timing.link_time(bytes);
                self.schedule(self.link_in, slot);
            }
        }
        self.meter.note(now, self.dies.is_busy());
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let next = match (self.dies.next_event(), event) {
            (Some(die), Some(event)) => Some(die.min(event)),
            (die, event) => die.or(event),
        };
        match self.idle {
            Idle::From(at) => Some(next.map_or(at, |next| next.min(at))),
            _ => next,
        }
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        loop {
            let event = self.events.peek().map_or(Nanoseconds::MAX, |Reverse((at, ..))| *at);
            let die = self.dies.next_event().unwrap_or(Nanoseconds::MAX);
            let idle = if let Idle::From(at) = self.idle { at } else { Nanoseconds::MAX };
            let at = event.min(die).min(idle);
            if at > now || at == Nanoseconds::MAX {
                return;
            }
            if idle < event.min(die) {
                self.work_when_idle(at);
            } else if die <= event {
                if let Some(job) = self.dies.step() {
                    self.job_done(at, job);
                }
            } else if let Some(Reverse((_, _, slot))) = self.events.pop() {
                match self.requests[slot as usize].stage {
                    Stage::Arriving => self.arrive(at, slot),
                    _ => self.finish(at, slot, finished),
                }
            }
            self.meter.note(at, self.dies.is_busy());
            self.plan_idle_work(at);
        }
    }

    fn wear(&self) -> Option<Wear> {
        let blocks: u64 = self.layer.counters().blocks_erased.iter().sum();
        let flash = self.geometry.physical_bytes();
        let block = Bytes(flash.0 / u64::from(self.geometry.blocks()));
        let erased = Bytes(blocks * block.0);
        Some(Wear { erased, flash, block, endurance: Bytes((flash.0 as f64 * self.meter.rated_cycles()) as u64) })
    }

    fn halt_wear_levelling(&mut self, halt: bool) {
        self.intensity = None;
        self.layer.set_intense(halt);
    }

    fn save_state(&mut self) -> Option<Vec<u8>> {
        Some(self.save())
    }

    fn fragmented(&self, most: Sectors) -> Option<Vec<SectorRange>> {
        let per_unit = self.sectors_per_unit();
        let units = self.layer.fragmented(usize::try_from(most.0 / per_unit).unwrap_or(usize::MAX))?;
        let mut ranges: Vec<SectorRange> = Vec::new();
        for unit in units {
            let start = u64::from(unit) * per_unit;
            match ranges.last_mut().filter(|last| last.end().0 == start) {
                Some(last) => last.len += Sectors(per_unit),
                None => ranges.push(SectorRange::new(start, per_unit.min(self.capacity.0 - start))),
            }
        }
        Some(ranges)
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.meter.statistics(now, &self.geometry, self.layer.as_ref(), &self.dies)
    }
}
