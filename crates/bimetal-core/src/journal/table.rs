//! The slot table: 16 bytes for each slot, 256 slots a page, little-endian.
//!
//! A slot's place holds the block (8 bytes; all ones: the slot is free), the CRC32C of its content (4), the valid eighths (1), the
//! state (1: clean, 2: dirty) and two bytes of zero. The table has no checksum of its own: a slot that a torn page
//! describes wrongly is found by the CRC32C of its content.

use super::SLOTS_PER_TABLE_PAGE;
use super::record::PAGE_BYTES;
use crate::block::{Block, ValidMask};
use crate::block_map::Entry;

const PLACE_BYTES: usize = PAGE_BYTES / SLOTS_PER_TABLE_PAGE as usize;
const FREE: u64 = u64::MAX;

/// A page from the entries of its slots.
pub fn encode_page(entries: impl Iterator<Item = Option<Entry>>) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    for (place, entry) in page.chunks_exact_mut(PLACE_BYTES).zip(entries) {
        place[..8].copy_from_slice(&entry.map_or(FREE, |entry| entry.block.0).to_le_bytes());
        if let Some(entry) = entry {
            place[8..12].copy_from_slice(&entry.checksum.to_le_bytes());
            place[12] = entry.valid.0;
            place[13] = if entry.dirty { 2 } else { 1 };
        }
    }
    page
}

/// The entries of a page's slots; a place that cannot be is taken as free.
pub fn decode_page(page: &[u8; PAGE_BYTES]) -> impl Iterator<Item = Option<Entry>> {
    page.chunks_exact(PLACE_BYTES).map(|place| {
        let mut block = [0; 8];
        block.copy_from_slice(&place[..8]);
        let block = u64::from_le_bytes(block);
        let sound = block != FREE && place[12] != 0 && matches!(place[13], 1 | 2);
        sound.then(|| Entry {
            block: Block(block),
            checksum: u32::from_le_bytes([place[8], place[9], place[10], place[11]]),
            valid: ValidMask(place[12]),
            dirty: place[13] == 2,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_page_reads_back(places in proptest::collection::vec(
            proptest::option::of((0..1u64 << 40, any::<u32>(), 1u8.., any::<bool>())), 256)) {
            let entries: Vec<Option<Entry>> = places.into_iter().map(|place| place.map(|(block, checksum, valid, dirty)| Entry {
                block: Block(block), checksum, valid: ValidMask(valid), dirty })).collect();
            let page = encode_page(entries.iter().copied());
            prop_assert_eq!(decode_page(&page).collect::<Vec<_>>(), entries);
        }
    }
}
