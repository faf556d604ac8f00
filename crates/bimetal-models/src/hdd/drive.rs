//! The drive as a whole: commands in, completions out.
//!
//! Two parts of the drive work at the same time. The electronics answer commands that need no
//! medium (hits, cached writes, discards), one after another. The arm serves one transfer at a
//! time, chosen by the queue. The arm writes the content of the cache when no command waits, when a
//! flush arrives, or when a write finds no room.

use std::collections::VecDeque;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use super::account::Account;
use super::layout::Layout;
use super::mechanics::Mechanics;
use super::pending::Pending;
use super::physical_sectors::PhysicalSectors;
use super::power::Power;
use super::profile::{HddProfile, Switch};
use super::read_buffer::{Lookup, ReadBuffer};
use super::scheduler::Queue;
use super::write_cache::WriteCache;
use crate::profile::BadFigure;
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished};

/// Current work of the arm.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Command of the host.
    Host(Pending),
    /// Write-back of dirty sectors of the write cache.
    Destage,
}

/// Command electronics, and interface to the host.
#[derive(Clone, Copy, Debug)]
struct Electronics {
    overhead_ns: u64,
    bus_sector_ps: u64,
    /// Time until which the electronics are busy with commands already answered.
    free_at_ns: u64,
}

impl Electronics {
    fn bus_ns(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.bus_sector_ps) / 1000
    }
}

/// Model of a hard disk.
///
/// A discard finishes after the command overhead and changes nothing, because real drives of this
/// kind have no discards. Write-zeroes is a write whose data does not cross the bus. A hint is
/// unsupported.
#[derive(Clone, Debug)]
pub struct Hdd {
    capacity: Sectors,
    queue_depth: usize,
    electronics: Electronics,
    mechanics: Mechanics,
    power: Power,
    read_buffer: ReadBuffer,
    physical: PhysicalSectors,
    /// Write cache; if `None`, writes go to the medium before they finish.
    write_cache: Option<WriteCache>,
    /// Number of runs of the write cache among which a destage chooses.
    destage_window: usize,
    /// Commands that the drive has not taken yet, in order of arrival.
    waiting: VecDeque<Pending>,
    /// Commands that wait for the arm.
    queue: Queue,
    /// Writes that wait for room in the write cache.
    no_room: VecDeque<Pending>,
    /// Flush under way. The flush waits until the cache is clean, and later commands wait for the
    /// flush.
    flush: Option<Pending>,
    /// Time at which the arm's current work ends, and this work.
    active: Option<(u64, Work)>,
    /// Time at which the last sector of the last transfer had passed. A command that was in the
    /// drive before this time starts from this time, although that transfer still has to cross the
    /// bus.
    arm_free_ns: u64,
    /// Time from which the last transfer uses the arm.
    arm_from_ns: u64,
    /// Total time for which transfers use the arm.
    head_ns: u64,
    /// Set if a write of another actuator waits for room in the write cache.
    others_wait: bool,
    /// Set if the last transfer was for the host.
    host_was_last: bool,
    /// Sector after the last transfer.
    head_lbn: u64,
    /// Answered commands, with the times at which they finish, in order of time.
    answered: VecDeque<(u64, Pending)>,
    /// Number of commands of the host that have not finished.
    outstanding: usize,
    account: Account,
}

impl Hdd {
    /// Builds the drive that `profile` describes with `own` sectors. If `capacity` is more, the
    /// drive is larger by more cylinders; if it is less, the sectors after `capacity` are not
    /// used.
    ///
    /// # Errors
    /// A figure that no drive can have.
    pub fn new(profile: &HddProfile, own: Sectors, capacity: Sectors) -> Result<Self, BadFigure> {
        let layout = Layout::new(profile, own, capacity)?;
        debug_assert!(layout.sectors() >= capacity);
        let (segment, for_writes) = profile.buffer_shares();
        let write_cache = (profile.write_cache == Switch::On).then(|| WriteCache::new(for_writes.0));
        Ok(Self {
            capacity,
            queue_depth: profile.queue_depth as usize,
            electronics: Electronics {
                overhead_ns: (profile.command_overhead_ms.unwrap_or(0.0) * 1e6) as u64,
                bus_sector_ps: (SECTOR_BYTES as f64 / profile.bus_mb_per_s * 1e6) as u64,
                free_at_ns: 0,
            },
            mechanics: Mechanics::new(profile, layout)?,
            power: Power::new(profile),
            read_buffer: ReadBuffer::new(profile.read_segments, segment.0, capacity.0),
            physical: PhysicalSectors::new(profile.physical_sector.0.sectors().0, segment.0),
            write_cache,
            destage_window: profile.destage_window as usize,
            waiting: VecDeque::new(),
            queue: Queue::new(profile.scheduler, profile.sptf_ageing),
            no_room: VecDeque::new(),
            flush: None,
            active: None,
            arm_free_ns: 0,
            arm_from_ns: 0,
            head_ns: 0,
            others_wait: false,
            host_was_last: false,
            head_lbn: 0,
            answered: VecDeque::new(),
            outstanding: 0,
            account: Account::default(),
        })
    }

