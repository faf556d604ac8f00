//! `bin`: Bimetal's own compact binary, small and fast. The writer compresses the file with zstd;
//! uncompressed files are read as well.
//!
//! A header of 9 bytes: `BMTRACE`, the version 1, and flags. In version 2, which is written if the
//! size of the recorded device is known, that size in sectors follows: 8 bytes, little-endian. Then
//! one record for each request, in order of time: a control byte, then the LEB128 numbers that the
//! control byte does not make redundant:
//!
//! | control bit | meaning |
//! |---|---|
//! | 0 to 2 | 0 read, 1 write, 2 flush, 3 discard, 4 write-zeroes, 7 end |
//! | 3 | force unit access |
//! | 4 | device as in the record before (0 at first); else the device follows |
//! | 5 | the response time (ns) follows |
//! | 6 | as many sectors as the record before (0 at first); else their number follows |
//! | 7 | starts at the end of the record before (0 at first); else the signed distance, zigzag |
//!
//! | bit of the flags | meaning |
//! |---|---|
//! | 0 | the trace has times |
//! | 1 | the trace has operations |
//! | 2 | a request is its arrival in the block layer, before merging: a queue event |
//! | 3 | a request is what the device got, after merging: an issue event |
//!
//! Bits 2 and 3 are both 0 or both 1 if the event is not known. Both bits are 0 in files of earlier
//! builds, and readers of earlier builds ignore them.
//!
//! The order of the numbers is: ns since the record before, device, distance, sectors, response
//! time. The end is the control byte 7 and the number of records, 8 bytes little-endian; a file
//! without this end was cut off.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};

use crate::Request;
use crate::entry::{Bad, Decoder, Entry, Fault, SECTORS_MAX};
use crate::error::Place;
use crate::format::{Encode, Encoding, Format, Recognition};
use crate::input::Input;
use crate::open::Event;
use crate::write::Content;

/// Description of the `bin` format.
pub const INFO: Format = Format {
    name: "bin",
    summary: "Bimetal's own compact binary",
    source: "Bimetal manual, file formats",
    recognition: Recognition::Magic(recognise),
    is_sorted: true,
    encoding: Some(Encoding {
        start: |content, out| Box::new(Encoder::new(content, out)),
        keeps_fua: true,
        is_compressed: true,
    }),
    ..Format::of_records::<Bin>()
};

const MAGIC: &[u8; 8] = b"BMTRACE\x01";
/// Beginning of a file with the size of the recorded device.
const MAGIC_WITH_SIZE: &[u8; 8] = b"BMTRACE\x02";
const HEADER_BYTES: usize = 9;
const SIZE_BYTES: usize = 8;
const END: u8 = 7;
const FUA: u8 = 1 << 3;
const SAME_DEVICE: u8 = 1 << 4;
const RESPONSE: u8 = 1 << 5;
const SAME_SECTORS: u8 = 1 << 6;
const ADJACENT: u8 = 1 << 7;

/// Flags of the header: fields of the requests, and the event that stands for a request.
const HAS_TIMES: u8 = 1;
const HAS_OPERATIONS: u8 = 1 << 1;
const QUEUE_EVENTS: u8 = 1 << 2;
const ISSUE_EVENTS: u8 = 1 << 3;

/// Largest number of bytes of a record: a control byte, four numbers of 64 bits and one number of
/// 32 bits.
const RECORD_BYTES_MAX: usize = 1 + 4 * 10 + 5;

fn recognise(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(MAGIC_WITH_SIZE)
}

/// State of the previous record, to which a record is relative.
#[derive(Clone, Copy, Default)]
struct Before {
    time: u64,
    device: u32,
    end: u64,
    sectors: u64,
}

/// Encoder of requests as records.
struct Encoder {
    before: Before,
    records: u64,
}

impl Encoder {
    /// Writes the header of a file to `out`.
    fn new(content: Content, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(if content.capacity.is_some() { MAGIC_WITH_SIZE } else { MAGIC });
        out.push(flags(content));
        if let Some(capacity) = content.capacity {
            out.extend_from_slice(&capacity.0.to_le_bytes());
        }
        Self { before: Before::default(), records: 0 }
    }
}

