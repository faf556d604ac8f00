//! The slot table: 16 bytes for each slot, 256 slots a page, little-endian.
//!
//! A slot's place holds the block (8 bytes), the CRC32C of its content (4), the valid eighths (1), the state (0: free,
//! 1: clean, 2: dirty) and a check (2: the lower half of the CRC32C of the 14 bytes before it). A place lies in one sector,
//! so a torn page has each place old or new. A place of zeroes was never written, and is free.

use super::SLOTS_PER_TABLE_PAGE;
use super::page::{PAGE_BYTES, Page, put, u16_at, u32_at, u64_at};
use crate::block::{Block, ValidMask};
use crate::block_map::Entry;

const PLACE_BYTES: usize = PAGE_BYTES / SLOTS_PER_TABLE_PAGE as usize;
const CHECK_AT: usize = 14;
const FREE: u8 = 0;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;

/// A place that cannot be: the medium lost it, and with it which block its slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotten;

/// A page from the entries of its slots.
pub fn encode_page(entries: impl Iterator<Item = Option<Entry>>) -> Page {
    let mut page = [0; PAGE_BYTES];
    for (place, entry) in page.chunks_exact_mut(PLACE_BYTES).zip(entries) {
        if let Some(entry) = entry {
            put(place, 0, entry.block.0.to_le_bytes());
            put(place, 8, entry.checksum.to_le_bytes());
            put(place, 12, [entry.valid.0, if entry.dirty { DIRTY } else { CLEAN }]);
            let check = check(place);
            put(place, CHECK_AT, check.to_le_bytes());
        }
    }
    page
}

fn check(place: &[u8]) -> u16 {
    crc32c::crc32c(&place[..CHECK_AT]) as u16
}

/// The entries of a page's slots.
pub fn decode_page(page: &Page) -> impl Iterator<Item = Result<Option<Entry>, Rotten>> {
    page.chunks_exact(PLACE_BYTES).map(|place| {
        let state = place[13];
        if state == FREE && place.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !matches!(state, CLEAN | DIRTY) || place[12] == 0 || u16_at(place, CHECK_AT) != check(place) {
            return Err(Rotten);
        }
        Ok(Some(Entry {
            block: Block(u64_at(place, 0)),
            checksum: u32_at(place, 8),
            valid: ValidMask(place[12]),
            dirty: state == DIRTY,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_entries() -> impl Strategy<Value = Vec<Option<Entry>>> {
        let entry = (0..1u64 << 40, any::<u32>(), 1u8.., any::<bool>());
        proptest::collection::vec(proptest::option::of(entry), 256).prop_map(|places| {
            let entry = |(block, checksum, valid, dirty)| Entry {
                block: Block(block),
                checksum,
                valid: ValidMask(valid),
                dirty,
            };
            places.into_iter().map(|place| place.map(entry)).collect()
        })
    }

    proptest! {
        #[test]
        fn a_page_reads_back(entries in any_entries()) {
            let page = encode_page(entries.iter().copied());
            prop_assert_eq!(decode_page(&page).collect::<Result<Vec<_>, _>>(), Ok(entries));
        }

        #[test]
        fn a_flipped_bit_of_a_place_is_noticed(entries in any_entries(), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode_page(entries.iter().copied());
            page[at] ^= 1 << bit;
            prop_assert_eq!(decode_page(&page).nth(at / PLACE_BYTES), Some(Err(Rotten)));
        }
    }

    #[test]
    fn a_page_that_was_never_written_has_free_slots() {
        assert!(decode_page(&[0; PAGE_BYTES]).all(|place| place == Ok(None)));
    }
}
