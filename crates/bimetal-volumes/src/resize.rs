//! New sizes for the drives of a drained volume: the drives have grown, or are to be used only in
//! part.
//!
//! The core defines the order of writes, which may be interrupted anywhere
//! ([`bimetal_core::label::resize`]). This module checks the conditions and makes the system calls.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bimetal_core::journal::page::{PAGE_BYTES, Page};
use bimetal_core::journal::state::State;
use bimetal_core::label::lifetime::Lifetime;
use bimetal_core::label::report::Report;
use bimetal_core::label::report::page::Pages;
use bimetal_core::label::resize::{Span, Step, TooNearError, goal, plan};
use bimetal_core::label::{Format, Guard, Label, MemberLabel, usable};
use bimetal_core::layout::{Layout, MemberId, Role};
use bimetal_core::scheme::{SchemeError, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::settings::SettingError;
use bimetal_core::units::{Bytes, SECTOR_BYTES, Sectors};
use bimetal_core::volume::{self, VolumeError};
use bimetal_device::drive::file::{DriveFile, OpenError};
use bimetal_device::drive::{self, Drive, Engine};

use crate::attach::{self, AttachError, Options};
use crate::find::{Labelled, Located};
use crate::held::{HoldError, lock_unchanged};
use crate::home_content::{is_foreign, judge_home};
use crate::labels::{self, LabelError};
use crate::memory::{TooLittleMemory, refuse_too_little};
use crate::plan::Plan;
use crate::registry;
use crate::report;
use crate::startup::{self, StartupError};
use crate::state::newest_state;
use crate::system::{random, random_life, seconds_since_1970};
use crate::verdict::Refusal;
use crate::volume_lock::VolumeLock;

/// Reasons for which sizes do not change. After an error the content of the volume is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// The volume's map does not fit into memory.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// A member is missing.
    #[error(
        "{0} is missing or out of date, and every drive's label must be written: connect it, or run `bimetal attach` \
         with another drive first"
    )]
    Missing(String),
    /// A member is missing, and no other drive can take its place.
    #[error(
        "{0} is missing or out of date, and no other drive can take its place now: connect it. If it is lost, and \
         `bimetal drain --detach` made home a plain disk before, home has everything: use it without bimetal, or make \
         a new volume of it with `bimetal create` and --force, which keeps a file system and no other content"
    )]
    MissingForGood(String),
    /// The scheme is unknown.
    #[error("scheme '{0}' is not known to this version of bimetal: use the version that made the volume")]
    Scheme(String),
    /// Content is off home.
    #[error(
        "volume '{0}' is not drained, and its sizes can change only while everything is at home: run `bimetal drain \
         {0} --detach`"
    )]
    NotDrained(String),
    /// The volume has version 1 of the on-disk format, and is not drained.
    #[error(
        "volume '{0}' has on-disk format 1 and is not drained: run `bimetal drain {0} --detach` with the bimetal that \
         served it last, then `bimetal upgrade {0}`"
    )]
    Version1NotDrained(String),
    /// Content is lost.
    #[error(
        "volume '{0}' has lost blocks, and a resize would forget which: write them again first (`bimetal check {0}` \
         lists them)"
    )]
    LostContent(String),
    /// The size exceeds the drive.
    #[error("{}: has {is}, and {wanted} of it are to be used: {remedy}", path.display())]
    TooLarge {
        /// Path of the drive.
        path: PathBuf,
        /// Size of the drive.
        is: Bytes,
        /// Size that the user, or the interrupted resize, requested.
        wanted: Bytes,
        /// Remedy for the user.
        remedy: String,
    },
    /// No member has this role.
    #[error("volume '{name}' has no drive with the role '{role}'")]
    NoSuchRole {
        /// Name of the volume.
        name: String,
        /// Role that the user requested.
        role: &'static str,
    },
    /// Blocks would have another address.
    #[error(
        "volume '{0}' has its addresses on several drives, one after another: only the last of them can be resized, \
         and only enlarged"
    )]
    OtherAddresses(String),
    /// The old and the new size are too close.
    #[error("{}: {error}", path.display())]
    TooNear {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the sizes.
        error: TooNearError,
    },
    /// A file system reaches beyond the new size.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The scheme cannot use members of these sizes.
    #[error(transparent)]
    Layout(#[from] SchemeError),
    /// The volume cannot be laid out.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume's settings are not valid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The volume cannot be opened with its present sizes.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Another process holds the volume.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A label cannot be written. The user can repeat `resize`.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// A drive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The engine's pages cannot be written. The user can repeat `resize`.
    #[error(transparent)]
    Format(#[from] StartupError),
    /// A drive or the system fails. The user can repeat `resize`.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path that fails.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Result of a change of sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resized {
    /// Name of the volume.
    pub name: String,
    /// Exported size before and now.
    pub exported: [Bytes; 2],
    /// Name of each member for users, with the size that the volume used before, and the size that
    /// the volume uses now.
    pub members: Vec<(String, Bytes, Bytes)>,
}

/// Changes the sizes of a drained volume's members to the present sizes of their drives, or to the
/// sizes in `sizes`. A change that was interrupted goes on with its own sizes, except those in
/// `sizes`.
///
/// # Errors
/// Fails if the volume is incomplete or not drained, cannot be laid out with these sizes, or if a
/// drive fails. After a drive's failure, the call can be repeated.
pub fn resize(located: &Located, sizes: &[(Role, Bytes)]) -> Result<Resized, ResizeError> {
    let drives = all_members(located)?;
    change(located, &drives, spans(located, &drives, sizes)?)
}

/// Converts a drained volume of version 1 of the on-disk format to the newest version. Clean copies
/// in a cache or log are dropped; sizes stay as they are.
///
/// # Errors
/// Fails for the reasons of [`resize`].
pub fn upgrade(located: &Located) -> Result<Resized, ResizeError> {
    let label = &located.assembly.label;
    let drives = all_members(located)?;
    let span = |(member, drive): (&MemberLabel, &&Labelled)| Span {
        found: drive.found.size,
        carried: drive.found.label.writing,
        drive: usable(drive.probe.size),
        goal: goal(label, member.role, located.assembly.resizing).unwrap_or(member.size),
    };
    if lay_out(label)?.slots.is_none() {
        // Home pages are readable in both versions; a recovery adds the copies of the newest
        // version.
        let mut attached = attach::attach(located, Options { engine: Engine::Pool, ..Options::default() }, |_, _| {})?;
        attached.held.close()?;
        let exported = attached.volume.units().fold(Sectors::ZERO, |sum, unit| sum + unit).bytes();
        return Ok(Resized { name: label.name.clone(), exported: [exported; 2], members: Vec::new() });
    }
    change(located, &drives, label.members.iter().zip(&drives).map(span).collect())
}

/// Writes the labels and the engine's initial pages for these spans.
fn change(located: &Located, drives: &[&Labelled], spans: Vec<Span>) -> Result<Resized, ResizeError> {
    let label = &located.assembly.label;
    let mut goal = Label { format: Format::NEWEST, ..label.clone() };
    goal.members.iter_mut().zip(&spans).for_each(|(member, span)| member.size = span.goal);
    let (before, after) = (lay_out(label)?, lay_out(&goal)?);
    refuse_other_addresses(label, &before, &after)?;
    let slots = |layout: &Layout| layout.slots.as_ref().map_or(0, |slots| slots.count);
    if slots(&after) > slots(&before) && !located.assembly.resizing {
        refuse_too_little(scheme_of(&goal)?, &after)?;
    }
    let exported =
        [&before, &after].map(|layout: &Layout| Sectors(layout.total_blocks() * layout.block.sectors()).bytes());
    let names = (0..label.members.len()).map(|at| label.member_name(MemberId(at as u16)));
    let used = names.zip(label.members.iter().zip(&spans));
    let members = used.map(|(name, (member, span))| (name, member.size.bytes(), span.goal.bytes())).collect();
    let resized = Resized { name: label.name.clone(), exported, members };
    let is_same = spans.iter().zip(drives).all(|(span, drive)| span.goal == drive.found.label.own().size);
    if is_same && !located.assembly.resizing && label.format == Format::NEWEST {
        return Ok(resized);
    }
    if matches!(label.guard, Some((_, Guard::Up))) && !located.assembly.resizing {
        // A guard is not content: it is refused before the content behind the new end is judged.
        let of = if label.format == Format::NEWEST { ResizeError::NotDrained } else { ResizeError::Version1NotDrained };
        return Err(of(label.name.clone()));
    }
    refuse_content_behind(drives, &before, &after)?;
    let lock = if located.assembly.resizing {
        attach::refuse_grown_file_system(located, &after)?;
        lock_unchanged(&label.name, drives.iter().copied())?
    } else if label.format == Format::NEWEST {
        lock_drained(located)?
    } else {
        // A volume of this version is not opened, which would refuse it.
        attach::refuse_grown_file_system(located, &before)?;
        lock_drained_version_1(located, drives)?
    };
    let random_number = || random().map(u64::from_le_bytes);
    let writings = random_number().and_then(|first| Ok([first, random_number()?])).map_err(no_random)?;
    let steps = plan(label, &spans, seconds_since_1970(), writings).map_err(|error| {
        let near = drives.iter().zip(&spans).find(|(_, span)| span.found != span.goal || span.found != span.drive);
        ResizeError::TooNear { path: near.map_or(PathBuf::new(), |(drive, _)| drive.probe.path.clone()), error }
    })?;
    let lifetimes = carry_lifetimes(label, &spans, drives, &lock)?;
    let report = carry_report(label, &spans, drives, &lock)?;
    for step in steps {
        let is_format = step == Step::Format;
        perform(step, &goal, drives, &lock)?;
        if is_format {
            keep_lifetimes(&goal, &lifetimes, drives, &lock)?;
            keep_report(&goal, &report, drives, &lock)?;
        }
    }
    // If this fails, drives that grow again are found by their paths only.
    let _ = registry::remember_sizes(&goal);
    Ok(resized)
}

fn no_random(error: io::Error) -> ResizeError {
    ResizeError::Io { path: PathBuf::from("/dev/urandom"), error }
}

fn all_members(located: &Located) -> Result<Vec<&Labelled>, ResizeError> {
    let label = &located.assembly.label;
    let may_be_replaced = !located.assembly.resizing && label.format == Format::NEWEST;
    let error = if may_be_replaced { ResizeError::Missing } else { ResizeError::MissingForGood };
    let named = |at| error(label.member_name(MemberId(at as u16)));
    located.members().enumerate().map(|(at, drive)| drive.ok_or_else(|| named(at))).collect()
}

fn spans(located: &Located, drives: &[&Labelled], sizes: &[(Role, Bytes)]) -> Result<Vec<Span>, ResizeError> {
    let label = &located.assembly.label;
    for &(role, _) in sizes {
        if label.members.iter().all(|member| member.role != role) {
            return Err(ResizeError::NoSuchRole { name: label.name.clone(), role: role.name() });
        }
    }
    let of = |(member, drive): (&MemberLabel, &&Labelled)| {
        let size = usable(drive.probe.size);
        let wanted = sizes.iter().find(|(role, _)| *role == member.role).map(|&(_, wanted)| usable(wanted));
        let goal = wanted.or(goal(label, member.role, located.assembly.resizing)).unwrap_or(size);
        if goal > size {
            let remedy = match wanted {
                Some(_) => "make the drive larger first".to_owned(),
                None => format!(
                    "an interrupted resize goes on with this size; make the drive larger, or name a smaller size with \
                     --{}-size",
                    member.role.name()
                ),
            };
            let (is, wanted) = (drive.probe.size, goal.bytes());
            return Err(ResizeError::TooLarge { path: drive.probe.path.clone(), is, wanted, remedy });
        }
        Ok(Span { found: drive.found.size, carried: drive.found.label.writing, drive: size, goal })
    };
    label.members.iter().zip(drives).map(of).collect()
}

fn lay_out(label: &Label) -> Result<Layout, ResizeError> {
    Ok(plan_of(label)?.lay_out()?)
}

fn plan_of(label: &Label) -> Result<Plan<'_>, ResizeError> {
    Ok(Plan::of(label, scheme_of(label)?)?)
}

