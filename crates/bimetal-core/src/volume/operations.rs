//! Operations on members: starting an operation for a task, finding the task again when it ends,
//! and trying it again. Also tracks the changes that no flush has made stable yet.

use super::{Job, TaskId, Volume};
use crate::label::report::Kind;
use crate::layout::MemberId;
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::Payload;
use crate::scheme::{MemberState, Service};
use crate::units::{Nanoseconds, SectorRange, Sectors};

/// An operation on a member.
pub(super) struct InFlight<P> {
    pub(super) token: Token,
    pub(super) task: TaskId,
    /// Number by which the task tells its operations apart.
    pub(super) purpose: u32,
    pub(super) member: MemberId,
    pub(super) kind: OpKind,
    pub(super) fua: bool,
    pub(super) sectors: Sectors,
    pub(super) begun: Nanoseconds,
    pub(super) foreground: bool,
    /// Number of changes of its member that had completed before it: a flush makes these stable.
    pub(super) covers: u64,
    /// The write to repeat, for metadata or one of several copies.
    pub(super) again: Option<Box<Again<P>>>,
}

impl<P> InFlight<P> {
    /// Returns true if a request changes content with this operation.
    pub(super) fn is_change(&self) -> bool {
        self.foreground && self.kind.changes_content()
    }

    /// Returns the operation's number among all operations begun.
    pub(super) fn sequence(&self) -> u64 {
        self.token.0 >> OPERATION_INDEX_BITS
    }
}

/// A write of metadata that is repeated when it fails. The map in memory is right, and a sector
/// that is bad for a moment must not cost its drive.
pub(super) struct Again<P> {
    pub(super) command: Command,
    pub(super) payload: P,
    pub(super) tries_left: u8,
}

/// Tries of a write of metadata, or of one of several copies.
pub(super) const METADATA_TRIES: u8 = 3;

/// Changes of a member that have completed, and those that a completed flush has covered.
#[derive(Clone, Copy, Default)]
pub(super) struct Stability {
    pub(super) changed: u64,
    pub(super) stable: u64,
    /// The newest change that a request made in place.
    pub(super) requested: u64,
    /// Number of operations begun when a flush failed: a flush begun before proves nothing.
    failed_at: u64,
}

impl Stability {
    /// Returns true if a change waits for a flush. A flush under way may still fail, and does not
    /// count.
    pub(super) fn wants_flush(self) -> bool {
        self.stable < self.changed
    }

    /// Returns true if a change in place by a request waits for a flush.
    pub(super) fn owes_requests(self) -> bool {
        self.stable < self.requested
    }

    /// Returns true if a flush failed after more than `operations_begun` operations had begun.
    pub(super) fn has_failed_since(self, operations_begun: u64) -> bool {
        self.failed_at > operations_begun
    }
}

pub(super) const OPERATION_INDEX_BITS: u32 = 24;

impl<P: Payload> Volume<P> {
    /// Starts an operation on `member` for `task`. Returns its index among those under way.
    pub(super) fn issue(
        &mut self,
        task: TaskId,
        purpose: u32,
        member: MemberId,
        command: Command,
        payload: P,
    ) -> usize {
        let foreground = purpose < purpose::BACKGROUND;
        self.operations_begun += 1;
        if foreground && command.kind.changes_content() {
            self.newest_change = self.operations_begun;
        }
        let entry = self.operations.vacant_entry();
        assert!(entry.key() < 1 << OPERATION_INDEX_BITS, "too many operations under way");
        let index = entry.key();
        let token = Token(self.operations_begun << OPERATION_INDEX_BITS | index as u64);
        let Command { kind, fua, .. } = command;
        let covers = self.stability[usize::from(member.0)].changed;
        let (sectors, begun) = (command.range.len, self.view.now);
        let again = None;
        entry.insert(InFlight { token, task, purpose, member, kind, fua, sectors, begun, foreground, covers, again });
        self.tasks[task as usize].outstanding += 1;
        let load = &mut self.view.members[usize::from(member.0)];
        if foreground {
            load.foreground += 1;
        } else {
            load.background += 1;
        }
        let refused = match load.state {
            MemberState::Online => None,
            // The state on the homes is right only as long as nothing is written to a read-only
            // member.
            MemberState::ReadOnly => kind.changes_content().then_some(Status::MediaError),
            MemberState::Failed => Some(Status::Gone),
        };
        match refused {
            Some(status) => self.aborted.push_back(Completion { token, status, payload: P::empty() }),
            None => self.outgoing.push_back(Operation { token, target: member.0, command, payload }),
        }
        index
    }

