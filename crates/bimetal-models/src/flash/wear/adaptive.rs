//! Adaptive wear levelling (MixedStore, section 5.5): static wear levelling that is suspended while
//! the host writes more than the drive was planned for. The erases of its moves would be added to
//! the erases that the host causes. When the host writes less again, wear levelling makes the moves
//! that were held back.

use std::ops::Range;

use super::{Static, WearLevelling};
use crate::flash::ftl::page::state::Known;
use crate::flash::state::archive::{Archive, Checked};

/// Static wear levelling that can be suspended.
pub(crate) struct Adaptive {
    levelling: Static,
    intense: bool,
}

impl Adaptive {
    /// Wraps `levelling`, which is not suspended at first.
    pub(crate) fn new(levelling: Static) -> Self {
        Self { levelling, intense: false }
    }
}

impl WearLevelling for Adaptive {
    fn erased(&mut self, die: u32, block: u32, erases: u32) {
        self.levelling.erased(die, block, erases);
    }

    fn take(&mut self, die: u32, fresh: &mut Range<u32>, stays: bool) -> Option<u32> {
        self.levelling.take(die, fresh, stays)
    }

    fn erased_blocks(&self, die: u32) -> u32 {
        self.levelling.erased_blocks(die)
    }

    fn closed(&mut self, die: u32, block: u32, erases: u32) {
        self.levelling.closed(die, block, erases);
    }

    fn reopened(&mut self, die: u32, block: u32, erases: u32) {
        self.levelling.reopened(die, block, erases);
    }

    fn lagging(&self, die: u32) -> Option<u32> {
        if self.intense { None } else { self.levelling.lagging(die) }
    }

    fn set_intense(&mut self, intense: bool) {
        self.intense = intense;
    }

    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked {
        self.levelling.transfer(archive, known)
    }

    fn memory_bytes(&self) -> u64 {
        self.levelling.memory_bytes()
    }
}
