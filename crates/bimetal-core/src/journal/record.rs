//! Records, and the pages they lie in: pages of a cache's ring, and the page in front of each segment of a log.
//!
//! A page is 4 KiB: a header of 40 bytes and up to 169 records of 24 bytes. A record names a block, what became of it and,
//! where it is off home, its slot, the eighths that are valid and the CRC32C of the slot: a record whose data never reached
//! the drive is recognised, so one device flush covers both.

use super::page::{self, Page, PageError, put, u16_at, u32_at, u64_at};
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
        /// CRC32C of the whole slot.
        checksum: u32,
    },
    /// `block` is only at its home.
    Home {
        /// Which block.
        block: Block,
    },
    /// In a log: what was appended of these blocks before a position is no longer their content; home has it.
    Dropped {
        /// The first block.
        first: Block,
        /// How many, below 2⁴⁰.
        count: u64,
        /// Only what lies before this position of the log, below 2⁵⁶.
        before: u64,
    },
    /// Home copies in this region may differ from slots that claim to be clean.
    Intent {
        /// The region's number.
        region: u32,
    },
    /// The newest content of these eighths of `block` could not be read any more; none: it was written again.
    Lost {
        /// Which block.
        block: Block,
        /// Which eighths.
        eighths: ValidMask,
    },
}

/// What a page says beside its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHeader {
    /// The volume's identity.
    pub volume: u64,
    /// The page's number in the ring, or its position in the log, counted from the beginning of time.
    pub number: u64,
    /// In which of the volume's lives it was written: each recovery begins a new one.
    pub life: u32,
    /// Everything before this page, or position, was stable when it was written: data included.
    pub stable: u64,
}

/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
const HEADER_BYTES: usize = 40;
/// Records in a full page.
pub const RECORDS_PER_PAGE: usize = (page::PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;

const MAGIC: u32 = 0x6a6d_4942; // "BImj"

const KIND_MAP_CLEAN: u8 = 1;
const KIND_MAP_DIRTY: u8 = 2;
const KIND_HOME: u8 = 3;
const KIND_INTENT: u8 = 4;
const KIND_DROPPED: u8 = 5;
const KIND_LOST: u8 = 6;

/// Encodes up to [`RECORDS_PER_PAGE`] records as a page.
pub fn encode_page(header: PageHeader, records: &[Record]) -> Page {
    assert!(records.len() <= RECORDS_PER_PAGE, "{} records do not fit in a page", records.len());
    let mut page = page::begin(MAGIC, header.volume);
    put(&mut page, 6, (records.len() as u16).to_le_bytes());
    put(&mut page, 16, header.number.to_le_bytes());
    put(&mut page, 24, header.life.to_le_bytes());
    put(&mut page, 32, header.stable.to_le_bytes());
    for (place, record) in page[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES).zip(records) {
        place.copy_from_slice(&encode(record));
    }
    page::seal(&mut page);
    page
}

/// The header and the records of a page.
///
/// # Errors
/// The page is not a page of records, is torn, of a later version, or has a record of no known kind.
pub fn decode_page(page: &Page) -> Result<(PageHeader, Vec<Record>), PageError> {
    let volume = page::check(MAGIC, page)?;
    let header = PageHeader { volume, number: u64_at(page, 16), life: u32_at(page, 24), stable: u64_at(page, 32) };
    let places = page[HEADER_BYTES..].chunks_exact(RECORD_BYTES).take(usize::from(u16_at(page, 6)));
    let records = places.enumerate().map(|(at, bytes)| decode(bytes).ok_or(PageError::Record(at as u16)));
    Ok((header, records.collect::<Result<_, _>>()?))
}

fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    match *record {
        Record::Map { block, slot, valid, dirty, checksum } => {
            bytes[0] = if dirty { KIND_MAP_DIRTY } else { KIND_MAP_CLEAN };
            bytes[1] = valid.0;
            put(&mut bytes, 4, slot.0.to_le_bytes());
            put(&mut bytes, 8, checksum.to_le_bytes());
            put(&mut bytes, 16, block.0.to_le_bytes());
        }
        Record::Home { block } => {
            bytes[0] = KIND_HOME;
            put(&mut bytes, 16, block.0.to_le_bytes());
        }
        Record::Intent { region } => {
            bytes[0] = KIND_INTENT;
            put(&mut bytes, 4, region.to_le_bytes());
        }
        Record::Dropped { first, count, before } => {
            // The first block, the count and the position take 40, 40 and 56 bits.
            assert!(first.0 < 1 << 40 && count < 1 << 40 && before < 1 << 56, "{record:?} is out of bounds");
            bytes[0] = KIND_DROPPED;
            bytes[1..6].copy_from_slice(&count.to_le_bytes()[..5]);
            bytes[6..11].copy_from_slice(&first.0.to_le_bytes()[..5]);
            put(&mut bytes, 16, before.to_le_bytes());
        }
        Record::Lost { block, eighths } => {
            bytes[0] = KIND_LOST;
            bytes[1] = eighths.0;
            put(&mut bytes, 16, block.0.to_le_bytes());
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Record> {
    let (small, checksum, block) = (u32_at(bytes, 4), u32_at(bytes, 8), Block(u64_at(bytes, 16)));
    let low_40_bits = |at: usize| u64::from(u32_at(bytes, at)) | u64::from(bytes[at + 4]) << 32;
    let map = |dirty| Record::Map { block, slot: Slot(small), valid: ValidMask(bytes[1]), dirty, checksum };
    match bytes[0] {
        KIND_MAP_CLEAN | KIND_MAP_DIRTY if bytes[1] != 0 => Some(map(bytes[0] == KIND_MAP_DIRTY)),
        KIND_HOME => Some(Record::Home { block }),
        KIND_INTENT => Some(Record::Intent { region: small }),
        KIND_DROPPED if block.0 < 1 << 56 => {
            Some(Record::Dropped { first: Block(low_40_bits(6)), count: low_40_bits(1), before: block.0 })
        }
        KIND_LOST => Some(Record::Lost { block, eighths: ValidMask(bytes[1]) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::page::PAGE_BYTES;
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
            any::<u64>().prop_map(|block| Record::Home { block: Block(block) }),
            (0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 56).prop_map(|(first, count, before)| Record::Dropped {
                first: Block(first),
                count,
                before
            }),
            any::<u32>().prop_map(|region| Record::Intent { region }),
            (any::<u64>(), any::<u8>())
                .prop_map(|(block, eighths)| Record::Lost { block: Block(block), eighths: ValidMask(eighths) }),
        ]
    }

    const HEADER: PageHeader = PageHeader { volume: 1, number: 2, life: 3, stable: 4 };

    proptest! {
        #[test]
        fn a_page_reads_back(volume: u64, number: u64, life: u32, stable: u64, records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE)) {
            let header = PageHeader { volume, number, life, stable };
            let page = encode_page(header, &records);
            prop_assert_eq!(decode_page(&page), Ok((header, records)));
        }

        #[test]
        fn any_flipped_bit_is_noticed(records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode_page(HEADER, &records);
            page[at] ^= 1 << bit;
            prop_assert!(decode_page(&page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let _ = decode_page(&page::tests::disguise(MAGIC, &bytes));
        }
    }
}
