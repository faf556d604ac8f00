//! Status of a volume that is not served, from its labels and from the state on its home members.

use std::fs::File;

use bimetal_core::journal::state::State;
use bimetal_core::label::assembly::Seat;
use bimetal_core::label::report::Report;
use bimetal_core::label::{Guard, Label, MemberLabel};
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::units::Bytes;

use crate::about::{About, AboutMember};
use crate::examine::dirty_bytes;
use crate::find::Located;
use crate::held::{Held, HoldError, foreign_sector};
use crate::lost::{self, Lost, Places};
use crate::plan::Plan;
use crate::report;
use crate::rescue::suspects;
use crate::state::{given_up_in, newest_state};
use crate::status::{Member, Status, Wear};
use crate::system::seconds_since_1970;
use crate::volume_lock;

/// Returns the status of a volume without a server that answers.
pub fn status(located: &Located) -> Status {
    let label = &located.assembly.label;
    let kept = newest_state(located);
    let given_up = given_up_in(label, kept.as_ref());
    let members: Vec<Member> =
        (0..label.members.len()).map(|at| member(located, at, given_up >> at & 1 != 0)).collect();
    let report = report::of(located);
    let process = volume_lock::owner(&label.name);
    // A server may keep its sockets and its lock in another run-time directory.
    let used = located.members().flatten().flat_map(|drive| &drive.probe.uses).next();
    let whole = members.iter().all(|member| ["present", "let go"].contains(&member.state.as_str()));
    let state = match (process, whole, label.guard) {
        (Some(_), ..) => "in use",
        _ if used.is_some() => "in use",
        _ if located.assembly.resizing => "resizing",
        (None, false, _) => "incomplete",
        (None, true, Some((_, Guard::Up))) => "stopped, attached",
        (None, true, _) => "stopped",
    };
    // The state on home members may be outdated while the volume is in use.
    let has_places = Plan::of_label(label).is_some_and(|plan| plan.has_places());
    let has_map = |state: &State| state.dirty || has_places;
    let off_home = match kept.as_ref().filter(|_| process.is_none() && used.is_none()) {
        Some(state) if has_map(state) => dirty_bytes(located),
        state => state.map(|_| Ok(0)),
    };
    let mut status = Status {
        name: label.name.clone(),
        uuid: Some(label.volume.to_string()),
        state: state.to_owned(),
        meaning: if let Some(used) = used.filter(|_| process.is_none()) {
            format!(
                "a drive is in use: {}; another user may run its server, or a server with another $XDG_RUNTIME_DIR",
                used.describe()
            )
        } else if located.assembly.resizing && process.is_none() {
            "a change of sizes was interrupted: finish it with `bimetal resize`".to_owned()
        } else {
            let missing_home = missing_home(located).filter(|_| process.is_none());
            let calm = match &missing_home {
                Some(home) => format!(
                    "{home} is missing, and it is home of blocks that no other drive has: connect it; without it the \
                     volume cannot be served"
                ),
                None => meaning(process, whole, kept.as_ref()).to_owned(),
            };
            let is_calm =
                process.is_none() && missing_home.is_none() && kept.as_ref().is_some_and(|state| !state.dirty);
            let found = overwritten(located).filter(|_| process.is_none());
            let refused = off_home.as_ref().and_then(|found| found.as_ref().err()).filter(|_| whole);
            let found = found.or_else(|| refused.map(|error| format!("the volume cannot be served as it is: {error}")));
            found.unwrap_or_else(|| meaning_with(&calm, is_calm, &report, &label.name))
        },
        scheme: label.scheme.clone(),
        settings: About::of(label, located).map(|about| about.settings).unwrap_or_default(),
        block_bytes: label.block.bytes().0,
        created_by: Some(label.created_by.clone()),
        process,
        dirty_bytes: off_home.and_then(Result::ok),
        wear: About::of(label, located).map(|about| wear(label, &about)).unwrap_or_default(),
        members,
        ..Status::default()
    };
    let (name, units, block_bytes) = (|member| name_of(label, member), units(label), label.block.bytes().0);
    status.note_report(&report, 0, &Places { name: &name, units: &units, block_bytes });
    status
}

/// Returns lost and bad content of a volume that is not served.
pub fn lost(located: &Located) -> Lost {
    let label = &located.assembly.label;
    let (name, units, block_bytes) = (|member| name_of(label, member), units(label), label.block.bytes().0);
    Lost::of(&report::of(located), 0, &Places { name: &name, units: &units, block_bytes })
}

/// Returns the first block of each unit.
fn units(label: &Label) -> Vec<u64> {
    let layout = Plan::of_label(label).and_then(|plan| plan.lay_out().ok());
    layout.map_or_else(|| vec![0], |layout| layout.units.iter().map(|unit| unit.first.0).collect())
}

/// Returns the name of a member for users. A report may refer to a member that the label lacks.
fn name_of(label: &Label, member: MemberId) -> String {
    let known = usize::from(member.0) < label.members.len();
    if known { label.member_name(member) } else { format!("member {}", member.0) }
}

/// Returns the meaning, after the sentences of a report. A reassuring meaning (everything is at
/// home) is left out for a volume with losses.
fn meaning_with(meaning: &str, is_calm: bool, report: &Report, name: &str) -> String {
    let mut troubles = lost::meaning(report, 0, name, false);
    if troubles.is_empty() || !is_calm {
        troubles.push(meaning.to_owned());
    }
    troubles.join("; ")
}

