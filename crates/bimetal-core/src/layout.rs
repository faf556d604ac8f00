//! The layout of a volume: the units that it exports, its members, and the regions on the members.
//!
//! Home data lies at its own address from byte 0 of its member. The engine's own data (the slot
//! table, the journal, the label) lies after it, in a tail. A scheme makes a [`Layout`] from the
//! members it is given.

use crate::block::{Block, BlockRun, BlockSize};
use crate::journal;
pub use crate::member::{HomeExtent, MemberId, MemberInfo, Role};
use crate::places::{self, Places};
use crate::units::{Bytes, SectorRange, Sectors};

/// An exported address space, by its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitId(pub u16);

/// The use of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// A cache: any free slot takes any block. A journal ring and a slot table make the block map
    /// durable.
    Cache,
    /// A log: slots are filled in order, in segments that describe themselves. Space is freed from
    /// the oldest end.
    Log {
        /// Blocks gathered in memory before a segment is written; 0: every write is its own segment
        /// and waits for its segment.
        buffer_blocks: u32,
    },
}

/// Slots of one block each, in one run on one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRegion {
    /// The member.
    pub member: MemberId,
    /// First sector of the region on the member.
    pub first_sector: u64,
    /// Number of slots.
    pub count: u32,
    /// The use of the slots.
    pub kind: SlotKind,
    /// Slots per bucket, in a cache. A bucket begins at a multiple of this number. A bucket is
    /// filled in order, once all its slots are free; other slots are taken only if no such bucket
    /// exists. 1: the cache has no buckets, and any free slot is taken.
    pub bucket: u32,
}

/// The region in which a member keeps the engine's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataRegion {
    /// The member.
    pub member: MemberId,
    /// First sector of the region on the member.
    pub first_sector: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// The distribution of blocks over home members that are not simply concatenated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Array {
    /// RAID-0: stripes of this many blocks go to the members in turn.
    Striped {
        /// Number of members.
        members: u16,
        /// Blocks of a stripe.
        blocks: u64,
    },
    /// RAID-1: each member has every block, at the same sectors.
    Mirrored {
        /// Number of members.
        members: u16,
    },
}

impl Array {
    fn members(self) -> impl Iterator<Item = MemberId> {
        let (Array::Striped { members, .. } | Array::Mirrored { members }) = self;
        (0..members).map(MemberId)
    }
}

/// The layout of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Size of a block.
    pub block: BlockSize,
    /// The blocks of each unit, one unit after another.
    pub units: Vec<BlockRun>,
    /// The home of each block, in order and without a gap. Empty if the blocks are striped; in a
    /// mirror, the home of each block on the first member.
    pub home: Vec<HomeExtent>,
    /// The distribution of blocks over the members, if they are an array.
    pub array: Option<Array>,
    /// Slots off home, if the scheme uses any.
    pub slots: Option<SlotRegion>,
    /// The places of ranges of addresses that can change their home; `home` has the initial homes.
    pub places: Option<Places>,
    /// Region of the metadata of the slots (ring and table, or the log's superblocks), or of the
    /// table of places.
    pub metadata: Option<MetadataRegion>,
    /// For each member, the first sector of its tail: the state of the volume, and the label.
    pub tails: Vec<u64>,
}

/// The input from which a scheme makes its layout.
#[derive(Clone, Debug)]
pub struct LayoutRequest<'a> {
    /// Size of a block.
    pub block: BlockSize,
    /// The members.
    pub members: &'a [MemberInfo],
    /// The minimum size of each unit. The last unit also gets the remaining space of the members.
    /// Empty: one unit.
    pub units: &'a [Sectors],
}

/// Reasons for which members do not fit a scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No member has this role.
    #[error("no member has the role '{}', which this scheme needs", .0.name())]
    MissingRole(Role),
    /// An array cannot have this number of members.
    #[error("{0} members: expected 2 to {ARRAY_MAX} for an array")]
    Members(usize),
    /// More than one member has a role that the scheme gives to one member only.
    #[error("{count} members have the role '{}': this scheme uses one", role.name())]
    TooMany {
        /// The role.
        role: Role,
        /// Number of members with the role.
        count: usize,
    },
    /// A drive is too small.
    #[error(
        "the {} drive of {} is too small for its role: expected at least {}{reason}",
        role.name(),
        available.rounded_down(),
        needed.rounded_up()
    )]
    TooSmall {
        /// The drive's role.
        role: Role,
        /// Size that the member needs.
        needed: Bytes,
        /// Size that the member has.
        available: Bytes,
        /// The use for which the member is too small.
        reason: &'static str,
    },
}

