//! Client side of an NBD connection, for `bimetal replay`. A replay measures times and looks at no
//! data, so the data of a read is received and dropped.
//!
//! The client uses the fixed newstyle handshake with `NBD_OPT_GO`, and simple replies, which every
//! server supports.

use bimetal_core::operation::{Command, OpKind};
use bimetal_device::buffer::Buffers;
use hashbrown::HashMap;

use super::outbox::Outbox;
use super::protocol::{self as nbd, Fields, command, command_flag, info, option, option_reply};

/// Maximum of bytes received with one call.
const STAGING_BYTES: usize = 256 << 10;

/// Reasons for which requests to a server fail.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// The server does not speak the protocol.
    #[error("the server does not speak NBD: {0}")]
    Protocol(&'static str),
    /// The server refuses the export.
    #[error("the server refuses export '{export}': {message}")]
    Refused {
        /// Name of the export.
        export: String,
        /// Text of the server, or the number of the error.
        message: String,
    },
    /// The server answers a request that is not under way.
    #[error("the server answers request {0}, which is not under way")]
    UnknownReply(u64),
}

/// Export as the server offers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Size of the export.
    pub bytes: u64,
    /// Size of which offsets and lengths of requests must be multiples, in bytes.
    pub block_min_bytes: u32,
    /// Size of the largest read or write, in bytes.
    pub request_bytes_max: u32,
}

/// End of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Cookie of the request.
    pub cookie: u64,
    /// Number of the error; 0 for success.
    pub error: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Greeting,
    OptionReply,
    Replies,
    /// The reply is followed by data of a read.
    Data {
        left: u64,
        reply: Reply,
    },
}

/// Connection of a client, without its socket.
pub struct Client {
    state: State,
    export: String,
    offer: Offer,
    outbox: Outbox,
    staging: Box<[u8]>,
    start: usize,
    end: usize,
    /// Requests under way, by cookie, with the number of bytes of data in their reply.
    under_way: HashMap<u64, u64, foldhash::fast::RandomState>,
}

impl Client {
    /// Begins a connection to `export`; the empty name stands for the server's first export.
    pub fn new(export: &str) -> Self {
        Self {
            state: State::Greeting,
            export: export.to_owned(),
            offer: Offer { bytes: 0, block_min_bytes: 1, request_bytes_max: super::REQUEST_BYTES_MAX },
            outbox: Outbox::default(),
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            under_way: HashMap::default(),
        }
    }

    /// Returns the server's offer, once the handshake is over.
    pub fn offer(&self) -> Option<Offer> {
        matches!(self.state, State::Replies | State::Data { .. }).then_some(self.offer)
    }

    /// Sends a request. `cookie` must differ from the cookies of requests under way. A write
    /// carries `payload`.
    pub fn ask(&mut self, cookie: u64, command: Command, payload: &Buffers) {
        let kind = match command.kind {
            OpKind::Read => command::READ,
            OpKind::Write => command::WRITE,
            OpKind::Flush | OpKind::Hint => command::FLUSH,
            OpKind::Discard => command::TRIM,
            OpKind::WriteZeroes => command::WRITE_ZEROES,
        };
        let (offset, len) = (command.range.start.bytes().0, command.range.len.bytes().0);
        let flags = if command.fua { command_flag::FUA } else { 0 };
        self.outbox.push_head(&nbd::REQUEST_MAGIC.to_be_bytes());
        self.outbox.push_head(&flags.to_be_bytes());
        self.outbox.push_head(&kind.to_be_bytes());
        self.outbox.push_head(&cookie.to_be_bytes());
        self.outbox.push_head(&offset.to_be_bytes());
        self.outbox.push_head(&(len as u32).to_be_bytes());
        if command.kind == OpKind::Write {
            assert_eq!(payload.bytes(), len, "a write carries what its range says");
            self.outbox.push_data(payload);
        }
        let before = self.under_way.insert(cookie, if command.kind == OpKind::Read { len } else { 0 });
        assert!(before.is_none(), "cookie {cookie} is used twice");
    }

    /// Sends the request that ends the connection.
    pub fn disconnect(&mut self) {
        self.outbox.push_head(&nbd::REQUEST_MAGIC.to_be_bytes());
        self.outbox.push_head(&[0, 0]);
        self.outbox.push_head(&command::DISC.to_be_bytes());
        self.outbox.push_head(&[0; 20]);
    }

    /// Returns the bytes to be sent.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Records that the server has taken `count` more bytes of [`outbox`](Self::outbox).
    pub fn sent(&mut self, count: usize) {
        self.outbox.sent(count);
    }

    /// Returns the buffer for received bytes. Callers first call [`next_reply`](Self::next_reply)
    /// until it returns `None`.
    pub fn input(&mut self) -> &mut [u8] {
        self.staging.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.staging[self.end..]
    }

