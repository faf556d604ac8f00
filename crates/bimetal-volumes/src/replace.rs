//! Replacement of a missing or detached cache or log: the new drive is judged, formatted and
//! labelled, while the volume runs without that drive.
//!
//! Once the drive is labelled, the engine attaches the drive
//! ([`Volume::attach`](bimetal_core::volume::Volume::attach)). So the labels know the drive before
//! any data is written to it.

use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::label::{Label, Uuid, usable};
use bimetal_core::layout::{LABEL_SECTORS, Layout, MemberId};
use bimetal_core::scheme::{MemberState, SchemeInfo, View};
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::Bytes;
use bimetal_core::volume::{self, VolumeError};
use bimetal_device::drive::absent::Absent;
use bimetal_device::drive::file::{DriveFile, OpenError};
use bimetal_device::drive::{self, Drive, Engine};
use bimetal_device::lock::{DriveLock, LockError};
use bimetal_device::probe::{Probe, ProbeError, probe};
use bimetal_device::signature::{Content, Signature};

use crate::attach::{self, AttachError, Attached, Options};
use crate::create::{self, Checked};
use crate::find::{Located, content};
use crate::held::{Held, HoldError};
use crate::labels;
use crate::memory::{TooLittleMemory, refuse_too_little};
use crate::plan::Plan;
use crate::registry;
use crate::startup::{self, StartupError};
use crate::system::{random, random_life};
use crate::verdict::{Drive as Judged, Purpose, Refusal, judge};

/// Reasons for which a drive cannot be the replacement.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The volume's map does not fit into memory.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// The scheme keeps nothing off home, or is unknown.
    #[error("scheme {0} has no drive off home, so no drive can be replaced")]
    NothingOffHome(String),
    /// The volume has no drive that another could replace now.
    #[error("{0}")]
    Nothing(&'static str),
    /// The path is not a drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The drive is in use.
    #[error("{}: is in use: {uses}", path.display())]
    InUse {
        /// Path of the drive.
        path: PathBuf,
        /// Use of the drive, and the command that ends it.
        uses: String,
    },
    /// The drive cannot be written, or can be written only in large parts.
    #[error("{}: is read-only or has sectors of more than 4096 bytes: expected a writable drive with sectors of at \
             most 4096 bytes", path.display())]
    Unusable {
        /// Path of the drive.
        path: PathBuf,
    },
    /// The drive is too small, or larger by less than the size of a label.
    #[error(
        "{}: has {is} bytes, and the drive that it replaces had {was}: expected exactly that size, or at least 64 KiB \
         more, while the volume is being served; stop the server to attach a drive of any size",
        path.display()
    )]
    Size {
        /// Path of the drive.
        path: PathBuf,
        /// Size of the drive.
        is: u64,
        /// Size that is needed.
        was: u64,
    },
    /// The drive's smallest write is larger than the smallest write that clients know.
    #[error(
        "{}: writes units of at least {is} bytes, and clients were told {least}: attach a drive with smaller units, \
         or stop the server and attach it then; users of the volume must then write blocks of {is} bytes",
        path.display()
    )]
    Coarse {
        /// Path of the drive.
        path: PathBuf,
        /// Smallest write of the drive.
        is: u32,
        /// Smallest write that clients know.
        least: u32,
    },
    /// Existing content of the drive is in the way.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The drive cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The drive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The drive fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The drive cannot be formatted.
    #[error("{}: {error}", path.display())]
    Format {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the formatting.
        error: StartupError,
    },
    /// The volume's settings are not valid.
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
    /// A drive of this size would change the addresses of the volume.
    #[error(
        "{}: its size would change the addresses of the volume: expected a drive of exactly {was} bytes", path.display()
    )]
    OtherAddresses {
        /// Path of the drive.
        path: PathBuf,
        /// Size that is needed.
        was: u64,
    },
}

/// Drive that is ready as a replacement.
pub struct Replacement {
    /// Member that is replaced.
    pub member: MemberId,
    /// Drive for the operations of the member.
    pub drive: Box<dyn Drive>,
    /// First recovery epoch of the drive: pages of other epochs on it do not count.
    pub life: u32,
    /// Number by which the engine names the drive.
    pub number: u32,
    /// Path of the drive.
    pub path: PathBuf,
}

