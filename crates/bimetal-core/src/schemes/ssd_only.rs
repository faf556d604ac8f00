//! The SSD alone: the cost and performance of flash without a disk. Hybrids are compared with
//! `ssd-only`.

use crate::layout::Role;
use crate::scheme::{Holds, Scheme, SchemeInfo};

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "ssd-only",
    summary: "the SSD alone: a baseline without a disk",
    source: "yardstick",
    members: &[(Role::Ssd, Holds::Home)],
    parameters: &[],
    worst_crash: "writes that were not flushed, as on the bare drive",
    ssd_loss: "all data",
    hdd_loss: "nothing: the scheme has no HDD",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    // Under Griffin, one log serves several SSDs (Griffin, section 7), so the baseline takes
    // several SSDs as well.
    layout: |_, request| Ok(request.side_by_side(&request.all(Role::Ssd)?)?),
    build: |_, _| Ok(Box::new(SsdOnly)),
};

struct SsdOnly;

impl Scheme for SsdOnly {}