    /// Writes metadata in the background, and again if it fails.
    pub(super) fn issue_metadata(&mut self, task: TaskId, member: MemberId, range: SectorRange, fua: bool, payload: P) {
        let command = Command { kind: OpKind::Write, range, fua };
        self.issue_again(task, purpose::BACKGROUND, member, Again { command, payload, tries_left: METADATA_TRIES });
    }

    /// Starts an operation that is repeated when it fails.
    pub(super) fn issue_again(&mut self, task: TaskId, purpose: u32, member: MemberId, mut again: Again<P>) {
        let payload = again.payload.slice(Sectors::ZERO, again.payload.sectors());
        if purpose & purpose::BACKGROUND != 0 {
            self.count_metadata(member, again.command.range.len);
        }
        let index = self.issue(task, purpose, member, again.command, payload);
        again.tries_left -= 1;
        self.operations[index].again = (again.tries_left > 0).then(|| Box::new(again));
    }

    pub(super) fn end_operation(&mut self, completion: Completion<P>) {
        let Completion { token, status, payload } = completion;
        let index = (token.0 & ((1 << OPERATION_INDEX_BITS) - 1)) as usize;
        let known = self.operations.get(index).is_some_and(|operation| operation.token == token);
        assert!(known, "no operation with {token:?} is under way");
        let mut operation = self.operations.remove(index);
        let status = status_for(operation.kind, status);
        let load = &mut self.view.members[usize::from(operation.member.0)];
        if operation.foreground {
            load.foreground -= 1;
            load.idle_since = self.view.now;
            let InFlight { member, kind, sectors, begun, .. } = operation;
            let took = Nanoseconds(self.view.now.0 - begun.0);
            if let Some(monitor) = self.scheme.monitor_mut() {
                monitor.served(&self.view, &Service { member, kind, sectors, took });
            }
        } else {
            load.background -= 1;
        }
        self.note_health(operation.member, operation.kind, status);
        let status = self.note_stability(&operation, status);
        if status == Status::Gone {
            self.fail_member(operation.member);
        }
        self.tasks[operation.task as usize].outstanding -= 1;
        if status == Status::MediaError
            && let Some(again) = operation.again.take()
        {
            return self.issue_again(operation.task, operation.purpose, operation.member, *again);
        }
        let status = self.status_with_copies(&operation, status);
        self.note_result(&operation, status, payload);
    }

    /// Updates the stable changes of the operation's drive. Returns the effective status: a flush
    /// that was under way when another flush failed proves nothing, and counts as failed. Such a
    /// flush is not counted as a new failure.
    fn note_stability(&mut self, operation: &InFlight<P>, ended: Status) -> Status {
        let is_flush = operation.kind == OpKind::Flush;
        let stability = &mut self.stability[usize::from(operation.member.0)];
        let proves_nothing = is_flush && ended == Status::Done && operation.sequence() <= stability.failed_at;
        let status = if proves_nothing { Status::MediaError } else { ended };
        if operation.kind.changes_content() {
            stability.changed += 1;
            if operation.foreground {
                stability.requested = stability.changed;
            }
        } else if is_flush && matches!(status, Status::Done | Status::Unsupported) {
            stability.stable = stability.stable.max(operation.covers);
        }
        if ended == Status::MediaError && (is_flush || self.is_flush_of_home(operation)) {
            self.stability[usize::from(operation.member.0)].failed_at = self.operations_begun;
            self.flush_failed(operation.member);
        }
        status
    }

    /// Returns true if the operation is a forced change of a drive that is only a home. The drive
    /// may carry it out as a change and a flush. If it fails, the drive may have dropped other
    /// unstable changes, too. Drives with slots are excepted: a single bad sector must not cost
    /// such a drive.
    fn is_flush_of_home(&self, operation: &InFlight<P>) -> bool {
        let layout = &self.view.layout;
        let has_slots = layout.slots.is_some_and(|slots| slots.member == operation.member);
        let is_forced_change = operation.fua && operation.kind.changes_content();
        is_forced_change && !has_slots && !layout.is_mirrored() && layout.homes().contains(&operation.member)
    }

