//! Visitors: connections with control requests, or for metrics. Visitors are few and small, so each
//! is read and answered at once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::control::Watch;
use super::endpoint::Listener;
use super::event::Event;
use super::select::Source;
use super::{Endpoint, ServeError, Server, Tcp};
use crate::control::exchange::Exchange;
use crate::control::message::Reply;
use crate::control::{codec, http};
use crate::metrics;

/// Maximum number of visitors for each protocol. A further control connection is closed; for a
/// further connection for metrics, the oldest is closed.
const VISITORS_MAX: usize = 64;
/// Maximum of bytes received with one call.
const CHUNK_BYTES: usize = 16 << 10;
/// Maximum of receive calls in one turn of a visitor.
const TURNS_MAX: usize = 8;

/// Protocol of a [`Door`]'s connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    Control,
    Http,
}

/// Listener for control requests or metrics.
pub(super) struct Door {
    listener: Listener,
    language: Language,
}

impl Door {
    /// Returns the address of a TCP listener.
    pub(super) fn address(&self) -> Option<String> {
        self.listener.address().map(|address| address.to_string())
    }
}

/// Protocol state of a visitor.
enum Speech {
    Control(codec::Codec),
    Http(http::Codec),
}

/// Connection with control requests, or for metrics.
pub(super) struct Visitor {
    /// `None` for a visitor that is fed by hand, in tests.
    socket: Option<OwnedFd>,
    speech: Speech,
    readable: bool,
    writable: bool,
    /// Set while the visitor is in the list of visitors that have more input after their turn.
    listed: bool,
    /// Number of the visitor in the order of arrival.
    number: u64,
    /// Task that the visitor watches.
    pub(super) watch: Option<Watch>,
}

impl Server {
    /// Accepts visitors at `endpoint`, once the server runs.
    ///
    /// # Errors
    /// Fails if another server listens at the endpoint, or if the endpoint is not possible.
    pub(super) fn add_door(&mut self, endpoint: &Endpoint, language: Language) -> Result<(), ServeError> {
        // Metrics are not secret on this machine; control requests always use a Unix socket of the
        // owner.
        let tcp = if language == Language::Http { Tcp::Plain } else { Tcp::Refused };
        let listener = Listener::bind(endpoint, &tcp)?;
        self.selector.add(Source::Door(self.control.doors.len()), listener.event())?;
        self.control.doors.push(Door { listener, language });
        Ok(())
    }

    pub(super) fn open_door(&mut self, number: usize) {
        while let Some(door) = self.control.doors.get(number) {
            let Ok(Some(socket)) = door.listener.accept() else { return };
            let language = door.language;
            let speech = match language {
                Language::Control => Speech::Control(codec::Codec::default()),
                Language::Http => Speech::Http(http::Codec::default()),
            };
            if !self.has_place_for(language) {
                continue;
            }
            self.control.arrived += 1;
            let (socket, number) = (Some(socket), self.control.arrived);
            let visitor =
                Visitor { socket, speech, readable: true, writable: true, listed: false, number, watch: None };
            let key = self.control.visitors.insert(visitor);
            let socket = self.control.visitors[key].socket.as_ref();
            if socket.is_some_and(|socket| self.selector.add(Source::Visitor(key), socket.as_fd()).is_err()) {
                self.control.visitors.remove(key);
            }
        }
    }

    /// Returns true if another visitor may speak `language`. The oldest visitor for metrics makes
    /// room, because it may be a program that asks nothing. Control connections are all of the
    /// owner, and their tasks may take long.
    fn has_place_for(&mut self, language: Language) -> bool {
        let same = self.control.visitors.iter().filter(|(_, visitor)| visitor.language() == language);
        if same.clone().count() < VISITORS_MAX {
            return true;
        }
        let oldest = same.min_by_key(|(_, visitor)| visitor.number).map(|(key, _)| key);
        let oldest = oldest.filter(|_| language == Language::Http);
        oldest.into_iter().for_each(|key| self.turn_out(key));
        oldest.is_some()
    }

    pub(super) fn visitor_ready(&mut self, key: usize, readable: bool, writable: bool) {
        // An earlier event of the same batch may have closed the visitor.
        let Some(visitor) = self.control.visitors.get_mut(key) else { return };
        visitor.readable |= readable;
        visitor.writable |= writable;
        self.attend(key);
    }

    /// Continues visitors with more input after their turn.
    pub(super) fn attend_waiting(&mut self) {
        for key in std::mem::take(&mut self.control.waiting) {
            if let Some(visitor) = self.control.visitors.get_mut(key) {
                visitor.listed = false;
                self.attend(key);
            }
        }
    }

