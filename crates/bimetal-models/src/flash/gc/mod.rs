//! Garbage collection: choice of the closed block that is emptied and erased next. One file for
//! each policy.
//!
//! The translation layer decides on the time and the speed of a collection.

mod candidates;
pub(crate) mod cost_benefit;
pub(crate) mod d_choices;
pub(crate) mod fifo;
pub(crate) mod greedy;

use super::ftl::page::state::Known;
use super::geometry::Geometry;
use super::precondition::Layout;
use super::profile::GcKind;
use super::state::archive::{Archive, Checked};

/// Policy that keeps the closed blocks of each die, and chooses one of these blocks for collection.
/// The policy has no use for blocks without an invalid unit.
///
/// Blocks untouched since preconditioning are known from the layout until they are reported to the
/// policy.
pub(crate) trait VictimSelection: Send {
    /// Reports that `block` of `die` is closed, or is no longer untouched, and has `valid` valid
    /// units. `is_new` is set if the block was closed just now.
    fn closed(&mut self, die: u32, block: u32, valid: u32, is_new: bool);

    /// Reports that the valid units of a closed block fell from `before` to `after`.
    fn invalidated(&mut self, die: u32, block: u32, before: u32, after: u32);

    /// Removes the next victim of `die` from the candidates; `None` if no block has an invalid
    /// unit. `is_untouched` returns true if a block is still in the state of the layout.
    fn pick(&mut self, die: u32, is_untouched: &dyn Fn(u32) -> bool) -> Option<u32>;

    /// Removes `block` of `die`, which is emptied for another reason. The block is closed, was
    /// reported to this policy, and has `valid` valid units.
    fn taken(&mut self, die: u32, block: u32, valid: u32);

    /// Saves or restores the state that does not follow from the blocks. A restored policy must be
    /// made for the same layout, and must not have received reports since.
    ///
    /// # Errors
    /// Refuses content that does not fit the blocks.
    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked;

    /// Returns the bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}

/// Makes the policy `kind` for a drive in the state of `layout`; `seed` determines the policy's
/// random numbers.
pub(crate) fn make(kind: GcKind, geometry: &Geometry, layout: &Layout, seed: u64) -> Box<dyn VictimSelection> {
    match kind {
        GcKind::Greedy => Box::new(greedy::Greedy::new(geometry, layout)),
        GcKind::CostBenefit => Box::new(cost_benefit::CostBenefit::new(geometry, layout)),
        GcKind::Fifo => Box::new(fifo::Fifo::new(geometry, layout)),
        GcKind::DChoices(draws) => Box::new(d_choices::DChoices::new(geometry, layout, draws, seed)),
    }
}
