//! `dftl`: page mapping with a mapping table on flash and a cache of its entries in the
//! controller's memory (Gupta, Kim and Urgaonkar, "DFTL: a flash translation layer employing
//! demand-based selective caching of page-level address mappings", ASPLOS 2009). MixedStore uses
//! this layer (its section 2.1).
//!
//! Translation pages hold the entries of consecutive units; the places of translation pages are
//! always in memory. Every read and write needs the entry of its unit in the cache. A missing entry
//! is fetched by a read of the entry's translation page. An entry that is evicted is written back
//! if the entry changed. The translation page of the evicted entry is read, and a new version is
//! written with all changed entries of this page that are in the cache (batch update). The entries
//! of units that the collector moved are changed in the cache, if they are cached (lazy copying).
//! The entries that are not in the cache are changed in their translation pages, page by page, when
//! the victim is erased.
//!
//! Beyond the paper: with a cache as large as the mapping table, the whole mapping table is loaded
//! at power-on, and no translation page is read after that. A request that needs several entries of
//! one translation page reads the page once. A mapping unit holds the entries of a translation
//! page, and translation pages are gathered into rows like the host's data. An entry takes eight
//! bytes in the cache and four on flash.

use std::collections::BTreeMap;

use super::cached_map::CachedMap;
use super::page::PageMapping;
use super::{Counters, Info, Placed, Setup, TranslationLayer};
use crate::flash::geometry::{Geometry, RESERVED_BLOCKS_PER_DIE};
use crate::flash::operation::NandOp;
use crate::flash::precondition::Precondition;
use crate::flash::state::archive::{Archive, Checked, ensure};
use crate::profile::BadFigure;

/// Bytes of an entry in the cache.
const CACHED_ENTRY_BYTES: u64 = 8;

/// Bytes of an entry in a translation page.
const ENTRY_BYTES: u32 = 4;

/// Number of blocks in a die for translation pages, in addition to the blocks of page mapping: the
/// open block, and a full block.
const TABLE_BLOCKS: u32 = 2;

pub(crate) const INFO: Info = Info {
    name: "dftl",
    whole_pages: false,
    reserve: |profile| RESERVED_BLOCKS_PER_DIE + profile.wear_levelling.open_blocks() + TABLE_BLOCKS,
    make: |setup| Ok(Box::new(Dftl::new(setup)?)),
};

pub(crate) struct Dftl {
    pages: PageMapping,
    /// Cached entries; `None`: the whole mapping table is in memory.
    cache: Option<CachedMap>,
    /// Number of units of the host; the translation pages are the units after the host's units.
    units: u32,
    entries_per_page: u32,
    /// Translation pages whose changed entries are only on flash; `is_stale` is set for these
    /// pages.
    stale: Vec<u32>,
    is_stale: Vec<bool>,
    /// Number of erases at the time when stale pages were last written.
    erases: u64,
}

impl Dftl {
    fn new(setup: &Setup) -> Result<Self, BadFigure> {
        let units = setup.geometry.logical_units;
        let entries = u32::try_from(setup.profile.map_cache.0.0 / CACHED_ENTRY_BYTES).unwrap_or(u32::MAX);
        if entries < 2 {
            let expected = format!("at least {} bytes, two entries of the map", 2 * CACHED_ENTRY_BYTES);
            return Err(BadFigure::new("map_cache", setup.profile.map_cache.0, expected));
        }
        let entries_per_page = setup.geometry.unit_bytes / ENTRY_BYTES;
        let table_pages = if entries >= units { 0 } else { units.div_ceil(entries_per_page) };
        let geometry = with_tables(setup, table_pages)?;
        // Number of blocks in a die that the translation pages fill; one more is the open block.
        let per_die = table_pages.div_ceil(geometry.dies() * geometry.units_per_block());
        let mut pages = PageMapping::of(setup, geometry, if table_pages > 0 { per_die + 1 } else { 0 })?;
        let cache = (table_pages > 0).then(|| CachedMap::new(units, entries));
        if cache.is_some() {
            pages.note_moves();
        }
        let is_stale = vec![false; table_pages as usize];
        let mut dftl = Self { pages, cache, units, entries_per_page, stale: Vec::new(), is_stale, erases: 0 };
        let filled = setup.precondition != Precondition::Clean && setup.units > 0;
        if dftl.cache.is_some() && filled && !setup.restored {
            let end = (setup.start + setup.units).div_ceil(entries_per_page);
            dftl.pages.prepare_tables(units + setup.start / entries_per_page..units + end);
        }
        Ok(dftl)
    }

