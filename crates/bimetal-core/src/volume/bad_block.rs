//! Bad blocks that a scrub finds.

use crate::block::Block;

/// A block whose copy off home is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock {
    /// The block, in the volume's flat address space.
    pub block: Block,
    /// The outcome for the content of the slot.
    pub outcome: Outcome,
}

impl BadBlock {
    /// Returns true if another place has the content of the block, so that nothing is lost.
    pub fn home_has_it(&self) -> bool {
        !matches!(self.outcome, Outcome::NoGoodCopy | Outcome::CopiesDiffer)
    }
}

/// The outcome for a block with a bad copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Home has the block's content: the copy in the slot was dropped, and another slot is filled
    /// from home.
    GivenUp,
    /// Another member of a mirror, or a clean copy of a block at home, has the block's content. The
    /// bad copy was written again from there.
    Rewritten,
    /// Another member of a mirror, or a clean copy of a block at home, has the block's content. The
    /// bad copy cannot be written again.
    OneCopyLeft,
    /// The block's content is in no other place.
    NoGoodCopy,
    /// All members of a mirror can read the block, and their contents differ.
    CopiesDiffer,
}
