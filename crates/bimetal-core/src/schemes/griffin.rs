//! Griffin (Soundararajan, Prabhakaran, Balakrishnan, Wobber: *Extending SSD Lifetimes with Disk-Based Write Caches*,
//! FAST 2010): home on the SSD, a log on the HDD as a write cache in front of it.
//!
//! *What* (5.1): full caching: every write goes to the log. *How long* (5.2): until a trigger fires, then everything in the
//! log migrates: read in the order of the log, older versions skipped, sorted by address, written to the SSD (5.4).
//! Triggers, alone and together: *timeout* bounds how old what is lost with the HDD can be, *read threshold* bounds the share
//! of reads that the slow log serves, *migration size* bounds how much is lost. A full log forces a migration. Writes
//! gather in a small buffer before the log (5.4), which counts as a drive's volatile cache.
//! *Selective caching* (5.1) logs only blocks that are overwritten often; it counts the writes of every block, a byte each, since the
//! volume was started.
//!
//! The map in memory need not be flushed every 30 s, as the paper's prototype does (6.4): segments of the log describe themselves, and
//! an index of them is written as they fill. What that costs is counted as the log's metadata.
//!
//! Two variants know more than a device does, and are for the simulator: the *oracle* sends a block home just before it is read
//! (3.2), the *eviction hint* when a host's buffer cache evicts it (7). That cache is simulated from the requests: a block that is
//! read or written is in it until `eviction_hint` bytes of others were used since.
//!
//! How the triggers count is fixed so that figures compare. The timer restarts when a migration starts, and when it fires
//! while nothing is logged. The read threshold is tested after each block read, once at least `read_window` blocks were
//! read since the last migration started; the migration size after each block written. A trigger during a
//! migration waits for its end.
//!
//! A migration takes time, and reads meet the log meanwhile. Three rules keep the read penalty below its bound all the same;
//! none of them counts with `migration=instant`. 1. The threshold counts ahead the blocks that reads will find in the log until
//! a migration has ended, at the rate of the last 100 ms. 2. A migration that it begins, or that it is passed in, does not yield to
//! requests, and goes on where a request has just read from the log. 3. Where reads during a migration pass the threshold, the
//! counts go on behind its end, and each read from the log begins a migration, until the share is below again.

