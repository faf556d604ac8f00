//! The heart of Bimetal: the engine that decides where a block lives, written once and driven by three clocks.
//!
//! No I/O, no threads, no clock in it: requests, completions and the time are arguments; operations to start and finished
//! requests come back. Start with [`volume`] (the mechanism: what every scheme needs) and [`scheme`] (the decisions), then
//! any file of [`schemes`]. A [`tree`] has volumes as members of volumes. [`layout`] says where things lie, [`block_map`] what is off home, [`journal`] how that becomes
//! durable, [`policies`] hold the axes that schemes share. [`units`], [`block`], [`operation`] and [`payload`] are the words all
//! of it is written in. Nothing here may know a device model, a file or a socket.

mod bit_set;
pub mod block;
pub mod block_map;
pub mod guard;
pub mod journal;
pub mod label;
pub mod layout;
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
pub mod volume;

#[cfg(test)]
mod testing;
