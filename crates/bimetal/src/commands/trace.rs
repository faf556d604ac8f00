//! `bimetal trace`: records the requests to a served volume as a trace.

use std::path::PathBuf;

use bimetal_serve::control::message::{Reply, Request};
use clap::{Args, Subcommand};

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::target::{Target, ask};

/// Record the requests that a volume serves, for `analyze`, `compare` and `plan`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal trace start mail mail.bin.zst\n  \
    bimetal trace stop mail\n  \
    bimetal analyze mail.bin.zst")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a recording of requests: arrival and response time of each
    Start {
        /// The volume's name, or the path of any of its drives
        volume: String,
        /// The trace to write; the file appears when the recording ends
        file: PathBuf,
        #[command(flatten)]
        json: JsonOption,
    },
    /// End the recording, and write the trace
    Stop {
        /// The volume's name, or the path of any of its drives
        volume: String,
        #[command(flatten)]
        json: JsonOption,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let (volume, request, json) = match arguments.action {
        Action::Start { volume, file, json } => {
            let path = std::path::absolute(&file)
                .map_err(|error| Error::new(format!("{}: cannot be found: {error}", file.display())))?;
            if path.extension().is_some_and(|ending| ending == "csv") {
                let message = "a recording has the format bin: expected a name that ends in .bin or .bin.zst; `bimetal convert` \
                     makes a csv of it";
                return Err(Error::new(format!("{}: {message}", file.display())));
            }
            (volume, Request::TraceStart { path }, json)
        }
        Action::Stop { volume, json } => (volume, Request::TraceStop {}, json),
    };
    let mut client = Target::find(&volume)?.served("there are no requests to record")?;
    match ask(&mut client, &request)? {
        Reply::Done(done) => print_done("trace", &volume, &done.message, json.json),
        other => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
    }
}
