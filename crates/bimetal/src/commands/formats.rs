//! `bimetal formats`: lists the trace formats that are read and written.

use std::fmt::Write as _;

use bimetal_trace::{Format, formats};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::names::format_named;
use crate::options::JsonOption;
use crate::output::{print, print_json_list};

/// List the trace formats, or describe one format
///
/// Traces are recognised by content, compressed (gz, bz2, xz, zst) or not. `--format NAME` chooses
/// the format if the content does not show it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bimetal formats\n  bimetal formats msr")]
pub(crate) struct Arguments {
    /// The name of a format, to show it alone
    name: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// A format in JSON.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Set if `convert` writes the format, too.
    writable: bool,
}

impl Entry {
    fn of(format: &Format) -> Self {
        Self { name: format.name, summary: format.summary, source: format.source, writable: format.is_writable() }
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let formats = match &arguments.name {
        Some(name) => vec![format_named(name)?],
        None => formats::ALL.to_vec(),
    };
    if arguments.json.json {
        return print_json_list("formats", &formats.into_iter().map(Entry::of).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for format in formats.iter().copied().map(Entry::of) {
        let written = if format.writable { "read, written" } else { "read" };
        let _ = match &arguments.name {
            Some(_) => writeln!(text, "{}: {}\n  source: {}\n  {written}", format.name, format.summary, format.source),
            None => writeln!(text, "{:16}  {:13}  {}", format.name, written, format.summary),
        };
    }
    print(&text)
}
