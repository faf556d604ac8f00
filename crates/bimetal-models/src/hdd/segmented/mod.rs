//! Drive that serves one command at a time from a segmented buffer, as the SCSI drives of the 1990s
//! did.
//!
//! The behaviour follows DiskSim's disk module (DiskSim 4.0 Reference Manual, CMU-PDL-08-101):
//! overheads by kind, a bus that carries data while the medium turns, read-ahead over think times,
//! writes that finish in the buffer. This model computes times for each command and not for each
//! sector.
//!
//! Read `read.rs` and `write.rs` first, which follow a command from the host to its completion.
//! `buffer.rs` holds the segments, `read_ahead.rs` the work of the heads between commands, and
//! `electronics.rs` the overheads.

mod buffer;
mod electronics;
mod read;
mod read_ahead;
mod write;

use std::collections::VecDeque;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, Sectors};

use super::account::Account;
use super::controller::{ControllerFigures, FastWrites};
use super::layout::Layout;
use super::mechanics::Mechanics;
use super::pending::Pending;
use super::power::Power;
use super::profile::HddProfile;
use crate::profile::BadFigure;
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished};
use buffer::Segments;
use electronics::Electronics;
use read_ahead::{ReadAhead, Rule};

/// Write that has finished for the host, or is about to finish, and is still being written to the
/// medium.
#[derive(Clone, Copy, Debug)]
struct WriteBehind {
    segment: usize,
    /// First sector after the write.
    end: u64,
    /// Time at which the last sector of the write is on the medium.
    until_ns: u64,
}

/// Behaviour of the drive, without its times.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Writes that finish in the buffer; `None` if no writes finish there.
    fast_writes: Option<FastWrites>,
    never_disconnects: bool,
    read_watermark: f64,
    write_watermark: f64,
    read_ahead_after_hit: bool,
    keeps_free_sectors: bool,
    zero_latency_read: bool,
    zero_latency_write: bool,
    stops_in_sector: bool,
    caches: bool,
    read_hits_on_writes: bool,
    combines_writes: bool,
}

/// Model of a hard disk with a segmented buffer, which serves one command at a time.
///
/// Discards, write-zeroes and hints behave as with [`Hdd`](super::Hdd).
#[derive(Clone, Debug)]
pub struct SegmentedHdd {
    capacity: Sectors,
    habits: Habits,
    electronics: Electronics,
    mechanics: Mechanics,
    power: Power,
    segments: Segments,
    ahead_rule: Rule,
    ahead: Option<ReadAhead>,
    behind: Option<WriteBehind>,
    /// Commands that the drive has not taken yet, in order of arrival.
    waiting: VecDeque<Pending>,
    /// Time at which the command under way finishes, and this command.
    active: Option<(u64, Pending)>,
    account: Account,
    /// Last use of the arm by a command: its begin and its end.
    arm_from_ns: u64,
    arm_free_ns: u64,
    /// Time for which commands used the arm, until the end of the last use.
    head_ns: u64,
}

impl SegmentedHdd {
    /// Builds the drive that `profile` describes with `own` sectors for `capacity`: see
    /// [`Hdd::new`](super::Hdd::new).
    ///
    /// # Errors
    /// Returns the figure that no drive can have.
    pub fn new(
        profile: &HddProfile,
        figures: &ControllerFigures,
        own: Sectors,
        capacity: Sectors,
    ) -> Result<Self, BadFigure> {
        let layout = Layout::new(profile, own, capacity)?;
        let count = profile.read_segments as usize;
        let size = profile.cache.0.sectors().0 / u64::from(profile.read_segments.max(1));
        Ok(Self {
            capacity,
            habits: Habits {
                fast_writes: figures.has_fast_writes(profile).then_some(figures.fast_writes),
                never_disconnects: figures.never_disconnect,
                read_watermark: figures.read_watermark,
                write_watermark: figures.write_watermark,
                read_ahead_after_hit: figures.read_ahead_after_hit,
                keeps_free_sectors: figures.keeps_free_sectors,
                zero_latency_read: figures.zero_latency_read && figures.keeps_free_sectors,
                zero_latency_write: figures.zero_latency_write,
                stops_in_sector: figures.stops_in_sector,
                caches: figures.caches,
                read_hits_on_writes: figures.read_hits_on_writes,
                combines_writes: figures.combines_writes,
            },
            electronics: Electronics::new(profile, figures),
            mechanics: Mechanics::new(profile, layout)?,
            power: Power::new(profile),
            segments: Segments::new(count, size, figures.separate_write_segment),
            ahead_rule: Rule {
                mode: figures.read_ahead_mode,
                most: profile.read_ahead.0.sectors().0,
                least: figures.minimum_read_ahead,
                drive_end: capacity.0,
            },
            ahead: None,
            behind: None,
            waiting: VecDeque::new(),
            active: None,
            account: Account::default(),
            arm_from_ns: 0,
            arm_free_ns: 0,
            head_ns: 0,
        })
    }

