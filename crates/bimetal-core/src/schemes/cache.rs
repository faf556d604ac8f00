//! The part that all caches of blocks share: home is on the HDD, and slots of the SSD have copies
//! or newer content of some blocks.
//!
//! [`Cache`] is a scheme made of three parts:
//! - the admission rule that the settings name ([`Gate`]);
//! - the [`Contents`]: the slots in use, in the order in which they are evicted;
//! - the [`Decisions`] that its paper or product describes, in a file of their own.
//!
//! [`Cache`] notifies each part of requests and slots, and decides about the destination of a write
//! in this order: the SSD must be online, then come bypass, admission, and the decision itself.

use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::Slot;
use crate::layout::Layout;
use crate::policies::admission::Gate;
use crate::policies::replacement::Replacement;
use crate::policies::room::Room;
use crate::scheme::{Access, Foresight, Hints, InPlace, Placement, Promotion, Properties, Reason, Scheme, View, Work};
use crate::settings::{SettingError, Settings};
use crate::units::Nanoseconds;

/// Slots in use, in the order in which they are evicted.
pub(super) trait Contents: Send {
    /// [`Scheme::lacks_policy`].
    fn lacks_policy(&self) -> bool {
        false
    }

    /// [`Scheme::take_policy`].
    fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        let _ = make;
        false
    }

    /// [`Scheme::arrived`].
    fn arrived(&mut self) {}

    /// [`Scheme::touched`].
    fn touched(&mut self, slot: Slot);

    /// [`Scheme::mapped`].
    fn mapped(&mut self, view: &View, slot: Slot, replaced: Option<Slot>);

    /// [`Scheme::unmapped`].
    fn unmapped(&mut self, slot: Slot);

    /// [`Scheme::hints`].
    fn hints(&mut self) -> Option<&mut dyn Hints> {
        None
    }
}

impl<R: Replacement> Contents for Room<R> {
    fn lacks_policy(&self) -> bool {
        Room::lacks_policy(self)
    }

    fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        Room::take_policy(self, make)
    }

    fn arrived(&mut self) {
        Room::arrived(self);
    }

    fn touched(&mut self, slot: Slot) {
        Room::touched(self, slot);
    }

    fn mapped(&mut self, view: &View, slot: Slot, replaced: Option<Slot>) {
        Room::mapped(self, view, slot, replaced);
    }

    fn unmapped(&mut self, slot: Slot) {
        Room::unmapped(self, slot);
    }
}

/// Decisions of one cache. Each decision can see the contents of the cache.
pub(super) trait Decisions: Send {
    /// Contents of the cache.
    type Contents: Contents;

    /// [`Scheme::arrived`].
    fn arrived(&mut self, contents: &mut Self::Contents, view: &View, access: &Access) {
        let _ = (contents, view, access);
    }

    /// Returns true if the first of `rest` may enter regardless of bypass and admission, and the
    /// number of leading blocks with the same answer.
    fn exempts(&self, contents: &Self::Contents, rest: BlockRun) -> (bool, u64) {
        let _ = contents;
        (false, rest.count)
    }

    /// Returns the reason for which `access` bypasses the cache as a whole, if there is one.
    fn bypasses(&mut self, view: &View, access: &Access) -> Option<Reason> {
        let _ = (view, access);
        None
    }

    /// Returns the destination of the first blocks of `rest`, which may enter the cache.
    fn place_write(
        &mut self,
        contents: &mut Self::Contents,
        view: &View,
        access: &Access,
        rest: BlockRun,
    ) -> (Placement, u64);

    /// Returns the reason for which `missing`, which may otherwise enter the cache, gets no copies.
    fn refuses_read(&mut self, contents: &mut Self::Contents, view: &View, missing: BlockRun) -> Option<Reason> {
        let _ = (contents, view, missing);
        None
    }

    /// Returns true if reads of `missing` can bring copies into the cache.
    fn promotes(&self, contents: &Self::Contents, missing: BlockRun) -> bool {
        let _ = (contents, missing);
        true
    }

