//! Model of a flash drive, one file for each concept.
//!
//! Read [`drive`] first, which is the path of a command. [`geometry`] describes the flash. `ftl/`
//! chooses the places of data, `gc/` the block to be collected, and `wear/` spreads the erases. All
//! three work on `mapping` and on blocks that are resident only where they were touched; the state
//! of untouched blocks follows from [`precondition`]. `dies` puts the resulting operations into
//! time ([`timing`]), and `write_buffer` holds data not yet programmed. [`profile`] holds the
//! figures of a drive's TOML file, and [`state`] the state that a run leaves for the next. The
//! model does not depend on the content of a sector or on the origin of a command.
//!
//! The host's queue depth is not modelled.

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
