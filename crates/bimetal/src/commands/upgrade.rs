//! `bimetal upgrade`: brings a volume of an older on-disk format to the newest format.

use bimetal_core::label::Format;
use bimetal_live::control::client::Client;
use bimetal_live::control::socket_of;
use bimetal_live::member::find::find;
use bimetal_live::member::resize::upgrade;
use clap::Args;

use crate::error::Error;
use crate::output::print;
use crate::volume::size;

/// Make a drained volume one of the newest on-disk format
///
/// A volume of format 1 has each piece of its metadata once; one of format 2 has it twice. The
/// volume must be drained, by the bimetal that served it last. It exports what it exported before,
/// and the cache begins empty. The command can be interrupted at any moment and typed again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    bimetal drain mail --detach      with the bimetal that served it last\n  \
    bimetal upgrade mail")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let located = find(&arguments.volume)?;
    let label = &located.assembly.label;
    let (name, newest) = (&label.name, Format::NEWEST.number());
    if label.format == Format::NEWEST && !located.assembly.resizing {
        return print(&format!("{name} is of on-disk format {newest} already\n"));
    }
    if Client::connect(&socket_of(name))?.is_some() {
        return Err(Error::new(format!("volume '{name}' is being served: run `bimetal drain {name} --detach` first")));
    }
    let exported = upgrade(&located)?.exported[1];
    print(&format!("{name} is of on-disk format {newest} now, and exports {} as before\n", size(exported)))
}
