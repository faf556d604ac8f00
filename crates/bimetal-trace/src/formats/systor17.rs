//! `systor17`: the CSV of the SYSTOR'17 traces of virtual desktops (Lee et al., SYSTOR 2017; README
//! at SNIA IOTTA).
//!
//! A header, then `Timestamp,Response,IOType,LUN,Offset,Size`: seconds since 1970, seconds, `R` or
//! `W`, the unit, bytes, bytes. An empty type stands for a request whose response was not seen, so
//! its operation is unknown; such a line gives no request.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

use super::LineFormat;
use crate::entry::{Bad, Entry, byte_range};
use crate::fields::{Fields, time};
use crate::format::Format;

/// Description of the `systor17` format.
pub const INFO: Format = Format {
    name: "systor17",
    summary: "CSV: timestamp (s), response (s), R or W, unit, offset (bytes), size (bytes)",
    source: "Lee et al., Understanding Storage Traffic Characteristics on Enterprise VDI, SYSTOR \
              2017",
    ..Format::of_lines::<Systor17>()
};

/// Reader of the `systor17` format.
#[derive(Default)]
pub(crate) struct Systor17 {
    saw_header: bool,
}

impl LineFormat for Systor17 {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"Timestamp,Response,IOType") {
            self.saw_header = true;
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let timestamp = fields.time("Timestamp", 9)?;
        let response = fields.text("Response")?;
        let kind = match fields.text("IOType")? {
            b"R" => Some(OpKind::Read),
            b"W" => Some(OpKind::Write),
            b"" => None,
            other => return Err(Bad::form("IOType", other, "R, W or nothing")),
        };
        let unit = fields.device("LUN")?;
        let (offset, size) = (fields.number("Offset")?, fields.number("Size")?);
        fields.end()?;
        let Some(kind) = kind else { return Ok(None) };
        let mut entry = Entry::request(timestamp, unit, kind, byte_range(offset, size)?);
        if !response.is_empty() {
            entry.response = Some(Nanoseconds(time("Response", response, 9)?));
        }
        Ok(Some(entry))
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
    fn seconds_bytes_and_units_are_converted() {
        let mut reader = Systor17::default();
        assert_eq!(reader.entry(b"Timestamp,Response,IOType,LUN,Offset,Size"), Ok(None));
        let entry = reader.entry(b"1455600000.125000300,0.000247,R,4,8192,4096").unwrap().unwrap();
        let expected = Entry {
            response: Some(Nanoseconds(247_000)),
            ..Entry::request(1_455_600_000_125_000_300, 4, OpKind::Read, SectorRange::new(16, 8))
        };
        assert_eq!(entry, expected);
    }

    #[test]
    fn a_request_of_unknown_type_is_none() {
        assert_eq!(Systor17::default().entry(b"1455600000.2,,,0,8192,4096"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("x,,R,0,0,512", "Timestamp"),
            ("1,,Q,0,0,512", "IOType"),
            ("1,-1,R,0,0,512", "Response"),
            ("1,,R,0,0", "Size"),
        ];
        for (line, field) in named {
            assert_eq!(Systor17::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
