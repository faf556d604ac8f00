//! Labels that another program wrote over, written again from those of the other members.
//!
//! 1. The volume is found by the labels that are left, second copies included.
//! 2. Each member without a label gets the drive that was named for it, or the one drive whose content proves that it is the
//!    member ([`evidence`]): pages of the engine that name the volume, or the header of the guard. Size proves nothing.
//! 3. What is left on each drive is looked at: whatever was written over is named, as far as a look tells.
//! 4. The label goes to the drive, the state of the engine where none is left, the header to where the guard has it; and
//!    every member is labelled twice, so that an older copy of the drive is refused from then on.
//!
//! Nothing is written before all of it is known to be possible, and nothing at all in a dry run. Content is never judged:
//! blocks off home carry checksums, blocks at home carry none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bimetal_core::journal::state::State;
use bimetal_core::journal::turns::{COPIES, TURNS};
use bimetal_core::label::assembly::{Found, Seat};
use bimetal_core::label::{Guard, Label, usable};
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::{SECTOR_BYTES, Sectors};
use bimetal_core::volume::VolumeError;
use serde::{Deserialize, Serialize};

use super::find::{FindError, Labelled, Located, find_among};
use super::held::{Held, HoldError, lock};
use super::labels::{self, LabelError};
use super::lock::{LockError, owner};
use super::plan::Plan;
use super::probe::{Probe, ProbeError, probe};
use super::signature::{self, Content};
use super::verdict::{Drive as Judged, Purpose, Refusal, judge};
use crate::control::offline::{given_up, look_off_home};

pub mod evidence;

use evidence::{Beginning, Evidence, Filled, look};

/// What is to be rescued, and how far to go.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Drives that were named for members (`hdd`, `ssd1`).
    pub members: Vec<(String, PathBuf)>,
    /// Whether a drive is taken that nothing proves to be the member.
    pub force: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// Why nothing is rescued. Nothing was written, except where a drive failed while it was.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// No label of the volume is left.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A change of sizes was cut short.
    #[error("volume '{0}' is being resized, and that was cut short: finish it with `bimetal resize {0}`")]
    Resizing(String),
    /// The scheme is not known.
    #[error(
        "volume '{name}' has the scheme '{scheme}', which this version of bimetal does not know: use the one that made it"
    )]
    Scheme {
        /// The volume.
        name: String,
        /// The scheme.
        scheme: String,
    },
    /// The settings are not possible.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The volume cannot be laid out.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// No member is called so.
    #[error("volume '{volume}' has no member '{member}': expected {known}")]
    NoSuchMember {
        /// The volume.
        volume: String,
        /// As it was named.
        member: String,
        /// Its members.
        known: String,
    },
    /// The member has its drive.
    #[error("--member {member}={}: {found} has the label of {member}: leave that option out, or take {found} away", path.display())]
    Taken {
        /// The member.
        member: String,
        /// The drive that was named.
        path: PathBuf,
        /// The drive that has the label.
        found: String,
    },
    /// The drive is one of something else.
    #[error("{}: is a drive of volume '{volume}': expected a drive that has lost its label", path.display())]
    OtherVolume {
        /// The drive.
        path: PathBuf,
        /// Its volume.
        volume: String,
    },
    /// The volume went on without the member.
    #[error(
        "volume '{volume}' went on without {member}: what that drive holds is old, so its label is not written again; \
         `bimetal attach {volume} {}` takes it as a new drive", path.display()
    )]
    WentOn {
        /// The volume.
        volume: String,
        /// The member.
        member: String,
        /// The drive.
        path: PathBuf,
    },
    /// The drive is too small.
    #[error("{}: has {is} bytes, and {member} had {was}: expected the drive that was {member}", path.display())]
    Size {
        /// The drive.
        path: PathBuf,
        /// The member.
        member: String,
        /// Its size.
        is: u64,
        /// The size of the member.
        was: u64,
    },
    /// No drive is known to be the member.
    #[error("{member} of volume '{volume}' is missing, and no drive that was looked at proves to be it{}", suspected(.volume, .member, .suspects))]
    NoDrive {
        /// The volume.
        volume: String,
        /// The member.
        member: String,
        /// Drives of its size, and what lies on them.
        suspects: Vec<(PathBuf, Vec<String>)>,
    },
    /// Nothing proves that the drive is the member.
    #[error(
        "{}: nothing on it proves that it is {member} of volume '{volume}'{}. If you know that it is, --force takes it; what it \
         holds is used as it is", path.display(), carries(.foreign)
    )]
    NoProof {
        /// The volume.
        volume: String,
        /// The member.
        member: String,
        /// The drive.
        path: PathBuf,
        /// What lies on it.
        foreign: Vec<String>,
    },
    /// Two drives prove to be the member.
    #[error(
        "{} and {} both prove to be {member} of volume '{volume}': one is a copy of the other. Take the copy away, or name the drive \
         that you mean: --member {member}=PATH", first.display(), second.display()
    )]
    Ambiguous {
        /// The volume.
        volume: String,
        /// The member.
        member: String,
        /// A drive.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The drive was a plain disk when something was written to it.
    #[error("{}: was a plain disk when its label was written over, so what it carries now may be yours, and \
             --force gives it up: {refusal}", path.display())]
    Plain {
        /// The drive.
        path: PathBuf,
        /// Why what it carries is in the way.
        refusal: Refusal,
    },
    /// A path is no drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Somebody has the volume or a drive.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A label cannot be written. It can be tried again.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// A drive fails. It can be tried again.
    #[error("{}: {error}", path.display())]
    Io {
        /// The drive.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

fn carries(foreign: &[String]) -> String {
    if foreign.is_empty() { String::new() } else { format!(" (it carries {})", foreign.join(", ")) }
}

fn suspected(volume: &str, member: &str, suspects: &[(PathBuf, Vec<String>)]) -> String {
    let [(path, foreign), others @ ..] = suspects else { return ": bring it back".to_owned() };
    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    let path = path.display();
    format!(
        ". {path} has its size and no label{}{more}: if you know that it is the drive, `bimetal rescue {volume} --member \
         {member}={path} --force` takes it",
        carries(foreign)
    )
}

/// What is left of a member's label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelLeft {
    /// A first copy.
    Whole,
    /// Second copies alone.
    SecondCopy,
    /// Nothing.
    Nothing,
    /// The drive is not there.
    Missing,
    /// The volume went on without the drive, or let it go.
    NotNeeded,
}

/// What was found of a member, and what was done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// As the command line names it.
    pub id: String,
    /// Its drive.
    pub path: Option<String>,
    /// What was left of its label.
    pub label: LabelLeft,
    /// What proves that the drive is the member, where its label is gone.
    pub proofs: Vec<String>,
    /// Kinds of content that another program left on it.
    pub foreign: Vec<String>,
    /// The first sector that another program wrote over the header that stands in the place of its beginning.
    pub foreign_sector: Option<u64>,
    /// The copies of its beginning, kept at its end.
    pub beginning: Option<Beginning>,
    /// Whether the state that the engine keeps on it is gone.
    pub state_lost: bool,
    /// How much of it holds anything.
    pub filled: Option<Filled>,
    /// Whether blocks are at home on it.
    pub is_home: bool,
}

