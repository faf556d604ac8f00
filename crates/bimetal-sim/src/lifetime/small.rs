//! The small drive that stands for a large drive.
//!
//! The collector's work depends on the free space besides the changing data, and on the rate at
//! which each address is overwritten. So the small drive has a few chunks of the large drive, which
//! represent the writes to all chunks. In addition, the small drive has the same share of free
//! space and of data at rest.
//!
//! Four details keep the wear the same:
//! - Blocks that a die keeps open or free are equally many on a small die and on a large die. Such
//!   blocks are added, and their number is not scaled.
//! - Blocks with few pages wear less than long blocks. So the small drive drops dies before pages
//!   per block.
//! - Data at rest between changing data stay between them, because the collector moves them
//!   together.
//! - Data at rest in other places, and free space of many times the changing data, are left out
//!   beyond a limit. More data or more space than the limit makes no difference to the wear.

use std::collections::HashMap;

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_models::DeviceModel;
use bimetal_models::flash::geometry::Geometry;
use bimetal_models::flash::profile::{GcKind, SizeOrOff};
use bimetal_models::flash::{FlashProfile, Precondition};
use bimetal_models::profile::{Body, Profile, ProfileError, Size};

use super::chunks::{CHUNK_UNITS, Chunks, Held, bits, parts, runs, sectors};
use super::record::{Member, Stream};

/// Smallest number of chosen chunks: with fewer chunks, the spread of the writes is lost.
const CHUNKS_MIN: usize = 48;

/// Number of blocks in a die of the small drive. With fewer blocks, the garbage collector has too
/// little choice.
const BLOCKS: u64 = 128;

/// Fewest pages in a block of a small drive.
const PAGES_MIN: u32 = 32;

/// Largest amount of free space, and of data at rest, that a small drive keeps under a greedy
/// collector, as multiples of the changing data. A greedy collector never moves data at rest once
/// they lie alone. With this amount of free space, a collector moves less than a hundredth of the
/// data.
const FREE_MAX: f64 = 6.0;
const REST_MAX: f64 = 2.0;

/// Factor for all other collectors, which move data at rest from time to time. The factor limits
/// free space and data at rest together, in their proportion.
const BESIDE_MAX: f64 = 16.0;

/// Mean number of blocks of a die, with two free blocks, that hold no closed data. Open blocks are
/// half full, the victim is half emptied, and one block is free or half free.
const OPEN_BLOCKS: f64 = 2.1;

/// A drive that is played.
pub(super) struct Played {
    profile: Profile,
    size: Option<Sectors>,
    used: SectorRange,
    precondition: Precondition,
    seed: u64,
    /// Position of each chosen chunk's units; `None` if the drive is played as it is.
    places: Option<HashMap<u64, Place>>,
    /// Ranges that are written before the stream begins.
    held: Vec<SectorRange>,
    unit_sectors: u64,
    /// Bytes of the drive's flash.
    pub(super) physical_bytes: f64,
    /// Factor by which the real drive is larger.
    pub(super) factor: f64,
}

/// Position of the written units of a chunk: one after the other, from a sector on.
#[derive(Clone, Copy)]
struct Place {
    first_sector: u64,
    units: u64,
}

/// Contents of a drive, in bytes.
struct Filling {
    /// Data that change.
    hot: f64,
    /// Data at rest in the same chunks.
    near: f64,
    /// Data at rest in all other chunks.
    rest: f64,
    /// Bytes of flash beyond the data, without the open blocks.
    free: f64,
}

