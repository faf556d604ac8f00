//! `bimetal schemes`: lists the schemes with their promises, parameters and memory needs.

use std::fmt::Write as _;

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_fault::promises;
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::names::schemes_named;
use crate::options::JsonOption;
use crate::output::{json_list, print};

/// List the schemes, or describe one: parameters, memory, and losses by a crash or a lost drive
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal schemes\n  \
    bimetal schemes griffin")]
pub(crate) struct Arguments {
    /// The name of a scheme, to show its losses, promises and parameters
    name: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// A scheme in JSON.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
    worst_crash: &'static str,
    ssd_loss: String,
    hdd_loss: String,
    bypass: Vec<Bypass>,
    memory_bytes_per_block: f64,
    promises: Vec<String>,
}

/// A reason for which blocks do not go where a scheme usually puts them, in JSON.
#[derive(Serialize)]
struct Bypass {
    reason: &'static str,
    meaning: &'static str,
}

/// A parameter in JSON.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    #[serde(rename = "type")]
    kind: String,
    default: &'static str,
    unit: Option<&'static str>,
    doc: &'static str,
}

impl Entry {
    fn of(info: &SchemeInfo) -> Self {
        let parameters = info.parameters.iter().map(|parameter| Parameter {
            name: parameter.name,
            kind: parameter.kind.name(),
            default: parameter.default,
            unit: parameter.kind.unit(),
            doc: parameter.doc,
        });
        Self {
            name: info.name,
            summary: info.summary,
            source: info.source,
            parameters: parameters.collect(),
            worst_crash: info.worst_crash,
            ssd_loss: info.loss_in_words(info.ssd_loss),
            hdd_loss: info.loss_in_words(info.hdd_loss),
            bypass: info.reasons().into_iter().map(|(reason, meaning)| Bypass { reason: reason.0, meaning }).collect(),
            memory_bytes_per_block: (info.memory_bytes_per_block * 10.0).ceil() / 10.0,
            promises: promises(info),
        }
    }

    /// Returns everything about the scheme as text for people.
    fn in_full(&self) -> String {
        let Self { name, summary, source, .. } = self;
        let mut text = format!("{name}: {summary}\n\nsource       {source}\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "worst crash  loses {}", self.worst_crash);
        let _ = writeln!(text, "SSD lost     loses {}", self.ssd_loss);
        let _ = writeln!(text, "HDD lost     loses {}", self.hdd_loss);
        let per_gib_mib = self.memory_bytes_per_block * 262_144.0 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "memory       at most {:.1} bytes for each 4 KiB block off home ({per_gib_mib:.1} MiB a GiB)",
            self.memory_bytes_per_block
        );
        text.push_str("\nPromises, which `bimetal fault` checks:\n");
        for promise in &self.promises {
            let _ = writeln!(text, "  {promise}");
        }
        text.push_str("\nReasons for a bypass, counted by name (`bypass`):\n");
        for Bypass { reason, meaning } in &self.bypass {
            let _ = writeln!(text, "  {reason:<18} {meaning}");
        }
        if self.parameters.is_empty() {
            text.push_str("\nNo parameters.\n");
            return text;
        }
        text.push_str("\nParameters (--set KEY=VALUE):\n");
        for Parameter { name, kind, default, doc, .. } in &self.parameters {
            let _ = writeln!(text, "  {name}={default}  ({kind})\n      {doc}");
        }
        text
    }
}

fn entries(arguments: &Arguments) -> Result<Vec<Entry>, Error> {
    let chosen = match &arguments.name {
        Some(name) => schemes_named(name)?,
        None => schemes::every().collect(),
    };
    Ok(chosen.into_iter().map(Entry::of).collect())
}

/// Returns the document that `--json` prints.
///
/// # Errors
/// No scheme has the name.
pub(crate) fn json(arguments: &Arguments) -> Result<String, Error> {
    json_list("schemes", &entries(arguments)?)
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    if arguments.json.json {
        return print(&json(&arguments)?);
    }
    let entries = entries(&arguments)?;
    if arguments.name.is_some() {
        return print(&entries.iter().map(Entry::in_full).collect::<Vec<_>>().join("\n"));
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let lines = entries.iter().map(|entry| format!("{:width$}  {}\n", entry.name, entry.summary));
    print(&lines.collect::<String>())
}
