//! Damage to data at rest on drives: the pages that may be damaged, the kinds of damage, and the
//! fair combinations.
//!
//! A page is 4 KiB of the engine's metadata, or of a slot. The data of a home are never damaged,
//! because they have no checksum. A page's magic word tells its structure. Without a magic word,
//! the region that the page lies in tells the structure.
//!
//! One damaged page of metadata must cost nothing. With several damaged pages, requests may fail or
//! the volume may be refused, but old content must never be returned without an error. Two
//! combinations are undetectable for any engine, so no case has them:
//! - The first combination: some pages of a structure are put back to an earlier state while other
//!   pages are damaged. The result of such damage may be a consistent older image. One page may be
//!   put back in both copies if another page proves that the page is old (a witness).
//! - The second combination: the newest page of a structure, or a page of records that no later
//!   page declares stable, has no sound copy. The loss of such a page looks as if the power was cut
//!   before the page was written.
//!
//! A power cut may tear the second copy of a page of the slot table or of the table of places,
//! after its first copy was written. A damaged first copy is then the second bad copy of its page,
//! and counts as several damaged pages.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bimetal_core::block_map::Slot;
use bimetal_core::journal::PAGE_SECTORS;
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::units::{SECTOR_BYTES, SectorRange};

use crate::drive::Drive;
use crate::older::DEPTH;
use crate::payload::Sector;
use crate::random::Random;
use crate::regions::{Region, region_of};

const SECTOR: usize = SECTOR_BYTES as usize;
/// Largest number of draws of a damage, if the drawn damage changes nothing or is not fair.
const DRAWS_MAX: u32 = 40;

/// Structure that a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Structure {
    /// State of the volume, on home members.
    State,
    /// Superblocks of a cache or a log.
    Superblock,
    /// Ring of records of a cache.
    Ring,
    /// Slot table of a cache, or its marks.
    Table,
    /// Index of a log.
    Index,
    /// Head or foot of a log's segment, which list the segment's blocks.
    Segment,
    /// Table of places.
    Places,
    /// Zeroed space for metadata.
    Blank,
    /// Content of a block off its home.
    Slot,
}

/// All structures, in the order of their numbers.
pub const STRUCTURES: [Structure; 9] = [
    Structure::State,
    Structure::Superblock,
    Structure::Ring,
    Structure::Table,
    Structure::Index,
    Structure::Segment,
    Structure::Places,
    Structure::Blank,
    Structure::Slot,
];

impl Structure {
    /// Returns the name of the structure.
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Superblock => "superblock",
            Self::Ring => "ring",
            Self::Table => "table or marks",
            Self::Index => "index",
            Self::Segment => "segment",
            Self::Places => "places",
            Self::Blank => "blank",
            Self::Slot => "slot",
        }
    }

    /// Returns true if another page tells that both copies of a page are from an earlier time: the
    /// other turn, the state or the superblock.
    const fn has_witness(self) -> bool {
        matches!(self, Self::State | Self::Places | Self::Table | Self::Superblock)
    }

    /// Returns the structure of a page in `region` that begins with `bytes`; `None` if the page was
    /// not written as metadata.
    fn of(region: Region, bytes: Option<&[u8]>) -> Self {
        match (region, bytes.map(|bytes| &bytes[..4])) {
            (_, Some(b"BImt")) => Self::State,
            (_, Some(b"BIms")) => Self::Superblock,
            (_, Some(b"BIpl")) => Self::Places,
            (Region::Slots(_), Some(_)) => Self::Segment,
            (Region::Slots(_), None) => Self::Slot,
            (_, Some(b"BImx")) => Self::Index,
            (_, Some(b"BImj")) => Self::Ring,
            (_, Some(_)) => Self::Table,
            (_, None) => Self::Blank,
        }
    }
}

/// Kind of damage to a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// One bit of a sector is inverted.
    FlippedBit,
    /// A sector holds zeroes.
    ZeroedSector,
    /// The page holds zeroes.
    ZeroedPage,
    /// A sector holds random content.
    RandomSector,
    /// The page holds random content.
    RandomPage,
    /// The page and another page changed places.
    SwappedPages,
    /// A sector holds the content of some writes ago.
    EarlierSector,
    /// The page holds the content of some writes ago.
    EarlierPage,
    /// The page and its copy hold the content of some writes ago.
    EarlierCopies,
    /// A sector cannot be read.
    UnreadableSector,
    /// The page cannot be read.
    UnreadablePage,
}

