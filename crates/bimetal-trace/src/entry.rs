//! Entries, which decoders make of lines or records, and the reasons for which a decoder refuses a
//! line or record.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};

use crate::Request;
use crate::error::{Place, shown};
use crate::input::Input;
use crate::open::Event;

/// First sector (at 512 TiB) that no request may reach; addresses beyond this sector are rejected
/// as garbage.
pub(crate) const SECTORS_MAX: u64 = 1 << 40;

/// Largest number of sectors of a read or write: 256 MiB, many times more than drives take at once.
/// A longer read or write is rejected as garbage, because a few of such requests, split into
/// blocks, would exhaust the memory.
pub(crate) const TRANSFER_SECTORS_MAX: u64 = 1 << 19;

/// Largest number of sectors of a write-zeroes: 4 GiB, more than the longest that Linux can ask for
/// at once.
pub(crate) const ZEROES_SECTORS_MAX: u64 = 1 << 23;

/// Moment in the lifetime of a request that an entry records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// The only moment that is recorded: the format has one entry for each request.
    Only,
    /// Arrival of the request in the block layer.
    Queued,
    /// Issue of the request to the drive.
    Issued,
    /// Return of an issued request to the queue. The request is issued once more later.
    Requeued,
    /// Completion of the request by the drive.
    Completed,
}

/// Event of a trace, with the time as the trace counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Time in nanoseconds since the trace's own origin.
    pub(crate) time: Nanoseconds,
    pub(crate) device: u32,
    pub(crate) kind: OpKind,
    pub(crate) moment: Moment,
    pub(crate) fua: bool,
    /// Set if a flush precedes the request. The flush is returned as a request of its own.
    pub(crate) preflush: bool,
    pub(crate) range: SectorRange,
    pub(crate) response: Option<Nanoseconds>,
}

impl Entry {
    /// Makes an entry for a request, in formats that have one entry for each request.
    pub(crate) fn request(time_ns: u64, device: u32, kind: OpKind, range: SectorRange) -> Self {
        Self {
            time: Nanoseconds(time_ns),
            device,
            kind,
            moment: Moment::Only,
            fua: false,
            preflush: false,
            range,
            response: None,
        }
    }

    /// Returns the entry, if the request moves no more data than one request can.
    ///
    /// # Errors
    /// Refuses a read or write of more than [`TRANSFER_SECTORS_MAX`] and a write-zeroes of more
    /// than [`ZEROES_SECTORS_MAX`]. A discard transfers no data, and may be of any size.
    #[inline]
    pub(crate) fn bounded(self) -> Result<Self, Box<Bad>> {
        let (most, expected) = match self.kind {
            OpKind::Read | OpKind::Write => (TRANSFER_SECTORS_MAX, TRANSFER_EXPECTED),
            OpKind::WriteZeroes => (ZEROES_SECTORS_MAX, ZEROES_EXPECTED),
            OpKind::Flush | OpKind::Discard | OpKind::Hint => return Ok(self),
        };
        if self.range.len.0 <= most {
            return Ok(self);
        }
        Err(Bad::value("size", format!("{} sectors", self.range.len.0), expected))
    }
}

const TRANSFER_EXPECTED: &str = "at most 524288 sectors (256 MiB) in one read or write";
const ZEROES_EXPECTED: &str = "at most 8388608 sectors (4 GiB) in one write-zeroes";

/// Reason for which a line or record is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bad {
    pub(crate) field: &'static str,
    pub(crate) value: String,
    pub(crate) expected: Cow<'static, str>,
    /// Set if the field has the form that the format asks for and only its value is impossible.
    /// Recognition by content counts such a line as a line of the format.
    pub(crate) formed: bool,
    /// Set if nothing after the line or record can be read.
    pub(crate) fatal: bool,
}

impl Bad {
    /// Describes a field that does not have the form of the format.
    #[cold]
    pub(crate) fn form(field: &'static str, value: &[u8], expected: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self { field, value: shown(value), expected: expected.into(), formed: false, fatal: false })
    }

    /// Describes a field with the right form and an impossible value.
    #[cold]
    pub(crate) fn value(
        field: &'static str,
        value: impl ToString,
        expected: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        Box::new(Self { field, value: value.to_string(), expected: expected.into(), formed: true, fatal: false })
    }

    /// Marks the refusal as fatal: no entry after the refused entry can be read.
    pub(crate) fn and_the_rest(mut self: Box<Self>) -> Box<Self> {
        self.fatal = true;
        self
    }
}

/// Reasons for which a decoder has no next entry.
#[derive(Debug)]
pub(crate) enum Fault {
    Bad(Box<Bad>),
    Read(io::Error),
}

impl From<Box<Bad>> for Fault {
    fn from(bad: Box<Bad>) -> Self {
        Fault::Bad(bad)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Read(error)
    }
}

/// Largest number of entries that one call of [`Decoder::fill`] decodes.
const FILLED: usize = 128;

/// Decoder of one format: takes a trace apart, entry by entry, in file order.
pub(crate) trait Decoder: Send {
    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    /// Fails with the refused record, or with the error of a failed read. Unless the refusal is
    /// fatal, the next call continues after the refused record.
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault>;

