//! Policies: the axes inside a scheme, one file each. The schemes and `bimetal mrc` share policies.
//! A policy knows slots or sectors by number and decides an order or a class. A policy never
//! touches the block map or a drive.
//!
//! Read [`replacement`] first: the trait of all replacement policies and the table of all policies.
//! The parts of the policies are `slot_lists`, `ghosts` and `indexed_heap`.

pub mod admission;
pub mod arc;
pub mod clock;
pub(crate) mod disk_response;
pub mod file_map;
pub(crate) mod fragmentation;
mod ghosts;
pub(crate) mod hot_reads;
pub mod hotspots;
pub(crate) mod idle_fetch;
pub mod indexed_heap;
pub mod lirs;
pub mod lrfu;
pub mod lru;
pub(crate) mod mean;
pub(crate) mod mirror;
pub mod multi_queue;
pub(crate) mod pins;
mod refusals;
pub mod replacement;
pub(crate) mod response_model;
pub mod room;
pub mod s3fifo;
pub mod sieve;
pub mod sketch;
mod slot_lists;
pub mod streams;
#[cfg(test)]
mod twins;
pub mod two_queues;
pub(crate) mod wear_regulator;
pub mod wtinylfu;
