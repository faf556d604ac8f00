//! Clients: their requests and replies, and the times at which the server receives from each and
//! sends to each.

use std::io;
#[cfg(feature = "ublk")]
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bimetal_core::units::Nanoseconds;
use bimetal_device::buffer::Buffers;

use super::Server;
use super::connection::Connection;
use super::event::Event;
use super::select::{Ready, Source};
use super::stop::Phase;
use crate::nbd::{Closed, Codec, ReplyError, Ticket};

/// Maximum duration of a handshake.
const HANDSHAKE_TIME: Nanoseconds = Nanoseconds::from_seconds(10);
/// Maximum of clients that have not chosen an export.
const HANDSHAKES_MAX: usize = 64;

/// NBD client.
pub(super) struct Client {
    /// `None` for a client that is fed by hand, in tests.
    connection: Option<Connection>,
    pub(super) codec: Codec,
    pub(super) number: u64,
    /// Set if the server made this connection to itself.
    is_own: bool,
    since: Nanoseconds,
    /// Set while the client is in the list of active clients.
    listed: bool,
}

impl Server {
    /// Accepts waiting clients. Each client may negotiate, and counts as connected when it chooses
    /// an export.
    pub(super) fn accept(&mut self, number: usize) {
        while let Some(listener) = self.listeners.get(number) {
            match listener.accept() {
                Ok(Some(socket)) => {
                    let credentials = listener.tls().cloned();
                    self.make_room_for_handshake();
                    self.let_in(Some(Connection::new(socket, credentials)));
                }
                // If the system has no descriptor left, accepting is tried again for the next
                // client.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Closes the client whose handshake is oldest, if too many clients negotiate. Because idle
    /// connections are closed, they cannot keep other clients away.
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

    /// Returns the client's end of a new connection, which is served like an accepted connection.
    ///
    /// # Errors
    /// Fails if the system has no socket left.
    #[cfg(feature = "ublk")]
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let (theirs, ours) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.let_in(Some(Connection::new(ours.into(), None)));
        let newest = self.clients.iter_mut().max_by_key(|(_, client)| client.number);
        newest.into_iter().for_each(|(_, client)| client.is_own = true);
        Ok(theirs)
    }

    /// Begins to serve a client. Returns the client's key; `None` if its socket cannot be watched.
    pub(super) fn let_in(&mut self, connection: Option<Connection>) -> Option<usize> {
        let mut codec = Codec::new(Arc::clone(&self.exports), self.options.limits);
        if connection.as_ref().is_some_and(Connection::needs_tls) {
            codec = codec.needing_tls();
        }
        self.clients_begun += 1;
        let client =
            Client { connection, codec, number: self.clients_begun, is_own: false, since: self.now, listed: false };
        let key = self.clients.insert(client);
        let event = self.clients[key].connection.as_ref().map(Connection::event);
        if event.is_some_and(|event| self.selector.add(Source::Client(key), event).is_err()) {
            self.clients.remove(key);
            return None;
        }
        self.list(key);
        Some(key)
    }

    fn list(&mut self, key: usize) {
        if !std::mem::replace(&mut self.clients[key].listed, true) {
            self.active.push_back(key);
        }
    }

    pub(super) fn client_ready(&mut self, key: usize, ready: Ready) {
        // An earlier event of the same batch may have closed the client.
        let Some(client) = self.clients.get_mut(key) else { return };
        client.connection.iter_mut().for_each(|connection| connection.ready(ready));
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
                    self.apply(Event::Request { key, number, request });
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

    pub(super) fn close(&mut self, key: usize) {
        let mut client = self.clients.remove(key);
        if let Some(connection) = &mut client.connection {
            connection.say_goodbye();
            self.selector.remove(connection.event());
        }
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
        self.connection.as_ref().is_some_and(Connection::has_input)
    }

    /// Returns true if all bytes for the client are sent.
    fn is_sent(&self) -> bool {
        self.codec.outbox().is_empty() && self.connection.as_ref().is_none_or(Connection::is_sent)
    }

    /// Receives once. An error means that the client has disconnected.
    fn receive(&mut self) -> io::Result<()> {
        let codec = &mut self.codec;
        self.connection.as_mut().map_or(Ok(()), |connection| connection.receive(codec))
    }

    /// Sends as many bytes as the socket takes. An error means that the client has disconnected.
    fn send(&mut self) -> io::Result<()> {
        let codec = &mut self.codec;
        self.connection.as_mut().map_or(Ok(()), |connection| connection.send(codec))
    }

    /// Returns true if the connection can be closed. An invalid client is closed at once, and a
    /// client that has disconnected is closed once its replies are ready.
    fn is_over(&self) -> bool {
        match self.codec.closed() {
            None => false,
            Some(Closed::Disconnected) => self.codec.requests_under_way() == 0 && self.is_sent(),
            Some(Closed::Protocol(_) | Closed::UnknownExport | Closed::NeedsTls | Closed::Full) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::{OpKind, Status};

    use super::super::ServerOptions;
    use super::super::testing::{Answer, Bench, SSD, command};
    use super::*;

    /// A new client may get the key of a client that has disconnected with requests under way. The
    /// reply to such a request must be dropped, because the new client would take it for a reply to
    /// its own request.
    #[test]
    fn reply_to_a_gone_client_never_reaches_its_successor() {
        let mut bench = Bench::new("ssd-only");
        let gone = bench.connect();
        bench.ask(gone, command(OpKind::Read, 0, 8), &[]);
        bench.disconnect(gone);
        let successor = bench.connect();
        assert_eq!(successor, gone, "the key is used again");
        let cookie = bench.ask(successor, command(OpKind::WriteZeroes, 80, 8), &[]);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.answers(successor), []);
        bench.end(SSD, Status::Done);
        assert_eq!(bench.answers(successor), [Answer::done(cookie)]);
    }

    #[test]
    fn client_without_an_export_is_closed_after_10_s() {
        let mut bench = Bench::new("ssd-only");
        let idle = bench.server.let_in(None).unwrap();
        let chosen = bench.connect();
        bench.pass(Nanoseconds::from_millis(9_999));
        assert!(bench.server.clients.contains(idle));
        bench.pass(Nanoseconds::from_millis(1));
        assert!(!bench.server.clients.contains(idle) && bench.server.clients.contains(chosen));
    }

    #[test]
    fn oldest_handshake_is_closed_for_the_65th() {
        let mut bench = Bench::new("ssd-only");
        let first = bench.server.let_in(None).unwrap();
        for _ in 1..HANDSHAKES_MAX {
            bench.server.make_room_for_handshake();
            bench.server.let_in(None);
        }
        assert!(bench.server.clients.contains(first));
        bench.server.make_room_for_handshake();
        assert!(!bench.server.clients.contains(first));
        assert_eq!(bench.server.clients.len(), HANDSHAKES_MAX - 1);
    }

    #[test]
    fn client_beyond_the_maximum_is_counted_and_reported() {
        let mut bench = Bench::with("ssd-only", ServerOptions { clients_max: 1, ..ServerOptions::default() });
        bench.connect();
        assert_eq!(bench.try_to_connect(), None);
        assert_eq!(bench.server.clients_turned_away(), 1);
        assert_eq!(bench.server.clients_connected(), 1);
        let lines = bench.lines();
        assert!(lines.len() == 1 && lines[0].contains("--clients-max=1"), "{lines:?}");
    }
}
