//! The live shell: runs [`bimetal_core::volume::Volume`] over real drives and serves it as a block device.
//!
//! It opens drives, moves bytes between them and clients, keeps the time, and counts. It decides nothing about bytes on
//! disk: where a block lies and what a label or a journal page says is the core's. Start with [`server`], the one
//! owner of all state and its loop; [`nbd`] is the protocol that clients speak, [`drive`] where operations go, [`buffer`]
//! what carries the data, [`member`] finds, labels and makes the drives of a volume, [`startup`] formats and
//! recovers one, [`attach`] does all that comes before serving, [`control`] is how a running server is asked about itself,
//! [`metrics`] what it tells Prometheus, `ublk` a block device of the kernel (with the feature of that name).

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