impl Played {
    /// Returns `member` at its full size, not made smaller.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub(super) fn as_it_is(member: &Member, geometry: &Geometry, seed: u64) -> Result<Self, ProfileError> {
        let Member { profile, size, used, precondition, .. } = member;
        let (profile, physical_bytes) = (profile.clone(), geometry.physical_bytes().0 as f64);
        let (used, precondition) = (*used, *precondition);
        let (places, factor, unit_sectors) = (None, 1.0, u64::from(geometry.unit_bytes) / SECTOR_BYTES);
        let held = member.held().ranges(unit_sectors);
        let size = Some(*size);
        let played =
            Self { profile, size, used, precondition, seed, places, held, unit_sectors, physical_bytes, factor };
        played.build(played.precondition)?;
        Ok(played)
    }

    /// Returns `member`, a die of `real`, at its full size.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub(super) fn one_die(member: &Member, real: &Geometry, seed: u64) -> Result<Self, ProfileError> {
        let Member { profile, used, precondition, .. } = member;
        let (profile, used, precondition) = (profile.clone(), *used, *precondition);
        let unit_sectors = u64::from(real.unit_bytes) / SECTOR_BYTES;
        let (size, places, held) = (None, None, member.held().ranges(unit_sectors));
        let (physical_bytes, factor) = (0.0, 1.0);
        let played =
            Self { profile, size, used, precondition, seed, places, held, unit_sectors, physical_bytes, factor };
        played.with_its_size(real)
    }

    /// Returns a drive of about `bytes` that stands for `member`, whose written chunks are
    /// `chunks`.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub(super) fn small(
        member: &Member,
        (flash, geometry): (&FlashProfile, &Geometry),
        chunks: &Chunks,
        bytes: u64,
        seed: u64,
    ) -> Result<Self, ProfileError> {
        let held_by_all = member.held();
        let full = Filling::of(member, flash, geometry, chunks, &held_by_all);
        let kept = full.without_needless(flash.gc);
        let count = (chunks.all.len() as f64 * bytes as f64 / kept.sum()).ceil() as usize;
        let count = count.clamp(CHUNKS_MIN.min(chunks.all.len()), chunks.all.len());
        let chosen = chunks.stand_for_all(count, seed);
        let (mut places, mut held, mut end) = (HashMap::new(), Vec::new(), 0);
        for chunk in &chosen {
            // On a drive that was clean, only units with data take room.
            let full = held_by_all.of(chunk.number);
            let units = if member.precondition == Precondition::Clean { chunk.units | full } else { u64::MAX };
            let place = Place { first_sector: end, units };
            places.insert(chunk.number, place);
            for (first, run) in runs(full) {
                let within =
                    SectorRange::new(u64::from(first) * chunks.unit_sectors, u64::from(run) * chunks.unit_sectors);
                place.of(within, chunks.unit_sectors, |range| held.push(range));
            }
            end += u64::from(units.count_ones()) * chunks.unit_sectors;
        }
        let hot = (sectors(&chosen, chunks.unit_sectors) * SECTOR_BYTES) as f64;
        let share = hot / full.hot;
        let near = (end * SECTOR_BYTES) as f64 - hot;
        let kept = Filling { hot, near, rest: kept.rest * share, free: kept.free * share };
        let (profile, used) = shrunk(&member.profile, flash, geometry, &kept, share);
        if member.precondition == Precondition::Clean && used.len.0 > end {
            held.push(SectorRange::new(end, used.len.0 - end));
        }
        let played = Self {
            profile,
            size: None,
            used,
            precondition: member.precondition,
            seed,
            places: Some(places),
            held,
            unit_sectors: chunks.unit_sectors,
            physical_bytes: 0.0,
            factor: 1.0,
        };
        played.with_its_size(geometry)
    }

    /// Returns a drive that stands for `member` under random writes over the part in use.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub(super) fn for_random_writes(
        member: &Member,
        (flash, geometry): (&FlashProfile, &Geometry),
        bytes: u64,
        seed: u64,
    ) -> Result<Self, ProfileError> {
        let physical = geometry.physical_bytes().0 as f64;
        let hot = member.in_use.bytes().0 as f64;
        let free = (physical - hot - open_bytes(flash, geometry)).max(0.0);
        let share = (bytes as f64 / physical).min(1.0);
        let kept = Filling { hot: hot * share, near: 0.0, rest: 0.0, free: free * share };
        let (profile, used) = shrunk(&member.profile, flash, geometry, &kept, share);
        let precondition = Precondition::Random;
        let (places, unit_sectors) = (Some(HashMap::new()), u64::from(geometry.unit_bytes) / SECTOR_BYTES);
        let (physical_bytes, factor, held, size) = (0.0, 1.0, Vec::new(), None);
        let played =
            Self { profile, size, used, precondition, seed, places, held, unit_sectors, physical_bytes, factor };
        played.with_its_size(geometry)
    }

    fn with_its_size(mut self, real: &Geometry) -> Result<Self, ProfileError> {
        // Only building the drive shows if it can be built.
        self.build(self.precondition)?;
        let Body::Flash(flash) = &self.profile.body else { return Ok(self) };
        if let Ok(geometry) = flash.geometry(self.profile.capacity, self.size) {
            self.physical_bytes = geometry.physical_bytes().0 as f64;
            self.factor = real.physical_bytes().0 as f64 / self.physical_bytes;
        }
        Ok(self)
    }

    /// Builds the drive as it is before its first write.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be built.
    pub(super) fn build(&self, precondition: Precondition) -> Result<Box<dyn DeviceModel>, ProfileError> {
        self.profile.build_preconditioned(self.size, precondition, self.used, self.seed)
    }

    /// Returns the ranges that the drive holds before the stream begins, beside its part in use.
    pub(super) fn held(&self) -> &[SectorRange] {
        &self.held
    }

    /// Returns the state in which the drive's part in use begins.
    pub(super) fn precondition(&self) -> Precondition {
        self.precondition
    }

    /// Returns the number of mapping units in use, and the sectors of a unit.
    pub(super) fn units_in_use(&self) -> (u64, u64) {
        (self.used.len.0 / self.unit_sectors, self.unit_sectors)
    }

    /// Returns the commands of `stream` that this drive gets. The share of flushes that the small
    /// drive gets equals the drive's share of the real drive.
    pub(super) fn part_of(&self, stream: &[(Nanoseconds, Command)]) -> Stream {
        let Some(places) = &self.places else { return stream.to_vec() };
        let mut own = Stream::new();
        let mut flushes = 0.0;
        for &(at, command) in stream {
            if command.kind == OpKind::Flush {
                flushes += 1.0 / self.factor.max(1.0);
                if flushes >= 1.0 {
                    flushes -= 1.0;
                    own.push((at, command));
                }
                continue;
            }
            for (number, within) in parts(command.range, self.unit_sectors) {
                let Some(place) = places.get(&number) else { continue };
                place.of(within, self.unit_sectors, |range| own.push((at, Command { range, ..command })));
            }
        }
        own
    }
}

