//! MixedStore (Kim, Gupta, Urgaonkar, Berman, Sivasubramaniam: *MixedStore: An Enterprise-scale
//! Storage System Combining Solid-state and Hard Disk Drives*, 2008), its dynamic controller MixDC
//! (section 5).
//!
//! Every write goes to the drive that is predicted to answer sooner (MixedStore, section 5.2): the
//! SSD's answer is predicted by regression over a sliding window (MixedStore, section 5.1,
//! `policies::response_model`), the disk's answer by the mean of its recent response times. The
//! paper's table records the place of the newest content; in this scheme, blocks that only the SSD
//! has are dirty. Reads go to the drive with the content. Small data that is read often moves to
//! flash in idle periods (`policies::hot_reads`). *Write regulation* (MixedStore, section 5.4,
//! `policies::wear_regulator`) acts while flash wears faster than expected. Write regulation sends
//! 25 % or 50 % of the writes meant for flash, picked uniformly at random, to the disk. *Adaptive
//! wear levelling* (MixedStore, section 5.5) halts the drive's wear levelling while flash wears
//! faster than expected. The *fragmentation buster* (MixedStore, section 5.3,
//! `policies::fragmentation`) moves pages to the disk in idle periods. The fragmentation buster
//! takes the least recently used of the pages that the drive names as fragments. If the drive names
//! no pages, the buster takes the least recently used pages. `static` is the baseline of figure 4:
//! writes over 4 KiB go to the disk.
//!
//! An idle period has no request in the volume: neither drive serves a request, and no request has
//! arrived for a while. `profiled` is the paper's offline profile: idle periods are known in
//! advance, and used from their first moment on.
//!
//! Our choices:
//!
//! - The coefficients are learnt on the first half of a trace, as in the paper, or from the first
//!   `training` requests if the length is unknown. Meanwhile one write in eight, at random, goes to
//!   the disk, so that both models are trained (online: always one in 64).
//! - When flash has served no request within the window, the prediction is out of date, and a write
//!   tries flash.
//! - The disk's mean is still updated after training, since a frozen mean overloads the disk. A
//!   disk without work counts as no slower than in training.
//! - `budget` regulates by the excess of the writes over `expected_writes`, instead of by a fixed
//!   share.
//! - Pages leave the SSD until a quarter of the SSD is free, and free slots are discarded on the
//!   drive. When slots run short, the coldest pages are written back.

