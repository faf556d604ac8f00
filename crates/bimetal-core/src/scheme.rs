//! Schemes: a scheme decides, and the [`Volume`](crate::volume::Volume) carries the decision out.
//!
//! The volume asks the scheme at each decision: where a write goes, whether blocks that a read
//! fetched are promoted, and which content to move now. The scheme sees the block map, the load of
//! the members and the time through a [`View`], read-only. A scheme never touches a drive, a byte
//! of payload or the journal. The state of a scheme is only in memory, and is lost at each start.

mod extension;
mod replacement;

use crate::block::{Block, BlockRun, BlockSize, ValidMask};
use crate::block_map::{BlockMap, Slot};
use crate::layout::{Layout, LayoutError, LayoutRequest, MemberId, Role};
use crate::operation::OpKind;
use crate::settings::{Parameter, SettingError, Settings};
use crate::units::{Bytes, Nanoseconds, SectorRange, Sectors};
pub use extension::{Copies, Destination, Director, Hints, Host, InPlace, Monitor, Properties};
pub use replacement::{Replacement, Verdict};

/// A request as a scheme sees it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Kind of the request: read, write, or write-zeroes.
    pub kind: OpKind,
    /// Sectors of the request, in the volume's flat address space.
    pub sectors: SectorRange,
    /// Blocks that the request touches.
    pub blocks: BlockRun,
}

/// Facts about a workload from a first pass over the workload.
#[derive(Clone, Copy, Debug)]
pub struct Foresight<'a> {
    /// Set if the volume is told when half of the workload has passed
    /// ([`Monitor::half_passed`]).
    pub tells_half: bool,
    /// Addresses of files, if a map of files was given.
    pub files: &'a [FileExtent],
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// Path of the file; empty for free space.
    pub path: String,
    /// Sectors of the part, in the volume's flat address space.
    pub sectors: SectorRange,
    /// Line of the file in a list of files that belong on the SSD, from 0; `None` for a file that
    /// is not in the list.
    pub listed: Option<u32>,
}

/// An operation of a request on a member, once it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Member that served the operation.
    pub member: MemberId,
    /// Kind of the operation.
    pub kind: OpKind,
    /// Number of sectors.
    pub sectors: Sectors,
    /// Time from the start of the operation to the member's answer.
    pub took: Nanoseconds,
}

/// Wear of a flash drive, as the drive reports its wear. Only simulated drives report their wear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Bytes of flash erased so far, as far as they use up rated cycles. The erase of a block that
    /// had one bit in each cell counts as a part of the block.
    pub erased: Bytes,
    /// Bytes of flash in the drive, its spare area included.
    pub flash: Bytes,
    /// Bytes of a flash block, the unit that is erased at once.
    pub block: Bytes,
    /// Bytes that can be erased in the drive's lifetime: the flash times its rated cycles.
    pub endurance: Bytes,
}

/// Number of terms of the regression that forecasts response times: the constant, four
/// characteristics of the workload, and the device's recent service time.
pub const FORECAST_TERMS: usize = 6;

/// Errors of a scheme's forecast of response times, and the regression that made it.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct PredictionError {
    /// Mean absolute error of the predictions.
    pub mean_ms: f64,
    /// Share of the variance that the predictions explain, over operations that the model did not
    /// learn from.
    pub r2: f64,
    /// Mean absolute error of a baseline that always predicts the last value (MixedStore, figure
    /// 9).
    pub last_value_mean_ms: f64,
    /// Mean absolute error of the regression alone, within the observed range.
    pub regression_mean_ms: f64,
    /// Share of the predictions that the regression made. The other predictions repeated the last
    /// value.
    pub by_regression: f64,
    /// Share of the training phase's variance that the regression explains.
    pub training_r2: Option<f64>,
    /// Coefficients of the regression.
    pub coefficients: Option<[Coefficient; FORECAST_TERMS]>,
}

