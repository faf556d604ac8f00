//! Sequential streams: requests each of which starts where another of the same direction ended.
//!
//! A table of the ends of the most recently continued streams, as bcache keeps one per task; here per direction, since
//! a block device does not know the task.

use crate::operation::OpKind;
use crate::units::{Bytes, SectorRange};

/// Streams followed at once.
const STREAMS: usize = 32;

#[derive(Clone, Copy)]
struct Stream {
    length_sectors: u64,
    continued: u64,
}

/// Follows streams.
pub struct Streams {
    /// Where each stream's next request would start; apart from the rest, so that a look-up is one short scan.
    ends: [u64; STREAMS],
    streams: [Stream; STREAMS],
    clock: u64,
}

impl Default for Streams {
    fn default() -> Self {
        let none = Stream { length_sectors: 0, continued: 0 };
        Self { ends: [u64::MAX; STREAMS], streams: [none; STREAMS], clock: 0 }
    }
}

/// An address that differs by direction: reads and writes of the same place are no stream.
fn end_key(kind: OpKind, sector: u64) -> u64 {
    sector << 1 | u64::from(kind == OpKind::Read)
}

impl Streams {
    /// Takes note of a request.
    pub fn note(&mut self, kind: OpKind, sectors: SectorRange) {
        self.clock += 1;
        let start = end_key(kind, sectors.start.0);
        let (at, length) = match self.ends.iter().position(|&end| end == start) {
            Some(at) => (at, self.streams[at].length_sectors),
            None => (self.oldest(), 0),
        };
        self.ends[at] = end_key(kind, sectors.end().0);
        self.streams[at] = Stream { length_sectors: length + sectors.len.0, continued: self.clock };
    }

    /// The length of the stream that a request noted before has ended or continued, itself included.
    pub fn length(&self, kind: OpKind, sectors: SectorRange) -> Bytes {
        let end = end_key(kind, sectors.end().0);
        let found = self.ends.iter().position(|&other| other == end);
        let length = found.map_or(sectors.len.0, |at| self.streams[at].length_sectors);
        crate::units::Sectors(length).bytes()
    }

    fn oldest(&self) -> usize {
        let ages = self.streams.iter().enumerate();
        ages.min_by_key(|(_, stream)| stream.continued).map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_grows_while_each_request_starts_where_the_last_one_ended() {
        let mut streams = Streams::default();
        for at in 0..10 {
            let sectors = SectorRange::new(1000 + at * 8, 8);
            streams.note(OpKind::Read, sectors);
            assert_eq!(streams.length(OpKind::Read, sectors), Bytes((at + 1) * 4096));
        }
        let elsewhere = SectorRange::new(5000, 8);
        streams.note(OpKind::Read, elsewhere);
        assert_eq!(streams.length(OpKind::Read, elsewhere), Bytes(4096));
    }

    #[test]
    fn a_write_does_not_continue_a_stream_of_reads() {
        let mut streams = Streams::default();
        streams.note(OpKind::Read, SectorRange::new(0, 8));
        streams.note(OpKind::Write, SectorRange::new(8, 8));
        assert_eq!(streams.length(OpKind::Write, SectorRange::new(8, 8)), Bytes(4096));
    }

    #[test]
    fn interleaved_streams_are_told_apart() {
        let mut streams = Streams::default();
        for at in 0..100 {
            for stream in 0..20 {
                streams.note(OpKind::Read, SectorRange::new(stream * 1_000_000 + at * 8, 8));
            }
        }
        assert_eq!(streams.length(OpKind::Read, SectorRange::new(99 * 8, 8)), Bytes(100 * 4096));
    }
}
