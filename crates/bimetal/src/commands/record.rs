//! `bimetal record`: writes the requests to a live block device as a trace.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bimetal_core::units::Nanoseconds;
use bimetal_trace::Event;
use bimetal_trace::record::{Recorder, Summary};
use bimetal_trace::write::Content;
use clap::Args;
use rustix::process::{Pid, Signal};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{note, print_json};
use crate::progress::Progress;
use crate::trace_file::{TraceWriter, WrittenTrace};

/// Interval at which the kernel's events are fetched. The interval is short against the time in
/// which the kernel's buffers fill.
const POLL: Duration = Duration::from_millis(40);

/// Record a trace of a live block device
///
/// Records until Ctrl-C, until --duration is over, or while a command runs. Nothing on the device
/// is changed, and its file system may be mounted. Needs root. A response time is the time from the
/// arrival of a request at the device to its completion.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo bimetal record /dev/sdb -o monday.bin.zst --duration 8h\n  \
    sudo bimetal record /dev/sdb -o build.bin.zst -- make -j8")]
pub(crate) struct Arguments {
    /// The block device: a disk or a partition
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// The trace to write; its ending names the format: .bin.zst (compressed) or .csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the trace, which `bimetal formats` marks as written [default: by the ending of
    /// FILE, else bin]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Stop after this time, like 30s or 8h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanoseconds>,
    /// Event that counts as the arrival of a request; queue: a file system or program issues it;
    /// issue: the device gets it, after merging
    #[arg(long, value_name = "queue|issue", default_value = "queue")]
    event: String,
    #[command(flatten)]
    json: JsonOption,
    /// A command to record while it runs, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let arrival = match arguments.event.as_str() {
        "queue" => Event::Queue,
        "issue" => Event::Issue,
        other => return Err(Error::unknown("event", other, ["queue", "issue"])),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let content =
        Content { capacity: Some(Recorder::size_of(&arguments.device)?), event: Some(arrival), ..Content::default() };
    let mut file = TraceWriter::create(&arguments.output, arguments.format.as_deref(), content)?;
    warn_of_feedback(&arguments);
    let mut recorder = Recorder::start(&arguments.device, arrival)?;
    let mut command = Running::start(&arguments.command)?;
    if command.is_none() && arguments.duration.is_none() {
        note(format_args!("recording {} by {}; Ctrl-C ends it", arguments.device.display(), recorder.source()));
    }

    let started = Instant::now();
    let deadline = arguments.duration.map(|duration| started + Duration::from_nanos(duration.get()));
    let mut progress = Progress::new(None, "requests");
    let mut requests = Vec::new();
    let mut written = 0;
    let outcome = loop {
        let more = recorder.poll(&mut requests)?;
        written += requests.len() as u64;
        for request in requests.drain(..) {
            file.write(&request)?;
        }
        progress.set(written);
        if let Some(status) = command.as_mut().map(|command| command.0.try_wait()).transpose()?.flatten() {
            break (!status.success()).then(|| format!("the command ended with {status}"));
        }
        if recorder.is_over() {
            break Some(format!("{} ended by itself: later requests are missing", recorder.source()));
        }
        if stop.load(Ordering::Relaxed) || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break None;
        }
        if !more {
            std::thread::sleep(POLL);
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let summary = recorder.finish(&mut requests)?;
    for request in requests.drain(..) {
        file.write(&request)?;
    }
    drop(progress);
    drop(command);
    if summary.requests == 0 {
        return Err(Error::new(format!(
            "{}: no request in {seconds:.1} s, so no trace was written: expected a device that is in use (a file \
             system's own cache may have answered everything)",
            arguments.device.display()
        )));
    }
    let written = file.finish()?;
    if let Some(outcome) = outcome {
        note(outcome);
    }
    note(describe(&arguments.output, &summary, seconds));
    if !arguments.json.json {
        return Ok(());
    }
    let Summary { unpaired, lost_events, .. } = summary;
    print_json("record", &Recorded { written, duration_s: seconds, unpaired, lost_events })
}

/// A recording, for programs.
#[derive(Serialize)]
struct Recorded {
    #[serde(flatten)]
    written: WrittenTrace,
    duration_s: f64,
    /// Number of requests without a response time.
    unpaired: u64,
    /// Number of the kernel's events that were lost: the trace has gaps.
    lost_events: u64,
}

fn describe(output: &Path, summary: &Summary, seconds: f64) -> String {
    let mut text = format!("{} requests in {seconds:.1} s in {}", summary.requests, output.display());
    if summary.unpaired > 0 {
        let _ = write!(text, "; {} of them without a response time", summary.unpaired);
    }
    if summary.lost_events > 0 {
        let _ = write!(
            text,
            "; WARNING: {} kernel events were lost because they were not fetched in time, so the trace has gaps",
            summary.lost_events
        );
    }
    text
}

/// Warns if the trace is written to the device that is recorded: the writes of the trace itself
/// would be recorded, too.
fn warn_of_feedback(arguments: &Arguments) {
    let directory = arguments.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let of = |path: &Path| std::fs::metadata(path).ok();
    let (Some(device), Some(directory)) = (of(&arguments.device), of(directory.unwrap_or(Path::new(".")))) else {
        return;
    };
    if device.rdev() == directory.dev() {
        note(format_args!(
            "{} lies on the recorded device: the writes of the recording are recorded too",
            arguments.output.display()
        ));
    }
}

/// The command that is recorded. If the command still runs when the recording is over, the command
/// is ended.
struct Running(Child);

impl Running {
    fn start(command: &[String]) -> Result<Option<Self>, Error> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(Some(Self(child))),
            Err(error) => Err(Error::new(format!("{program}: cannot be started: {error}"))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None))
            && let Some(process) = Pid::from_raw(self.0.id().cast_signed())
        {
            let _ = rustix::process::kill_process(process, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}
