//! Figures of a flash drive, as its profile gives them.

mod values;

use bimetal_core::units::{Bytes, Sectors};
use serde::Deserialize;

use super::ftl::page::Options;
use super::geometry::{Geometry, GeometryRequest};
use super::timing::{HostTiming, LinkTiming, NandTiming, Parallelism, micros};
use super::wear::WearLevellingKind;
use crate::hdd::profile::Switch;
use crate::profile::{BadFigure, Size};
pub use values::{Cell, FtlKind, GcKind, ProgramTimes, SizeOrOff};

/// Years over which makers spread the warranted writes, where a profile does not say.
const WARRANTY_YEARS: f64 = 5.0;

/// Days of a year, as makers convert drive writes a day into terabytes written.
const DAYS: f64 = 365.0;

/// Seconds of a year.
const YEAR_SECONDS: f64 = 365.25 * 86_400.0;

/// Figures of a flash drive. Each public field is a key of the profile, with the same name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Number of channels between controller and dies.
    pub channels: u32,
    /// Number of dies on a channel.
    pub dies_per_channel: u32,
    /// Number of planes in a die, which work in lockstep.
    pub planes_per_die: u32,
    /// Number of blocks in a plane. Without this key there are as many blocks as capacity and spare
    /// factor need; with this key, the capacity follows from the number of blocks.
    pub blocks_per_plane: Option<u32>,
    /// Number of pages in a block.
    pub pages_per_block: u32,
    /// Bytes of a page, without its spare area.
    pub page_size: Size,
    /// Size of a mapping unit, the smallest piece that the translation layer maps; at most a page.
    #[serde(default = "default_mapping_unit")]
    pub mapping_unit: Size,
    /// Number of bits in a cell.
    pub cell: Cell,
    /// Spare factor: (physical − logical) / physical.
    pub spare_factor: f64,
    /// Number of times that a block can be erased.
    pub rated_cycles: u32,
    /// Terabytes (10^12 bytes) that the maker warrants can be written.
    pub warranted_terabytes_written: Option<f64>,
    /// Drive writes a day (DWPD) that the maker warrants for `warranty_years`, as multiples of the
    /// drive's size. This key precedes `warranted_terabytes_written`.
    pub warranted_drive_writes_per_day: Option<f64>,
    /// Years of warranty; five without this key.
    pub warranty_years: Option<f64>,
    /// Time to sense a page.
    pub read_us: f64,
    /// Time to program a page, a mean over the page types; all planes are programmed at once.
    pub program_us: f64,
    /// Times to program a page of each type, from the first bit of a cell on: one time for each bit
    /// of a cell. Rows take turns. Without this key every page takes `program_us`.
    pub program_us_by_type: Option<ProgramTimes>,
    /// Time to erase a block; all planes are erased at once.
    pub erase_us: f64,
    /// Time to stop a program or an erase for a read that the host waits for. Without this key a
    /// read waits until the program or erase has ended.
    pub suspend_us: Option<f64>,
    /// Rate of a channel in 10^6 bytes a second.
    pub channel_mb_per_s: f64,
    /// Rate of the link to the host in 10^6 bytes a second, in each direction.
    pub link_mb_per_s: f64,
    /// Time for which each command occupies the link beside its data: 1 / the largest rate of
    /// commands.
    #[serde(default)]
    pub command_us: f64,
    /// Rate of the link for writes, if it differs from reads.
    pub write_link_mb_per_s: Option<f64>,
    /// Time for which each write, flush and discard occupies the link beside its data, if it
    /// differs from reads.
    pub write_command_us: Option<f64>,
    /// Time added to each read, while other operations proceed. With serial timing the overhead
    /// precedes the read, and no other operation proceeds.
    #[serde(default)]
    pub read_overhead_us: f64,
    /// Time added to each write, flush and discard, while other operations proceed. With serial
    /// timing the overhead precedes each write, and no other operation proceeds.
    #[serde(default)]
    pub write_overhead_us: f64,
    /// Time added to each flush that has something to make stable.
    #[serde(default)]
    pub flush_us: f64,
    /// Size of the memory in which writes finish, or `"off"`.
    pub write_buffer: SizeOrOff,
    /// Bytes that may lie in blocks programmed with one bit in each cell, or `"off"`; for `page`
    /// and `dftl`. The data in such blocks are packed into all bits of other blocks when the drive
    /// has been idle for a while, or has no free blocks.
    #[serde(default)]
    pub slc_cache: SizeOrOff,
    /// Time to program a page with one bit in each cell.
    pub slc_program_us: Option<f64>,
    /// Set to `on` if the content of the write buffer survives a power cut, so that a flush need
    /// not wait for the buffer.
    pub power_loss_protection: Switch,
    /// Translation layer, which chooses the places of units.
    #[serde(default)]
    pub ftl: FtlKind,
    /// Number of log blocks in the whole drive, for layers that have log blocks. Without this key
    /// all spare blocks are log blocks.
    pub log_blocks: Option<u32>,
    /// Largest number of units in a chain of `anand`.
    #[serde(default = "default_chain_length_max")]
    pub chain_length_max: u32,
    /// Share of the pages that hold data before time zero, drawn at random; for `page-in-place`.
    #[serde(default)]
    pub prewrite_probability: f64,
    /// With serial timing: erases that each write takes in addition to the layer's own. The number
    /// is the mean k of Konanki's L = n·WL + k·EL for a drive that is not clean (section 5.2). The
    /// additional erases take time and cause no wear.
    #[serde(default)]
    pub erases_per_write_request: f64,
    /// Set to `on` if copies within a die stay inside the die (copy-back) instead of crossing the
    /// channel; for the layers that map whole pages.
    #[serde(default = "off")]
    pub copy_back: Switch,
    /// Policy that chooses the block to collect.
    #[serde(default)]
    pub gc: GcKind,
    /// Number of free blocks below which a die collects; at least 2.
    #[serde(default = "default_gc_free_blocks")]
    pub gc_free_blocks: u32,
    /// Number of free blocks below which a die collects when the drive has been idle for a while.
    #[serde(default)]
    pub gc_idle_free_blocks: u32,
    /// Size of the memory for the mapping table of `dftl`, 8 bytes for each entry.
    #[serde(default = "default_map_cache")]
    pub map_cache: Size,
    /// Wear levelling: policy that spreads erases over the blocks, for `page` and `dftl`.
    #[serde(default)]
    pub wear_levelling: WearLevellingKind,
    /// Number of erases by which a block may lag behind the most worn of its die, under static and
    /// adaptive wear levelling.
    #[serde(default = "default_wear_threshold")]
    pub wear_threshold: u32,
    /// Rate of writes, in 10^6 bytes a second, that the drive is planned for. Above this rate
    /// adaptive wear levelling is suspended. Without this key the rate is the warranted writes over
    /// the years of warranty.
    pub expected_write_mb_per_s: Option<f64>,
    /// Set to `on` if a block that was erased `rated_cycles` times is not used again, by `page` and
    /// `dftl`. A drive with too few blocks left takes no more writes.
    #[serde(default = "off")]
    pub wear_out: Switch,
    /// Parallelism of the dies: each die works on its own, or the drive does one operation at a
    /// time.
    #[serde(default)]
    pub timing: Parallelism,
    /// Power while the drive is busy.
    pub active_watts: Option<f64>,
    /// Power while the drive is idle.
    pub idle_watts: Option<f64>,
    /// Energy to read a page, in addition to the power of the drive.
    pub read_microjoules: Option<f64>,
    /// Energy to program a page.
    pub program_microjoules: Option<f64>,
    /// Energy to erase a block.
    pub erase_microjoules: Option<f64>,
}

