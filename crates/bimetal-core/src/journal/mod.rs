//! The journal: makes the block map durable.
//!
//! Every change of the block map is a [`Record`](record::Record). Records gather in memory. The
//! records are written together in pages, at a flush or when memory is full, into a ring on the
//! metadata member. A *slot table* (16 bytes a slot) lies after the ring. Before the ring is full,
//! a *checkpoint* brings the slot table up to date, and writes only the pages that changed. So
//! recovery reads the slot table and at most one ring. The slot table holds only changes that the
//! ring has made durable. Two areas of *marks* and a pair of superblocks, one in each turn,
//! complete a checkpoint. A mark is a bit for a region of home that may differ from clean copies.
//! The superblock records the position of the ring's tail.
//!
//! A log needs no ring: each segment begins and ends with a page of records that describe it.
//! Records that belong to no segment wait for the next segment. The log's superblocks record the
//! position of the log's tail. Beside the superblocks lies an *index*, a ring of pages with the
//! records of stable segments; it saves recovery from reading segment by segment. The [`state`]
//! lies on home members.
//!
//! Ring, slot table, index, superblocks and states are written twice, on two stretches of the
//! drive. The head of a segment has a foot. Because all this metadata has two copies, one damaged
//! page loses nothing. Both superblocks of a pair have equal marks, each in an area of its own. If
//! neither area can be read, clean copies are dropped.

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

/// Sectors of one copy of the two superblocks, a page each.
pub const SUPERBLOCK_SECTORS: u64 = 2 * PAGE_SECTORS;

/// Slots described by a page of the slot table.
pub const SLOTS_PER_TABLE_PAGE: u64 = 253;

/// Blocks that share a mark: 64 MiB of 4 KiB blocks.
pub const MARK_REGION_BLOCKS: u64 = 16 * 1024;

/// Blocks of a segment that hold no data: its head and its foot.
pub const SEGMENT_PAGES: u64 = 2;

/// Returns the pages of the ring for `slots` slots: one for every 256, at least 32. Half a ring of
/// full pages then takes some 80 changes for each slot page before a checkpoint is due.
pub const fn ring_pages(slots: u64) -> u64 {
    let pages = slots / 256;
    if pages < 32 { 32 } else { pages }
}

/// Returns the number of pages of the slot table, for `slots` slots.
pub const fn table_pages(slots: u64) -> u64 {
    slots.div_ceil(SLOTS_PER_TABLE_PAGE)
}

/// Returns the pages of one of the two areas of marks, for a volume of `blocks` blocks.
pub const fn marks_pages(blocks: u64) -> u64 {
    blocks.div_ceil(MARK_REGION_BLOCKS).div_ceil(8 * page::PAGE_BYTES as u64)
}

/// Returns the pages of the index of a log of `slots` slots: enough for a record of each slot, some
/// partly filled pages, and discards.
pub const fn index_pages(slots: u64) -> u64 {
    slots / record::RECORDS_PER_PAGE as u64 + slots / 2048 + 8
}

/// Returns the sectors of the superblocks and the index of a log, in two copies.
pub const fn log_metadata_sectors(slots: u64) -> u64 {
    2 * (SUPERBLOCK_SECTORS + index_pages(slots) * PAGE_SECTORS)
}

/// Returns the sectors of one copy of superblocks, ring and slot table.
pub const fn cache_copy_sectors(slots: u64) -> u64 {
    SUPERBLOCK_SECTORS + (ring_pages(slots) + table_pages(slots)) * PAGE_SECTORS
}

/// Returns the place of the marks of a turn, `marks_pages` pages, in a cache's metadata, which
/// begins at `first_sector`.
pub const fn marks_place(first_sector: u64, slots: u64, marks_pages: u64, turn: u64) -> crate::units::SectorRange {
    let sectors = marks_pages * PAGE_SECTORS;
    crate::units::SectorRange::new(first_sector + cache_copy_sectors(slots) + turn * sectors, sectors)
}

/// Returns the sectors of two copies of superblocks, ring and slot table, with both areas of marks
/// between them.
pub const fn cache_metadata_sectors(slots: u64, blocks: u64) -> u64 {
    2 * cache_copy_sectors(slots) + 2 * marks_pages(blocks) * PAGE_SECTORS
}

/// Returns the place of a turn's superblock in a region of metadata of `sectors` sectors from
/// `first_sector` on. The first copy lies at its beginning, the second at its end.
pub fn superblock_place(first_sector: u64, sectors: u64, turn: u64, copy: usize) -> crate::units::SectorRange {
    let start = if copy == 0 { first_sector } else { first_sector + sectors - SUPERBLOCK_SECTORS };
    crate::units::SectorRange::new(start + turn * PAGE_SECTORS, PAGE_SECTORS)
}
