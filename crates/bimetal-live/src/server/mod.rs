//! The server: one owner of all state, one thread, no locks. It *selects* what happened, *applies* it, and brings
//! everything to rest again before it looks for the next.
//!
//! Whatever may happen is an `Event`: a client or a drive is ready, a client connects, somebody asks or a signal
//! came. Applying one changes only the server's own state; then `settle` lets the volume do all that it can: its operations go to
//! the drives in one batch, finished requests become replies, and each client gets its replies with one call. Threads outside
//! (signals, control socket, metrics) talk to it through a [`Handle`]. The price of this shape is that nothing in the
//! loop may wait; what may (a discard of a block device) is a drive's matter. Read `select.rs`, then `requests.rs`.

mod attachment;
mod checks;
mod clients;
mod control;
mod drains;
mod endpoint;
mod extents;
mod handle;
mod ledger;
mod outside;
mod recorder;
mod requests;
mod scrubs;
mod select;
mod settings;
mod snapshot;
mod stop;
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
use hashbrown::HashMap;
use rustix::io::Errno;
use slab::Slab;

use crate::buffer::Buffers;
use crate::drive::Drive;
use crate::nbd::{Export, Limits};
use clients::Client;
use control::Control;
use endpoint::Listener;
pub use endpoint::{Endpoint, EndpointError, SocketAccess, Tcp};
use handle::Mailbox;
pub use handle::{Handle, Stopped};
use ledger::Ledger;
use requests::Open;
pub use scrubs::ScrubPlan;
use select::Selector;
pub use snapshot::{KINDS, Latencies, MemberSnapshot, Snapshot};
use stop::{Phase, Signals};
pub use tls::{Credentials, CredentialsError};
pub use traffic::Failing;
use traffic::Traffic;
use troubles::Troubles;

/// Clients at once, if nobody says how many.
pub const CLIENTS_MAX: usize = 64;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The names of the exports, one for each unit. Units beyond that are called after the first: `NAME.1`, `NAME.2`.
    pub names: Vec<String>,
    /// Whether and how TCP is served.
    pub tcp: Tcp,
    /// Whether SIGTERM and SIGINT stop the server, from its making on.
    pub signals: bool,
    /// Clients at once; one more is refused when it chooses an export.
    pub clients_max: usize,
    /// Who may connect to Unix sockets.
    pub access: SocketAccess,
    /// When to scrub, and how fast.
    pub scrub: ScrubPlan,
    /// What each client may hold.
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

/// Why nothing can be served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Drives and members are not one to one.
    #[error("the volume has {members} members, and there are {drives} drives: each member needs its own")]
    Drives {
        /// Members of the volume.
        members: usize,
        /// Drives that were given.
        drives: usize,
    },
    /// A place to listen at is not possible.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system refuses what every server needs.
    #[error("cannot {what}: {error}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// Why.
        error: Errno,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
}

/// How serving ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Whether every request was answered and everything is stable.
    pub clean: bool,
    /// Whether everything is at home, and nothing was served since.
    pub drained: bool,
    /// Requests that were served.
    pub requests: u64,
    /// How long.
    pub uptime: Nanoseconds,
}

/// A volume, its drives and its clients.
pub struct Server {
    volume: Volume<Buffers>,
    drives: Vec<Box<dyn Drive>>,
    exports: Arc<[Export]>,
    options: ServerOptions,
    started: Instant,
    /// The volume's time when the server was made.
    time_before: Nanoseconds,
    now: Nanoseconds,
    selector: Selector,
    listeners: Vec<Listener>,
    clients: Slab<Client>,
    clients_begun: u64,
    /// Clients that may have something to receive or to send.
    active: VecDeque<usize>,
    /// Clients to send to before the next look at events.
    dirty: Vec<usize>,
    /// Requests of clients (and of the server itself) that the volume has.
    open: Slab<Open>,
    requests_begun: u64,
    /// Operations that the drives have: what and since when.
    operations: HashMap<u64, (Command, Nanoseconds), foldhash::fast::RandomState>,
    /// Drives that were given operations since they last started.
    unstarted: Vec<bool>,
    completions: Vec<Completion<Buffers>>,
    latencies: Latencies,
    /// Of all requests, and of each member.
    traffic: (Traffic, Vec<Traffic>),
    troubles: Troubles,
    ledger: Ledger,
    dirty_blocks_before: u64,
    control: Control,
    mailbox: Mailbox,
    signals: Option<Signals>,
    phase: Phase,
}

impl Server {
    /// A server for `volume`; `drives` are its members in order. It serves from [`run`](Self::run) on.
    ///
    /// # Errors
    ///
    /// If drives and members are not one to one, or the system has no event queue for us.
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
            phase: Phase::Serving,
            volume,
            drives,
        })
    }

    /// Listens at `endpoint`; clients are let in once the server runs. Returns the URI under which the first export is
    /// reached.
    ///
    /// # Errors
    ///
    /// If somebody listens there already, the address is not possible, or TCP would go unencrypted without leave.
    pub fn listen(&mut self, endpoint: &Endpoint) -> Result<String, ServeError> {
        let listener = Listener::bind_for(endpoint, &self.options.tcp, self.options.access)?;
        let uri = listener.uri(&self.exports[0].name);
        self.selector.add(select::Source::Listener(self.listeners.len()), listener.event())?;
        self.listeners.push(listener);
        Ok(uri)
    }

    /// What it serves, in order of units.
    #[cfg(feature = "ublk")]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// A way for other threads to ask and to stop the server.
    pub fn handle(&self) -> Handle {
        self.mailbox.handle()
    }

    /// Serves until it is stopped: by a [`Handle`], or by SIGTERM or SIGINT. The first lets every request end and makes
    /// everything stable; the second stops at once, as a power cut would.
    ///
    /// # Errors
    ///
    /// If the system takes away what every server needs. What the volume promised holds then, too.
    pub fn run(mut self) -> Result<Summary, ServeError> {
        self.tell_time();
        loop {
            self.settle();
            if let Phase::Ended { clean } = self.phase {
                return Ok(self.end(clean));
            }
            self.select()?;
        }
    }

    fn tell_time(&mut self) {
        let now = Instant::now();
        self.now = self.time_before + Nanoseconds(now.duration_since(self.started).as_nanos() as u64);
        self.drives.iter_mut().for_each(|drive| drive.tell_time(now));
    }

    fn end(mut self, clean: bool) -> Summary {
        let requests = self.volume.statistics().finished;
        let uptime = Nanoseconds(self.started.elapsed().as_nanos() as u64);
        if !clean {
            // Waiting for drives that do not answer is what the second signal is against. The kernel may still use the
            // memory of what is under way, so it is left to it.
            std::mem::forget(self.drives);
        } else {
            self.keeping_lifetimes().into_iter().for_each(|keep| keep());
            self.close_ledger();
            if let Some(recorder) = self.control.recorder {
                recorder.finish();
            }
        }
        Summary { clean, drained: clean && self.control.drained, requests, uptime }
    }
}

/// One export for each unit. What cannot be written in parts of 512 bytes is not offered in them.
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
