//! The fault atlas: the injected faults, within fair bounds, and the errors that they explain.
//!
//! An error without a fault behind it is a failure of the engine. The kinds of fault explain
//! different errors:
//! - A passing fault (an operation that fails once) explains errors of the requests that it could
//!   touch. Such requests were in flight at the time of the fault, or waited for a move that the
//!   fault hit.
//! - A lasting fault explains errors of its block until the case ends. Examples are an unreadable
//!   sector with the only copy, and a dirty block on a member that is gone.
//! - Content rots only in slots, where a checksum detects it. At home no checksum could detect rot,
//!   so content at home does not rot.
//! - Loss of a clean copy explains nothing, because home has the data too. The exception is a power
//!   cut that takes back the record that home has the data.
//!
//! Data may also be damaged at rest on sound drives ([`damage`](crate::damage)). In a damage case,
//! only requests of blocks that the damage may have cost may fail, and no member may be marked
//! failed. If several pages of metadata are damaged, any request may fail.
//!
//! A member that refuses writes may be the only fault of a case. In such a case no read may fail,
//! and no change may fail except a change of data with its home on that member.

use std::collections::BTreeSet;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::scheme::{MemberState, View};
use bimetal_core::units::SectorRange;

use crate::shadow::{Moment, Request};

/// Number of failed operations of a member before the engine may mark it failed.
const FAULTS_BEFORE_GIVING_UP: u64 = 3;

/// See the [module](self).
pub struct Atlas {
    /// Blocks whose only copy of some data may be lost.
    suspects: BTreeSet<u64>,
    last_fault: Moment,
    /// Moment at which the newest move began, and moment at which a move was last under way.
    move_began: Moment,
    moved: Option<Moment>,
    was_moving: bool,
    failed: Vec<bool>,
    faults: Vec<u64>,
    /// Set for each member once a flush of the member failed. The data that a failed flush lost are
    /// unknown, so one failed flush justifies marking the member failed.
    unflushed: Vec<bool>,
    /// Moment of a drive's failed flush. The next flush of the volume may report this failure.
    /// `must_tell` is the moment of the last acknowledgement of data whose possible loss a flush
    /// must report.
    may_tell: Option<Moment>,
    must_tell: Option<Moment>,
    /// Member that is detached on request.
    let_go: Option<MemberId>,
    /// Member that refuses writes, if nothing else fails in the case.
    refuses_alone: Option<MemberId>,
    /// Set per member once the engine marked it read-only.
    read_only: Vec<bool>,
    /// Extent of the damage at rest. If damage is set, drives are sound, and only the damage
    /// explains errors.
    damaged: Option<Damaged>,
    /// Set while a member is gone with content that home lacks: the volume refuses changes.
    newest_is_gone: bool,
    /// Blocks whose only copy is on a member that is gone.
    missing: BTreeSet<u64>,
}

/// Extent of the damage at rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damaged {
    /// At most one page of metadata, and slots, are damaged.
    OnePage,
    /// Several pages of metadata are damaged.
    Pages,
}

impl Atlas {
    /// Creates an atlas without faults for `members` members.
    pub fn new(members: usize, refuses_alone: Option<MemberId>) -> Self {
        Self {
            refuses_alone,
            damaged: None,
            read_only: vec![false; members],
            suspects: BTreeSet::new(),
            last_fault: 0,
            move_began: 0,
            moved: None,
            was_moving: false,
            failed: vec![false; members],
            faults: vec![0; members],
            unflushed: vec![false; members],
            may_tell: None,
            must_tell: None,
            let_go: None,
            newest_is_gone: false,
            missing: BTreeSet::new(),
        }
    }

    /// Returns the number of failed operations.
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Returns true if nothing fails but writes to one member.
    pub fn is_only_of_refusals(&self) -> bool {
        self.refuses_alone.is_some()
    }

    /// Returns the number of members that the engine marked read-only.
    pub fn read_only(&self) -> u64 {
        self.read_only.iter().map(|&seen| u64::from(seen)).sum()
    }

    /// Records damage at rest on sound drives.
    pub fn damage(&mut self, damaged: Damaged) {
        self.damaged = Some(damaged);
    }

    /// Records a request to detach `member`.
    pub fn let_go(&mut self, member: MemberId) {
        self.let_go = Some(member);
    }

