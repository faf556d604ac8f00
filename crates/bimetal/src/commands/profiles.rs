//! `bimetal profiles`: lists the built-in drives.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_models::hdd::diskspecs::{BusTimes, import};
use bimetal_models::profile::{Price, Profile};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::TableForm;
use crate::output::{OutputFile, json_list, note, print};
use crate::sheet::Sheet;

/// List the built-in drives, or every figure of one drive
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal profiles\n  \
    bimetal profiles seagate-barracuda-7200.12-1tb\n  \
    bimetal profiles my-drive.toml\n  \
    bimetal profiles --import drive.diskspecs -o drive.toml --bus-ms-per-sector 0.17,0.187")]
pub(crate) struct Arguments {
    /// A built-in profile's name, or a TOML file
    name: Option<String>,
    /// Make a profile from a drive's DiskSim parameter files: the .diskspecs, with the .model and
    /// .seek files that it names
    #[arg(long, value_name = "FILE.diskspecs", requires = "output", conflicts_with_all = ["name", "json", "csv", "markdown"])]
    import: Option<PathBuf>,
    /// File for the imported profile, in TOML
    #[arg(short, long, value_name = "FILE.toml", requires = "import")]
    output: Option<PathBuf>,
    /// Milliseconds that the bus takes for a sector of 512 bytes: one value, or two for reads and
    /// writes, like 0.17,0.187. Needed if the .diskspecs has no bus rate
    #[arg(long, value_name = "R[,W]", requires = "import", value_parser = bus_times)]
    bus_ms_per_sector: Option<BusTimes>,
    #[command(flatten)]
    form: TableForm,
}

/// A profile in JSON.
#[derive(Serialize)]
struct Entry {
    name: String,
    summary: String,
    /// Sources of the figures, each source once.
    source: String,
    kind: &'static str,
    capacity_bytes: u64,
    price_usd: Option<f64>,
    price_date: Option<String>,
    price_source: Option<String>,
    /// Every figure as `--set` takes it; for a single profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<BTreeMap<String, String>>,
    /// Source of each figure; for a single profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<BTreeMap<String, String>>,
}

impl Entry {
    fn of(profile: &Profile, in_full: bool) -> Self {
        let mut sources: Vec<&str> = Vec::new();
        for source in profile.sources.values() {
            if !sources.contains(&source.as_str()) {
                sources.push(source);
            }
        }
        let price = profile.price.as_ref();
        let figures = || profile.figures().map(|(key, value, _)| (key.to_owned(), value)).collect();
        Self {
            name: profile.name.clone(),
            summary: profile.summary.clone(),
            source: sources.join("; "),
            kind: profile.kind(),
            capacity_bytes: profile.capacity.bytes().get(),
            price_usd: price.map(|price| price.usd),
            price_date: price.map(|price| price.date.clone()),
            price_source: price.map(|price| price.source.clone()),
            figures: in_full.then(figures),
            sources: in_full.then(|| profile.sources.clone()),
        }
    }
}

/// Reads `R` or `R,W`.
fn bus_times(text: &str) -> Result<BusTimes, String> {
    let time = |part: &str| part.trim().parse::<f64>().ok().filter(|ms| *ms > 0.0 && *ms < 1000.0);
    let (read, write) = text.split_once(',').unwrap_or((text, text));
    match (time(read), time(write)) {
        (Some(read_ms), Some(write_ms)) => Ok(BusTimes { read_ms, write_ms }),
        _ => Err("expected milliseconds a sector, like 0.17, or two for reads and writes, like 0.17,0.187".to_owned()),
    }
}

/// Makes a profile of DiskSim's parameter files.
fn import_drive(file: &Path, bus: Option<BusTimes>, output: &Path) -> Result<(), Error> {
    let imported = import(file, bus)?;
    for warning in &imported.passed_over {
        note(warning);
    }
    let profile = Profile::parse(&imported.profile, &output.display().to_string())?;
    let mut out = OutputFile::create(output)?;
    out.write_all(imported.profile.as_bytes())?;
    out.finish()?;
    let gigabytes = profile.capacity.bytes().get() as f64 / 1e9;
    print(&format!("{}: {}, {gigabytes:.2} GB\n", output.display(), profile.summary))
}

fn chosen(arguments: &Arguments) -> Result<Vec<Profile>, Error> {
    Ok(match &arguments.name {
        Some(name) => vec![Profile::load(name)?],
        None => Profile::builtin().collect(),
    })
}

/// Returns the document that `--json` prints.
///
/// # Errors
/// No profile or file has the name.
pub(crate) fn json(arguments: &Arguments) -> Result<String, Error> {
    let of = |profile: &Profile| Entry::of(profile, arguments.name.is_some());
    json_list("profiles", &chosen(arguments)?.iter().map(of).collect::<Vec<_>>())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    if let (Some(file), Some(output)) = (&arguments.import, &arguments.output) {
        return import_drive(file, arguments.bus_ms_per_sector, output);
    }
    if arguments.form.json {
        return print(&json(&arguments)?);
    }
    let (profiles, in_full) = (chosen(&arguments)?, arguments.name.is_some());
    if let Some(table) = arguments.form.of(|| sheet(&profiles)) {
        return print(&table);
    }
    let text: String = if in_full { profiles.iter().map(describe).collect() } else { list(&profiles) };
    print(&text)
}

/// Returns a row for each profile.
fn sheet(profiles: &[Profile]) -> Sheet {
    let mut sheet = Sheet::new(["name", "kind", "capacity_bytes", "price_usd", "price_date", "summary"]);
    for profile in profiles {
        let price = profile.price.as_ref();
        sheet.push([
            profile.name.as_str().into(),
            profile.kind().into(),
            profile.capacity.bytes().get().into(),
            price.map(|price| price.usd).into(),
            price.map_or("", |price| price.date.as_str()).into(),
            profile.summary.as_str().into(),
        ]);
    }
    sheet
}

fn list(profiles: &[Profile]) -> String {
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for profile in profiles {
        let price = profile.price.as_ref().map_or_else(|| "-".to_owned(), |price| format!("${:.0}", price.usd));
        let capacity = profile.capacity.bytes().get() as f64 / 1e9;
        let _ = writeln!(
            text,
            "{:width$}  {:5}  {capacity:>7.0} GB  {price:>9}  {}",
            profile.name,
            profile.kind(),
            profile.summary
        );
    }
    text
}

/// Returns a profile with every figure and its source, as text.
fn describe(profile: &Profile) -> String {
    let mut text = format!("{}: {}\n", profile.name, profile.summary);
    if let Some(Price { usd, date, source }) = &profile.price {
        let _ = writeln!(text, "  price: ${usd} ({date}, {source})");
    }
    let _ = writeln!(text, "\nFigures (`--set {}.KEY=VALUE` changes one):", role_of(profile));
    let figures: Vec<_> = profile.figures().collect();
    let key_width = figures.iter().map(|(key, ..)| key.len()).max().unwrap_or(0);
    for (key, value, source) in figures {
        let _ = match source {
            Some(source) => writeln!(text, "  {key:key_width$}  {value}\n  {:key_width$}    {source}", ""),
            None => writeln!(text, "  {key:key_width$}  {value}"),
        };
    }
    text
}

/// Returns the role by which `--set` names a drive of this kind.
fn role_of(profile: &Profile) -> &'static str {
    if profile.kind() == "hdd" { "hdd" } else { "ssd" }
}
