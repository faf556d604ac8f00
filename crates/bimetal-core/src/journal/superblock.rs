//! Superblocks: the pages from which recovery begins. Superblocks have two turns, each written
//! twice ([`turns`](super::turns)).
//!
//! Superblocks are written in pairs: the first, and then its content once more under the next
//! number, in the other turn. A slot that a superblock frees is written again, and a new epoch
//! begins, only once the pair is stable. So either turn may be lost, or revert to an earlier
//! superblock: the other turn has the same content, or a superblock that nothing depends on yet.

use super::format::{LifeBytes, LostBytes, SuperblockPage, view, view_mut};
use super::page::{self, Page, PageError};
use super::turns::Found;
use crate::block::{Block, ValidMask};
use zerocopy::FromZeros;

/// Epochs that a superblock can name.
pub const LIVES_MAX: usize = 24;
/// Largest number of lost blocks that a superblock can name.
pub const LOST_MAX: usize = 216;

/// A recovery epoch of the volume: from one recovery to the next. The on-disk format and the code
/// call a recovery epoch a *life*.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Life {
    /// Number of the epoch.
    pub number: u32,
    /// Number that names the drive on which the epoch began; 0: unknown. A drive that was replaced
    /// so differs from its replacement.
    pub drive: u32,
    /// The first page of the ring, or position of the log, that was written in the epoch.
    pub began_at: u64,
    /// The first page of a log's index that was written in the epoch.
    pub index_began_at: u64,
}

/// Places of a superblock in its pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pair {
    /// Unknown: an earlier program wrote superblocks without pairs.
    Unknown,
    /// The first superblock of a pair.
    First,
    /// The second superblock of a pair: it repeats the first superblock.
    Second,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The volume's identity.
    pub volume: u64,
    /// Number of the superblock; its lowest bit is its turn.
    pub sequence: u64,
    /// Place of the superblock in its pair.
    pub pair: Pair,
    /// The first page of the ring that the slot table has not taken over. In a log, the first
    /// position that was not written back.
    pub tail: u64,
    /// The first page of a log's index that counts.
    pub index_tail: u64,
    /// Digest of the generations of all pages of the slot table
    /// ([`table::Digest`](super::table::Digest)).
    pub table: u64,
    /// CRC32C of the marks written with the superblock, in the area of the superblock's turn;
    /// `None`: no region is marked.
    pub marks: Option<u32>,
    /// The epochs in which the valid content was written, the oldest first. The last epoch is the
    /// present epoch.
    pub lives: Vec<Life>,
    /// Lost blocks, each with its lost eighths.
    pub lost: Vec<(Block, ValidMask)>,
}

const MAGIC: u32 = 0x736d_4942; // "BIms"

impl Superblock {
    /// Returns the first superblock of a new volume, or of an empty member that replaces another,
    /// in the epoch `life`, on the drive that the number `drive` names.
    pub fn first(volume: u64, life: u32, drive: u32) -> Self {
        Self {
            volume,
            sequence: 0,
            pair: Pair::First,
            tail: 0,
            index_tail: 0,
            table: 0,
            marks: None,
            lives: vec![Life { number: life, drive, ..Life::default() }],
            lost: Vec::new(),
        }
    }

    /// Returns the superblock that repeats this superblock in the other turn.
    pub fn second(&self) -> Self {
        Self { sequence: self.sequence + 1, pair: Pair::Second, ..self.clone() }
    }

    /// Returns the other superblock of the pair; `None` for a superblock that was written alone.
    /// The number after a superblock that was written alone belongs to a checkpoint that may have
    /// been cut short.
    pub fn twin(&self) -> Option<Self> {
        match self.pair {
            Pair::Second => Some(Self { sequence: self.sequence - 1, pair: Pair::First, ..self.clone() }),
            Pair::First => Some(self.second()),
            Pair::Unknown => None,
        }
    }

    /// Returns the largest number that the first superblock of the next pair may have.
    pub fn next_at_most(&self) -> u64 {
        self.sequence + if self.pair == Pair::First { 2 } else { 1 }
    }

