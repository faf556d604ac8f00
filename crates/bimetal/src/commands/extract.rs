//! `bimetal extract`: measures a drive's profile, from timing alone.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_extract::figures::{Extraction, Kind};
use bimetal_extract::file::Candidate;
use bimetal_extract::target::{ModelTarget, Target};
use bimetal_extract::{Options, extract};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{OutputFile, note, print, print_json};
use crate::progress::Progress;

/// Number of steps of the progress bar.
const STEPS: f64 = 1000.0;

/// Measure a drive, and write its profile
///
/// A block device or a file is opened without the page cache, and its figures follow from response
/// times. The content of a block device or file is destroyed, unless --read-only is given. A drive
/// that is mounted, in use or not empty is refused, unless --read-only is given. The name of a
/// profile, or its TOML file, stands for a simulated drive. The measurement of a simulated drive
/// takes no time, and shows how accurate the method is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo bimetal extract /dev/sdb -o my-disk.toml\n  \
    sudo bimetal extract /dev/sdb -o my-disk.toml --read-only --budget 3min\n  \
    bimetal extract seagate-barracuda-7200.12-1tb -o again.toml")]
pub(crate) struct Arguments {
    /// A block device, a file, or a profile (a name or a TOML file)
    #[arg(value_name = "DEVICE|PROFILE")]
    drive: String,
    /// The profile to write; a file that exists is not overwritten
    #[arg(short, long, value_name = "FILE.toml")]
    output: PathBuf,
    /// Only read, so the drive keeps its content; figures that only writes show are assumed
    #[arg(long)]
    read_only: bool,
    /// Destroy the content of the drive without asking first
    #[arg(long)]
    yes: bool,
    /// Time limit of the measurement, like 3min. Figures for which no time is left are assumed, and
    /// marked so
    #[arg(long, value_name = "TIME", default_value = "10min")]
    budget: Nanoseconds,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    json: JsonOption,
}

/// Document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    bimetal: &'static str,
    drive: &'a str,
    output: String,
    name: &'a str,
    #[serde(flatten)]
    extraction: &'a Extraction,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { drive, output, .. } = &arguments;
    if output.exists() {
        let message = format!("{}: exists already: remove it, or name another file", output.display());
        return Err(Error::new(message));
    }
    let Measured { mut target, doubt, caution } = match profile_of(drive)? {
        Some(profile) => model(&profile, arguments.seed)?,
        None => match device(&arguments)? {
            Some(measured) => measured,
            None => return Ok(()),
        },
    };
    // The file must be writable before the drive is measured for ten minutes.
    let mut file = OutputFile::create(output)?;
    let options = Options { writes: !arguments.read_only, budget: arguments.budget, seed: arguments.seed };
    let mut progress = Progress::new(Some(STEPS as u64), "steps");
    let mut extraction = extract(target.as_mut(), &options, &mut |done| progress.set((done * STEPS) as u64))
        .map_err(|error| Error::new(format!("{drive}: {error}")))?;
    drop(progress);
    extraction.notes.extend(caution);
    if let Some(doubt) = doubt.filter(|_| extraction.trusted) {
        extraction.doubt(&doubt);
    }
    let name = output.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let text = extraction.to_toml(&name, &format!("extracted from {drive} by timing"));
    let profile = Profile::parse(&text, &output.display().to_string())?;
    file.write_all(text.as_bytes())?;
    file.finish()?;
    if arguments.json.json {
        let output = output.display().to_string();
        return print_json(
            "extract",
            &Document { bimetal: env!("CARGO_PKG_VERSION"), drive, output, name: &name, extraction: &extraction },
        );
    }
    print(&describe(&extraction, &profile, output))
}

/// Returns the profile that `drive` names; `None` for a device or another file.
fn profile_of(drive: &str) -> Result<Option<Profile>, Error> {
    let path = Path::new(drive);
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    if is_toml || (!path.exists() && !drive.contains('/')) {
        return Ok(Some(Profile::load(drive)?));
    }
    Ok(None)
}

/// The drive or model to measure.
struct Measured {
    target: Box<dyn Target>,
    /// Reason for which the measured times are not the times of a drive.
    doubt: Option<String>,
    /// Another caution about the figures.
    caution: Option<String>,
}

/// Returns a model of `profile`, with flash in the state of long use.
fn model(profile: &Profile, seed: u64) -> Result<Measured, Error> {
    let all = SectorRange { start: Sectors::ZERO, len: profile.capacity };
    let built = profile.build_preconditioned(None, Precondition::Random, all, seed)?;
    let target = ModelTarget::new(built).with_sectors_of(profile);
    Ok(Measured { target: Box::new(target), doubt: None, caution: None })
}

/// Opens the device or file for measuring; `None` when the user refuses.
fn device(arguments: &Arguments) -> Result<Option<Measured>, Error> {
    let candidate = Candidate::look_at(Path::new(&arguments.drive), !arguments.read_only)?;
    if !arguments.read_only && !arguments.yes && !confirmed(&candidate)? {
        note("cancelled: nothing was measured or written");
        return Ok(None);
    }
    if arguments.read_only && candidate.is_in_use() {
        note(format_args!("{} is in use: requests of other programs distort the figures", arguments.drive));
    }
    if arguments.read_only && candidate.is_sparse() {
        note(format_args!("{} has parts that were never written: reads of them take no time", arguments.drive));
    }
    note(format_args!("measuring {} takes {} at most", arguments.drive, arguments.budget));
    let (doubt, caution) = (candidate.doubt(), candidate.caution());
    Ok(Some(Measured { target: Box::new(candidate.open()?), doubt, caution }))
}

/// Asks the user on the terminal. Returns true if the answer is yes.
fn confirmed(candidate: &Candidate) -> Result<bool, Error> {
    let what = candidate.describe();
    if !io::stdin().is_terminal() {
        let message = format!("{what}: its content would be destroyed: confirm with --yes, or give --read-only");
        return Err(Error::new(message));
    }
    // A closed standard error shows no question; the prompt's failure is ignored.
    let _ = write!(io::stderr().lock(), "The content of {what} will be destroyed. Type yes to go on: ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Returns the figures as a table.
fn describe(extraction: &Extraction, profile: &Profile, output: &Path) -> String {
    let (kind, flag) = match extraction.kind {
        Kind::Hdd => ("a disk", "hdd"),
        Kind::Flash => ("flash", "ssd"),
    };
    let mut text = format!(
        "{}: {kind} of {:.1} GB; {} commands in {:.1} s\n",
        output.display(),
        profile.capacity.bytes().get() as f64 / 1e9,
        extraction.commands,
        extraction.seconds
    );
    // Writing to a string cannot fail.
    for note in &extraction.notes {
        let _ = writeln!(text, "{note}");
    }
    let width = extraction.figures.iter().map(|figure| figure.key.len()).max().unwrap_or(0);
    for figure in &extraction.figures {
        let value = if figure.value.len() > 40 { "(a list)" } else { &figure.value };
        let _ = writeln!(text, "  {:width$}  {value:<14}  {}", figure.key, figure.source);
    }
    for zone in &extraction.zones {
        let _ = writeln!(
            text,
            "  zone: cylinders {} to {}, {} sectors a track",
            zone.first_cylinder, zone.last_cylinder, zone.sectors_per_track
        );
    }
    let _ = writeln!(text, "Use it with: --{flag} {}", output.display());
    text
}
