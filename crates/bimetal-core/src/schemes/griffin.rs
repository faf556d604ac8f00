//! Griffin (Soundararajan, Prabhakaran, Balakrishnan, Wobber: *Extending SSD Lifetimes with
//! Disk-Based Write Caches*, FAST 2010): home on the SSD, a log on the HDD is a write cache in
//! front of the SSD.
//!
//! *What* (Griffin, section 5.1): full caching: every write goes to the log. *How long* (Griffin,
//! section 5.2): until a trigger fires. When a trigger fires, everything in the log migrates: it is
//! read in the order of the log, older versions skipped, sorted by address, and written to the SSD
//! (Griffin, section 5.4). Triggers, alone and together:
//! - **timeout* bounds the age of the writes that are lost with the HDD;
//! - *read threshold* bounds the share of reads that the slow log serves;
//! - **migration size* bounds the amount of data that is lost with the HDD.
//!
//! A full log forces a migration. Writes gather in a small buffer before the log (Griffin, section
//! 5.4), which counts as a drive's volatile cache. *Selective caching* (Griffin, section 5.1) logs
//! only blocks that are overwritten often. Griffin counts the writes of every block, a byte each,
//! since the volume was started.
//!
//! The block map in memory need not be flushed every 30 s, as the paper's prototype does (Griffin,
//! section 6.4): segments of the log describe themselves, and an index of them is written as they
//! fill. Writes of the index are counted as the log's metadata.
//!
//! This file has the decisions of the paper's sections 5.1 and 5.2. The files of the volume carry
//! out the decisions of a scheme with a log:
//! - 5.3, consistency after a crash: `volume/announce.rs` marks a migration on the SSD before its
//!   first write to the SSD, `volume/moves.rs` takes the mark back, and `volume/recovery/log.rs`
//!   recovers the log;
//! - 5.4, the log: `volume/log_tail.rs` gathers and appends segments, `volume/log_index.rs` has
//!   their index;
//! - 5.4, migration: `volume/moves/order.rs` sorts by address, `volume/moves/reads.rs` reads in the
//!   order of the log, `volume/moves/turns.rs` yields to appends.
//!
//! A block is written home when a host's buffer cache evicts it (Griffin, section 7), if the host
//! reports its evictions. Only a simulation has such a host: evictions come from a recording beside
//! the requests, or the simulator derives them from the requests (`oracle`, Griffin, section 3.2,
//! and `eviction_hint`). With timed migrations, evictions gather while a move is under way, and
//! their blocks are written home together after the move. A migration that a trigger begins comes
//! before moves of evicted blocks. An evicted block that is written again before its move stays in
//! the log. Evicted blocks are written home earlier than older blocks that were not evicted. So
//! after a loss of the log, home may have newer writes and lack older writes, which full caching
//! rules out (Griffin, section 5.3).
//!
//! The triggers count by fixed rules, so that figures of different runs can be compared. The timer
//! restarts when a migration starts, and when it fires while nothing is logged. The read threshold
//! is tested after each block read, once at least `read_window` blocks were read since the last
//! migration started. The migration size is tested after each block written. A trigger during a
//! migration waits for the migration's end.
//!
//! A migration takes time, and reads during the migration find their blocks in the log. Three rules
//! lower the read penalty during a migration; none of the rules applies with `migration=instant`.
//! With a disk of 7200 rpm as the log, the penalty stays below one and a half times the threshold
//! on the traces that were measured when the rules were chosen. The threshold is not a bound for
//! all drives: with a disk of 5400 rpm, a small SSD or a short trace, a single migration may last
//! as long as the reads that follow, and penalties of 20 % to 99 % were measured at a threshold of
//! 5 %.
//! 1. The read threshold is compared with a forecast of the blocks that reads will find in the log
//!    until a migration has ended, at the rate of the last 100 ms.
//! 2. A migration does not yield to reads if the read threshold began the migration, or is passed
//!    while it runs. The migration goes on where a request has just read from the log. Appends come
//!    first even then: the log is read in their pauses.
//! 3. If reads during a migration pass the threshold, the counts are not reset at the migration's
//!    end. Each read from the log then begins a migration, until the share is below the threshold
//!    again.

