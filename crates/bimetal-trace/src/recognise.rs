//! Recognises a format by the beginning of its content, and notes each assumption that the content
//! leaves open.
//!
//! Binary formats have a magic number or, like vSCSI, records that agree with each other. Each text
//! format parses the first lines. Lines of the format's form count for the format (half, if a value
//! is impossible), and all other lines count against the format.

use crate::entry::{Entry, Moment};
use crate::error::shown;
use crate::format::{Format, Recognition, names};
use crate::formats;
use crate::input::{LINE_BYTES_MAX, find_line_feed, without_carriage_return};

/// Number of lines on which each text format is tried.
const LINES_TRIED: usize = 100;

/// Result of recognition: the format, and notes on the assumptions made.
#[derive(Debug)]
pub(crate) struct Recognised {
    pub(crate) format: &'static Format,
    pub(crate) notes: Vec<String>,
    /// Set if the time column turned out to hold no times.
    pub(crate) is_index: bool,
}

/// Failure to recognise a format.
#[derive(Debug)]
pub(crate) struct Unknown {
    pub(crate) tried: String,
    pub(crate) rejected: String,
}

/// Returns the complete lines at the beginning of a trace, without a byte order mark. The last line
/// counts if the trace `ended` with that line.
pub(crate) fn complete_lines(head: &[u8], ended: bool) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    while let Some(at) = find_line_feed(rest) {
        lines.push(without_carriage_return(&rest[..at]));
        rest = &rest[at + 1..];
    }
    if ended && !rest.is_empty() {
        lines.push(without_carriage_return(rest));
    }
    lines
}

/// Returns the format of a trace that begins with `head`.
///
/// # Errors
/// Returns the formats that were tried and the first line that was rejected.
pub(crate) fn recognise(head: &[u8], ended: bool) -> Result<Recognised, Unknown> {
    if let Some(format) = binary(head) {
        return Ok(Recognised { format, notes: Vec::new(), is_index: false });
    }
    let unknown = |rejected: String| {
        let tried = formats::ALL.iter().copied().filter(|format| !matches!(format.recognition, Recognition::Never));
        Unknown { tried: names(tried), rejected }
    };
    if head.contains(&0) {
        return Err(unknown(
            "its content is binary, without a known magic number (bare block numbers need --format keys32le)"
                .to_owned(),
        ));
    }
    let lines = complete_lines(head, ended);
    let Some(&first) = lines.iter().find(|line| !line.trim_ascii().is_empty()) else {
        let why = if lines.is_empty() {
            format!("no line ends within {LINE_BYTES_MAX} bytes")
        } else {
            "every line is blank".into()
        };
        return Err(unknown(why));
    };
    let sample = &lines[..lines.len().min(LINES_TRIED)];
    // The first of equal scores wins, so that the order of the table decides.
    let mut best: Option<(usize, &Format)> = None;
    for &format in formats::ALL {
        let score = score(format, sample);
        if score > best.map_or(0, |(most, _)| most) {
            best = Some((score, format));
        }
    }
    match best {
        Some((_, Format { recognition: Recognition::Choice(decide), .. })) => Ok(decide(sample)),
        Some((_, format)) => Ok(Recognised { format, notes: Vec::new(), is_index: false }),
        None => {
            let number = lines.iter().position(|line| std::ptr::eq(*line, first)).unwrap_or(0) + 1;
            Err(unknown(format!("line {number} is '{}'", shown(first))))
        }
    }
}

/// Returns the binary format of a trace that begins with `head`.
fn binary(head: &[u8]) -> Option<&'static Format> {
    let has_magic = |format: &Format| matches!(format.recognition, Recognition::Magic(is_it) if is_it(head));
    let has_shape = |format: &Format| matches!(format.recognition, Recognition::Shape(is_it) if is_it(head));
    let find = |is_it: &dyn Fn(&Format) -> bool| formats::ALL.iter().copied().find(|format| is_it(format));
    find(&has_magic).or_else(|| find(&has_shape))
}

/// Returns how well `sample` matches `format`: Returns 0 if more lines count against the format
/// than for it. A line with an impossible value counts half, because a reader that refuses a value
/// has not seen the later fields of the line.
fn score(format: &Format, sample: &[&[u8]]) -> usize {
    let Some(reader) = format.reader.lines else { return 0 };
    let mut reader = reader();
    let (mut good, mut formed, mut others) = (0, 0, 0);
    for line in sample.iter().filter(|line| !line.trim_ascii().is_empty()) {
        match reader.entry(line) {
            Ok(None) => {}
            Ok(Some(_)) => good += 1,
            Err(bad) if bad.formed => formed += 1,
            Err(_) => others += 1,
        }
    }
    // A header is certain: the lines behind it may all be wrong.
    let saw_header = reader.saw_header();
    good += usize::from(saw_header);
    if good + formed > others || saw_header { 2 * good + formed } else { 0 }
}

/// Moments of requests that the beginning of a trace records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) queued: bool,
    pub(crate) issued: bool,
}

impl Moments {
    /// Updates the moments by `entry`.
    pub(crate) fn see(&mut self, entry: &Entry) {
        self.queued |= entry.moment == Moment::Queued;
        self.issued |= entry.moment == Moment::Issued;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_only_when_they_are_complete() {
        assert_eq!(complete_lines(b"a\r\nb\nc", false), [b"a", b"b"]);
        assert_eq!(complete_lines(b"a\nc", true), [b"a", b"c"]);
        assert_eq!(complete_lines(b"", true), [b""; 0]);
        assert_eq!(complete_lines(b"\xef\xbb\xbfa\nb\n", false), [b"a", b"b"]);
    }

    #[test]
    fn a_format_is_recognised_behind_lines_with_nonsense_in_them() {
        let text = b"0\t0.4\t0.005\t0\tWrite\t7777777777777777777\t1234567\t\n1\t0.6\t0.009\t0\tWrite\t215\t8\t\n";
        assert_eq!(recognise(text, true).unwrap().format, &formats::diskmon::INFO);
    }

    /// A number too large for one format is evidence for the format that can read the number.
    #[test]
    fn number_too_large_for_one_format_selects_another() {
        // As milliseconds the time would overflow before the third column shows that this is not a
        // DiskSim trace.
        let text = b"71234567890123 3141 tar 150994944 8 R 6 0\n";
        assert_eq!(recognise(text, true).unwrap().format, &formats::fiu::INFO);
    }

    #[test]
    fn a_header_alone_names_its_format() {
        assert_eq!(recognise(b"fio version 2 iolog\n", true).unwrap().format, &formats::fio::INFO);
    }

    #[test]
    fn binary_without_a_magic_number_is_unknown() {
        let unknown = recognise(&[0x0c, 0x0b, 0x0a, 0, 1, 2, 3, 4], true).unwrap_err();
        assert!(unknown.rejected.contains("--format keys32le"), "{}", unknown.rejected);
        assert!(!unknown.tried.contains("keys32le"));
    }
}
