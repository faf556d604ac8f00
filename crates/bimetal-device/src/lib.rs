//! Drives: devices, files, and files that are as slow as another drive. Drives are opened,
//! examined, locked, and given operations.
//!
//! A drive here stands alone: nothing here makes, finds or serves a volume of drives. A label is
//! content of a drive, which is found and not overwritten. Read first: [`drive`].
//!
//! - [`drive`]: drives that carry out operations, a file for each kind.
//! - [`buffer`]: memory for data.
//! - [`probe`](mod@probe): the kind of a path, and its users.
//! - [`signature`]: existing content of a drive. [`page`]: pages of labels, read.
//! - [`lock`]: locks of drives against other programs.

pub mod buffer;
pub mod drive;
pub mod lock;
mod memory;
pub mod page;
pub mod probe;
pub mod signature;
