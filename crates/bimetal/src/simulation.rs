//! Shared parts of `simulate` and `compare`: options, the trace as a workload, and the display of
//! an experiment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bimetal_core::block::BlockSize;
use bimetal_core::scheme::{FileExtent, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange};
use bimetal_models::flash::Precondition;
use bimetal_models::flash::state::{self, DriveState};
use bimetal_sim::experiment::{Experiment, Progress as ExperimentProgress};
use bimetal_sim::findings::Finding;
use bimetal_sim::results::{Document, TraceSummary};
use bimetal_sim::setup::{Choices, DriveChoice, Size};
use bimetal_sim::simulator::Replay;
use bimetal_sim::tree::VolumeChoice;
use bimetal_trace::{Event, Hints, Trace};
use clap::Args;

use crate::error::Error;
use crate::options::{BlockOption, ConfigOption, TraceOptions, file_map, fraction, whole_number};
use crate::output::{OutputFile, note};
use crate::progress::Progress;
use crate::trace_workload::{Alignment, Played, Source, Times, TraceWorkload};
use crate::trees;

/// Options for the simulation of a workload.
#[derive(Debug, Clone, Args)]
pub(crate) struct SimulationOptions {
    #[command(flatten)]
    trace: TraceOptions,
    #[command(flatten)]
    block: BlockOption,
    /// The SSD: a built-in profile or a TOML file [default: a TLC drive]; see `bimetal profiles`
    #[arg(long, value_name = "PROFILE")]
    ssd: Option<String>,
    /// The HDD: a built-in profile or a TOML file [default: a 7200 rpm drive]
    #[arg(long, value_name = "PROFILE")]
    hdd: Option<String>,
    /// Size of the SSD, as 32GiB, or 20% of the footprint [default: what the scheme holds on it]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    ssd_size: Option<Size>,
    /// Size of the HDD [default: the profile's, or the trace's addresses if they need more]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    hdd_size: Option<Size>,
    /// A drive of its own for a role: log=PROFILE puts Griffin's log on it, ssd2=PROFILE is a
    /// second SSD behind that log
    #[arg(long, value_name = "ID=PROFILE[:SIZE]", value_parser = member)]
    member: Vec<(String, DriveChoice)>,
    /// A parameter of a scheme (timeout=30s, griffin.timeout=30s) or of a drive (ssd.gc=greedy,
    /// hdd.scheduler=sptf)
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Issue requests at their times, or so many at once [default: timed, or closed where the trace
    /// has no times]
    #[arg(long, value_name = "timed|closed[:DEPTH]", value_parser = replay)]
    replay: Option<Replay>,
    /// Play a timed trace this many times faster
    #[arg(long, value_name = "X", value_parser = speedup, allow_hyphen_values = true, default_value = "1")]
    speedup: f64,
    /// Play this share of the requests before anything is measured
    #[arg(long, value_name = "FRACTION", value_parser = fraction, allow_hyphen_values = true, default_value = "0")]
    warmup: f64,
    /// State of the flash before the trace [default: sequential where flash is home or begins with
    /// copies, clean where it is a cache]
    #[arg(long, value_name = "clean|sequential|random")]
    precondition: Option<Precondition>,
    /// Map the touched address ranges densely, so that a trace of a large drive fits small ones
    #[arg(long)]
    compact: bool,
    /// Merge requests as Linux' block layer does [default: on where they are queue events]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    merge: Option<bool>,
    /// Begin the grid of blocks at this sector of the trace, or at that of most requests
    /// [default: 0]
    #[arg(long, value_name = "SECTOR|auto", conflicts_with = "files")]
    align: Option<Alignment>,
    /// Times of a trace in whole seconds: as they are, spread over each second, or at random times
    /// of it [default: spread where several requests share a second]
    #[arg(long, value_name = "as-is|spread|poisson")]
    times: Option<Times>,
    /// Map of files, as offset,length,path in bytes, for combo, dataplex and os-managed
    #[arg(long, value_name = "MAP.csv", conflicts_with = "compact")]
    files: Option<PathBuf>,
    /// List of the map's files that belong on the SSD, a path a line, the most wanted first, for
    /// combo with strategy=list
    #[arg(long, value_name = "LIST", requires = "files")]
    list: Option<PathBuf>,
    /// Starts whatever is random in a drive
    #[arg(long, value_name = "N", value_parser = whole_number, allow_hyphen_values = true, default_value = "0")]
    seed: u64,
    #[command(flatten)]
    config: ConfigOption,
}

impl SimulationOptions {
    /// Returns the trace at `path`, read with these options, and the way in which its requests are
    /// issued.
    ///
    /// # Errors
    /// The trace cannot be opened, or a timed replay is asked for and the trace has no times.
    pub(crate) fn open(&self, path: &Path) -> Result<(TraceWorkload, Replay), Error> {
        let mut workload = TraceWorkload::of_file(path.to_owned(), &self.trace)?;
        let replay = choose_replay(self.replay, self.speedup, &workload.open_trace()?)?;
        let findings = workload.play(self.played(replay)?)?;
        findings.iter().for_each(|finding| note(finding.line()));
        Ok((workload, replay))
    }

