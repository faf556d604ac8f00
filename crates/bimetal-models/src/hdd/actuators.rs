//! A drive with several actuators: arms that seek on their own over one spindle, each with its own
//! part of the addresses.
//!
//! The addresses are divided into equal runs, one for each actuator in order, as on drives that are
//! sold as one unit. So a command lies on one actuator, or on both sides of a border, and is then
//! divided. A divided command ends with its last part. A flush goes to all actuators.
//!
//! Each actuator is an [`Hdd`] with its share of the heads, of the read segments and of the power.
//! Rates and seek times are figures of one actuator. The queue and the buffer for writes are shared
//! by all actuators: a workload on one half of the addresses can use the whole queue and the whole
//! buffer. The link is not shared: no drive on sale has a link that is slower than its actuators
//! together.

use std::collections::{HashMap, VecDeque};

use bimetal_core::operation::{Command, OpKind, Status, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};

use super::account::Account;
use super::drive::Hdd;
use super::pending::Pending;
use super::profile::HddProfile;
use crate::profile::{BadFigure, Size};
use crate::statistics::{DeviceStatistics, HddStatistics};
use crate::{DeviceModel, Finished};

/// Command of the host that has not finished, and the number of its parts that have not finished.
#[derive(Clone, Copy, Debug)]
struct Divided {
    whole: Pending,
    parts_left: usize,
}

/// Model of a hard disk with several actuators.
#[derive(Clone, Debug)]
pub struct MultiActuatorHdd {
    capacity: Sectors,
    /// Number of sectors of each actuator.
    share: Sectors,
    actuators: Vec<Hdd>,
    queue_depth: usize,
    /// Commands that the drive has not taken yet, in order of arrival.
    waiting: VecDeque<(Token, Command)>,
    /// Commands that the drive has taken and that have not finished.
    under_way: HashMap<Token, Divided>,
    account: Account,
    /// Ends of parts, collected in one step.
    ended: Vec<Finished>,
}

impl MultiActuatorHdd {
    /// Builds the drive that `profile` describes with `own` sectors, for `capacity`: see
    /// [`Hdd::new`].
    ///
    /// # Errors
    /// A figure that no drive can have.
    pub fn new(profile: &HddProfile, own: Sectors, capacity: Sectors) -> Result<Self, BadFigure> {
        let count = u64::from(profile.actuators);
        let of_one = Self::of_one(profile);
        // No physical sector lies on two actuators.
        let physical = profile.physical_sector.0.sectors().0;
        let share = Sectors(own.max(capacity).0.div_ceil(count).next_multiple_of(physical));
        let own = Sectors(own.0.div_ceil(count));
        let actuators = (0..count).map(|_| Hdd::new(&of_one, own, share)).collect::<Result<_, _>>()?;
        Ok(Self {
            capacity,
            share,
            actuators,
            queue_depth: profile.queue_depth as usize,
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            account: Account::default(),
            ended: Vec::new(),
        })
    }

    /// Returns the figures of one actuator. The power of a drive at work is its power when idle and
    /// an equal addition of each actuator at work, so each actuator gets its share of all powers.
    fn of_one(profile: &HddProfile) -> HddProfile {
        let count = profile.actuators;
        let read_segments = profile.read_segments / count;
        let of_others = u64::from(profile.read_segments - read_segments) * profile.read_ahead.0.0;
        let watts = |watts: Option<f64>| watts.map(|watts| watts / f64::from(count));
        HddProfile {
            actuators: 1,
            heads: (profile.heads / count).max(1),
            cache: Size(Bytes(profile.cache.0.0.saturating_sub(of_others))),
            read_segments,
            spin_up_watts: watts(profile.spin_up_watts),
            active_watts: watts(profile.active_watts),
            seek_watts: watts(profile.seek_watts),
            idle_watts: watts(profile.idle_watts),
            standby_watts: watts(profile.standby_watts),
            ..profile.clone()
        }
    }

    /// Returns the parts of a command: the actuator of each, and the sectors on this actuator.
    fn parts(&self, command: &Command) -> Vec<(usize, SectorRange)> {
        if command.kind == OpKind::Flush || command.range.len == Sectors::ZERO {
            return (0..self.actuators.len()).map(|at| (at, SectorRange::new(0, 0))).collect();
        }
        let (mut start, end) = (command.range.start.0, command.range.end().0);
        let mut parts = Vec::with_capacity(1);
        while start < end {
            let at = start / self.share.0;
            let part_end = end.min((at + 1) * self.share.0);
            parts.push((at as usize, SectorRange::new(start - at * self.share.0, part_end - start)));
            start = part_end;
        }
        parts
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.actuators.iter().all(Hdd::is_idle)
    }

