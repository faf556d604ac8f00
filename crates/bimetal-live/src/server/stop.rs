//! Stopping: the server lets all requests end, makes their data stable, then closes the volume; or
//! stops at once.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use bimetal_core::units::Nanoseconds;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::unregister;

use super::Server;
use super::requests::Asker;

/// Maximum time for clients to take their last replies.
const LAST_REPLIES_TIME: Nanoseconds = Nanoseconds::from_seconds(5);

/// Phase of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Serving,
    /// No client is accepted and nothing is received; requests under way end.
    Draining,
    /// The volume makes everything stable.
    Flushing,
    /// The volume ends its moves and records that nothing is in doubt.
    Closing {
        stable: bool,
    },
    /// Clients take their last replies.
    Leaving {
        until: Nanoseconds,
        clean: bool,
    },
    Ended {
        clean: bool,
    },
}

/// SIGTERM and SIGINT, as bytes on a socket that can be waited for.
pub(super) struct Signals {
    bytes: UnixStream,
    registered: Vec<SigId>,
    /// Set once a signal has arrived.
    heard: bool,
}

impl Signals {
    pub(super) fn watch() -> io::Result<Self> {
        let (bytes, writer) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let mut signals = Self { bytes, registered: Vec::new(), heard: false };
        for signal in [SIGTERM, SIGINT] {
            signals.registered.push(signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signals)
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Returns the number of signals since the last call, and true if the first signal of all is
    /// among them.
    fn take(&mut self) -> (usize, bool) {
        let count = self.bytes.read(&mut [0; 16]).unwrap_or(0);
        (count, count > 0 && !std::mem::replace(&mut self.heard, true))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

impl Server {
    pub(super) fn read_signals(&mut self) {
        let (count, first) = self.signals.as_mut().map_or((0, false), Signals::take);
        // A server that ends after a drain is already doing what the first signal requests.
        let known = usize::from(first && self.control.drained);
        for _ in known..count {
            self.stop();
        }
    }

    /// Begins to stop, or stops at once if stopping has begun.
    pub(super) fn stop(&mut self) {
        match self.phase {
            Phase::Serving => {
                self.listeners.clear();
                self.phase = Phase::Draining;
            }
            Phase::Ended { .. } => {}
            _ => self.phase = Phase::Ended { clean: false },
        }
    }

    /// Takes the next step of stopping, if its condition is met. Returns true if there is new work.
    pub(super) fn go_on_stopping(&mut self) -> bool {
        match self.phase {
            Phase::Draining if self.open.is_empty() => {
                self.phase = Phase::Flushing;
                self.submit_flush(Asker::Stop, 0);
                return true;
            }
            Phase::Closing { stable } if self.volume.is_closed() => {
                let until = self.now.saturating_add(LAST_REPLIES_TIME);
                self.phase = Phase::Leaving { until, clean: stable };
                return true;
            }
            Phase::Leaving { until, clean }
                if (self.clients_are_served() && self.visitors_are_served()) || until <= self.now =>
            {
                self.phase = Phase::Ended { clean };
            }
            _ => {}
        }
        false
    }

    /// Closes the volume after the flush, which made everything stable or failed.
    pub(super) fn flushed(&mut self, stable: bool) {
        self.phase = Phase::Closing { stable };
        self.volume.close(self.now);
    }

    pub(super) fn stop_deadline(&self) -> Option<Nanoseconds> {
        if let Phase::Leaving { until, .. } = self.phase { Some(until) } else { None }
    }
}
