//! Event loop: requests into the volume, its operations into the drives, completions back, in
//! virtual time.
//!
//! A request is issued in one of three ways: at its time, as soon as few enough requests are under
//! way, or after its think time. The think time starts when the host has got the answers on which
//! the request depends ([`bimetal_trace::think`]); see [`Replay`].
//!
//! Events of one moment happen in a fixed order: drives first, then the volume's timer, then
//! arrivals. A run ends when every request has finished. Blocks that the volume would write back
//! later stay off home, and are counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use bimetal_core::block::Block;
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::NoPayload;
use bimetal_core::tree::Tree;
use bimetal_core::units::{Bytes, Nanoseconds, Sectors, sooner};
use bimetal_core::volume::Statistics;
use bimetal_measure::response_time::{ResponseTimeRecorder, ResponseTimes};
use bimetal_measure::sequentiality::WriteSequentiality;
use bimetal_models::{DeviceStatistics, Finished};
use bimetal_trace::hints::HintKind;
use bimetal_trace::think::{Dependencies, faster};
use bimetal_trace::{Request, TraceError};

use crate::block_layer::{BlockLayer, BlockLayerCounts, BlockLayerSettings, PLUG_GAP};
use crate::limits::{self, Limits};
use crate::metrics::{AmountOverTime, Backlog, Gauge, HeadTime, LatencyOverTime};
use crate::parts::Parts;
use crate::setup::{Drive, Setup};
use crate::workload::{Requests, WorkloadError};

/// Times at which requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replay {
    /// Requests are issued at their times, divided by `speedup`, whether or not earlier requests
    /// have finished.
    Timed {
        /// Factor by which the replay is faster than the recording.
        speedup: f64,
    },
    /// Requests are issued as soon as fewer than `depth` are under way; times do not matter.
    Closed {
        /// Number of requests that are under way at a time.
        depth: u32,
    },
    /// Each request is issued once all requests that had been answered before it when the trace was
    /// recorded are answered, and the host's own time after these answers has passed
    /// ([`Dependencies`]).
    Think {
        /// Factor by which the host's own times are shorter than in the recording.
        speedup: f64,
    },
}

impl Replay {
    /// Returns the factor by which times of the trace are shorter; `None` if the times do not
    /// matter.
    pub fn speedup(self) -> Option<f64> {
        match self {
            Self::Timed { speedup } | Self::Think { speedup } => Some(speedup),
            Self::Closed { .. } => None,
        }
    }

    /// Returns the mode as a command line spells it, without a speed.
    pub fn spelled(self) -> String {
        match self {
            Self::Timed { .. } => "timed".to_owned(),
            Self::Closed { depth } => format!("closed:{depth}"),
            Self::Think { .. } => "think".to_owned(),
        }
    }
}

/// The mode and its speed, as results have it.
impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled())?;
        self.speedup().map_or(Ok(()), |speedup| write!(f, ", speedup {speedup}"))
    }
}

/// Options for playing and measuring a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// Times at which requests are issued.
    pub replay: Replay,
    /// Number of requests at the beginning that are played and not measured.
    pub warmup_requests: u64,
    /// Block layer between the requests and the volume, if the requests have not passed through a
    /// block layer.
    pub block_layer: Option<BlockLayerSettings>,
}

/// Reasons for which a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The trace cannot be read any further.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The volume refuses a request of the trace, or a drive cannot serve it.
    #[error(
        "request {number} of the trace ({kind:?} of {sectors} sectors at sector {start}) failed: {status:?}{}",
        why(status)
    )]
    Failed {
        /// Number of the request, from 1.
        number: u64,
        /// Operation of the request.
        kind: OpKind,
        /// First sector of the request.
        start: u64,
        /// Number of sectors of the request.
        sectors: u64,
        /// Status of the request.
        status: Status,
    },
    /// The volume does not take a hint.
    #[error(transparent)]
    Hint(#[from] TraceError),
    /// The scheme's settings need knowledge of the future, and the run has no such knowledge.
    #[error(
        "{scheme}: replacement=belady must know when each block is used next, and this kind of simulation cannot know \
         it"
    )]
    NoForesight {
        /// Name of the scheme.
        scheme: &'static str,
    },
    /// The counts of the run do not agree, so its result would be wrong.
    #[error("the simulation of {scheme} does not add up: {what}. This is an error in Bimetal; please report it")]
    Conservation {
        /// Name of the scheme, or of the outermost volume of a tree.
        scheme: String,
        /// Counts that do not agree.
        what: String,
    },
    /// A limit is certainly broken, however the run would go on, so the run stopped.
    #[error("stopped after {finished} requests: {broken}")]
    LimitBroken {
        /// Number of requests finished before the run was stopped.
        finished: u64,
        /// Name of the limit.
        broken: String,
    },
    /// All requests were skipped as warm-up.
    #[error("all {0} requests are warm-up: no request is left to measure")]
    NothingMeasured(u64),
}