/// Members of an array at most: a state has a bit for each.
pub const ARRAY_MAX: usize = 64;

/// Sectors of the tail of every member: the state of the volume, its report and its label.
pub const LABEL_SECTORS: u64 = 128;

impl LayoutRequest<'_> {
    /// Returns the only member with `role`; an error if no member or several members have the role.
    pub fn only(&self, role: Role) -> Result<MemberId, LayoutError> {
        let mut found = self.members.iter().enumerate().filter(|(_, member)| member.role == role);
        let (id, _) = found.next().ok_or(LayoutError::MissingRole(role))?;
        match found.count() {
            0 => Ok(MemberId(id as u16)),
            more => Err(LayoutError::TooMany { role, count: more + 1 }),
        }
    }

    /// Returns every member with `role`, at least one.
    pub fn all(&self, role: Role) -> Result<Vec<MemberId>, LayoutError> {
        let members = self.members.iter().enumerate().filter(|(_, member)| member.role == role);
        let found: Vec<MemberId> = members.map(|(id, _)| MemberId(id as u16)).collect();
        if found.is_empty() { Err(LayoutError::MissingRole(role)) } else { Ok(found) }
    }

    /// Returns the only member with the first role in `roles` that some member has.
    pub fn first_of(&self, roles: &[Role]) -> Result<MemberId, LayoutError> {
        let role = roles.iter().find(|&&role| self.members.iter().any(|member| member.role == role));
        self.only(*role.unwrap_or(&roles[0]))
    }

    fn member(&self, id: MemberId) -> MemberInfo {
        self.members[id.0 as usize]
    }

    /// Returns the capacity of a member.
    pub fn capacity_of(&self, id: MemberId) -> Sectors {
        self.member(id).capacity
    }

    /// Returns the number of whole blocks of `id` before its label.
    fn usable_blocks(&self, id: MemberId) -> u64 {
        self.member(id).capacity.0.saturating_sub(LABEL_SECTORS) / self.block.sectors()
    }

    /// Returns a layout without slots, whose blocks are at home on `homes`, in this order, as one
    /// concatenated address space.
    pub fn concatenated(&self, homes: &[MemberId]) -> Result<Layout, LayoutError> {
        let available: u64 = homes.iter().map(|&id| self.usable_blocks(id)).sum();
        let units = self.units_within(available, *homes.last().expect("a scheme names its homes"))?;
        let total = units.last().map_or(0, |unit| unit.end());
        let mut home = Vec::new();
        let mut first = 0;
        for &member in homes {
            let count = self.usable_blocks(member).min(total - first);
            if count > 0 {
                let blocks = BlockRun { first: Block(first), count };
                home.push(HomeExtent { blocks, member, first_sector: 0 });
                first += count;
            }
        }
        let tails = self.members.iter().map(|member| member.capacity.0.saturating_sub(LABEL_SECTORS)).collect();
        Ok(Layout { block: self.block, units, home, array: None, slots: None, places: None, metadata: None, tails })
    }

    /// Returns the units, laid one after another within `available` blocks.
    fn units_within(&self, available: u64, last: MemberId) -> Result<Vec<BlockRun>, LayoutError> {
        let mut wanted: Vec<u64> = match self.units {
            [] => vec![available],
            sizes => sizes.iter().map(|size| size.0.div_ceil(self.block.sectors())).collect(),
        };
        let total: u64 = wanted.iter().sum();
        if total == 0 || total > available {
            let short = total.max(1) - available.min(total);
            return Err(self.too_small(last, short * self.block.sectors(), " to hold every address"));
        }
        if let Some(last) = wanted.last_mut() {
            *last += available - total;
        }
        let mut first = 0;
        let runs = wanted.into_iter().map(|count| {
            let run = BlockRun { first: Block(first), count };
            first += count;
            run
        });
        Ok(runs.collect())
    }

    fn too_small(&self, id: MemberId, missing_sectors: u64, reason: &'static str) -> LayoutError {
        let member = self.member(id);
        LayoutError::TooSmall {
            role: member.role,
            needed: Sectors(member.capacity.0 + missing_sectors.max(1)).bytes(),
            available: member.capacity.bytes(),
            reason,
        }
    }

    /// Returns the layout of most caches: blocks are at home on the HDD, with cache slots on the
    /// SSD.
    pub fn ssd_caches_hdd(&self) -> Result<Layout, LayoutError> {
        let home = self.concatenated(&[self.only(Role::Hdd)?])?;
        self.with_slots(home, self.only(Role::Ssd)?, SlotKind::Cache)
    }

    /// Returns a layout whose blocks are at home on `homes`. Each unit has a home of its own if
    /// there are as many units as homes. With fewer units, the homes are concatenated.
    pub fn side_by_side(&self, homes: &[MemberId]) -> Result<Layout, LayoutError> {
        if homes.len() == 1 || homes.len() != self.units.len() {
            return self.concatenated(homes);
        }
        let mut whole = Vec::new();
        for (&home, unit) in homes.iter().zip(self.units) {
            let (usable, wanted) = (self.usable_blocks(home), unit.0.div_ceil(self.block.sectors()));
            if wanted > usable {
                return Err(self.too_small(home, (wanted - usable) * self.block.sectors(), " to hold its unit"));
            }
            whole.push(Sectors(usable * self.block.sectors()));
        }
        LayoutRequest { units: &whole, ..self.clone() }.concatenated(homes)
    }

    /// Returns a layout of an array of all members: in stripes of `stripe` blocks, or as a mirror
    /// if `stripe` is `None`. Members may differ in size; the smallest member determines the usable
    /// size of all members.
    pub fn array(&self, stripe: Option<u64>) -> Result<Layout, LayoutError> {
        if !(2..=ARRAY_MAX).contains(&self.members.len()) {
            return Err(LayoutError::Members(self.members.len()));
        }
        let members = self.members.len() as u16;
        let smallest =
            (0..members).map(MemberId).min_by_key(|&member| self.member(member).capacity).unwrap_or(MemberId(0));
        let (rounding, spread) = stripe.map_or((1, 1), |blocks| (blocks, u64::from(members)));
        let each = self.usable_blocks(smallest) / rounding * rounding;
        let wanted: u64 = self.units.iter().map(|unit| unit.0.div_ceil(self.block.sectors())).sum();
        let needed = wanted.max(1).div_ceil(spread).next_multiple_of(rounding);
        if needed > each {
            let missing = (needed - self.usable_blocks(smallest)) * self.block.sectors();
            return Err(self.too_small(smallest, missing, " to hold its part of the addresses"));
        }
        let units = self.units_within(each * spread, smallest)?;
        let blocks = BlockRun { first: Block(0), count: each };
        let first = HomeExtent { blocks, member: MemberId(0), first_sector: 0 };
        let (home, array) = match stripe {
            Some(blocks) => (Vec::new(), Array::Striped { members, blocks }),
            None => (vec![first], Array::Mirrored { members }),
        };
        let tails = self.members.iter().map(|member| member.capacity.0.saturating_sub(LABEL_SECTORS)).collect();
        Ok(Layout {
            block: self.block,
            units,
            home,
            array: Some(array),
            slots: None,
            places: None,
            metadata: None,
            tails,
        })
    }

    /// Returns a layout of `homes`, concatenated, whose addresses can change their home in ranges
    /// of `range_blocks`. The last member has the table of places.
    pub fn relocatable(&self, homes: &[MemberId], range_blocks: u64) -> Result<Layout, LayoutError> {
        let range_sectors = range_blocks * self.block.sectors();
        let last = *homes.last().expect("a scheme names its homes");
        let all: u64 = homes.iter().map(|&id| self.usable_blocks(id) / range_blocks).sum();
        let table_sectors = 2 * places::table_pages(all) * journal::PAGE_SECTORS;
        let mut counts = Vec::new();
        for &member in homes {
            let table = if member == last { table_sectors } else { 0 };
            let usable = (self.usable_blocks(member) * self.block.sectors()).saturating_sub(table);
            let count = usable / range_sectors;
            if count < 2 {
                let missing = 2 * range_sectors - usable;
                return Err(self.too_small(member, missing, " to hold a range and have room for another"));
            }
            counts.push((member, count as u32));
        }
        // Each member keeps one range free. The tables are made only once the rest is known to be
        // enough.
        let ranges: u64 = counts.iter().map(|&(_, count)| u64::from(count) - 1).sum();
        let units = self.units_within(ranges * range_blocks, last)?;
        let places = Places::new(range_blocks, self.block, &counts);
        debug_assert_eq!(u64::from(places.ranges()), ranges);
        let mut first = 0;
        let home = counts.iter().map(|&(member, count)| {
            let blocks = BlockRun { first: Block(first), count: u64::from(count - 1) * range_blocks };
            first = blocks.end();
            HomeExtent { blocks, member, first_sector: 0 }
        });
        let home = home.collect();
        let behind = u64::from(counts[counts.len() - 1].1) * range_sectors;
        let metadata = Some(MetadataRegion { member: last, first_sector: behind, sectors: table_sectors });
        let tails = self.members.iter().map(|member| member.capacity.0.saturating_sub(LABEL_SECTORS)).collect();
        Ok(Layout { block: self.block, units, home, array: None, slots: None, places: Some(places), metadata, tails })
    }

    /// Adds to `layout` a unit of `blocks`, at home at the beginning of `member`, which is not a
    /// home yet.
    pub fn with_unit(&self, mut layout: Layout, member: MemberId, blocks: u64) -> Result<Layout, LayoutError> {
        let usable = self.usable_blocks(member);
        if blocks == 0 || blocks > usable {
            let short = blocks.max(1) - usable.min(blocks);
            return Err(self.too_small(member, short * self.block.sectors(), " to be a unit of its own"));
        }
        let run = BlockRun { first: Block(layout.total_blocks()), count: blocks };
        layout.units.push(run);
        layout.home.push(HomeExtent { blocks: run, member, first_sector: 0 });
        Ok(layout)
    }

    /// Returns the number of whole blocks of `member` that can be used.
    pub fn blocks_of(&self, member: MemberId) -> u64 {
        self.usable_blocks(member)
    }

    /// Adds slots, with their metadata, to `layout`. Slots and metadata fill `member` after the
    /// blocks whose home is `member`.
    pub fn with_slots(&self, mut layout: Layout, member: MemberId, kind: SlotKind) -> Result<Layout, LayoutError> {
        let block_sectors = self.block.sectors();
        let at_home = layout.home.iter().filter(|home| home.member == member);
        let first_sector = at_home.map(|home| home.first_sector + home.blocks.count * block_sectors).max().unwrap_or(0);
        let usable = (self.usable_blocks(member) * block_sectors).saturating_sub(first_sector);
        let least = match kind {
            SlotKind::Cache => 16,
            // Two segments with head and foot, and as much again to write to while a migration
            // runs.
            SlotKind::Log { buffer_blocks } => 4 * (u64::from(buffer_blocks) + journal::SEGMENT_PAGES + 1),
        };
        let blocks = layout.total_blocks();
        let metadata_of = |slots: u64| match kind {
            SlotKind::Cache => journal::cache_metadata_sectors(slots, blocks),
            SlotKind::Log { .. } => journal::log_metadata_sectors(slots),
        };
        let mut count = (usable / block_sectors).min(u64::from(u32::MAX - 2));
        while count >= least && count * block_sectors + metadata_of(count) > usable {
            let over = count * block_sectors + metadata_of(count) - usable;
            count = count.saturating_sub(over.div_ceil(block_sectors + 1).max(1));
        }
        if count < least {
            let needed = first_sector + least * block_sectors + metadata_of(least) + LABEL_SECTORS + block_sectors;
            let missing = needed.saturating_sub(self.member(member).capacity.0);
            return Err(self.too_small(member, missing, " to hold any slots beside their metadata"));
        }
        layout.slots = Some(SlotRegion { member, first_sector, count: count as u32, kind, bucket: 1 });
        let behind = first_sector + count * block_sectors;
        layout.metadata = Some(MetadataRegion { member, first_sector: behind, sectors: metadata_of(count) });
        Ok(layout)
    }
}

