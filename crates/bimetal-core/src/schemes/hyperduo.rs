//! Marvell's HyperDuo (Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid Storage
//! Manager*, section III B): in safe mode the SSD mirrors a part of the HDD; in capacity mode the
//! two drives are concatenated.
//!
//! Publicly known: safe mode is RAID 1, so a write goes to both drives. Safe mode "duplicates first
//! few GBytes of the HDD to SSD and manages hot files in SSD": an "MRU data structure periodically
//! identifies hot and cold LBA ranges and pin the hot to SSD". Of capacity mode, the paper has only
//! the name and figure 4: the sum of both drives.
//!
//! Our choices: a share of the SSD (`mirrored`) holds the first addresses, the rest of the SSD
//! holds ranges of the size `range`. The table of ranges is in order of use, with the most recently
//! used range first. Every `period`, as many ranges from the front of the table are pinned as fit
//! on the SSD, and the copies of all other ranges are evicted. Requests for a range are counted,
//! and the count is halved each period. A range with a count of at least two is hot; a range with a
//! count of zero is cold. So a range that was used once, or long ago, is not hot. Copies are made
//! when the HDD is idle, and from the content of reads. Capacity mode puts the SSD at the low
//! addresses, as Combo Drive does, and moves nothing.

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role};
use crate::operation::OpKind;
use crate::policies::mirror::{self, Mirror};
use crate::scheme::{Access, FETCH_BLOCKS_MAX, Holds, Placement, Promotion, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{SettingError, Settings, Share, parameters, words};
use crate::units::{Bytes, Nanoseconds};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// safe: the SSD mirrors a part of the HDD (RAID 1); capacity: the drives are concatenated,
        /// with the SSD at the low addresses
        mode: Mode = "safe",
        /// share of the SSD that mirrors the first addresses; hot ranges take the other part (our
        /// figure: 'first few GBytes')
        mirrored: Option<Share> = "0.5",
        /// size of the ranges that are judged hot or cold (our figure)
        range: Bytes = "1MiB",
        /// time between two judgements of which ranges are hot or cold (our figure)
        period: Nanoseconds = "60s",
        /// blocks are copied to the SSD when no request has used the HDD for this long (our figure)
        idle: Nanoseconds = "100ms",
    }
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hyperduo",
    summary: "safe mode: the SSD mirrors the first addresses and hot ranges, writes go to both drives; capacity mode: \
              both drives are concatenated",
    source: "Marvell HyperDuo, as in Performance Analysis of SSD/HDD Hybrid Storage Manager, III B",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Ranges)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each mirrored block is wholly old or wholly new",
    ssd_loss: "safe: nothing; capacity: all data at the low addresses",
    hdd_loss: "safe: all data, and mirrored blocks stay readable until the volume stops; capacity: all data at the \
               high addresses",
    bypass: &[
        (Reason::NOT_ADMITTED, "neither among the first addresses nor in a pinned range"),
        (Reason::NO_SPACE, "no slot was free: slots of ranges pinned before were still being freed"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + mirror::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        if Parameters::of(settings).mode == Mode::Capacity {
            return Ok(request.concatenated(&[request.only(Role::Ssd)?, request.only(Role::Hdd)?])?);
        }
        Ok(request.ssd_caches_hdd()?)
    },
    build,
};

words! {
    /// Use of the SSD.
    enum Mode {
        /// The SSD mirrors a part of the HDD.
        Safe = "safe",
        /// The drives are concatenated.
        Capacity = "capacity",
    }
}

struct Capacity;

impl Scheme for Capacity {}

struct Safe {
    /// Mirror of the first addresses.
    mirror: Mirror,
    ranges: HotRanges,
    /// Number of slots that stay free for new versions.
    reserve: u64,
    /// Pinned ranges that are not fetched yet, the hottest last, and the number of fetched blocks
    /// of the last range.
    to_fetch: Vec<u32>,
    fetched: u64,
    /// Ranges that are no longer pinned and may have copies.
    to_give_up: Vec<u32>,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let Some(slots) = layout.slots else { return Ok(Box::new(Capacity)) };
    let parameters = Parameters::of(settings);
    let range_blocks = parameters.range.0 / layout.block.bytes().0;
    if range_blocks == 0 || range_blocks > 1 << 20 {
        return Err(settings.refuse(name::range, "a size from a block to 4GiB"));
    }
    if parameters.period < PERIOD_MIN {
        return Err(settings.refuse(name::period, format!("at least {PERIOD_MIN}")));
    }
    let slots = u64::from(slots.count);
    let reserve = (slots / 16).max(1);
    let usable = slots - reserve;
    let share = parameters.mirrored.map_or(0.0, |Share(share)| share);
    let mirrored = ((usable as f64 * share) as u64).min(layout.total_blocks());
    let pinned_max = ((usable - mirrored) / range_blocks) as usize;
    Ok(Box::new(Safe {
        mirror: Mirror::new(mirrored, layout.home[0].member, parameters.idle),
        ranges: HotRanges::new(range_blocks, layout.total_blocks(), pinned_max, parameters.period),
        reserve: reserve / 2,
        to_fetch: Vec::new(),
        fetched: 0,
        to_give_up: Vec::new(),
    }))
}