    /// Returns true if all answered writes to `range` are on the medium.
    pub fn is_stable(&self, range: SectorRange) -> bool {
        self.write_cache.as_ref().is_none_or(|cache| cache.is_clean_in(range.start.0, range.end().0))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.active.is_none()
    }

    /// Returns the number of sectors in the write cache.
    pub(super) fn cached_sectors(&self) -> u64 {
        self.write_cache.as_ref().map_or(0, WriteCache::sectors)
    }

    /// Returns the oldest write that waits for room in the write cache.
    pub(super) fn waits_for_room(&self) -> Option<&Pending> {
        self.no_room.front()
    }

    /// Records the number of sectors of the write cache that other actuators use or wait for, and
    /// whether one of them waits.
    pub(super) fn note_others(&mut self, taken: u64, others_wait: bool) {
        self.others_wait = others_wait;
        if let Some(cache) = &mut self.write_cache {
            cache.taken = taken;
        }
    }

    /// Continues at `now`, at which another actuator may have freed room in the write cache.
    pub(super) fn look_for_room(&mut self, now: Nanoseconds) {
        self.take_into_cache(now.0);
        self.take_waiting(now.0);
        self.start_next(now.0, now.0);
    }

    /// Takes waiting commands into the drive while its queue has room.
    fn take_waiting(&mut self, now_ns: u64) {
        while let Some(&next) = self.waiting.front()
            && self.flush.is_none()
        {
            let host_active = matches!(self.active, Some((_, Work::Host(_))));
            let taken = self.queue.count() + self.no_room.len() + usize::from(host_active);
            if next.kind == OpKind::Flush && self.write_cache.is_some() {
                // As with ATA's FLUSH CACHE, which cannot be queued, all earlier commands finish
                // first.
                if taken > 0 {
                    return;
                }
                self.flush = Some(next);
            } else if taken >= self.queue_depth {
                return;
            } else {
                self.take(next, now_ns);
            }
            self.waiting.pop_front();
        }
    }

    /// Answers a command from the electronics, or queues it for the arm.
    fn take(&mut self, mut pending: Pending, now_ns: u64) {
        pending.ready_ns = now_ns + self.electronics.overhead_ns;
        let needs_medium = match pending.kind {
            _ if pending.sectors == 0 => false,
            OpKind::Flush | OpKind::Discard | OpKind::Hint => false,
            OpKind::Read => !self.is_read_hit(&pending, now_ns),
            OpKind::Write | OpKind::WriteZeroes => match &self.write_cache {
                Some(cache) if !pending.fua && cache.could_hold(pending.sectors) => {
                    self.no_room.push_back(pending);
                    return self.take_into_cache(now_ns);
                }
                _ => true,
            },
        };
        if needs_medium {
            self.queue.push(pending, &self.mechanics);
        } else {
            self.answer(pending, now_ns);
        }
    }

    fn is_read_hit(&mut self, read: &Pending, now_ns: u64) -> bool {
        let (start, end) = (read.start, read.end());
        if self.write_cache.as_ref().is_some_and(|cache| cache.covers(start, end)) {
            self.account.hdd.cache_read_hits += 1;
            return true;
        }
        if self.read_buffer.look_up(start, end, now_ns, &mut self.mechanics) != Lookup::Hit {
            return false;
        }
        self.account.hdd.cache_read_hits += 1;
        if self.active.is_none() {
            self.read_buffer.extend(end, now_ns, &mut self.mechanics);
        }
        true
    }

