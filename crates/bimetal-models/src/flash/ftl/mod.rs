//! Flash translation layers (FTLs): each chooses the place of a written unit, and moves data to
//! make room. One file each.
//!
//! A layer has tables and counters, and knows no time. A layer appends the operations of the dies
//! to a list of [`NandOp`]s, in the order in which each die must perform them. Read
//! [`TranslationLayer`] first, then `page.rs`. The layers of the papers manage one die by pages on
//! the medium of `nand.rs`: see [`DieLayer`], then `page_in_place.rs`, the shortest. `striped.rs`
//! spreads the pages over the dies.
//!
//! A new layer needs its file with an [`Info`], and its line in [`ALL`].

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
use crate::endurance::cycles_of;
use crate::profile::BadFigure;

/// All layers, in the order in which messages list them.
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

/// Description of a kind of layer.
pub(crate) struct Info {
    /// Value of the key `ftl`.
    pub(crate) name: &'static str,
    /// Set if the layer maps whole pages, whatever the value of the key `mapping_unit`.
    pub(crate) whole_pages: bool,
    /// Number of blocks in each die that hold no data.
    pub(crate) reserve: fn(&FlashProfile) -> u32,
    /// Function that makes the layer.
    pub(crate) make: fn(&Setup) -> Result<Box<dyn TranslationLayer>, BadFigure>,
}

/// Description of the drive for which a layer is made.
pub(crate) struct Setup<'a> {
    pub(crate) profile: &'a FlashProfile,
    /// Geometry, which has passed its checks.
    pub(crate) geometry: Geometry,
    pub(crate) precondition: Precondition,
    /// First unit in the state `precondition`; `units` is the number of these units.
    pub(crate) start: u32,
    pub(crate) units: u32,
    pub(crate) seed: u64,
    /// Set if the tables are filled in from a saved state. Nothing is written before the tables are
    /// filled in.
    pub(crate) restored: bool,
}

/// Result of the write of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// The unit waits in the controller's memory, or is programmed by one of the appended
    /// operations.
    New,
    /// The unit replaced an older version that still waited in the controller's memory, and takes
    /// no further room in that memory.
    Replaced,
}

/// Flash translation layer.
pub(crate) trait TranslationLayer: Send {
    /// Writes a unit.
    fn write(&mut self, unit: u32, operations: &mut Vec<NandOp>) -> Placed;

    /// Writes the units from `start` up to `end`, which are one request. Returns the number of
    /// units that are [`Placed::New`].
    fn write_request(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>) -> u32 {
        (start..end).map(|unit| u32::from(self.write(unit, operations) == Placed::New)).sum()
    }

    /// Programs the units that still wait for their page to fill up.
    fn flush(&mut self, operations: &mut Vec<NandOp>);

    /// Reads the units from `start` up to `end`. Nothing is appended for units that were never
    /// written or are still in the controller's memory.
    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>);

    /// Drops the units from `start` up to `end`.
    fn trim(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>);

    /// Handles a program that a die has done: the first units of its block are programmed into the
    /// cells now.
    fn programmed(&mut self, program: &NandOp);

    /// Fetches the entries that are needed before the units from `start` up to `end` can be read.
    /// The units are read once the entries are available.
    fn look_up(&mut self, _start: u32, _end: u32, _operations: &mut Vec<NandOp>) {}

    /// Returns true if the layer has background work for an idle drive.
    fn wants_idle_time(&self) -> bool {
        false
    }

    /// Does a part of the background work. Returns true if that work needs the dies.
    fn use_idle_time(&mut self, _operations: &mut Vec<NandOp>) -> bool {
        false
    }

    /// Tells the layer that the host begins or ceases to write more than the drive was planned for.
    fn set_intense(&mut self, _intense: bool) {}

    /// Returns up to `most` units in the blocks with the most invalid units, worst first. Without
    /// these units the blocks could be erased without a copy. `None` if the layer does not know.
    fn fragmented(&self, _most: usize) -> Option<Vec<u32>> {
        None
    }

    /// Returns the units of the last request that the medium refused, and resets their number.
    fn take_refused(&mut self) -> u64 {
        0
    }

    /// Returns the physical unit that holds `unit`; `None` if `unit` has no place.
    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32>;

    /// Gives later writes the version `version`. Returns true if the layer keeps versions.
    #[cfg(test)]
    fn set_version(&mut self, _version: u32) -> bool {
        false
    }

    /// Returns the version that a read of `unit` finds, if the layer keeps versions.
    #[cfg(test)]
    fn version(&self, _unit: u32) -> Option<u32> {
        None
    }

    /// Returns the counters of all work so far.
    fn counters(&self) -> &Counters;

    /// Returns the number of physical blocks by number of erases, including earlier runs if the
    /// state was restored.
    fn erases_of_blocks(&self) -> BTreeMap<u32, u64>;

    /// Returns the rated cycles that the most worn block has used up since time zero.
    fn most_cycles(&self) -> f64;

    /// Saves the tables between two requests, or restores them in a layer that was made for the
    /// same drive and has written nothing. Pending operations of the dies count as done; counters
    /// start at zero.
    ///
    /// # Errors
    /// Refuses content that is not a state of this layer.
    fn transfer(&mut self, archive: &mut Archive) -> Checked;

    /// Returns the number of units of the host that wait in the controller's memory for their page
    /// to fill up.
    fn waiting_units(&self) -> u32 {
        0
    }

    /// Returns the bytes of memory that the tables use.
    fn memory_bytes(&self) -> u64;

    /// Checks that every table agrees with every other, unit by unit.
    fn check(&self) -> Checked;
}

