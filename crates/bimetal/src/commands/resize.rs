//! `bimetal resize`: sets new sizes for the drives of a drained volume.

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_serve::control::client::Client;
use bimetal_serve::control::socket_of;
use bimetal_volumes::find::find_grown;
use bimetal_volumes::resize::{Resized, resize};
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::JsonOption;
use crate::options::parse::drive_size;
use crate::output::{print, print_json};
use crate::volume::size;

/// Adapt a drained volume to the present sizes of its drives
///
/// Makes the volume use all of drives that have grown (a partition, a logical volume, a file), or
/// less of a cache, log or home. A home can become smaller only if its file system ends before the
/// new end, so shrink the file system first. The cache begins empty. After an interruption, run the
/// command again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal drain mail --detach && lvextend -L +100G /dev/vg/cache && bimetal resize mail\n  \
    bimetal resize mail --ssd-size 64GiB         use 64 GiB of the SSD; its partition can then shrink")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    /// Bytes of the SSD that the volume uses, like 64GiB [default: all]
    #[arg(long, value_name = "SIZE", value_parser = drive_size)]
    ssd_size: Option<Bytes>,
    /// Bytes of the HDD that the volume uses, like 1TiB [default: all]
    #[arg(long, value_name = "SIZE", value_parser = drive_size)]
    hdd_size: Option<Bytes>,
    /// Bytes of the log's drive that the volume uses, like 64GiB [default: all]
    #[arg(long, value_name = "SIZE", value_parser = drive_size)]
    log_size: Option<Bytes>,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let located = find_grown(&arguments.volume)?;
    let name = &located.assembly.label.name;
    if Client::connect(&socket_of(name))?.is_some() {
        return Err(Error::new(format!("volume '{name}' is being served: run `bimetal drain {name} --detach` first")));
    }
    let wanted = [(Role::Ssd, arguments.ssd_size), (Role::Hdd, arguments.hdd_size), (Role::Log, arguments.log_size)];
    let wanted: Vec<(Role, Bytes)> = wanted.into_iter().filter_map(|(role, size)| Some((role, size?))).collect();
    let resized = resize(&located, &wanted)?;
    if arguments.json.json { print_json("resize", &document(&resized)) } else { print(&told(&resized)) }
}

/// Sizes of a volume before and after, in bytes.
#[derive(Serialize)]
struct Document<'a> {
    volume: &'a str,
    exported_bytes_before: u64,
    exported_bytes: u64,
    members: Vec<MemberSizes<'a>>,
}

/// Bytes of a member that the volume uses.
#[derive(Serialize)]
struct MemberSizes<'a> {
    member: &'a str,
    used_bytes_before: u64,
    used_bytes: u64,
}

fn document(Resized { name, exported: [before, now], members }: &Resized) -> Document<'_> {
    Document {
        volume: name,
        exported_bytes_before: before.0,
        exported_bytes: now.0,
        members: members
            .iter()
            .map(|(member, before, now)| MemberSizes { member, used_bytes_before: before.0, used_bytes: now.0 })
            .collect(),
    }
}

fn told(Resized { name, exported: [before, now], members }: &Resized) -> String {
    let mut text = if before == now {
        format!("{name} still exports {}\n", size(*now))
    } else {
        format!("{name} now exports {}, before {}\n", size(*now), size(*before))
    };
    for (member, before, now) in members {
        let from = if before == now { String::new() } else { format!(", instead of {}", size(*before)) };
        text.push_str(&format!("  {member:<4} {} in use{from}\n", size(*now)));
    }
    if now > before {
        text.push_str("Grow the file system on it by its own command: resize2fs, xfs_growfs\n");
    }
    text
}
