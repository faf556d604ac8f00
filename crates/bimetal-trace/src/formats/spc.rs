//! `spc`: the SPC trace file format (Storage Performance Council, revision 1.0.1), as the UMass
//! repository's Financial and WebSearch traces use it.
//!
//! `ASU,LBA,Size,Opcode,Timestamp` and optional further fields: the application storage unit (an
//! address space of its own, the device here), its sector, bytes, `R` or `W` in either case,
//! seconds.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Sectors};

use super::LineFormat;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::Fields;
use crate::format::Format;

/// Description of the `spc` format.
pub const INFO: Format = Format {
    name: "spc",
    summary: "CSV: application storage unit, sector, size (bytes), R or W, time (s)",
    source: "SPC Trace File Format Specification 1.0.1, Storage Performance Council 2002; UMass \
              Trace Repository",
    ..Format::of_lines::<Spc>()
};

/// Reader of the `spc` format.
#[derive(Default)]
pub(crate) struct Spc;

impl LineFormat for Spc {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let mut fields = Fields::of_csv(line);
        let unit = fields.device("ASU")?;
        let (sector, size) = (fields.number("LBA")?, fields.number("Size")?);
        let kind = match fields.text("Opcode")? {
            b"r" | b"R" => OpKind::Read,
            b"w" | b"W" => OpKind::Write,
            other => return Err(Bad::form("Opcode", other, "R or W")),
        };
        let time = fields.time("Timestamp", 9)?;
        let range = sector_range(sector, Sectors::covering(Bytes(size)).0)?;
        Ok(Some(Entry::request(time, unit, kind, range)))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    /// Fields are as the specification says. Optional fields are skipped.
    #[test]
    fn fields_follow_the_specification_and_extra_ones_are_skipped() {
        let entry = Spc.entry(b"3,412345,3584,w,0.031250").unwrap().unwrap();
        assert_eq!(entry, Entry::request(31_250_000, 3, OpKind::Write, SectorRange::new(412_345, 7)));
        assert_eq!(Spc.entry(b"0,20,513,R,1.5,7,abc").unwrap().unwrap().range, SectorRange::new(20, 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named =
            [("a,1,512,R,0", "ASU"), ("0,1,512,X,0", "Opcode"), ("0,1,0,R,0", "size"), ("0,1,512,R", "Timestamp")];
        for (line, field) in named {
            assert_eq!(Spc.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
