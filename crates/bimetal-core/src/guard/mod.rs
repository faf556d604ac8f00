//! The guard: while a volume is attached, the beginning of its home drive lies elsewhere, so that
//! stale data is not mounted by mistake.
//!
//! The drive that is home of every address looks from byte 0 on like a plain disk, although newer
//! content lies on another drive. So the drive's first MiB moves to an *area* at the drive's end,
//! in two copies. In place of the first MiB stands a header that `blkid` and people recognise, and
//! that nothing mounts by mistake ([`header`]). To the volume the drive ends before the area, and
//! all content seems to be in its place: [`redirect`] sends operations on the first MiB to both
//! copies. [`change`] raises the guard and lowers it in steps; a power cut may come after each.
//! Read first: [`Area`].

pub mod change;
pub mod header;
pub mod redirect;

pub use crate::label::{Area, GUARDED};
