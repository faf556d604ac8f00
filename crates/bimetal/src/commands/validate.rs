//! `bimetal validate`: a trace with measured response times against the model of a drive.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_core::operation::OpKind;
use bimetal_core::units::Nanoseconds;
use bimetal_models::profile::Profile;
use bimetal_sim::validation::{Agreement, Pace, Sample, read_validate_trace, replay};
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::options::{JsonOption, TraceOptions};
use crate::output::{OutputFile, note, print, print_json};
use crate::report::validation::{Compared, html};
use crate::trace_file::TraceReader;

/// Play a trace with measured response times over the model of a drive, and say how well they agree
///
/// The rms demerit is the root-mean-square horizontal distance between the two distributions of response times, worked
/// out as DiskSim does. Errors are measured minus simulated.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("drive").required(true).args(["hdd", "ssd"])))]
#[command(after_help = "Examples:\n  \
    bimetal validate ibm18es.trace --hdd disksim-ibm18es\n  \
    bimetal validate web_0.csv.gz --hdd seagate-barracuda-7200.12-1tb --report validate.html")]
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
    /// Changes a figure of the drive
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// When requests are sent: each after the think time behind the one before, or when the trace says [default: closed
    /// for DiskSim's validation format, timed for others]
    #[arg(long, value_name = "closed|timed")]
    replay: Option<Replay>,
    /// Write a page with both distributions
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    reading: TraceOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Replay {
    Closed,
    Timed,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let profile = load(&arguments)?;
    let (samples, format) = read(&arguments.trace, &arguments.reading)?;
    let pace = match arguments.replay {
        Some(Replay::Closed) => Pace::Closed,
        Some(Replay::Timed) => Pace::Timed,
        None if format == "disksim-validate" => Pace::Closed,
        None => Pace::Timed,
    };
    let last = samples.iter().map(|sample| sample.range.end()).max().unwrap_or_default();
    if last > profile.capacity {
        note(format_args!("{} has {}, the trace reaches {last}: it is made larger", profile.name, profile.capacity));
    }
    let mut drive = profile.build(Some(last.max(profile.capacity)), 0)?;
    let simulated = replay(&mut *drive, &samples, pace);
    let parts = Parts::of(&samples, &simulated)?;
    if let Some(path) = &arguments.report {
        let name = arguments.trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let page = html(&Compared {
            trace: &name,
            drive: &profile.summary,
            text: &parts.text(),
            curves: parts.curves(&samples, &simulated),
        });
        let mut file = OutputFile::create(path)?;
        file.write_all(page.as_bytes())?;
        file.finish()?;
    }
    if arguments.json.json {
        return print_json(&parts.json(&profile, format, pace));
    }
    let paced = if pace == Pace::Closed { "closed loop, with its think times" } else { "timed" };
    print(&format!("{} over {} ({paced})\n\n{}", arguments.trace.display(), profile.name, parts.text()))
}

fn load(arguments: &Arguments) -> Result<Profile, Error> {
    let (name, flag, kind) = match (&arguments.hdd, &arguments.ssd) {
        (Some(name), _) => (name, "--hdd", "hdd"),
        (None, Some(name)) => (name, "--ssd", "flash"),
        (None, None) => return Err(Error::new("expected --hdd or --ssd with a profile")),
    };
    let mut profile = Profile::load(name)?;
    if profile.kind() != kind {
        return Err(Error::new(format!("{flag} {name}: it is a profile of kind {}, expected {kind}", profile.kind())));
    }
    let mut settings = Vec::new();
    for setting in &arguments.settings {
        let pair = setting.split_once('=');
        settings.push(pair.ok_or_else(|| Error::new(format!("--set {setting}: expected KEY=VALUE, like rpm=7200")))?);
    }
    profile.set_all(settings)?;
    Ok(profile)
}

