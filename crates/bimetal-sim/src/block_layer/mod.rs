//! Block layer between a trace of queue events and the drive, as in Linux: requests are split,
//! plugged, merged and dispatched.
//!
//! A queue event is a request of a file system; the block layer turns it into requests to a drive.
//! The steps of the block layer, in order (`block/blk-merge.c`, `blk-core.c`, `blk-mq.c`,
//! `mq-deadline.c` of Linux 6):
//!
//! 1. *Split*: a request longer than `max_sectors_kb` becomes several.
//! 2. *Plug*: requests that one task issues together are collected before any of them is
//!    dispatched. A trace does not show plugs. Requests that follow each other within [`PLUG_GAP`]
//!    count as issued together, because a task that waits for an answer in between is slower.
//! 3. *Merge*: a request adjacent to another becomes a part of the other request, as long as both
//!    have the same kind and `max_sectors_kb` allows it. Flushes, discards and writes with force
//!    unit access are never merged.
//! 4. *Schedule* (`scheduler.rs`): merged requests wait for one of `queue_depth` places on the
//!    drive. `mq-deadline` sorts the waiting requests and continues to merge them. `none` keeps the
//!    order and merges only with the last few requests.
//!
//! Not modelled: limits of scatter-gather lists (`max_segments`), of requests of a scheduler
//! (`nr_requests`), priorities, several hardware queues.

mod scheduler;
mod settings;

use std::collections::BTreeMap;

use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_trace::Request;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use scheduler::Scheduled;
pub use scheduler::Scheduler;
pub use settings::KEYS;

/// Longest time between requests of a trace that count as issued together.
pub const PLUG_GAP: Nanoseconds = Nanoseconds::from_micros(30);

/// Number of requests that a plug holds (`BLK_MAX_REQUEST_COUNT`).
const PLUG_REQUESTS_MAX: usize = 32;

/// Number of sectors in a plugged request after which no further request is plugged
/// (`BLK_PLUG_FLUSH_SIZE`, 128 KiB).
const PLUG_FLUSH_SECTORS: u64 = 256;

/// Settings of the block layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockLayerSettings {
    /// Largest number of sectors of a request to the drive: `max_sectors_kb`.
    pub max_sectors: u64,
    /// Policy that chooses the next request to dispatch.
    pub scheduler: Scheduler,
    /// Largest number of requests that the drive has at once.
    pub queue_depth: u32,
}

impl Default for BlockLayerSettings {
    /// Returns the defaults of Linux for a disk behind SATA.
    fn default() -> Self {
        Self { max_sectors: 1280 * 2, scheduler: Scheduler::MqDeadline, queue_depth: 32 }
    }
}

/// Request under way to the drive, which may contain parts of several requests of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) kind: OpKind,
    pub(crate) fua: bool,
    pub(crate) range: SectorRange,
    /// Time at which the first part arrived.
    pub(crate) arrival: Nanoseconds,
    /// Numbers of the requests of the trace of which the request contains parts.
    pub(crate) parts: Vec<u64>,
}

impl Merged {
    fn can_merge(&self) -> bool {
        matches!(self.kind, OpKind::Read | OpKind::Write) && !self.fua
    }

    /// Merges `other` if the two are adjacent and of the same kind; otherwise returns `other`.
    pub(crate) fn merge(&mut self, other: Merged, max_sectors: u64) -> Option<Merged> {
        let alike = self.can_merge() && other.can_merge() && self.kind == other.kind;
        if !alike || self.range.len.0 + other.range.len.0 > max_sectors {
            return Some(other);
        }
        let start = if self.range.end() == other.range.start {
            self.range.start
        } else if other.range.end() == self.range.start {
            other.range.start
        } else {
            return Some(other);
        };
        self.range = SectorRange { start, len: self.range.len + other.range.len };
        self.arrival = self.arrival.min(other.arrival);
        self.parts.extend(other.parts);
        None
    }
}

/// Queue of one device.
struct Queue {
    plug: Vec<Merged>,
    scheduled: Scheduled,
    /// Requests that bypass the scheduler: flushes.
    ahead: Vec<Merged>,
    under_way: u32,
}

/// Request of the trace that is split or merged.
struct Waiting {
    /// Number of parts that are not done.
    parts: u32,
    status: Status,
}

/// Counters of the block layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockLayerCounts {
    /// Number of requests of the trace.
    pub queued: u64,
    /// Number of requests to the drive.
    pub issued: u64,
    /// Sectors that reads and writes to the drive moved.
    pub moved_sectors: u64,
    /// Number of reads and writes to the drive.
    pub moves: u64,
    /// Sum of the times of reads and writes to the drive, from the arrival of the first part of
    /// each.
    pub took: Nanoseconds,
}

/// Block layer. See the [module](self).
pub(crate) struct BlockLayer {
    settings: BlockLayerSettings,
    queues: BTreeMap<u32, Queue>,
    /// Requests to the drive by number.
    issued: HashMap<u64, (u32, Merged), FixedState>,
    /// Requests of the trace by number.
    waiting: HashMap<u64, Waiting, FixedState>,
    counts: BlockLayerCounts,
}

