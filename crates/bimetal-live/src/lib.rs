//! The live shell: runs [`bimetal_core::volume::Volume`] over real drives and serves it as a block
//! device.
//!
//! It opens drives, moves bytes between drives and clients, keeps the time, and counts. It decides
//! nothing about bytes on disk: the core decides the places of blocks and the content of labels and
//! journal pages. Start with [`server`], which owns all state and runs the loop.
//!
//! - [`nbd`]: the protocol of the clients.
//! - [`drive`]: drives that carry out operations.
//! - [`buffer`]: memory for data.
//! - [`member`]: search, labels and creation of a volume's drives.
//! - [`startup`]: formatting and recovery of a volume.
//! - [`attach`]: all steps before serving.
//! - [`control`]: requests to a running server about itself.
//! - [`metrics`]: figures for Prometheus.
//! - `ublk`: a block device of the kernel (with the feature of this name).

pub mod attach;
pub mod buffer;
pub mod control;
pub mod drive;
pub mod member;
pub mod metrics;
pub mod nbd;
pub mod replay;
pub mod server;
pub mod startup;
#[cfg(feature = "ublk")]
pub mod ublk;