/// All kinds, in the order of their numbers.
pub const KINDS: [Kind; 11] = [
    Kind::FlippedBit,
    Kind::ZeroedSector,
    Kind::ZeroedPage,
    Kind::RandomSector,
    Kind::RandomPage,
    Kind::SwappedPages,
    Kind::EarlierSector,
    Kind::EarlierPage,
    Kind::EarlierCopies,
    Kind::UnreadableSector,
    Kind::UnreadablePage,
];

impl Kind {
    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlippedBit => "flipped bit",
            Self::ZeroedSector => "zeroed sector",
            Self::ZeroedPage => "zeroed page",
            Self::RandomSector => "random sector",
            Self::RandomPage => "random page",
            Self::SwappedPages => "swapped pages",
            Self::EarlierSector => "earlier sector",
            Self::EarlierPage => "earlier page",
            Self::EarlierCopies => "earlier copies",
            Self::UnreadableSector => "unreadable sector",
            Self::UnreadablePage => "unreadable page",
        }
    }

    const fn is_of_a_sector(self) -> bool {
        matches!(
            self,
            Self::FlippedBit | Self::ZeroedSector | Self::RandomSector | Self::EarlierSector | Self::UnreadableSector
        )
    }

    /// Returns true if reads of the page fail until it is written.
    pub(crate) const fn is_unreadable(self) -> bool {
        matches!(self, Self::UnreadableSector | Self::UnreadablePage)
    }

    const fn is_earlier(self) -> bool {
        matches!(self, Self::EarlierSector | Self::EarlierPage | Self::EarlierCopies)
    }
}

/// Identity of a sound page among the pages of its structure: the epoch (called life in the format)
/// and the number within the epoch.
type Stamp = (u32, u64);

/// A page that may be damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Member that has the page.
    pub member: u16,
    /// First sector of the page.
    pub sector: u64,
    /// Structure that the page belongs to.
    pub structure: Structure,
    /// Slot that the page is a part of.
    pub slot: Option<Slot>,
    stamp: Option<Stamp>,
    /// First page or position that a page of records does not record as stable.
    stable: u64,
}

impl Page {
    fn sectors(&self) -> std::ops::Range<u64> {
        self.sector..self.sector + PAGE_SECTORS
    }

    /// Returns true if the page has a magic word and a valid checksum.
    pub fn is_sound(&self) -> bool {
        self.stamp.is_some()
    }

    /// Returns true if the page is metadata, or space for metadata.
    pub fn is_metadata(&self) -> bool {
        self.structure != Structure::Slot
    }

    /// Replaces the page by zeroes.
    pub(crate) fn lose(&self, drives: &mut [Drive]) {
        self.sectors().for_each(|sector| drives[usize::from(self.member)].replace(sector, Sector::Zero));
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.is_metadata() && (self.member, self.structure) == (other.member, other.structure)
    }
}

/// Returns every page of metadata, and of written slots.
pub fn survey(layout: &Layout, drives: &[Drive]) -> Vec<Page> {
    let mut pages = Vec::new();
    for (member, drive) in (0u16..).zip(drives) {
        let mut add = |sectors: SectorRange, slot_sectors: Option<u64>| {
            for sector in (sectors.start.0..sectors.end().0.min(drive.capacity())).step_by(PAGE_SECTORS as usize) {
                let first = drive.content(sector);
                if sector + PAGE_SECTORS > drive.capacity() || (slot_sectors.is_some() && first == Sector::Zero) {
                    continue;
                }
                let range = SectorRange::new(sector, PAGE_SECTORS);
                let Some(region) = region_of(layout, MemberId(member), drive.capacity(), range) else { continue };
                let structure = Structure::of(region, first.metadata());
                let slot = slot_sectors.map(|len| Slot(((sector - sectors.start.0) / len) as u32));
                let stamp = stamp_of(drive, sector);
                let is_of_records = matches!(structure, Structure::Ring | Structure::Segment) && stamp.is_some();
                let bytes = bytes_of(drive, sector).filter(|_| is_of_records);
                let stable = bytes.and_then(|bytes| Some(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)));
                pages.push(Page { member, sector, structure, slot, stamp, stable: stable.unwrap_or(0) });
            }
        };
        if let Some(slots) = layout.slots.filter(|slots| slots.member.0 == member) {
            let len = layout.block.sectors();
            add(SectorRange::new(slots.first_sector, u64::from(slots.count) * len), Some(len));
        }
        if let Some(metadata) = layout.metadata.filter(|metadata| metadata.member.0 == member) {
            add(SectorRange::new(metadata.first_sector, metadata.sectors), None);
        }
        let tail = layout.tails[usize::from(member)];
        add(SectorRange::new(tail, drive.capacity() - tail), None);
    }
    // In the tails, keep only pages that were written.
    pages.retain(|page| page.structure != Structure::Blank || page.sector < layout.tails[usize::from(page.member)]);
    pages
}

