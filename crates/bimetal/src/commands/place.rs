//! `bimetal place`: finds the files of a mounted file system that belong on the SSD, by the
//! strategies of Combo Drive.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_core::operation::OpKind;
use bimetal_core::policies::streams::Streams;
use bimetal_core::schemes::combo;
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, SECTOR_BYTES};
use bimetal_trace::Request;
use bimetal_trace::analysis::FREE;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::Error;
use crate::extents::{Found, PlacedFile, files_below};
use crate::free_space::free_space;
use crate::options::{ConfigOption, JsonOption, TraceOptions};
use crate::output::{OutputFile, note, print, print_json};
use crate::trace_file::TraceReader;

/// Say which files of a mounted file system belong on the SSD
///
/// Looks at the files below a directory, asks the file system where they lie, and sorts them by a
/// strategy of Combo Drive. The map that -o writes is what `compare --files` and `analyze --files`
/// take. Nothing is moved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal place /usr\n  \
    bimetal place /home --strategy type --ssd-size 32GiB -o home.csv --json\n  \
    bimetal place /srv --strategy frequency --trace monday.bin.zst --ssd-size 32GiB\n\n\
    Strategies: type sends executables and libraries to the SSD; access what the trace accesses randomly; frequency what\n\
    it uses most. All else goes to the HDD.")]
pub(crate) struct Arguments {
    /// A directory of a mounted file system, or a file
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// By what a file belongs on the SSD
    #[arg(long, value_name = "type|access|frequency", default_value = "type")]
    strategy: Strategy,
    /// A trace of the device that carries the file system, for access and frequency
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// The SSD is the low addresses of that device, up to this: says where files lie now, and fills
    /// no more
    #[arg(long, value_name = "SIZE")]
    ssd_size: Option<Bytes>,
    /// The scheme's parameter `random` or `frequent`, as `bimetal schemes combo` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write where each file lies: lines `offset,length,path`, in bytes
    #[arg(short, long, value_name = "MAP.csv")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    config: ConfigOption,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Strategy {
    Type,
    Access,
    Frequency,
}

/// Drive on which a file lies or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Ssd,
    Hdd,
    /// The file has a part on each drive.
    Mixed,
}

/// Number of accesses to a file, and number of contiguous accesses among them (see [`count`]).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Uses {
    accesses: u64,
    contiguous: u64,
}