fn scheme_of(label: &Label) -> Result<&'static SchemeInfo, ResizeError> {
    schemes::find(&label.scheme).ok_or_else(|| ResizeError::Scheme(label.scheme.clone()))
}

/// Refuses a change that would move a block.
fn refuse_other_addresses(label: &Label, before: &Layout, after: &Layout) -> Result<(), ResizeError> {
    // The table of places would be written anew, with every range in its initial place.
    if before.places.is_some() || after.places.is_some() {
        return Err(ResizeError::OtherAddresses(label.name.clone()));
    }
    let Some((last, others)) = before.home.split_last() else { return Ok(()) };
    let kept = after.home.len() == before.home.len() && after.home[..others.len()] == *others;
    let alone = others.is_empty();
    match after.home.last() {
        Some(now) if kept && now.member == last.member && (alone || now.blocks.count >= last.blocks.count) => Ok(()),
        _ => Err(ResizeError::OtherAddresses(label.name.clone())),
    }
}

/// Refuses a smaller home if known content reaches beyond its new end.
fn refuse_content_behind(drives: &[&Labelled], before: &Layout, after: &Layout) -> Result<(), ResizeError> {
    let ([home], [new]) = (before.home.as_slice(), after.home.as_slice()) else { return Ok(()) };
    if new.blocks.count >= home.blocks.count {
        return Ok(());
    }
    let probe = &drives[usize::from(home.member.0)].probe;
    let io = |error| ResizeError::Io { path: probe.path.clone(), error };
    let drive = std::fs::File::open(&probe.canonical).map_err(io)?;
    judge_home(&drive, probe, after, new, is_foreign).map_err(io)??;
    Ok(())
}

