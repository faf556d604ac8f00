//! `linnos`: the traces of LinnOS's replayer (Hao et al., OSDI 2020), which Heimdall uses too.
//!
//! `time (ms) device offset (bytes) size (bytes) type`, type 0 for a write and 1 for a read, as
//! five columns.

use super::LineFormat;
use super::five_columns::{self, Clock, Unit};
use crate::entry::{Bad, Entry};
use crate::format::{Format, Recognition};

/// Description of the `linnos` format.
pub const INFO: Format = Format {
    name: "linnos",
    summary: "five columns: time (ms), device, offset (bytes), size (bytes), type (0 = write, 1 = \
              read)",
    source: "Hao et al., LinnOS, OSDI 2020, and its trace replayer",
    recognition: Recognition::Choice(five_columns::decide),
    ..Format::of_lines::<Linnos>()
};

/// Reader of the `linnos` format.
#[derive(Default)]
pub(crate) struct Linnos;

impl LineFormat for Linnos {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        five_columns::entry(line, Clock::Milliseconds, Unit::Bytes)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn units_and_operation_are_as_described() {
        let entry = Linnos.entry(b"0.125 0 4294975488 4096 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(125_000, 0, OpKind::Read, SectorRange::new(8_388_624, 8)));
        assert_eq!(Linnos.entry(b"1 0 511 2 0").unwrap().unwrap().range, SectorRange::new(0, 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(Linnos.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
