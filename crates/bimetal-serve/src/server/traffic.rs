//! Bytes that were read and written, and operations that failed.

use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::{Bytes, SectorRange};
use rustix::io::Errno;

use bimetal_device::drive::Failure;

use crate::snapshot::Failing;

/// Number of failed reads or writes in a row, each at a different range than the failure before it,
/// from which a drive counts as failing.
const IN_A_ROW: u32 = 3;

/// Counters of one member, or of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub(super) read: Bytes,
    pub(super) written: Bytes,
    pub(super) errors: u64,
    pub(super) last_error: Option<Mishap>,
    reads: Streak,
    writes: Streak,
    flushes: Streak,
}

/// Failed operations of a kind since the last success.
#[derive(Clone, Debug, Default)]
struct Streak {
    count: u32,
    last: Option<SectorRange>,
}

impl Streak {
    fn note(&mut self, range: SectorRange, failed: bool) {
        if !failed {
            *self = Self::default();
        } else if self.last != Some(range) {
            // Repeated errors of one bad sector do not show that other sectors fail.
            self.count = self.count.saturating_add(1);
            self.last = Some(range);
        }
    }
}

impl Traffic {
    pub(super) fn note(&mut self, command: Command, status: Status, mishap: Option<Mishap>) {
        let failed = !matches!(status, Status::Done | Status::Unsupported);
        match command.kind {
            OpKind::Read => self.reads.note(command.range, failed),
            OpKind::Write | OpKind::WriteZeroes => self.writes.note(command.range, failed),
            OpKind::Flush => self.flushes.note(command.range, failed),
            OpKind::Discard | OpKind::Hint => {}
        }
        match (status, command.kind) {
            (Status::Done, OpKind::Read) => self.read += command.range.len.bytes(),
            (Status::Done, OpKind::Write | OpKind::WriteZeroes) => self.written += command.range.len.bytes(),
            // An unsupported operation is not a fault of the drive.
            (Status::Done | Status::Unsupported, _) => {}
            _ => {
                self.errors += 1;
                self.last_error = mishap;
            }
        }
    }

    /// Returns the kinds of operations that fail.
    pub(super) fn failing(&self) -> Failing {
        let fails = |streak: &Streak| streak.count >= IN_A_ROW;
        // One failed flush is enough: there may be no other flush after it.
        Failing { reads: fails(&self.reads), writes: fails(&self.writes), flushes: self.flushes.count > 0 }
    }

    /// Returns the last error in words.
    pub(super) fn trouble(&self) -> Option<String> {
        Some(self.last_error?.describe())
    }
}

/// Operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mishap {
    command: Command,
    status: Status,
    /// Error of the operating system, if the system reported an error.
    errno: Option<Errno>,
}

impl Mishap {
    /// Returns the fault of an operation with this status, `None` if it succeeded; `failures` are
    /// recent errors of the system from the drive.
    pub(super) fn of(command: Command, status: Status, failures: &[Failure]) -> Option<Self> {
        if matches!(status, Status::Done | Status::Unsupported) {
            return None;
        }
        // The drive's own calls may be larger, split, or redirected. The newest failure of the kind
        // that overlaps is taken, else the newest failure of the kind.
        let of_kind = || failures.iter().rev().filter(|failure| failure.command.kind == command.kind);
        let here = of_kind().find(|failure| failure.command.range.overlaps(command.range));
        let errno = here.or_else(|| of_kind().next()).map(|failure| failure.errno);
        Some(Self { command, status, errno })
    }

    pub(super) fn kind(self) -> OpKind {
        self.command.kind
    }

    /// Describes the failure in words.
    pub(super) fn describe(self) -> String {
        let Command { kind, range, .. } = self.command;
        let what = match kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Flush => "flush",
            OpKind::Discard => "discard",
            OpKind::WriteZeroes => "write of zeroes",
            OpKind::Hint => "hint",
        };
        let place = if kind == OpKind::Flush { String::new() } else { format!(" at byte {}", range.start.bytes().0) };
        let why = self.errno.map(in_words);
        let how = match (self.status, why) {
            (Status::MediaError, Some(why)) => format!("failed: {why}"),
            (Status::MediaError, None) => "failed with an error of the drive".to_owned(),
            (Status::Gone, Some(why)) => format!("failed because the drive is missing: {why}"),
            (Status::Gone, None) => "failed because the drive is missing".to_owned(),
            (Status::Short(sectors), _) => format!("ended after {sectors} sectors"),
            (other, _) => format!("ended as {other:?}"),
        };
        format!("a {what}{place} {how}")
    }
}

/// Returns the system's text for an error, with its number: `No space left on device (28)`.
pub(super) fn in_words(errno: Errno) -> String {
    let number = errno.raw_os_error();
    let text = std::io::Error::from(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{text} ({number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(start: u64, count: u64) -> Command {
        Command { kind: OpKind::Write, range: SectorRange::new(start, count), fua: false }
    }

    #[test]
    fn failure_is_told_with_place_and_errno() {
        let failures = [
            Failure { command: write(0, 8), errno: Errno::NOSPC },
            Failure { command: write(64, 128), errno: Errno::IO },
            Failure { command: Command { kind: OpKind::Read, ..write(8, 8) }, errno: Errno::NODEV },
        ];
        let told = |command| Mishap::of(command, Status::MediaError, &failures).unwrap().describe();
        // The drive's call was larger than the volume's operation.
        assert_eq!(told(write(72, 8)), "a write at byte 36864 failed: Input/output error (5)");
        assert_eq!(told(write(0, 8)), "a write at byte 0 failed: No space left on device (28)");
        assert_eq!(told(Command::FLUSH), "a flush failed with an error of the drive");
        assert_eq!(Mishap::of(write(0, 8), Status::Done, &failures), None);
    }
    fn operation(kind: OpKind, start: u64) -> Command {
        Command { kind, range: SectorRange::new(start, 8), fua: false }
    }

    #[test]
    fn a_drive_fails_when_reads_of_three_places_in_a_row_do() {
        let mut traffic = Traffic::default();
        let mut read = |start, status| {
            traffic.note(operation(OpKind::Read, start), status, None);
            traffic.failing().reads
        };
        assert!(!(0..9).any(|_| read(0, Status::MediaError)), "one bad place, read again and again");
        assert!(!read(8, Status::MediaError));
        assert!(read(16, Status::Gone));
        assert!(!read(24, Status::Done), "it can be read after all");
        assert!(!read(32, Status::MediaError));
    }

    #[test]
    fn a_flush_that_fails_counts_until_another_succeeds() {
        let mut traffic = Traffic::default();
        traffic.note(Command::FLUSH, Status::MediaError, None);
        assert_eq!(traffic.failing(), Failing { flushes: true, ..Failing::default() });
        traffic.note(operation(OpKind::Write, 0), Status::Done, None);
        assert!(traffic.failing().flushes);
        traffic.note(Command::FLUSH, Status::Done, None);
        assert_eq!(traffic.failing(), Failing::default());
    }
}
