//! Bytes that went through, and what failed on the way.

use bimetal_core::operation::{Command, OpKind, Status};
use bimetal_core::units::Bytes;

/// Of one member, or of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub(super) read: Bytes,
    pub(super) written: Bytes,
    pub(super) errors: u64,
    pub(super) last_error: Option<(Command, Status)>,
}

impl Traffic {
    pub(super) fn note(&mut self, command: Command, status: Status) {
        match (status, command.kind) {
            (Status::Done, OpKind::Read) => self.read += command.range.len.bytes(),
            (Status::Done, OpKind::Write | OpKind::WriteZeroes) => self.written += command.range.len.bytes(),
            // That a drive cannot do something is no fault of it.
            (Status::Done | Status::Unsupported, _) => {}
            _ => {
                self.errors += 1;
                self.last_error = Some((command, status));
            }
        }
    }

    /// The last error in words.
    pub(super) fn trouble(&self) -> Option<String> {
        let (command, status) = self.last_error?;
        Some(describe(command, status))
    }
}

/// An operation that failed, in words.
pub(super) fn describe(Command { kind, range, .. }: Command, status: Status) -> String {
    let what = match kind {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Flush => "flush",
        OpKind::Discard => "discard",
        OpKind::WriteZeroes => "write of zeroes",
        OpKind::Hint => "hint",
    };
    let place = if kind == OpKind::Flush { String::new() } else { format!(" at byte {}", range.start.bytes().0) };
    let how = match status {
        Status::MediaError => "failed with an error of the drive".to_owned(),
        Status::Gone => "failed because the drive is gone".to_owned(),
        Status::Short(sectors) => format!("ended after {sectors} sectors"),
        other => format!("ended as {other:?}"),
    };
    format!("a {what}{place} {how}")
}