/// Returns the reasons for which a modelled drive fails a request.
fn why(status: &Status) -> &'static str {
    match status {
        Status::MediaError => {
            ". Flash refuses a write to a page that was not erased (ssd.ftl=none: the host must discard first), and \
             any write once it is worn out (ssd.wear_out=on)"
        }
        _ => "",
    }
}

/// Time of the first access of a copy through memory; the transfer of the copy takes its time at
/// `MEMORY_BYTES_PER_SECOND`. The two constants describe the line through the times of copies by
/// one core, measured over 512 MiB in random order (DDR4 server, 2026): 1.9 µs for 4 KiB, 8.6 µs
/// for 64 KiB, 127 µs for 1 MiB.
const MEMORY_FIRST: Nanoseconds = Nanoseconds(1400);
const MEMORY_BYTES_PER_SECOND: f64 = 8.3e9;

/// Returns the time of a copy through memory. A request takes at least this time under every
/// scheme, even if a buffer in memory takes the request's data without waiting for a drive.
fn memory_copy(bytes: Bytes) -> Nanoseconds {
    MEMORY_FIRST + Nanoseconds((bytes.0 as f64 / MEMORY_BYTES_PER_SECOND * 1e9).round() as u64)
}

/// Measurements of a run, before figures are computed from the measurements.
pub struct Measured {
    /// Response times of reads, writes and flushes.
    pub response: ResponseTimeRecorder,
    /// Response times of each part of the trace that is recorded apart.
    pub parts: Vec<ResponseTimes>,
    /// Response times over the time of the run.
    pub latency: LatencyOverTime,
    /// Number of requests under way.
    pub queue_depth: Gauge,
    /// Times at which requests waited for longer than any drive alone would need.
    pub backlog: Backlog,
    /// Settings and counts of the block layer since the beginning of the run.
    pub block_layer: Option<(BlockLayerSettings, BlockLayerCounts)>,
    /// Bytes off home that home does not have.
    pub dirty: Gauge,
    /// Bytes written to SSDs.
    pub ssd_written: AmountOverTime,
    /// Head time of all disks in windows.
    pub head_time: HeadTime,
    /// Page writes of each member.
    pub sequentiality: Vec<WriteSequentiality>,
    /// Number of requests measured.
    pub requests: u64,
    /// Bytes that measured reads and writes carried.
    pub bytes: Bytes,
    /// Time of the first measured arrival.
    pub start: Nanoseconds,
    /// Time of the end of the run.
    pub end: Nanoseconds,
    /// Counters of the volumes and of the drives when measuring began.
    pub before: (Vec<Statistics>, Vec<DeviceStatistics>),
    /// Number of blocks that home did not have when measuring began.
    pub dirty_blocks_before: u64,
}

impl Measured {
    fn new(start: Nanoseconds, setup: &Setup) -> Self {
        Self {
            response: ResponseTimeRecorder::new(),
            parts: Vec::new(),
            latency: LatencyOverTime::new(start),
            queue_depth: Gauge::new(start, 0),
            backlog: Backlog::new(start),
            block_layer: None,
            dirty: Gauge::new(start, 0),
            ssd_written: AmountOverTime::new(start),
            head_time: HeadTime::new(start, head_time(setup, start)),
            sequentiality: vec![WriteSequentiality::default(); setup.drives.len()],
            requests: 0,
            bytes: Bytes::ZERO,
            start,
            end: start,
            before: (
                setup.tree.volumes().map(|volume| volume.statistics().clone()).collect(),
                setup.drives.iter().map(|drive| drive.model.statistics(start)).collect(),
            ),
            dirty_blocks_before: u64::from(setup.volume().view().map.dirty_blocks()),
        }
    }
}

