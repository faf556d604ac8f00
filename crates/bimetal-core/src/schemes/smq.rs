//! dm-cache with its policy *smq*, the stochastic multi-queue, the default of Linux and of LVM
//! caches (Linux, `Documentation/admin-guide/device-mapper/cache.rst` and `cache-policies.rst`,
//! `drivers/md/dm-cache-policy-smq.c`).
//!
//! Cached blocks stand in one [multi-queue](crate::policies::multi_queue). A second multi-queue,
//! the *hotspot queue*, ranks larger regions of the address space, regardless of whether any of
//! their blocks are cached. A block is promoted when its region stands high enough in the hotspot
//! queue. The level at which blocks are promoted is set anew every second. The level is low while
//! the cache has room. Once the cache is full, the level depends on the cache's hits: few blocks
//! are promoted when the cache hits well or badly, and more blocks when it hits moderately. The
//! level is higher if the hotspot queue predicts badly; then regions also move faster. A written
//! block that is covered whole is admitted while there is room. Levels are made equally full every
//! second (hotspots) and every ten seconds (cache). Write-back: dirty blocks are written back while
//! the HDD has been idle for a second, and when less than 5 % of the cache is clean.
//!
//! Our choices: a block is the volume's block (4 KiB). dm-cache's blocks are 32 KiB to 1 GiB; in
//! this scheme a block is promoted only when it is read, from the content of the read, and is not
//! copied as a whole. A region is sixteen blocks or less, as in dm-cache. Dirty blocks are written
//! back in order of slot, and not in order of level. If no clean block is left to evict, the lowest
//! dirty blocks are written back and evicted, while dm-cache promotes nothing.

