//! A scheme decides, the [`Volume`](crate::volume::Volume) does.
//!
//! A scheme is asked at each fork of the road: where does this write go, shall what this read fetched be promoted, what
//! shall be moved now. It sees the map, the load of the members and the time through a [`View`], read-only, and returns
//! a decision. It never touches a drive, a byte of payload or the journal. What it learns is soft state, rebuilt cold.

use crate::block::{Block, BlockRun, BlockSize, ValidMask};
use crate::block_map::{BlockMap, Slot};
use crate::layout::{Layout, LayoutError, LayoutRequest, MemberId, Role};
use crate::operation::OpKind;
use crate::policies::admission;
pub use crate::policies::response_model::{Coefficient, PredictionError};
use crate::policies::uses::Uses;
use crate::settings::{Parameter, SettingError, Settings};
use crate::units::{Bytes, Nanoseconds, SectorRange, Sectors};

/// A request as a scheme sees it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// What it does: read, write, or write-zeroes.
    pub kind: OpKind,
    /// The sectors it touches, in the volume's flat address space.
    pub sectors: SectorRange,
    /// The blocks it touches.
    pub blocks: BlockRun,
}

/// What a first pass over a workload knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Foresight<'a> {
    /// How many requests will come.
    pub requests: u64,
    /// Which file lies where, if somebody says so.
    pub files: &'a [FileExtent],
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// Its path; empty for free space.
    pub path: String,
    /// Where the part lies, in the volume's flat address space.
    pub sectors: SectorRange,
}

/// An operation of a request on a member, when it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// On which member.
    pub member: MemberId,
    /// What it did.
    pub kind: OpKind,
    /// How much of it.
    pub sectors: Sectors,
    /// From when the member was asked to when it answered.
    pub took: Nanoseconds,
}

/// The wear of a flash drive, as the drive tells it. Only a simulated drive does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Bytes of flash erased so far.
    pub erased: Bytes,
    /// Bytes of flash that the drive has, its spare area included.
    pub flash: Bytes,
    /// Bytes of a block, which is erased at once.
    pub block: Bytes,
    /// Bytes that can be erased in its life: the flash times its rated cycles.
    pub endurance: Bytes,
}

/// Why blocks did not go where the scheme usually puts them. Counted by reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub &'static str);

impl Reason {
    /// Part of a long run of adjacent requests.
    pub const SEQUENTIAL: Self = Self("sequential");
    /// A write at or above the size threshold.
    pub const LARGE: Self = Self("large");
    /// No slot was free and none could be made free at once.
    pub const NO_SPACE: Self = Self("no-space");
    /// The scheme does not admit this kind of request.
    pub const NOT_ADMITTED: Self = Self("not-admitted");
    /// The member it would go to is gone.
    pub const MEMBER_GONE: Self = Self("member-gone");
    /// The member it would go to refuses writes.
    pub const MEMBER_READ_ONLY: Self = Self("member-read-only");
    /// Everything goes home, because the volume drains.
    pub const DRAINING: Self = Self("draining");
    /// Too many copies were being made already.
    pub const BUSY: Self = Self("busy");
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// To its home, in place. A copy off home is given up.
    Home(Option<Reason>),
    /// To a free slot; home is older from then on.
    Slot,
    /// To its home and to a free slot at once; done when both are.
    Both,
    /// Nowhere before slots are free: the scheme is asked for work, and then again for a place.
    Wait,
}

/// Whether blocks that a read fetched from home get a copy in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promotion {
    /// They do.
    Admit,
    /// They do not, and why.
    Bypass(Reason),
    /// The scheme never promotes: not counted as a bypass.
    Never,
}

/// What shall be moved now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing (more).
    Nothing,
    /// Everything that is off home when the migration starts goes home, and its slots become free. Where nothing is off
    /// home, a log gives back what is no longer in use.
    MigrateAll,
    /// The dirty content of these slots goes home; the slots stay as clean copies if `keep`, or become free.
    MoveHome {
        /// Which.
        slots: Vec<Slot>,
        /// Whether they stay.
        keep: bool,
    },
    /// These clean copies are given up.
    Evict(Vec<Slot>),
    /// What these runs have only at home is read in the background and gets clean copies in slots. Not more than
    /// [`FETCH_BLOCKS_MAX`] each; a run that a request is changing is passed over, and so is what no slot is free for.
    Fetch(Vec<BlockRun>),
    /// The drive with the slots is asked for up to so many blocks in slots that lie where the most around them is outdated; the
    /// answer comes to [`Scheme::fragmented`].
    AskFragmented(u64),
    /// A range of addresses gets its home on another member, if a place is free there; one at a time.
    Relocate {
        /// Which.
        range: u32,
        /// Where to.
        to: MemberId,
    },
}

