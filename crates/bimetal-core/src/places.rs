//! The places of ranges of addresses that can change their home. Concatenated members are cut into
//! *places* of one range each. Each member has a spare place, so that a range can be copied before
//! it leaves its old place.
//!
//! A table, in pages that are written twice, records the place of each range. A range is copied to
//! a free place and made stable in this place. Then both copies of the range's page in the table of
//! places are written, first one copy and then the other. Only then is the old place free. So a
//! torn or damaged page loses nothing: the range is in the place that the undamaged copy names.
//! Both copies of all pages are written when the volume is made.
//!
//! Each page has a version, the number of its writings. A digest of all versions lies in the state
//! of a home without the table of places
//! ([`Layout::places_witness`](crate::layout::Layout::places_witness)). The digest is written after
//! the page, before the old place is free. So the table of places matches the digest, or one page
//! is one version ahead. A page that reverted to an earlier version in both copies fits neither
//! case, and the recovery refuses the table of places.

use std::collections::BTreeSet;

use crate::block::{Block, BlockRun, BlockSize};
use crate::journal::PAGE_SECTORS;
use crate::journal::page::{self, PAGE_BYTES, Page, PageError, put, u32_at, u64_at};
use crate::journal::table::Digest;
use crate::member::{HomeExtent, MemberId};
use crate::units::SectorRange;

/// Ranges in one page of the table of places.
const RANGES_PER_PAGE: usize = (PAGE_BYTES - 32) / 4;
const MAGIC: u32 = 0x6c70_4942; // "BIpl"
const FREE: u32 = u32::MAX;
/// Greatest version of a page that is read: 2^63 more writings fit before the number overflows.
const VERSION_MAX: u64 = u64::MAX / 2;

/// The places of all ranges. See the [module](self).
#[derive(Clone, Debug)]
pub struct Places {
    range_blocks: u64,
    range_sectors: u64,
    /// The members in order, each with the number of its first place.
    members: Vec<(MemberId, u32)>,
    places: u32,
    ranges: u32,
    /// Range in each place, [`FREE`] for an empty place. `place_of` has the place of each range.
    range_at: Moved,
    place_of: Moved,
    /// Places without a range.
    free: BTreeSet<u32>,
    /// The range being copied, and the free place that it is copied to.
    copying: Option<(u32, u32)>,
    /// Number of writings of each page of the table of places.
    versions: Vec<u64>,
}

/// Returns the pages of a table for `ranges` ranges, without their second copies.
pub(crate) fn table_pages(ranges: u64) -> u64 {
    ranges.div_ceil(RANGES_PER_PAGE as u64)
}

impl Places {
    /// Puts every range in its first place. Each of `members` has a number of places; its last
    /// place is spare.
    pub(crate) fn new(range_blocks: u64, block: BlockSize, members: &[(MemberId, u32)]) -> Self {
        let mut places = Self {
            range_blocks,
            range_sectors: range_blocks * block.sectors(),
            members: Vec::new(),
            places: 0,
            ranges: 0,
            range_at: Moved::default(),
            place_of: Moved::default(),
            free: BTreeSet::new(),
            copying: None,
            versions: Vec::new(),
        };
        for &(member, count) in members {
            places.members.push((member, places.places));
            places.places += count;
            places.ranges += count - 1;
            places.free.insert(places.places - 1);
        }
        places.versions = vec![0; table_pages(u64::from(places.ranges)) as usize];
        places
    }

    /// Returns the number of ranges.
    pub fn ranges(&self) -> u32 {
        self.ranges
    }

    /// Returns the place of `range`.
    pub(crate) fn place(&self, range: u32) -> u32 {
        debug_assert!(range < self.ranges, "range {range} of {}", self.ranges);
        self.place_of.get(range).unwrap_or_else(|| self.first_place(range))
    }

    /// Returns the range in `place`, [`FREE`] for an empty place.
    fn range_in(&self, place: u32) -> u32 {
        self.range_at.get(place).unwrap_or_else(|| self.first_range(place))
    }