/// Returns the head time of all disks until `now`, since time zero.
pub(crate) fn head_time(setup: &Setup, now: Nanoseconds) -> Nanoseconds {
    let disks = setup.drives.iter().filter(|drive| drive.profile.hdd().is_some());
    let times = disks.filter_map(|drive| Some(drive.model.statistics(now).hdd?.head_time));
    times.fold(Nanoseconds::ZERO, |sum, time| sum + time)
}

/// Request under way.
#[derive(Clone, Copy)]
struct UnderWay {
    arrival: Nanoseconds,
    kind: OpKind,
    start: u64,
    sectors: u64,
    done: bool,
}

impl limits::UnderWay for UnderWay {
    fn arrival(&self) -> Nanoseconds {
        self.arrival
    }

    fn kind(&self) -> OpKind {
        self.kind
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// Number of requests whose blocks are looked up ahead of their time.
const LOOKED_UP_TOGETHER: usize = 64;

/// Run in progress.
pub(crate) struct Simulator<'a> {
    setup: &'a mut Setup,
    play: Play,
    now: Nanoseconds,
    submitted: u64,
    /// Number of requests to the volume.
    issued: u64,
    /// Requests that the next request waits for, if the host thinks between requests.
    dependencies: Option<Dependencies>,
    /// Block layer that makes requests of queue events, if the trace has queue events.
    block_layer: Option<BlockLayer>,
    finished: u64,
    /// Requests from the oldest unfinished request on.
    under_way: VecDeque<UnderWay>,
    unfinished: u32,
    /// Requests that are served and whose bytes are still being copied: time of the end, and
    /// number.
    copying: BinaryHeap<Reverse<(Nanoseconds, u64)>>,
    device_done: Vec<Finished>,
    next_event: Vec<Option<Nanoseconds>>,
    operations: Vec<u64>,
    written: Vec<Bytes>,
    /// Hints under way: the drive that was asked, and the largest number of sectors in its answer.
    hints: Vec<(usize, Token, Sectors)>,
    /// Number of the recorded hints that were processed.
    hints_told: usize,
    dirty_blocks: u32,
    /// Bytes that each drive had erased at its last report; `halted` is set if the drive's wear
    /// levelling was halted.
    erased: Vec<Option<Bytes>>,
    halted: Vec<bool>,
    /// Set if a volume watches its drives. Only such a volume is told of wear.
    is_watched: bool,
    /// Set if no volume was called since the last [`settle`](Self::settle). `timeout` is the time
    /// at which a volume must be called then.
    is_settled: bool,
    timeout: Option<Nanoseconds>,
    limits: Limits,
    parts: Parts,
    measured: Measured,
}

/// Plays `requests` over `setup`. Calls `progress` now and then with the number of requests issued.
///
/// # Errors
/// Fails if the trace cannot be read, a request cannot be served, or the counts of the run do not
/// agree.
pub fn simulate(
    setup: &mut Setup,
    requests: Requests<'_>,
    play: Play,
    progress: &dyn Fn(u64),
) -> Result<Measured, SimulationError> {
    simulate_within(setup, requests, play, (Limits::default(), Parts::default()), progress)
}

/// Plays requests as [`simulate`] does, and calls `watch` after each request with the drives and
/// the number of requests issued.
///
/// # Errors
/// Returns the errors of [`simulate`].
pub(crate) fn simulate_watched(
    setup: &mut Setup,
    requests: Requests<'_>,
    play: Play,
    watch: &mut dyn FnMut(&Setup, u64),
) -> Result<Measured, SimulationError> {
    play_all(setup, requests, play, (Limits::default(), Parts::default()), watch)
}

/// Plays requests as [`simulate`] does, and stops as soon as one of `limits` is certainly broken.
/// Records the response times of `parts` of the trace apart.
///
/// # Errors
/// Returns the errors of [`simulate`], and [`SimulationError::LimitBroken`].
pub fn simulate_within(
    setup: &mut Setup,
    requests: Requests<'_>,
    play: Play,
    (limits, parts): (Limits, Parts),
    progress: &dyn Fn(u64),
) -> Result<Measured, SimulationError> {
    play_all(setup, requests, play, (limits, parts), &mut |_, submitted| {
        if submitted.is_multiple_of(8192) {
            progress(submitted);
        }
    })
}

fn play_all(
    setup: &mut Setup,
    requests: Requests<'_>,
    play: Play,
    (limits, parts): (Limits, Parts),
    watch: &mut dyn FnMut(&Setup, u64),
) -> Result<Measured, SimulationError> {
    let mut simulator = Simulator { parts, ..Simulator::new(setup, play, limits)? };
    simulator.play_all(requests, watch)?;
    simulator.finish()
}

impl<'a> Simulator<'a> {
    /// Begins a run over `setup`.
    ///
    /// # Errors
    /// A scheme needs to know the future, and does not.
    pub(crate) fn new(setup: &'a mut Setup, play: Play, limits: Limits) -> Result<Self, SimulationError> {
        if setup.tree.volumes().any(|volume| volume.lacks_policy()) {
            return Err(SimulationError::NoForesight { scheme: setup.scheme.name });
        }
        let start = setup.start;
        let measured = Measured::new(start, setup);
        let members = setup.drives.len();
        let is_watched = setup.tree.watches_drives();
        Ok(Self {
            setup,
            play,
            now: start,
            submitted: 0,
            issued: 0,
            dependencies: matches!(play.replay, Replay::Think { .. }).then(|| Dependencies::new(start)),
            block_layer: play.block_layer.map(BlockLayer::new),
            finished: 0,
            under_way: VecDeque::new(),
            unfinished: 0,
            copying: BinaryHeap::new(),
            device_done: Vec::new(),
            next_event: vec![None; members],
            operations: vec![0; members],
            written: vec![Bytes::ZERO; members],
            hints: Vec::new(),
            hints_told: 0,
            dirty_blocks: 0,
            erased: vec![None; members],
            halted: vec![false; members],
            is_watched,
            is_settled: false,
            timeout: None,
            limits,
            parts: Parts::default(),
            measured,
        })
    }

