//! Document of the `status` command, with the names that the simulator's results use as well. A
//! figure that does not apply or is unknown is null, never 0. Figures count from the start of the
//! server.

use std::collections::BTreeMap;

use bimetal_core::label::report::Report;
use bimetal_core::layout::Role;
use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Drain;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::about::{About, AboutMember};
use super::message::Progress;
use super::report::{self, AcceptedLoss, HistoryLine, LastScrub, Lost, Places};
use crate::server::{Failing, MemberSnapshot, Snapshot};

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
    /// - `failed`: a drive that is home of blocks is missing or cannot be read.
    /// - `draining`: a drain is under way.
    /// - `stopping`: the server is stopping.
    ///
    /// Without a server:
    ///
    /// - `stopped`: no server runs.
    /// - `stopped, attached`: no server runs, and home is no plain disk.
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
    /// Share of blocks that the SSD served.
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
    /// Last scrub that ended completely; null if there was none.
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
    /// - `behind`: its content is outdated.
    /// - `let go`: the drive is not needed, connected or not.
    /// - `overwritten`: another program has overwritten its label, and the label's second copy is
    ///   left.
    pub state: String,
    /// Time at which the drive was last present, in seconds since 1970, if the label has it.
    pub last_seen_s: Option<u64>,
    /// Description of the way operations are carried out.
    pub drive: Option<String>,
    /// Bytes of metadata that the engine wrote.
    pub metadata_bytes: Option<u64>,
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
    /// Accuracy of the drive's emulation, if it is emulated.
    #[serde(default)]
    pub emulation: Option<Emulation>,
}

/// Accuracy with which a file keeps the times of the drive that it emulates.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Emulation {
    /// Number of operations that ended.
    pub operations: u64,
    /// Number of operations whose real part took longer than the emulated drive would have.
    pub overruns: u64,
    /// Mean excess time of overruns; null if there is none.
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

impl Emulation {
    fn of(kept: &crate::drive::emulated::Emulation) -> Self {
        let late = |quantile| kept.late.value_at_quantile(quantile) as f64 / 1e6;
        Self {
            operations: kept.operations,
            overruns: kept.overruns,
            overrun_mean_ms: ratio(kept.overrun_total.0, kept.overruns).map(|nanoseconds| nanoseconds / 1e6),
            overrun_max_ms: kept.overrun_max.as_millis_f64(),
            late_p50_ms: late(0.5),
            late_p99_ms: late(0.99),
            late_max_ms: kept.late.max() as f64 / 1e6,
        }
    }
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

/// Response times in milliseconds; `all` is reads and writes together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// Reads and writes.
    pub all: Distribution,
    /// Reads.
    pub read: Distribution,
    /// Writes.
    pub write: Distribution,
    /// Flushes.
    pub flush: Distribution,
}

/// Mean, percentiles and maximum, each with an error of at most 1 %; all null if there was no
/// request of the kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is what it says")]
pub struct Distribution {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub p9999: Option<f64>,
    pub max: Option<f64>,
}

/// Throughput since the server began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// Requests per second.
    pub iops: Option<f64>,
    /// Megabytes (10⁶ bytes) read and written per second.
    pub mb_per_s: Option<f64>,
}

/// Share of blocks that the SSD served.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HitRatio {
    /// Share of blocks read.
    pub read: Option<f64>,
    /// Share of blocks written.
    pub write: Option<f64>,
}

