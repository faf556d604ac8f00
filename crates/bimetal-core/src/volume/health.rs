//! Members of which every operation fails: a drive whose cable is out, or a dead drive that still
//! answers.
//!
//! Tasks try failed operations again, and a single bad sector costs no drive. But operations of a
//! member may fail again and again, with no success in between. To such a drive, each further
//! operation costs time and may harm the drive or its bus. So moves and scrubs give that member one
//! operation at a time, at most once a second, until an operation succeeds. Operations that
//! requests themselves need are always issued.

use super::Volume;
use crate::layout::MemberId;
use crate::operation::{OpKind, Status};
use crate::payload::Payload;
use crate::units::Nanoseconds;

/// Failed operations of one kind in a row after which a member counts as unable to do that kind.
const FAILURES_MAX: u32 = 64;
/// Time between two attempts on such a member.
pub(super) const ASK_AGAIN: Nanoseconds = Nanoseconds::from_seconds(1);

/// Failed operations of a member since the last success of their kind.
#[derive(Clone, Copy, Default)]
pub(super) struct Health {
    reads: u32,
    changes: u32,
}

impl<P: Payload> Volume<P> {
    /// Counts the end of an operation.
    pub(super) fn note_health(&mut self, member: MemberId, kind: OpKind, status: Status) {
        let health = &mut self.health[usize::from(member.0)];
        let failures = match kind {
            OpKind::Read => &mut health.reads,
            OpKind::Write | OpKind::WriteZeroes => &mut health.changes,
            _ => return,
        };
        match status {
            Status::Done => *failures = 0,
            Status::MediaError => *failures = failures.saturating_add(1),
            _ => {}
        }
    }

    /// Returns true if all recent reads of `member` have failed.
    pub fn is_unreadable(&self, member: MemberId) -> bool {
        self.health[usize::from(member.0)].reads >= FAILURES_MAX
    }

    /// Returns true if all recent writes to `member` have failed.
    pub fn is_unwritable(&self, member: MemberId) -> bool {
        self.health[usize::from(member.0)].changes >= FAILURES_MAX
    }

    /// Returns true if moves of the slots' content would fail now, and are only tried from time to
    /// time.
    pub(super) fn is_move_futile(&self) -> bool {
        self.view.layout.slots.is_some_and(|slots| self.is_unreadable(slots.member))
            || self.view.layout.homes().into_iter().any(|home| self.is_unwritable(home))
    }
}
