//! The bytes of every page of engine metadata, declared once. docs/on-disk-format.md has the same
//! offsets; a test compares the two.
//!
//! Numbers are little-endian and unaligned, so that a page can be viewed anywhere in memory. Bytes
//! that no field names are zero.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::page::{PAGE_BYTES, Page};
use super::record::{RECORD_BYTES, RECORDS_PER_PAGE};
use super::state::LEFT_BYTES;
use super::superblock::{LIVES_MAX, LOST_MAX};
use super::table::ENTRIES_PER_PAGE;

/// The header of every page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct Head {
    /// The kind of page.
    pub magic: U32,
    /// The version of the format that the page was written in.
    pub version: U16,
    /// Number of records, lost blocks or entries in the page.
    pub count: U16,
    /// The volume's identity.
    pub volume: U64,
    /// Number, position, sequence or generation of the page.
    pub number: U64,
    /// The recovery epoch (life) in which the page was written. In a page of the slot table or of
    /// places: the page's index.
    pub life: U32,
    /// CRC32C of all other bytes of the page.
    pub checksum: U32,
}

/// A record.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct RecordBytes {
    /// The kind of record.
    pub kind: u8,
    /// Eighths of the block.
    pub eighths: u8,
    /// In a log: 1 if the slot has no sector of an earlier slot of the block.
    pub is_whole: u8,
    unused: u8,
    /// The slot, or the number of a region.
    pub slot: U32,
    /// CRC32C of the slot.
    pub checksum: U32,
    unused_either: [u8; 4],
    /// The block.
    pub block: U64,
}

/// A record of blocks whose content in a log is void, in the place of a [`RecordBytes`].
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct DroppedBytes {
    /// The kind of record.
    pub kind: u8,
    /// Number of blocks, 40 bits.
    pub blocks: [u8; 5],
    /// The first block, 40 bits.
    pub first: [u8; 5],
    unused: [u8; 5],
    /// Position in the log, 56 bits.
    pub before: U64,
}

/// A page of records: of a cache's ring, of a log's index, or the head or the foot of a segment.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordsPage {
    /// See [`Head`].
    pub head: Head,
    /// First page or position that may not have been stable when this page was written.
    pub stable: U64,
    /// The records, [`Head::count`] in number.
    pub records: [[u8; RECORD_BYTES]; RECORDS_PER_PAGE],
}

/// An entry of the slot table.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct EntryBytes {
    /// The block.
    pub block: U64,
    /// CRC32C of the slot.
    pub checksum: U32,
    /// Eighths that the slot holds.
    pub eighths: u8,
    /// 0 free, 1 clean, 2 dirty.
    pub state: u8,
    /// Lower half of the CRC32C of the 14 bytes before.
    pub check: U16,
}

/// A page of the slot table.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TablePage {
    /// See [`Head`].
    pub head: Head,
    /// Generation of the page in the previous checkpoint; 0: the page was never written.
    pub previous: U64,
    /// An entry for each slot.
    pub entries: [EntryBytes; ENTRIES_PER_PAGE],
    unused: [u8; 8],
}

/// A recovery epoch (life) of the volume from which the log or its index still has content.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct LifeBytes {
    /// Number of the epoch.
    pub life: U32,
    /// Number of the drive on which the epoch began; 0: unknown.
    pub drive: U32,
    /// First position of the log, or page of the ring, that was written in this epoch.
    pub began_at: U64,
    /// First page of the log's index that was written in this epoch.
    pub index_began_at: U64,
}

/// A lost block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct LostBytes {
    /// The block.
    pub block: U64,
    /// Eighths that are lost.
    pub eighths: u8,
    unused: [u8; 7],
}

/// A superblock.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SuperblockPage {
    /// See [`Head`].
    pub head: Head,
    /// First page of the ring, or position of the log, that counts.
    pub tail: U64,
    /// First page of the log's index that counts.
    pub index_tail: U64,
    /// Digest of the generations of all pages of the slot table.
    pub table: U64,
    /// CRC32C of the marks in the area of this turn.
    pub marks: U32,
    /// 1 if there are marks.
    pub has_marks: u8,
    /// Number of epochs.
    pub lives_count: u8,
    /// Place of the superblock in its pair: 0 unknown, 1 first, 2 second.
    pub pair: u8,
    unused: u8,
    /// The epochs, the oldest first.
    pub lives: [LifeBytes; LIVES_MAX],
    /// The lost blocks, [`Head::count`] in number.
    pub lost: [LostBytes; LOST_MAX],
}

/// A state.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct StatePage {
    /// See [`Head`].
    pub head: Head,
    /// Members that were detached or failed, a bit each.
    pub failed: U64,
    /// 1 if slots may hold content that home lacks.
    pub dirty: u8,
    /// 1 if a migration was writing home.
    pub migrating: u8,
    /// 1 if the member with the slots is read-only.
    pub refusing: u8,
    unused: [u8; 5],
    /// Digest of the versions of all pages of the table of places; 0: not recorded.
    pub places: U64,
    unused_before_left: [u8; 456],
    /// Regions that have left the read-only member, a bit each.
    pub left: [u8; LEFT_BYTES],
}

/// Returns `page` as a page of type `T`.
pub(crate) fn view<T: FromBytes + KnownLayout + Immutable + Unaligned>(page: &Page) -> &T {
    const { assert!(size_of::<T>() == PAGE_BYTES) };
    T::ref_from_bytes(page).expect("every page has the size of its type, and no alignment")
}

/// Returns `page` as a page of type `T`, for writing.
pub(crate) fn view_mut<T>(page: &mut Page) -> &mut T
where
    T: FromBytes + IntoBytes + KnownLayout + Unaligned,
{
    const { assert!(size_of::<T>() == PAGE_BYTES) };
    T::mut_from_bytes(page).expect("every page has the size of its type, and no alignment")
}
