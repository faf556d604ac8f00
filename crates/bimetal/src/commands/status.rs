//! `bimetal status`: what the labels of a volume say.

use std::fmt::Write as _;

use bimetal_core::label::assembly::Seat;
use bimetal_core::label::{Guard, MemberLabel};
use bimetal_core::layout::MemberId;
use bimetal_live::member::find::{Located, find};
use bimetal_live::member::lock;
use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::options::JsonOption;
use crate::output::{print, print_json};
use crate::volume::{ago, size};

/// Show a volume: its scheme, its drives and where they are, and who is missing
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    bimetal status mail\n  \
    bimetal status /dev/sdb1")]
pub(crate) struct Arguments {
    /// The volume's name, or the path of any of its drives
    volume: String,
    #[command(flatten)]
    json: JsonOption,
}

/// A volume in JSON.
#[derive(Serialize)]
struct Status {
    name: String,
    uuid: String,
    state: &'static str,
    scheme: String,
    settings: Vec<(String, String)>,
    block_bytes: u64,
    created_by: String,
    members: Vec<Member>,
    /// The process that serves it.
    process: Option<u32>,
}

/// A member in JSON.
#[derive(Serialize)]
struct Member {
    id: String,
    uuid: String,
    role: &'static str,
    size_bytes: u64,
    emulates: Option<String>,
    /// `present`, `missing`, or `behind`: there, but the volume went on without it.
    state: &'static str,
    path: Option<String>,
    last_seen_s: u64,
}

impl Status {
    fn of(located: &Located) -> Self {
        let label = &located.assembly.label;
        let members = label.members.iter().zip(&located.assembly.seats).enumerate();
        let members: Vec<Member> = members
            .map(|(at, (member, seat))| Member::of(located, label.member_name(MemberId(at as u16)), member, *seat))
            .collect();
        let process = lock::owner(&label.name);
        let whole = members.iter().all(|member| member.state == "present");
        let state = match (process, whole, label.guard) {
            (Some(_), ..) => "in use",
            (None, false, _) => "incomplete",
            (None, true, Some((_, Guard::Up))) => "stopped, attached",
            (None, true, _) => "stopped",
        };
        Self {
            name: label.name.clone(),
            uuid: label.volume.to_string(),
            state,
            scheme: label.scheme.clone(),
            settings: label.settings.clone(),
            block_bytes: label.block.bytes().0,
            created_by: label.created_by.clone(),
            members,
            process,
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("{}: {}, {}\n", self.name, self.scheme, self.state);
        // Writing to a string cannot fail.
        if let Some(process) = self.process {
            let _ = writeln!(text, "  process {process} has it");
        }
        for member in &self.members {
            let where_ = match (&member.path, member.state) {
                (Some(path), "present") => path.clone(),
                (Some(path), _) => format!("{path}, which is behind: the volume went on without it"),
                (None, _) => format!("missing, last seen {}", ago(member.last_seen_s)),
            };
            let bytes = size(bimetal_core::units::Bytes(member.size_bytes));
            let _ = writeln!(text, "  {:<4} {bytes:<8} {where_}", member.id);
        }
        for (key, value) in &self.settings {
            let _ = writeln!(text, "  {key}={value}");
        }
        text
    }
}

impl Member {
    fn of(located: &Located, id: String, member: &MemberLabel, seat: Seat) -> Self {
        let (state, path) = match seat {
            Seat::Taken(at) => ("present", located.drives.get(at)),
            Seat::Behind(at) => ("behind", located.drives.get(at)),
            Seat::Empty => ("missing", None),
        };
        Self {
            id,
            uuid: member.uuid.to_string(),
            role: member.role.name(),
            size_bytes: member.size.bytes().0,
            emulates: member.emulates.clone(),
            state,
            path: path.map(|drive| drive.found.path.clone()),
            last_seen_s: member.last_seen,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let status = Status::of(&find(&arguments.volume)?);
    if arguments.json.json { print_json(&status) } else { print(&status.describe()) }
}