/// A coefficient of the regression.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Coefficient {
    /// Name of the term that the coefficient belongs to.
    pub term: &'static str,
    /// Milliseconds for each unit of the term.
    pub value: f64,
    /// Standard error of the coefficient; `None` if the term depends on other terms or never
    /// varied.
    pub standard_error: Option<f64>,
}

/// Reason for a bypass: blocks did not go where the scheme usually puts them. Bypasses are counted
/// by reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub &'static str);

impl Reason {
    /// The request is part of a long run of adjacent requests.
    pub const SEQUENTIAL: Self = Self("sequential");
    /// The write reaches the size threshold.
    pub const LARGE: Self = Self("large");
    /// No slot was free, and no slot could be freed at once.
    pub const NO_SPACE: Self = Self("no-space");
    /// The scheme does not admit this kind of request.
    pub const NOT_ADMITTED: Self = Self("not-admitted");
    /// The member that the block would go to is gone.
    pub const MEMBER_GONE: Self = Self("member-gone");
    /// The member that the block would go to is read-only.
    pub const MEMBER_READ_ONLY: Self = Self("member-read-only");
    /// The volume is draining, so all blocks are written home.
    pub const DRAINING: Self = Self("draining");
    /// Too many copies were being made already.
    pub const BUSY: Self = Self("busy");
}

/// Destination of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// The block is written to its home, in place. A copy of the block off home is dropped.
    Home(Option<Reason>),
    /// The block is written to a free slot. Home has older content than the slot from then on.
    Slot,
    /// The block is written to its home and to a free slot at once. The write is done when both
    /// writes are done.
    Both,
    /// The write is delayed until slots are free. The scheme is asked for work, and then again for
    /// a place.
    Wait,
}

/// Decision about blocks that a read fetched from home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promotion {
    /// The blocks get copies in slots.
    Admit,
    /// The blocks get no copies, for this reason.
    Bypass(Reason),
    /// The blocks get no copies because the scheme never promotes. A missing copy is then not
    /// counted as a bypass.
    Never,
}

/// Content that the volume is to move now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// No content.
    Nothing,
    /// Everything that is off home when the migration starts is written back, and its slots become
    /// free. If nothing is off home, a log frees the slots that are no longer in use.
    MigrateAll,
    /// The dirty content of the listed slots is written back. The slots stay as clean copies if
    /// `keep` is set, and become free otherwise.
    MoveHome {
        /// Slots whose content is to be written back.
        slots: Vec<Slot>,
        /// Set if the slots stay as clean copies.
        keep: bool,
    },
    /// Clean copies in the listed slots are evicted.
    Evict(Vec<Slot>),
    /// Blocks of the listed runs that are only at home are read in the background and get clean
    /// copies in slots. Each run has at most [`FETCH_BLOCKS_MAX`] blocks. Runs that a request is
    /// changing are skipped, and so are blocks for which no slot is free.
    Fetch(Vec<BlockRun>),
    /// The drive with the slots is asked for up to this many blocks in slots, in the flash blocks
    /// with the most outdated data. The answer goes to [`Monitor::fragmented`].
    AskFragmented(u64),
    /// A range of addresses gets its home on another member, if that member has a free place. One
    /// range is relocated at a time.
    Relocate {
        /// Range to relocate.
        range: u32,
        /// Member that becomes the home of the range.
        to: MemberId,
    },
}

/// Largest number of blocks of one fetch. 512 KiB of 4 KiB blocks bound the time that a request
/// waits behind a fetch.
pub const FETCH_BLOCKS_MAX: u64 = 128;

/// Setting for idle periods that are known in advance. Only a simulation knows idle periods in
/// advance.
pub const PROFILED: &str = "profiled";

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// The member serves reads and writes.
    Online,
    /// The member refuses writes, but still reads. No new content goes to the member.
    ReadOnly,
    /// The member is gone.
    Failed,
}

/// State and load of a member, as a scheme sees them.
#[derive(Clone, Copy, Debug)]
pub struct MemberLoad {
    /// Role of the member.
    pub role: Role,
    /// State of the member.
    pub state: MemberState,
    /// Number of operations of requests under way on the member.
    pub foreground: u32,
    /// Number of operations of moves and metadata under way on the member.
    pub background: u32,
    /// Time since which no request has had an operation on the member.
    pub idle_since: Nanoseconds,
}

