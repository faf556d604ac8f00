//! `mqsim`: MQSim's ASCII traces (Tavakkol et al., FAST 2018; its README).
//!
//! `time (ns) device sector sectors type`, type 0 for a write and 1 for a read, as five
//! columns.

use super::LineFormat;
use super::five_columns::{self, Clock, Unit};
use crate::Request;
use crate::entry::{Bad, Entry};
use crate::format::{Encode, Encoding, Format, Recognition};

/// Description of the `mqsim` format.
pub const INFO: Format = Format {
    name: "mqsim",
    summary: "five columns: time (ns), device, sector, sectors, type (0 = write, 1 = read)",
    source: "Tavakkol et al., MQSim, FAST 2018, and its README",
    recognition: Recognition::Choice(five_columns::decide),
    encoding: Some(Encoding { start: |_, _| Box::new(Encoder), keeps_fua: false, is_compressed: false }),
    ..Format::of_lines::<Mqsim>()
};

/// Reader of the `mqsim` format.
#[derive(Default)]
pub(crate) struct Mqsim;

impl LineFormat for Mqsim {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        five_columns::entry(line, Clock::Nanoseconds, Unit::Sectors)
    }
}

/// Encoder of the `mqsim` format.
struct Encoder;

impl Encode for Encoder {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        five_columns::append(request, format_args!("{}", request.arrival.0), out)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn units_and_operation_are_as_described() {
        let entry = Mqsim.entry(b"712345000 4 123456789 16 0").unwrap().unwrap();
        assert_eq!(entry, Entry::request(712_345_000, 4, OpKind::Write, SectorRange::new(123_456_789, 16)));
        assert!(Mqsim.entry(b"1.5 0 8 8 1").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(Mqsim.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
