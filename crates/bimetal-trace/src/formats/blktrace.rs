//! `blktrace`: the binary records that the kernel hands to blktrace (linux/blktrace_api.h, version
//! 7).
//!
//! Records of 48 bytes in the recording machine's byte order, which the magic number shows: `u32
//! magic (0x65617407), u32 sequence, u64 time (ns), u64 sector, u32 bytes, u32 action, u32 pid, u32
//! device, u32 cpu, u16 error, u16 pdu length`. A payload of `pdu length` bytes follows each
//! record. The low half of the action is the event (1 queued, 7 issued, 8 completed; bit 8 marks a
//! group id in the payload). The high half holds categories: read, write, flush, discard, FUA, and
//! categories that are not requests (messages, commands of the SCSI layer). The device is a number
//! by first appearance of major and minor.
//!
//! blktrace writes a file for each CPU. A file of one CPU holds only the events of that CPU.
//! Concatenated files are sorted only as far as the window of `time_order` reaches; `blkparse -i
//! NAME -d FILE` merges them.

use bimetal_core::operation::OpKind;

use super::devices::DeviceNames;
use super::fiu::write_name;
use super::rwbs::Rwbs;
use crate::entry::{Bad, Decoder, Entry, Fault, Moment};
use crate::error::Place;
use crate::format::{Events, Format, Recognition};
use crate::input::Input;

/// Description of the `blktrace` format.
pub const INFO: Format = Format {
    name: "blktrace",
    summary: "blktrace's binary records, version 7, of one CPU or merged by blkparse -d",
    source: "linux/blktrace_api.h; blktrace(8)",
    recognition: Recognition::Magic(recognise),
    events: Events::WithCompletions,
    ..Format::of_records::<Blktrace>()
};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;

const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const PACKET_COMMAND: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
const DRIVER_DATA: u32 = 1 << 14;
const FUA: u32 = 1 << 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    fn of(head: &[u8]) -> Option<Self> {
        let magic = *head.first_chunk::<4>()?;
        match (u32::from_le_bytes(magic) & !0xff, u32::from_be_bytes(magic) & !0xff) {
            (MAGIC, _) => Some(Endian::Little),
            (_, MAGIC) => Some(Endian::Big),
            _ => None,
        }
    }

    fn number(self, bytes: &[u8]) -> u64 {
        let digits = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Endian::Little => bytes.iter().rev().fold(0, digits),
            Endian::Big => bytes.iter().fold(0, digits),
        }
    }
}

fn recognise(head: &[u8]) -> bool {
    Endian::of(head).is_some()
}

/// Reader of the `blktrace` format.
#[derive(Default)]
pub(crate) struct Blktrace {
    endian: Option<Endian>,
    devices: DeviceNames,
    records: u64,
    offset: u64,
}

impl Blktrace {
    /// Takes the record at the front of `input`, with its payload. Returns the entry of the record;
    /// `None` if the record is no request or completion.
    fn record(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        let bytes = input.peek(RECORD_BYTES)?;
        self.records += 1;
        if self.endian.is_none() {
            self.endian = Endian::of(bytes);
        }
        let Some(endian) = self.endian else {
            let magic = &bytes[..bytes.len().min(4)];
            return Err(Bad::form("magic", magic, "0x65617407 in either byte order").and_the_rest().into());
        };
        let Some(record) = bytes.first_chunk::<RECORD_BYTES>() else {
            return Err(cut_off(input));
        };
        let record = *record;
        let field = |at: usize, length: usize| endian.number(&record[at..at + length]);
        let magic = field(0, 4) as u32;
        if magic & !0xff != MAGIC || magic & 0xff != VERSION {
            let bad = Bad::value("magic", format!("{magic:#010x}"), "0x65617407, that of version 7");
            // The start of the next record is unknown, too.
            return Err(bad.and_the_rest().into());
        }
        let payload = field(46, 2) as usize;
        if input.peek(RECORD_BYTES + payload)?.len() < RECORD_BYTES + payload {
            return Err(cut_off(input));
        }
        input.consume(RECORD_BYTES + payload);
        let (time, sector, bytes) = (field(8, 8), field(16, 8), field(24, 4));
        let (action, device) = (field(28, 4) as u32, field(36, 4) as u32);
        let categories = action >> 16;
        if categories & (NOTIFY | PACKET_COMMAND | DRIVER_DATA) != 0 {
            return Ok(None);
        }
        let moment = match action & 0xff {
            1 => Moment::Queued,
            4 => Moment::Requeued,
            7 => Moment::Issued,
            8 => Moment::Completed,
            _ => return Ok(None),
        };
        let mut name = [0; 40];
        let length = write_name(&mut name, u64::from(device >> 20), u64::from(device & 0xf_ffff));
        let device = self.devices.number("device", &name[..length])?;
        Ok(operation(categories).entry(time, device, moment, sector, bytes.div_ceil(512))?)
    }
}

