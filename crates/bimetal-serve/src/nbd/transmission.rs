//! Transmission phase: requests and their replies.

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{SECTOR_BYTES, SectorRange};
use bimetal_device::buffer::{Buffers, Filling};

use super::codec::{Closed, Codec, State};
use super::protocol::{self as nbd, ReplyError, chunk, command, command_flag};
use super::{Export, Extent, REQUEST_BYTES_MAX, Request, StatusRequest, Ticket};

/// Maximum of extents in an answer.
const STATUS_EXTENTS_MAX: usize = 256;

/// Request whose payload may not have arrived.
pub(super) struct Header {
    pub(super) ticket: Ticket,
    pub(super) command: Command,
}

/// Request as encoded in the protocol.
#[derive(Clone, Copy)]
struct Wire {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Codec {
    /// Parses a header. Returns the request if it has no payload to wait for.
    pub(super) fn request_header(&mut self) -> Option<Request> {
        let mut fields = self.fields(nbd::REQUEST_HEADER_BYTES);
        let (magic, flags, command, cookie) = (fields.u32()?, fields.u16()?, fields.u16()?, fields.u64()?);
        let wire = Wire { flags, command, cookie, offset: fields.u64()?, len: fields.u32()? };
        if magic != nbd::REQUEST_MAGIC {
            self.close(Closed::Protocol("a request without its magic number"));
            return None;
        }
        match wire.command {
            command::DISC => self.close(Closed::Disconnected),
            command::BLOCK_STATUS => self.block_status(wire),
            _ => return self.begin_request(wire),
        }
        None
    }

    fn begin_request(&mut self, wire: Wire) -> Option<Request> {
        let is_write = wire.command == command::WRITE;
        match check(wire, &self.exports[self.export], self.structured) {
            Ok(header) if is_write => {
                self.state = State::Payload { header, filling: Filling::new(wire.len as usize), filled: 0 };
                None
            }
            Ok(header) => Some(self.give_out(header, Buffers::default())),
            Err(error) => {
                self.push_reply(ticket(wire), Err(error));
                if is_write {
                    // The client sends the payload of a refused write as well.
                    self.state = State::Skip { left: wire.len.into(), handshake: false };
                }
                None
            }
        }
    }

    fn block_status(&mut self, wire: Wire) {
        let export = &self.exports[self.export];
        let known = wire.flags & !command_flag::REQ_ONE == 0 && self.meta_context.is_some();
        if !known || wire.len == 0 || !is_within(wire, export) || !is_aligned(wire, export) {
            return self.push_error_chunk(wire.cookie, ReplyError::Invalid);
        }
        let one = wire.flags & command_flag::REQ_ONE != 0;
        self.status = Some(StatusRequest {
            export: self.export as u16,
            range: SectorRange::new(wire.offset / SECTOR_BYTES, u64::from(wire.len) / SECTOR_BYTES),
            extents_max: if one { 1 } else { STATUS_EXTENTS_MAX },
            cookie: wire.cookie,
        });
    }

    /// Answers a block status request, from the beginning of the range as far as the sectors in
    /// `extents` reach. Each extent ends on a multiple of the minimum block size, within the range.
    ///
    /// # Panics
    ///
    /// Panics if `extents` is empty, or has more extents than the request allows.
    pub fn answer_status(&mut self, request: StatusRequest, extents: &[Extent]) {
        assert!((1..=request.extents_max).contains(&extents.len()), "a reply has 1 extent to extents_max extents");
        self.push_chunk(request.cookie, chunk::BLOCK_STATUS, 4 + 8 * extents.len() as u32);
        self.outbox.push_head(&nbd::BASE_ALLOCATION_ID.to_be_bytes());
        for extent in extents {
            let flags = if extent.is_hole { nbd::STATE_HOLE | nbd::STATE_ZERO } else { 0 };
            let numbers = [extent.len.bytes().0 as u32, flags].map(u32::to_be_bytes);
            self.outbox.push_head(&numbers.concat());
        }
    }

