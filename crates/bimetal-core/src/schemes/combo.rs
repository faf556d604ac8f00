//! Combo Drive (Payer, Sanvido, Bandic, Kirsch: *Combo Drive*, WISH 2009): SSD and HDD concatenated.
//!
//! Section 2: of n = k + l clusters the SSD holds the lower addresses, 0 to k − 1, and the HDD the higher ones. The drive
//! moves nothing by itself; file systems that prefer low addresses gain at once. Nothing is held twice, so no
//! drive can stand in for the other.

use crate::layout::Role;
use crate::scheme::{Holds, Scheme, SchemeInfo};

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "combo",
    summary: "SSD and HDD concatenated, the SSD at the low addresses",
    source: "Combo Drive (WISH 2009), section 2",
    members: &[(Role::Ssd, Holds::Ranges), (Role::Hdd, Holds::Home)],
    parameters: &[],
    worst_crash: "what was not flushed, as on the bare drives",
    ssd_loss: "all data at the low addresses",
    hdd_loss: "all data at the high addresses",
    memory_bytes_per_block: 0.0,
    layout: |_, request| Ok(request.concatenated(&[request.only(Role::Ssd)?, request.only(Role::Hdd)?])?),
    build: |_, _| Ok(Box::new(Combo)),
};

struct Combo;

impl Scheme for Combo {}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;

    #[test]
    fn low_addresses_lie_on_the_ssd_and_high_ones_on_the_hdd() {
        let mut bench = Bench::new("combo", &[]);
        let boundary = bench.blocks_on(0);
        bench.request(OpKind::Write, boundary * 8 - 8, 16);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 8"]);
        bench.request(OpKind::Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }
}