    /// Returns the drives and the volume.
    pub(crate) fn setup(&self) -> &Setup {
        self.setup
    }

    /// Plays `requests`, which follow those played before. Calls `watch` after each with the drives
    /// and the number of requests issued.
    ///
    /// # Errors
    /// Returns the errors of [`simulate_within`].
    pub(crate) fn play_all(
        &mut self,
        requests: Requests<'_>,
        watch: &mut dyn FnMut(&Setup, u64),
    ) -> Result<(), SimulationError> {
        let (mut requests, mut ahead) = (requests.fuse(), VecDeque::with_capacity(LOOKED_UP_TOGETHER + 1));
        loop {
            // The request behind the next must be known.
            if ahead.len() < 2 {
                ahead.extend(requests.by_ref().take(LOOKED_UP_TOGETHER));
                self.look_up(ahead.iter().flatten());
            }
            let Some(request) = ahead.pop_front() else { return Ok(()) };
            let next = ahead.front().and_then(|next| next.as_ref().ok());
            self.play(&request?, next)?;
            watch(self.setup, self.submitted);
        }
    }

    /// Looks up the first blocks of `requests`, all at once instead of one after the other. The
    /// waits for memory overlap, and the requests find the entries in the processor's caches.
    fn look_up<'r>(&self, requests: impl Iterator<Item = &'r Request>) {
        let view = self.setup.volume().view();
        let found = requests.filter(|request| {
            let unit = self.setup.units.get(&request.device).and_then(|&unit| view.layout.units.get(usize::from(unit)));
            let first = view.layout.block.touched(request.range).first;
            unit.is_some_and(|unit| view.map.get(Block(unit.first.0 + first.0)).is_some())
        });
        std::hint::black_box(found.count());
    }

    /// Returns true if requests that arrive at `time` can follow: they arrive after everything that
    /// was simulated, as they would have without the end of a part.
    pub(crate) fn can_go_on_at(&self, time: Nanoseconds) -> bool {
        self.now < time
    }

    /// Lets time pass until `request` is due, and issues it.
    fn play(&mut self, request: &Request, next: Option<&Request>) -> Result<(), SimulationError> {
        match self.play.replay {
            Replay::Timed { speedup } => {
                self.tell_hints(request.arrival, speedup)?;
                self.run_until(self.setup.start + faster(request.arrival, speedup))?;
            }
            Replay::Closed { depth } => {
                while self.unfinished >= depth {
                    self.step_to_next_event()?;
                }
            }
            Replay::Think { speedup } => self.wait_and_think(request, speedup)?,
        }
        self.submit(request, next.is_some_and(|next| self.are_together(request, next)))
    }

