//! Attachment of a volume: its drives are locked and opened, the volume is recovered, and the
//! drives are labelled anew.
//!
//! A missing drive is an error or, with permission, left out; the core's recovery decides whether
//! that is possible. The labels are written after the recovery and before the volume is served.
//! From this writing of the labels on, a drive that was missing is outdated.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::label::assembly::{Absent as Missing, Seat};
use bimetal_core::label::report::{AcceptedLoss, GivenUp};
use bimetal_core::label::{Format, Guard, Label};
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::scheme::MemberState;
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::Bytes;
use bimetal_core::volume::{GaveUp, Recovery, Volume, VolumeError};
use bimetal_device::buffer::Buffers;
use bimetal_device::drive::absent::Absent;
use bimetal_device::drive::emulated::{Emulated, EmulationError, Player, home_of};
use bimetal_device::drive::file::{DriveFile, OpenError};
use bimetal_device::drive::read_only::ReadOnly;
use bimetal_device::drive::{self, Drive, Engine};

use crate::find::{Labelled, Located};
use crate::held::{Held, HoldError};
use crate::home_content::{is_too_long, judge_home};
use crate::plan::Plan;
use crate::startup::{self, StartupError};
use crate::state::{given_up, is_dirty};
use crate::system::seconds_since_1970;
use crate::verdict::Refusal;

/// Options for missing drives and for the way operations are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Set to serve a volume without missing members, if nothing on them is needed.
    pub degraded: bool,
    /// Set to serve a volume although content is lost.
    pub accept_loss: bool,
    /// Way in which operations are carried out.
    pub engine: Engine,
}

/// Volume that is ready to be served. No other process holds the volume while this value exists.
pub struct Attached {
    /// Volume to be served.
    pub volume: Volume<Buffers>,
    /// Drives of the volume, in order of members.
    pub drives: Vec<Box<dyn Drive>>,
    /// Labels, guard and locks of the volume.
    pub held: Held,
}

/// Reasons for which a volume is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Drives are missing, and the options do not permit to leave them out.
    #[error("volume '{name}' is not complete: {}: connect the missing drives, or run `bimetal rescue {name}` if \
             another program has written over one. `bimetal serve {name} --degraded` serves without them if nothing \
             on them is needed; --accept-loss beside it gives up content that only they have", missing(.absent))]
    Incomplete {
        /// Name of the volume.
        name: String,
        /// Drives that are missing.
        absent: Vec<Missing>,
    },
    /// Home was a plain disk, and its file system has grown beyond the volume's size. The volume
    /// would write over the end of the file system on its home.
    #[error("volume '{name}': {refusal}")]
    Grown {
        /// Name of the volume.
        name: String,
        /// File system, the end of the file system, and commands that help.
        refusal: Refusal,
    },
    /// A missing drive is home of blocks, so the volume cannot be served without it.
    #[error("volume '{name}': {}: this member is home of blocks, and the volume cannot be served without it: connect \
             it, or run `bimetal rescue {name}` if another program has written over it", missing(.absent))]
    HomeIsMissing {
        /// Name of the volume.
        name: String,
        /// Drives that are missing.
        absent: Vec<Missing>,
    },
    /// Only a simulation can follow a setting of the volume.
    #[error(
        "volume '{name}': only a simulation can follow this setting: {reason}. `bimetal set {name} KEY=VALUE` changes the \
         setting"
    )]
    OnlySimulated {
        /// Name of the volume.
        name: String,
        /// Setting, and the value that was expected.
        reason: &'static str,
    },
    /// The volume is of version 1 of the on-disk format, and has metadata of slots.
    #[error(
        "volume '{name}' has on-disk format 1: drain it with the bimetal that served it last, then run `bimetal \
         upgrade {name}`"
    )]
    Version1 {
        /// Name of the volume.
        name: String,
    },
    /// A drive cannot be written, and the options do not permit to leave it out.
    #[error("{}", read_only(.name, .member, .path, *.is_home))]
    ReadOnly {
        /// Name of the volume.
        name: String,
        /// Name of the member.
        member: String,
        /// Path of the member's drive.
        path: PathBuf,
        /// Set if the member is home of blocks.
        is_home: bool,
    },
    /// The scheme is unknown: it belongs to another version.
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
    /// A file cannot emulate the drive of its profile.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// The scheme does not take the settings.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The members make no volume.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Another process holds the volume or a drive, or the labels or the guard cannot be changed.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A drive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The operations of a drive cannot be carried out.
    #[error("{}: {error}", path.display())]
    Drive {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The content of the drives does not make a volume.
    #[error("volume '{name}': {error}")]
    Startup {
        /// Name of the volume.
        name: String,
        /// Error of the recovery.
        error: StartupError,
    },
}

