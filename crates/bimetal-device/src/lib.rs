//! Drives: devices, files, and files that are as slow as another drive. Drives are opened,
//! examined, locked, and given operations.
//!
//! This crate treats a drive on its own: no part of it makes, finds or serves a volume of drives.
//! To this crate a label is content of a drive, and is found and not overwritten. Read first:
//! [`drive`].
//!
//! - [`drive`]: drives that carry out operations, a file for each kind.
//! - [`buffer`]: memory for data.
//! - [`probe`](mod@probe): the kind of a path, and its users.
//! - [`signature`]: existing content of a drive. [`page`]: reads of the pages of labels.
//! - [`lock`]: locks of drives against other programs.

pub mod buffer;
pub mod drive;
pub mod lock;
mod memory;
pub mod page;
pub mod probe;
pub mod signature;
