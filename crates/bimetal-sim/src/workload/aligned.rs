//! Requests whose grid of blocks begins at a chosen sector. Old partitions begin at sector 63, so
//! each of their requests lies across the borders of a volume's blocks. Addresses move up by less
//! than a block; sizes and order stay.

use bimetal_core::block::BlockSize;
use bimetal_core::units::Sectors;
use bimetal_trace::Request;

use super::Requests;

/// Moves the addresses of `requests`, so that a block of the volume begins at the trace's sector
/// `first`.
pub fn aligned(requests: Requests<'_>, block: BlockSize, first: u64) -> Requests<'_> {
    let sectors = block.sectors();
    let shift = (sectors - first % sectors) % sectors;
    let moved = move |mut request: Request| {
        if !request.range.is_empty() {
            request.range.start = Sectors(request.range.start.0.saturating_add(shift));
        }
        request
    };
    Box::new(requests.map(move |request| request.map(moved)))
}

#[cfg(test)]
mod tests {
    use super::super::Workload;
    use super::*;
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    #[test]
    fn chosen_sector_becomes_start_of_block() {
        let request = |start, len| Request {
            arrival: Nanoseconds(start),
            device: 0,
            kind: OpKind::Write,
            fua: false,
            range: SectorRange::new(start, len),
            response: None,
        };
        let workload = vec![request(63, 8), request(71, 1), request(0, 0)];
        for (first, expected) in [(63, [64, 72, 0]), (7, [64, 72, 0]), (0, [63, 71, 0]), (64, [63, 71, 0])] {
            let requests = aligned(workload.open().unwrap(), BlockSize::default(), first);
            let starts: Vec<u64> = requests.map(|request| request.unwrap().range.start.0).collect();
            assert_eq!(starts, expected, "a block begins at sector {first}");
        }
    }
}