    /// Returns the present epoch.
    pub fn life(&self) -> Life {
        self.lives.last().copied().unwrap_or_default()
    }

    /// Begins another epoch. Epochs without remaining content are forgotten. If too many epochs are
    /// left, two epochs are joined, and a page of either is accepted.
    pub fn begin_life(&mut self, life: Life) {
        for before in &mut self.lives {
            // An index that was cut short goes on where it was cut.
            before.index_began_at = before.index_began_at.min(life.index_began_at);
        }
        self.lives.push(life);
        self.forget_lives();
        if self.lives.len() > LIVES_MAX {
            self.lives.remove(1);
        }
    }

    /// Forgets the epochs of which no content counts any more.
    pub fn forget_lives(&mut self) {
        let (tail, index_tail) = (self.tail, self.index_tail);
        let is_over = |next: &Life| next.began_at <= tail && next.index_began_at <= index_tail;
        let over = self.lives.iter().skip(1).take_while(|next| is_over(next)).count();
        self.lives.drain(..over);
    }

    /// Returns the epochs in which the page of the ring, or segment of the log, at `position` can
    /// have been written.
    pub fn lives_at(&self, position: u64) -> std::ops::RangeInclusive<u32> {
        self.lives_where(|life| life.began_at <= position)
    }

    /// Returns the epochs in which the page `number` of a log's index can have been written.
    pub fn index_lives_at(&self, number: u64) -> std::ops::RangeInclusive<u32> {
        self.lives_where(|life| life.index_began_at <= number)
    }

    /// Returns the last epoch for which `has_begun` is true, and any epochs that were joined with
    /// that epoch. The first and the last bound of an epoch rise with the epoch's number.
    fn lives_where(&self, has_begun: impl Fn(&Life) -> bool) -> std::ops::RangeInclusive<u32> {
        let after = self.lives.partition_point(has_begun);
        let first = self.lives.get(after.saturating_sub(1)).copied().unwrap_or_default().number;
        let next = self.lives.get(after).map_or(first, |next| next.number.saturating_sub(1));
        first..=next.max(first)
    }

    /// Returns the superblock's turn, 0 or 1.
    pub fn turn(&self) -> u64 {
        self.sequence & 1
    }

    /// Returns the superblock as a page.
    pub fn encode(&self) -> Page {
        assert!(self.lost.len() <= LOST_MAX, "a superblock cannot name {} lost blocks", self.lost.len());
        assert!(self.lives.len() <= LIVES_MAX, "a superblock cannot name {} lives", self.lives.len());
        let mut bytes = page::begin(MAGIC, self.volume);
        let page: &mut SuperblockPage = view_mut(&mut bytes);
        page.head.count = (self.lost.len() as u16).into();
        page.head.number = self.sequence.into();
        page.head.life = self.life().number.into();
        page.tail = self.tail.into();
        page.index_tail = self.index_tail.into();
        page.table = self.table.into();
        page.marks = self.marks.unwrap_or_default().into();
        page.has_marks = self.marks.is_some().into();
        page.lives_count = self.lives.len() as u8;
        page.pair = self.pair as u8;
        for (place, life) in page.lives.iter_mut().zip(&self.lives) {
            *place = LifeBytes::new_zeroed();
            (place.life, place.began_at) = (life.number.into(), life.began_at.into());
            place.index_began_at = life.index_began_at.into();
            place.drive = life.drive.into();
        }
        for (place, (block, eighths)) in page.lost.iter_mut().zip(&self.lost) {
            *place = LostBytes::new_zeroed();
            (place.block, place.eighths) = (block.0.into(), eighths.0);
        }
        page::seal(&mut bytes);
        bytes
    }

    /// Returns the condition of a copy of a superblock of `volume`.
    pub(crate) fn found(turn: usize, page: Option<&Page>, volume: u64) -> Found<Self> {
        Found::of(turn, page, |page| {
            let superblock = Self::decode(page).ok().filter(|superblock| superblock.volume == volume)?;
            Some((superblock.sequence, superblock))
        })
    }