    /// Records that `count` bytes were received.
    pub fn received(&mut self, count: usize) {
        self.end += count;
        assert!(self.end <= STAGING_BYTES, "no more is received than there was room for");
    }

    /// Returns the next reply, if it has arrived completely.
    ///
    /// # Errors
    ///
    /// Fails if the server violates the protocol, or refuses the export.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ClientError> {
        loop {
            let there = self.end - self.start;
            match self.state {
                State::Greeting if there >= 18 => self.greeting()?,
                State::OptionReply if there >= 20 => {
                    if !self.option_reply()? {
                        return Ok(None);
                    }
                }
                State::Replies if there >= 16 => {
                    let reply = self.reply_head()?;
                    let data = self.under_way.remove(&reply.cookie).ok_or(ClientError::UnknownReply(reply.cookie))?;
                    if data == 0 || reply.error != 0 {
                        return Ok(Some(reply));
                    }
                    self.state = State::Data { left: data, reply };
                }
                State::Data { left, reply } => {
                    let taken = left.min(there as u64);
                    self.take(taken as usize);
                    if taken == left {
                        self.state = State::Replies;
                        return Ok(Some(reply));
                    }
                    self.state = State::Data { left: left - taken, reply };
                    return Ok(None);
                }
                State::Greeting | State::OptionReply | State::Replies => return Ok(None),
            }
        }
    }

    fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.start += count;
        &self.staging[start..start + count]
    }

    fn greeting(&mut self) -> Result<(), ClientError> {
        let mut fields = Fields(self.take(18));
        let (magic, options, flags) = (fields.u64(), fields.u64(), fields.u16().unwrap_or_default());
        if (magic, options) != (Some(nbd::GREETING_MAGIC), Some(nbd::OPTION_MAGIC)) {
            return Err(ClientError::Protocol("no greeting"));
        }
        if flags & nbd::FLAG_FIXED_NEWSTYLE == 0 {
            return Err(ClientError::Protocol("it does not know the fixed newstyle handshake"));
        }
        let no_zeroes = if flags & nbd::FLAG_NO_ZEROES != 0 { nbd::CLIENT_NO_ZEROES } else { 0 };
        self.outbox.push_head(&(nbd::CLIENT_FIXED_NEWSTYLE | no_zeroes).to_be_bytes());
        let name = self.export.as_bytes();
        self.outbox.push_head(&nbd::OPTION_MAGIC.to_be_bytes());
        self.outbox.push_head(&option::GO.to_be_bytes());
        self.outbox.push_head(&(name.len() as u32 + 8).to_be_bytes());
        self.outbox.push_head(&(name.len() as u32).to_be_bytes());
        self.outbox.push_head(name);
        self.outbox.push_head(&1u16.to_be_bytes());
        self.outbox.push_head(&info::BLOCK_SIZE.to_be_bytes());
        self.state = State::OptionReply;
        Ok(())
    }

    /// Takes a reply to the option. Returns false if the reply has not arrived completely.
    fn option_reply(&mut self) -> Result<bool, ClientError> {
        let head = &self.staging[self.start..self.start + 20];
        let mut fields = Fields(head);
        let (magic, _, kind, len) = (fields.u64(), fields.u32(), fields.u32().unwrap_or(0), fields.u32().unwrap_or(0));
        if magic != Some(nbd::OPTION_REPLY_MAGIC) || len > nbd::OPTION_BYTES_MAX {
            return Err(ClientError::Protocol("no reply to an option"));
        }
        if self.end - self.start < 20 + len as usize {
            return Ok(false);
        }
        self.take(20);
        let data = self.take(len as usize).to_vec();
        match kind {
            option_reply::ACK if self.offer.bytes == 0 => return Err(ClientError::Protocol("an export without size")),
            option_reply::ACK => self.state = State::Replies,
            option_reply::INFO => self.take_info(&data),
            error => {
                let mut message = String::from_utf8_lossy(&data).into_owned();
                if message.is_empty() {
                    message = format!("error {error:#x}");
                }
                return Err(ClientError::Refused { export: self.export.clone(), message });
            }
        }
        Ok(true)
    }

    fn take_info(&mut self, data: &[u8]) {
        let mut fields = Fields(data);
        match fields.u16() {
            Some(info::EXPORT) => self.offer.bytes = fields.u64().unwrap_or(0),
            Some(info::BLOCK_SIZE) => {
                let (min, _, max) = (fields.u32(), fields.u32(), fields.u32());
                self.offer.block_min_bytes = min.filter(|min| min.is_power_of_two()).unwrap_or(1);
                self.offer.request_bytes_max = max.filter(|&max| max > 0).unwrap_or(super::REQUEST_BYTES_MAX);
            }
            _ => {}
        }
    }

    fn reply_head(&mut self) -> Result<Reply, ClientError> {
        let mut fields = Fields(self.take(16));
        let head = (|| Some((fields.u32()?, fields.u32()?, fields.u64()?)))();
        match head {
            Some((nbd::SIMPLE_REPLY_MAGIC, error, cookie)) => Ok(Reply { cookie, error }),
            _ => Err(ClientError::Protocol("a reply without its magic number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use bimetal_core::payload::Payload;
    use bimetal_core::units::{SectorRange, Sectors};
    use proptest::prelude::*;

    use super::super::{Codec, Export, Limits};
    use super::*;

    fn export() -> Export {
        let (name, description) = ("disk".to_owned(), String::new());
        Export { name, description, bytes: 1 << 30, block_min_bytes: 512, block_preferred_bytes: 4096 }
    }

    /// Returns up to `step` bytes of an outbox.
    fn carry(outbox: &Outbox, step: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = outbox.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(step).collect()
    }

    /// Exchanges bytes, `step` at a time, until both sides have sent everything. The server answers
    /// with `error`s for cookies that are multiples of three.
    fn talk(client: &mut Client, server: &mut Codec, step: usize) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::new();
        loop {
            let out = carry(client.outbox(), step);
            client.sent(out.len());
            let mut rest = &out[..];
            while !rest.is_empty() {
                let mut taken = 0;
                for mut room in server.input() {
                    let count = room.len().min(rest.len());
                    room[..count].copy_from_slice(&rest[..count]);
                    rest = &rest[count..];
                    taken += count;
                }
                server.received(taken);
                while let Some(request) = server.next_request() {
                    let len = request.command.range.len;
                    let failed = request.command.range.start.0.is_multiple_of(3);
                    let data =
                        if request.command.kind == OpKind::Read { Buffers::zeroes(len) } else { Buffers::empty() };
                    server.reply(request.ticket, if failed { Err(super::super::ReplyError::Io) } else { Ok(data) });
                }
            }
            let back = carry(server.outbox(), step);
            server.sent(back.len());
            client.input()[..back.len()].copy_from_slice(&back);
            client.received(back.len());
            while let Some(reply) = client.next_reply()? {
                replies.push(reply);
            }
            if out.is_empty() && back.is_empty() {
                return Ok(replies);
            }
        }
    }

    fn server() -> Codec {
        Codec::new(Arc::from([export()]), Limits::default())
    }

    #[test]
    fn the_handshake_tells_size_and_block_size() {
        for name in ["", "disk"] {
            let (mut client, mut server) = (Client::new(name), server());
            assert_eq!(client.offer(), None);
            talk(&mut client, &mut server, 7).unwrap();
            let request_bytes_max = super::super::REQUEST_BYTES_MAX;
            assert_eq!(client.offer(), Some(Offer { bytes: 1 << 30, block_min_bytes: 512, request_bytes_max }));
        }
    }

    #[test]
    fn an_export_that_is_not_there_is_an_error_in_the_servers_words() {
        let error = talk(&mut Client::new("other"), &mut server(), 1000).unwrap_err().to_string();
        assert_eq!(error, "the server refuses export 'other': unknown export");
    }

    #[test]
    fn what_is_no_server_is_an_error() {
        let mut client = Client::new("");
        client.input()[..20].copy_from_slice(b"HTTP/1.1 400 Bad Req");
        client.received(20);
        assert_eq!(client.next_reply(), Err(ClientError::Protocol("no greeting")));
    }

    #[test]
    fn a_reply_to_nothing_is_an_error() {
        let (mut client, mut server) = (Client::new(""), server());
        talk(&mut client, &mut server, 1 << 20).unwrap();
        let reply = [nbd::SIMPLE_REPLY_MAGIC.to_be_bytes().as_slice(), &[0; 4], &9u64.to_be_bytes()].concat();
        client.input()[..16].copy_from_slice(&reply);
        client.received(16);
        assert_eq!(client.next_reply(), Err(ClientError::UnknownReply(9)));
    }

    proptest! {
        #[test]
        fn every_request_gets_its_reply_however_bytes_arrive(
            requests in prop::collection::vec((0..4_u8, 0..1000_u64, 1..40_u64), 1..60),
            step in 1..5000_usize,
        ) {
            let (mut client, mut server) = (Client::new(""), server());
            talk(&mut client, &mut server, step).unwrap();
            let mut expected = Vec::new();
            for (cookie, (kind, start, len)) in requests.into_iter().enumerate() {
                let kind = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard][usize::from(kind)];
                let range = if kind == OpKind::Flush { SectorRange::default() } else { SectorRange::new(start, len) };
                let payload = if kind == OpKind::Write { Buffers::zeroes(Sectors(len)) } else { Buffers::empty() };
                client.ask(cookie as u64, Command { kind, range, fua: false }, &payload);
                let error = if range.start.0.is_multiple_of(3) { 5 } else { 0 };
                expected.push(Reply { cookie: cookie as u64, error });
            }
            prop_assert_eq!(talk(&mut client, &mut server, step).unwrap(), expected);
        }
    }
}
