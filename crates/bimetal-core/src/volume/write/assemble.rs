//! The content of a block that is written to a slot: the sectors of the request, and the sectors
//! that the block had before.

use super::{OldSlot, SlotWrite, WriteJob, access_masks, old_slot};
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
    /// that no member has. Home has older content of a lost eighth, which must complete no eighth
    /// that is written in part.
    pub(in crate::volume) fn note_moves(
        &mut self,
        size: BlockSize,
        purpose: u32,
        map: &BlockMap,
        lost: impl FnOnce(Block) -> ValidMask,
    ) {
        let sectors = self.sectors;
        let Some((piece, old)) = old_slot(purpose) else { return };
        let Some(SlotWrite { block, from_slots, .. }) = self.pieces.get_mut(piece) else { return };
        let Some(OldSlot { slot, entry, taken, .. }) = &mut from_slots[old] else { return };
        match map.pieces(*block).iter().find(|(other, _)| other == slot) {
            Some((_, now)) => entry.dirty = now.dirty,
            None => {
                let (touched, _) = access_masks(size, sectors, *block);
                entry.dirty &= !lost(*block).intersection(taken.intersection(touched)).is_empty();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OLD_SLOTS_MAX, Phase, purpose_of_old_slot};
    use super::*;
    use crate::block_map::{Entry, Slot};
    use crate::operation::{Status, Token};
    use crate::payload::NoPayload;
    use crate::units::Bytes;

    /// Returns a write of eighth 5 of block 0 in part, which merges with all eighths of a slot.
    fn write(was_dirty: bool) -> WriteJob<NoPayload> {
        let entry = Entry { block: Block(0), valid: ValidMask::ALL, dirty: was_dirty, checksum: 0 };
        let mut from_slots = [const { None }; OLD_SLOTS_MAX];
        from_slots[0] = Some(OldSlot { slot: Slot(3), entry, taken: ValidMask::ALL, content: None });
        let piece = SlotWrite {
            block: Block(0),
            slot: Some(Slot(4)),
            in_place: false,
            both: false,
            valid: ValidMask::ALL,
            from_slots,
            from_home: ValidMask::NONE,
            was_dirty,
            home_content: None,
            content: None,
            home_wanted: false,
        };
        WriteJob {
            token: Token(1),
            sectors: SectorRange::new(81, 2),
            fua: false,
            payload: NoPayload::empty(),
            next: 1,
            phase: Phase::Merging,
            homes: Vec::new(),
            pieces: vec![piece],
            appended: 0,
            home_status: Status::Done,
            is_sent_home: false,
            slot_status: Status::Done,
            retries: 0,
            changed_map: true,
        }
    }

    /// A slot that is gone has no newer content than home, unless home lacks an eighth that the
    /// write needs. A clean slot never had newer content.
    #[test]
    fn slot_that_is_gone_is_missed_only_for_a_lost_eighth() {
        let size = BlockSize::new(Bytes::from_kib(64)).expect("a size of blocks");
        let map = BlockMap::new(8);
        let is_missed = |was_dirty, lost: u8| {
            let mut job = write(was_dirty);
            job.note_moves(size, purpose_of_old_slot(0, 0), &map, |_| ValidMask(lost));
            job.pieces[0].from_slots[0].as_ref().expect("the old slot").entry.dirty
        };
        assert!(!is_missed(true, 0), "home has all of it");
        assert!(is_missed(true, 1 << 5), "eighth 5 is lost");
        assert!(!is_missed(true, 1), "eighth 0 is lost, and the write leaves it alone");
        assert!(!is_missed(false, 1 << 5), "the slot was a copy");
    }
}
