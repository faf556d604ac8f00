//! Status of a volume that is not served, from its labels and from the state on its home members.

use std::collections::BTreeMap;
use std::fs::File;

use bimetal_core::journal::state::{State, StateCopies};
use bimetal_core::label::assembly::Seat;
use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::label::report::Report;
use bimetal_core::label::{Guard, Label, MemberLabel};
use bimetal_core::layout::{MemberId, Role};
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::Bytes;
use bimetal_core::volume::Recovery;

use super::about::{About, AboutMember, RATED_WRITES};
use super::report::{self as control_report, Lost, Places};
use super::status::{Member, Status, Wear};
use crate::drive::file::DriveFile;
use crate::drive::read_only::ReadOnly;
use crate::drive::{self, Drive, Engine};
use crate::member::create::seconds_since_1970;
use crate::member::find::{Labelled, Located};
use crate::member::held::{Held, HoldError, foreign_sector};
use crate::member::plan::Plan;
use crate::member::rescue::suspects;
use crate::member::{labels, lock, report, state};
use crate::startup;

impl About {
    /// Returns the description of a volume in its labels; `None` if its scheme is unknown.
    pub fn of(label: &Label, located: &Located) -> Option<Self> {
        let scheme = schemes::find(&label.scheme)?;
        let mut settings: BTreeMap<String, String> = label.settings.iter().cloned().collect();
        for parameter in scheme.parameters {
            settings.entry(parameter.name.to_owned()).or_insert_with(|| parameter.default.to_owned());
        }
        let members = label.members.iter().zip(located.members()).enumerate();
        let members = members.map(|(at, (member, drive))| AboutMember {
            id: label.member_name(MemberId(at as u16)),
            path: drive.map(|drive| drive.found.path.clone()),
            bytes: member.size.bytes(),
            profile: member.emulates.clone(),
            rated_write_bytes: rating(label, member.role),
            before: drive.and_then(|drive| lifetime(label, member, drive)).unwrap_or_default(),
        });
        let members = members.collect();
        Some(Self { name: label.name.clone(), uuid: Some(label.volume.to_string()), scheme, settings, members })
    }
}

/// Returns the totals of a drive as a member, from its label.
fn lifetime(label: &Label, member: &MemberLabel, drive: &Labelled) -> Option<Lifetime> {
    let file = File::open(&drive.probe.canonical).ok()?;
    labels::read_lifetime(&file, member.size, &drive.probe.path, label.volume.identity()).ok()
}

/// Returns the rating of the drives with a role, as stated by their owner.
fn rating(label: &Label, role: Role) -> Option<Bytes> {
    label.drive_settings(role).find(|(key, _)| *key == RATED_WRITES).and_then(|(_, rated)| rated.parse().ok())
}

/// Returns the status of a volume without a server that answers.
pub fn status(located: &Located) -> Status {
    let label = &located.assembly.label;
    let kept = newest_state(located);
    let given_up = given_up_in(label, kept.as_ref());
    let members: Vec<Member> =
        (0..label.members.len()).map(|at| member(located, at, given_up >> at & 1 != 0)).collect();
    let report = report::of(located);
    let process = lock::owner(&label.name);
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
    let off_home = match kept.as_ref().filter(|_| process.is_none() && used.is_none()) {
        Some(state) if state.dirty => dirty_bytes(located),
        state => state.map(|_| Ok(0)),
    };
    let mut status = Status {
        name: label.name.clone(),
        uuid: Some(label.volume.to_string()),
        state: state.to_owned(),
        meaning: if let Some(used) = used.filter(|_| process.is_none()) {
            format!("a drive is in use: {}; another user, or $XDG_RUNTIME_DIR, may have its server", used.describe())
        } else if located.assembly.resizing && process.is_none() {
            "a change of sizes was cut short: finish it with `bimetal resize`".to_owned()
        } else {
            let calm = meaning(process, whole, kept.as_ref());
            let is_calm = process.is_none() && kept.as_ref().is_some_and(|state| !state.dirty);
            let found = overwritten(located).filter(|_| process.is_none());
            let refused = off_home.as_ref().and_then(|found| found.as_ref().err()).filter(|_| whole);
            let found = found.or_else(|| refused.map(|error| format!("it cannot be served as it is: {error}")));
            found.unwrap_or_else(|| meaning_with(calm, is_calm, &report, &label.name))
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
    let layout = plan(label).and_then(|plan| plan.lay_out().ok());
    layout.map_or_else(|| vec![0], |layout| layout.units.iter().map(|unit| unit.first.0).collect())
}

/// Returns the name of a member for users. A report may refer to a member that the label lacks.
fn name_of(label: &Label, member: MemberId) -> String {
    let known = usize::from(member.0) < label.members.len();
    if known { label.member_name(member) } else { format!("member {}", member.0) }
}

/// Returns the meaning, with the sentences of a report before it. A calm meaning (everything is at
/// home) is left out for a volume with losses.
fn meaning_with(meaning: &str, is_calm: bool, report: &Report, name: &str) -> String {
    let mut troubles = control_report::meaning(report, 0, name, false);
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
    let mut report = held.report().clone();
    let Some(cleared) = report.acknowledge(seconds_since_1970(), by) else {
        return Ok(control_report::NOTHING_TO_ACKNOWLEDGE.to_owned());
    };
    held.keep_report(&report)?;
    Ok(control_report::acknowledged(&cleared))
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
                "another program has written over the label of {member} ({}), and its second copy is left: `bimetal rescue {name}` says \
                 what else is lost and writes it again",
                path?
            )),
            (Seat::Taken(_), Some(drive)) => {
                let sector = foreign_sector(&own, &File::open(&drive.probe.canonical).ok()?)?;
                Some(format!(
                    "another program has written to {member} ({}) while the volume was attached, first in sector {sector}: `bimetal \
                     rescue {name}` says what is lost and puts the volume's own back",
                    path?
                ))
            }
            (Seat::Empty, _) if label.was_there(id) => {
                let (path, foreign) = suspects(located, own.own().size).into_iter().next()?;
                let carries = if foreign.is_empty() { String::new() } else { format!(" and carries {}", foreign.join(", ")) };
                Some(format!(
                    "{member} is missing, and {} has its size, no label{carries}: if another program has written over it, `bimetal rescue \
                     {name}` brings back what is left",
                    path.display()
                ))
            }
            _ => None,
        }
    })
}

