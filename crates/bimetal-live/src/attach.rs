//! From the labels of a volume to the volume: its drives are held and opened, recovered, and labelled anew.
//!
//! What is missing is refused or, with leave, done without; whether that is possible at all is what the core's recovery
//! says. Labels are written after the recovery and before anything is served: from then on a drive that was not there is behind.

use std::io;
use std::path::{Path, PathBuf};

use bimetal_core::label::assembly::{Absent as Missing, Seat};
use bimetal_core::label::report::{AcceptedLoss, GivenUp};
use bimetal_core::label::{Format, Guard, Label};
use bimetal_core::layout::{Layout, MemberId};
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::Bytes;
use bimetal_core::volume::{GaveUp, Recovery, Volume, VolumeError};

use crate::buffer::Buffers;
use crate::control::offline::{given_up, is_dirty};
use crate::drive::absent::Absent;
use crate::drive::emulated::{Emulated, EmulationError, Player, home_of};
use crate::drive::file::{DriveFile, OpenError};
use crate::drive::{self, Drive, Engine};
use crate::member::create::seconds_since_1970;
use crate::member::find::{Labelled, Located};
use crate::member::held::{Held, HoldError};
use crate::member::plan::Plan;
use crate::startup::{self, StartupError};

/// What to do where something is missing, and how drives are worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Whether a volume is served of which members are missing, if nothing on them is needed.
    pub degraded: bool,
    /// Whether to go on with what there is where content is lost.
    pub accept_loss: bool,
    /// How drives are worked.
    pub engine: Engine,
}

/// A volume that is ready to be served. Nobody else has it while this lives.
pub struct Attached {
    /// The volume.
    pub volume: Volume<Buffers>,
    /// Its drives, in order of members.
    pub drives: Vec<Box<dyn Drive>>,
    /// Its labels and its guard, and what keeps others away.
    pub held: Held,
}

/// Why a volume is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Drives are missing, and nobody said to go on without.
    #[error("volume '{name}' is not whole: {}: plug in what is missing (`bimetal rescue {name}` if another program has written over it), or serve without it with --degraded, and with --accept-loss where it has content that nobody else has", missing(.absent))]
    Incomplete {
        /// The volume.
        name: String,
        /// Who is missing.
        absent: Vec<Missing>,
    },
    /// A drive is missing without which there is no volume.
    #[error("volume '{name}': {}: it is home of blocks, and nothing can be served without it: bring it back, or `bimetal rescue {name}` if another program has written over it", missing(.absent))]
    HomeIsMissing {
        /// The volume.
        name: String,
        /// Who is missing.
        absent: Vec<Missing>,
    },
    /// The volume is of version 1 of the on-disk format, and has metadata of slots.
    #[error(
        "volume '{name}' is of version 1 of the on-disk format: run `bimetal upgrade {name}` to make it one of version 2, which must be \
         drained, and is checked"
    )]
    Version1 {
        /// The volume.
        name: String,
    },
    /// A drive cannot be written, and nobody said to go on without.
    #[error("{}", read_only(.name, .member, .path, *.is_home))]
    ReadOnly {
        /// The volume.
        name: String,
        /// The member.
        member: String,
        /// Its drive.
        path: PathBuf,
        /// Whether blocks have their home there.
        is_home: bool,
    },
    /// A scheme of another version.
    #[error(
        "volume '{name}' has the scheme '{scheme}', which this version of bimetal does not know: use the one that made it"
    )]
    Scheme {
        /// The volume.
        name: String,
        /// Its scheme.
        scheme: String,
    },
    /// A file cannot play the drive that it is to play.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// Settings that the scheme does not take.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The members make no volume.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Somebody has the volume or a drive, or its labels or its guard cannot be changed.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A drive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A drive cannot be worked.
    #[error("{}: {error}", path.display())]
    Drive {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What lies on the drives does not become a volume.
    #[error("volume '{name}': {error}")]
    Startup {
        /// The volume.
        name: String,
        /// Why.
        error: StartupError,
    },
}

fn read_only(name: &str, member: &str, path: &Path, is_home: bool) -> String {
    let path = path.display();
    let without = if is_home {
        String::new()
    } else {
        format!(
            ", or serve without it (`bimetal serve {name} --degraded`; `bimetal attach {name} {path}` takes it in again, empty)"
        )
    };
    format!(
        "volume '{name}': {member} ({path}) is set read-only, and serving would have to write there; nothing on it is lost. Make it \
         writable (blockdev --setrw {path}, losetup without -r, chmod u+w for a file) and serve again{without}"
    )
}

/// Sees to drives that are set read-only. One off home that has nothing alone is left as it is:
/// refused or, with leave, done without. One that has content alone is read out, as one that began
/// to refuse writes while it was served.
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
            // Others may have labels that can be written, and blocks that can be read.
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

fn missing(absent: &[Missing]) -> String {
    let one = |absent: &Missing| match &absent.behind {
        Some(path) => format!("{} ({path}) is behind, because the volume went on without it", absent.member),
        None => format!("{} ({}, UUID {}) is missing", absent.member, absent.size, absent.uuid),
    };
    absent.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Attaches a volume that was found. `progress` hears how much of what recovery must read is read.
///
/// # Errors
///
/// Drives are missing, in use or failing, or what lies on them is not enough.
pub fn attach(
    located: &Located,
    options: Options,
    progress: impl FnMut(Bytes, Bytes),
) -> Result<Attached, AttachError> {
    let mut attached = recover(located, options, progress)?;
    attached.held.use_newest_format();
    attached.held.begin(&mut attached.drives)?;
    if options.accept_loss {
        let losses = losses(&attached);
        attached.held.keep_losses(&losses)?;
    }
    Ok(attached)
}

/// The losses that a start with leave for them brought.
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

/// As [`attach`], but leaves labels and guard as they are: for a look at the volume, not for serving it.
pub(crate) fn recover(
    located: &Located,
    options: Options,
    progress: impl FnMut(Bytes, Bytes),
) -> Result<Attached, AttachError> {
    let label = &located.assembly.label;
    let name = &label.name;
    let Some(scheme) = schemes::find(&label.scheme) else {
        return Err(AttachError::Scheme { name: name.clone(), scheme: label.scheme.clone() });
    };
    let plan = Plan::of(label, scheme)?;
    let layout = plan.lay_out().map_err(VolumeError::from)?;
    let located = &without_read_only(located, &layout, options)?;
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
    // Whoever let a drive go has said already that the volume goes on without it.
    let given_up = given_up(located);
    let is_whole = missing.iter().all(|member| given_up >> member.0 & 1 != 0);
    if !is_whole && !options.degraded && !options.accept_loss {
        return Err(AttachError::Incomplete { name: name.clone(), absent });
    }
    let mut held = if options.accept_loss { Held::take_overwriting(located)? } else { Held::take(located)? };
    if options.accept_loss {
        held.expect_loss()?;
    }
    let mut drives = open(located, &held, &layout, options.engine)?;
    let recovery = Recovery::new(&plan.config(), &missing)?;
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
