//! Choice of the next request to dispatch: `mq-deadline`, or the order of arrival.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

use super::Merged;

/// Wait after which reads (`read_expire`) and writes (`write_expire`) take precedence.
const EXPIRE: [Nanoseconds; 2] = [Nanoseconds::from_millis(500), Nanoseconds::from_millis(5000)];

/// Number of requests in order of address before deadlines are checked again (`fifo_batch`).
const FIFO_BATCH: u32 = 16;

/// Number of batches of reads before a batch of writes (`writes_starved`).
const WRITES_STARVED: u32 = 2;

/// Number of waiting requests that `none` examines to merge (`blk_bio_list_merge`).
const LOOKED_BACK: usize = 8;

/// Policy that chooses the next request to dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// Default of Linux for a drive with one queue.
    MqDeadline,
    /// Order of arrival: default of Linux for a drive with several queues.
    None,
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MqDeadline => "mq-deadline",
            Self::None => "none",
        })
    }
}

impl FromStr for Scheduler {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "mq-deadline" => Ok(Self::MqDeadline),
            "none" => Ok(Self::None),
            _ => Err("mq-deadline or none"),
        }
    }
}

/// Requests that wait for a place on the drive.
pub(super) enum Scheduled {
    InOrder { waiting: VecDeque<Merged>, max_sectors: u64 },
    Deadline(Box<Deadline>),
}

impl Scheduled {
    pub(super) fn new(scheduler: Scheduler, max_sectors: u64) -> Self {
        match scheduler {
            Scheduler::None => Self::InOrder { waiting: VecDeque::new(), max_sectors },
            Scheduler::MqDeadline => Self::Deadline(Box::new(Deadline { max_sectors, ..Deadline::default() })),
        }
    }

    /// Merges a request with a waiting request; returns the request if no waiting request is
    /// adjacent.
    pub(super) fn merge_waiting(&mut self, merged: Merged) -> Option<Merged> {
        match self {
            Self::InOrder { waiting, max_sectors } => {
                let mut rest = merged;
                for other in waiting.iter_mut().rev().take(LOOKED_BACK) {
                    rest = other.merge(rest, *max_sectors)?;
                }
                Some(rest)
            }
            Self::Deadline(deadline) => deadline.merge_waiting(merged),
        }
    }

    pub(super) fn insert(&mut self, merged: Merged, now: Nanoseconds) {
        match self {
            Self::InOrder { waiting, .. } => waiting.push_back(merged),
            Self::Deadline(deadline) => deadline.insert(merged, now),
        }
    }

    pub(super) fn next(&mut self, now: Nanoseconds) -> Option<Merged> {
        match self {
            Self::InOrder { waiting, .. } => waiting.pop_front(),
            Self::Deadline(deadline) => deadline.next(now),
        }
    }
}

/// Requests of one direction: by address, and by deadline.
#[derive(Default)]
struct Direction {
    /// Requests by first sector and order of arrival.
    sorted: BTreeMap<(u64, u64), (Merged, Nanoseconds)>,
    /// Keys in `sorted`, by deadline and order of arrival.
    fifo: BTreeMap<(Nanoseconds, u64), (u64, u64)>,
    /// End of the last request that was dispatched.
    position: u64,
}

/// State of `mq-deadline`: batches in order of address, reads before writes, and no request waits
/// forever.
#[derive(Default)]
pub(super) struct Deadline {
    max_sectors: u64,
    directions: [Direction; 2],
    last: usize,
    batched: u32,
    starved: u32,
    arrivals: u64,
}

fn direction_of(kind: OpKind) -> usize {
    usize::from(kind != OpKind::Read)
}

impl Direction {
    fn remove(&mut self, key: (u64, u64)) -> Option<(Merged, Nanoseconds)> {
        let (merged, deadline) = self.sorted.remove(&key)?;
        self.fifo.remove(&(deadline, key.1));
        Some((merged, deadline))
    }

