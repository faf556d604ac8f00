//! `vscsi`: vSCSI trace records of virtual disks (Waldspurger et al., SHARDS, FAST 2015; layout as
//! libCacheSim reads it).
//!
//! Records without a header, little-endian. Version 1, 32 bytes: `u32 sequence, u32 bytes, u32
//! segments, u16 command, u16 version (1 << 8), u64 sector, u64 time (µs)`. Version 2, 40 bytes:
//! `u16 command, u16 version (2 << 8), u32 sequence, u32 bytes, u32 segments, u64 sector, u64 time,
//! u64 response time (µs)`. Commands are SCSI operation codes. Commands that move no data (INQUIRY
//! and so on) give no requests, nor does UNMAP, whose ranges the record lacks.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};

use crate::entry::{Bad, Decoder, Entry, Fault, sector_range};
use crate::error::Place;
use crate::fields::scaled;
use crate::format::{Format, Recognition};
use crate::input::Input;

/// Description of the `vscsi` format.
pub const INFO: Format = Format {
    name: "vscsi",
    summary: "vSCSI trace records of 32 bytes (version 1) or 40 bytes (version 2), times in µs",
    source: "Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015; libCacheSim",
    recognition: Recognition::Shape(recognise),
    ..Format::of_records::<Vscsi>()
};

const MICROSECOND_NS: u64 = 1_000;

/// Layouts of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Returns the position of the command in a record; the version follows the command.
    const fn command_at(self) -> usize {
        match self {
            Version::One => 12,
            Version::Two => 0,
        }
    }

    /// Returns true if `record` claims this version and its command is one byte.
    fn fits(self, record: &[u8]) -> bool {
        let at = self.command_at();
        let number = match self {
            Version::One => 1,
            Version::Two => 2,
        };
        record.get(at + 1..at + 4).is_some_and(|bytes| bytes[0] == 0 && bytes[2] == number)
    }

    /// Returns the version on which the first records of `head` agree.
    fn of(head: &[u8]) -> Option<Self> {
        const RECORDS_TRIED: usize = 16;
        [Version::One, Version::Two].into_iter().find(|version| {
            let mut records = head.chunks_exact(version.record_bytes()).take(RECORDS_TRIED).peekable();
            records.peek().is_some() && records.all(|record| version.fits(record))
        })
    }
}

fn recognise(head: &[u8]) -> bool {
    Version::of(head).is_some()
}

/// Returns the operation of a SCSI operation code; `None` if it is no request for data. A write
/// that verifies is a write.
pub(crate) fn operation(code: u16) -> Option<OpKind> {
    match code {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(OpKind::Read),
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(OpKind::Write),
        0x35 | 0x91 => Some(OpKind::Flush),
        0x41 | 0x93 => Some(OpKind::WriteZeroes),
        _ => None,
    }
}

/// Reader of the `vscsi` format.
#[derive(Default)]
pub(crate) struct Vscsi {
    version: Option<Version>,
    records: u64,
    offset: u64,
}

impl Vscsi {
    fn version(&mut self, input: &mut Input) -> Result<Version, Fault> {
        if let Some(version) = self.version {
            return Ok(version);
        }
        // A file opened with --format may begin with one damaged record.
        let head = input.peek(40 * 16)?;
        let first = [Version::One, Version::Two].into_iter().find(|version| version.fits(head));
        let Some(version) = Version::of(head).or(first) else {
            return Err(Bad::form("version", &head[..head.len().min(40)], "records of version 1 or 2")
                .and_the_rest()
                .into());
        };
        self.version = Some(version);
        Ok(version)
    }

