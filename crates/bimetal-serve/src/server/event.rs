//! Events with their payloads: all that happens to a server from outside.
//!
//! `select.rs` waits until sources are ready, takes the events of each, and applies them. Applying
//! an event changes the server's own state and needs no socket, so tests apply events by hand.

use std::time::Instant;

use bimetal_core::operation::Completion;
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::Failure;

use super::Server;
use super::handle::Letter;
use crate::control::message;
use crate::nbd;

/// Event with its payload.
pub(super) enum Event {
    /// The clock was read.
    Time(Instant),
    /// A client, by key and number, has sent a request.
    Request { key: usize, number: u64, request: nbd::Request },
    /// A drive has ended operations. `failures` are recent errors of the system from the drive.
    Ended { drive: usize, completions: Vec<Completion<Buffers>>, failures: Vec<Failure> },
    /// A visitor, by key, has sent a control request.
    Control { key: usize, request: message::Request },
    /// SIGTERM or SIGINT has arrived.
    Signal,
    /// Another thread has sent a message.
    Letter(Letter),
}

impl Server {
    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Time(now) => self.note_time(now),
            Event::Request { key, number, request } => self.submit(key, number, request),
            Event::Ended { drive, completions, failures } => self.note_ended(drive, completions, &failures),
            Event::Control { key, request } => {
                if let Some(reply) = self.hear(key, request) {
                    self.tell(key, &reply);
                }
            }
            Event::Signal => self.hear_signal(),
            Event::Letter(letter) => self.read_letter(letter),
        }
    }
}
