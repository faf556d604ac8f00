//! The model of a hard disk, one concept a file.
//!
//! Read [`drive`] first: how a command passes through. Below it, [`layout`] says where a sector lies, [`seek_curve`] how
//! long the arm takes, [`mechanics`] puts both together with rotation; [`scheduler`] picks the next command;
//! [`read_buffer`] and [`write_cache`] share the memory on board; [`power`] knows the spindle and the energy; `account.rs`
//! counts what was done.
//! [`profile`] holds the figures that a drive's TOML file gives. Nothing here knows what a sector holds, or who asks.
//!
//! [`segmented`] is the other kind of drive: one command at a time out of a segmented buffer, with the figures of
//! [`controller`], as DiskSim's parameter files ([`diskspecs`]) describe the drives of the 1990s. Layout and mechanics
//! are the same.

mod account;
pub mod controller;
pub mod diskspecs;
pub mod drive;
pub mod layout;
pub mod mechanics;
pub mod pending;
pub mod power;
pub mod profile;
pub mod read_buffer;
pub mod scheduler;
pub mod seek_curve;
pub mod segmented;
pub mod write_cache;

use bimetal_core::units::Sectors;

use crate::DeviceModel;
use crate::profile::BadFigure;

pub use drive::Hdd;
pub use profile::HddProfile;
pub use segmented::SegmentedHdd;

/// The drive that `profile` describes with `own` sectors, made for `capacity`: see [`Hdd::new`].
///
/// # Errors
/// The figure that no drive can have.
pub fn build(profile: &HddProfile, own: Sectors, capacity: Sectors) -> Result<Box<dyn DeviceModel>, BadFigure> {
    Ok(match &profile.controller {
        Some(controller) => Box::new(SegmentedHdd::new(profile, controller, own, capacity)?),
        None => Box::new(Hdd::new(profile, own, capacity)?),
    })
}
