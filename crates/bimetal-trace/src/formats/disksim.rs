//! `disksim`: DiskSim's ASCII traces (DiskSim 4.0 Reference Manual, CMU-PDL-08-101, on input
//! workloads).
//!
//! `time (ms) device sector sectors flags`, times and lengths as five
//! columns; bit 0 of the flags is 1 for a read.

use super::LineFormat;
use super::five_columns::{self, Clock, Unit};
use crate::Request;
use crate::entry::{Bad, Entry};
use crate::format::{Encode, Encoding, Format, Recognition};

/// Description of the `disksim` format.
pub const INFO: Format = Format {
    name: "disksim",
    summary: "five columns: time (ms), device, sector, sectors, flags (bit 0: 1 = read)",
    source: "The DiskSim Simulation Environment 4.0 Reference Manual (CMU-PDL-08-101), section on \
              ASCII traces",
    recognition: Recognition::Choice(five_columns::decide),
    encoding: Some(Encoding { start: |_, _| Box::new(Encoder), keeps_fua: false, is_compressed: false }),
    ..Format::of_lines::<Disksim>()
};

/// Reader of the `disksim` format.
#[derive(Default)]
pub(crate) struct Disksim;

impl LineFormat for Disksim {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        five_columns::entry(line, Clock::Milliseconds, Unit::Sectors)
    }
}

/// Encoder of the `disksim` format.
struct Encoder;

impl Encode for Encoder {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let (ms, ns) = (request.arrival.0 / 1_000_000, request.arrival.0 % 1_000_000);
        five_columns::append(request, format_args!("{ms}.{ns:06}"), out)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn units_and_operation_are_as_described() {
        let entry = Disksim.entry(b"1234.567 2 7654321 8 1").unwrap().unwrap();
        assert_eq!(entry, Entry::request(1_234_567_000, 2, OpKind::Read, SectorRange::new(7_654_321, 8)));
        assert_eq!(Disksim.entry(b"1 0 7 8 2").unwrap().unwrap().kind, OpKind::Write);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("x 0 8 8 1", "time"), ("1 0 8 0 1", "size"), ("1 0 8 8", "operation"), ("1 0 8 8 1 1", "line")];
        for (line, field) in named {
            assert_eq!(Disksim.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
