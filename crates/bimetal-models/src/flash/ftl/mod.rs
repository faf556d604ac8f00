//! Flash translation layers: where a unit is written, and what must be moved for it. One a file.
//!
//! A layer keeps state and counts; it knows no time. It appends what the dies have to do to a list of [`NandOp`]s, in
//! the order in which each die must do it. Read [`TranslationLayer`] first, then `page.rs`. The layers of the papers
//! manage one die by pages on the medium of `nand.rs`: see [`DieLayer`], then `page_in_place.rs`, the shortest.
//! `striped.rs` spreads the pages over the dies.
//!
//! To add a layer, write its file with an [`Info`], and its line into [`ALL`].

mod anand;
mod block;
mod cached_map;
mod dftl;
mod fast;
mod fmax;
mod ideal;
mod log_block;
mod none;
pub(crate) mod page;
mod page_in_place;
#[cfg(test)]
mod properties;
mod simple;
mod striped;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::geometry::Geometry;
use super::nand::{Nand, Place};
use super::operation::{Cause, NandKind, NandOp};
use super::precondition::Precondition;
use super::profile::FlashProfile;
use super::state::archive::{Archive, Checked};
use crate::profile::BadFigure;

/// Every layer, in the order in which messages list them.
#[rustfmt::skip]
pub(crate) const ALL: &[&Info] = &[
    &page::INFO,
    &dftl::INFO,
    &page_in_place::INFO,
    &block::INFO,
    &log_block::INFO,
    &fast::INFO,
    &anand::INFO,
    &fmax::INFO,
    &ideal::INFO,
    &simple::INFO,
    &none::INFO,
];

/// What is known of a kind of layer before it is made.
pub(crate) struct Info {
    /// The value of the key `ftl`.
    pub(crate) name: &'static str,
    /// Whether it maps whole pages, whatever the key `mapping_unit` says.
    pub(crate) whole_pages: bool,
    /// Blocks of each die that hold no data.
    pub(crate) reserve: fn(&FlashProfile) -> u32,
    /// Makes it.
    pub(crate) make: fn(&Setup) -> Result<Box<dyn TranslationLayer>, BadFigure>,
}

/// What a layer is made for.
pub(crate) struct Setup<'a> {
    pub(crate) profile: &'a FlashProfile,
    /// Has passed its checks.
    pub(crate) geometry: Geometry,
    pub(crate) precondition: Precondition,
    /// The units in that state: the first, and how many.
    pub(crate) start: u32,
    pub(crate) units: u32,
    pub(crate) seed: u64,
    /// Its tables are filled in from a saved state: nothing is written before that.
    pub(crate) restored: bool,
}

/// What became of a unit that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// It waits in the controller's memory, or is programmed by one of the operations appended.
    New,
    /// It replaced an older version that still waited in the controller's memory; it takes no further room there.
    Replaced,
}

/// A flash translation layer.
pub(crate) trait TranslationLayer: Send {
    /// Writes a unit.
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed;

    /// Writes the units from `start` up to `end`, which are one request; gives those that are [`Placed::New`].
    fn write_request(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) -> u32 {
        (start..end).map(|unit| u32::from(self.write(unit, operations) == Placed::New)).sum()
    }

    /// Programs what still waits for its page to fill up.
    fn flush(&mut self, operations: &mut Vec<NandOp>);