fn default_mapping_unit() -> Size {
    Size(Bytes::from_kib(4))
}

fn default_gc_free_blocks() -> u32 {
    2
}

fn default_map_cache() -> Size {
    Size(Bytes::from_mib(1))
}

fn default_wear_threshold() -> u32 {
    50
}

fn default_chain_length_max() -> u32 {
    4
}

fn off() -> Switch {
    Switch::Off
}

impl FlashProfile {
    /// Returns the geometry of a drive of `capacity` by its profile, or of the requested `size`.
    ///
    /// # Errors
    /// Refuses an impossible geometry, with its key.
    pub fn geometry(&self, capacity: Sectors, size: Option<Sectors>) -> Result<Geometry, BadFigure> {
        GeometryRequest {
            channels: self.channels,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            blocks_per_plane: self.blocks_per_plane,
            pages_per_block: self.pages_per_block,
            page_bytes: self.page_size.0.0,
            unit_bytes: if self.ftl.0.whole_pages {
                self.page_size.0.0
            } else {
                self.mapping_unit.0.0.min(self.page_size.0.0)
            },
            whole_blocks: self.ftl.0.whole_pages,
            reserved_blocks: (self.ftl.0.reserve)(self),
            spare_factor: self.spare_factor,
            capacity: capacity.bytes(),
            size: size.map(Sectors::bytes),
        }
        .resolve()
    }

