//! `ssdsim`: SSDSim's ASCII traces (Hu et al., ICS 2011).
//!
//! `time (ns) device sector sectors operation`, operation 0 for a write and 1 for a read, as five
//! columns; read in the same way as `mqsim`.

use super::LineFormat;
use super::five_columns::{self, Clock, Unit};
use crate::entry::{Bad, Entry};
use crate::format::{Format, Recognition};

/// Description of the `ssdsim` format.
pub const INFO: Format = Format {
    name: "ssdsim",
    summary: "five columns: time (ns), device, sector, sectors, operation (0 = write, 1 = read)",
    source: "Hu et al., Performance Impact and Interplay of SSD Parallelism, ICS 2011 (SSDSim)",
    recognition: Recognition::Choice(five_columns::decide),
    ..Format::of_lines::<Ssdsim>()
};

/// Reader of the `ssdsim` format.
#[derive(Default)]
pub(crate) struct Ssdsim;

impl LineFormat for Ssdsim {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        five_columns::entry(line, Clock::Nanoseconds, Unit::Sectors)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn units_and_operation_are_as_described() {
        let entry = Ssdsim.entry(b"31250000 1 360448 6 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(31_250_000, 1, OpKind::Read, SectorRange::new(360_448, 6)));
        assert!(Ssdsim.entry(b"1.5 0 8 8 1").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(Ssdsim.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
