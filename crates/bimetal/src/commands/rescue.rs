//! `bimetal rescue`: writes labels, states and headers again after another program has written over
//! them.

use std::fmt::Write as _;
use std::path::PathBuf;

use bimetal_core::units::Bytes;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::socket_of;
use bimetal_volumes::rescue::evidence::{Beginning, Filled};
use bimetal_volumes::rescue::{LabelLeft, MemberReport, Report, Request, rescue};
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{print, print_json};
use crate::volume::size;

/// Repair a volume after another program has written over one of its drives
///
/// Repairs a volume that was stopped without a drain, after mkfs, wipefs, sfdisk, mkswap or dd on
/// one of its drives.
///
/// Writes a lost label again from the labels of the other drives, and puts the header back over the
/// beginning of a home drive. A drive is used only if its content proves that the drive is the
/// member: a second copy of its label, the header, or pages of the volume's metadata. Reports what
/// was overwritten, as far as the drive shows it. Blocks off home have checksums, which prove them;
/// blocks at home have none, so losses there cannot be detected.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal rescue mail --dry-run                      report the damage, write nothing\n  \
    bimetal rescue mail && bimetal check mail --scrub  then check every block off home\n  \
    bimetal rescue mail --member hdd=/dev/sdb --force  use a drive without proof that it is the member")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives that still has a label
    volume: String,
    /// A member without a label and its drive, like hdd=/dev/sdb [default: a search for drives with
    /// proof]
    #[arg(long, value_name = "ID=PATH", value_parser = member)]
    member: Vec<(String, PathBuf)>,
    /// Write nothing; report what would be written
    #[arg(long)]
    dry_run: bool,
    /// Use a drive named with --member even if nothing on it proves that the drive is the member
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonOption,
}

fn member(text: &str) -> Result<(String, PathBuf), String> {
    let (id, path) = text.split_once('=').ok_or("expected ID=PATH, like hdd=/dev/sdb")?;
    Ok((id.trim().to_owned(), PathBuf::from(path)))
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    if let Ok(Some(_)) = Client::connect(&socket_of(&arguments.volume)) {
        let name = arguments.volume;
        return Err(Error::new(format!(
            "volume '{name}' is being served, so its labels are intact: stop the server first"
        )));
    }
    let request = Request { members: arguments.member, force: arguments.force, dry_run: arguments.dry_run };
    let report = rescue(&arguments.volume, &request)?;
    if arguments.json.json { print_json("rescue", &report) } else { print(&told(&report)) }
}

/// Writes a line of text. Writing to a string cannot fail, so the result is ignored.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => { writeln!($text, $($argument)*).unwrap_or_default() };
}

fn told(report: &Report) -> String {
    let name = &report.name;
    let damaged: Vec<&MemberReport> = report.members.iter().filter(|member| member.is_damaged()).collect();
    let mut text = match (damaged.is_empty(), report.dry_run) {
        (true, _) if report.trouble.is_some() => {
            format!("{name}: every label, header and state has an intact copy; the map of blocks cannot be read\n")
        }
        (true, _) => format!(
            "{name}: nothing to rescue: every label, header and state has an intact copy; the next start writes a \
             damaged copy again\n"
        ),
        (false, true) => format!("{name}: nothing was written (--dry-run)\n"),
        (false, false) => format!("{name}: rescued\n"),
    };
    for member in &report.members {
        tell_member(member, report.dry_run, &mut text);
    }
    tell_content(report, &damaged, &mut text);
    if !damaged.is_empty() {
        match report.dry_run {
            true => line!(text, "next     bimetal rescue {name}, with the same options, writes it"),
            false => line!(text, "next     bimetal check {name} --scrub, then bimetal serve {name}"),
        }
    }
    text
}