/// Clears the report of a volume that is not served, on behalf of `by`. Returns the result as text.
///
/// # Errors
/// Fails if the volume is in use, or if no drive takes the report.
pub fn acknowledge(located: &Located, by: &str) -> Result<String, HoldError> {
    let mut held = Held::take(located)?;
    let differed = held.copies_that_differed().map_or_else(String::new, |text| format!("\n{text}"));
    let mut report = held.report().clone();
    let Some(cleared) = report.acknowledge(seconds_since_1970(), by) else {
        return Ok(format!("{}{differed}", lost::NOTHING_TO_ACKNOWLEDGE));
    };
    held.keep_report(&report)?;
    Ok(lost::acknowledged(&cleared) + &differed)
}

/// Returns the wear of the SSDs.
fn wear(label: &Label, about: &About) -> Vec<Wear> {
    // The totals of a missing drive are unknown.
    let is_known = |(member, about): &(&MemberLabel, &AboutMember)| member.role == Role::Ssd && about.path.is_some();
    let flash = label.members.iter().zip(&about.members).filter(is_known);
    flash.map(|(_, about)| Wear::of(about, Bytes::ZERO, 0.0)).collect()
}

/// Describes metadata that another program has overwritten, as far as labels and the guard's header
/// show.
fn overwritten(located: &Located) -> Option<String> {
    let label = &located.assembly.label;
    let name = &label.name;
    let seats = located.assembly.seats.iter().zip(located.members()).enumerate();
    seats.map(|(at, (seat, drive))| (MemberId(at as u16), seat, drive)).find_map(|(id, seat, drive)| {
        let (member, own) = (label.member_name(id), label.of(id));
        let path = drive.map(|drive| drive.probe.path.display());
        match (seat, drive) {
            (Seat::Taken(_), Some(drive)) if drive.by_second_copy => Some(format!(
                "another program has written over the label of {member} ({}), and the second copy is intact: `bimetal \
                 rescue {name}` reports the other damage and writes the label again",
                path?
            )),
            (Seat::Taken(_), Some(drive)) => {
                let sector = foreign_sector(&own, &File::open(&drive.probe.canonical).ok()?)?;
                Some(format!(
                    "another program has written to {member} ({}) while the volume was attached, first in sector \
                     {sector}: `bimetal rescue {name}` reports the loss and restores the volume's own content there",
                    path?
                ))
            }
            (Seat::Empty, _) if label.was_there(id) => {
                let (path, foreign) = suspects(located, own.own().size).into_iter().next()?;
                let carries =
                    if foreign.is_empty() { String::new() } else { format!(" and carries {}", foreign.join(", ")) };
                Some(format!(
                    "{member} is missing. {} has its size and no label{carries}: if this is the drive, and another \
                     program has written over it, `bimetal rescue {name}` restores the rest",
                    path.display()
                ))
            }
            _ => None,
        }
    })
}

/// Returns the name of a drive that is missing and is home of blocks without a copy.
fn missing_home(located: &Located) -> Option<String> {
    let label = &located.assembly.label;
    let layout = Plan::of_label(label)?.lay_out().ok()?;
    let seats = &located.assembly.seats;
    let is_missing = |home: &MemberId| !matches!(seats[usize::from(home.0)], Seat::Taken(_));
    let home = layout.homes().into_iter().filter(|_| !layout.is_mirrored()).find(is_missing)?;
    Some(label.member_name(home))
}

fn meaning(process: Option<u32>, whole: bool, state: Option<&State>) -> &'static str {
    let refusing = state.is_some_and(|state| state.refusing.is_some() && state.dirty);
    match (process, state.map(|state| state.dirty), whole) {
        (None, _, true) if refusing => {
            "a drive is read-only, and some content may be only on it: every drive is needed; `bimetal serve` goes on \
             writing that content home"
        }
        (Some(_), ..) => "the volume is used by a program that does not answer on the control socket",
        (None, Some(true), true) => {
            "some content may be only off home: every drive is needed; run `bimetal drain` before you take a drive out"
        }
        (None, Some(true), false) => "some content may be only on a missing drive: connect that drive",
        (None, Some(false), true) => "everything is at home",
        (None, Some(false), false) => {
            "everything is at home, on the connected drives: `bimetal serve --degraded` serves it"
        }
        (None, None, _) => {
            "unknown if everything is at home: no home drive has a readable state that is certainly the newest; \
             `bimetal rescue` writes a new state"
        }
    }
}

fn member(located: &Located, at: usize, given_up: bool) -> Member {
    let label = &located.assembly.label;
    let member = &label.members[at];
    let (state, drive) = match located.assembly.seats[at] {
        Seat::Taken(drive) if located.drives.get(drive).is_some_and(|drive| drive.by_second_copy) => {
            ("overwritten", located.drives.get(drive))
        }
        Seat::Taken(drive) => ("present", located.drives.get(drive)),
        Seat::Behind(drive) => ("behind", located.drives.get(drive)),
        Seat::Empty => ("missing", None),
    };
    let state = if given_up { "let go" } else { state };
    let role = About::of(label, located).map(|about| about.holds(member.role).to_owned());
    Member {
        id: label.member_name(MemberId(at as u16)),
        uuid: Some(member.uuid.to_string()),
        role: role.unwrap_or_else(|| member.role.name().to_owned()),
        path: drive.map(|drive| drive.found.path.clone()),
        profile: member.emulates.clone(),
        bytes: member.size.bytes().0,
        state: state.to_owned(),
        last_seen_s: Some(member.last_seen),
        ..Member::default()
    }
}