    /// Passes a result to its job, and runs the job when no operation of it is under way.
    pub(super) fn note_result(&mut self, operation: &InFlight<P>, status: Status, payload: P) {
        let task = operation.task;
        let purpose = operation.purpose;
        match self.take_job(task) {
            Job::Read(mut job) => {
                self.note_read(task, &mut job, purpose, status, payload);
                self.put_job(task, Job::Read(job));
            }
            Job::Write(mut job) => {
                let bad = job.bad_slot(purpose, status, &payload);
                job.note(self.view.layout.block, purpose, status, payload);
                self.put_job(task, Job::Write(job));
                if let Some((slot, entry, kind)) = bad {
                    self.statistics.checksum_errors += u64::from(kind == Kind::Checksum);
                    // The write itself replaces the slot.
                    self.slot_is_bad(slot, &entry, kind, false);
                }
            }
            Job::Range(mut job) => {
                job.note(status);
                self.put_job(task, Job::Range(job));
            }
            Job::Fetch(mut job) => {
                job.note(purpose, status, payload);
                self.put_job(task, Job::Fetch(job));
            }
            Job::Relocate(mut job) => {
                job.note(purpose, status, payload);
                self.put_job(task, Job::Relocate(job));
            }
            Job::Promote(mut job) => {
                job.note(purpose, status);
                self.put_job(task, Job::Promote(job));
            }
            Job::Scrub(job) => return self.note_scrub(task, job, status, &payload),
            Job::Compare(mut job) => {
                self.note_comparison(&mut job, purpose, status, &payload);
                self.put_job(task, Job::Compare(job));
            }
            Job::Hint => return self.end_hint(task),
            Job::Discard(job) => return self.end_discard(task, &job, status),
            Job::Move(job) => return self.note_move(task, job, purpose, status, payload),
            Job::Segment(first, tries) => return self.note_segment(task, first, tries, status),
            Job::Commit => {
                self.note_commit(operation.member, operation.kind, status);
                self.put_job(task, Job::Commit);
            }
            Job::Index if self.outstanding(task) > 0 => self.put_job(task, Job::Index),
            Job::Index => return self.write_next_of_index(task),
            Job::Announce => {
                self.put_job(task, Job::Announce);
                self.note_announcement(operation.member, status);
            }
            Job::Checkpoint(mut job) => {
                job.note(status);
                self.put_job(task, Job::Checkpoint(job));
            }
            Job::Note { stable, status: before } => {
                let status = if before == Status::Done { status } else { before };
                self.put_job(task, Job::Note { stable, status });
            }
            Job::Flush(..) | Job::Close(_) | Job::Running => unreachable!("task {task} has no operations"),
        }
        if self.outstanding(task) == 0 {
            self.run(task);
        }
    }
}

/// Numbers by which a task tells its operations apart.
pub(crate) mod purpose {
    /// From this bit on: operations that serve no request.
    pub(crate) const BACKGROUND: u32 = 1 << 31;
    /// A write to home.
    pub(crate) const HOME: u32 = 1 << 30;
    /// A read of the slot a block had, to merge with it.
    pub(crate) const MERGE_SLOT: u32 = 1 << 29;
    /// A read of home, to complete an eighth that is written in part.
    pub(crate) const MERGE_HOME: u32 = 1 << 28;
    /// The number of a piece or part.
    pub(crate) const INDEX: u32 = MERGE_HOME - 1;
    /// For a move: the position in its batch of the first block that an operation carries.
    pub(crate) const MOVED_FIRST: u32 = (1 << MOVED_COUNT_SHIFT) - 1;
    /// For a move: from this bit on, the number of blocks that an operation carries, at most 255.
    pub(crate) const MOVED_COUNT_SHIFT: u32 = 20;
}

/// Returns the status that counts. A request cannot name a part of an operation, so a short
/// operation has failed. A drive that does not support a read or a write has failed it.
fn status_for(kind: OpKind, status: Status) -> Status {
    match status {
        Status::Short(_) => Status::MediaError,
        Status::Unsupported if matches!(kind, OpKind::Read | OpKind::Write) => Status::MediaError,
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::NoPayload;
    use crate::testing::Bench;

    /// A checkpoint took a superblock that its drive did not support for a written superblock.
    #[test]
    fn unsupported_write_is_a_failed_write() {
        let ends = |kind| {
            let mut bench = Bench::new("hdd-only", &[]);
            bench.submit(0, kind, 0, 8);
            let volume = &mut bench.volume;
            let token = volume.next_operation().expect("an operation on the disk").token;
            volume.complete(Nanoseconds::ZERO, Completion { token, status: Status::Unsupported, payload: NoPayload });
            volume.next_finished().map(|finished| finished.status)
        };
        assert_eq!(ends(OpKind::Write), Some(Status::MediaError));
        assert_eq!(ends(OpKind::Read), Some(Status::MediaError));
    }
}
