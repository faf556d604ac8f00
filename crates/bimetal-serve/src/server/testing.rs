//! A server whose events come from the test, for the tests of the files in this folder.
//!
//! The drives keep their content in memory, and end an operation when a test says so. The clients
//! and visitors have codecs and no sockets. The server's clock is the clock of the test.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status};
use bimetal_core::payload::Payload;
use bimetal_core::schemes;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, SectorRange};
use bimetal_core::volume::{self, Recovery, Volume, VolumeConfig};
use bimetal_device::buffer::{Buffers, Filling};
use bimetal_device::drive::Drive;
use bimetal_volumes::about::{About, AboutMember};
use rustix::event::{EventfdFlags, eventfd};

use super::event::Event;
use super::select::{Ready, Source};
use super::visitors::Visitor;
use super::{Server, ServerOptions};
use crate::control::message::{Reply, Request};
use crate::nbd::client::{Client, ClientError};

/// Sizes of the drives: the first drive is the SSD, the second is the HDD.
const MIB: [u64; 2] = [16, 64];

/// Number of the SSD, which is the only drive of a volume without an HDD.
pub(super) const SSD: usize = 0;
/// Number of the HDD.
pub(super) const HDD: usize = 1;

/// Content of a drive, and the operations that it has taken and not ended.
struct Memory {
    content: Vec<u8>,
    waiting: VecDeque<Operation<Buffers>>,
}

impl Memory {
    fn perform(&mut self, operation: Operation<Buffers>) -> Completion<Buffers> {
        let Operation { token, command, payload, .. } = operation;
        let range = command.range.start.bytes().0 as usize..command.range.end().bytes().0 as usize;
        let read = match command.kind {
            OpKind::Read => buffers(&self.content[range]),
            OpKind::Write => {
                payload.copy_to(&mut self.content[range]);
                Buffers::empty()
            }
            OpKind::WriteZeroes | OpKind::Discard => {
                self.content[range].fill(0);
                Buffers::empty()
            }
            OpKind::Flush | OpKind::Hint => Buffers::empty(),
        };
        Completion { token, status: Status::Done, payload: read }
    }
}

/// Drive that takes operations, and never ends one by itself.
struct Held {
    memory: Arc<Mutex<Memory>>,
    event: OwnedFd,
}

impl Drive for Held {
    fn submit(&mut self, operation: Operation<Buffers>) {
        lock(&self.memory).waiting.push_back(operation);
    }

    fn start(&mut self) {}

    fn collect(&mut self, _: &mut Vec<Completion<Buffers>>) {}

    fn has_ended(&mut self) -> bool {
        false
    }

    fn under_way(&self) -> usize {
        lock(&self.memory).waiting.len()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn logical_block(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn describe(&self) -> String {
        "held by a test".into()
    }
}

/// Reply to a request of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// Number of the request, as [`Bench::ask`] returned it.
    pub(super) cookie: u64,
    /// Number of the error; 0 for success.
    pub(super) error: u32,
    /// Data of a read.
    pub(super) data: Vec<u8>,
}

impl Answer {
    /// Makes the reply to a successful request without data.
    pub(super) fn done(cookie: u64) -> Self {
        Self { cookie, error: 0, data: Vec::new() }
    }

    /// Makes the reply to a request that has failed with `EIO`.
    pub(super) fn failed(cookie: u64) -> Self {
        Self { cookie, error: 5, data: Vec::new() }
    }
}

/// See the [module](self).
pub(super) struct Bench {
    pub(super) server: Server,
    memories: Vec<Arc<Mutex<Memory>>>,
    clock: Instant,
    lines: Arc<Mutex<Vec<String>>>,
    clients: BTreeMap<usize, Client>,
    /// Bytes of data in the replies to requests under way, by cookie.
    data_bytes: BTreeMap<u64, usize>,
    cookies: u64,
}

impl Bench {
    /// Makes the server of a new volume: of both drives, or of the SSD alone if the scheme uses one
    /// drive.
    pub(super) fn new(scheme: &'static str) -> Self {
        Self::with(scheme, ServerOptions::default())
    }

    /// Makes the server of a new volume, with options.
    pub(super) fn with(scheme: &'static str, options: ServerOptions) -> Self {
        let members = schemes::find(scheme).unwrap().members.len();
        let memory = |mib: u64| Memory { content: vec![0; (mib << 20) as usize], waiting: VecDeque::new() };
        let mut memories: Vec<Memory> = MIB[..members].iter().map(|&mib| memory(mib)).collect();
        let volume = volume(scheme, &mut memories);
        let memories: Vec<_> = memories.into_iter().map(|memory| Arc::new(Mutex::new(memory))).collect();
        let drive = |memory: &Arc<Mutex<Memory>>| -> Box<dyn Drive> {
            let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            Box::new(Held { memory: Arc::clone(memory), event })
        };
        let drives = memories.iter().map(drive).collect();
        let mut server = Server::new(volume, drives, ServerOptions { signals: false, ..options }).unwrap();
        server.control.about = Some(about(scheme));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&lines);
        server.on_trouble(move |line| lock(&said).push(line.to_owned()));
        let clock = server.started;
        let (clients, data_bytes) = (BTreeMap::new(), BTreeMap::new());
        Self { server, memories, clock, lines, clients, data_bytes, cookies: 0 }
    }