    /// Fetches the entries of the units from `start` up to `end` that are not cached.
    fn fetch(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let mut fetched = None;
        for unit in start..end {
            let Some(cache) = &mut self.cache else { return };
            if cache.use_entry(unit) {
                continue;
            }
            let table = unit / self.entries_per_page;
            let lost = cache.insert(unit);
            if fetched != Some(table) {
                fetched = Some(table);
                self.sense(table, operations);
            }
            if let Some(lost) = lost {
                self.write_table(lost / self.entries_per_page, operations);
            }
        }
    }

    fn sense(&mut self, table: u32, operations: &mut Vec<NandOp>) {
        if let Some(physical) = self.pages.in_cells(self.units + table) {
            self.pages.sense_table(physical, operations);
        }
    }

    /// Reads a translation page and writes it again with its changes.
    fn write_table(&mut self, table: u32, operations: &mut Vec<NandOp>) {
        self.sense(table, operations);
        let start = table * self.entries_per_page;
        if let Some(cache) = &mut self.cache {
            cache.set_clean(start, self.units.min(start.saturating_add(self.entries_per_page)));
        }
        self.pages.append_table(self.units + table, operations);
    }

    /// Brings the translation pages up to date after units were moved, once a victim is erased.
    /// Programming translation pages may move further units, which wait for the next victim.
    fn update_moved(&mut self, operations: &mut Vec<NandOp>) {
        let erases = self.pages.counters().blocks_erased.iter().sum();
        let Some(cache) = self.cache.as_mut().filter(|_| erases != self.erases) else { return };
        self.erases = erases;
        for unit in self.pages.moved().drain(..).filter(|unit| *unit < self.units) {
            let table = unit / self.entries_per_page;
            if !cache.set_dirty(unit) && !std::mem::replace(&mut self.is_stale[table as usize], true) {
                self.stale.push(table);
            }
        }
        for table in std::mem::take(&mut self.stale) {
            self.is_stale[table as usize] = false;
            self.write_table(table, operations);
        }
    }

    /// Drops the translation pages of units that are all dropped, and changes the translation pages
    /// at the ends of the range.
    fn trim_tables(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        let per = self.entries_per_page;
        let last = if end == self.units { end.div_ceil(per) } else { end / per };
        let whole = start.div_ceil(per)..last.max(start.div_ceil(per));
        self.pages.trim(self.units + whole.start, self.units + whole.end, operations);
        for table in [start / per, (end - 1) / per] {
            let partial = !whole.contains(&table) && self.pages.is_mapped(self.units + table);
            if partial && !std::mem::replace(&mut self.is_stale[table as usize], true) {
                self.stale.push(table);
            }
        }
    }
}

/// Returns the geometry of `setup` with `table_pages` more units.
fn with_tables(setup: &Setup, table_pages: u32) -> Result<Geometry, BadFigure> {
    let geometry = setup.geometry;
    let units = u64::from(geometry.logical_units) + u64::from(table_pages);
    let rows = u64::from(geometry.units_per_row()) * 2;
    let reserved = RESERVED_BLOCKS_PER_DIE + setup.profile.wear_levelling.open_blocks() + 1;
    let blocks = geometry.blocks_per_plane.saturating_sub(reserved);
    let room = u64::from(blocks) * u64::from(geometry.units_per_block());
    if units.div_ceil(geometry.dies().into()) + rows > room {
        let expected = format!("spare area for {table_pages} translation pages (a larger map_cache helps as well)");
        return Err(BadFigure::new("spare_factor", setup.profile.spare_factor, expected));
    }
    Ok(Geometry { logical_units: units as u32, ..geometry })
}

