//! The server: one owner of all state, one thread, no locks. The server *selects* the events that
//! happened, *applies* each, and *settles* before it waits for the next events.
//!
//! An `Event` has its payload: a request of a client, the ended operations of a drive, a control
//! request, a signal, the time. Applying an event changes only the server's own state, and calls no
//! system function. After the events, `settle` lets the volume do all that it can do now. The
//! operations of the volume go to the drives in one batch. Finished requests become replies, and
//! each client gets its replies with one call.
//!
//! Other threads (signals, control socket, metrics) send messages to the server through a
//! [`Handle`]. The price of this design is that nothing in the loop may block. Calls that may block
//! (a discard of a block device) belong to the drive. Read `event.rs`, then `requests.rs`.
//!
//! Each file of the loop has tests beside it that apply events by hand, with `testing.rs`: without
//! sockets and drives.

mod attachment;
mod checks;
mod clients;
mod connection;
mod control;
mod drains;
mod endpoint;
mod event;
mod extents;
mod handle;
mod label_pages;
mod ledger;
mod outside;
mod recorder;
mod requests;
mod scrubs;
mod select;
mod settings;
mod snapshot;
mod stop;
#[cfg(test)]
mod testing;
mod tls;
mod traffic;
mod troubles;
mod visitors;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use bimetal_core::operation::{Command, Completion};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES};
use bimetal_core::volume::Volume;
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::Drive;
use hashbrown::HashMap;
use rustix::io::Errno;
use slab::Slab;

use crate::nbd::{Export, Limits};
use crate::snapshot::Latencies;
use clients::Client;
use control::Control;
use endpoint::Listener;
pub use endpoint::{Endpoint, EndpointError, SocketAccess, Tcp};
use event::Event;
use handle::Mailbox;
pub use handle::{Handle, Stopped};
use ledger::Ledger;
use requests::Open;
pub use scrubs::ScrubPlan;
use select::Selector;
use stop::{Phase, Signals};
pub use tls::{Credentials, CredentialsError};
use traffic::Traffic;
use troubles::Troubles;

/// Default maximum of connected clients.
pub const CLIENTS_MAX: usize = 64;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Names of the exports, one for each unit. Further units are named after the first name:
    /// `NAME.1`, `NAME.2`.
    pub names: Vec<String>,
    /// Encryption of TCP, if TCP is served.
    pub tcp: Tcp,
    /// Set if SIGTERM and SIGINT stop the server, from its creation on.
    pub signals: bool,
    /// Maximum of connected clients; further clients are refused when they choose an export.
    pub clients_max: usize,
    /// Permissions of Unix sockets.
    pub access: SocketAccess,
    /// Schedule and rate of scrubs.
    pub scrub: ScrubPlan,
    /// Limits of each client.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            names: vec!["bimetal".into()],
            tcp: Tcp::Refused,
            signals: true,
            clients_max: CLIENTS_MAX,
            access: SocketAccess::default(),
            scrub: ScrubPlan::default(),
            limits: Limits::default(),
        }
    }
}

/// Reasons for which a server cannot serve, or for which it can no longer serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The numbers of drives and members differ.
    #[error("the volume has {members} members, and {drives} drives were given: expected one drive for each member")]
    Drives {
        /// Number of members of the volume.
        members: usize,
        /// Number of drives that were given.
        drives: usize,
    },
    /// An endpoint is not possible.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system refuses a resource that every server needs.
    #[error("cannot {what}: {error}")]
    System {
        /// The action that the system refuses.
        what: &'static str,
        /// Error of the system.
        error: Errno,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
}

/// Outcome of serving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Set if every request was answered and everything is stable.
    pub clean: bool,
    /// Set if everything was written back, and no request was served since then.
    pub drained: bool,
    /// Number of requests that were served.
    pub requests: u64,
    /// Duration of serving.
    pub uptime: Nanoseconds,
}

/// Server of a volume, with its drives and its clients.
pub struct Server {
    volume: Volume<Buffers>,
    drives: Vec<Box<dyn Drive>>,
    exports: Arc<[Export]>,
    options: ServerOptions,
    started: Instant,
    /// Time of the volume when the server was created.
    time_before: Nanoseconds,
    now: Nanoseconds,
    selector: Selector,
    listeners: Vec<Listener>,
    clients: Slab<Client>,
    clients_begun: u64,
    /// Clients that may have bytes to receive or to send.
    active: VecDeque<usize>,
    /// Clients with replies to be sent before the next wait for events.
    dirty: Vec<usize>,
    /// Requests in the volume, of clients and of the server itself.
    open: Slab<Open>,
    requests_begun: u64,
    /// Operations in the drives: command and start time, by token.
    operations: HashMap<u64, (Command, Nanoseconds), foldhash::fast::RandomState>,
    /// Set for drives that got operations since their last start.
    unstarted: Vec<bool>,
    completions: Vec<Completion<Buffers>>,
    latencies: Latencies,
    /// Counters of all requests, and of each member.
    traffic: (Traffic, Vec<Traffic>),
    troubles: Troubles,
    ledger: Ledger,
    dirty_blocks_before: u64,
    control: Control,
    mailbox: Mailbox,
    signals: Option<Signals>,
    /// Set once a signal has arrived.
    signal_heard: bool,
    phase: Phase,
}