/// Opens the volume with its present sizes, to check that no content is off home.
fn lock_drained(located: &Located) -> Result<VolumeLock, ResizeError> {
    let label = &located.assembly.label;
    let attached = attach::examine(located, Options { engine: Engine::Pool, ..Options::default() })?;
    if attached.volume.view().map.dirty_blocks() > 0 {
        return Err(ResizeError::NotDrained(label.name.clone()));
    }
    if attached.volume.has_lost_content() {
        return Err(ResizeError::LostContent(label.name.clone()));
    }
    Ok(attached.held.into_lock())
}

/// Locks a volume of version 1, which is not opened: the states on its homes tell whether it is
/// drained.
fn lock_drained_version_1(located: &Located, drives: &[&Labelled]) -> Result<VolumeLock, ResizeError> {
    let label = &located.assembly.label;
    let lock = lock_unchanged(&label.name, drives.iter().copied())?;
    let is_clean = |state: &State| !state.dirty && !state.migrating && state.refusing.is_none() && state.failed == 0;
    if !newest_state(located).is_some_and(|state| is_clean(&state)) {
        return Err(ResizeError::Version1NotDrained(label.name.clone()));
    }
    Ok(lock)
}

fn perform(step: Step, goal: &Label, drives: &[&Labelled], lock: &VolumeLock) -> Result<(), ResizeError> {
    let of = |member: MemberId| (lock.drives[usize::from(member.0)].file(), path_of(drives, member));
    match step {
        Step::Label(size, label) => {
            let (file, path) = of(label.index);
            labels::place(file, size, path, &label)?;
        }
        Step::Erase(member, range) => {
            let (file, path) = of(member);
            let zeroes = vec![0; range.len.bytes().0 as usize];
            let erased = file.write_all_at(&zeroes, range.start.0 * SECTOR_BYTES).and_then(|()| file.sync_all());
            erased.map_err(|error| ResizeError::Io { path: path.to_owned(), error })?;
        }
        Step::Format => {
            let life = random_life().map_err(no_random)?;
            let operations = volume::format_again(&plan_of(goal)?.config(), life)?;
            startup::format(operations, &mut open(drives)?)?;
        }
    }
    Ok(())
}

