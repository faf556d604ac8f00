//! Reading on behind a read: where the heads are, and when the arm can be had.

use super::super::controller::ReadAheadMode;
use super::super::mechanics::{Mechanics, Sweep};
use super::buffer::Segments;

/// The heads run on over the sectors behind a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    /// The segment that takes them.
    pub(super) segment: usize,
    pub(super) sweep: Sweep,
    /// The sector before which it stops.
    pub(super) limit: u64,
}

impl ReadAhead {
    /// Lets it go on to where it is at `now_ns`.
    pub(super) fn progress(&mut self, now_ns: u64, segments: &mut Segments, mechanics: &mut Mechanics) {
        mechanics.run(&mut self.sweep, self.limit, now_ns);
        segments.extend(self.segment, self.sweep.lbn);
    }

    /// When the arm is free, if it is wanted at `now_ns`: a movement that has begun is finished, and so is a sector,
    /// unless the drive `stops_in_sector`.
    pub(super) fn stopped_ns(&mut self, now_ns: u64, stops_in_sector: bool, mechanics: &mut Mechanics) -> u64 {
        if self.sweep.lbn >= self.limit || self.sweep.at_ns > now_ns {
            return now_ns;
        }
        mechanics.interrupt(&mut self.sweep, now_ns, stops_in_sector)
    }
}

/// The rule by which a drive reads on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) mode: ReadAheadMode,
    /// Sectors at most.
    pub(super) most: u64,
    /// Sectors at least.
    pub(super) least: u64,
    /// The first sector behind the drive.
    pub(super) drive_end: u64,
}

impl Rule {
    /// Where the read-ahead stops behind a read that ends before `end`, with what its segment holds from
    /// `segment_start` on.
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

    /// The first address behind the cylinder of `lbn`.
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