impl MemberReport {
    /// Whether anything of it is to be written again.
    pub fn is_damaged(&self) -> bool {
        matches!(self.label, LabelLeft::SecondCopy | LabelLeft::Nothing)
            || self.foreign_sector.is_some()
            || self.state_lost
    }
}

/// What was found and done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The volume.
    pub name: String,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The members, in order.
    pub members: Vec<MemberReport>,
    /// Content that is off home and nowhere else, where the map could be read.
    pub dirty_bytes: Option<u64>,
    /// Why the map could not be read.
    pub trouble: Option<String>,
}

/// A member's drive, as it was found.
struct Seated<'a> {
    id: MemberId,
    label: Label,
    drive: Labelled,
    left: LabelLeft,
    evidence: Evidence,
    located: &'a Located,
}

/// Finds what another program wrote over on the drives of `volume`, and writes it again.
///
/// # Errors
/// No label is left, a drive cannot be told to be a member, is in use, or fails.
pub fn rescue(volume: &str, request: &Request) -> Result<Report, RescueError> {
    let paths: Vec<PathBuf> = request.members.iter().map(|(_, path)| path.clone()).collect();
    let located = find_among(volume, &paths)?;
    let label = &located.assembly.label;
    if located.assembly.resizing {
        return Err(RescueError::Resizing(label.name.clone()));
    }
    if let process @ Some(_) = owner(&label.name) {
        return Err(HoldError::from(LockError::Volume { name: label.name.clone(), process }).into());
    }
    let layout = lay_out(label)?;
    refuse_unknown_members(label, request)?;
    let (mut seated, mut reports) = (Vec::new(), Vec::new());
    let given_up = given_up(&located);
    for at in 0..label.members.len() {
        let id = MemberId(at as u16);
        let member = seat(&located, &layout, id, request, given_up >> at & 1 != 0)?;
        reports.push(report_of(&located, &layout, id, member.as_ref(), given_up >> at & 1 != 0));
        seated.extend(member);
    }
    let damaged = reports.iter().any(MemberReport::is_damaged);
    let whole = with_seats(&located, &seated);
    if !damaged {
        refuse_missing(&located, &reports)?;
    } else if !request.dry_run {
        write(&whole, &layout, &seated, &reports)?;
    }
    let (dirty_bytes, trouble) = match layout.slots {
        None => (None, None),
        Some(_) => match look_off_home(&whole) {
            Ok(bytes) => (Some(bytes), None),
            Err(error) => (None, Some(error)),
        },
    };
    Ok(Report { name: label.name.clone(), dry_run: request.dry_run, members: reports, dirty_bytes, trouble })
}

