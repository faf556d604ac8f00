//! Disks over a trace that accesses the first addresses of a much larger volume: the arm stays on
//! few cylinders. The data of a volume in use lie everywhere, and seeks are longer.

use bimetal_core::units::Bytes;

use super::Finding;
use super::part_of_addresses::{is_part, size};
use crate::results::Run;
use crate::setup::Sizing;

pub(super) fn of(runs: &[Run], capacity: Bytes, address_end: Bytes) -> Option<Finding> {
    let is_of_disk = |run: &&Run| run.hdd_bytes.is_some() && run.sizing != Sizing::Share;
    if !is_part(capacity, address_end) || !runs.iter().any(|run| is_of_disk(&run)) {
        return None;
    }
    let text = format!(
        "The trace accesses the first {} of {}, so the arm of a disk stays on few cylinders. If the data lie everywhere \
         on the disk, seeks are longer.",
        size(address_end.0),
        size(capacity.0)
    );
    let remedy = "a trace of the whole volume; `bimetal plan` also plays the data spread over the volume";
    let share = address_end.0 as f64 / capacity.0 as f64;
    Some(Finding::new("part-of-disk", "note", text, remedy, Some(share)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn disk_whose_arm_hardly_moves_is_told() {
        let (end, capacity) = (Bytes(10_000_000_000), Bytes(8_000_000_000_000));
        let disk = Run { hdd_bytes: Some(capacity.0), ..run("hdd-only", 0) };
        let found = of(&[run("ssd-only", 1 << 30), disk.clone()], capacity, end).expect("a disk has an arm");
        assert!(found.text.starts_with("The trace accesses the first 10.0 GB of 8.0 TB, so the arm"), "{found:?}");
        assert_eq!(of(&[run("ssd-only", 1 << 30)], capacity, end), None, "flash has no arm");
        assert_eq!(of(&[disk], Bytes(20_000_000_000), end), None, "half of the volume is accessed");
    }
}
