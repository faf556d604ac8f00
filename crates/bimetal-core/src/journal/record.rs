//! Records and pages as they lie on a drive: little-endian, versioned, a CRC32C over every page.
//!
//! A page is 4 KiB: a header of 32 bytes and up to 169 records of 24 bytes. A record names a block, what became of it and,
//! where it is off home, its slot, the eighths that are valid and their CRC32C: a record whose data never reached the
//! drive is recognised, so one device flush covers both.

use crate::block::{Block, ValidMask};
use crate::block_map::Slot;

/// A change of the block map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// `block` has its newest copy in `slot`.
    Map {
        /// Which block.
        block: Block,
        /// Where.
        slot: Slot,
        /// Which eighths the slot holds.
        valid: ValidMask,
        /// Whether home is older.
        dirty: bool,
        /// CRC32C of the valid eighths.
        checksum: u32,
    },
    /// The `count` blocks from `first` on are only at their home.
    Home {
        /// The first block.
        first: Block,
        /// How many.
        count: u64,
    },
    /// Home copies in this region may differ from slots that claim to be clean.
    Intent {
        /// The region's number.
        region: u32,
    },
}

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
const HEADER_BYTES: usize = 32;
/// Records in a full page.
pub const RECORDS_PER_PAGE: usize = (PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;

const MAGIC: u32 = 0x6a6d_4942; // "BImj"
const VERSION: u16 = 1;
const CHECKSUM_AT: usize = 28;

const KIND_MAP_CLEAN: u8 = 1;
const KIND_MAP_DIRTY: u8 = 2;
const KIND_HOME: u8 = 3;
const KIND_INTENT: u8 = 4;

/// Why a page is not one of ours, or is torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The page does not begin as a journal page does: never written, or something else.
    #[error("not a journal page")]
    NotAPage,
    /// The page was written by a later version.
    #[error("journal page of version {0}; this program reads version 1")]
    Version(u16),
    /// The page's checksum does not match: torn or damaged.
    #[error("journal page with a wrong checksum")]
    Checksum,
    /// A record that cannot be.
    #[error("journal record {0} is of no known kind")]
    Record(u16),
}

/// Encodes up to [`RECORDS_PER_PAGE`] records as the page with number `sequence` of the volume `volume`.
pub fn encode_page(volume: u64, sequence: u64, records: &[Record]) -> [u8; PAGE_BYTES] {
    assert!(records.len() <= RECORDS_PER_PAGE, "{} records do not fit in a page", records.len());
    let mut page = [0; PAGE_BYTES];
    page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    page[4..6].copy_from_slice(&VERSION.to_le_bytes());
    page[6..8].copy_from_slice(&(records.len() as u16).to_le_bytes());
    page[8..16].copy_from_slice(&volume.to_le_bytes());
    page[16..24].copy_from_slice(&sequence.to_le_bytes());
    for (place, record) in page[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES).zip(records) {
        place.copy_from_slice(&encode(record));
    }
    let checksum = page_checksum(&page);
    page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    page
}

fn page_checksum(page: &[u8; PAGE_BYTES]) -> u32 {
    let before = crc32c::crc32c(&page[..CHECKSUM_AT]);
    crc32c::crc32c_append(before, &page[HEADER_BYTES..])
}

/// The volume, the sequence number and the records of a page.
pub fn decode_page(page: &[u8; PAGE_BYTES]) -> Result<(u64, u64, Vec<Record>), PageError> {
    if u32_at(page, 0) != MAGIC {
        return Err(PageError::NotAPage);
    }
    if u32_at(page, CHECKSUM_AT) != page_checksum(page) {
        return Err(PageError::Checksum);
    }
    let version = u16::from_le_bytes([page[4], page[5]]);
    if version != VERSION {
        return Err(PageError::Version(version));
    }
    let count = u16::from_le_bytes([page[6], page[7]]);
    let places = page[HEADER_BYTES..].chunks_exact(RECORD_BYTES).take(usize::from(count));
    let records = places.enumerate().map(|(at, bytes)| decode(bytes).ok_or(PageError::Record(at as u16)));
    Ok((u64_at(page, 8), u64_at(page, 16), records.collect::<Result<_, _>>()?))
}

fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let (kind, valid, small, second, block) = match *record {
        Record::Map { block, slot, valid, dirty, checksum } => {
            let kind = if dirty { KIND_MAP_DIRTY } else { KIND_MAP_CLEAN };
            (kind, valid.0, slot.0, checksum, block.0)
        }
        // A run of blocks has no slot and no checksum: its count takes their place.
        Record::Home { first, count } => (KIND_HOME, 0, (count >> 32) as u32, count as u32, first.0),
        Record::Intent { region } => (KIND_INTENT, 0, region, 0, 0),
    };
    let mut bytes = [0; RECORD_BYTES];
    bytes[0] = kind;
    bytes[1] = valid;
    bytes[4..8].copy_from_slice(&small.to_le_bytes());
    bytes[8..12].copy_from_slice(&second.to_le_bytes());
    bytes[16..24].copy_from_slice(&block.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Record> {
    let (small, second, block) = (u32_at(bytes, 4), u32_at(bytes, 8), Block(u64_at(bytes, 16)));
    let map = |dirty| Record::Map { block, slot: Slot(small), valid: ValidMask(bytes[1]), dirty, checksum: second };
    match bytes[0] {
        KIND_MAP_CLEAN | KIND_MAP_DIRTY if bytes[1] != 0 => Some(map(bytes[0] == KIND_MAP_DIRTY)),
        KIND_HOME => Some(Record::Home { first: block, count: u64::from(small) << 32 | u64::from(second) }),
        KIND_INTENT => Some(Record::Intent { region: small }),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any::<u64>(), any::<u32>(), 1u8.., any::<bool>(), any::<u32>()).prop_map(
                |(block, slot, valid, dirty, checksum)| Record::Map {
                    block: Block(block),
                    slot: Slot(slot),
                    valid: ValidMask(valid),
                    dirty,
                    checksum
                }
            ),
            (any::<u64>(), any::<u64>()).prop_map(|(first, count)| Record::Home { first: Block(first), count }),
            any::<u32>().prop_map(|region| Record::Intent { region }),
        ]
    }

    proptest! {
        #[test]
        fn a_page_reads_back(volume: u64, sequence: u64, records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE)) {
            let page = encode_page(volume, sequence, &records);
            prop_assert_eq!(decode_page(&page), Ok((volume, sequence, records)));
        }

        #[test]
        fn any_flipped_bit_is_noticed(records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode_page(1, 2, &records);
            page[at] ^= 1 << bit;
            prop_assert!(decode_page(&page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let mut page = [0; PAGE_BYTES];
            page.copy_from_slice(&bytes);
            let _ = decode_page(&page);
            page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
            let checksum = page_checksum(&page);
            page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
            let _ = decode_page(&page);
        }
    }
}
