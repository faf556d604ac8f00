//! `wiscsee`: the block events that WiscSee derives from blkparse's output for its FTL simulator
//! (He et al., EuroSys 2017).
//!
//! `pid event operation offset (bytes) size (bytes) time (s) wait (s) sync`: event `D` (issued) or
//! `C` (completed), operation `read`, `write` or `discard`.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use crate::entry::{Bad, Entry, Moment, byte_range};
use crate::fields::Fields;
use crate::format::{Events, Format};

/// Description of the `wiscsee` format.
pub const INFO: Format = Format {
    name: "wiscsee",
    summary: "eight columns: process, D or C, operation, offset (bytes), size (bytes), time (s), \
              wait (s), sync",
    source: "He et al., The Unwritten Contract of Solid State Drives, EuroSys 2017 (WiscSee)",
    events: Events::WithCompletions,
    ..Format::of_lines::<Wiscsee>()
};

/// Reader of the `wiscsee` format.
#[derive(Default)]
pub(crate) struct Wiscsee;

impl LineFormat for Wiscsee {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        if line.starts_with(b"pid event ") {
            return Ok(None);
        }
        let mut fields = Fields::of_words(line);
        fields.number("pid")?;
        let moment = match fields.text("event")? {
            b"D" => Moment::Issued,
            b"C" => Moment::Completed,
            other => return Err(Bad::form("event", other, "D or C")),
        };
        let kind = match fields.text("operation")? {
            b"read" => OpKind::Read,
            b"write" => OpKind::Write,
            b"discard" => OpKind::Discard,
            other => return Err(Bad::form("operation", other, "read, write or discard")),
        };
        let (offset, size) = (fields.number("offset")?, fields.number("size")?);
        let time = fields.time("time", 9)?;
        fields.text("wait")?;
        match fields.text("sync")? {
            b"True" | b"False" => {}
            other => return Err(Bad::form("sync", other, "True or False")),
        }
        fields.end()?;
        Ok(Some(Entry { moment, ..Entry::request(time, 0, kind, byte_range(offset, size)?) }))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn issue_and_completion_are_read() {
        let entry = Wiscsee.entry(b"4711 D read 409600 4096 0.000417003 8.25e-05 False").unwrap().unwrap();
        let expected = Entry::request(417_003, 0, OpKind::Read, SectorRange::new(800, 8));
        assert_eq!(entry, Entry { moment: Moment::Issued, ..expected });
        let entry = Wiscsee.entry(b"0 C discard 0 512 1.5 0.1 True").unwrap().unwrap();
        assert_eq!((entry.moment, entry.kind), (Moment::Completed, OpKind::Discard));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("1 Q read 0 512 0 0 True", "event"),
            ("1 D seek 0 512 0 0 True", "operation"),
            ("1 D read 0 0 0 0 True", "size"),
            ("1 D read 0 512 0 0 Tr", "sync"),
            ("1 D read 0 512 0", "wait"),
        ];
        for (line, field) in named {
            assert_eq!(Wiscsee.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