    /// Reads the units from `start` up to `end`. Nothing is appended for those that were never written or are still in
    /// the controller's memory.
    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>);

    /// Forgets the units from `start` up to `end`.
    fn trim(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>);

    /// A die has done this program: the first units of its block are in the cells now.
    fn programmed(&mut self, program: &NandOp);

    /// Fetches what must be known before the units from `start` up to `end` can be read. They are read when that is there.
    fn look_up(&mut self, _start: u32, _end: u32, _operations: &mut Vec<NandOp>) {}

    /// Whether there is something to do when the drive has nothing else to do.
    fn wants_idle_time(&self) -> bool {
        false
    }

    /// Does some of it; whether that asked anything of the dies.
    fn use_idle_time(&mut self, _operations: &mut Vec<NandOp>) -> bool {
        false
    }

    /// The host writes more than the drive was planned for, or does no longer.
    fn set_intense(&mut self, _intense: bool) {}

    /// Up to `most` units that lie in blocks of which the most is invalid, the worst first: were they gone, these blocks could
    /// be erased without a copy. `None`: the layer does not know.
    fn fragmented(&self, _most: usize) -> Option<Vec<u32>> {
        None
    }

    /// Units of the last request that the medium refused; they are counted from zero again.
    fn take_refused(&mut self) -> u64 {
        0
    }

    /// The physical unit that holds `unit`, if any does.
    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32>;

    /// Gives what is written from now on the version `version`; whether the layer keeps versions.
    #[cfg(test)]
    fn set_version(&mut self, _version: u32) -> bool {
        false
    }

    /// The version that a read of `unit` finds, where the layer keeps versions.
    #[cfg(test)]
    fn version(&self, _unit: u32) -> Option<u32> {
        None
    }

    /// What was done so far.
    fn counters(&self) -> &Counters;

    /// How many physical blocks were erased how often, in the runs before this one too if the state was restored.
    fn erases_of_blocks(&self) -> BTreeMap<u32, u64>;

    /// Erases since time zero of the block that was erased most often since then.
    fn most_erases(&self) -> u32;

    /// Saves its tables between two requests, or restores them in a layer that was made for the same drive and wrote nothing.
    /// What the dies still have to do counts as done; counts start at zero.
    ///
    /// # Errors
    /// What is read is no state of this layer.
    fn transfer(&mut self, archive: &mut Archive) -> Checked;

    /// Units of the host that wait in the controller's memory for their page to fill up.
    fn waiting_units(&self) -> u32 {
        0
    }

    /// Bytes of memory that its tables use.
    fn memory_bytes(&self) -> u64;

    /// Checks that every table agrees with every other, unit by unit.
    fn check(&self) -> Checked;
}

/// A layer that manages the pages of one die on its own, as the schemes of the papers do.
pub(crate) trait DieLayer: Send {
    /// Writes the logical pages from `start` up to `end`: the request (p, n) of the papers, n = end - p.
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand);

    /// Where the newest version of `page` lies. Asked only for pages in which the host has data.
    fn locate(&self, page: u32, nand: &Nand) -> Place;

    /// Whether `page` waits in the controller's memory: to read it takes nothing of the die.
    fn is_in_memory(&self, _page: u32, _nand: &Nand) -> bool {
        false
    }

    /// Forgets the logical pages from `start` up to `end`.
    fn trim(&mut self, start: u32, end: u32, nand: &mut Nand) {
        nand.clear(start, end);
    }

    /// Saves or restores its own tables; those of the medium are.
    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked;

    /// Checks that every block has one use, that those that are free are clean, and whatever else a state that was read must
    /// be so that the layer can go on from it. [`locate`](Self::locate) is asked only afterwards.
    fn check(&self, nand: &Nand) -> Checked;

    /// Bytes of memory that its own tables use.
    fn memory_bytes(&self) -> u64;
}

/// Pages and blocks by what was done with them and what for (in the order of [`Cause::ALL`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    /// Physical pages read.
    pub(crate) pages_read: [u64; Cause::ALL.len()],
    /// Physical pages programmed.
    pub(crate) pages_programmed: [u64; Cause::ALL.len()],
    /// Physical blocks erased.
    pub(crate) blocks_erased: [u64; Cause::ALL.len()],
    /// Units that the host wrote and that took a place.
    pub(crate) host_units: u64,
    /// Units that replaced an older version before it was programmed.
    pub(crate) replaced_units: u64,
    /// Units that the collector moved.
    pub(crate) moved_units: u64,
    /// Units of the layer's own tables that took a place.
    pub(crate) table_units: u64,
    /// Units of programmed pages that hold nothing, because the page had to be programmed before it was full.
    pub(crate) padding_units: u64,
}

impl Counters {
    pub(crate) fn count(&mut self, operation: &NandOp) {
        let table = match operation.kind {
            NandKind::Read => &mut self.pages_read,
            NandKind::Program => &mut self.pages_programmed,
            NandKind::Erase => &mut self.blocks_erased,
            NandKind::ReadSetup | NandKind::WriteSetup => return,
        };
        table[operation.cause as usize] += u64::from(operation.pages);
    }
}
