//! `mqsim`: MQSim's ASCII traces (Tavakkol et al., FAST 2018; its README).
//!
//! `time (ns) device sector sectors type`, type 0 for a write and 1 for a read, as [five
//! columns](super::five_columns).

use super::five_columns::{Clock, FiveColumns, Unit};

/// Returns the reader of the `mqsim` format.
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
        let entry = reader().entry(b"712345000 4 123456789 16 0").unwrap().unwrap();
        assert_eq!(entry, Entry::request(712_345_000, 4, OpKind::Write, SectorRange::new(123_456_789, 16)));
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