    /// Returns true if the engine marked `member` failed.
    pub fn has_given_up(&self, member: MemberId) -> bool {
        self.failed[usize::from(member.0)]
    }

    /// Records that a home that was gone is back.
    pub fn comes_back(&mut self, member: MemberId) {
        self.failed[usize::from(member.0)] = false;
    }

    /// Follows a recovery. A copy of a mirror may be in use again after a power cut, if the mark
    /// that the copy failed was not durable before the cut. If the copy is in use again, no write
    /// was acknowledged that the copy lacks. The same holds for a member with slots that is back.
    pub fn follow_recovery(&mut self, view: &View) {
        let slots = view.layout.slots.map(|slots| slots.member);
        for member in view.layout.copies().chain(slots) {
            if view.member(member).state != MemberState::Failed {
                self.failed[usize::from(member.0)] = false;
            }
        }
        self.newest_is_gone = false;
        self.missing.clear();
    }

    /// Records a failed operation on `member`.
    pub fn note_fault(&mut self, member: u16, now: Moment) {
        self.faults[usize::from(member)] += 1;
        self.last_fault = now;
    }

    /// Returns true if enough operations of `member` failed for the engine to mark it failed.
    fn may_be_given_up(&self, member: usize) -> bool {
        if let Some(damaged) = self.damaged {
            return damaged == Damaged::Pages;
        }
        self.unflushed[member] || self.faults[member] >= FAULTS_BEFORE_GIVING_UP
    }

    /// Records a failed forced change of a drive, which may have included a flush.
    pub fn note_failed_force(&mut self, now: Moment) {
        self.may_tell = Some(now);
    }

    /// Records a failed flush of `member`. If the failed flush may have cost data that only a home
    /// has, `at_risk` is the moment at which that data was last acknowledged. A later flush of the
    /// volume must then report the error.
    pub fn note_failed_flush(&mut self, member: usize, now: Moment, at_risk: Option<Moment>) {
        self.unflushed[member] = true;
        self.may_tell = Some(now);
        self.must_tell = self.must_tell.max(at_risk);
    }

    /// Forgets unreported flush errors, because the power was cut.
    pub fn forget_flushes(&mut self) {
        (self.may_tell, self.must_tell) = (None, None);
    }

    /// Records the end of a flush of the volume.
    ///
    /// # Errors
    /// Returns an error if the flush should have reported the failed flush of a drive.
    pub fn note_flush(&mut self, request: &Request, done: bool) -> Result<(), String> {
        // An earlier flush may report a different error.
        let covers = |since: &Moment| *since < request.began;
        match (done, self.must_tell.filter(covers)) {
            (true, Some(_)) => return Err("a home could not be flushed, and no flush said so".into()),
            (true, None) => self.may_tell = self.may_tell.filter(|since| !covers(since)),
            (false, Some(_)) => self.must_tell = None,
            (false, None) => {}
        }
        Ok(())
    }

    /// Records that the only copy of some data of `block` may be lost.
    pub fn suspect(&mut self, block: Block) {
        self.suspects.insert(block.0);
    }