use std::collections::VecDeque;

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{self, Slot};
use crate::layout::{Layout, MemberId, Role};
use crate::mixing::{GOLDEN_RATIO, splitmix64};
use crate::operation::OpKind;
use crate::policies::disk_response::DiskResponse;
use crate::policies::fragmentation::{Buster, Leaving};
use crate::policies::hot_reads::HotReads;
use crate::policies::idle_fetch::IdleFetch;
use crate::policies::lru::{self, Lru};
use crate::policies::replacement::{Key, Replacement};
use crate::policies::response_model::ResponseModel;
use crate::policies::wear_regulator::{COEFFICIENTS, Expected, Regulation, WearRegulator};
use crate::scheme::{
    Access, Foresight, Hints, Holds, Monitor, Placement, PredictionError, Properties, Reason, Scheme, SchemeInfo,
    Service, View, Wear, Work,
};
use crate::settings::{MOVE_RATE, SettingError, Settings, parameters, words};
use crate::units::{Bytes, Nanoseconds, SectorRange, Sectors};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// dynamic: a write goes to the drive that is predicted to serve it sooner (section 5.2);
        /// static: writes over 4 KiB go to the HDD (figure 4)
        partition: Partition = "dynamic",
        // Mean error relative to the last value's, by window 16, 32, 64, with a whole 970 EVO Plus:
        // Financial1 .181 .153 .147, DiskMon mayun .843 .846 .835, SQLite's log 1.000 at each. Of
        // 8, 12, 16, 20, 24, 32, 48, 64, none is worse than the last value on these three, and from
        // 24 on all are within 10 % of the best. Other traces: CloudPhysics .781 .702 .679, DiskMon
        // sys1 .794 .770 .755, P2P .134 .034 .027, iozone .666 .706 .878, TPC-C .200 .070 .046, MSR
        // 1.009 1.000 1.000, YCSB 1.000 at each. So 16 is worse than the last value on MSR, and 64
        // has a quarter more error than 32 on iozone.
        /// requests in the sliding window of the SSD's response-time model; chosen by a sweep over
        /// public traces (figures of the sweep: source code)
        window: u64 = "32",
        /// trained: coefficients stay as the training phase leaves them (section 5.1); online:
        /// coefficients keep changing after the training phase (our addition)
        learning: Learning = "trained",
        /// requests of the training phase if the length of the workload is unknown; half of a trace
        /// otherwise (section 5.1)
        training: u64 = "10000",
        /// 25% or 50%: share of the writes meant for flash that goes to the HDD once flash wears
        /// 1.2 times as fast as expected, until flash wears less than 1.05 times as fast (section
        /// 5.4); budget: the share that keeps to expected_writes (our addition)
        regulation: Regulation = "off",
        /// bytes of flash expected to be erased in a day, for a drive that reports its erases, as a
        /// simulated drive does; `bimetal plan --model mixcp` gives the value
        expected_erases: Option<Bytes> = "off",
        /// expected lifetime of the flash, for a drive that reports its wear; expected_erases takes
        /// precedence
        expected_life: Option<Nanoseconds> = "off",
        /// MixCP's lifetime model, for a drive that does not report its wear: coefficients of the
        /// logarithm of erases over expected erases, as
        /// constant:sequentiality:sectors:interarrival_ms:utilisation:read_fraction; `bimetal plan
        /// --model mixcp` gives the coefficients
        wear_model: Option<[f64; COEFFICIENTS]> = "off",
        /// bytes expected to be written to flash in a day, if expected_erases, expected_life and
        /// wear_model are off; off: the wear of the training phase is expected
        expected_writes: Option<Bytes> = "off",
        /// wear levelling of a simulated SSD with ssd.ftl=page or dftl (a real drive keeps its own
        /// levelling, and its volume refuses the parameter); adaptive: stopped while flash wears
        /// faster than expected (section 5.5); static: always on, the default, because the worst
        /// block lasts longer (docs/mixedstore.md)
        wear_levelling: WearLevelling = "static" simulated("a real drive keeps its own wear levelling"),
        /// on: in idle periods, pages move off fragmented flash: the least recently used pages of
        /// those that the drive names, or the coldest pages if the drive names none (section 5.3)
        fragmentation_buster: bool = "on",
        /// an idle period begins when the volume has had no request for this long (our figure)
        idle: Nanoseconds = "100ms",
        /// detected: an idle period is used once it is detected; profiled: periods of at least
        /// `idle` are known in advance and used from their beginning (section 5.3), in a simulation
        /// only
        idle_periods: IdlePeriods = "detected",
    }
    and MOVE_RATE
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "mixedstore",
    summary: "each write goes to the drive that is predicted to answer sooner; the SSD's wear is regulated",
    source: "MixedStore (2008), section 5",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each block on the SSD is wholly old or wholly new",
    ssd_loss: "all blocks whose newest content was on the SSD",
    hdd_loss: "all data except what is on the SSD",
    bypass: &[
        (SLOWER, "the HDD was predicted to answer sooner, or was tried while the model learns"),
        (REGULATED, "regulation: flash wears faster than expected"),
        (Reason::NO_SPACE, "no slot was free: slots were still being freed"),
    ],
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + lru::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

words! {
    /// Rule for the destination of writes.
    enum Partition {
        /// The drive that is predicted to answer sooner.
        Dynamic = "dynamic",
        /// The SSD for writes of at most 4 KiB.
        Static = "static",
    }
}

words! {
    /// Time in which coefficients are learnt.
    enum Learning {
        /// The training phase.
        Trained = "trained",
        /// The whole run.
        Online = "online",
    }
}

words! {
    /// Wear levelling of the drive.
    enum WearLevelling {
        /// Stopped while flash wears faster than expected.
        Adaptive = "adaptive",
        /// Always on.
        Static = "static",
    }
}

words! {
    /// Source of idle periods.
    enum IdlePeriods {
        /// Idle periods are detected in the requests so far.
        Detected = "detected",
        /// Idle periods are taken from a profile of the whole workload. For the simulator only.
        Profiled = "profiled",
    }
}

/// The disk is predicted to answer sooner.
const SLOWER: Reason = Reason("predicted-slower");
/// Write regulation sends the write to the disk.
const REGULATED: Reason = Reason("regulated");
/// Largest write that goes to the SSD under the static partition.
const STATIC_MAX: Bytes = Bytes::from_kib(4);
/// Number of writes whose decision is kept for their other parts.
const DECISIONS: usize = 8;
/// Smallest window: the mean time between arrivals needs two of them.
const WINDOW_MIN: u64 = 2;
/// One write in this many goes to the disk while the coefficients are learnt.
const EXPLORE_TRAINING: u64 = 8;
const EXPLORE_ONLINE: u64 = 64;
/// With `learning=online`: the number of requests after which the coefficients are solved anew, and
/// the factor by which earlier observations then lose weight.
const SOLVE_EVERY: u64 = 256;
const FORGET: f64 = 0.9;
/// Largest read that counts as small.
const SMALL_READ: Bytes = Bytes::from_kib(64);

