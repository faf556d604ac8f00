//! Rescue: labels that another program has overwritten are written again, from the labels of the
//! other members.
//!
//! 1. The volume is found by the labels that are left, including second copies.
//! 2. Each member without a label gets the drive that the user named for the member. If the user
//!    named no drive, the member gets the only drive whose content proves that the drive is the
//!    member ([`evidence`]). Proofs are pages of the engine that belong to the volume, or the
//!    header of the guard. Size proves nothing.
//! 3. The remains on each drive are examined, and losses are reported as far as the examination
//!    shows them.
//! 4. The label is written to the drive. A missing state of the engine and the header of the guard
//!    are written as well. Then every member is labelled twice, so that an older copy of the drive
//!    is refused from then on.
//!
//! Nothing is written before all steps are known to be possible, and a dry run writes nothing at
//! all. The content of blocks is never judged: blocks off home have checksums, but blocks at home
//! have no checksums.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::label::assembly::{Found, Seat};
use bimetal_core::label::report::{AcceptedLoss, GivenUp};
use bimetal_core::label::{Guard, Label, usable};
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::Sectors;
use bimetal_core::volume::VolumeError;
use bimetal_device::probe::{Probe, ProbeError, probe};
use bimetal_device::signature::{self, Content};
use serde::{Deserialize, Serialize};

use crate::attach::{AttachError, refuse_grown_file_system};
use crate::examine::look_off_home;
use crate::find::{FindError, Labelled, Located, find_among};
use crate::held::{Held, HoldError, lock};
use crate::home_content::{is_foreign, judge_home};
use crate::labels::{self, LabelError};
use crate::plan::Plan;
use crate::report;
use crate::state::given_up;
use crate::system::seconds_since_1970;
use crate::verdict::Refusal;
use crate::volume_lock::{VolumeLock, VolumeLockError, owner};

pub mod evidence;
mod lost_state;

use evidence::{Beginning, Evidence, Filled, look};

/// Options of a rescue.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Drives that were named for members (`hdd`, `ssd1`).
    pub members: Vec<(String, PathBuf)>,
    /// Set to accept a drive without proof that it is the member.
    pub force: bool,
    /// Set to write nothing.
    pub dry_run: bool,
}