/// Returns the flags of the header.
fn flags(content: Content) -> u8 {
    let event = match content.event {
        Some(Event::Queue) => QUEUE_EVENTS,
        Some(Event::Issue) => ISSUE_EVENTS,
        None => 0,
    };
    let flag = |bit: u8, set: bool| if set { bit } else { 0 };
    flag(HAS_TIMES, content.has_times) | flag(HAS_OPERATIONS, content.has_operations) | event
}

impl Encode for Encoder {
    /// Appends a request, no earlier than the previous request, to `out`. Returns false, and
    /// appends nothing, for a hint.
    fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> bool {
        let kind = match request.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            OpKind::Flush => 2,
            OpKind::Discard => 3,
            OpKind::WriteZeroes => 4,
            OpKind::Hint => return false,
        };
        let Before { time, device, end, sectors } = self.before;
        let SectorRange { start, len } = request.range;
        assert!(request.arrival.0 >= time, "requests are written in order of time");
        let flag = |bit: u8, set: bool| if set { bit } else { 0 };
        let (same_device, adjacent) = (request.device == device, start.0 == end);
        let same_sectors = len.0 == sectors;
        let flags = flag(FUA, request.fua) | flag(SAME_DEVICE, same_device) | flag(SAME_SECTORS, same_sectors);
        out.push(kind | flags | flag(ADJACENT, adjacent) | flag(RESPONSE, request.response.is_some()));
        put(request.arrival.0 - time, out);
        if !same_device {
            put(request.device.into(), out);
        }
        if !adjacent {
            let distance = start.0.wrapping_sub(end) as i64;
            put((distance << 1 ^ distance >> 63) as u64, out);
        }
        if !same_sectors {
            put(len.0, out);
        }
        if let Some(response) = request.response {
            put(response.0, out);
        }
        self.before = Before {
            time: request.arrival.0,
            device: request.device,
            end: start.0.wrapping_add(len.0),
            sectors: len.0,
        };
        self.records += 1;
        true
    }

    /// Writes the end of the file to `out`.
    fn finish(&mut self, out: &mut Vec<u8>) {
        out.push(END);
        out.extend_from_slice(&self.records.to_le_bytes());
    }
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decoder of records as requests.
#[derive(Default)]
pub(crate) struct Bin {
    before: Before,
    records: u64,
    /// First byte of the last record.
    offset: u64,
    flags: Option<u8>,
    capacity: Option<Sectors>,
    ended: bool,
}

impl Bin {
    fn header(&mut self, input: &mut Input) -> Result<(), Fault> {
        let head = input.peek(HEADER_BYTES + SIZE_BYTES)?;
        let size = head.get(HEADER_BYTES..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
        let has_size = head.starts_with(MAGIC_WITH_SIZE);
        if head.len() < HEADER_BYTES || !recognise(head) || (has_size && size.is_none()) {
            let head = &head[..head.len().min(MAGIC.len())];
            return Err(Bad::form("header", head, "BMTRACE and version 1 or 2").and_the_rest().into());
        }
        if let Some(size) = size.filter(|&size| has_size && (size == 0 || size > SECTORS_MAX)) {
            return Err(Bad::value("size of the device", size, "1 to 2^40 sectors").and_the_rest().into());
        }
        self.flags = Some(head[HEADER_BYTES - 1]);
        self.capacity = size.filter(|_| has_size).map(Sectors);
        input.consume(HEADER_BYTES + if has_size { SIZE_BYTES } else { 0 });
        Ok(())
    }

    fn end(&mut self, input: &mut Input) -> Result<(), Fault> {
        let tail = input.peek(1 + 8 + 1)?;
        let Some(count) = tail.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) else {
            return Err(cut_off().into());
        };
        if tail.len() > 9 {
            return Err(Bad::form("end", &tail[9..], "no bytes after the end mark").and_the_rest().into());
        }
        if count != self.records - 1 {
            let expected = format!("{}, the number of records in the file", self.records - 1);
            return Err(Bad::value("number of records", count, expected).and_the_rest().into());
        }
        input.consume(9);
        self.ended = true;
        Ok(())
    }
}

