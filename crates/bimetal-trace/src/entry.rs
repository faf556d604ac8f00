//! What a reader makes of a line or a record, and why it may refuse it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, SectorRange};

use crate::error::{Place, shown};
use crate::input::Input;

/// Addresses from this sector on (512 TiB) are taken for nonsense.
pub(crate) const SECTORS_MAX: u64 = 1 << 40;

/// Sectors of a read or write, at most: 256 MiB, many times what drives take at once. A longer one is taken for nonsense: block
/// by block, a few of them would cost more memory than there is.
pub(crate) const TRANSFER_SECTORS_MAX: u64 = 1 << 19;

/// Sectors of a write-zeroes, at most: 4 GiB, behind the longest that Linux can ask for at once.
pub(crate) const ZEROES_SECTORS_MAX: u64 = 1 << 23;

/// Which moment in a request's life an entry records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// The format has one entry a request.
    Only,
    /// The request entered the block layer.
    Queued,
    /// It was sent to the drive.
    Issued,
    /// The drive finished it.
    Completed,
}

/// One event of a trace, with the time as the trace counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// In nanoseconds since whenever the trace counts from.
    pub(crate) time: Nanoseconds,
    pub(crate) device: u32,
    pub(crate) kind: OpKind,
    pub(crate) moment: Moment,
    pub(crate) fua: bool,
    /// A flush is to be done before it (and comes out as a request of its own).
    pub(crate) preflush: bool,
    pub(crate) range: SectorRange,
    pub(crate) response: Option<Nanoseconds>,
}

impl Entry {
    /// A request of a format that has one entry a request.
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

    /// The entry, if it moves no more than one request can.
    ///
    /// # Errors
    /// A read or write of more than [`TRANSFER_SECTORS_MAX`], a write-zeroes of more than [`ZEROES_SECTORS_MAX`]. A
    /// discard moves nothing and may be of any size.
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

const TRANSFER_EXPECTED: &str =
    "at most 524288 sectors (256 MiB) in one read or write (--skip-bad-lines passes over longer ones)";
const ZEROES_EXPECTED: &str =
    "at most 8388608 sectors (4 GiB) in one write-zeroes (--skip-bad-lines passes over longer ones)";

/// Why a line or record is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bad {
    pub(crate) field: &'static str,
    pub(crate) value: String,
    pub(crate) expected: Cow<'static, str>,
    /// Whether the field has the form the format asks for and only its value is impossible: recognition by content
    /// counts such a line in favour of the format.
    pub(crate) formed: bool,
    /// Whether nothing after it can be read.
    pub(crate) fatal: bool,
}

impl Bad {
    /// A field that does not have the form of the format.
    #[cold]
    pub(crate) fn form(field: &'static str, value: &[u8], expected: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self { field, value: shown(value), expected: expected.into(), formed: false, fatal: false })
    }

    /// A field with the right form and an impossible value.
    #[cold]
    pub(crate) fn value(
        field: &'static str,
        value: impl ToString,
        expected: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        Box::new(Self { field, value: value.to_string(), expected: expected.into(), formed: true, fatal: false })
    }

    /// As it is, but nothing after it can be read.
    pub(crate) fn and_the_rest(mut self: Box<Self>) -> Box<Self> {
        self.fatal = true;
        self
    }
}

/// Why a decoder has no next entry.
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

/// Entries that a decoder gives at a time.
const FILLED: usize = 128;

/// Takes a trace apart, entry by entry, in file order.
pub(crate) trait Decoder: Send {
    /// The next entry, or `None` at the end.
    ///
    /// # Errors
    /// A record that is refused: unless it is fatal, the next call goes on behind it. Or what reading says.
    fn next(&mut self, input: &mut Input) -> Result<Option<Entry>, Fault>;

    /// Puts the next entries behind `entries`, and says whether there may be more.
    ///
    /// # Errors
    /// As [`next`](Self::next), of what stands behind the entries that it gave.
    fn fill(&mut self, input: &mut Input, entries: &mut VecDeque<Entry>) -> Result<bool, Fault> {
        for _ in 0..FILLED {
            match self.next(input)? {
                Some(entry) => entries.push_back(entry.bounded()?),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Where the last entry, or refused record, stands.
    fn place(&self) -> Place;

    /// Whether what was decoded so far tells times.
    fn has_times(&self) -> bool {
        true
    }

    /// Whether what was decoded so far tells operations.
    fn has_operations(&self) -> bool {
        true
    }

    /// What the trace calls a device that has no number there.
    fn device_name(&self, _device: u32) -> Option<String> {
        None
    }

    /// The first line that was read past because it holds no event of interest.
    fn first_ignored(&self) -> Option<(Place, &str)> {
        None
    }
}

/// The range of `count` sectors from `start` on.
///
/// # Errors
/// No sectors, or sectors beyond [`SECTORS_MAX`].
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

/// The sectors that `bytes` bytes from byte `start` on touch.
///
/// # Errors
/// No bytes, or bytes beyond [`SECTORS_MAX`] sectors.
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
