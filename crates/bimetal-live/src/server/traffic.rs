//! Bytes that went through, and what failed on the way.

use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::{Bytes, SectorRange};
use rustix::io::Errno;

use crate::drive::Failure;

/// Reads or writes that failed in a row, each at another place than the one before, from which on a drive counts as failing.
const IN_A_ROW: u32 = 3;

/// Of one member, or of all requests.
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

/// Operations of a kind that failed since one of them succeeded.
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
            // One bad sector, read again and again, says nothing of the others.
            self.count = self.count.saturating_add(1);
            self.last = Some(range);
        }
    }
}

/// Kinds of operations of a drive that fail, as far as anybody has seen of late: every one of them, wherever it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failing {
    /// Reads.
    pub reads: bool,
    /// Writes.
    pub writes: bool,
    /// Flushes.
    pub flushes: bool,
}

impl Failing {
    /// The kinds that fail here or there.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            flushes: self.flushes || other.flushes,
        }
    }

    /// The meaning, to stand behind the name of the drive.
    pub fn in_words(self) -> &'static str {
        match self {
            Self { reads: true, writes: true, .. } => {
                "cannot be read or written: its last operations failed, each of them"
            }
            Self { reads: true, .. } => "cannot be read: its last reads failed, each of them",
            Self { writes: true, .. } => "cannot be written: its last writes failed, each of them",
            Self { flushes: true, .. } => "cannot be flushed: what was written to it last is not stable",
            _ => "works",
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
            // That a drive cannot do something is no fault of it.
            (Status::Done | Status::Unsupported, _) => {}
            _ => {
                self.errors += 1;
                self.last_error = mishap;
            }
        }
    }

    /// The kinds of operations that fail.
    pub(super) fn failing(&self) -> Failing {
        let fails = |streak: &Streak| streak.count >= IN_A_ROW;
        // After a flush that failed there may be no other one.
        Failing { reads: fails(&self.reads), writes: fails(&self.writes), flushes: self.flushes.count > 0 }
    }

    /// The last error in words.
    pub(super) fn trouble(&self) -> Option<String> {
        Some(self.last_error?.describe())
    }
}

/// An operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mishap {
    command: Command,
    status: Status,
    /// What the system said, where it said something.
    errno: Option<Errno>,
}

impl Mishap {
    /// What is wrong with an operation that ended so; `failures` is what the drive was told by the
    /// system of late.
    pub(super) fn of(command: Command, status: Status, failures: &[Failure]) -> Option<Self> {
        if matches!(status, Status::Done | Status::Unsupported) {
            return None;
        }
        // A drive may have been asked for more, in parts or elsewhere: the nearest of the kind
        // tells.
        let of_kind = || failures.iter().rev().filter(|failure| failure.command.kind == command.kind);
        let here = of_kind().find(|failure| failure.command.range.overlaps(command.range));
        let errno = here.or_else(|| of_kind().next()).map(|failure| failure.errno);
        Some(Self { command, status, errno })
    }

    pub(super) fn kind(self) -> OpKind {
        self.command.kind
    }

    /// In words.
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
            (Status::Gone, Some(why)) => format!("failed because the drive is gone: {why}"),
            (Status::Gone, None) => "failed because the drive is gone".to_owned(),
            (Status::Short(sectors), _) => format!("ended after {sectors} sectors"),
            (other, _) => format!("ended as {other:?}"),
        };
        format!("a {what}{place} {how}")
    }
}

/// What the system said, with its number: `No space left on device (28)`.
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
        // The drive was asked for more than the volume wanted.
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
