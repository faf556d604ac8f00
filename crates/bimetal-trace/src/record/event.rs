//! One block event of the Linux kernel, and the lines in which tracefs and `blkparse` print it.

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

/// Where on its way through the kernel a request was seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Handed to the block layer by a file system or a program (`block_bio_queue`, blktrace's `Q`).
    Queue,
    /// Handed to the driver, after merging and scheduling (`block_rq_issue`, `D`).
    Issue,
    /// Finished by the drive (`block_rq_complete`, `C`).
    Complete,
}

/// What the letters of an event (`rwbs`) say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Letters {
    /// What it does; `None` for what is no block I/O (commands to the drive).
    pub kind: Option<OpKind>,
    /// The drive's cache is to be flushed before it; alone, or with a write behind.
    pub preflush: bool,
    /// Force unit access.
    pub fua: bool,
}

impl Letters {
    /// Reads `rwbs`: an `F` in front for a flush, then the operation, then flags (`F` force unit access, `S` synchronous,
    /// `A` read-ahead, `M` metadata). As `blk_fill_rwbs` of the kernel writes them; `None` if it would not.
    pub fn parse(text: &str) -> Option<Self> {
        let (preflush, rest) = match text.strip_prefix('F') {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, text),
        };
        let mut letters = rest.chars();
        let kind = match letters.next()? {
            'R' => Some(OpKind::Read),
            'W' => Some(OpKind::Write),
            'D' => Some(OpKind::Discard),
            'F' => Some(OpKind::Flush),
            'N' => Some(OpKind::WriteZeroes),
            'Z' => None,
            _ => return None,
        };
        let flags = letters.as_str();
        flags.chars().all(|flag| flag.is_ascii_uppercase()).then(|| Self { kind, preflush, fua: flags.contains('F') })
    }
}

/// A block event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEvent {
    /// When, on the clock of the trace.
    pub at: Nanoseconds,
    /// Where on its way.
    pub stage: Stage,
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// What it does.
    pub letters: Letters,
    /// Where; the start of a flush means nothing.
    pub range: SectorRange,
}

/// What a line of a trace's text holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// A block event that tells of a request.
    Event(BlockEvent),
    /// So many events were lost here, because nobody fetched them in time.
    Lost(u64),
    /// A comment, or another event.
    Other,
}

/// A field of a line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: expected {expected}, found '{found}'")]
pub struct FieldError {
    /// Which field.
    pub field: &'static str,
    /// What stands there.
    pub found: String,
    /// What should.
    pub expected: &'static str,
}

fn wrong(field: &'static str, expected: &'static str, found: Option<&str>) -> FieldError {
    FieldError { field, found: found.unwrap_or("nothing").to_owned(), expected }
}

/// Reads a line of tracefs' `trace` or `trace_pipe`, or of `trace-cmd report`:
///
/// ```text
///   sqlite3-2522  [000] .N...  1827.368206: block_rq_issue: 7,0 WS 12288 () 5000520 + 24 be,0,4 [sqlite3]
/// ```
///
/// # Errors
/// A block event with a field that cannot be read.
pub fn parse_tracefs_line(line: &str) -> Result<Line, FieldError> {
    let Some(name_at) = line.find(": block_") else { return Ok(lost_events(line)) };
    let (head, rest) = line.split_at(name_at);
    let Some((name, arguments)) = rest[2..].split_once(':') else { return Ok(Line::Other) };
    let stage = match name {
        "block_bio_queue" => Stage::Queue,
        "block_rq_issue" => Stage::Issue,
        "block_rq_complete" => Stage::Complete,
        _ => return Ok(Line::Other),
    };
    let time = head.rsplit(char::is_whitespace).next();
    let at = time.and_then(parse_seconds).ok_or_else(|| wrong("time", "seconds like 1827.368206", time))?;

    let mut fields = arguments.split_whitespace();
    let text = fields.next();
    let device = text.and_then(parse_device).ok_or_else(|| wrong("device", "major,minor like 7,0", text))?;
    let text = fields.next();
    let letters = text.and_then(Letters::parse).ok_or_else(|| wrong("rwbs", "letters like WS or FF", text))?;
    // Between the letters and the sector stand the bytes of an issue and the drive's command in parentheses.
    let place = match arguments.rsplit_once(") ") {
        Some((_, place)) if stage != Stage::Queue => place,
        _ => arguments.trim_start().splitn(3, ' ').nth(2).unwrap_or_default(),
    };
    let mut fields = place.split_whitespace();
    let start = fields.next();
    let _plus = fields.next();
    let range = parse_range(start, fields.next())?;
    Ok(Line::Event(BlockEvent { at, stage, device, letters, range }))
}

