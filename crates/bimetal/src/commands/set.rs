//! `bimetal set`: changes a parameter of a volume, with or without a running server.

use bimetal_serve::control::message::{Reply, Request};
use bimetal_volumes::about::About;
use bimetal_volumes::attach::refuse_grown;
use bimetal_volumes::find::Located;
use bimetal_volumes::held::Held;
use bimetal_volumes::offline;
use bimetal_volumes::settings::{keep, needs_clean};
use clap::Args;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{note, print_done};
use crate::target::{Target, ask};
use crate::volume::setting;

/// Change a parameter of a volume
///
/// Triggers, thresholds and move_rate change at once while the volume is being served. Other
/// parameters can change only while the volume is drained and stopped: run `bimetal drain VOLUME
/// --detach` first. `bimetal schemes NAME` lists all parameters.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal set mail timeout=5min\n  \
    bimetal set mail move_rate=50MiB          write back at most 50 MiB a second\n  \
    bimetal set mail ssd.rated_writes=150TB   the maker's rating of the SSD, for its end of life in status\n  \
    bimetal set mail ssd.rated_writes=1dwpd/5y   the same, as drive writes a day")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// The parameter and its value, as KEY=VALUE
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    setting: (String, String),
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let (key, value) = arguments.setting;
    match Target::find(&arguments.volume)? {
        Target::Served(mut client) => match ask(&mut client, &Request::Set { key, value })? {
            Reply::Done(done) => print_done("set", &arguments.volume, &done.message, arguments.json.json),
            other => Err(Error::new(format!("unexpected answer of the server: {other:?}"))),
        },
        Target::Stopped(located) => {
            let message = set_stopped(&located, &key, &value)?;
            print_done("set", &arguments.volume, &message, arguments.json.json)
        }
    }
}

/// Changes the label of a volume that is not served, and returns the result as text.
fn set_stopped(located: &Located, key: &str, value: &str) -> Result<String, Error> {
    let label = &located.assembly.label;
    let mut about = About::of(label, located)
        .ok_or_else(|| Error::new(format!("the scheme '{}' is not known to this version of bimetal", label.scheme)))?;
    let key = about.own_name(key);
    let rating = about.take_rating(key, value).map_err(Error::new)?;
    let clean = offline::status(located).dirty_bytes == Some(0);
    if !rating && needs_clean(label, key, value)? && !clean {
        let name = &label.name;
        return Err(Error::new(format!(
            "{key} can change only while every block is home: run `bimetal drain {name}` first"
        )));
    }
    let absent = located.assembly.absent(&located.found());
    if let Some(first) = absent.first() {
        return Err(Error::new(format!("{} is missing, so its label cannot be changed: connect it", first.member)));
    }
    refuse_grown(located)?;
    let mut held = Held::take(located)?;
    if let Some(text) = held.copies_that_differed() {
        note(text);
    }
    keep(&mut held, key, value)?;
    Ok(format!("{key}={value} takes effect at the next start"))
}
