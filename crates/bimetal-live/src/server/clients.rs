//! Clients: their sockets, and the times at which the server receives from and sends to each.

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

/// Maximum duration of a handshake.
const HANDSHAKE_TIME: Nanoseconds = Nanoseconds::from_seconds(10);
/// Maximum of clients that have not chosen an export.
const HANDSHAKES_MAX: usize = 64;
/// Maximum of parts sent with one call.
const PARTS_MAX: usize = 256;

/// NBD client.
pub(super) struct Client {
    socket: OwnedFd,
    codec: Codec,
    /// Certificates for a connection that requests TLS, and its encryption once TLS has begun.
    credentials: Option<Credentials>,
    tls: Option<Tls>,
    number: u64,
    /// Set if the server made the connection to itself.
    is_own: bool,
    since: Nanoseconds,
    /// Set while the socket may have bytes to receive, and while it may accept bytes.
    readable: bool,
    writable: bool,
    /// Set while the client is in the list of active clients.
    listed: bool,
}

impl Server {
    /// Accepts waiting clients. Each may negotiate; it counts as connected when it chooses an
    /// export.
    pub(super) fn accept(&mut self, number: usize) {
        while let Some(listener) = self.listeners.get(number) {
            match listener.accept() {
                Ok(Some(socket)) => {
                    let credentials = listener.tls().cloned();
                    self.make_room_for_handshake();
                    self.let_in(socket, credentials);
                }
                // If the system has no descriptor left, accepting is tried again for the next
                // client.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Closes the client whose handshake is oldest, if too many clients negotiate. So idle
    /// connections cannot keep other clients away.
    fn make_room_for_handshake(&mut self) {
        let shaking = self.clients.iter().filter(|(_, client)| !client.codec.in_transmission());
        if shaking.clone().count() < HANDSHAKES_MAX {
            return;
        }
        if let Some(oldest) = shaking.min_by_key(|(_, client)| client.number).map(|(key, _)| key) {
            self.close(oldest);
        }
    }

    /// Returns the number of clients that have chosen an export. The server's connection to itself,
    /// for the kernel, is not counted.
    pub(super) fn clients_connected(&self) -> usize {
        self.clients.iter().filter(|(_, client)| client.codec.in_transmission() && !client.is_own).count()
    }

    /// Receives once from each active client, and closes the clients that have disconnected.
    pub(super) fn look_at_clients(&mut self) {
        for _ in 0..self.active.len() {
            let Some(key) = self.active.pop_front() else { break };
            self.receive(key);
        }
        self.send_replies();
    }

    /// Returns the client's end of a new connection, which is served like an accepted one.
    ///
    /// # Errors
    /// Fails if the system gives no socket.
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
        // A client whose socket cannot be watched is dropped.
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
        // An earlier event of the same batch may have closed the client.
        let Some(client) = self.clients.get_mut(key) else { return };
        client.readable |= readable;
        client.writable |= writable;
        self.list(key);
    }

    /// Receives once from a client, and submits its requests to the volume.
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

    /// Gives a client the result of its request.
    pub(super) fn answer(&mut self, key: usize, number: u64, ticket: Ticket, result: Result<Buffers, ReplyError>) {
        let Some(client) = self.clients.get_mut(key).filter(|client| client.number == number) else { return };
        client.codec.reply(ticket, result);
        self.dirty.push(key);
    }

    /// Sends to every client with replies. Closes clients that are done, and lists clients with
    /// more input.
    pub(super) fn send_replies(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(client) = self.clients.get_mut(key) else { continue };
            if client.send().is_err() || client.is_over() {
                self.close(key);
                continue;
            }
            // Requests that were held back may be handled now that replies are sent.
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

    /// Returns the time at which the oldest handshake must be over.
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

    /// Returns true if every client has received all replies.
    pub(super) fn clients_are_served(&self) -> bool {
        self.clients.iter().all(|(_, client)| client.is_sent())
    }
}

impl Client {
    /// Returns true if the client may have bytes to receive.
    fn has_input(&self) -> bool {
        self.readable || self.tls.as_ref().is_some_and(Tls::has_plain)
    }

    /// Returns true if all bytes for the client are sent.
    fn is_sent(&self) -> bool {
        self.codec.outbox().is_empty() && self.tls.as_ref().is_none_or(Tls::is_sent)
    }

    /// Receives once. An error means that the client has disconnected.
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
                // The socket is empty after a short read; an event announces further bytes.
                self.readable = count == wanted;
                self.codec.received(count);
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sends as many bytes as the socket takes. An error means that the client has disconnected.
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

    /// Returns true if the connection can be closed. An invalid client is closed at once, a client
    /// that has disconnected once it has its replies.
    fn is_over(&self) -> bool {
        match self.codec.closed() {
            None => false,
            Some(Closed::Disconnected) => self.codec.requests_under_way() == 0 && self.is_sent(),
            Some(Closed::Protocol(_) | Closed::UnknownExport | Closed::NeedsTls | Closed::Full) => true,
        }
    }
}
