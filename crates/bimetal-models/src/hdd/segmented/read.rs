//! Reads: from the buffer, from the read-ahead under way, or from the medium.

use super::super::mechanics::Sweep;
use super::SegmentedHdd;
use super::buffer::Hit;
use super::read_ahead::ReadAhead;

/// Sectors that come off the medium consecutively.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Time at which the first sector begins to pass.
    start_ns: u64,
    sectors: u64,
    sector_ns: u64,
}

impl SegmentedHdd {
    /// Serves a read of the sectors from `start` to before `end`, which arrives at `now_ns`.
    pub(super) fn read(&mut self, now_ns: u64, start: u64, end: u64) -> u64 {
        if let Some(mut ahead) = self.ahead.take() {
            ahead.progress(now_ns, &mut self.segments, &mut self.mechanics);
            self.ahead = Some(ahead);
        }
        let written_ns = self.behind.map_or(0, |behind| behind.until_ns);
        let hit = match self.habits.caches {
            true => self.segments.find(start, end, self.habits.read_hits_on_writes),
            false => Hit::None,
        };
        let seek_from_ns = now_ns + self.electronics.read_miss_ns();
        // While a write is on its way to the medium, no read is served, and the drive leaves the
        // bus.
        let bus_from_ns = if written_ns > now_ns {
            let left_ns = seek_from_ns + self.electronics.read_disconnect_ns();
            left_ns.max(written_ns) + self.electronics.first_reselect_ns
        } else {
            now_ns + self.electronics.read_hit_ns()
        } + self.electronics.data_preparation_ns;
        let finish_ns = match hit {
            Hit::Whole(segment) => {
                self.account.hdd.cache_read_hits += 1;
                self.segments.touch(segment);
                self.read_on_after_hit(segment, end, now_ns, seek_from_ns.max(written_ns));
                bus_from_ns + self.electronics.read_bus_ns(end - start)
            }
            Hit::Part(segment) => {
                self.read_rest(segment, start, end, now_ns, bus_from_ns, seek_from_ns.max(written_ns))
            }
            Hit::None => self.read_miss(start, end, now_ns, seek_from_ns.max(written_ns)),
        };
        if self.behind.is_some() && finish_ns > written_ns {
            self.end_write_behind();
        }
        finish_ns + self.electronics.read_completion_ns
    }

