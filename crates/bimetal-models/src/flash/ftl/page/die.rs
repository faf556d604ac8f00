//! State of a die in the page-mapped layer: its free blocks, its open blocks, and a collection
//! under way.

use std::ops::Range;

use crate::flash::mapping::NONE;
use crate::flash::operation::Cause;

/// Origin of writes. Kinds of data; each kind has an open block of its own in every die, so that
/// short-lived data are not mixed with long-lived data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// Data of the host.
    Host,
    /// Data moved by collection.
    Collector,
    /// Data moved by wear levelling, which are rarely overwritten.
    Leveller,
    /// Tables of the layer.
    Translation,
}

impl Stream {
    pub(super) const COUNT: usize = 4;
}

/// Block that is being written.
#[derive(Clone, Copy)]
pub(super) struct Frontier {
    /// Number of the block, or [`NONE`].
    pub(super) block: u32,
    /// Next unit of the block.
    pub(super) next: u32,
    /// Unit before which all units were submitted to the die.
    pub(super) issued: u32,
    /// Number of units that are written to the block: all units, or fewer if its cells hold one bit
    /// each.
    pub(super) end: u32,
}

pub(super) const NO_FRONTIER: Frontier = Frontier { block: NONE, next: 0, issued: 0, end: 0 };

/// Collection under way.
#[derive(Clone, Copy)]
pub(super) struct Collection {
    pub(super) victim: u32,
    /// Cause for which the victim is emptied.
    pub(super) cause: Cause,
    /// Unit of the victim before which all units have been copied.
    pub(super) next: u32,
    /// Number of units that are copied for each `per` units written.
    pub(super) owed: u32,
    pub(super) per: u32,
    /// Copies that are due, multiplied by `per`.
    pub(super) credit: u64,
}

/// State of a die.
pub(super) struct Die {
    /// Number of valid units in the die.
    pub(super) valid: u64,
    /// Blocks that were never written.
    pub(super) fresh: Range<u32>,
    /// Open blocks by [`Stream`].
    pub(super) open: [Frontier; Stream::COUNT],
    pub(super) collection: Option<Collection>,
    /// Reads of the collection for which no operation was appended yet: commands, pages, units.
    pub(super) sensed: (u32, u32, u32),
    /// Number of blocks whose cells hold one bit, including the open block.
    pub(super) slc_blocks: u32,
    /// Number of blocks that reached their rated erases and are not used again.
    pub(super) retired: u32,
}

impl Die {
    pub(super) fn new(valid: u64, fresh: Range<u32>) -> Self {
        let open = [NO_FRONTIER; Stream::COUNT];
        Self { valid, fresh, open, collection: None, sensed: (0, 0, 0), slc_blocks: 0, retired: 0 }
    }
}