/// Prepares the drive at `path` as the empty member for content off home. With `force`, existing
/// content is erased; content of a drive that was this member is erased even without `force`.
/// Clients write parts of `least` bytes, so the drive must be able to write such parts.
///
/// # Errors
/// Fails if the drive may not be used, or fails. The labels are changed after the drive was
/// formatted.
pub fn replace(held: &mut Held, path: &Path, force: bool, least: u32) -> Result<Replacement, ReplaceError> {
    let label = held.label().clone();
    let unknown = || ReplaceError::NothingOffHome(label.scheme.clone());
    let scheme = schemes::find(&label.scheme).ok_or_else(unknown)?;
    let slots = Plan::of(&label, scheme)?.lay_out().map_err(VolumeError::from)?.slots.ok_or_else(unknown)?;
    let member = slots.member;

    // A detached drive may be the replacement of itself. The lock of the drive is released first,
    // so that the drive does not count as in use.
    held.release(member);
    let found = look_at(path, &label, member)?;
    refuse_member(held, &found)?;
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
    let uuid = Uuid::from_random(random().map_err(io)?);
    let mut renewed = label.clone();
    renewed.members[usize::from(member.0)].uuid = uuid;
    let plan = Plan::of(&renewed, scheme)?;
    let operations =
        volume::format_again(&plan.config(), life)?.into_iter().filter(|operation| operation.target == member.0);
    startup::format(operations.collect(), &mut drives)
        .map_err(|error| ReplaceError::Format { path: path.to_owned(), error })?;
    let drive = drives.swap_remove(usize::from(member.0));
    if checked.probe.is_file() {
        // If this fails, the drive is only harder to find.
        let _ = registry::remember(std::slice::from_ref(&checked.probe.canonical));
    }
    let path = checked.probe.path.clone();
    held.admit((member, uuid), checked.probe, checked.lock)?;
    Ok(Replacement { member, drive, life, number: uuid.drive(), path })
}

/// Returns the reason for which no drive can be attached to a volume; `None` if a drive can be
/// attached.
pub fn nothing_to_attach(view: &View) -> Option<&'static str> {
    let Some(slots) = view.layout.slots else {
        return Some("this volume keeps no content off home, so it has no drive that another could replace");
    };
    if view.layout.homes().contains(&slots.member) {
        return Some(
            "every drive of this volume is home of blocks, which an empty drive cannot replace: connect the drive \
             itself and start the server again",
        );
    }
    match view.member(slots.member).state {
        MemberState::Online => return Some("the drive off home is online: run `bimetal detach` first"),
        MemberState::ReadOnly => {
            return Some(
                "the drive off home is read-only, and its content is being written back: attach the new drive when \
                 `bimetal status` no longer shows the old drive as read-only",
            );
        }
        MemberState::Failed => {}
    }
    (!view.map.is_empty()).then_some(
        "the drive off home is missing or has failed, and only it has some content: connect it, or serve the rest \
         with --accept-loss",
    )
}

/// Checks if the drive at `path`, of any size, can be attached to a volume that is not served.
/// Nothing is written.
///
/// # Errors
/// Fails with the error of [`replace`], or if the volume has no drive to replace.
pub fn examine(located: &Located, path: &Path, force: bool) -> Result<(), ReplaceError> {
    let options = Options { degraded: true, engine: Engine::Pool, ..Options::default() };
    let Attached { volume, mut held, .. } = attach::examine(located, options)?;
    if let Some(reason) = nothing_to_attach(volume.view()) {
        return Err(ReplaceError::Nothing(reason));
    }
    let label = held.label().clone();
    let Some(slots) = volume.view().layout.slots else { return Err(ReplaceError::NothingOffHome(label.scheme)) };
    held.release(slots.member);
    let found = usable_drive(path)?;
    refuse_member(&held, &found)?;
    let lock = DriveLock::take(&found)?;
    judge_it(found, lock, &label, slots.member, force)?;
    Ok(())
}

/// Refuses a drive that has the bytes of a member under another name.
fn refuse_member(held: &Held, found: &Probe) -> Result<(), ReplaceError> {
    let Some(member) = held.overlapping(found) else { return Ok(()) };
    let uses = format!("it is {member} of this volume under another name: name another drive");
    Err(ReplaceError::InUse { path: found.path.clone(), uses })
}