fn lay_out(label: &Label) -> Result<Layout, RescueError> {
    let unknown = || RescueError::Scheme { name: label.name.clone(), scheme: label.scheme.clone() };
    let scheme = schemes::find(&label.scheme).ok_or_else(unknown)?;
    Ok(Plan::of(label, scheme)?.lay_out().map_err(VolumeError::from)?)
}

fn refuse_unknown_members(label: &Label, request: &Request) -> Result<(), RescueError> {
    let known: Vec<String> = (0..label.members.len()).map(|at| label.member_name(MemberId(at as u16))).collect();
    match request.members.iter().find(|(member, _)| !known.contains(member)) {
        None => Ok(()),
        Some((member, _)) => {
            let (volume, member) = (label.name.clone(), member.clone());
            Err(RescueError::NoSuchMember { volume, member, known: known.join(", ") })
        }
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> RescueError {
    move |error| RescueError::Io { path: path.to_owned(), error }
}

/// The drive of a member: by its label, by its name on the command line, or by what it proves.
fn seat<'a>(
    located: &'a Located,
    layout: &Layout,
    id: MemberId,
    request: &Request,
    let_go: bool,
) -> Result<Option<Seated<'a>>, RescueError> {
    let label = located.assembly.label.of(id);
    let member = label.member_name(id);
    let named = request.members.iter().find(|(name, _)| *name == member).map(|(_, path)| path);
    if let Seat::Taken(at) = located.assembly.seats[usize::from(id.0)] {
        let drive = located.drives[at].clone();
        if let Some(path) = named.filter(|path| probe(path).is_ok_and(|probe| probe.identity != drive.probe.identity)) {
            return Err(RescueError::Taken { member, path: path.clone(), found: drive.found.path });
        }
        let left = if drive.by_second_copy { LabelLeft::SecondCopy } else { LabelLeft::Whole };
        let file = open(&drive.probe)?;
        let evidence = look(&label, layout, &drive.probe, &file).map_err(io_error(&drive.probe.path))?;
        let seated = Seated { id, label, drive, left, evidence, located };
        if left == LabelLeft::SecondCopy && !request.force {
            refuse_plain_disk(layout, &seated, &file)?;
        }
        return Ok(Some(seated));
    }
    if let Some(path) = named {
        return named_drive(located, layout, label, path, request.force).map(Some);
    }
    if let_go || located.assembly.seats[usize::from(id.0)] != Seat::Empty || !label.was_there(id) {
        return Ok(None);
    }
    proven_drive(located, layout, label)
}

/// The drive that was named for a member without one.
fn named_drive<'a>(
    located: &'a Located,
    layout: &Layout,
    label: Label,
    path: &Path,
    force: bool,
) -> Result<Seated<'a>, RescueError> {
    let (member, volume) = (label.member_name(label.index), label.name.clone());
    let probe = probe(path)?;
    if !label.was_there(label.index) {
        return Err(RescueError::WentOn { volume, member, path: path.to_owned() });
    }
    let (is, was) = (usable(probe.size), label.own().size);
    if is < was {
        return Err(RescueError::Size { path: path.to_owned(), member, is: is.bytes().0, was: was.bytes().0 });
    }
    let file = open(&probe)?;
    let of_other = signature::scan(&file, probe.size).map_err(io_error(path))?;
    let of_other = of_other.into_iter().find_map(|signature| match signature.content {
        Content::Label(Some(volume)) => Some(volume),
        _ => None,
    });
    if let Some(volume) = of_other {
        return Err(RescueError::OtherVolume { path: path.to_owned(), volume });
    }
    let evidence = look(&label, layout, &probe, &file).map_err(io_error(path))?;
    if evidence.proofs.is_empty() && !force {
        return Err(RescueError::NoProof { volume, member, path: path.to_owned(), foreign: evidence.foreign });
    }
    let seated = unlabelled(located, label, probe, evidence);
    if !force {
        refuse_plain_disk(layout, &seated, &file)?;
    }
    Ok(seated)
}