    /// Takes waiting commands into the drive while its queue has room.
    fn take_waiting(&mut self, now: Nanoseconds) {
        while self.under_way.len() < self.queue_depth
            && let Some((token, command)) = self.waiting.pop_front()
        {
            let Command { kind, range, fua } = command;
            let whole = Pending { token, kind, fua, start: range.start.0, sectors: range.len.0, ready_ns: now.0 };
            let parts = self.parts(&command);
            let known = self.under_way.insert(token, Divided { whole, parts_left: parts.len() });
            assert!(known.is_none(), "{token:?} is under way already");
            for (at, range) in parts {
                self.share_write_cache(at);
                self.actuators[at].submit(now, token, Command { kind, range, fua });
            }
        }
    }

    /// Tells an actuator how much of the buffer for writes the other actuators use, or have waited
    /// for longer. So writes get room in order of arrival.
    fn share_write_cache(&mut self, at: usize) {
        let since = |hdd: &Hdd| hdd.waits_for_room().map_or(u64::MAX, |write| write.ready_ns);
        let own = since(&self.actuators[at]);
        let (mut taken, mut others_wait) = (0, false);
        for (other, hdd) in self.actuators.iter().enumerate().filter(|(other, _)| *other != at) {
            taken += hdd.cached_sectors();
            let Some(waiting) = hdd.waits_for_room() else { continue };
            others_wait = true;
            if (waiting.ready_ns, other) < (own, at) {
                taken += waiting.sectors;
            }
        }
        self.actuators[at].note_others(taken, others_wait);
    }

    /// Lets all actuators reach `now`, at which at least one has an event, and appends the commands
    /// whose last part ended.
    fn step(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        let was_idle = self.is_idle();
        let mut ended = std::mem::take(&mut self.ended);
        for at in 0..self.actuators.len() {
            self.share_write_cache(at);
            self.actuators[at].advance(now, &mut ended);
        }
        // A write of one actuator may have waited for room that another has freed.
        for at in 0..self.actuators.len() {
            if self.actuators[at].waits_for_room().is_some() {
                self.share_write_cache(at);
                self.actuators[at].look_for_room(now);
            }
        }
        for part in ended.drain(..) {
            let divided = self.under_way.get_mut(&part.token).expect("a part of a command under way");
            divided.parts_left -= 1;
            if divided.parts_left == 0 {
                let whole = divided.whole;
                self.under_way.remove(&part.token);
                let end = self.account.finish(&whole, now.0);
                debug_assert!(part.status == Status::Done || whole.kind == OpKind::Hint);
                finished.push(end);
            }
        }
        self.ended = ended;
        self.take_waiting(now);
        if !was_idle && self.is_idle() {
            self.account.end_busy(now.0);
        }
    }
}

