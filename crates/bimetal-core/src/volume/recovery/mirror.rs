//! Recovery of a mirror. Members that were taken out stay out. If the remaining members may differ,
//! they are made equal before anything is read. A sector that one member cannot read is copied from
//! another member. A sector that no member can read stays an error. A read-only member is read as
//! well, and is taken out in the end, unless no other member is left.

use super::{Answer, Recovery, RecoveryError, Step};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::units::SectorRange;

/// Sectors that are copied at once: 1 MiB.
const COPY_SECTORS: u64 = 2048;

/// Progress of making the members equal.
pub(super) struct MirrorRecovery {
    /// Ranges still to be copied, the next at the end.
    left: Vec<SectorRange>,
    phase: Phase,
    /// Copies that refuse writes and so lack a range that another copy supplied, a bit each.
    apart: u64,
    /// Set if a copy failed the write of a range: its content there is unknown.
    is_torn: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A range being read, and the members that could not read it, a bit each.
    Reading(SectorRange, u64),
    Writing,
    Flushing,
}

impl<P: Payload> Recovery<P> {
    /// Returns true if another member that is present has the same content as `member`.
    pub(super) fn can_spare(&self, member: MemberId) -> bool {
        self.copies_left().any(|copy| copy != member)
    }

    fn copies_left(&self) -> impl Iterator<Item = MemberId> {
        self.layout().copies().filter(|&copy| !self.is_out(copy))
    }

    fn writable_copies(&self) -> impl Iterator<Item = MemberId> {
        self.copies_left().filter(|copy| self.refusing & 1 << copy.0 == 0)
    }

    /// Goes on without a copy that is gone, or without the writes of a copy that failed one. Before
    /// the states are known, the recovery fails instead: the copy may be the only one that records
    /// which copies are old. While the members are made equal, a copy that failed a write still
    /// counts as a source: no other copy may be able to record that it was left out, and it would
    /// count again after the next start, with other content than was read meanwhile.
    pub(super) fn go_on_without(&mut self, failed: MemberId, status: Status) {
        if matches!(self.step, Step::Flushing | Step::States) {
            return self.fail(|member, role| RecoveryError::Failed { member, role }, failed);
        }
        match &mut self.step {
            Step::Mirror(mirror) if status != Status::Gone => {
                mirror.is_torn |= mirror.phase == Phase::Writing;
                self.refusing |= 1 << failed.0;
            }
            _ => self.absent |= 1 << failed.0,
        }
        if !self.in_flight.is_empty() {
            return;
        }
        match self.step {
            Step::Mirror(_) => self.mirror_on(),
            _ => self.next_step(),
        }
    }

    /// Begins to make the members equal, once every state was read.
    pub(super) fn begin_mirror(&mut self) {
        self.absent |= self.state.failed;
        if self.copies_left().next().is_none() {
            return self.fail(|member, role| RecoveryError::HomeMissing { member, role }, MemberId(0));
        }
        let all = self.layout().home_on(MemberId(0));
        self.total = all.len.bytes();
        let left = if self.state.dirty { vec![all] } else { Vec::new() };
        self.step = Step::Mirror(MirrorRecovery { left, phase: Phase::Writing, apart: 0, is_torn: false });
        self.mirror_on();
    }

    fn mirror(&mut self) -> &mut MirrorRecovery {
        let Step::Mirror(mirror) = &mut self.step else { unreachable!("a mirror is being recovered") };
        mirror
    }

    /// Takes the next step, when nothing is under way.
    fn mirror_on(&mut self) {
        let alone = self.copies_left().nth(1).is_none() || self.writable_copies().next().is_none();
        match self.mirror().phase {
            Phase::Flushing => self.end_mirror(),
            _ if alone => self.end_mirror(),
            Phase::Reading(range, unreadable) => self.read_copy(range, unreadable),
            Phase::Writing => match self.mirror().left.pop() {
                Some(range) => {
                    let first = SectorRange::new(range.start.0, range.len.0.min(COPY_SECTORS));
                    if range.len > first.len {
                        let rest = SectorRange::new(first.end().0, range.len.0 - first.len.0);
                        self.mirror().left.push(rest);
                    }
                    self.read_copy(first, 0);
                }
                None => {
                    self.mirror().phase = Phase::Flushing;
                    let copies: Vec<MemberId> = self.writable_copies().collect();
                    copies.into_iter().for_each(|copy| self.ask(copy, Command::FLUSH, P::empty(), 0));
                }
            },
        }
    }

    fn read_copy(&mut self, range: SectorRange, unreadable: u64) {
        let source = self.copies_left().find(|copy| unreadable & 1 << copy.0 == 0);
        match source {
            Some(source) => {
                self.mirror().phase = Phase::Reading(range, unreadable);
                self.read(source, range, 0);
            }
            None => {
                // No member can read all of the range: perhaps each can read a part.
                if range.len.0 > 1 {
                    let half = range.len.0 / 2;
                    let parts = [(range.start.0, half), (range.start.0 + half, range.len.0 - half)];
                    self.mirror().left.extend(parts.map(|(start, len)| SectorRange::new(start, len)));
                }
                self.mirror().phase = Phase::Writing;
                self.mirror_on();
            }
        }
    }

    pub(super) fn mirror_takes(&mut self, answer: Answer<P>) {
        match (self.mirror().phase, answer.payload) {
            (Phase::Reading(range, _), Some(payload)) => {
                self.mirror().phase = Phase::Writing;
                // Reads may return this content from now on, even if its source is taken out next.
                let command = Command { kind: OpKind::Write, range, fua: true };
                let targets: Vec<MemberId> = self.writable_copies().filter(|&copy| copy != answer.member).collect();
                let refusing = self.refusing;
                self.mirror().apart |= refusing & !(1 << answer.member.0);
                for target in targets {
                    let payload = payload.slice(crate::units::Sectors::ZERO, payload.sectors());
                    self.ask(target, command, payload, 0);
                }
            }
            (Phase::Reading(range, unreadable), None) => self.read_copy(range, unreadable | 1 << answer.member.0),
            _ => {}
        }
        if self.in_flight.is_empty() && self.outcome.is_none() {
            self.mirror_on();
        }
    }

    /// Takes out the copies that cannot follow the next change. If no copy can follow it, none can
    /// record what another lacks. Then one copy stays, from which the next recovery would take the
    /// same content: the first that lacks no range.
    fn end_mirror(&mut self) {
        let MirrorRecovery { apart, is_torn, .. } = *self.mirror();
        let is_whole = |copy: &MemberId| !is_torn && apart & 1 << copy.0 == 0;
        let kept: Vec<MemberId> = match self.writable_copies().next() {
            Some(_) => self.writable_copies().collect(),
            None => self.copies_left().filter(is_whole).take(1).collect(),
        };
        if kept.is_empty() {
            let failed = self.copies_left().next().unwrap_or(MemberId(0));
            return self.fail(|member, role| RecoveryError::Failed { member, role }, failed);
        }
        let out: Vec<MemberId> = self.copies_left().filter(|copy| !kept.contains(copy)).collect();
        out.into_iter().for_each(|copy| self.absent |= 1 << copy.0);
        self.succeed();
    }
}