impl BlockLayer {
    pub(crate) fn new(settings: BlockLayerSettings) -> Self {
        Self {
            settings,
            queues: BTreeMap::new(),
            issued: HashMap::with_hasher(FixedState::with_seed(0)),
            waiting: HashMap::with_hasher(FixedState::with_seed(0)),
            counts: BlockLayerCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> BlockLayerCounts {
        self.counts
    }

    /// Counts everything from here.
    pub(crate) fn begin_counting(&mut self) {
        self.counts = BlockLayerCounts::default();
    }

    /// Takes request `number` of the trace, which arrives now. With `more`, the task issues its
    /// next request at once, so the plug stays.
    pub(crate) fn arrive(&mut self, now: Nanoseconds, number: u64, request: &Request, more: bool) {
        self.counts.queued += 1;
        let max_sectors = self.settings.max_sectors;
        let scheduler = self.settings.scheduler;
        let queue = self.queues.entry(request.device).or_insert_with(|| Queue {
            plug: Vec::new(),
            scheduled: Scheduled::new(scheduler, max_sectors),
            ahead: Vec::new(),
            under_way: 0,
        });
        let whole =
            Merged { kind: request.kind, fua: request.fua, range: request.range, arrival: now, parts: vec![number] };
        let pieces = split(whole, max_sectors);
        self.waiting.insert(number, Waiting { parts: pieces.len() as u32, status: Status::Done });
        for piece in pieces {
            if matches!(piece.kind, OpKind::Flush | OpKind::Hint) {
                queue.ahead.push(piece);
            } else {
                queue.plug(piece, max_sectors, now);
            }
        }
        if !more {
            self.queues.values_mut().for_each(|queue| queue.unplug(now));
        }
    }

    /// Returns device and command of the next request to the drive, which gets `number`, if the
    /// drive has room.
    pub(crate) fn dispatch(&mut self, now: Nanoseconds, number: u64) -> Option<(u32, Command)> {
        let depth = self.settings.queue_depth;
        let (device, merged) =
            self.queues.iter_mut().filter(|(_, queue)| queue.under_way < depth).find_map(|(&device, queue)| {
                let next = if queue.ahead.is_empty() { queue.scheduled.next(now) } else { Some(queue.ahead.remove(0)) };
                next.map(|merged| {
                    queue.under_way += 1;
                    (device, merged)
                })
            })?;
        let command = Command { kind: merged.kind, range: merged.range, fua: merged.fua };
        self.counts.issued += 1;
        if matches!(merged.kind, OpKind::Read | OpKind::Write) {
            self.counts.moves += 1;
            self.counts.moved_sectors += merged.range.len.0;
        }
        self.issued.insert(number, (device, merged));
        Some((device, command))
    }

    /// Handles the end of request `number` to the drive: calls `done` with each request of the
    /// trace that ends with this request to the drive. Returns true if the drive had a request with
    /// this number.
    pub(crate) fn complete(
        &mut self,
        now: Nanoseconds,
        number: u64,
        status: Status,
        mut done: impl FnMut(u64, Status),
    ) -> bool {
        let Some((device, merged)) = self.issued.remove(&number) else { return false };
        if let Some(queue) = self.queues.get_mut(&device) {
            queue.under_way -= 1;
        }
        if matches!(merged.kind, OpKind::Read | OpKind::Write) {
            self.counts.took = self.counts.took.saturating_add(now - merged.arrival);
        }
        for part in merged.parts {
            let Some(waiting) = self.waiting.get_mut(&part) else { return false };
            waiting.parts -= 1;
            if status != Status::Done {
                waiting.status = status;
            }
            if waiting.parts == 0 {
                let status = waiting.status;
                self.waiting.remove(&part);
                done(part, status);
            }
        }
        true
    }
}

impl Queue {
    /// Merges a request with the last plugged request, or adds it to the plug.
    fn plug(&mut self, piece: Merged, max_sectors: u64, now: Nanoseconds) {
        let rest = match self.plug.last_mut() {
            Some(last) => last.merge(piece, max_sectors),
            None => Some(piece),
        };
        let Some(rest) = rest else { return };
        // Merging with a waiting request is preferred to a place in the plug.
        let Some(rest) = self.scheduled.merge_waiting(rest) else { return };
        let large = self.plug.last().is_some_and(|last| last.range.len.0 >= PLUG_FLUSH_SECTORS);
        if large || self.plug.len() >= PLUG_REQUESTS_MAX {
            self.unplug(now);
        }
        self.plug.push(rest);
    }

    /// Passes the plugged requests to the scheduler.
    fn unplug(&mut self, now: Nanoseconds) {
        self.plug.drain(..).for_each(|merged| self.scheduled.insert(merged, now));
    }
}

/// Splits a request into pieces of at most `max_sectors`. A discard, a write-zeroes and a flush
/// transfer no data, and are not split.
fn split(whole: Merged, max_sectors: u64) -> Vec<Merged> {
    if !matches!(whole.kind, OpKind::Read | OpKind::Write) || whole.range.len.0 <= max_sectors {
        return vec![whole];
    }
    let SectorRange { start, len } = whole.range;
    let starts = (0..len.0).step_by(max_sectors as usize);
    let piece = |at: u64| SectorRange::new(start.0 + at, max_sectors.min(len.0 - at));
    starts.map(|at| Merged { range: piece(at), ..whole.clone() }).collect()
}

#[cfg(test)]
mod tests;