    /// Applies an event, and lets the server settle.
    pub(super) fn apply(&mut self, event: Event) {
        self.server.apply(event);
        self.server.settle();
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Nanoseconds) {
        self.clock += Duration::from_nanos(time.0);
        self.apply(Event::Time(self.clock));
    }

    /// Returns the lines that the server has printed since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.lines))
    }

    /// Connects a client, which chooses the export. Returns its key.
    pub(super) fn connect(&mut self) -> usize {
        self.try_to_connect().expect("the client is not refused")
    }

    /// Connects a client, which chooses the export. Returns `None` if the client is refused.
    pub(super) fn try_to_connect(&mut self) -> Option<usize> {
        let key = self.server.let_in(None)?;
        let mut client = Client::new("");
        while client.offer().is_none() {
            let bytes = self.take_outbox(key);
            client.input()[..bytes.len()].copy_from_slice(&bytes);
            client.received(bytes.len());
            match client.next_reply() {
                Err(ClientError::Refused { .. }) => return None,
                reply => assert_eq!(reply, Ok(None)),
            }
            self.carry(key, &mut client);
            self.server.client_ready(key, Ready::both(Source::Client(key)));
            self.server.settle();
        }
        self.clients.insert(key, client);
        Some(key)
    }

    /// Disconnects a client, without waiting for its replies.
    pub(super) fn disconnect(&mut self, key: usize) {
        self.clients.remove(&key);
        self.server.close(key);
        self.server.settle();
    }

    /// Sends the bytes of a request to the server, and does not apply the request.
    pub(super) fn send(&mut self, key: usize, command: Command, data: &[u8]) -> u64 {
        self.cookies += 1;
        let mut client = self.clients.remove(&key).unwrap();
        client.ask(self.cookies, command, &buffers(data));
        self.carry(key, &mut client);
        self.clients.insert(key, client);
        let data_bytes = if command.kind == OpKind::Read { command.range.len.bytes().0 as usize } else { 0 };
        self.data_bytes.insert(self.cookies, data_bytes);
        self.cookies
    }

    /// Applies a request of a client. Returns its cookie.
    pub(super) fn ask(&mut self, key: usize, command: Command, data: &[u8]) -> u64 {
        let cookie = self.send(key, command, data);
        let client = &mut self.server.clients[key];
        let (number, request) = (client.number, client.codec.next_request().expect("a request has arrived"));
        self.apply(Event::Request { key, number, request });
        cookie
    }

    /// Writes `blocks` of 4 KiB from block `first` on, and ends all operations.
    pub(super) fn write(&mut self, key: usize, first: u64, blocks: u64) {
        let data = vec![first as u8 + 1; blocks as usize * 4096];
        let cookie = self.ask(key, command(OpKind::Write, first * 8, blocks * 8), &data);
        self.run();
        assert_eq!(self.answers(key), [Answer::done(cookie)]);
    }

    /// Takes the replies to a client.
    pub(super) fn answers(&mut self, key: usize) -> Vec<Answer> {
        let bytes = self.take_outbox(key);
        let (mut rest, mut answers) = (&bytes[..], Vec::new());
        while let Some((head, data)) = rest.split_first_chunk::<16>() {
            let field = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (error, cookie) = (field(4), u64::from(field(8)) << 32 | u64::from(field(12)));
            let data_bytes = self.data_bytes.remove(&cookie).expect("a reply to a request under way");
            let (data, more) = data.split_at(if error == 0 { data_bytes } else { 0 });
            answers.push(Answer { cookie, error, data: data.to_vec() });
            rest = more;
        }
        assert!(rest.is_empty(), "whole replies");
        self.server.settle();
        answers
    }

    /// Connects a visitor with control requests. Returns its key.
    pub(super) fn visit(&mut self) -> usize {
        self.server.control.visitors.insert(Visitor::by_hand())
    }

    /// Applies a control request.
    pub(super) fn request(&mut self, key: usize, request: Request) {
        self.apply(Event::Control { key, request });
    }

    /// Takes the replies to a visitor, without progress.
    pub(super) fn replies(&mut self, key: usize) -> Vec<Reply> {
        let bytes = self.server.control.visitors[key].take_unsent();
        let replies = bytes.split_inclusive(|&byte| byte == b'\n').map(|line| serde_json::from_slice(line).unwrap());
        replies.filter(Reply::is_last).collect()
    }

    /// Returns the operations that a drive has taken and not ended, oldest first.
    pub(super) fn waiting(&self, drive: usize) -> Vec<Command> {
        lock(&self.memories[drive]).waiting.iter().map(|operation| operation.command).collect()
    }

    /// Ends the oldest operation of a drive with this status; with the status `Done` the operation
    /// is also carried out.
    pub(super) fn end(&mut self, drive: usize, status: Status) {
        let mut memory = lock(&self.memories[drive]);
        let operation = memory.waiting.pop_front().expect("an operation waits");
        let completion = match status {
            Status::Done => memory.perform(operation),
            status => Completion { token: operation.token, status, payload: Buffers::empty() },
        };
        drop(memory);
        self.apply(Event::Ended { drive, completions: vec![completion], failures: Vec::new() });
    }

    /// Ends all operations as done, until no operation waits.
    pub(super) fn run(&mut self) {
        self.server.settle();
        while let Some(drive) = (0..self.memories.len()).find(|&drive| !self.waiting(drive).is_empty()) {
            self.end(drive, Status::Done);
        }
    }

    /// Ends all operations as done, and lets time pass while the volume waits for a time within
    /// `limit`.
    pub(super) fn run_for(&mut self, limit: Nanoseconds) {
        let end = self.server.now.saturating_add(limit);
        self.run();
        while let Some(due) = self.server.volume.next_timeout().filter(|&due| due <= end) {
            self.pass(due.saturating_sub(self.server.now).max(Nanoseconds(1)));
            self.run();
        }
    }

    fn carry(&mut self, key: usize, client: &mut Client) {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = client.outbox().slices(&mut slices);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        client.sent(bytes.len());
        let (codec, mut rest) = (&mut self.server.clients[key].codec, &bytes[..]);
        while !rest.is_empty() {
            let mut taken = 0;
            for mut room in codec.input() {
                let (now, later) = rest.split_at(room.len().min(rest.len()));
                room[..now.len()].copy_from_slice(now);
                (rest, taken) = (later, taken + now.len());
            }
            codec.received(taken);
        }
    }

    fn take_outbox(&mut self, key: usize) -> Vec<u8> {
        let codec = &mut self.server.clients[key].codec;
        let mut slices = [IoSlice::new(&[]); 64];
        let count = codec.outbox().slices(&mut slices);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        codec.sent(bytes.len());
        bytes
    }
}

