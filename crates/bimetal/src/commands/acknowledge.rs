//! `bimetal acknowledge`: prints the list of lost or bad content and clears it.

use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::offline;
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::target::{Target, ask};

/// Clear the report of lost and bad content
///
/// Findings and accepted losses stay in the status of a volume until this command. Blocks that are
/// still lost stay listed, as acknowledged, until they are written or discarded. The history of the
/// volume gets a line; `bimetal status --json` shows it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bimetal acknowledge mail")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let by = user();
    let message = match Target::find(&arguments.volume)? {
        Target::Served(mut client) => match ask(&mut client, &Request::Acknowledge { by })? {
            Reply::Done(done) => done.message,
            other => return Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
        },
        Target::Stopped(located) => offline::acknowledge(&located, &by)?,
    };
    print_done("acknowledge", &arguments.volume, &message, arguments.json.json)
}

/// Returns the name of the user who typed the command, even if the command runs under `sudo`.
fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let named = named.filter(|name| !name.is_empty()).map(|name| name.chars().take(32).collect());
    named.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}
