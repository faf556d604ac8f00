//! A new drive in the place of a cache or log that is gone: judged, formatted and labelled, while the volume goes on without.
//!
//! Only then does the engine take it in ([`Volume::attach`](bimetal_core::volume::Volume::attach)): whatever is written to it
//! from then on, the labels know it.

use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::label::{Label, usable};
use bimetal_core::layout::{LABEL_SECTORS, Layout, MemberId};
use bimetal_core::scheme::MemberState;
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::volume::{self, VolumeError};

use super::create::{self, Checked, random_life};
use super::find::Located;
use super::held::{Held, HoldError};
use super::labels;
use super::lock::{DriveLock, LockError};
use super::plan::Plan;
use super::probe::{Probe, ProbeError, probe};
use super::verdict::{Drive as Judged, Purpose, Refusal, judge};
use super::{registry, signature};
use crate::attach::{self, AttachError, Attached, Options};
use crate::drive::absent::Absent;
use crate::drive::file::{DriveFile, OpenError};
use crate::drive::{self, Drive, Engine};
use crate::startup::{self, StartupError};

/// Why a drive does not take the place.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The scheme keeps nothing off home, or is not known.
    #[error("scheme {0} has no drive off home that could be replaced")]
    NothingOffHome(String),
    /// The path is no drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Somebody uses it.
    #[error("{}: is in use: {uses}", path.display())]
    InUse {
        /// The drive.
        path: PathBuf,
        /// By whom, and what ends it.
        uses: String,
    },
    /// It cannot be written, or only in large parts.
    #[error("{}: is read-only or has sectors of more than 4096 bytes; a volume writes all of its drives", path.display())]
    Unusable {
        /// The drive.
        path: PathBuf,
    },
    /// It is too small, or larger by less than a label takes.
    #[error(
        "{}: has {is} bytes, and the drive in whose place it comes had {was}: while the volume is being served, take one of \
         exactly that size or at least 64 KiB more; stop the server, and any size will do",
        path.display()
    )]
    Size {
        /// The drive.
        path: PathBuf,
        /// Its size.
        is: u64,
        /// The size that is needed.
        was: u64,
    },
    /// It writes larger parts than clients were told.
    #[error(
        "{}: writes parts of at least {is} bytes, and clients were told {least}: take a drive that writes smaller parts, or stop \
         the server and attach it then; what uses the volume must do with blocks of {is} bytes from then on",
        path.display()
    )]
    Coarse {
        /// The drive.
        path: PathBuf,
        /// Its parts.
        is: u32,
        /// What clients were told.
        least: u32,
    },
    /// Something lies on it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// The drive.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot be formatted.
    #[error("{}: {error}", path.display())]
    Format {
        /// The drive.
        path: PathBuf,
        /// Why.
        error: StartupError,
    },
    /// The volume's settings are not possible.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The volume cannot be laid out.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A label cannot be written.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The volume cannot be opened without the old drive.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// With a drive of this size the volume would be another one.
    #[error(
        "{}: with a drive of its size there, addresses would lie elsewhere: take one of exactly {was} bytes", path.display()
    )]
    OtherAddresses {
        /// The drive.
        path: PathBuf,
        /// The size that is needed.
        was: u64,
    },
}

/// A drive that is ready to take the place.
pub struct Replacement {
    /// Of whom.
    pub member: MemberId,
    /// It.
    pub drive: Box<dyn Drive>,
    /// Where its lives begin: what it may have of this volume from before is of others.
    pub life: u32,
    /// Where it is.
    pub path: PathBuf,
}

/// Makes the drive at `path` the member that keeps what is off home, empty. With `force` what lies on it is erased; on the
/// drive that is being replaced it is anyway. Clients write parts of `least` bytes: it must be able to.
///
/// # Errors
/// It may not be used, or fails. The labels are changed last.
pub fn replace(held: &mut Held, path: &Path, force: bool, least: u32) -> Result<Replacement, ReplaceError> {
    let label = held.label().clone();
    let unknown = || ReplaceError::NothingOffHome(label.scheme.clone());
    let scheme = schemes::find(&label.scheme).ok_or_else(unknown)?;
    let plan = Plan::of(&label, scheme)?;
    let slots = plan.lay_out().map_err(VolumeError::from)?.slots.ok_or_else(unknown)?;
    let member = slots.member;

    // The drive that was let go may be the one that comes back, and then it is not another program that has it.
    held.release(member);
    let found = look_at(path, &label, member)?;
    let lock = DriveLock::take(&found)?;
    let checked = judge_it(found, lock, &label, member, force)?;
    let io = |error| ReplaceError::Io { path: path.to_owned(), error };
    let file = DriveFile::open(&checked.probe.canonical)?;
    let engine = if label.members[usize::from(member.0)].emulates.is_some() { Engine::Pool } else { Engine::Auto };
    let drive = drive::attach(file, engine).map_err(io)?;
    if drive.logical_block() > least {
        return Err(ReplaceError::Coarse { path: path.to_owned(), is: drive.logical_block(), least });
    }
    create::erase(&checked).map_err(io)?;
    let used = label.members[usize::from(member.0)].size;
    if used != checked.capacity {
        create::clear_tail(checked.lock.file(), used, used.bytes()).map_err(io)?;
    }
    let mut drives: Vec<Box<dyn Drive>> = Vec::new();
    for _ in &label.members {
        drives.push(Box::new(Absent::new().map_err(io)?));
    }
    drives[usize::from(member.0)] = drive;
    let life = random_life().map_err(io)?;
    let operations =
        volume::format_again(&plan.config(), life)?.into_iter().filter(|operation| operation.target == member.0);
    startup::format(operations.collect(), &mut drives)
        .map_err(|error| ReplaceError::Format { path: path.to_owned(), error })?;
    let drive = drives.swap_remove(usize::from(member.0));
    if checked.probe.is_file() {
        // It is only harder to find where this fails.
        let _ = registry::remember(std::slice::from_ref(&checked.probe.canonical));
    }
    let path = checked.probe.path.clone();
    held.admit(member, checked.probe, checked.lock)?;
    Ok(Replacement { member, drive, life, path })
}