    /// Returns the sectors that a drive of this profile offers: `capacity`, or the result of
    /// `blocks_per_plane`.
    ///
    /// # Errors
    /// Refuses an impossible geometry, with its key.
    pub fn capacity(&self, capacity: Sectors) -> Result<Sectors, BadFigure> {
        match self.blocks_per_plane {
            Some(_) => self.geometry(capacity, None).map(|geometry| geometry.logical_bytes().sectors()),
            None => Ok(capacity),
        }
    }

    /// Returns the shortest time in which a die programs a row, in microseconds.
    pub fn fastest_program_us(&self) -> f64 {
        let by_type = self.program_us_by_type.map(|given| given.times[..given.types as usize].to_vec());
        let times = by_type.unwrap_or_else(|| vec![self.program_us]);
        times.into_iter().chain(self.slc_program_us).fold(f64::INFINITY, f64::min)
    }

    /// Returns the times of the NAND of a drive of `geometry`.
    pub(crate) fn nand_timing(&self, geometry: &Geometry) -> NandTiming {
        NandTiming {
            read: micros(self.read_us),
            programs: match self.program_us_by_type {
                Some(ProgramTimes { times, types }) => (times.map(micros), types),
                None => ([micros(self.program_us); ProgramTimes::MAX], 1),
            },
            slc_program: micros(self.slc_program_us.unwrap_or(self.program_us)),
            suspend: self.suspend_us.map(micros),
            erase: micros(self.erase_us * geometry.erase_share(self.pages_per_block)),
            unit_transfer: micros(f64::from(geometry.unit_bytes) / self.channel_mb_per_s),
            read_setup: micros(self.read_overhead_us),
            write_setup: micros(self.write_overhead_us + self.erases_per_write_request * self.erase_us),
            parallelism: self.timing,
        }
    }

    /// Returns the times of controller and link.
    pub(crate) fn host_timing(&self) -> HostTiming {
        // With serial timing the overheads are operations of their own.
        let overhead = |us| micros(if self.timing == Parallelism::Serial { 0.0 } else { us });
        HostTiming {
            read_overhead: overhead(self.read_overhead_us),
            write_overhead: overhead(self.write_overhead_us),
            reads: LinkTiming::new(self.command_us, self.link_mb_per_s),
            writes: LinkTiming::new(
                self.write_command_us.unwrap_or(self.command_us),
                self.write_link_mb_per_s.unwrap_or(self.link_mb_per_s),
            ),
            flush: micros(self.flush_us),
        }
    }

