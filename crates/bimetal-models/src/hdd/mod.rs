//! The model of a hard disk, one concept a file.
//!
//! Read [`drive`] first: how a command passes through. Below it, [`layout`] says where a sector lies, [`seek_curve`] how
//! long the arm takes, [`mechanics`] puts both together with rotation; [`scheduler`] picks the next command;
//! [`read_buffer`] and [`write_cache`] share the memory on board; [`power`] knows the spindle and the energy.
//! [`profile`] holds the figures that a drive's TOML file gives. Nothing here knows what a sector holds, or who asks.
//!
//! Left out so far: zero-latency access, spare and remapped sectors, disconnects of the bus.

pub mod drive;
pub mod layout;
pub mod mechanics;
pub mod pending;
pub mod power;
pub mod profile;
pub mod read_buffer;
pub mod scheduler;
pub mod seek_curve;
pub mod write_cache;

pub use drive::Hdd;
pub use profile::HddProfile;
