//! Dies and channels in time: each has its own queue, each waits only for what it needs.
//!
//! A die does one operation at a time. What the host waits for goes before what it does not (programs out of the write buffer,
//! collection), but after [`FOREGROUND_IN_A_ROW`] of the former the oldest of the latter has its turn. A channel serves its dies in the
//! order in which their data are ready. A read senses, then transfers; a program transfers, then programs; the die is
//! busy throughout. A program or an erase may be stopped for a read that the host waits for, and goes on after it. There
//! is one event for each phase that ends at a time not known when it starts, none a page.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bimetal_core::units::Nanoseconds;

use super::geometry::Geometry;
use super::operation::{Cause, NandKind, NandOp};
use super::timing::{NandTiming, Parallelism};

/// Operations that the host waits for which may overtake one that it does not wait for.
const FOREGROUND_IN_A_ROW: u32 = 8;

/// An operation and who waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) operation: NandOp,
    /// The request of which it is a part, or [`NO_REQUEST`].
    pub(crate) request: u32,
    /// Of a program with data of the host: the interval between two flushes in which it was given.
    pub(crate) epoch: u64,
}

/// Nobody waits for it.
pub(crate) const NO_REQUEST: u32 = u32::MAX;

/// Time by cause, in the order of [`Cause::ALL`].
pub(crate) type TimeByCause = [Nanoseconds; Cause::ALL.len()];

#[derive(Default)]
struct Die {
    foreground: VecDeque<Job>,
    background: VecDeque<Job>,
    /// Foreground operations since the last one of the background.
    in_a_row: u32,
    running: Option<Running>,
    /// A program or an erase that was stopped, and what is left of it.
    stopped: Option<(Job, Nanoseconds)>,
    /// Operations in the queues that a request waits for.
    waited_for: u64,
}

#[derive(Clone, Copy)]
struct Running {
    job: Job,
    /// A read whose data still have to cross the channel.
    sensing: bool,
    /// When this phase began, and when it ends.
    since: Nanoseconds,
    until: Nanoseconds,
}

/// All dies and channels of a drive.
pub(crate) struct Dies {
    dies: Vec<Die>,
    /// Until when each channel is taken.
    channels: Vec<Nanoseconds>,
    timing: NandTiming,
    units_per_row: u32,
    /// When the phase of each running die ends; one that was stopped is passed over.
    events: BinaryHeap<Reverse<(Nanoseconds, u32)>>,
    /// Dies that are running.
    running: u32,
    /// Time that dies were at work.
    busy: TimeByCause,
    /// Time that operations which a request waits for stood in the queue of a die at work for another.
    waited: TimeByCause,
}

impl Dies {
    /// The idle dies of `geometry`; with serial timing a single one takes all operations.
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

    /// Hands `job` to its die at time `now`; `waited_for` says whether it goes before what the host does not wait for.
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

    /// Stops the program or erase of a die for a read of the host, unless it has its turn; gives when the read may begin.
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

    /// What a die does next, and for how long if it was stopped before.
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

    /// Counts what waits for the phase of a die that begins, and plans its end.
    fn begin_phase(&mut self, number: u32) {
        let die = &self.dies[number as usize];
        let Some(Running { job, since, until, .. }) = &die.running else { return };
        self.waited[job.operation.cause as usize] += Nanoseconds((*until - *since).0 * die.waited_for);
        self.events.push(Reverse((*until, number)));
    }

    /// To program a row: each type of page takes its own time, rows of a block take turns.
    fn program_time(&self, operation: &NandOp) -> Nanoseconds {
        let (times, types) = &self.timing.programs;
        if operation.slc {
            return self.timing.slc_program;
        }
        times[(operation.programmed.saturating_sub(1) / self.units_per_row % types) as usize]
    }

    /// When `units` units have crossed the channel of `die` that are ready at `now`.
    fn transfer(&mut self, now: Nanoseconds, die: u32, units: u32) -> Nanoseconds {
        let count = self.channels.len();
        let channel = &mut self.channels[die as usize % count];
        *channel = Nanoseconds((*channel).max(now).0 + self.timing.unit_transfer.0 * u64::from(units));
        *channel
    }

    /// When the next phase of a die ends.
    pub(crate) fn next_event(&self) -> Option<Nanoseconds> {
        self.events.peek().map(|Reverse((at, _))| *at)
    }

    /// Ends the phase that ends next; gives the job if it is finished with it.
    pub(crate) fn step(&mut self) -> Option<Job> {
        let Reverse((now, number)) = self.events.pop()?;
        // Its program may have been stopped, and go on later.
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

    /// Whether a die is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// Time that dies were at work by cause, phases under way left out; several at a time count several times.
    pub(crate) fn busy(&self) -> &TimeByCause {
        &self.busy
    }

    /// Time that operations which a request waits for stood in the queue of a die, by the cause of what it did meanwhile.
    pub(crate) fn waited(&self) -> &TimeByCause {
        &self.waited
    }
}
