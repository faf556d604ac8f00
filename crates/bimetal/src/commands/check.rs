//! `bimetal check`: checks the metadata of a volume and its content off home.

use std::fmt::Write as _;

use bimetal_core::label::Guard;
use bimetal_live::attach::Options;
use bimetal_live::control::message::{CheckReport, Done, Reply, Request};
use bimetal_live::control::offline;
use bimetal_live::member::find::Located;
use clap::Args;

use super::status::describe_lost;
use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{print, print_json};
use crate::target::{Target, ask, serve_for};

/// Check a volume's map, and with --scrub everything off home against its checksums
///
/// Works while the volume is being served (reads yield to requests), and without a server. Bad
/// copies that home has too are given up; blocks of which there is no good copy are listed. What
/// was found earlier is listed, too, until `bimetal acknowledge`. Exit status 3 where anything is
/// listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal check mail\n  \
    bimetal check mail --scrub --json")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Read every block off home and hold it against its checksum
    #[arg(long)]
    scrub: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// Returns the answer for a drained volume whose home is a plain disk. Attaching such a volume
/// would take the disk away from its user, so the volume is not read.
fn nothing_to_check(located: &Located) -> Done {
    let message = "everything is at home, on a plain disk, and nothing is kept off it: there is nothing to check";
    let lost = offline::lost(located);
    Done { check: Some(CheckReport { lost, ..CheckReport::default() }), ..Done::new(message) }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let request = Request::Check { scrub: arguments.scrub };
    let reply = match Target::find(&arguments.volume)? {
        Target::Served(mut client) => ask(&mut client, &request)?,
        Target::Stopped(located) if matches!(located.assembly.label.guard, Some((_, Guard::Down))) => {
            Reply::Done(nothing_to_check(&located))
        }
        Target::Stopped(located) => serve_for(&located, Options::default(), &request)?,
    };
    let Reply::Done(done) = reply else {
        return Err(Error::new(format!("the server answered something else: {reply:?}")));
    };
    let report = done.check.unwrap_or_default();
    if arguments.json.json {
        print_json(&report)?;
    } else {
        let mut text = format!("{}\n", done.message);
        for fault in &report.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {fault}");
        }
        for bad in &report.bad {
            let outcome = match bad.outcome.as_str() {
                "rewritten" => "the other drive has it: written again from there",
                "one-copy-left" => "the other drive has it, and it cannot be written again here",
                "copies-differ" => "the drives have different content: write it again to make them equal",
                _ if bad.home_has_it => "home has it: repaired",
                _ => "no good copy: lost until it is written",
            };
            let _ = writeln!(text, "  unit {} byte {}: {} bytes, {outcome}", bad.unit, bad.offset_bytes, bad.bytes);
        }
        describe_lost(&report.lost, &mut text);
        print(&text)?;
    }
    let bad = report.bad_blocks > 0 || !report.metadata.is_empty() || !report.lost.is_empty();
    if bad { Err(Error::No) } else { Ok(()) }
}