    /// Returns the way in which the requests of a trace are played.
    ///
    /// # Errors
    /// A block size is not possible.
    fn played(&self, replay: Replay) -> Result<Played, Error> {
        let block = BlockSize::new(self.block.block)?;
        let is_timed = matches!(replay, Replay::Timed { .. });
        Ok(Played { align: self.align, times: self.times, block, seed: self.seed, is_timed })
    }

    /// Returns the way in which the requests of a described (not recorded) workload are issued.
    ///
    /// # Errors
    /// A speed is given for a closed replay, which has no times.
    pub(crate) fn replay_of_described(&self) -> Result<Replay, Error> {
        replay_with_times(self.replay, self.speedup)
    }

    /// Returns the seed of everything random.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the largest number of requests that are read.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.trace.limit
    }

    /// Returns the trees of volumes in the file of `--config`.
    ///
    /// # Errors
    /// The file cannot be read, or its tables are no tree of volumes.
    pub(crate) fn trees(&self) -> Result<Vec<VolumeChoice>, Error> {
        self.config.config.as_deref().map_or_else(|| Ok(Vec::new()), trees::read)
    }

    /// Refuses drives that flags name where only trees run: a tree names its own drives.
    fn refuse_drives_without_schemes(&self) -> Result<(), Error> {
        let given = [
            ("ssd", self.ssd.is_some()),
            ("hdd", self.hdd.is_some()),
            ("ssd-size", self.ssd_size.is_some()),
            ("hdd-size", self.hdd_size.is_some()),
            ("member", !self.member.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::new(format!(
                "--{flag}: only volumes of --config run, and their drives are its [drive.NAME] tables: change them there"
            ))),
            None => Ok(()),
        }
    }

    /// Returns true if a map of files is given, and if a list of files is.
    pub(crate) fn has_files(&self) -> [bool; 2] {
        [self.files.is_some(), self.list.is_some()]
    }

    /// Returns whether a block layer merges the requests: by default queue events are merged.
    pub(crate) fn merges(&self, queue_events: bool) -> bool {
        self.merge.unwrap_or(queue_events)
    }

    /// Returns the share of the requests that is played before the measurement begins.
    pub(crate) fn warmup(&self) -> f64 {
        self.warmup
    }
}

/// Information about the host.
#[derive(Debug, Clone, Args)]
pub(crate) struct HintsOption {
    /// Evictions of the host's buffer cache, as time_ns,device,lba,sectors (the columns of a csv
    /// trace), for griffin; or pins to flash (1) and their ends (0), as
    /// time_ns,device,lba,sectors,pin, for hybrid-disk
    #[arg(long, value_name = "FILE.csv", conflicts_with = "compact")]
    hints: Option<PathBuf>,
}

impl HintsOption {
    /// Returns whether a file of hints was named.
    pub(crate) fn is_given(&self) -> bool {
        self.hints.is_some()
    }

    fn read(&self, replay: Replay, trace: &TraceOptions) -> Result<Hints, Error> {
        let Some(path) = &self.hints else { return Ok(Hints::default()) };
        if let Replay::Closed { .. } = replay {
            return Err(Error::new(
                "--hints: a closed replay has no times at which a host could evict or pin anything: expected --replay timed",
            ));
        }
        let hints = Hints::open(path)?;
        Ok(trace.device.map_or_else(|| hints.clone(), |device| hints.of_device(device)))
    }
}

/// State of the flash drives at the start.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreOption {
    /// Go on with the flash as an earlier run left it: a file that `simulate --save-state` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "precondition")]
    restore_state: Option<PathBuf>,
}

