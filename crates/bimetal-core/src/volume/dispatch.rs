//! Operations and tasks: a task issues operations, and the end of an operation goes back to its
//! task.

use super::operations::{Again, InFlight, METADATA_TRIES, Order, purpose};
use super::{Job, TaskId, Volume};
use crate::label::report::Kind;
use crate::layout::MemberId;
use crate::operation::{Command, Completion, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::Service;
use crate::units::{Nanoseconds, SectorRange, Sectors};

impl<P: Payload> Volume<P> {
    /// Starts an operation on `member` for `task`. Returns the index of the operation among the
    /// operations under way.
    pub(super) fn issue(
        &mut self,
        task: TaskId,
        purpose: u32,
        member: MemberId,
        command: Command,
        payload: P,
    ) -> usize {
        let order = Order { task, purpose, member, command };
        let load = &mut self.view.members[usize::from(member.0)];
        if order.is_foreground() {
            load.foreground += 1;
        } else {
            load.background += 1;
        }
        self.tasks.expect(task, 1);
        self.operations.begin(self.view.now, load.state, order, payload)
    }

    /// Writes metadata in the background, and writes the metadata again if the write fails.
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
        self.operations.repeat(index, again);
    }

    pub(super) fn end_operation(&mut self, completion: Completion<P>) {
        let Completion { token, status, payload } = completion;
        let (mut operation, status) = self.operations.end(token, status);
        let load = &mut self.view.members[usize::from(operation.member.0)];
        if operation.foreground {
            load.foreground -= 1;
            load.idle_since = self.view.now;
            let InFlight { member, kind, sectors, begun, .. } = operation;
            let took = Nanoseconds(self.view.now.0 - begun.0);
            if let Some(monitor) = self.decider.scheme.monitor_mut() {
                monitor.served(&self.view, &Service { member, kind, sectors, took });
            }
        } else {
            load.background -= 1;
        }
        let status = self.judge(&operation, status);
        if status == Status::Gone {
            self.fail_member(operation.member);
        }
        self.tasks.arrived(operation.task);
        if status == Status::MediaError
            && let Some(again) = operation.again.take()
        {
            return self.issue_again(operation.task, operation.purpose, operation.member, *again);
        }
        if status == Status::Unsupported
            && operation.kind == OpKind::WriteZeroes
            && let Some(mut again) = operation.again.take()
        {
            // Another copy may have zeroed its sectors: this copy gets zeroes as content.
            (again.command.kind, again.payload) = (OpKind::Write, P::zeroes(again.command.range.len));
            return self.issue_again(operation.task, operation.purpose, operation.member, *again);
        }
        let status = self.status_with_copies(&operation, status);
        self.note_result(&operation, status, payload);
    }

    /// Updates the volume by the facts that the end of an operation proves. Returns the effective
    /// status of the operation.
    fn judge(&mut self, operation: &InFlight<P>, ended: Status) -> Status {
        let flushes = ended == Status::MediaError && self.is_flush_of_home(operation);
        let (status, loses) = self.operations.judge(operation, ended, flushes);
        if loses {
            self.flush_failed(operation.member);
        }
        self.status_of_old_copy(operation, status)
    }

    /// Returns true if the operation is a forced change of a drive that is only a home. The drive
    /// may carry out such an operation as a change and a flush. If the operation fails, the drive
    /// may have dropped other unstable changes, too. Drives with slots are excepted: a single bad
    /// sector must not cost such a drive.
    fn is_flush_of_home(&self, operation: &InFlight<P>) -> bool {
        let layout = &self.view.layout;
        let has_slots = layout.slots.is_some_and(|slots| slots.member == operation.member);
        let is_forced_change = operation.fua && operation.kind.changes_content();
        is_forced_change && !has_slots && !layout.is_mirrored() && layout.homes().contains(&operation.member)
    }

    /// Passes a result to its job, and runs the job when no operation of the job is under way.
    pub(super) fn note_result(&mut self, operation: &InFlight<P>, status: Status, payload: P) {
        let task = operation.task;
        let purpose = operation.purpose;
        match self.take_job(task) {
            Job::Read(mut job) => {
                self.note_read(task, &mut job, purpose, status, payload);
                self.put_job(task, Job::Read(job));
            }
            Job::Write(mut job) => {
                job.note_moves(self.view.layout.block, purpose, &self.view.map, |block| self.damage.lost.of(block));
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
            Job::ScrubPages(job) => return self.note_pages(task, *job, status, &payload),
            Job::Compare(mut job) => {
                self.note_comparison(&mut job, purpose, status, &payload);
                self.put_job(task, Job::Compare(job));
            }
            Job::CompareHome(mut job) => {
                self.note_home_comparison(&mut job, status, &payload);
                self.put_job(task, Job::CompareHome(job));
            }
            Job::Hint(answer) => return self.end_hint(task, answer.as_deref()),
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

    /// Returns true if all recent reads of `member` have failed.
    pub fn is_unreadable(&self, member: MemberId) -> bool {
        self.operations.health(member).is_unreadable()
    }

    /// Returns true if all recent writes to `member` have failed.
    pub fn is_unwritable(&self, member: MemberId) -> bool {
        self.operations.health(member).is_unwritable()
    }

    /// Returns true if moves of the slots' content would fail now, so that moves are only tried
    /// from time to time.
    pub(super) fn is_move_futile(&self) -> bool {
        self.view.layout.slots.is_some_and(|slots| self.is_unreadable(slots.member))
            || self.view.layout.homes().into_iter().any(|home| self.is_unwritable(home))
    }
}
