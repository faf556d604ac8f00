//! Operations that drives hold back, in the run of a case.
//!
//! A drive holds one operation back for up to seconds, and answers all others meanwhile. So a move,
//! a scrub or a migration begins and ends while the operation is under way. Until the drive answers
//! the operation, requests arrive for its block: partial writes, zeroes, discards, reads and
//! flushes. In cases with decay the block's slots rot or become unreadable meanwhile.

use bimetal_core::block::Block;
use bimetal_core::block_map::Slot;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Operation};
use bimetal_core::units::{Nanoseconds, SectorRange};

use super::Tester;
use crate::case::Arrival;
use crate::payload::{Sector, Tags};
use crate::random::Random;
use crate::regions::{Region, region_of};

/// Mean number of operations until a drive holds one back, while no other is held: operations of
/// blocks whose newest content is in a slot alone, and other operations.
const OPERATIONS: [u64; 2] = [2, 30];
/// Times for which an operation is held back.
const TIMES: [Nanoseconds; 4] = [
    Nanoseconds::from_millis(1),
    Nanoseconds::from_millis(100),
    Nanoseconds::from_seconds(2),
    Nanoseconds::from_seconds(30),
];
/// Largest number of requests that arrive while an operation is held back.
const REQUESTS_MAX: u64 = 8;
const KINDS: [OpKind; 5] = [OpKind::Write, OpKind::Read, OpKind::WriteZeroes, OpKind::Flush, OpKind::Discard];
const WEIGHTS: [u64; KINDS.len()] = [10, 10, 5, 4, 1];

/// The operations that are held back, all of one block, and the requests for that block.
pub(super) struct Holds {
    /// Number of requests of the case that may still arrive for blocks of held operations.
    left: u64,
    /// Value of [`left`](Self::left) at which the volume begins a drain.
    drains_at: Option<u64>,
    /// Block of the held operations, or of the last held operation.
    block: Block,
    /// Time at which the drives have answered all held operations.
    until: Nanoseconds,
    /// Time of the next request.
    next: Nanoseconds,
    /// Mean time between requests.
    gap: Nanoseconds,
}

impl Holds {
    pub(super) fn new(random: &mut Random) -> Self {
        let left = random.between(10, 200);
        let drains_at = random.one_in(3).then(|| random.below(left));
        let zero = Nanoseconds::ZERO;
        Self { left, drains_at, block: Block(0), until: zero, next: zero, gap: zero }
    }

    /// Returns the time of the next request for the block of the held operations.
    fn next_at(&self) -> Option<Nanoseconds> {
        (self.left > 0 && self.next < self.until).then_some(self.next)
    }

    /// Forgets the held operations.
    pub(super) fn forget(&mut self) {
        self.until = self.next;
    }
}

impl Tester {
    /// Returns the time of the next request; `None` after the last.
    pub(super) fn next_arrival_at(&self) -> Option<Nanoseconds> {
        let aimed = self.holds.as_ref().and_then(Holds::next_at);
        [aimed, self.workload.next_at()].into_iter().flatten().min()
    }

    /// Returns the next request: one for the block of the held operations, if such a request comes
    /// first.
    pub(super) fn next_arrival(&mut self) -> Arrival {
        let aimed = self.holds.as_ref().and_then(Holds::next_at);
        match aimed.filter(|&at| self.workload.next_at().is_none_or(|other| at <= other)) {
            Some(_) => self.aimed(),
            None => self.workload.next(&mut self.random),
        }
    }

    /// Holds an operation back that has just started: one in [`OPERATIONS`], or, while others are
    /// held, every second operation of their block.
    pub(super) fn hold(&mut self, member: u16, block: Option<Block>) {
        let Some(holds) = &mut self.holds else { return };
        let is_first = self.now >= holds.until;
        let is_dirty = |block| self.volume.view().map.pieces(block).iter().any(|(_, entry)| entry.dirty);
        let operations = OPERATIONS[usize::from(!block.is_some_and(is_dirty))];
        if holds.left == 0
            || !is_first && block != Some(holds.block)
            || !self.random.one_in(if is_first { operations } else { 2 })
        {
            return;
        }
        let scale = self.random.pick(&TIMES);
        let until = self.drives[usize::from(member)].delay_last(self.random.around(scale));
        if is_first {
            holds.block = block.unwrap_or(holds.block);
            holds.gap = Nanoseconds((until - self.now).0 / self.random.between(1, REQUESTS_MAX));
            holds.next = self.now + self.random.around(holds.gap);
            holds.until = until;
        } else {
            holds.until = holds.until.max(until);
        }
        let block = holds.block;
        self.report.held += 1;
        self.tell(|| format!("  member {member} holds the operation until {until}; requests for {block:?}"));
    }

    /// Returns a request for the block of the held operation.
    fn aimed(&mut self) -> Arrival {
        let size = self.volume.view().block();
        let random = &mut self.random;
        let holds = self.holds.as_mut().expect("a case with held operations");
        let block = holds.block;
        holds.left -= 1;
        holds.next += random.around(holds.gap);
        let drains = holds.drains_at == Some(holds.left);
        let kind = KINDS[random.weighted(&WEIGHTS)];
        let fua = random.one_in(6) && matches!(kind, OpKind::Write | OpKind::WriteZeroes);
        let grain = random.pick(&[1, size.eighth_sectors(), size.sectors()]);
        let grains = size.sectors() / grain;
        let first = random.below(grains);
        let most = if random.one_in(8) { 2 * grains } else { grains - first };
        let len = random.between(1, most) * grain;
        let range = SectorRange::new(size.first_sector(block) + first * grain, len);
        if self.faults.decay > 0 && self.random.one_in(3) {
            self.decay_slot_of(block);
        }
        if drains {
            self.tell(|| "drains".to_owned());
            self.volume.drain(self.now, false);
        }
        self.workload.request(kind, range, fua)
    }

    /// Lets a slot of `block` rot or become unreadable.
    fn decay_slot_of(&mut self, block: Block) {
        let slots: Vec<Slot> = self.volume.view().map.pieces(block).iter().map(|&(slot, _)| slot).collect();
        if !slots.is_empty() {
            let slot = self.random.pick(&slots);
            self.decay_slot(slot);
        }
    }

    /// Returns the block of an operation, if its range or its payload tells.
    pub(super) fn block_of(&self, operation: &Operation<Tags>) -> Option<Block> {
        let view = self.volume.view();
        let size = view.block();
        let Operation { target, command, ref payload, .. } = *operation;
        let drive = &self.drives[usize::from(target)];
        match region_of(&view.layout, MemberId(target), drive.capacity(), command.range)? {
            Region::Home(flat) => Some(size.block_of(flat)),
            Region::Slots(_) if command.kind == OpKind::Write => payload.runs().find_map(|(first, _)| match *first {
                Sector::Data { sector, .. } => Some(size.block_of(u64::from(sector))),
                _ => None,
            }),
            Region::Slots(into) => {
                let slot = Slot((into / size.sectors()) as u32);
                view.map.in_slot(slot).map(|entry| entry.block)
            }
            Region::Metadata | Region::Tail => None,
        }
    }
}
