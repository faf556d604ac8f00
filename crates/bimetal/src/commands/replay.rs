//! `bimetal replay`: issues a trace's requests to a live volume.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use bimetal_core::block::BlockSize;
use bimetal_core::label::Label;
use bimetal_core::units::Bytes;
use bimetal_measure::json::to_json;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::message::{self as control, Reply};
use bimetal_serve::control::socket_of;
use bimetal_serve::replay::{Connection, Issue};
use bimetal_serve::server::Endpoint;
use bimetal_sim::experiment::summary_of;
use bimetal_sim::findings::Finding;
use bimetal_sim::results::TraceSummary;
use bimetal_sim::simulator::Replay;
use bimetal_sim::survey::Survey;
use bimetal_sim::workload::placed::{Placed, Placement};
use bimetal_sim::workload::rounds::Rounds;
use bimetal_sim::workload::{Workload, WorkloadError};
use bimetal_trace::Request;
use bimetal_volumes::directories;
use bimetal_volumes::find::find;
use bimetal_volumes::status::{Emulation, Status};
use clap::Args;

use crate::cli::command_line;
use crate::error::Error;
use crate::options::replay::{choose_replay, replay, speedup};
use crate::options::simulation::RepeatOption;
use crate::options::{ConfigOption, JsonOption, TraceOptions};
use crate::output::{Versioned, note, print};
use crate::progress::Progress;
use crate::replay::document::{Counter, Document, Simulated, Volume};
use crate::replay::simulated;
use crate::self_check::self_check;
use crate::trace_workload::TraceWorkload;
use crate::volume::size;

/// Number of requests in a lot, which the reader of a trace hands over at once. The second constant
/// is the number of lots that the reader may be ahead.
const LOT: usize = 1024;
const LOTS_AHEAD: usize = 8;

/// Issue a trace's I/O to a live volume and measure its response times
///
/// The volume must be served. Devices of the trace lie one after another in the addresses of the
/// volume. A response time is the time from the moment at which a request is due to its answer.
/// With --against-simulator, a simulation plays these requests, too, with the volume's scheme,
/// settings and drives. The simulated volume begins empty, so replay to a volume that was just
/// created.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal replay monday.bin.zst mail --reads-only\n  \
    bimetal replay web_0.csv.gz try --overwrite --limit 20000 --against-simulator")]