use crate::block::{Block, BlockRun};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role, SlotKind};
use crate::operation::OpKind;
use crate::policies::buffer_cache::BufferCache;
use crate::scheme::{Access, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{Kind, MOVE_MEMORY, MOVE_RATE, Parameter, SettingError, Settings};
use crate::units::Nanoseconds;

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "griffin",
    summary: "home on the SSD; a log on the HDD absorbs writes until they migrate",
    source: "Griffin (FAST 2010), sections 3 and 5",
    members: &[(Role::Ssd, Holds::Home), (Role::Hdd, Holds::Log)],
    parameters: &[
        Parameter {
            name: "timeout",
            kind: Kind::DurationOrOff,
            default: "900s",
            doc: "migrate when this long has passed since the last migration started (5.2; 900 s: 6.1.2)",
        },
        Parameter {
            name: "read_threshold",
            kind: Kind::FractionOrOff,
            default: "0.05",
            doc: "migrate when the log serves more than this share of the blocks read since the last migration (5.2)",
        },
        Parameter {
            name: "read_window",
            kind: Kind::Count,
            default: "100",
            doc: "blocks read since the last migration before the read threshold counts (our figure)",
        },
        Parameter {
            name: "migration_size",
            kind: Kind::SizeOrOff,
            default: "off",
            doc: "migrate when the distinct live blocks in the log reach this size (5.2)",
        },
        Parameter {
            name: "log_buffer",
            kind: Kind::Size,
            default: "128KiB",
            doc: "memory in which writes gather before they go to the log (5.4); 0: a write waits for the log itself",
        },
        Parameter {
            name: "overwrite_threshold",
            kind: Kind::Fraction,
            default: "0",
            doc: "a block is logged when overwrites / writes, this one included, reach this; 0: every write is logged (5.1)",
        },
        Parameter {
            name: "log_bypass",
            kind: Kind::Choice(&["on", "off"]),
            default: "off",
            doc: "on: writes pass the log by while they come faster than log_rate (7); off: they wait for it",
        },
        Parameter {
            name: "log_rate",
            kind: Kind::Size,
            default: "70MB",
            doc: "what the log sustains in a second (7: 70 to 80 MB/s); counts with log_bypass=on",
        },
        Parameter {
            name: "oracle",
            kind: Kind::Choice(&["on", "off"]),
            default: "off",
            doc: "on: what is about to be read goes home just before (3.2, the idealized cache); with migration=instant only",
        },
        Parameter {
            name: "eviction_hint",
            kind: Kind::SizeOrOff,
            default: "off",
            doc: "blocks go home when a host's buffer cache of this size evicts them (7); with migration=instant only",
        },
        Parameter {
            name: "migration",
            kind: Kind::Choice(&["timed", "instant"]),
            default: "timed",
            doc: "instant: migrations take no time, as in the paper's policy simulator (6.1); simulator only",
        },
        MOVE_RATE,
        MOVE_MEMORY,
    ],
    worst_crash: "what was not flushed; each block whole, old or new",
    ssd_loss: "all data",
    hdd_loss: "every write since the last completed migration started; what is left is older than what is lost, \
               unless overwrite_threshold or log_bypass let writes pass the log by",
    bypass: &[
        (SELDOM, "overwrites / writes of the block are below overwrite_threshold"),
        (LOG_RATE, "log_bypass=on, and writes came faster than log_rate"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        // One log may serve several SSDs (7); each is then a unit, if units are asked for.
        let home = request.side_by_side(&request.all(Role::Ssd)?)?;
        let log = request.first_of(&[Role::Log, Role::Hdd])?;
        let buffer = settings.size("log_buffer").unwrap_or_default().0 / request.block.bytes().0;
        let buffer_blocks = u32::try_from(buffer).map_err(|_| settings.refuse("log_buffer", "at most 16TiB"))?;
        Ok(request.with_slots(home, log, SlotKind::Log { buffer_blocks })?)
    },
    build,
};

/// A timer that fires while nothing is logged starts anew: below this it would do nothing else.
const TIMEOUT_MIN: Nanoseconds = Nanoseconds::from_millis(1);

struct Griffin {
    block_bytes: u64,
    timeout: Option<Nanoseconds>,
    read_threshold: Option<f64>,
    read_window: u64,
    migration_blocks: Option<u64>,
    instant: bool,
    /// When the timer was last started.
    timer_started: Nanoseconds,
    /// Blocks read since the last migration started, and how many of them the log served.
    blocks_read: u64,
    blocks_read_from_log: u64,
    log_reads: Rate,
    /// Whether the read threshold has been passed.
    fired: bool,
    /// Whether the last migration began because of that.
    began_for_reads: bool,
    /// Whether it was passed during a migration, and the share of reads from the log has been above it since. Then reads from
    /// the log alone begin a migration.
    in_debt: bool,
    overwrites: Option<Overwrites>,
    bypass: Option<Inflow>,
    oracle: bool,
    buffer_cache: Option<BufferCache>,
    /// What is to go home at once: it is about to be read.
    impending: Vec<Slot>,
}

/// The writes below the overwrite threshold.
const SELDOM: Reason = Reason("seldom-overwritten");
/// The log does not keep up.
const LOG_RATE: Reason = Reason("log-rate");

/// How often each block was written: overwrites / writes is (n - 1) / n. A byte for each block of the home, resident once a
/// block near it was written.
struct Overwrites {
    writes: Vec<u8>,
    /// From so many writes on a block is logged.
    needed: u8,
}

impl Overwrites {
    /// For a threshold above 0.
    fn new(threshold: f64, blocks: u64) -> Option<Self> {
        let needed = (1..=u8::MAX).find(|&writes| f64::from(writes - 1) / f64::from(writes) >= threshold)?;
        Some(Self { writes: vec![0; blocks as usize], needed })
    }

    fn written(&mut self, blocks: BlockRun) {
        let writes = &mut self.writes[blocks.first.0 as usize..blocks.end() as usize];
        writes.iter_mut().for_each(|count| *count = count.saturating_add(1));
    }

    /// Whether the first of `blocks` are logged, and how many are like it.
    fn alike(&self, blocks: BlockRun) -> (bool, u64) {
        let writes = &self.writes[blocks.first.0 as usize..blocks.end() as usize];
        let logged = writes[0] >= self.needed;
        (logged, writes.iter().take_while(|&&count| (count >= self.needed) == logged).count() as u64)
    }
}

/// Bytes that a migration moves in a second while reads come in (our figure, a fifth of what a disk reads alone): how long the
/// next one takes is not known before.
const MIGRATES: f64 = 16e6;
/// How long the rate of reads from the log is averaged over, in seconds (our figure).
const READS_OVER: f64 = 0.1;

/// How many blocks a second the log serves.
#[derive(Default)]
struct Rate {
    rate: f64,
    last: Nanoseconds,
}

impl Rate {
    fn count(&mut self, now: Nanoseconds, blocks: u64) {
        self.rate = self.rate_at(now) + blocks as f64 / READS_OVER;
        self.last = now;
    }

    fn rate_at(&self, now: Nanoseconds) -> f64 {
        self.rate / (1.0 + (now.0 - self.last.0) as f64 / 1e9 / READS_OVER)
    }
}

/// How fast writes come in.
struct Inflow {
    /// What the log sustains, in bytes a second.
    sustained: f64,
    rate: f64,
    last: Nanoseconds,
}

impl Inflow {
    fn written(&mut self, now: Nanoseconds, bytes: u64) {
        let gap = (now.0 - self.last.0) as f64 / 1e9;
        self.last = now;
        // The mean over about the last second.
        self.rate = self.rate / (1.0 + gap) + bytes as f64;
    }

    fn is_too_fast(&self) -> bool {
        self.rate > self.sustained
    }
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let mut griffin = Griffin {
        block_bytes: layout.block.bytes().0,
        timeout: None,
        read_threshold: None,
        read_window: 0,
        migration_blocks: None,
        instant: settings.text("migration") == "instant",
        timer_started: Nanoseconds::ZERO,
        blocks_read: 0,
        blocks_read_from_log: 0,
        log_reads: Rate::default(),
        fired: false,
        began_for_reads: false,
        in_debt: false,
        overwrites: None,
        bypass: None,
        oracle: settings.text("oracle") == "on",
        buffer_cache: None,
        impending: Vec::new(),
    };
    griffin.take_triggers(settings)?;
    griffin.take_caching(settings, layout)?;
    Ok(Box::new(griffin))
}

/// The slots that the log has of `block`.
fn logged(view: &View, block: Block) -> Vec<Slot> {
    view.map.pieces(block).iter().map(|(slot, _)| *slot).collect()
}

impl Griffin {
    /// All triggers as the settings have them.
    fn take_triggers(&mut self, settings: &Settings) -> Result<(), SettingError> {
        let timeout = settings.duration("timeout");
        if timeout.is_some_and(|timeout| timeout < TIMEOUT_MIN) {
            return Err(settings.refuse("timeout", format!("at least {TIMEOUT_MIN}, or off")));
        }
        self.timeout = timeout;
        self.read_threshold = settings.fraction("read_threshold");
        self.read_window = settings.count("read_window");
        self.migration_blocks = settings.size("migration_size").map(|size| size.0.div_ceil(self.block_bytes).max(1));
        Ok(())
    }

    /// What is logged, and what goes home without a trigger.
    fn take_caching(&mut self, settings: &Settings, layout: &Layout) -> Result<(), SettingError> {
        let threshold = settings.fraction("overwrite_threshold").unwrap_or(0.0);
        if threshold > 0.0 {
            let overwrites = Overwrites::new(threshold, layout.total_blocks());
            let most = f64::from(u8::MAX - 1) / f64::from(u8::MAX);
            self.overwrites =
                Some(overwrites.ok_or_else(|| settings.refuse("overwrite_threshold", format!("at most {most:.3}")))?);
        }
        if settings.text("log_bypass") == "on" {
            let sustained = settings.size("log_rate").unwrap_or_default().0 as f64;
            self.bypass = Some(Inflow { sustained, rate: 0.0, last: Nanoseconds::ZERO });
        }
        let hint = settings.size("eviction_hint");
        for (key, wanted) in [("oracle", self.oracle), ("eviction_hint", hint.is_some())] {
            if wanted && !self.instant {
                return Err(settings.refuse(key, "off, or migration=instant beside it"));
            }
        }
        self.buffer_cache = hint.map(|size| BufferCache::new((size.0 / self.block_bytes).max(1) as u32));
        Ok(())
    }

    /// Whether the share of reads from the log is above the threshold after `log` of `all` blocks, and `ahead` more that a
    /// migration will meet.
    fn is_above_threshold(&self, log: u64, all: u64, ahead: f64) -> bool {
        let window = all >= self.read_window && all > 0;
        window && self.read_threshold.is_some_and(|threshold| (log as f64 + ahead) / (all as f64 + ahead) > threshold)
    }

    /// Blocks that reads will find in the log until a migration that begins now has ended, at the rate of the last reads there.
    fn read_ahead(&self, view: &View) -> f64 {
        if self.instant || view.moving {
            return 0.0;
        }
        let seconds = (view.map.len() * self.block_bytes) as f64 / MIGRATES;
        self.log_reads.rate_at(view.now) * seconds
    }

    /// Whether what is in the log now has reached the migration size. While a migration runs this is not asked: then the map
    /// still holds what is on its way home, and only what comes later belongs to the next one.
    fn is_large(&self, view: &View) -> bool {
        self.migration_blocks.is_some_and(|limit| view.map.len() >= limit)
    }

    fn restart(&mut self, now: Nanoseconds) {
        self.timer_started = now;
        self.fired = false;
        self.in_debt &= self.is_above_threshold(self.blocks_read_from_log, self.blocks_read, 0.0);
        if !self.in_debt {
            self.blocks_read = 0;
            self.blocks_read_from_log = 0;
        }
    }
}

impl Scheme for Griffin {
    fn arrived(&mut self, view: &View, access: &Access) {
        let read = access.kind == OpKind::Read;
        if !read && let Some(overwrites) = &mut self.overwrites {
            overwrites.written(access.blocks);
        }
        if !read && let Some(inflow) = &mut self.bypass {
            inflow.written(view.now, access.sectors.len.bytes().0);
        }
        if read && self.oracle {
            self.impending.extend(access.blocks.blocks().flat_map(|block| logged(view, block)));
        }
        if let Some(cache) = &mut self.buffer_cache {
            let evicted = access.blocks.blocks().filter_map(|block| cache.use_block(block));
            self.impending.extend(evicted.flat_map(|block| logged(view, block)));
        }
    }

    fn place_write(&mut self, view: &View, _access: &Access, rest: BlockRun) -> (Placement, u64) {
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        if self.bypass.as_ref().is_some_and(Inflow::is_too_fast) {
            return (Placement::Home(Some(LOG_RATE)), rest.count);
        }
        match self.overwrites.as_ref().map(|overwrites| overwrites.alike(rest)) {
            Some((false, blocks)) => (Placement::Home(Some(SELDOM)), blocks),
            Some((true, blocks)) => (Placement::Slot, blocks),
            None => (Placement::Slot, rest.count),
        }
    }

    fn read(&mut self, view: &View, blocks: BlockRun, from_slots: bool) {
        let before = self.blocks_read;
        self.blocks_read += blocks.count;
        if from_slots {
            self.blocks_read_from_log += blocks.count;
            // The share rises block by block: the last one decides.
            self.log_reads.count(view.now, blocks.count);
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, self.blocks_read, self.read_ahead(view));
        } else if !self.in_debt {
            // The share falls block by block: the first one that counts decides.
            let first = (before + 1).max(self.read_window).min(self.blocks_read);
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, first, 0.0);
        }
        self.in_debt |= self.fired && view.moving;
    }

    fn unmapped(&mut self, slot: Slot, _block: Block) {
        self.impending.retain(|&other| other != slot);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        if !self.impending.is_empty() {
            return Some(view.now);
        }
        if view.moving || !view.slots_online() {
            return None;
        }
        if self.fired || self.is_large(view) {
            return Some(view.now);
        }
        self.timeout.map(|timeout| self.timer_started.saturating_add(timeout))
    }

    fn work(&mut self, view: &View) -> Work {
        if !self.impending.is_empty() {
            let mut slots = std::mem::take(&mut self.impending);
            slots.sort();
            slots.dedup();
            return Work::MoveHome { slots, keep: false };
        }
        if view.moving || !view.slots_online() {
            return Work::Nothing;
        }
        let timer = self.timeout.is_some_and(|timeout| self.timer_started.saturating_add(timeout) <= view.now);
        // Room that is on its way will do.
        let full = view.waiting_for_slots > 0 && view.freeing_slots == 0;
        if view.map.is_empty() && !full {
            if timer || self.fired {
                self.restart(view.now);
            }
            return Work::Nothing;
        }
        if !(timer || self.fired || self.is_large(view) || full) {
            return Work::Nothing;
        }
        self.began_for_reads = self.fired;
        self.restart(view.now);
        Work::MigrateAll
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = ["timeout", "read_threshold", "read_window", "migration_size"].contains(&key);
        if live {
            self.take_triggers(settings)?;
        }
        Ok(live)
    }

    /// Reads that the log serves count against the threshold until the migration has ended.
    fn is_move_urgent(&self) -> bool {
        self.fired || self.began_for_reads
    }

    fn migrates_instantly(&self) -> bool {
        self.instant
    }
}