/// Returns true if a power cut has torn a page of the slot table or of the table of places, and one
/// of `damages` is of a page of the same table. `drives` are as they were before the damage.
pub fn is_beside_torn_page(damages: &[Damage], pages: &[Page], drives: &[Drive]) -> bool {
    // The marks have no magic word, and no stamp.
    let is_of_slot_table = |page: &Page| {
        let first = drives[usize::from(page.member)].content(page.sector);
        page.structure == Structure::Table && first.metadata().is_some_and(|bytes| bytes.starts_with(b"BItb"))
    };
    let is_of_table = |page: &Page| page.structure == Structure::Places || is_of_slot_table(page);
    let torn: Vec<&Page> = pages.iter().filter(|page| page.stamp.is_none() && is_of_table(page)).collect();
    let mut damaged = damages.iter().flat_map(|damage| &damage.pages);
    damaged.any(|page| torn.iter().any(|torn| torn.is_beside(page)))
}

/// Returns the bytes of a page on `drive`, if all of it is readable metadata.
pub(crate) fn bytes_of(drive: &Drive, sector: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAGE_SECTORS as usize * SECTOR);
    for at in sector..sector + PAGE_SECTORS {
        if drive.is_unreadable(at) {
            return None;
        }
        bytes.extend_from_slice(drive.content(at).metadata()?);
    }
    Some(bytes)
}

/// Returns the stamp of a page with a magic word and a valid checksum.
fn stamp_of(drive: &Drive, sector: u64) -> Option<Stamp> {
    let first = drive.content(sector);
    first.metadata().filter(|bytes| bytes.starts_with(b"BI"))?;
    let bytes = bytes_of(drive, sector)?;
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let sound = number(28) == crc32c::crc32c_append(crc32c::crc32c(&bytes[..28]), &bytes[32..]);
    sound.then(|| (number(24), u64::from(number(20)) << 32 | u64::from(number(16))))
}

/// Content of a sector after damage.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    Becomes(Sector),
    Unreadable,
}

/// Damage to a page, or to two pages that change places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Kind of the damage.
    pub kind: Kind,
    /// The damaged page, or both swapped pages.
    pub pages: Vec<Page>,
    changes: Vec<(u16, u64, Change)>,
    /// Number of copies of the first page on its member, itself included, and the position of the
    /// first page among these copies.
    copies: (usize, usize),
}

impl Damage {
    /// Applies the damage.
    pub fn happen(&self, drives: &mut [Drive]) {
        for (member, sector, change) in &self.changes {
            let drive = &mut drives[usize::from(*member)];
            match change {
                Change::Becomes(value) => drive.replace(*sector, value.clone()),
                Change::Unreadable => drive.spoil(*sector),
            }
        }
    }

    fn draw(pages: &[Page], drives: &[Drive], random: &mut Random) -> Option<Self> {
        let structure = draw_structure(pages, random);
        let of_structure: Vec<&Page> = pages.iter().filter(|page| page.structure == structure).collect();
        let page = random.pick(&of_structure);
        let kind = random.pick(&KINDS);
        let mut chosen = vec![page.clone()];
        if kind == Kind::SwappedPages {
            let near = random.one_in(2);
            let other = |other: &&Page| {
                other.member == page.member && *other != page && (!near || other.structure == page.structure)
            };
            let others: Vec<&Page> = pages.iter().filter(other).collect();
            if others.is_empty() {
                return None;
            }
            chosen.push(random.pick(&others).clone());
        }
        if kind == Kind::EarlierCopies {
            chosen.extend(copies_of(page, pages).cloned());
            if chosen.len() < 2 || !structure.has_witness() {
                return None;
            }
        }
        let changes = draw_changes(kind, &chosen, drives, random);
        let copies = (
            1 + copies_of(page, pages).count(),
            copies_of(page, pages).filter(|copy| copy.sector < page.sector).count(),
        );
        (!changes.is_empty()).then_some(Self { kind, changes, copies, pages: chosen })
    }
}

/// Returns the other pages with the same content as `page`.
pub fn copies_of<'a>(page: &'a Page, pages: &'a [Page]) -> impl Iterator<Item = &'a Page> {
    pages.iter().filter(|other| {
        other.is_beside(page) && other.sector != page.sector && page.stamp.is_some() && other.stamp == page.stamp
    })
}

