//! A hybrid disk whose flash the operating system manages (Konanki's thesis, *An Exploration of
//! Hybrid Hard Disk Designs*, configuration 1, sections 1 and 3.2). Disk and flash are both
//! visible, as units of their own, and the host offloads selected writes of the disk to flash.
//!
//! The published description: "the operating system offloads selected writes to the flash, manages
//! the metadata to track the location of data, ensures that consistent data is returned on reads,
//! and flushes the contents of the flash to disk when appropriate". Writes are selected by the
//! host's knowledge: "file metadata could be written to flash whereas file data could be directly
//! written to the disk".
//!
//! Our choices. The host's driver is this scheme. The disk is the first unit, a share of the flash
//! (`flash_unit`) the last unit, and the rest of the flash holds offloaded writes. A write of the
//! disk is selected by its size, as in configuration 2, or because it lies in metadata of a file
//! system. Metadata lies in `regions`. With `metadata=on`, all addresses that the host's map of
//! files lists neither as a file nor as free space count as metadata, too. The host flushes
//! everything a period after the last flush, or after the first offloaded write since then, as
//! Linux writes back pages that are 30 s old. The host also flushes when a write finds no room.

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role, SlotKind};
use crate::policies::room::DirtySince;
use crate::scheme::{Access, Foresight, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{MOVE_RATE, Ranges, SettingError, Settings, Share, parameters};
use crate::units::{Bytes, Nanoseconds, SectorRange};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// share of the flash that is a unit of its own; the other part holds offloaded writes (our
        /// figure)
        flash_unit: Share = "0.25",
        /// writes below this size are offloaded (section 3.3); off: no write is offloaded for its
        /// size
        write_threshold: Option<Bytes> = "512KiB" live,
        /// addresses of the disk whose writes are offloaded at any size, such as metadata of file
        /// systems (section 3.2)
        regions: Ranges = "off",
        /// on: with a map of files, writes of the disk that touch neither a file nor free space are
        /// offloaded at any size, as metadata of the file system (section 3.2)
        metadata: bool = "off",
        /// offloaded writes are flushed to the disk this long after the last flush (our figure);
        /// off: offloaded writes are flushed only when a write finds no room
        flush_period: Option<Nanoseconds> = "30s" live,
    }
    and MOVE_RATE
}

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "os-managed",
    summary: "disk and flash are two units; the host offloads selected writes of the disk unit to flash and flushes \
              them later",
    source: "Konanki (thesis), sections 1 and 3.2, configuration 1",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each offloaded block is wholly old or wholly new",
    ssd_loss: "the flash unit, and every write that was offloaded since the last flush; the volume cannot start without the SSD",
    hdd_loss: "all data of the disk unit",
    bypass: &[
        (Reason::LARGE, "a write that is too large to be offloaded"),
        (Reason::NOT_ADMITTED, "a write outside of the regions that are offloaded"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        let (hdd, ssd) = (request.only(Role::Hdd)?, request.only(Role::Ssd)?);
        let share = Parameters::of(settings).flash_unit.0;
        let blocks = ((request.blocks_of(ssd) as f64 * share) as u64).max(1);
        let units = request.with_unit(request.concatenated(&[hdd])?, ssd, blocks)?;
        Ok(request.with_slots(units, ssd, SlotKind::Cache)?)
    },
    build,
};

/// Smallest period; with a shorter period a host would do nothing but flush.
const PERIOD_MIN: Nanoseconds = Nanoseconds::from_millis(1);

struct OsManaged {
    write_threshold: Bytes,
    regions: Vec<SectorRange>,
    /// Set if writes to addresses that the map of files does not name are offloaded.
    metadata: bool,
    /// Sectors that the map of files names, from and to, in order.
    named: Vec<(u64, u64)>,
    period: Option<Nanoseconds>,
    /// Time of the last flush, or of the first offloaded write after that flush.
    offloaded: DirtySince,
    /// The first block of the flash unit.
    flash_unit: Block,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let parameters = Parameters::of(settings);
    let regions = parameters.regions.0.iter();
    let regions = regions.map(|&(from, to)| {
        let first = from.0 / 512;
        SectorRange::new(first, to.0.div_ceil(512) - first)
    });
    let flash_unit = layout.units.last().map_or(Block(0), |unit| unit.first);
    let mut scheme = OsManaged {
        write_threshold: Bytes::ZERO,
        regions: regions.collect(),
        metadata: parameters.metadata,
        named: Vec::new(),
        period: None,
        offloaded: DirtySince::default(),
        flash_unit,
    };
    scheme.take_limits(&parameters, settings)?;
    Ok(Box::new(scheme))
}

