//! `disksim`: DiskSim's ASCII traces (DiskSim 4.0 Reference Manual, CMU-PDL-08-101, on input
//! workloads).
//!
//! `time (ms) device sector sectors flags`, times and lengths as [five
//! columns](super::five_columns); bit 0 of the flags is 1 for a read.

use super::five_columns::{Clock, FiveColumns, Unit};

/// Returns the reader of the `disksim` format.
pub(crate) const fn reader() -> FiveColumns {
    FiveColumns { clock: Clock::Milliseconds, unit: Unit::Sectors }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;
    use crate::entry::Entry;
    use crate::formats::LineFormat;

    #[test]
    fn units_and_operation_are_as_described() {
        let entry = reader().entry(b"1234.567 2 7654321 8 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(1_234_567_000, 2, OpKind::Read, SectorRange::new(7_654_321, 8)));
        assert_eq!(reader().entry(b"1 0 7 8 2").unwrap().unwrap().kind, OpKind::Write);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(reader().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
