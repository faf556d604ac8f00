//! `hadoop-csv`: blktrace records decoded to CSV, without completions.
//!
//! A header, then `time_ns,event,op,sector,bytes,cpu,pid`: nanoseconds, `Q` (queued) or `D` (issued
//! to the drive), the letters of blktrace for the operation, sector, bytes. Other events are
//! skipped.

use super::LineFormat;
use super::rwbs::Rwbs;
use crate::entry::{Bad, Entry, Moment};
use crate::fields::Fields;
use crate::format::{Events, Format};

/// Description of the `hadoop-csv` format.
pub const INFO: Format = Format {
    name: "hadoop-csv",
    summary: "CSV: time (ns), event (Q or D), operation, sector, bytes, CPU, process",
    source: "blktrace records decoded to CSV",
    events: Events::Several,
    ..Format::of_lines::<HadoopCsv>()
};

/// Reader of the `hadoop-csv` format.
#[derive(Default)]
pub(crate) struct HadoopCsv {
    saw_header: bool,
}

impl LineFormat for HadoopCsv {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"time_ns,event,op") {
            self.saw_header = true;
            return Ok(None);
        }
        let mut fields = Fields::of_csv(line);
        let time = fields.number("time_ns")?;
        let event = fields.text("event")?;
        let rwbs = Rwbs::read("op", fields.text("op")?)?;
        let (sector, bytes) = (fields.number("sector")?, fields.number("bytes")?);
        fields.number("cpu")?;
        fields.number("pid")?;
        fields.end()?;
        let moment = match event {
            b"Q" => Moment::Queued,
            b"D" => Moment::Issued,
            [byte] if byte.is_ascii_uppercase() => return Ok(None),
            other => return Err(Bad::form("event", other, "Q, D or another letter of blktrace")),
        };
        rwbs.entry(time, 0, moment, sector, bytes.div_ceil(512))
    }

    fn saw_header(&self) -> bool {
        self.saw_header
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn queue_and_issue_events_are_read() {
        let mut reader = HadoopCsv::default();
        assert_eq!(reader.entry(b"time_ns,event,op,sector,bytes,cpu,pid"), Ok(None));
        let entry = reader.entry(b"41250,D,R,350001152,16384,6,5150").unwrap().unwrap();
        let range = SectorRange::new(350_001_152, 32);
        assert_eq!(entry, Entry { moment: Moment::Issued, ..Entry::request(41_250, 0, OpKind::Read, range) });
        assert_eq!(reader.entry(b"1,Q,W,8,4096,6,1").unwrap().unwrap().moment, Moment::Queued);
        assert_eq!(reader.entry(b"1,I,W,8,4096,6,1"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("1,queue,R,8,512,0,1", "event"),
            ("1,Q,?,8,512,0,1", "op"),
            ("1,Q,R,8,0,0,1", "size"),
            ("1,Q,R,8,5,0", "pid"),
        ];
        for (line, field) in named {
            assert_eq!(HadoopCsv::default().entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
