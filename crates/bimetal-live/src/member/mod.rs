//! Drives of a volume: the steps from a path to a labelled, locked member.
//!
//! - [`probe`](mod@probe): the kind of a path, and its users.
//! - [`signature`]: existing content of a drive.
//! - [`labels`]: labels, read and written.
//! - [`find`](mod@find): all drives of a volume, found by their labels. [`registry`] remembers
//!   files, which a search cannot find.
//! - [`lock`]: locks against other programs.
//! - [`create`](mod@create): creation of a volume from drives that [`verdict`] accepts.
//! - [`plan`](mod@plan): scheme and members of a label.
//! - [`held`]: a volume that was found and that this process holds.
//! - [`replace`](mod@replace): a new drive in the place of a missing or detached one.
//! - [`rescue`](mod@rescue): metadata that another program has overwritten, written again.
//! - [`resize`](mod@resize): new sizes of drives.
//! - [`settings`]: changes of parameters on the labels.
//! - `state`: the state on an open home drive.
//!
//! The core defines the content of a label and the assembly of labels to a volume
//! ([`bimetal_core::label`]). Nothing here serves a request. Read first: [`create`](mod@create).

pub mod create;
pub mod directories;
pub mod find;
pub mod held;
pub mod labels;
pub mod lock;
pub mod plan;
pub mod probe;
pub mod registry;
pub mod replace;
pub mod report;
pub mod rescue;
pub mod resize;
pub mod settings;
pub mod signature;
pub(crate) mod state;
pub mod verdict;