use super::cache::{Cache, Decisions};
use crate::block::{Block, BlockRun};
use crate::block_map;
use crate::layout::{Layout, MemberId, Role};
use crate::policies::admission;
use crate::policies::hotspots::{self, Hotspots, Standing};
use crate::policies::multi_queue::{self, LEVELS, MultiQueue};
use crate::policies::room::{Room, Round};
use crate::scheme::{Access, CacheMode, Holds, LinuxCounterpart, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{MOVE_RATE, SettingError, Settings, parameters};
use crate::units::Nanoseconds;

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// dirty blocks are written back when no request has used the HDD for this long
        /// (dm-cache-target.c: one second)
        idle: Nanoseconds = "1s" live,
    }
    and admission::PARAMETER, MOVE_RATE
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "smq",
    summary: "dm-cache's stochastic multi-queue: blocks of regions that are requested often are cached, in levels; \
              write-back",
    source: "Linux dm-cache, policy smq",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each cached block is wholly old or wholly new",
    ssd_loss: "writes that were not written back yet",
    hdd_loss: "all data",
    bypass: &[
        (NOT_HOT, "the region was not requested steadily enough"),
        (Reason::NO_SPACE, "no slot was free: slots were still being freed"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + multi_queue::BYTES_PER_SLOT + hotspots::BYTES_PER_SLOT,
    takes_only_what_is_accessed: true,
    linux_counterpart: |_| Some(LinuxCounterpart::DmCache(CacheMode::WriteBack)),
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

/// The block's region is not requested often enough.
const NOT_HOT: Reason = Reason("not-hot");

/// Period of the hotspot queue, after which the level for promotions is set anew.
const TICK: Nanoseconds = Nanoseconds::from_seconds(1);
/// Period of the cache's queue, in which a block rises at most once.
const CACHE_PERIOD: Nanoseconds = Nanoseconds::from_seconds(10);
/// Number of levels by which a region must be higher for a promotion by a write than for a
/// promotion by a read.
const WRITE_EXTRA: usize = 2;
/// Divisor of the share that is kept clean: at least one block of twenty.
const CLEAN_PART: u64 = 20;

/// Number of highest hotspot levels whose blocks are promoted when the cache is full, indexed by
/// the share of hits in sixteenths.
const LEVELS_BY_HITS: [usize; 17] = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1];

struct Smq {
    hotspots: Hotspots,
    cache_standing: Standing,
    /// Lowest hotspot level from which a read promotes blocks.
    promote_level: usize,
    next_tick: Nanoseconds,
    next_cache_period: Nanoseconds,
    idle: Nanoseconds,
    hdd: MemberId,
    written_back: Round,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = layout.slots.map_or(0, |slots| slots.count);
    let room = Room::new(MultiQueue::new(slots), slots);
    let smq = Smq {
        hotspots: Hotspots::new(slots, layout.total_blocks()),
        cache_standing: Standing::default(),
        promote_level: LEVELS,
        next_tick: Nanoseconds::ZERO,
        next_cache_period: CACHE_PERIOD,
        idle: Parameters::of(settings).idle,
        hdd: layout.home[0].member,
        written_back: Round::default(),
    };
    Ok(Cache::boxed(settings, layout, room, smq))
}

impl Smq {
    /// Ends each period whose time has passed.
    fn tick(&mut self, room: &mut Room<MultiQueue>, view: &View) {
        if view.now < self.next_tick {
            return;
        }
        self.next_tick = view.now.saturating_add(TICK);
        let full = LEVELS_BY_HITS[self.cache_standing.sixteenths() as usize];
        let levels = if room.is_ample(view) { LEVELS / 2 } else { full };
        self.promote_level = LEVELS - levels / self.hotspots.caution();
        self.hotspots.end_period();
        if view.now >= self.next_cache_period {
            self.next_cache_period = view.now.saturating_add(CACHE_PERIOD);
            room.replacement_mut().end_period();
            self.cache_standing = Standing::default();
        }
    }

    fn is_hot(&self, block: Block, extra: usize) -> bool {
        self.hotspots.level(block).is_some_and(|level| level >= self.promote_level + extra)
    }

    /// Returns true if `block`, which `access` writes, gets a slot.
    fn takes_write(&self, room: &Room<MultiQueue>, view: &View, access: &Access, block: Block) -> bool {
        let size = view.block();
        let whole = || size.clip(access.sectors, block).len.0 == size.sectors();
        view.map.get(block).is_some() || self.is_hot(block, WRITE_EXTRA) || (room.is_ample(view) && whole())
    }

    /// Returns the time at which dirty blocks may be written back.
    fn write_back_at(&self, view: &View) -> Option<Nanoseconds> {
        let (dirty, slots) = (u64::from(view.map.dirty_blocks()), u64::from(view.map.slots()));
        if dirty == 0 || view.moving || !view.slots_online() {
            return None;
        }
        let critical = dirty > slots - slots / CLEAN_PART;
        if critical { Some(view.now) } else { view.member(self.hdd).idle_at(self.idle) }
    }
}

impl Decisions for Smq {
    type Contents = Room<MultiQueue>;

    fn set(&mut self, _room: &mut Room<MultiQueue>, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.idle = Parameters::of(settings).idle;
        }
        Ok(live)
    }

    fn arrived(&mut self, room: &mut Room<MultiQueue>, view: &View, access: &Access) {
        self.tick(room, view);
        self.hotspots.asked_for(access.blocks);
        for block in access.blocks.blocks() {
            let level = view.map.get(block).and_then(|(slot, _)| room.replacement().level(slot));
            self.cache_standing.count(level);
        }
    }

    fn place_write(
        &mut self,
        room: &mut Room<MultiQueue>,
        view: &View,
        access: &Access,
        rest: BlockRun,
    ) -> (Placement, u64) {
        let first = self.takes_write(room, view, access, rest.first);
        let same = |&block: &Block| self.takes_write(room, view, access, block) == first;
        let alike = rest.blocks().take_while(same).count() as u64;
        match (first, view.free_slots) {
            (false, _) => (Placement::Home(Some(NOT_HOT)), alike),
            (true, 0) => (Placement::Home(Some(Reason::NO_SPACE)), alike),
            (true, free) => (Placement::Slot, alike.min(free)),
        }
    }

    fn refuses_read(&mut self, _room: &mut Room<MultiQueue>, _view: &View, missing: BlockRun) -> Option<Reason> {
        let hot = missing.blocks().all(|block| self.is_hot(block, 0));
        (!hot).then_some(NOT_HOT)
    }

    fn next_timeout(&self, room: &Room<MultiQueue>, view: &View) -> Option<Nanoseconds> {
        if room.is_due(view) { Some(view.now) } else { self.write_back_at(view) }
    }

    fn work(&mut self, room: &mut Room<MultiQueue>, view: &View) -> Work {
        let write_back_at = self.write_back_at(view);
        room.work(view, write_back_at, &mut self.written_back)
    }
}

