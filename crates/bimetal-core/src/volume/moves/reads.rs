//! Reads of a move: the slots of a batch, in the order in which they lie on the drive.

use super::{GAP_BLOCKS_MAX, MoveJob, OPERATION_BLOCKS, Transfer};
use crate::block::ValidMask;
use crate::block_map::Slot;
use crate::payload::Payload;
use crate::units::Sectors;
use crate::volume::Volume;

impl<P: Payload> Volume<P> {
    /// Plans one read for each run of adjacent slots, in order. On a disk a run may have small
    /// gaps. Content in memory needs no read.
    pub(super) fn plan_reads(&mut self, job: &mut MoveJob<P>) {
        let gap_max = if self.store.appends() && self.slots_are_on_disk() { GAP_BLOCKS_MAX } else { 0 };
        let mut transfers: Vec<Transfer> = Vec::new();
        // Slot after the last read; `None` if the slot after the last read was in memory.
        let mut behind = None;
        for (position, &at) in job.order.iter().enumerate() {
            let slot = job.batch[at as usize].slot;
            if let Some(content) = self.in_memory_to_move(slot) {
                job.batch[at as usize].content = content;
                behind = None;
                continue;
            }
            let place = job.batch[at as usize].place;
            let gap = behind.and_then(|behind| place.0.checked_sub(behind)).filter(|gap| *gap <= gap_max);
            behind = Some(place.0 + 1);
            let read = self.slot_read(place, position as u32);
            match (gap, transfers.last_mut()) {
                (Some(gap), Some(last)) if last.blocks(self) + u64::from(gap) < OPERATION_BLOCKS => {
                    last.range.len = read.range.end() - last.range.start;
                    last.count += 1;
                }
                _ => transfers.push(read),
            }
        }
        job.todo = transfers.into();
    }

    /// Returns the content of `slot` if it is in the log's memory. Without data the content is
    /// `None`.
    fn in_memory_to_move(&self, slot: Slot) -> Option<Option<P>> {
        let piece = self.store.kind().in_memory(slot)?;
        let whole = Sectors(self.view.layout.block.sectors());
        Some(P::CARRIES_DATA.then(|| piece.content.slice(Sectors::ZERO, whole)))
    }

    /// Returns the read of `slot` alone, which is at `position` in the order of the batch.
    pub(super) fn slot_read(&self, slot: Slot, position: u32) -> Transfer {
        let (member, range) = (self.member_of_slots(), self.slot_sectors(slot, 1));
        Transfer { member, range, first: position, count: 1, valid: ValidMask::ALL }
    }
}
