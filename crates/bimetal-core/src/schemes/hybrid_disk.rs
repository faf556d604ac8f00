//! The hybrid hard disk of Konanki's thesis (*An Exploration of Hybrid Hard Disk Designs*),
//! configuration 2: home on the disk, flash used exclusively "to offload write requests" (section
//! 3.3), since the system's own memory caches reads.
//!
//! **Read* (Konanki, figure 4.8): each block is read from flash if it is on flash, and otherwise
//! from the disk. A read never puts anything on flash. *Write* (Konanki, figure 4.9): a request
//! that reaches the threshold goes to the disk if none of its pages is on flash. Any other request
//! goes to flash whole, page by page. A page that finds no free page on flash first flushes. So
//! flash always has the newest content of its pages.
//!
//! *Flush* is an axis (Konanki, section 3.3):
//! - `full`: the policy of the thesis. On demand all dirty pages are written back, after which the
//!   flash is empty. An empty flash delays the next flush as long as possible.
//! - `partial`: flushes only the pages that a write needs, the *victims*, by default the pages used
//!   longest ago.
//! - `idle`, `periodic`: flush like `partial`. The policies `idle` and `periodic` also write back
//!   all dirty pages, when the disk is idle or once in a period. The clean copies stay, and are
//!   evicted at once when room is needed.
//! - `watermark`: flushes victims when few pages of the flash are free.
//!
//! *Pinned* ranges (Konanki, section 3.5) are never victims. Writes of any size to pinned ranges go
//! to flash. Blocks of pinned ranges that are read are copied to flash. Pins change while the
//! volume is served, by its setting `pinned`. In a simulation pins also change by the host's hints
//! beside its requests (Konanki, section 3.5: "a request flag").
//!
//! *Holding* keeps dirty pages on flash until the dirty pages are a certain share of the flash, or
//! for a certain time. Once the share or the time is reached, all dirty pages are written back at
//! once. Before the share or the time is reached, dirty pages are written back only when a write
//! needs room. So the disk stays "in a low power state for a longer duration" (Konanki, sections 1
//! and 3.3).
//!
//! Our choices: the thesis puts the threshold "slightly less than the maximum request size
//! supported by the device"; 512 KiB is the largest request of Linux on SATA. A page is free when
//! its slot is free, so the threshold of figure 4.9 is one page. Of the first victims, clean pages
//! are evicted first, since their eviction needs no operation. A watermark flush makes twice the
//! watermark free. The figures of all policies but `full` are our choice.