/// The format that [`parse_blkparse_line`] reads, as `blkparse -f` takes it.
pub const BLKPARSE_FORMAT: &str = "%T.%9t %a %D %d %S %n\\n";

/// Reads a line that `blkparse -f` printed in [`BLKPARSE_FORMAT`].
///
/// # Errors
/// A field that cannot be read.
pub fn parse_blkparse_line(line: &str) -> Result<Line, FieldError> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[time, action, device, letters, start, len] = fields.as_slice() else { return Ok(Line::Other) };
    let stage = match action {
        "Q" => Stage::Queue,
        "D" => Stage::Issue,
        "C" => Stage::Complete,
        _ => return Ok(Line::Other),
    };
    let at = parse_seconds(time).ok_or_else(|| wrong("time", "seconds like 0.000012345", Some(time)))?;
    let device = parse_device(device).ok_or_else(|| wrong("device", "major,minor like 8,0", Some(device)))?;
    let letters = Letters::parse(letters).ok_or_else(|| wrong("rwbs", "letters like WS", Some(letters)))?;
    Ok(Line::Event(BlockEvent { at, stage, device, letters, range: parse_range(Some(start), Some(len))? }))
}

fn parse_range(start: Option<&str>, len: Option<&str>) -> Result<SectorRange, FieldError> {
    let len =
        len.and_then(|text| text.parse::<u64>().ok()).ok_or_else(|| wrong("length", "a number of sectors", len))?;
    // A flush stands at sector 0 or −1.
    let sector = start
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|sector| len == 0 || sector.checked_add(len).is_some())
        .ok_or_else(|| wrong("sector", "the number of a sector", start))?;
    Ok(SectorRange::new(sector, len))
}

fn parse_device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Seconds with up to nine decimals, exactly.
fn parse_seconds(text: &str) -> Option<Nanoseconds> {
    let (seconds, decimals) = text.split_once('.')?;
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = decimals.parse::<u64>().ok()? * 10_u64.pow(9 - decimals.len() as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds).map(Nanoseconds)
}

