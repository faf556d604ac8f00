//! Document of the `status` command, as data. Figures that a simulation also has are defined in
//! `bimetal-measure`. A figure that does not apply or is unknown is null, never 0. Figures count
//! from the start of the server.
//!
//! A server fills the document from its counters, and [`offline`](crate::offline) fills it from the
//! drives.

use std::collections::BTreeMap;

use bimetal_core::label::report::Report;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_measure::response_time::ResponseTimes;
use bimetal_measure::throughput::Throughput;
use bimetal_measure::volume::{HitRatio, Migration};
use bimetal_models::endurance::{Endurance, drive_writes_per_day};
use serde::{Deserialize, Serialize};

use crate::about::AboutMember;
use crate::lost::{self, AcceptedLoss, HistoryLine, LastScrub, Lost, Places};

/// Status of a volume.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Name of the volume.
    pub name: String,
    /// UUID of the volume.
    pub uuid: Option<String>,
    /// State of the volume. With a server:
    ///
    /// - `serving`: all drives work.
    /// - `degraded`: a drive is missing, or operations of a drive fail.
    /// - `failed`: a drive that is home of blocks is missing or cannot be read, or a drive is
    ///   missing that has content which home lacks.
    /// - `draining`: a drain is under way.
    /// - `stopping`: the server is stopping.
    ///
    /// Without a server:
    ///
    /// - `stopped`: no server runs.
    /// - `stopped, attached`: no server runs, and the home drive is not a plain disk.
    /// - `incomplete`: a member is missing.
    /// - `resizing`: a change of sizes was interrupted.
    /// - `in use`: another process uses the volume.
    pub state: String,
    /// Consequence of the state for the data, in a sentence.
    pub meaning: String,
    /// Name of the scheme.
    pub scheme: String,
    /// Parameters of the scheme, and settings of drives.
    pub settings: BTreeMap<String, String>,
    /// Size of a block.
    pub block_bytes: u64,
    /// Number of bytes that the volume exports.
    pub exported_bytes: Option<u64>,
    /// Name and version of the program that created the volume.
    pub created_by: Option<String>,
    /// Process that serves the volume.
    pub process: Option<u32>,
    /// Time for which the volume has been served.
    pub uptime_s: Option<f64>,
    /// Endpoints for clients, as `serve --nbd` takes them.
    pub endpoints: Vec<String>,
    /// Number of connected clients.
    pub clients: Option<u64>,
    /// Maximum of connected clients (`serve --clients-max`).
    #[serde(default)]
    pub clients_max: Option<u64>,
    /// Number of clients that were refused because the maximum was reached.
    #[serde(default)]
    pub clients_refused: Option<u64>,
    /// Number of requests that are not answered yet.
    pub requests_under_way: Option<u64>,
    /// Size of dirty blocks: content that is off home only.
    pub dirty_bytes: Option<u64>,
    /// Maximum age of dirty content.
    pub dirty_oldest_s: Option<f64>,
    /// Size and use of the slots.
    pub slots: Slots,
    /// Drives of the volume.
    pub members: Vec<Member>,
    /// Requests that were answered.
    pub requests: Requests,
    /// Times from a request's arrival to its answer.
    pub response_time_ms: ResponseTimes,
    /// Requests and bytes per second.
    pub throughput: Throughput,
    /// 1 − blocks written to the home / blocks written by the host; `griffin` and `ssd-only` only.
    pub write_savings: Option<f64>,
    /// Fraction of read blocks served by the log; `griffin` and `ssd-only` only.
    pub read_penalty: Option<f64>,
    /// Share of blocks that members on flash served.
    pub ssd_hit_ratio: HitRatio,
    /// Background moves, by batches.
    pub migration: Migration,
    /// Number of blocks that bypassed the cache, by reason.
    pub bypass: BTreeMap<String, u64>,
    /// Bytes written to flash, and the drives' expected lifetimes.
    pub wear: Vec<Wear>,
    /// Activity of the engine.
    pub engine: Engine,
    /// Progress of a drain under way.
    pub drain: Option<Progress>,
    /// Progress of a check under way.
    pub check: Option<Progress>,
    /// Progress of a scrub under way.
    #[serde(default)]
    pub scrub: Option<Progress>,
    /// Seconds until the next planned scrub; null if none is planned.
    #[serde(default)]
    pub next_scrub_s: Option<f64>,
    /// Recording under way.
    pub trace: Option<TraceStatus>,
    /// Lost or bad content, until it is acknowledged.
    #[serde(default)]
    pub lost: Lost,
    /// Number of blocks read off home without their checksum, since the volume was created.
    #[serde(default)]
    pub checksum_errors: u64,
    /// Last scrub that ended completely; null if no scrub has ended completely.
    #[serde(default)]
    pub last_scrub: Option<LastScrub>,
    /// Content given up with `--accept-loss`, until it is acknowledged.
    #[serde(default)]
    pub accepted_losses: Vec<AcceptedLoss>,
    /// Acknowledgements with person and time, oldest first.
    #[serde(default)]
    pub history: Vec<HistoryLine>,
}