use super::cache::{Cache, Contents, Decisions};
use crate::block::{Block, BlockRun};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, MemberId, Role};
use crate::policies::admission;
use crate::policies::lru;
use crate::policies::pins::{PinnedRoom, Pins};
use crate::policies::replacement::Policy;
use crate::policies::room::{self, DirtySince, Room, Round};
use crate::scheme::{
    Access, CacheMode, Hints, Holds, LinuxCounterpart, Placement, Properties, Reason, Replacement, Scheme, SchemeInfo,
    View, Work,
};
use crate::settings::{MOVE_RATE, Ranges, SettingError, Settings, Share, parameters, words};
use crate::units::{Bytes, Nanoseconds, SectorRange};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// writes of at least this size go to the disk, unless a page of the write is on flash
        /// already (section 3.3)
        write_threshold: Option<Bytes> = "512KiB" live,
        /// pages that are flushed, and when; full: all, when a write finds no free page; partial:
        /// only the pages that the write needs; watermark: as partial, but when little is free;
        /// idle: as partial, and all dirty pages when the disk is idle; periodic: as partial, and
        /// all dirty pages once in a period (section 3.3)
        flush: Flush = "full",
        /// policy that chooses the pages to flush first, where not all pages are flushed (section
        /// 3.3: LRU, which "can easily be swapped out"); belady: the bound that knows the future,
        /// in a simulation only
        victim: Policy = "lru",
        /// another name for victim: other caching schemes call their policy replacement; give at
        /// most one of victim and replacement
        replacement: Policy = "lru",
        /// flush=watermark: pages are flushed when less than this share of the flash is free
        /// (section 3.3; our figure)
        low_watermark: Option<Share> = "0.1" live,
        /// flush=idle: the disk is idle when no request has used it for this long (section 3.3; our
        /// figure)
        idle: Nanoseconds = "1s" live,
        /// flush=periodic: longest time between two flushes while any page is dirty (section 3.3;
        /// our figure)
        period: Nanoseconds = "60s" live,
        /// dirty pages stay on flash until they are this share of the flash; then all dirty pages
        /// are flushed; before, pages are flushed only if a write finds no room
        hold_share: Option<Share> = "off" live,
        /// dirty pages stay on flash until the first page has been dirty for this long; then all
        /// dirty pages are flushed
        hold_time: Option<Nanoseconds> = "off" live,
        /// addresses whose pages stay on flash once they were written or read (section 3.5), at
        /// most half of the flash; a new list replaces the old list and the pins of --hints
        pin: Ranges = "off" live,
        /// on: a page on flash is overwritten in place, and no journal is written (sections 3.3 and
        /// 4.2), which shows the effect of ssd.ftl (simulator only); off: an overwritten page takes
        /// another slot, so a crash leaves its old or its new content
        in_place: bool = "off",
    }
    and admission::PARAMETER, MOVE_RATE
}

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hybrid-disk",
    summary: "flash inside a disk takes small writes, and is flushed to the disk when it is full",
    source: "Konanki (thesis), sections 3.3, 3.5 and 4.2",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each block is wholly old or wholly new",
    ssd_loss: "every write since the flash was last flushed to the disk",
    hdd_loss: "all data",
    bypass: &[(Reason::LARGE, "a write of at least write_threshold")],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + lru::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| Some(LinuxCounterpart::DmCache(CacheMode::WriteBack)),
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

/// Divisor of the flash: at most one part in this many is flushed at a time for waiting writes.
const WANTED_PART: u64 = 8;

words! {
    /// Pages that are flushed, and the time of the flush.
    enum Flush {
        /// All pages, when a write finds no free page.
        Full = "full",
        /// As many pages as a write needs.
        Partial = "partial",
        /// The next victims, when few pages are free.
        Watermark = "watermark",
        /// The pages that a write needs, and all dirty pages when the disk is idle.
        Idle = "idle",
        /// The pages that a write needs, and all dirty pages once in a period.
        Periodic = "periodic",
    }
}

struct HybridDisk {
    write_threshold: Bytes,
    flush: Flush,
    /// Number of free slots below which `watermark` flushes.
    low_watermark: u64,
    idle: Nanoseconds,
    period: Nanoseconds,
    /// Number of dirty slots at which all of them are written back. Dirty pages are held if this
    /// number or `hold_time` is set.
    hold_blocks: Option<u64>,
    /// Time after which all dirty slots are written back.
    hold_time: Option<Nanoseconds>,
    area: Area,
    slots: u64,
    in_place: bool,
    disk: MemberId,
    cleaned: Round,
    /// Number of slots that waiting writes need.
    wanted: u64,
    /// Number of slots that the last read pages of a pinned range need.
    wanted_for_pinned: u64,
    dirty_since: DirtySince,
    last_flush: Nanoseconds,
    /// Sectors of the large write that was judged last, and whether it goes to the disk.
    judged: Option<(SectorRange, bool)>,
}

/// Size of the flash and of the disk, which bound the pins.
#[derive(Clone, Copy)]
struct Area {
    slots: u64,
    blocks: u64,
    block_bytes: u64,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = layout.slots.map_or(0, |slots| slots.count);
    let area = Area { slots: u64::from(slots), blocks: layout.total_blocks(), block_bytes: layout.block.bytes().0 };
    let parameters = Parameters::of(settings);
    let pins = pins(&parameters, settings, area)?;
    let victims = Room::new((victim(&parameters, settings)?.0.build)(slots), slots);
    let mut disk = HybridDisk {
        write_threshold: Bytes::MAX,
        flush: parameters.flush,
        low_watermark: 0,
        idle: Nanoseconds::ZERO,
        period: Nanoseconds::ZERO,
        hold_blocks: None,
        hold_time: None,
        area,
        slots: u64::from(slots),
        in_place: parameters.in_place,
        disk: layout.home[0].member,
        cleaned: Round::default(),
        wanted: 0,
        wanted_for_pinned: 0,
        dirty_since: DirtySince::default(),
        last_flush: Nanoseconds::ZERO,
        judged: None,
    };
    disk.take(&parameters);
    Ok(Cache::boxed(settings, layout, PinnedRoom::new(pins, slots, victims), disk))
}

