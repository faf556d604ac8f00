//! The HDD alone: what the disk gives without flash. The yardstick on that side.

use crate::layout::Role;
use crate::scheme::{Holds, Scheme, SchemeInfo};

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hdd-only",
    summary: "the HDD alone: what the disk gives without flash",
    source: "yardstick",
    members: &[(Role::Hdd, Holds::Home)],
    parameters: &[],
    worst_crash: "what was not flushed, as on the bare drive",
    ssd_loss: "nothing; there is none",
    hdd_loss: "all data",
    memory_bytes_per_block: 0.0,
    layout: |_, request| Ok(request.concatenated(&[request.only(Role::Hdd)?])?),
    build: |_, _| Ok(Box::new(HddOnly)),
};

struct HddOnly;

impl Scheme for HddOnly {}
