//! Members of which everything fails: a drive whose cable is out, or that has died and still
//! answers.
//!
//! An operation that fails is tried again by whoever needs it, and one bad sector costs no drive.
//! But where operations of a member fail again and again and none ends well in between, to try all
//! others costs time and may harm the drive or its bus. Then moves and scrubs ask that member for
//! one thing at a time, at most once a second, until one ends well. What requests themselves need
//! is asked for as ever.

use super::Volume;
use crate::layout::MemberId;
use crate::operation::{OpKind, Status};
use crate::payload::Payload;
use crate::units::Nanoseconds;

/// So many operations of one kind in a row must fail before a member counts as one that cannot do
/// that.
const FAILURES_MAX: u32 = 64;
/// How often such a member is asked again.
pub(super) const ASK_AGAIN: Nanoseconds = Nanoseconds::from_seconds(1);

/// Operations of a member that failed since one of their kind ended well.
#[derive(Clone, Copy, Default)]
pub(super) struct Health {
    reads: u32,
    changes: u32,
}

impl<P: Payload> Volume<P> {
    /// Takes note of the end of an operation.
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

    /// Whether `member` fails all reads, as far as anybody knows.
    pub fn is_unreadable(&self, member: MemberId) -> bool {
        self.health[usize::from(member.0)].reads >= FAILURES_MAX
    }

    /// Whether `member` fails all writes, as far as anybody knows.
    pub fn is_unwritable(&self, member: MemberId) -> bool {
        self.health[usize::from(member.0)].changes >= FAILURES_MAX
    }

    /// Whether what is in the slots cannot be moved now, and is only tried from time to time.
    pub(super) fn is_move_futile(&self) -> bool {
        self.view.layout.slots.is_some_and(|slots| self.is_unreadable(slots.member))
            || self.view.layout.homes().into_iter().any(|home| self.is_unwritable(home))
    }
}
