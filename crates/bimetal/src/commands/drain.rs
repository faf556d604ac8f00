//! `bimetal drain`: writes everything back to home.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::attach::Options;
use bimetal_volumes::volume_lock::owner;
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::target::{Target, ask, serve_for, what_is_not_plain};

/// Write all dirty blocks home, so that home has everything
///
/// Works with and without a running server. While the volume is being served, new writes go home,
/// so the drain comes to an end. After an interruption, run the command again. Blocks that cannot
/// be written home stay readable where they are, and are reported; the exit status is 3 then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal drain mail\n  \
    bimetal drain mail --detach      then stop serving; the home drive is a plain disk again")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Stop serving when every block is home; refused while clients are connected
    #[arg(long)]
    detach: bool,
    /// Stop serving even while clients are connected, and disconnect them
    #[arg(long, requires = "detach")]
    force: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// Longest time for a server to release its drives.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the server of `volume` has released its drives: only then is the home drive a plain
/// disk.
fn await_end(volume: &str) -> Result<(), Error> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match Target::find(volume) {
            Ok(Target::Stopped(located)) if owner(&located.assembly.label.name).is_none() => {
                // These labels may be older than the server's last ones.
                let Ok(Target::Stopped(located)) = Target::find(volume) else { continue };
                return what_is_not_plain(&located.assembly.label).map_or(Ok(()), |left| Err(Error::new(left)));
            }
            _ => sleep(Duration::from_millis(50)),
        }
    }
    Err(Error::new(format!(
        "every block is home, but the server of '{volume}' still holds its drives after {} s: use them once it has \
         ended",
        PATIENCE.as_secs()
    )))
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let reply = match Target::find(&arguments.volume)? {
        Target::Served(mut client) => {
            let reply = ask(&mut client, &Request::Drain { detach: arguments.detach, force: arguments.force })?;
            drop(client);
            if arguments.detach {
                await_end(&arguments.volume)?;
            }
            reply
        }
        // The volume is not served afterwards, so it is left drained and detached.
        Target::Stopped(located) => {
            serve_for(&located, Options::default(), &Request::Drain { detach: true, force: false })?
        }
    };
    match reply {
        Reply::Done(done) => print_done("drain", &arguments.volume, &done.message, arguments.json.json),
        other => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
    }
}
