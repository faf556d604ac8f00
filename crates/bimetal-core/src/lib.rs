//! The engine of Bimetal, which decides where each block lies. It is written once and driven by
//! three clocks: of the server, the simulator and the fault tester.
//!
//! It does no I/O and has no threads and no clock. Its arguments are requests, completions and the
//! time; its results are operations to start and finished requests. Read [`volume`] first (the
//! mechanism that every scheme needs), then [`scheme`] (the decisions), then any file of
//! [`schemes`].
//!
//! - [`tree`]: volumes as members of volumes.
//! - [`layout`]: the regions on each member.
//! - [`block_map`]: the blocks off home.
//! - [`journal`]: the metadata that makes the map durable.
//! - [`policies`]: the axes that schemes share.
//! - [`uses`]: the future uses of each block, for policies that must know them.
//! - [`units`], [`block`], [`member`], [`operation`] and [`payload`]: the basic types.
//!
//! Nothing here may know a device model, a file or a socket.

mod bit_set;
pub mod block;
pub mod block_map;
pub mod guard;
pub mod journal;
pub mod label;
pub mod layout;
pub mod member;
pub mod nearest;
pub mod operation;
pub mod payload;
pub mod places;
pub mod policies;
pub mod scheme;
pub mod schemes;
pub mod settings;
pub mod tree;
pub mod units;
pub mod uses;
pub mod volume;

#[cfg(test)]
mod testing;
