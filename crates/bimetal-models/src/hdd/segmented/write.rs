//! Writes: over the bus into the buffer, and from the buffer to the medium.

use bimetal_core::operation::OpKind;

use super::super::pending::Pending;
use super::{SegmentedHdd, WriteBehind};

/// Arrival of a write's data over the bus.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Time at which the first sector begins to cross.
    from_ns: u64,
    /// First sector of the write.
    start: u64,
    /// Nanoseconds that a sector takes; 0 if no data crosses.
    nanoseconds_each: f64,
}

impl Arrival {
    /// Returns the time at which the sectors before `lbn` are in the buffer.
    fn before_ns(&self, lbn: u64) -> u64 {
        self.from_ns + ((lbn - self.start) as f64 * self.nanoseconds_each) as u64
    }
}

impl SegmentedHdd {
    /// Serves a write that arrives at `now_ns`.
    pub(super) fn write(&mut self, now_ns: u64, write: &Pending) -> u64 {
        let (start, end) = (write.start, write.end());
        let fast = !write.fua && self.habits.fast_writes.is_some() && end - start <= self.segments.size;
        let before = self.behind.filter(|behind| behind.until_ns > now_ns);
        let appends = self.habits.combines_writes && before.is_some_and(|behind| behind.end == start);
        let segment = match before {
            Some(behind) if appends => behind.segment,
            _ => self.segments.for_write(start, end, before.map(|behind| behind.segment)),
        };
        let free_ns = self.stop_ahead(now_ns).max(before.map_or(0, |behind| behind.until_ns));
        let last = *self.segments.get(segment);
        let follows = last.written && last.end == start;
        let extra = self
            .electronics
            .extra
            .filter(|_| before.is_none() && self.segments.is_last_used(segment) && last.written && !follows);
        let understood_ns = now_ns + self.electronics.write_ns(fast);
        let (bus_from_ns, seek_from_ns) = match extra {
            Some(extra) => {
                (now_ns + extra.until_reselect_ns + self.electronics.first_reselect_ns, now_ns + extra.until_seek_ns)
            }
            // No segment is free until its content is on the medium: the drive leaves the bus.
            None if before.is_some() && !appends => {
                let left_ns = understood_ns + if fast { self.electronics.write_disconnect_ns } else { 0 };
                (left_ns.max(free_ns) + self.electronics.first_reselect_ns, understood_ns)
            }
            None => (understood_ns, understood_ns),
        };
        if !appends {
            self.segments.reset(segment, start, true);
        }
        self.segments.touch(segment);
        self.segments.extend(segment, end);
        self.segments.invalidate(start, end, segment);
        let arrival = Arrival {
            from_ns: bus_from_ns + self.electronics.data_preparation_ns,
            start,
            nanoseconds_each: match write.kind {
                OpKind::WriteZeroes => 0.0,
                _ => self.electronics.write_bus_ns(1_000_000) as f64 / 1e6,
            },
        };
        let minimum_ns = if appends { 0 } else { self.electronics.minimum_write_seek_ns };
        let first_needs = if fast { start + 1 } else { self.before_first(start, end) };
        let written_ns = self.write_medium(seek_from_ns.max(free_ns), (start, end), first_needs, arrival, minimum_ns);
        self.behind = Some(WriteBehind { segment, end, until_ns: written_ns });
        let received_ns = arrival.before_ns(end);
        if fast {
            self.account.hdd.cached_writes += 1;
            return received_ns + self.electronics.write_completion_ns;
        }
        self.finish_on_medium(received_ns, written_ns, extra.is_some())
    }

    /// Returns the time at which the host knows of a write that is on the medium since
    /// `written_ns`.
    fn finish_on_medium(&mut self, received_ns: u64, written_ns: u64, extra: bool) -> u64 {
        self.end_write_behind();
        let completion_ns = self.electronics.write_completion_ns;
        if self.habits.never_disconnects {
            return written_ns.max(received_ns) + completion_ns;
        }
        let (disconnect_ns, reselect_ns) = match self.electronics.extra.filter(|_| extra) {
            Some(extra) => (extra.second_disconnect_ns, self.electronics.other_reselect_ns),
            None => (self.electronics.write_disconnect_ns, self.electronics.first_reselect_ns),
        };
        written_ns.max(received_ns + disconnect_ns) + reselect_ns + completion_ns
    }

    /// Writes the sectors from `start` to before `end`, with the arm free from `from_ns` on.
    /// Returns the time at which all sectors from `start` to `end` are written. A sector that has
    /// not arrived when its place passes waits for the next turn.
    fn write_medium(
        &mut self,
        from_ns: u64,
        (start, end): (u64, u64),
        first_needs: u64,
        arrival: Arrival,
        minimum_seek_ns: u64,
    ) -> u64 {
        let begin_ns = self.power.ready_at_ns(from_ns);
        let wait_ns = minimum_seek_ns.saturating_sub(self.mechanics.arm_ns(start, true));
        let mut at_ns = begin_ns + wait_ns;
        let mut lbn = start;
        while lbn < end {
            let needed = if lbn == start { first_needs } else { lbn + 1 };
            let (mut sweep, early) = match self.habits.zero_latency_write {
                true => self.mechanics.position_anywhere(at_ns, lbn, end, true),
                false => (self.mechanics.position(at_ns, lbn, true), 0),
            };
            let late_ns = arrival.before_ns(needed).saturating_sub(sweep.at_ns);
            if late_ns > 0 {
                at_ns = sweep.at_ns + late_ns;
                continue;
            }
            while sweep.lbn < end {
                let (start_ns, sectors) = self.mechanics.run_piece(&mut sweep, end);
                let first = sweep.lbn - sectors;
                let sector_ns = self.mechanics.sector_ns(&sweep) as f64;
                let on_time = (0..sectors).take_while(|sector| {
                    arrival.before_ns(first + sector + 1) <= start_ns + (*sector as f64 * sector_ns) as u64
                });
                let on_time = on_time.count() as u64;
                lbn = first + on_time;
                if on_time < sectors {
                    at_ns = (start_ns + (on_time as f64 * sector_ns) as u64 + 1).max(arrival.before_ns(lbn + 1));
                    break;
                }
                at_ns = sweep.at_ns;
            }
            if lbn == end {
                at_ns -= (early as f64 * self.mechanics.sector_ns(&sweep) as f64) as u64;
            }
        }
        self.use_arm(begin_ns, at_ns);
        self.power.add_service_ns(at_ns - begin_ns);
        at_ns
    }

    /// Returns the sector before which the data of a write must have arrived, so that its first
    /// sector can be written. Used for a write that finishes on the medium.
    fn before_first(&self, start: u64, end: u64) -> u64 {
        let sectors = end - start;
        match self.electronics.extra {
            // DiskSim's rule for the one drive with the additional disconnect, the HP C2247A.
            Some(_) if sectors < 45 => start + sectors.min(10),
            Some(_) => start + 15,
            None => start + ((sectors as f64 * self.habits.write_watermark).ceil() as u64).clamp(1, sectors),
        }
    }
}