impl Place {
    /// Calls `each` with the positions of the units in `within`, a part of the chunk. A discard may
    /// cover units that are never written.
    fn of(self, within: SectorRange, unit_sectors: u64, mut each: impl FnMut(SectorRange)) {
        for (first, run) in runs(self.units & bits(within, unit_sectors)) {
            let (from, to) = (u64::from(first) * unit_sectors, u64::from(first + run) * unit_sectors);
            let (start, end) = (from.max(within.start.0), to.min(within.end().0));
            let before = (self.units & !(u64::MAX << first)).count_ones();
            each(SectorRange::new(self.first_sector + u64::from(before) * unit_sectors + start - from, end - start));
        }
    }
}

impl Filling {
    fn of(member: &Member, flash: &FlashProfile, geometry: &Geometry, chunks: &Chunks, held: &Held) -> Self {
        let hot = (chunks.sectors() * SECTOR_BYTES) as f64;
        let (near, rest);
        if member.precondition == Precondition::Clean {
            let unit_bytes = chunks.unit_sectors * SECTOR_BYTES;
            let units = |count: fn(u64, u64) -> u64| {
                let all =
                    chunks.all.iter().map(|chunk| u64::from(count(held.of(chunk.number), chunk.units).count_ones()));
                (all.sum::<u64>() * unit_bytes) as f64
            };
            near = units(|held, written| held & !written);
            rest = (held.units() * unit_bytes) as f64 - units(|held, _| held);
        } else {
            let chunk_sectors = chunks.unit_sectors * CHUNK_UNITS;
            near = (chunks.all.len() as u64 * chunk_sectors * SECTOR_BYTES) as f64 - hot;
            rest = (member.used.len.bytes().0 as f64 - hot - near).max(0.0);
        }
        let physical = geometry.physical_bytes().0 as f64;
        let free = (physical - hot - near - rest - open_bytes(flash, geometry)).max(0.0);
        Self { hot, near, rest, free }
    }

    fn without_needless(&self, gc: GcKind) -> Self {
        let Self { hot, near, rest, free } = *self;
        if gc == GcKind::Greedy {
            return Self {
                hot,
                near,
                rest: rest.min(REST_MAX * (hot + near)),
                free: free.min(FREE_MAX * (hot + near)),
            };
        }
        let share = (BESIDE_MAX * (hot + near) / (rest + free)).min(1.0);
        Self { hot, near, rest: rest * share, free: free * share }
    }