impl Decoder for Bin {
    #[inline]
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault> {
        if self.flags.is_none() {
            self.header(input)?;
        }
        if self.ended {
            return Ok(None);
        }
        self.offset = input.offset();
        self.records += 1;
        let bytes = input.peek(RECORD_BYTES_MAX)?;
        let control = *bytes.first().ok_or_else(cut_off)?;
        if control == END {
            return self.end(input).map(|()| None);
        }
        let mut record = Record { rest: &bytes[1..] };
        let entry = record.entry(control, &mut self.before).map_err(Bad::and_the_rest)?;
        let consumed = bytes.len() - record.rest.len();
        input.consume(consumed);
        Ok(Some(entry))
    }

    fn place(&self) -> Place {
        Place::Record { number: self.records, offset: self.offset }
    }

    fn has_times(&self) -> bool {
        self.flags.is_none_or(|flags| flags & HAS_TIMES != 0)
    }

    fn has_operations(&self) -> bool {
        self.flags.is_none_or(|flags| flags & HAS_OPERATIONS != 0)
    }

    fn capacity(&self) -> Option<Sectors> {
        self.capacity
    }

    fn event(&self) -> Option<Event> {
        match self.flags? & (QUEUE_EVENTS | ISSUE_EVENTS) {
            QUEUE_EVENTS => Some(Event::Queue),
            ISSUE_EVENTS => Some(Event::Issue),
            _ => None,
        }
    }
}

#[cold]
fn cut_off() -> Box<Bad> {
    Bad::form("record", b"", "a record or the end: the file is cut off").and_the_rest()
}

/// The bytes of a record that follow its control byte.
struct Record<'a> {
    rest: &'a [u8],
}

