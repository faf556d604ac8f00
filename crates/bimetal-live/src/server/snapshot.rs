//! Counters of a server, for display elsewhere.

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

/// Kinds of operations whose latencies are recorded.
pub const KINDS: [OpKind; 5] = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard, OpKind::WriteZeroes];

/// Bounds between which latencies are recorded, to two digits.
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

    /// Returns the latencies of requests, from their arrival at the server to their end.
    pub fn requests(&self, kind: OpKind) -> Option<&Histogram<u64>> {
        self.requests.get(place(kind)?)
    }

    /// Returns the latencies of a member's operations, from their submission to its drive.
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

/// Returns the position in [`KINDS`].
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

/// Member as the server sees it.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// Role of the member.
    pub role: Role,
    /// State of the member.
    pub state: MemberState,
    /// Kinds of operations that fail at every address.
    pub failing: Failing,
    /// Set if the member is home of blocks that no other drive is home of.
    pub is_home: bool,
    /// Description of the way operations are carried out.
    pub drive: String,
    /// Number of operations under way for requests.
    pub foreground: u32,
    /// Number of operations under way for moves and metadata.
    pub background: u32,
    /// Accuracy of the drive's emulation, if it is emulated.
    pub emulation: Option<Emulation>,
    /// Bytes that were read from the member.
    pub read_bytes: Bytes,
    /// Bytes that were written to the member.
    pub write_bytes: Bytes,
    /// Number of operations that failed.
    pub errors: u64,
    /// Last error, in words.
    pub last_error: Option<String>,
    /// Consequence of a full file system below the member, if it is full.
    pub no_room: Option<String>,
}

/// Counters of a server since it began.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time for which the server has served.
    pub uptime: Nanoseconds,
    /// Name and size of each export.
    pub exports: Vec<(String, Bytes)>,
    /// Number of connected clients.
    pub clients: usize,
    /// Maximum of connected clients.
    pub clients_max: usize,
    /// Number of clients that were refused because the maximum was reached.
    pub clients_refused: u64,
    /// Number of requests that are not answered yet.
    pub requests_under_way: u64,
    /// Counters of the volume.
    pub statistics: Statistics,
    /// Members of the volume, in order.
    pub members: Vec<MemberSnapshot>,
    /// Latencies of requests and operations.
    pub latencies: Latencies,
    /// Bytes that requests read.
    pub read_bytes: Bytes,
    /// Bytes that requests wrote.
    pub write_bytes: Bytes,
    /// Size of a block.
    pub block_bytes: Bytes,
    /// Number of blocks whose newest content is on no drive.
    pub lost_blocks: u64,
    /// Report of lost and bad content, until it is acknowledged.
    pub report: Report,
    /// First block of each unit.
    pub units: Vec<u64>,
    /// Number of dirty blocks: blocks whose newest content is off home only.
    pub dirty_blocks: u64,
    /// Number of dirty blocks when the server began.
    pub dirty_blocks_before: u64,
    /// Maximum age of the oldest dirty block; `None` if no block is dirty or the age is unknown.
    pub dirty_age: Option<Nanoseconds>,
    /// Number of slots.
    pub slots: u64,
    /// Number of slots in use.
    pub occupied_slots: u64,
    /// Progress of a drain.
    pub drain: Drain,
    /// Set while the server is stopping.
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
