//! Garbage collection: which closed block is emptied and erased next. One policy a file.
//!
//! When and how fast a collection runs is the translation layer's business.

mod candidates;
pub(crate) mod cost_benefit;
pub(crate) mod d_choices;
pub(crate) mod fifo;
pub(crate) mod greedy;

/// Keeps the closed blocks of each die and chooses among them. Blocks without an invalid unit are of no use to it.
///
/// Blocks that nothing has touched since preconditioning are known from the layout until they are reported here.
pub(crate) trait VictimSelection {
    /// `block` of `die` is closed, or was untouched and is no longer; it has `valid` valid units.
    /// `is_new`: it was closed just now.
    fn closed(&mut self, die: u32, block: u32, valid: u32, is_new: bool);

    /// The valid units of a closed block fell from `before` to `after`.
    fn invalidated(&mut self, die: u32, block: u32, before: u32, after: u32);

    /// Takes the next victim of `die` out of the candidates; `None` if no block has an invalid unit. `is_untouched` says
    /// whether a block is still as the layout has it.
    fn pick(&mut self, die: u32, is_untouched: impl Fn(u32) -> bool) -> Option<u32>;

    /// Bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}