    /// Notes that the copy in `slot` is used, moved or evicted.
    fn changes(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// Notes that a slot was written: with content that home lacks if `dirty` is set.
    fn wrote(&mut self, view: &View, dirty: bool) {
        let _ = (view, dirty);
    }

    /// Returns true if slots become free without a need for them, and not only when a decision
    /// finds no free slot.
    fn makes_room(&self) -> bool {
        true
    }

    /// [`Scheme::next_timeout`].
    fn next_timeout(&self, contents: &Self::Contents, view: &View) -> Option<Nanoseconds>;

    /// [`Scheme::work`].
    fn work(&mut self, contents: &mut Self::Contents, view: &View) -> Work;

    /// [`Scheme::foresee`].
    fn foresee(&mut self, foresight: &Foresight<'_>) {
        let _ = foresight;
    }

    /// [`Scheme::properties`].
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// [`Scheme::set`].
    fn set(&mut self, contents: &mut Self::Contents, key: &str, settings: &Settings) -> Result<bool, SettingError>;
}

/// A cache of blocks.
pub(super) struct Cache<D: Decisions> {
    gate: Gate,
    contents: D::Contents,
    decisions: D,
}

impl<D: Decisions + 'static> Cache<D> {
    /// Returns the scheme of `decisions` and `contents`, with the admission rule of `settings`.
    pub(super) fn boxed(settings: &Settings, layout: &Layout, contents: D::Contents, decisions: D) -> Box<dyn Scheme> {
        Box::new(Self { gate: Gate::new(settings, layout), contents, decisions })
    }
}

impl<D: Decisions> Scheme for Cache<D> {
    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        self.decisions.set(&mut self.contents, key, settings)
    }

    fn foresee(&mut self, _view: &View, foresight: &Foresight<'_>) {
        self.decisions.foresee(foresight);
    }

    fn lacks_policy(&self) -> bool {
        self.contents.lacks_policy()
    }

    fn take_policy(&mut self, make: &mut dyn FnMut(u32) -> Box<dyn Replacement>) -> bool {
        self.contents.take_policy(make)
    }

    fn takes_director(&self) -> bool {
        self.decisions.makes_room() && !self.decisions.properties().overwrites_in_place
    }

    fn arrived(&mut self, view: &View, access: &Access) {
        self.contents.arrived();
        self.decisions.arrived(&mut self.contents, view, access);
        self.gate.arrived(view, access);
    }

    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        let (exempt, count) = self.decisions.exempts(&self.contents, rest);
        let mut rest = BlockRun { count, ..rest };
        if !exempt {
            if let Some(reason) = self.decisions.bypasses(view, access) {
                return (Placement::Home(Some(reason)), rest.count);
            }
            let (refused, count) = self.gate.of_write(view, access, rest);
            if refused.is_some() {
                return (Placement::Home(refused), count);
            }
            rest.count = count;
        }
        self.decisions.place_write(&mut self.contents, view, access, rest)
    }

    fn promote(&mut self, view: &View, access: &Access, missing: BlockRun) -> Promotion {
        if !self.decisions.promotes(&self.contents, missing) {
            return Promotion::Never;
        }
        if !view.slots_online() {
            return Promotion::Bypass(Reason::MEMBER_GONE);
        }
        let exempt = self.decisions.exempts(&self.contents, missing) == (true, missing.count);
        let refused = if exempt {
            None
        } else {
            let bypass = self.decisions.bypasses(view, access);
            bypass.or_else(|| self.gate.of_read(view, access, missing))
        };
        let refused = refused.or_else(|| self.decisions.refuses_read(&mut self.contents, view, missing));
        refused.map_or(Promotion::Admit, Promotion::Bypass)
    }

    fn touched(&mut self, slot: Slot) {
        self.decisions.changes(slot);
        self.contents.touched(slot);
    }

    fn mapped(&mut self, view: &View, slot: Slot, _valid: ValidMask, replaced: Option<Slot>) {
        replaced.into_iter().for_each(|old| self.decisions.changes(old));
        self.gate.mapped();
        self.decisions.wrote(view, view.map.in_slot(slot).is_some_and(|entry| entry.dirty));
        self.contents.mapped(view, slot, replaced);
    }

    fn unmapped(&mut self, slot: Slot, _block: Block) {
        self.decisions.changes(slot);
        self.contents.unmapped(slot);
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        self.decisions.next_timeout(&self.contents, view)
    }

    fn work(&mut self, view: &View) -> Work {
        self.decisions.work(&mut self.contents, view)
    }

    fn properties(&self) -> Properties {
        self.decisions.properties()
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        self.contents.hints()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        if self.decisions.properties().overwrites_in_place { Some(self) } else { None }
    }
}

impl<D: Decisions> InPlace for Cache<D> {
    fn overwritten(&mut self, view: &View, slot: Slot) {
        self.gate.mapped();
        self.decisions.wrote(view, true);
        self.contents.touched(slot);
    }
}