/// Blocks of one fetch: 512 KiB of 4 KiB blocks bound how long a request waits behind it.
pub const FETCH_BLOCKS_MAX: u64 = 128;

/// The setting of idle periods that are known beforehand, which only a simulation knows.
pub const PROFILED: &str = "profiled";

/// How a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It serves.
    Online,
    /// It refuses writes, and still reads: nothing new goes to it.
    ReadOnly,
    /// It is no longer there.
    Failed,
}

/// What a scheme may know of a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberLoad {
    /// Its role.
    pub role: Role,
    /// How it is.
    pub state: MemberState,
    /// Operations of requests under way on it.
    pub foreground: u32,
    /// Operations of moves and metadata under way on it.
    pub background: u32,
    /// Since when no request has had an operation on it.
    pub idle_since: Nanoseconds,
}

impl MemberLoad {
    /// When it will have been idle for `long`, if nothing comes; `None` while it serves a request.
    pub fn idle_at(&self, long: Nanoseconds) -> Option<Nanoseconds> {
        (self.foreground == 0).then(|| self.idle_since.saturating_add(long))
    }
}

/// What a scheme sees of its volume.
pub struct View {
    /// The time.
    pub now: Nanoseconds,
    /// Where things lie.
    pub layout: Layout,
    /// Which blocks are off home.
    pub map: BlockMap,
    /// The members, in order of [`MemberId`].
    pub members: Vec<MemberLoad>,
    /// Slots that could be written at once.
    pub free_slots: u64,
    /// Slots given up that become free with the next commit of the journal.
    pub freeing_slots: u64,
    /// Whether content is on its way home, or waits to be tried again because it could not be moved.
    pub moving: bool,
    /// Requests that wait for free slots.
    pub waiting_for_slots: u64,
    /// Runs that are being fetched.
    pub fetching: u32,
    /// Whether a range is on its way to another home.
    pub relocating: bool,
    /// Whether everything goes home.
    pub draining: bool,
}

impl View {
    /// The size of a block.
    pub fn block(&self) -> BlockSize {
        self.layout.block
    }

    /// The member with `id`.
    pub fn member(&self, id: MemberId) -> &MemberLoad {
        &self.members[id.0 as usize]
    }

    /// When `blocks` free slots could be filled by a fetch, because `home` has been idle for `long`; one run at a time.
    pub fn fetch_at(&self, home: MemberId, long: Nanoseconds, blocks: u64) -> Option<Nanoseconds> {
        let may = self.fetching == 0 && !self.draining && self.slots_online() && self.free_slots >= blocks;
        if may && self.member(home).state == MemberState::Online { self.member(home).idle_at(long) } else { None }
    }

    /// Whether the member that holds the slots is there and takes writes.
    pub fn slots_online(&self) -> bool {
        self.layout.slots.is_some_and(|slots| self.member(slots.member).state == MemberState::Online)
    }

    /// Whether the member that holds the slots is there.
    pub fn slots_readable(&self) -> bool {
        self.layout.slots.is_some_and(|slots| self.member(slots.member).state != MemberState::Failed)
    }
}

/// The decisions of a scheme. Only what differs from "everything at home" must be written.
pub trait Scheme: Send {
    /// A read or write arrives; comes once for each, before anything is decided about it.
    fn arrived(&mut self, view: &View, access: &Access) {
        let _ = (view, access);
    }