impl Server {
    /// Makes a server for `volume`; `drives` are its members in order. Serving begins with
    /// [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Fails if the numbers of drives and members differ, or if the system gives no event queue.
    pub fn new(
        volume: Volume<Buffers>,
        drives: Vec<Box<dyn Drive>>,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let members = volume.view().members.len();
        if members != drives.len() {
            return Err(ServeError::Drives { members, drives: drives.len() });
        }
        let exports = exports(&volume, &drives, &options.names);
        let selector = Selector::new()?;
        let mailbox = Mailbox::new()?;
        selector.add(select::Source::Mailbox, mailbox.event())?;
        for (number, drive) in drives.iter().enumerate() {
            selector.add(select::Source::Drive(number), drive.event())?;
        }
        let signals = options.signals.then(Signals::watch).transpose().map_err(ServeError::Signals)?;
        if let Some(signals) = &signals {
            selector.add(select::Source::Signals, signals.event())?;
        }
        let time_before = volume.view().now;
        Ok(Self {
            exports,
            options,
            started: Instant::now(),
            time_before,
            now: time_before,
            selector,
            listeners: Vec::new(),
            clients: Slab::new(),
            clients_begun: 0,
            active: VecDeque::new(),
            dirty: Vec::new(),
            open: Slab::new(),
            requests_begun: 0,
            operations: HashMap::default(),
            unstarted: vec![false; members],
            completions: Vec::new(),
            latencies: Latencies::new(members),
            traffic: (Traffic::default(), vec![Traffic::default(); members]),
            troubles: Troubles::default(),
            ledger: Ledger::default(),
            dirty_blocks_before: u64::from(volume.view().map.dirty_blocks()),
            control: Control::default(),
            mailbox,
            signals,
            signal_heard: false,
            phase: Phase::Serving,
            volume,
            drives,
        })
    }

    /// Listens at `endpoint`; clients are accepted once the server runs. Returns the URI of the
    /// first export.
    ///
    /// # Errors
    ///
    /// Fails if another server listens at the endpoint, the address is not possible, or TCP would
    /// be unencrypted without permission.
    pub fn listen(&mut self, endpoint: &Endpoint) -> Result<String, ServeError> {
        let listener = Listener::bind_for(endpoint, &self.options.tcp, self.options.access)?;
        let uri = listener.uri(&self.exports[0].name);
        self.selector.add(select::Source::Listener(self.listeners.len()), listener.event())?;
        self.listeners.push(listener);
        Ok(uri)
    }

    /// Returns the exports, in order of units.
    #[cfg(feature = "ublk")]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Returns a handle with which other threads query and stop the server.
    pub fn handle(&self) -> Handle {
        self.mailbox.handle()
    }

    /// Serves until a [`Handle`], SIGTERM or SIGINT stops the server. The first request to stop
    /// lets all requests end and makes everything stable; the second stops at once, as a power cut
    /// would.
    ///
    /// # Errors
    ///
    /// Fails if the system withdraws a resource that every server needs. The volume's guarantees
    /// hold even after this failure.
    pub fn run(mut self) -> Result<Summary, ServeError> {
        self.apply(Event::Time(Instant::now()));
        loop {
            self.settle();
            if let Phase::Ended { clean } = self.phase {
                return Ok(self.end(clean));
            }
            self.select()?;
        }
    }

    fn note_time(&mut self, now: Instant) {
        self.now = self.time_before + Nanoseconds(now.duration_since(self.started).as_nanos() as u64);
        self.drives.iter_mut().for_each(|drive| drive.tell_time(now));
    }

    fn end(mut self, clean: bool) -> Summary {
        let requests = self.volume.statistics().finished;
        let uptime = Nanoseconds(self.started.elapsed().as_nanos() as u64);
        if !clean {
            // The second signal is for drives that do not answer, so their end is not awaited. The
            // kernel may still use the memory of operations under way, so the drives are not freed.
            std::mem::forget(self.drives);
        } else {
            self.keeping_lifetimes().into_iter().for_each(|keep| keep());
            self.close_ledger();
            self.finish_recording();
        }
        Summary { clean, drained: clean && self.control.drained, requests, uptime }
    }
}

/// Returns one export for each unit. The minimum block size of an export is the largest logical
/// block of the drives.
fn exports(volume: &Volume<Buffers>, drives: &[Box<dyn Drive>], names: &[String]) -> Arc<[Export]> {
    let block_min_bytes = drives.iter().map(|drive| drive.logical_block()).max().unwrap_or(SECTOR_BYTES as u32);
    let block = volume.view().block().bytes().0 as u32;
    let first = names.first().map_or("bimetal", String::as_str);
    let units = volume.units().enumerate().map(|(number, sectors)| Export {
        name: names.get(number).cloned().unwrap_or_else(|| format!("{first}.{number}")),
        description: format!("unit {number} of a Bimetal volume, {}", Bytes(sectors.bytes().0)),
        bytes: sectors.bytes().0,
        block_min_bytes,
        block_preferred_bytes: block.max(block_min_bytes),
    });
    units.collect()
}
