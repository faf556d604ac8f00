//! `bimetal catalog`: shows the data on drives for sale, built in and of the user, and imports a
//! table of drives.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bimetal_plan::drives::figures::{DRIVE_KEYS, Key};
use bimetal_plan::drives::import::{NEEDED, OTHERS, from_csv};
use bimetal_plan::drives::model::files;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::drives::{Entry, chosen, in_full, missing_size, sheet, table, to_json};
use crate::error::Error;
use crate::options::TableForm;
use crate::output::{OutputFile, json_list, note, print, print_json};
use crate::prices::today;

/// Show drives for sale with figures and prices, or import a table of drives
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal catalog show\n  \
    bimetal catalog show common\n  \
    bimetal catalog show datacentre-ssd\n  \
    bimetal catalog show samsung-990-pro\n  \
    bimetal catalog import drives.csv -o drives.toml")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show drives and cloud volumes: sizes, prices with their age, endurance, power-loss
    /// protection
    ///
    /// A "?" marks a figure without a source. "~" marks an age that is counted from the first day
    /// of a month or year, "≥" an age since an undated list was read. A single drive is shown with
    /// every figure and its sources.
    #[command(after_help = "Examples:\n  \
        bimetal catalog show\n  \
        bimetal catalog show nearline-hdd\n  \
        bimetal catalog show datacentre-ssd --csv > drives.csv\n  \
        bimetal catalog show crucial-t500 --json")]
    Show {
        /// A drive, a class of drives, common for the drives that a plan considers by default, or a
        /// part of a drive's name
        name: Option<String>,
        #[command(flatten)]
        form: TableForm,
    },
    /// Make a TOML file of drives out of a table
    #[command(after_help = columns())]
    Import {
        /// The table: CSV with a heading, and a line for each size of a model
        #[arg(value_name = "FILE.csv")]
        table: PathBuf,
        /// File for the drives, in TOML; standard output without it
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
        /// Print one JSON document instead of text; needs -o
        #[arg(long, requires = "output")]
        json: bool,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    match arguments.action {
        Action::Show { name, form } => show(name.as_deref(), &form),
        Action::Import { table, output, json } => import(&table, output.as_deref(), json),
    }
}

/// Returns the part of the help that lists the columns of a table.
fn columns() -> String {
    let mut text =
        "Example:\n  bimetal catalog import drives.csv -o drives.toml\n\nColumns of each table:\n".to_owned();
    for (name, doc) in
        NEEDED.into_iter().zip(["Name by which the drive is sold.", "ssd or hdd.", "A size like 1.92TB."])
    {
        let _ = writeln!(text, "  {name:26} {doc}");
    }
    text.push_str("\nFurther columns, all optional; an empty cell means that the value is not known:\n");
    let docs = [
        "Name for commands; made of the model without it.",
        "A note for readers.",
        "Sources of the figures, separated by ';'. Without sources all figures are unverified.",
        "Columns without a source, separated by ';'; for the size of the line.",
        "Price in US dollars.",
        "Price in euros, in place of the price in US dollars.",
        "Date of the price: 2026-11-22, 2026-11 or 2026.",
        "retail, contract or list.",
        "new or recertified.",
        "Sources of the price, separated by ';'. Without them the price is unverified.",
    ];
    for (name, doc) in OTHERS.into_iter().zip(docs) {
        let _ = writeln!(text, "  {name:26} {doc}");
    }
    for Key { name, doc, .. } in DRIVE_KEYS {
        let _ = writeln!(text, "  {name:26} {doc}");
    }
    text.push_str("\nAn SSD has tbw_tb or dwpd, a hard disk recording. logical_sector_bytes may be 512;4096.");
    text
}

/// Result of an import.
#[derive(Serialize)]
struct Imported {
    /// Path of the file of drives.
    file: String,
    /// Names of the drives in the file, for commands.
    drives: Vec<String>,
}

fn import(table: &Path, output: Option<&Path>, json: bool) -> Result<(), Error> {
    let name = table.display().to_string();
    let read = if name == "-" { std::io::read_to_string(std::io::stdin()) } else { fs::read_to_string(table) };
    let text = read.map_err(|error| {
        Error::new(format!("{name}: {error}: expected a CSV file; `bimetal catalog import --help` lists its columns"))
    })?;
    let drives = from_csv(&text, &name)?;
    let toml = toml::to_string(&drives)?;
    let Some(output) = output else { return print(&toml) };
    let mut file = OutputFile::create(output)?;
    file.write_all(toml.as_bytes())?;
    file.finish()?;
    let (file, drives) = (output.display().to_string(), drives.drives.into_iter().map(|drive| drive.name).collect());
    if json { print_json("catalog-import", &Imported { file, drives }) } else { Ok(()) }
}

fn json(entries: &[Entry<'_>], today: i64) -> Result<String, Error> {
    json_list("catalog", &entries.iter().map(|entry| to_json(entry, today)).collect::<Vec<_>>())
}

/// Returns the document that `show --json` prints.
///
/// # Errors
/// No drive and no class has the name.
pub(crate) fn shown(arguments: &Arguments) -> Result<String, Error> {
    match &arguments.action {
        Action::Show { name, .. } => json(&chosen(Entry::all(files()), name.as_deref())?, today()),
        Action::Import { .. } => Err(Error::new("catalog import has no JSON document: expected catalog show")),
    }
}

fn show(name: Option<&str>, form: &TableForm) -> Result<(), Error> {
    let entries = chosen(Entry::all(files()), name)?;
    if let Some(missing) = name.and_then(|name| missing_size(&entries, name)) {
        note(missing);
    }
    let today = today();
    if form.json {
        return print(&json(&entries, today)?);
    }
    if let Some(table) = form.of(|| sheet(&entries, today)) {
        return print(&table);
    }
    let mut text = table(&entries, today);
    if let [entry] = entries.as_slice() {
        text += &in_full(entry, today);
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_each_column_of_a_table() {
        let help = columns();
        for column in NEEDED.into_iter().chain(OTHERS).chain(DRIVE_KEYS.iter().map(|key| key.name)) {
            assert!(help.contains(&format!("  {column} ")), "{column}");
        }
    }
}