    /// Takes writes into the cache, in order of arrival, while there is room.
    fn take_into_cache(&mut self, now_ns: u64) {
        while let Some(&write) = self.no_room.front()
            && let Some(cache) = &mut self.write_cache
            && cache.has_room(write.sectors)
        {
            cache.insert(write.start, write.end());
            self.hold_complete_edges(write.start, write.end(), now_ns);
            self.read_buffer.invalidate(write.start, write.end(), now_ns, &mut self.mechanics);
            self.account.hdd.cached_writes += 1;
            self.no_room.pop_front();
            self.answer(write, now_ns);
        }
    }

    /// Finishes a command in the electronics, behind the commands with which they are busy.
    fn answer(&mut self, pending: Pending, now_ns: u64) {
        let has_data = matches!(pending.kind, OpKind::Read | OpKind::Write);
        let bus_ns = if has_data { self.electronics.bus_ns(pending.sectors) } else { 0 };
        let at_ns = now_ns.max(self.electronics.free_at_ns) + self.electronics.overhead_ns + bus_ns;
        self.electronics.free_at_ns = at_ns;
        self.answered.push_back((at_ns, pending));
    }

    /// Gives the arm its next work, if the arm has no work. A destage that starts because a write
    /// has just arrived waits until `destage_from_ns` for the data of this write.
    fn start_next(&mut self, now_ns: u64, destage_from_ns: u64) {
        if self.active.is_some() {
            return;
        }
        while let Some(flush) = self.flush
            && self.write_cache.as_ref().is_none_or(WriteCache::is_clean)
        {
            self.flush = None;
            self.answer(flush, now_ns);
            self.take_waiting(now_ns);
        }
        // Writes without room alternate with the queue, so that neither starves.
        let room_is_wanted = self.others_wait || !self.no_room.is_empty();
        let destage_first = self.flush.is_some() || (room_is_wanted && self.host_was_last);
        if destage_first && self.start_destage(destage_from_ns) {
            return;
        }
        match self.queue.pop(self.arm_free_ns, self.head_lbn, &self.mechanics) {
            Some(pending) => self.start_transfer(pending, now_ns),
            None => {
                self.start_destage(destage_from_ns);
            }
        }
    }

    /// Begins a command of the host on the arm.
    fn start_transfer(&mut self, pending: Pending, now_ns: u64) {
        let (start_ns, end_ns) = match pending.kind {
            OpKind::Read => self.read(&pending),
            _ => self.write(&pending),
        };
        let end_ns = end_ns.max(now_ns);
        self.power.add_service_ns(end_ns - start_ns);
        self.head_lbn = pending.end();
        self.host_was_last = true;
        self.active = Some((end_ns, Work::Host(pending)));
    }

    /// Records that the arm is in use from `start_ns` to `free_ns`.
    fn occupy_arm(&mut self, start_ns: u64, free_ns: u64) {
        self.head_ns += free_ns.saturating_sub(start_ns);
        (self.arm_from_ns, self.arm_free_ns) = (start_ns, free_ns);
    }

    /// Reads from the medium. Returns the times at which the arm starts and at which the host has
    /// the data.
    fn read(&mut self, read: &Pending) -> (u64, u64) {
        let (start, end) = (read.start, read.end());
        let start_ns = self.power.ready_at_ns(read.ready_ns.max(self.arm_free_ns));
        let passed_ns = match self.read_buffer.look_up(start, end, start_ns, &mut self.mechanics) {
            Lookup::Hit => {
                self.account.hdd.cache_read_hits += 1;
                start_ns
            }
            Lookup::Coming => {
                self.account.hdd.cache_read_hits += 1;
                self.read_buffer.follow(end, start_ns, &mut self.mechanics)
            }
            Lookup::Miss => {
                self.read_buffer.stop(start_ns, &mut self.mechanics);
                let mut sweep = self.mechanics.position(start_ns, start, false);
                self.mechanics.run_to(&mut sweep, end);
                self.read_buffer.begin(start, sweep);
                sweep.at_ns
            }
        };
        // The bus lags behind the heads: the last sector crosses it after it has passed.
        let last_ns = self.electronics.bus_ns(1);
        self.occupy_arm(start_ns, passed_ns);
        (start_ns, (passed_ns + last_ns).max(start_ns + self.electronics.bus_ns(read.sectors)))
    }