    /// Checks that a drive of `capacity` with these figures can be built.
    ///
    /// # Errors
    /// Returns the first figure that is outside its range.
    pub fn check(&self, capacity: Sectors) -> Result<(), BadFigure> {
        for (key, value, min, max) in [
            ("read_us", self.read_us, 0.0, 1e6),
            ("program_us", self.program_us, 0.0, 1e6),
            ("erase_us", self.erase_us, 0.0, 1e7),
            ("channel_mb_per_s", self.channel_mb_per_s, 0.01, 1e6),
            ("link_mb_per_s", self.link_mb_per_s, 0.01, 1e6),
            ("command_us", self.command_us, 0.0, 1e6),
            ("read_overhead_us", self.read_overhead_us, 0.0, 1e6),
            ("write_overhead_us", self.write_overhead_us, 0.0, 1e6),
            ("flush_us", self.flush_us, 0.0, 1e7),
            ("prewrite_probability", self.prewrite_probability, 0.0, 1.0),
            ("erases_per_write_request", self.erases_per_write_request, 0.0, 1000.0),
            ("rated_cycles", f64::from(self.rated_cycles), 1.0, 1e9),
            ("gc_free_blocks", f64::from(self.gc_free_blocks), 2.0, 1e6),
            ("gc_idle_free_blocks", f64::from(self.gc_idle_free_blocks), 0.0, 1e6),
        ] {
            in_range(key, Some(value), min, max)?;
        }
        for (key, value) in [
            ("warranted_terabytes_written", self.warranted_terabytes_written),
            ("warranted_drive_writes_per_day", self.warranted_drive_writes_per_day),
            ("active_watts", self.active_watts),
            ("idle_watts", self.idle_watts),
            ("read_microjoules", self.read_microjoules),
            ("program_microjoules", self.program_microjoules),
            ("erase_microjoules", self.erase_microjoules),
            ("suspend_us", self.suspend_us),
            ("slc_program_us", self.slc_program_us),
            ("write_command_us", self.write_command_us),
            ("expected_write_mb_per_s", self.expected_write_mb_per_s),
        ] {
            in_range(key, value, 0.0, 1e9)?;
        }
        in_range("warranty_years", self.warranty_years, 0.1, 100.0)?;
        in_range("write_link_mb_per_s", self.write_link_mb_per_s, 0.01, 1e6)?;
        self.check_cells()?;
        self.check_wear_levelling(capacity)?;
        if self.prewrite_probability > 0.0 && self.ftl.0.name != "page-in-place" {
            let expected = "0 unless ftl is page-in-place";
            return Err(BadFigure::new("prewrite_probability", self.prewrite_probability, expected));
        }
        if self.erases_per_write_request > 0.0 && self.timing != Parallelism::Serial {
            let expected = "0 unless timing is serial";
            return Err(BadFigure::new("erases_per_write_request", self.erases_per_write_request, expected));
        }
        self.geometry(capacity, None)?;
        Ok(())
    }

    /// Checks the figures that depend on the number of bits in a cell.
    fn check_cells(&self) -> Result<(), BadFigure> {
        if let Some(times) = self.program_us_by_type {
            let (bits, cell) = (self.cell.bits(), self.cell);
            if times.types != bits || times.times.iter().any(|us| !(0.0..=1e6).contains(us)) {
                let expected = format!("{bits} times from 0 to 1e6, one for each bit of a cell (cell = {cell:?})");
                return Err(BadFigure::new("program_us_by_type", times, expected.to_lowercase()));
            }
        }
        if let (Some(size), None) = (self.slc_cache.0, self.slc_program_us) {
            let expected = "off, or slc_program_us given: the time to program a page with one bit a cell";
            return Err(BadFigure::new("slc_cache", size, expected));
        }
        Ok(())
    }

    /// Checks that the layer supports the keys about wear that are set, and that the rate for
    /// adaptive levelling is known.
    fn check_wear_levelling(&self, capacity: Sectors) -> Result<(), BadFigure> {
        let asked = [
            ("wear_levelling", format!("{:?}", self.wear_levelling).to_lowercase(), "none"),
            ("wear_out", format!("{:?}", self.wear_out).to_lowercase(), "off"),
            ("slc_cache", self.slc_cache.0.map_or_else(|| "off".to_owned(), |size| size.to_string()), "off"),
            ("gc_idle_free_blocks", self.gc_idle_free_blocks.to_string(), "0"),
        ];
        for (key, value, without) in asked {
            if value != without && self.ftl.0.whole_pages {
                return Err(BadFigure::new(key, value, format!("{without} unless ftl is page or dftl")));
            }
        }
        if self.wear_levelling == WearLevellingKind::Adaptive
            && self.expected_bytes_per_second(capacity, capacity).is_none()
        {
            let expected = "the rate of writes that the drive is designed for, because wear_levelling is adaptive and \
                            neither warranted_terabytes_written nor warranted_drive_writes_per_day is given";
            return Err(BadFigure::new("expected_write_mb_per_s", "nothing", expected));
        }
        Ok(())
    }

