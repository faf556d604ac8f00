//! `tracefs`: the block events of the kernel's tracing file system as text, from `trace_pipe`,
//! `trace` or trace-cmd report.
//!
//! `task-pid [cpu] flags time: event: major,minor rwbs …`, time in seconds with a decimal point.
//! Requests are `block_bio_queue` (`sector + sectors [process]`) and `block_rq_issue` (`bytes
//! (command) sector + sectors [process]`). Completions are `block_rq_complete` (`(command) sector +
//! sectors [error]`) and, for drivers without requests, `block_bio_complete`. The device is a
//! number by first appearance of `major,minor`. Comments and other events are skipped; a note that
//! events were lost is a bad line. A live recording parses its events with this reader, too.
//!
//! Traps: a flush is issued at `0 + 0` and completes at `18446744073709551615 + 0`, and writes
//! complete once more, without sectors, when they are stable; see `pairing`. `N`
//! is a write of zeroes or, with an impossible range, a command to the drive; commands of old
//! kernels stand in the parentheses.

use bimetal_core::operation::OpKind;

use super::LineFormat;
use super::blkparse::{extent, is_device};
use super::devices::DeviceNames;
use super::rwbs::Rwbs;
use crate::entry::{Bad, Entry, Moment, sector_range};
use crate::fields::{Fields, time};
use crate::format::{Events, Format};

/// Description of the `tracefs` format.
pub const INFO: Format = Format {
    name: "tracefs",
    summary: "text of trace_pipe or trace-cmd report with block_bio_queue, block_rq_issue, \
              block_rq_complete",
    source: "Linux: Documentation/trace/ftrace.rst, events-block",
    events: Events::WithCompletions,
    ..Format::of_lines::<Tracefs>()
};

/// Reader of the `tracefs` format.
#[derive(Default)]
pub(crate) struct Tracefs {
    devices: DeviceNames,
}

impl LineFormat for Tracefs {
    fn entry(&mut self, line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
        const MARK: &[u8] = b": block_";
        let Some(at) = line.windows(MARK.len()).position(|window| window == MARK) else {
            return other_line(line);
        };
        let stamp = line[..at].rsplit(u8::is_ascii_whitespace).next().unwrap_or(&[]);
        if !stamp.contains(&b'.') {
            return Err(Bad::form("time", stamp, "seconds with a decimal point (the trace clock local, mono or boot)"));
        }
        let stamp = time("time", stamp, 9)?;
        let mut fields = Fields::of_words(&line[at + 2..]);
        let event = fields.text("event")?;
        let (moment, has_command) = match event {
            b"block_bio_queue:" => (Moment::Queued, false),
            b"block_rq_issue:" => (Moment::Issued, true),
            b"block_rq_requeue:" => (Moment::Requeued, true),
            b"block_rq_complete:" => (Moment::Completed, true),
            b"block_bio_complete:" => (Moment::Completed, false),
            _ => return Ok(None),
        };
        let device = fields.text("device")?;
        if !is_device(device) {
            return Err(Bad::form("device", device, "major,minor, as in 7,0"));
        }
        let letters = fields.text("rwbs")?;
        let mut rwbs = Rwbs::read("rwbs", letters)?;
        if has_command {
            let rest = fields.rest();
            let Some(end) = rest.iter().position(|&byte| byte == b')') else {
                return Err(Bad::form("command", rest, "(command) before the sector: the line may be cut off"));
            };
            fields = Fields::of_words(&rest[end + 1..]);
            if !rest[..end].ends_with(b"(") {
                return Ok(None);
            }
        }
        let has_no_letter = letters.starts_with(b"N");
        if has_no_letter {
            rwbs.kind = Some(OpKind::WriteZeroes);
        }
        if rwbs.kind.is_none() {
            return Ok(None);
        }
        let device = self.devices.number("device", device)?;
        match extent(&mut fields)? {
            Some((sector, sectors)) if has_no_letter && sector_range(sector, sectors).is_err() => Ok(None),
            Some((sector, sectors)) => rwbs.entry(stamp, device, moment, sector, sectors),
            None => Ok(None),
        }
    }

    fn device_name(&self, device: u32) -> Option<String> {
        self.devices.name(device)
    }
}

/// Returns the number of events that `line`, as `CPU:1 [LOST 1234 EVENTS]`, reports as lost because
/// they were not fetched in time; 1 if the kernel does not know the number. `None` for any other
/// line.
pub(crate) fn lost_events(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, count) = line.trim_end().strip_suffix("EVENTS]")?.rsplit_once("[LOST ")?;
    if count.is_empty() { Some(1) } else { count.trim_end().parse().ok() }
}

/// Handles a line without a block event: a comment, a heading of trace-cmd, or another event.
fn other_line(line: &[u8]) -> Result<Option<Entry>, Box<Bad>> {
    let contains = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
    if lost_events(line).is_some() {
        return Err(Bad::value("line", crate::error::shown(line), "no lost events (a larger trace buffer)"));
    }
    let is_heading = line.starts_with(b"#") || line.starts_with(b"cpus=") || line.starts_with(b"CPU ");
    let is_stamp = |word: &[u8]| {
        let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let point = word.iter().position(|&byte| byte == b'.');
        let point = point.filter(|_| word.ends_with(b":"));
        point.is_some_and(|at| digits(&word[..at]) && word.get(at + 1..word.len() - 1).is_some_and(digits))
    };
    if is_heading || (contains(b" [") && line.split(u8::is_ascii_whitespace).any(is_stamp)) {
        return Ok(None);
    }
    Err(Bad::form("line", line, "task-pid [cpu] flags time: event: … of the block events"))
}