impl MemberLoad {
    /// Returns the time at which the member will have been idle for `long`, if no request comes.
    /// `None` while the member serves a request.
    pub fn idle_at(&self, long: Nanoseconds) -> Option<Nanoseconds> {
        (self.foreground == 0).then(|| self.idle_since.saturating_add(long))
    }
}

/// State of a volume, as its scheme sees it.
pub struct View {
    /// Current time.
    pub now: Nanoseconds,
    /// Layout of the volume.
    pub layout: Layout,
    /// Block map: the blocks off home, with their slots.
    pub map: BlockMap,
    /// Members, in order of [`MemberId`].
    pub members: Vec<MemberLoad>,
    /// Number of slots that can be written at once.
    pub free_slots: u64,
    /// Number of slots that become free with the next commit of the journal.
    pub freeing_slots: u64,
    /// Set while content is being written back, or waits for another attempt because its move
    /// failed.
    pub moving: bool,
    /// Number of requests that wait for free slots.
    pub waiting_for_slots: u64,
    /// Number of runs that are being fetched.
    pub fetching: u32,
    /// Set while a range is being relocated.
    pub relocating: bool,
    /// Set while the volume is draining.
    pub draining: bool,
}

impl View {
    /// Returns the size of a block.
    pub fn block(&self) -> BlockSize {
        self.layout.block
    }

    /// Returns the member with `id`.
    pub fn member(&self, id: MemberId) -> &MemberLoad {
        &self.members[id.0 as usize]
    }

    /// Returns the time at which a fetch may fill `blocks` free slots, because `home` has then been
    /// idle for `long`. Only one run is fetched at a time.
    pub fn fetch_at(&self, home: MemberId, long: Nanoseconds, blocks: u64) -> Option<Nanoseconds> {
        let may = self.fetching == 0 && !self.draining && self.slots_online() && self.free_slots >= blocks;
        if may && self.member(home).state == MemberState::Online { self.member(home).idle_at(long) } else { None }
    }

    /// Returns true if the member with the slots is present and takes writes.
    pub fn slots_online(&self) -> bool {
        self.layout.slots.is_some_and(|slots| self.member(slots.member).state == MemberState::Online)
    }

    /// Returns true if the member with the slots is present.
    pub fn slots_readable(&self) -> bool {
        self.layout.slots.is_some_and(|slots| self.member(slots.member).state != MemberState::Failed)
    }
}

/// The decisions of a scheme. Each decision has a default, which keeps everything at home.
pub trait Scheme: Send {
    /// Notes that a read or write arrives. Called once for each request, before any decision about
    /// the request.
    fn arrived(&mut self, view: &View, access: &Access) {
        let _ = (view, access);
    }

