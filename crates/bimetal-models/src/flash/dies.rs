//! Dies and channels in time: each has its own queue, and each waits only for the part that it
//! needs.
//!
//! A die performs one operation at a time. Foreground operations, for which the host waits, precede
//! background operations (programs from the write buffer, collection). After
//! [`FOREGROUND_IN_A_ROW`] foreground operations, the oldest background operation has its turn. A
//! channel serves its dies in the order in which their data are ready. A read first senses and then
//! transfers; a program first transfers and then programs. The die is busy in both phases. A
//! program or an erase may be stopped for a foreground read, and continues after the read. The
//! model has one event for each phase whose end is unknown at its start, and no event for each
//! page.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bimetal_core::units::Nanoseconds;

use super::geometry::Geometry;
use super::operation::{Cause, NandKind, NandOp};
use super::timing::{NandTiming, Parallelism};

/// Number of foreground operations that may overtake a background operation.
const FOREGROUND_IN_A_ROW: u32 = 8;

/// Operation, and the request that waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) operation: NandOp,
    /// Request that waits for the operation, or [`NO_REQUEST`].
    pub(crate) request: u32,
    /// For a program with data of the host: number of the interval between two flushes in which it
    /// was submitted.
    pub(crate) epoch: u64,
}

/// Value for a job for which no request waits.
pub(crate) const NO_REQUEST: u32 = u32::MAX;

/// Time by cause, in the order of [`Cause::ALL`].
pub(crate) type TimeByCause = [Nanoseconds; Cause::ALL.len()];

#[derive(Default)]
struct Die {
    foreground: VecDeque<Job>,
    background: VecDeque<Job>,
    /// Number of foreground operations since the last background operation.
    in_a_row: u32,
    running: Option<Running>,
    /// Program or erase that was stopped, with its remaining time.
    stopped: Option<(Job, Nanoseconds)>,
    /// Number of operations in the queues for which a request waits.
    waited_for: u64,
}

#[derive(Clone, Copy)]
struct Running {
    job: Job,
    /// Set for a read whose data still have to cross the channel.
    sensing: bool,
    /// Time at which this phase began; `until` is its end.
    since: Nanoseconds,
    until: Nanoseconds,
}

/// Dies and channels of a drive.
pub(crate) struct Dies {
    dies: Vec<Die>,
    /// Time until which each channel is occupied.
    channels: Vec<Nanoseconds>,
    timing: NandTiming,
    units_per_row: u32,
    /// Times at which the phases of running dies end. The entry of a stopped phase is ignored.
    events: BinaryHeap<Reverse<(Nanoseconds, u32)>>,
    /// Number of running dies.
    running: u32,
    /// Time that dies were at work, by cause.
    busy: TimeByCause,
    /// Time that operations for which a request waits spent in the queue of a busy die, by the
    /// cause of the die's operation.
    waited: TimeByCause,
}

impl Dies {
    /// Creates the idle dies of `geometry`. With serial timing, a single die takes all operations.
    pub(crate) fn new(geometry: &Geometry, timing: NandTiming) -> Self {
        let (dies, channels) = match timing.parallelism {
            Parallelism::Parallel => (geometry.dies(), geometry.channels),
            Parallelism::Serial => (1, 1),
        };
        let mut queues = Vec::new();
        queues.resize_with(dies as usize, Die::default);
        Self {
            dies: queues,
            channels: vec![Nanoseconds::ZERO; channels as usize],
            timing,
            units_per_row: geometry.units_per_row(),
            events: BinaryHeap::new(),
            running: 0,
            busy: TimeByCause::default(),
            waited: TimeByCause::default(),
        }
    }

    /// Submits `job` to its die at time `now`. With `waited_for` the job is a foreground operation.
    pub(crate) fn submit(&mut self, now: Nanoseconds, job: Job, waited_for: bool) {
        let serial = self.timing.parallelism == Parallelism::Serial;
        let number = if serial { 0 } else { job.operation.die };
        let begin = if waited_for && !serial { self.stop_program(now, number) } else { now };
        let die = &mut self.dies[number as usize];
        if job.request != NO_REQUEST {
            die.waited_for += 1;
            if let Some(running) = &die.running {
                self.waited[running.job.operation.cause as usize] += running.until - now;
            }
        }
        if waited_for || serial { &mut die.foreground } else { &mut die.background }.push_back(job);
        if die.running.is_none() {
            self.start(begin, number);
        }
    }