/// Makes a command without FUA.
pub(super) fn command(kind: OpKind, start: u64, sectors: u64) -> Command {
    Command { kind, range: SectorRange::new(start, sectors), fua: false }
}

fn lock<T>(shared: &Arc<Mutex<T>>) -> MutexGuard<'_, T> {
    shared.lock().unwrap()
}

fn buffers(bytes: &[u8]) -> Buffers {
    let mut filling = Filling::new(bytes.len());
    filling.bytes_mut().copy_from_slice(bytes);
    Buffers::from(filling.share())
}

/// Formats the drives, and recovers the volume on the drives.
fn volume(scheme: &'static str, memories: &mut [Memory]) -> Volume<Buffers> {
    let scheme = schemes::find(scheme).unwrap();
    let settings = Settings::new(scheme.name, scheme.parameters, [] as [(&str, &str); 0]).unwrap();
    let member = |(&mib, role)| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() };
    let members: Vec<MemberInfo> = MIB.iter().zip([Role::Ssd, Role::Hdd]).take(memories.len()).map(member).collect();
    let layout = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
    let config = VolumeConfig { scheme, settings: &settings, layout, identity: 1, drives: &[] };
    for operation in volume::format(&config).unwrap() {
        memories[usize::from(operation.target)].perform(operation);
    }
    let mut recovery = Recovery::new(&config, &[]).unwrap();
    while !recovery.is_finished() {
        while let Some(operation) = recovery.next_operation() {
            let completion = memories[usize::from(operation.target)].perform(operation);
            recovery.complete(completion);
        }
    }
    recovery.finish().unwrap()
}

fn about(scheme: &'static str) -> About {
    let scheme = schemes::find(scheme).unwrap();
    let member =
        |(&mib, id): (&u64, &str)| AboutMember { id: id.into(), bytes: Bytes::from_mib(mib), ..AboutMember::default() };
    let members = MIB.iter().zip(["ssd", "hdd"]).take(scheme.members.len()).map(member).collect();
    About { name: "disk".into(), uuid: None, scheme, settings: BTreeMap::new(), members }
}
