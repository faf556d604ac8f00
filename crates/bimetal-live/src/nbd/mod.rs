//! The NBD protocol as a state machine: bytes in, requests out; replies in, bytes out. No socket, no clock, no thread.
//!
//! The fixed newstyle handshake with its options, simple and structured replies, and the block status of
//! `base:allocation`, as the protocol's specification has them (doc/proto.md of the NBD project). Whatever a client
//! sends, memory stays within [`Limits`] and the worst that happens is that its connection is closed. [`codec`] is the
//! whole of one connection; `handshake` and `transmission` are the two phases, [`outbox`] what is to be sent,
//! `protocol` the numbers.

pub mod client;
pub mod codec;
pub mod fuzz;
mod handshake;
pub mod outbox;
pub(crate) mod protocol;
mod transmission;

use bimetal_core::operation::Command;
use bimetal_core::units::{SectorRange, Sectors};

pub use codec::{Closed, Codec};
pub use protocol::ReplyError;

use crate::buffer::Buffers;

/// The largest read or write, in bytes.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Something that clients can connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its name; the first export also answers to the empty name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its size, a multiple of `block_min_bytes`.
    pub bytes: u64,
    /// What requests must be multiples of, in bytes: a power of two, at least 512.
    pub block_min_bytes: u32,
    /// What requests are best multiples of, in bytes.
    pub block_preferred_bytes: u32,
}

/// What one connection may hold at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Requests under way.
    pub requests: usize,
    /// Bytes of requests under way and of replies that the client has not taken. One request more than that may be there.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: 1024, bytes: 16 << 20 }
    }
}

/// A request of a client.
#[derive(Debug)]
pub struct Request {
    /// What its reply needs.
    pub ticket: Ticket,
    /// The export, by number.
    pub export: u16,
    /// What and where.
    pub command: Command,
    /// What a write stores.
    pub payload: Buffers,
}

/// A question what a range holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusRequest {
    /// The export, by number.
    pub export: u16,
    /// Where.
    pub range: SectorRange,
    /// How many extents may be told at most.
    pub extents_max: usize,
    cookie: u64,
}

/// A run of sectors of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// How many.
    pub len: Sectors,
    /// Whether nothing is stored there, so that they read as zeroes.
    pub is_hole: bool,
}

/// What a reply needs of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// What the client calls it.
    cookie: u64,
    /// Where a read began, in bytes.
    offset: u64,
    /// What it counts against the limit, in bytes.
    held_bytes: u32,
    is_read: bool,
}

#[cfg(test)]
mod tests;
