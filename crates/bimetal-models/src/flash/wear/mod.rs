//! Wear levelling: which erased block is written next, and when data that stay are moved so that their block takes its
//! share of the erases. One policy a file.
//!
//! A policy keeps the erased blocks of each die. What it asks to be emptied, the translation layer empties as it does a
//! victim of its collection, when that leaves it time.

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

/// The policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WearLevellingKind {
    /// Erased blocks are written again in the order in which they were erased.
    #[default]
    None,
    /// The host writes to the erased block with the fewest erases, the collector, whose data live longer, to the one with
    /// the most.
    Dynamic,
    /// As dynamic; and data that stay are moved once their block lags behind by more than a threshold.
    Static,
    /// As static, but nothing is moved while the host writes more than was expected.
    Adaptive,
}

impl WearLevellingKind {
    /// Blocks of a die that are open for the data it moves.
    pub(crate) fn open_blocks(self) -> u32 {
        u32::from(matches!(self, Self::Static | Self::Adaptive))
    }
}

/// Keeps the erased blocks of each die, and says which data should move.
pub(crate) trait WearLevelling: Send {
    /// `block` of `die` was erased, in all `erases` times, and can be written again.
    fn erased(&mut self, die: u32, block: u32, erases: u32);

    /// Takes the block of `die` that is written next, one of the erased ones or of those in `fresh`, which never were.
    /// `stays`: for data that were not overwritten for a while.
    fn take(&mut self, die: u32, fresh: &mut Range<u32>, stays: bool) -> Option<u32>;

    /// Erased blocks of `die`.
    fn erased_blocks(&self, die: u32) -> u32;

    /// `block` was written to its end.
    fn closed(&mut self, _die: u32, _block: u32, _erases: u32) {}

    /// `block`, which was closed, is being emptied.
    fn reopened(&mut self, _die: u32, _block: u32, _erases: u32) {}

    /// A closed block of `die` whose data should move.
    fn lagging(&self, _die: u32) -> Option<u32> {
        None
    }

    /// The host writes more than was expected, or does no longer.
    fn set_intense(&mut self, _intense: bool) {}

    /// Saves what does not follow from the blocks, or restores it in a policy that was made for the same layout and has been
    /// told nothing since. How much the host writes is not part of it.
    ///
    /// # Errors
    /// What is read does not fit the blocks.
    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked;

    /// Bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}

/// The policy `kind` for a drive as `layout` left it; blocks lag behind that were erased more than `threshold` times less
/// often than the most worn of their die.
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
