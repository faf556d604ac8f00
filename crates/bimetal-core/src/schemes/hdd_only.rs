//! The HDD alone: the performance of the disk without flash. Hybrids are compared with `hdd-only`.

use crate::layout::Role;
use crate::scheme::{Holds, Scheme, SchemeInfo};

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hdd-only",
    summary: "the HDD alone: a baseline without flash",
    source: "yardstick",
    members: &[(Role::Hdd, Holds::Home)],
    parameters: &[],
    worst_crash: "writes that were not flushed, as on the bare drive",
    ssd_loss: "nothing: the scheme has no SSD",
    hdd_loss: "all data",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.concatenated(&[request.only(Role::Hdd)?])?),
    build: |_, _| Ok(Box::new(HddOnly)),
};

struct HddOnly;

impl Scheme for HddOnly {}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind::{Read, Write};
    use crate::testing::Bench;

    /// Requests for different sectors of a block do not wait for each other. Overlapping requests
    /// do.
    #[test]
    fn requests_without_a_common_sector_do_not_wait() {
        let mut bench = Bench::new("hdd-only", &[]);
        for (kind, start, sectors) in [(Write, 4, 8), (Write, 12, 8), (Read, 20, 4), (Write, 19, 2), (Read, 0, 5)] {
            bench.submit(0, kind, start, sectors);
        }
        let begun: Vec<u64> = std::iter::from_fn(|| bench.volume.next_operation())
            .map(|operation| operation.command.range.start.0)
            .collect();
        assert_eq!(begun, [4, 12, 20], "the last write meets the second one, the last read the first");
    }
}