impl RestoreOption {
    fn read(&self) -> Result<Arc<[DriveState]>, Error> {
        let Some(path) = &self.restore_state else { return Ok(Arc::default()) };
        let refuse = |reason: String| Error::new(format!("--restore-state {}: {reason}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        state::decode(&bytes).map(Arc::from).map_err(|error| refuse(error.to_string()))
    }
}

pub(crate) fn size(text: &str) -> Result<Size, String> {
    match text.strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent.is_finite() => Ok(Size::OfFootprint(percent / 100.0)),
            _ => Err("expected a share of the footprint like 20%, or a size like 32GiB".to_owned()),
        },
        None => match text.parse::<Bytes>() {
            Ok(bytes) if bytes > Bytes::ZERO => Ok(Size::Bytes(bytes)),
            _ => Err("expected a size like 32GiB, or a share of the footprint like 20%".to_owned()),
        },
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE, like griffin.timeout=30s".to_owned()),
    }
}

fn member(text: &str) -> Result<(String, DriveChoice), String> {
    let (id, drive) = text.split_once('=').ok_or("expected ID=PROFILE[:SIZE], like log=intel-x25-m-80gb:16GiB")?;
    if drive.is_empty() {
        return Err("expected a profile behind the =, like log=intel-x25-m-80gb".to_owned());
    }
    let (profile, size) = match drive.rsplit_once(':') {
        // A path may have a colon. A text behind the last colon that begins with a digit is a size.
        Some((profile, text)) if text.starts_with(|c: char| c.is_ascii_digit()) => (profile, Some(size(text)?)),
        _ => (drive, None),
    };
    Ok((id.to_owned(), DriveChoice { profile: Some(profile.to_owned()), size }))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

pub(crate) fn replay(text: &str) -> Result<Replay, String> {
    let depth = match text.split_once(':') {
        None if text == "timed" => return Ok(Replay::Timed { speedup: 1.0 }),
        None if text == "closed" => Some(1),
        Some(("closed", depth)) => depth.parse().ok().filter(|&depth: &u32| depth > 0),
        _ => None,
    };
    depth.map(|depth| Replay::Closed { depth }).ok_or_else(|| "expected timed, closed or closed:DEPTH".to_owned())
}

pub(crate) fn speedup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number above 0, like 2".to_owned()),
    }
}

/// The progress of all runs together: a bar for the survey of the trace, then a bar for the runs.
#[derive(Default)]
struct Bar {
    survey: Mutex<Option<Progress>>,
    runs: Mutex<Option<Progress>>,
}

impl Bar {
    /// Shows progress, unless another thread is drawing the bar: the next step will show it.
    fn show(bar: &Mutex<Option<Progress>>, total: Option<u64>, done: u64) {
        if let Ok(mut bar) = bar.try_lock() {
            bar.get_or_insert_with(|| Progress::new(total, "requests")).set(done);
        }
    }
}

impl ExperimentProgress for Bar {
    fn surveyed(&self, requests: u64) {
        Self::show(&self.survey, None, requests);
    }

    fn simulated(&self, requests: u64, total: u64) {
        if let Ok(mut survey) = self.survey.try_lock() {
            *survey = None;
        }
        Self::show(&self.runs, Some(total), requests);
    }
}