fn read_only(name: &str, member: &str, path: &Path, is_home: bool) -> String {
    let path = path.display();
    let without = if is_home {
        String::new()
    } else {
        format!(
            ", or serve without it (`bimetal serve {name} --degraded`; `bimetal attach {name} {path}` attaches it \
             again later, empty)"
        )
    };
    format!(
        "volume '{name}': {member} ({path}) is set read-only, and serving writes to it; nothing on it is lost. Make \
         it writable (blockdev --setrw {path}, losetup without -r, chmod u+w for a file) and serve again{without}"
    )
}

/// Decides for each drive that is set read-only. If a read-only drive off home has no dirty blocks,
/// the drive is refused or, with permission, left out. If the read-only drive has dirty blocks, the
/// drive is evacuated, like a drive that began to refuse writes during service.
fn without_read_only(located: &Located, layout: &Layout, options: Options) -> Result<Located, AttachError> {
    let mut located = located.clone();
    let is_dirty = is_dirty(&located).unwrap_or(true);
    let set: Vec<(usize, PathBuf)> = located
        .members()
        .enumerate()
        .filter_map(|(at, drive)| Some((at, drive.filter(|drive| drive.probe.read_only)?.probe.path.clone())))
        .collect();
    for (at, path) in set {
        let member = MemberId(at as u16);
        let label = &located.assembly.label;
        let is_guarded = label.guard.is_some_and(|(guarded, _)| guarded == member);
        let is_home = layout.homes().contains(&member);
        if is_home && !is_guarded {
            // Homes beside this member may have labels that can be written, and blocks that can be
            // read.
            continue;
        }
        if is_home || !is_dirty && !options.degraded && !options.accept_loss {
            let (name, member) = (label.name.clone(), label.member_name(member));
            return Err(AttachError::ReadOnly { name, member, path, is_home });
        }
        if !is_dirty {
            located.assembly.seats[at] = Seat::Empty;
        }
    }
    Ok(located)
}

/// Refuses a home that was a plain disk if its file system ends beyond the volume. Content of other
/// kinds may stay: a client may have written it through the volume.
pub(crate) fn refuse_grown_file_system(located: &Located, layout: &Layout) -> Result<(), AttachError> {
    let label = &located.assembly.label;
    let Some((member, Guard::Down)) = label.guard else { return Ok(()) };
    // A drive whose label was written over is refused later, with the command that rescues it.
    let drive = located.members().nth(usize::from(member.0)).flatten().filter(|drive| !drive.by_second_copy);
    let home = layout.home.iter().find(|home| home.member == member);
    let Some((Labelled { probe, .. }, home)) = drive.zip(home) else { return Ok(()) };
    let judged = File::open(&probe.path).and_then(|file| judge_home(&file, probe, layout, home, is_too_long));
    let judged = judged.map_err(|error| AttachError::Drive { path: probe.path.clone(), error })?;
    judged.map(drop).map_err(|refusal| AttachError::Grown { name: label.name.clone(), refusal })
}

/// Refuses a home that was a plain disk if its file system ends beyond the volume: even labels have
/// copies there.
///
/// # Errors
/// Fails with the file system and commands that help, or if the drive fails.
pub fn refuse_grown(located: &Located) -> Result<(), AttachError> {
    let layout = Plan::of_label(&located.assembly.label).and_then(|plan| plan.lay_out().ok());
    layout.map_or(Ok(()), |layout| refuse_grown_file_system(located, &layout))
}

