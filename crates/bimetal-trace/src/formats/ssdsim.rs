//! `ssdsim`: SSDSim's ASCII traces (Hu et al., ICS 2011).
//!
//! `time (ns) device sector sectors operation`, operation 0 for a write and 1 for a read, as [five
//! columns](super::five_columns); read in the same way as `mqsim`.

use super::five_columns::{Clock, FiveColumns, Unit};

/// Returns the reader of the `ssdsim` format.
pub(crate) const fn reader() -> FiveColumns {
    FiveColumns { clock: Clock::Nanoseconds, unit: Unit::Sectors }
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
        let entry = reader().entry(b"31250000 1 360448 6 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(31_250_000, 1, OpKind::Read, SectorRange::new(360_448, 6)));
        assert!(reader().entry(b"1.5 0 8 8 1").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(reader().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