    fn put(&mut self, number: u64, merged: Merged, deadline: Nanoseconds) {
        let key = (merged.range.start.0, number);
        self.fifo.insert((deadline, number), key);
        self.sorted.insert(key, (merged, deadline));
    }

    /// Returns the waiting requests that end where `merged` begins, and the waiting requests that
    /// begin where `merged` ends.
    fn neighbours(&self, merged: &Merged) -> [Option<(u64, u64)>; 2] {
        let (start, end) = (merged.range.start.0, merged.range.end().0);
        let before = self.sorted.range(..(start, 0)).next_back();
        let before = before.filter(|(_, (other, _))| other.range.end().0 == start).map(|(&key, _)| key);
        let behind = self.sorted.range((end, 0)..=(end, u64::MAX)).next().map(|(&key, _)| key);
        [before, behind]
    }

    /// Returns the first request at or after the end of the last request.
    fn next_in_order(&self) -> Option<(u64, u64)> {
        self.sorted.range((self.position, 0)..).next().map(|(&key, _)| key)
    }
}

impl Deadline {
    fn merge_waiting(&mut self, mut merged: Merged) -> Option<Merged> {
        let direction = &mut self.directions[direction_of(merged.kind)];
        let neighbours = direction.neighbours(&merged);
        for key in neighbours.into_iter().flatten() {
            let Some((mut other, deadline)) = direction.remove(key) else { continue };
            match other.merge(merged, self.max_sectors) {
                Some(rest) => {
                    direction.put(key.1, other, deadline);
                    merged = rest;
                }
                None => {
                    self.close_gap(key.1, other, deadline);
                    return None;
                }
            }
        }
        Some(merged)
    }

    /// Puts back a request that has grown, and may now be adjacent to the request after or before
    /// it.
    fn close_gap(&mut self, number: u64, mut grown: Merged, mut deadline: Nanoseconds) {
        let direction = &mut self.directions[direction_of(grown.kind)];
        for key in direction.neighbours(&grown).into_iter().flatten() {
            let Some((other, others)) = direction.remove(key) else { continue };
            match grown.merge(other, self.max_sectors) {
                Some(other) => direction.put(key.1, other, others),
                None => deadline = deadline.min(others),
            }
        }
        direction.put(number, grown, deadline);
    }

    fn insert(&mut self, merged: Merged, now: Nanoseconds) {
        let Some(merged) = self.merge_waiting(merged) else { return };
        let direction = direction_of(merged.kind);
        self.arrivals += 1;
        self.directions[direction].put(self.arrivals, merged, now + EXPIRE[direction]);
    }

    /// Returns the next request as `dd_dispatch_request` does: the batch continues, or a direction
    /// is chosen and a new batch begins.
    fn next(&mut self, now: Nanoseconds) -> Option<Merged> {
        let going_on = self.directions[self.last].next_in_order().filter(|_| self.batched < FIFO_BATCH);
        if let Some(key) = going_on {
            return self.take(self.last, key);
        }
        let [reads, writes] = [0, 1].map(|direction| !self.directions[direction].sorted.is_empty());
        let chosen = match (reads, writes) {
            (false, false) => return None,
            (true, true) if self.starved >= WRITES_STARVED => 1,
            (true, _) => {
                self.starved += u32::from(writes);
                0
            }
            (false, true) => 1,
        };
        if chosen == 1 {
            self.starved = 0;
        }
        let direction = &self.directions[chosen];
        let (&(deadline, _), &oldest) = direction.fifo.first_key_value()?;
        let key = direction.next_in_order().filter(|_| deadline > now).unwrap_or(oldest);
        self.batched = 0;
        self.take(chosen, key)
    }

    fn take(&mut self, direction: usize, key: (u64, u64)) -> Option<Merged> {
        self.last = direction;
        self.batched += 1;
        let (merged, _) = self.directions[direction].remove(key)?;
        self.directions[direction].position = merged.range.end().0;
        Some(merged)
    }
}