    /// Writes to the medium. Returns the times at which the arm starts and at which all sectors are
    /// written.
    fn write(&mut self, write: &Pending) -> (u64, u64) {
        let (start, end) = (write.start, write.end());
        let bus_sectors = if write.kind == OpKind::Write { write.sectors } else { 0 };
        let first_here_ns = write.ready_ns + self.electronics.bus_ns(bus_sectors.min(1));
        let start_ns = self.power.ready_at_ns(first_here_ns.max(self.arm_free_ns));
        self.read_buffer.stop(start_ns, &mut self.mechanics);
        let written_ns = self.write_medium(start_ns, start, end);
        self.read_buffer.invalidate(start, end, start_ns, &mut self.mechanics);
        if let Some(cache) = &mut self.write_cache {
            cache.remove(start, end);
        }
        let all_here_ns = write.ready_ns + self.electronics.bus_ns(bus_sectors);
        self.occupy_arm(start_ns, written_ns.max(all_here_ns));
        (start_ns, self.arm_free_ns)
    }

    /// Writes the sectors from `start` to before `end`, in whole physical sectors, with the arm
    /// free from `start_ns` on. A physical sector that the buffer cannot complete is read first and
    /// written one turn later. Returns the time at which all sectors from `start` to `end` are
    /// written.
    fn write_medium(&mut self, start_ns: u64, start: u64, end: u64) -> u64 {
        let (head, tail) = self.physical.edges(start, end);
        let incomplete = |edge: &u64| !self.is_complete(*edge, start, end);
        let (reads_head, mut reads_tail) = (head.filter(incomplete), tail.filter(incomplete));
        let (first, last) = self.physical.around(start, end);
        let last = last.min(self.mechanics.layout().sectors().0);
        let mut from_ns = start_ns;
        self.account.hdd.read_modify_writes += u64::from(reads_head.or(reads_tail).is_some());
        if reads_head.is_some() {
            let mut sweep = self.mechanics.position(from_ns, first, false);
            // An incomplete end on the same track is read in the same turn.
            let one_track = reads_tail.take_if(|tail| self.mechanics.layout().is_one_track(first, *tail)).is_some();
            let read_to = if one_track { last } else { self.physical.around(first, first + 1).1 };
            self.mechanics.run_to(&mut sweep, read_to.min(last));
            from_ns = sweep.at_ns;
        }
        let mut sweep = self.mechanics.position(from_ns, first, true);
        self.mechanics.run_to(&mut sweep, last);
        if let Some(tail) = reads_tail {
            sweep = self.mechanics.position(sweep.at_ns, tail, true);
            self.mechanics.run_to(&mut sweep, last);
        }
        [head, tail].into_iter().flatten().for_each(|edge| self.physical.hold(edge));
        sweep.at_ns
    }

    /// Returns true if the buffer holds the part of the physical sector at `edge` that a write from
    /// `start` to before `end` does not overwrite.
    fn is_complete(&self, edge: u64, start: u64, end: u64) -> bool {
        let in_cache = |sector| self.write_cache.as_ref().is_some_and(|cache| cache.covers(sector, sector + 1));
        self.physical.holds(edge)
            || self.physical.rest(edge, start, end).all(|sector| in_cache(sector) || self.read_buffer.contains(sector))
    }

    /// Notes the physical sectors at the edges of a cached write that the buffer holds as a whole,
    /// before the write drops data that was read.
    fn hold_complete_edges(&mut self, start: u64, end: u64, now_ns: u64) {
        let (head, tail) = self.physical.edges(start, end);
        if head.or(tail).is_none() {
            return;
        }
        self.read_buffer.progress(now_ns, &mut self.mechanics);
        for edge in [head, tail].into_iter().flatten() {
            if self.is_complete(edge, start, end) {
                self.physical.hold(edge);
            }
        }
    }

