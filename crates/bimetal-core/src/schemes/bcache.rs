//! bcache (Linux, `Documentation/admin-guide/bcache.rst` and `drivers/md/bcache`): the SSD caches
//! reads and writes of the HDD in buckets of the size of a flash erase block.
//!
//! - *Buckets*: a bucket is filled from its start to its end, and then never written again until it
//!   is evicted as a whole. So the SSD gets sequential writes and can erase whole blocks.
//!   Replacement chooses among buckets (LRU by default, where a read is a use of its bucket). The
//!   dirty blocks of a bucket are written back before it is evicted.
//! - *Write-back*: the newest content stays on the SSD. Once more than `writeback_percent` of the
//!   cache is dirty, dirty blocks are written back until less than `writeback_percent` is dirty.
//!   All dirty blocks are written back when the HDD has been idle for half a minute. Neither
//!   write-back begins before `writeback_delay` has passed since the first block became dirty.
//!   Above 40 % dirty blocks, writes go to both drives.
//! - *Sequential bypass*: a request bypasses the cache when the stream that it continues is at
//!   least `sequential_cutoff`. The request also bypasses the cache when the average of the streams
//!   before its own is at least `sequential_cutoff` (each new stream counts an eighth). So a backup
//!   or a copy bypasses the cache from its second file on.
//!
//! Our choices: streams are averaged over the volume, since a block device does not know their
//! tasks (bcache averages for each task). Dirty blocks are written back in order of slot, as fast
//! as moves may, in small batches that end below the share; bcache's controller aims at a rate that
//! holds the share. A bucket's age is not weighed with its share of useful blocks. bcache's bypass
//! of a congested SSD and its random bucket replacement are left out.

