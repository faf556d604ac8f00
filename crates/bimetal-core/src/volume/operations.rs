//! The operations under way on the members: their tokens, the tasks to which the operations belong,
//! and the facts that the ends of operations prove.

use std::collections::VecDeque;

use slab::Slab;

use super::flush::stability::Stability;
use super::members::health::Health;
use super::tasks::TaskId;
use crate::layout::MemberId;
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::{Nanoseconds, Sectors};

/// An operation on a member.
pub(super) struct InFlight<P> {
    token: Token,
    pub(super) task: TaskId,
    /// Number by which the task tells its operations apart.
    pub(super) purpose: u32,
    pub(super) member: MemberId,
    pub(super) kind: OpKind,
    pub(super) fua: bool,
    pub(super) sectors: Sectors,
    pub(super) begun: Nanoseconds,
    pub(super) foreground: bool,
    /// Number of changes of the member that had completed before the operation began: a flush makes
    /// these changes stable.
    covers: u64,
    /// The write to repeat, for metadata or one of several copies.
    pub(super) again: Option<Box<Again<P>>>,
}

impl<P> InFlight<P> {
    /// Returns true if a request changes content with this operation.
    fn is_change(&self) -> bool {
        self.foreground && self.kind.changes_content()
    }

    /// Returns the operation's number among all operations begun.
    fn sequence(&self) -> u64 {
        self.token.0 >> OPERATION_INDEX_BITS
    }
}

/// A write of metadata that is repeated when it fails. The block map in memory is right, so the
/// write can be repeated, and a sector that is bad for a moment does not cost the drive.
pub(super) struct Again<P> {
    pub(super) command: Command,
    pub(super) payload: P,
    pub(super) tries_left: u8,
}

/// Tries of a write of metadata, or of one of several copies.
pub(super) const METADATA_TRIES: u8 = 3;

pub(super) const OPERATION_INDEX_BITS: u32 = 24;

/// An operation that a task begins on a member.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) task: TaskId,
    /// Number by which the task tells its operations apart.
    pub(super) purpose: u32,
    pub(super) member: MemberId,
    pub(super) command: Command,
}

impl Order {
    /// Returns true if the operation serves a request.
    pub(super) fn is_foreground(&self) -> bool {
        self.purpose < purpose::BACKGROUND
    }
}

/// Facts about a member that outlive its operations.
#[derive(Clone, Copy, Default)]
struct Record {
    stability: Stability,
    health: Health,
}

/// The operations of a volume.
pub(super) struct Operations<P> {
    under_way: Slab<InFlight<P>>,
    begun: u64,
    /// Number of the newest operation that changes content for a request.
    newest_change: u64,
    /// Operations for the driver to start.
    outgoing: VecDeque<Operation<P>>,
    /// Completions of operations that no drive gets.
    refused: VecDeque<Completion<P>>,
    members: Vec<Record>,
}

impl<P: Payload> Operations<P> {
    pub(super) fn new(members: usize) -> Self {
        Self {
            under_way: Slab::new(),
            begun: 0,
            newest_change: 0,
            outgoing: VecDeque::new(),
            refused: VecDeque::new(),
            members: vec![Record::default(); members],
        }
    }

    /// Begins an operation on a member in this `state`. Returns the index of the operation among
    /// the operations under way. A member that is gone gets no operation, and a read-only member no
    /// change: such an operation ends with the next [`next_refused`](Self::next_refused).
    pub(super) fn begin(&mut self, now: Nanoseconds, state: MemberState, order: Order, payload: P) -> usize {
        let Order { task, purpose, member, command } = order;
        let Command { kind, fua, .. } = command;
        let foreground = order.is_foreground();
        self.begun += 1;
        if foreground && kind.changes_content() {
            self.newest_change = self.begun;
        }
        let covers = self.stability(member).covered_by_a_flush();
        let entry = self.under_way.vacant_entry();
        assert!(entry.key() < 1 << OPERATION_INDEX_BITS, "too many operations under way");
        let index = entry.key();
        let token = Token(self.begun << OPERATION_INDEX_BITS | index as u64);
        let (sectors, begun) = (command.range.len, now);
        let again = None;
        entry.insert(InFlight { token, task, purpose, member, kind, fua, sectors, begun, foreground, covers, again });
        let refused = match state {
            MemberState::Online => None,
            // The state on the homes is right only as long as nothing is written to a read-only
            // member.
            MemberState::ReadOnly => kind.changes_content().then_some(Status::MediaError),
            MemberState::Failed => Some(Status::Gone),
        };
        match refused {
            Some(status) => self.refused.push_back(Completion { token, status, payload: P::empty() }),
            None => self.outgoing.push_back(Operation { token, target: member.0, command, payload }),
        }
        index
    }

    /// Sets the write to repeat if an operation under way fails.
    pub(super) fn repeat(&mut self, index: usize, again: Again<P>) {
        self.under_way[index].again = (again.tries_left > 0).then(|| Box::new(again));
    }

