//! `bimetal rescue`: writes labels, states and headers again after another program has written over
//! them.

use std::fmt::Write as _;
use std::path::PathBuf;

use bimetal_core::units::Bytes;
use bimetal_live::control::client::Client;
use bimetal_live::control::socket_of;
use bimetal_live::member::rescue::evidence::{Beginning, Filled};
use bimetal_live::member::rescue::{LabelLeft, MemberReport, Report, Request, rescue};
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{print, print_json};
use crate::volume::size;

/// Bring a volume back after another program has written over one of its drives
///
/// After mkfs, wipefs, sfdisk, mkswap or dd on a drive whose volume is stopped, and not drained.
///
/// Writes a lost label again from those of the other drives, and puts the header back in the place
/// of a home drive's beginning. A drive is taken only if something on it proves that it is the
/// member: a second copy of its label, the header, or pages of the volume's own metadata. Names
/// what was written over, as far as a look tells. Blocks that lie on the drive off home carry
/// checksums, which prove them; blocks at home carry none, so what was lost there nobody can tell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal rescue mail --dry-run                      what is lost, and what would be written\n  \
    bimetal rescue mail && bimetal check mail --scrub  then every block off home is read and proven\n  \
    bimetal rescue mail --member hdd=/dev/sdb --force  a drive on which nothing proves that it is the member")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives that still has a label
    volume: String,
    /// The drive that a member without a label is, like hdd=/dev/sdb; without it, drives are
    /// searched for what proves one
    #[arg(long, value_name = "ID=PATH", value_parser = member)]
    member: Vec<(String, PathBuf)>,
    /// Write nothing; say what would be written
    #[arg(long)]
    dry_run: bool,
    /// Take a drive that is named with --member though nothing on it proves that it is the member
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
            "volume '{name}' is being served, so its labels are whole: stop the server first"
        )));
    }
    let request = Request { members: arguments.member, force: arguments.force, dry_run: arguments.dry_run };
    let report = rescue(&arguments.volume, &request)?;
    if arguments.json.json { print_json(&report) } else { print(&told(&report)) }
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
            format!("{name}: every label, header and state is there; the map of what is off home is not whole\n")
        }
        (true, _) => format!("{name}: nothing to rescue: every label, header and state is there\n"),
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
        LabelLeft::Whole => "its label is there",
        LabelLeft::SecondCopy => "its label was written over, and the second copy is left",
        LabelLeft::Nothing => "nothing was left of its label",
        LabelLeft::Missing => "missing: its label cannot be looked for",
        LabelLeft::NotNeeded => "not needed: the volume went on without it",
    };
    line!(text, "  {:<5}{path}: {label}", member.id);
    if !member.is_damaged() {
        return;
    }
    if member.label == LabelLeft::Nothing {
        match member.proofs.as_slice() {
            [] => line!(text, "       taken because of --force: nothing proves that it is the drive"),
            proofs => {
                line!(text, "       it is the drive: {}", proofs.join("; "));
                line!(
                    text,
                    "       that it is no older copy of the drive nothing proves: the label would have said so"
                );
            }
        }
    }
    if !member.foreign.is_empty() {
        let doubt = if member.is_home { "" } else { " (or blocks of the volume that look so)" };
        line!(text, "       it carries {} now{doubt}", member.foreign.join(", "));
    }
    if let Some(sector) = member.foreign_sector {
        line!(text, "       its header was written over, first in sector {sector}; what is there now is given up");
    }
    if let Some(beginning) = member.beginning {
        let of = match beginning {
            Beginning::Kept => "the volume's first MiB is kept at its end, twice the same",
            Beginning::Differs => {
                "the two copies of the volume's first MiB differ: the first is taken, and part of it may be lost"
            }
            Beginning::Zeroes => "the two copies of the volume's first MiB are zeroes: written over, or never written",
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
        parts.push("a state that says that every drive is needed");
        line!(text, "       its state is gone: whether another drive had refused writes before is not known");
    }
    line!(text, "       {} {}", if dry_run { "would write" } else { "wrote" }, parts.join(", "));
}

fn left(filled: Filled) -> String {
    match filled {
        Filled::Holes { bytes, of } => {
            let (left, of) = (size(Bytes(bytes)), size(Bytes(of)));
            format!("{left} of its {of} hold anything; the rest are holes: discarded, or never written")
        }
        Filled::Samples { pages, of } => {
            format!(
                "of {of} places looked at {pages} hold anything; the others are zeroes: discarded, or never written"
            )
        }
    }
}

/// Adds the sentences about content that checksums prove, and about content that they do not.
fn tell_content(report: &Report, damaged: &[&MemberReport], text: &mut String) {
    match (report.dirty_bytes, &report.trouble) {
        (Some(0), _) => line!(text, "off home nothing that home should not have too"),
        (Some(bytes), _) => {
            line!(
                text,
                "off home {} newer than home, each block with a checksum that proves it when it is read",
                size(Bytes(bytes))
            );
        }
        (None, Some(_)) if report.dry_run && damaged.iter().any(|member| member.state_lost) => {
            line!(text, "off home not known before the state is written again");
        }
        (None, Some(trouble)) => line!(text, "off home not known: {trouble}"),
        (None, None) => {}
    }
    let homes = damaged.iter().filter(|member| member.is_home);
    for home in homes.filter(|home| home.label != LabelLeft::Whole || home.foreign_sector.is_some()) {
        let empty = home.filled.is_some_and(Filled::is_empty);
        let sentence = match empty {
            true => "is empty: what was only there is lost",
            false => {
                "no checksum proves what else lies there: check the file systems on the volume, and hold files against a backup"
            }
        };
        line!(text, "home     {}: {sentence}", home.id);
    }
}