    /// Takes the next command, if none is under way.
    fn start_next(&mut self, now_ns: u64) {
        if self.active.is_none()
            && let Some(pending) = self.waiting.pop_front()
        {
            let finish_ns = self.serve(&pending, now_ns);
            self.active = Some((finish_ns.max(now_ns), pending));
        }
    }

    /// Serves a command. Returns the time at which the host knows that the command is complete.
    fn serve(&mut self, pending: &Pending, now_ns: u64) -> u64 {
        if self.behind.is_some_and(|behind| behind.until_ns <= now_ns) {
            self.end_write_behind();
        }
        match pending.kind {
            _ if pending.sectors == 0 && pending.kind != OpKind::Flush => now_ns + self.electronics.read_miss_ns(),
            OpKind::Read => {
                let finish_ns = self.read(now_ns, pending.start, pending.end());
                self.electronics.after_write = false;
                finish_ns
            }
            OpKind::Write | OpKind::WriteZeroes => {
                let finish_ns = self.write(now_ns, pending);
                self.electronics.after_write = true;
                finish_ns
            }
            OpKind::Flush => {
                self.behind.map_or(0, |behind| behind.until_ns).max(now_ns + self.electronics.write_ns(false))
            }
            OpKind::Discard | OpKind::Hint => now_ns + self.electronics.read_miss_ns(),
        }
    }

    /// Ends the write that is still being written to the medium: its data is on the medium.
    fn end_write_behind(&mut self) {
        if let Some(behind) = self.behind.take()
            && !(self.habits.caches && self.habits.read_hits_on_writes)
        {
            self.segments.clear(behind.segment);
        }
    }

    /// Ends the read-ahead. Returns the time at which the arm is free.
    fn stop_ahead(&mut self, now_ns: u64) -> u64 {
        let Some(mut ahead) = self.ahead.take() else { return now_ns };
        ahead.progress(now_ns, &mut self.segments, &mut self.mechanics);
        ahead.stopped_ns(now_ns, self.habits.stops_in_sector, &mut self.mechanics)
    }

    /// Counts a use of the arm for a command. Read-ahead does not count.
    fn use_arm(&mut self, from_ns: u64, until_ns: u64) {
        let from_ns = from_ns.max(self.arm_free_ns);
        if until_ns > from_ns {
            self.head_ns += until_ns - from_ns;
            (self.arm_from_ns, self.arm_free_ns) = (from_ns, until_ns);
        }
    }

    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty()
    }

    /// Returns the time at which the spindle stops if no command arrives.
    fn spin_down_at_ns(&self) -> Option<u64> {
        let written_ns = self.behind.map_or(0, |behind| behind.until_ns);
        if self.is_idle() { self.power.spin_down_at_ns(self.account.state_since_ns().max(written_ns)) } else { None }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.active.map(|(finish_ns, _)| finish_ns).or_else(|| self.spin_down_at_ns())
    }
}

impl DeviceModel for SegmentedHdd {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} is not on a drive of {}", self.capacity);
        debug_assert!(self.next_event_ns().is_none_or(|event| event >= now.0), "the drive was not advanced to {now}");
        if self.is_idle() {
            self.account.begin_busy(now.0);
        }
        let Command { kind, range, fua } = command;
        self.waiting.push_back(Pending { token, kind, fua, start: range.start.0, sectors: range.len.0, ready_ns: 0 });
        self.start_next(now.0);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.next_event_ns().map(Nanoseconds)
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        while let Some(event_ns) = self.next_event_ns()
            && event_ns <= now.0
        {
            let Some((_, pending)) = self.active.take() else {
                self.stop_ahead(event_ns);
                self.power.spin_down(event_ns);
                continue;
            };
            finished.push(self.account.finish(&pending, event_ns));
            self.start_next(event_ns);
            if self.is_idle() {
                self.account.end_busy(event_ns);
            }
        }
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        let mut statistics = self.account.statistics(now, self.is_idle(), &self.power, &self.mechanics);
        // The part of the arm's last use after `now` is still to come.
        let to_come_ns = self.arm_free_ns.saturating_sub(self.arm_from_ns.max(now.0));
        let hdd = statistics.hdd.get_or_insert_default();
        hdd.head_time = Nanoseconds(self.head_ns - to_come_ns);
        statistics
    }
}