impl OsManaged {
    fn take_limits(&mut self, parameters: &Parameters, settings: &Settings) -> Result<(), SettingError> {
        let period = parameters.flush_period;
        if period.is_some_and(|period| period < PERIOD_MIN) {
            return Err(settings.refuse(name::flush_period, format!("at least {PERIOD_MIN}, or off")));
        }
        self.period = period;
        self.write_threshold = parameters.write_threshold.unwrap_or(Bytes::ZERO);
        Ok(())
    }

    fn is_selected(&self, access: &Access) -> bool {
        let inside =
            |region: &SectorRange| access.sectors.start >= region.start && access.sectors.end() <= region.end();
        let selected = access.sectors.len.bytes() < self.write_threshold || self.regions.iter().any(inside);
        selected || self.is_metadata(access.sectors)
    }

    /// Returns true if there is a map of files, `metadata` is on, and the map names none of
    /// `sectors`.
    fn is_metadata(&self, sectors: SectorRange) -> bool {
        let behind = self.named.partition_point(|&(_, end)| end <= sectors.start.0);
        let is_named = self.named.get(behind).is_some_and(|&(from, _)| from < sectors.end().0);
        self.metadata && !self.named.is_empty() && !is_named
    }

    fn is_full(view: &View) -> bool {
        view.waiting_for_slots > 0 && view.freeing_slots == 0
    }

    fn flush_at(&self, view: &View) -> Option<Nanoseconds> {
        if view.moving || view.map.is_empty() || !view.slots_online() {
            return None;
        }
        Some(self.offloaded.time().saturating_add(self.period?))
    }
}

