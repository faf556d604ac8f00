//! Segments of the buffer: their content, and the choice of a segment for a command.

/// Segment of the buffer, which holds consecutive sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    /// First sector held.
    pub(super) start: u64,
    /// First sector after the sectors that the segment holds. An empty segment has `end` equal to
    /// `start`.
    pub(super) end: u64,
    /// Set if a write left the sectors in this segment.
    pub(super) written: bool,
    /// Time of the last use: a larger number is later.
    last_used: u64,
}

impl Segment {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// Result of a look-up for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hit {
    /// Number of the segment that holds the whole read.
    Whole(usize),
    /// Number of the segment that holds the start of the read.
    Part(usize),
    /// No segment holds the start of the read.
    None,
}

/// All segments of the buffer.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    /// Number of sectors that a segment holds.
    pub(super) size: u64,
    /// Set if the last segment is for writes alone.
    separate: bool,
    uses: u64,
}

impl Segments {
    pub(super) fn new(count: usize, size: u64, separate: bool) -> Self {
        Self { segments: vec![Segment::default(); count], size, separate, uses: 0 }
    }

    pub(super) fn get(&self, index: usize) -> &Segment {
        &self.segments[index]
    }

    /// Returns the number of segments for reads, which are the first segments.
    fn for_reads(&self) -> usize {
        self.segments.len() - usize::from(self.separate)
    }

    /// Marks a segment as used last.
    pub(super) fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.segments[index].last_used = self.uses;
    }

    /// Returns true if a segment was used last.
    pub(super) fn is_last_used(&self, index: usize) -> bool {
        self.uses > 0 && self.segments[index].last_used == self.uses
    }

    /// Looks up the sectors from `start` to before `end`, for a read.
    pub(super) fn find(&self, start: u64, end: u64, hits_on_writes: bool) -> Hit {
        let mut best = Hit::None;
        for (index, segment) in self.segments[..self.for_reads()].iter().enumerate() {
            if !(segment.start..segment.end).contains(&start) || (segment.written && !hits_on_writes) {
                continue;
            }
            if end <= segment.end {
                return Hit::Whole(index);
            }
            best = Hit::Part(index);
        }
        best
    }

    /// Returns the segment for a read that the buffer does not hold: an empty segment, or otherwise
    /// the least recently used segment. The segment `busy` is in use until its read is done, so
    /// `busy` is chosen only if no other segment is left.
    pub(super) fn for_read(&self, busy: Option<usize>) -> usize {
        self.least_used(0..self.for_reads(), busy)
    }

    /// Returns the segment for a write from `start` to before `end`: the segment for writes, or a
    /// segment whose content the write replaces, or otherwise a segment chosen as for a read.
    pub(super) fn for_write(&self, start: u64, end: u64, busy: Option<usize>) -> usize {
        let all = 0..self.segments.len();
        if self.separate {
            return all.end - 1;
        }
        let replaced = all.clone().find(|&index| Some(index) != busy && self.segments[index].overlaps(start, end));
        replaced.unwrap_or_else(|| self.least_used(all, busy))
    }

    fn least_used(&self, among: std::ops::Range<usize>, busy: Option<usize>) -> usize {
        let rank = |&index: &usize| {
            let segment = &self.segments[index];
            (Some(index) == busy, segment.start != segment.end, segment.last_used)
        };
        among.min_by_key(rank).expect("a buffer has a segment")
    }

    /// Gives a segment new content, which starts empty at `start`.
    pub(super) fn reset(&mut self, index: usize, start: u64, written: bool) {
        let segment = &mut self.segments[index];
        (segment.start, segment.end, segment.written) = (start, start, written);
        self.touch(index);
    }

    /// Extends a segment to the sectors up to `end`. The first sectors of a full segment are
    /// dropped.
    pub(super) fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    /// Extends a segment to the sectors from `start` on, as far as it has room.
    pub(super) fn extend_front(&mut self, index: usize, start: u64) {
        let segment = &mut self.segments[index];
        segment.start = segment.start.min(start).max(segment.end.saturating_sub(self.size));
    }

    /// Empties a segment.
    pub(super) fn clear(&mut self, index: usize) {
        self.segments[index].end = self.segments[index].start;
    }

    /// Empties every segment but `kept` that holds any of the sectors from `start` to before `end`.
    pub(super) fn invalidate(&mut self, start: u64, end: u64, kept: usize) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if index != kept && segment.overlaps(start, end) {
                segment.end = segment.start;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(separate: bool) -> Segments {
        let mut segments = Segments::new(3, 100, separate);
        for (index, start) in [(0, 1000), (1, 2000), (2, 3000)] {
            segments.reset(index, start, index == 2);
            segments.extend(index, start + 50);
        }
        segments
    }

    #[test]
    fn a_read_finds_what_is_held_and_may_see_what_was_written() {
        let segments = filled(false);
        assert_eq!(segments.find(2000, 2050, false), Hit::Whole(1));
        assert_eq!(segments.find(2049, 2051, false), Hit::Part(1));
        assert_eq!(segments.find(2050, 2051, false), Hit::None);
        assert_eq!(segments.find(3000, 3010, false), Hit::None);
        assert_eq!(segments.find(3000, 3010, true), Hit::Whole(2));
    }

    /// A new stream gets an empty segment, or otherwise the segment that was used longest ago.
    #[test]
    fn new_stream_gets_an_empty_or_least_recent_segment() {
        let mut segments = filled(true);
        assert_eq!(segments.for_read(None), 0);
        assert_eq!(segments.for_read(Some(0)), 1);
        segments.touch(0);
        assert_eq!(segments.for_read(None), 1);
        segments.clear(0);
        assert_eq!(segments.for_read(None), 0);
        assert_eq!(segments.for_write(1000, 1001, None), 2);
        assert_eq!(filled(false).for_write(2049, 2060, None), 1);
    }

    #[test]
    fn a_full_segment_drops_its_first_sectors() {
        let mut segments = filled(false);
        segments.extend(0, 1130);
        assert_eq!((segments.get(0).start, segments.get(0).end), (1030, 1130));
        segments.extend_front(1, 1900);
        assert_eq!(segments.get(1).start, 1950);
        segments.invalidate(1100, 1101, 2);
        assert_eq!(segments.find(1100, 1101, true), Hit::None);
    }
}
