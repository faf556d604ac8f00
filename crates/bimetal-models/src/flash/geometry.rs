//! Geometry of a drive's flash: channels, dies, planes, blocks, pages, and mapping units.
//!
//! The planes of a die work in lockstep. A *row* is the page of the same number in every plane,
//! programmed by one multi-plane command. A *block* of the flash translation layer (FTL) is one
//! physical block of every plane, erased by one command. Statistics count physical pages and
//! blocks.

use bimetal_core::units::Bytes;

use crate::profile::BadFigure;

/// Number of blocks of a die that hold no closed data in the worst case: the host's open block, the
/// collector's open block, and the last free block.
pub(crate) const RESERVED_BLOCKS_PER_DIE: u32 = 3;

/// Number of blocks in a die below which the collector's reserve is a visible part of the spare
/// area. A drive made smaller gets shorter blocks before it has fewer blocks.
const BLOCKS_PER_DIE_GOOD: u64 = 256;

/// Number of blocks in a die below which the reserve takes a large part of the spare area. A drive
/// with fewer blocks has its reserve in addition to the spare area.
const BLOCKS_PER_DIE_FEW: u64 = 128;

/// Number of data blocks in a die below which the reserve is as large as the data. A drive made
/// smaller loses planes and dies before it has fewer blocks.
const BLOCKS_PER_DIE_MIN: u64 = 4;

/// Number of pages in a block below which an erase of the profile's duration would take a visible
/// part of a die's time.
const PAGES_PER_BLOCK_GOOD: u32 = 32;

/// Smallest number of pages in a block of any drive.
const PAGES_PER_BLOCK_MIN: u32 = 8;

/// Shape of a drive's flash.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Geometry {
    /// Number of channels between controller and dies.
    pub channels: u32,
    /// Number of dies that share a channel.
    pub dies_per_channel: u32,
    /// Number of planes in a die, which work in lockstep.
    pub planes_per_die: u32,
    /// Number of physical blocks in a plane.
    pub blocks_per_plane: u32,
    /// Number of pages in a physical block.
    pub pages_per_block: u32,
    /// Bytes of a page, without its spare area; a power of two.
    pub page_bytes: u32,
    /// Bytes of a mapping unit, which is the smallest piece that the FTL can move. A power of two,
    /// at most a page.
    pub unit_bytes: u32,
    /// Number of units that the host can address.
    pub logical_units: u32,
}

/// Figures from which a geometry is made: the figures of the profile, changed by the user's keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeometryRequest {
    /// Number of channels between controller and dies.
    pub channels: u32,
    /// Number of dies that share a channel.
    pub dies_per_channel: u32,
    /// Number of planes in a die.
    pub planes_per_die: u32,
    /// Number of physical blocks in a plane; `None`: as many as the size needs.
    pub blocks_per_plane: Option<u32>,
    /// Number of pages in a physical block.
    pub pages_per_block: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a mapping unit.
    pub unit_bytes: u64,
    /// Spare factor: (physical − logical) / physical.
    pub spare_factor: f64,
    /// Set if logical blocks are not split, so that the data take whole blocks.
    pub whole_blocks: bool,
    /// Number of blocks in each die that hold no data.
    pub reserved_blocks: u32,
    /// Capacity of the drive as sold; used if neither `size` nor `blocks_per_plane` is given.
    pub capacity: Bytes,
    /// Size that the user asked for.
    pub size: Option<Bytes>,
}

impl GeometryRequest {
    /// Returns the geometry that the figures ask for.
    ///
    /// With `blocks_per_plane` the size follows from the geometry and the spare factor, and a
    /// `size` that differs by more than 1 % is an error. Without `blocks_per_plane`, the number of
    /// blocks follows from the size. A drive smaller than the profile's keeps its dies, and with
    /// them its speed, as long as possible:
    ///
    /// 1. planes have fewer blocks, down to 256;
    /// 2. blocks have fewer pages, halved each time, down to 32;
    /// 3. planes have fewer blocks, down to 128;
    /// 4. blocks have fewer pages, down to 8, and erasing them takes less time and energy in
    ///    proportion; from here on the collector's reserve is added to the spare area, of which it
    ///    would take a large part and in the end all;
    /// 5. planes have fewer blocks, down to 4 beside the reserve;
    /// 6. planes are halved, then the dies of each channel, then the channels, until one of each is
    ///    left;
    /// 7. planes have as few blocks as the data and the reserve need.
    ///
    /// # Errors
    /// Returns the first impossible key, with its possible values.
    pub fn resolve(self) -> Result<Geometry, BadFigure> {
        self.check()?;
        let geometry = match self.blocks_per_plane {
            Some(blocks) => self.with_blocks(blocks)?,
            None => self.with_size(self.size.unwrap_or(self.capacity))?,
        };
        self.check_reserve(&geometry)?;
        Ok(geometry)
    }

