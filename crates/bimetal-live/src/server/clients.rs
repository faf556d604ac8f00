//! Clients: their sockets, and when each is received from and sent to.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
#[cfg(feature = "ublk")]
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bimetal_core::units::Nanoseconds;
use rustix::io::{Errno, readv};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::Server;
use super::select::Source;
use super::stop::Phase;
use super::tls::{Credentials, Tls};
use crate::buffer::Buffers;
use crate::nbd::{Closed, Codec, ReplyError, Ticket};

/// How long a client may take for its handshake.
const HANDSHAKE_TIME: Nanoseconds = Nanoseconds::from_seconds(10);
/// Clients at once that have not chosen an export yet.
const HANDSHAKES_MAX: usize = 64;
/// Parts sent with one call.
const PARTS_MAX: usize = 256;

/// A client.
pub(super) struct Client {
    socket: OwnedFd,
    codec: Codec,
    /// What the connection is encrypted with once it asks for it, and what encrypts it then.
    credentials: Option<Credentials>,
    tls: Option<Tls>,
    number: u64,
    /// Whether the server connected to itself for it.
    is_own: bool,
    since: Nanoseconds,
    /// Whether the socket may have something for us, and room for what we have.
    readable: bool,
    writable: bool,
    /// Whether it is in the list of clients to look at.
    listed: bool,
}

impl Server {
    /// Lets waiting clients in. Each may negotiate; it takes a place when it chooses an export.
    pub(super) fn accept(&mut self, number: usize) {
        while let Some(listener) = self.listeners.get(number) {
            match listener.accept() {
                Ok(Some(socket)) => {
                    let credentials = listener.tls().cloned();
                    self.make_room_for_handshake();
                    self.let_in(socket, credentials);
                }
                // Where the system has no descriptor left, the next client that comes finds out.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Of too many that negotiate, the one that has taken longest is closed: whoever opens
    /// connections and says nothing keeps nobody else away.
    fn make_room_for_handshake(&mut self) {
        let shaking = self.clients.iter().filter(|(_, client)| !client.codec.in_transmission());
        if shaking.clone().count() < HANDSHAKES_MAX {
            return;
        }
        if let Some(oldest) = shaking.min_by_key(|(_, client)| client.number).map(|(key, _)| key) {
            self.close(oldest);
        }
    }

    /// Clients that have chosen an export; the kernel, for which the server connected to itself, is
    /// none of them.
    pub(super) fn clients_connected(&self) -> usize {
        self.clients.iter().filter(|(_, client)| client.codec.in_transmission() && !client.is_own).count()
    }

    /// Receives from each client that may have something once, and closes those that have gone.
    pub(super) fn look_at_clients(&mut self) {
        for _ in 0..self.active.len() {
            let Some(key) = self.active.pop_front() else { break };
            self.receive(key);
        }
        self.send_replies();
    }

    /// A client's end of a connection that is let in as if it had come by itself.
    ///
    /// # Errors
    /// The system has no socket for it.
    #[cfg(feature = "ublk")]
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let (theirs, ours) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.let_in(ours.into(), None);
        let newest = self.clients.iter_mut().max_by_key(|(_, client)| client.number);
        newest.into_iter().for_each(|(_, client)| client.is_own = true);
        Ok(theirs)
    }

    fn let_in(&mut self, socket: OwnedFd, credentials: Option<Credentials>) {
        let mut codec = Codec::new(Arc::clone(&self.exports), self.options.limits);
        if credentials.is_some() {
            codec = codec.needing_tls();
        }
        self.clients_begun += 1;
        let client = Client {
            socket,
            codec,
            credentials,
            tls: None,
            number: self.clients_begun,
            is_own: false,
            since: self.now,
            readable: true,
            writable: true,
            listed: false,
        };
        let key = self.clients.insert(client);
        // A client that cannot be watched is gone again.
        if self.selector.add(Source::Client(key), self.clients[key].socket.as_fd()).is_err() {
            self.clients.remove(key);
            return;
        }
        self.list(key);
    }

    fn list(&mut self, key: usize) {
        if !std::mem::replace(&mut self.clients[key].listed, true) {
            self.active.push_back(key);
        }
    }

    pub(super) fn client_ready(&mut self, key: usize, readable: bool, writable: bool) {
        // It may have been closed by what came before in the same batch of events.
        let Some(client) = self.clients.get_mut(key) else { return };
        client.readable |= readable;
        client.writable |= writable;
        self.list(key);
    }

    /// Receives once from a client, and gives its requests to the volume.
    pub(super) fn receive(&mut self, key: usize) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.listed = false;
        if matches!(self.phase, Phase::Serving) {
            if client.has_input() && client.codec.wants_input() && client.receive().is_err() {
                return self.close(key);
            }
            let number = client.number;
            if !client.codec.in_transmission() {
                let full = self.clients_connected() >= self.options.clients_max;
                self.clients[key].codec.set_full(full);
            }
            loop {
                while let Some(request) = self.clients[key].codec.next_request() {
                    self.submit(key, number, request);
                }
                let Some(status) = self.clients[key].codec.next_status() else { break };
                let extents = self.extents(&status);
                self.clients[key].codec.answer_status(status, &extents);
            }
            if self.clients[key].codec.take_turned_away() {
                self.note_turned_away();
            }
        }
        self.dirty.push(key);
    }

    /// Gives a client the end of its request.
    pub(super) fn answer(&mut self, key: usize, number: u64, ticket: Ticket, result: Result<Buffers, ReplyError>) {
        let Some(client) = self.clients.get_mut(key).filter(|client| client.number == number) else { return };
        client.codec.reply(ticket, result);
        self.dirty.push(key);
    }

    /// Sends to every client that has something to get, and sees who is at an end or wants more.
    pub(super) fn send_replies(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = self.clients.get_mut(key) else { continue };
            if client.send().is_err() || client.is_over() {
                self.close(key);
                continue;
            }
            // What was received long ago may have room now that replies are gone.
            let serving = matches!(self.phase, Phase::Serving);
            let goes_on = client.codec.can_go_on() || (client.has_input() && client.codec.wants_input());
            if serving && goes_on {
                self.list(key);
            }
        }
        self.dirty = dirty;
    }