    /// Ends an operation. Returns the operation that has ended, with its effective status, before
    /// the operation is [judged](Self::judge).
    ///
    /// # Panics
    /// Panics if no operation with this token is under way.
    pub(super) fn end(&mut self, token: Token, status: Status) -> (InFlight<P>, Status) {
        let index = index_of(token);
        let known = self.under_way.get(index).is_some_and(|operation| operation.token == token);
        assert!(known, "no operation with {token:?} is under way");
        let operation = self.under_way.remove(index);
        let status = status_for(operation.kind, status);
        self.members[usize::from(operation.member.0)].health.note(operation.kind, status);
        (operation, status)
    }

    /// Records the facts that the end of an operation proves about the changes of its member.
    /// Returns the effective status, and true if changes that were not stable may be lost.
    /// `flushes` is set for a change that the drive may carry out as a change and a flush.
    pub(super) fn judge(&mut self, operation: &InFlight<P>, ended: Status, flushes: bool) -> (Status, bool) {
        let is_flush = operation.kind == OpKind::Flush;
        let begun = self.begun;
        let stability = &mut self.members[usize::from(operation.member.0)].stability;
        let mut status = ended;
        if operation.kind.changes_content() {
            stability.changed(operation.foreground);
        } else if is_flush {
            status = stability.flushed(operation.sequence(), operation.covers, ended);
        }
        let loses = ended == Status::MediaError && (is_flush || flushes);
        if loses {
            stability.flush_failed(begun);
        }
        (status, loses)
    }

    /// Returns the next operation for the driver to start.
    #[inline]
    pub(super) fn next_outgoing(&mut self) -> Option<Operation<P>> {
        self.outgoing.pop_front()
    }

    /// Returns the completion of the next operation that no drive gets.
    #[inline]
    pub(super) fn next_refused(&mut self) -> Option<Completion<P>> {
        self.refused.pop_front()
    }

    /// Returns true if no operation is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns the number of operations begun so far.
    #[inline]
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Continues the numbers of the recovery's operations, so that no token is used twice.
    pub(super) fn begin_after(&mut self, begun: u64) {
        self.begun = begun;
    }

    /// Returns true if a request has begun a change after more than `begun` operations had begun.
    pub(super) fn has_change_since(&self, begun: u64) -> bool {
        self.newest_change > begun
    }

    /// Returns true if a request is changing content on `member`.
    pub(super) fn is_changing(&self, member: MemberId) -> bool {
        self.under_way.iter().any(|(_, operation)| operation.member == member && operation.is_change())
    }

    /// Returns the task of an operation under way.
    pub(super) fn task_of(&self, token: Token) -> Option<TaskId> {
        let operation = self.under_way.get(index_of(token)).filter(|operation| operation.token == token);
        operation.map(|operation| operation.task)
    }

    #[inline]
    pub(super) fn stability(&self, member: MemberId) -> Stability {
        self.members[usize::from(member.0)].stability
    }

    pub(super) fn stability_mut(&mut self, member: MemberId) -> &mut Stability {
        &mut self.members[usize::from(member.0)].stability
    }

    pub(super) fn health(&self, member: MemberId) -> Health {
        self.members[usize::from(member.0)].health
    }

    /// Forgets the failures of a member that was replaced.
    pub(super) fn forget_failures(&mut self, member: MemberId) {
        self.members[usize::from(member.0)].health = Health::default();
    }
}

fn index_of(token: Token) -> usize {
    (token.0 & ((1 << OPERATION_INDEX_BITS) - 1)) as usize
}

/// Numbers by which a task tells its operations apart.
pub(crate) mod purpose {
    /// First bit of the purposes of operations that serve no request.
    pub(crate) const BACKGROUND: u32 = 1 << 31;
    /// A write to home.
    pub(crate) const HOME: u32 = 1 << 30;
    /// A read of the former slot of a block, whose content is merged.
    pub(crate) const MERGE_SLOT: u32 = 1 << 29;
    /// A read of home, to complete an eighth that is written in part.
    pub(crate) const MERGE_HOME: u32 = 1 << 28;
    /// Mask of the bits that hold the number of a piece or of a part of a request.
    pub(crate) const INDEX: u32 = MERGE_HOME - 1;
    /// For a move: the position in its batch of the first block that an operation carries.
    pub(crate) const MOVED_FIRST: u32 = (1 << MOVED_COUNT_SHIFT) - 1;
    /// For a move: from this bit on, the number of blocks that an operation carries, at most 255.
    pub(crate) const MOVED_COUNT_SHIFT: u32 = 20;
}

