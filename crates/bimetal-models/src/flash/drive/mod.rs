//! Flash drive in virtual time: path of a command.
//!
//! A read asks the FTL for pages, waits for the dies that hold them, then for the link to the host.
//! A write crosses the link, takes room in the write buffer one mapping unit after the other (and
//! waits for room), and is then done. Without a buffer a write is done when its pages are
//! programmed. The FTL's tables change when a mapping unit enters the buffer, so that the places of
//! writes do not depend on time. The operations that the FTL requests are queued at the dies.
//! `setup` makes a drive, saves it and restores it; `changes` is the path of commands that change
//! content.

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

/// Model of a flash drive.
pub struct Flash {
    capacity: Sectors,
    geometry: Geometry,
    origin: Origin,
    timing: HostTiming,
    /// Set if a flush need not wait for the buffer.
    protected: bool,
    /// Set if the drive performs one operation at a time; a request then waits for all operations
    /// that it causes.
    serial: bool,
    layer: Box<dyn TranslationLayer>,
    dies: Dies,
    buffer: Option<WriteBuffer>,
    epochs: Epochs,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Requests that arrive from the link or are finished: time, order of scheduling, request.
    events: BinaryHeap<Reverse<(Nanoseconds, u64, u32)>>,
    event_count: u64,
    link_in: Nanoseconds,
    link_out: Nanoseconds,
    meter: Meter,
    /// Rate of the host's writes, if the FTL depends on the rate.
    intensity: Option<Intensity>,
    idle: Idle,
    operations: Vec<NandOp>,
    flushed: Vec<u32>,
}

/// Command under way.
struct Request {
    token: Token,
    command: Command,
    stage: Stage,
    status: Status,
    /// Number of die operations that the request waits for.
    parts: u32,
    /// Next unit of the request to be written.
    next: u32,
    /// First unit after the request.
    end: u32,
}

/// Background work of the drive while the host is idle: its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Idle {
    /// No work.
    No,
    /// The background work begins at this time.
    From(Nanoseconds),
    /// The background work is under way.
    Working,
    /// No background work begins until the host has written again.
    Done,
}

/// Idle time of the host after which the drive begins background work.
const IDLE_AFTER: Nanoseconds = Nanoseconds::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The request crosses the link, or is queued behind other requests that wait for room in the
    /// buffer.
    Arriving,
    /// The request reads translation tables that its read needs.
    LookingUp,
    /// The request reads units that it writes only in part.
    Modifying,
    /// The request waits for room in the buffer, for dies, or for a flush.
    Working,
    /// The time at which the request finishes is known.
    Finishing,
}

impl Flash {
    /// Returns the geometry of the flash.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the bytes of memory that the tables of the FTL use.
    pub fn memory_bytes(&self) -> u64 {
        self.layer.memory_bytes()
    }

    /// Checks every table of the FTL against the other tables, unit by unit. For tests.
    ///
    /// # Panics
    /// Two tables disagree.
    pub fn check(&self) {
        if let Err(what) = self.layer.check() {
            panic!("{what}");
        }
    }

    fn sectors_per_unit(&self) -> u64 {
        u64::from(self.geometry.unit_bytes) / SECTOR_BYTES
    }

    /// Returns the units that `range` touches: the first unit, and the first unit after the range.
    fn units_of(&self, range: SectorRange) -> (u32, u32) {
        let per_unit = self.sectors_per_unit();
        ((range.start.0 / per_unit) as u32, range.end().0.div_ceil(per_unit) as u32)
    }

    /// Returns the units that `range` covers wholly.
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

    /// Schedules the end of a request whose work is done: the remaining time is overhead, and the
    /// transfer of read data over the link.
    fn respond(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, stage, .. } = &mut self.requests[slot as usize];
        *stage = Stage::Finishing;
        let at = if command.kind == OpKind::Read {
            self.link_out = now.max(self.link_out) + self.timing.reads.time(command.range.len.bytes().0);
            self.link_out + self.timing.read_overhead
        } else {
            now + self.timing.write_overhead
        };
        self.schedule(at, slot);
    }

    /// Lets a request begin with its overhead, with serial timing.
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

    /// Submits the operations that the FTL requested to the dies. Request `slot` waits for reads of
    /// the host's data and of the FTL's tables; without a buffer also for its programs; with serial
    /// timing for all operations. [`NO_REQUEST`] stands for no request, and nothing waits.
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

    /// Handles a job that a die has finished.
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
    /// Plans background work at `now`, when the drive may have become idle or busy.
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
                self.link_in = now.max(self.link_in) + self.timing.writes.time(bytes);
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
        // The counters count a block in each plane, and these are erased at once.
        let physical_blocks = self.layer.counters().cycles_used();
        let flash = self.geometry.physical_bytes();
        let block = Bytes(flash.0 / u64::from(self.geometry.blocks()));
        let erased = Bytes((physical_blocks * (flash.0 / self.geometry.physical_blocks()) as f64) as u64);
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