fn look_at(path: &Path, label: &Label, member: MemberId) -> Result<Probe, ReplaceError> {
    let found = probe(path)?;
    if let Some(first) = found.uses.first() {
        return Err(ReplaceError::InUse { path: path.to_owned(), uses: first.describe() });
    }
    if found.read_only || found.logical_sector > 4096 {
        return Err(ReplaceError::Unusable { path: path.to_owned() });
    }
    let (is, was) = (usable(found.size), label.members[usize::from(member.0)].size);
    if is < was || (is != was && is.0 - was.0 < LABEL_SECTORS) {
        return Err(ReplaceError::Size { path: path.to_owned(), is: is.bytes().0, was: was.bytes().0 });
    }
    Ok(found)
}

/// Has a volume that nobody serves reckon with as much as the drive at `path` has, in the place of the one off home that is
/// gone: the label alone changes, for nothing that lay on that drive is needed. Whether it did; then the volume is to be looked
/// for again.
///
/// # Errors
/// The old drive is needed, or the volume cannot be laid out so.
pub fn fit(located: &Located, path: &Path) -> Result<bool, ReplaceError> {
    let mut goal = located.assembly.label.clone();
    let before = lay_out(&goal)?;
    let Some(slots) = before.slots else { return Ok(false) };
    let number = usize::from(slots.member.0);
    let (is, was) = (usable(probe(path)?.size), goal.members[number].size);
    if is == was {
        return Ok(false);
    }
    let options = Options { degraded: true, engine: Engine::Pool, ..Options::default() };
    let Attached { volume, mut held, .. } = attach::recover(located, options, |_, _| {})?;
    if volume.view().member(slots.member).state != MemberState::Failed {
        return Ok(false);
    }
    held.release(slots.member);
    if !probe(path)?.uses.is_empty() {
        // Who attaches it hears by whom.
        return Ok(false);
    }
    goal.members[number].size = is;
    let after = lay_out(&goal)?;
    if after.home != before.home || after.total_blocks() != before.total_blocks() {
        return Err(ReplaceError::OtherAddresses { path: path.to_owned(), was: was.bytes().0 });
    }
    held.relabel(|label| label.members[number].size = is)?;
    Ok(true)
}

fn lay_out(label: &Label) -> Result<Layout, ReplaceError> {
    let scheme = schemes::find(&label.scheme).ok_or_else(|| ReplaceError::NothingOffHome(label.scheme.clone()))?;
    Ok(Plan::of(label, scheme)?.lay_out().map_err(VolumeError::from)?)
}

fn judge_it(
    found: Probe,
    lock: DriveLock,
    label: &Label,
    member: MemberId,
    force: bool,
) -> Result<Checked, ReplaceError> {
    let capacity = usable(found.size);
    let seat = &label.members[usize::from(member.0)];
    // The drive that was let go comes back: what the volume kept on it is old. Its label may lie where it was smaller.
    let comes_back = [capacity, seat.size].into_iter().any(|size| {
        let own = labels::read(lock.file(), size, &found.path);
        own.is_ok_and(|own| own.label.volume == label.volume && own.label.own().uuid == seat.uuid)
    });
    let io = |error| ReplaceError::Io { path: found.path.clone(), error };
    let signatures = signature::scan(lock.file(), found.size).map_err(io)?;
    let (path, is_file, size) = (found.path.as_path(), found.is_file(), found.size);
    let judged = Judged { path, is_file, size, is_member: false, purpose: Purpose::Slots };
    let verdict = judge(&judged, &signatures, force || comes_back)?;
    Ok(Checked { capacity, probe: found, lock, verdict })
}
