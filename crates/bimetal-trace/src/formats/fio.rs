//! `fio`: fio's I/O logs, versions 2 and 3 (fio documentation, "Trace file format").
//!
//! The first line names the version. Version 2: `filename action [offset length]`. The action
//! `wait` gives the microseconds since the previous wait, so that the sum of all waits is the time.
//! Version 3: each line begins with a time in microseconds since the start of the job, and there
//! are no waits. Actions: `add`, `open`, `close` (no requests), `read`, `write`, `trim` (bytes),
//! `sync`, `datasync` (flushes). The device is a number by first appearance of the file.

use bimetal_core::operation::OpKind;
use bimetal_core::units::SectorRange;

use super::LineFormat;
use super::devices::DeviceNames;
use super::lines::append_line;
use crate::Request;
use crate::entry::{Bad, Entry, byte_range};
use crate::fields::{Fields, scaled};
use crate::format::{Encode, Encoding, Format};

/// Description of the `fio` format.
pub const INFO: Format = Format {
    name: "fio",
    summary: "fio I/O log, version 2 (wait lines, µs) or 3 (a time in µs on each line)",
    source: "fio documentation, Trace file format",
    encoding: Some(Encoding { start: |_, out| Box::new(Encoder::new(out)), keeps_fua: false, is_compressed: false }),
    ..Format::of_lines::<Fio>()
};

/// First line of version 2.
const HEADER_2: &str = "fio version 2 iolog";
const HEADER_3: &str = "fio version 3 iolog";
const MICROSECOND_NS: u64 = 1_000;

/// Shortest wait that fio keeps (documentation of `wait`); shorter gaps are added up.
const WAIT_US_MIN: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Reader of the `fio` format.
#[derive(Default)]
pub(crate) struct Fio {
    version: Option<Version>,
    files: DeviceNames,
    /// Sum of the waits.
    waited_us: u64,
    saw_wait: bool,
}

impl LineFormat for Fio {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let Some(version) = self.version else {
            self.version = match line.trim_ascii_end() {
                header if header == HEADER_2.as_bytes() => Some(Version::Two),
                header if header == HEADER_3.as_bytes() => Some(Version::Three),
                _ => return Err(Bad::form("header", line, "'fio version 2 iolog' or 'fio version 3 iolog'")),
            };
            return Ok(None);
        };
        let mut fields = Fields::of_words(line);
        let stamp_us = match version {
            Version::Two => self.waited_us,
            Version::Three => fields.number("timestamp")?,
        };
        let file = fields.text("filename")?;
        let kind = match fields.text("action")? {
            b"add" | b"open" | b"close" => {
                fields.end()?;
                self.files.number("filename", file)?;
                return Ok(None);
            }
            b"wait" if version == Version::Two => return self.wait(&mut fields).map(|()| None),
            b"read" => OpKind::Read,
            b"write" => OpKind::Write,
            b"trim" => OpKind::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => OpKind::Flush,
            other => {
                return Err(Bad::form(
                    "action",
                    other,
                    "add, open, close, read, write, trim, sync, datasync or (version 2) wait",
                ));
            }
        };
        let (offset, length) = (fields.number("offset")?, fields.number("length")?);
        fields.end()?;
        let range = if kind == OpKind::Flush { SectorRange::default() } else { byte_range(offset, length)? };
        let device = self.files.number("filename", file)?;
        Ok(Some(Entry::request(scaled("timestamp", stamp_us, MICROSECOND_NS)?, device, kind, range)))
    }

    fn saw_header(&self) -> bool {
        self.version.is_some()
    }

    fn has_times(&self) -> bool {
        self.version != Some(Version::Two) || self.saw_wait
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.files.name(device)
    }
}

impl Fio {
    fn wait(&mut self, fields: &mut Fields<'_>) -> Result<(), Box<Bad>> {
        let wait_us = fields.number("offset")?;
        self.waited_us = self
            .waited_us
            .checked_add(wait_us)
            .ok_or_else(|| Bad::value("offset", wait_us, "waits that add up to less than 2^64 µs"))?;
        self.saw_wait = true;
        Ok(())
    }
}

/// Encoder of the `fio` format, version 2.
#[derive(Default)]
struct Encoder {
    /// Open files, in order of appearance.
    devices: Vec<u32>,
    /// Sum of the waits so far.
    waited_us: u64,
}

impl Encoder {
    fn new(out: &mut Vec<u8>) -> Self {
        append_line(out, format_args!("{HEADER_2}"));
        Self::default()
    }
}

impl Encode for Encoder {
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let action = match request.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Discard => "trim",
            OpKind::Flush => "sync",
            OpKind::WriteZeroes | OpKind::Hint => return false,
        };
        let device = request.device;
        if !self.devices.contains(&device) {
            self.devices.push(device);
            append_line(out, format_args!("device{device} add"));
            append_line(out, format_args!("device{device} open"));
        }
        let wait_us = (request.arrival.0 / MICROSECOND_NS).saturating_sub(self.waited_us);
        if wait_us >= WAIT_US_MIN {
            self.waited_us += wait_us;
            append_line(out, format_args!("device{device} wait {wait_us} 0"));
        }
        let (offset, length) = (request.range.start.bytes().0, request.range.len.bytes().0);
        append_line(out, format_args!("device{device} {action} {offset} {length}"));
        true
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        for device in &self.devices {
            append_line(out, format_args!("device{device} close"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Fio, Vec<Entry>) {
        let mut fio = Fio::default();
        let entries = lines.iter().filter_map(|line| fio.entry(line.as_bytes()).unwrap()).collect();
        (fio, entries)
    }

    #[test]
    fn version_2_takes_its_time_from_the_waits() {
        let (fio, entries) = read(&[
            "fio version 2 iolog",
            "/dev/sda add",
            "/dev/sda open",
            "/dev/sda read 4096 8192",
            "/dev/sda wait 1500 0",
            "/dev/sda sync 0 0",
            "/dev/sdb trim 0 512",
            "/dev/sda close",
        ]);
        let expected = [
            Entry::request(0, 0, OpKind::Read, SectorRange::new(8, 16)),
            Entry::request(1_500_000, 0, OpKind::Flush, SectorRange::default()),
            Entry::request(1_500_000, 1, OpKind::Discard, SectorRange::new(0, 1)),
        ];
        assert_eq!(entries, expected);
        assert!(fio.has_times());
        assert_eq!(fio.device_name(1).as_deref(), Some("/dev/sdb"));
        assert!(!read(&["fio version 2 iolog", "f read 0 512"]).0.has_times());
    }

    #[test]
    fn version_3_has_a_time_on_each_line() {
        let (fio, entries) = read(&["fio version 3 iolog", "2 nvme0n1 add", "912 nvme0n1 write 0 16384"]);
        assert_eq!(entries, [Entry::request(912_000, 0, OpKind::Write, SectorRange::new(0, 32))]);
        assert!(fio.has_times());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let bad = |header: &str, line: &str| {
            let mut fio = Fio::default();
            assert_eq!(fio.entry(header.as_bytes()), Ok(None));
            fio.entry(line.as_bytes()).unwrap_err().field
        };
        assert_eq!(Fio::default().entry(b"fio version 9 iolog").unwrap_err().field, "header");
        assert_eq!(bad(HEADER_2, "f seek 0 512"), "action");
        assert_eq!(bad(HEADER_2, "f read 0"), "length");
        assert_eq!(bad(HEADER_2, "f read 0 0"), "size");
        assert_eq!(bad(HEADER_3, "x f read 0 512"), "timestamp");
        assert_eq!(bad(HEADER_3, "1 f wait 5 0"), "action");
    }
}
