//! Model of a hard disk, one file for each concept.
//!
//! Read [`drive`] first, which is the path of a command. [`layout`] gives the place of a sector,
//! [`seek_curve`] the time of the arm, and [`mechanics`] combines both with rotation. [`scheduler`]
//! chooses the next command; [`read_buffer`] and [`write_cache`] share the memory on board;
//! [`physical_sectors`] are the units in which the medium is written. [`actuators`] makes one drive
//! of several arms, and [`shingled`] makes a drive that stages writes and cleans bands ([`staging`]
//! is the table of staged sectors). [`power`] holds the spindle's standby and the energy;
//! `account.rs` counts commands. [`profile`] holds the figures that a drive's TOML file gives. The
//! model does not depend on the content of a sector or on the origin of a command.
//!
//! [`segmented`] is another kind of drive: it serves one command at a time from a segmented buffer.
//! The figures of a segmented drive are those of [`controller`], as DiskSim's parameter files
//! ([`diskspecs`]) describe the drives of the 1990s. Layout and mechanics are the same as in a
//! drive with a command queue.

pub(crate) mod account;
pub mod actuators;
pub mod controller;
pub mod diskspecs;
pub mod drive;
pub mod layout;
pub mod mechanics;
pub mod pending;
pub mod physical_sectors;
pub mod power;
pub mod profile;
pub mod read_buffer;
pub mod scheduler;
pub mod seek_curve;
pub mod segmented;
pub mod shingled;
pub mod staging;
pub mod write_cache;

use bimetal_core::units::Sectors;

use crate::DeviceModel;
use crate::profile::BadFigure;

pub use actuators::MultiActuatorHdd;
pub use drive::Hdd;
pub use profile::{HddProfile, Recording};
pub use segmented::SegmentedHdd;
pub use shingled::ShingledHdd;

/// Builds the drive that `profile` describes with `own` sectors, for `capacity`: see [`Hdd::new`].
///
/// # Errors
/// Returns the figure that no drive can have.
pub fn build(profile: &HddProfile, own: Sectors, capacity: Sectors) -> Result<Box<dyn DeviceModel>, BadFigure> {
    Ok(match &profile.controller {
        Some(controller) => Box::new(SegmentedHdd::new(profile, controller, own, capacity)?),
        None if profile.recording == Recording::Smr => Box::new(ShingledHdd::new(profile, own, capacity)?),
        None if profile.actuators > 1 => Box::new(MultiActuatorHdd::new(profile, own, capacity)?),
        None => Box::new(Hdd::new(profile, own, capacity)?),
    })
}
