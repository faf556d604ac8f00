//! The journal: how the block map becomes durable.
//!
//! Every change of the map is a [`Record`](record::Record). Records gather in memory and go out together in pages, at a
//! flush or when memory is full, into a ring on the metadata member. A *slot table* (16 bytes a slot) behind the ring
//! takes the ring's content over before the ring is full, a page at a time and only the pages that changed, so
//! recovery reads the table and at most one ring. The table holds only what the ring has made durable. Two areas of *marks* (a bit for each region of home
//! that may differ from clean copies) and two superblocks, written in turn, complete a checkpoint: the superblock says
//! where the ring's tail is.
//!
//! A log region needs no ring: each segment begins and ends with a page of records that describe it, and records that belong to no
//! segment wait for the next one. Its superblocks say where the log's tail is. An *index* beside them, a ring of pages with the
//! records of segments that are stable, spares recovery the way from segment to segment. The [`state`] lies on home members.
//!
//! Every page is written twice, on two stretches of the drive: ring, slot table, index, superblocks and states; the head of a
//! segment has a foot. One damaged page costs nothing therefore. Marks alone are written once: where they cannot be read, clean
//! copies are dropped.

pub mod format;
pub mod page;
pub mod record;
pub(crate) mod ring;
pub mod state;
pub mod superblock;
pub mod table;
pub mod turns;

/// Sectors of a metadata page of 4 KiB.
pub const PAGE_SECTORS: u64 = 8;

/// Copies of every page that is written more than once.
pub const COPIES: usize = turns::COPIES;

/// One copy of the two superblocks, a page each.
pub const SUPERBLOCK_SECTORS: u64 = 2 * PAGE_SECTORS;

/// Slots described by a page of the slot table.
pub const SLOTS_PER_TABLE_PAGE: u64 = 253;

/// Blocks that share a mark: 64 MiB of 4 KiB blocks.
pub const MARK_REGION_BLOCKS: u64 = 16 * 1024;

/// Blocks of a segment that hold no data: its head and its foot.
pub const SEGMENT_PAGES: u64 = 2;

/// Pages of the ring for so many slots: one for every 256, at least 32, so that half a ring of full pages takes some
/// 80 changes a slot page before a checkpoint is due.
pub const fn ring_pages(slots: u64) -> u64 {
    let pages = slots / 256;
    if pages < 32 { 32 } else { pages }
}

/// Pages of the slot table.
pub const fn table_pages(slots: u64) -> u64 {
    slots.div_ceil(SLOTS_PER_TABLE_PAGE)
}

/// Pages of one of the two areas of marks, for a volume of so many blocks.
pub const fn marks_pages(blocks: u64) -> u64 {
    blocks.div_ceil(MARK_REGION_BLOCKS).div_ceil(8 * page::PAGE_BYTES as u64)
}

/// Pages of the index of a log of so many slots: enough for a record of each, some that are full in part, and discards.
pub const fn index_pages(slots: u64) -> u64 {
    slots / record::RECORDS_PER_PAGE as u64 + slots / 2048 + 8
}

/// Sectors that the superblocks and the index of a log take, in two copies.
pub const fn log_metadata_sectors(slots: u64) -> u64 {
    2 * (SUPERBLOCK_SECTORS + index_pages(slots) * PAGE_SECTORS)
}

/// Sectors of one copy of superblocks, ring and slot table.
pub const fn cache_copy_sectors(slots: u64) -> u64 {
    SUPERBLOCK_SECTORS + (ring_pages(slots) + table_pages(slots)) * PAGE_SECTORS
}

/// Sectors that superblocks, ring and slot table, twice, and both areas of marks between the copies take.
pub const fn cache_metadata_sectors(slots: u64, blocks: u64) -> u64 {
    2 * cache_copy_sectors(slots) + 2 * marks_pages(blocks) * PAGE_SECTORS
}

/// Where the superblock of a turn lies in a region of metadata of `sectors` from `first_sector` on: the first copy at its beginning, the
/// second at its end.
pub fn superblock_place(first_sector: u64, sectors: u64, turn: u64, copy: usize) -> crate::units::SectorRange {
    let start = if copy == 0 { first_sector } else { first_sector + sectors - SUPERBLOCK_SECTORS };
    crate::units::SectorRange::new(start + turn * PAGE_SECTORS, PAGE_SECTORS)
}
