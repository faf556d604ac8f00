//! Records, and the pages they lie in: pages of a cache's ring, pages of a log's index, and the
//! head and foot of each segment of a log.
//!
//! A page is 4 KiB: a header of 40 bytes and up to 169 records of 24 bytes. A record names a block
//! and a change of the block. For a block off home the record also has the slot, the valid eighths
//! and the CRC32C of the slot. A record whose data never reached the drive is recognised by that
//! checksum, so one flush of the drive makes data and records durable together.

use super::format::{DroppedBytes, RecordBytes, RecordsPage, view, view_mut};
use super::page::{self, Page, PageError};
use crate::block::{Block, ValidMask};
use crate::block_map::Slot;
use zerocopy::FromZeros;

/// A change of the block map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The newest content of `block` is in `slot`.
    Map {
        /// The block.
        block: Block,
        /// The slot.
        slot: Slot,
        /// The eighths that the slot holds.
        valid: ValidMask,
        /// Set if home is older.
        dirty: bool,
        /// In a log: set if no sector of the slot comes from an earlier slot of the block.
        is_whole: bool,
        /// CRC32C of the whole slot.
        checksum: u32,
    },
    /// The content of `block` is only at its home.
    Home {
        /// The block.
        block: Block,
    },
    /// In a log: the content of these blocks before a position is void; home has their content.
    Dropped {
        /// The first block.
        first: Block,
        /// Number of blocks, below 2⁴⁰.
        count: u64,
        /// Position of the log before which content is void, below 2⁵⁶.
        before: u64,
    },
    /// A dirty-region mark: home may differ from clean copies in this region.
    Intent {
        /// The region's number.
        region: u32,
    },
    /// Eighths of `block` are lost: the newest content of `eighths` could not be read. No eighths:
    /// the block was written again.
    Lost {
        /// The block.
        block: Block,
        /// The lost eighths.
        eighths: ValidMask,
    },
    /// In a segment of a log, in place of a `Map`: a recovery found that the slot does not hold the
    /// content of its record. It holds nothing.
    Void {
        /// The block.
        block: Block,
        /// The slot.
        slot: Slot,
        /// The eighths that the slot was to hold.
        valid: ValidMask,
    },
}

/// The header of a page of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHeader {
    /// The volume's identity.
    pub volume: u64,
    /// Number of the page in the ring, or its position in the log, counted from the beginning of
    /// time.
    pub number: u64,
    /// The recovery epoch (called a life in the format) in which the page was written.
    pub life: u32,
    /// Page or position before which everything was stable, data included, when this page was
    /// written.
    pub stable: u64,
}

/// Bytes of a record.
pub const RECORD_BYTES: usize = size_of::<RecordBytes>();
const HEADER_BYTES: usize = size_of::<super::format::Head>() + size_of::<u64>();
/// Records in a full page.
pub const RECORDS_PER_PAGE: usize = (page::PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;

/// The place of a page of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A page in the ring of a cache.
    Ring,
    /// The page in front of a segment of a log.
    Head,
    /// The page after a segment of a log: its head once more.
    Foot,
    /// A page in the index of a log.
    Index,
}

impl Kind {
    const fn magic(self) -> u32 {
        u32::from_le_bytes(match self {
            Kind::Ring => *b"BImj",
            Kind::Head => *b"BImh",
            Kind::Foot => *b"BImf",
            Kind::Index => *b"BImx",
        })
    }
}

const KIND_MAP_CLEAN: u8 = 1;
const KIND_MAP_DIRTY: u8 = 2;
const KIND_HOME: u8 = 3;
const KIND_INTENT: u8 = 4;
const KIND_DROPPED: u8 = 5;
const KIND_LOST: u8 = 6;
const KIND_VOID: u8 = 7;

/// Encodes up to [`RECORDS_PER_PAGE`] records as a page.
pub fn encode_page(kind: Kind, header: PageHeader, records: &[Record]) -> Page {
    assert!(records.len() <= RECORDS_PER_PAGE, "{} records do not fit in a page", records.len());
    let mut bytes = page::begin(kind.magic(), header.volume);
    let page: &mut RecordsPage = view_mut(&mut bytes);
    page.head.count = (records.len() as u16).into();
    page.head.number = header.number.into();
    page.head.life = header.life.into();
    page.stable = header.stable.into();
    for (place, record) in page.records.iter_mut().zip(records) {
        *place = encode(record);
    }
    page::seal(&mut bytes);
    bytes
}

/// Returns the header of a page without a check of its records and checksum, to skip pages that
/// cannot matter.
pub fn peek(kind: Kind, bytes: &Page) -> Option<PageHeader> {
    let page: &RecordsPage = view(bytes);
    (page.head.magic.get() == kind.magic()).then(|| header(page))
}

fn header(page: &RecordsPage) -> PageHeader {
    let head = &page.head;
    PageHeader {
        volume: head.volume.get(),
        number: head.number.get(),
        life: head.life.get(),
        stable: page.stable.get(),
    }
}