fn operation(categories: u32) -> Rwbs {
    let has = |bit: u32| categories & bit != 0;
    let kind = match () {
        () if has(DISCARD) => Some(OpKind::Discard),
        () if has(WRITE) => Some(OpKind::Write),
        () if has(FLUSH) => Some(OpKind::Flush),
        () if has(READ) => Some(OpKind::Read),
        () => None,
    };
    Rwbs { kind, preflush: has(FLUSH), fua: has(FUA) }
}

fn cut_off(input: &mut Input) -> Fault {
    // The rest is in the buffer, as the end of the file was met while looking for more.
    let left = input.peek(1).map_or(0, <[u8]>::len);
    input.consume(left);
    Bad::form("record", b"", "48 bytes and the payload: the last record is cut off").into()
}

impl Decoder for Blktrace {
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        loop {
            self.offset = input.offset();
            if input.peek(1)?.is_empty() {
                return Ok(None);
            }
            if let Some(entry) = self.record(input)? {
                return Ok(Some(entry));
            }
        }
    }

    fn place(&self) -> Place {
        Place::Record { number: self.records, offset: self.offset }
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.devices.name(device)
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    /// Returns a record in either byte order, with its payload.
    fn record(big: bool, time: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        let mut put = |value: u64, length: usize| {
            let bytes = value.to_le_bytes();
            let mut bytes = bytes[..length].to_vec();
            if big {
                bytes.reverse();
            }
            record.extend(bytes);
        };
        put(0x6561_7407, 4);
        put(1, 4);
        put(time, 8);
        put(sector, 8);
        put(bytes.into(), 4);
        put(action.into(), 4);
        put(42, 4);
        put(8 << 20 | 16, 4);
        put(0, 4);
        put(0, 2);
        put(payload.len() as u64, 2);
        record.extend(payload);
        record
    }

    const QUEUED: u32 = 1;
    const ISSUED: u32 = 7;
    const COMPLETED: u32 = 8;

    fn all(bytes: Vec<u8>) -> (Vec<Entry>, Option<&'static str>, Blktrace) {
        let mut input = Input::new(std::io::Cursor::new(bytes)).unwrap();
        let mut reader = Blktrace::default();
        let mut entries = Vec::new();
        loop {
            match reader.next(&mut input) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return (entries, None, reader),
                Err(Fault::Bad(bad)) => return (entries, Some(bad.field), reader),
                Err(Fault::Read(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn events_are_read_in_either_byte_order_and_payloads_read_past() {
        for big in [false, true] {
            let mut bytes = record(big, 5, 64, 4096, READ << 16 | QUEUED, &[]);
            bytes.extend(record(big, 6, 0, 0, NOTIFY << 16, b"java"));
            bytes.extend(record(big, 7, 64, 4096, READ << 16 | ISSUED | 1 << 8, &[0; 8]));
            bytes.extend(record(big, 8, 64, 4096, READ << 16 | 15, &[]));
            bytes.extend(record(big, 9, 64, 4096, READ << 16 | COMPLETED, &[]));
            assert!(recognise(&bytes));
            let (entries, bad, reader) = all(bytes);
            let entry =
                |time, moment| Entry { moment, ..Entry::request(time, 0, OpKind::Read, SectorRange::new(64, 8)) };
            assert_eq!(entries, [entry(5, Moment::Queued), entry(7, Moment::Issued), entry(9, Moment::Completed)]);
            assert_eq!((bad, reader.device_name(0).as_deref()), (None, Some("8,16")));
        }
    }

    #[test]
    fn flush_fua_and_discard_are_kept() {
        let mut bytes = record(false, 1, 0, 0, (WRITE | FLUSH) << 16 | QUEUED, &[]);
        bytes.extend(record(false, 2, 8, 4096, (WRITE | FLUSH | FUA) << 16 | QUEUED, &[]));
        bytes.extend(record(false, 3, 8, 4096, (WRITE | DISCARD) << 16 | QUEUED, &[]));
        bytes.extend(record(false, 4, 8, 4096, (WRITE | PACKET_COMMAND) << 16 | QUEUED, &[]));
        let seen: Vec<_> = all(bytes).0.iter().map(|entry| (entry.kind, entry.fua, entry.preflush)).collect();
        let expected = [(OpKind::Flush, false, false), (OpKind::Write, true, true), (OpKind::Discard, false, false)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let whole = record(false, 1, 8, 4096, READ << 16 | QUEUED, &[1, 2, 3]);
        assert_eq!(all(whole[..30].to_vec()).1, Some("record"));
        assert_eq!(all(whole[..50].to_vec()).1, Some("record"));
        let mut other = whole.clone();
        other[0] = 8;
        assert_eq!(all(other).1, Some("magic"));
        assert_eq!(all(record(false, 1, 8, 0, READ << 16 | QUEUED, &[])).1, Some("size"));
    }
}