impl DeviceModel for MultiActuatorHdd {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} is not on a drive of {}", self.capacity);
        if self.is_idle() {
            self.account.begin_busy(now.0);
        }
        self.waiting.push_back((token, command));
        self.take_waiting(now);
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.actuators.iter().filter_map(DeviceModel::next_event).min()
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        while let Some(event) = self.next_event().filter(|&event| event <= now) {
            self.step(event, finished);
        }
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        let of_each: Vec<DeviceStatistics> = self.actuators.iter().map(|actuator| actuator.statistics(now)).collect();
        let mut all = self.account.counters_at(now, self.is_idle());
        all.energy_joules = of_each.iter().map(|one| one.energy_joules).sum();
        let hdd = of_each.iter().filter_map(|one| one.hdd);
        all.hdd = Some(hdd.fold(HddStatistics::default(), |sum, one| HddStatistics {
            seeks: sum.seeks + one.seeks,
            head_time: sum.head_time + one.head_time,
            spin_downs: sum.spin_downs + one.spin_downs,
            spin_ups: sum.spin_ups + one.spin_ups,
            cache_read_hits: sum.cache_read_hits + one.cache_read_hits,
            cached_writes: sum.cached_writes + one.cached_writes,
            destages: sum.destages + one.destages,
            read_modify_writes: sum.read_modify_writes + one.read_modify_writes,
            ..sum
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use proptest::prelude::*;

    const KIB: u64 = 2;

    fn profile(actuators: u32) -> (HddProfile, Sectors) {
        let profile = Profile::load("seagate-exos-x18-18tb").expect("a built-in profile");
        let figures = profile.hdd().expect("a disk").clone();
        (HddProfile { actuators, ..figures }, profile.capacity)
    }

    /// Plays reads of 4 KiB, `depth` at a time, at addresses below `below`. Returns the seconds
    /// that the reads take.
    fn seconds_of_reads(drive: &mut dyn DeviceModel, below: u64, depth: u64, count: u64) -> f64 {
        let (mut now, mut finished, mut sent, mut random) = (Nanoseconds::ZERO, Vec::new(), 0, 1_u64);
        let mut done = 0;
        while done < count {
            while sent < count && sent - done < depth {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let start = (random >> 20) % (below / 8) * 8;
                let command = Command { kind: OpKind::Read, range: SectorRange::new(start, 4 * KIB), fua: false };
                drive.submit(now, Token(sent), command);
                sent += 1;
            }
            now = drive.next_event().expect("commands are under way");
            drive.advance(now, &mut finished);
            done += finished.drain(..).count() as u64;
        }
        now.as_seconds_f64()
    }

    /// Of 16 reads, each arm chooses among half of them, so it seeks farther than one arm with all
    /// 16. The data sheets have 170 reads a second for one arm (Exos X18) and 304 for two (Exos
    ///     2X18). The models have 173 reads a second for one arm and 274 for two.
    #[test]
    fn two_actuators_serve_many_more_random_reads() {
        let (two, capacity) = profile(2);
        let mut drive = MultiActuatorHdd::new(&two, capacity, capacity).unwrap();
        let one = Hdd::new(&profile(1).0, capacity, capacity);
        let of_one = seconds_of_reads(&mut one.unwrap(), capacity.0, 16, 4000);
        let of_two = seconds_of_reads(&mut drive, capacity.0, 16, 4000);
        let gain = of_one / of_two;
        assert!((1.5..2.0).contains(&gain), "{gain}");
        let statistics = drive.statistics(Nanoseconds::from_seconds_f64(of_two));
        assert_eq!(statistics.reads, 4000);
        let head_time = statistics.hdd.unwrap().head_time.as_seconds_f64() / of_two;
        assert!((1.8..=2.0).contains(&head_time), "both arms are at work: {head_time}");
        assert!(statistics.busy.as_seconds_f64() <= of_two && statistics.busy.as_seconds_f64() > 0.99 * of_two);
    }

    /// A workload on the first half of the addresses uses one actuator.
    #[test]
    fn half_of_the_addresses_is_on_one_actuator() {
        let (two, capacity) = profile(2);
        let below = capacity.0 / 2;
        let of_half = seconds_of_reads(&mut MultiActuatorHdd::new(&two, capacity, capacity).unwrap(), below, 8, 2000);
        let mut one = Hdd::new(&MultiActuatorHdd::of_one(&two), Sectors(below), Sectors(below)).unwrap();
        let of_one = seconds_of_reads(&mut one, below, 8, 2000);
        assert!((of_half / of_one - 1.0).abs() < 1e-9, "{of_half} s and {of_one} s");
    }

    /// An early model divided the buffer between the actuators. Regression: with this model, writes
    /// to half of the addresses took as long as on a drive with half of the buffer.
    #[test]
    fn writes_to_one_actuator_have_the_whole_buffer() {
        let (two, capacity) = profile(2);
        let mut drive = MultiActuatorHdd::new(&two, capacity, capacity).unwrap();
        let room = two.buffer_shares().1.0;
        let (mut now, mut finished) = (Nanoseconds::ZERO, Vec::new());
        let count = room / 1024;
        for number in 0..count {
            let range = SectorRange::new(number * 1_000_000, 1024);
            drive.submit(now, Token(number), Command { kind: OpKind::Write, range, fua: false });
            while finished.len() as u64 <= number {
                now = drive.next_event().expect("a write is under way");
                drive.advance(now, &mut finished);
            }
        }
        let rate = room as f64 * 512.0 / 1e6 / now.as_seconds_f64();
        assert!(rate > 0.9 * two.bus_mb_per_s, "{rate} MB/s to the buffer");
        assert_eq!(drive.statistics(now).hdd.unwrap().cached_writes, count);
    }

    /// One actuator has filled the buffer. A write of the other actuator has no room until the
    /// actuator that filled the buffer has written a part of it out.
    #[test]
    fn write_gets_the_room_that_the_other_actuator_frees() {
        let (two, capacity) = profile(2);
        let two = HddProfile { read_segments: 2, cache: Size(Bytes::from_kib(4096 + 128)), ..two };
        let mut drive = MultiActuatorHdd::new(&two, capacity, capacity).unwrap();
        let mut finished = Vec::new();
        for number in 0..9 {
            let half = if number < 8 { 0 } else { capacity.0 / 2 };
            let range = SectorRange::new(half + number * 1_000_000, 64);
            drive.submit(Nanoseconds::ZERO, Token(number), Command { kind: OpKind::Write, range, fua: false });
        }
        let mut ends = HashMap::new();
        while ends.len() < 9 {
            drive.advance(drive.next_event().expect("a write is under way"), &mut finished);
            ends.extend(finished.drain(..).map(|end| (end.token.0, end.at.as_seconds_f64())));
        }
        let within_ms = |number: u64, ms: f64| ends[&number] < ms / 1e3;
        assert!(within_ms(3, 1.0) && !within_ms(4, 1.0), "four writes fill the buffer: {ends:?}");
        assert!(!within_ms(8, 1.0) && within_ms(8, 100.0), "{ends:?}");
    }

    /// An arm with a queue of reads that never ends did not write the buffer out, so a write of the
    /// other arm waited as long as the reads lasted.
    #[test]
    fn write_does_not_starve_behind_reads_of_the_other_actuator() {
        let (two, capacity) = profile(2);
        let two = HddProfile { read_segments: 2, cache: Size(Bytes::from_kib(4096 + 128)), ..two };
        let mut drive = MultiActuatorHdd::new(&two, capacity, capacity).unwrap();
        let (mut now, mut finished, mut sent) = (Nanoseconds::ZERO, Vec::new(), 0);
        let mut send = |drive: &mut MultiActuatorHdd, now, kind, start, sectors| {
            let command = Command { kind, range: SectorRange::new(start, sectors), fua: false };
            drive.submit(now, Token(sent), command);
            sent += 1;
            Token(sent - 1)
        };
        let read_at = |number: u64| number * 7_777_777 % (capacity.0 / 2 - 8);
        (0..4).for_each(|number| _ = send(&mut drive, now, OpKind::Read, read_at(number), 8));
        (0..4).for_each(|number| _ = send(&mut drive, now, OpKind::Write, number * 1_000_000, 64));
        let write = send(&mut drive, now, OpKind::Write, capacity.0 / 2, 64);
        let mut number = 4;
        while !finished.iter().any(|end: &Finished| end.token == write) {
            let before = finished.len();
            now = drive.next_event().expect("reads are under way");
            drive.advance(now, &mut finished);
            let reads = finished[before..].iter().filter(|end| !(4..9).contains(&end.token.0)).count();
            for _ in 0..reads {
                number += 1;
                send(&mut drive, now, OpKind::Read, read_at(number), 8);
            }
            assert!(now < Nanoseconds::from_seconds(1), "the write waits behind {number} reads");
        }
    }

    #[test]
    fn every_physical_sector_is_on_one_actuator() {
        let (two, _) = profile(2);
        let own = Sectors(1_000_000_001 * 8);
        let drive = MultiActuatorHdd::new(&two, own, own).unwrap();
        assert_eq!(drive.share.0 % 8, 0);
        assert!(drive.actuators.iter().all(|one| one.capacity() == drive.share) && drive.share.0 * 2 >= own.0);
    }

    #[test]
    fn idle_power_is_that_of_one_drive() {
        let (two, capacity) = profile(2);
        let hour = Nanoseconds::from_seconds(3600);
        let joules = |drive: &dyn DeviceModel| drive.statistics(hour).energy_joules.unwrap();
        let of_two = joules(&MultiActuatorHdd::new(&two, capacity, capacity).unwrap());
        assert!((of_two - joules(&Hdd::new(&two, capacity, capacity).unwrap())).abs() < 1e-6, "{of_two} J");
    }

    proptest! {
        /// Each command finishes once, also one across the border, and not before it arrived.
        #[test]
        fn every_command_finishes_once(
            commands in proptest::collection::vec((0..4_u8, 0..1_000_u64, 0..64_u64, 0..20_000_000_u64), 1..60),
        ) {
            let (two, own) = profile(2);
            // Four of the largest writes fill the buffer.
            let two = HddProfile { read_segments: 2, cache: Size(Bytes::from_kib(4096 + 128)), queue_depth: 8, ..two };
            let mut drive = MultiActuatorHdd::new(&two, own, own).unwrap();
            let border = own.0 / 2 - 500;
            let (mut now, mut finished, mut sent) = (Nanoseconds::ZERO, Vec::new(), HashMap::new());
            for (number, (kind, start, sectors, gap)) in (0..).zip(commands) {
                now += Nanoseconds(gap);
                drive.advance(now, &mut finished);
                let kind = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard][usize::from(kind)];
                let sectors = if kind == OpKind::Flush { 0 } else { sectors.max(1) };
                let range = SectorRange::new(border + start, sectors);
                drive.submit(now, Token(number), Command { kind, range, fua: number % 3 == 0 });
                sent.insert(Token(number), now);
                prop_assert!(drive.actuators.iter().map(Hdd::cached_sectors).sum::<u64>() <= 256);
            }
            while let Some(event) = drive.next_event() {
                drive.advance(event, &mut finished);
                prop_assert!(drive.actuators.iter().map(Hdd::cached_sectors).sum::<u64>() <= 256);
                now = event;
            }
            prop_assert!(finished.is_sorted_by_key(|end| end.at));
            for end in &finished {
                let arrival = sent.remove(&end.token);
                prop_assert!(arrival.is_some_and(|arrival| arrival <= end.at), "{end:?}");
            }
            prop_assert!(sent.is_empty() && drive.is_idle());
            prop_assert!(drive.statistics(now).busy <= now);
        }
    }
}
