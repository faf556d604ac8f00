//! Wear levelling: choice of the erased block that is written next, and moves of data that stay, so
//! that their block takes its share of the erases. One file for each policy.
//!
//! A policy keeps the erased blocks of each die. The translation layer empties the blocks that a
//! policy requests, like victims of its collection, when collection leaves it time.

mod adaptive;
mod dynamic;
mod fixed;
mod none;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::ftl::page::state::Known;
use super::geometry::Geometry;
use super::precondition::Layout;
use super::state::archive::{Archive, Checked};

pub(crate) use adaptive::Adaptive;
pub(crate) use dynamic::Dynamic;
pub(crate) use fixed::Static;
pub(crate) use none::Unlevelled;

/// Wear levelling policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WearLevellingKind {
    /// Erased blocks are written again in the order in which they were erased.
    #[default]
    None,
    /// The host writes to the erased block with the fewest erases. The collector, whose data live
    /// longer, writes to the block with the most erases.
    Dynamic,
    /// As dynamic wear levelling; in addition, data that stay are moved once their block lags
    /// behind by more than a threshold.
    Static,
    /// As static wear levelling, but no data are moved while the host writes more than planned.
    Adaptive,
}

impl WearLevellingKind {
    /// Returns the number of blocks of a die that are open for the data that the policy moves.
    pub(crate) fn open_blocks(self) -> u32 {
        u32::from(matches!(self, Self::Static | Self::Adaptive))
    }
}

/// Policy that keeps the erased blocks of each die, and selects data to move.
pub(crate) trait WearLevelling: Send {
    /// Reports that `block` of `die` was erased, for the time numbered `erases`, and can be written
    /// again.
    fn erased(&mut self, die: u32, block: u32, erases: u32);

    /// Takes the block of `die` that is written next: an erased block, or a block of `fresh`, whose
    /// blocks were never written. `stays` is set for data that were not overwritten for a while.
    fn take(&mut self, die: u32, fresh: &mut Range<u32>, stays: bool) -> Option<u32>;

    /// Returns the number of erased blocks of `die`.
    fn erased_blocks(&self, die: u32) -> u32;

    /// Reports that `block` was written to its end.
    fn closed(&mut self, _die: u32, _block: u32, _erases: u32) {}

    /// Reports that `block`, which was closed, is being emptied.
    fn reopened(&mut self, _die: u32, _block: u32, _erases: u32) {}

    /// Returns a closed block of `die` whose data should move.
    fn lagging(&self, _die: u32) -> Option<u32> {
        None
    }

    /// Reports that the host begins or ceases to write more than the drive is planned for.
    fn set_intense(&mut self, _intense: bool) {}

    /// Saves or restores the state that does not follow from the blocks. A restored policy must be
    /// made for the same layout, and must not have received reports since. The host's rate of
    /// writes is not part of the state.
    ///
    /// # Errors
    /// Refuses content that does not fit the blocks.
    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked;

    /// Returns the bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}

/// Makes the policy `kind` for a drive in the state of `layout`. A block lags behind if it was
/// erased more than `threshold` times less often than the most worn block of its die.
pub(crate) fn make(
    kind: WearLevellingKind,
    geometry: &Geometry,
    layout: &Layout,
    threshold: u32,
) -> Box<dyn WearLevelling> {
    match kind {
        WearLevellingKind::None => Box::new(Unlevelled::new(geometry)),
        WearLevellingKind::Dynamic => Box::new(Dynamic::new(geometry)),
        WearLevellingKind::Static => Box::new(Static::new(geometry, layout, threshold)),
        WearLevellingKind::Adaptive => Box::new(Adaptive::new(Static::new(geometry, layout, threshold))),
    }
}