#[cfg(test)]
mod tests {
    use super::NOT_HOT;
    use crate::operation::OpKind::{Read, Write};
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    const SECOND: Nanoseconds = Nanoseconds::from_seconds(1);

    fn slots(bench: &Bench) -> u64 {
        u64::from(bench.volume.view().map.slots())
    }

    /// Plays a second of a workload. Reads `hot` regions, which are the same in every second, and
    /// as many other regions, which no earlier second has read.
    fn second(bench: &mut Bench, second: u64, hot: u64) {
        for region in 0..hot {
            bench.request(Read, region * 16 * 8, 8);
        }
        for cold in 0..hot {
            bench.request(Read, (4000 + (second * hot + cold) * 16 % 8000) * 8, 8);
        }
        bench.pass(SECOND);
    }

    /// Blocks of regions that are requested again and again enter the cache. Blocks that are
    /// requested once do not enter the cache.
    #[test]
    fn only_blocks_of_hot_regions_are_promoted() {
        let mut bench = Bench::new("smq", &[]);
        bench.request(Read, 0, 8);
        assert_eq!(bench.take_log(), ["hdd read 8"], "nothing is known yet");
        (0..60).for_each(|time| second(&mut bench, time, 64));
        bench.take_log();
        bench.request(Read, 5 * 16 * 8, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
        bench.request(Read, 12_500 * 8, 8);
        assert_eq!(bench.take_log(), ["hdd read 8"]);
        assert!(bench.volume.statistics().bypassed_blocks[&NOT_HOT] > 64 * 30);
    }

    /// A write of a whole uncached block enters the cache, dirty, while slots are free. A write of
    /// a part of an uncached block goes home.
    #[test]
    fn whole_block_write_is_cached_dirty_while_there_is_room() {
        let mut bench = Bench::new("smq", &[]);
        bench.request(Write, 80, 8);
        assert_eq!(bench.take_log(), ["ssd write 8"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 1);
        bench.request(Write, 160, 4);
        assert_eq!(bench.take_log(), ["hdd write 4"], "a part of a block does not");
        bench.request(Write, 84, 4);
        assert_eq!(bench.take_log(), ["ssd read 8", "ssd write 8"], "a part of a cached block does");
    }

    #[test]
    fn a_full_cache_takes_no_write_of_a_cold_region() {
        let mut bench = Bench::new("smq", &[("idle", "1h")]);
        let count = slots(&bench);
        (0..2 * count).for_each(|block| bench.request(Write, block * 8, 8));
        let refused = bench.volume.statistics().bypassed_blocks[&NOT_HOT];
        assert!(refused > count / 2, "{refused} of {}", 2 * count);
        assert!(bench.volume.view().map.dirty_blocks() > 0);
    }

    /// Dirty blocks are written back when the disk is idle. The blocks stay cached as clean copies.
    #[test]
    fn dirty_blocks_are_written_back_and_stay_on_an_idle_disk() {
        let mut bench = Bench::new("smq", &[]);
        (0..600).for_each(|block| bench.request(Write, block * 16, 8));
        bench.pass(Nanoseconds::from_seconds(3));
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
        bench.take_log();
        bench.request(Read, 80 * 16, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    #[test]
    fn what_is_hot_survives_a_pass_over_everything_else() {
        let mut bench = Bench::new("smq", &[]);
        (0..120).for_each(|time| second(&mut bench, time, 32));
        for block in 0..3 * slots(&bench) {
            bench.request(Read, (1000 + block) * 8, 8);
        }
        bench.pass(SECOND);
        bench.take_log();
        let hits = (0..32).filter(|region| {
            bench.request(Read, region * 16 * 8, 8);
            bench.take_log() == ["ssd read 8"]
        });
        let hits = hits.count();
        assert!(hits >= 30, "{hits} of 32");
    }
}
