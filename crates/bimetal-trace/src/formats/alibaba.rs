//! `alibaba`: the block traces of Alibaba Cloud (README of the traces; Li et al., IISWC 2020).
//!
//! `device_id,opcode,offset,length,timestamp`: virtual disk, `R` or `W`, bytes, bytes, microseconds
//! since 1970.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use crate::entry::{Bad, Entry, byte_range};
use crate::fields::{Fields, scaled};
use crate::format::Format;

/// Description of the `alibaba` format.
pub const INFO: Format = Format {
    name: "alibaba",
    summary: "CSV: device, R or W, offset (bytes), length (bytes), timestamp (µs)",
    source: "Li et al., An In-Depth Analysis of Cloud Block Storage Workloads, IISWC 2020",
    ..Format::of_lines::<Alibaba>()
};

/// Reader of the `alibaba` format.
#[derive(Default)]
pub(crate) struct Alibaba {
    saw_header: bool,
}

impl LineFormat for Alibaba {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"device_id,opcode") {
            self.saw_header = true;
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let device = fields.device("device_id")?;
        let kind = match fields.text("opcode")? {
            b"R" => OpKind::Read,
            b"W" => OpKind::Write,
            other => return Err(Bad::form("opcode", other, "R or W")),
        };
        let (offset, length) = (fields.number("offset")?, fields.number("length")?);
        let timestamp = fields.number("timestamp")?;
        fields.end()?;
        let time = scaled("timestamp", timestamp, 1_000)?;
        Ok(Some(Entry::request(time, device, kind, byte_range(offset, length)?)))
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
    fn bytes_and_microseconds_are_converted() {
        let entry = Alibaba::default().entry(b"7,W,64424509440,4096,1578000000000777").unwrap().unwrap();
        let range = SectorRange::new(125_829_120, 8);
        assert_eq!(entry, Entry::request(1_578_000_000_000_777_000, 7, OpKind::Write, range));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("4294967296,R,0,512,1", "device_id"),
            ("0,read,0,512,1", "opcode"),
            ("0,R,0,0,1", "size"),
            ("0,R,0,512", "timestamp"),
            ("0,R,0,512,18446744073709551615", "timestamp"),
        ];
        for (line, field) in named {
            assert_eq!(Alibaba::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