struct MixedStore {
    fixed: bool,
    model: ResponseModel,
    online: bool,
    /// Number of requests so far, and number of requests that train the model.
    requests: u64,
    training: u64,
    /// Number of writes in a row that went to the disk since flash last served a request, and the
    /// number after which a write tries flash.
    untried: u64,
    try_after: u64,
    disk: DiskResponse,
    regulator: WearRegulator,
    /// Set if the drive must not level wear while the pressure is high.
    halts_levelling: bool,
    buster: Buster,
    ssd: MemberId,
    idle: Idle,
    fetch: IdleFetch,
    pages: Lru,
    /// Number of slots that are kept free or are being freed.
    reserve: u64,
    starved: bool,
    hot: HotReads,
    dice: Dice,
    /// Decisions for the last writes that were placed, the newest last. A write is decided once,
    /// regardless of the number of its slots and of the writes that come between its parts.
    decided: VecDeque<(SectorRange, Option<Reason>)>,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    Ok(Box::new(mixed_store(settings, layout)?))
}

fn mixed_store(settings: &Settings, layout: &Layout) -> Result<MixedStore, SettingError> {
    let region = layout.slots.expect("the layout of this scheme has slots");
    let parameters = Parameters::of(settings);
    let a_second = |day: Option<Bytes>| day.map(|day| day.0 as f64 / 86_400.0);
    let expected = Expected {
        writes: a_second(parameters.expected_writes),
        erases: a_second(parameters.expected_erases),
        life: parameters.expected_life.map(seconds),
        wear_model: parameters.wear_model,
    };
    if parameters.regulation == Regulation::Budget && expected.writes.is_none() {
        return Err(settings.refuse(name::regulation, "expected_writes with a size a day beside it"));
    }
    if parameters.window < WINDOW_MIN {
        return Err(settings.refuse(name::window, format!("at least {WINDOW_MIN}")));
    }
    for (key, given) in [(name::expected_erases, expected.erases), (name::expected_life, expected.life)] {
        if given == Some(0.0) {
            return Err(settings.refuse(key, "more than 0, or off"));
        }
    }
    let idle = Idle {
        long: parameters.idle,
        arrived: Nanoseconds::ZERO,
        is_profiled: parameters.idle_periods == IdlePeriods::Profiled,
        follows: false,
    };
    let fetch = IdleFetch::new(layout.home[0].member, Nanoseconds::ZERO);
    Ok(MixedStore {
        fixed: parameters.partition == Partition::Static,
        model: ResponseModel::new(parameters.window as usize),
        online: parameters.learning == Learning::Online,
        requests: 0,
        training: parameters.training,
        untried: 0,
        try_after: parameters.window,
        disk: DiskResponse::default(),
        regulator: WearRegulator::new(parameters.regulation, expected),
        halts_levelling: parameters.wear_levelling == WearLevelling::Adaptive,
        buster: Buster::new(parameters.fragmentation_buster),
        ssd: region.member,
        idle,
        fetch,
        pages: Lru::new(region.count),
        reserve: (u64::from(region.count) / 64).clamp(1, 4096),
        starved: false,
        hot: HotReads::default(),
        dice: Dice(0),
        decided: VecDeque::new(),
    })
}

/// Detection of idle periods, in which no request is in the volume.
struct Idle {
    /// Time without requests after which the volume is idle.
    long: Nanoseconds,
    /// Time of the last arrival.
    arrived: Nanoseconds,
    /// Set if all idle periods are known in advance (MixedStore, section 5.3).
    is_profiled: bool,
    /// Set if an idle period is known to follow the last request.
    follows: bool,
}

impl Idle {
    fn arrived(&mut self, now: Nanoseconds) {
        self.arrived = now;
        self.follows = false;
    }

    /// Returns the time at which the volume will be idle, if no other request arrives. `None` while
    /// a request is in the volume, and if no idle period follows.
    fn at(&self, view: &View) -> Option<Nanoseconds> {
        let long = match (self.is_profiled, self.follows) {
            (false, _) => self.long,
            (true, true) => Nanoseconds::ZERO,
            (true, false) => return None,
        };
        if view.waiting_for_slots > 0 {
            return None;
        }
        let arrived = self.arrived.saturating_add(long);
        view.members.iter().try_fold(arrived, |latest, member| Some(latest.max(member.idle_at(long)?)))
    }
}

