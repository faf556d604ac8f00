//! RAID-1 (Patterson, Gibson, Katz: *A Case for Redundant Arrays of Inexpensive Disks*, SIGMOD
//! 1988): every member has all content.
//!
//! A write is done when all members have it. A read goes to the member with the fewest operations
//! under way; among members with equally few, to the member whose last operation ended nearest to
//! the read, as in Linux' md. If a member cannot read a sector, the sector is read from another
//! member. A member that is gone, or cannot store a write, is taken out. The remaining members
//! record the removal in their states before the write is acknowledged, and serve on. After a power
//! cut, the members are made equal before the volume serves. A discard is acknowledged and not
//! passed on to the members: two drives may keep different content for the discarded range, and
//! later reads must agree.
//!
//! An array is not a hybrid but a part of a tree; its members are drives or volumes of any kind.

use crate::layout::{Layout, MemberId, Role};
use crate::scheme::{Copies, Holds, Scheme, SchemeInfo, View};
use crate::units::SectorRange;

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "raid1",
    summary: "an array: every member has all data, so the loss of one member loses nothing",
    source: "RAID (SIGMOD 1988), mirroring; md(4)",
    members: &[(Role::Hdd, Holds::Home), (Role::Hdd, Holds::Copy)],
    parameters: &[],
    worst_crash: "writes that were not flushed, as on a bare drive; the members are made equal before the volume \
                  serves",
    ssd_loss: "nothing, as long as another member is there",
    hdd_loss: "nothing, as long as another member is there",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.array(None)?),
    build: |_, layout| Ok(Box::new(Raid1::new(layout))),
};

struct Raid1 {
    /// For each member, the sector after its last read.
    last: Vec<u64>,
}

impl Raid1 {
    fn new(layout: &Layout) -> Self {
        Self { last: vec![0; layout.copies().count()] }
    }
}

impl Scheme for Raid1 {
    fn copies(&mut self) -> Option<&mut dyn Copies> {
        Some(self)
    }
}

impl Copies for Raid1 {
    fn choose_copy(&mut self, view: &View, sectors: SectorRange, copies: &[MemberId]) -> MemberId {
        let cost = |copy: &&MemberId| {
            let load = view.member(**copy);
            let distance = self.last[usize::from(copy.0)].abs_diff(sectors.start.0);
            (load.foreground + load.background, distance)
        };
        let chosen = *copies.iter().min_by_key(cost).unwrap_or(&MemberId(0));
        self.last[usize::from(chosen.0)] = sectors.end().0;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::MemberId;
    use crate::operation::OpKind;
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    #[test]
    fn a_write_goes_to_every_member_and_a_read_to_the_nearer_one() {
        let mut bench = Bench::new("raid1", &[]);
        bench.request(OpKind::Write, 8, 8);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 8"]);
        // Both members begin at sector 0. The first member is chosen, and is then nearest to the
        // following sectors.
        bench.request(OpKind::Read, 4000, 8);
        bench.request(OpKind::Read, 4008, 8);
        bench.request(OpKind::Read, 16, 8);
        assert_eq!(bench.take_log(), ["ssd read 8", "ssd read 8", "hdd read 8"]);
    }

    #[test]
    fn reads_that_come_at_once_go_to_the_member_with_less_to_do() {
        let mut bench = Bench::new("raid1", &[]);
        for at in 0..4 {
            bench.submit(0, OpKind::Read, at * 8, 8);
        }
        bench.serve();
        let log = bench.take_log();
        assert_eq!(log.iter().filter(|line| line.starts_with("ssd")).count(), 2, "{log:?}");
    }

    #[test]
    fn a_member_that_is_gone_is_not_missed() {
        let mut bench = Bench::new("raid1", &[]);
        bench.request(OpKind::Write, 8, 8);
        bench.volume.member_gone(Nanoseconds::ZERO, MemberId(0));
        bench.take_log();
        bench.request(OpKind::Read, 8, 8);
        bench.request(OpKind::Write, 8, 8);
        bench.request(OpKind::Flush, 0, 0);
        bench.request(OpKind::Discard, 8, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "hdd write 8", "hdd flush 0"]);
    }
}