/// Smallest time between two rankings of the ranges.
const PERIOD_MIN: Nanoseconds = Nanoseconds::from_millis(1);

/// Number of requests from which on a range is hot.
const HOT: u32 = 2;

/// Table of ranges: the uses of each range, and the pinned ranges.
struct HotRanges {
    /// Number of blocks in a range, and in all ranges.
    blocks: u64,
    total: u64,
    heat: HeatTable,
    /// Ranges used since the last ranking, and ranges that the last ranking pinned or that still
    /// have a count.
    ranked: Vec<u32>,
    pinned_max: usize,
    period: Nanoseconds,
    next_ranking: Nanoseconds,
    uses: u32,
}

#[derive(Clone, Copy, Default)]
struct Heat {
    /// Number of requests, plus half of the count of the period before.
    count: u32,
    /// Number that orders the ranges by their last use.
    last: u32,
    /// Set if the range is in the list for the next ranking.
    listed: bool,
    pinned: bool,
}

/// Ranges in one part of the table. A part of the table exists once one of its ranges was used.
const RANGES_PER_PART: usize = 1024;

/// The heat of all ranges. A large address space that is hardly used costs little memory.
struct HeatTable(Vec<Option<Box<[Heat; RANGES_PER_PART]>>>);

impl HeatTable {
    fn new(ranges: u64) -> Self {
        Self((0..ranges.div_ceil(RANGES_PER_PART as u64)).map(|_| None).collect())
    }

    fn of(&self, range: u32) -> Heat {
        let part = self.0[range as usize / RANGES_PER_PART].as_deref();
        part.map_or_else(Heat::default, |part| part[range as usize % RANGES_PER_PART])
    }

    fn of_mut(&mut self, range: u32) -> &mut Heat {
        let part = &mut self.0[range as usize / RANGES_PER_PART];
        &mut part.get_or_insert_with(|| Box::new([Heat::default(); RANGES_PER_PART]))[range as usize % RANGES_PER_PART]
    }
}

impl HotRanges {
    fn new(blocks: u64, total: u64, pinned_max: usize, period: Nanoseconds) -> Self {
        let heat = HeatTable::new(total.div_ceil(blocks));
        Self { blocks, total, heat, ranked: Vec::new(), pinned_max, period, next_ranking: period, uses: 0 }
    }

    fn of(&self, block: Block) -> u32 {
        (block.0 / self.blocks) as u32
    }

    fn run(&self, range: u32) -> BlockRun {
        let first = u64::from(range) * self.blocks;
        BlockRun { first: Block(first), count: self.blocks.min(self.total - first) }
    }

    fn is_pinned(&self, block: Block) -> bool {
        self.heat.of(self.of(block)).pinned
    }

    /// Notes a request for `blocks`. Ranges within the first `mirrored` blocks are not counted,
    /// since they have copies already.
    fn used(&mut self, now: Nanoseconds, blocks: BlockRun, mirrored: u64) {
        if self.ranked.is_empty() {
            // A period begins with the first use after a quiet time.
            self.next_ranking = self.next_ranking.max(now.saturating_add(self.period));
        }
        self.uses = self.uses.wrapping_add(1);
        let first = self.of(blocks.first).max((mirrored / self.blocks) as u32);
        for range in first..=self.of(Block(blocks.end() - 1)) {
            let heat = self.heat.of_mut(range);
            heat.count = heat.count.saturating_add(1);
            heat.last = self.uses;
            if !std::mem::replace(&mut heat.listed, true) {
                self.ranked.push(range);
            }
        }
    }