#[cfg(test)]
mod tests {
    use bimetal_core::units::SectorRange;

    use super::*;

    fn read(line: &str) -> Result<Option<Entry>, Box<Bad>> {
        Tracefs::default().entry(line.as_bytes())
    }

    #[test]
    fn the_block_events_are_read_as_the_kernel_prints_them() {
        let line = "    kworker/u4:2-77   [001] .....  512.250417: block_bio_queue: 7,0 W 81920 + 8 [kworker/u4:2]";
        let queued = Entry::request(512_250_417_000, 0, OpKind::Write, SectorRange::new(81_920, 8));
        assert_eq!(read(line).unwrap(), Some(Entry { moment: Moment::Queued, ..queued }));
        let line = "rsync-771  [000] .N...  514.125003: block_rq_issue: 7,0 WS 12288 () 1300480 + 24 be,0,4 [rsync]";
        let issued = Entry::request(514_125_003_000, 0, OpKind::Write, SectorRange::new(1_300_480, 24));
        assert_eq!(read(line).unwrap(), Some(Entry { moment: Moment::Issued, ..issued }));
        let line = "ksoftirqd/1-22 [001] ..s..  514.125790: block_rq_complete: 7,0 WS () 1300480 + 24 be,0,4 [0]";
        let completed = Entry { time: bimetal_core::units::Nanoseconds(514_125_790_000), ..issued };
        assert_eq!(read(line).unwrap(), Some(Entry { moment: Moment::Completed, ..completed }));
    }

    #[test]
    fn flushes_are_flushes_and_completions_without_sectors_are_kept() {
        let kind = |rest: &str| read(&format!("x-1 [000] ..... 1.5: {rest}")).unwrap().map(|entry| entry.kind);
        assert_eq!(kind("block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/1:0H]"), Some(OpKind::Flush));
        assert_eq!(kind("block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]"), Some(OpKind::Flush));
        assert_eq!(kind("block_rq_complete: 7,0 WS () 0 + 0 none,0,0 [0]"), Some(OpKind::Write));
        assert_eq!(kind("block_bio_queue: 7,0 FWS 0 + 0 [jbd2/loop0-8]"), Some(OpKind::Flush));
    }

    /// An event without a letter for its operation is a write of zeroes or a command to the drive.
    #[test]
    fn event_without_a_letter_is_write_zeroes_or_a_command() {
        let kind = |rest: &str| read(&format!("x-1 [000] ..... 1.5: {rest}")).unwrap().map(|entry| entry.kind);
        assert_eq!(kind("block_bio_queue: 7,0 NS 2048 + 4096 [blkdiscard]"), Some(OpKind::WriteZeroes));
        assert_eq!(kind("block_rq_complete: 7,0 NS () 2048 + 4096 none,0,0 [0]"), Some(OpKind::WriteZeroes));
        assert_eq!(kind("block_rq_issue: 8,0 N 512 () 0 + 0 none,0,0 [smartctl]"), None);
        assert_eq!(kind("block_rq_complete: 8,0 N () 18446744073709551615 + 1 none,0,0 [0]"), None);
        assert_eq!(kind("block_rq_issue: 8,0 R 36 (12 00 00 00 24 00) 0 + 0 [udevd]"), None);
    }

    /// Lines of trace-cmd without flags are read, and so are processes with spaces in their names.
    #[test]
    fn trace_cmd_lines_and_processes_with_spaces_are_read() {
        let line = " Web Content-771  [000]  514.125003: block_rq_issue:       7,0 R 4096 () 520 + 8 [Web Content]";
        assert_eq!(read(line).unwrap().unwrap().range, SectorRange::new(520, 8));
        let line = "Web (x) [1]-77 [001] ..... 1.5: block_rq_issue: 8,16 RA 4096 () 8 + 16 none,0,0 [Web (x) [1]]";
        assert_eq!(read(line).unwrap().unwrap().range, SectorRange::new(8, 16));
    }

    /// Other events are skipped. Lines of lost events and other text are refused, and lost events
    /// are counted.
    #[test]
    fn other_events_are_skipped_and_lost_events_are_refused() {
        for line in [
            "# tracer: nop",
            "cpus=2",
            "x-1 [000] d.... 1.5: sched_switch: prev_comm=x",
            "x-1 [000] ..... 1.5: block_rq_insert: 7,0 W 4096 () 8 + 8 [x]",
        ] {
            assert_eq!(read(line).unwrap(), None, "{line}");
        }
        assert!(read("CPU:1 [LOST 1234 EVENTS]").is_err());
        let lost = ["CPU:1 [LOST 1234 EVENTS]", "CPU:0 [LOST EVENTS]", "x-1 [0] . 1.5: block_plug: [x]"];
        assert_eq!(lost.map(|line| lost_events(line.as_bytes())), [Some(1234), Some(1), None]);
        assert!(read("hello 1 2 3").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let named = [
            ("x-1 [0] . 123456: block_bio_queue: 7,0 W 8 + 8 [x]", "time"),
            ("x-1 [0] . 1.5: block_bio_queue: 7 W 8 + 8 [x]", "device"),
            ("x-1 [0] . 1.5: block_bio_queue: 7,0 W 8 + 8", "process"),
            ("x-1 [0] . 1.5: block_rq_issue: 7,0 W 4096", "command"),
            ("x-1 [0] . 1.5: block_rq_issue: 7,0 W 4096 () 8 + 0 [x]", "size"),
        ];
        for (line, field) in named {
            assert_eq!(read(line).unwrap_err().field, field, "{line}");
        }
    }
}
