//! `bimetal check`: checks the metadata of a volume and its content off home.

use std::fmt::Write as _;

use bimetal_core::label::Guard;
use bimetal_core::units::counted;
use bimetal_serve::control::message::{CheckReport, Done, Reply, Request};
use bimetal_volumes::attach::Options;
use bimetal_volumes::find::Located;
use bimetal_volumes::offline;
use clap::Args;

use super::status::describe_lost;
use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{answer, print, print_json};
use crate::target::{Target, ask, serve_for};

/// Check the map of a volume, and with --scrub every block off home by its checksum
///
/// Works while the volume is being served (reads yield to requests), and without a server. A volume
/// that is not served is started for the check, and stopped after the check. The start writes
/// metadata and labels, and recovers the volume if it has crashed. Bad copies are dropped if home
/// has equal content; blocks without a good copy are listed. Earlier findings stay listed until
/// `bimetal acknowledge`. The exit status is 3 if anything is listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal check mail\n  \
    bimetal check mail --scrub --json")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Also read every block off home and compare it with its checksum
    #[arg(long)]
    scrub: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// Returns the answer for a drained volume whose home is a plain disk. Attaching such a volume
/// would take the disk away from its user, so the volume is not read.
fn nothing_to_check(located: &Located) -> Done {
    let message = "every block is at home, on a plain disk without checksums: there is nothing to check";
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
        return Err(Error::new(format!("unexpected answer of the server: {reply:?}")));
    };
    let report = done.check.unwrap_or_default();
    let printed = if arguments.json.json {
        print_json("check", &report)
    } else {
        let mut text = format!("{}\n", done.message);
        for fault in &report.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {fault}");
        }
        for bad in &report.bad {
            let outcome = match bad.outcome.as_str() {
                "rewritten" => "repaired from the good copy on the other drive",
                "one-copy-left" => "the other drive has the content, and this drive cannot be written again",
                "copies-differ" => "the copies on the drives differ, and which copy is right is unknown",
                _ if bad.home_has_it => "home has the same content: repaired",
                _ => "no good copy: the content is lost until it is written again",
            };
            let _ = writeln!(text, "  unit {} byte {}: {} bytes, {outcome}", bad.unit, bad.offset_bytes, bad.bytes);
        }
        describe_lost(&report.lost, &mut text);
        if report.lost.accepted_losses > 0 {
            let losses = counted(report.lost.accepted_losses, "accepted loss");
            let _ = writeln!(text, "  {losses}, not acknowledged (see `bimetal status`)");
        }
        print(&text)
    };
    let bad = report.bad_blocks > 0
        || (report.bad_metadata_pages > 0 && report.blocks_read.is_some())
        || report.interrupted
        || !report.metadata.is_empty()
        || !report.lost.is_empty();
    answer(printed, bad)
}
