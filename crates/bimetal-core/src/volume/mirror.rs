//! Copies: in a mirror every block is at home on each member. A change of a block goes to every
//! member that is present. A read goes to the member that the scheme chooses, and to another member
//! if the first read fails.
//!
//! A member that misses a change must not be read any more: it is taken out, and nothing is
//! acknowledged before the other members have recorded that the member is out. Before the first
//! change the members also record that the members may differ; a recovery that finds this record
//! makes the members equal.

use super::operations::{Again, InFlight, METADATA_TRIES, purpose};
use super::{TaskId, Volume};
use crate::block::BlockRun;
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::MemberState;
use crate::units::SectorRange;

impl<P: Payload> Volume<P> {
    pub(super) fn copies_there(&self) -> impl Iterator<Item = MemberId> {
        self.view.layout.copies().filter(|&copy| self.view.member(copy).state != MemberState::Failed)
    }

    /// Returns true if another member has the content of `member`.
    pub(super) fn has_other_copy(&self, member: MemberId) -> bool {
        self.copies_there().any(|copy| copy != member)
    }

    /// Returns true if there is a copy besides the members in `asked`, a bit each.
    pub(super) fn has_copy_besides(&self, asked: u64) -> bool {
        self.copies_there().any(|copy| asked & 1 << copy.0 == 0)
    }

    /// Returns the member that serves a read in a mirror: a member that was not asked yet.
    pub(super) fn copy_to_read(&mut self, sectors: SectorRange, asked: u64) -> Option<MemberId> {
        if !self.view.layout.is_mirrored() {
            return None;
        }
        let copies: Vec<MemberId> = self.copies_there().filter(|copy| asked & 1 << copy.0 == 0).collect();
        let chosen = match copies.as_slice() {
            [] => return None,
            [only] => *only,
            [first, ..] => match self.decider.scheme.copies() {
                Some(scheme) => scheme.choose_copy(&self.view, sectors, &copies),
                None => *first,
            },
        };
        let blocks = self.view.layout.block.touched(sectors).count;
        self.statistics.read_blocks_by_member[usize::from(chosen.0)] += blocks;
        Some(chosen)
    }

    /// Counts blocks written to every copy. Blocks read are counted where they are read.
    pub(super) fn count_by_copy(&mut self, blocks: BlockRun, written: bool) {
        let online: Vec<MemberId> = self.copies_there().filter(|_| written).collect();
        for copy in online {
            self.statistics.written_blocks_by_member[usize::from(copy.0)] += blocks.count;
        }
    }

    /// Starts a change of home on `member`, or on all members with a copy.
    pub(super) fn change_home(&mut self, task: TaskId, member: MemberId, command: Command, payload: P) {
        let copies: Vec<MemberId> = self.copies_there().collect();
        if copies.is_empty() {
            self.issue(task, purpose::HOME, member, command, payload);
            return;
        }
        for copy in copies {
            let payload = payload.slice(crate::units::Sectors::ZERO, payload.sectors());
            let again = Again { command, payload, tries_left: METADATA_TRIES };
            self.issue_again(task, purpose::HOME, copy, again);
        }
    }

    /// Returns the effective status of an operation. A change or flush that failed on one copy is
    /// done if another copy remains. The failed copy counts as old from the failure on, and is
    /// taken out.
    pub(super) fn status_with_copies(&mut self, operation: &InFlight<P>, status: Status) -> Status {
        let failed = matches!(status, Status::MediaError | Status::Gone);
        let changes = operation.purpose & purpose::HOME != 0 || operation.kind == OpKind::Flush;
        if !failed || !changes || !self.has_other_copy(operation.member) {
            return status;
        }
        self.fail_member(operation.member);
        Status::Done
    }

    /// Returns the effective status of an operation. A copy that was taken out while it was read
    /// may have dropped content that another copy has, so what the read returned does not count.
    pub(super) fn status_of_old_copy(&self, operation: &InFlight<P>, status: Status) -> Status {
        let is_old = operation.kind == OpKind::Read
            && self.view.layout.is_mirrored()
            && self.view.member(operation.member).state == MemberState::Failed;
        if is_old { Status::Gone } else { status }
    }

    /// Returns true if an answer must wait until the state durably records which copies are old, or
    /// which member was taken out. Otherwise the slots of that member could count again after a
    /// crash, and home may be newer.
    pub(super) fn must_tell_who_is_out(&self) -> bool {
        (self.view.layout.is_mirrored() || self.announcements.are_untold()) && self.must_await_state()
    }

    /// Returns true if requests must wait: a member was taken out, and the other members have not
    /// yet recorded that it is out. After a crash the member could count again, and reads would
    /// change.
    pub(super) fn is_telling_who_is_out(&self) -> bool {
        self.must_await_state() && self.announcements.are_untold()
    }

    /// Returns the status of the answer to a change or a flush: an error if a recovery would find
    /// older content, because no home could record whose content is old. `promises` is set if the
    /// answer promises that content is stable. While the newest content is gone, no record of a
    /// change reaches the member that would need it, so no answer promises anything.
    pub(super) fn status_if_told(&self, status: Status, promises: bool) -> Status {
        let is_old = self.announcements.lack_what_is_old() && (promises || self.view.layout.is_mirrored());
        let is_broken = P::CARRIES_DATA && (is_old || promises && self.newest_is_gone());
        if is_broken && status == Status::Done { Status::MediaError } else { status }
    }

    /// Records that all copies are equal: nothing is under way, and everything was flushed.
    pub(super) fn announce_equal(&mut self) {
        if P::CARRIES_DATA {
            self.announce(|state| state.dirty = false);
        }
    }
}