impl Layout {
    /// Returns the members that are home of blocks, each once.
    pub fn homes(&self) -> Vec<MemberId> {
        if let Some(array) = self.array {
            return array.members().collect();
        }
        let mut homes: Vec<MemberId> = self.home.iter().map(|extent| extent.member).collect();
        homes.sort();
        homes.dedup();
        homes
    }

    /// Returns the home that records the versions of the table of places: a home that does not have
    /// the table.
    pub fn places_witness(&self) -> Option<MemberId> {
        let table = self.metadata.filter(|_| self.places.is_some())?.member;
        self.homes().into_iter().find(|&home| home != table)
    }

    /// Returns the members of a mirror, which each have every block; no members if the volume is
    /// not a mirror.
    pub fn copies(&self) -> impl Iterator<Item = MemberId> {
        self.array.filter(|_| self.is_mirrored()).into_iter().flat_map(Array::members)
    }

    /// Returns true if each member has every block.
    #[inline]
    pub fn is_mirrored(&self) -> bool {
        matches!(self.array, Some(Array::Mirrored { .. }))
    }

    /// Returns the sectors of `member` from the first to the last block whose home is `member`; no
    /// sectors if `member` is not a home.
    pub fn home_on(&self, member: MemberId) -> SectorRange {
        let sectors = self.block.sectors();
        match self.array {
            Some(array) if !array.members().any(|other| other == member) => SectorRange::default(),
            Some(Array::Striped { members, .. }) => {
                SectorRange::new(0, self.total_blocks() / u64::from(members) * sectors)
            }
            Some(Array::Mirrored { .. }) => SectorRange::new(0, self.total_blocks() * sectors),
            None => self.home.iter().find(|extent| extent.member == member).map_or(SectorRange::default(), |extent| {
                SectorRange::new(extent.first_sector, extent.blocks.count * sectors)
            }),
        }
    }

