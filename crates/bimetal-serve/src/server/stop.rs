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
use super::event::Event;
use super::requests::Asker;

/// Maximum time for clients to take their last replies.
const LAST_REPLIES_TIME: Nanoseconds = Nanoseconds::from_seconds(5);

/// Phase of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Serving,
    /// No client is accepted, and no bytes are received; requests under way end.
    Draining,
    /// The volume makes all data stable.
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
}

impl Signals {
    pub(super) fn watch() -> io::Result<Self> {
        let (bytes, writer) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let mut signals = Self { bytes, registered: Vec::new() };
        for signal in [SIGTERM, SIGINT] {
            signals.registered.push(signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signals)
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Returns the number of signals since the last call.
    fn take(&mut self) -> usize {
        self.bytes.read(&mut [0; 16]).unwrap_or(0)
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
        for _ in 0..self.signals.as_mut().map_or(0, Signals::take) {
            self.apply(Event::Signal);
        }
    }

    pub(super) fn hear_signal(&mut self) {
        let first = !std::mem::replace(&mut self.signal_heard, true);
        // A server that ends after a drain is already doing what the first signal requests.
        if !(first && self.control.drained) {
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

    /// Takes the next step of stopping, if its condition is met. Returns true if the server has new
    /// work.
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

    /// Closes the volume after the flush, whether the flush made all data stable or failed.
    pub(super) fn flushed(&mut self, stable: bool) {
        self.phase = Phase::Closing { stable };
        self.volume.close(self.now);
    }

    pub(super) fn stop_deadline(&self) -> Option<Nanoseconds> {
        if let Phase::Leaving { until, .. } = self.phase { Some(until) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::{Command, OpKind, Status};

    use super::super::select::{Ready, Source};
    use super::super::testing::{Answer, Bench, SSD, command};
    use super::*;
    use crate::control::message::{Reply, Request};

    /// Order of the steps: no bytes are received any more, requests under way end, all data are
    /// made stable, and the client gets its reply.
    #[test]
    fn stop_lets_requests_under_way_end() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        let write = bench.ask(client, command(OpKind::Write, 0, 8), &[9; 4096]);
        bench.apply(Event::Signal);
        bench.send(client, command(OpKind::Write, 80, 8), &[1; 4096]);
        bench.server.client_ready(client, Ready::both(Source::Client(client)));
        bench.server.settle();
        assert_eq!(bench.server.phase, Phase::Draining);
        assert_eq!(bench.waiting(SSD), [command(OpKind::Write, 0, 8)]);

        bench.end(SSD, Status::Done);
        assert_eq!((bench.server.phase, bench.waiting(SSD)), (Phase::Flushing, vec![Command::FLUSH]));
        bench.run_for(LAST_REPLIES_TIME);
        assert!(matches!(bench.server.phase, Phase::Leaving { clean: true, .. }), "{:?}", bench.server.phase);
        assert_eq!(bench.answers(client), [Answer::done(write)]);
        assert_eq!(bench.server.phase, Phase::Ended { clean: true });
    }

    #[test]
    fn second_signal_ends_the_server_at_once() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        bench.ask(client, command(OpKind::Write, 0, 8), &[9; 4096]);
        bench.apply(Event::Signal);
        bench.apply(Event::Signal);
        assert_eq!(bench.server.phase, Phase::Ended { clean: false });
        assert_eq!(bench.waiting(SSD).len(), 1);
    }

    /// A drain to detach ends the server. During such a drain, a first signal asks for nothing more
    /// than the drain's own end, and must not make it shorter. A second signal must stop the server
    /// at once.
    #[test]
    fn first_signal_after_a_drain_changes_nothing() {
        let mut bench = Bench::new("ssd-only");
        let visitor = bench.visit();
        bench.request(visitor, Request::Drain { detach: true, force: false });
        assert!(bench.server.control.drained);
        let phase = bench.server.phase;
        assert_ne!(phase, Phase::Serving);
        bench.apply(Event::Signal);
        assert_eq!(bench.server.phase, phase);
        bench.apply(Event::Signal);
        assert_eq!(bench.server.phase, Phase::Ended { clean: false });
    }

    #[test]
    fn failed_flush_makes_the_end_unclean() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        bench.write(client, 0, 1);
        bench.apply(Event::Signal);
        assert_eq!(bench.waiting(SSD), [Command::FLUSH]);
        bench.end(SSD, Status::MediaError);
        bench.run_for(LAST_REPLIES_TIME);
        assert_eq!(bench.server.phase, Phase::Ended { clean: false });
    }

    #[test]
    fn client_that_takes_no_reply_delays_the_end_by_5_s() {
        let mut bench = Bench::new("ssd-only");
        let client = bench.connect();
        bench.ask(client, command(OpKind::Write, 0, 8), &[9; 4096]);
        bench.apply(Event::Signal);
        bench.run();
        bench.pass(LAST_REPLIES_TIME.saturating_sub(Nanoseconds(1)));
        assert!(matches!(bench.server.phase, Phase::Leaving { .. }), "{:?}", bench.server.phase);
        bench.pass(Nanoseconds(1));
        assert_eq!(bench.server.phase, Phase::Ended { clean: true });
    }

    #[test]
    fn stop_request_is_refused_while_a_client_is_connected() {
        let mut bench = Bench::new("ssd-only");
        bench.connect();
        let visitor = bench.visit();
        bench.request(visitor, Request::Stop { force: false });
        assert!(matches!(&bench.replies(visitor)[..], [Reply::Error { .. }]));
        assert_eq!(bench.server.phase, Phase::Serving);
        bench.request(visitor, Request::Stop { force: true });
        assert!(matches!(&bench.replies(visitor)[..], [Reply::Done(_)]));
        assert_ne!(bench.server.phase, Phase::Serving);
    }
}
