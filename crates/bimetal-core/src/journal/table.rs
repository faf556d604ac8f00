//! The slot table: pages of 253 entries of 16 bytes, each page written twice.
//!
//! A page records the superblock that completes it (its generation) and its previous generation. An
//! entry holds the block, the CRC32C of the slot's content, the valid eighths, the state and a
//! check of its own. So if both copies of a page are damaged, its undamaged entries can still be
//! recognised.
//!
//! The superblock has the [`Digest`] of all generations. Recovery takes the newer of two copies of
//! each page, and the digest proves that every page is the newest. So recovery notices a page of
//! which both copies are lost, or of an earlier generation. A page that was never written needs no
//! proof of its own.

use super::SLOTS_PER_TABLE_PAGE;
use super::format::{EntryBytes, TablePage, view, view_mut};
use super::page::{self, Page, PageError};
use crate::block::{Block, ValidMask};
use crate::block_map::Entry;
use zerocopy::{FromZeros, IntoBytes};

/// Entries in a page.
pub const ENTRIES_PER_PAGE: usize = SLOTS_PER_TABLE_PAGE as usize;
const CHECK_AT: usize = core::mem::offset_of!(EntryBytes, check);
const MAGIC: u32 = 0x6274_4942; // "BItb"
const FREE: u8 = 0;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;

/// An invalid entry: the medium damaged it, so the block of its slot is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotten;

/// The header of a page of the slot table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableHeader {
    /// The volume's identity.
    pub volume: u64,
    /// The page's place in the slot table.
    pub index: u32,
    /// Generation of the page: the superblock that completes it, and its writer ([`generation`]).
    pub generation: u64,
    /// Previous generation of the page; 0: the page was never written.
    pub previous: u64,
}

impl TableHeader {
    /// Returns the generation that counts with the superblock `sequence`. A page with the
    /// generation of the next superblock comes from a checkpoint that was cut short.
    pub fn completed(&self, sequence: u64) -> u64 {
        if self.is_unfinished(sequence) { self.previous } else { self.generation }
    }

    /// Returns true if the page comes from a checkpoint that no superblock has completed, as of the
    /// superblock `sequence`.
    pub fn is_unfinished(&self, sequence: u64) -> bool {
        self.generation > generation(sequence, Writer::Recovery)
    }
}

/// The writer of a page of the slot table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A volume that serves.
    Checkpoint,
    /// A recovery. A page that a recovery writes may differ from the page of a checkpoint that was
    /// cut short before the same superblock.
    Recovery,
}

/// Returns the generation of pages that the superblock `sequence` completes.
pub fn generation(sequence: u64, writer: Writer) -> u64 {
    2 * sequence + u64::from(writer == Writer::Recovery)
}

/// A digest of the generations of all pages, in any order. A page that was never written, of
/// generation 0, does not change the digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest(pub u64);

impl Digest {
    /// Adds the page `index` of `generation`, or removes it again.
    pub fn toggle(&mut self, index: u32, generation: u64) {
        if generation == 0 {
            return;
        }
        // The finalizer of SplitMix64: distinct inputs have distinct, well mixed outputs.
        let mut mixed = generation.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(index).rotate_left(40);
        for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            mixed = (mixed ^ mixed >> 30).wrapping_mul(multiplier);
        }
        self.0 ^= mixed ^ mixed >> 31;
    }
}

/// Returns a page with the entries of its slots.
pub fn encode_page(header: TableHeader, entries: impl Iterator<Item = Option<Entry>>) -> Page {
    let mut bytes = page::begin(MAGIC, header.volume);
    let page: &mut TablePage = view_mut(&mut bytes);
    page.head.count = (ENTRIES_PER_PAGE as u16).into();
    page.head.number = header.generation.into();
    page.head.life = header.index.into();
    page.previous = header.previous.into();
    for (place, entry) in page.entries.iter_mut().zip(entries) {
        if let Some(entry) = entry {
            *place = EntryBytes::new_zeroed();
            (place.block, place.checksum) = (entry.block.0.into(), entry.checksum.into());
            (place.eighths, place.state) = (entry.valid.0, if entry.dirty { DIRTY } else { CLEAN });
            place.check = check(place).into();
        }
    }
    page::seal(&mut bytes);
    bytes
}

fn check(place: &EntryBytes) -> u16 {
    crc32c::crc32c(&place.as_bytes()[..CHECK_AT]) as u16
}

