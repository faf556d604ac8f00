//! `bimetal upgrade`: brings a volume of an older on-disk format to the newest format.

use bimetal_core::label::Format;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::socket_of;
use bimetal_volumes::find::find;
use bimetal_volumes::resize::upgrade;
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::print_done;
use crate::volume::size;

/// Convert a drained volume to the newest on-disk format
///
/// Format 1 stores each page of metadata once, format 2 twice. The volume must have been drained by
/// the version of bimetal that served the volume last. The volume's exported size stays the same,
/// and its cache begins empty. After an interruption, run the command again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    bimetal drain mail --detach      with the version that served the volume last\n  \
    bimetal upgrade mail")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let located = find(&arguments.volume)?;
    let label = &located.assembly.label;
    let (name, newest) = (&label.name, Format::NEWEST.number());
    let done = |message: &str| print_done("upgrade", name, message, arguments.json.json);
    if label.format == Format::NEWEST && !located.assembly.resizing {
        return done(&format!("{name} has on-disk format {newest} already"));
    }
    if Client::connect(&socket_of(name))?.is_some() {
        return Err(Error::new(format!("volume '{name}' is being served: run `bimetal drain {name} --detach` first")));
    }
    let exported = upgrade(&located)?.exported[1];
    done(&format!("{name} has on-disk format {newest} now, and exports {} as before", size(exported)))
}