/// Returns the policy that was chosen, under either of the two names of the parameter.
fn victim(parameters: &Parameters, settings: &Settings) -> Result<Policy, SettingError> {
    let (victim, replacement) = (parameters.victim, parameters.replacement);
    match (victim.0.name, replacement.0.name) {
        (_, lru::NAME) => Ok(victim),
        (lru::NAME, _) => Ok(replacement),
        (one, other) if one == other => Ok(victim),
        (victim, _) => {
            Err(settings.refuse(name::replacement, format!("the same as victim={victim}, or only one of the two")))
        }
    }
}

/// Returns the pins of the setting.
fn pins(parameters: &Parameters, settings: &Settings, area: Area) -> Result<Pins, SettingError> {
    let mut pins = Pins::new(area.slots / 2);
    for &(from, to) in &parameters.pin.0 {
        let first = from.0 / area.block_bytes;
        let end = to.0.div_ceil(area.block_bytes).min(area.blocks);
        if !pins.pin(BlockRun { first: Block(first), count: end.saturating_sub(first) }) {
            let most = Bytes(pins.most() * area.block_bytes);
            return Err(settings.refuse(name::pin, format!("at most half of the flash: {most}")));
        }
    }
    Ok(pins)
}

impl HybridDisk {
    /// Takes the settings that can change while the volume is served.
    fn take(&mut self, parameters: &Parameters) {
        let part = |Share(share)| (share * self.slots as f64) as u64;
        self.write_threshold = parameters.write_threshold.unwrap_or(Bytes::MAX);
        self.low_watermark = parameters.low_watermark.map_or(0, part);
        self.idle = parameters.idle;
        self.period = parameters.period;
        self.hold_blocks = parameters.hold_share.map(|share| part(share).max(1));
        self.hold_time = parameters.hold_time;
    }

    /// Returns two values: true if the first of `blocks` is overwritten in its slot, and the number
    /// of leading blocks with the same answer. A block that is not overwritten in its slot needs a
    /// free slot.
    fn in_place(&self, view: &View, blocks: BlockRun) -> (bool, u64) {
        if !self.in_place {
            return (false, blocks.count);
        }
        let on_flash = |block| view.map.get(block).is_some();
        let first = on_flash(blocks.first);
        (first, blocks.blocks().take_while(|&block| on_flash(block) == first).count() as u64)
    }

    /// Returns true if a write is large and has no page on flash. A write is judged once for all of
    /// its parts.
    fn goes_home_as_large(&mut self, view: &View, access: &Access) -> bool {
        if access.sectors.len.bytes() < self.write_threshold {
            return false;
        }
        match self.judged {
            Some((sectors, goes_home)) if sectors == access.sectors => goes_home,
            _ => {
                let goes_home = access.blocks.blocks().all(|block| view.map.get(block).is_none());
                self.judged = Some((access.sectors, goes_home));
                goes_home
            }
        }
    }

    /// Returns the number of slots that must be made free: for waiting requests, unless the flush
    /// is `full`, and for pages of pinned ranges that were read.
    fn lacking(&self, view: &View) -> u64 {
        let waiting = view.waiting_for_slots > 0 && self.flush != Flush::Full;
        let for_writes = if waiting { self.wanted.clamp(1, (self.slots / WANTED_PART).max(1)) } else { 0 };
        (for_writes + self.wanted_for_pinned).saturating_sub(view.free_slots + view.freeing_slots)
    }

    /// Returns true if victims must be flushed before a write has to wait.
    fn is_below_watermark(&self, pages: &PinnedRoom, view: &View) -> bool {
        let free = view.free_slots + view.freeing_slots;
        self.flush == Flush::Watermark && free < self.low_watermark && !pages.room().is_empty() && !view.moving
    }