/// Uniform random numbers, equal in every run: splitmix64 of a counter.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        let drawn = splitmix64(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_RATIO);
        (drawn >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn seconds(time: Nanoseconds) -> f64 {
    time.0 as f64 / 1e9
}

impl MixedStore {
    fn is_training(&self) -> bool {
        self.requests <= self.training
    }

    /// Chooses a drive for a write: a reason for the disk, or `None` for flash. The choice ignores
    /// whether slots are free.
    fn chosen(&mut self, view: &View, sectors: Sectors, bytes: f64) -> Option<Reason> {
        let slower = match self.fixed {
            true => sectors.bytes() > STATIC_MAX,
            false => self.is_disk_sooner(view, sectors) && !self.tries_flash(),
        };
        if slower {
            return Some(SLOWER);
        }
        // Every write meant for flash counts, regardless of where it goes, so that expected and
        // intended writes are of one kind.
        self.regulator.intended(view.now, bytes);
        if self.fixed {
            return None;
        }
        let explore = if self.is_training() { Some(EXPLORE_TRAINING) } else { self.online.then_some(EXPLORE_ONLINE) };
        if explore.is_some_and(|one_in| self.dice.roll() < 1.0 / one_in as f64) {
            return Some(SLOWER);
        }
        let share = if self.is_training() { 0.0 } else { self.regulator.share(view.now) };
        (share > 0.0 && self.dice.roll() < share).then_some(REGULATED)
    }

    /// Returns true if a write that is predicted to be served sooner by the disk goes to flash all
    /// the same, because flash has served no request within the model's window. A prediction by
    /// times before the window would stay as it is for ever, since only flash can change it.
    fn tries_flash(&mut self) -> bool {
        self.untried += 1;
        let tries = self.untried >= self.try_after;
        self.untried = if tries { 0 } else { self.untried };
        tries
    }

    fn is_disk_sooner(&self, view: &View, sectors: Sectors) -> bool {
        let is_idle = view.member(self.fetch.home).foreground == 0;
        let disk = self.disk.predict_ms(is_idle).filter(|_| !self.is_training());
        disk.is_some_and(|disk_ms| self.model.predict_ms(sectors) > disk_ms)
    }

    fn is_short_of_slots(&self, view: &View) -> bool {
        let short = view.free_slots + view.freeing_slots < self.reserve && !self.pages.is_empty();
        short && view.slots_online() && !(self.starved && view.moving)
    }

    /// Returns the work that takes the coldest `count` pages off flash.
    fn drop_coldest(&mut self, view: &View, count: usize) -> Work {
        let coldest: Vec<Slot> = self.pages.oldest_first().take(count).collect();
        self.drop(view, coldest)
    }

    /// Returns the work that takes `pages` off flash. Clean pages are evicted. Dirty pages are
    /// written back only if none of `pages` is clean.
    fn drop(&mut self, view: &View, pages: Vec<Slot>) -> Work {
        let is_dirty = |slot: &Slot| view.map.in_slot(*slot).is_some_and(|entry| entry.dirty);
        let (dirty, clean): (Vec<Slot>, Vec<Slot>) = pages.into_iter().partition(is_dirty);
        self.starved = clean.is_empty() && view.moving;
        match (clean.is_empty(), view.moving) {
            (false, _) => Work::Evict(clean),
            (true, true) => Work::Nothing,
            (true, false) => Work::MoveHome { slots: dirty, keep: false },
        }
    }

    fn bust_at(&self, view: &View) -> Option<Nanoseconds> {
        let full = (view.free_slots + view.freeing_slots) * 4 < u64::from(view.map.slots());
        let fragmented = self.buster.is_due() && !self.is_training();
        let wanted = fragmented && full && !self.pages.is_empty() && !view.moving && view.slots_online();
        if wanted { self.idle.at(view) } else { None }
    }

    /// Returns the work that takes pages off flash, or asks the drive to name pages.
    fn bust(&mut self, view: &View) -> Work {
        match self.buster.next(&view.map) {
            Leaving::Coldest(pages) => self.drop_coldest(view, pages),
            Leaving::Ask(blocks) => Work::AskFragmented(blocks),
            Leaving::Named(pages) => {
                let work = self.drop(view, pages.clone());
                if matches!(work, Work::Evict(_)) {
                    // The dirty pages leave in the next step.
                    self.buster.keep(pages);
                }
                work
            }
        }
    }

    fn fetch_at(&self, view: &View) -> Option<Nanoseconds> {
        if self.hot.is_empty() {
            return None;
        }
        Some(self.fetch.due_at(view, self.reserve)?.max(self.idle.at(view)?))
    }

    fn end_training(&mut self, now: Nanoseconds) {
        self.model.solve();
        self.regulator.trained(now);
    }

    /// Decides about a write, and keeps the decision for its other parts.
    fn decide(&mut self, view: &View, access: &Access) -> Option<Reason> {
        let bytes = (access.blocks.count * view.block().bytes().0) as f64;
        let decided = self.chosen(view, access.sectors.len, bytes);
        if self.decided.len() == DECISIONS {
            self.decided.pop_front();
        }
        self.decided.push_back((access.sectors, decided));
        decided
    }
}

impl Scheme for MixedStore {
    fn foresee(&mut self, _view: &View, foresight: &Foresight<'_>) {
        if foresight.tells_half {
            self.training = u64::MAX;
        }
    }

    fn arrived(&mut self, view: &View, access: &Access) {
        self.requests += 1;
        self.idle.arrived(view.now);
        let free = view.free_slots as f64 / f64::from(view.map.slots().max(1));
        self.regulator.arrived(view.now, access, 1.0 - free);
        self.decided.retain(|(sectors, _)| *sectors != access.sectors);
        self.model.arrived(view.now, access);
        if self.requests - 1 == self.training {
            self.end_training(view.now);
        } else if self.online && self.requests.is_multiple_of(SOLVE_EVERY) {
            self.model.forget(FORGET);
            self.model.solve();
        }
    }

    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        let decided = match self.decided.iter().find(|(sectors, _)| *sectors == access.sectors) {
            Some((_, decided)) => *decided,
            None => self.decide(view, access),
        };
        if let Some(reason) = decided {
            return (Placement::Home(Some(reason)), rest.count);
        }
        if view.free_slots == 0 {
            return (Placement::Home(Some(Reason::NO_SPACE)), rest.count);
        }
        (Placement::Slot, rest.count.min(view.free_slots))
    }

    fn read(&mut self, view: &View, blocks: BlockRun, from_slots: bool) {
        if !from_slots && Bytes(blocks.count * view.block().bytes().0) <= SMALL_READ {
            self.hot.read(blocks);
        }
    }

    fn touched(&mut self, slot: Slot) {
        Replacement::touch(&mut self.pages, slot);
    }

    fn mapped(&mut self, view: &View, slot: Slot, _valid: ValidMask, replaced: Option<Slot>) {
        self.fetch.copied();
        self.buster.wrote();
        if view.map.in_slot(slot).is_some_and(|entry| entry.dirty) {
            self.regulator.took(view.block().bytes().0 as f64);
        }
        match replaced {
            Some(old) => {
                self.pages.rename(old, slot);
                Replacement::touch(&mut self.pages, slot);
            }
            None => {
                let block = view.map.in_slot(slot).expect("a slot that was just mapped is in the map").block;
                self.pages.insert(slot, Key::from(block));
            }
        }
    }

    fn unmapped(&mut self, slot: Slot, _block: Block) {
        Replacement::remove(&mut self.pages, slot);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        if self.is_short_of_slots(view) {
            return Some(view.now);
        }
        [self.fetch_at(view), self.bust_at(view)].into_iter().flatten().min()
    }

    fn work(&mut self, view: &View) -> Work {
        if self.is_short_of_slots(view) {
            return self.drop_coldest(view, (2 * self.reserve) as usize);
        }
        if self.bust_at(view).is_some_and(|at| at <= view.now) {
            return self.bust(view);
        }
        if self.fetch_at(view).is_some_and(|at| at <= view.now)
            && let Some(run) = self.hot.pop()
        {
            self.fetch.begin(view.now);
            return Work::Fetch(vec![run]);
        }
        Work::Nothing
    }

    fn properties(&self) -> Properties {
        Properties {
            discards_free_slots: self.buster.is_on(),
            halts_wear_levelling: self.halts_levelling,
            idle_profile: self.idle.is_profiled.then_some(self.idle.long),
            ..Properties::default()
        }
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }

    fn monitor(&self) -> Option<&dyn Monitor> {
        Some(self)
    }

    fn monitor_mut(&mut self) -> Option<&mut dyn Monitor> {
        Some(self)
    }
}