    /// Returns the place in which `range` lies at first: each member before its own has a spare
    /// place.
    fn first_place(&self, range: u32) -> u32 {
        let members = self.members.iter().zip(0..);
        let up_to_its_own = members.take_while(|&(&(_, first), before)| first - before <= range).count();
        range + up_to_its_own as u32 - 1
    }

    /// Returns the range that lies in `place` at first.
    fn first_range(&self, place: u32) -> u32 {
        let member = self.member_index(place);
        if place + 1 == self.end_of(member) { FREE } else { place - member as u32 }
    }

    fn end_of(&self, member: usize) -> u32 {
        self.members.get(member + 1).map_or(self.places, |&(_, first)| first)
    }

    /// Returns the blocks of a range.
    pub fn range_blocks(&self) -> u64 {
        self.range_blocks
    }

    /// Returns the range of `block`.
    pub fn range_of(&self, block: Block) -> u32 {
        (block.0 / self.range_blocks) as u32
    }

    /// Returns all blocks of the range numbered `range`.
    pub fn blocks(&self, range: u32) -> BlockRun {
        BlockRun { first: Block(u64::from(range) * self.range_blocks), count: self.range_blocks }
    }

    /// Returns the member on which `range` lies.
    pub fn member_of(&self, range: u32) -> MemberId {
        self.members[self.member_index(self.place(range))].0
    }

    /// Returns the number of ranges on `member`, and the number of its places.
    pub fn held_by(&self, member: MemberId) -> (u32, u32) {
        let places = self.places_of(member);
        let (all, free) = (places.len() as u32, self.free.range(places).count() as u32);
        (all - free, all)
    }

    /// Returns the ranges on `member`, in order of place.
    pub(crate) fn ranges_on(&self, member: MemberId) -> impl Iterator<Item = u32> {
        self.places_of(member).map(|place| self.range_in(place)).filter(|&range| range != FREE)
    }

    fn member_index(&self, place: u32) -> usize {
        self.members.partition_point(|&(_, first)| first <= place) - 1
    }

    fn places_of(&self, member: MemberId) -> std::ops::Range<u32> {
        let index = self.members.iter().position(|&(id, _)| id == member).expect("a member with places");
        self.members[index].1..self.end_of(index)
    }

    /// Returns the member and first sector of a place.
    pub(crate) fn sector_of(&self, place: u32) -> (MemberId, u64) {
        let (member, first) = self.members[self.member_index(place)];
        (member, u64::from(place - first) * self.range_sectors)
    }

    /// Returns the member and sector of `block`, and the number of blocks from `block` on that are
    /// adjacent on that member.
    #[inline]
    pub(crate) fn home_of(&self, block: Block) -> (MemberId, u64, u64) {
        let (range, into) = (self.range_of(block), block.0 % self.range_blocks);
        let place = self.place(range);
        let (member, first) = self.sector_of(place);
        let mut run = self.range_blocks - into;
        let (mut next, end) = (1, self.places_of(member).end);
        // Ranges in adjacent places make one run, up to a limit that covers any request.
        while next < 16 && place + next < end && self.range_in(place + next) == range + next {
            run += self.range_blocks;
            next += 1;
        }
        (member, first + into * (self.range_sectors / self.range_blocks), run)
    }

    /// Returns the extents of all ranges in their present places, and of the range being copied.
    /// Ranges in adjacent places make one extent.
    pub(crate) fn extents(&self) -> Vec<HomeExtent> {
        let lies = (0..self.ranges).map(|range| (range, self.place(range)));
        let mut extents: Vec<HomeExtent> = Vec::new();
        for (range, place) in lies.chain(self.copying) {
            let (blocks, (member, first_sector)) = (self.blocks(range), self.sector_of(place));
            match extents.last_mut() {
                Some(last)
                    if last.member == member
                        && last.blocks.end() == blocks.first.0
                        && last.first_sector + last.blocks.count / self.range_blocks * self.range_sectors
                            == first_sector =>
                {
                    last.blocks.count += blocks.count;
                }
                _ => extents.push(HomeExtent { blocks, member, first_sector }),
            }
        }
        extents
    }

