//! Members of which every operation fails: a drive whose cable is out, or a dead drive that still
//! answers.
//!
//! Tasks try failed operations again, and a single bad sector costs no drive. Operations of a
//! member may still fail again and again, with no success in between. On a drive that fails its
//! operations, each further operation costs time and may harm the drive or its bus. So moves and
//! scrubs give that member one operation at a time, at most once a second, until an operation
//! succeeds. Operations that requests themselves need are always issued.

use crate::operation::{OpKind, Status};
use crate::units::Nanoseconds;

/// Failed operations of one kind in a row after which a member counts as unable to do that kind.
const FAILURES_MAX: u32 = 64;
/// Time between two attempts of a kind of operation on a member that fails this kind.
pub(in crate::volume) const ASK_AGAIN: Nanoseconds = Nanoseconds::from_seconds(1);

/// Failed operations of a member since the last success of their kind.
#[derive(Clone, Copy, Default)]
pub(in crate::volume) struct Health {
    reads: u32,
    changes: u32,
}

impl Health {
    /// Counts the end of an operation.
    pub(in crate::volume) fn note(&mut self, kind: OpKind, status: Status) {
        let failures = match kind {
            OpKind::Read => &mut self.reads,
            OpKind::Write | OpKind::WriteZeroes => &mut self.changes,
            _ => return,
        };
        match status {
            Status::Done => *failures = 0,
            Status::MediaError => *failures = failures.saturating_add(1),
            _ => {}
        }
    }

    /// Returns true if all recent reads have failed.
    pub(in crate::volume) fn is_unreadable(self) -> bool {
        self.reads >= FAILURES_MAX
    }

    /// Returns true if all recent writes have failed.
    pub(in crate::volume) fn is_unwritable(self) -> bool {
        self.changes >= FAILURES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: OpKind, times: u32) -> Health {
        let mut health = Health::default();
        (0..times).for_each(|_| health.note(kind, Status::MediaError));
        health
    }

    #[test]
    fn member_is_unreadable_after_64_failed_reads_in_a_row() {
        assert!(!failed(OpKind::Read, 63).is_unreadable());
        let mut health = failed(OpKind::Read, 64);
        assert!(health.is_unreadable() && !health.is_unwritable());
        health.note(OpKind::Write, Status::Done);
        health.note(OpKind::Read, Status::Gone);
        assert!(health.is_unreadable(), "neither a write nor a missing drive proves that it can be read");
        health.note(OpKind::Read, Status::Done);
        assert!(!health.is_unreadable());
    }

    /// A drive may fail all discards or flushes, and still write well.
    #[test]
    fn only_writes_make_a_member_unwritable() {
        assert!(failed(OpKind::Write, 64).is_unwritable() && failed(OpKind::WriteZeroes, 64).is_unwritable());
        assert!(!failed(OpKind::Discard, 64).is_unwritable() && !failed(OpKind::Flush, 64).is_unwritable());
    }
}
