//! What a server has counted, to be shown elsewhere.

use bimetal_core::label::report::Report;
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::{Drain, Statistics};
use hdrhistogram::Histogram;

use super::Server;
use super::stop::Phase;
use super::traffic::Failing;
use super::troubles::no_room;
use crate::drive::emulated::Emulation;

/// Kinds that have latencies of their own.
pub const KINDS: [OpKind; 5] = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard, OpKind::WriteZeroes];

/// Latencies are told apart from this one on, and up to [`LATENCY_MAX`], to two digits.
const LATENCY_MIN: Nanoseconds = Nanoseconds::from_micros(1);
const LATENCY_MAX: Nanoseconds = Nanoseconds::from_seconds(3600);

/// Distributions of latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    requests: Vec<Histogram<u64>>,
    members: Vec<Vec<Histogram<u64>>>,
}

impl Latencies {
    pub(super) fn new(members: usize) -> Self {
        let each = || {
            let empty =
                || Histogram::new_with_bounds(LATENCY_MIN.0, LATENCY_MAX.0, 2).expect("the bounds are in order");
            KINDS.iter().map(|_| empty()).collect::<Vec<_>>()
        };
        Self { requests: each(), members: (0..members).map(|_| each()).collect() }
    }

    /// Of requests, from their arrival at the server to their end.
    pub fn requests(&self, kind: OpKind) -> Option<&Histogram<u64>> {
        self.requests.get(place(kind)?)
    }

    /// Of operations of the member with this number, as its drive took them.
    pub fn member(&self, number: usize, kind: OpKind) -> Option<&Histogram<u64>> {
        self.members.get(number)?.get(place(kind)?)
    }

    pub(super) fn note_request(&mut self, kind: OpKind, took: Nanoseconds) {
        if let Some(place) = place(kind) {
            self.requests[place].saturating_record(took.0);
        }
    }

    pub(super) fn note_member(&mut self, number: usize, kind: OpKind, took: Nanoseconds) {
        if let Some(place) = place(kind) {
            self.members[number][place].saturating_record(took.0);
        }
    }
}

/// The place among [`KINDS`], in which they are declared.
fn place(kind: OpKind) -> Option<usize> {
    Some(match kind {
        OpKind::Read => 0,
        OpKind::Write => 1,
        OpKind::Flush => 2,
        OpKind::Discard => 3,
        OpKind::WriteZeroes => 4,
        OpKind::Hint => return None,
    })
}

/// A member as the server sees it.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// What it is for.
    pub role: Role,
    /// How it is.
    pub state: MemberState,
    /// Operations of it that fail, wherever they are.
    pub failing: Failing,
    /// Whether it is home of blocks that no other drive is home of.
    pub is_home: bool,
    /// How its operations are carried out.
    pub drive: String,
    /// Operations that it has, for requests.
    pub foreground: u32,
    /// Operations that it has, for moves and metadata.
    pub background: u32,
    /// How well it keeps the times of the drive that it plays, if it plays one.
    pub emulation: Option<Emulation>,
    /// Bytes that were read from it.
    pub read_bytes: Bytes,
    /// Bytes that were written to it.
    pub write_bytes: Bytes,
    /// Operations that failed.
    pub errors: u64,
    /// The last of them, in words.
    pub last_error: Option<String>,
    /// What it means that the file system below it is full, if it is.
    pub no_room: Option<String>,
}

/// What a server has counted since it began.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// For how long it has served.
    pub uptime: Nanoseconds,
    /// The size of each export.
    pub exports: Vec<(String, Bytes)>,
    /// Clients that are connected.
    pub clients: usize,
    /// Clients that may be connected.
    pub clients_max: usize,
    /// Clients that were refused because there were as many as there may be.
    pub clients_refused: u64,
    /// Requests that are not answered yet.
    pub requests_under_way: u64,
    /// What the volume counted.
    pub statistics: Statistics,
    /// Its members, in order.
    pub members: Vec<MemberSnapshot>,
    /// How long things took.
    pub latencies: Latencies,
    /// Bytes that requests read.
    pub read_bytes: Bytes,
    /// Bytes that requests wrote.
    pub write_bytes: Bytes,
    /// The size of a block.
    pub block_bytes: Bytes,
    /// Blocks whose newest content no drive has.
    pub lost_blocks: u64,
    /// What is lost or bad, until it is acknowledged.
    pub report: Report,
    /// The first block of each unit.
    pub units: Vec<u64>,
    /// Blocks that are newer off home than at home.
    pub dirty_blocks: u64,
    /// The same when the server began.
    pub dirty_blocks_before: u64,
    /// How old the oldest of them can be; none where nothing is dirty or it is not known.
    pub dirty_age: Option<Nanoseconds>,
    /// Places off home.
    pub slots: u64,
    /// Places off home that hold something.
    pub occupied_slots: u64,
    /// How far a drain is.
    pub drain: Drain,
    /// Whether the server is about to end.
    pub stopping: bool,
}

impl Server {
    pub(super) fn snapshot(&self) -> Snapshot {
        let view = self.volume.view();
        let loads = view.members.iter().zip(&self.drives).zip(&self.traffic.1);
        let members = loads.map(|((load, drive), traffic)| MemberSnapshot {
            no_room: drive.no_room().map(no_room),
            role: load.role,
            state: load.state,
            failing: traffic.failing(),
            is_home: false,
            drive: drive.describe(),
            foreground: load.foreground,
            background: load.background,
            emulation: drive.emulation(),
            read_bytes: traffic.read,
            write_bytes: traffic.written,
            errors: traffic.errors,
            last_error: traffic.trouble(),
        });
        let homes = if view.layout.is_mirrored() { Vec::new() } else { view.layout.homes() };
        let mut members: Vec<MemberSnapshot> = members.collect();
        for (number, member) in members.iter_mut().enumerate() {
            member.is_home = homes.contains(&MemberId(number as u16));
        }
        Snapshot {
            uptime: self.now.saturating_sub(self.time_before),
            exports: self.exports.iter().map(|export| (export.name.clone(), Bytes(export.bytes))).collect(),
            clients: self.clients_connected(),
            clients_max: self.options.clients_max,
            clients_refused: self.clients_turned_away(),
            requests_under_way: self.volume.requests_under_way(),
            statistics: self.volume.statistics().clone(),
            members,
            latencies: self.latencies.clone(),
            read_bytes: self.traffic.0.read,
            write_bytes: self.traffic.0.written,
            block_bytes: view.block().bytes(),
            lost_blocks: self.volume.lost_blocks().max(self.known_report().lost_blocks()),
            report: self.known_report().clone(),
            units: view.layout.units.iter().map(|unit| unit.first.0).collect(),
            dirty_blocks: u64::from(view.map.dirty_blocks()),
            dirty_blocks_before: self.dirty_blocks_before,
            dirty_age: self.volume.dirty_since().map(|since| self.now.saturating_sub(since)),
            slots: view.layout.slots.map_or(0, |slots| slots.count.into()),
            occupied_slots: view.map.slots_in_use(),
            drain: self.volume.drain_progress(),
            stopping: !matches!(self.phase, Phase::Serving),
        }
    }
}