    /// Returns a free place on `member` that `may_use` allows, preferably after the place of the
    /// range before `range`.
    pub(crate) fn free_on(&self, member: MemberId, range: u32, may_use: impl Fn(u32) -> bool) -> Option<u32> {
        let is_free = |&place: &u32| self.range_in(place) == FREE && may_use(place);
        let behind = range.checked_sub(1).map(|before| self.place(before) + 1);
        let places = self.places_of(member);
        let mut free = self.free.range(places.clone()).copied();
        behind.filter(|place| places.contains(place)).filter(is_free).or_else(|| free.find(is_free))
    }

    /// Sets the range being copied and its new place, or `None`.
    pub(crate) fn set_copying(&mut self, copying: Option<(u32, u32)>) {
        self.copying = copying;
    }

    /// Returns the page of the table of places with `range` at `place`: its number and its bytes.
    pub(crate) fn page_with(&self, range: u32, place: u32, volume: u64) -> (usize, Page) {
        let number = range as usize / RANGES_PER_PAGE;
        let new = |at: u32, old: u32| if at == range { place } else { old };
        (number, self.encode(number, self.versions[number] + 1, volume, new))
    }

    /// Returns a page of the table of places as it is now.
    pub(crate) fn page(&self, number: usize, volume: u64) -> Page {
        self.encode(number, self.versions[number], volume, |_, place| place)
    }

    fn encode(&self, number: usize, version: u64, volume: u64, place_of: impl Fn(u32, u32) -> u32) -> Page {
        let mut page = page::begin(MAGIC, volume);
        let head = page::head_mut(&mut page);
        (head.number, head.life) = (version.into(), (number as u32).into());
        for (at, range) in self.ranges_of_page(number).enumerate() {
            put(&mut page, 32 + 4 * at, place_of(range, self.place(range)).to_le_bytes());
        }
        page::seal(&mut page);
        page
    }

    /// Returns the ranges of a page of the table of places.
    fn ranges_of_page(&self, number: usize) -> std::ops::Range<u32> {
        let first = (number * RANGES_PER_PAGE) as u32;
        first..self.ranges.min(first + RANGES_PER_PAGE as u32)
    }

    /// Moves `range` to `place`.
    pub(crate) fn set(&mut self, range: u32, place: u32) {
        let old = self.place(range);
        assert_eq!(self.range_in(place), FREE, "place {place} is in use");
        self.place_of.set(range, place);
        self.range_at.set(old, FREE);
        self.range_at.set(place, range);
        self.free.remove(&place);
        self.free.insert(old);
        self.versions[range as usize / RANGES_PER_PAGE] += 1;
        self.copying = None;
    }

    /// Returns all pages of the table of places as it is now, each with the numbers of page and
    /// copy.
    pub(crate) fn pages_twice(&self, volume: u64) -> impl Iterator<Item = (usize, usize, Page)> {
        (0..self.pages()).flat_map(move |number| [0, 1].map(|copy| (number, copy, self.page(number, volume))))
    }

    /// Returns the number of writings of a page.
    pub(crate) fn version(&self, number: usize) -> u64 {
        self.versions[number]
    }

    /// Returns the number of pages of the table of places, without their second copies.
    pub(crate) fn pages(&self) -> usize {
        self.versions.len()
    }

