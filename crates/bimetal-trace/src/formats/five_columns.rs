//! Common part of `disksim`, `mqsim`, `ssdsim` and `linnos`: five numeric columns, `time device
//! address size operation`; bit 0 of the operation is 1 for a read. The formats differ in the unit
//! of the time and of address and size.
//!
//! Content cannot tell the formats apart for sure. A decimal point in the time means milliseconds:
//! simulators that count nanoseconds write whole numbers. Addresses and sizes that are all
//! multiples of 512 are bytes, if a request is larger than 2048: a sector number is a multiple of
//! 512 by chance only once in 512, but backups have requests of 512 sectors at aligned addresses.
//! MQSim and SSDSim are read in the same way, so either name is right.

use bimetal_core::operation::OpKind;

use super::lines::append_line;
use super::{disksim, linnos, mqsim};
use crate::Request;
use crate::entry::{Bad, Entry, byte_range, sector_range};
use crate::fields::Fields;
use crate::recognise::Recognised;

/// Unit of address and size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Sectors,
}

/// Unit of the time: a decimal number of milliseconds or a whole number of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Milliseconds,
    Nanoseconds,
}

/// Returns the entry of a line with five columns.
///
/// # Errors
/// Refuses a line of another form, and impossible values.
#[inline]
pub(crate) fn entry(line: &[u8], clock: Clock, unit: Unit) -> Result<Option<Entry>, Box<Bad>> {
    let mut fields = Fields::of_words(line);
    let time = match clock {
        Clock::Milliseconds => fields.time("time", 6)?,
        Clock::Nanoseconds => fields.number("time")?,
    };
    let device = fields.device("device")?;
    let (address, size, operation) = (fields.number("address")?, fields.number("size")?, fields.number("operation")?);
    fields.end()?;
    let range = match unit {
        Unit::Bytes => byte_range(address, size)?,
        Unit::Sectors => sector_range(address, size)?,
    };
    let kind = if operation & 1 == 1 { OpKind::Read } else { OpKind::Write };
    Ok(Some(Entry::request(time, device, kind, range)))
}

/// Appends the line of `request` with `time` in the first column, and addresses in sectors. Returns
/// false, and appends nothing, if the request is neither a read nor a write.
pub(crate) fn append(request: &Request, time: std::fmt::Arguments<'_>, out: &mut Vec<u8>) -> bool {
    let Request { device, kind, range, .. } = *request;
    if !matches!(kind, OpKind::Read | OpKind::Write) {
        return false;
    }
    let (start, sectors) = (range.start.0, range.len.0);
    append_line(out, format_args!("{time} {device} {start} {sectors} {}", u8::from(kind == OpKind::Read)));
    true
}

/// Largest size that may be a number of sectors: 1 MiB. As bytes, a trace without a larger size
/// would have requests of at most four sectors.
const SECTORS_MAX: u64 = 2048;

/// Properties of the columns of a sample.
struct Evidence {
    lines: usize,
    decimal_point: bool,
    /// Set if every address and every size is a multiple of 512, and a size is larger than
    /// [`SECTORS_MAX`].
    aligned: bool,
    /// Set while the first column may be an index: see [`decide`].
    index: bool,
}

impl Evidence {
    fn of(sample: &[&[u8]]) -> Self {
        let mut evidence = Self { lines: 0, decimal_point: false, aligned: true, index: true };
        let (mut first, mut last, mut largest) = (None, 0, 0);
        for line in sample {
            let mut fields = Fields::of_words(line);
            let (Some(time), Some(_), Ok(address), Ok(size)) =
                (fields.take(), fields.take(), fields.number("address"), fields.number("size"))
            else {
                continue;
            };
            evidence.lines += 1;
            largest = largest.max(size);
            evidence.decimal_point |= time.iter().any(|byte| b".eE".contains(byte));
            evidence.aligned &= address % 512 == 0 && size % 512 == 0;
            let time = std::str::from_utf8(time).ok().and_then(|time| time.parse::<u64>().ok()).unwrap_or(1);
            evidence.index &= time.is_multiple_of(10) && (first.is_none() || time > last);
            first = first.or(Some(time));
            last = time;
        }
        evidence.aligned &= largest > SECTORS_MAX;
        let advance = last.saturating_sub(first.unwrap_or(0));
        evidence.index &= evidence.lines >= 16 && advance < 1000 * evidence.lines as u64;
        evidence
    }
}