/// Background moves; the whole batch of a trigger counts once.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Migration {
    /// Number of batches.
    pub count: Option<u64>,
    /// Number of bytes moved.
    pub bytes: Option<u64>,
    /// Mean of the seconds between the starts of two batches.
    pub mean_interval_s: Option<f64>,
    /// Mean number of bytes in a batch.
    pub mean_bytes: Option<f64>,
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
    /// Bytes for which its maker rates the drive; null if unknown.
    pub rated_write_bytes: Option<u64>,
    /// Share of the rating that is used up, without writes before the drive became a member. Null
    /// without a rating.
    pub rated_used: Option<f64>,
    /// Years of service that the whole rating lasts at the drive's mean rate; null without a rating
    /// or without writes.
    pub rated_life_years: Option<f64>,
    /// Years of service that are left of the rating; null in the same cases.
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
        let years = served / SECONDS_PER_YEAR;
        let life = used.filter(|&used| used > 0.0).map(|used| years / used);
        Self {
            id: about.id.clone(),
            write_bytes: written.0,
            lifetime_write_bytes: lifetime,
            lifetime_served_s: served,
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
    /// Returns the status of a volume that is being served.
    pub fn of(about: &About, snapshot: &Snapshot) -> Self {
        let statistics = &snapshot.statistics;
        let has_slots = snapshot.slots > 0;
        let with_slots = |value: u64| has_slots.then_some(value);
        let block = snapshot.block_bytes.0;
        let members = about.members.iter().zip(&snapshot.members).enumerate();
        let mut status = Self {
            name: about.name.clone(),
            uuid: about.uuid.clone(),
            state: state(snapshot).to_owned(),
            scheme: about.scheme.name.to_owned(),
            settings: about.settings.clone(),
            block_bytes: block,
            exported_bytes: Some(snapshot.exports.iter().map(|(_, bytes)| bytes.0).sum()),
            process: Some(std::process::id()),
            uptime_s: Some(snapshot.uptime.as_seconds_f64()),
            clients: Some(snapshot.clients as u64),
            clients_max: Some(snapshot.clients_max as u64),
            clients_refused: Some(snapshot.clients_refused),
            requests_under_way: Some(snapshot.requests_under_way),
            dirty_bytes: Some(snapshot.dirty_blocks * block),
            dirty_oldest_s: snapshot.dirty_age.map(Nanoseconds::as_seconds_f64),
            slots: Slots {
                bytes: with_slots(snapshot.slots * block),
                used_bytes: with_slots(snapshot.occupied_slots * block),
            },
            members: members.map(|(at, (about_it, it))| Member::of(about, snapshot, at, about_it, it)).collect(),
            requests: requests(snapshot),
            response_time_ms: response_times(|kind| snapshot.latencies.requests(kind)),
            throughput: throughput(snapshot),
            bypass: statistics.bypassed_blocks.iter().map(|(reason, &blocks)| (reason.0.to_owned(), blocks)).collect(),
            wear: wear(about, snapshot),
            engine: Engine {
                commits: with_slots(statistics.commits),
                checkpoints: with_slots(statistics.checkpoints),
                promoted_blocks: with_slots(statistics.promoted_blocks),
                evicted_blocks: with_slots(statistics.evicted_blocks),
                waited: Some(statistics.waited),
                reads_repaired: with_slots(statistics.reads_repaired),
            },
            ..Self::default()
        };
        let places = Places { name: &|member| about.name_of(member), units: &snapshot.units, block_bytes: block };
        status.note_report(&snapshot.report, snapshot.lost_blocks, &places);
        status.note_scheme_figures(about, snapshot);
        status.meaning = meaning(about, snapshot);
        status
    }

    /// Adds the content of a report.
    pub(super) fn note_report(&mut self, report: &Report, lost_blocks: u64, places: &Places<'_>) {
        self.lost = Lost::of(report, lost_blocks, places);
        self.checksum_errors = report.checksum_errors;
        self.last_scrub = places.last_scrub(report);
        self.accepted_losses = places.losses(report);
        self.history = report::history(report);
    }

    fn note_scheme_figures(&mut self, about: &About, snapshot: &Snapshot) {
        let statistics = &snapshot.statistics;
        if about.is_about_write_savings() {
            let home = statistics.home_blocks_written + snapshot.dirty_blocks;
            // Blocks that were in the log when the server began were written before.
            let home = home.saturating_sub(snapshot.dirty_blocks_before);
            self.write_savings = ratio(home, statistics.written_blocks).map(|share| 1.0 - share);
            self.read_penalty = ratio(statistics.read_blocks_from_slots, statistics.read_blocks);
        }
        if snapshot.members.len() > 1 {
            let on_ssd = |blocks: &[u64]| -> u64 {
                let each = snapshot.members.iter().zip(blocks);
                each.filter(|(member, _)| member.role == Role::Ssd).map(|(_, blocks)| blocks).sum()
            };
            self.ssd_hit_ratio = HitRatio {
                read: ratio(on_ssd(&statistics.read_blocks_by_member), statistics.read_blocks),
                write: ratio(on_ssd(&statistics.written_blocks_by_member), statistics.written_blocks),
            };
        }
        if snapshot.slots > 0 {
            let migrations = &statistics.migrations;
            self.migration = Migration {
                count: Some(migrations.count),
                bytes: Some(migrations.bytes.0),
                mean_interval_s: migrations.mean_interval().map(Nanoseconds::as_seconds_f64),
                mean_bytes: ratio(migrations.bytes.0, migrations.count),
            };
        }
    }
}