    /// Returns the time at which all dirty pages are written back although no room is needed.
    fn clean_at(&self, view: &View) -> Option<Nanoseconds> {
        let dirty = u64::from(view.map.dirty_blocks());
        if dirty == 0 || view.moving || !view.slots_online() {
            return None;
        }
        if self.hold_blocks.is_some() || self.hold_time.is_some() {
            let full = self.hold_blocks.is_some_and(|most| dirty >= most).then_some(view.now);
            let old = self.hold_time.map(|time| self.dirty_since.time().saturating_add(time));
            return [full, old].into_iter().flatten().min();
        }
        match self.flush {
            Flush::Idle => view.member(self.disk).idle_at(self.idle),
            Flush::Periodic => Some(self.last_flush.max(self.dirty_since.time()).saturating_add(self.period)),
            Flush::Full | Flush::Partial | Flush::Watermark => None,
        }
    }

    /// Writes dirty pages back: in batches while the disk is idle under `idle`, otherwise all
    /// together.
    fn clean(&mut self, pages: &mut PinnedRoom, view: &View) -> Work {
        self.last_flush = view.now;
        let held = self.hold_blocks.is_some() || self.hold_time.is_some();
        if self.flush == Flush::Idle && !held {
            return Work::MoveHome { slots: self.cleaned.next(&view.map, room::BATCH_BLOCKS), keep: true };
        }
        self.dirty_since.restart(view.now);
        if self.flush == Flush::Full {
            return self.empty(pages, view);
        }
        Work::MoveHome { slots: self.cleaned.next(&view.map, view.map.dirty_blocks() as usize), keep: true }
    }

    /// Writes back everything that is not pinned, and frees its slots.
    fn empty(&mut self, pages: &mut PinnedRoom, view: &View) -> Work {
        if pages.pins().is_empty() {
            return Work::MigrateAll;
        }
        let slots = pages.room_mut().first(view.map.slots() as usize);
        if slots.is_empty() { self.clean_pinned(view) } else { Work::MoveHome { slots, keep: false } }
    }

    /// Writes back pinned pages, when only they are dirty. The pinned pages stay on flash.
    fn clean_pinned(&mut self, view: &View) -> Work {
        match view.map.dirty_blocks() {
            0 => Work::Nothing,
            dirty => Work::MoveHome { slots: self.cleaned.next(&view.map, dirty as usize), keep: true },
        }
    }
}

impl Contents for PinnedRoom {
    fn lacks_policy(&self) -> bool {
        self.room().lacks_policy()
    }

    /// Takes a policy only if the policy is missing. Programs do not replace the policy of a cache
    /// with pins.
    fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        self.lacks_policy() && self.room_mut().take_policy(make)
    }

    fn arrived(&mut self) {
        self.room_mut().arrived();
    }

    fn touched(&mut self, slot: Slot) {
        PinnedRoom::touched(self, slot);
    }

    fn mapped(&mut self, view: &View, slot: Slot, replaced: Option<Slot>) {
        PinnedRoom::mapped(self, view, slot, replaced);
    }

    fn unmapped(&mut self, slot: Slot) {
        PinnedRoom::unmapped(self, slot);
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }
}

impl Hints for PinnedRoom {
    fn pin(&mut self, view: &View, blocks: BlockRun, pinned: bool) -> bool {
        PinnedRoom::pin(self, view, blocks, pinned)
    }
}

impl Decisions for HybridDisk {
    type Contents = PinnedRoom;

    fn set(&mut self, pages: &mut PinnedRoom, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let (live, parameters) = (Parameters::is_live(key), Parameters::of(settings));
        if key == name::pin {
            pages.pin_instead(pins(&parameters, settings, self.area)?);
        } else if live {
            self.take(&parameters);
        }
        Ok(live)
    }

    fn arrived(&mut self, _pages: &mut PinnedRoom, view: &View, _access: &Access) {
        self.judged = None;
        self.dirty_since.arrived(view);
    }