/// Draws a structure. All structures are equally likely, except that blank pages are rare.
fn draw_structure(pages: &[Page], random: &mut Random) -> Structure {
    let there: BTreeSet<Structure> = pages.iter().map(|page| page.structure).collect();
    let there: Vec<Structure> = there.into_iter().collect();
    let weight = |structure: &Structure| if *structure == Structure::Blank { 1 } else { 8 };
    let weights: Vec<u64> = there.iter().map(weight).collect();
    there[random.weighted(&weights)]
}

/// Draws the changes of sectors. Sectors that would stay as they are have no change.
fn draw_changes(kind: Kind, pages: &[Page], drives: &[Drive], random: &mut Random) -> Vec<(u16, u64, Change)> {
    let writes = random.between(1, DEPTH as u64) as usize;
    if kind == Kind::EarlierCopies {
        return pages
            .iter()
            .flat_map(|page| draw_page_changes(kind, std::slice::from_ref(page), writes, drives, random))
            .collect();
    }
    draw_page_changes(kind, pages, writes, drives, random)
}

/// Draws the changes of the sectors of one page, or of two pages that change places.
fn draw_page_changes(
    kind: Kind,
    pages: &[Page],
    writes: usize,
    drives: &[Drive],
    random: &mut Random,
) -> Vec<(u16, u64, Change)> {
    let page = &pages[0];
    let drive = &drives[usize::from(page.member)];
    let mut sectors = page.sectors();
    if kind.is_of_a_sector() {
        let sector = page.sector + random.below(PAGE_SECTORS);
        sectors = sector..sector + 1;
    }
    let mut changes = Vec::new();
    for sector in sectors {
        let old = drive.content(sector);
        let becomes = match kind {
            Kind::FlippedBit => flipped(page, sector, &old, random),
            Kind::ZeroedSector | Kind::ZeroedPage => Sector::Zero,
            Kind::RandomSector | Kind::RandomPage => anything(page, sector, random),
            Kind::EarlierSector | Kind::EarlierPage | Kind::EarlierCopies => {
                drive.older(sector, writes).unwrap_or(&old).clone()
            }
            Kind::UnreadableSector | Kind::UnreadablePage => {
                changes.push((page.member, sector, Change::Unreadable));
                continue;
            }
            Kind::SwappedPages => {
                let there = pages[1].sector + (sector - page.sector);
                let other = drive.content(there);
                if other != old {
                    changes.push((page.member, there, Change::Becomes(old)));
                    changes.push((page.member, sector, Change::Becomes(other)));
                }
                continue;
            }
        };
        if becomes != old {
            changes.push((page.member, sector, Change::Becomes(becomes)));
        }
    }
    changes
}

fn flipped(page: &Page, sector: u64, old: &Sector, random: &mut Random) -> Sector {
    let (byte, bit) = (random.below(SECTOR_BYTES) as usize, random.below(8));
    if !page.is_metadata() {
        return Sector::Rotten(sector as u32);
    }
    let mut bytes = old.metadata().map_or_else(|| vec![0; SECTOR], <[u8]>::to_vec);
    bytes[byte] ^= 1 << bit;
    Sector::Metadata { bytes: Arc::new(bytes), at: 0 }
}