/// Collects the totals of the drives from all possible places. Writes the totals to the drives'
/// ends, until they get their new place.
fn carry_lifetimes(
    label: &Label,
    spans: &[Span],
    drives: &[&Labelled],
    lock: &VolumeLock,
) -> Result<Vec<Lifetime>, ResizeError> {
    let volume = label.volume.identity();
    let mut lifetimes = Vec::new();
    for (at, (span, drive)) in spans.iter().zip(drives).enumerate() {
        let (file, path) = (lock.drives[at].file(), &drive.probe.path);
        let mut newest = Lifetime::default();
        for size in [span.found, span.goal, span.drive] {
            let noted = labels::read_lifetime(file, size, path, volume).unwrap_or_default();
            newest = if noted.sequence > newest.sequence { noted } else { newest };
        }
        labels::write_lifetime(file, span.drive, path, volume, newest)?;
        lifetimes.push(newest);
    }
    Ok(lifetimes)
}

fn keep_lifetimes(
    goal: &Label,
    lifetimes: &[Lifetime],
    drives: &[&Labelled],
    lock: &VolumeLock,
) -> Result<(), ResizeError> {
    for (at, (lifetime, member)) in lifetimes.iter().zip(&goal.members).enumerate() {
        let (file, path) = (lock.drives[at].file(), &drives[at].probe.path);
        labels::write_lifetime(file, member.size, path, goal.volume.identity(), *lifetime)?;
    }
    Ok(())
}