    fn exempts(&self, pages: &PinnedRoom, rest: BlockRun) -> (bool, u64) {
        pages.pins().alike(rest)
    }

    fn bypasses(&mut self, view: &View, access: &Access) -> Option<Reason> {
        self.goes_home_as_large(view, access).then_some(Reason::LARGE)
    }

    fn place_write(&mut self, _pages: &mut PinnedRoom, view: &View, _: &Access, rest: BlockRun) -> (Placement, u64) {
        let (in_place, count) = self.in_place(view, rest);
        if in_place {
            return (Placement::Slot, count);
        }
        match view.free_slots {
            0 => {
                // Tasks that already wait ask again when all are woken.
                self.wanted = count + if view.waiting_for_slots > 0 { self.wanted } else { 0 };
                (Placement::Wait, count)
            }
            free => (Placement::Slot, count.min(free)),
        }
    }

    fn promotes(&self, pages: &PinnedRoom, missing: BlockRun) -> bool {
        pages.pins().alike(missing) == (true, missing.count)
    }

    fn refuses_read(&mut self, _pages: &mut PinnedRoom, _view: &View, missing: BlockRun) -> Option<Reason> {
        // A page that finds no slot now can find one when it is read again.
        self.wanted_for_pinned = missing.count;
        None
    }

    fn wrote(&mut self, view: &View, dirty: bool) {
        self.dirty_since.mapped(view, dirty);
    }

    fn makes_room(&self) -> bool {
        false
    }

    fn properties(&self) -> Properties {
        Properties { overwrites_in_place: self.in_place, ..Properties::default() }
    }

    fn next_timeout(&self, pages: &PinnedRoom, view: &View) -> Option<Nanoseconds> {
        let wants = self.wanted_for_pinned > 0 && !view.moving;
        let room = pages.is_unsorted() || wants || self.is_below_watermark(pages, view);
        if room && view.slots_online() { Some(view.now) } else { self.clean_at(view) }
    }

    fn work(&mut self, pages: &mut PinnedRoom, view: &View) -> Work {
        if pages.is_unsorted() {
            pages.sort(view);
        }
        if !view.slots_online() {
            return Work::Nothing;
        }
        // The flash is full once every slot has a page that can be flushed. Pages still being
        // written to flash, and slots about to be freed, are waited for.
        let full = view.waiting_for_slots > 0 && view.map.len() == u64::from(view.map.slots());
        if self.flush == Flush::Full && full && !view.moving {
            self.dirty_since.restart(view.now);
            return self.empty(pages, view);
        }
        let lacking = self.lacking(view);
        self.wanted_for_pinned = 0;
        if lacking > 0 {
            // No room can be made if all slots are pinned or still without a page. Other work that
            // is due does not wait for room.
            match pages.room_mut().make_for(view, lacking as usize, 1) {
                Work::Nothing => {}
                room => return room,
            }
        }
        if self.is_below_watermark(pages, view) {
            let wanted = 2 * self.low_watermark - view.free_slots - view.freeing_slots;
            return pages.room_mut().make_for(view, wanted as usize, 1);
        }
        match self.clean_at(view) {
            Some(at) if at <= view.now => self.clean(pages, view),
            _ => Work::Nothing,
        }
    }
}

