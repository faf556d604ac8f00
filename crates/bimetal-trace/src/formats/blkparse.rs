//! `blkparse`: the default text output of blkparse (blkparse(1), "Trace actions" and "Default
//! output").
//!
//! `major,minor cpu sequence time (s) pid action rwbs …`, where the requests' actions are `Q`
//! (queued), `D` (issued to the drive) and `C` (completed). Each of these actions is followed by
//! `sector + sectors [process]`, or without sectors by `[process]` alone (after a bare sector in a
//! completion). The device is a number by first appearance of `major,minor`. Other actions,
//! messages and the summary at the end are skipped.
//!
//! Traps: output of several CPUs is merged only roughly, so that times step back. The `+ n [` of a
//! line shows that the line was not cut off.

use super::LineFormat;
use super::devices::DeviceNames;
use super::rwbs::Rwbs;
use crate::entry::{Bad, Entry, Moment};
use crate::fields::{Fields, number};
use crate::format::{Events, Format};

/// Description of the `blkparse` format.
pub const INFO: Format = Format {
    name: "blkparse",
    summary: "blkparse's default text: major,minor, CPU, sequence, time (s), process, event, \
              rwbs, sector + sectors",
    source: "blkparse(1)",
    events: Events::WithCompletions,
    ..Format::of_lines::<Blkparse>()
};

/// Reader of the `blkparse` format.
#[derive(Default)]
pub(crate) struct Blkparse {
    devices: DeviceNames,
    in_summary: bool,
}

impl LineFormat for Blkparse {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let mut fields = Fields::of_words(line);
        let device = fields.text("device")?;
        if !is_device(device) {
            return self.summary(line, device);
        }
        self.in_summary = false;
        fields.number("cpu")?;
        fields.number("sequence")?;
        let time = fields.time("time", 9)?;
        fields.number("pid")?;
        let action = fields.text("action")?;
        let moment = match action {
            b"Q" => Moment::Queued,
            b"D" => Moment::Issued,
            b"C" => Moment::Completed,
            b"R" => Moment::Requeued,
            [first, rest @ ..] if first.is_ascii_alphabetic() && rest.len() < 2 => return Ok(None),
            other => return Err(Bad::form("action", other, "Q, D, C or another action of blktrace")),
        };
        let rwbs = Rwbs::read("rwbs", fields.text("rwbs")?)?;
        if rwbs.kind.is_none() {
            return Ok(None);
        }
        let device = self.devices.number("device", device)?;
        match extent(&mut fields)? {
            Some((sector, sectors)) => rwbs.entry(time, device, moment, sector, sectors),
            None => Ok(None),
        }
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.devices.name(device)
    }
}

impl Blkparse {
    /// Handles a line that is not an event: accepts it if it belongs to the summary.
    fn summary(&mut self, line: &[u8], first: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let starts = (first.starts_with(b"CPU") || first == b"Total") && line.trim_ascii_end().ends_with(b"):");
        let loose = [&b"Throughput"[..], b"Events", b"Skips:", b"Input"].iter().any(|word| first.starts_with(word));
        self.in_summary |= starts || loose;
        match self.in_summary {
            true => Ok(None),
            false => Err(Bad::form("device", first, "major,minor, as in 8,16")),
        }
    }
}

/// Returns true if `text` is `major,minor`.
pub(crate) fn is_device(text: &[u8]) -> bool {
    let comma = text.iter().position(|&byte| byte == b',');
    let is_number = |part: &[u8]| (1..=7).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
    comma.is_some_and(|at| is_number(&text[..at]) && is_number(&text[at + 1..]))
}