/// Chooses one of the formats with five columns by the lines of `sample`, and notes the reason.
///
/// A first column is not a time in any unit if its whole numbers are all multiples of 10 and always
/// grow by less than 1000 a line. Interpreted as times, such numbers would mean a request each
/// microsecond or less, rounded to 10 ns. Some published traces have ten times the request's index
/// in the first column.
pub(crate) fn decide(sample: &[&[u8]]) -> Recognised {
    let evidence = Evidence::of(sample);
    let (format, because) = match (evidence.decimal_point, evidence.aligned) {
        (true, true) => {
            (&linnos::INFO, "times have a decimal point: ms; addresses and sizes are multiples of 512: bytes")
        }
        (true, false) => (
            &disksim::INFO,
            "times have a decimal point: ms; sizes are not all multiples of 512, or none is above 2048: sectors",
        ),
        (false, true) => {
            (&linnos::INFO, "addresses and sizes are multiples of 512: bytes, which only the format with ms has")
        }
        (false, false) => (
            &mqsim::INFO,
            "times are whole numbers: ns; sizes are not all multiples of 512, or none is above 2048: sectors",
        ),
    };
    let mut notes = vec![format!(
        "five columns of numbers, read as {format} ({because}; operation 1 is a read); --format disksim, mqsim, \
         ssdsim or linnos overrides"
    )];
    let is_index = evidence.index && *format == mqsim::INFO;
    if is_index {
        notes.push(format!(
            "the first column grows by multiples of 10, far less than 1 µs a request: an index, not a time; --format \
             {format} reads it as nanoseconds"
        ));
    }
    Recognised { format, notes, is_index }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    fn decided(lines: &[&str]) -> (&'static Format, bool) {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
        let recognised = decide(&lines);
        assert!(recognised.notes[0].contains("--format"));
        (recognised.format, recognised.is_index)
    }

    #[test]
    fn decimal_point_and_alignment_decide() {
        assert_eq!(decided(&["0.5 0 63 8 1", "1 0 71 8 0"]), (&disksim::INFO, false));
        assert_eq!(decided(&["0.5 0 4096 4096 1", "1.5 0 8192 512 1"]), (&linnos::INFO, false));
        assert_eq!(decided(&["1e-3 0 63 8 1"]), (&disksim::INFO, false));
        assert_eq!(decided(&["500 0 64 8 1"]), (&mqsim::INFO, false));
        assert_eq!(decided(&["500 0 65536 8192 1"]), (&linnos::INFO, false));
    }

    /// Regression: a backup with requests of 256 KiB was read as requests of 512 bytes, over times
    /// a million times as long.
    #[test]
    fn large_aligned_requests_of_sectors_are_no_bytes() {
        assert_eq!(decided(&["500 0 0 512 1", "700 0 512 512 1"]), (&mqsim::INFO, false));
        assert_eq!(decided(&["0.5 0 1024 2048 0"]), (&disksim::INFO, false));
    }

    #[test]
    fn a_column_that_only_counts_is_no_time() {
        let counting: Vec<_> = (0..20).map(|index| format!("{} 0 {} 8 0", index * 30, index * 8 + 64)).collect();
        let counting: Vec<_> = counting.iter().map(String::as_str).collect();
        assert_eq!(decided(&counting), (&mqsim::INFO, true));
        assert_eq!(decided(&counting[..15]), (&mqsim::INFO, false));
    }
}