/// The one drive without a label that proves to be the member.
fn proven_drive<'a>(located: &'a Located, layout: &Layout, label: Label) -> Result<Option<Seated<'a>>, RescueError> {
    let mut proven: Option<Seated<'a>> = None;
    let is_large = |probe: &&Probe| usable(probe.size) >= label.own().size;
    for probe in located.unlabelled.iter().filter(is_large).filter(|probe| probe.uses.is_empty()) {
        let Ok(file) = open(probe) else { continue };
        let Ok(evidence) = look(&label, layout, probe, &file) else { continue };
        if evidence.proofs.is_empty() {
            continue;
        }
        let seated = unlabelled(located, label.clone(), probe.clone(), evidence);
        if let Some(other) = proven {
            return Err(RescueError::Ambiguous {
                volume: label.name.clone(),
                member: label.member_name(label.index),
                first: other.drive.probe.path,
                second: seated.drive.probe.path,
            });
        }
        refuse_plain_disk(layout, &seated, &file)?;
        proven = Some(seated);
    }
    Ok(proven)
}

/// A member is missing, and there is nothing else to rescue.
fn refuse_missing(located: &Located, reports: &[MemberReport]) -> Result<(), RescueError> {
    let label = &located.assembly.label;
    let mut members = reports.iter().zip(&label.members);
    match members.find(|(report, _)| report.label == LabelLeft::Missing) {
        None => Ok(()),
        Some((report, member)) => Err(RescueError::NoDrive {
            volume: label.name.clone(),
            member: report.id.clone(),
            suspects: suspects(located, member.size),
        }),
    }
}

/// Drives of just the size of a member that have no label, and what lies on them.
pub(crate) fn suspects(located: &Located, size: Sectors) -> Vec<(PathBuf, Vec<String>)> {
    let of_size = located.unlabelled.iter().filter(|probe| usable(probe.size) == size);
    let look = |probe: &Probe| {
        let found = File::open(&probe.canonical).and_then(|file| signature::scan(&file, probe.size));
        let names = found.unwrap_or_default().into_iter().map(|signature| signature.name.to_owned()).collect();
        (probe.path.clone(), names)
    };
    of_size.map(look).collect()
}

/// A drive without a label, in the seat of the member of `label`.
fn unlabelled(located: &Located, mut label: Label, probe: Probe, evidence: Evidence) -> Seated<'_> {
    // The labels of the others may be of before the guard was raised; the header is written after that.
    if evidence.has_header
        && let Some((member, guard)) = &mut label.guard
        && *member == label.index
    {
        *guard = Guard::Up;
    }
    let found = Found { path: probe.path.display().to_string(), size: label.own().size, label: label.clone() };
    let drive = Labelled { probe, found, next_turn: 0, by_second_copy: true };
    Seated { id: label.index, label, drive, left: LabelLeft::Nothing, evidence, located }
}

/// A drive that was a plain disk, and on which something lies that the volume would harm.
fn refuse_plain_disk(layout: &Layout, seated: &Seated<'_>, file: &File) -> Result<(), RescueError> {
    let Some((member, Guard::Down)) = seated.label.guard else { return Ok(()) };
    let Some(home) = layout.home.iter().find(|home| home.member == seated.id && member == seated.id) else {
        return Ok(());
    };
    let probe = &seated.drive.probe;
    let mut signatures = signature::scan(file, probe.size).map_err(io_error(&probe.path))?;
    signatures.retain(|signature| !matches!(signature.content, Content::Label(_)));
    let purpose = Purpose::Home(Sectors(home.blocks.count * layout.block.sectors()).bytes());
    let judged = Judged { path: &probe.path, is_file: probe.is_file(), size: probe.size, is_member: true, purpose };
    match judge(&judged, &signatures, false) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(RescueError::Plain { path: probe.path.clone(), refusal }),
    }
}

fn open(probe: &Probe) -> Result<File, RescueError> {
    File::open(&probe.canonical).map_err(io_error(&probe.path))
}