fn meaning(process: Option<u32>, whole: bool, state: Option<&State>) -> &'static str {
    let refusing = state.is_some_and(|state| state.refusing.is_some() && state.dirty);
    match (process, state.map(|state| state.dirty), whole) {
        (None, _, true) if refusing => {
            "a drive refuses writes, and some content may be only there: every drive is needed; `bimetal serve` goes on \
             reading it out"
        }
        (Some(_), ..) => "a program has it that does not answer on the control socket",
        (None, Some(true), true) => {
            "some content may be off home only: every drive is needed; drain before you take one out"
        }
        (None, Some(true), false) => "some content may be only on a drive that is not there: bring it back",
        (None, Some(false), true) => "everything is at home",
        (None, Some(false), false) => {
            "everything is at home, on the drives that are there: `bimetal serve --degraded` serves it"
        }
        (None, None, _) => {
            "whether everything is at home is not known: no drive that is home of it has a state that can be read and is \
             surely the newest; `bimetal rescue` writes it again"
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

/// Returns members that failed or were detached and whose content is not needed, a bit each. These
/// are caches and logs only, while home has everything. A mirrored drive that failed counts as
/// missing.
pub(crate) fn given_up(located: &Located) -> u64 {
    given_up_in(&located.assembly.label, newest_state(located).as_ref())
}

fn given_up_in(label: &Label, kept: Option<&State>) -> u64 {
    let slots = plan(label).and_then(|plan| slots_member(&plan)).map_or(0, |member| 1 << member.0);
    kept.filter(|state| !state.dirty).map_or(0, |state| state.failed & slots)
}

fn plan(label: &Label) -> Option<Plan<'_>> {
    Plan::of(label, schemes::find(&label.scheme)?).ok()
}

fn slots_member(plan: &Plan<'_>) -> Option<MemberId> {
    plan.lay_out().ok()?.slots.map(|slots| slots.member)
}

/// Returns true if content may be off home only, by the state on the home members; `None` if they
/// cannot be read.
pub(crate) fn is_dirty(located: &Located) -> Option<bool> {
    Some(newest_state(located)?.dirty)
}

/// Returns the number of bytes that are off home only, by a recovery that changes nothing, or the
/// reason for which the recovery fails. Returns `None` if the volume keeps nothing off home.
fn dirty_bytes(located: &Located) -> Option<Result<u64, String>> {
    let plan = plan(&located.assembly.label)?;
    slots_member(&plan)?;
    let found = look_off_home(located);
    // A server may have started meanwhile.
    lock::owner(&located.assembly.label.name).is_none().then_some(found)
}

/// Returns the number of bytes that are off home only, or the reason for which the recovery fails.
pub(crate) fn look_off_home(located: &Located) -> Result<u64, String> {
    let unknown = || format!("the scheme '{}' is not known", located.assembly.label.scheme);
    let plan = plan(&located.assembly.label).ok_or_else(unknown)?;
    let open = |drive: Option<&Labelled>| -> Result<Box<dyn Drive>, String> {
        let drive = drive.ok_or("a drive is missing")?;
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", drive.probe.path.display());
        let file = DriveFile::open(&drive.probe.canonical).map_err(|error| told(&error))?;
        Ok(Box::new(ReadOnly::new(drive::attach(file, Engine::Pool).map_err(|error| told(&error))?)))
    };
    let mut drives: Vec<_> = located.members().map(open).collect::<Result<_, _>>()?;
    let recovery = Recovery::new(&plan.config(), &[]).map_err(|error| error.to_string())?;
    let volume = startup::recover(recovery, &mut drives, |_, _| {}).map_err(|error| error.to_string())?;
    let view = volume.view();
    Ok(u64::from(view.map.dirty_blocks()) * view.block().bytes().0)
}

/// Returns the newest state on the home members that are present. Returns `None` if a newer state
/// may be lost.
pub(crate) fn newest_state(located: &Located) -> Option<State> {
    let label = &located.assembly.label;
    let scheme = schemes::find(&label.scheme)?;
    let is_home = |at: usize| {
        let kept = scheme.members.iter().find(|&&(role, _)| role == label.members[at].role);
        kept.is_some_and(|&(_, holds)| matches!(holds, Holds::Home | Holds::Copy | Holds::Ranges))
    };
    let layout = plan(label)?.lay_out().ok()?;
    let homes = located.members().enumerate().filter(|&(at, _)| is_home(at));
    let copies = homes.filter_map(|(at, drive)| {
        let drive = File::open(&drive?.probe.canonical).ok()?;
        Some(state::read(&drive, label, &layout, MemberId(at as u16)))
    });
    let copies: Vec<StateCopies> = copies.collect();
    let newest = copies.iter().filter_map(|copies| copies.newest().0).max_by_key(|state| state.sequence)?;
    // As in a recovery, another member of a mirror may have the newer state.
    let may_be_newer = |copies: &StateCopies| copies.newest().1.is_some_and(|most| most > newest.sequence);
    (layout.is_mirrored() || !copies.iter().any(may_be_newer)).then_some(newest)
}
