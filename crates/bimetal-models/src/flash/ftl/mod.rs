//! Flash translation layers: where a unit is written, and what must be moved for it. One a file.
//!
//! A layer keeps state and counts; it knows no time. It appends what the dies have to do to a list of [`NandOp`]s, in
//! the order in which each die must do it. Read [`TranslationLayer`] first, then `page.rs`.

pub(crate) mod page;
#[cfg(test)]
mod tests;

use super::operation::{Cause, NandKind, NandOp};
use crate::statistics::EraseCount;

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

    /// Programs what still waits for its page to fill up.
    fn flush(&mut self, operations: &mut Vec<NandOp>);

    /// Reads the units from `start` up to `end`. Nothing is appended for those that were never written or are still in
    /// the controller's memory.
    fn read(&mut self, start: u32, end: u32, operations: &mut Vec<NandOp>);

    /// Forgets the units from `start` up to `end`.
    fn trim(&mut self, start: u32, end: u32);

    /// The first `units` units of `block` are in the cells now.
    fn programmed(&mut self, block: u32, units: u32);

    /// The physical unit that holds `unit`, if any does.
    #[cfg(test)]
    fn locate(&self, unit: u32) -> Option<u32>;

    /// What was done so far.
    fn counters(&self) -> &Counters;

    /// How the erases are spread over the blocks.
    fn erase_count(&self) -> EraseCount;

    /// Bytes of memory that its tables use.
    fn memory_bytes(&self) -> u64;

    /// Checks that every table agrees with every other, unit by unit; panics where one does not. For tests.
    fn check(&self);
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
    /// Units of programmed pages that hold nothing, because the page had to be programmed before it was full.
    pub(crate) padding_units: u64,
}

impl Counters {
    pub(crate) fn count(&mut self, operation: &NandOp) {
        let table = match operation.kind {
            NandKind::Read => &mut self.pages_read,
            NandKind::Program => &mut self.pages_programmed,
            NandKind::Erase => &mut self.blocks_erased,
        };
        table[operation.cause as usize] += u64::from(operation.pages);
    }
}
