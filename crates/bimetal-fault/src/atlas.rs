//! The fault atlas: which faults are fair, and which errors they explain.
//!
//! An error without a fault behind it is a failure of the engine. A fault that passes (an operation that fails once) explains
//! errors of the requests it could touch: those under way at the time, or that waited for a move it hit. One that stays
//! explains errors of its block for as long as the case runs: an unreadable place that held the only copy, or a dirty block on
//! a member that is gone. Content rots only in slots, where a checksum tells; at home nothing could. What a clean copy
//! loses explains nothing: home has it too, unless a power cut takes back the record that says so.
//!
//! Where drives are sound and what lies on them was damaged at rest ([`damage`](crate::damage)),
//! only requests of blocks that the damage may have cost may fail, and no member may be given up;
//! where several pages of metadata are damaged, any.
//!
//! Where a member that refuses writes is the only fault there is, no read may fail, and no change but of what has its home there.

use std::collections::BTreeSet;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Status};
use bimetal_core::scheme::{MemberState, View};
use bimetal_core::units::SectorRange;

use crate::shadow::{Moment, Request};

/// So many operations of a member must have failed before the engine may give it up.
const FAULTS_BEFORE_GIVING_UP: u64 = 3;

/// See the [module](self).
pub struct Atlas {
    /// Blocks of which something only one place had may be lost.
    suspects: BTreeSet<u64>,
    last_fault: Moment,
    /// When the newest move began.
    move_began: Moment,
    was_moving: bool,
    failed: Vec<bool>,
    faults: Vec<u64>,
    /// Members of which a flush failed: nobody knows what that has cost, so one is enough to give them up.
    unflushed: Vec<bool>,
    /// When a flush of a drive failed, so that one of the volume may; and when the last was answered of what one must tell of.
    may_tell: Option<Moment>,
    must_tell: Option<Moment>,
    /// The member that is let go because somebody asked for it.
    let_go: Option<MemberId>,
    /// The member that refuses writes, where nothing else fails.
    refuses_alone: Option<MemberId>,
    /// How many members were seen to refuse writes.
    read_only: Vec<bool>,
    /// Drives are sound, and only damage at rest explains anything.
    damaged: Option<Damaged>,
}

/// How much was damaged at rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damaged {
    /// At most one page of metadata, and slots.
    OnePage,
    /// Several pages of metadata.
    Pages,
}

impl Atlas {
    /// No faults yet on `members` members.
    pub fn new(members: usize, refuses_alone: Option<MemberId>) -> Self {
        Self {
            refuses_alone,
            damaged: None,
            read_only: vec![false; members],
            suspects: BTreeSet::new(),
            last_fault: 0,
            move_began: 0,
            was_moving: false,
            failed: vec![false; members],
            faults: vec![0; members],
            unflushed: vec![false; members],
            may_tell: None,
            must_tell: None,
            let_go: None,
        }
    }

    /// How many operations failed.
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Whether nothing fails but writes to one member.
    pub fn is_only_of_refusals(&self) -> bool {
        self.refuses_alone.is_some()
    }

    /// How many members the engine took for ones that refuse writes.
    pub fn read_only(&self) -> u64 {
        self.read_only.iter().map(|&seen| u64::from(seen)).sum()
    }

    /// Drives are sound, and so much was damaged at rest.
    pub fn damage(&mut self, damaged: Damaged) {
        self.damaged = Some(damaged);
    }

    /// Somebody asks the engine to let `member` go.
    pub fn let_go(&mut self, member: MemberId) {
        self.let_go = Some(member);
    }

    /// Whether the engine gave `member` up.
    pub fn has_given_up(&self, member: MemberId) -> bool {
        self.failed[usize::from(member.0)]
    }

    /// An operation on `member` failed.
    pub fn note_fault(&mut self, member: u16, now: Moment) {
        self.faults[usize::from(member)] += 1;
        self.last_fault = now;
    }

    /// Whether enough failed on `member` for the engine to give it up.
    fn may_be_given_up(&self, member: usize) -> bool {
        if let Some(damaged) = self.damaged {
            return damaged == Damaged::Pages;
        }
        self.unflushed[member] || self.faults[member] >= FAULTS_BEFORE_GIVING_UP
    }

    /// A forced change of a drive failed, which may have been a flush, too.
    pub fn note_failed_force(&mut self, now: Moment) {
        self.may_tell = Some(now);
    }