/// Parses `sector + sectors [process]`, or no sectors. Returns `None` for a command of the SCSI
/// layer, which prints its bytes instead.
pub(crate) fn extent(fields: &mut Fields<'_>) -> Result<Option<(u64, u64)>, Box<Bad>> {
    let sector = fields.text("sector")?;
    if sector.starts_with(b"[") {
        return Ok(Some((0, 0)));
    }
    let sector = number("sector", sector)?;
    let plus = fields.text("+")?;
    if plus.starts_with(b"[") {
        return Ok(Some((sector, 0)));
    }
    if plus.starts_with(b"(") {
        return Ok(None);
    }
    if plus != b"+" {
        return Err(Bad::form("+", plus, "'+' between sector and sectors"));
    }
    let sectors = fields.number("sectors")?;
    if !fields.rest().contains(&b'[') {
        return Err(Bad::form("process", fields.rest(), "[process] at the end: the line may be cut off"));
    }
    Ok(Some((sector, sectors)))
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;

    use super::*;

    fn read(line: &str) -> Result<Option<Entry>, Box<Bad>> {
        Blkparse::default().entry(line.as_bytes())
    }

    #[test]
    fn queue_issue_and_completion_are_read() {
        let entry = |moment, kind| Entry { moment, ..Entry::request(31_417, 0, kind, SectorRange::new(204_800, 640)) };
        let line = |rest: &str| read(&format!("  8,16   3        7     0.000031417  2301  {rest}")).unwrap();
        assert_eq!(line("Q   R 204800 + 640 [java]"), Some(entry(Moment::Queued, OpKind::Read)));
        assert_eq!(line("D  WS 204800 + 640 [kworker/0:1 x]"), Some(entry(Moment::Issued, OpKind::Write)));
        assert_eq!(line("C   D 204800 + 640 [0]"), Some(entry(Moment::Completed, OpKind::Discard)));
        assert_eq!(line("I   R 204800 + 640 [java]"), None);
        assert_eq!(line("U   N [java] 1"), None);
        assert_eq!(line("m   N cfq2301S / alloced"), None);
        assert_eq!(line("A   R 204800 + 640 <- (8,1) 582760"), None);
        assert_eq!(line("D   R 36 (12 00 00 00 24 00) [udevd]"), None);
        assert_eq!(line("D   N 36 (12 00 00 00 24 00) [udevd]"), None);
    }

    #[test]
    fn flushes_fua_and_what_has_no_sectors_are_told_apart() {
        let kind = |rest: &str| {
            read(&format!("8,0 0 1 0.5 9 {rest}")).unwrap().map(|entry| (entry.kind, entry.fua, entry.preflush))
        };
        assert_eq!(kind("Q FWS [jbd2/sda1-8]"), Some((OpKind::Flush, false, false)));
        assert_eq!(kind("D  FN [kworker]"), Some((OpKind::Flush, false, false)));
        assert_eq!(kind("C  FN 0 [0]"), Some((OpKind::Flush, false, false)));
        assert_eq!(kind("C  FF 18446744073709551615 + 0 [0]"), Some((OpKind::Flush, false, false)));
        assert_eq!(kind("C  WS 0 [0]"), Some((OpKind::Write, false, false)));
        assert_eq!(read("8,0 0 1 0.5 9 C WS 64 [0]").unwrap().unwrap().range, SectorRange::new(64, 0));
        assert_eq!(kind("Q FWFSM 64 + 8 [jbd2]"), Some((OpKind::Write, true, true)));
    }

    #[test]
    fn the_summary_is_read_past_and_anything_else_is_not() {
        let mut reader = Blkparse::default();
        assert!(reader.entry(b"Reads Queued:           0").is_err());
        for line in ["CPU0 (8,16):", " Reads Queued:           0,        0KiB", "Total (8,16):", "Skips: 0 forward"] {
            assert_eq!(reader.entry(line.as_bytes()), Ok(None), "{line}");
        }
        assert!(reader.entry(b"8,0 0 1 0.5 9 Q R 8 + 8 [x]").unwrap().is_some());
        assert!(reader.entry(b" Reads Queued:           0").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("8 0 1 0.5 9 Q R 8 + 8 [x]", "device"),
            ("8,0 0 1 -0.5 9 Q R 8 + 8 [x]", "time"),
            ("8,0 0 1 0.5 9 Q R 8 + 0 [x]", "size"),
            ("8,0 0 1 0.5 9 Q R 8 + 8", "process"),
            ("8,0 0 1 0.5 9 Q R 8", "+"),
            ("8,0 0 1 0.5 9 Q", "rwbs"),
            ("8,0 0 1 0.5 9 Q R 1099511627776 + 8 [x]", "sector"),
        ];
        for (line, field) in named {
            assert_eq!(read(line).unwrap_err().field, field, "{line}");
        }
    }
}