impl Record<'_> {
    /// Takes the next number. Numbers of up to seven bytes, which nearly all numbers are, are
    /// decoded from one word without a branch on their length, which changes from number to number.
    #[inline]
    fn number(&mut self) -> Result<u64, Box<Bad>> {
        let Some(word) = self.rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return self.long_number();
        };
        let ends = !word & 0x8080_8080_8080_8080;
        let bits = ends.trailing_zeros() + 1;
        if bits > 56 {
            return self.long_number();
        }
        self.rest = &self.rest[bits as usize / 8..];
        // Gathers seven bits of each byte, by pairs, fours and eights.
        let sevens = word & ((1 << bits) - 1) & 0x7f7f_7f7f_7f7f_7f7f;
        let pairs = (sevens & 0x007f_007f_007f_007f) | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
        let fours = (pairs & 0x3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
        Ok((fours & 0x0fff_ffff) | (fours >> 32) << 28)
    }

    #[cold]
    fn long_number(&mut self) -> Result<u64, Box<Bad>> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().enumerate().take(10) {
            let shift = 7 * at;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { cut_off() } else { Bad::form("record", self.rest, "a number of 64 bits") })
    }

    #[inline]
    fn entry(&mut self, control: u8, before: &mut Before) -> Result<Entry, Box<Bad>> {
        let kind = match control & 7 {
            0 => OpKind::Read,
            1 => OpKind::Write,
            2 => OpKind::Flush,
            3 => OpKind::Discard,
            4 => OpKind::WriteZeroes,
            other => return Err(Bad::value("operation", other, "0 to 4")),
        };
        let elapsed = self.number()?;
        before.time =
            before.time.checked_add(elapsed).ok_or_else(|| Bad::value("time", elapsed, "a time below 2^64 ns"))?;
        if control & SAME_DEVICE == 0 {
            let device = self.number()?;
            before.device = u32::try_from(device).map_err(|_| Bad::value("device", device, "a number below 2^32"))?;
        }
        let mut start = before.end;
        if control & ADJACENT == 0 {
            let zigzag = self.number()?;
            start = start.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
        }
        if control & SAME_SECTORS == 0 {
            before.sectors = self.number()?;
        }
        let (sectors, empty) = (before.sectors, kind == OpKind::Flush);
        if start > SECTORS_MAX || sectors > SECTORS_MAX - start {
            return Err(Bad::value("sector", start, "a range below sector 2^40"));
        }
        if (sectors == 0) != empty {
            return Err(Bad::value("sectors", sectors, "at least one sector, and none for a flush"));
        }
        before.end = start + sectors;
        let range = if empty { SectorRange::default() } else { SectorRange::new(start, sectors) };
        let mut entry = Entry::request(before.time, before.device, kind, range);
        entry.fua = control & FUA != 0;
        if control & RESPONSE != 0 {
            entry.response = Some(Nanoseconds(self.number()?));
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arrival: u64, device: u32, kind: OpKind, start: u64, len: u64) -> Request {
        let range = SectorRange::new(start, len);
        Request { arrival: Nanoseconds(arrival), device, kind, fua: false, range, response: None }
    }

    fn file(requests: &[Request]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Content::default(), &mut out);
        assert!(requests.iter().all(|request| encoder.request(request, &mut out)));
        encoder.finish(&mut out);
        out
    }

    fn decoded(bytes: Vec<u8>) -> Result<Vec<Entry>, (&'static str, Place)> {
        let mut input = Input::new(std::io::Cursor::new(bytes)).unwrap();
        let mut bin = Bin::default();
        let mut entries = Vec::new();
        loop {
            match bin.next(&mut input) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return Ok(entries),
                Err(Fault::Bad(bad)) => {
                    assert!(bad.fatal, "nothing behind a damaged record can be trusted");
                    return Err((bad.field, bin.place()));
                }
                Err(Fault::Read(error)) => panic!("{error}"),
            }
        }
    }

    /// A sequential request of the same size takes one control byte and its time.
    #[test]
    fn sequential_request_takes_a_control_byte_and_its_time() {
        let requests: Vec<_> = (0..100).map(|number| request(number, 0, OpKind::Write, number * 8, 8)).collect();
        let bytes = file(&requests);
        assert_eq!(bytes.len(), HEADER_BYTES + 3 + 99 * 2 + 9);
        assert!(recognise(&bytes));
        let entries = decoded(bytes).unwrap();
        assert!(entries.iter().zip(&requests).all(|(entry, request)| entry.range == request.range));
    }

    #[test]
    fn extreme_numbers_survive() {
        let far = SECTORS_MAX - 1;
        let requests = [
            request(0, u32::MAX, OpKind::Read, far, 1),
            request(u64::MAX, 0, OpKind::Discard, 0, SECTORS_MAX),
            Request { response: Some(Nanoseconds::MAX), ..request(u64::MAX, 0, OpKind::Flush, 0, 0) },
        ];
        let entries = decoded(file(&requests)).unwrap();
        for (entry, request) in entries.iter().zip(&requests) {
            assert_eq!((entry.time, entry.device, entry.kind), (request.arrival, request.device, request.kind));
            assert_eq!((entry.range, entry.response), (request.range, request.response));
        }
    }

    /// Regression: in a trace of three requests, a changed bit made one a flush at an address
    /// beyond the end of the volume. Each of 692 options of a plan refused the flush, so the plan
    /// ran all options.
    #[test]
    fn flush_has_no_place_of_its_own() {
        let requests = [
            request(0, 0, OpKind::Write, 0, 8),
            request(1, 0, OpKind::Flush, 79, 0),
            request(2, 0, OpKind::Read, 79, 8),
        ];
        let ranges: Vec<SectorRange> = decoded(file(&requests)).unwrap().iter().map(|entry| entry.range).collect();
        assert_eq!(ranges, [requests[0].range, SectorRange::default(), requests[2].range]);
    }

    #[test]
    fn numbers_of_any_length_survive() {
        let requests: Vec<_> = (0..64)
            .scan(0, |time, bits| {
                *time += (1u64 << bits) - u64::from(bits % 3 == 0);
                Some(request(*time, 0, OpKind::Read, *time >> 25, 1 + *time % 4096))
            })
            .collect();
        let entries = decoded(file(&requests)).unwrap();
        assert!(
            entries
                .iter()
                .zip(&requests)
                .all(|(entry, request)| (entry.time, entry.range) == (request.arrival, request.range))
        );
    }

    #[test]
    fn a_hint_is_no_part_of_a_trace() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Content::default(), &mut out);
        assert!(!encoder.request(&request(0, 0, OpKind::Hint, 0, 8), &mut out));
        assert_eq!(out.len(), HEADER_BYTES);
    }

    /// Files without a size are written, and read, as before sizes were added.
    #[test]
    fn size_of_the_device_is_kept_and_old_files_are_read() {
        let one = request(5, 0, OpKind::Read, 1000, 8);
        let old = file(&[one]);
        assert!(old.starts_with(b"BMTRACE\x01\x03"));
        let mut new = Vec::new();
        let mut encoder = Encoder::new(Content { capacity: Some(Sectors(4096)), ..Content::default() }, &mut new);
        assert!(encoder.request(&one, &mut new));
        encoder.finish(&mut new);
        assert_eq!(new[HEADER_BYTES + SIZE_BYTES..], old[HEADER_BYTES..], "the records are the same");
        for (bytes, capacity) in [(old, None), (new.clone(), Some(Sectors(4096)))] {
            let mut input = Input::new(std::io::Cursor::new(bytes.clone())).unwrap();
            let mut decoder = Bin::default();
            assert_eq!(decoder.next(&mut input).unwrap().unwrap().range, one.range);
            assert_eq!(decoder.capacity(), capacity);
            assert!(recognise(&bytes) && decoder.next(&mut input).unwrap().is_none());
        }
        for length in 0..new.len() {
            assert!(decoded(new[..length].to_vec()).is_err(), "cut off after {length} bytes");
        }
        new[HEADER_BYTES..HEADER_BYTES + SIZE_BYTES].fill(0xff);
        assert_eq!(decoded(new).unwrap_err().0, "size of the device");
    }

    /// The kind of event is in bits that were always 0 in earlier files, so earlier files count as
    /// files without a known event.
    #[test]
    fn event_of_the_requests_is_kept_in_the_flags() {
        for (event, flags) in [(None, 0b0011), (Some(Event::Queue), 0b0111), (Some(Event::Issue), 0b1011)] {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(Content { event, ..Content::default() }, &mut bytes);
            encoder.finish(&mut bytes);
            assert_eq!(bytes[HEADER_BYTES - 1], flags);
            let mut decoder = Bin::default();
            let mut input = Input::new(std::io::Cursor::new(bytes)).unwrap();
            assert!(decoder.next(&mut input).unwrap().is_none());
            assert_eq!(decoder.event(), event);
            assert!(decoder.has_times() && decoder.has_operations());
        }
        assert_eq!(Bin { flags: Some(0b1111), ..Bin::default() }.event(), None, "both bits name no event");
    }

    #[test]
    fn a_file_cut_off_anywhere_is_refused() {
        let bytes = file(&[request(5, 1, OpKind::Read, 1000, 8), request(9, 0, OpKind::Write, 7, 16)]);
        for length in 0..bytes.len() {
            assert!(decoded(bytes[..length].to_vec()).is_err(), "cut off after {length} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decoded(longer).unwrap_err().0, "end");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_record() {
        let record = |bytes: &[u8]| decoded([&MAGIC[..], &[3], bytes].concat()).unwrap_err();
        let place = |number, offset| Place::Record { number, offset };
        assert_eq!(record(&[SAME_DEVICE | 5, 0, 0, 8]), ("operation", place(1, 9)));
        assert_eq!(record(&[SAME_DEVICE | ADJACENT, 0, 8, SAME_DEVICE, 0, 17, 8]), ("sector", place(2, 12)));
        assert_eq!(record(&[SAME_DEVICE | ADJACENT, 0, 0]), ("sectors", place(1, 9)));
        assert_eq!(record(&[&[SAME_DEVICE][..], &[0xff; 12]].concat()), ("record", place(1, 9)));
        assert_eq!(record(&[END, 1, 0, 0, 0, 0, 0, 0, 0]), ("number of records", place(1, 9)));
        assert_eq!(decoded(b"BMTRACE\x02\x03".to_vec()).unwrap_err().0, "header");
    }
}
