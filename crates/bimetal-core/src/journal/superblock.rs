//! Superblocks: where recovery begins. Two pages, written in turn; the one with the higher sequence number counts, and a
//! torn one leaves the other.

use super::page::{self, Page, PageError, put, u16_at, u32_at, u64_at};
use crate::block::{Block, ValidMask};

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Superblock {
    /// The volume's identity.
    pub volume: u64,
    /// Counts superblocks; its lowest bit says in which of the two pages this one lies.
    pub sequence: u64,
    /// The volume's present life: what a page of a later number and an older life holds is stale.
    pub life: u32,
    /// The first page of the ring, or position of the log, that is not taken over by the slot table, or by home.
    pub tail: u64,
    /// The page or position at which the present life began.
    pub life_began_at: u64,
    /// In a log: the first page of its index that counts, and the one at which the present life began.
    pub index_tail: u64,
    /// See [`index_tail`](Self::index_tail).
    pub index_began_at: u64,
    /// CRC32C of the marks written with it, in the area of its turn; none: no region is marked.
    pub marks: Option<u32>,
    /// Blocks whose newest content could not be read any more, and which eighths.
    pub lost: Vec<(Block, ValidMask)>,
}

const MAGIC: u32 = 0x736d_4942; // "BIms"
const LOST_AT: usize = 80;
const LOST_BYTES: usize = 16;
/// Lost blocks that a superblock can name.
pub const LOST_MAX: usize = (page::PAGE_BYTES - LOST_AT) / LOST_BYTES;

impl Superblock {
    /// Which of the two pages it lies in.
    pub fn turn(&self) -> u64 {
        self.sequence & 1
    }

    /// As a page.
    pub fn encode(&self) -> Page {
        assert!(self.lost.len() <= LOST_MAX, "a superblock cannot name {} lost blocks", self.lost.len());
        let mut page = page::begin(MAGIC, self.volume);
        put(&mut page, 6, (self.lost.len() as u16).to_le_bytes());
        put(&mut page, 16, self.sequence.to_le_bytes());
        put(&mut page, 24, self.life.to_le_bytes());
        put(&mut page, 32, self.tail.to_le_bytes());
        put(&mut page, 40, self.life_began_at.to_le_bytes());
        put(&mut page, 48, self.marks.unwrap_or_default().to_le_bytes());
        put(&mut page, 52, [u8::from(self.marks.is_some())]);
        put(&mut page, 56, self.index_tail.to_le_bytes());
        put(&mut page, 64, self.index_began_at.to_le_bytes());
        for (place, (block, eighths)) in page[LOST_AT..].chunks_exact_mut(LOST_BYTES).zip(&self.lost) {
            put(place, 0, block.0.to_le_bytes());
            put(place, 8, [eighths.0]);
        }
        page::seal(&mut page);
        page
    }

    /// From a page.
    ///
    /// # Errors
    /// The page is not a superblock, is torn, or of a later version.
    pub fn decode(page: &Page) -> Result<Self, PageError> {
        let volume = page::check(MAGIC, page)?;
        let places = page[LOST_AT..].chunks_exact(LOST_BYTES).take(usize::from(u16_at(page, 6)));
        Ok(Self {
            volume,
            sequence: u64_at(page, 16),
            life: u32_at(page, 24),
            tail: u64_at(page, 32),
            life_began_at: u64_at(page, 40),
            index_tail: u64_at(page, 56),
            index_began_at: u64_at(page, 64),
            marks: (page[52] != 0).then(|| u32_at(page, 48)),
            lost: places.map(|place| (Block(u64_at(place, 0)), ValidMask(place[8]))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_superblock_reads_back(numbers: [u64; 6], life: u32, marks: Option<u32>, lost in proptest::collection::vec((any::<u64>(), any::<u8>()), 0..=LOST_MAX)) {
            let [volume, sequence, tail, life_began_at, index_tail, index_began_at] = numbers;
            let lost = lost.into_iter().map(|(block, eighths)| (Block(block), ValidMask(eighths))).collect();
            let superblock = Superblock { volume, sequence, life, tail, life_began_at, index_tail, index_began_at, marks, lost };
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }

        #[test]
        fn any_flipped_bit_is_noticed(at in 0..page::PAGE_BYTES, bit in 0u8..8) {
            let mut page = Superblock { sequence: 7, life: 3, tail: 99, ..Superblock::default() }.encode();
            page[at] ^= 1 << bit;
            prop_assert!(Superblock::decode(&page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), page::PAGE_BYTES)) {
            let _ = Superblock::decode(&page::tests::disguise(MAGIC, &bytes));
        }
    }
}
