//! The figures of a flash drive, as its profile gives them.

use std::fmt;

use bimetal_core::units::{Bytes, Nanoseconds, Sectors};
use serde::Deserialize;
use serde::de;

use super::ftl;
use super::geometry::{Geometry, GeometryRequest};
use super::timing::{HostTiming, NandTiming, Parallelism};
use crate::hdd::profile::Switch;
use crate::profile::{BadFigure, Size};

/// The figures of a flash drive. Each public field is a key of the profile, with the same name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies on a channel.
    pub dies_per_channel: u32,
    /// Planes of a die; they work in lockstep.
    pub planes_per_die: u32,
    /// Blocks of a plane. Without it, as many as capacity and spare factor need; with it, the capacity follows.
    pub blocks_per_plane: Option<u32>,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Bytes of a page, without its spare area.
    pub page_size: Size,
    /// The smallest piece that the translation layer maps; at most a page.
    #[serde(default = "default_mapping_unit")]
    pub mapping_unit: Size,
    /// Bits in a cell.
    pub cell: Cell,
    /// (physical − logical) / physical.
    pub spare_factor: f64,
    /// Times that a block can be erased.
    pub rated_cycles: u32,
    /// Terabytes (10^12) that the maker warrants can be written.
    pub warranted_terabytes_written: Option<f64>,
    /// To sense a page.
    pub read_us: f64,
    /// To program a page, a mean over the page types; all planes at once.
    pub program_us: f64,
    /// To erase a block; all planes at once.
    pub erase_us: f64,
    /// Rate of a channel in 10^6 bytes a second.
    pub channel_mb_per_s: f64,
    /// Rate of the link to the host in 10^6 bytes a second, each way.
    pub link_mb_per_s: f64,
    /// Time for which each command occupies the link beside its data: 1 / the largest rate of commands.
    #[serde(default)]
    pub command_us: f64,
    /// Added to each read, while others go on; with serial timing, before it, and nothing else goes on.
    #[serde(default)]
    pub read_overhead_us: f64,
    /// Added to each write, flush and discard, while others go on; with serial timing, before each write, and nothing
    /// else goes on.
    #[serde(default)]
    pub write_overhead_us: f64,
    /// Added to each flush that finds something to make stable.
    #[serde(default)]
    pub flush_us: f64,
    /// Memory in which writes finish, or `"off"`.
    pub write_buffer: WriteBufferSize,
    /// Whether what is in the write buffer survives a power cut, so that a flush needs not wait for it.
    pub power_loss_protection: Switch,
    /// Where units are written.
    #[serde(default)]
    pub ftl: FtlKind,
    /// Log blocks of the whole drive, for layers that have them. Without it, all spare blocks.
    pub log_blocks: Option<u32>,
    /// The most units in a chain of `anand`.
    #[serde(default = "default_chain_length_max")]
    pub chain_length_max: u32,
    /// Part of the pages that hold data before time zero, drawn at random; for `page-in-place`.
    #[serde(default)]
    pub prewrite_probability: f64,
    /// With serial timing, erases that each write takes beside what the layer does: the mean k of Konanki's L = n·WL + k·EL
    /// for a drive that is not clean (section 5.2). They take time and wear nothing.
    #[serde(default)]
    pub erases_per_write_request: f64,
    /// Whether copies inside a die stay there (copy-back) instead of crossing the channel; for the layers that map
    /// whole pages.
    #[serde(default = "off")]
    pub copy_back: Switch,
    /// Which block is collected.
    #[serde(default)]
    pub gc: GcKind,
    /// A die with fewer free blocks than this collects; at least 2.
    #[serde(default = "default_gc_free_blocks")]
    pub gc_free_blocks: u32,
    /// Whether dies work at the same time.
    #[serde(default)]
    pub timing: Parallelism,
    /// Power while the drive is busy.
    pub active_watts: Option<f64>,
    /// Power while it is not.
    pub idle_watts: Option<f64>,
    /// Energy to read a page, beside the power of the drive.
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

fn default_chain_length_max() -> u32 {
    4
}

fn off() -> Switch {
    Switch::Off
}

/// How many bits a cell holds. It names the kind; the figures that depend on it are keys of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// One.
    Slc,
    /// Two.
    Mlc,
    /// Three.
    Tlc,
    /// Four.
    Qlc,
}

/// A flash translation layer, by its name.
#[derive(Clone, Copy)]
pub struct FtlKind(pub(crate) &'static ftl::Info);

impl Default for FtlKind {
    fn default() -> Self {
        Self(&ftl::page::INFO)
    }
}

impl fmt::Debug for FtlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for FtlKind {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = ftl::ALL.iter().find(|info| info.name == name);
        known.map(|info| Self(info)).ok_or_else(|| {
            let names: Vec<_> = ftl::ALL.iter().map(|info| format!("`{}`", info.name)).collect();
            de::Error::custom(format_args!("unknown layer, expected {}", names.join(", ")))
        })
    }
}

