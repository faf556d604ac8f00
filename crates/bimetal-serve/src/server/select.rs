//! Selection of events: waits until sources are ready, takes their events, and applies them.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use bimetal_core::units::Nanoseconds;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::event::Event;
use super::{ServeError, Server};

/// Maximum of events taken with one call.
const EVENTS_MAX: usize = 64;

/// Source of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Mailbox,
    Signals,
    Drive(usize),
    Listener(usize),
    Client(usize),
    /// Listener of control or metrics connections, and such a connection.
    Door(usize),
    Visitor(usize),
}

/// Source that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ready {
    pub(super) source: Source,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Set if the other end of a connection was closed.
    pub(super) is_ended: bool,
}

impl Ready {
    /// Returns a source that may be read and written.
    #[cfg(test)]
    pub(super) fn both(source: Source) -> Self {
        Self { source, readable: true, writable: true, is_ended: false }
    }

    fn of(event: epoll::Event) -> Self {
        let (flags, data) = (event.flags, event.data);
        let is_ended = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
        let readable = is_ended || flags.contains(EventFlags::IN);
        let writable = is_ended || flags.contains(EventFlags::OUT);
        Self { source: Source::of(data), readable, writable, is_ended }
    }
}

impl Source {
    fn data(self) -> EventData {
        let (kind, number) = match self {
            Source::Mailbox => (0, 0),
            Source::Signals => (1, 0),
            Source::Drive(number) => (2, number),
            Source::Listener(number) => (3, number),
            Source::Client(number) => (4, number),
            Source::Door(number) => (5, number),
            Source::Visitor(number) => (6, number),
        };
        EventData::new_u64(kind << 32 | number as u64)
    }

    fn of(data: EventData) -> Self {
        let number = data.u64() as u32 as usize;
        match data.u64() >> 32 {
            0 => Source::Mailbox,
            1 => Source::Signals,
            2 => Source::Drive(number),
            3 => Source::Listener(number),
            4 => Source::Client(number),
            5 => Source::Door(number),
            _ => Source::Visitor(number),
        }
    }
}

/// Event queue of the kernel. Sockets report each change once, so no socket is registered again
/// while the server runs.
pub(super) struct Selector {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

impl Selector {
    pub(super) fn new() -> Result<Self, ServeError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| ServeError::System { what: "make an event queue", error })?;
        Ok(Self { epoll, ready: Vec::with_capacity(EVENTS_MAX) })
    }

    pub(super) fn add(&self, source: Source, event: BorrowedFd<'_>) -> Result<(), ServeError> {
        let flags = match source {
            Source::Mailbox | Source::Signals | Source::Drive(_) => EventFlags::IN,
            Source::Listener(_) | Source::Door(_) => EventFlags::IN | EventFlags::ET,
            Source::Client(_) | Source::Visitor(_) => {
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
            }
        };
        epoll::add(&self.epoll, event, source.data(), flags)
            .map_err(|error| ServeError::System { what: "watch a descriptor", error })
    }

    pub(super) fn remove(&self, event: BorrowedFd<'_>) {
        // Closing the descriptor removes the descriptor from the poll anyway.
        let _ = epoll::delete(&self.epoll, event);
    }

    /// Waits for events, at most for `limit`.
    fn wait(&mut self, limit: Option<Nanoseconds>) -> Result<(), ServeError> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: (limit.0 / 1_000_000_000) as i64,
            tv_nsec: (limit.0 % 1_000_000_000) as i64,
        });
        self.ready.clear();
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut room, limit.as_ref()) {
            Ok((ready, _)) => self.ready.extend(ready.iter().map(|&event| Ready::of(event))),
            Err(Errno::INTR) => {}
            Err(error) => return Err(ServeError::System { what: "wait for events", error }),
        }
        Ok(())
    }
}

impl Server {
    /// Waits for events, and applies the events.
    pub(super) fn select(&mut self) -> Result<(), ServeError> {
        let limit = self.patience();
        self.selector.wait(limit)?;
        self.apply(Event::Time(Instant::now()));
        for at in 0..self.selector.ready.len() {
            self.take(self.selector.ready[at]);
        }
        // The end of an operation may interrupt the wait before its event is in the queue.
        for number in 0..self.drives.len() {
            if self.drives[number].has_ended() {
                self.collect(number);
            }
        }
        Ok(())
    }

    /// Returns the time for which the server has nothing to do unless an event happens; `None` for
    /// no limit.
    fn patience(&self) -> Option<Nanoseconds> {
        if !self.active.is_empty() || self.control.is_busy() {
            return Some(Nanoseconds::ZERO);
        }
        let due = [self.volume.next_timeout(), self.clients_deadline(), self.control_deadline(), self.stop_deadline()];
        let due = due.into_iter().flatten().min().map(|due| due.saturating_sub(self.now));
        let again = self.drives.iter().filter_map(|drive| drive.due()).min();
        let again = again.map(|at| Nanoseconds(at.saturating_duration_since(Instant::now()).as_nanos() as u64));
        [due, again].into_iter().flatten().min()
    }

    /// Takes the events of a source that is ready, and applies them.
    fn take(&mut self, ready: Ready) {
        match ready.source {
            Source::Mailbox => self.read_mailbox(),
            Source::Signals => self.read_signals(),
            Source::Drive(number) => self.collect(number),
            Source::Listener(number) => self.accept(number),
            Source::Client(key) => self.client_ready(key, ready),
            Source::Door(number) => self.open_door(number),
            Source::Visitor(key) => self.visitor_ready(key, ready.readable, ready.writable),
        }
    }
}