    fn check(&self) -> Result<(), BadFigure> {
        let counts = [
            ("channels", self.channels, 256),
            ("dies_per_channel", self.dies_per_channel, 256),
            ("planes_per_die", self.planes_per_die, 16),
            ("blocks_per_plane", self.blocks_per_plane.unwrap_or(1), 1 << 24),
            ("pages_per_block", self.pages_per_block, 1 << 14),
        ];
        for (key, value, max) in counts {
            if value == 0 || value > max {
                return Err(BadFigure::new(key, value, format!("a whole number from 1 to {max}")));
            }
        }
        let power = |value: u64, min: u64, max: u64| value.is_power_of_two() && (min..=max).contains(&value);
        if !power(self.page_bytes, 512, 1 << 20) {
            let expected = "a power of two from 512B to 1MiB";
            return Err(BadFigure::new("page_size", Bytes(self.page_bytes), expected));
        }
        if !power(self.unit_bytes, 512, self.page_bytes) {
            let expected = format!("a power of two from 512B to the page size, {}", Bytes(self.page_bytes));
            return Err(BadFigure::new("mapping_unit", Bytes(self.unit_bytes), expected));
        }
        let least = if self.reserved_blocks > 0 { f64::MIN_POSITIVE } else { 0.0 };
        if !(self.spare_factor >= least && self.spare_factor < 1.0) {
            let above = if self.reserved_blocks > 0 { "above 0" } else { "from 0" };
            let expected = format!("a fraction {above} and below 1: (physical - logical) / physical, like 0.07");
            return Err(BadFigure::new("spare_factor", self.spare_factor, expected));
        }
        Ok(())
    }

    fn shape(&self) -> Geometry {
        Geometry {
            channels: self.channels,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            blocks_per_plane: self.blocks_per_plane.unwrap_or(0),
            pages_per_block: self.pages_per_block,
            page_bytes: self.page_bytes as u32,
            unit_bytes: self.unit_bytes as u32,
            logical_units: 0,
        }
    }

    fn with_blocks(&self, blocks: u32) -> Result<Geometry, BadFigure> {
        let mut geometry = Geometry { blocks_per_plane: blocks, ..self.shape() };
        let logical = geometry.checked_physical_units()? as f64 * (1.0 - self.spare_factor);
        geometry.logical_units = logical.floor() as u32;
        if let Some(size) = self.size {
            let follows = geometry.logical_bytes();
            if size.0.abs_diff(follows.0) as f64 > follows.0 as f64 * 0.01 {
                let expected = format!(
                    "{follows}, which follows from blocks_per_plane and the other figures of the \
                geometry"
                );
                return Err(BadFigure::new("capacity", size, expected));
            }
        }
        Ok(geometry)
    }

    fn with_size(&self, size: Bytes) -> Result<Geometry, BadFigure> {
        let units = size.0.div_ceil(self.unit_bytes);
        if units == 0 || units >= u64::from(u32::MAX) {
            let (most, unit) = (u32::MAX - 1, Bytes(self.unit_bytes));
            let terabytes = f64::from(most) * unit.0 as f64 / 1e12;
            let expected = format!("a size of 1 to {most} mapping units of {unit} (at most {terabytes:.1} TB)");
            return Err(BadFigure::new("capacity", size, expected));
        }
        let mut geometry = Geometry { logical_units: units as u32, ..self.shape() };
        let physical = (units as f64 / (1.0 - self.spare_factor)).ceil() as u64;
        if physical >= u64::from(u32::MAX) {
            let terabytes = f64::from(u32::MAX - 1) * (1.0 - self.spare_factor) * self.unit_bytes as f64 / 1e12;
            let expected = format!(
                "at most {terabytes:.1} TB: the model has at most {} mapping units of {}, spare area included",
                u32::MAX - 1,
                Bytes(self.unit_bytes)
            );
            return Err(BadFigure::new("capacity", size, expected));
        }
        let blocks =
            |geometry: &Geometry| physical.div_ceil(geometry.units_per_block_u64() * u64::from(geometry.dies()));
        while blocks(&geometry) < BLOCKS_PER_DIE_GOOD && geometry.shorten_blocks(PAGES_PER_BLOCK_GOOD) {}
        let beside = if blocks(&geometry) < BLOCKS_PER_DIE_FEW { self.reserved_blocks } else { 0 };
        while blocks(&geometry) < BLOCKS_PER_DIE_FEW && geometry.shorten_blocks(PAGES_PER_BLOCK_MIN) {}
        while blocks(&geometry) < BLOCKS_PER_DIE_MIN && geometry.drop_dies() {}
        let blocks = (blocks(&geometry) + u64::from(beside)).max(self.blocks_needed(&geometry));
        geometry.blocks_per_plane = blocks as u32;
        geometry.checked_physical_units()?;
        Ok(geometry)
    }

