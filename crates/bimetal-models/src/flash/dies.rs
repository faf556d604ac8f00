//! Dies and channels in time: each has its own queue, each waits only for what it needs.
//!
//! A die does one operation at a time. What the host waits for goes before what it does not (programs out of the write buffer,
//! collection), but after [`FOREGROUND_IN_A_ROW`] of the former the oldest of the latter has its turn. A channel serves its dies in the
//! order in which their data are ready. A read senses, then transfers; a program transfers, then programs; the die is
//! busy throughout. There is one event for each phase that ends at a time not known when it starts, none a page.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bimetal_core::units::Nanoseconds;

use super::geometry::Geometry;
use super::operation::{NandKind, NandOp};
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

#[derive(Default)]
struct Die {
    foreground: VecDeque<Job>,
    background: VecDeque<Job>,
    /// Foreground operations since the last one of the background.
    in_a_row: u32,
    running: Option<Running>,
}

struct Running {
    job: Job,
    /// A read whose data still have to cross the channel.
    sensing: bool,
}

/// All dies and channels of a drive.
pub(crate) struct Dies {
    dies: Vec<Die>,
    /// Until when each channel is taken.
    channels: Vec<Nanoseconds>,
    timing: NandTiming,
    /// When the phase of each running die ends.
    events: BinaryHeap<Reverse<(Nanoseconds, u32)>>,
    /// Dies that are running.
    running: u32,
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
            events: BinaryHeap::new(),
            running: 0,
        }
    }

    /// Hands `job` to its die at time `now`; `waited_for` says whether the host waits for it.
    pub(crate) fn submit(&mut self, now: Nanoseconds, job: Job, waited_for: bool) {
        let serial = self.timing.parallelism == Parallelism::Serial;
        let die = if serial { 0 } else { job.operation.die };
        let queues = &mut self.dies[die as usize];
        if waited_for || serial { &mut queues.foreground } else { &mut queues.background }.push_back(job);
        if queues.running.is_none() {
            self.start(now, die);
        }
    }

    fn start(&mut self, now: Nanoseconds, die: u32) {
        let queues = &mut self.dies[die as usize];
        let turn = queues.in_a_row >= FOREGROUND_IN_A_ROW && !queues.background.is_empty();
        let next = if turn { None } else { queues.foreground.pop_front() };
        let job = match next {
            Some(job) => {
                queues.in_a_row += 1;
                job
            }
            None => {
                queues.in_a_row = 0;
                let Some(job) = queues.background.pop_front() else { return };
                job
            }
        };
        let end = match job.operation.kind {
            NandKind::Read => Nanoseconds(now.0 + self.timing.read.0 * u64::from(job.operation.commands)),
            NandKind::Program => self.transfer(now, die, job.operation.units) + self.timing.program,
            NandKind::Erase => now + self.timing.erase,
            NandKind::ReadSetup => now + self.timing.read_setup,
            NandKind::WriteSetup => now + self.timing.write_setup,
        };
        let sensing = job.operation.kind == NandKind::Read;
        self.dies[die as usize].running = Some(Running { job, sensing });
        self.running += 1;
        self.events.push(Reverse((end, die)));
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
        let Reverse((now, die)) = self.events.pop()?;
        let running = self.dies[die as usize].running.as_mut()?;
        if running.sensing {
            running.sensing = false;
            let units = running.job.operation.units;
            let end = self.transfer(now, die, units);
            if end > now {
                self.events.push(Reverse((end, die)));
                return None;
            }
        }
        let finished = self.dies[die as usize].running.take()?.job;
        self.running -= 1;
        self.start(now, die);
        Some(finished)
    }

    /// Whether a die is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.running > 0
    }
}