    /// Returns the present home of every block. A range being relocated has two homes, and a block
    /// of a mirror has a home on each member.
    pub fn extents(&self) -> Vec<HomeExtent> {
        if let Some(Array::Striped { blocks, .. }) = self.array {
            let stripes = (0..self.total_blocks()).step_by(blocks as usize);
            let extent = |first| {
                let (member, first_sector, count) = self.home_of(Block(first));
                HomeExtent { blocks: BlockRun { first: Block(first), count }, member, first_sector }
            };
            return stripes.map(extent).collect();
        }
        if self.is_mirrored() {
            return self.copies().map(|member| HomeExtent { member, ..self.home[0] }).collect();
        }
        self.places.as_ref().map_or_else(|| self.home.clone(), Places::extents)
    }

    /// Returns the place of a copy of the volume's state of a turn on `member`: pages 0 and 1 of
    /// its tail for the first copies, 2 and 3 for the second.
    pub fn state_place(&self, member: MemberId, turn: u64, copy: usize) -> SectorRange {
        let page = copy as u64 * journal::turns::TURNS as u64 + turn;
        SectorRange::new(self.tails[usize::from(member.0)] + page * journal::PAGE_SECTORS, journal::PAGE_SECTORS)
    }

    /// Returns the place of a copy of a turn's superblock, on the member with the metadata of
    /// slots.
    pub fn superblock_place(&self, turn: u64, copy: usize) -> Option<SectorRange> {
        let metadata = self.metadata.filter(|_| self.slots.is_some())?;
        Some(journal::superblock_place(metadata.first_sector, metadata.sectors, turn, copy))
    }

