//! Placement of a trace's requests on a volume: the trace's devices lie one after another on the
//! first export.

use std::collections::BTreeMap;

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Sectors};
use bimetal_trace::Request;

use super::{Requests, Workload, WorkloadError};
use crate::survey::{Compaction, Survey};

/// A map from the addresses of a trace to the addresses of a volume.
pub struct Placement {
    /// First sector of each device.
    starts: BTreeMap<u32, u64>,
    end: Sectors,
    compaction: Option<Compaction>,
    block: BlockSize,
    /// Set if only reads are issued.
    reads_only: bool,
}

impl Placement {
    /// Returns the placement for the workload that `survey` describes. With `compact` the touched
    /// ranges are mapped densely.
    pub fn new(survey: &Survey, block: BlockSize, compact: bool, reads_only: bool) -> Self {
        let compaction = compact.then(|| survey.compacted.clone());
        let ends = match &compaction {
            Some(compaction) => compaction.address_end(block),
            None => survey.address_end.clone(),
        };
        let mut end = 0;
        let starts = ends.into_iter().map(|(device, sectors)| {
            let start = end;
            end += sectors.0.next_multiple_of(block.sectors());
            (device, start)
        });
        let starts = starts.collect();
        Self { starts, end: Sectors(end), compaction, block, reads_only }
    }

    /// Returns the first address after all devices.
    pub fn end(&self) -> Bytes {
        self.end.bytes()
    }

    /// Returns the request at its address on the volume; `None` if the request is left out.
    fn place(&self, request: Request) -> Option<Request> {
        if request.kind == OpKind::Hint || (self.reads_only && request.kind != OpKind::Read) {
            return None;
        }
        if request.kind == OpKind::Flush {
            return Some(Request { device: 0, ..request });
        }
        let mut placed = match &self.compaction {
            Some(compaction) => compaction.place(&request, self.block),
            None => request,
        };
        placed.range.start.0 += self.starts.get(&request.device)?;
        placed.device = 0;
        (!placed.range.is_empty()).then_some(placed)
    }
}

/// A workload with its requests placed on a volume.
pub struct Placed<'a> {
    /// The workload as it was read.
    pub workload: &'a dyn Workload,
    /// Places of the requests on the volume.
    pub placement: &'a Placement,
}

impl Workload for Placed<'_> {
    fn open_drawn(&self, drawing: u64) -> Result<Requests<'_>, WorkloadError> {
        let place = |request: Result<Request, WorkloadError>| match request {
            Ok(request) => self.placement.place(request).map(Ok),
            Err(error) => Some(Err(error)),
        };
        Ok(Box::new(self.workload.open_drawn(drawing)?.filter_map(place)))
    }

    fn grid(&self) -> u64 {
        self.workload.grid()
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::{Nanoseconds, SectorRange};

    use super::*;

    fn request(device: u32, kind: OpKind, start: u64, len: u64) -> Request {
        let range = SectorRange::new(start, len);
        Request { arrival: Nanoseconds::ZERO, device, kind, fua: false, range, response: None }
    }

    fn placed(workload: &Vec<Request>, compact: bool, reads_only: bool) -> (Vec<(OpKind, u64, u64)>, Bytes) {
        let block = BlockSize::default();
        let survey = Survey::of(workload, block, &|_| {}).unwrap();
        let placement = Placement::new(&survey, block, compact, reads_only);
        let placed = Placed { workload, placement: &placement };
        let all = placed.open().unwrap().map(|request| request.unwrap());
        let all = all.map(|request| (request.kind, request.range.start.0, request.range.len.0)).collect();
        (all, placement.end())
    }

    #[test]
    fn devices_lie_one_after_another() {
        let workload = vec![
            request(7, OpKind::Read, 3, 2),
            request(2, OpKind::Write, 100, 10),
            request(2, OpKind::Flush, 0, 0),
            request(7, OpKind::Discard, 0, 8),
        ];
        let (all, end) = placed(&workload, false, false);
        // Device 2 ends at sector 110, which is rounded up to a block.
        let expected =
            [(OpKind::Read, 115, 2), (OpKind::Write, 100, 10), (OpKind::Flush, 0, 0), (OpKind::Discard, 112, 8)];
        assert_eq!(all, expected);
        assert_eq!(end, Sectors(120).bytes());
        assert_eq!(placed(&workload, false, true).0, [(OpKind::Read, 115, 2)]);
    }

    #[test]
    fn compacted_the_touched_ranges_lie_densely() {
        let far = 1 << 30;
        let workload = vec![request(0, OpKind::Read, far, 8), request(1, OpKind::Read, far + 8, 8)];
        let chunk = 4096 * 8;
        let (all, end) = placed(&workload, true, false);
        assert_eq!(all, [(OpKind::Read, 0, 8), (OpKind::Read, chunk + 8, 8)]);
        assert_eq!(end, Sectors(2 * chunk).bytes());
    }
}
