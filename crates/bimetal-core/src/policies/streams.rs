//! Sequential streams: requests, each of which starts at the end of an earlier request of the same
//! direction.
//!
//! A table of the ends of the most recently continued streams. bcache keeps one table for each
//! task. The table of this module tells directions apart instead, since a block device does not
//! know the task.

use crate::operation::OpKind;
use crate::units::{Bytes, SectorRange, Sectors};

/// Number of streams followed at once.
const STREAMS: usize = 32;

/// Streams, the most recently continued first.
pub struct Streams {
    /// Addresses at which each stream's next request would start. The addresses are kept apart from
    /// the lengths, so that a look-up is one short scan.
    ends: [u64; STREAMS],
    lengths: [Sectors; STREAMS],
}

impl Default for Streams {
    fn default() -> Self {
        Self { ends: [u64::MAX; STREAMS], lengths: [Sectors::ZERO; STREAMS] }
    }
}

/// Returns a key for an address and a direction, so that a read and a write at the same address
/// form no stream.
fn end_key(kind: OpKind, sector: u64) -> u64 {
    sector << 1 | u64::from(kind == OpKind::Read)
}

impl Streams {
    fn place(&self, end: u64) -> Option<usize> {
        self.ends.iter().position(|&other| other == end)
    }

    /// Notes a request: it continues a stream, or begins a stream in place of the stream continued
    /// longest ago.
    pub fn note(&mut self, kind: OpKind, sectors: SectorRange) {
        let continued = self.place(end_key(kind, sectors.start.0));
        let before = continued.map_or(Sectors::ZERO, |at| self.lengths[at]);
        let at = continued.unwrap_or(STREAMS - 1);
        self.ends.copy_within(..at, 1);
        self.lengths.copy_within(..at, 1);
        self.ends[0] = end_key(kind, sectors.end().0);
        self.lengths[0] = Sectors(before.0 + sectors.len.0);
    }

    /// Returns the length of the stream that a noted request began or continued, the request
    /// included. Of several streams with the same end, the newest counts.
    pub fn length(&self, kind: OpKind, sectors: SectorRange) -> Bytes {
        let found = self.place(end_key(kind, sectors.end().0));
        found.map_or(sectors.len, |at| self.lengths[at]).bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_grows_while_requests_are_adjacent() {
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

    #[test]
    fn a_request_that_ends_where_a_stream_did_is_none_itself() {
        let mut streams = Streams::default();
        streams.note(OpKind::Read, SectorRange::new(0, 1000));
        let end = SectorRange::new(992, 8);
        streams.note(OpKind::Read, end);
        assert_eq!(streams.length(OpKind::Read, end), Bytes(4096));
    }

    #[test]
    fn the_stream_continued_longest_ago_is_forgotten_first() {
        let mut streams = Streams::default();
        let request = |stream: u64, at: u64| SectorRange::new(stream * 1_000_000 + at * 8, 8);
        (0..STREAMS as u64).for_each(|stream| streams.note(OpKind::Read, request(stream, 0)));
        streams.note(OpKind::Read, request(0, 1));
        streams.note(OpKind::Read, request(99, 0));
        for (stream, at, blocks) in [(0, 2, 3), (1, 1, 1), (3, 1, 2)] {
            streams.note(OpKind::Read, request(stream, at));
            assert_eq!(streams.length(OpKind::Read, request(stream, at)), Bytes(blocks * 4096), "stream {stream}");
        }
    }
}
