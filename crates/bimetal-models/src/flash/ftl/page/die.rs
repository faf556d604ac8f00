//! What a die of the page-mapped layer has: its free blocks, its open ones, a collection under way.

use std::ops::Range;

use crate::flash::mapping::NONE;
use crate::flash::operation::Cause;

/// Who writes: each has an open block of its own in every die, so that what dies early is not mixed with what lives long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// The host.
    Host,
    /// Collection.
    Collector,
    /// Wear levelling: data that stay.
    Leveller,
    /// The layer's own tables.
    Translation,
}

impl Stream {
    pub(super) const COUNT: usize = 4;
}

/// A block that is being written.
#[derive(Clone, Copy)]
pub(super) struct Frontier {
    /// The block, or [`NONE`].
    pub(super) block: u32,
    /// Its next unit.
    pub(super) next: u32,
    /// Units before this one were handed to the die.
    pub(super) issued: u32,
    /// Units that are written to it: all, or fewer where its cells hold one bit.
    pub(super) end: u32,
}

pub(super) const NO_FRONTIER: Frontier = Frontier { block: NONE, next: 0, issued: 0, end: 0 };

/// A collection under way.
#[derive(Clone, Copy)]
pub(super) struct Collection {
    pub(super) victim: u32,
    /// What the victim is emptied for.
    pub(super) cause: Cause,
    /// Units of the victim before this one are done.
    pub(super) next: u32,
    /// For each `per` units written, `owed` are copied.
    pub(super) owed: u32,
    pub(super) per: u32,
    /// Copies owed, times `per`.
    pub(super) credit: u64,
}

/// A die.
pub(super) struct Die {
    /// Valid units in it.
    pub(super) valid: u64,
    /// Blocks that were never written.
    pub(super) fresh: Range<u32>,
    /// By [`Stream`].
    pub(super) open: [Frontier; Stream::COUNT],
    pub(super) collection: Option<Collection>,
    /// Reads of the collection that no operation was appended for yet: commands, pages, units.
    pub(super) sensed: (u32, u32, u32),
    /// Blocks whose cells hold one bit, the open one included.
    pub(super) slc_blocks: u32,
    /// Blocks that were erased as often as they are rated for, and are not used again.
    pub(super) retired: u32,
}

impl Die {
    pub(super) fn new(valid: u64, fresh: Range<u32>) -> Self {
        let open = [NO_FRONTIER; Stream::COUNT];
        Self { valid, fresh, open, collection: None, sensed: (0, 0, 0), slc_blocks: 0, retired: 0 }
    }
}