    /// A flush of `member` failed. Where that may have cost what only a home has, of which the last was answered at `at_risk`, a
    /// flush of the volume that came later must say so.
    pub fn note_failed_flush(&mut self, member: usize, now: Moment, at_risk: Option<Moment>) {
        self.unflushed[member] = true;
        self.may_tell = Some(now);
        self.must_tell = self.must_tell.max(at_risk);
    }

    /// The power was cut: there is nothing to tell any more.
    pub fn forget_flushes(&mut self) {
        (self.may_tell, self.must_tell) = (None, None);
    }

    /// A flush of the volume has ended well, or not.
    ///
    /// # Errors
    /// It should have told that a drive's had failed.
    pub fn note_flush(&mut self, request: &Request, done: bool) -> Result<(), String> {
        // One that came before may tell of something else.
        let covers = |since: &Moment| *since < request.began;
        match (done, self.must_tell.filter(covers)) {
            (true, Some(_)) => return Err("a home could not be flushed, and no flush said so".into()),
            (true, None) => self.may_tell = self.may_tell.filter(|since| !covers(since)),
            (false, Some(_)) => self.must_tell = None,
            (false, None) => {}
        }
        Ok(())
    }

    /// What only one place had of `block` may be lost.
    pub fn suspect(&mut self, block: Block) {
        self.suspects.insert(block.0);
    }

    /// Follows what the view shows; `writing` are requests that change content and are under way.
    ///
    /// # Errors
    /// A member was given up without reason.
    pub fn follow<'a>(
        &mut self,
        view: &View,
        now: Moment,
        gone: impl Fn(usize) -> bool,
        writing: impl Iterator<Item = (u32, &'a Request)>,
    ) -> Result<(), String> {
        if view.moving && !self.was_moving {
            self.move_began = now;
        }
        self.was_moving = view.moving;
        for (member, _) in view.members.iter().enumerate().filter(|(_, load)| load.state == MemberState::ReadOnly) {
            if !self.may_be_given_up(member) {
                return Err(format!("member {member} is not written after {} failed operations", self.faults[member]));
            }
            self.read_only[member] = true;
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
        if view.layout.slots.is_some_and(|slots| slots.member == MemberId(member as u16)) {
            let dirty = view.map.occupied().filter(|(_, entry)| entry.dirty);
            self.suspects.extend(dirty.map(|(_, entry)| entry.block.0));
            for (_, request) in writing.filter(|(_, request)| request.kind.changes_content()) {
                self.suspects.extend(view.block().touched(request.range).blocks().map(|block| block.0));
            }
        }
        Ok(())
    }

    /// Whether another member has all that `member` has.
    fn is_spare(&self, view: &View, member: usize) -> bool {
        let there = |copy: &MemberId| view.member(*copy).state != MemberState::Failed;
        view.layout.copies().any(|copy| usize::from(copy.0) != member && there(&copy))
    }

    /// Whether the refusal of writes that is the only fault explains that `request` failed.
    fn refusal_explains(view: &View, request: &Request, member: MemberId) -> bool {
        request.kind != OpKind::Read && view.layout.homes().contains(&member)
    }

    /// Whether a fault explains that `request` ended with `status`.
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
        // A home that is not written any more fails all changes; what cannot be read holds up what must leave with it.
        let read_only = |member: &MemberId| view.member(*member).state == MemberState::ReadOnly;
        let held_up = view.layout.slots.is_some_and(|slots| read_only(&slots.member)) && !self.suspects.is_empty();
        if request.kind != OpKind::Read && (held_up || view.layout.homes().iter().any(read_only)) {
            return possible;
        }
        if (request.kind == OpKind::Flush || request.fua) && self.may_tell.is_some() {
            return possible;
        }
        if request.kind == OpKind::Flush && self.failed.iter().any(|failed| *failed) {
            return possible;
        }
        let passing = self.last_fault >= request.began.min(self.move_began);
        possible && (passing || self.is_suspect(view, request.range))
    }

    /// Whether a part of `range` may be lost, or has its home on a member that is gone.
    pub fn is_suspect(&self, view: &View, range: SectorRange) -> bool {
        let blocks = view.block().touched(range);
        if self.suspects.range(blocks.first.0..blocks.end()).next().is_some() {
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