    /// Receives, answers and sends, for one turn.
    fn attend(&mut self, key: usize) {
        for _ in 0..TURNS_MAX {
            let Some(visitor) = self.control.visitors.get_mut(key) else { return };
            if visitor.receive().is_err() {
                return self.turn_out(key);
            }
            self.listen_to(key);
            self.send_to_visitor(key);
            if !self.control.visitors.get(key).is_some_and(Visitor::goes_on) {
                return;
            }
        }
        let visitor = &mut self.control.visitors[key];
        if !std::mem::replace(&mut visitor.listed, true) {
            self.control.waiting.push(key);
        }
    }

    /// Answers all requests of a visitor.
    fn listen_to(&mut self, key: usize) {
        while let Some(visitor) = self.control.visitors.get_mut(key) {
            match &mut visitor.speech {
                Speech::Control(codec) => {
                    let Some(request) = codec.next_request() else { return };
                    match request {
                        Ok(request) => self.apply(Event::Control { key, request }),
                        Err(message) => self.tell(key, &Reply::error(message)),
                    }
                }
                Speech::Http(codec) => {
                    let Some(asked) = codec.next_request() else { return };
                    let page = (asked.path == "/metrics").then(|| self.metrics_page()).flatten();
                    let Some(Visitor { speech: Speech::Http(codec), .. }) = self.control.visitors.get_mut(key) else {
                        return;
                    };
                    match page {
                        Some(page) => codec.reply("200 OK", metrics::CONTENT_TYPE, &page, asked.head_only),
                        None => codec.reply("404 Not Found", "text/plain", "expected /metrics\n", asked.head_only),
                    }
                }
            }
        }
    }

    /// Sends a reply to a visitor, if the visitor is still connected.
    pub(super) fn tell(&mut self, key: usize, reply: &Reply) {
        if let Some(Visitor { speech: Speech::Control(codec), .. }) = self.control.visitors.get_mut(key) {
            codec.reply(reply);
            self.send_to_visitor(key);
        }
    }

    fn send_to_visitor(&mut self, key: usize) {
        let Some(visitor) = self.control.visitors.get_mut(key) else { return };
        if visitor.send().is_err() || visitor.is_over() {
            self.turn_out(key);
        }
    }

    fn turn_out(&mut self, key: usize) {
        let visitor = self.control.visitors.remove(key);
        visitor.socket.iter().for_each(|socket| self.selector.remove(socket.as_fd()));
    }

    /// Returns true if every visitor has received all its replies.
    pub(super) fn visitors_are_served(&self) -> bool {
        self.control.visitors.iter().all(|(_, visitor)| visitor.unsent().is_empty())
    }
}

impl Visitor {
    fn language(&self) -> Language {
        match self.speech {
            Speech::Control(_) => Language::Control,
            Speech::Http(_) => Language::Http,
        }
    }

    fn exchange(&mut self) -> &mut Exchange {
        match &mut self.speech {
            Speech::Control(codec) => codec.exchange(),
            Speech::Http(codec) => codec.exchange(),
        }
    }

    fn unsent(&self) -> &[u8] {
        match &self.speech {
            Speech::Control(codec) => codec.unsent(),
            Speech::Http(codec) => codec.unsent(),
        }
    }

    /// Returns true if the connection can be closed.
    fn is_over(&self) -> bool {
        let said = match &self.speech {
            Speech::Control(codec) => codec.is_broken(),
            Speech::Http(codec) => codec.is_answered(),
        };
        said && self.unsent().is_empty()
    }

    /// Receives once. An error means that the visitor has disconnected.
    fn receive(&mut self) -> Result<(), Errno> {
        if !self.goes_on() {
            return Ok(());
        }
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut chunk = [0; CHUNK_BYTES];
        match rustix::io::read(socket, &mut chunk) {
            Ok(0) => return Err(Errno::CONNRESET),
            Ok(count) => self.exchange().received(&chunk[..count]),
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns true if the visitor may have bytes to receive, and its codec takes more.
    fn goes_on(&self) -> bool {
        let wanted = match &self.speech {
            Speech::Control(codec) => codec.wants_input(),
            Speech::Http(codec) => !codec.is_answered(),
        };
        self.readable && wanted
    }

    /// Sends as many bytes as the socket takes. An error means that the visitor has disconnected.
    fn send(&mut self) -> Result<(), Errno> {
        while self.writable && !self.unsent().is_empty() {
            let Some(socket) = &self.socket else { break };
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(socket, self.unsent(), flags) {
                Ok(sent) => self.exchange().sent(sent),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Visitor {
    /// Makes a visitor with control requests that is fed by hand.
    pub(super) fn by_hand() -> Self {
        let speech = Speech::Control(codec::Codec::default());
        Self { socket: None, speech, readable: false, writable: false, listed: false, number: 0, watch: None }
    }

    /// Takes the bytes that are to be sent.
    pub(super) fn take_unsent(&mut self) -> Vec<u8> {
        let bytes = self.unsent().to_vec();
        self.exchange().sent(bytes.len());
        bytes
    }
}