    /// Returns the number of blocks in a die for its share of the data, including the blocks that
    /// must be free.
    fn blocks_needed(&self, geometry: &Geometry) -> u64 {
        let (dies, row) = (u64::from(geometry.dies()), u64::from(geometry.units_per_row()));
        let units = u64::from(geometry.logical_units);
        let data =
            if self.whole_blocks { units.div_ceil(row).div_ceil(dies) * row } else { units.div_ceil(dies) + 2 * row };
        data.div_ceil(geometry.units_per_block_u64()) + u64::from(self.reserved_blocks)
    }

    /// Checks that every die can hold its share of the data in addition to the blocks that its FTL
    /// needs.
    fn check_reserve(&self, geometry: &Geometry) -> Result<(), BadFigure> {
        let (blocks, reserved) = (geometry.blocks_per_plane, self.reserved_blocks);
        if geometry.logical_units == 0 || self.blocks_needed(geometry) > u64::from(blocks) {
            let share = f64::from(geometry.logical_units) / f64::from(geometry.dies());
            let expected = format!(
                "at least {reserved} spare blocks for collection in each plane: the data take {:.1} of its {blocks} \
                 blocks (more blocks_per_plane help as well)",
                share / geometry.units_per_block_u64() as f64
            );
            return Err(BadFigure::new("spare_factor", self.spare_factor, expected));
        }
        Ok(())
    }
}

impl Geometry {
    /// Halves planes, dies or channels: the first of these numbers that is larger than one. Returns
    /// false if the flash has only one plane, one die and one channel.
    fn drop_dies(&mut self) -> bool {
        let parts = [&mut self.planes_per_die, &mut self.dies_per_channel, &mut self.channels];
        let Some(part) = parts.into_iter().find(|part| **part > 1) else { return false };
        *part /= 2;
        true
    }

    /// Halves the pages of a block, if at least `least` remain. Returns true if the number of pages
    /// was halved.
    fn shorten_blocks(&mut self, least: u32) -> bool {
        let shorter = self.pages_per_block / 2 >= least;
        if shorter {
            self.pages_per_block /= 2;
        }
        shorter
    }

    fn checked_physical_units(&self) -> Result<u32, BadFigure> {
        let units = u64::from(self.dies()) * u64::from(self.blocks_per_plane) * self.units_per_block_u64();
        let fits = u32::try_from(units).ok().filter(|units| *units < u32::MAX);
        fits.ok_or_else(|| {
            let expected =
                format!("a geometry of at most {} mapping units of {}", u32::MAX - 1, Bytes(self.unit_bytes.into()));
            BadFigure::new("blocks_per_plane", self.blocks_per_plane, expected)
        })
    }

    /// Returns the share of time and energy that erasing a block takes, compared with a block of
    /// the profile's `pages_per_block`. Blocks made shorter than [32
    /// pages](GeometryRequest::resolve) are erased more often for the same data. At the full cost
    /// the drive would be slower than its profile.
    pub(crate) fn erase_share(&self, pages_per_block: u32) -> f64 {
        let full = pages_per_block.min(PAGES_PER_BLOCK_GOOD);
        f64::from(self.pages_per_block.min(full)) / f64::from(full)
    }

    /// Returns the number of dies. Die `d` is on channel `d % channels`, so that consecutive dies
    /// lie on different channels.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Returns the number of mapping units in a page.
    pub fn units_per_page(&self) -> u32 {
        self.page_bytes / self.unit_bytes
    }

    /// Returns the number of mapping units in a row: the page of the same number in every plane of
    /// a die.
    pub fn units_per_row(&self) -> u32 {
        self.units_per_page() * self.planes_per_die
    }