pub(crate) struct Arguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The volume's name, or the path of any of its drives
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Issue writes and discards, too; they destroy the content of the volume
    #[arg(long, conflicts_with = "reads_only")]
    overwrite: bool,
    /// Issue reads only
    #[arg(long)]
    reads_only: bool,
    /// Also simulate the same requests; print both distributions and the distance between them
    #[arg(long)]
    against_simulator: bool,
    #[command(flatten)]
    reading: TraceOptions,
    /// timed: at the times of the trace; closed: DEPTH requests under way; think: after the answers
    /// that the recorded host waited for, and its think time [default: timed, or closed if the
    /// trace has no times]
    #[arg(long, value_name = "timed|closed[:DEPTH]|think", value_parser = replay)]
    replay: Option<Replay>,
    /// Speed factor of the times of the trace, or of the think times; 2: twice as fast
    #[arg(long, value_name = "X", value_parser = speedup, allow_hyphen_values = true, default_value = "1")]
    speedup: f64,
    #[command(flatten)]
    repeat: RepeatOption,
    /// Map the touched address ranges densely, so that a trace of a large drive fits a small volume
    #[arg(long)]
    compact: bool,
    /// Address of the volume's server: unix:PATH or tcp:HOST:PORT [default: the address in its
    /// status]
    #[arg(long, value_name = "ENDPOINT")]
    nbd: Option<Endpoint>,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    config: ConfigOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let workload = TraceWorkload::of_file(arguments.trace.clone(), &arguments.reading)?;
    let header = workload.header()?;
    let replay = choose_replay(arguments.replay, arguments.speedup, &header)?;
    let (name, format) = (header.name, header.format.name.to_owned());
    let label = find(&arguments.volume)?.assembly.label;
    let rounds = Rounds::of(&workload, arguments.repeat.repeat).map_err(|error| Error::new(error.to_string()))?;
    let survey = survey(&rounds, label.block)?;
    if matches!(replay, Replay::Think { .. })
        && let Some(finding) = Finding::no_response_times(survey.requests, survey.answered)
    {
        note(finding.text);
    }
    refuse_writes(&arguments, &survey, &label)?;
    let placement = Placement::new(&survey, label.block, arguments.compact, arguments.reads_only);
    let setup = arguments.against_simulator.then(|| simulated::setup(&label)).transpose()?;
    let endpoint =
        arguments.nbd.clone().or_else(|| endpoint_of(&label.name)).unwrap_or_else(|| own_socket(&label.name));
    let connection = Connection::open(&endpoint)?;
    let offered = Bytes(connection.offer().bytes);
    refuse_beyond(&arguments.trace, &placement, &label.name, offered)?;
    if connection.offer().block_min_bytes > 512 {
        note(format_args!(
            "sizes of requests are rounded up to multiples of {} bytes",
            connection.offer().block_min_bytes
        ));
    }
    let placed = Placed { workload: &rounds, placement: &placement };
    let before = emulation(&label.name);
    let (counter, duration_s) = issue(connection, &placed, replay, survey.requests)?;
    let emulation = emulation(&label.name).map(|after| since(before.unwrap_or_default(), after));
    let simulated = setup.map(|setup| simulated::play(setup, &placed, replay, counter.answered)).transpose()?;
    let document = Document {
        bimetal: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        options: options(&arguments, replay),
        trace: TraceSummary {
            name,
            format,
            skipped_lines: workload.skipped_lines(),
            ..summary(&survey, &placement, label.block)
        },
        volume: Volume {
            name: label.name.clone(),
            scheme: label.scheme.clone(),
            settings: label.settings.iter().cloned().collect(),
            exported_bytes: offered.0,
        },
        measured: counter.measured(duration_s),
        emulation,
        simulated: simulated.map(|simulated| Simulated::of(&simulated, &counter.response)),
    };
    if arguments.json.json {
        return print(&to_json(&Versioned::new("replay", &document)));
    }
    let head = format!("{} on {} ({})", self_check(&document.trace), label.name, label.scheme);
    print(&format!("{head}\n{}", document.text()))
}

fn survey(workload: &dyn Workload, block: BlockSize) -> Result<Survey, Error> {
    let progress = std::cell::RefCell::new(Progress::new(None, "requests"));
    let survey = Survey::of(workload, block, &|read| progress.borrow_mut().set(read));
    survey.map_err(|error| Error::new(error.to_string()))
}

/// Refuses writes and discards unless the user asked for them, because they destroy content of the
/// volume.
fn refuse_writes(arguments: &Arguments, survey: &Survey, label: &Label) -> Result<(), Error> {
    let changes = survey.writes + survey.discards;
    if changes == 0 || arguments.overwrite || arguments.reads_only {
        return Ok(());
    }
    Err(Error::new(format!(
        "{}: {} of its {} requests are writes or discards, which would destroy the content of volume '{}': issue them \
         with --overwrite, or leave them out with --reads-only",
        arguments.trace.display(),
        changes,
        survey.requests,
        label.name
    )))
}

fn refuse_beyond(trace: &Path, placement: &Placement, volume: &str, offered: Bytes) -> Result<(), Error> {
    if placement.end() <= offered {
        return Ok(());
    }
    Err(Error::new(format!(
        "{}: its addresses reach up to {}, and volume '{volume}' has {}: use a larger volume, --device N for one unit of \
         the trace, or --compact to map the touched ranges densely",
        trace.display(),
        size(placement.end()),
        size(offered)
    )))
}