    /// Returns the digest of the versions of all pages. The digest is never 0, up to chance.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for (number, &version) in self.versions.iter().enumerate() {
            digest.toggle(number as u32, version + 1);
        }
        digest.0
    }

    /// Returns the digest of the versions once the page of `range` has been written again.
    pub(crate) fn digest_with(&self, range: u32) -> u64 {
        let number = range as usize / RANGES_PER_PAGE;
        stepped(self.digest(), number, self.versions[number])
    }

    /// Returns true if the table of places is as it was when `recorded` was its digest, or if one
    /// page has been written since. A digest of 0 was never recorded.
    pub(crate) fn fits(&self, recorded: u64) -> bool {
        let digest = self.digest();
        let is_behind =
            |(number, &version): (usize, &u64)| version > 0 && stepped(digest, number, version - 1) == recorded;
        recorded == 0 || digest == recorded || self.versions.iter().enumerate().any(is_behind)
    }

    /// Loads a page of the table of places: the newer of two copies, or `None` if the page was
    /// never written. Returns false if the page names an impossible place, or has a version that no
    /// table reaches.
    pub(crate) fn load(&mut self, number: usize, page: Option<&Page>) -> bool {
        let Some(page) = page else { return true };
        self.versions[number] = u64_at(page, 16);
        for (at, range) in self.ranges_of_page(number).enumerate() {
            let place = u32_at(page, 32 + 4 * at);
            if place >= self.places {
                return false;
            }
            if place != self.place(range) {
                self.place_of.set(range, place);
            }
        }
        self.versions[number] <= VERSION_MAX
    }

    /// Completes [`load`](Self::load) of all pages. Returns false if two ranges have the same
    /// place.
    pub(crate) fn settle(&mut self) -> bool {
        self.range_at = Moved::default();
        let mut is_taken = vec![false; self.places as usize];
        for range in 0..self.ranges {
            let place = self.place(range);
            if std::mem::replace(&mut is_taken[place as usize], true) {
                return false;
            }
            if self.range_in(place) != range {
                self.range_at.set(place, range);
            }
        }
        self.free = (0..self.places).filter(|&place| !is_taken[place as usize]).collect();
        for &place in &self.free {
            self.range_at.set(place, FREE);
        }
        true
    }
}

impl PartialEq for Places {
    fn eq(&self, other: &Self) -> bool {
        let of = |places: &Self| (places.range_blocks, places.range_sectors, places.copying, places.ranges);
        of(self) == of(other)
            && (&self.members, &self.free, &self.versions) == (&other.members, &other.free, &other.versions)
            && (0..self.ranges).all(|range| self.place(range) == other.place(range))
    }
}

impl Eq for Places {}

/// Numbers that are no longer what they were at first. Most ranges never move, so only pages with
/// such a number take memory.
#[derive(Clone, Debug, Default)]
struct Moved(Vec<Option<Box<[u32; MOVED_PAGE]>>>);

/// Numbers in a page of [`Moved`].
const MOVED_PAGE: usize = 1024;
/// Stands for a number that is as it was at first.
const AS_AT_FIRST: u32 = FREE - 1;

impl Moved {
    fn get(&self, at: u32) -> Option<u32> {
        let page = self.0.get(at as usize / MOVED_PAGE)?.as_ref()?;
        Some(page[at as usize % MOVED_PAGE]).filter(|&number| number != AS_AT_FIRST)
    }

    fn set(&mut self, at: u32, to: u32) {
        let page = at as usize / MOVED_PAGE;
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        let page = self.0[page].get_or_insert_with(|| Box::new([AS_AT_FIRST; MOVED_PAGE]));
        page[at as usize % MOVED_PAGE] = to;
    }
}

/// Returns `digest` with the versions `version` and `version` + 1 of page `number` exchanged.
fn stepped(digest: u64, number: usize, version: u64) -> u64 {
    let mut digest = Digest(digest);
    digest.toggle(number as u32, version + 1);
    digest.toggle(number as u32, version + 2);
    digest.0
}

/// Returns the place of a copy of a page of the table of places, in a region of metadata that
/// begins at `first_sector`.
pub(crate) fn page_place(first_sector: u64, number: usize, copy: usize) -> SectorRange {
    SectorRange::new(first_sector + (2 * number + copy) as u64 * PAGE_SECTORS, PAGE_SECTORS)
}

/// A page of the table of places, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TablePage {
    /// Number of the page in the table of places.
    pub number: u32,
    /// Number of writings of the page.
    pub version: u64,
    /// Place of each range, from the first range of the page on. Entries after the last range are
    /// 0.
    pub places: Vec<u32>,
}

/// Decodes a page of the table of places.
///
/// # Errors
/// The page is not a page of such a table, is torn, or of a later version.
pub fn decode_page(page: &Page) -> Result<TablePage, PageError> {
    page::check_any(MAGIC, page)?;
    let head = page::head(page);
    let places = (0..RANGES_PER_PAGE).map(|at| u32_at(page, 32 + 4 * at)).collect();
    Ok(TablePage { number: head.life.get(), version: head.number.get(), places })
}