fn missing(absent: &[Missing]) -> String {
    let one = |absent: &Missing| match &absent.behind {
        Some(path) => format!("{} ({path}) is out of date, because the volume went on without it", absent.member),
        None => format!("{} ({}, UUID {}) is missing", absent.member, absent.size, absent.uuid),
    };
    absent.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Attaches a volume that was found. `progress` gets the bytes that recovery has read, and those it
/// must read.
///
/// # Errors
///
/// Fails if drives are missing, in use or failing, or if their content does not make a volume.
pub fn attach(
    located: &Located,
    options: Options,
    progress: impl FnMut(Bytes, Bytes),
) -> Result<Attached, AttachError> {
    let mut attached = recover(located, options, progress, |drive| drive)?;
    attached.held.use_newest_format();
    release_slots_that_failed(&mut attached);
    attached.held.begin(&mut attached.drives)?;
    if options.accept_loss {
        let losses = losses(&attached);
        attached.held.keep_losses(&losses)?;
    }
    Ok(attached)
}

/// Counts the drive with the slots as absent, if the drive failed while home was a plain disk. The
/// drive may have copies from before the use of the disk, and nothing on it tells that they are
/// old. The labels tell it: from their next writing on, the drive is behind.
fn release_slots_that_failed(attached: &mut Attached) {
    let was_plain = matches!(attached.held.label().guard, Some((_, Guard::Down)));
    let view = attached.volume.view();
    let slots = view.layout.slots.map(|slots| slots.member);
    if let Some(slots) = slots.filter(|&slots| was_plain && view.member(slots).state != MemberState::Online) {
        attached.held.release(slots);
    }
}

/// Returns the losses of a start that permits losses.
fn losses(attached: &Attached) -> Vec<AcceptedLoss> {
    let Attached { volume, held, .. } = attached;
    let at = seconds_since_1970();
    let content = volume.gave_up().map(|gave_up| match gave_up {
        GaveUp::All => (GivenUp::Content, None),
        GaveUp::Part(blocks) => (GivenUp::Part, blocks),
    });
    let foreign = held.has_overwritten().then_some((GivenUp::Foreign, None));
    let of = [
        (content, volume.view().layout.slots.map(|slots| slots.member)),
        (foreign, held.label().guard.map(|(member, _)| member)),
    ];
    let both = of.into_iter().filter_map(|(loss, member)| loss.zip(member));
    both.map(|((what, blocks), member)| AcceptedLoss { at, member, what, blocks }).collect()
}

/// Does the same as [`attach`], but changes no label and none of the engine's pages on the drives:
/// to examine the volume, not to serve it. A change of the guard that a crash interrupted is
/// completed.
pub(crate) fn examine(located: &Located, options: Options) -> Result<Attached, AttachError> {
    recover(located, options, |_, _| {}, |drive| Box::new(ReadOnly::new(drive)))
}

/// Recovers the volume over its drives, as `over` wraps them. Labels and guard stay.
fn recover(
    located: &Located,
    options: Options,
    progress: impl FnMut(Bytes, Bytes),
    over: fn(Box<dyn Drive>) -> Box<dyn Drive>,
) -> Result<Attached, AttachError> {
    let label = &located.assembly.label;
    let name = &label.name;
    let Some(scheme) = schemes::find(&label.scheme) else {
        return Err(AttachError::Scheme { name: name.clone(), scheme: label.scheme.clone() });
    };
    let plan = Plan::of(label, scheme)?;
    let layout = plan.lay_out().map_err(VolumeError::from)?;
    let located = &without_read_only(located, &layout, options)?;
    refuse_grown_file_system(located, &layout)?;
    let seats = located.members().enumerate();
    let missing: Vec<MemberId> =
        seats.filter(|(_, drive)| drive.is_none()).map(|(at, _)| MemberId(at as u16)).collect();
    if label.format != Format::NEWEST && layout.slots.is_some() && !located.assembly.resizing {
        return Err(AttachError::Version1 { name: name.clone() });
    }
    let absent = located.assembly.absent(&located.found());
    if !layout.is_mirrored() && layout.homes().iter().any(|home| missing.contains(home)) {
        return Err(AttachError::HomeIsMissing { name: name.clone(), absent });
    }
    // A drive that was detached or has failed before, and is not needed, needs no further
    // permission.
    let given_up = given_up(located);
    let is_whole = missing.iter().all(|member| given_up >> member.0 & 1 != 0);
    if !is_whole && !options.degraded && !options.accept_loss {
        return Err(AttachError::Incomplete { name: name.clone(), absent });
    }
    let mut held = if options.accept_loss { Held::take_overwriting(located)? } else { Held::take(located)? };
    if options.accept_loss {
        held.expect_loss()?;
    }
    let drives = open(located, &held, &layout, options.engine)?;
    let mut drives: Vec<_> = drives.into_iter().map(over).collect();
    let recovery = Recovery::new(&plan.config(), &missing).map_err(|error| match error {
        VolumeError::OnlySimulated(reason) => AttachError::OnlySimulated { name: name.clone(), reason },
        error => error.into(),
    })?;
    let recovery = if options.accept_loss { recovery.accept_loss() } else { recovery };
    let is_plain = matches!(label.guard, Some((_, Guard::Down)));
    let recovery = if is_plain { recovery.home_was_plain() } else { recovery };
    let volume = startup::recover(recovery, &mut drives, progress)
        .map_err(|error| AttachError::Startup { name: name.clone(), error })?;
    Ok(Attached { volume, drives, held })
}

fn open(located: &Located, held: &Held, layout: &Layout, engine: Engine) -> Result<Vec<Box<dyn Drive>>, AttachError> {
    let mut drives = Vec::new();
    for (at, drive) in located.members().enumerate() {
        let member = MemberId(at as u16);
        let opened = match drive {
            Some(drive) => open_member(drive, held.label(), layout, member, engine)?,
            None => Box::new(Absent::new().map_err(|error| AttachError::Drive { path: PathBuf::new(), error })?),
        };
        drives.push(held.wrap(member, opened));
    }
    Ok(drives)
}

fn open_member(
    drive: &Labelled,
    label: &Label,
    layout: &Layout,
    member: MemberId,
    engine: Engine,
) -> Result<Box<dyn Drive>, AttachError> {
    let file = DriveFile::open(&drive.probe.canonical)?;
    if let Some(player) = Player::of_member(label, member)? {
        return Ok(Box::new(Emulated::new(file, &player, home_of(layout, member))?));
    }
    drive::attach(file, engine).map_err(|error| AttachError::Drive { path: drive.probe.path.clone(), error })
}
