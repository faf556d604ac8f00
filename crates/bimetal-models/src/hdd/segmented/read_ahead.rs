//! Read-ahead: position of the heads, and the time at which the arm is free.

use super::super::controller::ReadAheadMode;
use super::super::mechanics::{Mechanics, Sweep};
use super::buffer::Segments;

/// Read-ahead under way over the sectors after a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    /// Segment that takes the sectors.
    pub(super) segment: usize,
    pub(super) sweep: Sweep,
    /// Sector before which the read-ahead stops.
    pub(super) limit: u64,
}

impl ReadAhead {
    /// Moves the read-ahead to its position at `now_ns`.
    pub(super) fn progress(&mut self, now_ns: u64, segments: &mut Segments, mechanics: &mut Mechanics) {
        mechanics.run(&mut self.sweep, self.limit, now_ns);
        segments.extend(self.segment, self.sweep.lbn);
    }

    /// Returns the time at which the arm is free, if another command needs the arm at `now_ns`. A
    /// movement that has begun is completed, and the present sector is completed, too, unless the
    /// drive `stops_in_sector`.
    pub(super) fn stopped_ns(&mut self, now_ns: u64, stops_in_sector: bool, mechanics: &mut Mechanics) -> u64 {
        if self.sweep.lbn >= self.limit || self.sweep.at_ns > now_ns {
            return now_ns;
        }
        mechanics.interrupt(&mut self.sweep, now_ns, stops_in_sector)
    }
}

/// Rule for the length of read-ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) mode: ReadAheadMode,
    /// Largest number of sectors to read ahead.
    pub(super) most: u64,
    /// Smallest number of sectors to read ahead.
    pub(super) least: u64,
    /// First sector after the drive.
    pub(super) drive_end: u64,
}

impl Rule {
    /// Returns the sector before which read-ahead stops after a read that ends before `end`, with
    /// a segment that holds sectors from `segment_start` on.
    pub(super) fn limit(&self, end: u64, segment_start: u64, mechanics: &Mechanics) -> u64 {
        if end >= self.drive_end {
            return self.drive_end;
        }
        let layout = mechanics.layout();
        let bounds = |lbn: u64| layout.track_bounds(&layout.place(lbn), lbn);
        let limit = match self.mode {
            ReadAheadMode::None => end,
            ReadAheadMode::Segment => end + self.most,
            ReadAheadMode::Track => (end + self.most).min(bounds(end - 1).1),
            ReadAheadMode::Cylinder => (end + self.most).min(self.cylinder_end(end - 1, mechanics)),
            ReadAheadMode::NextTrack => {
                let (first, last) = bounds(end);
                if segment_start < first { last + self.track_length(last, mechanics) } else { last }
            }
        };
        limit.max(end + self.least).min(self.drive_end)
    }

    fn track_length(&self, lbn: u64, mechanics: &Mechanics) -> u64 {
        if lbn >= self.drive_end {
            return 0;
        }
        let layout = mechanics.layout();
        let (first, last) = layout.track_bounds(&layout.place(lbn), lbn);
        last - first
    }

    /// Returns the first address after the cylinder of `lbn`.
    fn cylinder_end(&self, lbn: u64, mechanics: &Mechanics) -> u64 {
        let layout = mechanics.layout();
        let cylinder = layout.place(lbn).cylinder;
        let mut end = lbn + 1;
        while end < self.drive_end && layout.place(end).cylinder == cylinder {
            end = layout.track_bounds(&layout.place(end), end).1.max(end + 1);
        }
        end
    }
}
