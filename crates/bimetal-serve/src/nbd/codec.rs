//! One connection: its phase, received bytes that were not parsed yet, and bytes to be sent.

use std::io::IoSliceMut;
use std::sync::Arc;

use bimetal_device::buffer::{Buffers, Filling};

use super::outbox::Outbox;
use super::protocol::{self as nbd, Fields, ReplyError};
use super::transmission::Header;
use super::{Export, Limits, Request, StatusRequest, Ticket};

/// Size of the buffer of bytes that were not parsed yet. A payload is received into its own memory,
/// except for the part that arrives with its header.
const STAGING_BYTES: usize = 64 << 10;
const _: () = assert!(STAGING_BYTES > nbd::OPTION_BYTES_MAX as usize + 16);

/// Reasons for which a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Closed {
    /// The client disconnected.
    #[error("the client disconnected")]
    Disconnected,
    /// The client does not speak the protocol.
    #[error("the client does not speak NBD: {0}")]
    Protocol(&'static str),
    /// The client chose an unknown export with `NBD_OPT_EXPORT_NAME`, which has no error reply.
    #[error("the client asked for an unknown export")]
    UnknownExport,
    /// The client chose an export with `NBD_OPT_EXPORT_NAME`, which has no error reply, and without
    /// the TLS that this server requires.
    #[error("the client did not ask for TLS, which this server requires")]
    NeedsTls,
    /// The client chose an export with `NBD_OPT_EXPORT_NAME`, which has no error reply, while the
    /// number of clients was at its maximum.
    #[error("the largest number of clients is connected already")]
    Full,
}

/// Encryption of a connection. The encryption itself is a layer below the codec, which sees plain
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encryption {
    None,
    /// TLS is required: options other than `STARTTLS` and `ABORT` are refused until the client
    /// requests TLS.
    Needed,
    /// The client has requested TLS. No bytes are parsed until TLS has begun.
    Begins,
    Begun,
}

pub(super) enum State {
    ClientFlags,
    OptionHeader,
    OptionData {
        option: u32,
        len: usize,
    },
    RequestHeader,
    Payload {
        header: Header,
        filling: Filling,
        filled: usize,
    },
    /// Bytes to be dropped, and the phase after these bytes.
    Skip {
        left: u64,
        handshake: bool,
    },
    Closed(Closed),
}

/// Connection without its socket.
pub struct Codec {
    pub(super) exports: Arc<[Export]>,
    pub(super) state: State,
    pub(super) outbox: Outbox,
    pub(super) encryption: Encryption,
    pub(super) no_zeroes: bool,
    pub(super) structured: bool,
    /// Export whose block status may be requested, while the same export is chosen.
    pub(super) meta_context: Option<usize>,
    pub(super) export: usize,
    staging: Box<[u8]>,
    /// Part of the staging area that is in use.
    start: usize,
    end: usize,
    limits: Limits,
    requests: usize,
    held_bytes: u64,
    in_transmission: bool,
    held_back: bool,
    /// Two flags: set while no export may be chosen, and set once a client was refused for this
    /// reason.
    pub(super) full: bool,
    pub(super) turned_away: bool,
    /// Block status request that waits for its answer. No bytes are parsed before the answer.
    pub(super) status: Option<StatusRequest>,
}

impl Codec {
    /// Begins a connection; its greeting is ready to be sent.
    ///
    /// # Panics
    ///
    /// Panics if there is no export.
    pub fn new(exports: Arc<[Export]>, limits: Limits) -> Self {
        assert!(!exports.is_empty(), "a server has an export");
        let mut outbox = Outbox::default();
        outbox.push_head(&nbd::GREETING_MAGIC.to_be_bytes());
        outbox.push_head(&nbd::OPTION_MAGIC.to_be_bytes());
        outbox.push_head(&(nbd::FLAG_FIXED_NEWSTYLE | nbd::FLAG_NO_ZEROES).to_be_bytes());
        Self {
            exports,
            state: State::ClientFlags,
            outbox,
            encryption: Encryption::None,
            no_zeroes: false,
            structured: false,
            meta_context: None,
            export: 0,
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            limits,
            requests: 0,
            held_bytes: 0,
            in_transmission: false,
            held_back: false,
            full: false,
            turned_away: false,
            status: None,
        }
    }

    /// Returns the connection with TLS required for everything except the greeting.
    pub fn needing_tls(self) -> Self {
        Self { encryption: Encryption::Needed, ..self }
    }

    /// Sets whether the number of clients is at its maximum. While the number of clients is at its
    /// maximum, no export can be chosen.
    pub fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    /// Returns true if the client was refused an export at the maximum of clients since the last
    /// call.
    pub fn take_turned_away(&mut self) -> bool {
        std::mem::take(&mut self.turned_away)
    }

    /// Returns true if TLS begins after the bytes in the outbox.
    pub fn tls_begins(&self) -> bool {
        self.encryption == Encryption::Begins
    }

    /// Records that the outbox is sent, and that all further bytes are encrypted.
    ///
    /// # Panics
    ///
    /// Panics if TLS [does not begin](Self::tls_begins), or if the outbox is not empty.
    pub fn tls_has_begun(&mut self) {
        assert!(self.tls_begins() && self.outbox.is_empty(), "TLS begins behind its announcement");
        self.encryption = Encryption::Begun;
    }

    /// Returns true if the handshake is over.
    pub fn in_transmission(&self) -> bool {
        self.in_transmission
    }

    /// Returns the reason for which the connection is over, if it is over. After the end of the
    /// connection no bytes are received.
    pub fn closed(&self) -> Option<Closed> {
        if let State::Closed(reason) = self.state { Some(reason) } else { None }
    }

    /// Returns the number of requests that were returned and have no reply.
    pub fn requests_under_way(&self) -> usize {
        self.requests
    }

