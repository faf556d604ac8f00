//! Replay: a workload is issued to a server at its times of arrival, and each response time is
//! measured.
//!
//! The replay has one thread and one connection. In an open loop, a request is issued when it is
//! due, regardless of requests under way. The response time of a request counts from the time at
//! which it is due, so that lateness of the replay adds to the response time. The lateness of
//! requests is also counted on its own. The thread sleeps until shortly before the next request is
//! due, and then polls. With think times ([`bimetal_trace::think`]), a request becomes due with the
//! answers on which it depends.
//!
//! A request that is larger than the server takes is sent in parts at once, as Linux sends it. The
//! request is answered with its last part.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use bimetal_core::operation::{Command, OpKind};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_device::buffer::{Buffers, Filling, Slice};
use bimetal_trace::Request;
use bimetal_trace::think::{Dependencies, faster};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use slab::Slab;

use crate::nbd::client::{Client, ClientError, Offer, Reply};
use crate::server::Endpoint;

/// Time before a request is due at which the thread stops sleeping: longer than waking takes.
const EARLY: Nanoseconds = Nanoseconds::from_micros(120);
/// Time after an event for which the thread polls for replies: waking takes tens of microseconds,
/// which would be measured, too.
const AWAKE: Nanoseconds = Nanoseconds::from_micros(500);
/// Delay from which a request counts as late.
pub const LATE: Nanoseconds = Nanoseconds::from_micros(100);
/// Maximum of requests under way; further requests wait, and are late.
const UNDER_WAY_MAX: usize = 1 << 16;
/// Time from the beginning to the first request.
const LEAD: Nanoseconds = Nanoseconds::from_millis(20);
/// Size of the data from which writes take their payload repeatedly.
const NOISE_BYTES: usize = 1 << 20;
/// Maximum of buffers sent with one call.
const BUFFERS_MAX: usize = 256;
/// Largest part of a discard or of zeroes: their length has 32 bits.
const EMPTY_BYTES_MAX: u64 = 1 << 31;

/// Times at which requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Issue {
    /// Requests are issued at their times, divided by `speedup`.
    Timed {
        /// Factor by which the replay is faster than the recording.
        speedup: f64,
    },
    /// Requests are issued as soon as fewer than `depth` are under way.
    Closed {
        /// Number of requests under way.
        depth: u32,
    },
    /// A request is issued once the answers have arrived for which it waited in the recording, and
    /// the host's own time after these answers has passed, divided by `speedup`.
    Think {
        /// Factor by which the host's own times are shorter than in the recording.
        speedup: f64,
    },
}

/// Times at which the next request is due.
struct Pace {
    issue: Issue,
    dependencies: Dependencies,
}

impl Pace {
    fn new(issue: Issue) -> Self {
        Self { issue, dependencies: Dependencies::new(LEAD) }
    }

    /// Takes the request that is next.
    fn expect(&mut self, next: Option<&Request>) {
        if let (Issue::Think { .. }, Some(next)) = (self.issue, next) {
            self.dependencies.expect(next.arrival);
        }
    }

    /// Returns the time at which `request`, which is next, is due; `None` as long as a request for
    /// which it waits is under way.
    fn due(&self, request: &Request) -> Option<Nanoseconds> {
        match self.issue {
            Issue::Timed { speedup } => Some(LEAD + faster(request.arrival, speedup)),
            Issue::Closed { .. } => Some(Nanoseconds::ZERO),
            Issue::Think { speedup } => self.dependencies.due(speedup),
        }
    }

    /// Takes the request that is issued, which was due at the given time, and returns its number.
    fn issued(&mut self, request: &Request, due: Nanoseconds) -> u64 {
        if let Issue::Think { .. } = self.issue { self.dependencies.issue(request, due) } else { 0 }
    }

    /// Takes the time of an answer.
    fn answered(&mut self, number: u64, at: Nanoseconds) {
        if let Issue::Think { .. } = self.issue {
            self.dependencies.finish(number, at);
        }
    }

    /// Returns the largest number of requests that may be under way.
    fn room(&self) -> usize {
        match self.issue {
            Issue::Timed { .. } | Issue::Think { .. } => UNDER_WAY_MAX,
            Issue::Closed { depth } => depth as usize,
        }
    }
}