#[cfg(test)]
mod in_place_tests;
#[cfg(test)]
mod pin_tests;

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    #[test]
    fn a_small_write_goes_to_flash_and_a_large_one_to_the_disk() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        bench.request(OpKind::Write, 0, 8);
        assert_eq!(bench.take_log(), ["ssd write 8"]);
        bench.request(OpKind::Write, 8000, 1024);
        assert_eq!(bench.take_log(), ["hdd write 1024"]);
        bench.request(OpKind::Write, 16000, 1016);
        assert_eq!(bench.take_log(), ["ssd write 1016"], "just below the threshold");
    }

    #[test]
    fn large_write_with_a_page_on_flash_goes_to_flash_whole() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        bench.request(OpKind::Write, 8016, 8);
        bench.take_log();
        bench.request(OpKind::Write, 8000, 1024);
        assert_eq!(bench.take_log(), ["ssd write 1024"]);
    }

    #[test]
    fn a_read_never_promotes() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        for _ in 0..2 {
            bench.request(OpKind::Read, 0, 8);
            assert_eq!(bench.take_log(), ["hdd read 8"]);
        }
    }

    #[test]
    fn full_flush_empties_the_flash_when_a_write_finds_no_room() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        assert_eq!(bench.volume.view().free_slots, 0);
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, slots * 16, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        assert_eq!(bench.volume.statistics().migrations.blocks, slots);
        assert_eq!(bench.volume.view().map.len(), 1, "only the write that found no page is on flash");
    }

    fn fill(bench: &mut Bench) -> u64 {
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        assert_eq!(bench.volume.view().free_slots, 0);
        bench.take_log();
        slots
    }

    fn dirty(bench: &Bench) -> u64 {
        u64::from(bench.volume.view().map.dirty_blocks())
    }

    #[test]
    fn partial_flush_moves_the_least_recently_used_pages() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "partial")]);
        let slots = fill(&mut bench);
        bench.request(OpKind::Read, 0, 8);
        bench.take_log();
        bench.request(OpKind::Write, slots * 16, 24);
        assert_eq!(bench.volume.statistics().migrations.blocks, 3);
        let moved: Vec<_> = bench.take_log().into_iter().filter(|line| line == "hdd write 8").collect();
        assert_eq!(moved.len(), 3);
        bench.request(OpKind::Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"], "it was used just before");
        bench.request(OpKind::Read, 16, 8);
        assert_eq!(bench.take_log(), ["hdd read 8"], "it was the first of the others");
    }

    #[test]
    fn a_partial_flush_is_for_all_writes_that_wait() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "partial")]);
        let slots = fill(&mut bench);
        for at in 0..20 {
            bench.submit(0, OpKind::Write, (slots + at) * 16, 8);
        }
        bench.serve();
        assert_eq!(bench.volume.requests_under_way(), 0);
        let migrations = &bench.volume.statistics().migrations;
        assert_eq!((migrations.blocks, migrations.count), (20, 2), "the first came alone");
    }

    /// Each partial flush is a move of its own, so requests that arrive during a flush use the disk
    /// between two flushes.
    #[test]
    fn partial_flush_moves_at_most_an_eighth_of_the_flash() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "partial")]);
        let slots = fill(&mut bench);
        let eighth = slots / super::WANTED_PART;
        // The first write finds no page and waits alone. All other requests wait together.
        (0..256).for_each(|at| {
            bench.submit(0, OpKind::Write, (slots + at) * 16, 8);
        });
        bench.serve();
        assert_eq!(bench.volume.requests_under_way(), 0);
        let migrations = &bench.volume.statistics().migrations;
        assert!(255 > 2 * eighth, "more wait than two parts of {slots} slots");
        assert_eq!(migrations.blocks, 256);
        let parts = 1 + 255u64.div_ceil(eighth);
        assert!(migrations.count >= parts, "{} flushes, at least {parts} parts", migrations.count);
    }

    /// A flush that writes wait for gets a quarter as many operations on the disk as requests have
    /// under way on the disk. With fewer operations, the flush would wait behind all requests.
    #[test]
    fn flush_that_writes_wait_for_has_a_quarter_of_the_queue() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "partial")]);
        let slots = fill(&mut bench);
        // Twelve reads of the disk are not answered.
        (0..12).for_each(|at| {
            bench.submit(0, OpKind::Read, 120_000 + at * 16, 8);
        });
        let reads = std::iter::from_fn(|| bench.volume.next_operation()).count();
        (0..20).for_each(|at| {
            bench.submit(0, OpKind::Write, (slots + at) * 16, 8);
        });
        let (mut writes, mut most) = (Vec::new(), 0);
        for _ in 0..10_000 {
            match bench.volume.next_operation() {
                Some(operation) if operation.target == 1 && operation.command.kind == OpKind::Write => {
                    writes.push(operation.token);
                    most = most.max(writes.len());
                }
                Some(operation) => bench.answer(operation.token),
                None if writes.is_empty() => break,
                None => bench.answer(writes.remove(0)),
            }
        }
        assert_eq!((reads, most), (12, 3));
    }

    #[test]
    fn a_flush_by_watermark_makes_room_before_anybody_waits() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "watermark"), ("low_watermark", "0.25")]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots * 3 / 4).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        (0..4).for_each(|block| bench.request(OpKind::Write, 80_000 + block * 16, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        let view = bench.volume.view();
        assert!((view.free_slots + view.freeing_slots).abs_diff(slots / 2) <= 4);
        (0..2 * slots).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        assert_eq!(bench.volume.statistics().waited, 0);
    }

    #[test]
    fn idle_flush_keeps_clean_copies_until_room_is_needed() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "idle"), ("idle", "2s")]);
        let slots = fill(&mut bench);
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(dirty(&bench), slots);
        bench.pass(Nanoseconds::from_seconds(2));
        assert_eq!((dirty(&bench), bench.volume.view().map.len()), (0, slots));
        bench.take_log();
        bench.request(OpKind::Read, 16, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
        bench.request(OpKind::Read, 120_000, 8);
        bench.request(OpKind::Write, slots * 16, 8);
        let log = bench.take_log();
        assert!(log.iter().all(|line| !line.starts_with("hdd write")), "clean pages give way at once: {log:?}");
    }

    #[test]
    fn periodic_flush_leaves_no_page_dirty_beyond_its_period() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "periodic"), ("period", "10s")]);
        bench.pass(Nanoseconds::from_seconds(100));
        bench.request(OpKind::Write, 80, 8);
        bench.pass(Nanoseconds::from_seconds(9));
        assert_eq!(dirty(&bench), 1);
        bench.pass(Nanoseconds::from_seconds(2));
        assert_eq!(dirty(&bench), 0);
    }

    #[test]
    fn pinned_page_comes_in_by_any_access_and_stays() {
        for flush in ["full", "partial", "watermark", "idle", "periodic"] {
            let settings = [("flush", flush), ("pin", "0-64KiB,1MiB-1152KiB"), ("write_threshold", "64KiB")];
            let mut bench = Bench::new("hybrid-disk", &settings);
            bench.request(OpKind::Write, 0, 128);
            assert_eq!(bench.take_log(), ["ssd write 128"], "{flush}: large, and pinned");
            bench.request(OpKind::Read, 2048, 8);
            assert_eq!(bench.take_log(), ["hdd read 8", "ssd write 8"], "{flush}");
            let slots = u64::from(bench.volume.view().map.slots());
            (0..3 * slots).for_each(|block| bench.request(OpKind::Write, 4096 + block * 16, 8));
            bench.pass(Nanoseconds::from_seconds(100));
            assert!(bench.volume.statistics().migrations.blocks > slots, "{flush}");
            bench.take_log();
            bench.request(OpKind::Read, 0, 128);
            bench.request(OpKind::Read, 2048, 8);
            assert_eq!(bench.take_log().iter().filter(|line| line.starts_with("hdd")).count(), 0, "{flush}");
        }
    }

    #[test]
    fn pinned_page_read_on_full_flash_finds_room_at_the_next_read() {
        let mut bench = Bench::new("hybrid-disk", &[("flush", "partial"), ("pin", "32MiB-33MiB")]);
        fill(&mut bench);
        (0..2).for_each(|_| bench.request(OpKind::Read, 65_536, 8));
        bench.take_log();
        bench.request(OpKind::Read, 65_536, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    #[test]
    fn more_pins_than_half_of_the_flash_are_refused() {
        let info = super::INFO;
        let refused = |key, value| {
            let settings =
                crate::settings::Settings::new(info.name, info.parameters, [(key, value), ("victim", "arc")]);
            let mib = |mib| crate::units::Bytes::from_mib(mib).sectors();
            let members = [(crate::layout::Role::Ssd, 4), (crate::layout::Role::Hdd, 64)]
                .map(|(role, size)| crate::layout::MemberInfo { role, capacity: mib(size) });
            let block = crate::block::BlockSize::default();
            let request = crate::layout::LayoutRequest { block, members: &members, units: &[] };
            let layout = (info.layout)(settings.as_ref().unwrap(), &request).unwrap();
            (info.build)(&settings.unwrap(), &layout).err().map(|error| error.to_string())
        };
        assert!(refused("pin", "0-1MiB,512KiB-1MiB").is_none());
        assert!(refused("pin", "0-3MiB").unwrap().contains("at most half of the flash"));
        assert!(refused("replacement", "arc").is_none());
        assert!(refused("replacement", "lirs").unwrap().contains("the same as victim=arc"));
    }

    #[test]
    fn what_is_held_leaves_the_disk_alone_until_it_is_much_or_old() {
        for flush in ["full", "idle", "periodic"] {
            let settings = [("flush", flush), ("hold_share", "0.5"), ("hold_time", "10min"), ("idle", "1s")];
            let mut bench = Bench::new("hybrid-disk", &settings);
            let slots = u64::from(bench.volume.view().map.slots());
            let write = |bench: &mut Bench, from: u64, to: u64| {
                (from..to).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
            };
            write(&mut bench, 0, 10);
            bench.pass(Nanoseconds::from_seconds(300));
            write(&mut bench, 0, 20);
            bench.pass(Nanoseconds::from_seconds(299));
            assert_eq!(dirty(&bench), 20, "{flush}");
            assert!(bench.take_log().iter().all(|line| !line.starts_with("hdd write 8")), "{flush}");
            bench.pass(Nanoseconds::from_seconds(2));
            assert_eq!(dirty(&bench), 0, "{flush}: some of it was ten minutes old");
            bench.pass(Nanoseconds::from_seconds(3600));
            write(&mut bench, 0, slots / 2 - 1);
            bench.pass(Nanoseconds::from_seconds(9));
            assert_eq!(dirty(&bench), slots / 2 - 1, "{flush}: what is clean has no age");
            write(&mut bench, slots, slots + 1);
            assert_eq!(dirty(&bench), 0, "{flush}: half of the flash was dirty");
        }
    }

    #[test]
    fn every_policy_can_choose_the_victims() {
        for name in ["victim", "replacement"] {
            let mut chosen = std::collections::BTreeMap::new();
            for policy in crate::policies::replacement::ONLINE_NAMES {
                let mut bench = Bench::new("hybrid-disk", &[("flush", "partial"), (name, policy)]);
                let slots = fill(&mut bench);
                let (mut random, mut hits) = (1u64, 0);
                for step in 0..4 * slots {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let block = (random >> 33) % if step % 2 == 0 { slots / 2 } else { 5 * slots };
                    let kind = if step % 3 == 0 { OpKind::Read } else { OpKind::Write };
                    bench.take_log();
                    bench.request(kind, block * 16, 8);
                    hits += u64::from(bench.take_log() == ["ssd read 8"]);
                }
                assert!(bench.volume.statistics().migrations.blocks > slots, "{policy}");
                let before = chosen.insert((bench.volume.statistics().migrations.blocks, hits), policy);
                assert_eq!(before, None, "{name}={policy} chooses as another policy");
            }
        }
    }

    /// All of the flash is being written when a write waits, and dirty pages have been held as long
    /// as the setting allows. Even if no room can be made for the write, the held pages are written
    /// back.
    #[test]
    fn what_is_held_goes_home_while_no_room_can_be_made() {
        let settings = [("flush", "partial"), ("hold_time", "10s"), ("pin", "0-64KiB"), ("write_threshold", "off")];
        let mut bench = Bench::new("hybrid-disk", &settings);
        bench.request(OpKind::Write, 0, 8);
        let free = bench.volume.view().free_slots;
        bench.submit(0, OpKind::Write, 8000, free * 8);
        bench.submit(0, OpKind::Write, 800, 8);
        assert_eq!((bench.volume.view().free_slots, bench.volume.view().waiting_for_slots), (0, 1));
        bench.volume.advance(Nanoseconds::from_seconds(11));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        bench.pass(Nanoseconds::from_seconds(30));
        assert_eq!(bench.volume.requests_under_way(), 0);
    }
}
