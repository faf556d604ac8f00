//! `bimetal drain`: everything goes home.

use bimetal_live::control::message::{Reply, Request};
use clap::Args;

use crate::error::Error;
use crate::output::print;
use crate::target::{Target, ask};

/// Move everything home, so that the drives off home hold nothing that home does not have
///
/// Goes on while the volume is being served and used; writes go home meanwhile, so it comes to an end. Interrupted, it is
/// simply run again. What cannot be moved stays where it is, readable, and is reported.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal drain mail\n  \
    bimetal drain mail --detach      then stop serving: the home drive is a plain disk")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Stop serving when everything is home
    #[arg(long)]
    detach: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut client = Target::find(&arguments.volume)?.served("nobody drains it")?;
    match ask(&mut client, &Request::Drain { detach: arguments.detach })? {
        Reply::Done(done) => print(&format!("{}\n", done.message)),
        other => Err(Error::new(format!("the server answered something else: {other:?}"))),
    }
}