    /// Returns the number of blocks that the volume exports, over all units.
    pub fn total_blocks(&self) -> u64 {
        self.units.last().map_or(0, |unit| unit.end())
    }

    /// Returns the size that the volume exports, over all units.
    pub fn exported(&self) -> Bytes {
        Bytes(self.total_blocks() * self.block.bytes().0)
    }

    /// Returns the number of stripes of an array that `range` touches; 0 if the blocks are not
    /// striped.
    pub(crate) fn stripes_of(&self, range: SectorRange) -> u64 {
        match self.array {
            Some(Array::Striped { blocks, .. }) if !range.is_empty() => {
                let stripe = blocks * self.block.sectors();
                (range.end().0 - 1) / stripe - range.start.0 / stripe + 1
            }
            _ => 0,
        }
    }

    /// Returns the sectors of the volume's `range` that lie on `member` of a striped array, where
    /// its stripes are adjacent. `None` if the blocks are not striped.
    pub(crate) fn striped_part(&self, range: SectorRange, member: MemberId) -> Option<SectorRange> {
        let Some(Array::Striped { members, blocks }) = self.array else { return None };
        let stripe = blocks * self.block.sectors();
        let row = stripe * u64::from(members);
        let before = |sector: u64| {
            sector / row * stripe + (sector % row).saturating_sub(u64::from(member.0) * stripe).min(stripe)
        };
        let start = before(range.start.0);
        Some(SectorRange::new(start, before(range.end().0) - start))
    }