    /// Stops the program or erase of a die for a foreground read, unless it is the turn of that
    /// background operation. Returns the time at which the read may begin.
    fn stop_program(&mut self, now: Nanoseconds, number: u32) -> Nanoseconds {
        let die = &mut self.dies[number as usize];
        let (Some(suspend), Some(running)) = (self.timing.suspend, die.running) else { return now };
        let stoppable = matches!(running.job.operation.kind, NandKind::Program | NandKind::Erase);
        let left = running.until - now;
        if !stoppable || !die.foreground.is_empty() || die.stopped.is_some() || left <= suspend {
            return now;
        }
        die.stopped = Some((running.job, left));
        die.running = None;
        self.running -= 1;
        self.busy[running.job.operation.cause as usize] += now - running.since;
        now + suspend
    }

    /// Takes the next job of a die, with its remaining time if it was stopped before.
    fn next_job(&mut self, number: u32) -> Option<(Job, Option<Nanoseconds>)> {
        let die = &mut self.dies[number as usize];
        let others = die.stopped.is_some() || !die.background.is_empty();
        if !(others && die.in_a_row >= FOREGROUND_IN_A_ROW)
            && let Some(job) = die.foreground.pop_front()
        {
            die.in_a_row += 1;
            return Some((job, None));
        }
        die.in_a_row = 0;
        match die.stopped.take() {
            Some((job, left)) => Some((job, Some(left))),
            None => die.background.pop_front().map(|job| (job, None)),
        }
    }

    fn start(&mut self, now: Nanoseconds, number: u32) {
        let Some((job, left)) = self.next_job(number) else { return };
        let operation = &job.operation;
        let until = match (left, operation.kind) {
            (Some(left), _) => now + left,
            (None, NandKind::Read) => Nanoseconds(now.0 + self.timing.read.0 * u64::from(operation.commands)),
            (None, NandKind::Program) => {
                let time = self.program_time(operation);
                self.transfer(now, number, operation.units) + time
            }
            (None, NandKind::Erase) => now + self.timing.erase,
            (None, NandKind::ReadSetup) => now + self.timing.read_setup,
            (None, NandKind::WriteSetup) => now + self.timing.write_setup,
        };
        let sensing = operation.kind == NandKind::Read;
        let die = &mut self.dies[number as usize];
        die.waited_for -= u64::from(left.is_none() && job.request != NO_REQUEST);
        die.running = Some(Running { job, sensing, since: now, until });
        self.running += 1;
        self.begin_phase(number);
    }

    /// Counts the time that queued operations wait for the phase that begins on a die, and
    /// schedules the end of the phase.
    fn begin_phase(&mut self, number: u32) {
        let die = &self.dies[number as usize];
        let Some(Running { job, since, until, .. }) = &die.running else { return };
        self.waited[job.operation.cause as usize] += Nanoseconds((*until - *since).0 * die.waited_for);
        self.events.push(Reverse((*until, number)));
    }

    /// Returns the time to program a row. Each type of page has its own time, and rows of a block
    /// take turns.
    fn program_time(&self, operation: &NandOp) -> Nanoseconds {
        let (times, types) = &self.timing.programs;
        if operation.slc {
            return self.timing.slc_program;
        }
        times[(operation.programmed.saturating_sub(1) / self.units_per_row % types) as usize]
    }

    /// Returns the time at which `units` units, ready at `now`, have crossed the channel of `die`.
    fn transfer(&mut self, now: Nanoseconds, die: u32, units: u32) -> Nanoseconds {
        let count = self.channels.len();
        let channel = &mut self.channels[die as usize % count];
        *channel = Nanoseconds((*channel).max(now).0 + self.timing.unit_transfer.0 * u64::from(units));
        *channel
    }

    /// Returns the time at which the next phase of a die ends.
    pub(crate) fn next_event(&self) -> Option<Nanoseconds> {
        self.events.peek().map(|Reverse((at, _))| *at)
    }

    /// Ends the phase that ends next. Returns the job if the phase was the job's last phase.
    pub(crate) fn step(&mut self) -> Option<Job> {
        let Reverse((now, number)) = self.events.pop()?;
        // The die's program may have been stopped, to continue later.
        let running = self.dies[number as usize].running.filter(|running| running.until == now)?;
        self.busy[running.job.operation.cause as usize] += now - running.since;
        if running.sensing {
            let until = self.transfer(now, number, running.job.operation.units);
            if until > now {
                let transferring = Running { sensing: false, since: now, until, ..running };
                self.dies[number as usize].running = Some(transferring);
                self.begin_phase(number);
                return None;
            }
        }
        self.dies[number as usize].running = None;
        self.running -= 1;
        self.start(now, number);
        Some(running.job)
    }

    /// Returns true if a die is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// Returns the time that dies were at work by cause, without phases under way. Simultaneous
    /// work counts for each die.
    pub(crate) fn busy(&self) -> &TimeByCause {
        &self.busy
    }

    /// Returns the time that operations for which a request waits spent in the queue of a die. The
    /// time is split by the cause of the operation that occupied the die.
    pub(crate) fn waited(&self) -> &TimeByCause {
        &self.waited
    }
}