impl Scheme for OsManaged {
    fn arrived(&mut self, view: &View, _access: &Access) {
        self.offloaded.arrived(view);
    }

    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        if rest.first >= self.flash_unit {
            return (Placement::Home(None), rest.count);
        }
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        if !self.is_selected(access) {
            let large = self.write_threshold > Bytes::ZERO;
            return (Placement::Home(Some(if large { Reason::LARGE } else { Reason::NOT_ADMITTED })), rest.count);
        }
        match view.free_slots {
            0 => (Placement::Wait, rest.count),
            free => (Placement::Slot, rest.count.min(free)),
        }
    }

    fn mapped(&mut self, view: &View, _slot: Slot, _valid: ValidMask, _replaced: Option<Slot>) {
        self.offloaded.mapped(view, true);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        self.flush_at(view)
    }

    fn work(&mut self, view: &View) -> Work {
        let due = self.flush_at(view).is_some_and(|at| at <= view.now);
        if view.moving || view.map.is_empty() || !view.slots_online() || !(due || Self::is_full(view)) {
            return Work::Nothing;
        }
        self.offloaded.restart(view.now);
        Work::MigrateAll
    }

    fn foresee(&mut self, _view: &View, foresight: &Foresight<'_>) {
        let mut named: Vec<(u64, u64)> =
            foresight.files.iter().map(|extent| (extent.sectors.start.0, extent.sectors.end().0)).collect();
        named.sort_unstable();
        // An extent that ends no later than the extent before it adds nothing.
        self.named.clear();
        for (from, to) in named {
            if self.named.last().is_none_or(|&(_, end)| to > end) {
                self.named.push((from, to));
            }
        }
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = ["write_threshold", "flush_period"].contains(&key);
        if live {
            self.take_limits(&Parameters::of(settings), settings)?;
        }
        Ok(live)
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::scheme::{FileExtent, Foresight};
    use crate::testing::Bench;
    use crate::units::{Nanoseconds, SectorRange};

    #[test]
    fn disk_and_flash_are_both_visible() {
        let mut bench = Bench::new("os-managed", &[]);
        let units: Vec<_> = bench.volume.units().collect();
        assert_eq!(units.len(), 2);
        assert!(units[1] < units[0]);
        bench.request_to(1, OpKind::Write, 0, 8);
        bench.request_to(1, OpKind::Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd write 8", "ssd read 8"]);
        assert!(bench.volume.view().map.is_empty(), "at home on flash");
    }

    #[test]
    fn small_writes_are_offloaded_and_flushed_each_period() {
        let mut bench = Bench::new("os-managed", &[]);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Write, 8000, 1024);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 1024", "ssd read 8"]);
        bench.pass(Nanoseconds::from_seconds(31));
        assert!(bench.take_log().contains(&"hdd write 8".to_owned()));
        assert!(bench.volume.view().map.is_empty());
    }

    /// Konanki, section 3.2: "file metadata could be written to flash whereas file data could be
    /// directly written to the disk".
    #[test]
    fn writes_of_a_region_are_offloaded_whatever_their_size() {
        let mut bench = Bench::new("os-managed", &[("write_threshold", "off"), ("regions", "0-1MiB")]);
        bench.request(OpKind::Write, 0, 1024);
        bench.request(OpKind::Write, 80_000, 8);
        assert_eq!(bench.take_log(), ["ssd write 1024", "hdd write 8"]);
    }

    /// Addresses that a map of files does not name are metadata of the file system. A new map of
    /// files replaces the map before.
    #[test]
    fn metadata_of_a_file_system_is_what_no_file_has() {
        let mut bench = Bench::new("os-managed", &[("write_threshold", "off"), ("metadata", "on")]);
        let extent = |path: &str, start, len| FileExtent {
            path: path.into(),
            sectors: SectorRange::new(start, len),
            listed: None,
        };
        let written = |bench: &mut Bench, start, sectors| {
            bench.take_log();
            bench.request(OpKind::Write, start, sectors);
            bench.take_log().remove(0)
        };
        assert_eq!(written(&mut bench, 0, 1024), "hdd write 1024", "no map, no metadata");
        let files = [extent("b", 4096, 64), extent("", 8192, 1024), extent("a", 2048, 1024), extent("a", 2048, 8)];
        bench.volume.foresee(&Foresight { tells_half: false, files: &files });
        let expected = [
            (0, 1024, "ssd write 1024"),
            (1024, 1024, "ssd write 1024"),
            (1024, 1032, "hdd write 1032"),
            (3064, 16, "hdd write 16"),
            (3072, 1024, "ssd write 1024"),
            (4096, 8, "hdd write 8"),
            (4160, 8, "ssd write 8"),
            (8200, 8, "hdd write 8"),
            (9216, 8, "ssd write 8"),
        ];
        for (start, sectors, to) in expected {
            assert_eq!(written(&mut bench, start, sectors), to, "{start}");
        }
        bench.volume.foresee(&Foresight { tells_half: false, files: &[extent("a", 0, 8)] });
        assert_eq!(written(&mut bench, 4096, 8), "ssd write 8");
        let mut off = Bench::new("os-managed", &[("write_threshold", "off")]);
        off.volume.foresee(&Foresight { tells_half: false, files: &files });
        assert_eq!(written(&mut off, 0, 8), "hdd write 8", "metadata=off");
    }

    #[test]
    fn a_write_that_finds_no_room_makes_the_host_flush() {
        let mut bench = Bench::new("os-managed", &[("flush_period", "off")]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots + 1).for_each(|at| bench.request(OpKind::Write, at * 16, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        assert_eq!(bench.volume.view().map.len(), 1);
    }

    #[test]
    fn what_is_written_again_and_again_is_flushed_all_the_same() {
        let mut bench = Bench::new("os-managed", &[]);
        for _ in 0..7 {
            bench.request(OpKind::Write, 80, 8);
            bench.pass(Nanoseconds::from_seconds(5));
        }
        assert_eq!(bench.volume.statistics().migrations.count, 1);
    }
}
