//! `bimetal set`: changes a parameter of a volume, with or without a running server.

use bimetal_live::control::about::About;
use bimetal_live::control::message::{Reply, Request};
use bimetal_live::control::offline;
use bimetal_live::member::find::Located;
use bimetal_live::member::held::Held;
use bimetal_live::member::settings::{keep, needs_clean};
use clap::Args;

use crate::error::Error;
use crate::output::print;
use crate::target::{Target, ask};
use crate::volume::setting;

/// Change a parameter of a volume
///
/// Triggers, thresholds and move_rate change at once while the volume is being served. Others
/// change on a drained volume that nobody serves: `bimetal drain VOLUME --detach`, then this.
/// `bimetal schemes NAME` lists them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal set mail timeout=5min\n  \
    bimetal set mail move_rate=50MiB          moves home write no more than that in a second\n  \
    bimetal set mail ssd.rated_writes=150TB   what its maker rates the SSD for: status tells its end of life")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// The parameter and its value
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    setting: (String, String),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let (key, value) = arguments.setting;
    match Target::find(&arguments.volume)? {
        Target::Served(mut client) => match ask(&mut client, &Request::Set { key, value })? {
            Reply::Done(done) => print(&format!("{}\n", done.message)),
            other => Err(Error::new(format!("the server answered something else: {other:?}"))),
        },
        Target::Stopped(located) => set_stopped(&located, &key, &value),
    }
}

fn set_stopped(located: &Located, key: &str, value: &str) -> Result<(), Error> {
    let label = &located.assembly.label;
    let own = format!("{}.", label.scheme);
    let key = key.strip_prefix(&own).unwrap_or(key);
    let mut about = About::of(label, located)
        .ok_or_else(|| Error::new(format!("the scheme '{}' is not known to this version of bimetal", label.scheme)))?;
    let rating = about.take_rating(key, value).map_err(Error::new)?;
    if !rating && key.contains('.') {
        return Err(Error::new(format!("{key} is a setting of an emulated drive: give it at `bimetal create`")));
    }
    let clean = offline::status(located).dirty_bytes == Some(0);
    if !rating && needs_clean(label, key, value)? && !clean {
        let name = &label.name;
        return Err(Error::new(format!(
            "{key} can only change while everything is at home: run `bimetal drain {name}` first"
        )));
    }
    let absent = located.assembly.absent(&located.found());
    if let Some(first) = absent.first() {
        return Err(Error::new(format!(
            "{} is missing, and its label could not be changed: bring it back",
            first.member
        )));
    }
    keep(&mut Held::take(located)?, key, value)?;
    print(&format!("{key}={value} from the next start on\n"))
}
