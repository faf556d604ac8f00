//! `bimetal profiles`: the drives that are built in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bimetal_models::profile::{Price, Profile};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{print, print_json};

/// List the built-in drives, or every figure of one
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal profiles\n  \
    bimetal profiles seagate-barracuda-7200.12-1tb\n  \
    bimetal profiles my-drive.toml")]
pub(crate) struct Arguments {
    /// A built-in name, or a TOML file
    name: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// A profile in JSON.
#[derive(Serialize)]
struct Entry {
    name: String,
    summary: String,
    /// Where its figures are from, each source once.
    source: String,
    kind: &'static str,
    capacity_bytes: u64,
    price_usd: Option<f64>,
    price_date: Option<String>,
    price_source: Option<String>,
    /// Every figure, as `--set` takes it; for a single profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<BTreeMap<String, String>>,
    /// Where each figure is from; for a single profile.
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

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let profiles = match &arguments.name {
        Some(name) => vec![Profile::load(name)?],
        None => Profile::builtin().collect(),
    };
    let in_full = arguments.name.is_some();
    if arguments.json.json {
        return print_json(&profiles.iter().map(|profile| Entry::of(profile, in_full)).collect::<Vec<_>>());
    }
    let text: String = if in_full { profiles.iter().map(describe).collect() } else { list(&profiles) };
    print(&text)
}

fn list(profiles: &[Profile]) -> String {
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for profile in profiles {
        let price = profile.price.as_ref().map_or_else(|| "-".to_owned(), |price| format!("{:.0} USD", price.usd));
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

/// A profile with every figure and its source.
fn describe(profile: &Profile) -> String {
    let mut text = format!("{}: {}\n", profile.name, profile.summary);
    if let Some(Price { usd, date, source }) = &profile.price {
        let _ = writeln!(text, "  price: {usd} USD ({date}, {source})");
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

/// What `--set` calls a drive of this kind.
fn role_of(profile: &Profile) -> &'static str {
    if profile.kind() == "hdd" { "hdd" } else { "ssd" }
}
