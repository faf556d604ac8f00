//! How other threads talk to the server: letters in a mailbox, answered by the one who owns all state.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

use super::{ServeError, Server, Snapshot};

/// What others ask of the server. The control socket and the metrics page add theirs here.
pub(super) enum Letter {
    Snapshot(Sender<Snapshot>),
    /// The first lets everything end, the second stops at once.
    Stop,
    /// What was done outside the loop is to be applied.
    Apply(Box<dyn FnOnce(&mut Server) + Send>),
}

/// The server no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped")]
pub struct Stopped;

/// A way to ask and to stop a server from other threads.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Letter>,
    event: Arc<OwnedFd>,
}

impl Handle {
    /// What the server counted so far.
    ///
    /// # Errors
    ///
    /// If it has stopped.
    pub fn snapshot(&self) -> Result<Snapshot, Stopped> {
        let (sender, receiver) = channel();
        self.post(Letter::Snapshot(sender))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// Stops the server: the first call lets every request end and makes everything stable, the second stops at once.
    ///
    /// # Errors
    ///
    /// If it has stopped.
    pub fn stop(&self) -> Result<(), Stopped> {
        self.post(Letter::Stop)
    }

    pub(super) fn post(&self, letter: Letter) -> Result<(), Stopped> {
        self.sender.send(letter).map_err(|_| Stopped)?;
        // Fails only where it is readable anyway.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        Ok(())
    }
}

/// Where letters arrive.
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
            match letter {
                // Whoever asked may have gone.
                Letter::Snapshot(answer) => drop(answer.send(self.snapshot())),
                Letter::Stop => self.stop(),
                Letter::Apply(apply) => apply(self),
            }
        }
    }
}
