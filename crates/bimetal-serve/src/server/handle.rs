//! Messages from other threads to the server: a mailbox, read by the thread that owns all state.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bimetal_core::scheme::{FileExtent, Foresight};
use rustix::event::{EventfdFlags, eventfd};

use super::event::Event;
use super::{ServeError, Server};
use crate::snapshot::Snapshot;

/// Message of another thread to the server.
pub(super) enum Letter {
    Snapshot(Sender<Snapshot>),
    /// Request to stop: the first request lets all requests of clients end, the second stops the
    /// server at once.
    Stop,
    /// Result of work outside the loop, to be applied.
    Apply(Box<dyn FnOnce(&mut Server) + Send>),
}

/// Error of a message to a server that no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped")]
pub struct Stopped;

/// Handle with which other threads query and stop a server.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Letter>,
    event: Arc<OwnedFd>,
}

impl Handle {
    /// Returns the counters of the server.
    ///
    /// # Errors
    ///
    /// Fails if the server has stopped.
    pub fn snapshot(&self) -> Result<Snapshot, Stopped> {
        let (sender, receiver) = channel();
        self.post(Letter::Snapshot(sender))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// Stops the server: the first call lets every request end and makes all data stable, the
    /// second stops the server at once.
    ///
    /// # Errors
    ///
    /// Fails if the server has stopped.
    pub fn stop(&self) -> Result<(), Stopped> {
        self.post(Letter::Stop)
    }

    /// Replaces the map of files of the volume's scheme. A scheme without a use for files ignores
    /// the map of files.
    ///
    /// # Errors
    ///
    /// Fails if the server has stopped.
    pub fn take_files(&self, files: Vec<FileExtent>) -> Result<(), Stopped> {
        let take = move |server: &mut Server| server.volume.foresee(&Foresight { tells_half: false, files: &files });
        self.post(Letter::Apply(Box::new(take)))
    }

    pub(super) fn post(&self, letter: Letter) -> Result<(), Stopped> {
        self.sender.send(letter).map_err(|_| Stopped)?;
        // The write fails only if the event is readable anyway.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        Ok(())
    }
}

/// Mailbox of the server.
pub(super) struct Mailbox {
    receiver: Receiver<Letter>,
    handle: Handle,
}

impl Mailbox {
    pub(super) fn new() -> Result<Self, ServeError> {
        let (sender, receiver) = channel();
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| ServeError::System { what: "make an event", error })?;
        Ok(Self { receiver, handle: Handle { sender, event: Arc::new(event) } })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.handle.event.as_fd()
    }
}

impl Server {
    pub(super) fn read_mailbox(&mut self) {
        let _ = rustix::io::read(&*self.mailbox.handle.event, &mut [0; 8]);
        while let Ok(letter) = self.mailbox.receiver.try_recv() {
            self.apply(Event::Letter(letter));
        }
    }

    pub(super) fn read_letter(&mut self, letter: Letter) {
        match letter {
            // The requester may have ended.
            Letter::Snapshot(answer) => drop(answer.send(self.snapshot())),
            Letter::Stop => self.stop(),
            Letter::Apply(apply) => apply(self),
        }
    }
}
