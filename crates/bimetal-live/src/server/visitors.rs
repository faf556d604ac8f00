//! Visitors: who asks the server about itself. Few, rare and small: each is read from and answered at once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::control::Watch;
use super::endpoint::Listener;
use super::select::Source;
use super::{Endpoint, ServeError, Server, Tcp};
use crate::control::exchange::Exchange;
use crate::control::message::Reply;
use crate::control::{codec, http};
use crate::metrics;

/// Visitors at once; who comes beyond that is turned away.
const VISITORS_MAX: usize = 64;
/// Bytes received with one call.
const CHUNK_BYTES: usize = 16 << 10;
/// Calls before others have their turn.
const TURNS_MAX: usize = 8;

/// What is spoken at a door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    Control,
    Http,
}

/// A place where the server is asked about itself.
pub(super) struct Door {
    listener: Listener,
    language: Language,
}

impl Door {
    /// Where that is, if it is TCP.
    pub(super) fn address(&self) -> Option<String> {
        self.listener.address().map(|address| address.to_string())
    }
}

/// A conversation.
enum Speech {
    Control(codec::Codec),
    Http(http::Codec),
}

/// Who asks.
pub(super) struct Visitor {
    socket: OwnedFd,
    speech: Speech,
    readable: bool,
    writable: bool,
    /// Whether it is in the list of those whose turn was cut short.
    listed: bool,
    /// What it wants to hear of until that is done.
    pub(super) watch: Option<Watch>,
}

impl Server {
    /// Lets visitors in at `endpoint`, once the server runs.
    ///
    /// # Errors
    /// Somebody listens there already, or nobody can.
    pub(super) fn add_door(&mut self, endpoint: &Endpoint, language: Language) -> Result<(), ServeError> {
        // Figures are no secret on this machine; requests only ever go through a socket of the owner's.
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
            let same = self.control.visitors.iter().filter(|(_, visitor)| visitor.language() == language);
            // Closing the connection is all that can be said to one too many.
            if same.count() >= VISITORS_MAX {
                continue;
            }
            let visitor = Visitor { socket, speech, readable: true, writable: true, listed: false, watch: None };
            let key = self.control.visitors.insert(visitor);
            if self.selector.add(Source::Visitor(key), self.control.visitors[key].socket.as_fd()).is_err() {
                self.control.visitors.remove(key);
            }
        }
    }

    pub(super) fn visitor_ready(&mut self, key: usize, readable: bool, writable: bool) {
        // It may have been closed by what came before in the same batch of events.
        let Some(visitor) = self.control.visitors.get_mut(key) else { return };
        visitor.readable |= readable;
        visitor.writable |= writable;
        self.attend(key);
    }

    /// Lets those go on whose turn was cut short.
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

    /// Answers all that a visitor has asked.
    fn listen_to(&mut self, key: usize) {
        while let Some(visitor) = self.control.visitors.get_mut(key) {
            match &mut visitor.speech {
                Speech::Control(codec) => {
                    let Some(request) = codec.next_request() else { return };
                    let reply = match request {
                        Ok(request) => self.hear(key, request),
                        Err(message) => Some(Reply::error(message)),
                    };
                    reply.into_iter().for_each(|reply| self.tell(key, &reply));
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

    /// Tells a visitor something, if it is still there.
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
        self.selector.remove(visitor.socket.as_fd());
    }

    /// Whether every visitor has what it was told.
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

    /// Whether nothing more is to be said.
    fn is_over(&self) -> bool {
        let said = match &self.speech {
            Speech::Control(codec) => codec.is_broken(),
            Speech::Http(codec) => codec.is_answered(),
        };
        said && self.unsent().is_empty()
    }

    /// Receives once. An error means that the visitor is gone.
    fn receive(&mut self) -> Result<(), Errno> {
        if !self.goes_on() {
            return Ok(());
        }
        let mut chunk = [0; CHUNK_BYTES];
        match rustix::io::read(&self.socket, &mut chunk) {
            Ok(0) => return Err(Errno::CONNRESET),
            Ok(count) => self.exchange().received(&chunk[..count]),
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether there is something to receive, and room for what it asks for.
    fn goes_on(&self) -> bool {
        let wanted = match &self.speech {
            Speech::Control(codec) => codec.wants_input(),
            Speech::Http(codec) => !codec.is_answered(),
        };
        self.readable && wanted
    }

    /// Sends what the socket takes. An error means that the visitor is gone.
    fn send(&mut self) -> Result<(), Errno> {
        while self.writable && !self.unsent().is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, self.unsent(), flags) {
                Ok(sent) => self.exchange().sent(sent),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
