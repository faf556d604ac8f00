//! `bimetal status`: shows a volume, from its server or, if it is stopped, from its labels.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bimetal_core::units::{Bytes, counted};
use bimetal_measure::durations::Distribution;
use bimetal_measure::text::{percent, three_digits};
use bimetal_serve::control::client::ClientError;
use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::lost::{Finding, Lost};
use bimetal_volumes::offline;
use bimetal_volumes::status::{Member, Progress, Status};
use clap::Args;

use crate::error::Error;
use crate::life::{today, until};
use crate::options::JsonOption;
use crate::output::{print, print_json};
use crate::target::Target;
use crate::volume::{ago, size};

/// Show a volume: safety of its data, dirty blocks, work of its drives, and reasons for a bypass
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal status mail\n  \
    bimetal status /dev/sdb1 --json")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let status = status_of(&arguments.volume)?;
    if arguments.json.json { print_json("status", &status) } else { print(&describe(&status)) }
}

/// Asks the server for the status, or reads the labels if no server runs. A server that is ending
/// may close its socket before it has answered: then the volume is looked up again.
fn status_of(volume: &str) -> Result<Status, Error> {
    let asked_at = Instant::now();
    loop {
        let mut client = match Target::find(volume)? {
            Target::Served(client) => client,
            Target::Stopped(located) => return Ok(offline::status(&located)),
        };
        match client.ask(&Request::Status {}, |_| ()) {
            Ok(Reply::Status { status }) => return Ok(*status),
            Ok(Reply::Error { message }) => return Err(Error::new(message)),
            Ok(other) => return Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
            Err(ClientError::Ended { .. }) if asked_at.elapsed() < SERVER_ENDS_WITHIN => {
                std::thread::sleep(ASK_AGAIN_AFTER);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Longest time for which a status is asked for again after a server closed its socket during a
/// request. At the end of this time the server has ended.
const SERVER_ENDS_WITHIN: Duration = Duration::from_secs(10);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Largest number of ranges of bad content that are shown to people.
const LOST_SHOWN: usize = 16;

/// Writes a line of text. Writing to a string cannot fail, so the result is ignored.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => { let _ = writeln!($text, $($argument)*); };
}

fn describe(status: &Status) -> String {
    let mut text = String::new();
    line!(text, "{}: {}, {}", status.name, status.scheme, status.state);
    line!(text, "  {}", status.meaning);
    let served_for = status.uptime_s.map(|seconds| format!(", up {}", span(seconds))).unwrap_or_default();
    if let Some(process) = status.process {
        line!(text, "  process {process} uses it{served_for}");
    }
    if let (endpoints @ [_, ..], Some(clients)) = (status.endpoints.as_slice(), status.clients) {
        line!(text, "  {clients} clients at {}", endpoints.join(", "));
    }
    describe_dirty(status, &mut text);
    describe_lost(&status.lost, &mut text);
    describe_losses(status, &mut text);
    for (name, task) in [("drain", &status.drain), ("check", &status.check)] {
        if let Some(task) = task {
            line!(text, "{name:<9}{}", progress(task));
        }
    }
    line!(text, "drives");
    for member in &status.members {
        describe_member(member, &mut text);
    }
    describe_service(status, &mut text);
    describe_wear(status, &mut text);
    describe_scrubs(status, &mut text);
    if let Some(trace) = &status.trace {
        line!(text, "trace    {}: {} requests, {} left out", trace.path, trace.requests, trace.dropped);
    }
    if !status.settings.is_empty() {
        let settings: Vec<_> = status.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        line!(text, "settings {}", settings.join(" "));
    }
    text
}

/// Returns true if no drive is missing or damaged, and no content is lost or given up.
fn is_whole(status: &Status) -> bool {
    let is_there = |member: &Member| !["missing", "behind", "overwritten", "failed"].contains(&&*member.state);
    status.lost.blocks == 0 && status.accepted_losses.is_empty() && status.members.iter().all(is_there)
}

fn describe_dirty(status: &Status, text: &mut String) {
    let dirty = match (status.dirty_bytes, status.dirty_oldest_s) {
        (None, _) => return,
        (Some(0), _) if is_whole(status) => "nothing: home has everything".to_owned(),
        (Some(0), _) => "nothing".to_owned(),
        (Some(bytes), Some(age)) => format!("{}, dirty for at most {}", size(Bytes(bytes)), span(age)),
        (Some(bytes), None) if status.process.is_none() => format!("{} that home does not have", size(Bytes(bytes))),
        (Some(bytes), None) => format!("{}, dirty in part since before the server began", size(Bytes(bytes))),
    };
    line!(text, "dirty    {dirty}");
    if let (Some(all), Some(used)) = (status.slots.bytes, status.slots.used_bytes) {
        line!(text, "off home {} of {} in use, with checksums; home has none", size(Bytes(used)), size(Bytes(all)));
    }
}

/// Adds the first of the ranges that are lost or bad.
pub(crate) fn describe_lost(lost: &Lost, text: &mut String) {
    for finding in lost.findings.iter().take(LOST_SHOWN) {
        let Finding { kind, state, drive, unit, offset_bytes, bytes, blocks, at_s, acknowledged, .. } = finding;
        let acknowledged = if *acknowledged { ", acknowledged" } else { "" };
        let (place, long) = (format!("unit {unit} byte {offset_bytes}"), size(Bytes(*bytes)));
        let blocks = counted(*blocks, "block");
        line!(text, "  {state:<9} {place}, {long} ({blocks}): {kind} on {drive}, {}{acknowledged}", ago(*at_s));
    }
    let shown: u64 = lost.findings.iter().take(LOST_SHOWN).map(|finding| finding.blocks).sum();
    let all = lost.findings.iter().map(|finding| finding.blocks).sum::<u64>() + lost.unlisted_blocks;
    if all > shown {
        line!(text, "  and {} more (--json names up to 4096 ranges)", counted(all - shown, "block"));
    }
}

fn describe_losses(status: &Status, text: &mut String) {
    if status.checksum_errors > 0 {
        line!(text, "checksum {} of blocks off home failed the check", counted(status.checksum_errors, "read"));
    }
    for loss in &status.accepted_losses {
        let (what, had) = match loss.what.as_str() {
            "foreign" => ("the content overwritten at the beginning of", ""),
            "part" => ("content that only damaged metadata listed, on", ""),
            "proof" => ("the proof of the content of", ", whose overwritten metadata a rescue wrote again"),
            _ => ("content that only", " had"),
        };
        let blocks = loss.blocks.map(|blocks| format!(", {}", counted(blocks, "block"))).unwrap_or_default();
        let by = if loss.what == "proof" { "bimetal rescue" } else { "--accept-loss" };
        line!(text, "accepted loss of {what} {}{had}{blocks}, {} ({by})", loss.drive, ago(loss.at_s));
    }
    if let Some(last) = status.history.last() {
        line!(text, "history  {}: {}", ago(last.at_s), last.text);
    }
}

fn describe_member(member: &Member, text: &mut String) {
    let path = match (&member.path, member.state.as_str()) {
        (Some(path), "behind") => format!("{path}, out of date: the volume went on without this drive"),
        (Some(path), "overwritten") => format!("{path}, label overwritten by another program"),
        (Some(path), _) => path.clone(),
        (None, _) => {
            format!("missing, last seen {}", member.last_seen_s.map(ago).unwrap_or_else(|| "never".to_owned()))
        }
    };
    line!(text, "  {:<4} {:<6} {:<8} {:<8} {path}", member.id, member.role, size(Bytes(member.bytes)), member.state);
    if let (Some(reads), Some(writes)) = (member.reads, member.writes) {
        let bytes = |bytes: Option<u64>| size(Bytes(bytes.unwrap_or_default()));
        let times = times(&member.response_time_ms.all);
        line!(
            text,
            "       read {} in {reads}, wrote {} in {writes}{times}",
            bytes(member.read_bytes),
            bytes(member.write_bytes)
        );
    }
    if let Some(pages @ 1..) = member.bad_metadata_pages {
        let pages = counted(pages, "page");
        line!(text, "       {pages} of metadata bad in the last scrub, or else at the start");
    }
    if let (Some(errors @ 1..), last) = (member.errors, &member.last_error) {
        line!(text, "       {errors} errors, the last: {}", last.as_deref().unwrap_or("not known"));
    }
}

fn describe_service(status: &Status, text: &mut String) {
    let requests = &status.requests;
    let (Some(reads), Some(writes)) = (requests.reads, requests.writes) else { return };
    line!(text, "requests {reads} reads{}", times(&status.response_time_ms.read));
    line!(text, "         {writes} writes{}", times(&status.response_time_ms.write));
    let share = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{} %", percent(share)));
    let hits = &status.ssd_hit_ratio;
    if hits.read.is_some() || hits.write.is_some() {
        line!(text, "on SSD   {} of the blocks read, {} of the blocks written", share(hits.read), share(hits.write));
    }
    if status.write_savings.is_some() {
        let (savings, penalty) = (share(status.write_savings), share(status.read_penalty));
        line!(
            text,
            "savings  {savings} of the written blocks never reached home, {penalty} of the read blocks came \
                     from the log"
        );
    }
    if !status.bypass.is_empty() {
        let mut reasons: Vec<_> = status.bypass.iter().collect();
        reasons.sort_by_key(|&(_, &blocks)| std::cmp::Reverse(blocks));
        let block = status.block_bytes;
        let each: Vec<_> =
            reasons.iter().map(|(reason, blocks)| format!("{reason} {}", size(Bytes(**blocks * block)))).collect();
        line!(text, "bypassed {}", each.join(", "));
    }
}

fn describe_wear(status: &Status, text: &mut String) {
    for wear in &status.wear {
        let now = match status.uptime_s {
            Some(_) => format!(", {} since the server began", size(Bytes(wear.write_bytes))),
            None => String::new(),
        };
        let life = match (wear.rated_used, wear.rated_years_left) {
            (Some(used), Some(years)) => {
                let until = until(years, today());
                format!("; {:.1} % of its rating, {years:.1} years left at this rate{until}", used * 100.0)
            }
            _ => String::new(),
        };
        let days = wear.dwpd.map(|writes| format!("; {} drive writes a day", three_digits(writes))).unwrap_or_default();
        let lifetime = size(Bytes(wear.lifetime_write_bytes));
        line!(text, "wear     {}: {lifetime} written since it became a member{now}{days}{life}", wear.id);
    }
}

fn describe_scrubs(status: &Status, text: &mut String) {
    if let Some(scrub) = &status.scrub {
        line!(text, "scrub    {}", progress(scrub));
    }
    let next = status.next_scrub_s.map(|seconds| format!("; next scrub in {}", span(seconds))).unwrap_or_default();
    match &status.last_scrub {
        Some(last) => {
            let found = match (last.bad_blocks, last.lost_blocks) {
                (0, _) => "no bad block".to_owned(),
                (bad, 0) => format!("bad blocks: {bad}, all repaired"),
                (bad, lost) => format!("bad blocks: {bad}, of which {lost} have no good copy"),
            };
            let (when, read, took) = (ago(last.at_s), size(Bytes(last.read_bytes)), span(last.took_s));
            line!(text, "scrubbed {when}: {read} read in {took}, {found}{next}");
        }
        None if status.next_scrub_s.is_some() => {
            line!(text, "scrubbed never{next}");
        }
        None => {}
    }
}

fn times(distribution: &Distribution) -> String {
    match (distribution.p50, distribution.p99) {
        (Some(p50), Some(p99)) => format!(", p50 {p50:.2} ms, p99 {p99:.2} ms"),
        _ => String::new(),
    }
}

fn progress(task: &Progress) -> String {
    let mut text = format!("{} left", size(Bytes(task.left_bytes)));
    if let Some(rate) = task.bytes_per_s {
        let _ = write!(text, ", {}/s", size(Bytes(rate as u64)));
    }
    if let Some(eta) = task.eta_s {
        let _ = write!(text, ", done in {}", span(eta));
    }
    if let Some(trouble) = &task.trouble {
        let _ = write!(text, "; {trouble}");
    }
    text
}

/// Returns a span of time for people.
fn span(seconds: f64) -> String {
    match seconds {
        ..0.0 => "0 s".to_owned(),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}
