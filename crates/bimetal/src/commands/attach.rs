//! `bimetal attach`: puts a new drive in the place of a missing cache or log.

use std::path::PathBuf;

use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::attach::Options;
use bimetal_volumes::find::find;
use bimetal_volumes::replace::{examine, fit};
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::target::{Target, ask, serve_for};

/// Attach a new drive in the place of a drive off home (the cache or the log) that failed or was
/// detached
///
/// Works while the volume is being served, and without a server. The new drive begins empty. While
/// the volume is being served, the new drive may not be smaller than the old drive, and only the
/// old size is used. Without a server the new drive may have any size.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bimetal attach mail /dev/nvme1n1p1")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// The new drive: a block device or a file
    path: PathBuf,
    /// Erase what lies on the new drive; a drive that is in use is never erased
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let path = std::path::absolute(&arguments.path)
        .map_err(|error| Error::new(format!("{}: cannot be found: {error}", arguments.path.display())))?;
    let request = Request::Attach { path: path.clone(), force: arguments.force };
    let reply = match Target::find(&arguments.volume)? {
        Target::Served(mut client) => ask(&mut client, &request)?,
        Target::Stopped(mut located) => {
            examine(&located, &path, arguments.force)?;
            if fit(&located, &path)? {
                *located = find(&arguments.volume)?;
            }
            serve_for(&located, Options { degraded: true, ..Options::default() }, &request)?
        }
    };
    match reply {
        Reply::Done(done) => print_done("attach", &arguments.volume, &done.message, arguments.json.json),
        other => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
    }
}
