//! `tencent`: the traces of Tencent's cloud block storage (README at SNIA IOTTA; Zhang et al.,
//! OSCA, ATC 2020).
//!
//! `Timestamp,Offset,Size,IOType,VolumeID`: whole seconds since 1970, sector, sectors, 0 for a read
//! and 1 for a write, volume.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::{Fields, scaled};
use crate::format::Format;

/// Description of the `tencent` format.
pub const INFO: Format = Format {
    name: "tencent",
    summary: "CSV: timestamp (s), sector, sectors, 0 (read) or 1 (write), volume",
    source: "Zhang et al., OSCA, USENIX ATC 2020; SNIA IOTTA",
    ..Format::of_lines::<Tencent>()
};

/// Reader of the `tencent` format.
#[derive(Default)]
pub(crate) struct Tencent {
    saw_header: bool,
}

impl LineFormat for Tencent {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"Timestamp,Offset,Size") {
            self.saw_header = true;
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let timestamp = fields.number("Timestamp")?;
        let (sector, sectors) = (fields.number("Offset")?, fields.number("Size")?);
        let kind = match fields.text("IOType")? {
            b"0" => OpKind::Read,
            b"1" => OpKind::Write,
            other => return Err(Bad::form("IOType", other, "0 (read) or 1 (write)")),
        };
        let volume = fields.device("VolumeID")?;
        fields.end()?;
        let time = scaled("Timestamp", timestamp, 1_000_000_000)?;
        Ok(Some(Entry::request(time, volume, kind, sector_range(sector, sectors)?)))
    }

    fn saw_header(&self) -> bool {
        self.saw_header
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn sectors_and_seconds_are_converted_and_0_is_a_read() {
        let entry = Tencent::default().entry(b"1538350000,90001920,1024,1,271").unwrap().unwrap();
        let range = SectorRange::new(90_001_920, 1024);
        assert_eq!(entry, Entry::request(1_538_350_000_000_000_000, 271, OpKind::Write, range));
        assert_eq!(Tencent::default().entry(b"1,8,8,0,1").unwrap().unwrap().kind, OpKind::Read);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("1,8,8,2,1", "IOType"),
            ("1,8,0,1,1", "size"),
            ("1,8,8,1", "VolumeID"),
            ("99999999999,8,8,1,1", "Timestamp"),
        ];
        for (line, field) in named {
            assert_eq!(Tencent::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