    pub(super) fn push_reply(&mut self, ticket: Ticket, result: Result<Buffers, ReplyError>) {
        match result {
            Err(error) if ticket.is_read && self.structured => self.push_error_chunk(ticket.cookie, error),
            Err(error) => self.push_simple(ticket.cookie, error as u32),
            Ok(data) if ticket.is_read && self.structured => {
                self.push_chunk(ticket.cookie, chunk::OFFSET_DATA, 8 + data.bytes() as u32);
                self.outbox.push_head(&ticket.offset.to_be_bytes());
                self.outbox.push_data(&data);
            }
            Ok(data) => {
                self.push_simple(ticket.cookie, 0);
                self.outbox.push_data(&data);
            }
        }
    }

    fn push_simple(&mut self, cookie: u64, error: u32) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&nbd::SIMPLE_REPLY_MAGIC.to_be_bytes());
        head[4..8].copy_from_slice(&error.to_be_bytes());
        head[8..].copy_from_slice(&cookie.to_be_bytes());
        self.outbox.push_head(&head);
    }

    fn push_error_chunk(&mut self, cookie: u64, error: ReplyError) {
        if !self.structured {
            return self.push_simple(cookie, error as u32);
        }
        self.push_chunk(cookie, chunk::ERROR, 6);
        self.outbox.push_head(&(error as u32).to_be_bytes());
        self.outbox.push_head(&0u16.to_be_bytes());
    }

    /// Sends the head of a chunk that is the only chunk of its reply.
    fn push_chunk(&mut self, cookie: u64, kind: u16, len: u32) {
        let mut head = [0; 20];
        head[..4].copy_from_slice(&nbd::STRUCTURED_REPLY_MAGIC.to_be_bytes());
        head[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
        head[6..8].copy_from_slice(&kind.to_be_bytes());
        head[8..16].copy_from_slice(&cookie.to_be_bytes());
        head[16..].copy_from_slice(&len.to_be_bytes());
        self.outbox.push_head(&head);
    }
}

fn ticket(wire: Wire) -> Ticket {
    let carries = matches!(wire.command, command::READ | command::WRITE);
    Ticket {
        cookie: wire.cookie,
        offset: wire.offset,
        held_bytes: if carries { wire.len } else { 0 },
        is_read: wire.command == command::READ,
    }
}

fn is_within(wire: Wire, export: &Export) -> bool {
    wire.offset.checked_add(wire.len.into()).is_some_and(|end| end <= export.bytes)
}

fn is_aligned(wire: Wire, export: &Export) -> bool {
    let unit = u64::from(export.block_min_bytes);
    wire.offset.is_multiple_of(unit) && u64::from(wire.len).is_multiple_of(unit)
}

/// Returns the request in the wire's numbers, or the error for an invalid request.
fn check(wire: Wire, export: &Export, structured: bool) -> Result<Header, ReplyError> {
    let (kind, flags) = match wire.command {
        command::READ => (OpKind::Read, if structured { command_flag::DF } else { 0 }),
        command::WRITE => (OpKind::Write, 0),
        command::FLUSH => (OpKind::Flush, 0),
        command::TRIM => (OpKind::Discard, 0),
        // `FAST_ZERO` is not accepted, because it was not offered.
        command::WRITE_ZEROES => (OpKind::WriteZeroes, command_flag::NO_HOLE),
        _ => return Err(ReplyError::Invalid),
    };
    if wire.flags & !(flags | command_flag::FUA) != 0 {
        return Err(ReplyError::Invalid);
    }
    let fua = wire.flags & command_flag::FUA != 0 && kind.changes_content();
    if kind == OpKind::Flush {
        let command = Command { kind, range: SectorRange::default(), fua };
        return Ok(Header { ticket: ticket(wire), command });
    }
    let carries = matches!(kind, OpKind::Read | OpKind::Write);
    if wire.len == 0 || (carries && wire.len > REQUEST_BYTES_MAX) || !is_aligned(wire, export) {
        return Err(ReplyError::Invalid);
    }
    if !is_within(wire, export) {
        return Err(if kind == OpKind::Write { ReplyError::NoSpace } else { ReplyError::Invalid });
    }
    let range = SectorRange::new(wire.offset / SECTOR_BYTES, u64::from(wire.len) / SECTOR_BYTES);
    Ok(Header { ticket: ticket(wire), command: Command { kind, range, fua } })
}
