//! NBD protocol as a state machine: bytes in, requests out; replies in, bytes out. The module has
//! no socket, clock or thread.
//!
//! The server supports the fixed newstyle handshake with its options, simple and structured
//! replies, and the block status of `base:allocation`. The specification is doc/proto.md of the NBD
//! project. Whatever bytes a client sends, memory stays within [`Limits`], and the worst effect is
//! that the client's connection is closed.
//!
//! [`codec`] is one connection; `handshake` and `transmission` are its two phases. [`outbox`] holds
//! the bytes to be sent, and `protocol` has the numbers.

pub mod client;
pub mod codec;
pub mod fuzz;
mod handshake;
pub mod outbox;
pub(crate) mod protocol;
mod transmission;

use bimetal_core::operation::Command;
use bimetal_core::units::{SectorRange, Sectors};
use bimetal_device::buffer::Buffers;

pub use codec::{Closed, Codec};
pub use protocol::ReplyError;

/// Size of the largest read or write, in bytes.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Export that clients can choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Name; the first export also has the empty name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Size, a multiple of `block_min_bytes`.
    pub bytes: u64,
    /// Size of which offsets and lengths of requests must be multiples, in bytes: a power of two,
    /// at least 512.
    pub block_min_bytes: u32,
    /// Size of which offsets and lengths of requests should be multiples, in bytes.
    pub block_preferred_bytes: u32,
}

/// Limits of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum of requests under way.
    pub requests: usize,
    /// Maximum of bytes in requests under way and in replies that the client has not taken. One
    /// more request may exceed this maximum.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: 1024, bytes: 16 << 20 }
    }
}

/// Request of a client.
#[derive(Debug)]
pub struct Request {
    /// Data that the reply needs.
    pub ticket: Ticket,
    /// Number of the export.
    pub export: u16,
    /// Kind and range.
    pub command: Command,
    /// Data of a write.
    pub payload: Buffers,
}

/// Request for the block status of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusRequest {
    /// Number of the export.
    pub export: u16,
    /// Range of the request.
    pub range: SectorRange,
    /// Maximum of extents in the answer.
    pub extents_max: usize,
    cookie: u64,
}

/// Run of sectors of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Number of sectors.
    pub len: Sectors,
    /// Set if no data is stored in the run, so that the sectors read as zeroes.
    pub is_hole: bool,
}

/// Data of a request that its reply needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The client's identifier of the request.
    cookie: u64,
    /// Offset of a read, in bytes.
    offset: u64,
    /// Bytes that count against the limit.
    held_bytes: u32,
    is_read: bool,
}

#[cfg(test)]
mod tests;