    /// Returns the number of mapping units in a block of the FTL: a physical block in every plane
    /// of a die.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_row() * self.pages_per_block
    }

    fn units_per_block_u64(&self) -> u64 {
        u64::from(self.units_per_row()) * u64::from(self.pages_per_block)
    }

    /// Returns the number of blocks of the FTL.
    pub fn blocks(&self) -> u32 {
        self.dies() * self.blocks_per_plane
    }

    /// Returns the number of physical blocks.
    pub fn physical_blocks(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.planes_per_die)
    }

    /// Returns the number of mapping units that the flash holds.
    pub fn physical_units(&self) -> u32 {
        self.blocks() * self.units_per_block()
    }

    /// Returns the bytes that the host can address.
    pub fn logical_bytes(&self) -> Bytes {
        Bytes(u64::from(self.logical_units) * u64::from(self.unit_bytes))
    }

    /// Returns the bytes that the flash holds.
    pub fn physical_bytes(&self) -> Bytes {
        Bytes(u64::from(self.physical_units()) * u64::from(self.unit_bytes))
    }

    /// Returns the spare area as a share of the flash: (physical − logical) / physical.
    pub fn spare_factor(&self) -> f64 {
        1.0 - f64::from(self.logical_units) / f64::from(self.physical_units())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(size: Bytes) -> GeometryRequest {
        GeometryRequest {
            channels: 8,
            dies_per_channel: 4,
            planes_per_die: 2,
            blocks_per_plane: None,
            pages_per_block: 1024,
            page_bytes: 16384,
            unit_bytes: 4096,
            spare_factor: 0.1,
            whole_blocks: false,
            reserved_blocks: RESERVED_BLOCKS_PER_DIE,
            capacity: Bytes::from_gib(900),
            size: Some(size),
        }
    }

    /// A smaller drive has fewer and shorter blocks. A smaller drive has fewer dies only if a die
    /// would hold no data otherwise.
    #[test]
    fn small_drive_gets_fewer_shorter_blocks_before_fewer_dies() {
        // Size, dies, planes, blocks of a plane, pages of a block: a plane of a die holds size /
        // 0.9 / dies / planes.
        for (size, expected) in [
            (Bytes::from_gib(900), (32, 2, 1000, 1024)),
            (Bytes::from_gib(288), (32, 2, 320, 1024)),
            (Bytes::from_gib(144), (32, 2, 320, 512)),
            (Bytes::from_gib(9), (32, 2, 320, 32)),
            (Bytes::from_mib(4608), (32, 2, 160, 32)),
            (Bytes::from_mib(2304), (32, 2, 160 + 3, 16)),
            (Bytes::from_mib(1152), (32, 2, 160 + 3, 8)),
            (Bytes::from_mib(576), (32, 2, 80 + 3, 8)),
            (Bytes::from_mib(36), (32, 2, 5 + 3, 8)),
            (Bytes::from_mib(18), (32, 1, 5 + 3, 8)),
            (Bytes::from_mib(9), (16, 1, 5 + 3, 8)),
            (Bytes::from_kib(576), (1, 1, 5 + 3, 8)),
            (Bytes::from_kib(4), (1, 1, 1 + 3, 8)),
        ] {
            let geometry = request(size).resolve().unwrap();
            let shape = (geometry.dies(), geometry.planes_per_die, geometry.blocks_per_plane, geometry.pages_per_block);
            assert_eq!(shape, expected, "{size}");
            assert_eq!(geometry.logical_bytes(), size);
        }
    }

    /// Erasing a block takes its share of the time if the block was made shorter than 32 pages.
    #[test]
    fn erase_of_a_shortened_block_takes_its_share_of_the_time() {
        let share = |size, pages_per_block| {
            let request = GeometryRequest { pages_per_block, ..request(size) };
            request.resolve().unwrap().erase_share(pages_per_block)
        };
        assert_eq!(share(Bytes::from_gib(9), 1024), 1.0);
        assert_eq!(share(Bytes::from_mib(1152), 1024), 0.25);
        assert_eq!(share(Bytes::from_gib(900), 16), 1.0, "they are so short in the profile");
        assert_eq!(share(Bytes::from_mib(576), 16), 0.5);
    }

    #[test]
    fn the_size_follows_from_a_number_of_blocks() {
        let geometry =
            GeometryRequest { blocks_per_plane: Some(100), size: None, ..request(Bytes(0)) }.resolve().unwrap();
        assert_eq!(geometry.physical_bytes(), Bytes::from_gib(100));
        assert_eq!(geometry.logical_units, (f64::from(geometry.physical_units()) * 0.9) as u32);
    }
}