/// Size and use of slots.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Slots {
    /// Size of all slots.
    pub bytes: Option<u64>,
    /// Size of the slots in use.
    pub used_bytes: Option<u64>,
}

/// Drive of the volume.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Member {
    /// Name on the command line: `ssd`, `hdd`.
    pub id: String,
    /// UUID of the member.
    pub uuid: Option<String>,
    /// Content that the scheme keeps on the drive: `home`, `copy`, `cache`, `ranges`, `log`.
    pub role: String,
    /// Path of the drive.
    pub path: Option<String>,
    /// Profile of the drive that the member emulates.
    pub profile: Option<String>,
    /// Size of the member.
    pub bytes: u64,
    /// State of the drive. With a server:
    ///
    /// - `online`: the drive works.
    /// - `failing`: all recent operations of a kind fail.
    /// - `read-only`: the drive refuses writes.
    /// - `failed`: the drive does not answer or was detached.
    ///
    /// Without a server:
    ///
    /// - `present`: the drive is connected.
    /// - `missing`: the drive is not connected.
    /// - `behind`: the drive's content is outdated.
    /// - `let go`: the drive is not needed, whether it is connected or not.
    /// - `overwritten`: another program has overwritten its label, and the label's second copy is
    ///   left.
    pub state: String,
    /// Time at which the drive was last present, in seconds since 1970, if the label has it.
    pub last_seen_s: Option<u64>,
    /// Description of the way operations are carried out.
    pub drive: Option<String>,
    /// Bytes of metadata that the engine wrote.
    pub metadata_bytes: Option<u64>,
    /// Number of metadata pages that were damaged or half-written at the last scrub since the
    /// server began; before the second scrub, those that were so when the server began count, too.
    #[serde(default)]
    pub bad_metadata_pages: Option<u64>,
    /// Number of read operations.
    pub reads: Option<u64>,
    /// Number of write operations.
    pub writes: Option<u64>,
    /// Number of flushes.
    pub flushes: Option<u64>,
    /// Number of bytes read.
    pub read_bytes: Option<u64>,
    /// Number of bytes written.
    pub write_bytes: Option<u64>,
    /// Number of operations that failed.
    pub errors: Option<u64>,
    /// Last error, in words.
    pub last_error: Option<String>,
    /// Response times of operations.
    pub response_time_ms: ResponseTimes,
    /// Accuracy of the drive's emulation, if the drive is emulated.
    #[serde(default)]
    pub emulation: Option<Emulation>,
}

/// Accuracy with which a file keeps the times of the drive that it emulates.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Emulation {
    /// Number of operations that ended.
    pub operations: u64,
    /// Number of operations whose real part took longer than the emulated drive would have taken.
    pub overruns: u64,
    /// Mean excess time of these operations; null if there were none.
    pub overrun_mean_ms: Option<f64>,
    /// Largest excess time of an overrun.
    pub overrun_max_ms: f64,
    /// Median delay of completions after the emulated drive's time.
    pub late_p50_ms: f64,
    /// 99th percentile of the delays.
    pub late_p99_ms: f64,
    /// Largest delay.
    pub late_max_ms: f64,
}

/// Requests that were answered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is what it says")]
pub struct Requests {
    pub reads: Option<u64>,
    pub writes: Option<u64>,
    pub flushes: Option<u64>,
    pub discards: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// Number of requests of all kinds that were answered with an error.
    pub failed: Option<u64>,
}