/// A file with the results about it.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    path: &'a str,
    bytes: u64,
    extents: usize,
    program: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<Uses>,
    /// Drive on which the file lies now, if the size of the SSD is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<Place>,
    /// Drive on which the file belongs; null if the file has no extent on the device.
    belongs: Option<Place>,
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    path: String,
    strategy: Strategy,
    ssd_bytes: Option<u64>,
    unreadable: u64,
    totals: Totals,
    files: &'a [Entry<'a>],
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Total {
    files: u64,
    bytes: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Totals {
    all: Total,
    to_ssd: Total,
    to_hdd: Total,
    /// Files without an extent on the device.
    undefined: Total,
    /// The files of `to_ssd` and of `to_hdd` that do not lie there in full now.
    #[serde(skip_serializing_if = "Option::is_none")]
    move_to_ssd: Option<Total>,
    #[serde(skip_serializing_if = "Option::is_none")]
    move_to_hdd: Option<Total>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let rule = Rule::new(&arguments)?;
    let Found { files, unreadable, first_unreadable } = files_below(&arguments.path)?;
    if let Some(first) = first_unreadable {
        note(format_args!("{unreadable} files or directories could not be read, the first is {first}"));
    }
    let uses = match &arguments.trace {
        Some(trace) => Some(uses_of(&files, TraceReader::open(trace, &arguments.options)?)?),
        None => None,
    };
    if let Some(path) = &arguments.output {
        let free = free_space(&arguments.path).unwrap_or_else(|error| {
            note(format_args!("{}: its file system does not say what is free: {error}", arguments.path.display()));
            Vec::new()
        });
        write_map(path, &files, &free)?;
    }
    let ssd_bytes = arguments.ssd_size.map(|size| size.0);
    let entries = decide(&rule, &files, uses.as_deref(), ssd_bytes);
    let totals = totals_of(&entries, ssd_bytes.is_some());
    if arguments.json.json {
        let (bimetal, strategy) = (env!("CARGO_PKG_VERSION"), arguments.strategy);
        let path = arguments.path.display().to_string();
        return print_json(&Document { bimetal, path, strategy, ssd_bytes, unreadable, totals, files: &entries });
    }
    print(&text(&arguments, &totals))
}

/// Rule by which a file belongs on the SSD: the strategy and its two parameters.
struct Rule {
    strategy: Strategy,
    random: f64,
    frequent: u64,
}

impl Rule {
    fn new(arguments: &Arguments) -> Result<Self, Error> {
        let Arguments { strategy, trace, set, .. } = arguments;
        if *strategy != Strategy::Type && trace.is_none() {
            return Err(Error::new(
                "strategies access and frequency go by what is used: expected --trace TRACE beside them",
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
        let settings = Settings::new(combo::INFO.name, combo::INFO.parameters, pairs)?;
        let random = settings.fraction("random").unwrap_or(1.0);
        Ok(Self { strategy: *strategy, random, frequent: settings.count("frequent") })
    }

    /// Returns the number of accesses, by which wanted files are ranked; `None` for a file that
    /// does not belong on the SSD.
    fn merit(&self, file: &PlacedFile, uses: Uses) -> Option<u64> {
        let random = (uses.accesses - uses.contiguous) as f64 >= self.random * uses.accesses as f64;
        let wanted = match self.strategy {
            Strategy::Type => file.program,
            Strategy::Access => uses.accesses > 0 && random,
            Strategy::Frequency => uses.accesses >= self.frequent,
        };
        wanted.then_some(uses.accesses)
    }
}

/// Counts the accesses of a trace to each file.
fn uses_of(files: &[PlacedFile], mut reader: TraceReader) -> Result<Vec<Uses>, Error> {
    let mut ranges: Vec<(u64, u64, usize)> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        ranges.extend(file.extents.iter().map(|&(start, length)| (start, start + length, number)));
    }
    ranges.sort_unstable();
    let bytes: Vec<u64> = files.iter().map(PlacedFile::bytes).collect();
    let (mut uses, mut streams) = (vec![Uses::default(); files.len()], Streams::default());
    let mut inside = 0u64;
    while let Some(request) = reader.next()? {
        inside += u64::from(count(&request, (&ranges, &bytes), &mut streams, &mut uses));
    }
    let trace = reader.finish();
    if inside == 0 {
        return Err(Error::new(format!(
            "{}: no request touches any of the files: expected a trace of the device that carries their file system",
            trace.name()
        )));
    }
    Ok(uses)
}

/// Counts a request for each file that it touches, and returns whether it touches a file. An access
/// is contiguous if the request continues another request, or if it covers the whole file. `bytes`
/// has the size of each file.
fn count(
    request: &Request,
    (ranges, bytes): (&[(u64, u64, usize)], &[u64]),
    streams: &mut Streams,
    uses: &mut [Uses],
) -> bool {
    if !matches!(request.kind, OpKind::Read | OpKind::Write) {
        return false;
    }
    streams.note(request.kind, request.range);
    let contiguous = streams.length(request.kind, request.range) > request.range.len.bytes();
    let (start, end) = (request.range.start.0 * SECTOR_BYTES, request.range.end().0 * SECTOR_BYTES);
    let first = ranges.partition_point(|&(_, range_end, _)| range_end <= start);
    let mut touched: BTreeMap<usize, u64> = BTreeMap::new();
    for &(from, to, file) in ranges[first..].iter().take_while(|&&(from, ..)| from < end) {
        *touched.entry(file).or_default() += to.min(end) - from.max(start);
    }
    for (&file, &part) in &touched {
        uses[file].accesses += 1;
        uses[file].contiguous += u64::from(contiguous || part == bytes[file]);
    }
    !touched.is_empty()
}

fn decide<'a>(rule: &Rule, files: &'a [PlacedFile], uses: Option<&[Uses]>, ssd_bytes: Option<u64>) -> Vec<Entry<'a>> {
    let uses_of = |number: usize| uses.map(|uses| uses[number]);
    let placed = files.iter().enumerate().filter(|(_, file)| !file.extents.is_empty());
    let mut wanted: Vec<(u64, usize)> = placed
        .filter_map(|(number, file)| Some((rule.merit(file, uses_of(number).unwrap_or_default())?, number)))
        .collect();
    wanted.sort_by_key(|&(merit, number)| (Reverse(merit), number));
    let mut room = ssd_bytes.unwrap_or(u64::MAX);
    let mut on_ssd = vec![false; files.len()];
    for (_, number) in wanted {
        // A file that does not fit any more stays on the HDD; a smaller, less wanted file may still
        // fit.
        if let Some(left) = room.checked_sub(files[number].bytes()) {
            room = left;
            on_ssd[number] = true;
        }
    }
    let entry = |(number, file): (usize, &'a PlacedFile)| Entry {
        path: &file.path,
        bytes: file.bytes(),
        extents: file.extents.len(),
        program: file.program,
        uses: uses_of(number),
        now: ssd_bytes.and_then(|boundary| place_now(file, boundary)),
        belongs: (!file.extents.is_empty()).then_some(if on_ssd[number] { Place::Ssd } else { Place::Hdd }),
    };
    files.iter().enumerate().map(entry).collect()
}

/// Returns the drive on which a file lies when the SSD is the first `boundary` bytes.
fn place_now(file: &PlacedFile, boundary: u64) -> Option<Place> {
    let on_ssd = |&(start, length): &(u64, u64)| boundary.saturating_sub(start).min(length);
    let low: u64 = file.extents.iter().map(on_ssd).sum();
    match (file.bytes(), low) {
        (0, _) => None,
        (_, 0) => Some(Place::Hdd),
        (all, low) if low == all => Some(Place::Ssd),
        _ => Some(Place::Mixed),
    }
}

fn totals_of(entries: &[Entry<'_>], place_is_known: bool) -> Totals {
    let sum = |counts: &dyn Fn(&Entry<'_>) -> bool| {
        entries
            .iter()
            .filter(|entry| counts(entry))
            .fold(Total::default(), |total, entry| Total { files: total.files + 1, bytes: total.bytes + entry.bytes })
    };
    let to = |place| sum(&|entry| entry.belongs == Some(place));
    let moved =
        |place| place_is_known.then(|| sum(&|entry| entry.belongs == Some(place) && entry.now != entry.belongs));
    Totals {
        all: sum(&|_| true),
        to_ssd: to(Place::Ssd),
        to_hdd: to(Place::Hdd),
        undefined: sum(&|entry| entry.belongs.is_none()),
        move_to_ssd: moved(Place::Ssd),
        move_to_hdd: moved(Place::Hdd),
    }
}

/// Writes the map that `--files` takes. Bytes that several files share belong to the first file.
fn write_map(path: &Path, files: &[PlacedFile], free: &[(u64, u64)]) -> Result<(), Error> {
    let mut lines: Vec<(u64, u64, &str)> = Vec::new();
    for file in files.iter().filter(|file| !file.path.contains(['\n', '\r', '"'])) {
        lines.extend(file.extents.iter().map(|&(start, length)| (start, length, file.path.as_str())));
    }
    lines.extend(free.iter().map(|&(start, length)| (start, length, FREE)));
    lines.sort_by_key(|&(start, ..)| start);
    let mut map = OutputFile::create(path)?;
    let mut end = 0;
    writeln!(map, "offset,length,path")?;
    for (start, length, name) in lines {
        if start >= end {
            writeln!(map, "{start},{length},{name}")?;
            end = start + length;
        }
    }
    map.finish()
}

fn text(arguments: &Arguments, totals: &Totals) -> String {
    let of = |total: &Total| format!("{} files, {}", total.files, Bytes(total.bytes));
    let what = match arguments.strategy {
        Strategy::Type => "type: executables and libraries to the SSD",
        Strategy::Access => "access: what is accessed randomly to the SSD",
        Strategy::Frequency => "frequency: what is used most to the SSD",
    };
    let mut text = format!("path         {}\nstrategy     {what}\n", arguments.path.display());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "all          {}", of(&totals.all));
    let _ = writeln!(text, "to the SSD   {}", of(&totals.to_ssd));
    let _ = writeln!(text, "to the HDD   {}", of(&totals.to_hdd));
    let _ = writeln!(text, "no place     {} (empty, or kept in the inode)", of(&totals.undefined));
    if let (Some(to_ssd), Some(to_hdd)) = (&totals.move_to_ssd, &totals.move_to_hdd) {
        let _ = writeln!(text, "to be moved  {} to the SSD; {} to the HDD", of(to_ssd), of(to_hdd));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    fn file(path: &str, extents: &[(u64, u64)]) -> PlacedFile {
        PlacedFile { path: path.into(), extents: extents.to_vec(), program: combo::is_program(path) }
    }

    fn belongs(strategy: Strategy, files: &[PlacedFile], uses: &[Uses], ssd: Option<u64>) -> Vec<Option<Place>> {
        let rule = Rule { strategy, random: 0.9, frequent: 2 };
        decide(&rule, files, Some(uses), ssd).iter().map(|entry| entry.belongs).collect()
    }

    const SSD: Option<Place> = Some(Place::Ssd);
    const HDD: Option<Place> = Some(Place::Hdd);

    #[test]
    fn each_strategy_sends_to_the_ssd_what_it_says() {
        let files = [file("bin/ls", &[(0, 4096)]), file("film.wmv", &[(8192, 4096)]), file("empty.so", &[])];
        let uses = [(1, 0), (8, 7), (0, 0)].map(|(accesses, contiguous)| Uses { accesses, contiguous });
        assert_eq!(belongs(Strategy::Type, &files, &uses, None), [SSD, HDD, None]);
        assert_eq!(belongs(Strategy::Access, &files, &uses, None), [SSD, HDD, None]);
        assert_eq!(belongs(Strategy::Frequency, &files, &uses, None), [HDD, SSD, None]);
    }

    #[test]
    fn a_full_ssd_takes_what_is_used_most() {
        let files = [file("a", &[(0, 4096)]), file("b", &[(8192, 8192)]), file("c", &[(65_536, 4096)])];
        let uses = [2, 9, 5].map(|accesses| Uses { accesses, contiguous: 0 });
        assert_eq!(belongs(Strategy::Frequency, &files, &uses, Some(12_288)), [HDD, SSD, SSD]);
        assert_eq!(
            belongs(Strategy::Frequency, &files, &uses, Some(8000)),
            [HDD, HDD, SSD],
            "what does not fit is left out"
        );
    }

    #[test]
    fn a_file_lies_where_its_ranges_lie() {
        let places = [&[(0, 4096)][..], &[(4096, 8192)], &[(0, 4096), (65_536, 4096)], &[(65_536, 1)], &[]]
            .map(|extents| place_now(&file("x", extents), 8192));
        assert_eq!(places, [SSD, Some(Place::Mixed), Some(Place::Mixed), HDD, None]);
    }

    #[test]
    fn a_request_is_an_access_to_each_file_that_it_touches() {
        let ranges = [(0, 4096, 0), (4096, 8192, 1), (16_384, 20_480, 0)];
        let (mut uses, mut streams) = (vec![Uses::default(); 2], Streams::default());
        let mut access = |start: u64, sectors: u64| {
            let range = SectorRange::new(start, sectors);
            let kind = OpKind::Read;
            let request = Request { arrival: Nanoseconds(0), device: 0, kind, fua: false, range, response: None };
            count(&request, (&ranges, &[8192, 4096]), &mut streams, &mut uses)
        };
        assert!(access(0, 8) && access(8, 1) && access(7, 3) && access(39, 2));
        assert!(!access(16, 16) && !access(40, 8));
        assert!(access(8, 8), "the second file whole");
        assert_eq!(uses, [(3, 0), (3, 2)].map(|(accesses, contiguous)| Uses { accesses, contiguous }));
    }
}