/// Reasons for which nothing is rescued. Nothing was written, unless a drive failed during a write.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// No label of the volume is left.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A change of sizes was interrupted.
    #[error("volume '{0}' is being resized, and the resize was interrupted: finish it with `bimetal resize {0}`")]
    Resizing(String),
    /// The scheme is unknown.
    #[error(
        "volume '{name}' has the scheme '{scheme}', which this version of bimetal does not know: use the version that \
         made the volume"
    )]
    Scheme {
        /// Name of the volume.
        name: String,
        /// Name of the scheme.
        scheme: String,
    },
    /// The settings are not valid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The volume cannot be laid out.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// No member has this name.
    #[error("volume '{volume}' has no member '{member}': expected {known}")]
    NoSuchMember {
        /// Name of the volume.
        volume: String,
        /// Name that was given.
        member: String,
        /// Names of the members.
        known: String,
    },
    /// The member has a drive.
    #[error("--member {member}={}: {found} has the label of {member}: leave the option out, or disconnect {found}", path.display())]
    Taken {
        /// Name of the member.
        member: String,
        /// Path of the drive that was named.
        path: PathBuf,
        /// Path of the drive with the label.
        found: String,
    },
    /// The drive belongs to another volume.
    #[error("{}: is a labelled drive of volume '{volume}': expected a drive that has lost its label", path.display())]
    OtherVolume {
        /// Path of the drive.
        path: PathBuf,
        /// Name of the volume to which the drive belongs.
        volume: String,
    },
    /// The volume was served without the member.
    #[error(
        "volume '{volume}' went on without {member}: the content of that drive is out of date, so its label is not \
         written again; `bimetal attach {volume} {}` attaches it as a new drive", path.display()
    )]
    WentOn {
        /// Name of the volume.
        volume: String,
        /// Name of the member.
        member: String,
        /// Path of the drive.
        path: PathBuf,
    },
    /// The drive is too small.
    #[error("{}: has {is} bytes, and {member} had {was}: expected the drive that was {member}", path.display())]
    Size {
        /// Path of the drive.
        path: PathBuf,
        /// Name of the member.
        member: String,
        /// Size of the drive.
        is: u64,
        /// Size of the member.
        was: u64,
    },
    /// No drive is known to be the member.
    #[error("{member} of volume '{volume}' is missing, and no searched drive proves to be {member}{}", suspected(.volume, .member, .suspects))]
    NoDrive {
        /// Name of the volume.
        volume: String,
        /// Name of the member.
        member: String,
        /// Drives of the member's size, with their content.
        suspects: Vec<(PathBuf, Vec<String>)>,
    },
    /// Nothing proves that the drive is this member.
    #[error(
        "{}: nothing on it proves that it is {member} of volume '{volume}'{}. --force uses it nevertheless, with its \
         content unchecked", path.display(), carries(.foreign)
    )]
    NoProof {
        /// Name of the volume.
        volume: String,
        /// Name of the member.
        member: String,
        /// Path of the drive.
        path: PathBuf,
        /// Existing content of the drive.
        foreign: Vec<String>,
    },
    /// The drive was replaced.
    #[error(
        "{}: was {member} of volume '{volume}' until another drive replaced it, so its content is out of date: connect \
         the drive that replaced it. If `bimetal attach` was interrupted, attach this drive again. --force uses {} \
         nevertheless", path.display(), path.display()
    )]
    Replaced {
        /// Name of the volume.
        volume: String,
        /// Name of the member.
        member: String,
        /// Path of the drive.
        path: PathBuf,
    },
    /// The content of each of two drives proves that the drive is the member.
    #[error(
        "{} and {} both prove to be {member} of volume '{volume}', so one is a copy: disconnect the copy, or name the \
         drive: --member {member}=PATH", first.display(), second.display()
    )]
    Ambiguous {
        /// Name of the volume.
        volume: String,
        /// Name of the member.
        member: String,
        /// Path of the first drive.
        first: PathBuf,
        /// Path of the second drive.
        second: PathBuf,
    },
    /// The drive was a plain disk when another program wrote to the drive.
    #[error("{}: was a plain disk when its label was overwritten, so its present content may be yours, and --force \
             gives that content up: {refusal}", path.display())]
    Plain {
        /// Path of the drive.
        path: PathBuf,
        /// Reason for which the drive's content is in the way.
        refusal: Refusal,
    },
    /// The drive is a plain disk, and its file system has grown beyond the volume.
    #[error(transparent)]
    Grown(#[from] AttachError),
    /// A path is not a drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Another process holds the volume or a drive.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A label cannot be written. The rescue can be repeated.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// A drive fails. The rescue can be repeated.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

fn carries(foreign: &[String]) -> String {
    if foreign.is_empty() { String::new() } else { format!(" (it carries {})", foreign.join(", ")) }
}

fn suspected(volume: &str, member: &str, suspects: &[(PathBuf, Vec<String>)]) -> String {
    let [(path, foreign), others @ ..] = suspects else { return ": connect it".to_owned() };
    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    let path = path.display();
    format!(
        ". {path} has its size and no label{}{more}: if it is the drive, run `bimetal rescue {volume} --member \
         {member}={path} --force`",
        carries(foreign)
    )
}

/// Remains of a member's label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelLeft {
    /// A first copy of the label is left.
    Whole,
    /// Only second copies of the label are left.
    SecondCopy,
    /// No copy of the label is left.
    Nothing,
    /// The drive is missing.
    Missing,
    /// The volume was served without the drive, or the drive was detached.
    NotNeeded,
}

/// Findings about a member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Name on the command line.
    pub id: String,
    /// Path of the member's drive.
    pub path: Option<String>,
    /// Remains of the label on the member's drive.
    pub label: LabelLeft,
    /// Proofs that the drive is the member, if its label is lost.
    pub proofs: Vec<String>,
    /// Kinds of content that another program left on the drive.
    pub foreign: Vec<String>,
    /// First sector that another program has overwritten in the header, which replaces the drive's
    /// beginning.
    pub foreign_sector: Option<u64>,
    /// Copies of the drive's beginning, kept at its end.
    pub beginning: Option<Beginning>,
    /// Set if the engine's state on the drive is lost.
    pub state_lost: bool,
    /// Amount of data on the drive.
    pub filled: Option<Filled>,
    /// Set if the member is home of blocks.
    pub is_home: bool,
}