/// Layer that manages the pages of one die independently, as the schemes of the papers do.
pub(crate) trait DieLayer: Send {
    /// Writes the logical pages from `start` up to `end`, which are the request (p, n) of the
    /// papers, with n = end
    /// - p.
    fn write(&mut self, start: u32, end: u32, nand: &mut Nand);

    /// Returns the place of the newest version of `page`. Called only for pages in which the host
    /// has data.
    fn locate(&self, page: u32, nand: &Nand) -> Place;

    /// Reads the flash pages that the translation layer must read to find the newest version of
    /// `page`. Called before each read of a page.
    fn search(&self, _page: u32, _nand: &mut Nand) {}

    /// Returns true if `page` waits in the controller's memory, so that reading it does not need
    /// the die.
    fn is_in_memory(&self, _page: u32, _nand: &Nand) -> bool {
        false
    }

    /// Drops the logical pages from `start` up to `end`.
    fn trim(&mut self, start: u32, end: u32, nand: &mut Nand) {
        nand.clear(start, end);
    }

    /// Saves or restores the tables of the layer. The tables of the medium are saved separately.
    fn transfer(&mut self, nand: &Nand, archive: &mut Archive) -> Checked;

    /// Checks that every block has one use, that free blocks are clean, and every other property of
    /// a restored state that the layer depends on. [`locate`](Self::locate) is called only after
    /// this check.
    fn check(&self, nand: &Nand) -> Checked;

    /// Returns the bytes of memory that the tables of the layer use.
    fn memory_bytes(&self) -> u64;
}

/// Numbers of pages and blocks by operation and by cause (in the order of [`Cause::ALL`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    /// Number of physical pages read.
    pub(crate) pages_read: [u64; Cause::ALL.len()],
    /// Number of physical pages programmed.
    pub(crate) pages_programmed: [u64; Cause::ALL.len()],
    /// Number of physical blocks erased.
    pub(crate) blocks_erased: [u64; Cause::ALL.len()],
    /// Number of physical blocks erased that had one bit in each cell, but can hold more.
    pub(crate) single_bit_erases: u64,
    /// Number of units that the host wrote and that took a place.
    pub(crate) host_units: u64,
    /// Number of units that replaced an older version before it was programmed.
    pub(crate) replaced_units: u64,
    /// Number of units that the collector moved.
    pub(crate) moved_units: u64,
    /// Number of units of the layer's own tables that took a place.
    pub(crate) table_units: u64,
    /// Number of units in programmed pages that hold no data, because the page had to be programmed
    /// before it was full.
    pub(crate) padding_units: u64,
}

impl Counters {
    /// Returns the rated cycles used up, in blocks.
    pub(crate) fn cycles_used(&self) -> f64 {
        cycles_of(self.blocks_erased.iter().sum(), self.single_bit_erases)
    }

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
