//! The content of a block that is written to a slot: the sectors of the request, and the sectors
//! that the block had before.

use super::{SlotWrite, WriteJob, old_slot};
use crate::block::{Block, BlockSize, ValidMask};
use crate::block_map::BlockMap;
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};

impl<P: Payload> SlotWrite<P> {
    /// Returns the content of the whole block: the written sectors, the merged sectors, and zeroes
    /// for eighths that are not valid.
    pub(super) fn assemble(&self, size: BlockSize, request: SectorRange, payload: &P) -> P {
        let first = size.first_sector(self.block);
        let part = size.clip(request, self.block);
        if part.len.0 == size.sectors() {
            return payload.slice(Sectors(part.start.0 - request.start.0), part.len);
        }
        let mut whole = self.kept(size, 0, part.start.0 - first);
        whole.join(payload.slice(Sectors(part.start.0 - request.start.0), part.len));
        whole.join(self.kept(size, part.end().0 - first, size.sectors()));
        whole
    }

    /// Returns sectors `from..to` of the block as they were before the write.
    fn kept(&self, size: BlockSize, from: u64, to: u64) -> P {
        let mut content = P::empty();
        let mut at = from;
        while at < to {
            let eighth = at / size.eighth_sectors();
            let end = ((eighth + 1) * size.eighth_sectors()).min(to);
            let bit = ValidMask(1 << eighth);
            let old = self.from_slots.iter().flatten().find(|old| old.taken.contains(bit));
            let source = if let Some(old) = old {
                old.content.as_ref()
            } else if self.from_home.contains(bit) {
                self.home_content.as_ref()
            } else {
                None
            };
            let len = Sectors(end - at);
            content.join(source.map_or_else(|| P::zeroes(len), |source| source.slice(Sectors(at), len)));
            at = end;
        }
        content
    }
}

impl<P: Payload> WriteJob<P> {
    /// Takes over that home has got the content of the old slot of a read since the part was
    /// planned: a move has brought the content home. A scrub may have dropped the copy that was
    /// left, and then the block map no longer has the slot. `lost` returns the eighths of a block
    /// that no member has.
    pub(in crate::volume) fn note_moves(
        &mut self,
        purpose: u32,
        map: &BlockMap,
        lost: impl FnOnce(Block) -> ValidMask,
    ) {
        let Some((piece, old)) = old_slot(purpose) else { return };
        let Some(SlotWrite { block, from_slots, .. }) = self.pieces.get_mut(piece) else { return };
        let Some(old) = &mut from_slots[old] else { return };
        old.entry.dirty = match map.pieces(*block).iter().find(|(slot, _)| *slot == old.slot) {
            Some((_, now)) => now.dirty,
            None => !lost(*block).intersection(old.taken).is_empty(),
        };
    }
}