    /// Returns the member and sector of the home of `block`, and the number of blocks from `block`
    /// on that are adjacent on that member.
    #[inline]
    pub fn home_of(&self, block: Block) -> (MemberId, u64, u64) {
        if let Some(places) = &self.places {
            return places.home_of(block);
        }
        if let Some(Array::Striped { members, blocks }) = self.array {
            let (stripe, into) = (block.0 / blocks, block.0 % blocks);
            let row = stripe / u64::from(members) * blocks + into;
            let member = MemberId((stripe % u64::from(members)) as u16);
            return (member, row * self.block.sectors(), blocks - into);
        }
        let extent = match self.home.as_slice() {
            [only] => only,
            extents => &extents[extents.partition_point(|extent| extent.blocks.end() <= block.0)],
        };
        let into = block.0 - extent.blocks.first.0;
        (extent.member, extent.first_sector + into * self.block.sectors(), extent.blocks.count - into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(sizes: &[(Role, u64)]) -> Vec<MemberInfo> {
        sizes.iter().map(|&(role, mib)| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() }).collect()
    }

    #[test]
    fn units_lie_one_after_another_across_concatenated_homes() {
        let members = members(&[(Role::Ssd, 2), (Role::Hdd, 10)]);
        let units = [Sectors(4096), Sectors(8192)];
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &units };
        let layout = request.concatenated(&[MemberId(0), MemberId(1)]).unwrap();
        // In front of their labels the members have 496 and 2544 blocks.
        assert_eq!(layout.units[1], BlockRun { first: Block(512), count: 496 + 2544 - 512 });
        assert_eq!(layout.home_of(Block(495)), (MemberId(0), 495 * 8, 1));
        assert_eq!(layout.home_of(Block(496)), (MemberId(1), 0, 2544));
    }

    #[test]
    fn stripes_go_to_the_members_in_turn_and_the_smallest_decides() {
        let members = members(&[(Role::Ssd, 2), (Role::Ssd, 3), (Role::Hdd, 9)]);
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        let layout = request.array(Some(16)).unwrap();
        // 496 blocks lie in front of the first label.
        assert_eq!(layout.total_blocks(), 3 * 496);
        assert_eq!(layout.home_of(Block(15)), (MemberId(0), 15 * 8, 1));
        assert_eq!(layout.home_of(Block(16)), (MemberId(1), 0, 16));
        assert_eq!(layout.home_of(Block(3 * 16 + 5)), (MemberId(0), 21 * 8, 11));
        assert_eq!(layout.home_on(MemberId(2)), SectorRange::new(0, 496 * 8));
        assert_eq!(layout.extents().len(), 3 * 31);
        let mirror = request.array(None).unwrap();
        assert_eq!((mirror.total_blocks(), mirror.homes().len(), mirror.extents().len()), (496, 3, 3));
        let units = [Sectors(3 * 496 * 8 + 1)];
        let error = LayoutRequest { units: &units, ..request.clone() }.array(Some(16)).unwrap_err();
        assert!(error.to_string().contains("the ssd drive of 2 MiB is too small"), "{error}");
        let one = LayoutRequest { members: &members[..1], ..request };
        assert_eq!(one.array(None), Err(LayoutError::Members(1)));
    }