    /// Updates the atlas by the state of the volume in `view`. `newest_is_gone` is set if the
    /// volume says that a member is gone with content that home lacks. `writing` are the changes in
    /// flight.
    ///
    /// # Errors
    /// Returns an error if a member was marked failed or read-only without a fault as the reason.
    pub fn follow<'a>(
        &mut self,
        view: &View,
        now: Moment,
        gone: impl Fn(usize) -> bool,
        newest_is_gone: bool,
        writing: impl Iterator<Item = (u32, &'a Request)>,
    ) -> Result<(), String> {
        if view.moving && !self.was_moving {
            self.move_began = now;
        }
        if view.moving || self.was_moving {
            self.moved = Some(now);
        }
        self.was_moving = view.moving;
        for (member, _) in view.members.iter().enumerate().filter(|(_, load)| load.state == MemberState::ReadOnly) {
            if !self.may_be_given_up(member) {
                return Err(format!("member {member} is not written after {} failed operations", self.faults[member]));
            }
            self.read_only[member] = true;
        }
        let slots = view.layout.slots.map(|slots| slots.member);
        let is_gone = slots.is_some_and(|slots| view.member(slots).state == MemberState::Failed);
        if is_gone && view.map.dirty_blocks() > 0 && !newest_is_gone {
            return Err("changes go on although a member is gone with the newest content".into());
        }
        let newly = |member: &usize| view.members[*member].state == MemberState::Failed && !self.failed[*member];
        let Some(member) = (0..view.members.len()).find(newly) else { return Ok(()) };
        let let_go = self.let_go == Some(MemberId(member as u16));
        if !gone(member) && !let_go && !self.may_be_given_up(member) {
            return Err(format!("member {member} was given up after {} failed operations", self.faults[member]));
        }
        let needed = view.layout.is_mirrored() || view.map.dirty_blocks() > 0;
        if self.is_only_of_refusals() && !gone(member) && needed && !self.is_spare(view, member) {
            return Err(format!("member {member} was given up while it was needed and could be read"));
        }
        self.failed[member] = true;
        self.last_fault = now;
        let has_slots = slots == Some(MemberId(member as u16));
        self.newest_is_gone |= has_slots && newest_is_gone;
        if has_slots {
            let dirty = view.map.occupied().filter(|(_, entry)| entry.dirty);
            self.missing.extend(dirty.map(|(_, entry)| entry.block.0));
            for (_, request) in writing.filter(|(_, request)| request.kind.changes_content()) {
                self.missing.extend(view.block().touched(request.range).blocks().map(|block| block.0));
            }
        }
        Ok(())
    }

    /// Returns true if another member has all data of `member`.
    fn is_spare(&self, view: &View, member: usize) -> bool {
        let there = |copy: &MemberId| view.member(*copy).state != MemberState::Failed;
        view.layout.copies().any(|copy| usize::from(copy.0) != member && there(&copy))
    }

    /// Returns true if the refusal of writes, as the only fault, explains that `request` failed.
    fn refusal_explains(view: &View, request: &Request, member: MemberId) -> bool {
        request.kind != OpKind::Read && view.layout.homes().contains(&member)
    }

    /// Returns true if a fault explains that `request` ended with `status`.
    pub fn explains(&self, view: &View, request: &Request, status: Status, no_discard: bool) -> bool {
        if status == Status::Unsupported {
            return no_discard && request.kind == OpKind::Discard;
        }
        let possible = matches!(status, Status::MediaError | Status::Gone);
        if let Some(damaged) = self.damaged {
            return possible && (damaged == Damaged::Pages || self.is_suspect(view, request.range));
        }
        if let Some(member) = self.refuses_alone {
            return possible && Self::refusal_explains(view, request, member);
        }
        // A read-only home fails all changes. A block that cannot be read delays the evacuation of
        // its member.
        let read_only = |member: &MemberId| view.member(*member).state == MemberState::ReadOnly;
        let held_up = view.layout.slots.is_some_and(|slots| read_only(&slots.member)) && !self.suspects.is_empty();
        if request.kind != OpKind::Read && (held_up || view.layout.homes().iter().any(read_only)) {
            return possible;
        }
        if request.kind != OpKind::Read && self.newest_is_gone {
            return possible;
        }
        if (request.kind == OpKind::Flush || request.fua) && self.may_tell.is_some() {
            return possible;
        }
        if request.kind == OpKind::Flush && self.failed.iter().any(|failed| *failed) {
            return possible;
        }
        // A move that the fault hit is under way, or was so while the request waited.
        let hit_a_move = self.last_fault >= self.move_began && self.moved.is_some_and(|moved| moved >= request.began);
        let passing = self.last_fault >= request.began || hit_a_move;
        possible && (passing || self.is_suspect(view, request.range))
    }

    /// Returns true if a part of `range` may be lost, or has its home on a member that is gone.
    pub fn is_suspect(&self, view: &View, range: SectorRange) -> bool {
        let blocks = view.block().touched(range);
        let is_among = |set: &BTreeSet<u64>| set.range(blocks.first.0..blocks.end()).next().is_some();
        if is_among(&self.suspects) || is_among(&self.missing) {
            return true;
        }
        if !self.failed.contains(&true) {
            return false;
        }
        if view.layout.is_mirrored() {
            return !self.failed.contains(&false);
        }
        let on_failed = |member: MemberId| self.failed[usize::from(member.0)];
        let extents = view.layout.extents();
        extents.into_iter().any(|extent| on_failed(extent.member) && extent.blocks.overlaps(blocks))
    }
}
