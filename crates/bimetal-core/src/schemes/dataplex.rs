//! Nvelo's Dataplex (Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid Storage Manager*,
//! section II A): software that caches blocks of the HDD on the SSD, and learns which blocks gain
//! most from the cache.
//!
//! Publicly known: Dataplex's algorithm "learns user behavior and decides which data should reside
//! in the SSD", and among its criteria are "frequency and recentness of the data". Dataplex
//! requires an SSD of at least four times the system's memory, since a smaller working set stays in
//! memory. The SSD must be much faster than the HDD. Dataplex sees blocks and files.
//!
//! The other rules of Dataplex are unpublished; the rules of this file are choices of this project.
//! *Recentness*: cached blocks are in the order of `replacement`, by default of last use.
//! *Frequency*: every request is counted in a sketch whose counts are halved now and then. A block
//! is admitted while there is room. Once the cache is full, a block is admitted only if it was used
//! more often than the block that would be evicted in its place. So one pass over much data
//! displaces nothing. Several blocks read at once are admitted together, and the block used least
//! decides. The scheme works by blocks, and by files as well if a map of files is given. Then the
//! uses of a block's file, divided by the file's blocks, are added to the uses of the block. So the
//! other blocks of a file in use rank above a block without uses. Writes go to both drives, since
//! no source says that a write may stay on the SSD alone.

