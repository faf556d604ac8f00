//! Counters of a server, for display elsewhere.

use bimetal_core::label::report::Report;
use bimetal_core::layout::{Layout, Role};
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::{Drain, Statistics};

use bimetal_device::drive::emulated::Emulation;
use bimetal_measure::durations::Durations;
use bimetal_measure::response_time::ResponseTimes;

/// Kinds of operations whose latencies are recorded.
pub const KINDS: [OpKind; 5] = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard, OpKind::WriteZeroes];

/// Shortest latency that is recorded: a request that ends before the clock advances gets this
/// latency.
const LATENCY_MIN: Nanoseconds = Nanoseconds::from_micros(1);

/// Latencies by kind.
#[derive(Clone, Debug)]
pub struct Latencies {
    requests: Vec<Durations>,
    members: Vec<Vec<Durations>>,
}

impl Latencies {
    pub(crate) fn new(members: usize) -> Self {
        let each = || vec![Durations::new(); KINDS.len()];
        Self { requests: each(), members: (0..members).map(|_| each()).collect() }
    }

    /// Returns the latencies of requests, from their arrival at the server to their end.
    pub fn requests(&self, kind: OpKind) -> Option<&Durations> {
        self.requests.get(place(kind)?)
    }

    /// Returns the latencies of a member's operations, from their submission to its drive.
    pub fn member(&self, number: usize, kind: OpKind) -> Option<&Durations> {
        self.members.get(number)?.get(place(kind)?)
    }

    /// Returns the response times of requests.
    pub(crate) fn response_times(&self) -> ResponseTimes {
        response_times(&self.requests)
    }

    /// Returns the response times of a member's operations.
    pub(crate) fn response_times_of(&self, number: usize) -> ResponseTimes {
        self.members.get(number).map(|each| response_times(each)).unwrap_or_default()
    }

    pub(crate) fn note_request(&mut self, kind: OpKind, took: Nanoseconds) {
        if let Some(place) = place(kind) {
            self.requests[place].record(took.max(LATENCY_MIN));
        }
    }

    pub(crate) fn note_member(&mut self, number: usize, kind: OpKind, took: Nanoseconds) {
        if let Some(place) = place(kind) {
            self.members[number][place].record(took.max(LATENCY_MIN));
        }
    }
}

/// Returns the response times by kind of request, from the latencies of the kinds in [`KINDS`].
/// Zeroes are writes.
fn response_times(each: &[Durations]) -> ResponseTimes {
    let [reads, writes, flushes, _, zeroes] = each else { return ResponseTimes::default() };
    let mut writes = writes.clone();
    writes.absorb(zeroes);
    ResponseTimes::of(reads, &writes, flushes)
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

/// Kinds of operations of a drive that fail: all recent operations of the kind have failed, at
/// different addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failing {
    /// Set if reads fail.
    pub reads: bool,
    /// Set if writes fail.
    pub writes: bool,
    /// Set if flushes fail.
    pub flushes: bool,
}

impl Failing {
    /// Returns the kinds of operations that fail in `self` or in `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            flushes: self.flushes || other.flushes,
        }
    }

    /// Describes the failing kinds, as a text that follows the name of the drive.
    pub fn in_words(self) -> &'static str {
        match self {
            Self { reads: true, writes: true, .. } => "cannot be read or written: all of its last operations failed",
            Self { reads: true, .. } => "cannot be read: all of its last reads failed",
            Self { writes: true, .. } => "cannot be written: all of its last writes failed",
            Self { flushes: true, .. } => "cannot be flushed: its last writes are not durable",
            _ => "works",
        }
    }
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
    /// Set if some blocks have their home on this member alone.
    pub is_home: bool,
    /// Description of the way operations are carried out.
    pub drive: String,
    /// Number of operations under way for requests.
    pub foreground: u32,
    /// Number of operations under way for moves and metadata.
    pub background: u32,
    /// Accuracy of the drive's emulation, if the drive is emulated.
    pub emulation: Option<Emulation>,
    /// Bytes that were read from the member.
    pub read_bytes: Bytes,
    /// Bytes that were written to the member.
    pub write_bytes: Bytes,
    /// Number of operations that failed.
    pub errors: u64,
    /// Last error, in words.
    pub last_error: Option<String>,
    /// Number of pages of metadata that were bad at the last scrub, or when the server began.
    pub bad_pages: u64,
    /// Consequence of a full file system below the member, `None` if that file system has room.
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
    /// Set while a drive is missing that has content which home lacks. Writes then fail.
    pub newest_is_gone: bool,
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
    /// Layout of the volume.
    pub layout: Layout,
    /// Number of slots.
    pub slots: u64,
    /// Number of slots in use.
    pub occupied_slots: u64,
    /// Progress of a drain.
    pub drain: Drain,
    /// Set while the server is stopping.
    pub stopping: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_within_one_reading_of_the_clock_has_a_latency() {
        let mut latencies = Latencies::new(1);
        latencies.note_request(OpKind::Read, Nanoseconds::ZERO);
        latencies.note_member(0, OpKind::Read, Nanoseconds::ZERO);
        let largest = [latencies.requests(OpKind::Read), latencies.member(0, OpKind::Read)].map(|it| it.unwrap().max());
        assert!(largest.iter().all(|&largest| largest >= LATENCY_MIN), "{largest:?}");
    }

    /// Write-zeroes requests count as writes, as in a simulation and in a replay. Flushes and
    /// discards are neither reads nor writes.
    #[test]
    fn response_times_of_writes_count_zeroes_and_no_flush() {
        let mut latencies = Latencies::new(1);
        for (kind, millis) in KINDS.into_iter().zip(1..) {
            latencies.note_request(kind, Nanoseconds::from_millis(millis));
            latencies.note_member(0, kind, Nanoseconds::from_millis(millis));
        }
        for times in [latencies.response_times(), latencies.response_times_of(0)] {
            let means = [times.all, times.read, times.write, times.flush].map(|times| times.mean);
            assert_eq!(means, [Some(8.0 / 3.0), Some(1.0), Some(3.5), Some(3.0)]);
        }
    }
}
