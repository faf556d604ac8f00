//! Visitors: who asks the server about itself. Few, rare and small: each is read from and answered at once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::control::Watch;
use super::endpoint::Listener;
use super::select::Source;
use super::{Endpoint, ServeError, Server};
use crate::control::codec::Codec;
use crate::control::message::Reply;

/// Visitors at once; who comes beyond that is turned away.
const VISITORS_MAX: usize = 64;
/// Bytes received with one call.
const CHUNK_BYTES: usize = 16 << 10;
/// Calls before others have their turn.
const TURNS_MAX: usize = 8;

/// A place where the server is asked about itself.
pub(super) struct Door {
    listener: Listener,
}

/// Who asks.
pub(super) struct Visitor {
    socket: OwnedFd,
    codec: Codec,
    readable: bool,
    writable: bool,
    /// Whether it is in the list of those whose turn was cut short.
    listed: bool,
    /// What it wants to hear of until that is done.
    pub(super) watch: Option<Watch>,
}

impl Server {
    /// Answers requests of the control protocol at `endpoint`, once the server runs.
    ///
    /// # Errors
    /// Somebody listens there already, or nobody can.
    pub(super) fn add_door(&mut self, endpoint: &Endpoint) -> Result<(), ServeError> {
        let listener = Listener::bind(endpoint, self.options.insecure_tcp)?;
        self.selector.add(Source::Door(self.control.doors.len()), listener.event())?;
        self.control.doors.push(Door { listener });
        Ok(())
    }

    pub(super) fn open_door(&mut self, number: usize) {
        while let Some(door) = self.control.doors.get(number) {
            let Ok(Some(socket)) = door.listener.accept() else { return };
            // Closing the connection is all that can be said to one too many.
            if self.control.visitors.len() >= VISITORS_MAX {
                continue;
            }
            let visitor =
                Visitor { socket, codec: Codec::default(), readable: true, writable: true, listed: false, watch: None };
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
            while let Some(request) =
                self.control.visitors.get_mut(key).and_then(|visitor| visitor.codec.next_request())
            {
                let reply = match request {
                    Ok(request) => self.hear(key, request),
                    Err(message) => Some(Reply::error(message)),
                };
                if let Some(reply) = reply {
                    self.control.visitors[key].codec.reply(&reply);
                }
            }
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

    /// Tells a visitor something, if it is still there.
    pub(super) fn tell(&mut self, key: usize, reply: &Reply) {
        if let Some(visitor) = self.control.visitors.get_mut(key) {
            visitor.codec.reply(reply);
            self.send_to_visitor(key);
        }
    }

    fn send_to_visitor(&mut self, key: usize) {
        let visitor = &mut self.control.visitors[key];
        let failed = visitor.send().is_err();
        if failed || visitor.codec.is_broken() && visitor.codec.unsent().is_empty() {
            self.turn_out(key);
        }
    }

    fn turn_out(&mut self, key: usize) {
        let visitor = self.control.visitors.remove(key);
        self.selector.remove(visitor.socket.as_fd());
    }

    /// Whether every visitor has what it was told.
    pub(super) fn visitors_are_served(&self) -> bool {
        self.control.visitors.iter().all(|(_, visitor)| visitor.codec.unsent().is_empty())
    }
}

impl Visitor {
    /// Receives once. An error means that the visitor is gone.
    fn receive(&mut self) -> Result<(), Errno> {
        if !self.goes_on() {
            return Ok(());
        }
        let mut chunk = [0; CHUNK_BYTES];
        match rustix::io::read(&self.socket, &mut chunk) {
            Ok(0) => return Err(Errno::CONNRESET),
            Ok(count) => self.codec.exchange().received(&chunk[..count]),
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether there is something to receive, and room for what it asks for.
    fn goes_on(&self) -> bool {
        self.readable && self.codec.wants_input()
    }

    /// Sends what the socket takes. An error means that the visitor is gone.
    fn send(&mut self) -> Result<(), Errno> {
        while self.writable && !self.codec.unsent().is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, self.codec.unsent(), flags) {
                Ok(sent) => self.codec.exchange().sent(sent),
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
