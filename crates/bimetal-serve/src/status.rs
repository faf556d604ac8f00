//! Status of a volume that is being served: the document of the `status` command, filled from the
//! counters of its server.

use bimetal_core::operation::OpKind;
use bimetal_core::scheme::MemberState;
use bimetal_core::units::Nanoseconds;
use bimetal_core::volume::{Drain, Statistics};
use bimetal_device::drive::emulated::Emulation as Kept;
use bimetal_measure::durations::Durations;
use bimetal_measure::share;
use bimetal_measure::throughput::Throughput;
use bimetal_measure::volume::{Migration, Moment, Shape, Span, bypass};
use bimetal_volumes::about::{About, AboutMember};
use bimetal_volumes::lost::{self, Places};
use bimetal_volumes::status::{Emulation, Engine, Member, Requests, Slots, Status, Wear};

use crate::snapshot::{Failing, MemberSnapshot, Snapshot};

/// Returns the status of a volume that is being served.
pub fn of(about: &About, snapshot: &Snapshot) -> Status {
    let statistics = &snapshot.statistics;
    let has_slots = snapshot.slots > 0;
    let with_slots = |value: u64| has_slots.then_some(value);
    let block = snapshot.block_bytes.0;
    let members = about.members.iter().zip(&snapshot.members).enumerate();
    let mut status = Status {
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
        members: members.map(|(at, (about_it, it))| member(about, snapshot, at, about_it, it)).collect(),
        requests: requests(snapshot),
        response_time_ms: snapshot.latencies.response_times(),
        throughput: throughput(snapshot),
        wear: wear(about, snapshot),
        engine: Engine {
            commits: with_slots(statistics.commits),
            checkpoints: with_slots(statistics.checkpoints),
            promoted_blocks: with_slots(statistics.promoted_blocks),
            evicted_blocks: with_slots(statistics.evicted_blocks),
            waited: Some(statistics.waited),
            reads_repaired: with_slots(statistics.reads_repaired),
        },
        ..Status::default()
    };
    let places = Places { name: &|member| about.name_of(member), units: &snapshot.units, block_bytes: block };
    status.note_report(&snapshot.report, snapshot.lost_blocks, &places);
    note_figures(&mut status, about, snapshot);
    status.meaning = meaning(about, snapshot);
    status
}

fn note_figures(status: &mut Status, about: &About, snapshot: &Snapshot) {
    let members = snapshot.members.iter().enumerate();
    let is_flash = members.map(|(at, member)| about.is_flash(at, member.role)).collect();
    let shape = Shape::of(about.scheme, &snapshot.layout, is_flash);
    // The volume was made when the server began.
    let nothing = Statistics::default();
    let span = Span {
        shape: &shape,
        before: Moment { statistics: &nothing, dirty_blocks: snapshot.dirty_blocks_before },
        after: Moment { statistics: &snapshot.statistics, dirty_blocks: snapshot.dirty_blocks },
    };
    status.write_savings = span.write_savings();
    status.read_penalty = span.read_penalty();
    status.ssd_hit_ratio = span.ssd_hit_ratio();
    status.migration = Migration::of(&[span]);
    status.bypass = bypass(&[span]);
}

/// Returns the state of a volume that is being served.
pub fn state(snapshot: &Snapshot) -> &'static str {
    let is_bad = |it: &MemberSnapshot| it.state != MemberState::Online || it.failing != Failing::default();
    let degraded = snapshot.members.iter().any(is_bad);
    let is_dead = |it: &MemberSnapshot| it.is_home && (it.state == MemberState::Failed || it.failing.reads);
    match (snapshot.stopping, snapshot.drain) {
        (true, _) => "stopping",
        (false, _) if snapshot.newest_is_gone || snapshot.members.iter().any(is_dead) => "failed",
        (false, Drain::UnderWay { .. }) => "draining",
        (false, _) if degraded => "degraded",
        (false, _) => "serving",
    }
}