    /// Ranks the ranges. Returns the ranges that are pinned from now on (the hottest last), and the
    /// ranges that are no longer pinned.
    fn rank(&mut self, now: Nanoseconds) -> (Vec<u32>, Vec<u32>) {
        self.next_ranking = now.saturating_add(self.period);
        let heat = &self.heat;
        let is_hot = |range: u32| {
            let Heat { count, pinned, .. } = heat.of(range);
            count >= HOT || pinned && count > 0
        };
        self.ranked.sort_unstable_by_key(|&range| std::cmp::Reverse((is_hot(range), heat.of(range).last, range)));
        let hot = self.ranked.iter().take(self.pinned_max).take_while(|&&range| is_hot(range)).count();
        let (mut pinned, mut left) = (Vec::new(), Vec::new());
        for (place, range) in std::mem::take(&mut self.ranked).into_iter().enumerate() {
            let heat = self.heat.of_mut(range);
            let was = std::mem::replace(&mut heat.pinned, place < hot);
            match (was, heat.pinned) {
                (false, true) => pinned.push(range),
                (true, false) => left.push(range),
                _ => {}
            }
            heat.count /= 2;
            heat.listed = heat.pinned || heat.count > 0;
            if heat.listed {
                self.ranked.push(range);
            }
        }
        pinned.reverse();
        (pinned, left)
    }
}

impl Safe {
    /// Returns true if `block` should have a copy.
    fn wants(&self, block: Block) -> bool {
        block.0 < self.mirror.blocks() || self.ranges.is_pinned(block)
    }

    /// Returns two values: true if the first block of `run` should have a copy, and the number of
    /// leading blocks with the same answer.
    fn alike(&self, run: BlockRun) -> (bool, u64) {
        let wanted = self.wants(run.first);
        (wanted, run.blocks().take_while(|&block| self.wants(block) == wanted).count() as u64)
    }

    fn copy_at(&self, view: &View) -> Option<Nanoseconds> {
        let anything = !self.mirror.is_complete() || !self.to_fetch.is_empty();
        if anything { self.mirror.fetch.due_at(view, self.reserve) } else { None }
    }

    /// Returns the next run to mirror: first the first addresses, then the hot ranges.
    fn next_fetch(&mut self, most: u64) -> Option<BlockRun> {
        if let Some(run) = self.mirror.next_run(most) {
            return Some(run);
        }
        let range = *self.to_fetch.last()?;
        let whole = self.ranges.run(range);
        let first = whole.first.0 + self.fetched;
        let count = (whole.count - self.fetched).min(most.clamp(1, FETCH_BLOCKS_MAX));
        self.fetched += count;
        if self.fetched == whole.count {
            self.fetched = 0;
            self.to_fetch.pop();
        }
        Some(BlockRun { first: Block(first), count })
    }

    fn rank(&mut self, now: Nanoseconds) {
        let (pinned, left) = self.ranges.rank(now);
        let ranges = &self.ranges;
        self.to_fetch.retain(|&range| ranges.heat.of(range).pinned);
        self.to_fetch.extend(pinned);
        self.fetched = 0;
        self.to_give_up.extend(left);
        self.to_give_up.retain(|&range| !ranges.heat.of(range).pinned);
    }

    /// Returns the clean copies of ranges that are no longer pinned.
    fn give_up(&mut self, view: &View) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut ranges = std::mem::take(&mut self.to_give_up);
        ranges.sort_unstable();
        ranges.dedup();
        for range in ranges.into_iter().filter(|&range| !self.ranges.heat.of(range).pinned) {
            let first = self.ranges.run(range).first.0.max(self.mirror.blocks());
            let blocks = (first..self.ranges.run(range).end()).map(Block);
            slots.extend(
                blocks.filter_map(|block| view.map.get(block)).filter(|(_, entry)| !entry.dirty).map(|(slot, _)| slot),
            );
        }
        slots
    }
}

impl Scheme for Safe {
    fn arrived(&mut self, view: &View, access: &Access) {
        if access.kind == OpKind::WriteZeroes {
            return;
        }
        self.ranges.used(view.now, access.blocks, self.mirror.blocks());
    }

    fn place_write(&mut self, view: &View, _access: &Access, rest: BlockRun) -> (Placement, u64) {
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        match self.alike(rest) {
            (false, blocks) => (Placement::Home(Some(Reason::NOT_ADMITTED)), blocks),
            (true, blocks) if view.free_slots == 0 => (Placement::Home(Some(Reason::NO_SPACE)), blocks),
            (true, blocks) => (Placement::Both, blocks.min(view.free_slots)),
        }
    }

    fn promote(&mut self, view: &View, _access: &Access, missing: BlockRun) -> Promotion {
        if !view.slots_online() {
            Promotion::Bypass(Reason::MEMBER_GONE)
        } else if missing.blocks().all(|block| self.wants(block)) {
            Promotion::Admit
        } else {
            Promotion::Bypass(Reason::NOT_ADMITTED)
        }
    }

    fn mapped(&mut self, view: &View, slot: Slot, _valid: ValidMask, _replaced: Option<Slot>) {
        let block = self.mirror.mapped(view, slot);
        if !self.wants(block) {
            // The copy was under way when its range lost its pin.
            self.to_give_up.push(self.ranges.of(block));
        }
    }