fn report_of(
    located: &Located,
    layout: &Layout,
    id: MemberId,
    seated: Option<&Seated<'_>>,
    let_go: bool,
) -> MemberReport {
    let label = &located.assembly.label;
    let not_needed = let_go || !label.was_there(id);
    let evidence = seated.map(|seated| &seated.evidence);
    let is_lost = seated.is_some_and(|seated| seated.left != LabelLeft::Whole);
    let foreign_sector = evidence.and_then(|evidence| evidence.foreign_sector);
    // What lies at the beginning of a drive that is no home, or a plain disk, is what the volume or its user put there.
    let foreign = evidence.filter(|_| is_lost || foreign_sector.is_some()).map(|evidence| evidence.foreign.clone());
    MemberReport {
        id: label.member_name(id),
        path: seated.map(|seated| seated.drive.found.path.clone()),
        label: match seated {
            Some(seated) => seated.left,
            None if not_needed => LabelLeft::NotNeeded,
            None => LabelLeft::Missing,
        },
        proofs: evidence.filter(|_| is_lost).map(|evidence| evidence.proofs.clone()).unwrap_or_default(),
        foreign: foreign.unwrap_or_default(),
        foreign_sector,
        beginning: evidence.and_then(|evidence| evidence.beginning),
        state_lost: evidence.is_some_and(|evidence| evidence.has_state == Some(false)),
        filled: evidence.map(|evidence| evidence.filled),
        is_home: layout.homes().contains(&id),
    }
}

/// The volume as it is with these drives in their seats.
fn with_seats(located: &Located, seated: &[Seated<'_>]) -> Located {
    let mut whole = located.clone();
    for seat in seated.iter().filter(|seat| seat.left == LabelLeft::Nothing) {
        whole.assembly.seats[usize::from(seat.id.0)] = Seat::Taken(whole.drives.len());
        whole.drives.push(seat.drive.clone());
    }
    whole
}

/// Writes what is lost: the label first, so that a rescue that is cut short finds the drive by it.
fn write(whole: &Located, layout: &Layout, seated: &[Seated<'_>], reports: &[MemberReport]) -> Result<(), RescueError> {
    let name = &whole.assembly.label.name;
    {
        let lock = lock(name, seated.iter().map(|seat| &seat.drive.probe))?;
        for (seat, lock) in seated.iter().zip(&lock.drives) {
            let report = &reports[usize::from(seat.id.0)];
            if seat.left != LabelLeft::Whole {
                write_label(seat, lock.file())?;
            }
            // After the label: a state without one would be taken for a proof of what nobody has proven.
            if report.state_lost {
                write_state(layout, seat, lock.file()).map_err(io_error(&seat.drive.probe.path))?;
            }
        }
    }
    let mut labelled = whole.clone();
    for seat in seated {
        let Seat::Taken(at) = labelled.assembly.seats[usize::from(seat.id.0)] else { continue };
        let drive = &mut labelled.drives[at];
        let current = labels::read(&open(&drive.probe)?, seat.label.own().size, &drive.probe.path)?;
        (drive.next_turn, drive.by_second_copy) = (current.next_turn, current.by_second_copy);
        drive.found.label = current.label;
        if seat.left == LabelLeft::Nothing {
            labelled.assembly.label.guard = seat.label.guard;
        }
    }
    let mut held = Held::take_overwriting(&labelled)?;
    // Labels that are written while a drive is missing would make that drive's content old.
    if reports.iter().all(|report| report.label != LabelLeft::Missing) {
        held.close()?;
    }
    Ok(())
}

/// The label of a drive that has none, and where the drive is larger than the member one that points to it.
fn write_label(seat: &Seated<'_>, file: &File) -> Result<(), RescueError> {
    let (path, size, own) = (&seat.drive.probe.path, usable(seat.drive.probe.size), seat.label.own().size);
    let label = if seat.left == LabelLeft::SecondCopy { &seat.drive.found.label } else { &seat.label };
    labels::place(file, own, path, label)?;
    if size != own {
        labels::place(file, size, path, label)?;
    }
    Ok(())
}

/// A state that says that every drive is needed, which nobody can refute.
fn write_state(layout: &Layout, seat: &Seated<'_>, file: &File) -> io::Result<()> {
    if evidence::state_place(&seat.label, layout).is_none() {
        return Ok(());
    }
    let identity = seat.located.assembly.label.volume.identity();
    for turn in 0..TURNS as u64 {
        let state = State { sequence: turn, dirty: layout.slots.is_some(), ..State::default() };
        for copy in 0..COPIES {
            let place = layout.state_place(seat.label.index, turn, copy);
            file.write_all_at(&state.encode(identity), place.start.0 * SECTOR_BYTES)?;
        }
    }
    file.sync_all()
}