impl Hints for MixedStore {
    fn idle_follows(&mut self) {
        self.idle.follows = true;
    }
}

impl Monitor for MixedStore {
    fn served(&mut self, view: &View, service: &Service) {
        let write = service.kind == OpKind::Write;
        if service.member == self.ssd {
            self.untried = 0;
            let learns = write && (self.online || self.is_training());
            let judged = write && !self.is_training();
            self.model.served(view.now, service.sectors, service.took, learns, judged);
            if write {
                self.buster.served(service.took.0 as f64 / 1e6, self.is_training());
            }
        } else {
            self.disk.served(service.took.0 as f64 / 1e6, self.online || self.is_training());
        }
    }

    fn half_passed(&mut self, waiting: u64) {
        self.training = self.training.min(self.requests + waiting);
    }

    fn wear_told(&mut self, wear: Wear) {
        self.regulator.told(wear);
    }

    fn halts_wear_levelling(&self) -> bool {
        self.halts_levelling && !self.is_training() && self.regulator.is_high()
    }

    fn diverted_max(&self) -> f64 {
        self.regulator.share_max()
    }

    fn fragmented(&mut self, view: &View, slots: Option<&[Slot]>) {
        self.buster.answered(&view.map, &self.pages, slots);
    }

    fn prediction_error(&self) -> Option<PredictionError> {
        self.model.error()
    }
}