    /// Decodes a page.
    ///
    /// # Errors
    /// The page is not a superblock, is torn, or of another version.
    pub fn decode(bytes: &Page) -> Result<Self, PageError> {
        let volume = page::check(MAGIC, bytes)?;
        let page: &SuperblockPage = view(bytes);
        let life = |place: &LifeBytes| Life {
            number: place.life.get(),
            drive: place.drive.get(),
            began_at: place.began_at.get(),
            index_began_at: place.index_began_at.get(),
        };
        Ok(Self {
            volume,
            sequence: page.head.number.get(),
            pair: match page.pair {
                1 => Pair::First,
                2 => Pair::Second,
                _ => Pair::Unknown,
            },
            tail: page.tail.get(),
            index_tail: page.index_tail.get(),
            table: page.table.get(),
            marks: (page.has_marks != 0).then(|| page.marks.get()),
            lives: page.lives.iter().take(page.lives_count.into()).map(life).collect(),
            lost: page
                .lost
                .iter()
                .take(page.head.count.get().into())
                .map(|place| (Block(place.block.get()), ValidMask(place.eighths)))
                .collect(),
        })
    }

    /// Returns the volume of a superblock of version 1; `None` if `page` is not such a superblock.
    pub fn volume_of_version_1(page: &Page) -> Option<u64> {
        let found = page::check_any(MAGIC, page).ok();
        found.filter(|&(_, version)| version == page::VERSION_1).map(|(volume, _)| volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_life() -> impl Strategy<Value = Life> {
        let life = |(number, drive, began_at, index_began_at)| Life { number, drive, began_at, index_began_at };
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(life)
    }

    proptest! {
        #[test]
        fn superblock_reads_back(
            numbers: [u64; 5],
            pair in prop::sample::select(vec![Pair::Unknown, Pair::First, Pair::Second]),
            marks: Option<u32>,
            lives in proptest::collection::vec(any_life(), 0..=LIVES_MAX),
            lost in proptest::collection::vec((any::<u64>(), any::<u8>()), 0..=LOST_MAX),
        ) {
            let [volume, sequence, tail, index_tail, table] = numbers;
            let lost = lost.into_iter().map(|(block, eighths)| (Block(block), ValidMask(eighths))).collect();
            let superblock = Superblock { volume, sequence, pair, tail, index_tail, table, marks, lives, lost };
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }

        #[test]
        fn flipped_bit_is_noticed(at in 0..page::PAGE_BYTES, bit in 0u8..8) {
            let mut page = Superblock { sequence: 7, tail: 99, ..Superblock::first(5, 3, 9) }.encode();
            page[at] ^= 1 << bit;
            prop_assert!(Superblock::decode(&page).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), page::PAGE_BYTES)) {
            let _ = Superblock::decode(&page::tests::disguise(MAGIC, &bytes));
        }

        /// A page belongs to the epoch that wrote it, however many epochs a log has content from.
        /// The page is found as long as all epochs can be named in a superblock.
        #[test]
        fn lives_tell_who_wrote_a_position(gaps in proptest::collection::vec(0u64..3, 1..60), tail in 0u64..40) {
            let mut superblock = Superblock::first(1, 10, 0);
            let (mut began, mut wrote) = (0, Vec::new());
            for (life, gap) in (11..).zip(gaps) {
                // Pages that the previous epoch wrote behind its beginning.
                wrote.extend((began..began + gap).map(|position| (position, life - 1)));
                began += gap;
                superblock.tail = tail.min(began);
                superblock.index_tail = superblock.tail;
                superblock.begin_life(Life { number: life, drive: 0, began_at: began, index_began_at: began });
            }
            prop_assert!(superblock.lives.len() <= LIVES_MAX);
            for (position, life) in wrote.into_iter().filter(|&(position, _)| position >= superblock.tail) {
                prop_assert!(superblock.lives_at(position).contains(&life));
                prop_assert!(superblock.index_lives_at(position).contains(&life));
            }
            let present = superblock.life().number;
            prop_assert_eq!(superblock.lives_at(began), present..=present);
        }
    }
}