    /// Returns the rate of writes that a drive of `capacity` is planned for, if known. The profile
    /// describes a drive of `own` sectors; warranted writes are scaled with the size.
    pub(crate) fn expected_bytes_per_second(&self, own: Sectors, capacity: Sectors) -> Option<f64> {
        let seconds = self.warranty_years.unwrap_or(WARRANTY_YEARS) * YEAR_SECONDS;
        let share = capacity.0 as f64 / own.0 as f64;
        let warranted = || self.warranted_bytes(own).map(|bytes| bytes * share / seconds);
        self.expected_write_mb_per_s.map(|rate| rate * 1e6).or_else(warranted)
    }

    /// Returns the bytes that the maker of a drive of `capacity` warrants can be written, if known:
    /// by its drive writes a day if these are known, and otherwise by its terabytes written.
    pub(crate) fn warranted_bytes(&self, capacity: Sectors) -> Option<f64> {
        let days = self.warranty_years.unwrap_or(WARRANTY_YEARS) * DAYS;
        let by_day = self.warranted_drive_writes_per_day.map(|writes| writes * days * capacity.bytes().0 as f64);
        by_day.or_else(|| self.warranted_terabytes_written.map(|terabytes| terabytes * 1e12))
    }

    /// Returns the options of collection by `page` and `dftl` on a drive of `geometry`, which has
    /// passed its checks; a die has `table_blocks` blocks of tables.
    ///
    /// # Errors
    /// Refuses an `slc_cache` that the drive cannot have.
    pub(crate) fn page_options(&self, geometry: &Geometry, table_blocks: u32) -> Result<Options, BadFigure> {
        let slc_units = geometry.pages_per_block / self.cell.bits() * geometry.units_per_row();
        let slc_blocks = match self.slc_cache.0 {
            None => 0,
            Some(size) => {
                let block = u64::from(slc_units) * u64::from(geometry.unit_bytes) * u64::from(geometry.dies());
                if block == 0 || size.0 < block || self.cell == Cell::Slc {
                    let least = Bytes(block);
                    let expected = format!(
                        "off, or at least {least}, one block in each die, with cells of several \
                                            bits"
                    );
                    return Err(BadFigure::new("slc_cache", size, expected));
                }
                u32::try_from(size.0 / block).unwrap_or(u32::MAX).min(geometry.blocks_per_plane)
            }
        };
        let data = geometry.logical_units.div_ceil(geometry.dies() * geometry.units_per_block());
        let spare = geometry.blocks_per_plane.saturating_sub(data);
        if self.gc_free_blocks > spare.max(2) {
            let expected =
                format!("from 2 to {spare}, the spare blocks of a die: with more, garbage collection would never end");
            return Err(BadFigure::new("gc_free_blocks", self.gc_free_blocks, expected));
        }
        Ok(Options {
            free_blocks: self.gc_free_blocks,
            idle_free_blocks: self.gc_idle_free_blocks,
            levelling: self.wear_levelling,
            threshold: self.wear_threshold,
            cycles: (self.wear_out == Switch::On).then_some(self.rated_cycles),
            slc_blocks,
            slc_units,
            table_blocks,
        })
    }

    /// Returns true if copies within a die stay inside the die.
    pub(crate) fn copy_back(&self) -> bool {
        self.copy_back == Switch::On
    }
}

fn in_range(key: &'static str, value: Option<f64>, min: f64, max: f64) -> Result<(), BadFigure> {
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            Err(BadFigure::new(key, value, format!("a number from {min} to {max}")))
        }
        _ => Ok(()),
    }
}