    /// Returns the memory that requests and replies of this connection hold, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes + self.outbox.bytes()
    }

    /// Returns true if more bytes may be received; if not, replies must be given or sent before
    /// more bytes are received.
    pub fn wants_input(&self) -> bool {
        !matches!(self.state, State::Closed(_)) && !self.tls_begins() && !self.is_full() && self.has_room()
    }

    /// Returns true if there is room for received bytes; if not, requests that were held back must
    /// be handled before, because receiving zero bytes would look like the end of the connection.
    fn has_room(&self) -> bool {
        let payload = matches!(&self.state, State::Payload { filling, filled, .. } if *filled < filling.len());
        payload || self.end - self.start < STAGING_BYTES
    }

    /// Returns true if bytes that were held back can be parsed now.
    pub fn can_go_on(&self) -> bool {
        self.held_back && !matches!(self.state, State::Closed(_)) && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.requests >= self.limits.requests || self.held_bytes() >= self.limits.bytes
    }

    /// Returns the buffers for received bytes, in this order: the rest of a payload, and the bytes
    /// after it.
    pub fn input(&mut self) -> [IoSliceMut<'_>; 2] {
        if self.end == STAGING_BYTES {
            self.staging.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let payload = match &mut self.state {
            State::Payload { filling, filled, .. } => &mut filling.bytes_mut()[*filled..],
            _ => &mut [],
        };
        [IoSliceMut::new(payload), IoSliceMut::new(&mut self.staging[self.end..])]
    }

    /// Records that `count` bytes were received into the buffers of [`input`](Self::input). After
    /// that, call [`next_request`](Self::next_request) until it returns `None`.
    pub fn received(&mut self, mut count: usize) {
        if let State::Payload { filling, filled, .. } = &mut self.state {
            let taken = count.min(filling.len() - *filled);
            *filled += taken;
            count -= taken;
        }
        self.end += count;
        assert!(self.end <= STAGING_BYTES, "no more is received than there was room for");
    }

    /// Returns the next request, if it has arrived and more requests may be under way. After
    /// `None`, a block status request may have arrived ([`next_status`](Self::next_status)), with
    /// further requests after it.
    pub fn next_request(&mut self) -> Option<Request> {
        while !self.is_full() {
            if self.status.is_some() {
                return None;
            }
            let left = self.end - self.start;
            match std::mem::replace(&mut self.state, State::RequestHeader) {
                State::Payload { header, filling, filled } if filled == filling.len() => {
                    return Some(self.give_out(header, Buffers::from(filling.share())));
                }
                State::Payload { header, mut filling, mut filled } if left > 0 => {
                    let taken = left.min(filling.len() - filled);
                    let bytes = &self.staging[self.start..self.start + taken];
                    filling.bytes_mut()[filled..filled + taken].copy_from_slice(bytes);
                    filled += taken;
                    self.consume(taken);
                    self.state = State::Payload { header, filling, filled };
                }
                State::RequestHeader if left >= nbd::REQUEST_HEADER_BYTES => {
                    if let Some(request) = self.request_header() {
                        return Some(request);
                    }
                }
                State::ClientFlags if left >= 4 => self.client_flags(),
                State::OptionHeader if left >= 16 => self.option_header(),
                State::OptionData { option, len } if left >= len => {
                    let data = self.staging[self.start..self.start + len].to_vec();
                    self.consume(len);
                    self.state = State::OptionHeader;
                    self.answer_option(option, &data);
                }
                State::Skip { left: 0, handshake: true } => self.state = State::OptionHeader,
                State::Skip { left: 0, handshake: false } => {}
                State::Skip { left: skip, handshake } if left > 0 => {
                    let taken = skip.min(left as u64);
                    self.consume(taken as usize);
                    self.state = State::Skip { left: skip - taken, handshake };
                }
                waiting => {
                    self.state = waiting;
                    self.held_back = false;
                    return None;
                }
            }
        }
        self.held_back = true;
        None
    }

    /// Returns a block status request, which is to be [answered](Self::answer_status) at once.
    pub fn next_status(&mut self) -> Option<StatusRequest> {
        self.status.take()
    }

    /// Takes the end of a request: the data of a read, no data for other requests, or the error.
    pub fn reply(&mut self, ticket: Ticket, result: Result<Buffers, ReplyError>) {
        self.requests -= 1;
        self.held_bytes -= u64::from(ticket.held_bytes);
        self.push_reply(ticket, result);
    }

    /// Returns the bytes to be sent.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Records that the client has taken `count` more bytes of [`outbox`](Self::outbox).
    pub fn sent(&mut self, count: usize) {
        self.outbox.sent(count);
    }

    /// Takes the next `count` bytes, which must have arrived.
    pub(super) fn fields(&mut self, count: usize) -> Fields<'_> {
        let start = self.start;
        self.consume(count);
        // Consumed bytes stay in place until the next call of `input`.
        Fields(&self.staging[start..start + count])
    }

    /// Returns true if there are received bytes that were not parsed.
    pub(super) fn has_input(&self) -> bool {
        self.start < self.end
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "no more is understood than was received");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    pub(super) fn close(&mut self, reason: Closed) {
        self.state = State::Closed(reason);
    }

    pub(super) fn begin_transmission(&mut self, export: usize) {
        self.export = export;
        self.meta_context = self.meta_context.filter(|&chosen| chosen == export);
        self.in_transmission = true;
        self.state = State::RequestHeader;
    }

    pub(super) fn give_out(&mut self, header: Header, payload: Buffers) -> Request {
        let Header { ticket, command } = header;
        self.requests += 1;
        self.held_bytes += u64::from(ticket.held_bytes);
        Request { ticket, export: self.export as u16, command, payload }
    }
}