/// The ways to choose a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GcKind {
    /// The block with the fewest valid units.
    #[default]
    Greedy,
    /// The block with the largest age × (1 − u) / 2u, u its part of valid units.
    CostBenefit,
    /// The block that was closed first.
    Fifo,
    /// The best of so many blocks drawn at random.
    DChoices(u32),
}

impl<'de> Deserialize<'de> for GcKind {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "greedy" => return Ok(Self::Greedy),
            "cost-benefit" => return Ok(Self::CostBenefit),
            "fifo" => return Ok(Self::Fifo),
            _ => {}
        }
        let draws = text.strip_prefix("d-choices:").and_then(|draws| draws.parse().ok());
        draws.filter(|draws| (1..=1_000_000).contains(draws)).map(Self::DChoices).ok_or_else(|| {
            let kinds =
                "`greedy`, `cost-benefit`, `fifo`, or `d-choices:` and the number of draws, like `d-choices:10`";
            de::Error::custom(format_args!("unknown policy, expected {kinds}"))
        })
    }
}

/// The size of the write buffer; `None`: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBufferSize(pub Option<Bytes>);

impl<'de> Deserialize<'de> for WriteBufferSize {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = WriteBufferSize;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"off\", a size like \"1MiB\", or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<WriteBufferSize, E> {
                u64::try_from(bytes).map(|bytes| WriteBufferSize(Some(Bytes(bytes)))).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WriteBufferSize, E> {
                match text {
                    "off" => Ok(WriteBufferSize(None)),
                    _ => text.parse().map(|bytes| WriteBufferSize(Some(bytes))).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl FlashProfile {
    /// The geometry of a drive of `capacity` by its profile, or of the `size` that was asked for.
    ///
    /// # Errors
    /// A geometry that cannot be, with its key.
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

    /// What a drive of this profile offers: `capacity`, or what follows from `blocks_per_plane`.
    ///
    /// # Errors
    /// A geometry that cannot be, with its key.
    pub fn capacity(&self, capacity: Sectors) -> Result<Sectors, BadFigure> {
        match self.blocks_per_plane {
            Some(_) => self.geometry(capacity, None).map(|geometry| geometry.logical_bytes().sectors()),
            None => Ok(capacity),
        }
    }

    /// The times of the NAND, with units of `unit_bytes`.
    pub(crate) fn nand_timing(&self, unit_bytes: u32) -> NandTiming {
        NandTiming {
            read: micros(self.read_us),
            program: micros(self.program_us),
            erase: micros(self.erase_us),
            unit_transfer: micros(f64::from(unit_bytes) / self.channel_mb_per_s),
            read_setup: micros(self.read_overhead_us),
            write_setup: micros(self.write_overhead_us + self.erases_per_write_request * self.erase_us),
            parallelism: self.timing,
        }
    }

    /// The times of controller and link.
    pub(crate) fn host_timing(&self) -> HostTiming {
        // With serial timing the overheads are operations of their own.
        let overhead = |us| micros(if self.timing == Parallelism::Serial { 0.0 } else { us });
        HostTiming {
            read_overhead: overhead(self.read_overhead_us),
            write_overhead: overhead(self.write_overhead_us),
            command: micros(self.command_us),
            link_bytes_per_second: (self.link_mb_per_s * 1e6) as u64,
            flush: micros(self.flush_us),
        }
    }

    /// Whether a drive of `capacity` with these figures can be built.
    ///
    /// # Errors
    /// The first figure that is outside its range.
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
        ] {
            in_range(key, Some(value), min, max)?;
        }
        for (key, value) in [
            ("warranted_terabytes_written", self.warranted_terabytes_written),
            ("active_watts", self.active_watts),
            ("idle_watts", self.idle_watts),
            ("read_microjoules", self.read_microjoules),
            ("program_microjoules", self.program_microjoules),
            ("erase_microjoules", self.erase_microjoules),
        ] {
            in_range(key, value, 0.0, 1e9)?;
        }
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

    /// Whether copies inside a die stay there.
    pub(crate) fn copy_back(&self) -> bool {
        self.copy_back == Switch::On
    }
}

fn micros(value: f64) -> Nanoseconds {
    Nanoseconds((value * 1e3).round() as u64)
}

fn in_range(key: &'static str, value: Option<f64>, min: f64, max: f64) -> Result<(), BadFigure> {
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            Err(BadFigure::new(key, value, format!("a number from {min} to {max}")))
        }
        _ => Ok(()),
    }
}
