//! `bimetal detach`: detaches a cache drive that is to be removed, while the volume is being
//! served.

use bimetal_serve::control::message::{Reply, Request};
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::target::{Target, ask};

/// Detach the drive off home (the cache or the log), so that home serves alone
///
/// All dirty blocks are written home first, as by `bimetal drain`. Afterwards the drive can be
/// taken out; `bimetal attach` puts a new drive in its place.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bimetal detach mail")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut client = Target::find(&arguments.volume)?.served("its drive off home cannot be detached")?;
    match ask(&mut client, &Request::Detach {})? {
        Reply::Done(done) => print_done("detach", &arguments.volume, &done.message, arguments.json.json),
        other => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
    }
}