fn usable_drive(path: &Path) -> Result<Probe, ReplaceError> {
    let found = probe(path)?;
    if let Some(first) = found.uses.first() {
        return Err(ReplaceError::InUse { path: path.to_owned(), uses: first.describe() });
    }
    if found.read_only || found.logical_sector > 4096 {
        return Err(ReplaceError::Unusable { path: path.to_owned() });
    }
    Ok(found)
}

fn look_at(path: &Path, label: &Label, member: MemberId) -> Result<Probe, ReplaceError> {
    let found = usable_drive(path)?;
    let (is, was) = (usable(found.size), label.members[usize::from(member.0)].size);
    if is < was || (is != was && is.0 - was.0 < LABEL_SECTORS) {
        return Err(ReplaceError::Size { path: path.to_owned(), is: is.bytes().0, was: was.bytes().0 });
    }
    Ok(found)
}

/// Changes the size of the missing or detached member off home to the size of the drive at `path`.
/// The volume must not be served. Only the label changes, because no content of the old drive is
/// needed. Returns true if the size changed; after a change the volume has to be found again.
///
/// # Errors
/// Fails if the old drive is needed, or if the volume cannot be laid out with this size.
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
    let Attached { volume, mut held, .. } = attach::examine(located, options)?;
    if volume.view().member(slots.member).state != MemberState::Failed {
        return Ok(false);
    }
    held.release(slots.member);
    if !probe(path)?.uses.is_empty() {
        // The attempt to attach the drive reports its use.
        return Ok(false);
    }
    goal.members[number].size = is;
    let after = lay_out(&goal)?;
    if after.home != before.home || after.total_blocks() != before.total_blocks() {
        return Err(ReplaceError::OtherAddresses { path: path.to_owned(), was: was.bytes().0 });
    }
    refuse_too_little(scheme_of(&goal)?, &after)?;
    held.relabel(|label| label.members[number].size = is)?;
    Ok(true)
}

fn lay_out(label: &Label) -> Result<Layout, ReplaceError> {
    Ok(Plan::of(label, scheme_of(label)?)?.lay_out().map_err(VolumeError::from)?)
}

fn scheme_of(label: &Label) -> Result<&'static SchemeInfo, ReplaceError> {
    schemes::find(&label.scheme).ok_or_else(|| ReplaceError::NothingOffHome(label.scheme.clone()))
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
    // A detached drive may return: its former content is outdated. The label of the drive may be at
    // the end of a smaller size.
    let is_seat = |own: &Label| own.volume == label.volume && own.own().uuid == seat.uuid;
    let comes_back = [capacity, seat.size].into_iter().any(|size| {
        let own = labels::read(lock.file(), size, &found.path);
        own.is_ok_and(|own| is_seat(&own.label))
    });
    let io = |error| ReplaceError::Io { path: found.path.clone(), error };
    let (signatures, grown) = content(&found, lock.file()).map_err(io)?;
    let comes_back = comes_back || grown.is_some_and(|own| is_seat(&own));
    let (path, is_file, size) = (found.path.as_path(), found.is_file(), found.size);
    let judged = Judged { path, is_file, size, is_member: false, purpose: Purpose::Slots };
    let is_former = comes_back && !signatures.iter().any(|signature| ends_within(signature, size));
    let verdict = judge(&judged, &signatures, force || is_former)?;
    Ok(Checked { capacity, probe: found, lock, verdict })
}

/// Returns true if a file system or a partition table ends within a drive of this size. It was made
/// on the drive itself, also if the drive has a label of an earlier time. A slot may have the
/// beginning of a larger home, whose file system ends beyond the drive.
fn ends_within(signature: &Signature, size: Bytes) -> bool {
    match signature.content {
        Content::FileSystem { end: Some(end) } | Content::Partitions { end: Some(end) } => end <= size,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A former SSD that had got a file system since was attached again without --force, and the
    /// file system was lost.
    #[test]
    fn file_system_on_a_former_drive_is_its_own() {
        let of = |mib| Signature { name: "ext4", content: Content::FileSystem { end: Some(Bytes::from_mib(mib)) } };
        let size = Bytes::from_mib(16);
        assert_eq!([15, 16, 17].map(|mib| ends_within(&of(mib), size)), [true, true, false]);
        let label = Signature { name: "Bimetal label", content: Content::Label(None) };
        assert!(!ends_within(&label, size));
    }
}