/// Collects the report from all possible places. Writes the report to the drives' ends, until it
/// gets its new place.
fn carry_report(label: &Label, spans: &[Span], drives: &[&Labelled], lock: &VolumeLock) -> Result<Report, ResizeError> {
    let mut pages: Vec<Pages> = Vec::new();
    for (at, (span, drive)) in spans.iter().zip(drives).enumerate() {
        let (file, path) = (lock.drives[at].file(), &drive.probe.path);
        pages.push(report::read(file, span.found, path)?);
        for size in [span.goal, span.drive] {
            // A place without a report may have any content.
            let found = report::read(file, size, path)?;
            let written =
                |page: Option<Page>| page.filter(|page| Report::decode(page).is_ok()).or(Some([0; PAGE_BYTES]));
            pages.push(found.map(|copies| copies.map(written)));
        }
    }
    let report = report::newest(label, &pages);
    for (at, (span, drive)) in spans.iter().zip(drives).enumerate() {
        report::place(lock.drives[at].file(), span.drive, &drive.probe.path, label.volume.identity(), &report)?;
    }
    Ok(report)
}

fn keep_report(goal: &Label, report: &Report, drives: &[&Labelled], lock: &VolumeLock) -> Result<(), ResizeError> {
    for (at, member) in goal.members.iter().enumerate() {
        let (file, path) = (lock.drives[at].file(), &drives[at].probe.path);
        report::place(file, member.size, path, goal.volume.identity(), report)?;
    }
    Ok(())
}

fn path_of<'a>(drives: &[&'a Labelled], member: MemberId) -> &'a Path {
    &drives[usize::from(member.0)].probe.path
}

fn open(drives: &[&Labelled]) -> Result<Vec<Box<dyn Drive>>, ResizeError> {
    let open = |drive: &&Labelled| {
        let file = DriveFile::open(&drive.probe.canonical)?;
        drive::attach(file, Engine::Pool).map_err(|error| ResizeError::Io { path: drive.probe.path.clone(), error })
    };
    drives.iter().map(open).collect()
}