use super::cache::{Cache, Decisions};
use crate::block::{Block, BlockRun};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role};
use crate::policies::admission;
use crate::policies::file_map::FileMap;
use crate::policies::lru;
use crate::policies::replacement::{Key, Policy};
use crate::policies::room::Room;
use crate::policies::sketch::{self, Sketch};
use crate::scheme::{Access, Foresight, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{SettingError, Settings, parameters};
use crate::units::{Nanoseconds, SectorRange};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// on: once the cache is full, a block enters only if it was used more often than the copy
        /// that it would evict (section II A: frequency); off: every block enters
        learning: bool = "on" live,
        /// policy that chooses the copy to evict (section II A: recentness; the policy is our
        /// choice); belady: the bound that knows the future, in a simulation only
        replacement: Policy = "lru",
    }
    and admission::PARAMETER
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "dataplex",
    summary: "the SSD caches blocks of the HDD, chosen by how often and how recently they were used",
    source: "Nvelo Dataplex, as in Performance Analysis of SSD/HDD Hybrid Storage Manager, II A",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each cached block is wholly old or wholly new",
    ssd_loss: "nothing",
    hdd_loss: "all data",
    bypass: &[
        (LESS_USED, "the block was used no more often than the copy that it would evict"),
        (Reason::NO_SPACE, "no slot was free: slots were still being freed"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + lru::BYTES_PER_BLOCK + sketch::BYTES_PER_SLOT,
    takes_only_what_is_accessed: true,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

/// The block was used no more often than the block that would be evicted in its place.
const LESS_USED: Reason = Reason("less-used");

/// Smallest ratio of the SSD's size to the host's memory (II A). A smaller working set stays in
/// memory.
pub const MEMORY_TIMES: u64 = 4;

/// Uses of files: for each file, the sum of the uses of its blocks. All counts are halved when the
/// counts of blocks are halved.
struct Files {
    map: FileMap,
    uses: Vec<u32>,
    total: u64,
}

/// Number of parts in which a use is counted, since the uses of a file are divided by its blocks.
const PARTS: u64 = 16;

impl Files {
    fn note(&mut self, sectors: SectorRange, block_sectors: u64, total_max: u64) {
        for (file, part) in self.map.parts(sectors) {
            let blocks = part.len.0.div_ceil(block_sectors);
            let uses = &mut self.uses[file as usize];
            *uses = uses.saturating_add(blocks as u32);
            self.total += blocks;
        }
        if self.total >= total_max {
            self.total /= 2;
            self.uses.iter_mut().for_each(|uses| *uses /= 2);
        }
    }

    /// Returns the mean uses of a block of the file that the first of `sectors` belongs to, in
    /// [`PARTS`].
    fn mean_of(&self, sectors: SectorRange, block_sectors: u64) -> u64 {
        let Some((file, _)) = self.map.parts(sectors).next() else { return 0 };
        let blocks = self.map.sectors(file).div_ceil(block_sectors).max(1);
        PARTS * u64::from(self.uses[file as usize]) / blocks
    }
}

struct Dataplex {
    learning: bool,
    uses: Sketch,
    files: Option<Files>,
    block_sectors: u64,
    /// Number of uses of files' blocks after which all counts are halved, as the sketch halves the
    /// counts of blocks.
    uses_max: u64,
    /// Slot that would be evicted next. The slot is determined again once it is evicted or used.
    next_to_go: Option<Slot>,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = layout.slots.map_or(0, |slots| slots.count);
    let parameters = Parameters::of(settings);
    let room = Room::new((parameters.replacement.0.build)(slots), slots);
    let dataplex = Dataplex {
        learning: parameters.learning,
        uses: Sketch::new(slots),
        files: None,
        block_sectors: layout.block.sectors(),
        uses_max: 10 * u64::from(slots.max(1)),
        next_to_go: None,
    };
    Ok(Cache::boxed(settings, layout, room, dataplex))
}

impl Dataplex {
    /// Returns the uses of `block` and, if there is a map of files, the mean uses of its file, in
    /// [`PARTS`].
    fn uses_of(&self, block: Block) -> u64 {
        let sectors = SectorRange::new(block.0 * self.block_sectors, self.block_sectors);
        let of_file = self.files.as_ref().map_or(0, |files| files.mean_of(sectors, self.block_sectors));
        PARTS * self.uses.count(Key::from(block).0) + of_file
    }

    /// Returns the number of uses that a block must exceed to be admitted; `None` if every block
    /// may be admitted.
    fn bar(&mut self, room: &mut Room, view: &View) -> Option<u64> {
        if !self.learning || room.is_ample(view) {
            return None;
        }
        if self.next_to_go.is_none() {
            self.next_to_go = room.first(1).first().copied();
        }
        let block = view.map.in_slot(self.next_to_go?)?.block;
        Some(self.uses_of(block))
    }

    fn is_worth_it(&self, bar: Option<u64>, block: Block) -> bool {
        bar.is_none_or(|bar| self.uses_of(block) > bar)
    }
}

impl Decisions for Dataplex {
    type Contents = Room;

    fn set(&mut self, _room: &mut Room, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.learning = Parameters::of(settings).learning;
        }
        Ok(live)
    }

    fn foresee(&mut self, foresight: &Foresight<'_>) {
        let map = FileMap::new(foresight.files, |_| 0);
        let uses = vec![0; map.files()];
        self.files = (!map.is_empty()).then_some(Files { map, uses, total: 0 });
    }

    fn arrived(&mut self, _room: &mut Room, _view: &View, access: &Access) {
        access.blocks.blocks().for_each(|block| self.uses.add(Key::from(block).0));
        if let Some(files) = &mut self.files {
            files.note(access.sectors, self.block_sectors, self.uses_max);
        }
    }

    fn place_write(&mut self, room: &mut Room, view: &View, _: &Access, rest: BlockRun) -> (Placement, u64) {
        let bar = self.bar(room, view);
        let comes_in = |block| view.map.get(block).is_some() || self.is_worth_it(bar, block);
        let first = comes_in(rest.first);
        let alike = rest.blocks().take_while(|&block| comes_in(block) == first).count() as u64;
        match (first, view.free_slots) {
            (false, _) => (Placement::Home(Some(LESS_USED)), alike),
            (true, 0) => (Placement::Home(Some(Reason::NO_SPACE)), alike),
            (true, free) => (Placement::Both, alike.min(free)),
        }
    }

    fn refuses_read(&mut self, room: &mut Room, view: &View, missing: BlockRun) -> Option<Reason> {
        let bar = self.bar(room, view);
        let worth_it = missing.blocks().all(|block| self.is_worth_it(bar, block));
        (!worth_it).then_some(LESS_USED)
    }

    /// Forgets that `slot` would be evicted next, since another slot may be next from now on.
    fn changes(&mut self, slot: Slot) {
        self.next_to_go = self.next_to_go.filter(|&next| next != slot);
    }

    fn next_timeout(&self, room: &Room, view: &View) -> Option<Nanoseconds> {
        room.is_due(view).then_some(view.now)
    }

    fn work(&mut self, room: &mut Room, view: &View) -> Work {
        if room.is_due(view) { room.make(view) } else { Work::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::LESS_USED;
    use crate::operation::OpKind::{Read, Write};
    use crate::scheme::{FileExtent, Foresight};
    use crate::testing::Bench;
    use crate::units::SectorRange;

    fn slots(bench: &Bench) -> u64 {
        u64::from(bench.volume.view().map.slots())
    }

    /// Reads one block, and returns the operations on the drives.
    fn read(bench: &mut Bench, block: u64) -> Vec<String> {
        bench.take_log();
        bench.request(Read, block * 8, 8);
        bench.take_log()
    }

    /// While slots are free, every block that is read is cached. Writes go to both drives, so no
    /// block is dirty.
    #[test]
    fn every_block_is_cached_while_there_is_room() {
        let mut bench = Bench::new("dataplex", &[]);
        assert_eq!(read(&mut bench, 10), ["hdd read 8", "ssd write 8"]);
        assert_eq!(read(&mut bench, 10), ["ssd read 8"]);
        bench.request(Write, 800, 8);
        assert_eq!(bench.take_log(), ["hdd write 8", "ssd write 8"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
    }

    /// Frequency: one pass over much data displaces no block that is used often. With
    /// `learning=off` the pass takes every slot.
    #[test]
    fn scan_displaces_no_frequently_used_block() {
        let hits_after_scan = |learning| {
            let mut bench = Bench::new("dataplex", &[("learning", learning)]);
            let hot = slots(&bench) / 2;
            (0..4).for_each(|_| (0..hot).for_each(|block| drop(read(&mut bench, block))));
            (0..4 * hot).for_each(|block| drop(read(&mut bench, 4000 + block)));
            (0..hot).filter(|&block| read(&mut bench, block) == ["ssd read 8"]).count() as u64 * 100 / hot
        };
        assert!(hits_after_scan("on") > 95, "{} %", hits_after_scan("on"));
        assert_eq!(hits_after_scan("off"), 0, "in order of last use alone the pass takes every slot");
    }

    /// Recentness: blocks that were used often long ago give way to blocks in use now.
    #[test]
    fn blocks_used_long_ago_yield_to_recently_used_ones() {
        let mut bench = Bench::new("dataplex", &[]);
        let count = slots(&bench);
        (0..6).for_each(|_| (0..count).for_each(|block| drop(read(&mut bench, block))));
        let now = |block| 6000 + block;
        (0..20).for_each(|_| (0..count / 2).for_each(|block| drop(read(&mut bench, now(block)))));
        let hits = (0..count / 2).filter(|&block| read(&mut bench, now(block)) == ["ssd read 8"]).count() as u64;
        assert!(hits > count / 2 * 9 / 10, "{hits} of {}", count / 2);
    }

    /// "Sees blocks and files": the other blocks of a file that is used often are admitted, and an
    /// unknown block is not.
    #[test]
    fn rest_of_a_used_file_comes_in_where_a_map_is_given() {
        for with_map in [true, false] {
            let mut bench = Bench::new("dataplex", &[]);
            if with_map {
                let file = FileExtent { path: "data".into(), sectors: SectorRange::new(64_000, 64 * 8), listed: None };
                bench.volume.foresee(&Foresight { tells_half: false, files: &[file] });
            }
            // The flash fills with blocks that are used once. Then half of the file is read six
            // times.
            (0..2 * slots(&bench)).for_each(|block| drop(read(&mut bench, block)));
            (0..6).for_each(|_| (0..32).for_each(|block| drop(read(&mut bench, 8000 + block))));
            drop(read(&mut bench, 8040));
            let served = read(&mut bench, 8040);
            assert_eq!(served[0], if with_map { "ssd read 8" } else { "hdd read 8" });
        }
    }

    #[test]
    fn what_is_not_worth_it_is_counted() {
        let mut bench = Bench::new("dataplex", &[]);
        let count = slots(&bench);
        (0..2).for_each(|_| (0..count).for_each(|block| drop(read(&mut bench, block))));
        assert_eq!(read(&mut bench, 9000), ["hdd read 8"]);
        bench.request(Write, 80_000, 8);
        assert_eq!(bench.take_log(), ["hdd write 8"]);
        assert!(bench.volume.statistics().bypassed_blocks[&LESS_USED] >= 2);
    }

    #[test]
    fn policies_give_up_different_blocks() {
        let mut evicted = std::collections::BTreeSet::new();
        for &policy in crate::policies::replacement::ONLINE_NAMES {
            let mut bench = Bench::new("dataplex", &[("replacement", policy)]);
            let count = slots(&bench);
            let (mut random, mut hits) = (1u64, 0u64);
            for step in 0..8 * count {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let block = (random >> 33) % if step % 2 == 0 { count / 2 } else { 5 * count };
                hits += u64::from(read(&mut bench, block) == ["ssd read 8"]);
            }
            assert!(hits > count, "{policy}: {hits} hits");
            evicted.insert((bench.volume.statistics().evicted_blocks, hits));
        }
        assert!(evicted.len() > 4, "{evicted:?}");
    }
}