/// Returns the effective status of an operation. A request cannot name a part of an operation, so a
/// short operation has failed. A drive that does not support a read or a write counts as a drive
/// that failed the operation.
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
    use crate::units::SectorRange;

    const NOW: Nanoseconds = Nanoseconds::ZERO;

    fn order(kind: OpKind, purpose: u32) -> Order {
        let command = Command { kind, range: SectorRange::new(0, 8), fua: false };
        Order { task: 0, purpose, member: MemberId(0), command }
    }

    /// Begins an operation for a request, and returns its token.
    fn begin(operations: &mut Operations<NoPayload>, kind: OpKind) -> Token {
        operations.begin(NOW, MemberState::Online, order(kind, 0), NoPayload);
        operations.next_outgoing().expect("the drive is online").token
    }

    /// Regression: a drive reported the write of a superblock as unsupported, and the checkpoint
    /// took the superblock for written.
    #[test]
    fn unsupported_write_is_a_failed_write() {
        let ends = |kind, status| {
            let mut operations = Operations::new(1);
            let token = begin(&mut operations, kind);
            operations.end(token, status).1
        };
        assert_eq!(ends(OpKind::Write, Status::Unsupported), Status::MediaError);
        assert_eq!(ends(OpKind::Read, Status::Unsupported), Status::MediaError);
        assert_eq!(ends(OpKind::Discard, Status::Unsupported), Status::Unsupported);
        assert_eq!(ends(OpKind::Read, Status::Short(4)), Status::MediaError);
    }

    #[test]
    fn read_only_member_gets_reads_and_no_changes() {
        let mut operations = Operations::new(1);
        let mut refused = |kind, state| {
            operations.begin(NOW, state, order(kind, 0), NoPayload);
            let status = operations.next_refused().map(|completion| completion.status);
            assert_eq!(operations.next_outgoing().is_some(), status.is_none(), "{kind:?}");
            status
        };
        assert_eq!(refused(OpKind::Read, MemberState::ReadOnly), None);
        assert_eq!(refused(OpKind::Flush, MemberState::ReadOnly), None);
        assert_eq!(refused(OpKind::Write, MemberState::ReadOnly), Some(Status::MediaError));
        assert_eq!(refused(OpKind::Read, MemberState::Failed), Some(Status::Gone));
        assert_eq!(refused(OpKind::Flush, MemberState::Failed), Some(Status::Gone));
    }

    /// The second flush began before the first flush failed, so the success of the second flush
    /// proves nothing. The change still waits for a flush.
    #[test]
    fn flush_beside_a_failed_flush_counts_as_failed() {
        let mut operations = Operations::new(1);
        let change = begin(&mut operations, OpKind::Write);
        let (change, status) = operations.end(change, Status::Done);
        assert_eq!(operations.judge(&change, status, false), (Status::Done, false));
        let flushes = [0; 3].map(|_| begin(&mut operations, OpKind::Flush));
        let mut flushed = |token, status| {
            let (flush, status) = operations.end(token, status);
            let judged = operations.judge(&flush, status, false);
            (judged, operations.stability(MemberId(0)).wants_flush())
        };
        assert_eq!(flushed(flushes[0], Status::MediaError), ((Status::MediaError, true), true));
        assert_eq!(flushed(flushes[1], Status::Done), ((Status::MediaError, false), true), "no new failure");
        let later = begin(&mut operations, OpKind::Flush);
        let (flush, status) = operations.end(later, Status::Done);
        assert_eq!(operations.judge(&flush, status, false), (Status::Done, false));
        assert!(!operations.stability(MemberId(0)).wants_flush());
    }

    #[test]
    fn failed_forced_change_is_a_failed_flush() {
        let mut operations = Operations::new(1);
        for (flushes, since) in [(false, false), (true, true)] {
            let token = begin(&mut operations, OpKind::Write);
            let (change, status) = operations.end(token, Status::MediaError);
            assert_eq!(operations.judge(&change, status, flushes), (Status::MediaError, flushes));
            assert_eq!(operations.stability(MemberId(0)).has_failed_since(0), since);
        }
    }

    #[test]
    fn only_requests_count_as_changes_of_requests() {
        let mut operations = Operations::new(2);
        operations.begin(NOW, MemberState::Online, order(OpKind::Write, purpose::BACKGROUND), NoPayload);
        assert!(!operations.has_change_since(0) && !operations.is_changing(MemberId(0)));
        let token = begin(&mut operations, OpKind::Discard);
        assert!(operations.has_change_since(1) && !operations.has_change_since(2));
        assert!(operations.is_changing(MemberId(0)) && !operations.is_changing(MemberId(1)));
        assert_eq!(operations.task_of(token), Some(0));
    }

    #[test]
    #[should_panic(expected = "is under way")]
    fn completion_of_an_ended_operation_panics() {
        let mut operations = Operations::new(1);
        let token = begin(&mut operations, OpKind::Read);
        operations.end(token, Status::Done);
        begin(&mut operations, OpKind::Read);
        operations.end(token, Status::Done);
    }
}
