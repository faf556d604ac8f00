//! Garbage collection: which closed block is emptied and erased next. One policy a file.
//!
//! When and how fast a collection runs is the translation layer's business.

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

/// Keeps the closed blocks of each die and chooses among them. Blocks without an invalid unit are of no use to it.
///
/// Blocks that nothing has touched since preconditioning are known from the layout until they are reported here.
pub(crate) trait VictimSelection: Send {
    /// `block` of `die` is closed, or was untouched and is no longer; it has `valid` valid units.
    /// `is_new`: it was closed just now.
    fn closed(&mut self, die: u32, block: u32, valid: u32, is_new: bool);

    /// The valid units of a closed block fell from `before` to `after`.
    fn invalidated(&mut self, die: u32, block: u32, before: u32, after: u32);

    /// Takes the next victim of `die` out of the candidates; `None` if no block has an invalid unit. `is_untouched` says
    /// whether a block is still as the layout has it.
    fn pick(&mut self, die: u32, is_untouched: &dyn Fn(u32) -> bool) -> Option<u32>;

    /// `block` of `die`, which is closed, was reported here and has `valid` valid units, is emptied for another reason.
    fn taken(&mut self, die: u32, block: u32, valid: u32);

    /// Saves what does not follow from the blocks, or restores it in a policy that was made for the same layout and has been
    /// told nothing since.
    ///
    /// # Errors
    /// What is read does not fit the blocks.
    fn transfer(&mut self, archive: &mut Archive, known: &Known) -> Checked;

    /// Bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}

/// The policy `kind` for a drive as `layout` left it; `seed` starts what is random in it.
pub(crate) fn make(kind: GcKind, geometry: &Geometry, layout: &Layout, seed: u64) -> Box<dyn VictimSelection> {
    match kind {
        GcKind::Greedy => Box::new(greedy::Greedy::new(geometry, layout)),
        GcKind::CostBenefit => Box::new(cost_benefit::CostBenefit::new(geometry, layout)),
        GcKind::Fifo => Box::new(fifo::Fifo::new(geometry, layout)),
        GcKind::DChoices(draws) => Box::new(d_choices::DChoices::new(geometry, layout, draws, seed)),
    }
}