fn tell_member(member: &MemberReport, dry_run: bool, text: &mut String) {
    let path = member.path.as_deref().unwrap_or("no drive");
    let label = match member.label {
        LabelLeft::Whole => "its label has an intact copy",
        LabelLeft::SecondCopy => "its label was overwritten, and the second copy of the label is intact",
        LabelLeft::Nothing => "its label was overwritten in both places",
        LabelLeft::Missing => "missing: its label cannot be looked for",
        LabelLeft::NotNeeded => "not needed: the volume went on without this drive",
    };
    line!(text, "  {:<5}{path}: {label}", member.id);
    if !member.is_damaged() {
        return;
    }
    if member.label == LabelLeft::Nothing {
        match member.proofs.as_slice() {
            [] => line!(text, "       used because of --force: nothing proves that it is the drive"),
            proofs => {
                line!(text, "       it is or was the drive: {}", proofs.join("; "));
                line!(
                    text,
                    "       nothing proves that this is the newest state of the drive, no older copy and no drive that \
                     was replaced: only the lost label could prove it"
                );
            }
        }
    }
    if !member.foreign.is_empty() {
        let doubt = if member.is_home { "" } else { " (or blocks of the volume that look like one)" };
        line!(text, "       it carries {} now{doubt}", member.foreign.join(", "));
    }
    if let Some(sector) = member.foreign_sector {
        line!(
            text,
            "       its header was overwritten, first in sector {sector}; the foreign content there will be lost"
        );
    }
    if let Some(beginning) = member.beginning {
        let of = match beginning {
            Beginning::Kept => "the two copies of the volume's first MiB, at its end, agree",
            Beginning::Differs => {
                "the two copies of the volume's first MiB differ: the first copy is used, and part of it may be lost"
            }
            Beginning::Zeroes => "the two copies of the volume's first MiB are zeroes: overwritten, or never written",
        };
        line!(text, "       {of}");
    }
    if let Some(filled) = member.filled {
        line!(text, "       {}", left(filled));
    }
    tell_written(member, dry_run, text);
}

fn tell_written(member: &MemberReport, dry_run: bool, text: &mut String) {
    let mut parts = Vec::new();
    if member.label != LabelLeft::Whole {
        parts.push("its label, in both places");
    }
    if member.foreign_sector.is_some() {
        parts.push("the header over its first MiB");
    }
    if member.state_lost {
        parts.push("a state that counts every drive present as needed");
        line!(text, "       its state is lost: whether another drive was read-only is not known");
    }
    line!(text, "       {} {}", if dry_run { "would write" } else { "wrote" }, parts.join(", "));
}

fn left(filled: Filled) -> String {
    match filled {
        Filled::Holes { bytes, of } => {
            let (left, of) = (size(Bytes(bytes)), size(Bytes(of)));
            format!("{left} of its {of} have content; the rest are holes: discarded, or never written")
        }
        Filled::Samples { pages, of } => {
            format!("of {of} sampled places, {pages} have content; the others are zeroes: discarded, or never written")
        }
    }
}

/// Adds the sentences about content that checksums prove, and about content without checksums.
fn tell_content(report: &Report, damaged: &[&MemberReport], text: &mut String) {
    match (report.dirty_bytes, &report.trouble) {
        (Some(0), _) => line!(text, "off home no content that home should not have too"),
        (Some(bytes), _) => {
            line!(
                text,
                "off home {} newer than home; a checksum proves each block when it is read",
                size(Bytes(bytes))
            );
        }
        (None, Some(_)) if report.dry_run && damaged.iter().any(|member| member.state_lost) => {
            line!(text, "off home unknown until the state is written again");
        }
        (None, Some(trouble)) => line!(text, "refused  the volume cannot be served as it is: {trouble}"),
        (None, None) => {}
    }
    let homes = damaged.iter().filter(|member| member.is_home);
    for home in homes.filter(|home| home.label != LabelLeft::Whole || home.foreign_sector.is_some()) {
        let empty = home.filled.is_some_and(Filled::is_empty);
        let sentence = match empty {
            true => "is empty: content that only this drive had is lost",
            false => {
                "no checksum proves the other content there: check the file systems on the volume, and compare files \
                 with a backup"
            }
        };
        line!(text, "home     {}: {sentence}", home.id);
    }
}