/// Returns the state of a volume that is being served.
pub fn state(snapshot: &Snapshot) -> &'static str {
    let is_bad = |it: &MemberSnapshot| it.state != MemberState::Online || it.failing != Failing::default();
    let degraded = snapshot.members.iter().any(is_bad);
    let is_dead = |it: &MemberSnapshot| it.is_home && (it.state == MemberState::Failed || it.failing.reads);
    match (snapshot.stopping, snapshot.drain) {
        (true, _) => "stopping",
        (false, _) if snapshot.members.iter().any(is_dead) => "failed",
        (false, Drain::UnderWay { .. }) => "draining",
        (false, _) if degraded => "degraded",
        (false, _) => "serving",
    }
}

/// Describes the safety of the data, with the command that helps if it is at risk.
fn meaning(about: &About, snapshot: &Snapshot) -> String {
    let members = about.members.iter().zip(&snapshot.members);
    let mut troubles: Vec<String> = members.filter_map(|(member, it)| trouble(about, snapshot, member, it)).collect();
    let refuses = snapshot.members.iter().any(|it| it.state == MemberState::ReadOnly);
    troubles.extend(report::meaning(&snapshot.report, snapshot.lost_blocks, &about.name, refuses));
    let calm = match (snapshot.dirty_blocks > 0, snapshot.slots > 0) {
        (true, _) => "all that was flushed is safe while every drive is there; drain before you take one out",
        (false, true) => "everything is at home",
        (false, false) => "every block is at its home, always",
    };
    if troubles.is_empty() {
        troubles.push(calm.to_owned());
    }
    let there = about.members.iter().zip(&snapshot.members).filter(|(_, it)| it.state != MemberState::Failed);
    troubles.extend(there.filter_map(|(member, it)| {
        let last = it.last_error.as_ref()?;
        Some(format!("{} failed {} operations since the server began, the last: {last}", member.id, it.errors))
    }));
    troubles.join("; ")
}

/// Describes the consequence of a member that is not healthy.
fn trouble(about: &About, snapshot: &Snapshot, member: &AboutMember, it: &MemberSnapshot) -> Option<String> {
    let (id, name, dirty) = (&member.id, &about.name, snapshot.dirty_blocks > 0);
    let off_home = matches!(about.holds(it.role), "cache" | "log");
    if let Some(no_room) = &it.no_room {
        return Some(format!("{id}: {no_room}"));
    }
    let fails = it.failing.in_words();
    Some(match it.state {
        MemberState::Online if it.failing == Failing::default() => return None,
        MemberState::Online if it.is_home && it.failing.writes && !it.failing.reads => format!(
            "{id} {fails}; what needs it fails, and what is to go there stays where it is until it takes writes again"
        ),
        MemberState::Online if it.is_home => {
            format!("{id} {fails}; requests for what is at home there are errors: copy the volume to another drive")
        }
        MemberState::Online if off_home && dirty && it.failing.reads => format!(
            "{id} {fails}; what only it has is not served until it answers again: look at its cables and its controller, and leave \
             the server running"
        ),
        MemberState::Online if off_home && !dirty => format!("{id} {fails}; home has all that is there, and serves"),
        MemberState::Online => format!("{id} {fails}; what only it has goes home as far as it can be read"),
        MemberState::ReadOnly if off_home && it.failing.reads => format!(
            "{id} {fails}; what only it has cannot go home before it answers again: look at its cables and its controller, and \
             leave the server running; `bimetal serve {name} --accept-loss` without it goes on with what home has"
        ),
        MemberState::ReadOnly if off_home => format!(
            "{id} refuses writes and is read on: what only it has goes home now; leave it in until it is let go, then put a drive \
             in its place with `bimetal attach {name} PATH`"
        ),
        MemberState::ReadOnly => format!(
            "{id} refuses writes: what is at home there can still be read, and writes to it are errors; copy the volume to \
             another drive"
        ),
        MemberState::Failed if it.is_home => {
            format!(
                "{id} is gone, and it is home of blocks: requests for them are errors; bring it back and start the server again"
            )
        }
        MemberState::Failed if dirty => {
            format!("{id} is gone, and content that only it has: do not stop the server before it is back")
        }
        MemberState::Failed => format!(
            "{id} is gone{}: everything is served from home; put a drive in its place with `bimetal attach {name} PATH`",
            if snapshot.report.losses().is_empty() { ", and nothing with it" } else { "" }
        ),
    })
}