    /// Lets time pass until the requests on which `request` depends are finished, and the host has
    /// thought.
    fn wait_and_think(&mut self, request: &Request, speedup: f64) -> Result<(), SimulationError> {
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.expect(request.arrival);
        }
        while let Some(dependencies) = &mut self.dependencies {
            if let Some(at) = dependencies.due(speedup) {
                dependencies.issue(request, at);
                return self.run_until(at);
            }
            self.step_to_next_event()?;
        }
        Ok(())
    }

    /// Returns true if a program issued `next` in one go with `request`, which was issued last. In
    /// a closed replay times have no meaning, so the answer is not known in such a replay.
    fn are_together(&self, request: &Request, next: &Request) -> bool {
        let is_soon = next.arrival.saturating_sub(request.arrival) <= PLUG_GAP;
        match (self.play.replay, &self.dependencies) {
            (Replay::Timed { .. }, _) => is_soon,
            (Replay::Think { .. }, Some(dependencies)) => is_soon && dependencies.go_on_until(next.arrival),
            _ => false,
        }
    }

    /// Passes the recorded evictions and pins up to `time` of the trace to the volume, each at its
    /// own time. The moves that follow begin with the volume's timer, once for all hints of the
    /// same time.
    fn tell_hints(&mut self, time: Nanoseconds, speedup: f64) -> Result<(), SimulationError> {
        while let Some(&hint) = self.setup.hints.get(self.hints_told).filter(|hint| hint.time <= time) {
            self.hints_told += 1;
            self.run_until(self.setup.start + faster(hint.time, speedup))?;
            let Some(&unit) = self.setup.units.get(&hint.device) else { continue };
            let (now, tree) = (self.now, self.tree_mut());
            let taken = match hint.kind {
                HintKind::Evicted => {
                    tree.tell_evicted(now, unit, hint.range);
                    true
                }
                HintKind::Pinned => tree.pin(now, unit, hint.range, true),
                HintKind::Unpinned => tree.pin(now, unit, hint.range, false),
            };
            if !taken {
                let expected = "at most half of the flash to be pinned at a time".to_owned();
                return Err(self.setup.hints.refuse(&hint, "sectors", hint.range.len.0, expected).into());
            }
        }
        Ok(())
    }

    /// Issues `request`; with `more`, the next request is issued together with it.
    fn submit(&mut self, request: &Request, more: bool) -> Result<(), SimulationError> {
        if self.submitted == self.play.warmup_requests && self.submitted > 0 {
            self.begin_measuring();
        }
        if self.setup.half == Some(self.submitted) {
            self.setup.tree.half_passed();
        }
        self.submitted += 1;
        self.under_way.push_back(UnderWay {
            arrival: self.now,
            kind: request.kind,
            start: request.range.start.0,
            sectors: request.range.len.0,
            done: false,
        });
        self.unfinished += 1;
        self.measured.queue_depth.increment(self.now);
        if self.submitted > self.play.warmup_requests {
            self.limits.begin(self.submitted, request.kind, self.now);
        }
        self.look_at_limits()?;
        if let Some(block_layer) = &mut self.block_layer {
            block_layer.arrive(self.now, self.submitted, request, more);
        } else {
            let command = Command { kind: request.kind, range: request.range, fua: request.fua };
            self.issue(request.device, command);
        }
        self.settle()
    }

    /// Submits a command to the volume.
    fn issue(&mut self, device: u32, command: Command) {
        self.issued += 1;
        let target = self.setup.units.get(&device).copied().unwrap_or(u16::MAX);
        let token = Token(self.issued);
        let now = self.now;
        self.tree_mut().submit(now, Operation { token, target, command, payload: NoPayload });
        if self.is_watched {
            self.pass_on_wear_levelling();
        }
    }

    /// Returns the volumes, for a call after which they may have operations, finished requests or
    /// another timeout.
    fn tree_mut(&mut self) -> &mut Tree<NoPayload> {
        self.is_settled = false;
        &mut self.setup.tree
    }

    /// Submits the requests that the block layer dispatches now. Returns true if requests were
    /// submitted.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        while let Some((device, command)) =
            self.block_layer.as_mut().and_then(|layer| layer.dispatch(self.now, self.issued + 1))
        {
            any = true;
            self.issue(device, command);
        }
        any
    }

    /// Halts or resumes wear levelling of each drive, as its volume requests.
    fn pass_on_wear_levelling(&mut self) {
        for (id, drive) in self.setup.drives.iter_mut().enumerate() {
            let halt = self.setup.tree.halts_wear_levelling(id as u16);
            if std::mem::replace(&mut self.halted[id], halt) != halt {
                drive.model.halt_wear_levelling(halt);
            }
        }
    }

    /// Handles all events up to `time`, including drives and timers at `time`.
    fn run_until(&mut self, time: Nanoseconds) -> Result<(), SimulationError> {
        while let Some(at) = self.next_event_at().filter(|&at| at <= time) {
            self.step(at)?;
        }
        self.now = self.now.max(time);
        Ok(())
    }

    fn step_to_next_event(&mut self) -> Result<(), SimulationError> {
        match self.next_event_at() {
            Some(at) => self.step(at),
            None => Err(self.broken("requests are under way and nothing is going to happen".to_owned())),
        }
    }

    #[inline]
    fn next_event_at(&self) -> Option<Nanoseconds> {
        let copy = self.copying.peek().map(|Reverse((at, _))| *at);
        let timer = if self.is_settled { self.timeout } else { self.setup.tree.next_timeout() };
        self.next_event.iter().fold(sooner(copy, timer), |first, &drive| sooner(first, drive))
    }

    /// Handles one moment: every drive that is due, then the copies in memory, then the volume's
    /// timer.
    fn step(&mut self, at: Nanoseconds) -> Result<(), SimulationError> {
        self.now = self.now.max(at);
        if self.measured.head_time.is_due(self.now) {
            self.measured.head_time.close(self.now, head_time(self.setup, self.now));
        }
        let mut any = false;
        for id in 0..self.next_event.len() {
            if self.next_event[id].is_some_and(|due| due <= self.now) {
                any = true;
                self.advance_drive(id);
            }
        }
        while let Some(&Reverse((_, token))) = self.copying.peek().filter(|Reverse((at, _))| *at <= self.now) {
            self.copying.pop();
            any = true;
            self.take_finished(Token(token), Status::Done)?;
        }
        if !any {
            let now = self.now;
            self.tree_mut().advance(now);
        }
        // Most events of a drive end no operation, so the volume has nothing new.
        if self.is_settled && self.block_layer.is_none() { Ok(()) } else { self.settle() }
    }

    fn advance_drive(&mut self, id: usize) {
        let mut done = std::mem::take(&mut self.device_done);
        let model = &mut self.setup.drives[id].model;
        model.advance(self.now, &mut done);
        self.next_event[id] = model.next_event();
        let wear = if self.is_watched { model.wear() } else { None };
        if let Some(wear) = wear.filter(|wear| self.erased[id] != Some(wear.erased)) {
            self.erased[id] = Some(wear.erased);
            let (now, member) = (self.now, self.setup.drives[id].member);
            self.tree_mut().tell_wear(now, id as u16, member, wear);
        }
        for Finished { token, status, .. } in done.drain(..) {
            self.operations[id] -= 1;
            let hint = self.hints.iter().position(|(asked, of, _)| (*asked, *of) == (id, token));
            let most = hint.map(|at| self.hints.swap_remove(at).2);
            let fragmented = most.and_then(|most| self.setup.drives[id].model.fragmented(most));
            let (now, leaf, tree) = (self.now, id as u16, self.tree_mut());
            match fragmented {
                Some(fragmented) => tree.answer_hint(now, leaf, token, &fragmented),
                None => tree.complete(now, leaf, Completion { token, status, payload: NoPayload }),
            }
        }
        self.device_done = done;
    }

    /// Submits the volume's operations to the drives and takes finished requests, until the volume
    /// has no operations and no finished requests left.
    fn settle(&mut self) -> Result<(), SimulationError> {
        loop {
            while let Some(operation) = self.setup.tree.next_operation() {
                self.start(&operation);
            }
            while let Some(completion) = self.setup.tree.next_finished() {
                self.take_completion(completion.token, completion.status)?;
            }
            if !self.dispatch() {
                break;
            }
        }
        let dirty: u32 = self.setup.tree.volumes().map(|volume| volume.view().map.dirty_blocks()).sum();
        if dirty != self.dirty_blocks {
            self.dirty_blocks = dirty;
            let block = self.setup.volume().view().block().bytes().0;
            self.measured.dirty.record(self.now, u64::from(dirty) * block);
        }
        (self.is_settled, self.timeout) = (true, self.setup.tree.next_timeout());
        Ok(())
    }

    /// Handles a request of the block layer that the volume has served. Requests of the trace whose
    /// last parts it contains end as well.
    fn take_completion(&mut self, token: Token, status: Status) -> Result<(), SimulationError> {
        let Some(block_layer) = &mut self.block_layer else { return self.take_served(token, status) };
        let mut served = Vec::new();
        if !block_layer.complete(self.now, token.0, status, |number, status| served.push((Token(number), status))) {
            return Err(self.broken(format!("request {} to the drive finished twice or was never issued", token.0)));
        }
        served.into_iter().try_for_each(|(token, status)| self.take_served(token, status))
    }

    /// Handles a served request of the trace, which is finished once its bytes have been copied.
    fn take_served(&mut self, token: Token, status: Status) -> Result<(), SimulationError> {
        match self.copied_at(token).filter(|&at| status == Status::Done && at > self.now) {
            Some(at) => {
                self.copying.push(Reverse((at, token.0)));
                Ok(())
            }
            None => self.take_finished(token, status),
        }
    }

    fn start(&mut self, operation: &Operation<NoPayload>) {
        let id = usize::from(operation.target);
        let Drive { profile, model, .. } = &mut self.setup.drives[id];
        if matches!(operation.command.kind, OpKind::Write | OpKind::WriteZeroes) {
            let range = operation.command.range;
            self.written[id] += range.len.bytes();
            self.measured.sequentiality[id].record(range);
            if profile.is_solid_state() {
                self.measured.ssd_written.record(self.now, range.len.bytes().0);
            }
        }
        if operation.command.kind == OpKind::Hint {
            self.hints.push((id, operation.token, operation.command.range.len));
        }
        self.operations[id] += 1;
        // The drive may have an event at this very moment, which must precede a new operation.
        model.submit(self.now, operation.token, operation.command);
        self.next_event[id] = model.next_event();
    }

    /// Returns the time at which the bytes of a request that was just served have been copied
    /// through memory. No scheme finishes a request before this time.
    fn copied_at(&self, token: Token) -> Option<Nanoseconds> {
        let oldest = self.submitted - self.under_way.len() as u64 + 1;
        let UnderWay { arrival, kind, sectors, .. } = *self.under_way.get(token.0.checked_sub(oldest)? as usize)?;
        let copies = matches!(kind, OpKind::Read | OpKind::Write);
        copies.then(|| arrival + memory_copy(Sectors(sectors).bytes()))
    }

    fn take_finished(&mut self, token: Token, status: Status) -> Result<(), SimulationError> {
        let oldest = self.submitted - self.under_way.len() as u64 + 1;
        let entry = token.0.checked_sub(oldest).and_then(|at| self.under_way.get_mut(at as usize));
        let Some(entry) = entry.filter(|entry| !entry.done) else {
            return Err(self.broken(format!("request {} finished twice or was never issued", token.0)));
        };
        entry.done = true;
        let UnderWay { arrival, kind, start, sectors, .. } = *entry;
        if status != Status::Done {
            return Err(SimulationError::Failed { number: token.0, kind, start, sectors, status });
        }
        while self.under_way.front().is_some_and(|oldest| oldest.done) {
            self.under_way.pop_front();
        }
        self.unfinished -= 1;
        self.finished += 1;
        self.dependencies.iter_mut().for_each(|dependencies| dependencies.finish(token.0, self.now));
        if token.0 > self.play.warmup_requests {
            self.measure(token.0, arrival, kind, sectors);
            self.look_at_limits()?;
        }
        self.measured.queue_depth.decrement(self.now);
        Ok(())
    }

    /// Ends the run if a limit is certainly broken.
    fn look_at_limits(&mut self) -> Result<(), SimulationError> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let oldest = self.submitted - self.under_way.len() as u64 + 1;
        let requests = |at: usize| self.under_way.get(at);
        self.limits.look_at_late(self.now, oldest, self.play.warmup_requests, requests);
        match self.limits.broken() {
            Some(broken) => Err(SimulationError::LimitBroken { finished: self.finished, broken }),
            None => Ok(()),
        }
    }

    fn measure(&mut self, number: u64, arrival: Nanoseconds, kind: OpKind, sectors: u64) {
        let response = self.now - arrival;
        self.measured.requests += 1;
        self.measured.backlog.finished(arrival, self.now);
        self.limits.record(number, kind, arrival, response);
        self.parts.record(number, kind, response);
        match kind {
            OpKind::Read => self.measured.response.record_read(response),
            OpKind::Write | OpKind::WriteZeroes => self.measured.response.record_write(response),
            OpKind::Flush => return self.measured.response.record_flush(response),
            OpKind::Discard | OpKind::Hint => return,
        }
        self.measured.bytes += Bytes(sectors * bimetal_core::units::SECTOR_BYTES);
        self.measured.latency.record(arrival, response);
    }

    /// Counts everything from here, and returns the measurements so far.
    fn begin_measuring(&mut self) -> Measured {
        let level = self.measured.queue_depth.level();
        let dirty = self.measured.dirty.level();
        let before = std::mem::replace(&mut self.measured, Measured::new(self.now, self.setup));
        self.measured.queue_depth = Gauge::new(self.now, level);
        self.measured.dirty = Gauge::new(self.now, dirty);
        self.block_layer.iter_mut().for_each(BlockLayer::begin_counting);
        before
    }

    /// Waits for every request, and checks that all requests have finished. Returns the
    /// measurements so far. The requests that follow are measured apart.
    pub(crate) fn finish(&mut self) -> Result<Measured, SimulationError> {
        while self.unfinished > 0 {
            self.step_to_next_event()?;
        }
        self.measured.end = self.now;
        self.measured.parts = std::mem::take(&mut self.parts).response_times();
        let counts = self.block_layer.as_ref().map(BlockLayer::counts);
        self.measured.block_layer = self.play.block_layer.zip(counts);
        self.measured.queue_depth.advance(self.now);
        self.measured.dirty.advance(self.now);
        if self.measured.requests == 0 {
            return Err(SimulationError::NothingMeasured(self.submitted));
        }
        self.check_conservation()?;
        self.play.warmup_requests = self.submitted;
        Ok(self.begin_measuring())
    }

    fn check_conservation(&self) -> Result<(), SimulationError> {
        let statistics = self.setup.volume().statistics();
        if statistics.arrived != self.issued || statistics.finished != self.issued || self.submitted != self.finished {
            return Err(self.broken(format!(
                "{} requests were played, {} issued, {} arrived, {} finished, {} of those played",
                self.submitted, self.issued, statistics.arrived, statistics.finished, self.finished
            )));
        }
        self.setup.tree.check_conservation().map_err(|what| self.broken(what))?;
        for (id, drive) in self.setup.drives.iter().enumerate() {
            let counted = drive.model.statistics(self.now);
            let name = &drive.id;
            // Operations under way were issued, and are not counted by the drive yet.
            if counted.write_bytes > self.written[id]
                || (self.operations[id] == 0 && counted.write_bytes != self.written[id])
            {
                let (issued, counted) = (self.written[id].0, counted.write_bytes.0);
                return Err(self.broken(format!("{issued} bytes were written to the {name}, which counted {counted}")));
            }
            let Some(flash) = counted.flash else { continue };
            let by_cause: u64 = flash.pages_programmed_by_cause.iter().map(|(_, pages)| pages).sum();
            let erases: u64 = flash.erases_by_cause.iter().map(|(_, erases)| erases).sum();
            if flash.pages_programmed_host > by_cause || erases != flash.erases {
                let what = format!("{by_cause} pages and {erases} erases by cause on the {name}, in all {flash:?}");
                return Err(self.broken(what));
            }
            if flash.host_bytes_written > self.written[id] {
                let (issued, counted) = (self.written[id].0, flash.host_bytes_written.0);
                return Err(self.broken(format!("{issued} bytes were written to the {name}, its flash got {counted}")));
            }
        }
        Ok(())
    }

    fn broken(&self, what: String) -> SimulationError {
        SimulationError::Conservation { scheme: self.setup.name.clone(), what }
    }
}