    /// Continues the read-ahead of the segment that served a read; a read-ahead of another segment
    /// stops.
    fn read_on_after_hit(&mut self, segment: usize, end: u64, now_ns: u64, seek_from_ns: u64) {
        let limit = self.ahead_rule.limit(end, self.segments.get(segment).start, &self.mechanics);
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.segment == segment) {
            let done = ahead.sweep.lbn >= ahead.limit;
            ahead.limit = ahead.limit.max(limit);
            if !done {
                return;
            }
        }
        let stopped_ns = self.stop_ahead(now_ns);
        let held_end = self.segments.get(segment).end;
        if self.habits.read_ahead_after_hit && held_end < limit && !self.segments.get(segment).written {
            let from_ns = self.power.ready_at_ns(seek_from_ns.max(stopped_ns));
            let sweep = self.mechanics.position(from_ns, held_end, false);
            self.ahead = Some(ReadAhead { segment, sweep, limit });
        }
    }

    /// Serves a read whose start is in a segment: the other sectors are being read ahead, or are
    /// fetched.
    fn read_rest(
        &mut self,
        segment: usize,
        start: u64,
        end: u64,
        now_ns: u64,
        bus_from_ns: u64,
        seek_from_ns: u64,
    ) -> u64 {
        self.account.hdd.cache_read_hits += 1;
        self.segments.touch(segment);
        let held_end = self.segments.get(segment).end;
        let under_way = self.ahead.take_if(|ahead| ahead.segment == segment && ahead.sweep.lbn < ahead.limit);
        let sweep = match under_way {
            Some(ahead) => ahead.sweep,
            None => {
                let from_ns = self.stop_ahead(now_ns).max(seek_from_ns);
                let from_ns = self.power.ready_at_ns(from_ns);
                self.mechanics.position(from_ns, held_end, false)
            }
        };
        let bus_ns = bus_from_ns + self.electronics.read_bus_ns(held_end - start);
        self.transfer(segment, (seek_from_ns, sweep), 0, end, bus_ns)
    }

    fn read_miss(&mut self, start: u64, end: u64, now_ns: u64, seek_from_ns: u64) -> u64 {
        let busy = self.behind.map(|behind| behind.segment);
        let from_ns = self.stop_ahead(now_ns).max(seek_from_ns);
        let from_ns = self.power.ready_at_ns(from_ns);
        let segment = self.segments.for_read(busy);
        let over_track_ns = from_ns + self.mechanics.arm_ns(start, false);
        let (sweep, early) = match self.habits.zero_latency_read {
            true => self.mechanics.position_anywhere(from_ns, start, end, false),
            false => (self.mechanics.position(from_ns, start, false), 0),
        };
        self.segments.reset(segment, start, false);
        if self.habits.keeps_free_sectors {
            let place = self.mechanics.layout().place(start);
            let first = self.mechanics.layout().track_bounds(&place, start).0;
            let passed = self.mechanics.passed_before(&sweep, over_track_ns);
            self.segments.extend_front(segment, start.saturating_sub(passed).max(first));
        }
        let bus_from_ns = match self.habits.never_disconnects {
            true => seek_from_ns + self.electronics.data_preparation_ns,
            false => {
                self.watermark_ns(sweep, early, start, end)
                    + self.electronics.first_reselect_ns
                    + self.electronics.data_preparation_ns
            }
        };
        self.transfer(segment, (from_ns, sweep), early, end, bus_from_ns)
    }

    /// Returns the time at which enough of a read is in the buffer for the drive to take the bus.
    fn watermark_ns(&mut self, sweep: Sweep, early: u64, start: u64, end: u64) -> u64 {
        let wanted = (end - start).min(self.segments.size);
        let wanted = ((wanted as f64 * self.habits.read_watermark) as u64).max(1);
        let mut sweep = sweep;
        // Early sectors are in the buffer already, but the host waits for the first of the others.
        let sectors = wanted.min((end - start - early).max(1));
        self.mechanics.passing_ns(&mut sweep, start + sectors)
    }

    /// Transfers the sectors up to `end` from the medium over the bus, which is free from `bus_ns`
    /// on. The last `early` of the sectors on the track have passed before. Returns the time at
    /// which the last sector has crossed the bus, and begins read-ahead. The arm works for the read
    /// from `arm_ns` on.
    fn transfer(
        &mut self,
        segment: usize,
        (arm_ns, mut sweep): (u64, Sweep),
        mut early: u64,
        end: u64,
        mut bus_ns: u64,
    ) -> u64 {
        let started_ns = sweep.at_ns;
        while sweep.lbn < end {
            let sector_ns = self.mechanics.sector_ns(&sweep);
            let (start_ns, sectors) = self.mechanics.run_piece(&mut sweep, end);
            let sector_ns = if sectors > 0 { self.mechanics.sector_ns(&sweep) } else { sector_ns };
            let waited = sectors - early.min(sectors - 1);
            bus_ns = self.cross(Piece { start_ns, sectors: waited, sector_ns }, bus_ns);
            bus_ns += self.electronics.read_bus_ns(sectors - waited);
            early = 0;
        }
        self.use_arm(arm_ns, sweep.at_ns);
        self.power.add_service_ns(bus_ns.saturating_sub(started_ns));
        self.segments.extend(segment, end);
        let limit = self.ahead_rule.limit(end, self.segments.get(segment).start, &self.mechanics);
        self.ahead = Some(ReadAhead { segment, sweep, limit });
        bus_ns
    }

    /// Returns the time at which a piece has crossed the bus. A sector crosses once it has passed
    /// and the previous sectors have crossed.
    fn cross(&self, piece: Piece, bus_ns: u64) -> u64 {
        let all_ns = self.electronics.read_bus_ns(piece.sectors);
        let last_passed_ns = piece.start_ns + piece.sectors * piece.sector_ns;
        let behind_first_ns = piece.start_ns + piece.sector_ns + all_ns;
        let behind_last_ns = last_passed_ns + self.electronics.read_bus_ns(1);
        (bus_ns + all_ns).max(behind_first_ns).max(behind_last_ns)
    }
}