/// Returns the version of a page, if it is page `number` of this volume's table.
pub(crate) fn version_of(page: &Page, number: usize, volume: u64) -> Option<u64> {
    // The pages of both versions of the format are the same.
    let (of, _) = page::check_any(MAGIC, page).ok()?;
    let head = page::head(page);
    (of == volume && head.life.get() as usize == number).then(|| head.number.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places() -> Places {
        Places::new(256, BlockSize::default(), &[(MemberId(0), 4), (MemberId(1), 3000)])
    }

    /// Ranges lie in order of address until they move. Each member has a spare place.
    #[test]
    fn ranges_lie_in_order_and_each_member_has_a_spare_place() {
        let mut places = places();
        assert_eq!(places.ranges(), 3 + 2999);
        assert_eq!(places.home_of(Block(256)), (MemberId(0), 2048, 512));
        assert_eq!(places.home_of(Block(3 * 256 + 1)), (MemberId(1), 8, 16 * 256 - 1));
        let spare = places.free_on(MemberId(0), 100, |_| true).unwrap();
        assert_eq!(places.sector_of(spare), (MemberId(0), 3 * 2048));
        places.set(100, spare);
        assert_eq!(places.member_of(100), MemberId(0));
        assert_eq!(places.held_by(MemberId(0)), (4, 4));
        assert_eq!(places.free_on(MemberId(0), 5, |_| true), None);
        assert!(places.free_on(MemberId(1), 0, |_| true).is_some());
    }

    /// A forged page with a right checksum and the greatest number for its version ended the
    /// program: the next version overflowed.
    #[test]
    fn page_with_impossible_version_is_refused() {
        for (version, possible) in [(0, true), (VERSION_MAX, true), (VERSION_MAX + 1, false), (u64::MAX, false)] {
            let mut table = places();
            table.versions[0] = version;
            let page = table.page(0, 7);
            assert_eq!(places().load(0, Some(&page)), possible, "version {version}");
        }
    }

    proptest! {
        #[test]
        fn a_table_reads_back_from_its_pages(moves in proptest::collection::vec((0u32..3002, any::<bool>()), 0..60)) {
            let mut places = places();
            let mut pages = vec![None; places.pages()];
            for (range, to) in moves {
                let Some(place) = places.free_on(MemberId(u16::from(to)), range, |_| true) else { continue };
                let (number, page) = places.page_with(range, place, 7);
                prop_assert_eq!(version_of(&page, number, 7), Some(places.versions[number] + 1));
                prop_assert_eq!(version_of(&page, number, 8), None);
                let decoded = decode_page(&page).unwrap();
                prop_assert_eq!((decoded.number as usize, decoded.version), (number, places.versions[number] + 1));
                prop_assert_eq!(decoded.places[range as usize % RANGES_PER_PAGE], place);
                pages[number] = Some(page);
                places.set(range, place);
            }
            let mut read = self::places();
            for (number, page) in pages.iter().enumerate() {
                prop_assert!(read.load(number, page.as_ref()));
            }
            prop_assert!(read.settle());
            prop_assert_eq!(read, places);
        }

        #[test]
        fn digest_fits_same_table_and_one_step_behind_alone(
            versions in proptest::collection::vec(0u64..9, 1..9),
            recorded in proptest::collection::vec(0u64..9, 9),
        ) {
            let with = |versions: &[u64]| Places { versions: versions.to_vec(), ..places() };
            let recorded = &recorded[..versions.len()];
            let differ = versions.iter().zip(recorded).filter(|(a, b)| a != b);
            let ahead = versions.iter().zip(recorded).filter(|&(&a, &b)| a == b + 1).count();
            let expected = differ.count() == ahead && ahead < 2;
            prop_assert_eq!(with(&versions).fits(with(recorded).digest()), expected);
            prop_assert!(with(&versions).fits(0));
            let next = places().digest_with(2000);
            prop_assert_eq!(next, with(&[0, 1, 0]).digest());
        }
    }
}