/// Returns the header of a page.
///
/// # Errors
/// The page is not a page of a slot table, is torn, or of another version.
pub fn decode_header(bytes: &Page) -> Result<TableHeader, PageError> {
    page::check(MAGIC, bytes)?;
    Ok(header_of_damaged(bytes))
}

/// Returns the header of a page that belongs in place `index` of the slot table of `volume`.
pub(crate) fn header_at(page: &Page, volume: u64, index: u32) -> Option<TableHeader> {
    let header = decode_header(page).ok()?;
    (header.volume == volume && header.index == index && header.generation > 0).then_some(header)
}

/// Returns the header of a damaged page: its values are unproven.
pub fn header_of_damaged(bytes: &Page) -> TableHeader {
    let page: &TablePage = view(bytes);
    TableHeader {
        volume: page.head.volume.get(),
        index: page.head.life.get(),
        generation: page.head.number.get(),
        previous: page.previous.get(),
    }
}

/// Returns the entries of a page's slots, as far as each is sound; the page may be damaged.
pub fn decode_entries(bytes: &Page) -> impl Iterator<Item = Result<Option<Entry>, Rotten>> {
    let page: &TablePage = view(bytes);
    page.entries.iter().map(|place| {
        if place.state == FREE && place.as_bytes().iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !matches!(place.state, CLEAN | DIRTY) || place.eighths == 0 || place.check.get() != check(place) {
            return Err(Rotten);
        }
        Ok(Some(Entry {
            block: Block(place.block.get()),
            checksum: place.checksum.get(),
            valid: ValidMask(place.eighths),
            dirty: place.state == DIRTY,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::page::PAGE_BYTES;
    use proptest::prelude::*;

    const HEADER: TableHeader = TableHeader { volume: 7, index: 3, generation: 9, previous: 4 };

    fn any_entries() -> impl Strategy<Value = Vec<Option<Entry>>> {
        let entry = (0..1u64 << 40, any::<u32>(), 1u8.., any::<bool>());
        proptest::collection::vec(proptest::option::of(entry), ENTRIES_PER_PAGE).prop_map(|places| {
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
        fn table_page_reads_back(entries in any_entries()) {
            let page = encode_page(HEADER, entries.iter().copied());
            prop_assert_eq!(decode_header(&page), Ok(HEADER));
            prop_assert_eq!(decode_entries(&page).collect::<Result<Vec<_>, _>>(), Ok(entries));
        }

        #[test]
        fn flipped_bit_spoils_page_and_one_entry(entries in any_entries(), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode_page(HEADER, entries.iter().copied());
            page[at] ^= 1 << bit;
            prop_assert!(decode_header(&page).is_err());
            let first = core::mem::offset_of!(TablePage, entries);
            let hit = at.checked_sub(first).map(|into| into / 16).filter(|&entry| entry < ENTRIES_PER_PAGE);
            for (number, (found, entry)) in decode_entries(&page).zip(entries).enumerate() {
                prop_assert_eq!(found, if hit == Some(number) { Err(Rotten) } else { Ok(entry) });
            }
        }

        #[test]
        fn digest_tells_any_page_that_is_not_newest(generations in proptest::collection::vec(0u64..9, 1..40), at: prop::sample::Index, other in 0u64..9) {
            let digest = |generations: &[u64]| {
                let mut digest = Digest::default();
                (0..).zip(generations).for_each(|(index, &generation)| digest.toggle(index, generation));
                digest
            };
            let mut wrong = generations.clone();
            wrong[at.index(generations.len())] = other;
            prop_assert_eq!(digest(&wrong) == digest(&generations), wrong == generations);
        }
    }

    #[test]
    fn page_of_unfinished_checkpoint_counts_as_before() {
        for writer in [Writer::Checkpoint, Writer::Recovery] {
            let header = TableHeader { generation: generation(9, writer), ..HEADER };
            assert_eq!(header.completed(9), header.generation);
            assert_eq!(header.completed(8), 4);
        }
    }

    /// A power cut ended a checkpoint early. The recovery wrote the same page for the same
    /// superblock, with other entries, and the checkpoint's page came back later. Regression: the
    /// digests of the two pages were equal.
    #[test]
    fn page_of_recovery_differs_from_that_of_unfinished_checkpoint() {
        let [checkpoint, recovery] = [Writer::Checkpoint, Writer::Recovery].map(|writer| {
            let mut digest = Digest::default();
            digest.toggle(3, generation(9, writer));
            (generation(9, writer), digest)
        });
        assert!(checkpoint.0 < recovery.0 && checkpoint.1 != recovery.1);
    }
}