#[cfg(test)]
mod tests {
    use super::{INFO, mixed_store};
    use crate::block::{Block, BlockRun, BlockSize};
    use crate::block_map::Slot;
    use crate::layout::{LayoutRequest, MemberInfo, Role};
    use crate::operation::OpKind;
    use crate::scheme::{Access, Foresight, Scheme};
    use crate::settings::Settings;
    use crate::testing::Bench;
    use crate::units::{Bytes, Nanoseconds, SectorRange};

    const SHORT: &[(&str, &str)] = &[("training", "200"), ("fragmentation_buster", "off")];

    /// Writes `count` blocks, one at a time, with `gap` between. Returns the number of blocks that
    /// went to the SSD and to the HDD.
    fn write(bench: &mut Bench, count: u64, gap: Nanoseconds) -> (u64, u64) {
        let before = bench.volume.statistics().written_blocks_by_member.clone();
        for at in 0..count {
            bench.request(OpKind::Write, at * 37 % 1000 * 64, 8);
            bench.pass(gap);
        }
        let after = &bench.volume.statistics().written_blocks_by_member;
        (after[0] - before[0], after[1] - before[1])
    }

    const GAP: Nanoseconds = Nanoseconds::from_millis(10);

    #[test]
    fn writes_go_where_they_are_predicted_to_be_served_sooner() {
        for (ssd_ms, hdd_ms, to_ssd) in [(1, 8, true), (8, 1, false)] {
            let mut bench = Bench::new("mixedstore", SHORT);
            bench.takes = [ssd_ms, hdd_ms].map(Nanoseconds::from_millis);
            write(&mut bench, 201, GAP);
            let (ssd, hdd) = write(&mut bench, 100, GAP);
            // One write in 32, the window, tries slow flash.
            assert_eq!((ssd, hdd), if to_ssd { (100, 0) } else { (3, 97) });
            let expected = if to_ssd { 0 } else { 97 };
            let reason = crate::scheme::Reason("predicted-slower");
            let all = bench.volume.statistics().bypassed_blocks.get(&reason).copied().unwrap_or(0);
            assert!(all >= expected, "{all}");
        }
    }

    #[test]
    fn the_prediction_of_a_steady_drive_is_right_after_training() {
        let mut bench = Bench::new("mixedstore", SHORT);
        bench.takes = [2, 9].map(Nanoseconds::from_millis);
        assert_eq!(bench.volume.prediction_error(), None);
        write(&mut bench, 300, GAP);
        assert!(bench.volume.prediction_error().unwrap().mean_ms < 0.01);
    }

    /// Regression: after one slow write the last service time predicted that flash is slower than
    /// the disk. No write went to flash any more, so the last service time stayed as it was.
    #[test]
    fn flash_that_was_slow_once_is_tried_again() {
        let mut bench = Bench::new("mixedstore", SHORT);
        bench.takes = [1, 8].map(Nanoseconds::from_millis);
        write(&mut bench, 201, GAP);
        bench.takes[0] = Nanoseconds::from_millis(100);
        write(&mut bench, 1, Nanoseconds::from_seconds(1));
        bench.takes[0] = Nanoseconds::from_millis(1);
        let (ssd, hdd) = write(&mut bench, 200, GAP);
        assert!(hdd >= 30 && ssd > 150, "{ssd} writes to flash, {hdd} to the disk");
    }

    /// Without a known length of the workload, training ends after the given number of
    /// requests.
    #[test]
    fn training_ends_after_a_number_of_requests() {
        for (training, trained) in [("50", true), ("500", false)] {
            let mut bench = Bench::new("mixedstore", &[("training", training)]);
            bench.takes = [1, 50].map(Nanoseconds::from_millis);
            write(&mut bench, 200, GAP);
            // One write in eight explores the disk during training.
            let (ssd, hdd) = write(&mut bench, 200, GAP);
            assert_eq!((ssd == 200, hdd > 0), (trained, !trained), "{training}: {ssd} and {hdd}");
        }
    }