use std::collections::BTreeSet;

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, Role, SlotKind};
use crate::operation::OpKind;
use crate::scheme::{Access, Hints, Holds, Placement, Properties, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{MOVE_MEMORY, MOVE_RATE, SettingError, Settings, Share, parameters, words};
use crate::units::{Bytes, Nanoseconds};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// migrate when this time has passed since the last migration started (section 5.2; 900 s:
        /// section 6.1.2)
        timeout: Option<Nanoseconds> = "900s" live,
        /// migrate when the log serves more than this share of the blocks read since the last
        /// migration started (section 5.2)
        read_threshold: Option<Share> = "0.05" live,
        /// number of blocks read since the last migration, before which read_threshold does not
        /// count (our figure)
        read_window: u64 = "100" live,
        /// migrate when the distinct live blocks in the log reach this size (section 5.2)
        migration_size: Option<Bytes> = "off" live,
        /// memory that gathers writes before they go to the log (section 5.4); 0: each write waits
        /// for the log itself
        log_buffer: Bytes = "128KiB",
        /// log a block if the overwrites of the block, divided by its writes, are at least this
        /// share, the present write included; 0: every write is logged (section 5.1)
        overwrite_threshold: Share = "0",
        /// on: writes bypass the log while they arrive faster than log_rate (section 7); off:
        /// writes wait for the log
        log_bypass: bool = "off",
        /// bytes a second that the log sustains (section 7: 70 to 80 MB/s); used only with
        /// log_bypass=on
        log_rate: Bytes = "70MB",
        /// on: a logged block is written back just before it is read (section 3.2, the idealized
        /// cache); with migration=instant only
        oracle: bool = "off",
        /// size of a simulated buffer cache of the host: a block is written back when the simulated
        /// cache evicts the block (section 7); with migration=instant only; --hints gives the
        /// evictions of a real buffer cache
        eviction_hint: Option<Bytes> = "off",
        /// timed: migrations read and write the drives; instant: migrations take no time, as in the
        /// paper's policy simulator (section 6.1; simulator only)
        migration: Migration = "timed",
    }
    and MOVE_RATE, MOVE_MEMORY
}

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "griffin",
    summary: "home on the SSD; a log on the HDD absorbs writes until they migrate",
    source: "Griffin (FAST 2010), sections 3 and 5",
    members: &[(Role::Ssd, Holds::Home), (Role::Hdd, Holds::Log)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each block is wholly old or wholly new",
    ssd_loss: "all data",
    hdd_loss: "every write since the last completed migration started; the remaining data is older than the lost \
               data, unless overwrite_threshold or log_bypass let writes bypass the log",
    bypass: &[
        (SELDOM, "overwrites / writes of the block are below overwrite_threshold"),
        (LOG_RATE, "log_bypass=on, and writes arrived faster than log_rate"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        // One log may serve several SSDs (Griffin, section 7); each is then a unit, if units are
        // asked for.
        let home = request.side_by_side(&request.all(Role::Ssd)?)?;
        let log = request.first_of(&[Role::Log, Role::Hdd])?;
        let buffer = Parameters::of(settings).log_buffer.0 / request.block.bytes().0;
        let buffer_blocks = u32::try_from(buffer).map_err(|_| settings.refuse(name::log_buffer, "at most 16TiB"))?;
        Ok(request.with_slots(home, log, SlotKind::Log { buffer_blocks })?)
    },
    build,
};

words! {
    /// Cost of a migration.
    enum Migration {
        /// The drives read and write the content that migrates.
        Timed = "timed",
        /// A migration takes no time. For the simulator only.
        Untimed = "instant",
    }
}

/// Smallest timeout. A timer that fires while nothing is logged restarts at once, so a shorter
/// timeout would keep the volume busy with restarts of the timer.
const TIMEOUT_MIN: Nanoseconds = Nanoseconds::from_millis(1);

struct Griffin {
    block_bytes: u64,
    timeout: Option<Nanoseconds>,
    read_threshold: Option<f64>,
    read_window: u64,
    migration_blocks: Option<u64>,
    instant: bool,
    /// Time at which the timer was last started.
    timer_started: Nanoseconds,
    /// Number of blocks read since the last migration started.
    blocks_read: u64,
    /// Number of the blocks read since the last migration started that the log served.
    blocks_read_from_log: u64,
    log_reads: Rate,
    /// Set once the read threshold has been passed.
    fired: bool,
    /// Set if the last migration began because of the read threshold.
    began_for_reads: bool,
    /// Set while the share of reads from the log is above the threshold, after it was passed during
    /// a migration. While this flag is set, only reads from the log begin a migration.
    in_debt: bool,
    overwrites: Option<Overwrites>,
    bypass: Option<Inflow>,
    /// Slots to be written home at once, or once the move under way has ended: the host has evicted
    /// their blocks.
    impending: BTreeSet<Slot>,
}

/// Reason of writes below the overwrite threshold.
const SELDOM: Reason = Reason("seldom-overwritten");
/// Reason of writes that come faster than the log can take writes.
const LOG_RATE: Reason = Reason("log-rate");

/// Number of writes of each block; after n writes, overwrites / writes is (n - 1) / n. Each block
/// of the home has a byte, which takes memory once a block near it was written.
struct Overwrites {
    writes: Vec<u8>,
    /// Number of writes from which on a block is logged.
    needed: u8,
}

impl Overwrites {
    /// Returns the counts for a threshold above 0; `None` if a byte cannot count as many writes as
    /// the threshold needs.
    fn new(threshold: f64, blocks: u64) -> Option<Self> {
        let needed = (1..=u8::MAX).find(|&writes| f64::from(writes - 1) / f64::from(writes) >= threshold)?;
        Some(Self { writes: vec![0; blocks as usize], needed })
    }

    fn written(&mut self, blocks: BlockRun) {
        let writes = &mut self.writes[blocks.first.0 as usize..blocks.end() as usize];
        writes.iter_mut().for_each(|count| *count = count.saturating_add(1));
    }

    /// Returns two values: true if the first of `blocks` is logged, and the number of leading
    /// blocks with the same answer.
    fn alike(&self, blocks: BlockRun) -> (bool, u64) {
        let writes = &self.writes[blocks.first.0 as usize..blocks.end() as usize];
        let logged = writes[0] >= self.needed;
        (logged, writes.iter().take_while(|&&count| (count >= self.needed) == logged).count() as u64)
    }
}

/// Bytes that a migration is taken to move in a second while reads come in; the duration of the
/// next migration is not known before its end. The figure is our choice: a fifth of the rate of a
/// disk that only reads.
const MIGRATES: f64 = 16e6;
/// Time over which the rate of reads from the log is averaged, in seconds (our figure).
const READS_OVER: f64 = 0.1;

/// Rate of blocks that the log serves, in blocks a second.
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

/// Rate of incoming writes, in bytes a second.
struct Inflow {
    /// Rate that the log sustains, in bytes a second.
    sustained: f64,
    rate: f64,
    last: Nanoseconds,
}

impl Inflow {
    fn written(&mut self, now: Nanoseconds, bytes: u64) {
        let gap = (now.0 - self.last.0) as f64 / 1e9;
        self.last = now;
        // `rate` is the mean over about the last second.
        self.rate = self.rate / (1.0 + gap) + bytes as f64;
    }

    fn is_too_fast(&self) -> bool {
        self.rate > self.sustained
    }
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let parameters = Parameters::of(settings);
    let mut griffin = Griffin {
        block_bytes: layout.block.bytes().0,
        timeout: None,
        read_threshold: None,
        read_window: 0,
        migration_blocks: None,
        instant: parameters.migration == Migration::Untimed,
        timer_started: Nanoseconds::ZERO,
        blocks_read: 0,
        blocks_read_from_log: 0,
        log_reads: Rate::default(),
        fired: false,
        began_for_reads: false,
        in_debt: false,
        overwrites: None,
        bypass: None,
        impending: BTreeSet::new(),
    };
    griffin.take_triggers(&parameters, settings)?;
    griffin.take_caching(&parameters, settings, layout)?;
    Ok(Box::new(griffin))
}

/// Returns the slots of the log that hold content of `block`.
fn logged(view: &View, block: Block) -> Vec<Slot> {
    view.map.pieces(block).iter().map(|(slot, _)| *slot).collect()
}

impl Griffin {
    /// Reads the parameters of all triggers from the settings.
    fn take_triggers(&mut self, parameters: &Parameters, settings: &Settings) -> Result<(), SettingError> {
        let timeout = parameters.timeout;
        if timeout.is_some_and(|timeout| timeout < TIMEOUT_MIN) {
            return Err(settings.refuse(name::timeout, format!("at least {TIMEOUT_MIN}, or off")));
        }
        if parameters.migration_size.is_some_and(|size| size.0 == 0) {
            return Err(settings.refuse(name::migration_size, "more than 0, or off"));
        }
        self.timeout = timeout;
        self.read_threshold = parameters.read_threshold.map(|Share(share)| share);
        self.read_window = parameters.read_window;
        self.migration_blocks = parameters.migration_size.map(|size| size.0.div_ceil(self.block_bytes));
        Ok(())
    }

    /// Reads from the settings which writes are logged, and which blocks are written home without a
    /// trigger.
    fn take_caching(
        &mut self,
        parameters: &Parameters,
        settings: &Settings,
        layout: &Layout,
    ) -> Result<(), SettingError> {
        let threshold = parameters.overwrite_threshold.0;
        if threshold > 0.0 {
            let overwrites = Overwrites::new(threshold, layout.total_blocks());
            let most = f64::from(u8::MAX - 1) / f64::from(u8::MAX);
            self.overwrites = Some(
                overwrites.ok_or_else(|| settings.refuse(name::overwrite_threshold, format!("at most {most:.3}")))?,
            );
        }
        if parameters.log_bypass {
            let sustained = parameters.log_rate.0 as f64;
            self.bypass = Some(Inflow { sustained, rate: 0.0, last: Nanoseconds::ZERO });
        }
        let of_simulator =
            [(name::oracle, parameters.oracle), (name::eviction_hint, parameters.eviction_hint.is_some())];
        match of_simulator.into_iter().find(|&(_, wanted)| wanted && !self.instant) {
            Some((key, _)) => Err(settings.refuse(key, "off, or in a simulation migration=instant beside it")),
            None => Ok(()),
        }
    }

    /// Returns true if the share of reads from the log is above the threshold, with `log` blocks of
    /// `all` read blocks served by the log. `ahead` is the number of further blocks that reads will
    /// find in the log during a migration.
    fn is_above_threshold(&self, log: u64, all: u64, ahead: f64) -> bool {
        let window = all >= self.read_window && all > 0;
        window && self.read_threshold.is_some_and(|threshold| (log as f64 + ahead) / (all as f64 + ahead) > threshold)
    }

    /// Returns the number of blocks that reads would find in the log during a migration that begins
    /// now, at the rate of the recent reads from the log.
    fn read_ahead(&self, view: &View) -> f64 {
        if self.instant || view.moving {
            return 0.0;
        }
        let seconds = (view.map.len() * self.block_bytes) as f64 / MIGRATES;
        self.log_reads.rate_at(view.now) * seconds
    }

    /// Returns true if the log has reached the migration size. Callers ask only while no migration
    /// runs. During a migration, the block map still has the blocks that the migration moves, and
    /// only newer blocks belong to the next migration.
    fn is_large(&self, view: &View) -> bool {
        self.migration_blocks.is_some_and(|limit| view.map.len() >= limit)
    }

    fn send_impending_home(&mut self) -> Work {
        Work::MoveHome { slots: std::mem::take(&mut self.impending).into_iter().collect(), keep: false }
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

    /// Returns the end of the timeout. A timeout that ends after the end of the clock never fires:
    /// if such a timeout fired, it would be due again at once.
    fn timer_ends(&self) -> Option<Nanoseconds> {
        let at = self.timer_started.saturating_add(self.timeout?);
        (at < Nanoseconds(u64::MAX)).then_some(at)
    }
}

impl Scheme for Griffin {
    fn arrived(&mut self, view: &View, access: &Access) {
        if access.kind == OpKind::Read {
            return;
        }
        if let Some(overwrites) = &mut self.overwrites {
            overwrites.written(access.blocks);
        }
        if let Some(inflow) = &mut self.bypass {
            inflow.written(view.now, access.sectors.len.bytes().0);
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
            // The share rises with each block, so its value after the last block decides.
            self.log_reads.count(view.now, blocks.count);
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, self.blocks_read, self.read_ahead(view));
        } else if !self.in_debt {
            // The share falls with each block, so its value after the first block that counts
            // decides.
            let first = (before + 1).max(self.read_window).min(self.blocks_read);
            self.fired |= self.is_above_threshold(self.blocks_read_from_log, first, 0.0);
        }
        self.in_debt |= self.fired && view.moving;
    }

    fn unmapped(&mut self, slot: Slot, _block: Block) {
        self.impending.remove(&slot);
    }

    fn mapped(&mut self, _view: &View, _slot: Slot, _valid: ValidMask, replaced: Option<Slot>) {
        // The host has written the block again, so the block is in the host's cache again.
        replaced.iter().for_each(|slot| _ = self.impending.remove(slot));
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        if self.instant && !self.impending.is_empty() {
            return Some(view.now);
        }
        if view.moving || !view.slots_online() {
            return None;
        }
        if self.fired || self.is_large(view) || !self.impending.is_empty() {
            return Some(view.now);
        }
        self.timer_ends()
    }

    fn work(&mut self, view: &View) -> Work {
        if self.instant && !self.impending.is_empty() {
            return self.send_impending_home();
        }
        if view.moving || !view.slots_online() {
            return Work::Nothing;
        }
        let timer = self.timer_ends().is_some_and(|at| at <= view.now);
        // A log whose slots are about to be freed is not full.
        let full = view.waiting_for_slots > 0 && view.freeing_slots == 0;
        if view.map.is_empty() && !full {
            if timer || self.fired {
                self.restart(view.now);
            }
            return Work::Nothing;
        }
        if !(timer || self.fired || self.is_large(view) || full) {
            return if self.impending.is_empty() { Work::Nothing } else { self.send_impending_home() };
        }
        self.began_for_reads = self.fired;
        self.restart(view.now);
        Work::MigrateAll
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.take_triggers(&Parameters::of(settings), settings)?;
        }
        Ok(live)
    }

    /// A migration is urgent if the read threshold fired before or during it: until it has ended,
    /// further reads from the log count against the threshold.
    fn is_move_urgent(&self) -> bool {
        self.fired || self.began_for_reads
    }

    fn properties(&self) -> Properties {
        Properties { migrates_instantly: self.instant, ..Properties::default() }
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }
}

impl Hints for Griffin {
    fn evicted(&mut self, view: &View, blocks: BlockRun) {
        if view.map.is_empty() {
            return;
        }
        // A host may evict a whole device at once, of which the log may have fewer blocks.
        if blocks.count <= view.map.slots_in_use() {
            self.impending.extend(blocks.blocks().flat_map(|block| logged(view, block)));
        } else {
            let is_evicted = |block: Block| (blocks.first.0..blocks.end()).contains(&block.0);
            let slots = view.map.occupied().filter(|(_, entry)| is_evicted(entry.block)).map(|(slot, _)| slot);
            self.impending.extend(slots);
        }
    }
}

#[cfg(test)]
mod tests;
