//! Choice of the next command among those in the drive.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use super::layout::Place;
use super::mechanics::Mechanics;
use super::pending::Pending;
use bimetal_core::operation::OpKind;

/// Policy that chooses the next command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// First come, first served.
    Fcfs,
    /// Shortest seek time first: the command on the nearest cylinder.
    Sstf,
    /// C-LOOK: the command at the next higher address; after the highest address, the command at
    /// the lowest.
    Clook,
    /// Shortest positioning time first: seek and rotation together, minus the compensation of
    /// `sptf_ageing` for waiting.
    Sptf,
}

/// Commands that wait for the arm.
#[derive(Clone, Debug)]
pub enum Queue {
    /// Commands in order of arrival.
    Arrival(VecDeque<Pending>),
    /// Commands by address, then by arrival, for SSTF and C-LOOK.
    Address {
        /// Commands, by first sector and serial number.
        commands: BTreeMap<(u64, u64), Pending>,
        /// Number of commands ever added, which distinguishes commands to the same sector.
        serial: u64,
        /// Set if the policy is SSTF; not set if the policy is C-LOOK.
        nearest: bool,
    },
    /// Commands with their places, in no order. Of equal commands the first to arrive is chosen.
    Positioning {
        /// Commands, with serial number and place.
        commands: Vec<(Pending, u64, Place)>,
        /// Number of commands ever added.
        serial: u64,
        /// Nanoseconds of positioning that a nanosecond of waiting compensates.
        ageing: f64,
    },
}

impl Queue {
    /// Creates an empty queue under `policy`, with `ageing` for SPTF.
    pub fn new(policy: Policy, ageing: f64) -> Self {
        match policy {
            Policy::Fcfs => Queue::Arrival(VecDeque::new()),
            Policy::Sstf | Policy::Clook => {
                Queue::Address { commands: BTreeMap::new(), serial: 0, nearest: policy == Policy::Sstf }
            }
            Policy::Sptf => Queue::Positioning { commands: Vec::new(), serial: 0, ageing },
        }
    }

    /// Returns the number of waiting commands.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Queue::Arrival(commands) => commands.len(),
            Queue::Address { commands, .. } => commands.len(),
            Queue::Positioning { commands, .. } => commands.len(),
        }
    }

    /// Adds a command.
    pub fn push(&mut self, pending: Pending, mechanics: &Mechanics) {
        match self {
            Queue::Arrival(commands) => commands.push_back(pending),
            Queue::Address { commands, serial, .. } => {
                commands.insert((pending.start, *serial), pending);
                *serial += 1;
            }
            Queue::Positioning { commands, serial, .. } => {
                commands.push((pending, *serial, mechanics.layout().place(pending.start)));
                *serial += 1;
            }
        }
    }

    /// Removes the command to serve from time `now_ns` on, when the last transfer ended before
    /// sector `head_lbn`.
    pub fn pop(&mut self, now_ns: u64, head_lbn: u64, mechanics: &Mechanics) -> Option<Pending> {
        match self {
            Queue::Arrival(commands) => commands.pop_front(),
            Queue::Address { commands, nearest, .. } => {
                let next = commands.range((head_lbn, 0)..).next().map(|(key, _)| *key);
                let key = if *nearest {
                    let before = commands.range(..(head_lbn, 0)).next_back().map(|(key, _)| *key);
                    nearer(before, next, mechanics)?
                } else {
                    next.or_else(|| commands.keys().next().copied())?
                };
                commands.remove(&key)
            }
            Queue::Positioning { commands, ageing, .. } => {
                let cost = |(pending, serial, place): &(Pending, u64, Place)| {
                    let write = pending.kind != OpKind::Read;
                    let positioning_ns = mechanics.positioning_ns(now_ns.max(pending.ready_ns), place, write) as i64;
                    let waited_ns = now_ns.saturating_sub(pending.ready_ns);
                    (positioning_ns.saturating_sub((waited_ns as f64 * *ageing) as i64), *serial)
                };
                let (index, _) = commands.iter().enumerate().min_by_key(|(_, command)| cost(command))?;
                Some(commands.swap_remove(index).0)
            }
        }
    }
}

/// Returns, of two neighbours in address, the command whose cylinder is nearer to the arm.
/// Addresses rise with the cylinder, so no other command is nearer than these two neighbours.
fn nearer(before: Option<(u64, u64)>, next: Option<(u64, u64)>, mechanics: &Mechanics) -> Option<(u64, u64)> {
    let (Some(before), Some(next)) = (before, next) else { return before.or(next) };
    let distance = |lbn: u64| mechanics.layout().place(lbn).cylinder.abs_diff(mechanics.cylinder());
    Some(if distance(before.0) < distance(next.0) { before } else { next })
}