    fn data(&self) -> f64 {
        self.hot + self.near + self.rest
    }

    fn sum(&self) -> f64 {
        self.data() + self.free
    }
}

/// Returns the bytes of the blocks that are open or free at any time: 0 for layers that map whole
/// blocks.
fn open_bytes(flash: &FlashProfile, geometry: &Geometry) -> f64 {
    open_blocks(flash) * f64::from(geometry.dies()) * block_bytes(geometry)
}

fn open_blocks(flash: &FlashProfile) -> f64 {
    match maps_pages(flash) {
        true => OPEN_BLOCKS + f64::from(flash.gc_free_blocks.saturating_sub(2)),
        false => 0.0,
    }
}

/// Returns true if every unit can lie anywhere.
pub(super) fn maps_pages(flash: &FlashProfile) -> bool {
    ["page", "dftl"].contains(&format!("{:?}", flash.ftl).as_str())
}

fn block_bytes(geometry: &Geometry) -> f64 {
    f64::from(geometry.units_per_block()) * f64::from(geometry.unit_bytes)
}

/// Returns the profile of a drive of one die that holds `filling`, the share `share` of the whole,
/// and its range in use.
fn shrunk(
    profile: &Profile,
    flash: &FlashProfile,
    geometry: &Geometry,
    filling: &Filling,
    share: f64,
) -> (Profile, SectorRange) {
    let row = f64::from(geometry.units_per_row()) * f64::from(geometry.unit_bytes);
    let wanted = filling.sum() / (BLOCKS as f64 * row);
    let pages = (wanted as u32).clamp(PAGES_MIN.min(geometry.pages_per_block), geometry.pages_per_block);
    let block = row * f64::from(pages);
    let blocks = (filling.sum() / block + open_blocks(flash)).round() as u32;
    let unit = f64::from(geometry.unit_bytes);
    let units = (filling.data() / unit).ceil();
    // Fewest blocks with which the layer can work: its reserve, and blocks for all data.
    let blocks = blocks.max((units * unit / block).ceil() as u32 + 4 + flash.gc_free_blocks);
    let physical_units = f64::from(blocks) * block / unit;
    let small = FlashProfile {
        blocks_per_plane: Some(blocks),
        pages_per_block: pages,
        // Half a unit more, so that rounding removes none.
        spare_factor: (1.0 - (units + 0.5) / physical_units).max(0.0),
        log_blocks: flash.log_blocks.map(|blocks| ((f64::from(blocks) * share) as u32).max(1)),
        ..of_share(flash, share)
    };
    let used = SectorRange::new(0, units as u64 * u64::from(geometry.unit_bytes) / SECTOR_BYTES);
    let mut profile = profile.clone();
    profile.body = Body::Flash(Box::new(small));
    (profile, used)
}

/// Returns the profile of one die of `geometry` as a drive that offers `units`.
pub(super) fn of_one_die(profile: &Profile, flash: &FlashProfile, geometry: &Geometry, units: u64) -> Profile {
    let physical_units = f64::from(geometry.blocks_per_plane) * f64::from(geometry.units_per_block());
    let die = FlashProfile {
        // Blocks of a drive smaller than the profile's have fewer pages.
        pages_per_block: geometry.pages_per_block,
        blocks_per_plane: Some(geometry.blocks_per_plane),
        // Half a unit more, so that rounding removes none.
        spare_factor: (1.0 - (units as f64 + 0.5) / physical_units).max(0.0),
        ..of_share(flash, 1.0 / f64::from(geometry.dies()))
    };
    let mut profile = profile.clone();
    profile.body = Body::Flash(Box::new(die));
    profile
}

/// Returns `flash` with one die and the share `share` of its caches and of its expected writes.
fn of_share(flash: &FlashProfile, share: f64) -> FlashProfile {
    FlashProfile {
        channels: 1,
        dies_per_channel: 1,
        map_cache: Size(scaled(flash.map_cache.0, share)),
        slc_cache: SizeOrOff(flash.slc_cache.0.map(|size| scaled(size, share))),
        expected_write_mb_per_s: flash.expected_write_mb_per_s.map(|rate| rate * share),
        ..flash.clone()
    }
}

fn scaled(size: Bytes, share: f64) -> Bytes {
    Bytes((size.0 as f64 * share).ceil() as u64)
}
