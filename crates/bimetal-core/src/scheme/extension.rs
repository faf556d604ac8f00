//! Questions that only one scheme or two answer, each group a trait of its own.
//!
//! A scheme that answers one of them returns itself from the method of
//! [`Scheme`](super::Scheme) that gives the trait. The volume skips the question for all other
//! schemes.

use super::{Access, PredictionError, Service, View, Wear};
use crate::block::{BlockRun, Key};
use crate::block_map::Slot;
use crate::layout::MemberId;
use crate::operation::Token;
use crate::units::{Nanoseconds, SectorRange};

/// Properties of a scheme with its settings. The properties hold as long as the scheme lives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Properties {
    /// Set if free slots are discarded on their drive while it is idle, so that its translation
    /// layer need not keep their content.
    pub discards_free_slots: bool,
    /// Set if moves take no time and no decision waits for a drive, as in the papers' policy
    /// simulators. The block map changes when a request arrives or a trigger fires. Drives still do
    /// the work, and wear, afterwards. Only for the simulator.
    pub migrates_instantly: bool,
    /// Set if ranges change their homes in no time and without operations, so that a run shows the
    /// worth of a placement without the cost of the moves. For the simulator only.
    pub moves_instantly: bool,
    /// Set if a block that has a slot is overwritten in that slot, and no journal records the
    /// places of blocks. A crash would leave neither version whole. For the simulator only.
    pub overwrites_in_place: bool,
    /// Time without requests that counts as an idle period in a profile of the whole workload.
    /// `None` if the scheme wants no such profile. Only a simulation has a profile of idle periods.
    pub idle_profile: Option<Nanoseconds>,
    /// Set if the scheme wants to know the evictions of a host's buffer cache.
    pub takes_evictions: bool,
    /// Set if the scheme takes pins of a host.
    pub takes_pins: bool,
}

/// Policy of another program that chooses the blocks that leave a cache. Only for the simulator.
pub trait OutsidePolicy: Send {
    /// Notes that the block `key` came into the cache.
    fn insert(&mut self, key: Key);

    /// Notes a use of the block `key`, which is in the cache.
    fn touch(&mut self, key: Key);

    /// Notes that the block `key` left the cache.
    fn remove(&mut self, key: Key);

    /// Offers blocks in the order in which they shall leave, until `offer` returns false. A block
    /// that is not in the cache is passed over.
    fn order(&mut self, offer: &mut dyn FnMut(Key) -> bool);
}

/// Destination of the blocks of a request, as another program chooses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Home alone: a write drops the blocks' copies, and a read brings none in.
    Home,
    /// Slots: a write leaves home with older content, and a read brings copies in.
    Slot,
    /// Home and slots. For a read, this placement means the same as [`Slot`](Self::Slot).
    Both,
}

/// Program that chooses the destination of each request to a cache, in place of the scheme. Only
/// for the simulator.
pub trait Director: Send {
    /// Notes that the request `token` came to the volume.
    fn submitted(&mut self, now: Nanoseconds, token: Token);

    /// Returns the destination of the blocks of a read or write, which is about to be served.
    /// `None` leaves the decisions about it to the scheme.
    fn direct(&mut self, view: &View, access: &Access, token: Token) -> Option<Destination>;

    /// Notes that the request `token` has ended.
    fn finished(&mut self, now: Nanoseconds, token: Token);
}

/// A scheme with several copies of all content.
pub trait Copies {
    /// Chooses the member that serves a read of `sectors`. Each of `copies` is present and has the
    /// content.
    fn choose_copy(&mut self, view: &View, sectors: SectorRange, copies: &[MemberId]) -> MemberId;
}

/// A scheme that hears of a host's hints.
pub trait Hints {
    /// Notes that a host's buffer cache has evicted `blocks`: from now on the host reads them from
    /// the volume. Only a simulation knows such evictions.
    fn evicted(&mut self, view: &View, blocks: BlockRun) {
        let _ = (view, blocks);
    }

    /// Pins `blocks` to flash for a host, or ends the pin if `pinned` is false. Returns false, and
    /// changes nothing, if more would be pinned than the scheme allows.
    fn pin(&mut self, view: &View, blocks: BlockRun, pinned: bool) -> bool {
        let _ = (view, blocks, pinned);
        true
    }
}

/// A scheme that measures its drives, and steers the flash by its measurements.
pub trait Monitor {
    /// Notes that an operation of a request on a member has ended.
    fn served(&mut self, view: &View, service: &Service);

    /// Supplies the wear of the drive with the slots.
    fn wear_told(&mut self, wear: Wear);

    /// Returns true if the drive with the slots shall not level its wear now. Only simulated drives
    /// obey.
    fn halts_wear_levelling(&self) -> bool;

    /// Supplies the answer to [`Work::AskFragmented`](super::Work::AskFragmented): slots in use,
    /// those with the most outdated surroundings first. `None` if the drive does not know; no real
    /// drive does.
    fn fragmented(&mut self, view: &View, slots: Option<&[Slot]>);

    /// Supplies the idle periods of the profile: for each, the number of reads and writes before
    /// it, in order.
    fn foresee_idle(&mut self, after: Vec<u64>);

    /// Returns the errors of the scheme's own forecast of response times, if it makes one.
    fn prediction_error(&self) -> Option<PredictionError>;
}

/// A scheme that overwrites blocks in their slots, if its
/// [`Properties::overwrites_in_place`] is set.
pub trait InPlace {
    /// Notes that a write begins to overwrite the content of `slot` in place, which is dirty now.
    fn overwritten(&mut self, view: &View, slot: Slot);
}