    /// Compares with `home_of`, sector by sector.
    #[test]
    fn striped_part_is_what_each_member_has_of_a_range() {
        let members = members(&[(Role::Ssd, 2), (Role::Ssd, 3), (Role::Hdd, 9)]);
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        let layout = request.array(Some(16)).unwrap();
        assert_eq!(
            (layout.stripes_of(SectorRange::new(127, 2)), layout.stripes_of(SectorRange::new(128, 128))),
            (2, 1)
        );
        for (start, len) in [(0, 1), (5, 700), (127, 2), (128, 384), (384, 3000), (1000, 1)] {
            let mut expected = [(u64::MAX, 0); 3];
            for sector in start..start + len {
                let (member, first, _) = layout.home_of(Block(sector / 8));
                let (least, count) = &mut expected[usize::from(member.0)];
                (*least, *count) = ((*least).min(first + sector % 8), *count + 1);
            }
            for (member, (least, count)) in (0..).zip(expected) {
                let part = layout.striped_part(SectorRange::new(start, len), MemberId(member)).unwrap();
                assert_eq!(part.len.0, count, "{start}+{len} on {member}");
                assert!(count == 0 || part.start.0 == least, "{start}+{len} on {member}: {part:?}");
            }
        }
    }

    #[test]
    fn each_unit_has_a_home_of_its_own_where_there_are_as_many() {
        let members = members(&[(Role::Ssd, 2), (Role::Ssd, 3), (Role::Hdd, 9)]);
        let units = [Sectors(8), Sectors(80)];
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &units };
        let homes = request.all(Role::Ssd).unwrap();
        let layout = request.side_by_side(&homes).unwrap();
        assert_eq!(layout.units[1].first, Block(496));
        assert_eq!(layout.home_of(layout.units[1].first), (MemberId(1), 0, 752));
        let units = [Sectors(8), Sectors(80), Sectors(8)];
        let three = LayoutRequest { units: &units, ..request }.side_by_side(&homes).unwrap();
        assert_eq!(three.units[1].first, Block(1));
    }

    #[test]
    fn slots_and_metadata_fill_a_cache_drive_up_to_its_label() {
        for mib in [1, 2, 3, 64, 1000] {
            let members = members(&[(Role::Ssd, mib), (Role::Hdd, 500)]);
            let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
            let home = request.concatenated(&[MemberId(1)]).unwrap();
            let layout = request.with_slots(home, MemberId(0), SlotKind::Cache).unwrap();
            let (slots, metadata) = (layout.slots.unwrap(), layout.metadata.unwrap());
            assert_eq!(u64::from(slots.count) * 8, metadata.first_sector);
            let end = metadata.first_sector + metadata.sectors;
            assert!(end <= mib * 2048 - LABEL_SECTORS, "{mib} MiB: {end}");
            assert!(mib * 2048 - LABEL_SECTORS - end < 64, "{mib} MiB: {end}");
        }
    }

    #[test]
    fn a_drive_too_small_for_its_role_is_named_with_what_would_do() {
        let tiny =
            [MemberInfo { role: Role::Ssd, capacity: Bytes::from_kib(128).sectors() }, members(&[(Role::Hdd, 500)])[0]];
        let request = LayoutRequest { block: BlockSize::default(), members: &tiny, units: &[] };
        let home = request.concatenated(&[MemberId(1)]).unwrap();
        let error = request.with_slots(home, MemberId(0), SlotKind::Cache).unwrap_err();
        assert!(error.to_string().starts_with("the ssd drive of 128 KiB is too small"), "{error}");
        let units = [Sectors(2_000_000)];
        let request = LayoutRequest { units: &units, ..request };
        let error = request.concatenated(&[MemberId(1)]).unwrap_err();
        assert!(error.to_string().contains("to hold every address"), "{error}");
        assert_eq!(request.only(Role::Log), Err(LayoutError::MissingRole(Role::Log)));
    }
}
