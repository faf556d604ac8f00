//! Promotion: blocks that a read fetched from home get a clean copy in a slot, from the payload in
//! memory.
//!
//! A promotion is announced when the read is planned, and begins when the read is done. A request
//! that changes the blocks in between cancels the promotion, because the copy would be old.

use super::operations::purpose;
use super::{Job, TaskId, Volume};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::operation::{Command, OpKind, Status};
use crate::payload::Payload;
use crate::scheme::{MemberState, Reason};
use crate::units::{SectorRange, Sectors};

pub(crate) struct PromoteJob<P> {
    copies: Vec<Copy<P>>,
}

struct Copy<P> {
    block: Block,
    slot: Slot,
    valid: ValidMask,
    content: Option<P>,
    written: bool,
}

impl<P> PromoteJob<P> {
    /// Records the end of the write that began with copy `purpose`, for all copies that this write
    /// has written.
    pub(super) fn note(&mut self, purpose: u32, status: Status) {
        let first = (purpose & purpose::INDEX) as usize;
        let mut at = first;
        while at < self.copies.len() && self.copies[at].slot.0 == self.copies[first].slot.0 + (at - first) as u32 {
            self.copies[at].written = status == Status::Done;
            at += 1;
        }
    }
}

impl<P: Payload> Volume<P> {
    /// Begins the promotions that the read `task` of `sectors` announced, if the read succeeded.
    pub(super) fn begin_promotions_of(&mut self, task: TaskId, sectors: SectorRange, done: bool, payload: &P) {
        while let Some((blocks, cancelled)) = self.requests.promotions.take(task) {
            if done && !cancelled {
                self.begin_promotion(blocks, sectors, payload);
            }
        }
    }

    fn begin_promotion(&mut self, blocks: BlockRun, sectors: SectorRange, payload: &P) {
        let mut copies = Vec::with_capacity(blocks.count as usize);
        let mut next = blocks.first.0;
        while next < blocks.end() {
            let rest = blocks.end() - next;
            let Some((slot, count)) = self.take_cache_slots(rest) else {
                self.statistics.bypassed(Reason::NO_SPACE, rest);
                break;
            };
            for at in 0..count {
                let copy = self.copy_of(Block(next + at), Slot(slot.0 + at as u32), sectors, payload);
                copies.push(copy);
            }
            next += count;
        }
        copies.retain(|copy| {
            if copy.valid.is_empty() {
                self.give_back_unused(copy.slot);
            }
            !copy.valid.is_empty()
        });
        if copies.is_empty() {
            return;
        }
        let task = self.begin_task(Job::Running);
        self.requests.promotions.announce(task, blocks);
        let mut job = PromoteJob { copies };
        self.write_copies(task, &mut job);
        self.put_job(task, Job::Promote(job));
    }

    /// Takes adjacent cache slots if slots are free and their drive is online.
    pub(super) fn take_cache_slots(&mut self, count_max: u64) -> Option<(Slot, u64)> {
        let online = self.view.slots_online();
        let (cache, _) = self.store.cache_mut().filter(|_| online)?;
        let taken = cache.space.take(count_max);
        self.view.free_slots = cache.space.free();
        taken
    }

    fn copy_of(&self, block: Block, slot: Slot, sectors: SectorRange, payload: &P) -> Copy<P> {
        let size = self.view.layout.block;
        let part = size.clip(sectors, block);
        let (_, valid) = size.masks(part);
        let content = P::CARRIES_DATA.then(|| {
            let before = part.start.0 - size.first_sector(block);
            let mut whole = P::zeroes(Sectors(before));
            whole.join(payload.slice(Sectors(part.start.0 - sectors.start.0), part.len));
            whole.join(P::zeroes(Sectors(size.sectors() - before - part.len.0)));
            whole
        });
        Copy { block, slot, valid, content, written: false }
    }

    /// Issues one write for each run of adjacent slots.
    fn write_copies(&mut self, task: TaskId, job: &mut PromoteJob<P>) {
        let mut first = 0;
        while first < job.copies.len() {
            let mut end = first + 1;
            while end < job.copies.len() && job.copies[end].slot.0 == job.copies[first].slot.0 + (end - first) as u32 {
                end += 1;
            }
            let mut payload = P::empty();
            for copy in &job.copies[first..end] {
                if let Some(content) = &copy.content {
                    payload.join(content.slice(Sectors::ZERO, content.sectors()));
                }
            }
            let range = self.slot_sectors(job.copies[first].slot, (end - first) as u64);
            let command = Command { kind: OpKind::Write, range, fua: false };
            self.issue(task, purpose::BACKGROUND | first as u32, self.member_of_slots(), command, payload);
            first = end;
        }
    }

    pub(super) fn end_promotion(&mut self, task: TaskId, job: PromoteJob<P>) {
        let (_, cancelled) = self.requests.promotions.take(task).expect("a promotion is announced while it runs");
        let online = self.view.member(self.member_of_slots()).state == MemberState::Online;
        for copy in job.copies {
            let wanted = copy.written && !cancelled && online && self.view.map.get(copy.block).is_none();
            if wanted {
                let checksum = copy.content.as_ref().map_or(0, P::checksum);
                self.map_block(copy.slot, Entry { block: copy.block, valid: copy.valid, dirty: false, checksum });
                self.statistics.promoted_blocks += 1;
            } else {
                self.give_back_unused(copy.slot);
            }
        }
        self.end_task(task);
    }
}