    /// Returns the destination of the first blocks of `rest`, and the number of blocks, at least 1,
    /// that have this destination. `rest` is the part of `access` that has no destination yet. If a
    /// write is longer than the volume places at a time, `rest` ends with the part that the volume
    /// places now.
    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        let _ = (view, access);
        (Placement::Home(None), rest.count)
    }

    /// Decides if `missing`, which `access` reads from home, gets copies in slots.
    fn promote(&mut self, view: &View, access: &Access, missing: BlockRun) -> Promotion {
        let _ = (view, access, missing);
        Promotion::Never
    }

    /// Notes that `blocks` were read, from slots or (at least in part) from home. Called in order
    /// of address.
    fn read(&mut self, view: &View, blocks: BlockRun, from_slots: bool) {
        let _ = (view, blocks, from_slots);
    }

    /// Notes that the copy in `slot` was read.
    fn touched(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// Notes that `slot` has become the place of a block. `replaced` is the block's former slot, if
    /// the block was off home before.
    fn mapped(&mut self, view: &View, slot: Slot, valid: ValidMask, replaced: Option<Slot>) {
        let _ = (view, slot, valid, replaced);
    }

    /// Notes that `slot` is no longer the place of `block`, which is only at home now.
    fn unmapped(&mut self, slot: Slot, block: Block) {
        let _ = (slot, block);
    }

    /// Works as [`unmapped`](Self::unmapped), for a run of blocks in adjacent slots from `first`
    /// on.
    fn unmapped_run(&mut self, first: Slot, run: BlockRun) {
        (first.0..).zip(run.blocks()).for_each(|(slot, block)| self.unmapped(Slot(slot), block));
    }

    /// Returns the time at which [`work`](Self::work) must be called: `now` or earlier if work is
    /// due already.
    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        let _ = view;
        None
    }

    /// Returns the content that the volume is to move now. Called when the timeout has passed, and
    /// when requests wait for slots. The scheme then sets a new timeout. If the scheme returns
    /// [`Work::Nothing`], its timeout must not be due any more.
    fn work(&mut self, view: &View) -> Work {
        let _ = view;
        Work::Nothing
    }

    /// Supplies facts about the workload. A simulation supplies facts before the first request, a
    /// server only the extents of a map of files, whenever that map has changed.
    fn foresee(&mut self, view: &View, foresight: &Foresight<'_>) {
        let _ = (view, foresight);
    }

    /// Returns true if a simulation must supply the scheme's replacement policy
    /// ([`take_policy`](Self::take_policy)), and has not done so yet.
    fn lacks_policy(&self) -> bool {
        false
    }

    /// Takes a policy in place of the scheme's own replacement policy. Called before the first
    /// request, and only in a simulation. `make` makes the policy for a number of slots. Returns
    /// false if the scheme has no such policy, or its cache is not empty.
    fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        let _ = make;
        false
    }

    /// Returns true if another program may choose the blocks that enter the cache. Such a scheme
    /// must make room for any block that enters. The scheme is asked only in a simulation.
    fn takes_director(&self) -> bool {
        false
    }

    /// Returns the number of first blocks that have copies in slots before the first request. A
    /// user of the product waits for these copies before the first use, so a simulation grants
    /// them. A volume with data has no copies before they are made.
    fn copied_at_first(&self, view: &View) -> u64 {
        let _ = view;
        0
    }

    /// Notes that the first `copies` blocks have the copies that
    /// [`copied_at_first`](Self::copied_at_first) asked for.
    fn began_with(&mut self, copies: u64) {
        let _ = copies;
    }

    /// Applies the value of the parameter `key` in `settings`, while the volume is served. Returns
    /// false, without any change, if the parameter can only change while the volume is not served.
    ///
    /// # Errors
    /// The value is not possible.
    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let _ = (key, settings);
        Ok(false)
    }

    /// Returns true if the move under way is to end as soon as possible, ahead of requests that use
    /// the same drives. Appends to a log on a disk still come before such a move.
    fn is_move_urgent(&self) -> bool {
        false
    }

    /// Returns the properties that only some schemes have.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// Returns the scheme as the chooser of the copy that a read uses.
    fn copies(&mut self) -> Option<&mut dyn Copies> {
        None
    }

    /// Returns the scheme as the listener to a host's hints.
    fn hints(&mut self) -> Option<&mut dyn Hints> {
        None
    }

    /// Returns the scheme as the monitor of its drives.
    fn monitor(&self) -> Option<&dyn Monitor> {
        None
    }

    /// Returns the scheme as the monitor of its drives, to tell it their answers.
    fn monitor_mut(&mut self) -> Option<&mut dyn Monitor> {
        None
    }

    /// Returns the scheme that overwrites blocks in their slots.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }
}