use super::cache::{Cache, Contents, Decisions};
use crate::block::BlockRun;
use crate::block_map::{self, BlockMap, Slot};
use crate::layout::{Layout, MemberId, Role, SlotKind};
use crate::policies::admission;
use crate::policies::replacement::{Key, OnlinePolicy, Replacement, Verdict};
use crate::policies::room::{self, DirtySince, Round};
use crate::policies::streams::Streams;
use crate::scheme::{Access, CacheMode, Holds, LinuxCounterpart, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{MOVE_RATE, SettingError, Settings, Share, parameters};
use crate::units::{Bytes, Nanoseconds};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// size of a bucket, whose slots are evicted together: the flash's erase block, at most an
        /// eighth of the SSD (default of make-bcache --bucket)
        bucket_size: Bytes = "512KiB",
        /// a request bypasses the cache if its stream, or the average of the streams before it, is
        /// at least this long (default of Linux's bcache.rst)
        sequential_cutoff: Option<Bytes> = "4MiB" live,
        /// share of the cache, 0.1 or 10%, that may stay dirty while the HDD is in use (bcache.rst:
        /// 10 percent); off: any share
        writeback_percent: Option<Share> = "0.1" live,
        /// time after the first block became dirty, before which no block is written back (default
        /// of Linux's bcache.rst)
        writeback_delay: Nanoseconds = "30s" live,
        /// policy that chooses the bucket to evict (bcache.rst: cache_replacement_policy, lru)
        replacement: OnlinePolicy = "lru",
    }
    and admission::PARAMETER, MOVE_RATE
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "bcache",
    summary: "the SSD caches reads and writes in buckets, which are filled in order and evicted whole; sequential \
              streams bypass the cache; write-back",
    source: "Linux bcache",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each cached block is wholly old or wholly new",
    ssd_loss: "writes that were not written back yet",
    hdd_loss: "all data",
    bypass: &[
        (Reason::SEQUENTIAL, "the stream, or the average of the streams before it, has reached sequential_cutoff"),
        (Reason::NO_SPACE, "no slot was free: buckets were still being evicted"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + 1.0,
    takes_only_what_is_accessed: true,
    linux_counterpart: |_| Some(LinuxCounterpart::Bcache(CacheMode::WriteBack)),
    layout: |settings, request| {
        let home = request.concatenated(&[request.only(Role::Hdd)?])?;
        let mut layout = request.with_slots(home, request.only(Role::Ssd)?, SlotKind::Cache)?;
        if let Some(slots) = &mut layout.slots {
            let blocks = Parameters::of(settings).bucket_size.0 / request.block.bytes().0;
            slots.bucket = blocks.clamp(1, u64::from(slots.count / 8)) as u32;
        }
        Ok(layout)
    },
    build,
};

/// Time without requests after which the HDD is idle (`drivers/md/bcache/writeback.c`: six updates
/// of the rate without a request).
const IDLE: Nanoseconds = Nanoseconds::from_seconds(30);
/// Share of dirty blocks above which writes go to both drives (`drivers/md/bcache/writeback.h`,
/// CUTOFF_WRITEBACK).
const WRITE_THROUGH_ABOVE: f64 = 0.4;
/// Divisor of a new stream's weight in the average: a new stream counts one eighth.
const AVERAGE_OF: u64 = 8;
/// Number of blocks that are written back in addition to the blocks beyond the share, in the same
/// move. Without a batch, blocks would be written back one by one as other blocks are written, each
/// with a commit of its own. The batch is small because requests for the disk wait for the whole
/// batch. A batch is at most the share of dirty blocks divided by [`BATCH_OF_SHARE`], so that a
/// batch writes back a small part of the dirty blocks only.
const BATCH: usize = 8;
const BATCH_OF_SHARE: usize = 8;
/// Number of buckets looked at for a bucket without dirty blocks.
const LOOKS: usize = 16;

struct Bcache {
    sequential_cutoff: Bytes,
    streams: Streams,
    /// Length of the newest stream that a request began or continued, and average length of the
    /// streams before it.
    stream: Bytes,
    average: Bytes,
    dirty_max: f64,
    writeback_delay: Nanoseconds,
    dirty_since: DirtySince,
    hdd: MemberId,
    written_back: Round,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let parameters = Parameters::of(settings);
    let (slots, size) = layout.slots.map_or((0, 1), |slots| (slots.count, slots.bucket));
    let mut bcache = Bcache {
        sequential_cutoff: Bytes::MAX,
        streams: Streams::default(),
        stream: Bytes::default(),
        average: Bytes::default(),
        dirty_max: 1.0,
        writeback_delay: Nanoseconds::ZERO,
        dirty_since: DirtySince::default(),
        hdd: layout.home[0].member,
        written_back: Round::default(),
    };
    bcache.take(&parameters);
    Ok(Cache::boxed(settings, layout, Buckets::new(slots, size, parameters.replacement), bcache))
}

/// Buckets that have blocks, in the order in which they are evicted.
struct Buckets {
    size: u32,
    slots: u32,
    /// Number of slots in each bucket that hold a block.
    in_use: Vec<u32>,
    /// Number of buckets without blocks.
    empty: u32,
    /// Number of buckets without blocks that the scheme keeps ready.
    reserve: u32,
    /// Set if no clean bucket was found to evict while a move was under way.
    starved: bool,
    replacement: Box<dyn Replacement>,
    /// Number of times that any bucket was filled. The number is the key of a bucket, so that a
    /// policy's ghost of old content never matches new content.
    fillings: u32,
}

impl Buckets {
    fn new(slots: u32, size: u32, policy: OnlinePolicy) -> Self {
        let count = slots.div_ceil(size);
        Self {
            size,
            slots,
            in_use: vec![0; count as usize],
            empty: count,
            reserve: (count / 64).clamp(2, 4096).min(count / 4),
            starved: false,
            replacement: (policy.0.build)(count),
            fillings: 0,
        }
    }

    fn of(&self, slot: Slot) -> Slot {
        Slot(slot.0 / self.size)
    }

    fn fill(&mut self, slot: Slot) {
        let bucket = self.of(slot);
        let in_use = &mut self.in_use[bucket.0 as usize];
        *in_use += 1;
        if *in_use == 1 {
            self.empty -= 1;
            self.fillings = self.fillings.wrapping_add(1);
            self.replacement.insert(bucket, Key(self.fillings));
        }
    }

    /// Returns true if [`make_room`](Self::make_room) is due now.
    fn is_due(&self, view: &View) -> bool {
        let short = self.empty < self.reserve && !self.replacement.is_empty();
        short && view.slots_online() && !(self.starved && view.moving)
    }

    /// Returns the slots of `bucket` that hold a block.
    fn slots_of(&self, bucket: Slot, map: &BlockMap) -> Vec<Slot> {
        let first = bucket.0 * self.size;
        let end = (first + self.size).min(self.slots);
        (first..end).map(Slot).filter(|&slot| map.in_slot(slot).is_some()).collect()
    }

    fn is_clean(&self, bucket: Slot, map: &BlockMap) -> bool {
        map.next_dirty(Slot(bucket.0 * self.size)).is_none_or(|dirty| self.of(dirty) > bucket)
    }

    /// Returns the first bucket without dirty blocks that the policy offers. If every bucket that
    /// was looked at has dirty blocks, the error value lists these buckets.
    fn offered(&mut self, map: &BlockMap) -> Result<Slot, Vec<Slot>> {
        let mut offers = Vec::with_capacity(LOOKS);
        self.replacement.evict(&mut |bucket| {
            offers.push(bucket);
            Verdict { take: false, more: offers.len() < LOOKS }
        });
        offers.iter().copied().find(|&bucket| self.is_clean(bucket, map)).ok_or(offers)
    }

    /// Returns the work that evicts a whole bucket, or writes back the dirty blocks of the first
    /// buckets.
    fn make_room(&mut self, view: &View) -> Work {
        let offered = self.offered(&view.map);
        self.starved = offered.is_err() && view.moving;
        match offered {
            Ok(clean) => Work::Evict(self.slots_of(clean, &view.map)),
            Err(_) if view.moving => Work::Nothing,
            Err(dirty) => {
                let slots = dirty.iter().flat_map(|&bucket| self.slots_of(bucket, &view.map));
                let is_dirty = |slot: &Slot| view.map.in_slot(*slot).is_some_and(|entry| entry.dirty);
                let most = room::BATCH_BLOCKS.max(self.size as usize);
                Work::MoveHome { slots: slots.filter(is_dirty).take(most).collect(), keep: true }
            }
        }
    }
}

impl Contents for Buckets {
    fn touched(&mut self, slot: Slot) {
        self.replacement.touch(self.of(slot));
    }

    fn mapped(&mut self, _view: &View, slot: Slot, replaced: Option<Slot>) {
        self.fill(slot);
        replaced.into_iter().for_each(|old| self.unmapped(old));
    }

    fn unmapped(&mut self, slot: Slot) {
        let bucket = self.of(slot);
        let in_use = &mut self.in_use[bucket.0 as usize];
        *in_use -= 1;
        if *in_use == 0 {
            self.empty += 1;
            self.replacement.remove(bucket);
        }
    }
}

impl Bcache {
    /// Takes over the settings that can change while the volume is served.
    fn take(&mut self, parameters: &Parameters) {
        self.sequential_cutoff = parameters.sequential_cutoff.unwrap_or(Bytes::MAX);
        self.dirty_max = parameters.writeback_percent.map_or(1.0, |Share(share)| share);
        self.writeback_delay = parameters.writeback_delay;
    }

    fn dirty_share(view: &View) -> f64 {
        f64::from(view.map.dirty_blocks()) / f64::from(view.map.slots().max(1))
    }

    /// Returns the time at which dirty blocks may be written back, and the number of blocks.
    fn write_back_at(&self, view: &View) -> Option<(Nanoseconds, usize)> {
        let dirty = view.map.dirty_blocks() as usize;
        if dirty == 0 || view.moving || !view.slots_online() {
            return None;
        }
        let allowed = (self.dirty_max * f64::from(view.map.slots())) as usize;
        let excess = dirty.saturating_sub(allowed);
        let batch = BATCH.min(allowed / BATCH_OF_SHARE);
        let delayed = self.dirty_since.time().saturating_add(self.writeback_delay);
        let many = (excess > 0).then_some((delayed, excess + batch));
        let idle = view.member(self.hdd).idle_at(IDLE).map(|at| (at.max(delayed), dirty));
        [idle, many].into_iter().flatten().min()
    }
}

impl Decisions for Bcache {
    type Contents = Buckets;

    fn set(&mut self, _buckets: &mut Buckets, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.take(&Parameters::of(settings));
        }
        Ok(live)
    }

    fn arrived(&mut self, _buckets: &mut Buckets, view: &View, access: &Access) {
        self.dirty_since.arrived(view);
        self.streams.note(access.kind, access.sectors);
        let length = self.streams.length(access.kind, access.sectors);
        if length == access.sectors.len.bytes() {
            // A new stream begins, so the previous stream enters the average.
            self.average = Bytes((self.average.0 * (AVERAGE_OF - 1) + self.stream.0) / AVERAGE_OF);
        }
        self.stream = length;
    }

    fn bypasses(&mut self, _view: &View, access: &Access) -> Option<Reason> {
        let length = self.streams.length(access.kind, access.sectors);
        (length.max(self.average) >= self.sequential_cutoff).then_some(Reason::SEQUENTIAL)
    }

    fn place_write(&mut self, _buckets: &mut Buckets, view: &View, _: &Access, rest: BlockRun) -> (Placement, u64) {
        match view.free_slots {
            0 => (Placement::Home(Some(Reason::NO_SPACE)), rest.count),
            free if Self::dirty_share(view) > WRITE_THROUGH_ABOVE => (Placement::Both, rest.count.min(free)),
            free => (Placement::Slot, rest.count.min(free)),
        }
    }

    fn wrote(&mut self, view: &View, dirty: bool) {
        self.dirty_since.mapped(view, dirty);
    }

    fn next_timeout(&self, buckets: &Buckets, view: &View) -> Option<Nanoseconds> {
        if buckets.is_due(view) { Some(view.now) } else { self.write_back_at(view).map(|(at, _)| at) }
    }

    fn work(&mut self, buckets: &mut Buckets, view: &View) -> Work {
        if buckets.is_due(view) {
            return buckets.make_room(view);
        }
        match self.write_back_at(view) {
            Some((at, count)) if at <= view.now => {
                Work::MoveHome { slots: self.written_back.next(&view.map, count.min(room::BATCH_BLOCKS)), keep: true }
            }
            _ => Work::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind::{Read, Write};
    use crate::scheme::Reason;
    use crate::testing::Bench;
    use crate::units::Nanoseconds;

    fn slots(bench: &Bench) -> u64 {
        u64::from(bench.volume.view().map.slots())
    }

    fn occupied(bench: &Bench) -> Vec<u32> {
        bench.volume.view().map.occupied().map(|(slot, _)| slot.0).collect()
    }

    #[test]
    fn buckets_are_filled_in_order_and_given_up_whole() {
        let mut bench = Bench::new("bcache", &[("bucket_size", "64KiB")]);
        let count = slots(&bench);
        (0..3 * count).for_each(|block| bench.request(Read, block * 16, 8));
        let held = occupied(&bench);
        let buckets = |bucket: u32| held.iter().filter(|&slot| slot / 16 == bucket).count();
        let partly = (0..count as u32 / 16).filter(|&bucket| (1..16).contains(&buckets(bucket))).count();
        assert!(partly <= 1, "only the one that is being filled: {partly}");
        assert!(bench.volume.statistics().evicted_blocks >= 2 * count - 64);
    }

    /// An overwritten block takes a new slot. The slot of an overwritten block stays unused until
    /// the whole bucket is evicted.
    #[test]
    fn overwritten_slot_stays_unused_until_bucket_is_evicted() {
        let mut bench = Bench::new("bcache", &[("bucket_size", "64KiB"), ("writeback_delay", "0s")]);
        (0..16).for_each(|block| bench.request(Read, block * 16, 8));
        assert_eq!(occupied(&bench), (0..16).collect::<Vec<_>>());
        for _ in 0..3 {
            (0..4).for_each(|block| bench.request(Write, block * 16, 8));
            bench.request(crate::operation::OpKind::Flush, 0, 0);
        }
        let held = occupied(&bench);
        assert_eq!(held[..12], (4..16).collect::<Vec<_>>(), "the holes at the start stay");
        assert_eq!(held[12..], [24, 25, 26, 27]);
    }

    #[test]
    fn the_bucket_whose_blocks_were_used_longest_ago_goes() {
        let mut bench = Bench::new("bcache", &[("bucket_size", "64KiB")]);
        let count = slots(&bench);
        for block in 0..count + 200 {
            bench.request(Read, block * 16, 8);
            bench.request(Read, 5 * 16, 8);
        }
        bench.take_log();
        bench.request(Read, 7 * 16, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"], "in the bucket of a block that is used again and again");
        bench.request(Read, 20 * 16, 8);
        assert_eq!(bench.take_log()[0], "hdd read 8", "in the next one");
    }

    /// A long stream bypasses the cache. After several such streams the average is above the
    /// cutoff, so the next request bypasses at once.
    #[test]
    fn long_streams_bypass_the_cache_by_average_length() {
        let mut bench = Bench::new("bcache", &[("sequential_cutoff", "256KiB")]);
        for stream in 0..20 {
            (0..64).for_each(|at| bench.request(Write, stream * 4000 + at * 16, 16));
        }
        bench.take_log();
        bench.request(Write, 100_000, 16);
        assert_eq!(bench.take_log(), ["hdd write 16"], "the average is above the cutoff");
        for block in 0..40 {
            bench.request(Read, 110_000 + block * 400, 8);
        }
        bench.take_log();
        bench.request(Write, 100_200, 16);
        assert_eq!(bench.take_log(), ["ssd write 16"], "short ones brought it down");
        assert!(bench.volume.statistics().bypassed_blocks[&Reason::SEQUENTIAL] > 20 * 64);
    }

    /// Once `writeback_delay` has passed, write-back keeps the dirty blocks below their share of
    /// the cache. An idle disk takes all dirty blocks, and clean copies stay cached.
    #[test]
    fn dirty_blocks_stay_below_their_share_after_the_delay() {
        let mut bench = Bench::new("bcache", &[]);
        let count = slots(&bench);
        (0..count / 4).for_each(|block| bench.request(Write, block * 16, 8));
        assert_eq!(u64::from(bench.volume.view().map.dirty_blocks()), count / 4);
        bench.pass(Nanoseconds::from_seconds(29));
        assert_eq!(u64::from(bench.volume.view().map.dirty_blocks()), count / 4, "the delay has not passed");
        for at in 0..20 {
            bench.pass(Nanoseconds::from_millis(100));
            bench.request(Read, 60_000 + at * 16, 8);
        }
        let left = u64::from(bench.volume.view().map.dirty_blocks());
        assert!(left <= count / 10 && left > 0, "{left} of {count}");
        bench.pass(Nanoseconds::from_seconds(31));
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
        bench.take_log();
        bench.request(Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"], "copies stay");
    }

    #[test]
    fn what_is_beyond_the_share_goes_home_in_batches() {
        let mut bench = Bench::new("bcache", &[("writeback_delay", "0s"), ("writeback_percent", "0.25")]);
        let count = slots(&bench);
        for block in 0..count {
            bench.request(Write, block * 16, 8);
            assert!(u64::from(bench.volume.view().map.dirty_blocks()) <= count / 4);
        }
        let moved = bench.volume.statistics().migrations;
        assert!(
            moved.blocks >= count * 3 / 4 && moved.count <= moved.blocks / (count / 32).min(8),
            "{moved:?} of {count}"
        );
    }

    #[test]
    fn while_much_is_dirty_writes_go_to_both_drives() {
        let mut bench = Bench::new("bcache", &[("writeback_percent", "off")]);
        let count = slots(&bench);
        (0..count / 2).for_each(|block| bench.request(Write, block * 16, 8));
        let dirty = u64::from(bench.volume.view().map.dirty_blocks());
        assert!(dirty.abs_diff(count * 4 / 10) <= 2, "{dirty} of {count}");
        bench.take_log();
        bench.request(Write, 100_000, 8);
        let log = bench.take_log();
        assert_eq!(log[log.len() - 2..], ["hdd write 8", "ssd write 8"]);
    }

    #[test]
    fn a_bucket_with_dirty_blocks_goes_when_they_are_home() {
        let mut bench = Bench::new("bcache", &[("writeback_percent", "off"), ("bucket_size", "64KiB")]);
        let count = slots(&bench);
        for block in 0..3 * count {
            bench.request(if block % 8 == 0 { Write } else { Read }, block * 16, 8);
        }
        assert!(bench.volume.statistics().migrations.blocks > count / 8);
        assert_eq!(bench.volume.requests_under_way(), 0);
    }
}
