//! The control side of a running server: what people and scripts ask of it, and what it answers.
//!
//! A Unix socket of the owner's beside the one that serves blocks; one JSON document a line, in either direction
//! ([`message`]). [`codec`] is that protocol without a socket, with bounds; [`exchange`] the buffers below it; [`http`] is what the metrics
//! are fetched by; [`report`](mod@report) says what is lost; [`status`] is the
//! document that `status` gives, [`offline`] the same without a server; [`client`] how a command asks. The server's own loop reads and answers (`server/visitors.rs`):
//! nothing here touches a volume. Read first: [`message`].

pub mod about;
pub mod client;
pub mod codec;
pub mod exchange;
pub mod http;
pub mod message;
pub mod offline;
pub mod report;
pub mod status;

use std::path::PathBuf;

use crate::member::directories;

/// The control socket of the server of the volume `name`.
pub fn socket_of(name: &str) -> PathBuf {
    directories::run_time().join(format!("{name}.control"))
}