    fn close(&mut self, key: usize) {
        let mut client = self.clients.remove(key);
        if let Some(tls) = &mut client.tls {
            tls.say_goodbye(&client.socket);
        }
        self.selector.remove(client.socket.as_fd());
    }

    /// When the handshake that has taken longest must be over.
    pub(super) fn clients_deadline(&self) -> Option<Nanoseconds> {
        let shaking = self.clients.iter().filter(|(_, client)| !client.codec.in_transmission());
        shaking.map(|(_, client)| client.since.saturating_add(HANDSHAKE_TIME)).min()
    }

    pub(super) fn close_late_clients(&mut self) {
        if self.clients_deadline().is_none_or(|deadline| deadline > self.now) {
            return;
        }
        let late = |client: &Client| client.since.saturating_add(HANDSHAKE_TIME) <= self.now;
        let late = self.clients.iter().filter(|(_, client)| !client.codec.in_transmission() && late(client));
        for key in late.map(|(key, _)| key).collect::<Vec<_>>() {
            self.close(key);
        }
    }

    /// Whether every client has all replies to what it asked.
    pub(super) fn clients_are_served(&self) -> bool {
        self.clients.iter().all(|(_, client)| client.is_sent())
    }
}

impl Client {
    /// Whether something may be received.
    fn has_input(&self) -> bool {
        self.readable || self.tls.as_ref().is_some_and(Tls::has_plain)
    }

    /// Whether the client has taken everything that there was for it.
    fn is_sent(&self) -> bool {
        self.codec.outbox().is_empty() && self.tls.as_ref().is_none_or(Tls::is_sent)
    }

    /// Receives once. An error means that the client is gone.
    fn receive(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, &mut self.readable, &mut self.codec);
        }
        let mut room = self.codec.input();
        let wanted = room.iter().map(|slice| slice.len()).sum::<usize>();
        let received = if room[0].is_empty() {
            rustix::io::read(&self.socket, &mut *room[1])
        } else {
            readv(&self.socket, &mut room)
        };
        match received {
            Ok(0) => return Err(Errno::CONNRESET.into()),
            Ok(count) => {
                // Less than there was room for: the rest is not there yet, and its coming will be told.
                self.readable = count == wanted;
                self.codec.received(count);
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sends what there is and what the socket takes. An error means that the client is gone.
    fn send(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.send(&self.socket, &mut self.writable, &mut self.codec);
        }
        while self.writable && !self.codec.outbox().is_empty() {
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = self.codec.outbox().slices(&mut slices);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => self.codec.sent(sent),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.codec.tls_begins() && self.codec.outbox().is_empty() {
            self.begin_tls()?;
        }
        Ok(())
    }

    fn begin_tls(&mut self) -> io::Result<()> {
        let credentials = self.credentials.as_ref().expect("only where there are credentials a client may ask for TLS");
        self.tls = Some(Tls::new(credentials).map_err(io::Error::other)?);
        self.codec.tls_has_begun();
        Ok(())
    }

    /// Whether nothing more is to be said: at once with a client that makes no sense, and with one that said good-bye when it
    /// has its replies.
    fn is_over(&self) -> bool {
        match self.codec.closed() {
            None => false,
            Some(Closed::Disconnected) => self.codec.requests_under_way() == 0 && self.is_sent(),
            Some(Closed::Protocol(_) | Closed::UnknownExport | Closed::NeedsTls | Closed::Full) => true,
        }
    }
}