/// Reasons for which a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// No server listens at the endpoint.
    #[error("cannot connect to {place}: {error}; start the server with `bimetal serve`")]
    Connect {
        /// Endpoint of the server.
        place: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the server broke: {0}")]
    Connection(#[from] Errno),
    /// The server closed the connection.
    #[error("the server closed the connection with {0} requests under way")]
    Closed(usize),
    /// The server violates the protocol, or refuses the connection.
    #[error(transparent)]
    Protocol(#[from] ClientError),
}

/// Request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Kind of the request.
    pub kind: OpKind,
    /// Time from the moment the request was due to its reply; in a closed loop, from its issue.
    pub response: Nanoseconds,
    /// Time by which the request was issued late.
    pub late: Nanoseconds,
    /// Number of bytes that the request read or wrote.
    pub bytes: u64,
    /// Number of the server's error; 0 for success.
    pub error: u32,
}

/// Connection to a server, ready for requests.
pub struct Connection {
    socket: OwnedFd,
    client: Client,
    offer: Offer,
    noise: Slice,
}

struct UnderWay {
    /// Number of the request, if the caller needs the number.
    number: u64,
    kind: OpKind,
    due: Nanoseconds,
    late: Nanoseconds,
    bytes: u64,
    /// Number of parts that are not answered.
    parts: u32,
    /// First error of the parts; 0 without an error.
    error: u32,
}

/// Requests under way.
#[derive(Default)]
struct Requests {
    requests: Slab<UnderWay>,
    /// For each part under way, the key of its request.
    parts: Slab<usize>,
}

impl Requests {
    /// Adds a request without parts. Returns its key.
    fn add(&mut self, request: UnderWay) -> usize {
        self.requests.insert(request)
    }

    /// Adds a part of a request. Returns the cookie of the part.
    fn add_part(&mut self, request: usize) -> u64 {
        self.requests[request].parts += 1;
        self.parts.insert(request) as u64
    }

    /// Takes the answer of a part. Returns the request if all its parts are answered.
    fn answer(&mut self, Reply { cookie, error }: Reply) -> Option<UnderWay> {
        let key = self.parts.remove(cookie as usize);
        let request = &mut self.requests[key];
        request.parts -= 1;
        request.error = if request.error == 0 { error } else { request.error };
        (request.parts == 0).then(|| self.requests.remove(key))
    }

    fn len(&self) -> usize {
        self.requests.len()
    }

    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl Connection {
    /// Connects to a server, for its first export.
    ///
    /// # Errors
    ///
    /// Fails if no server listens at the endpoint, or if the server violates the protocol.
    pub fn open(endpoint: &Endpoint) -> Result<Self, ReplayError> {
        let socket = match endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
            Endpoint::Tcp(address) => TcpStream::connect(address).and_then(|stream| {
                stream.set_nodelay(true)?;
                Ok(OwnedFd::from(stream))
            }),
        };
        let socket = socket.map_err(|error| ReplayError::Connect { place: endpoint.to_string(), error })?;
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        let (client, offer) = (Client::new(""), Offer { bytes: 0, block_min_bytes: 1, request_bytes_max: 0 });
        let mut connection = Self { socket, client, offer, noise: noise() };
        connection.offer = loop {
            connection.send()?;
            if !connection.receive()? {
                return Err(ReplayError::Closed(0));
            }
            connection.client.next_reply()?;
            if let Some(offer) = connection.client.offer() {
                break offer;
            }
            connection.wait(None)?;
        };
        Ok(connection)
    }

    /// Returns the server's offer.
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Issues `requests` and waits for all replies. `answered` gets each answered request, in the
    /// order of the replies. Ranges that are not aligned to the server's blocks are widened.
    ///
    /// # Errors
    ///
    /// Fails with the first error of the connection or of `requests`. A reply with an error does
    /// not end the replay.
    pub fn replay<E: From<ReplayError>>(
        mut self,
        requests: impl Iterator<Item = Result<Request, E>>,
        issue: Issue,
        mut answered: impl FnMut(Answered),
    ) -> Result<(), E> {
        let mut requests = requests.fuse();
        let mut next = requests.next().transpose()?;
        let mut under_way = Requests::default();
        let begun = Instant::now();
        let now = || Nanoseconds(begun.elapsed().as_nanos() as u64);
        let mut pace = Pace::new(issue);
        pace.expect(next.as_ref());
        let room = pace.room();
        let mut active = Nanoseconds::ZERO;
        while next.is_some() || !under_way.is_empty() {
            while let Some(request) = next.filter(|_| under_way.len() < room)
                && let Some(due) = pace.due(&request).filter(|&due| due <= now())
            {
                active = now();
                let number = pace.issued(&request, due);
                self.issue(&request, number, due, active, issue, &mut under_way);
                next = requests.next().transpose()?;
                pace.expect(next.as_ref());
            }
            self.send().map_err(ReplayError::from)?;
            let open = self.receive().map_err(ReplayError::from)?;
            let at = now();
            while let Some(reply) = self.client.next_reply().map_err(ReplayError::from)? {
                active = at;
                let Some(request) = under_way.answer(reply) else { continue };
                let UnderWay { number, kind, due, late, bytes, error, .. } = request;
                pace.answered(number, at);
                answered(Answered { kind, response: at.saturating_sub(due), late, bytes, error });
            }
            if !open {
                return Err(ReplayError::Closed(under_way.len()).into());
            }
            let due = next.as_ref().filter(|_| under_way.len() < room).and_then(|request| pace.due(request));
            if next.is_some() || !under_way.is_empty() {
                let awake = !under_way.is_empty() && now() < active + AWAKE;
                let patience = due.map(|due| due.saturating_sub(now()).saturating_sub(EARLY));
                if !awake && patience != Some(Nanoseconds::ZERO) {
                    self.wait(patience).map_err(ReplayError::from)?;
                }
            }
        }
        self.client.disconnect();
        // An error is ignored: the server may close the connection before it reads the last
        // request.
        let _ = self.send();
        Ok(())
    }

    fn issue(
        &mut self,
        request: &Request,
        number: u64,
        due: Nanoseconds,
        now: Nanoseconds,
        issue: Issue,
        under_way: &mut Requests,
    ) {
        let (due, late) = match issue {
            Issue::Timed { .. } | Issue::Think { .. } => (due, now - due),
            Issue::Closed { .. } => (now, Nanoseconds::ZERO),
        };
        let (kind, range) = (request.kind, self.aligned(request.range));
        let carries = matches!(kind, OpKind::Read | OpKind::Write);
        let bytes = if carries { range.len.bytes().0 } else { 0 };
        let key = under_way.add(UnderWay { number, kind, due, late, bytes, parts: 0, error: 0 });
        for range in self.parts(range, carries) {
            let bytes = range.len.bytes().0;
            let payload = if kind == OpKind::Write { self.payload(bytes) } else { Buffers::default() };
            let command = Command { kind, range, fua: request.fua };
            self.client.ask(under_way.add_part(key), command, &payload);
        }
    }

    /// Returns the parts in which a request for `range` is sent: one part, unless `range` is larger
    /// than the server takes.
    fn parts(&self, range: SectorRange, carries: bool) -> impl Iterator<Item = SectorRange> + use<> {
        let bytes_max = if carries { u64::from(self.offer.request_bytes_max) } else { EMPTY_BYTES_MAX };
        let unit = self.unit();
        let most = (Bytes(bytes_max).sectors().0 / unit * unit).max(unit);
        let next = move |start: u64| {
            let part = SectorRange::new(start, most.min(range.end().0 - start));
            (start < range.end().0).then_some(part)
        };
        // A flush has no range, and is one part.
        let first = SectorRange::new(range.start.0, most.min(range.len.0));
        std::iter::successors(Some(first), move |part| next(part.end().0))
    }

    /// Returns the number of sectors to whose multiples the server's requests are aligned.
    fn unit(&self) -> u64 {
        Sectors::covering(Bytes(self.offer.block_min_bytes.into())).0
    }

    fn aligned(&self, range: SectorRange) -> SectorRange {
        let unit = self.unit();
        let (start, end) = (range.start.0 / unit * unit, range.end().0.next_multiple_of(unit));
        SectorRange::new(start, end - start)
    }

    fn payload(&self, bytes: u64) -> Buffers {
        let mut payload = Buffers::default();
        while payload.bytes() < bytes {
            let part = (bytes - payload.bytes()).min(NOISE_BYTES as u64);
            payload.push(self.noise.part(0, part as usize));
        }
        payload
    }

    /// Sends as many bytes as the socket takes.
    fn send(&mut self) -> Result<(), Errno> {
        while !self.client.outbox().is_empty() {
            let mut slices = [IoSlice::new(&[]); BUFFERS_MAX];
            let count = self.client.outbox().slices(&mut slices);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => self.client.sent(sent),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives bytes from the socket. Returns false if the server has closed the connection.
    fn receive(&mut self) -> Result<bool, Errno> {
        match rustix::io::read(&self.socket, self.client.input()) {
            Ok(0) => return Ok(false),
            Ok(count) => self.client.received(count),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Waits until the socket has bytes, or takes bytes; at most for `limit`.
    fn wait(&self, limit: Option<Nanoseconds>) -> Result<(), Errno> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: (limit.0 / 1_000_000_000) as i64,
            tv_nsec: (limit.0 % 1_000_000_000) as i64,
        });
        let sending = if self.client.outbox().is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let socket = self.socket.as_fd();
        match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN | sending)], limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns bytes that cannot be compressed.
fn noise() -> Slice {
    let mut filling = Filling::new(NOISE_BYTES);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in filling.bytes_mut().chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    filling.share()
}
