//! Part of the buffer that keeps sectors that were read, and sectors that the drive reads ahead.

use super::mechanics::{Mechanics, Sweep};

/// Sectors of one stream of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    last_used: u64,
}

/// Read-ahead under way: the heads run on over the sectors after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReadAhead {
    segment: usize,
    sweep: Sweep,
    /// Sector at which the read-ahead stops.
    limit: u64,
}

/// Result of a look-up for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The buffer holds the whole read.
    Hit,
    /// The buffer holds the start of the read, and the read-ahead under way will reach the other
    /// sectors of the read.
    Coming,
    /// The buffer holds no part of the read.
    Miss,
}

/// Read segments, and the read-ahead.
#[derive(Clone, Debug)]
pub struct ReadBuffer {
    segments: Vec<Segment>,
    /// Number of sectors that a segment holds.
    segment_sectors: u64,
    /// First sector after the drive, where read-ahead ends at the latest.
    drive_end: u64,
    ahead: Option<ReadAhead>,
    uses: u64,
}

impl ReadBuffer {
    /// Creates `segments` empty segments of `segment_sectors` sectors, on a drive of `drive_end`
    /// sectors.
    pub fn new(segments: u32, segment_sectors: u64, drive_end: u64) -> Self {
        let segments = if segment_sectors == 0 { 0 } else { segments as usize };
        Self { segments: vec![Segment::default(); segments], segment_sectors, drive_end, ahead: None, uses: 0 }
    }

    /// Looks up the sectors from `start` to before `end` at `now_ns`.
    pub fn look_up(&mut self, start: u64, end: u64, now_ns: u64, mechanics: &mut Mechanics) -> Lookup {
        if let Some(ahead) = self.ahead
            && (self.segments[ahead.segment].start..ahead.limit).contains(&start)
        {
            self.progress(now_ns, mechanics);
            let coming = !self.holds(ahead.segment, start, end);
            self.touch(ahead.segment);
            return if coming { Lookup::Coming } else { Lookup::Hit };
        }
        match (0..self.segments.len()).find(|&segment| self.holds(segment, start, end)) {
            Some(segment) => {
                self.touch(segment);
                Lookup::Hit
            }
            None => Lookup::Miss,
        }
    }

    fn holds(&self, segment: usize, start: u64, end: u64) -> bool {
        self.segments[segment].start <= start && end <= self.segments[segment].end
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].last_used = self.uses;
    }

    /// Returns true if a segment holds `sector`, as far as the read-ahead was last moved.
    pub fn contains(&self, sector: u64) -> bool {
        (0..self.segments.len()).any(|segment| self.holds(segment, sector, sector + 1))
    }

    /// Moves the read-ahead to its position at `now_ns`.
    pub fn progress(&mut self, now_ns: u64, mechanics: &mut Mechanics) {
        let Some(ahead) = &mut self.ahead else { return };
        mechanics.run(&mut ahead.sweep, ahead.limit, now_ns);
        // A sweep that serves a read is in the future until that read has finished.
        if ahead.sweep.at_ns <= now_ns {
            let segment = &mut self.segments[ahead.segment];
            segment.end = segment.end.max(ahead.sweep.lbn);
            segment.start = segment.start.max(segment.end.saturating_sub(self.segment_sectors));
        }
    }

    /// Extends the read-ahead after a hit that ended at `end`. A read-ahead that had stopped,
    /// because its segment was full, starts again at the sector where it stopped, once that sector
    /// passes.
    pub fn extend(&mut self, end: u64, now_ns: u64, mechanics: &mut Mechanics) {
        let Some(ahead) = &mut self.ahead else { return };
        let limit = (end + self.segment_sectors / 2).min(self.drive_end);
        if !(self.segments[ahead.segment].start..=ahead.limit).contains(&end) || limit <= ahead.limit {
            return;
        }
        if ahead.sweep.lbn == ahead.limit && ahead.sweep.at_ns < now_ns {
            ahead.sweep = mechanics.position(now_ns, ahead.limit, false);
        }
        ahead.limit = limit;
    }

    /// Extends the read-ahead to serve a read up to `end`, with the arm free from `now_ns` on.
    /// Returns the time at which the last sector has passed.
    pub fn follow(&mut self, end: u64, now_ns: u64, mechanics: &mut Mechanics) -> u64 {
        let ahead = self.ahead.as_mut().expect("only a read whose sectors are coming follows the read-ahead");
        if ahead.sweep.lbn == ahead.limit && ahead.sweep.at_ns < now_ns && ahead.limit < end {
            ahead.sweep = mechanics.position(now_ns, ahead.limit, false);
        }
        mechanics.run_to(&mut ahead.sweep, end);
        ahead.limit = (end + self.segment_sectors / 2).min(self.drive_end).max(ahead.limit);
        ahead.sweep.at_ns
    }

    /// Stops the read-ahead, because the arm is needed at another place from `now_ns` on.
    pub fn stop(&mut self, now_ns: u64, mechanics: &mut Mechanics) {
        if self.ahead.is_some() {
            self.progress(now_ns, mechanics);
            self.ahead = None;
        }
    }

    /// Begins read-ahead after a read from `start` on, at whose end the heads are at `sweep`.
    pub fn begin(&mut self, start: u64, sweep: Sweep) {
        let Some(segment) = (0..self.segments.len()).min_by_key(|&index| self.segments[index].last_used) else {
            return;
        };
        // The segment fills up. For a stream that continues, the last half stays behind the reads.
        let limit = (start + self.segment_sectors).max(sweep.lbn + self.segment_sectors / 2).min(self.drive_end);
        let start = start.max(sweep.lbn.saturating_sub(self.segment_sectors));
        self.segments[segment] = Segment { start, end: start, last_used: 0 };
        self.touch(segment);
        self.ahead = Some(ReadAhead { segment, sweep, limit });
    }

    /// Drops the sectors from `start` to before `end`, which are written. Each segment keeps the
    /// sectors in front of the written sectors.
    pub fn invalidate(&mut self, start: u64, end: u64, now_ns: u64, mechanics: &mut Mechanics) {
        if let Some(ahead) = self.ahead
            && start < ahead.limit
            && end > self.segments[ahead.segment].start
        {
            self.stop(now_ns, mechanics);
        }
        for segment in &mut self.segments {
            if start < segment.end && end > segment.start {
                segment.end = start.max(segment.start);
            }
        }
    }
}
