//! `diskmon`: the log of Sysinternals DiskMon for Windows.
//!
//! `sequence time (s) duration (s) disk Read|Write sector sectors`, separated by tabs. The duration
//! is DiskMon's own measure of the response time, in steps of the clock it used (0 is common).
//! Times step back a little now and then, and real logs begin with lines that have garbage in the
//! sector field.

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;

use super::LineFormat;
use crate::entry::{Bad, Entry, sector_range};
use crate::fields::Fields;
use crate::format::Format;

/// Description of the `diskmon` format.
pub const INFO: Format = Format {
    name: "diskmon",
    summary: "seven columns: sequence, time (s), duration (s), disk, Read or Write, sector, \
              sectors",
    source: "Sysinternals DiskMon for Windows",
    ..Format::of_lines::<Diskmon>()
};

/// Reader of the `diskmon` format.
#[derive(Default)]
pub(crate) struct Diskmon;

impl LineFormat for Diskmon {
    #[inline]
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let mut fields = Fields::of_words(line);
        fields.number("sequence")?;
        let (time, duration) = (fields.time("time", 9)?, fields.time("duration", 9)?);
        let disk = fields.device("disk")?;
        let kind = match fields.text("request")? {
            b"Read" => OpKind::Read,
            b"Write" => OpKind::Write,
            other => return Err(Bad::form("request", other, "Read or Write")),
        };
        let (sector, sectors) = (fields.number("sector")?, fields.number("length")?);
        fields.end()?;
        let mut entry = Entry::request(time, disk, kind, sector_range(sector, sectors)?);
        entry.response = Some(Nanoseconds(duration));
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    #[test]
    fn time_duration_and_sectors_are_read() {
        let entry = Diskmon.entry(b"7\t0.021875\t0.00025125\t1\tRead\t2211840\t8\t").unwrap().unwrap();
        let expected = Entry {
            response: Some(Nanoseconds(251_250)),
            ..Entry::request(21_875_000, 1, OpKind::Read, SectorRange::new(2_211_840, 8))
        };
        assert_eq!(entry, expected);
    }

    #[test]
    fn a_nonsense_sector_is_a_bad_value_of_a_well_formed_line() {
        let bad = Diskmon.entry(b"0\t0.312500\t0.00420011\t0\tWrite\t7777777777777777777\t1234567\t").unwrap_err();
        assert_eq!((bad.field, bad.formed), ("sector", true));
        let named = [("0 1 1 0 read 8 8", "request"), ("0 1 1 0 Read 8", "length"), ("0 -1 1 0 Read 8 8", "time")];
        for (line, field) in named {
            assert_eq!(Diskmon.entry(line.as_bytes()).unwrap_err().field, field, "{line}");
        }
    }
}
