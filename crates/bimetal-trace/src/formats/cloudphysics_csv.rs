//! `cloudphysics-csv`: CloudPhysics' traces of virtual disks as CSV, as libCacheSim ships one
//! (Waldspurger et al., SHARDS, FAST 2015).
//!
//! `version,time,op,size,lbn`: record version 1 or 2, whole seconds, SCSI operation code in
//! hexadecimal, bytes, sector. Many requests share a time, because times are whole seconds; the
//! same requests as `vscsi` have microseconds.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, SectorRange, Sectors};

use super::LineFormat;
use super::vscsi;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::Fields;
use crate::format::Format;

/// Description of the `cloudphysics-csv` format.
pub const INFO: Format = Format {
    name: "cloudphysics-csv",
    summary: "CSV: version, time (s), SCSI operation code (hex), size (bytes), sector",
    source: "Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015; libCacheSim",
    ..Format::of_lines::<CloudphysicsCsv>()
};

/// Reader of the `cloudphysics-csv` format.
#[derive(Default)]
pub(crate) struct CloudphysicsCsv {
    saw_header: bool,
}

impl LineFormat for CloudphysicsCsv {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"version,time,op") {
            self.saw_header = true;
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        match fields.text("version")? {
            b"1" | b"2" => {}
            other => return Err(Bad::form("version", other, "1 or 2")),
        }
        let time = fields.time("time", 9)?;
        let op = fields.text("op")?;
        let digits = std::str::from_utf8(op).ok().filter(|_| op.len() == 2);
        let Some(code) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) else {
            return Err(Bad::form("op", op, "a SCSI operation code of two hexadecimal digits"));
        };
        let (size, sector) = (fields.number("size")?, fields.number("lbn")?);
        fields.end()?;
        Ok(match vscsi::operation(code) {
            None => None,
            Some(OpKind::Flush) => Some(Entry::request(time, 0, OpKind::Flush, SectorRange::default())),
            Some(kind) => {
                let range = sector_range(sector, Sectors::covering(Bytes(size)).0)?;
                Some(Entry::request(time, 0, kind, range))
            }
        })
    }

    fn saw_header(&self) -> bool {
        self.saw_header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_codes_are_hexadecimal_and_times_seconds() {
        let mut reader = CloudphysicsCsv::default();
        assert_eq!(reader.entry(b"version,time,op,size,lbn"), Ok(None));
        let entry = reader.entry(b"1,7000000,2a,6656,25165835").unwrap().unwrap();
        let range = SectorRange::new(25_165_835, 13);
        assert_eq!(entry, Entry::request(7_000_000_000_000_000, 0, OpKind::Write, range));
        assert_eq!(reader.entry(b"1,5,28,512,9").unwrap().unwrap().kind, OpKind::Read);
        assert_eq!(reader.entry(b"1,5,35,0,0").unwrap().unwrap().kind, OpKind::Flush);
        assert_eq!(reader.entry(b"1,5,12,36,0"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [("3,5,28,512,9", "version"), ("1,5,2,512,9", "op"), ("1,5,28,0,9", "size"), ("1,5,28,512", "lbn")];
        for (line, field) in named {
            assert_eq!(CloudphysicsCsv::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