/// Describes how safe the data is, with the command that helps if the data is at risk.
fn meaning(about: &About, snapshot: &Snapshot) -> String {
    let members = about.members.iter().zip(&snapshot.members);
    let mut troubles: Vec<String> = members.filter_map(|(member, it)| trouble(about, snapshot, member, it)).collect();
    let refuses = snapshot.members.iter().any(|it| it.state == MemberState::ReadOnly);
    troubles.extend(lost::meaning(&snapshot.report, snapshot.lost_blocks, &about.name, refuses));
    let calm = match (snapshot.dirty_blocks > 0, snapshot.slots > 0) {
        (true, _) => {
            "everything that was flushed is safe while every drive is connected; run `bimetal drain` before \
                      you take a drive out"
        }
        (false, true) => "everything is at home",
        (false, false) => "every block is always at its home",
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
        MemberState::Online if it.is_home && it.failing.writes && !it.failing.reads => {
            format!("{id} {fails}; requests that need it fail, and write-back to it waits until it takes writes again")
        }
        MemberState::Online if it.is_home => {
            format!("{id} {fails}; requests for blocks at home there fail: copy the volume to another drive")
        }
        MemberState::Online if off_home && dirty && it.failing.reads => format!(
            "{id} {fails}; blocks that only it has cannot be served until it answers again: check its cables and its \
             controller, and leave the server running"
        ),
        MemberState::Online if off_home && !dirty => format!("{id} {fails}; home has all of its content, and serves"),
        MemberState::Online => format!(
            "{id} {fails}; blocks that only it has are written back as far as they can be \
                                        read"
        ),
        MemberState::ReadOnly if off_home && it.failing.reads => format!(
            "{id} {fails}; blocks that only it has cannot be written back before it answers again: check its cables \
             and its controller, and leave the server running. Without the drive, `bimetal serve {name} \
             --accept-loss` serves home's older content"
        ),
        MemberState::ReadOnly if off_home => format!(
            "{id} is read-only: blocks that only it has are being written back; leave it in until it is detached, \
             then attach a new drive with `bimetal attach {name} PATH`"
        ),
        MemberState::ReadOnly => format!(
            "{id} is read-only: blocks at home there can still be read, and writes to them fail; copy the volume to \
             another drive"
        ),
        MemberState::Failed if it.is_home => {
            format!(
                "{id} is missing or has failed, and it is home of blocks: requests for them fail; connect it and \
                 start the server again"
            )
        }
        MemberState::Failed if snapshot.newest_is_gone => format!(
            "{id} is missing, and only it has some content: writes fail, so that nothing of that content is lost. \
             Connect {id} and restart the server. If {id} is lost, `bimetal serve {name} --accept-loss` serves home's \
             older content"
        ),
        MemberState::Failed => format!(
            "{id} is missing or has failed: everything is served from home; attach a new drive with `bimetal attach {name} \
             PATH`"
        ),
    })
}

fn member(about: &About, snapshot: &Snapshot, at: usize, label: &AboutMember, member: &MemberSnapshot) -> Member {
    let count = |kind| snapshot.latencies.member(at, kind).map(Durations::count);
    let zeroes = count(OpKind::WriteZeroes).unwrap_or(0);
    let metadata = snapshot.statistics.metadata_bytes.get(at);
    Member {
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
        bad_metadata_pages: Some(member.bad_pages),
        reads: count(OpKind::Read),
        writes: count(OpKind::Write).map(|writes| writes + zeroes),
        flushes: count(OpKind::Flush),
        read_bytes: Some(member.read_bytes.0),
        write_bytes: Some(member.write_bytes.0),
        errors: Some(member.errors),
        last_error: member.last_error.clone(),
        response_time_ms: snapshot.latencies.response_times_of(at),
        emulation: member.emulation.as_ref().map(emulation),
    }
}

fn emulation(kept: &Kept) -> Emulation {
    let late = |quantile| kept.late.value_at_quantile(quantile) as f64 / 1e6;
    Emulation {
        operations: kept.operations,
        overruns: kept.overruns,
        overrun_mean_ms: share(kept.overrun_total.0, kept.overruns).map(|nanoseconds| nanoseconds / 1e6),
        overrun_max_ms: kept.overrun_max.as_millis_f64(),
        late_p50_ms: late(0.5),
        late_p99_ms: late(0.99),
        late_max_ms: kept.late.max() as f64 / 1e6,
    }
}

fn requests(snapshot: &Snapshot) -> Requests {
    let count = |kind| snapshot.latencies.requests(kind).map_or(0, Durations::count);
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
    Throughput::of(snapshot.statistics.finished, snapshot.read_bytes + snapshot.write_bytes, snapshot.uptime)
}

fn wear(about: &About, snapshot: &Snapshot) -> Vec<Wear> {
    let members = about.members.iter().zip(&snapshot.members);
    let flash = members.enumerate().filter(|(at, (_, member))| about.is_flash(*at, member.role));
    flash.map(|(_, (about, member))| Wear::of(about, member.write_bytes, snapshot.uptime.as_seconds_f64())).collect()
}
