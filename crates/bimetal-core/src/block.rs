//! Logical blocks: the unit in which a volume decides where content lies (4 KiB by default).
//!
//! Inside a volume, all units lie one after another in one flat address space, so a [`Block`] is
//! one number. For a block off home, a [`ValidMask`] tells which eighths of the block its slot
//! holds.

use crate::units::{Bytes, SECTOR_BYTES, SectorRange};

/// A logical block of a volume, counted over all its units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block(pub u64);

/// A run of `count` adjacent blocks from `first` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRun {
    /// First block of the run.
    pub first: Block,
    /// Number of blocks.
    pub count: u64,
}

impl BlockRun {
    /// Returns the number of the first block after the run.
    #[inline]
    pub const fn end(self) -> u64 {
        self.first.0 + self.count
    }

    /// Returns true if the two runs share a block.
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first.0 < other.end() && other.first.0 < self.end()
    }

    /// Returns the blocks of the run, in order.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        (self.first.0..self.end()).map(Block)
    }
}

/// A set of eighths of a block; bit 0 is the first eighth. With 4 KiB blocks, an eighth is a
/// sector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ValidMask(pub u8);

impl ValidMask {
    /// All eighths of the block.
    pub const ALL: Self = Self(0xff);
    /// No eighth of the block.
    pub const NONE: Self = Self(0);

    /// Returns true if no eighth is in the mask.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the mask contains all eighths of `other`.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the eighths that are in either mask.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the eighths that are in both masks.
    #[inline]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the eighths that are in this mask and not in `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the span from the first set eighth to the last set eighth, as (first, count).
    #[inline]
    pub const fn span(self) -> (u32, u32) {
        if self.0 == 0 {
            return (0, 0);
        }
        let first = self.0.trailing_zeros();
        (first, 8 - self.0.leading_zeros() - first)
    }

    /// Returns the runs of adjacent eighths, as (first, count).
    pub fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros();
            let count = (rest >> first).trailing_ones();
            rest &= !((((1u16 << count) - 1) as u8) << first);
            Some((first, count))
        })
    }

    const fn from_span(first: u32, count: u32) -> Self {
        Self((((1u16 << count) - 1) << first) as u8)
    }
}

/// Size of a volume's logical blocks: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSize {
    sectors_log2: u32,
}

/// A size that no logical block can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block size {0}: expected a power of two from 4KiB to 1MiB")]
pub struct BlockSizeError(Bytes);

impl Default for BlockSize {
    fn default() -> Self {
        Self { sectors_log2: 3 }
    }
}

impl BlockSize {
    /// Returns the block size of `size` bytes.
    pub fn new(size: Bytes) -> Result<Self, BlockSizeError> {
        let possible = size.0.is_power_of_two() && (4096..=1 << 20).contains(&size.0);
        if possible { Ok(Self { sectors_log2: (size.0 / SECTOR_BYTES).ilog2() }) } else { Err(BlockSizeError(size)) }
    }

    /// Returns the size in bytes.
    #[inline]
    pub const fn bytes(self) -> Bytes {
        Bytes(SECTOR_BYTES << self.sectors_log2)
    }

    /// Returns the size in sectors.
    #[inline]
    pub const fn sectors(self) -> u64 {
        1 << self.sectors_log2
    }

    /// Returns the number of sectors in an eighth of a block.
    #[inline]
    pub const fn eighth_sectors(self) -> u64 {
        self.sectors() / 8
    }

    /// Returns the block that holds `sector`.
    #[inline]
    pub const fn block_of(self, sector: u64) -> Block {
        Block(sector >> self.sectors_log2)
    }

    /// Returns the first sector of `block`.
    #[inline]
    pub const fn first_sector(self, block: Block) -> u64 {
        block.0 << self.sectors_log2
    }

    /// Returns the sectors of `run`, in the volume's flat address space.
    #[inline]
    pub const fn sectors_of(self, run: BlockRun) -> SectorRange {
        SectorRange::new(self.first_sector(run.first), run.count * self.sectors())
    }

