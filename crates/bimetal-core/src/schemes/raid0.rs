//! RAID-0 (Patterson, Gibson, Katz: *A Case for Redundant Arrays of Inexpensive Disks*, SIGMOD
//! 1988): stripes go to the members in turn. So one large request, or many small requests, keep all
//! members busy.
//!
//! An array is not a hybrid but a part of a tree; its members are drives or volumes of any kind.
//! The stripe's default is the default of Linux' md.

use crate::layout::{LayoutRequest, Role};
use crate::scheme::{Holds, Scheme, SchemeError, SchemeInfo};
use crate::settings::{Settings, parameters};
use crate::units::Bytes;

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// bytes, in whole blocks, that go to one member before the next member's turn (mdadm's
        /// --chunk, 512 KiB)
        stripe: Bytes = "512KiB",
    }
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "raid0",
    summary: "an array: stripes go to the members in turn",
    source: "RAID (SIGMOD 1988), striping; mdadm(8)",
    members: &[(Role::Hdd, Holds::Home), (Role::Hdd, Holds::Home)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed, as on a bare drive",
    ssd_loss: "all data, if it is a member",
    hdd_loss: "all data",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| Ok(request.array(Some(stripe_blocks(settings, request)?))?),
    build: |_, _| Ok(Box::new(Raid0)),
};

fn stripe_blocks(settings: &Settings, request: &LayoutRequest<'_>) -> Result<u64, SchemeError> {
    let (stripe, block) = (Parameters::of(settings).stripe.0, request.block.bytes());
    if stripe == 0 || !stripe.is_multiple_of(block.0) {
        return Err(settings.refuse(name::stripe, format!("a multiple of the block size, {block}")).into());
    }
    Ok(stripe / block.0)
}

struct Raid0;

impl Scheme for Raid0 {}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;

    #[test]
    fn a_request_keeps_every_member_busy_that_has_a_part_of_it() {
        let mut bench = Bench::new("raid0", &[("stripe", "8KiB")]);
        bench.request(OpKind::Write, 8, 40);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 16", "ssd write 16"]);
        bench.request(OpKind::Read, 14, 4);
        assert_eq!(bench.take_log(), ["ssd read 2", "hdd read 2"]);
    }

    /// A regression: a discard of a whole large array was an operation for each stripe, and failed
    /// because there were too many operations.
    #[test]
    fn discard_is_one_operation_on_each_member() {
        let mut bench = Bench::new("raid0", &[("stripe", "8KiB")]);
        bench.request(OpKind::Discard, 8, 2000);
        assert_eq!(bench.take_log(), ["ssd discard 1000", "hdd discard 1000"]);
    }
}
