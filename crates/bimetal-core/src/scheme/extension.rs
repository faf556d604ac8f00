//! Methods that only one or two schemes have, in groups; each group is a trait.
//!
//! A scheme with such methods returns itself from the method of [`Scheme`](super::Scheme) that
//! gives the trait. The volume calls the methods of a group only for schemes that return the trait.

use super::{Access, PredictionError, Service, View, Wear};
use crate::block::BlockRun;
use crate::block_map::Slot;
use crate::layout::MemberId;
use crate::operation::Token;
use crate::units::{Nanoseconds, SectorRange};

/// Properties of a scheme with its settings. The properties hold as long as the scheme lives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Properties {
    /// Set if free slots are discarded on their drive while it is idle, so that the drive's
    /// translation layer need not keep the content of free slots.
    pub discards_free_slots: bool,
    /// Set if moves take no time and no decision waits for a drive, as in the papers' policy
    /// simulators. The block map changes when a request arrives or a trigger fires. Drives do the
    /// same work, and wear, after the decision. Set in a simulator only.
    pub migrates_instantly: bool,
    /// Set if ranges change their homes in no time and without operations, so that a run shows the
    /// gain of a placement without the cost of the moves. Set in a simulator only.
    pub moves_instantly: bool,
    /// Set if a block that has a slot is overwritten in that slot, and no journal records the
    /// places of blocks. A crash would leave neither version whole. Set in a simulator only.
    pub overwrites_in_place: bool,
    /// Set if the scheme halts its drive's wear levelling, which no real drive lets a host do. Set
    /// in a simulator only.
    pub halts_wear_levelling: bool,
    /// Time without requests that counts as an idle period in a profile of the whole workload.
    /// `None` if the scheme needs no such profile. Only a simulation has a profile of idle periods.
    pub idle_profile: Option<Nanoseconds>,
}

/// Destination of the blocks of a request, as another program chooses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Home alone: a write drops the copies of its blocks, and a read does not copy its blocks into
    /// slots.
    Home,
    /// Slots: a write leaves home with older content, and a read brings copies in.
    Slot,
    /// Home and slots. For a read, this placement means the same as [`Slot`](Self::Slot).
    Both,
}

/// Program that chooses the destination of each request to a cache, in place of the scheme. Set in
/// a simulator only.
pub trait Director: Send {
    /// Notes that the request `token` came to the volume.
    fn submitted(&mut self, now: Nanoseconds, token: Token);

    /// Returns the destination of the blocks of a read or write, which is about to be served.
    /// `None` leaves the decisions about the request to the scheme.
    fn direct(&mut self, view: &View, access: &Access, token: Token) -> Option<Destination>;

    /// Notes that the request `token` has ended.
    fn finished(&mut self, now: Nanoseconds, token: Token);
}

/// Simulated host, which knows more than a device can see. Set in a simulator only.
pub trait Host: Send {
    /// Notes that the host requests `access`. Reports to `hints` facts that a device cannot see,
    /// before the request is served.
    fn requests(&mut self, view: &View, access: &Access, hints: &mut dyn Hints);
}

/// A scheme with several copies of all content.
pub trait Copies {
    /// Chooses the member that serves a read of `sectors`. Each member in `copies` is present and
    /// has the content.
    fn choose_copy(&mut self, view: &View, sectors: SectorRange, copies: &[MemberId]) -> MemberId;
}

/// A scheme that is notified of a host's hints.
pub trait Hints {
    /// Notes that a host's buffer cache has evicted `blocks`: from now on the host reads them from
    /// the volume. Only a simulation knows the evictions of a host's buffer cache.
    fn evicted(&mut self, view: &View, blocks: BlockRun) {
        let _ = (view, blocks);
    }

    /// Notes that an idle period follows the request that has just arrived. Only a simulation knows
    /// idle periods in advance.
    fn idle_follows(&mut self) {}

    /// Pins `blocks` to flash for a host, or ends the pin if `pinned` is false. Returns false, and
    /// changes nothing, if more blocks would be pinned than the scheme allows.
    fn pin(&mut self, view: &View, blocks: BlockRun, pinned: bool) -> bool {
        let _ = (view, blocks, pinned);
        true
    }
}

/// A scheme that measures its drives, and steers the flash by its measurements.
pub trait Monitor {
    /// Notes that an operation of a request on a member has ended.
    fn served(&mut self, view: &View, service: &Service);

    /// Notes that half of the workload has come to the volume; `waiting` requests of this half have
    /// not [arrived](super::Scheme::arrived) yet. Only a simulation knows the length of a workload
    /// ([`Foresight::tells_half`](super::Foresight::tells_half)).
    fn half_passed(&mut self, waiting: u64);

    /// Supplies the wear of the drive with the slots.
    fn wear_told(&mut self, wear: Wear);

    /// Returns true if the drive with the slots must not level its wear now. Only simulated drives
    /// can stop their wear levelling.
    fn halts_wear_levelling(&self) -> bool;

    /// Returns the largest share of the writes meant for the drive with the slots that go elsewhere
    /// while this drive wears too fast; 0 if the scheme has no such share.
    fn diverted_max(&self) -> f64;

    /// Supplies the answer to [`Work::AskFragmented`](super::Work::AskFragmented): slots in use,
    /// beginning with the slots in the flash blocks with the most outdated pages. `None` if the
    /// drive does not know the most outdated flash blocks; no real drive does.
    fn fragmented(&mut self, view: &View, slots: Option<&[Slot]>);

    /// Returns the errors of the scheme's own forecast of response times, if it makes one.
    fn prediction_error(&self) -> Option<PredictionError>;
}

/// A scheme that overwrites blocks in their slots, if its
/// [`Properties::overwrites_in_place`] is set.
pub trait InPlace {
    /// Notes that a write begins to overwrite the content of `slot` in place. The slot is dirty
    /// from now on.
    fn overwritten(&mut self, view: &View, slot: Slot);
}