    /// Where the first blocks of `rest` go, and for how many of them (at least 1) that holds. `rest` is what `access` has
    /// not placed yet, of a long write as much as the volume places at a time.
    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        let _ = (view, access);
        (Placement::Home(None), rest.count)
    }

    /// Whether `missing`, which `access` reads from home, gets a copy in slots.
    fn promote(&mut self, view: &View, access: &Access, missing: BlockRun) -> Promotion {
        let _ = (view, access, missing);
        Promotion::Never
    }

    /// `blocks` were read, from slots or (at least in part) from home. Comes in order of address.
    fn read(&mut self, view: &View, blocks: BlockRun, from_slots: bool) {
        let _ = (view, blocks, from_slots);
    }

    /// The copy in `slot` was read.
    fn touched(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// `slot` has become the place of a block, instead of `replaced` if the block was off home before.
    fn mapped(&mut self, view: &View, slot: Slot, valid: ValidMask, replaced: Option<Slot>) {
        let _ = (view, slot, valid, replaced);
    }

    /// `slot` is no longer the place of `block`, which is only at home now.
    fn unmapped(&mut self, slot: Slot, block: Block) {
        let _ = (slot, block);
    }

    /// When [`work`](Self::work) is due, `now` or earlier if it already is.
    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        let _ = view;
        None
    }

    /// What shall be moved now. Comes when the timeout has passed, and when requests wait for slots. The scheme sets its
    /// timeout anew; if it returns [`Work::Nothing`] it must not be due any more.
    fn work(&mut self, view: &View) -> Work {
        let _ = view;
        Work::Nothing
    }

    /// The answer to [`Work::AskFragmented`]: slots in use, the worst first; `None` where the drive does not know, as no real one
    /// does.
    fn fragmented(&mut self, view: &View, slots: Option<&[Slot]>) {
        let _ = (view, slots);
    }

    /// Whether slots that became free are discarded on their drive while it is idle, so that its translation layer need not
    /// keep what they held.
    fn discards_free_slots(&self) -> bool {
        false
    }

    /// The drive with the slots tells its wear.
    fn wear_told(&mut self, view: &View, wear: Wear) {
        let _ = (view, wear);
    }

    /// Whether the drive with the slots is not to level its wear now. Only a simulated drive does as it is told.
    fn halts_wear_levelling(&self) -> bool {
        false
    }

    /// The length in time without any request after which a profile of the whole workload calls it idle, if the scheme wants
    /// such a profile.
    fn wants_idle_profile(&self) -> Option<Nanoseconds> {
        None
    }

    /// The idle periods that it wanted: the number of reads and writes that came before each, in order.
    fn foresee_idle(&mut self, after: Vec<u64>) {
        let _ = after;
    }

    /// Whether the scheme wants to know what a host's buffer cache evicts.
    fn takes_evictions(&self) -> bool {
        false
    }

    /// A host's buffer cache has evicted `blocks`: from now on the host reads them from the volume. Only a simulation knows
    /// it.
    fn evicted(&mut self, view: &View, blocks: BlockRun) {
        let _ = (view, blocks);
    }

    /// An operation of a request on `member` has ended.
    fn served(&mut self, view: &View, service: &Service) {
        let _ = (view, service);
    }

    /// What is known of the workload before its first request. Only a simulation knows any of it.
    fn foresee(&mut self, view: &View, foresight: &Foresight<'_>) {
        let _ = (view, foresight);
    }

    /// Whether it has to be told when each block is used ([`foresee_uses`](Self::foresee_uses)), and has not been.
    fn lacks_foresight(&self) -> bool {
        false
    }

    /// When each block is used: by the number of the read or write, in the order in which they arrive. Comes before the first
    /// one, if the scheme lacks it.
    fn foresee_uses(&mut self, uses: Uses) {
        let _ = uses;
    }

    /// How well the scheme's own forecast of response times did, if it makes one.
    fn prediction_error(&self) -> Option<PredictionError> {
        None
    }

    /// So many of the first blocks have copies in slots before the first request, because a user of the product waits for that
    /// first. A simulation takes it for granted; a volume with data has no copies before they were made.
    fn copied_at_first(&self, view: &View) -> u64 {
        let _ = view;
        0
    }

    /// The first `copies` blocks have the copies that [`copied_at_first`](Self::copied_at_first) asked for.
    fn began_with(&mut self, copies: u64) {
        let _ = copies;
    }

    /// Which of `copies`, members that all have the content of these of their sectors and are there, serves a read of it.
    fn choose_copy(&mut self, view: &View, sectors: SectorRange, copies: &[MemberId]) -> MemberId {
        let _ = (view, sectors);
        copies[0]
    }

    /// A member is gone.
    fn member_failed(&mut self, view: &View, member: MemberId) {
        let _ = (view, member);
    }

    /// Takes on what `settings` has for the parameter `key`, while the volume serves. False, and nothing changes, where that
    /// parameter can only change while it does not.
    ///
    /// # Errors
    /// The value makes no sense.
    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let _ = (key, settings);
        Ok(false)
    }

    /// Whether the move under way is to end as soon as it can, before requests that use its drives.
    fn is_move_urgent(&self) -> bool {
        false
    }

    /// Whether moves take no time and no decision waits for a drive, as in the papers' policy simulators. The map changes when
    /// a request arrives or a trigger fires; drives still do the work, and wear, behind it. Only for the simulator.
    fn migrates_instantly(&self) -> bool {
        false
    }

    /// Whether no volume with data can do what its settings ask. Tells that of a scheme that was just made.
    fn is_only_simulated(&self) -> bool {
        self.migrates_instantly() || self.lacks_foresight() || self.wants_idle_profile().is_some()
    }
}

