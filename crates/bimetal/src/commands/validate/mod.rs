//! `bimetal validate`: compares a trace with measured response times to the model of a drive.

mod parts;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::Profile;
use bimetal_sim::validation::{Pace, Sample, fit, read_validate_trace, replay};
use bimetal_trace::STANDARD_INPUT;
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::{TableForm, TraceOptions};
use crate::output::{OutputFile, note, print, print_json};
use crate::report::validation::{Compared, Curves, html};
use crate::trace_file::TraceReader;
use parts::Parts;

/// Play a trace with measured response times over the model of a drive, and print how well they
/// agree
///
/// The rms demerit is the root-mean-square horizontal distance between the two distributions of
/// response times, computed as in DiskSim. Errors are measured minus simulated. Flash is full at
/// first, written in order. For a drive without a data sheet, --fit changes the profile's spindle
/// speed, seek times, rates, overhead and write cache until it agrees with the first half of the
/// trace. With --fit, all figures are for the second half.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("drive").required(true).args(["hdd", "ssd"])))]
#[command(after_help = "Examples:\n  \
    bimetal validate ibm18es.trace --hdd disksim-ibm18es\n  \
    bimetal validate web_0.csv.gz --hdd seagate-barracuda-7200.12-1tb --report validate.html\n  \
    bimetal validate web_0.csv.gz --hdd seagate-barracuda-7200.12-1tb --fit")]
pub(crate) struct Arguments {
    /// The trace: DiskSim's validation format, or any format with response times
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The hard disk: a built-in profile or a TOML file
    #[arg(long, value_name = "PROFILE")]
    hdd: Option<String>,
    /// The flash drive: a built-in profile or a TOML file
    #[arg(long, value_name = "PROFILE")]
    ssd: Option<String>,
    /// A figure of the drive to change, like rpm=7200
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Times of requests; closed: a think time after the previous request ended; timed: the times
    /// of the trace [default: closed for DiskSim's validation format, timed for others]
    #[arg(long, value_name = "closed|timed")]
    replay: Option<Replay>,
    /// Fit the data-sheet figures of the hard disk to the first half of the requests, and compare
    /// with the second half
    #[arg(long, conflicts_with = "ssd")]
    fit: bool,
    /// Write a page with the measured and the simulated distribution
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    reading: TraceOptions,
    #[command(flatten)]
    form: TableForm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Replay {
    Closed,
    Timed,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut profile = load(&arguments)?;
    let (samples, format) = read(&arguments.trace, &arguments.reading)?;
    let pace = match arguments.replay {
        Some(Replay::Closed) => Pace::Closed,
        Some(Replay::Timed) => Pace::Timed,
        None if format == "disksim-validate" => Pace::Closed,
        None => Pace::Timed,
    };
    let last = samples.iter().map(|sample| sample.range.end()).max().unwrap_or_default();
    if last > profile.capacity {
        note(format_args!(
            "{} has {}, and the trace reaches {last}: the simulated drive is made larger",
            profile.name, profile.capacity
        ));
    }
    let capacity = last.max(profile.capacity);
    let fitted = match arguments.fit {
        true => Some(Fitted::to(&mut profile, &samples[..samples.len() / 2], pace, capacity)?),
        false => None,
    };
    // The addresses that the trace reads had content before the trace; empty flash would answer
    // without a read of its cells.
    let full = SectorRange { len: capacity, ..SectorRange::default() };
    let mut drive = profile.build_preconditioned(Some(capacity), Precondition::Sequential, full, 0)?;
    let simulated = replay(&mut *drive, &samples, pace);
    let judged = fitted.as_ref().map_or(0, |fitted| fitted.requests);
    let (samples, simulated) = (&samples[judged..], &simulated[judged..]);
    let parts = Parts::of(samples, simulated)?;
    if let Some(path) = &arguments.report {
        let drive = match &fitted {
            Some(fitted) => format!("{}. {}", profile.summary, fitted.text()),
            None => profile.summary.clone(),
        };
        write_report(path, &arguments.trace, &drive, &parts, parts.curves(samples, simulated))?;
    }
    if let Some(table) = arguments.form.of(|| parts.sheet()) {
        return print(&table);
    }
    if arguments.form.json {
        let mut document = parts.json();
        document.insert("profile".to_owned(), Value::from(profile.name.as_str()));
        document.insert("format".to_owned(), Value::from(format));
        document.insert("replay".to_owned(), Value::from(if pace == Pace::Closed { "closed" } else { "timed" }));
        document.insert("fitted".to_owned(), fitted.map_or(Value::Null, |fitted| fitted.json()));
        return print_json("validate", &document);
    }
    let paced = if pace == Pace::Closed { "closed loop, with its think times" } else { "timed" };
    let fitted = fitted.map(|fitted| format!("{}\n", fitted.text())).unwrap_or_default();
    print(&format!("{} over {} ({paced})\n{fitted}\n{}", arguments.trace.display(), profile.name, parts.text()))
}

fn write_report(path: &Path, trace: &Path, drive: &str, parts: &Parts, curves: Vec<Curves>) -> Result<(), Error> {
    let trace = trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let page = html(&Compared { trace: &trace, drive, text: &parts.text(), curves });
    let mut file = OutputFile::create(path)?;
    file.write_all(page.as_bytes())?;
    file.finish()
}

/// Figures that were fitted, and the number of requests to which they were fitted.
struct Fitted {
    requests: usize,
    figures: Vec<(&'static str, String)>,
}

impl Fitted {
    fn to(profile: &mut Profile, samples: &[Sample], pace: Pace, capacity: Sectors) -> Result<Self, Error> {
        if samples.is_empty() {
            return Err(Error::new(
                "--fit: the trace has one request: expected at least two, one to fit to and one to judge",
            ));
        }
        Ok(Self { requests: samples.len(), figures: fit(profile, samples, pace, capacity)? })
    }

