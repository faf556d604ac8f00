//! `bimetal place`: finds the files of a mounted file system that belong on the SSD, by the
//! strategies of Combo Drive, and moves them there.

mod former;
mod gain;
mod glob;
mod moves;
mod relocated;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bimetal_core::schemes::combo::is_program;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES};
use bimetal_mover::BLOCK_BYTES;
use bimetal_mover::file_system::{FOLDER, FileSystem};
use bimetal_sim::file_places::{Counter, Entry, Rule, States, Strategy, Totals, Uses};
use bimetal_trace::analysis::MapCheck;
use bimetal_trace::file_system::{self, Found, PlacedFile, files_below, free_space};
use clap::{Args, ValueEnum};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;
use crate::options::{ConfigOption, JsonOption, TraceOptions};
use crate::output::{OutputFile, answer, note, print, print_json};
use crate::trace_file::TraceReader;
use former::places_of;
use gain::{Gain, Placement};
use moves::{Files, Moved, Planned};

/// List the files of a mounted file system that belong on the SSD, or move them there
///
/// Asks the file system where the files below the paths lie, and sorts them by a strategy of Combo
/// Drive. `compare --files` and `analyze --files` take the map that -o writes. No file moves
/// without --apply. With --apply, files of a mounted ext4 or XFS move while they are in use: files
/// that belong on the SSD move there, and other files leave the SSD as far as room is needed. The
/// exit status is 3 if a file that was to move has not moved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal place /usr\n  \
    bimetal place /home --strategy type --ssd-size 32GiB -o home.csv --json\n  \
    bimetal place /srv --strategy frequency --trace monday.bin.zst --ssd-size 32GiB\n  \
    bimetal place /srv --strategy list --list list.txt --ssd-size 32GiB --apply\n  \
    bimetal place /usr /srv --ssd-size 32GiB --apply --watch 1h --rate 20MiB --idle 200ms\n  \
    bimetal place /srv --undo\n\n\
    Files that belong on the SSD, by strategy; type: executables and libraries; access: files that the trace\n\
    accesses randomly; frequency: files that it accesses frequently; list: the files of a list. All other files\n\
    belong on the HDD.")]
pub(crate) struct Arguments {
    /// Directories of a mounted file system, or files in it
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Rule that chooses the files for the SSD
    #[arg(long, value_name = "type|access|frequency|list", default_value = "type")]
    strategy: ByStrategy,
    /// Files that belong on the SSD, a path a line, the most wanted first; for strategy list
    #[arg(long, value_name = "LIST")]
    list: Option<PathBuf>,
    /// Leave out files, or directories with all that they contain: a name like *.log, or a path
    /// like /srv/**/cache
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// A trace of the device with the file system; strategies access and frequency need it. With
    /// --ssd-size, simulations of the trace show the gain
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Size of the SSD, which has the low addresses of the device. Shows where each file lies now,
    /// and limits the files chosen for the SSD
    #[arg(long, value_name = "SIZE")]
    ssd_size: Option<Bytes>,
    /// The scheme's parameter `random` or `frequent`, like frequent=4; see `bimetal schemes combo`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the map of files: lines `offset,length,path`, in bytes
    #[arg(short, long, value_name = "MAP.csv")]
    output: Option<PathBuf>,
    /// Move the files (ext4 or XFS, as root)
    #[arg(long, requires = "ssd_size")]
    apply: bool,
    /// Move all files back that earlier runs have moved on this file system
    #[arg(long, conflicts_with_all = ["apply", "watch", "output", "trace", "list"])]
    undo: bool,
    /// Repeat the search and the moves at this interval, until a signal
    #[arg(long, value_name = "DURATION", requires = "apply")]
    watch: Option<Nanoseconds>,
    /// Move at most this much a second, like 20MiB
    #[arg(long, value_name = "SIZE")]
    rate: Option<Bytes>,
    /// Move only when the device has had no request for this long, like 200ms
    #[arg(long, value_name = "DURATION")]
    idle: Option<Nanoseconds>,
    /// Compare the content of each file before and after its move
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    config: ConfigOption,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ByStrategy {
    Type,
    Access,
    Frequency,
    List,
}

impl From<ByStrategy> for Strategy {
    fn from(strategy: ByStrategy) -> Self {
        match strategy {
            ByStrategy::Type => Self::Type,
            ByStrategy::Access => Self::Access,
            ByStrategy::Frequency => Self::Frequency,
            ByStrategy::List => Self::List,
        }
    }
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    path: String,
    paths: Vec<String>,
    strategy: ByStrategy,
    ssd_bytes: Option<u64>,
    unreadable: u64,
    excluded: u64,
    totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<States>,
    /// Planned moves; null if the size of the SSD or the free space is not known.
    plan: Option<Planned>,
    /// Simulated gain; null without a trace, and null if files move.
    gain: Option<Gain>,
    /// Moves that were made; null without `--apply`.
    moved: Option<Moved>,
    files: &'a [Entry<'a>],
}