    fn record(version: Version, record: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        let u32_at = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let at = version.command_at();
        let command = u16::from_le_bytes([record[at], record[at + 1]]);
        if !version.fits(record) {
            let found = format!("{:#06x}", u16::from_le_bytes([record[at + 2], record[at + 3]]));
            return Err(Bad::value("version", found, "the version of the first record"));
        }
        let bytes = Bytes(u32_at(if version == Version::One { 4 } else { 8 }).into());
        let (sector, time) = (u64_at(16), u64_at(24));
        let Some(kind) = operation(command) else { return Ok(None) };
        let range = match kind {
            OpKind::Flush => SectorRange::default(),
            _ => sector_range(sector, Sectors::covering(bytes).0)?,
        };
        let mut entry = Entry::request(scaled("time", time, MICROSECOND_NS)?, 0, kind, range);
        if version == Version::Two {
            entry.response = Some(Nanoseconds(scaled("response time", u64_at(32), MICROSECOND_NS)?));
        }
        Ok(Some(entry))
    }
}

impl Decoder for Vscsi {
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        let version = self.version(input)?;
        let length = version.record_bytes();
        loop {
            self.offset = input.offset();
            let bytes = input.peek(length)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            self.records += 1;
            if bytes.len() < length {
                let bad = Bad::form("record", bytes, format!("{length} bytes: the last record is cut off"));
                let left = bytes.len();
                input.consume(left);
                return Err(bad.into());
            }
            let entry = Self::record(version, &bytes[..length]);
            input.consume(length);
            if let Some(entry) = entry? {
                return Ok(Some(entry));
            }
        }
    }

    fn place(&self) -> Place {
        Place::Record { number: self.records, offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of version 1.
    pub(crate) fn record_one(command: u16, bytes: u32, sector: u64, time_us: u64) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(7u32.to_le_bytes());
        record.extend(bytes.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(command.to_le_bytes());
        record.extend(256u16.to_le_bytes());
        record.extend(sector.to_le_bytes());
        record.extend(time_us.to_le_bytes());
        record
    }

    fn all(bytes: Vec<u8>) -> Vec<Result<Entry, String>> {
        let mut input = Input::new(std::io::Cursor::new(bytes)).unwrap();
        let mut reader = Vscsi::default();
        std::iter::from_fn(|| match reader.next(&mut input) {
            Ok(entry) => entry.map(Ok),
            Err(Fault::Bad(bad)) => Some(Err(bad.field.to_owned())),
            Err(Fault::Read(error)) => Some(Err(error.to_string())),
        })
        .take(10)
        .collect()
    }

    #[test]
    fn records_of_version_1_are_read_and_other_commands_read_past() {
        let mut bytes = record_one(0x2a, 6656, 25_165_835, 5);
        bytes.extend(record_one(0x12, 36, 0, 6));
        bytes.extend(record_one(0x88, 512, 9, 7));
        assert!(recognise(&bytes));
        let expected = [
            Ok(Entry::request(5000, 0, OpKind::Write, SectorRange::new(25_165_835, 13))),
            Ok(Entry::request(7000, 0, OpKind::Read, SectorRange::new(9, 1))),
        ];
        assert_eq!(all(bytes), expected);
    }

    #[test]
    fn records_of_version_2_have_a_response_time() {
        let mut bytes = Vec::new();
        bytes.extend(0x28u16.to_le_bytes());
        bytes.extend(512u16.to_le_bytes());
        bytes.extend([1u32, 4096, 1].iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend([64u64, 3, 250].iter().flat_map(|value| value.to_le_bytes()));
        assert!(recognise(&bytes));
        let entry = all(bytes)[0].clone().unwrap();
        assert_eq!(entry.response, Some(Nanoseconds(250_000)));
        assert_eq!((entry.time, entry.range), (Nanoseconds(3000), SectorRange::new(64, 8)));
    }

    #[test]
    fn damaged_and_cut_off_records_are_named_and_the_rest_is_read() {
        let mut bytes = record_one(0x2a, 512, 1, 5);
        let mut other_version = record_one(0x2a, 512, 2, 6);
        other_version[15] = 9;
        bytes.extend(other_version);
        bytes.extend(record_one(0x2a, 0, 3, 7));
        bytes.extend(record_one(0x2a, 512, 4, 8));
        bytes.extend([1, 2, 3]);
        let errors: Vec<_> = all(bytes).into_iter().filter_map(Result::err).collect();
        assert_eq!(errors, ["version", "size", "record"]);
    }
}