/// What a member holds under a scheme: by this the planner and the simulator choose a size when none is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Every address.
    Home,
    /// Every address, like another that is home.
    Copy,
    /// Copies, or the newest content, of some blocks.
    Cache,
    /// A part of the addresses.
    Ranges,
    /// A log of writes.
    Log,
}

/// Makes a scheme for a layout.
pub type BuildScheme = fn(&Settings, &Layout) -> Result<Box<dyn Scheme>, SettingError>;

/// What Linux itself has that is like a scheme. Its policies are its own: no translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinuxCounterpart {
    /// dm-cache, which lvmcache sets up.
    DmCache(CacheMode),
    /// dm-writecache, which lvmcache sets up, too.
    DmWritecache,
    /// bcache.
    Bcache(CacheMode),
}

/// When a cache's writes go home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    /// At once.
    WriteThrough,
    /// Later.
    WriteBack,
}

/// What is known of a scheme without making one.
pub struct SchemeInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper and sections, or the product.
    pub source: &'static str,
    /// The roles it needs and what each holds.
    pub members: &'static [(Role, Holds)],
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What the worst crash loses.
    pub worst_crash: &'static str,
    /// What the loss of the SSD loses.
    pub ssd_loss: &'static str,
    /// What the loss of the HDD loses.
    pub hdd_loss: &'static str,
    /// Why blocks do not go where it usually puts them, and what that means; beside what holds of [many](Self::reasons).
    pub bypass: &'static [(Reason, &'static str)],
    /// Resident bytes for each block off home, in the worst case.
    pub memory_bytes_per_block: f64,
    /// Whether an SSD in front of a disk that is home takes a block only while a request reads or writes it: then no SSD of its
    /// size serves more reads than one under Belady's MIN. False where blocks come in the background, or lie there from the start.
    pub takes_only_what_is_accessed: bool,
    /// What Linux has that is like it with these settings, if anything.
    pub linux_counterpart: fn(&Settings) -> Option<LinuxCounterpart>,
    /// Where things lie.
    pub layout: fn(&Settings, &LayoutRequest<'_>) -> Result<Layout, SchemeError>,
    /// Makes the scheme for a layout that [`layout`](Self::layout) gave.
    pub build: BuildScheme,
}

impl SchemeInfo {
    /// Under which reasons blocks can be counted that do not go where the scheme usually puts them, each with what it means; one may
    /// have several meanings.
    pub fn reasons(&self) -> Vec<(Reason, &'static str)> {
        let off_home = self.memory_bytes_per_block > 0.0;
        let copies = off_home && !self.members.iter().any(|(_, holds)| *holds == Holds::Log);
        let admits = self.parameters.iter().any(|parameter| parameter.name == admission::PARAMETER.name);
        let mut reasons = self.bypass.to_vec();
        if admits {
            reasons.extend(admission::REASONS);
        }
        if copies {
            let busy = "too many copies were being made already, or the block was being written";
            reasons.push((Reason::BUSY, busy));
        }
        if copies && !reasons.iter().any(|(reason, _)| *reason == Reason::NO_SPACE) {
            reasons.push((Reason::NO_SPACE, "no slot was free for a copy"));
        }
        if off_home {
            reasons.push((Reason::MEMBER_GONE, "the drive that it would go to is gone"));
            reasons.push((Reason::MEMBER_READ_ONLY, "the drive that it would go to refuses writes"));
        }
        reasons.push((Reason::DRAINING, "the volume drains: everything goes home"));
        reasons
    }
}

/// Why a scheme cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemeError {
    /// A parameter is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The members do not fit.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