/// Document that `--undo --json` prints.
#[derive(Serialize)]
struct Undone {
    bimetal: &'static str,
    path: String,
    moved: Moved,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    check(&arguments)?;
    let stop = Arc::new(AtomicBool::new(false));
    if !arguments.apply && !arguments.undo {
        return round(&arguments, &stop);
    }
    let received = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize)?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let moved = moves_of(&arguments, &stop);
    // An interruption in the midst of moves ends this command as it ends other commands.
    let signal = received.load(Ordering::Relaxed) as i32;
    if signal != 0 && matches!(moved, Err(Error::No)) {
        signal_hook::low_level::emulate_default_handler(signal)?;
    }
    moved
}

/// Makes the moves, or moves files back. The answer is no if a file has not moved, or if a signal
/// came before the last move.
fn moves_of(arguments: &Arguments, stop: &AtomicBool) -> Result<(), Error> {
    if arguments.undo {
        return undo(arguments, stop);
    }
    let Some(interval) = arguments.watch else { return round(arguments, stop) };
    loop {
        let begun = Instant::now();
        match round(arguments, stop) {
            // A later round may find room.
            Err(Error::No) if !stop.load(Ordering::Relaxed) => {}
            moved => moved?,
        }
        while begun.elapsed() < Duration::from_nanos(interval.get()) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Interval at which a wait looks for a signal.
const NAP: Duration = Duration::from_millis(100);

/// Refuses options that cannot be meant, and a file system that cannot move files.
fn check(arguments: &Arguments) -> Result<(), Error> {
    let moves = arguments.apply || arguments.undo;
    let needs_moves = [("--idle", arguments.idle.is_some()), ("--verify", arguments.verify)];
    if let Some((option, _)) = needs_moves.iter().find(|&&(_, given)| given && !moves) {
        return Err(Error::new(format!("{option}: no file moves without --apply: expected --apply beside it")));
    }
    if arguments.rate == Some(Bytes(0)) || arguments.watch.is_some_and(|interval| interval.get() == 0) {
        return Err(Error::new("--rate and --watch: expected values above 0, like --rate 20MiB --watch 1h"));
    }
    rule_of_parameters(arguments)?;
    let file_system = FileSystem::of(&arguments.paths)?;
    if moves {
        file_system.check()?;
    }
    let Some(ssd) = arguments.ssd_size.filter(|_| arguments.apply) else { return Ok(()) };
    let device = file_system.device_bytes();
    if ssd.0 < BLOCK_BYTES || device.is_some_and(|device| ssd.0 >= device) {
        let device = device.map_or_else(String::new, |device| format!(" below {}", Bytes(device).rounded_down()));
        return Err(Error::new(format!(
            "--ssd-size {ssd}: the SSD is the first part of the file system's device: expected a size{device}"
        )));
    }
    let start = Bytes(file_system.partition_start());
    if start.0 > 0 {
        note(format_args!(
            "{}: the file system lies in a partition that begins at {}: --ssd-size counts from there",
            file_system.root.display(),
            start.rounded_down()
        ));
    }
    Ok(())
}

fn undo(arguments: &Arguments, stop: &AtomicBool) -> Result<(), Error> {
    let file_system = FileSystem::of(&arguments.paths)?;
    let moved = moves::undo(arguments, &file_system, stop)?;
    let path = file_system.root.display().to_string();
    let is_whole = moved.is_whole();
    let printed = if arguments.json.json {
        print_json("place", &Undone { bimetal: env!("CARGO_PKG_VERSION"), path, moved })
    } else {
        print(&format!("path         {path}\n{}", moved.text()))
    };
    answer(printed, !is_whole)
}

/// Searches the files, plans their moves, and makes them with `--apply`.
fn round(arguments: &Arguments, stop: &AtomicBool) -> Result<(), Error> {
    let Searched { files, unreadable, excluded } = search(arguments)?;
    let rule = rule(arguments, &files)?;
    let file_system = FileSystem::of(&arguments.paths)?;
    let needs_free = arguments.output.is_some() || arguments.ssd_size.is_some() || arguments.trace.is_some();
    let free = if needs_free { free_space(&file_system.root) } else { Ok(Vec::new()) };
    let known_free = free.as_deref().unwrap_or_default();
    if arguments.apply && arguments.trace.is_some() && file_system.root.join(FOLDER).exists() {
        moves::date_journal(&file_system)?;
    }
    let former = match &arguments.trace {
        Some(trace) => places_of(trace, &file_system.root, &files, known_free)?,
        None => None,
    };
    let uses = match &arguments.trace {
        Some(trace) => {
            let (files_then, free_then) = match &former {
                Some(former) => {
                    former.tell(trace);
                    (former.files.as_slice(), former.free.as_slice())
                }
                None => (files.as_slice(), known_free),
            };
            let reader = TraceReader::open(trace, &arguments.options)?;
            Some(uses_of(files_then, reader, free_then, file_system.device_bytes())?)
        }
        None => None,
    };
    if let Err(error) = &free {
        let message =
            format!("{}: its file system does not report its free space: {error}", file_system.root.display());
        if arguments.apply {
            return Err(Error::new(message));
        }
        note(message);
    }
    if let Some(path) = &arguments.output {
        write_map(path, &files, free.as_deref().unwrap_or_default())?;
    }
    let ssd_bytes = arguments.ssd_size.map(|size| size.0);
    let entries = rule.decide(&files, uses.as_deref(), ssd_bytes);
    let totals = Totals::of(&entries, ssd_bytes.is_some());
    let (mut plan, mut gain, mut moved) = (None, None, None);
    if let (Some(ssd), Ok(free)) = (arguments.ssd_size, &free) {
        let found = Files { rule: &rule, files: &files, uses: uses.as_deref(), entries: &entries, free };
        let planned = found.plan(ssd, &file_system, arguments.rate);
        if arguments.apply {
            moved = Some(moves::apply(arguments, &file_system, ssd, &planned, stop)?);
        } else if let Some(trace) = &arguments.trace {
            let pieces = former.as_ref().map_or(&[][..], |former| &former.pieces);
            let placement = Placement { files: &files, free, chosen: &found.chosen(), ssd, pieces };
            match placement.gain(trace, &arguments.options, planned.is_empty()) {
                Ok(found) => gain = Some(found),
                Err(error) => note(format_args!("the gain cannot be simulated: {error}")),
            }
        }
        plan = Some(planned);
    }
    let has_room = plan.as_ref().is_none_or(|plan| plan.no_room.files == 0);
    let is_whole = moved.as_ref().is_none_or(|moved| moved.is_whole() && has_room);
    let states = States::of(&entries);
    if arguments.json.json {
        let (bimetal, strategy) = (env!("CARGO_PKG_VERSION"), arguments.strategy);
        let paths: Vec<String> = arguments.paths.iter().map(|path| path.display().to_string()).collect();
        let path = paths.first().cloned().unwrap_or_default();
        let files = &entries;
        let printed = print_json(
            "place",
            &Document {
                bimetal,
                path,
                paths,
                strategy,
                ssd_bytes,
                unreadable,
                excluded,
                totals,
                states,
                plan,
                gain,
                moved,
                files,
            },
        );
        return answer(printed, !is_whole);
    }
    let mut text = text(arguments, &totals, states.as_ref());
    text.push_str(&plan.map_or_else(String::new, |plan| plan.text()));
    if let Some(Gain { mean_ms_now, mean_ms_placed }) = gain {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "simulated    mean response {mean_ms_now:.3} ms now, {mean_ms_placed:.3} ms as placed");
    }
    text.push_str(&moved.map_or_else(String::new, |moved| moved.text()));
    answer(print(&text), !is_whole)
}

/// Files that a search found below the given paths.
struct Searched {
    files: Vec<PlacedFile>,
    unreadable: u64,
    excluded: u64,
}

/// Finds the files below all paths, each once, without the files of `--exclude` and of the Mover.
fn search(arguments: &Arguments) -> Result<Searched, Error> {
    let (mut all, mut unreadable, mut seen) = (Vec::new(), 0, HashSet::new());
    for path in &arguments.paths {
        let found: Found = files_below(path, is_program)?;
        if let Some(first) = found.first_unreadable {
            let count = found.unreadable;
            note(format_args!("{count} files or directories could not be read, the first is {first}"));
        }
        unreadable += found.unreadable;
        all.extend(found.files.into_iter().filter(|file| seen.insert(file.inode)));
    }
    all.retain(|file| !file.path.split('/').any(|name| name == FOLDER));
    let before = all.len();
    all.retain(|file| !arguments.exclude.iter().any(|pattern| glob::excludes(pattern, &file.path)));
    all.sort_by(|one, other| one.path.cmp(&other.path));
    let excluded = (before - all.len()) as u64;
    Ok(Searched { files: all, unreadable, excluded })
}

/// Returns the rule that the arguments describe.
fn rule(arguments: &Arguments, files: &[PlacedFile]) -> Result<Rule, Error> {
    match &arguments.list {
        Some(list) => Ok(Rule::of_list(lines_of(list, files)?)),
        None => rule_of_parameters(arguments),
    }
}

/// Reads a list of files: the line of each file, by inode number.
fn lines_of(list: &Path, files: &[PlacedFile]) -> Result<HashMap<u64, u32>, Error> {
    let shown = list.display();
    let text = fs::read_to_string(list).map_err(|error| Error::new(format!("{shown}: cannot be read: {error}")))?;
    let known: HashSet<u64> = files.iter().map(|file| file.inode).collect();
    let (mut lines, mut missing, mut first) = (HashMap::new(), 0u64, None);
    for (line, number) in text.lines().zip(0..).filter(|(line, _)| !line.is_empty()) {
        match fs::metadata(line).map(|metadata| metadata.ino()) {
            Ok(inode) if known.contains(&inode) => {
                lines.entry(inode).or_insert(number);
            }
            _ => {
                missing += 1;
                first.get_or_insert(format!("line {}, '{line}'", number + 1));
            }
        }
    }
    let first = first.unwrap_or_default();
    if lines.is_empty() {
        return Err(Error::new(format!(
            "{shown}: no line is a file below the paths (the first is {first}): expected a path a line"
        )));
    }
    if missing > 0 {
        note(format_args!("{shown}: {missing} lines are no files below the paths, the first is {first}"));
    }
    Ok(lines)
}

/// Returns the rule of a strategy with parameters; for a list, a rule without lines.
fn rule_of_parameters(arguments: &Arguments) -> Result<Rule, Error> {
    let Arguments { strategy, trace, set, list, .. } = arguments;
    match (strategy, list) {
        (ByStrategy::List, None) => {
            return Err(Error::new("strategy list takes its files from a list: expected --list LIST"));
        }
        (ByStrategy::List, Some(_)) => return Ok(Rule::of_list(HashMap::new())),
        (_, Some(_)) => return Err(Error::new("--list: only strategy list takes a list: expected --strategy list")),
        _ => {}
    }
    if *strategy != ByStrategy::Type && trace.is_none() {
        return Err(Error::new(
            "strategies access and frequency count the accesses of a trace: expected --trace TRACE",
        ));
    }
    let pairs = set.iter().map(|text| {
        let expected = || Error::new(format!("--set {text}: expected KEY=VALUE"));
        let (key, value) = text.split_once('=').ok_or_else(expected)?;
        if !["random", "frequent"].contains(&key) {
            return Err(Error::unknown("parameter of place", key, ["random", "frequent"]));
        }
        Ok((key, value))
    });
    let pairs = pairs.collect::<Result<Vec<_>, Error>>()?;
    Ok(Rule::new((*strategy).into(), pairs)?)
}

/// Counts the accesses of a trace to each file.
///
/// # Errors
/// The trace cannot be read, or belongs to another device: the trace reaches beyond the size of
/// this device, touches none of the files, or reads much of the free space.
fn uses_of(
    files: &[PlacedFile],
    mut reader: TraceReader,
    free: &[(u64, u64)],
    device: Option<u64>,
) -> Result<Vec<Uses>, Error> {
    let mut counter = Counter::new(files);
    let mut free: Vec<(u64, u64)> = free.iter().map(|(start, length)| (*start, start + length)).collect();
    free.sort_unstable();
    let mut check = MapCheck::of_free(free, 0);
    let (mut inside, mut end) = (0u64, 0u64);
    while let Some(request) = reader.next()? {
        inside += u64::from(counter.count(&request));
        check.count(&request);
        end = end.max(request.range.end().0.saturating_mul(SECTOR_BYTES));
    }
    let trace = reader.finish();
    if let Some(device) = device.filter(|device| end > *device) {
        return Err(Error::new(format!(
            "{}: a request ends at {}, and the device with the files has {}: expected a trace of this device",
            trace.name(),
            Bytes(end),
            Bytes(device)
        )));
    }
    if inside == 0 {
        return Err(Error::new(format!(
            "{}: no request touches any of the files: expected a trace of the device with their file system, from a \
             time when the files were there",
            trace.name()
        )));
    }
    match check.mismatch(None) {
        Some(mismatch) if mismatch.is_refused() => Err(Error::new(format!(
            "{}: {mismatch} of this file system: expected a trace of this device, from a time when its files lay where \
             they lie now",
            trace.name()
        ))),
        Some(mismatch) => {
            note(format_args!(
                "{}: {mismatch} of this file system: it may be the trace of another device",
                trace.name()
            ));
            Ok(counter.uses)
        }
        None => Ok(counter.uses),
    }
}

/// Writes the map that the option `--files` takes.
fn write_map(path: &Path, files: &[PlacedFile], free: &[(u64, u64)]) -> Result<(), Error> {
    let mut map = OutputFile::create(path)?;
    file_system::write_map(&mut map, files, free)?;
    map.finish()
}

fn text(arguments: &Arguments, totals: &Totals, states: Option<&States>) -> String {
    let what = match arguments.strategy {
        ByStrategy::Type => "type: executables and libraries belong on the SSD",
        ByStrategy::Access => "access: randomly accessed files belong on the SSD",
        ByStrategy::Frequency => "frequency: frequently accessed files belong on the SSD",
        ByStrategy::List => "list: the files of the list belong on the SSD",
    };
    let paths: Vec<String> = arguments.paths.iter().map(|path| path.display().to_string()).collect();
    let mut text = format!("path         {}\nstrategy     {what}\n", paths.join(" "));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "all          {}", totals.all);
    let _ = writeln!(text, "to the SSD   {}", totals.to_ssd);
    let _ = writeln!(text, "to the HDD   {}", totals.to_hdd);
    let _ = writeln!(text, "no place     {} (empty, or stored in the inode)", totals.undefined);
    if let (Some(to_ssd), Some(to_hdd)) = (&totals.move_to_ssd, &totals.move_to_hdd) {
        let _ = writeln!(text, "to be moved  {} to the SSD; {} to the HDD", to_ssd, to_hdd);
    }
    if let Some(states) = states {
        let (whole, parts) = (&states.ssd_contiguous, &states.ssd_fragmented);
        let _ = writeln!(text, "on the SSD   contiguous {}; fragmented {}", whole, parts);
        let (whole, parts) = (&states.hdd_contiguous, &states.hdd_fragmented);
        let _ = writeln!(text, "on the HDD   contiguous {}; fragmented {}", whole, parts);
        let _ = writeln!(text, "on both      {}", states.mixed);
    }
    text
}
