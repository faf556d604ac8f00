//! `bimetal resize`: sets new sizes for the drives of a drained volume.

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_live::control::client::Client;
use bimetal_live::control::socket_of;
use bimetal_live::member::find::find_grown;
use bimetal_live::member::resize::{Resized, resize};
use clap::Args;

use crate::error::Error;
use crate::output::print;
use crate::volume::size;

/// Have a drained volume use its drives up to their present sizes
///
/// For drives that have grown (a partition, a logical volume, a file made larger), of which the
/// volume uses as much as before until then; and for a cache, log or home that is to be smaller. A
/// home becomes smaller where its file system ends before; shrink that first. The cache begins
/// empty. It can be interrupted at any moment and typed again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal drain mail --detach && lvextend -L +100G /dev/vg/cache && bimetal resize mail\n  \
    bimetal resize mail --ssd-size 64GiB         use no more of it; then the partition may be cut to that")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Size of the SSD's part that is used [default: all]
    #[arg(long, value_name = "SIZE")]
    ssd_size: Option<Bytes>,
    /// Size of the HDD's part that is used [default: all]
    #[arg(long, value_name = "SIZE")]
    hdd_size: Option<Bytes>,
    /// Size of the part of the log's drive that is used [default: all]
    #[arg(long, value_name = "SIZE")]
    log_size: Option<Bytes>,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let located = find_grown(&arguments.volume)?;
    let name = &located.assembly.label.name;
    if Client::connect(&socket_of(name))?.is_some() {
        return Err(Error::new(format!("volume '{name}' is being served: run `bimetal drain {name} --detach` first")));
    }
    let wanted = [(Role::Ssd, arguments.ssd_size), (Role::Hdd, arguments.hdd_size), (Role::Log, arguments.log_size)];
    let wanted: Vec<(Role, Bytes)> = wanted.into_iter().filter_map(|(role, size)| Some((role, size?))).collect();
    print(&told(&resize(&located, &wanted)?))
}

fn told(Resized { name, exported: [before, now], members }: &Resized) -> String {
    let mut text = if before == now {
        format!("{name} exports {} as before\n", size(*now))
    } else {
        format!("{name} exports {} now, instead of {}\n", size(*now), size(*before))
    };
    for (member, before, now) in members {
        let from = if before == now { String::new() } else { format!(", instead of {}", size(*before)) };
        text.push_str(&format!("  {member:<4} {} in use{from}\n", size(*now)));
    }
    if now > before {
        text.push_str("A file system on it grows by its own command: resize2fs, xfs_growfs\n");
    }
    text
}