    /// Regression: the first half of a trace was a number of requests of the trace. A volume inside
    /// another volume, or behind a block layer, gets fewer or more requests.
    #[test]
    fn training_ends_when_half_of_the_workload_has_passed() {
        let mut bench = Bench::new("mixedstore", &[("training", "50")]);
        bench.volume.foresee(&Foresight { tells_half: true, files: &[] });
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        write(&mut bench, 200, GAP);
        assert!(write(&mut bench, 200, GAP).1 > 0, "one write in eight explores the disk during training");
        bench.volume.half_passed();
        assert_eq!(write(&mut bench, 200, GAP), (200, 0));
    }

    /// Regression: a server that gave a map of files ended the training with the first request.
    #[test]
    fn map_of_files_does_not_end_the_training() {
        let mut bench = Bench::new("mixedstore", &[("training", "500")]);
        bench.volume.foresee(&Foresight { tells_half: false, files: &[] });
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        assert!(write(&mut bench, 400, GAP).1 > 0);
    }

    #[test]
    fn the_static_partition_sends_writes_over_4_kib_to_the_disk() {
        let mut bench = Bench::new("mixedstore", &[("partition", "static")]);
        bench.request(OpKind::Write, 80, 8);
        bench.request(OpKind::Write, 800, 9);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 9"]);
    }

    /// While the host writes more than expected, regulation sends its share of the writes to the
    /// disk.
    #[test]
    fn regulation_sends_its_share_of_excess_writes_to_the_disk() {
        for (regulation, low, high) in [("off", 0, 0), ("25%", 60, 140), ("50%", 150, 250)] {
            let mut bench = Bench::new("mixedstore", &[SHORT, &[("regulation", regulation)]].concat());
            bench.takes = [1, 50].map(Nanoseconds::from_millis);
            write(&mut bench, 201, Nanoseconds::from_millis(1000));
            // Writes four hundred blocks, twenty times as fast as in training.
            let (_, hdd) = write(&mut bench, 400, Nanoseconds::from_millis(50));
            assert!((low..=high).contains(&hdd), "{regulation}: {hdd} of 400");
        }
    }

    #[test]
    fn a_budget_holds_flash_to_what_it_is_expected_to_take() {
        let budget = [("regulation", "budget"), ("expected_writes", "354MB")];
        let mut bench = Bench::new("mixedstore", &[SHORT, &budget].concat());
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        // The budget is a block a second; four blocks a second are written.
        let (ssd, _) = write(&mut bench, 4000, Nanoseconds::from_millis(250));
        assert!((900..1500).contains(&ssd), "{ssd} blocks in 1000 s");
    }

    /// Regression: a write that was placed between two parts of a long write made the second part
    /// be decided, and counted, anew.
    #[test]
    fn long_write_is_decided_once() {
        let bench = Bench::new("mixedstore", SHORT);
        let view = bench.volume.view();
        let settings = Settings::new(INFO.name, INFO.parameters, []).unwrap();
        let mut mixed = mixed_store(&settings, &view.layout).unwrap();
        let access = |first, count| Access {
            kind: OpKind::Write,
            sectors: SectorRange::new(first * 8, count * 8),
            blocks: BlockRun { first: Block(first), count },
        };
        let (long, short) = (access(0, 2048), access(5000, 1));
        for whole in [long, short] {
            mixed.arrived(view, &whole);
        }
        for (whole, part) in [(long, access(0, 1024)), (short, short), (long, access(1024, 1024))] {
            mixed.place_write(view, &whole, part.blocks);
        }
        let decided: Vec<SectorRange> = mixed.decided.iter().map(|(sectors, _)| *sectors).collect();
        assert_eq!(decided, [long.sectors, short.sectors]);
    }