/// Wear of a flash drive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Wear {
    /// Name of the drive.
    pub id: String,
    /// Bytes written to the drive since the server began.
    pub write_bytes: u64,
    /// Bytes written to the drive since it became a member.
    pub lifetime_write_bytes: u64,
    /// Seconds for which the drive was served since it became a member.
    pub lifetime_served_s: f64,
    /// Drive writes a day since the drive became a member: bytes written for each day of service,
    /// as a multiple of the drive's size. Null before the drive was served.
    #[serde(default)]
    pub dwpd: Option<f64>,
    /// Bytes for which the maker rates the drive; null if unknown.
    pub rated_write_bytes: Option<u64>,
    /// Share of the rating that is used up, without writes before the drive became a member. Null
    /// if the rating is unknown.
    pub rated_used: Option<f64>,
    /// Years of service that the whole rating lasts at the drive's mean rate; null without a rating
    /// or without writes.
    pub rated_life_years: Option<f64>,
    /// Years of service that are left of the rating; null without a rating or without writes.
    pub rated_years_left: Option<f64>,
}

impl Wear {
    /// Returns the wear of a drive with the given writes and time of service since the server
    /// began.
    pub fn of(about: &AboutMember, written: Bytes, served_s: f64) -> Self {
        let lifetime = about.before.written.0.saturating_add(written.0);
        let served = about.before.served_s as f64 + served_s;
        let rated = about.rated_write_bytes.map(|bytes| bytes.0);
        let used = rated.filter(|&rated| rated > 0).map(|rated| lifetime as f64 / rated as f64);
        let years = Nanoseconds::from_seconds_f64(served).as_years_f64();
        let warranted = rated.filter(|&rated| rated > 0).map(|rated| rated as f64);
        let endurance = Endurance { warranted, rated: None };
        let rate = lifetime as f64 / served;
        let life = if served > 0.0 { endurance.lifetime(rate, 0.0).years() } else { None };
        let dwpd = (served > 0.0).then(|| drive_writes_per_day(rate, about.bytes.sectors()));
        Self {
            id: about.id.clone(),
            write_bytes: written.0,
            lifetime_write_bytes: lifetime,
            lifetime_served_s: served,
            dwpd: dwpd.filter(|writes| writes.is_finite()),
            rated_write_bytes: rated,
            rated_used: used,
            rated_life_years: life,
            rated_years_left: life.map(|life| (life - years).max(0.0)),
        }
    }
}

/// Activity of the engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Engine {
    /// Number of commits of the journal.
    pub commits: Option<u64>,
    /// Number of checkpoints of the tables.
    pub checkpoints: Option<u64>,
    /// Number of blocks promoted because they were read.
    pub promoted_blocks: Option<u64>,
    /// Number of clean copies that were evicted.
    pub evicted_blocks: Option<u64>,
    /// Number of requests that waited for other requests, a move, or room.
    pub waited: Option<u64>,
    /// Number of reads served from home because the copy off home could not be read.
    pub reads_repaired: Option<u64>,
}

/// Recording under way.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TraceStatus {
    /// Path of the trace.
    pub path: String,
    /// Number of requests in the trace so far.
    pub requests: u64,
    /// Number of requests that were dropped because the file could not be written fast enough.
    pub dropped: u64,
}

impl Status {
    /// Adds the content of a report.
    pub fn note_report(&mut self, report: &Report, lost_blocks: u64, places: &Places<'_>) {
        self.lost = Lost::of(report, lost_blocks, places);
        self.checksum_errors = report.checksum_errors;
        self.last_scrub = places.last_scrub(report);
        self.accepted_losses = places.losses(report);
        self.history = lost::history(report);
    }
}

/// Progress of a task.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Name of the task: `drain`, `attach`, `check`, `scrub`.
    pub task: String,
    /// Bytes that are already processed.
    pub done_bytes: u64,
    /// Bytes that are still to be processed.
    pub left_bytes: u64,
    /// Recent rate, in bytes per second; null at first.
    pub bytes_per_s: Option<f64>,
    /// Seconds until the end at this rate; null if the rate is unknown.
    pub eta_s: Option<f64>,
    /// Obstacle to the task; null if there is no obstacle.
    pub trouble: Option<String>,
}