impl MemberReport {
    /// Returns true if metadata of the member is to be written again.
    pub fn is_damaged(&self) -> bool {
        matches!(self.label, LabelLeft::SecondCopy | LabelLeft::Nothing)
            || self.foreign_sector.is_some()
            || self.state_lost
    }
}

/// Result of a rescue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the volume.
    pub name: String,
    /// Set if nothing was written.
    pub dry_run: bool,
    /// Members of the volume, in order.
    pub members: Vec<MemberReport>,
    /// Size of content that is off home only, if the block map could be read.
    pub dirty_bytes: Option<u64>,
    /// Reason for which the block map could not be read.
    pub trouble: Option<String>,
}

/// Drive of a member, as it was found.
struct Seated<'a> {
    id: MemberId,
    label: Label,
    drive: Labelled,
    left: LabelLeft,
    evidence: Evidence,
    located: &'a Located,
}

/// Finds metadata that another program has overwritten on the drives of `volume`, and writes it
/// again.
///
/// # Errors
/// Fails if no label is left, or if a drive cannot be identified, is in use, or fails.
pub fn rescue(volume: &str, request: &Request) -> Result<Report, RescueError> {
    let paths: Vec<PathBuf> = request.members.iter().map(|(_, path)| path.clone()).collect();
    let located = find_among(volume, &paths)?;
    let label = &located.assembly.label;
    if located.assembly.resizing {
        return Err(RescueError::Resizing(label.name.clone()));
    }
    if let process @ Some(_) = owner(&label.name) {
        return Err(HoldError::from(VolumeLockError::InUse { name: label.name.clone(), process }).into());
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
    if damaged {
        // The state and the second copies of the label would be written into the file system.
        refuse_grown_file_system(&located, &layout)?;
    }
    if !damaged {
        refuse_missing(&located, &layout, &reports)?;
    } else if !request.dry_run {
        write(&whole, &layout, &seated, &reports)?;
    }
    let (has_slots, has_places) = (layout.slots.is_some(), layout.places.is_some());
    let (dirty_bytes, trouble) = match (has_slots || has_places).then(|| look_off_home(&whole)) {
        None => (None, None),
        Some(Ok(bytes)) => (Some(bytes).filter(|_| has_slots), None),
        Some(Err(error)) => (None, Some(error)),
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

/// Returns the drive of a member: by its label, by its name on the command line, or by its proofs.
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

/// Returns the drive that was named for a member without a label.
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
    let of_other = signature::scan(&file, probe.size, probe.logical_sector).map_err(io_error(path))?;
    let of_other = of_other.into_iter().find_map(|signature| match signature.content {
        Content::Label(Some(volume)) => Some(volume),
        _ => None,
    });
    if let Some(volume) = of_other {
        return Err(RescueError::OtherVolume { path: path.to_owned(), volume });
    }
    let evidence = look(&label, layout, &probe, &file).map_err(io_error(path))?;
    if evidence.was_replaced && !force {
        return Err(RescueError::Replaced { volume, member, path: path.to_owned() });
    }
    if evidence.proofs.is_empty() && !force {
        return Err(RescueError::NoProof { volume, member, path: path.to_owned(), foreign: evidence.foreign });
    }
    let seated = unlabelled(located, label, probe, evidence);
    if !force {
        refuse_plain_disk(layout, &seated, &file)?;
    }
    Ok(seated)
}

/// Returns the only drive without a label that proves to be the member.
fn proven_drive<'a>(located: &'a Located, layout: &Layout, label: Label) -> Result<Option<Seated<'a>>, RescueError> {
    let mut proven: Option<Seated<'a>> = None;
    let is_large = |probe: &&Probe| usable(probe.size) >= label.own().size;
    for probe in located.unlabelled.iter().filter(is_large).filter(|probe| probe.uses.is_empty()) {
        let Ok(file) = open(probe) else { continue };
        let Ok(evidence) = look(&label, layout, probe, &file) else { continue };
        if evidence.proofs.is_empty() || evidence.was_replaced {
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

/// Refuses a rescue if a member is missing and no metadata is to be written again.
fn refuse_missing(located: &Located, layout: &Layout, reports: &[MemberReport]) -> Result<(), RescueError> {
    let label = &located.assembly.label;
    let Some(at) = reports.iter().position(|report| report.label == LabelLeft::Missing) else { return Ok(()) };
    let (volume, member) = (label.name.clone(), reports[at].id.clone());
    let own = label.of(MemberId(at as u16));
    let was_replaced = |probe: &&Probe| {
        let evidence = File::open(&probe.canonical).and_then(|file| look(&own, layout, probe, &file));
        evidence.is_ok_and(|evidence| evidence.was_replaced)
    };
    if let Some(probe) = located.unlabelled.iter().find(was_replaced) {
        return Err(RescueError::Replaced { volume, member, path: probe.path.clone() });
    }
    Err(RescueError::NoDrive { volume, member, suspects: suspects(located, own.own().size) })
}

/// Returns drives of exactly a member's size that have no label, with their content.
pub(crate) fn suspects(located: &Located, size: Sectors) -> Vec<(PathBuf, Vec<String>)> {
    let of_size = located.unlabelled.iter().filter(|probe| usable(probe.size) == size);
    let look = |probe: &Probe| {
        let found =
            File::open(&probe.canonical).and_then(|file| signature::scan(&file, probe.size, probe.logical_sector));
        let names = found.unwrap_or_default().into_iter().map(|signature| signature.name.to_owned()).collect();
        (probe.path.clone(), names)
    };
    of_size.map(look).collect()
}

/// Makes the entry of a drive without a label, for the member of `label`.
fn unlabelled(located: &Located, mut label: Label, probe: Probe, evidence: Evidence) -> Seated<'_> {
    // The other labels may be older than the raising of the guard; the header is written after the
    // guard is raised.
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

/// Refuses a drive that was a plain disk and has content that the volume would harm.
fn refuse_plain_disk(layout: &Layout, seated: &Seated<'_>, file: &File) -> Result<(), RescueError> {
    let Some((member, Guard::Down)) = seated.label.guard else { return Ok(()) };
    let Some(home) = layout.home.iter().find(|home| home.member == seated.id && member == seated.id) else {
        return Ok(());
    };
    let probe = &seated.drive.probe;
    match judge_home(file, probe, layout, home, is_foreign).map_err(io_error(&probe.path))? {
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
    // The beginning of a drive that is not a home, or of a plain disk, was written by the volume or
    // its user.
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

/// Returns the volume with the given drives as its members.
fn with_seats(located: &Located, seated: &[Seated<'_>]) -> Located {
    let mut whole = located.clone();
    for seat in seated.iter().filter(|seat| seat.left == LabelLeft::Nothing) {
        whole.assembly.seats[usize::from(seat.id.0)] = Seat::Taken(whole.drives.len());
        whole.drives.push(seat.drive.clone());
    }
    whole
}

/// Writes the lost metadata: the losses first, so that no interrupted rescue forgets them; then the
/// labels, so that the next rescue can find each drive by its label.
fn write(whole: &Located, layout: &Layout, seated: &[Seated<'_>], reports: &[MemberReport]) -> Result<(), RescueError> {
    let name = &whole.assembly.label.name;
    {
        let lock = lock(name, seated.iter().map(|seat| &seat.drive.probe))?;
        refuse_changed(name, seated, &lock)?;
        note_losses(whole, seated, &lock, unproven(reports))?;
        let first = lost_state::first_sequence(layout, seated, &lock);
        for (seat, lock) in seated.iter().zip(&lock.drives) {
            let report = &reports[usize::from(seat.id.0)];
            if seat.left != LabelLeft::Whole {
                write_label(seat, lock.file())?;
            }
            // The state follows the label: a state without a label would count as a proof.
            if report.state_lost {
                lost_state::write(layout, seat, lock.file(), first).map_err(io_error(&seat.drive.probe.path))?;
            }
        }
    }
    let mut labelled = whole.clone();
    for seat in seated {
        let Seat::Taken(at) = labelled.assembly.seats[usize::from(seat.id.0)] else { continue };
        let drive = &mut labelled.drives[at];
        let current = labels::read(&open(&drive.probe)?, seat.label.own().size, &drive.probe.path)?;
        if current.label.writing != drive.found.label.writing {
            return Err(HoldError::Changed(name.clone()).into());
        }
        (drive.next_turn, drive.by_second_copy) = (current.next_turn, current.by_second_copy);
        drive.found.label = current.label;
        if seat.left == LabelLeft::Nothing {
            labelled.assembly.label.guard = seat.label.guard;
        }
    }
    let mut held = Held::take_overwriting(&labelled)?;
    // Labels written while a drive is missing would make the drive's content outdated.
    if reports.iter().all(|report| report.label != LabelLeft::Missing) {
        held.close()?;
    }
    Ok(())
}

/// Refuses drives whose labels another command has written since they were found: the labels were
/// read before the drives were locked.
fn refuse_changed(name: &str, seated: &[Seated<'_>], lock: &VolumeLock) -> Result<(), RescueError> {
    for (seat, lock) in seated.iter().zip(&lock.drives) {
        let Found { size, label, .. } = &seat.drive.found;
        let now = labels::read(lock.file(), *size, &seat.drive.probe.path).ok();
        let is_same = match seat.left {
            LabelLeft::Nothing => now.is_none_or(|now| now.label.volume != label.volume),
            _ => now.is_some_and(|now| {
                now.label.writing == label.writing && now.by_second_copy == seat.drive.by_second_copy
            }),
        };
        if !is_same {
            return Err(HoldError::Changed(name.to_owned()).into());
        }
    }
    Ok(())
}

/// Adds losses to the report on all drives, unless the report of an interrupted rescue has them.
fn note_losses(
    whole: &Located,
    seated: &[Seated<'_>],
    lock: &VolumeLock,
    mut losses: Vec<AcceptedLoss>,
) -> Result<(), RescueError> {
    let mut report = report::of(whole);
    losses.retain(|loss| !report.losses().iter().any(|known| (known.member, known.what) == (loss.member, loss.what)));
    if losses.is_empty() {
        return Ok(());
    }
    losses.into_iter().for_each(|loss| report.accept(loss));
    // A drive without a report gets both turns, with numbers that no drive has.
    let report = report.numbered(report.sequence.saturating_add(2));
    let volume = whole.assembly.label.volume.identity();
    let (mut is_written, mut refused) = (false, None);
    for (seat, lock) in seated.iter().zip(&lock.drives) {
        match report::place(lock.file(), seat.label.own().size, &seat.drive.probe.path, volume, &report) {
            Ok(()) => is_written = true,
            Err(error) => refused = Some(error),
        }
    }
    // The newest report of any drive counts.
    match refused.filter(|_| !is_written) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Returns the loss of proof for each home whose metadata another program has overwritten, and for
/// each drive off home whose label was lost: the drive may be an older copy of the member.
fn unproven(reports: &[MemberReport]) -> Vec<AcceptedLoss> {
    let is_unproven = |report: &MemberReport| match report.is_home {
        true => report.is_damaged(),
        false => report.label == LabelLeft::Nothing,
    };
    let members = (0u16..).zip(reports).filter(|(_, report)| is_unproven(report));
    let at = seconds_since_1970();
    members.map(|(id, _)| AcceptedLoss { at, member: MemberId(id), what: GivenUp::Proof, blocks: None }).collect()
}

/// Writes the label of a drive without a label. On a drive larger than the member, a second label
/// points to this label.
fn write_label(seat: &Seated<'_>, file: &File) -> Result<(), RescueError> {
    let (path, size, own) = (&seat.drive.probe.path, usable(seat.drive.probe.size), seat.label.own().size);
    let label = if seat.left == LabelLeft::SecondCopy { &seat.drive.found.label } else { &seat.label };
    labels::place(file, own, path, label)?;
    if size != own {
        labels::place(file, size, path, label)?;
    }
    Ok(())
}