impl dyn Scheme {
    /// Returns the reason for which only a simulation can follow the settings. Valid for a scheme
    /// that was just made.
    pub fn why_only_simulated(&self) -> Option<&'static str> {
        self.reasons_only_simulated().next()
    }

    /// Returns the reasons for which only a simulation can follow the settings: one for each
    /// parameter with such a value. A reason begins with the word `with` and the setting. Valid for
    /// a scheme that was just made.
    pub fn reasons_only_simulated(&self) -> impl Iterator<Item = &'static str> {
        let properties = self.properties();
        let reasons = [
            (properties.migrates_instantly, "with migration=instant migrations take no time: expected migration=timed"),
            (
                self.lacks_policy(),
                "with replacement=belady the scheme must know when each block is used next: expected another policy, \
                 like replacement=lru",
            ),
            (
                properties.idle_profile.is_some(),
                "with idle_periods=profiled the scheme must know when the drives will be idle: expected \
                 idle_periods=detected",
            ),
            (
                properties.halts_wear_levelling,
                "with wear_levelling=adaptive the volume halts the wear levelling of its SSD, and no real drive can be \
                 told to do so: expected wear_levelling=static, with which a real drive keeps its own wear levelling",
            ),
            (properties.moves_instantly, "with moves=instant ranges move without being copied: expected moves=timed"),
            (
                properties.overwrites_in_place,
                "with in_place=on a block is overwritten at its place on flash and no journal records its place, so a \
                 crash would mix two versions: expected in_place=off",
            ),
        ];
        reasons.into_iter().filter_map(|(holds, reason)| holds.then_some(reason))
    }
}

/// Content that a member holds under a scheme. The planner and the simulator use this description
/// to choose a size when none is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Every address.
    Home,
    /// Every address, as a copy of another home.
    Copy,
    /// Copies, or the newest content, of some blocks.
    Cache,
    /// A part of the addresses.
    Ranges,
    /// A log of writes.
    Log,
}

/// Function that makes a scheme for a layout.
pub type BuildScheme = fn(&Settings, &Layout) -> Result<Box<dyn Scheme>, SettingError>;

/// Target of the Linux kernel that resembles a scheme. The policies of the target are Linux's own;
/// a scheme's settings are not translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinuxCounterpart {
    /// dm-cache, as lvmcache sets it up.
    DmCache(CacheMode),
    /// dm-writecache, as lvmcache sets it up.
    DmWritecache,
    /// bcache.
    Bcache(CacheMode),
}

/// Time at which a cache writes its blocks home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    /// At once: the write itself also goes home.
    WriteThrough,
    /// Later than the write to the slot: when the cache writes back.
    WriteBack,
}

/// Description of a scheme, known before a scheme is made.
pub struct SchemeInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Paper with its sections, or product, that the scheme follows.
    pub source: &'static str,
    /// Roles that the scheme needs, and the content that each holds.
    pub members: &'static [(Role, Holds)],
    /// Parameters of the scheme.
    pub parameters: &'static [Parameter],
    /// Data that the worst crash loses, in a sentence.
    pub worst_crash: &'static str,
    /// Data that the loss of the SSD loses, in a sentence.
    pub ssd_loss: &'static str,
    /// Data that the loss of the HDD loses, in a sentence.
    pub hdd_loss: &'static str,
    /// Reasons for bypasses of this scheme, each with its meaning. [`reasons`](Self::reasons), in
    /// `schemes/reasons.rs`, adds the reasons that several schemes share.
    pub bypass: &'static [(Reason, &'static str)],
    /// Resident bytes for each block off home, in the worst case.
    pub memory_bytes_per_block: f64,
    /// Set if an SSD in front of a home disk takes a block only while a request reads or writes the
    /// block. For such a scheme, Belady's MIN is a bound: no SSD of the same size serves more
    /// reads. Not set if blocks also enter in the background, or are on the SSD from the start.
    pub takes_only_what_is_accessed: bool,
    /// Returns the Linux target that resembles the scheme with these settings, if there is one.
    pub linux_counterpart: fn(&Settings) -> Option<LinuxCounterpart>,
    /// Returns the layout for the given settings and members.
    pub layout: fn(&Settings, &LayoutRequest<'_>) -> Result<Layout, SchemeError>,
    /// Makes the scheme for a layout that [`layout`](Self::layout) returned.
    pub build: BuildScheme,
}

/// Reasons for which a scheme cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemeError {
    /// The value of a parameter is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The members do not fit the scheme.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