    /// Appends the next entries to `entries`, and returns true if more entries may follow.
    ///
    /// # Errors
    /// Returns the errors of [`next`](Self::next), for the entry after the entries that were
    /// appended.
    fn fill(&mut self, input: &mut Input, entries: &mut VecDeque<Entry>) -> Result<bool, Fault> {
        for _ in 0..FILLED {
            match self.next(input)? {
                Some(entry) => entries.push_back(entry.bounded()?),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the place of the last entry or refused record.
    fn place(&self) -> Place;

    /// Returns true if the content decoded so far contains times.
    fn has_times(&self) -> bool {
        true
    }

    /// Returns true if the content decoded so far contains operations.
    fn has_operations(&self) -> bool {
        true
    }

    /// Returns the size of the recorded device, if the content decoded so far contains the size.
    fn capacity(&self) -> Option<Sectors> {
        None
    }

    /// Returns the event that each entry is, if the content decoded so far names one event for all
    /// entries.
    fn event(&self) -> Option<Event> {
        None
    }

    /// Returns the trace's name for a device that has no number in the trace.
    fn device_name(&self, _device: u32) -> Option<String> {
        None
    }

    /// Returns the first line that was skipped because it holds no event of interest.
    fn first_ignored(&self) -> Option<(Place, &str)> {
        None
    }
}

/// Returns the range of `count` sectors from `start` on.
///
/// # Errors
/// Refuses a range of no sectors, and sectors beyond [`SECTORS_MAX`].
#[inline]
pub(crate) fn sector_range(start: u64, count: u64) -> Result<SectorRange, Box<Bad>> {
    if count == 0 {
        return Err(Bad::value("size", 0, "at least 1 sector"));
    }
    match start.checked_add(count) {
        Some(end) if end <= SECTORS_MAX => Ok(SectorRange::new(start, count)),
        _ if start >= SECTORS_MAX => Err(Bad::value("sector", start, "a sector below 2^40")),
        _ => Err(Bad::value("size", count, format!("{start} and the size to stay below sector 2^40"))),
    }
}

/// Checks the sectors of a request. A flush has no sectors.
///
/// # Errors
/// Returns the errors of [`sector_range`] and [`Entry::bounded`].
pub(crate) fn checked(request: &Request) -> Result<(), Box<Bad>> {
    let Request { kind, range, .. } = *request;
    if kind == OpKind::Flush {
        let none = range.len.0 == 0;
        return if none { Ok(()) } else { Err(Bad::value("sectors", range.len.0, "0, for a flush")) };
    }
    let range = sector_range(range.start.0, range.len.0)?;
    Entry::request(0, 0, kind, range).bounded().map(|_| ())
}

/// Returns the sectors that `bytes` bytes from byte `start` on touch.
///
/// # Errors
/// Refuses a range of no bytes, and bytes beyond [`SECTORS_MAX`] sectors.
#[inline]
pub(crate) fn byte_range(start: u64, bytes: u64) -> Result<SectorRange, Box<Bad>> {
    if bytes == 0 {
        return Err(Bad::value("size", 0, "at least 1 byte"));
    }
    match start.checked_add(bytes) {
        Some(end) if end <= SECTORS_MAX * SECTOR_BYTES => {
            let first = start / SECTOR_BYTES;
            Ok(SectorRange::new(first, end.div_ceil(SECTOR_BYTES) - first))
        }
        _ if start >= SECTORS_MAX * SECTOR_BYTES => Err(Bad::value("offset", start, "a byte below sector 2^40")),
        _ => Err(Bad::value("size", bytes, format!("{start} and the size to stay below sector 2^40"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_range_is_widened_to_the_sectors_it_touches() {
        assert_eq!(byte_range(511, 2).unwrap(), SectorRange::new(0, 2));
        assert_eq!(byte_range(512, 512).unwrap(), SectorRange::new(1, 1));
        assert_eq!(byte_range(1000, 1).unwrap(), SectorRange::new(1, 1));
    }

    #[test]
    fn bounded_refuses_transfers_above_256_mib() {
        let entry = |kind, sectors| Entry::request(0, 0, kind, SectorRange::new(0, sectors)).bounded();
        for (kind, most) in [(OpKind::Read, 1 << 19), (OpKind::Write, 1 << 19), (OpKind::WriteZeroes, 1 << 23)] {
            assert!(entry(kind, most).is_ok(), "{kind:?}");
            let bad = entry(kind, most + 1).unwrap_err();
            assert_eq!((bad.field, bad.value), ("size", format!("{} sectors", most + 1)), "{kind:?}");
            assert!(bad.formed && !bad.fatal && bad.expected.contains(&most.to_string()), "{}", bad.expected);
        }
        assert!(entry(OpKind::Discard, SECTORS_MAX).is_ok());
    }

    #[test]
    fn empty_overflowing_and_far_ranges_are_refused() {
        assert!(sector_range(7, 0).is_err());
        assert!(byte_range(7, 0).is_err());
        assert!(sector_range(u64::MAX, 2).is_err());
        assert!(byte_range(u64::MAX, 2).is_err());
        assert!(sector_range(SECTORS_MAX - 1, 2).is_err());
        assert!(sector_range(SECTORS_MAX - 1, 1).is_ok());
        assert!(byte_range(SECTORS_MAX * 512 - 1, 1).is_ok());
        assert!(byte_range(SECTORS_MAX * 512, 1).is_err());
    }
}
