//! Requests of a trace at the present places of files that have moved since.

use bimetal_core::units::{SECTOR_BYTES, SectorRange};
use bimetal_sim::workload::{Requests, Workload, WorkloadError};
use bimetal_trace::Request;

/// Former range of a file, and the range that has its content now, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
}

/// A workload whose requests to former ranges become requests to present ranges. A request that
/// touches several pieces becomes a request for each.
pub(super) struct Relocated<'a> {
    workload: &'a dyn Workload,
    /// Pieces by former range. The former ranges lie apart.
    pieces: Vec<Piece>,
}

impl<'a> Relocated<'a> {
    pub(super) fn new(workload: &'a dyn Workload, pieces: &[Piece]) -> Self {
        let mut pieces = pieces.to_vec();
        pieces.sort_unstable_by_key(|piece| piece.from);
        Self { workload, pieces }
    }

    fn requests(&self, request: &Request) -> Vec<Request> {
        let (mut at, end) = (request.range.start.0, request.range.end().0);
        if at == end || self.pieces.is_empty() {
            return vec![*request];
        }
        let sectors = |bytes: u64| bytes / SECTOR_BYTES;
        let first = self.pieces.partition_point(|piece| sectors(piece.from + piece.bytes) <= at);
        let mut requests: Vec<Request> = Vec::new();
        let mut add = |start: u64, len: u64| match requests.last_mut() {
            Some(last) if last.range.end().0 == start => last.range.len.0 += len,
            _ if len > 0 => requests.push(Request { range: SectorRange::new(start, len), ..*request }),
            _ => {}
        };
        for piece in self.pieces[first..].iter().take_while(|piece| sectors(piece.from) < end) {
            let (from, until) = (sectors(piece.from).max(at), sectors(piece.from + piece.bytes).min(end));
            add(at, from - at);
            add(sectors(piece.to) + (from - sectors(piece.from)), until - from);
            at = until;
        }
        add(at, end - at);
        requests
    }
}

impl Workload for Relocated<'_> {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let relocate = |request: Result<Request, WorkloadError>| match request {
            Ok(request) => self.requests(&request).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        Ok(Box::new(self.workload.open_drawn(drawing)?.flat_map(relocate)))
    }

    fn grid(&self) -> u64 {
        self.workload.grid()
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::Nanoseconds;

    use super::*;

    /// Returns the ranges of the requests that a request becomes, in sectors.
    fn relocated(start: u64, len: u64) -> Vec<(u64, u64)> {
        let piece = |from: u64, to: u64| Piece { from: from * 4096, to: to * 4096, bytes: 4096 };
        let workload: Vec<Request> = Vec::new();
        let relocated = Relocated::new(&workload, &[piece(4, 100), piece(2, 50), piece(3, 51)]);
        let (range, kind) = (SectorRange::new(start, len), OpKind::Read);
        let request = Request { arrival: Nanoseconds::ZERO, device: 0, kind, fua: false, range, response: None };
        relocated.requests(&request).iter().map(|request| (request.range.start.0, request.range.len.0)).collect()
    }

    #[test]
    fn requests_to_former_ranges_go_to_present_ranges() {
        assert_eq!(relocated(0, 16), [(0, 16)]);
        assert_eq!(relocated(17, 2), [(401, 2)]);
        assert_eq!(relocated(12, 32), [(12, 4), (400, 16), (800, 8), (40, 4)]);
        assert_eq!(relocated(40, 8), [(40, 8)]);
        assert_eq!(relocated(20, 0), [(20, 0)]);
    }
}
