//! Control side of a running server: requests of people and scripts, and their replies.
//!
//! The protocol is one JSON document a line, in either direction ([`message`]). The protocol uses a
//! Unix socket of the owner, beside the socket that serves blocks.
//!
//! - [`codec`]: the protocol without a socket, with bounds.
//! - [`exchange`]: the buffers below the codecs.
//! - [`http`]: the protocol of the metrics page.
//! - [`client`]: the side of a command.
//!
//! The server's loop reads requests and sends replies (`server/visitors.rs`), and no part of this
//! folder touches a volume. Read first: [`message`].

pub mod client;
pub mod codec;
pub mod exchange;
pub mod http;
pub mod message;

use std::path::PathBuf;

use bimetal_volumes::directories;

/// Returns the control socket of the server of volume `name`.
pub fn socket_of(name: &str) -> PathBuf {
    directories::run_time().join(format!("{name}.control"))
}