    /// Small data that is read often moves to flash when the disk is idle.
    #[test]
    fn small_hot_data_moves_to_flash_when_the_disk_is_idle() {
        let mut bench = Bench::new("mixedstore", SHORT);
        (0..4).for_each(|_| bench.request(OpKind::Read, 80, 8));
        assert_eq!(bench.take_log(), ["hdd read 8"; 4]);
        bench.pass(Nanoseconds::from_seconds(1));
        assert_eq!(bench.take_log(), ["hdd read 8", "ssd write 8"]);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    #[test]
    fn named_fragments_leave_an_idle_volume_and_are_discarded() {
        let mut bench = Bench::new("mixedstore", &[("training", "500")]);
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        let slots = bench.volume.view().layout.slots.unwrap();
        let of = |slot: u64, count: u64| SectorRange::new(slots.first_sector + slot * 8, count * 8);
        // Sectors before the slots, and a free slot, are not pages of the scheme.
        bench.fragmented = Some(vec![SectorRange::new(0, 8), of(40, 2), of(7, 1), of(u64::from(slots.count) - 1, 1)]);
        let fill = |bench: &mut Bench, blocks: std::ops::Range<u64>| {
            for block in blocks {
                bench.request(OpKind::Write, block * 64, 8);
                bench.pass(GAP);
            }
        };
        fill(&mut bench, 0..100);
        let [stays, named @ ..] = [8, 7, 40, 41].map(|slot| bench.volume.view().map.in_slot(Slot(slot)).unwrap().block);
        fill(&mut bench, 100..850);
        bench.pass(Nanoseconds::from_seconds(10));
        // Freed slots are discarded once a crash cannot bring their content back.
        bench.request(OpKind::Flush, 0, 0);
        bench.pass(Nanoseconds::from_seconds(10));
        let on_flash = |block| bench.volume.view().map.get(block).is_some();
        assert_eq!((named.map(on_flash), on_flash(stays)), ([false; 3], true));
        let log = bench.take_log();
        let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("ssd hint"), count("ssd discard") > 0), (1, true));
    }

    #[test]
    fn coldest_pages_leave_fragmented_flash_on_an_idle_disk() {
        let mut bench = Bench::new("mixedstore", &[("training", "900")]);
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        write(&mut bench, 901, GAP);
        let dirty = bench.volume.view().map.dirty_blocks();
        bench.takes = [3, 50].map(Nanoseconds::from_millis);
        write(&mut bench, 40, GAP);
        bench.pass(Nanoseconds::from_seconds(1000));
        let left = bench.volume.view().map.dirty_blocks();
        assert!(left < dirty && left > 0, "{left} of {dirty} pages");
    }

    /// No real drive halts its wear levelling for a host. Regression: a volume of drives took the
    /// setting and ignored it.
    #[test]
    fn adaptive_levelling_is_only_simulated() {
        for (levelling, is_only_simulated) in [("adaptive", true), ("static", false)] {
            let bench = Bench::new("mixedstore", &[("wear_levelling", levelling)]);
            assert_eq!(bench.volume.why_only_simulated().is_some(), is_only_simulated, "{levelling}");
        }
    }

    /// Regression: windows of 0 and 1 counted as 2 without a word.
    #[test]
    fn window_without_two_arrivals_is_refused() {
        let capacity = Bytes::from_mib(64).sectors();
        let members = [Role::Ssd, Role::Hdd].map(|role| MemberInfo { role, capacity });
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        for (window, is_taken) in [("0", false), ("1", false), ("2", true)] {
            let settings = Settings::new(INFO.name, INFO.parameters, [("window", window)]).unwrap();
            let layout = (INFO.layout)(&settings, &request).unwrap();
            let error = (INFO.build)(&settings, &layout).err().map(|error| error.to_string());
            assert_eq!(error.is_none(), is_taken, "{window}");
            assert!(error.is_none_or(|error| error.contains("window") && error.contains("at least 2")));
        }
    }

    /// One write in eight goes to the disk while the model learns (our figure).
    #[test]
    fn training_sends_one_write_in_eight_to_the_disk() {
        let mut bench = Bench::new("mixedstore", &[("training", "2000"), ("fragmentation_buster", "off")]);
        bench.takes = [1, 50].map(Nanoseconds::from_millis);
        let (_, hdd) = write(&mut bench, 800, GAP);
        assert!((75..=125).contains(&hdd), "{hdd} of 800, where 100 are an eighth");
    }

    /// Flash is fragmented when its writes take twice as long as in training (our figure), and not
    /// before.
    #[test]
    fn pages_stay_where_writes_take_less_than_twice_as_long() {
        for (took_ms, leave) in [(1.5, false), (3.0, true)] {
            let mut bench = Bench::new("mixedstore", &[("training", "900")]);
            bench.takes = [1, 50].map(Nanoseconds::from_millis);
            write(&mut bench, 901, GAP);
            let dirty = bench.volume.view().map.dirty_blocks();
            bench.takes[0] = Nanoseconds((took_ms * 1e6) as u64);
            write(&mut bench, 100, GAP);
            bench.pass(Nanoseconds::from_seconds(1000));
            assert_eq!(bench.volume.view().map.dirty_blocks() < dirty, leave, "{took_ms} ms instead of 1 ms");
        }
    }
}