fn anything(page: &Page, sector: u64, random: &mut Random) -> Sector {
    if !page.is_metadata() {
        return Sector::Rotten(sector as u32);
    }
    let bytes = (0..SECTOR / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
    Sector::Metadata { bytes: Arc::new(bytes), at: 0 }
}

/// Draws `count` damages of different pages that together are fair, or as many as are found.
pub fn draw(count: usize, pages: &[Page], drives: &[Drive], random: &mut Random) -> Vec<Damage> {
    let mut damages: Vec<Damage> = Vec::new();
    for _ in 0..count {
        for _ in 0..DRAWS_MAX {
            let Some(damage) = Damage::draw(pages, drives, random) else { continue };
            let is_damaged = |page: &Page| damages.iter().any(|damage| damage.pages.contains(page));
            if damage.pages.iter().any(is_damaged) {
                continue;
            }
            damages.push(damage);
            if is_fair(&damages, pages) {
                break;
            }
            damages.pop();
        }
    }
    damages
}

/// Returns true if an engine can detect these damages. See the [module](self).
fn is_fair(damages: &[Damage], pages: &[Page]) -> bool {
    let damaged: Vec<(&Damage, &Page)> =
        damages.iter().flat_map(|damage| damage.pages.iter().map(move |page| (damage, page))).collect();
    if metadata_pages(damages) < 2 {
        return true;
    }
    let is_alone = |page: &Page| damaged.iter().filter(|(_, other)| other.is_beside(page)).count() < 2;
    let has_sound_newest = |page: &Page| {
        let newest = pages.iter().filter(|other| other.is_beside(page)).filter_map(|other| other.stamp).max();
        let is_damaged = |copy: &Page| damaged.iter().any(|(_, page)| *page == copy);
        let mut copies = pages.iter().filter(|other| other.is_beside(page) && other.stamp == newest);
        newest.is_none() || copies.any(|copy| !is_damaged(copy))
    };
    // A swapped page is useless at its place.
    let is_damaged = |copy: &Page| damaged.iter().any(|(_, page)| *page == copy);
    let is_proven = |page: &Page, (life, number): Stamp| {
        let beside = || pages.iter().filter(|other| other.is_beside(page) && !is_damaged(other));
        let proves = |other: &Page| other.stamp.is_some_and(|(of, _)| of == life) && other.stable > number;
        beside().any(proves) || beside().any(|other| other.stamp == Some((life, number)))
    };
    let of_records = |page: &Page| matches!(page.structure, Structure::Ring | Structure::Segment);
    damaged.iter().all(|(damage, page)| {
        let known = !of_records(page) || page.stamp.is_none_or(|stamp| is_proven(page, stamp));
        if damage.kind == Kind::EarlierCopies {
            return damaged.iter().all(|(other, beside)| other == damage || !beside.is_beside(page));
        }
        known && (!damage.kind.is_earlier() || is_alone(page)) && has_sound_newest(page)
    })
}

/// Returns the number of damaged pages of metadata. Swapped pages count as two.
pub fn metadata_pages(damages: &[Damage]) -> usize {
    damages.iter().flat_map(|damage| &damage.pages).filter(|page| page.is_metadata()).count()
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.name())?;
        for (at, page) in self.pages.iter().enumerate() {
            let and = if at == 0 { "" } else { " and " };
            write!(f, "{and}{page}")?;
        }
        if let (copies @ 2.., which) = self.copies {
            write!(f, ", copy {} of {copies}", which + 1)?;
        }
        let sectors: Vec<String> = self.changes.iter().map(|(_, sector, _)| sector.to_string()).collect();
        write!(f, " (sectors {})", sectors.join(" "))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} page", self.structure.name())?;
        if let Some((life, number)) = self.stamp {
            write!(f, " {number} of life {life}")?;
        }
        if let Some(Slot(slot)) = self.slot {
            write!(f, " in slot {slot}")?;
        }
        write!(f, " at sector {} of member {}", self.sector, self.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(sector: u64, number: u64) -> Page {
        Page { member: 0, sector, structure: Structure::Ring, slot: None, stamp: Some((1, number)), stable: number }
    }

    fn damage(kind: Kind, page: &Page) -> Damage {
        Damage { kind, pages: vec![page.clone()], changes: Vec::new(), copies: (1, 0) }
    }

    /// Returns a ring with two copies of each of the pages 1 to 3.
    fn ring() -> Vec<Page> {
        (0..6).map(|at| page(8 * at, 1 + at / 2)).collect()
    }

    #[test]
    fn newest_page_keeps_a_sound_copy() {
        let pages = ring();
        let zeroed =
            |at: &[usize]| -> Vec<Damage> { at.iter().map(|&at| damage(Kind::ZeroedPage, &pages[at])).collect() };
        assert!(is_fair(&zeroed(&[4]), &pages));
        assert!(is_fair(&zeroed(&[2, 3]), &pages), "a page behind it says that there was one");
        assert!(is_fair(&zeroed(&[0, 1, 2, 4]), &pages));
        assert!(!is_fair(&zeroed(&[4, 5]), &pages));
    }

    #[test]
    fn earlier_page_is_damaged_alone_in_its_structure() {
        let mut pages = ring();
        let earlier = damage(Kind::EarlierPage, &pages[0]);
        let zeroed = damage(Kind::ZeroedPage, &pages[2]);
        assert!(is_fair(std::slice::from_ref(&earlier), &pages));
        assert!(!is_fair(&[earlier.clone(), zeroed], &pages));
        pages[2].structure = Structure::Superblock;
        let elsewhere = damage(Kind::ZeroedPage, &pages[2]);
        pages[3].structure = Structure::Superblock;
        assert!(is_fair(&[earlier, elsewhere], &pages));
    }

    #[test]
    fn swapped_pages_count_as_two() {
        let pages = ring();
        let mut swapped = damage(Kind::SwappedPages, &pages[0]);
        swapped.pages.push(pages[2].clone());
        assert_eq!(metadata_pages(&[swapped]), 2);
    }
}