    fn text(&self) -> String {
        let figures: Vec<_> = self.figures.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!(
            "Fitted to the first {} requests; the figures below are of the requests after them: {}",
            self.requests,
            figures.join(" ")
        )
    }

    fn json(&self) -> Value {
        let figures: serde_json::Map<_, _> =
            self.figures.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect();
        json!({"requests": self.requests, "figures": figures})
    }
}

fn load(arguments: &Arguments) -> Result<Profile, Error> {
    let (name, flag, kind) = match (&arguments.hdd, &arguments.ssd) {
        (Some(name), _) => (name, "--hdd", "hdd"),
        (None, Some(name)) => (name, "--ssd", "flash"),
        (None, None) => return Err(Error::new("expected --hdd or --ssd with a profile")),
    };
    let mut profile = Profile::load(name)?;
    if profile.kind() != kind {
        return Err(Error::new(format!("{flag} {name}: the profile is of kind {}, expected {kind}", profile.kind())));
    }
    let mut settings = Vec::new();
    for setting in &arguments.settings {
        let pair = setting.split_once('=');
        settings.push(pair.ok_or_else(|| Error::new(format!("--set {setting}: expected KEY=VALUE, like rpm=7200")))?);
    }
    profile.set_all(settings)?;
    Ok(profile)
}

/// Returns the measured requests of a trace, and the name of its format.
fn read(path: &Path, options: &TraceOptions) -> Result<(Vec<Sample>, &'static str), Error> {
    let name = path.display().to_string();
    if name == STANDARD_INPUT {
        return Err(Error::new("standard input: expected a file, because validate reads its trace twice"));
    }
    if options.format.is_none() {
        let bytes = std::fs::read(path).map_err(|error| Error::new(format!("{name}: {error}")))?;
        let samples = std::str::from_utf8(&bytes).ok().map(|text| read_validate_trace(text, &name)).transpose()?;
        if let Some(mut samples) = samples.flatten() {
            samples.truncate(options.limit.map_or(usize::MAX, |limit| limit as usize));
            return if samples.is_empty() { Err(no_requests(&name)) } else { Ok((samples, "disksim-validate")) };
        }
    }
    let mut reader = TraceReader::open(path, options)?;
    let (mut samples, mut without) = (Vec::<Sample>::new(), 0_u64);
    while let Some(request) = reader.next()? {
        let Some(measured) = request.response.filter(|_| matches!(request.kind, OpKind::Read | OpKind::Write)) else {
            without += 1;
            continue;
        };
        if let Some(last) = samples.last_mut() {
            last.think = request.arrival.saturating_sub(last.arrival + last.measured);
        }
        let (arrival, kind, range) = (request.arrival, request.kind, request.range);
        samples.push(Sample { arrival, kind, range, measured, think: Nanoseconds::ZERO });
    }
    let trace = reader.finish();
    if samples.is_empty() {
        return Err(Error::new(format!(
            "{name}: {without} requests, none of them with a response time: expected a trace with measured response \
             times (DiskSim's validation format, msr, diskmon, blktrace, wiscsee)"
        )));
    }
    if without > 0 {
        note(format_args!("{}: {without} requests without a response time were passed over", trace.name()));
    }
    Ok((samples, "trace"))
}

fn no_requests(name: &str) -> Error {
    Error::new(format!("{name}: no requests"))
}