/// The measured requests of a trace, and the name of its format.
fn read(path: &Path, options: &TraceOptions) -> Result<(Vec<Sample>, &'static str), Error> {
    let name = path.display().to_string();
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
            "{name}: {without} requests, none with a response time: expected a trace whose response times were measured \
             (DiskSim's validation format, msr, diskmon, blktrace, wiscsee)"
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

/// All requests, the reads and the writes.
struct Parts {
    all: Agreement,
    reads: Option<Agreement>,
    writes: Option<Agreement>,
}

/// The measured and the simulated responses of one kind, or of all.
fn pairs(samples: &[Sample], simulated: &[Nanoseconds], kind: Option<OpKind>) -> (Vec<Nanoseconds>, Vec<Nanoseconds>) {
    let both = samples.iter().zip(simulated).filter(|(sample, _)| kind.is_none_or(|kind| sample.kind == kind));
    both.map(|(sample, response)| (sample.measured, *response)).unzip()
}

impl Parts {
    fn of(samples: &[Sample], simulated: &[Nanoseconds]) -> Result<Self, Error> {
        let part = |kind| {
            let (measured, simulated) = pairs(samples, simulated, kind);
            Agreement::of(&measured, &simulated)
        };
        Ok(Self {
            all: part(None).ok_or_else(|| Error::new("the trace has no requests"))?,
            reads: part(Some(OpKind::Read)),
            writes: part(Some(OpKind::Write)),
        })
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Agreement)> {
        [("all", Some(&self.all)), ("reads", self.reads.as_ref()), ("writes", self.writes.as_ref())]
            .into_iter()
            .filter_map(|(name, part)| Some((name, part?)))
    }

    fn text(&self) -> String {
        let mut text = format!("{:24}", "");
        for (name, _) in self.named() {
            let _ = write!(text, "{name:>12}");
        }
        text.push('\n');
        type Figure = (&'static str, fn(&Agreement) -> f64);
        let figures: [Figure; 7] = [
            ("rms demerit, ms", |part| part.rms_demerit_ms),
            ("per-request rms, ms", |part| part.per_request_rms_ms),
            ("median abs. error, ms", |part| part.median_abs_error_ms),
            ("mean error, ms", |part| part.mean_error_ms),
            ("KS distance", |part| part.ks_distance),
            ("measured mean, ms", |part| part.measured_mean_ms),
            ("simulated mean, ms", |part| part.simulated_mean_ms),
        ];
        let _ = write!(text, "{:24}", "requests");
        self.named().for_each(|(_, part)| {
            let _ = write!(text, "{:>12}", part.requests);
        });
        text.push('\n');
        for (name, figure) in figures {
            let _ = write!(text, "{name:24}");
            self.named().for_each(|(_, part)| {
                let _ = write!(text, "{:>12.4}", figure(part));
            });
            text.push('\n');
        }
        text
    }

    fn json(&self, profile: &Profile, format: &str, pace: Pace) -> Value {
        let figures = |part: &Agreement| {
            let value = json!({
                "requests": part.requests,
                "rms_demerit_ms": part.rms_demerit_ms,
                "per_request_rms_ms": part.per_request_rms_ms,
                "median_abs_error_ms": part.median_abs_error_ms,
                "mean_error_ms": part.mean_error_ms,
                "ks_distance": part.ks_distance,
                "measured_mean_ms": part.measured_mean_ms,
                "simulated_mean_ms": part.simulated_mean_ms,
            });
            match value {
                Value::Object(map) => map,
                _ => Map::new(),
            }
        };
        let mut document = figures(&self.all);
        for (name, part) in [("read", &self.reads), ("write", &self.writes)] {
            document.insert(name.to_owned(), part.as_ref().map_or(Value::Null, |part| Value::Object(figures(part))));
        }
        document.insert("profile".to_owned(), Value::from(profile.name.as_str()));
        document.insert("format".to_owned(), Value::from(format));
        document.insert("replay".to_owned(), Value::from(if pace == Pace::Closed { "closed" } else { "timed" }));
        Value::Object(document)
    }

    fn curves(
        &self,
        samples: &[Sample],
        simulated: &[Nanoseconds],
    ) -> Vec<(&'static str, Vec<Nanoseconds>, Vec<Nanoseconds>)> {
        [("All requests", None), ("Reads", Some(OpKind::Read)), ("Writes", Some(OpKind::Write))]
            .into_iter()
            .map(|(name, kind)| {
                let (measured, simulated) = pairs(samples, simulated, kind);
                (name, measured, simulated)
            })
            .filter(|(_, measured, _)| !measured.is_empty())
            .collect()
    }
}