/// Runs `schemes` and `trees` over the trace (the embedded sample if there is none) and returns the
/// document. The final state of the flash drives is written to `save_state`.
///
/// # Errors
/// The trace, a drive, a setting or a run is wrong.
pub(crate) fn run(
    trace: Option<PathBuf>,
    schemes: Vec<&'static SchemeInfo>,
    trees: Vec<VolumeChoice>,
    options: &SimulationOptions,
    restore: &RestoreOption,
    hints: &HintsOption,
    save_state: Option<&Path>,
) -> Result<Document, Error> {
    if schemes.is_empty() {
        options.refuse_drives_without_schemes()?;
    }
    let mut workload = TraceWorkload::new(trace.map_or(Source::Sample, Source::File), &options.trace)?;
    let opened = workload.open_trace()?;
    let (name, format) = (opened.name().to_owned(), opened.format().name().to_owned());
    let replay = choose_replay(options.replay, options.speedup, &opened)?;
    let mut assumed = BTreeMap::new();
    assume(&mut assumed, options, &opened, replay);
    if let Some(path) = &restore.restore_state {
        let text = format!("as {} has it; {PRECONDITION_ASSUMED} where it has nothing of a drive", path.display());
        assumed.insert("precondition".to_owned(), text);
    }
    let queue_events = opened.event() == Some(Event::Queue);
    drop(opened);
    let of_times = workload.play(options.played(replay)?)?;
    let merge = options.merges(queue_events);
    if options.align.is_some() && hints.hints.is_some() {
        return Err(Error::new("--align: the addresses of --hints would not fit: expected one of the two".to_owned()));
    }
    let hints = hints.read(replay, &options.trace)?;
    let choices = Choices { restored: restore.read()?, merge, hints, ..choices(options)? };
    // The file is created before the simulation: a path that cannot be written must fail at once,
    // not after a long run.
    let save_to = save_state.map(OutputFile::create).transpose()?;
    let saved = Mutex::new(Vec::new());
    let keep = |states: Vec<DriveState>| saved.lock().unwrap_or_else(PoisonError::into_inner).extend(states);
    let keep: Option<&(dyn Fn(Vec<DriveState>) + Sync)> = if save_to.is_some() { Some(&keep) } else { None };
    let experiment = Experiment { workload: &workload, schemes, trees, choices, replay, warmup: options.warmup, keep };
    let describe = |_: &_, summary: TraceSummary| TraceSummary {
        name,
        format,
        skipped_lines: workload.skipped_lines(),
        ..summary
    };
    let mut document = experiment.run(&Bar::default(), describe)?;
    if let Some(file) = save_to {
        write_states(file, &saved.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    }
    if document.trace.skipped_lines > 0 {
        note(format_args!("{}: {} bad lines were skipped", document.trace.name, document.trace.skipped_lines));
    }
    for run in &mut document.runs {
        run.assumed.extend(assumed.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let of_events = queue_events.then(|| Finding::queue_events(merge));
    document.findings.splice(0..0, of_times.into_iter().chain(of_events));
    document.command = Some(command_line());
    document.options.extend(trace_options(options));
    Ok(document)
}

fn write_states(mut file: OutputFile, states: &[DriveState]) -> Result<(), Error> {
    if states.is_empty() {
        return Err(Error::new("--save-state: this scheme uses no flash drive, so there is no state to save"));
    }
    file.write_all(&state::encode(states))?;
    file.finish()
}

/// Returns the drives, sizes and settings that the options name.
///
/// # Errors
/// A block size is not possible.
pub(crate) fn choices(options: &SimulationOptions) -> Result<Choices, Error> {
    let by_list = |(key, value): &(String, String)| ["strategy", "combo.strategy"].contains(&&**key) && value == "list";
    if options.set.iter().any(by_list) && options.files.is_some() && options.list.is_none() {
        return Err(Error::new(
            "--set strategy=list: nothing would move without a list: expected --list LIST beside the map; `bimetal optimize` \
             writes one",
        ));
    }
    Ok(Choices {
        ssd: DriveChoice { profile: options.ssd.clone(), size: options.ssd_size },
        hdd: DriveChoice { profile: options.hdd.clone(), size: options.hdd_size },
        members: options.member.clone(),
        settings: options.set.clone(),
        block: BlockSize::new(options.block.block)?,
        precondition: options.precondition,
        restored: Arc::default(),
        compact: options.compact,
        merge: options.merges(false),
        files: match &options.files {
            None => Vec::new(),
            Some(files) => file_extents(files, options.list.as_deref())?,
        },
        hints: Hints::default(),
        is_part: options.trace.limit.is_some(),
        seed: options.seed,
    })
}

/// Returns `extents` of the map `files` with the lines of their paths in the file `list`.
fn listed(mut extents: Vec<FileExtent>, files: &Path, list: &Path) -> Result<Vec<FileExtent>, Error> {
    let shown = list.display();
    let text =
        std::fs::read_to_string(list).map_err(|error| Error::new(format!("{shown}: cannot be read: {error}")))?;
    let lines: HashMap<&str, u32> = text.lines().zip(0..).filter(|(path, _)| !path.is_empty()).collect();
    let known: HashSet<&str> = extents.iter().map(|extent| extent.path.as_str()).collect();
    if let Some((path, line)) = lines.iter().filter(|(path, _)| !known.contains(*path)).min_by_key(|(_, line)| **line) {
        let number = line + 1;
        return Err(Error::new(format!("{shown}:{number}: '{path}': expected a path of the map {}", files.display())));
    }
    for extent in &mut extents {
        extent.listed = lines.get(extent.path.as_str()).copied();
    }
    Ok(extents)
}

/// Returns the extents of all files, with their lines in a list, and free space as extents without
/// a path.
pub(crate) fn file_extents(path: &Path, list: Option<&Path>) -> Result<Vec<FileExtent>, Error> {
    let extent = |start: u64, end: u64, path: &str| {
        let first = start / SECTOR_BYTES;
        let sectors = SectorRange::new(first, end.div_ceil(SECTOR_BYTES) - first);
        FileExtent { path: path.to_owned(), sectors, listed: None }
    };
    let map = file_map(path)?;
    let files = map.extents().map(|(start, end, path)| extent(start, end, path));
    let extents = files.chain(map.free().map(|(start, end)| extent(start, end, ""))).collect();
    match list {
        None => Ok(extents),
        Some(list) => listed(extents, path, list),
    }
}

/// Returns the replay that is asked for; by default timed if the trace has times, else closed.
///
/// # Errors
/// A timed replay of a trace without times, or a speed for a closed replay.
pub(crate) fn choose_replay(wanted: Option<Replay>, speedup: f64, trace: &Trace) -> Result<Replay, Error> {
    match wanted {
        Some(Replay::Timed { .. }) if !trace.has_times() => Err(Error::new(format!(
            "{}: {} has no times, so it cannot be replayed timed: use --replay closed",
            trace.name(),
            trace.format()
        ))),
        // The reader's notes report that there are no times, and its consequence.
        None if !trace.has_times() => Ok(Replay::Closed { depth: 1 }),
        wanted => replay_with_times(wanted, speedup),
    }
}

/// Returns the replay that is asked for, of a workload with times.
fn replay_with_times(wanted: Option<Replay>, speedup: f64) -> Result<Replay, Error> {
    match wanted {
        Some(Replay::Closed { .. }) if speedup != 1.0 => {
            Err(Error::new("--speedup: a closed replay has no times that could pass faster: leave one of the two out"))
        }
        Some(Replay::Closed { depth }) => Ok(Replay::Closed { depth }),
        _ => Ok(Replay::Timed { speedup }),
    }
}

const PRECONDITION_ASSUMED: &str = "sequential fill of home and of first copies on flash, clean where flash is a cache";

fn assume(assumed: &mut BTreeMap<String, String>, options: &SimulationOptions, trace: &Trace, replay: Replay) {
    if options.trace.format.is_none() {
        assumed.insert("format".to_owned(), format!("{} (by content)", trace.format()));
    }
    if let (None, Some(event)) = (&options.trace.event, trace.event()) {
        assumed.insert("event".to_owned(), format!("{event:?}").to_lowercase());
    }
    if options.replay.is_none() {
        let text = match replay {
            Replay::Timed { .. } => "timed".to_owned(),
            Replay::Closed { depth } => format!("closed:{depth}"),
        };
        assumed.insert("replay".to_owned(), text);
    }
    if options.precondition.is_none() {
        assumed.insert("precondition".to_owned(), PRECONDITION_ASSUMED.to_owned());
    }
}

/// Returns the options that select a part of the trace, for the document.
fn trace_options(options: &SimulationOptions) -> BTreeMap<String, String> {
    let TraceOptions { event, device, limit, .. } = &options.trace;
    let device = device.map(|device| device.to_string());
    let limit = limit.map(|limit| limit.to_string());
    let given = [("event", event.clone()), ("device", device), ("limit", limit)];
    given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the command line of this process, quoted for a shell.
pub(crate) fn command_line() -> String {
    let arguments = std::env::args().skip(1).map(|argument| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
        let quoted = || format!("'{}'", argument.replace('\'', r"'\''"));
        if !argument.is_empty() && argument.chars().all(plain) { argument } else { quoted() }
    });
    std::iter::once("bimetal".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Returns the schemes in a list of names. `all` means every scheme that makes one device of an SSD
/// and an HDD, and each of the two drives alone.
///
/// # Errors
/// A name is no scheme; the nearest is suggested.
pub(crate) fn schemes_named(list: &str) -> Result<Vec<&'static SchemeInfo>, Error> {
    if list == "all" {
        return Ok(schemes::ALL.to_vec());
    }
    let names = list.split(',').map(str::trim);
    names.map(|name| schemes::find(name).ok_or_else(|| unknown_scheme(name))).collect()
}

fn unknown_scheme(name: &str) -> Error {
    Error::unknown("scheme", name, schemes::every().map(|info| info.name))
}

/// Returns the text above a table: a summary of the trace, and findings to know before the figures.
pub(crate) fn head(document: &Document) -> String {
    let findings = document.findings.iter().map(|finding| format!("\n{}", finding.line()));
    std::iter::once(self_check(&document.trace)).chain(findings).collect()
}

/// Returns one line that shows at a glance whether times, sizes and addresses were read in the
/// right units.
pub(crate) fn self_check(trace: &TraceSummary) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut line = format!(
        "{}: {} requests ({} reads, {} writes), {:.2} GiB moved, {:.2} GiB touched",
        trace.name,
        trace.requests,
        trace.reads,
        trace.writes,
        gib(trace.read_bytes + trace.write_bytes),
        gib(trace.footprint_bytes),
    );
    let end = trace.address_end_bytes.unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = write!(line, ", {:.0} s, addresses up to {:.2} GiB", trace.duration_s, gib(end));
    line
}
