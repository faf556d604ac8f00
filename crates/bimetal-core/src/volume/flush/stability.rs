//! The changes of one member, and the changes that a flush has made stable.
//!
//! A flush covers the changes that had ended when it began. A flush that was under way when another
//! flush of the member failed proves nothing: the drive may have dropped changes that the flush
//! under way was to make stable, and the flush may still report success.

use crate::operation::Status;

/// Changes of a member that have completed, and changes that a completed flush has covered.
#[derive(Clone, Copy, Default)]
pub(in crate::volume) struct Stability {
    changed: u64,
    stable: u64,
    /// The newest change that a request made in place.
    requested: u64,
    /// Number of operations begun when a flush failed: a flush that began before this operation
    /// proves nothing.
    failed_at: u64,
}

impl Stability {
    /// Returns the number of changes that a flush beginning now covers.
    pub(in crate::volume) fn covered_by_a_flush(self) -> u64 {
        self.changed
    }

    /// Counts a change that has ended, of a request or in the background.
    pub(in crate::volume) fn changed(&mut self, for_request: bool) {
        self.changed += 1;
        if for_request {
            self.requested = self.changed;
        }
    }

    /// Takes the end of a flush, the operation numbered `sequence`, that began when `covers`
    /// changes had ended. Returns the effective status of the flush.
    pub(in crate::volume) fn flushed(&mut self, sequence: u64, covers: u64, status: Status) -> Status {
        let proves_nothing = status == Status::Done && sequence <= self.failed_at;
        let status = if proves_nothing { Status::MediaError } else { status };
        if matches!(status, Status::Done | Status::Unsupported) {
            self.stable = self.stable.max(covers);
        }
        status
    }

    /// Notes that a flush failed, and that `operations_begun` operations had begun at the time of
    /// the failure.
    pub(in crate::volume) fn flush_failed(&mut self, operations_begun: u64) {
        self.failed_at = operations_begun;
    }

    /// Counts all changes as a request's, because reads return the changed content from now on.
    pub(in crate::volume) fn all_requested(&mut self) {
        self.requested = self.changed;
    }

    /// Returns true if a change waits for a flush. A flush under way may still fail, so it does not
    /// count as done.
    pub(in crate::volume) fn wants_flush(self) -> bool {
        self.stable < self.changed
    }

    /// Returns true if a change in place by a request waits for a flush.
    pub(in crate::volume) fn owes_requests(self) -> bool {
        self.stable < self.requested
    }

    /// Returns true if a flush failed after more than `operations_begun` operations had begun.
    pub(in crate::volume) fn has_failed_since(self, operations_begun: u64) -> bool {
        self.failed_at > operations_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_covers_only_the_changes_before_it() {
        let mut stability = Stability::default();
        stability.changed(false);
        let covers = stability.covered_by_a_flush();
        stability.changed(true);
        assert_eq!(stability.flushed(3, covers, Status::Done), Status::Done);
        assert!(stability.wants_flush() && stability.owes_requests(), "the second change came later");
        assert_eq!(stability.flushed(4, stability.covered_by_a_flush(), Status::Unsupported), Status::Unsupported);
        assert!(!stability.wants_flush(), "a drive that has no flush has no volatile cache");
    }

    /// A drive that fails a flush may drop the data that the flush was to write, and then report
    /// success for the next flush. A flush that was under way when another flush failed covers
    /// nothing.
    #[test]
    fn flush_under_way_when_another_failed_proves_nothing() {
        let mut stability = Stability::default();
        stability.changed(true);
        let covers = stability.covered_by_a_flush();
        assert_eq!(stability.flushed(7, covers, Status::MediaError), Status::MediaError);
        stability.flush_failed(9);
        assert_eq!(stability.flushed(9, covers, Status::Done), Status::MediaError);
        assert!(stability.wants_flush() && stability.has_failed_since(8) && !stability.has_failed_since(9));
        assert_eq!(stability.flushed(10, covers, Status::Done), Status::Done);
        assert!(!stability.wants_flush());
    }

    #[test]
    fn background_change_is_owed_once_reads_return_it() {
        let mut stability = Stability::default();
        stability.changed(false);
        assert!(stability.wants_flush() && !stability.owes_requests());
        stability.all_requested();
        assert!(stability.owes_requests());
    }
}