impl TranslationLayer for Dftl {
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed {
        self.fetch(unit, unit + 1, operations);
        let placed = self.pages.write(unit, operations);
        if let Some(cache) = &mut self.cache {
            cache.set_dirty(unit);
        }
        self.update_moved(operations);
        placed
    }

    fn flush(&mut self, operations: &mut Vec<NandOp>) {
        self.pages.flush(operations);
    }

    fn look_up(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        self.fetch(start, end, operations);
    }

    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        self.pages.read(start, end, operations);
    }

    fn trim(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) {
        if start >= end {
            return;
        }
        self.pages.trim(start, end, operations);
        if let Some(cache) = &mut self.cache {
            cache.forget(start, end);
            self.trim_tables(start, end, operations);
        }
    }

    fn programmed(&mut self, program: &NandOp) {
        self.pages.programmed(program);
    }

    fn wants_idle_time(&self) -> bool {
        self.pages.wants_idle_time()
    }

    fn use_idle_time(&mut self, operations: &mut Vec<NandOp>) -> bool {
        let any = self.pages.use_idle_time(operations);
        self.update_moved(operations);
        any
    }

    fn set_intense(&mut self, intense: bool) {
        self.pages.set_intense(intense);
    }

    fn fragmented(&self, most: usize) -> Option<Vec<u32>> {
        // The translation pages belong to the FTL itself.
        let units = self.pages.fragmented(most.saturating_add(self.is_stale.len()))?;
        Some(units.into_iter().filter(|unit| *unit < self.units).take(most).collect())
    }

    fn take_refused(&mut self) -> u64 {
        self.pages.take_refused()
    }

    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32> {
        self.pages.locate(unit)
    }

    fn counters(&self) -> &Counters {
        self.pages.counters()
    }

    fn erases_of_blocks(&self) -> BTreeMap<u32, u64> {
        self.pages.erases_of_blocks()
    }

    fn memory_bytes(&self) -> u64 {
        let cache = self.cache.as_ref().map_or(0, CachedMap::memory_bytes);
        self.pages.memory_bytes() + cache + self.is_stale.capacity() as u64 + self.stale.capacity() as u64 * 4
    }

    fn most_cycles(&self) -> f64 {
        self.pages.most_cycles()
    }

    fn transfer(&mut self, archive: &mut Archive) -> Checked {
        self.pages.transfer(archive)?;
        let tables = self.is_stale.len() as u32;
        if let Some(cache) = &mut self.cache {
            cache.transfer(self.units, archive)?;
            archive.list(&mut self.stale, tables.into(), tables)?;
        }
        // Set if a victim was erased since the moved units were handled.
        let mut erased = self.erases != self.pages.counters().blocks_erased.iter().sum::<u64>();
        archive.flag(&mut erased)?;
        if archive.is_reading() {
            self.erases = if erased { u64::MAX } else { 0 };
            for table in &self.stale {
                let twice = std::mem::replace(&mut self.is_stale[*table as usize], true);
                ensure(!twice, || format!("translation page {table} is stale twice"))?;
            }
        }
        Ok(())
    }

    fn waiting_units(&self) -> u32 {
        self.pages.waiting_units()
    }

    fn check(&self) -> Checked {
        self.pages.check()?;
        self.cache.as_ref().map_or(Ok(()), CachedMap::check)
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::flash::operation::{Cause, NandKind};
    use crate::flash::tests::flash_profile;

    const GEOMETRY: Geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 512,
        pages_per_block: 64,
        page_bytes: 4096,
        unit_bytes: 4096,
        logical_units: 512 * 64 * 8 / 10,
    };

    /// Returns the counters of the layer `ftl` with a cache for the share `part` of the mapping
    /// table. The layer has served `rounds` times its size of uniform overwrites, with one read for
    /// each.
    fn after(ftl: &str, part: f64, rounds: u32, precondition: Precondition) -> Counters {
        let units = GEOMETRY.logical_units;
        let cache = (f64::from(units) * part * CACHED_ENTRY_BYTES as f64).ceil().to_string();
        let profile = flash_profile(&[("ftl", ftl), ("map_cache", &cache)]);
        let setup =
            Setup { profile: &profile, geometry: GEOMETRY, precondition, start: 0, units, seed: 1, restored: false };
        let mut layer = (profile.ftl.0.make)(&setup).unwrap();
        let (mut random, mut operations) = (Pcg64::seed_from_u64(1), Vec::new());
        for _ in 0..rounds * units {
            let [written, read] = [random.next_u32() % units, random.next_u32() % units];
            layer.write(written, &mut operations);
            layer.look_up(read, read + 1, &mut operations);
            layer.read(read, read + 1, &mut operations);
            for operation in operations.drain(..).filter(|operation| operation.kind == NandKind::Program) {
                layer.programmed(&operation);
            }
        }
        layer.check().unwrap();
        layer.counters().clone()
    }

    fn amplification(counters: &Counters) -> f64 {
        counters.pages_programmed.iter().sum::<u64>() as f64 / counters.host_units as f64
    }

    #[test]
    fn with_its_whole_map_cached_it_is_page_mapping() {
        for precondition in [Precondition::Clean, Precondition::Sequential, Precondition::Random] {
            let (page, dftl) = (after("page", 1.0, 3, precondition), after("dftl", 1.0, 3, precondition));
            let (page_wa, dftl_wa) = (amplification(&page), amplification(&dftl));
            assert!((dftl_wa / page_wa - 1.0).abs() < 0.01, "{precondition:?}: {dftl_wa} {page_wa}");
            assert_eq!(page.pages_read, dftl.pages_read, "{precondition:?}");
        }
    }

    #[test]
    fn the_extra_cost_grows_as_the_cache_shrinks() {
        let translation = Cause::Translation as usize;
        let (mut reads, mut programs, mut all) = (0, 0, 0.0);
        for part in [1.0, 0.8, 0.5, 0.2, 0.05, 0.005] {
            let counters = after("dftl", part, 2, Precondition::Random);
            let (read, programmed) = (counters.pages_read[translation], counters.pages_programmed[translation]);
            let amplification = amplification(&counters);
            eprintln!("{part}: {read} reads, {programmed} programs, amplification {amplification:.3}");
            if part == 1.0 {
                assert_eq!((read, programmed), (0, 0));
            } else {
                assert!(read > reads && programmed > programs && amplification > all, "with {part} of the map");
            }
            (reads, programs, all) = (read, programmed, amplification);
        }
    }

    /// A lookup reads a translation page only if the entry is not cached, and at most once a
    /// request.
    #[test]
    fn map_page_is_read_only_for_uncached_entries() {
        let profile = flash_profile(&[("ftl", "dftl"), ("map_cache", "64")]);
        let units = GEOMETRY.logical_units;
        let precondition = Precondition::Sequential;
        let setup =
            Setup { profile: &profile, geometry: GEOMETRY, precondition, start: 0, units, seed: 1, restored: false };
        let mut layer = Dftl::new(&setup).unwrap();
        let mut looked_up = |start, end| {
            let mut operations = Vec::new();
            layer.look_up(start, end, &mut operations);
            operations.len()
        };
        // Eight entries fit. A request reads each of its translation pages once.
        assert_eq!([looked_up(0, 4), looked_up(1, 3), looked_up(1022, 1026), looked_up(4, 5)], [1, 0, 2, 1]);
    }
}