    /// Begins to write the next dirty run, at most to the end of its track, so that a command of
    /// the host never waits for more than a track. Returns false if the write cache has no dirty
    /// run.
    fn start_destage(&mut self, from_ns: u64) -> bool {
        let begin_ns = from_ns.max(self.arm_free_ns);
        let Some(cache) = &self.write_cache else { return false };
        let nearest = |(start, _): &(u64, u64)| {
            let place = self.mechanics.layout().place(*start);
            self.mechanics.positioning_ns(begin_ns, &place, true)
        };
        let next = cache.next_runs(self.head_lbn).take(self.destage_window);
        let run = if self.destage_window > 1 { next.min_by_key(nearest) } else { { next }.next() };
        let Some((start, run_end)) = run else { return false };
        let place = self.mechanics.layout().place(start);
        let track_rest = self.mechanics.layout().sectors_per_track(&place) - place.sector;
        let end = run_end.min(start + u64::from(track_rest));
        // Dirty sectors beside the run leave with it if they lie in its physical sectors.
        let (first, last) = self.physical.around(start, end);
        let is_dirty = |sector: &u64| cache.covers(*sector, sector + 1);
        let leaves_from = (first..start).find(is_dirty).unwrap_or(start);
        let leaves_to = (end..last).rev().find(is_dirty).map_or(end, |sector| sector + 1);
        let start_ns = self.power.ready_at_ns(begin_ns);
        self.read_buffer.stop(start_ns, &mut self.mechanics);
        let written_ns = self.write_medium(start_ns, start, end);
        if let Some(cache) = &mut self.write_cache {
            cache.begin_leaving(leaves_from, leaves_to);
        }
        self.power.add_service_ns(written_ns - start_ns);
        self.occupy_arm(start_ns, written_ns);
        self.head_lbn = end;
        self.host_was_last = false;
        self.account.hdd.destages += 1;
        self.active = Some((written_ns, Work::Destage));
        true
    }

    /// Handles the end of the arm's work at `now_ns`.
    fn end_work(&mut self, now_ns: u64, work: Work, finished: &mut Vec<Finished>) {
        self.active = None;
        match work {
            Work::Host(pending) => self.finish(&pending, now_ns, finished),
            Work::Destage => {
                if let Some(cache) = &mut self.write_cache {
                    cache.finish_leaving();
                }
            }
        }
        // A destage frees room, and so does a write that replaced dirty sectors on the medium.
        self.take_into_cache(now_ns);
        self.take_waiting(now_ns);
        self.start_next(now_ns, self.arm_free_ns);
    }

    /// Counts a command and returns it to the host.
    fn finish(&mut self, pending: &Pending, now_ns: u64, finished: &mut Vec<Finished>) {
        self.outstanding -= 1;
        finished.push(self.account.finish(pending, now_ns));
    }

    /// Returns the time at which the spindle stops if no command arrives.
    fn spin_down_at_ns(&self) -> Option<u64> {
        if self.is_idle() { self.power.spin_down_at_ns(self.account.state_since_ns()) } else { None }
    }

    /// Returns the time of the next event: an answered command finishes, the arm's work ends, or
    /// the spindle's timer is due.
    fn next_event_ns(&self) -> Option<u64> {
        let answered = self.answered.front().map(|(at_ns, _)| *at_ns);
        let active = self.active.as_ref().map(|(end_ns, _)| *end_ns);
        match (answered, active) {
            (Some(answered), Some(active)) => Some(answered.min(active)),
            (None, None) => self.spin_down_at_ns(),
            (answered, active) => answered.or(active),
        }
    }
}

impl DeviceModel for Hdd {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} is not on a drive of {}", self.capacity);
        debug_assert!(self.next_event_ns().is_none_or(|event| event >= now.0), "the drive was not advanced to {now}");
        if self.is_idle() {
            self.account.begin_busy(now.0);
        }
        self.outstanding += 1;
        let Command { kind, range, fua } = command;
        self.waiting.push_back(Pending { token, kind, fua, start: range.start.0, sectors: range.len.0, ready_ns: 0 });
        self.take_waiting(now.0);
        self.start_next(now.0, now.0 + self.electronics.overhead_ns);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.next_event_ns().map(Nanoseconds)
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        while let Some(event_ns) = self.next_event_ns()
            && event_ns <= now.0
        {
            match (self.answered.front(), self.active) {
                (Some((at_ns, pending)), _) if *at_ns == event_ns => {
                    let pending = *pending;
                    self.answered.pop_front();
                    self.finish(&pending, event_ns, finished);
                }
                (_, Some((_, work))) => self.end_work(event_ns, work, finished),
                _ => {
                    self.read_buffer.stop(event_ns, &mut self.mechanics);
                    self.power.spin_down(event_ns);
                    continue;
                }
            }
            if self.is_idle() {
                self.account.end_busy(event_ns);
            }
        }
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        let mut statistics = self.account.statistics(now, self.is_idle(), &self.power, &self.mechanics);
        // The arm's last use counts from its start on; its part after `now` is still to come.
        let to_come_ns = self.arm_free_ns.saturating_sub(self.arm_from_ns.max(now.0));
        let hdd = statistics.hdd.get_or_insert_default();
        hdd.head_time = Nanoseconds(self.head_ns - to_come_ns);
        statistics
    }
}