impl Member {
    fn of(about: &About, snapshot: &Snapshot, at: usize, label: &AboutMember, member: &MemberSnapshot) -> Self {
        let count = |kind| snapshot.latencies.member(at, kind).map(Histogram::len);
        let metadata = snapshot.statistics.metadata_bytes.get(at);
        Self {
            id: label.id.clone(),
            uuid: None,
            role: about.holds(member.role).to_owned(),
            path: label.path.clone(),
            profile: label.profile.clone(),
            bytes: label.bytes.0,
            state: match member.state {
                MemberState::Online if member.failing != Failing::default() => "failing",
                MemberState::Online => "online",
                MemberState::ReadOnly => "read-only",
                MemberState::Failed => "failed",
            }
            .to_owned(),
            last_seen_s: None,
            drive: Some(member.drive.clone()),
            metadata_bytes: metadata.map(|bytes| bytes.0),
            reads: count(OpKind::Read),
            writes: count(OpKind::Write),
            flushes: count(OpKind::Flush),
            read_bytes: Some(member.read_bytes.0),
            write_bytes: Some(member.write_bytes.0),
            errors: Some(member.errors),
            last_error: member.last_error.clone(),
            response_time_ms: response_times(|kind| snapshot.latencies.member(at, kind)),
            emulation: member.emulation.as_ref().map(Emulation::of),
        }
    }
}

fn requests(snapshot: &Snapshot) -> Requests {
    let count = |kind| snapshot.latencies.requests(kind).map_or(0, Histogram::len);
    Requests {
        reads: Some(count(OpKind::Read)),
        writes: Some(count(OpKind::Write) + count(OpKind::WriteZeroes)),
        flushes: Some(count(OpKind::Flush)),
        discards: Some(count(OpKind::Discard)),
        read_bytes: Some(snapshot.read_bytes.0),
        write_bytes: Some(snapshot.write_bytes.0),
        failed: Some(snapshot.statistics.failed),
    }
}

fn throughput(snapshot: &Snapshot) -> Throughput {
    let seconds = snapshot.uptime.as_seconds_f64();
    if seconds <= 0.0 {
        return Throughput::default();
    }
    let bytes = snapshot.read_bytes.0 + snapshot.write_bytes.0;
    Throughput {
        iops: Some(snapshot.statistics.finished as f64 / seconds),
        mb_per_s: Some(bytes as f64 / 1e6 / seconds),
    }
}

const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

fn wear(about: &About, snapshot: &Snapshot) -> Vec<Wear> {
    let members = about.members.iter().zip(&snapshot.members);
    let flash = members.filter(|(_, member)| member.role == Role::Ssd);
    flash.map(|(about, member)| Wear::of(about, member.write_bytes, snapshot.uptime.as_seconds_f64())).collect()
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn response_times<'a>(of: impl Fn(OpKind) -> Option<&'a Histogram<u64>>) -> ResponseTimes {
    let (read, write) = (of(OpKind::Read), of(OpKind::Write));
    let all = read.cloned().map(|mut all| {
        // Both have the same bounds, so they can be added.
        let added = write.map_or(Ok(()), |write| all.add(write));
        debug_assert!(added.is_ok());
        all
    });
    ResponseTimes {
        all: distribution(all.as_ref()),
        read: distribution(read),
        write: distribution(write),
        flush: distribution(of(OpKind::Flush)),
    }
}

fn distribution(histogram: Option<&Histogram<u64>>) -> Distribution {
    let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else { return Distribution::default() };
    let ms = |nanoseconds: f64| Some(nanoseconds / 1e6);
    let at = |quantile: f64| ms(histogram.value_at_quantile(quantile) as f64);
    Distribution {
        mean: ms(histogram.mean()),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: ms(histogram.max() as f64),
    }
}
