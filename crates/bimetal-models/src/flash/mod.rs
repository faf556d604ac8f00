//! The model of a flash drive, one concept a file.
//!
//! Read [`drive`] first: how a command passes through. [`geometry`] says what the flash is made of; `ftl/` decides
//! where data go, `gc/` which block is emptied, `wear/` how erases are spread; all work on `mapping` and blocks that are resident only where they
//! were touched, everything else follows from [`precondition`]. `dies` puts the operations that result into time
//! ([`timing`]), `write_buffer` holds what is not programmed yet. [`profile`] holds the figures that a drive's TOML
//! file gives, [`state`] what is left of a run for the next one. Nothing here knows what a sector holds, or who asks.
//!
//! Left out: the host's queue depth.

mod blocks;
mod dies;
pub mod drive;
mod ftl;
mod gc;
pub mod geometry;
mod intensity;
mod mapping;
mod nand;
mod operation;
mod permutation;
pub mod precondition;
pub mod profile;
mod sparse;
pub mod state;
mod statistics;
mod steady_state;
#[cfg(test)]
mod tests;
pub mod timing;
mod wear;
mod write_buffer;

pub use drive::Flash;
pub use precondition::Precondition;
pub use profile::FlashProfile;
pub use wear::WearLevellingKind;