/// Returns the header and the records of a page.
///
/// # Errors
/// The page is not a page of records, is torn, of another version, or has a record of an unknown
/// kind.
pub fn decode_page(kind: Kind, bytes: &Page) -> Result<(PageHeader, Vec<Record>), PageError> {
    page::check(kind.magic(), bytes)?;
    let page: &RecordsPage = view(bytes);
    let places = page.records.iter().take(page.head.count.get().into());
    let records = places.enumerate().map(|(at, bytes)| decode(bytes).ok_or(PageError::Record(at as u16)));
    Ok((header(page), records.collect::<Result<_, _>>()?))
}

fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = RecordBytes::new_zeroed();
    match *record {
        Record::Map { block, slot, valid, dirty, is_whole, checksum } => {
            bytes.is_whole = is_whole.into();
            bytes.kind = if dirty { KIND_MAP_DIRTY } else { KIND_MAP_CLEAN };
            bytes.eighths = valid.0;
            bytes.slot = slot.0.into();
            bytes.checksum = checksum.into();
            bytes.block = block.0.into();
        }
        Record::Home { block } => {
            bytes.kind = KIND_HOME;
            bytes.block = block.0.into();
        }
        Record::Intent { region } => {
            bytes.kind = KIND_INTENT;
            bytes.slot = region.into();
        }
        Record::Dropped { first, count, before } => {
            assert!(first.0 < 1 << 40 && count < 1 << 40 && before < 1 << 56, "{record:?} is out of bounds");
            let mut bytes = DroppedBytes::new_zeroed();
            bytes.kind = KIND_DROPPED;
            bytes.blocks.copy_from_slice(&count.to_le_bytes()[..5]);
            bytes.first.copy_from_slice(&first.0.to_le_bytes()[..5]);
            bytes.before = before.into();
            return zerocopy::transmute!(bytes);
        }
        Record::Lost { block, eighths } => {
            bytes.kind = KIND_LOST;
            bytes.eighths = eighths.0;
            bytes.block = block.0.into();
        }
        Record::Void { block, slot, valid } => {
            bytes.kind = KIND_VOID;
            bytes.eighths = valid.0;
            bytes.slot = slot.0.into();
            bytes.block = block.0.into();
        }
    }
    zerocopy::transmute!(bytes)
}

fn decode(place: &[u8; RECORD_BYTES]) -> Option<Record> {
    let bytes: RecordBytes = zerocopy::transmute!(*place);
    let (block, eighths) = (Block(bytes.block.get()), ValidMask(bytes.eighths));
    let map = |dirty| Record::Map {
        block,
        slot: Slot(bytes.slot.get()),
        valid: eighths,
        dirty,
        is_whole: bytes.is_whole != 0,
        checksum: bytes.checksum.get(),
    };
    match bytes.kind {
        KIND_MAP_CLEAN | KIND_MAP_DIRTY if !eighths.is_empty() => Some(map(bytes.kind == KIND_MAP_DIRTY)),
        KIND_HOME => Some(Record::Home { block }),
        KIND_INTENT => Some(Record::Intent { region: bytes.slot.get() }),
        KIND_DROPPED => {
            let dropped: DroppedBytes = zerocopy::transmute!(*place);
            let number = |low: [u8; 5]| u64::from_le_bytes([low[0], low[1], low[2], low[3], low[4], 0, 0, 0]);
            let (first, count, before) = (number(dropped.first), number(dropped.blocks), dropped.before.get());
            (before < 1 << 56).then_some(Record::Dropped { first: Block(first), count, before })
        }
        KIND_LOST => Some(Record::Lost { block, eighths }),
        KIND_VOID => Some(Record::Void { block, slot: Slot(bytes.slot.get()), valid: eighths }),
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
            (any::<u64>(), any::<u32>(), 1u8.., any::<[bool; 2]>(), any::<u32>()).prop_map(
                |(block, slot, valid, [dirty, is_whole], checksum)| Record::Map {
                    block: Block(block),
                    slot: Slot(slot),
                    valid: ValidMask(valid),
                    dirty,
                    is_whole,
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
            (any::<u64>(), any::<u32>(), any::<u8>()).prop_map(|(block, slot, valid)| Record::Void {
                block: Block(block),
                slot: Slot(slot),
                valid: ValidMask(valid)
            }),
        ]
    }

    const HEADER: PageHeader = PageHeader { volume: 1, number: 2, life: 3, stable: 4 };

    proptest! {
        #[test]
        fn a_page_reads_back(volume: u64, number: u64, life: u32, stable: u64, records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE)) {
            let header = PageHeader { volume, number, life, stable };
            let page = encode_page(Kind::Ring, header, &records);
            prop_assert_eq!(peek(Kind::Ring, &page), Some(header));
            prop_assert_eq!(decode_page(Kind::Ring, &page), Ok((header, records)));
            for other in [Kind::Head, Kind::Foot, Kind::Index] {
                prop_assert_eq!(decode_page(other, &page), Err(PageError::NotAPage));
            }
        }

        #[test]
        fn any_flipped_bit_is_noticed(records in proptest::collection::vec(any_record(), 0..=RECORDS_PER_PAGE), at in 0..PAGE_BYTES, bit in 0u8..8) {
            let mut page = encode_page(Kind::Ring, HEADER, &records);
            page[at] ^= 1 << bit;
            prop_assert!(decode_page(Kind::Ring, &page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let _ = decode_page(Kind::Ring, &page::tests::disguise(Kind::Ring.magic(), &bytes));
        }
    }
}
