//! The server of a volume: runs [`bimetal_core::volume::Volume`] over real drives and serves it as
//! a block device.
//!
//! The server moves bytes between drives and clients, tells the engine the time, and counts for the
//! metrics. The server decides nothing about bytes on disk: the core decides the places of blocks,
//! and `bimetal-volumes` opens, labels and recovers the volume before it is served. Start with
//! [`server`], which owns all state and runs the loop.
//!
//! - [`nbd`]: the protocol of the clients. [`replay`]: a client that plays a trace.
//! - [`control`]: requests to a running server about itself.
//! - [`snapshot`]: counters of a server, as data. [`status`](mod@status) and [`metrics`] make
//!   documents of these counters.
//! - `ublk`: a block device of the kernel (with the feature of this name).
//!
//! The server uses the protocols and the documents, and none of them uses the server.

pub mod control;
pub mod metrics;
pub mod nbd;
pub mod replay;
pub mod server;
pub mod snapshot;
pub mod status;
#[cfg(feature = "ublk")]
pub mod ublk;
