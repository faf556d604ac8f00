//! A flash drive in virtual time: how a command passes through.
//!
//! A read asks the translation layer for pages, waits for the dies that hold them, then for the link to the host. A
//! write crosses the link, takes room in the write buffer unit by unit (and waits there for room), and is done; without a buffer it is
//! done when its pages are programmed. The translation layer's tables change when a unit enters the buffer, so what is written where does not depend on
//! time. What the layer asks of the dies is queued there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use super::dies::{Dies, Job, NO_REQUEST};
use super::ftl::{Setup, TranslationLayer};
use super::geometry::Geometry;
use super::intensity::Intensity;
use super::operation::{Cause, NandKind, NandOp};
use super::precondition::Precondition;
use super::profile::FlashProfile;
use super::state::archive::Archive;
use super::state::{Origin, RestoreError};
use super::statistics::Meter;
use super::timing::{HostTiming, Parallelism};
use super::wear::WearLevellingKind;
use super::write_buffer::{Epochs, WriteBuffer};
use crate::hdd::profile::Switch;
use crate::profile::BadFigure;
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished};

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
    /// The drive of `profile`, which was checked: of its `capacity`, or of the `size` that is asked for. The sectors of `used` start in the
    /// state `precondition`, the rest clean; `seed` decides where data lie in the random state.
    ///
    /// # Errors
    /// The key of the profile that makes such a drive impossible.
    pub fn new(
        profile: &FlashProfile,
        capacity: Sectors,
        size: Option<Sectors>,
        precondition: Precondition,
        used: SectorRange,
        seed: u64,
    ) -> Result<Self, BadFigure> {
        let (geometry, capacity) = shape(profile, capacity, size)?;
        let per_unit = u64::from(geometry.unit_bytes) / SECTOR_BYTES;
        let end = used.end().0.min(capacity.0).div_ceil(per_unit) as u32;
        let start = ((used.start.0 / per_unit) as u32).min(end);
        let origin = Origin::new(profile, &geometry, precondition, (start, end - start), seed);
        Self::of(profile, geometry, capacity, origin, false)
    }

    /// The drive of `profile`, of its `capacity` or of the `size` that is asked for, as [`save`](Self::save) left it.
    ///
    /// # Errors
    /// A drive that is impossible, or not the one that was saved; tables that are not its.
    pub fn restore(
        profile: &FlashProfile,
        capacity: Sectors,
        size: Option<Sectors>,
        tables: &[u8],
    ) -> Result<Self, RestoreError> {
        let (geometry, capacity) = shape(profile, capacity, size)?;
        let mut origin = Origin::new(profile, &geometry, Precondition::Clean, (0, 0), 0);
        let mut archive = Archive::Reading(tables);
        origin.transfer(&mut archive)?;
        if u64::from(origin.start) + u64::from(origin.units) > geometry.logical_units.into() {
            return Err(RestoreError::Damaged("it was filled beyond its end".to_owned()));
        }
        let mut drive = Self::of(profile, geometry, capacity, origin, true)?;
        drive.layer.transfer(&mut archive)?;
        if let Archive::Reading(rest) = archive
            && !rest.is_empty()
        {
            return Err(RestoreError::Damaged(format!("{} bytes are left", rest.len())));
        }
        if let Some(buffer) = &mut drive.buffer {
            buffer.take(drive.layer.waiting_units());
        }
        Ok(drive)
    }

    /// What its translation layer knows, for [`restore`](Self::restore). What the host asked for and was not written yet is no
    /// part of it.
    pub fn save(&mut self) -> Vec<u8> {
        let mut archive = Archive::Writing(Vec::new());
        let saved = self.origin.transfer(&mut archive).and_then(|()| Ok(self.layer.transfer(&mut archive)?));
        match (saved, archive) {
            (Ok(()), Archive::Writing(tables)) => tables,
            (result, _) => unreachable!("tables that agree are written down: {result:?}"),
        }
    }

    fn of(
        profile: &FlashProfile,
        geometry: Geometry,
        capacity: Sectors,
        origin: Origin,
        restored: bool,
    ) -> Result<Self, BadFigure> {
        let Origin { precondition, start, units, seed, .. } = origin;
        let setup = Setup { profile, geometry, precondition, start, units, seed, restored };
        let layer = (profile.ftl.0.make)(&setup)?;
        Ok(Self {
            capacity,
            geometry,
            origin,
            timing: profile.host_timing(),
            protected: profile.power_loss_protection == Switch::On,
            serial: profile.timing == Parallelism::Serial,
            layer,
            dies: Dies::new(&geometry, profile.nand_timing(geometry.unit_bytes)),
            buffer: write_buffer(profile, &geometry)?,
            epochs: Epochs::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            link_in: Nanoseconds::ZERO,
            link_out: Nanoseconds::ZERO,
            meter: Meter::new(profile),
            intensity: intensity(profile),
            idle: Idle::No,
            operations: Vec::new(),
            flushed: Vec::new(),
        })
    }

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

    /// A command that changes content has crossed the link.
    fn arrive(&mut self, now: Nanoseconds, slot: u32) {
        match &mut self.buffer {
            // What came earlier and waits for room goes first.
            Some(buffer) if !buffer.waiting.is_empty() => buffer.waiting.push_back(slot),
            _ => self.execute(now, slot),
        }
    }

    fn execute(&mut self, now: Nanoseconds, slot: u32) {
        let command = self.requests[slot as usize].command;
        self.requests[slot as usize].stage = Stage::Working;
        if command.kind != OpKind::Write {
            return self.clear(now, slot, command);
        }
        self.count_host_bytes(now, command.range.len.bytes());
        self.set_up(NandKind::WriteSetup);
        self.read_partial_units(now, slot);
        if self.requests[slot as usize].parts > 0 {
            self.requests[slot as usize].stage = Stage::Modifying;
        } else {
            self.write_units(now, slot);
        }
    }

    fn count_host_bytes(&mut self, now: Nanoseconds, bytes: Bytes) {
        self.meter.host_bytes += bytes;
        if let Some(intense) = self.intensity.as_mut().and_then(|intensity| intensity.wrote(now, bytes)) {
            self.layer.set_intense(intense);
        }
    }

    /// Forgets the units that a discard or write-zeroes covers wholly; writes zeroes into those at its ends.
    fn clear(&mut self, now: Nanoseconds, slot: u32, command: Command) {
        let (start, end) = self.whole_units_of(command.range);
        self.layer.trim(start, end, &mut self.operations);
        let Request { next: first, end: last, .. } = self.requests[slot as usize];
        if command.kind == OpKind::WriteZeroes {
            let whole = Sectors(u64::from(end - start) * self.sectors_per_unit());
            self.count_host_bytes(now, (command.range.len - whole).bytes());
            self.read_partial_units(now, slot);
            for unit in (first..start.min(last)).chain(end.max(first)..last) {
                self.write_request(slot, unit, unit + 1);
            }
        }
        self.requests[slot as usize].next = last;
        self.write_units(now, slot);
    }

    /// Reads the units that `slot` covers only in part; without a buffer the request waits for that.
    fn read_partial_units(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, next: first, end, .. } = self.requests[slot as usize];
        let (whole_start, whole_end) = self.whole_units_of(command.range);
        let last = end - 1;
        for (unit, other) in [(first, true), (last, last != first)] {
            if other && (unit < whole_start || unit >= whole_end) {
                self.meter.partial_writes += 1;
                self.layer.read(unit, unit + 1, &mut self.operations);
            }
        }
        self.hand_over(now, if self.buffer.is_none() { slot } else { NO_REQUEST });
    }

    fn write_request(&mut self, slot: u32, start: u32, end: u32) {
        let taken = self.layer.write_request(start, end, &mut self.operations);
        if let Some(buffer) = &mut self.buffer {
            buffer.take(taken);
        }
        if taken < end - start && self.layer.take_refused() > 0 {
            self.requests[slot as usize].status = Status::MediaError;
        }
    }

    /// Writes the units that are left of `slot`, as far as there is room.
    fn write_units(&mut self, now: Nanoseconds, slot: u32) {
        let Request { command, end, .. } = self.requests[slot as usize];
        while self.requests[slot as usize].next < end {
            if self.buffer.as_ref().is_some_and(WriteBuffer::is_full) {
                if let Some(buffer) = &mut self.buffer {
                    buffer.waiting.push_front(slot);
                }
                self.hand_over(now, NO_REQUEST);
                return;
            }
            let start = self.requests[slot as usize].next;
            let stop = end.min(start.saturating_add(self.buffer.as_ref().map_or(u32::MAX, WriteBuffer::room)));
            self.requests[slot as usize].next = stop;
            self.write_request(slot, start, stop);
        }
        let through = command.fua && !self.protected;
        if self.buffer.is_none() || through {
            self.layer.flush(&mut self.operations);
        }
        self.hand_over(now, if self.buffer.is_none() { slot } else { NO_REQUEST });
        let waits =
            self.requests[slot as usize].parts > 0 || (self.buffer.is_some() && through && self.epochs.wait(slot));
        if !waits {
            self.respond(now, slot);
        }
    }

    fn flush(&mut self, now: Nanoseconds, slot: u32) {
        self.requests[slot as usize].stage = Stage::Working;
        if self.buffer.is_none() {
            // Every write that completed is in the cells.
            return self.respond(now, slot);
        }
        if self.protected {
            return self.respond(now + self.timing.flush, slot);
        }
        self.layer.flush(&mut self.operations);
        self.hand_over(now, NO_REQUEST);
        if !self.epochs.wait(slot) {
            self.respond(now, slot);
        }
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

    fn host_data_programmed(&mut self, now: Nanoseconds, epoch: u64, units: u32) {
        let mut flushed = std::mem::take(&mut self.flushed);
        self.epochs.finish(epoch, &mut flushed);
        for slot in flushed.drain(..) {
            let after = if self.requests[slot as usize].command.kind == OpKind::Flush {
                self.timing.flush
            } else {
                Nanoseconds::ZERO
            };
            self.respond(now + after, slot);
        }
        self.flushed = flushed;
        let Some(buffer) = &mut self.buffer else { return };
        buffer.release(units);
        while let Some(buffer) = self.buffer.as_mut().filter(|buffer| !buffer.is_full()) {
            let Some(slot) = buffer.waiting.pop_front() else { break };
            match self.requests[slot as usize].stage {
                Stage::Arriving => self.execute(now, slot),
                _ => self.write_units(now, slot),
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

/// The geometry of a drive and what it offers.
fn shape(profile: &FlashProfile, capacity: Sectors, size: Option<Sectors>) -> Result<(Geometry, Sectors), BadFigure> {
    let geometry = profile.geometry(capacity, size)?;
    let capacity = match size {
        Some(size) => Sectors(size.0.min(geometry.logical_bytes().sectors().0)),
        None => profile.capacity(capacity)?,
    };
    Ok((geometry, capacity))
}

fn intensity(profile: &FlashProfile) -> Option<Intensity> {
    let adapts = profile.wear_levelling == WearLevellingKind::Adaptive;
    profile.expected_bytes_per_second().filter(|_| adapts).map(Intensity::new)
}

fn write_buffer(profile: &FlashProfile, geometry: &Geometry) -> Result<Option<WriteBuffer>, BadFigure> {
    let Some(size) = profile.write_buffer.0 else { return Ok(None) };
    let units = size.0 / u64::from(geometry.unit_bytes);
    let least = 2 * geometry.units_per_row();
    match u32::try_from(units) {
        Ok(units) if units >= least => Ok(Some(WriteBuffer::new(units))),
        _ => {
            let least = Bytes(u64::from(least) * u64::from(geometry.unit_bytes));
            let expected = format!("\"off\", or at least {least}, two rows of pages of a die, and below 16TiB");
            Err(BadFigure::new("write_buffer", size, expected))
        }
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