#[cfg(test)]
mod tests {
    use crate::block::BlockSize;
    use crate::layout::{LayoutRequest, MemberInfo, Role};
    use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
    use crate::payload::NoPayload;
    use crate::settings::Settings;
    use crate::testing::Bench;
    use crate::units::{Bytes, Nanoseconds, SectorRange};

    const ONLY_TIMEOUT: &[(&str, &str)] = &[("read_threshold", "off"), ("log_buffer", "0")];

    #[test]
    fn write_is_appended_between_head_and_foot_of_segment() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        bench.request(OpKind::Write, 8000, 8);
        bench.request(OpKind::Write, 80, 24);
        assert_eq!(bench.take_log(), ["hdd write 24", "hdd write 40"]);
        bench.request(OpKind::Read, 80, 8);
        bench.request(OpKind::Read, 160, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "ssd read 8"]);
    }

    #[test]
    fn writes_gather_in_the_buffer_until_it_is_full_or_the_log_is_idle() {
        let mut bench = Bench::new("griffin", &[("log_buffer", "16KiB")]);
        for block in 0..5 {
            bench.request(OpKind::Write, block * 80, 8);
        }
        assert_eq!(bench.take_log(), ["hdd write 48"], "a head, four blocks and a foot");
        bench.request(OpKind::Read, 4 * 80, 8);
        assert_eq!(bench.take_log(), [""; 0], "read from the buffer");
        bench.pass(Nanoseconds::from_millis(20));
        assert_eq!(bench.take_log(), ["hdd write 24"]);
    }

    #[test]
    fn a_flush_writes_the_buffer_out() {
        let mut bench = Bench::new("griffin", &[]);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Flush, 0, 0);
        assert_eq!(bench.take_log(), ["hdd write 24", "hdd flush 0"]);
    }

    #[test]
    fn partial_overwrite_appends_a_piece_and_reads_nothing() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        (0..4).for_each(|write| bench.request(OpKind::Write, 84 + 8 * write, 8));
        assert_eq!(bench.take_log(), ["hdd write 32"; 4], "head, two blocks and foot");
        (0..40).for_each(|write| bench.request(OpKind::Write, 4004 + 80 * write, 4));
        bench.take_log();
        bench.request(OpKind::Write, 80, 4);
        bench.request(OpKind::Write, 82, 1);
        assert_eq!(bench.take_log(), ["hdd write 24"; 2]);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "hdd read 32"], "the last two pieces lie in segments that follow");
    }

    /// A stream of a partition that begins at sector 63 leaves two pieces of each block: they lie side by side.
    #[test]
    fn pieces_of_unaligned_writes_are_read_and_moved_together() {
        let mut bench = Bench::new("griffin", &[("read_threshold", "off")]);
        (0..4).for_each(|write| bench.request(OpKind::Write, 84 + 8 * write, 8));
        bench.request(OpKind::Flush, 0, 0);
        assert_eq!(bench.take_log(), ["hdd write 80", "hdd flush 0"], "eight pieces between head and foot");
        bench.request(OpKind::Read, 84, 32);
        assert_eq!(bench.take_log(), ["hdd read 64"]);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["ssd read 4", "hdd read 8"]);
        let view = bench.volume.view();
        assert_eq!((view.map.len(), view.map.slots_in_use(), view.map.dirty_blocks()), (5, 8, 5));
        bench.pass(Nanoseconds::from_seconds(900));
        let moved: Vec<String> = bench.take_log().into_iter().filter(|line| !line.ends_with(" 8")).collect();
        assert_eq!(
            moved,
            ["hdd read 64", "ssd write 4", "ssd write 24", "ssd write 4", "ssd flush 0"],
            "three whole blocks are one write, and what is logged of the first and the last are two"
        );
        assert!(bench.volume.view().map.is_empty());
    }

    #[test]
    fn blocks_of_two_segments_are_read_with_what_lies_between() {
        let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("log_buffer", "16KiB")]);
        (0..2).for_each(|write| bench.request(OpKind::Write, 32 * write, 32));
        assert_eq!(bench.take_log(), ["hdd write 48"; 2]);
        bench.request(OpKind::Read, 0, 64);
        assert_eq!(bench.take_log(), ["hdd read 80"], "a foot and a head lie between");
    }

    /// A block that is joined from home and the log counts as served by the log only where the log was read.
    #[test]
    fn read_of_what_only_home_has_is_no_read_of_the_log() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        bench.request(OpKind::Write, 800, 1);
        bench.request(OpKind::Read, 801, 7);
        bench.request(OpKind::Read, 8000, 8);
        assert_eq!(bench.take_log(), ["hdd write 24", "ssd read 7", "ssd read 8"]);
        assert_eq!(bench.volume.statistics().read_blocks_from_slots, 0);
        bench.request(OpKind::Read, 800, 2);
        assert_eq!(bench.take_log(), ["ssd read 1", "hdd read 8"]);
        assert_eq!(bench.volume.statistics().read_blocks_from_slots, 1);
    }

    #[test]
    fn a_migration_reads_the_log_in_order_skips_older_versions_and_writes_in_order_of_address() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        for block in [9, 5, 9, 4, 9] {
            bench.request(OpKind::Write, block * 8, 8);
        }
        bench.take_log();
        bench.pass(Nanoseconds::from_seconds(900));
        let log = bench.take_log();
        // A mark, the three live blocks from where they lie, read through what lies between them, which are stable there
        // before home changes, blocks 4 and 5 together, then 9; then the mark and the log's tail. Marks and tail in two copies.
        assert_eq!(
            log,
            [
                "ssd write 8",
                "ssd write 8",
                "hdd read 80",
                "hdd flush 0",
                "ssd write 16",
                "ssd write 8",
                "ssd flush 0",
                "ssd write 8",
                "ssd write 8",
                "hdd write 8",
                "hdd write 8"
            ]
        );
        assert_eq!(bench.volume.statistics().home_blocks_written, 3);
        assert!(bench.volume.view().map.is_empty());
    }

    /// Section 5.4: the migration "sorts the logged data by logical address". A batch has 256 blocks here, and the log has
    /// them in an order that leaves no two neighbours in one batch of it.
    #[test]
    fn migration_of_many_batches_writes_in_order_of_address() {
        let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("move_memory", "1MiB")]);
        (0..700).for_each(|at| bench.request(OpKind::Write, at * 303 % 700 * 8, 8));
        bench.take_log();
        bench.pass(Nanoseconds::from_seconds(900));
        let log = bench.take_log();
        let of_content = |line: &&String| line.starts_with("ssd write") && *line != "ssd write 8";
        let writes: Vec<&String> = log.iter().filter(of_content).collect();
        let runs_of_128 = "ssd write 1024";
        assert_eq!(writes, [runs_of_128, runs_of_128, runs_of_128, runs_of_128, runs_of_128, "ssd write 480"]);
        let first = log.iter().position(|line| line == runs_of_128).unwrap();
        let flushes = |log: &[String]| log.iter().filter(|line| *line == "hdd flush 0").count();
        assert_eq!((flushes(&log[..first]), flushes(&log[first..])), (1, 0), "all that it moves is stable then");
    }

    /// A block was logged, written again while a migration ran, discarded, and written once more. The migration wrote the oldest of
    /// these home, because the block was in the log again; a read after the last write had failed found it.
    #[test]
    fn discarded_block_does_not_go_home_in_its_old_version() {
        for (discards, moved) in [(false, 10), (true, 9)] {
            let mut bench = Bench::new("griffin", &[("read_threshold", "off"), ("move_memory", "4KiB")]);
            (0..10).for_each(|block| bench.request(OpKind::Write, block * 80, 8));
            bench.volume.advance(Nanoseconds::from_seconds(900));
            assert!(bench.volume.view().moving);
            let submit = |bench: &mut Bench, kind| {
                let command = Command { kind, range: SectorRange::new(720, 8), fua: false };
                let operation = Operation { token: Token(1000), target: 0, command, payload: NoPayload };
                bench.volume.submit(Nanoseconds::from_seconds(900), operation);
            };
            submit(&mut bench, OpKind::Write);
            if discards {
                submit(&mut bench, OpKind::Discard);
            }
            submit(&mut bench, OpKind::Write);
            while let Some(operation) = bench.volume.next_operation() {
                let completion = Completion { token: operation.token, status: Status::Done, payload: NoPayload };
                bench.volume.complete(Nanoseconds::from_seconds(900), completion);
            }
            let statistics = bench.volume.statistics();
            assert_eq!((statistics.migrations.count, statistics.migrations.blocks), (1, moved), "discards: {discards}");
        }
    }

    /// The policy simulator of section 6.1 knows no drives: how long they take changes nothing about when a trigger fires.
    #[test]
    fn instant_migration_ends_before_the_drives_answer() {
        let settings =
            [("timeout", "off"), ("read_threshold", "off"), ("migration", "instant"), ("migration_size", "8KiB")];
        let mut bench = Bench::new("griffin", &settings);
        for block in 0..6 {
            bench.submit(0, OpKind::Write, block * 80, 8);
            let statistics = bench.volume.statistics();
            assert_eq!(
                (statistics.migrations.count, statistics.home_blocks_written),
                (block.div_ceil(2), block.div_ceil(2) * 2)
            );
            assert!(!bench.volume.view().moving);
        }
        bench.serve();
        assert_eq!(bench.take_log().iter().filter(|line| *line == "ssd write 8").count(), 6);
    }

    #[test]
    fn a_migration_leaves_no_records_for_a_full_log() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        (0..400).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        bench.pass(Nanoseconds::from_seconds(900));
        assert!(bench.volume.view().map.is_empty());
        bench.take_log();
        bench.request(OpKind::Flush, 0, 0);
        assert_eq!(bench.take_log(), ["ssd flush 0", "hdd flush 0"]);
    }

    #[test]
    fn the_timer_restarts_when_nothing_is_logged_and_counts_nothing() {
        let mut bench = Bench::new("griffin", ONLY_TIMEOUT);
        bench.pass(Nanoseconds::from_seconds(5000));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, 80, 8);
        bench.pass(Nanoseconds::from_seconds(399));
        assert_eq!(bench.volume.statistics().migrations.count, 0, "the timer started anew at 4500 s");
        bench.pass(Nanoseconds::from_seconds(2));
        assert_eq!(bench.volume.statistics().migrations.count, 1);
    }

    #[test]
    fn a_timeout_of_nothing_is_refused() {
        let info = super::INFO;
        let settings = Settings::new(info.name, info.parameters, [("timeout", "0s")]).unwrap();
        let capacity = Bytes::from_mib(64).sectors();
        let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity });
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        let layout = (info.layout)(&settings, &request).unwrap();
        let refused = (info.build)(&settings, &layout).err().unwrap().to_string();
        assert_eq!(refused, "griffin: timeout=0s is not possible: expected at least 1ms, or off");
    }

    #[test]
    fn triggers_change_while_it_serves_and_the_log_does_not() {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "off")]);
        (1..5).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        let set = |bench: &mut Bench, key, value| {
            let given = [("timeout", "off"), ("read_threshold", "off"), (key, value)];
            let settings =
                Settings::new("griffin", super::INFO.parameters, given).map_err(|error| error.to_string())?;
            let now = bench.volume.view().now;
            bench.volume.set(now, key, &settings).map_err(|error| error.to_string())
        };
        let refused = set(&mut bench, "log_buffer", "0").unwrap_err();
        assert!(refused.contains("log_buffer cannot change while the volume is served: drain it"), "{refused}");
        assert!(set(&mut bench, "timeout", "0s").unwrap_err().contains("at least 1ms"));
        assert!(set(&mut bench, "move_rate", "1").unwrap_err().contains("at least 64KiB"));
        set(&mut bench, "move_rate", "1MiB").unwrap();
        set(&mut bench, "migration_size", "16KiB").unwrap();
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(bench.volume.statistics().migrations.blocks, 4, "what is there is enough at once");
    }

    #[test]
    fn a_migration_is_no_faster_than_its_rate() {
        let mut bench =
            Bench::new("griffin", &[("timeout", "100s"), ("read_threshold", "off"), ("move_rate", "64KiB")]);
        // 64 runs of 4 KiB.
        (0..64).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        bench.pass(Nanoseconds::from_seconds(100));
        bench.take_log();
        let written = |bench: &mut Bench| bench.take_log().iter().filter(|line| **line == "ssd write 8").count();
        bench.pass(Nanoseconds::from_seconds(1));
        let first = written(&mut bench);
        assert!((14..=18).contains(&first), "{first} writes of 4 KiB in a second");
        bench.pass(Nanoseconds::from_seconds(4));
        assert!(bench.volume.view().map.is_empty(), "it comes to its end");
    }

    #[test]
    fn the_read_threshold_fires_once_the_window_is_full() {
        let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
        let mut bench = Bench::new("griffin", &settings);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Read, 80, 8);
        (0..18).for_each(|_| bench.request(OpKind::Read, 8000, 8));
        assert_eq!(bench.volume.statistics().migrations.count, 0, "1 of 19 is above, but the window is not full");
        bench.request(OpKind::Read, 8000, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 0, "1 of 20 is not above 5 %");
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1, "2 of 21 is");
    }

    /// The log served two of ten blocks when a read of forty blocks from home begins. Its tenth block fills the window: two of twenty
    /// is above 5 %, two of fifty is not.
    #[test]
    fn read_that_crosses_the_window_fires_at_its_end() {
        let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
        for (from_log, migrations) in [(2, 1), (1, 0)] {
            let mut bench = Bench::new("griffin", &settings);
            bench.request(OpKind::Write, 80, 8);
            (0..from_log).for_each(|_| bench.request(OpKind::Read, 80, 8));
            (from_log..10).for_each(|_| bench.request(OpKind::Read, 8000, 8));
            assert_eq!(bench.volume.statistics().migrations.count, 0, "the window is not full");
            bench.request(OpKind::Read, 8000, 8 * 40);
            assert_eq!(bench.volume.statistics().migrations.count, migrations, "{from_log} of 20 blocks");
        }
    }

    /// A burst reads fifty blocks of the log in five milliseconds, after sixteen hundred from home. That is 3 %; at this rate it would
    /// be more than 5 % before three megabytes have gone home.
    #[test]
    fn read_threshold_counts_ahead_what_a_migration_will_meet() {
        let fires = |gap: Nanoseconds, migration: &str| {
            let mut bench =
                Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "0.05"), ("migration", migration)]);
            (0..700).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
            (0..4).for_each(|_| bench.request(OpKind::Read, 80_000, 8 * 400));
            for block in 0..50 {
                bench.request(OpKind::Read, block * 8, 8);
                bench.pass(gap);
            }
            bench.volume.statistics().migrations.count > 0
        };
        assert!(fires(Nanoseconds(100_000), "timed"));
        assert!(!fires(Nanoseconds::from_seconds(1), "timed"), "at this rate a migration meets no read");
        assert!(!fires(Nanoseconds(100_000), "instant"), "nothing is met by what takes no time");
    }

    /// What reads took from the log during a migration is paid back: until the share is below the threshold again, each read from the
    /// log begins a migration.
    #[test]
    fn reads_during_a_migration_count_behind_its_end() {
        let settings = [("timeout", "off"), ("read_threshold", "0.05"), ("read_window", "20"), ("log_buffer", "0")];
        let mut bench = Bench::new("griffin", &settings);
        (0..40).for_each(|block| bench.request(OpKind::Write, block * 8, 8));
        // The second read of twenty blocks fires, and thirty blocks are read before the drives answer.
        bench.request(OpKind::Read, 80_000, 8 * 18);
        bench.submit(0, OpKind::Read, 0, 8 * 2);
        assert!(bench.volume.view().moving);
        bench.submit(0, OpKind::Read, 0, 8 * 30);
        bench.serve();
        while bench.volume.next_finished().is_some() {}
        bench.pass(Nanoseconds::from_seconds(1));
        assert!(bench.volume.view().map.is_empty() && !bench.volume.view().moving);
        let begun = bench.volume.statistics().migrations.count;
        let write_and_read = |bench: &mut Bench, block: u64| {
            bench.request(OpKind::Write, block * 8, 8);
            bench.request(OpKind::Read, block * 8, 8);
            bench.pass(Nanoseconds::from_seconds(1));
            bench.volume.statistics().migrations.count - begun
        };
        assert_eq!(
            (write_and_read(&mut bench, 50), write_and_read(&mut bench, 51)),
            (1, 2),
            "30 of 31 blocks and more"
        );
        // Thirty-two blocks are five per cent of 640.
        (0..2).for_each(|_| bench.request(OpKind::Read, 80_000, 8 * 400));
        assert_eq!(write_and_read(&mut bench, 52), 2, "the share is below the threshold");
    }

    #[test]
    fn the_migration_size_fires_when_distinct_live_blocks_reach_it() {
        let settings = [("timeout", "off"), ("read_threshold", "off"), ("migration_size", "16KiB")];
        let mut bench = Bench::new("griffin", &settings);
        for block in [1, 2, 3, 3, 3] {
            bench.request(OpKind::Write, block * 8, 8);
        }
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, 4 * 8, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        assert_eq!(bench.volume.statistics().migrations.blocks, 4);
    }

    #[test]
    fn a_full_log_forces_a_migration() {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("read_threshold", "off")]);
        let slots = u64::from(bench.volume.view().map.slots());
        for write in 0..3 * slots {
            bench.request(OpKind::Write, write % 50 * 8, 8);
        }
        let count = bench.volume.statistics().migrations.count;
        assert!((2..=5).contains(&count), "{count}");
        assert_eq!(bench.volume.requests_under_way(), 0);
    }

    /// What the home is written of the requests `W` and `R` to one block, what waits in the log at the end included.
    fn blocks_written(settings: &[(&str, &str)], requests: &str) -> u64 {
        let triggers = [("timeout", "off"), ("read_threshold", "off"), ("migration", "instant")];
        let mut bench = Bench::new("griffin", &[&triggers, settings].concat());
        for request in requests.chars() {
            bench.request(if request == 'W' { OpKind::Write } else { OpKind::Read }, 80, 8);
        }
        let statistics = bench.volume.statistics();
        let reads_from_log = if settings.is_empty() { 1 } else { 0 };
        assert_eq!(statistics.read_blocks_from_slots, reads_from_log);
        statistics.home_blocks_written + bench.volume.view().map.len()
    }

    /// Section 3.2: "WWW RWW [...] a sequence of operations to the SSD that contains two writes and one read".
    #[test]
    fn an_oracle_writes_home_just_before_each_read_and_no_read_meets_the_log() {
        assert_eq!(blocks_written(&[("oracle", "on")], "WWWRWW"), 2);
        assert_eq!(blocks_written(&[], "WWWRWW"), 1);
    }

    #[test]
    fn a_block_goes_home_when_the_hosts_buffer_cache_evicts_it() {
        let settings = [("timeout", "off"), ("migration", "instant"), ("eviction_hint", "8KiB")];
        let mut bench = Bench::new("griffin", &settings);
        (1..=3).for_each(|block| bench.request(OpKind::Write, block * 80, 8));
        assert_eq!(bench.volume.statistics().home_blocks_written, 1, "the first of three left a cache of two");
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.volume.statistics().read_blocks_from_slots, 0);
    }

    #[test]
    fn what_knows_more_than_a_device_does_is_for_the_simulator() {
        let info = super::INFO;
        let capacity = Bytes::from_mib(64).sectors();
        let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity });
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        for (key, value) in [("oracle", "on"), ("eviction_hint", "1MiB"), ("overwrite_threshold", "0.999")] {
            let settings = Settings::new(info.name, info.parameters, [(key, value)]).unwrap();
            let layout = (info.layout)(&settings, &request).unwrap();
            let error = (info.build)(&settings, &layout).err().unwrap().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    /// Section 5.1: only "blocks which have a higher overwrite ratio [...] are cached".
    #[test]
    fn selective_caching_logs_what_is_overwritten_often() {
        let mut bench = Bench::new("griffin", &[ONLY_TIMEOUT, &[("overwrite_threshold", "0.6")]].concat());
        (0..4).for_each(|_| bench.request(OpKind::Write, 80, 8));
        // Of one write none is an overwrite, of two a half, of three two thirds.
        assert_eq!(bench.take_log(), ["ssd write 8", "ssd write 8", "hdd write 24", "hdd write 24"]);
        bench.request(OpKind::Write, 72, 24);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 24", "ssd write 8"]);
    }

    /// Section 7: "disabling caching whenever the data rate of the combined workloads exceeds HDD speed".
    #[test]
    fn writes_that_come_faster_than_the_log_sustains_pass_it_by() {
        let mut bench = Bench::new("griffin", &[ONLY_TIMEOUT, &[("log_bypass", "on"), ("log_rate", "16KiB")]].concat());
        (0..10).for_each(|at| bench.request(OpKind::Write, at * 80, 8));
        let log = bench.take_log();
        assert_eq!(log.iter().filter(|line| line.starts_with("ssd")).count(), 6, "{log:?}");
        bench.pass(Nanoseconds::from_seconds(60));
        bench.request(OpKind::Write, 80, 8);
        assert_eq!(bench.take_log().last().unwrap(), "hdd write 24");
    }

    /// A log is full, and its migration has ended: its room comes back when a read that is older
    /// than the end of the migration is over. A write waits for that, and no other migration begins
    /// meanwhile.
    #[test]
    fn full_log_waits_for_room_that_is_on_its_way() {
        let mut bench = Bench::new("griffin", &[("timeout", "off"), ("log_buffer", "0")]);
        bench.request(OpKind::Write, 0, 8);
        bench.submit(0, OpKind::Read, 0, 8);
        let read = bench.volume.next_operation().unwrap();
        let done = |token| Completion { token, status: Status::Done, payload: NoPayload };
        let (mut blocks, mut operations) = (0, 0);
        while bench.volume.view().freeing_slots == 0 {
            blocks += 1;
            bench.submit(0, OpKind::Write, 80 * blocks, 8);
            while let Some(operation) = bench.volume.next_operation() {
                bench.volume.complete(Nanoseconds::ZERO, done(operation.token));
                operations += 1;
                assert!(operations < 20_000, "one migration after the other");
            }
            assert!(blocks < 2000, "the log is never full");
        }
        assert_eq!((bench.volume.statistics().migrations.count, bench.volume.view().waiting_for_slots), (1, 1));
        bench.take_log();
        bench.pass(Nanoseconds::from_seconds(100));
        assert_eq!(bench.take_log(), [""; 0], "nothing but the read is in the way");
        bench.volume.complete(Nanoseconds::from_seconds(100), done(read.token));
        bench.serve();
        assert_eq!((bench.volume.requests_under_way(), bench.volume.view().map.len()), (0, 1));
    }
}