    fn unmapped(&mut self, _slot: Slot, block: Block) {
        self.mirror.unmapped(block);
    }

    fn unmapped_run(&mut self, _first: Slot, run: BlockRun) {
        self.mirror.unmapped_run(run);
    }

    fn copied_at_first(&self, _view: &View) -> u64 {
        self.mirror.blocks()
    }

    fn began_with(&mut self, copies: u64) {
        self.mirror.began_with(copies);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        if !view.slots_online() {
            return None;
        }
        if !self.to_give_up.is_empty() {
            return Some(view.now);
        }
        let ranking = (!self.ranges.ranked.is_empty()).then_some(self.ranges.next_ranking);
        [ranking, self.copy_at(view)].into_iter().flatten().min()
    }

    fn work(&mut self, view: &View) -> Work {
        if !view.slots_online() {
            return Work::Nothing;
        }
        if self.ranges.next_ranking <= view.now {
            self.rank(view.now);
        }
        let slots = self.give_up(view);
        if !slots.is_empty() {
            return Work::Evict(slots);
        }
        if self.copy_at(view).is_none_or(|at| at > view.now) {
            return Work::Nothing;
        }
        self.mirror.fetch.begin(view.now);
        let most = view.free_slots - self.reserve;
        Work::Fetch(self.next_fetch(most).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    const RANGE: &[(&str, &str)] = &[("range", "64KiB"), ("period", "1s")];
    /// First sector after the mirrored part of the 4 MiB SSD.
    const FAR: u64 = 40_960;

    #[test]
    fn safe_mode_mirrors_the_first_addresses_and_writes_both_drives() {
        let mut bench = Bench::new("hyperduo", RANGE);
        bench.mark(160, 8);
        bench.request(OpKind::Write, 80, 8);
        assert_eq!(bench.take_log(), ["hdd write 8", "ssd write 8"]);
        bench.request(OpKind::Read, 80, 64);
        assert!(bench.take_log().iter().all(|line| line.starts_with("ssd read")));
        bench.request(OpKind::Write, FAR, 8);
        assert_eq!(bench.take_log(), ["hdd write 8"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
    }

    /// Hot ranges are copied to the SSD at the end of a period. Ranges leave the SSD once they are
    /// cold.
    #[test]
    fn hot_ranges_are_pinned_until_they_are_cold() {
        let mut bench = Bench::new("hyperduo", RANGE);
        (0..4).for_each(|_| bench.request(OpKind::Read, FAR, 8));
        bench.request(OpKind::Read, FAR + 1280, 8);
        bench.take_log();
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(bench.take_log(), ["hdd read 128", "ssd write 128"], "the range that was used once is not hot");
        bench.request(OpKind::Read, FAR + 64, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
        bench.pass(Nanoseconds::from_seconds(10));
        bench.take_log();
        bench.request(OpKind::Read, FAR, 8);
        assert_eq!(bench.take_log(), ["hdd read 8"]);
    }

    /// Regression: after a quiet time, the first use was ranked at once, and forgotten.
    #[test]
    fn range_that_is_used_twice_after_a_quiet_time_is_hot() {
        let mut bench = Bench::new("hyperduo", RANGE);
        bench.pass(Nanoseconds::from_seconds(10));
        bench.request(OpKind::Read, FAR, 8);
        bench.pass(Nanoseconds::from_millis(1));
        bench.request(OpKind::Read, FAR, 8);
        bench.pass(Nanoseconds::from_seconds(2));
        bench.take_log();
        bench.request(OpKind::Read, FAR + 64, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    /// "MRU data structure periodically identifies hot and cold LBA ranges": the range used last
    /// comes before the range used most often.
    #[test]
    fn most_recently_used_range_is_pinned_before_the_most_used() {
        let mut bench = Bench::new("hyperduo", &[("range", "1MiB"), ("period", "1s")]);
        (0..8).for_each(|_| bench.request(OpKind::Read, FAR, 8));
        (0..2).for_each(|_| bench.request(OpKind::Read, FAR + 8192, 8));
        bench.pass(Nanoseconds::from_seconds(2));
        bench.take_log();
        bench.request(OpKind::Read, FAR + 8192 + 64, 8);
        bench.request(OpKind::Read, FAR + 64, 8);
        assert_eq!(bench.take_log(), ["ssd read 8", "hdd read 8"], "there is room for one of them");
    }

    #[test]
    fn capacity_mode_is_the_sum_of_both() {
        let mut bench = Bench::new("hyperduo", &[("mode", "capacity")]);
        let boundary = bench.blocks_on(0);
        assert!(boundary > 0 && bench.blocks_on(1) > 0);
        bench.request(OpKind::Write, boundary * 8 - 8, 16);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 8"]);
    }
}