/// `CPU:1 [LOST 1234 EVENTS]`, which the kernel prints between the events of a CPU.
fn lost_events(line: &str) -> Line {
    let count = line
        .strip_prefix("CPU:")
        .and_then(|rest| rest.split_once("[LOST "))
        .and_then(|(_, rest)| rest.split_once(" EVENTS]"))
        .and_then(|(count, _)| count.parse().ok());
    count.map_or(Line::Other, Line::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> BlockEvent {
        match parse_tracefs_line(line) {
            Ok(Line::Event(event)) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_three_events_are_read_as_tracefs_prints_them() {
        let queue =
            event("    kworker/u8:1-32   [001] .....  1825.355590: block_bio_queue: 7,0 W 540888 + 8 [kworker/u8:1]");
        let letters = Letters { kind: Some(OpKind::Write), preflush: false, fua: false };
        assert_eq!(queue.stage, Stage::Queue);
        assert_eq!(queue.at, Nanoseconds(1_825_355_590_000));
        assert_eq!((queue.device, queue.letters, queue.range), ((7, 0), letters, SectorRange::new(540_888, 8)));
        let issue = event(
            "sqlite3-2522 [000] .N... 1827.368206: block_rq_issue: 7,0 WS 12288 () 5000520 + 24 be,0,4 [sqlite3]",
        );
        assert_eq!((issue.stage, issue.range), (Stage::Issue, SectorRange::new(5_000_520, 24)));
        let complete =
            event("ksoftirqd/1-22 [001] ..s..  1827.368349: block_rq_complete: 7,0 WS () 5000520 + 24 be,0,4 [0]");
        assert_eq!((complete.stage, complete.range), (Stage::Complete, SectorRange::new(5_000_520, 24)));
    }

    #[test]
    fn names_of_programs_may_hold_blanks_and_brackets() {
        let event =
            event("Web (x) [1] Content-77 [001] .....  1.000001: block_bio_queue: 8,16 RA 8 + 16 [Web (x) [1]]");
        assert_eq!((event.device, event.range), ((8, 16), SectorRange::new(8, 16)));
    }

    #[test]
    fn flushes_stand_at_sector_zero_or_minus_one() {
        let issue = event("k-1 [0] ..... 1.5: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [k]");
        assert_eq!(issue.letters, Letters { kind: Some(OpKind::Flush), preflush: true, fua: false });
        let complete = event("k-1 [0] ..s.. 1.6: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]");
        assert_eq!(complete.range.len.0, 0);
    }

    #[test]
    fn letters_tell_a_flush_in_front_from_force_unit_access() {
        let of = |text| Letters::parse(text).map(|letters| (letters.kind, letters.preflush, letters.fua));
        assert_eq!(of("FWFSM"), Some((Some(OpKind::Write), true, true)));
        assert_eq!(of("FWS"), Some((Some(OpKind::Write), true, false)));
        assert_eq!(of("WFS"), Some((Some(OpKind::Write), false, true)));
        assert_eq!(of("RAM"), Some((Some(OpKind::Read), false, false)));
        assert_eq!(of("DS"), Some((Some(OpKind::Discard), false, false)));
        assert_eq!(of("NS"), Some((Some(OpKind::WriteZeroes), false, false)));
        assert_eq!(of("F"), Some((Some(OpKind::Flush), false, false)));
        for nonsense in ["", "X", "W+", "w"] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn other_lines_are_passed_over_and_lost_events_counted() {
        for line in ["# tracer: nop", "", "a-1 [000] ..... 1.0: sched_switch: x", "a-1 [0] . 1.0: block_plug: [x]"] {
            assert_eq!(parse_tracefs_line(line), Ok(Line::Other), "{line}");
        }
        assert_eq!(parse_tracefs_line("CPU:1 [LOST 1234 EVENTS]"), Ok(Line::Lost(1234)));
    }

    #[test]
    fn a_wrong_field_is_named() {
        let error = |line| parse_tracefs_line(line).unwrap_err().to_string();
        assert!(error("a-1 [0] . x: block_bio_queue: 7,0 W 1 + 8 [a]").starts_with("time: expected seconds"));
        assert!(error("a-1 [0] . 1.0: block_bio_queue: 7 W 1 + 8 [a]").starts_with("device: "));
        assert!(error("a-1 [0] . 1.0: block_bio_queue: 7,0 W -1 + 8 [a]").starts_with("sector: "));
        assert!(error("a-1 [0] . 1.0: block_bio_queue: 7,0 W 18446744073709551615 + 8 [a]").starts_with("sector: "));
        assert!(error("a-1 [0] . 1.0: block_bio_queue: 7,0 W 1").starts_with("length: "));
    }

    #[test]
    fn blkparse_prints_the_same_events_in_the_format_asked_for() {
        let line = parse_blkparse_line("3.000012345 Q 8,0 WS 2048 16");
        let Ok(Line::Event(event)) = line else { panic!("{line:?}") };
        assert_eq!((event.stage, event.at), (Stage::Queue, Nanoseconds(3_000_012_345)));
        assert_eq!((event.device, event.range), ((8, 0), SectorRange::new(2048, 16)));
        assert_eq!(parse_blkparse_line("3.000012345 P 8,0 N 0 0"), Ok(Line::Other));
    }
}
