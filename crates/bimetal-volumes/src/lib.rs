//! Volumes of drives: made, found, attached, changed and examined.
//!
//! This crate has all steps between the opening of drives and a server. The core defines the
//! content of a label and the assembly of labels to a volume ([`bimetal_core::label`]); this crate
//! opens, locks, reads and writes the drives. No module of this crate serves a request or knows a
//! server. Read first: [`create`](mod@create).
//!
//! A volume's life:
//!
//! - [`create`](mod@create): creation from drives that [`verdict`] accepts.
//! - [`find`](mod@find): all drives of a volume, found by their labels. [`registry`] remembers
//!   files, which a search cannot find.
//! - [`attach`](mod@attach): all steps before serving. [`startup`]: formatting and recovery.
//! - [`held`]: a volume that was found and that this process holds. [`volume_lock`]: its lock.
//! - [`replace`](mod@replace): a new drive in the place of a missing or detached drive.
//! - [`rescue`](mod@rescue): metadata that another program has overwritten, written again.
//! - [`resize`](mod@resize): new sizes of drives, and a newer on-disk format.
//! - [`settings`]: changes of parameters on the labels. [`former_settings`]: values that are
//!   refused now.
//!
//! Content of drives, read and written:
//!
//! - [`labels`]: labels. [`label_pages`]: their pages, read and written again. [`plan`]: scheme and
//!   members of a label.
//! - [`state`]: the state on home drives. [`report`](mod@report): the report of lost content.
//!
//! Descriptions of a volume:
//!
//! - [`about`]: names, paths and settings. [`lost`]: lost and bad content, as documents and texts.
//! - [`status`](mod@status): the document of the `status` command, as data. [`offline`] fills the
//!   document for a volume without a server. [`examine`]: recovery of a volume without a server,
//!   without changes.
//!
//! [`directories`], [`memory`] and [`system`] belong to the operating system: folders, free memory,
//! time, randomness.

pub mod about;
pub mod attach;
pub mod create;
pub mod directories;
pub mod examine;
pub mod find;
pub mod former_settings;
pub mod held;
mod home_content;
pub mod label_pages;
pub mod labels;
pub mod lost;
pub mod memory;
pub mod offline;
pub mod plan;
pub mod rating;
pub mod registry;
pub mod replace;
pub mod report;
pub mod rescue;
pub mod resize;
pub mod settings;
pub mod startup;
pub mod state;
pub mod status;
pub mod system;
pub mod verdict;
pub mod volume_lock;
