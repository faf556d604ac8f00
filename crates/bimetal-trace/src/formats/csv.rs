//! `csv`: Bimetal's own CSV, for programs that write or read traces.
//!
//! The first line is `HEADER`. Times are nanoseconds since any origin; in a trace without times
//! the field is empty on every line. `op` is `read`, `write`, `flush`, `discard` or `write-zeroes`.
//! Addresses and lengths are sectors of 512 bytes. `fua` is 1 for a write that must be stable when
//! it completes, else 0. The response time may be empty.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

use super::LineFormat;
use super::lines::{Header, append, append_line};
use crate::Request;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::{Fields, number};
use crate::format::{Encode, Encoding, Format};
use crate::write::Content;

/// Description of the `csv` format.
pub const INFO: Format = Format {
    name: "csv",
    summary: "Bimetal's own CSV with the header time_ns,device,op,lba,sectors,fua,response_ns. Time from the first \
              request in ns, a number of the device, the operation (read, write, flush, discard or write-zeroes), address \
              and length in sectors of 512 bytes, 1 for forced unit access (empty or 0 for none), and the response time \
              in ns (empty if unknown). All times may be empty. A request: 1500000,0,read,2048,8,0,250000",
    source: "Bimetal",
    encoding: Some(Encoding {
        start: |content, out| Box::new(Encoder::new(content, out)),
        keeps_fua: true,
        is_compressed: false,
    }),
    ..Format::of_lines::<Csv>()
};

/// First line of a `csv` trace.
const HEADER: &str = "time_ns,device,op,lba,sectors,fua,response_ns";

/// Names of the operations.
const OPERATIONS: [(&str, OpKind); 5] = [
    ("read", OpKind::Read),
    ("write", OpKind::Write),
    ("flush", OpKind::Flush),
    ("discard", OpKind::Discard),
    ("write-zeroes", OpKind::WriteZeroes),
];

/// Reader of the `csv` format.
#[derive(Default)]
pub(crate) struct Csv {
    header: Header,
    /// Set to true if the first request has a time. All requests must have times, or no request may
    /// have a time.
    timed: Option<bool>,
}

impl LineFormat for Csv {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if self.header.takes(line, HEADER)? {
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let time = fields.text("time_ns")?;
        let timed = *self.timed.get_or_insert(!time.is_empty());
        let time = match (timed, time.is_empty()) {
            (false, false) => return Err(Bad::form("time_ns", time, "no time, as in the line before")),
            (false, true) => 0,
            (true, _) => number("time_ns", time)?,
        };
        let device = fields.device("device")?;
        let op = fields.text("op")?;
        let known = OPERATIONS.iter().find(|(name, _)| name.as_bytes() == op);
        let kind = known.ok_or_else(|| Bad::form("op", op, "read, write, flush, discard or write-zeroes"))?.1;
        let (start, sectors) = (fields.number("lba")?, fields.number("sectors")?);
        let range = match (kind, start, sectors) {
            (OpKind::Flush, _, 0) => SectorRange::default(),
            (OpKind::Flush, ..) => return Err(Bad::value("sectors", sectors, "0, for a flush")),
            _ => sector_range(start, sectors)?,
        };
        let mut entry = Entry::request(time, device, kind, range);
        entry.fua = match fields.text("fua")? {
            b"0" | b"" => false,
            b"1" => true,
            other => return Err(Bad::form("fua", other, "0 or 1")),
        };
        let response = fields.text("response_ns")?;
        if !response.is_empty() {
            entry.response = Some(Nanoseconds(number("response_ns", response)?));
        }
        fields.end()?;
        Ok(Some(entry))
    }

    fn saw_header(&self) -> bool {
        self.header.was_seen()
    }

    fn has_times(&self) -> bool {
        self.timed != Some(false)
    }
}

/// Encoder of the `csv` format.
struct Encoder {
    has_times: bool,
}

impl Encoder {
    fn new(content: Content, out: &mut Vec<u8>) -> Self {
        append_line(out, format_args!("{HEADER}"));
        Self { has_times: content.has_times }
    }
}

impl Encode for Encoder {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let Some((name, _)) = OPERATIONS.iter().find(|(_, kind)| *kind == request.kind) else { return false };
        if self.has_times {
            append(out, format_args!("{}", request.arrival.0));
        }
        let (start, sectors) = (request.range.start.0, request.range.len.0);
        append(out, format_args!(",{},{name},{start},{sectors},{},", request.device, u8::from(request.fua)));
        if let Some(response) = request.response {
            append(out, format_args!("{}", response.0));
        }
        out.push(b'\n');
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Entry>, Box<Bad>> {
        let mut csv = Csv::default();
        assert_eq!(csv.entry(HEADER.as_bytes()), Ok(None));
        csv.entry(line.as_bytes())
    }

    #[test]
    fn every_column_is_kept() {
        let entry = read("1500,3,write,64,8,1,250").unwrap().unwrap();
        let expected = Entry {
            fua: true,
            response: Some(Nanoseconds(250)),
            ..Entry::request(1500, 3, OpKind::Write, SectorRange::new(64, 8))
        };
        assert_eq!(entry, expected);
        let flush = read("7,0,flush,0,0,0,").unwrap().unwrap();
        assert_eq!(flush, Entry::request(7, 0, OpKind::Flush, SectorRange::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("-1,0,read,0,8,0,", "time_ns"),
            ("0,4294967296,read,0,8,0,", "device"),
            ("0,0,seek,0,8,0,", "op"),
            ("0,0,read,1099511627776,8,0,", "sector"),
            ("0,0,read,0,0,0,", "size"),
            ("0,0,flush,0,8,0,", "sectors"),
            ("0,0,read,0,8,yes,", "fua"),
            ("0,0,read,0,8", "fua"),
            ("0,0,read,0,8,0,,", "line"),
        ];
        for (line, field) in named {
            assert_eq!(read(line).unwrap_err().field, field, "{line}");
        }
        assert!(Csv::default().entry(b"0,0,read,0,8,0,").is_err());
    }
}