/// Issues all requests, and returns the counted answers and the duration in seconds.
fn issue(
    connection: Connection,
    workload: &dyn Workload,
    replay: Replay,
    requests: u64,
) -> Result<(Counter, f64), Error> {
    let issue = match replay {
        Replay::Timed { speedup } => Issue::Timed { speedup },
        Replay::Closed { depth } => Issue::Closed { depth },
        Replay::Think { speedup } => Issue::Think { speedup },
    };
    let mut progress = Progress::new(Some(requests), "requests");
    let mut counter = Counter::default();
    let (sender, lots) = sync_channel(LOTS_AHEAD);
    std::thread::scope(|scope| {
        scope.spawn(|| read_ahead(workload, sender));
        let requests = lots.into_iter().flatten().map(|request| request.map_err(|e| Error::new(e.to_string())));
        let begun = Instant::now();
        connection.replay(requests, issue, |answered| {
            counter.note(&answered);
            if counter.answered.is_multiple_of(64) {
                progress.set(counter.answered);
            }
        })?;
        Ok((counter, begun.elapsed().as_secs_f64()))
    })
}

type Lot = Vec<Result<Request, WorkloadError>>;

/// Reads the trace ahead of its times, in lots. Ends early when the receiver is gone.
fn read_ahead(workload: &dyn Workload, lots: SyncSender<Lot>) {
    let mut requests = match workload.open() {
        Ok(requests) => requests,
        Err(error) => {
            let _ = lots.send(vec![Err(error)]);
            return;
        }
    };
    loop {
        let lot: Lot = requests.by_ref().take(LOT).collect();
        let ended = lot.len() < LOT;
        if lots.send(lot).is_err() || ended {
            return;
        }
    }
}

/// Returns the status that the server reports; `None` if no server answers.
fn status(volume: &str) -> Option<Box<Status>> {
    let mut client = Client::connect(&socket_of(volume)).ok()??;
    match client.ask(&control::Request::Status {}, |_| {}).ok()? {
        Reply::Status { status } => Some(status),
        _ => None,
    }
}

/// Returns the timing figures of the emulated members, by id.
fn emulation(volume: &str) -> Option<BTreeMap<String, Emulation>> {
    let members = status(volume)?.members.into_iter();
    Some(members.filter_map(|member| Some((member.id, member.emulation?))).collect())
}

/// Returns the endpoint to which clients of this machine connect.
fn endpoint_of(volume: &str) -> Option<Endpoint> {
    let mut endpoints: Vec<Endpoint> =
        status(volume)?.endpoints.iter().filter_map(|place| place.parse().ok()).collect();
    // TCP may be encrypted, which a replay does not support, so TCP endpoints come last.
    endpoints.sort_by_key(|endpoint| matches!(endpoint, Endpoint::Tcp(_)));
    endpoints.into_iter().next()
}

/// Returns the counts since `before`. The lateness of operations is known only since the server's
/// start, so the lateness keeps the value since that start.
fn since(before: BTreeMap<String, Emulation>, mut after: BTreeMap<String, Emulation>) -> BTreeMap<String, Emulation> {
    for (id, kept) in &mut after {
        let Some(before) = before.get(id) else { continue };
        let total = |of: &Emulation| of.overrun_mean_ms.unwrap_or(0.0) * of.overruns as f64;
        let total_ms = total(kept) - total(before);
        kept.operations = kept.operations.saturating_sub(before.operations);
        kept.overruns = kept.overruns.saturating_sub(before.overruns);
        kept.overrun_mean_ms = (kept.overruns > 0).then(|| total_ms / kept.overruns as f64);
    }
    after
}

fn own_socket(name: &str) -> Endpoint {
    Endpoint::Unix(directories::run_time().join(format!("{name}.sock")))
}

fn options(arguments: &Arguments, replay: Replay) -> BTreeMap<String, String> {
    let writes = if arguments.reads_only { "left out" } else { "issued" };
    [
        ("replay", replay.to_string()),
        ("repeat", arguments.repeat.repeat.to_string()),
        ("writes", writes.to_owned()),
        ("compact", arguments.compact.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn summary(survey: &Survey, placement: &Placement, block: BlockSize) -> TraceSummary {
    TraceSummary { address_end_bytes: Some(placement.end().0), ..summary_of(survey, block) }
}