    /// Returns the blocks that `range` touches; no blocks if `range` is empty.
    #[inline]
    pub const fn touched(self, range: SectorRange) -> BlockRun {
        let first = self.block_of(range.start.0);
        if range.is_empty() {
            return BlockRun { first, count: 0 };
        }
        BlockRun { first, count: self.block_of(range.end().0 - 1).0 + 1 - first.0 }
    }

    /// Returns the part of `range` that lies in `block`.
    #[inline]
    pub fn clip(self, range: SectorRange, block: Block) -> SectorRange {
        let start = range.start.0.max(self.first_sector(block));
        let end = range.end().0.min(self.first_sector(block) + self.sectors());
        SectorRange::new(start, end - start)
    }

    /// Returns the eighths that `part` touches, and the eighths that it covers whole. `part` must
    /// lie in one block.
    #[inline]
    pub const fn masks(self, part: SectorRange) -> (ValidMask, ValidMask) {
        if part.len.0 == self.sectors() {
            return (ValidMask::ALL, ValidMask::ALL);
        }
        let eighth = self.eighth_sectors();
        let start = part.start.0 & (self.sectors() - 1);
        let end = start + part.len.0;
        let (touched_first, touched_end) = (start / eighth, end.div_ceil(eighth));
        let (covered_first, covered_end) = (start.div_ceil(eighth), end / eighth);
        let touched = ValidMask::from_span(touched_first as u32, (touched_end - touched_first) as u32);
        if covered_end <= covered_first {
            return (touched, ValidMask::NONE);
        }
        (touched, ValidMask::from_span(covered_first as u32, (covered_end - covered_first) as u32))
    }
}

/// Number by which a policy recognises a block that is no longer in a slot: the block's number,
/// folded to 32 bits. Below 2^32 (16 TiB of 4 KiB blocks) no two blocks share a key. Above 2^32
/// blocks, two blocks may share a key: a policy that mistakes one for the other makes a worse
/// choice, and no error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub u32);

impl From<Block> for Key {
    #[inline]
    fn from(block: Block) -> Self {
        Self(block.0 as u32 ^ ((block.0 >> 32) as u32).wrapping_mul(0x9e37_79b1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_4_kib_blocks_an_eighth_is_a_sector() {
        let size = BlockSize::default();
        assert_eq!(size.masks(SectorRange::new(8, 8)), (ValidMask::ALL, ValidMask::ALL));
        assert_eq!(size.masks(SectorRange::new(9, 3)), (ValidMask(0b1110), ValidMask(0b1110)));
    }

    /// In blocks larger than 4 KiB a range may touch an eighth of a block without covering it.
    #[test]
    fn large_block_range_touches_an_eighth_without_covering() {
        let size = BlockSize::new(Bytes::from_kib(64)).unwrap();
        assert_eq!(size.masks(SectorRange::new(1, 16)), (ValidMask(0b11), ValidMask::NONE));
        assert_eq!(size.masks(SectorRange::new(15, 34)), (ValidMask(0b1111), ValidMask(0b0110)));
    }

    #[test]
    fn runs_of_a_mask_are_its_adjacent_eighths() {
        assert_eq!(ValidMask(0b1100_1011).runs().collect::<Vec<_>>(), [(0, 2), (3, 1), (6, 2)]);
        assert_eq!(ValidMask::ALL.runs().collect::<Vec<_>>(), [(0, 8)]);
        assert_eq!(ValidMask(0b0010_0100).span(), (2, 4));
    }

    #[test]
    fn only_sensible_block_sizes_exist() {
        assert!(BlockSize::new(Bytes(512)).is_err());
        assert!(BlockSize::new(Bytes(5000)).is_err());
        assert_eq!(BlockSize::new(Bytes::from_kib(8)).unwrap().sectors(), 16);
    }
}
