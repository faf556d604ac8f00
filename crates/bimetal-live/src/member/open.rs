//! Opening a volume that was found: its drives are locked, labelled anew with who is there, and its guard is raised.
//!
//! [`Opened`] owns the locks and the label while the volume is in use. The drives that operations go to are opened beside
//! it ([`Opened::drives`]), so that a drive may be emulated; the guarded one is wrapped here. After a drain, when the drives are
//! given back, [`Opened::lower_guard`] makes the home drive a plain one again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bimetal_core::guard::change::{Answer, Change, ChangeError, Step};
use bimetal_core::guard::header::header;
use bimetal_core::guard::{Area, GUARDED};
use bimetal_core::label::assembly::Absent;
use bimetal_core::label::{Guard, Label};
use bimetal_core::layout::{LayoutRequest, MemberId, MemberInfo};
use bimetal_core::nearest::nearest;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_core::settings::{SettingError, Settings};
use bimetal_core::units::{SECTOR_BYTES, SectorRange};
use bimetal_core::volume::VolumeConfig;
use rustix::io::Errno;

use super::create::{random, seconds_since_1970};
use super::find::Located;
use super::labels::{self, LabelError};
use super::lock::{LockError, VolumeLock};
use super::probe::Probe;
use crate::drive::Drive;
use crate::drive::file::{DriveFile, OpenError};
use crate::drive::guarded::Guarded;

/// Why a volume cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenVolumeError {
    /// Its label names a scheme that this program does not have.
    #[error("volume '{name}' has the scheme '{scheme}', which this program does not have{}", known(.scheme))]
    Scheme {
        /// The volume.
        name: String,
        /// The scheme.
        scheme: String,
    },
    /// Its label has a setting that the scheme does not take.
    #[error("volume '{name}': {error}")]
    Setting {
        /// The volume.
        name: String,
        /// Which, and why.
        error: SettingError,
    },
    /// A drive is in use, mounted or part of another device.
    #[error("{}: is in use: {uses}", path.display())]
    InUse {
        /// The drive.
        path: PathBuf,
        /// By whom, and what ends it.
        uses: String,
    },
    /// Somebody has the volume or one of its drives.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A label cannot be written.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The guard cannot be raised or lowered.
    #[error("{}: {error}", path.display())]
    Guard {
        /// The drive.
        path: PathBuf,
        /// Why not.
        error: ChangeError,
    },
    /// A drive cannot be opened for its operations.
    #[error(transparent)]
    Drive(#[from] OpenError),
    /// A drive or the system fails.
    #[error("{}: {error}", path.display())]
    Io {
        /// What fails.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

fn known(scheme: &str) -> String {
    let near = nearest(scheme, schemes::ALL.iter().map(|info| info.name));
    near.map(|near| format!(": a newer bimetal may (the nearest is {near})")).unwrap_or_default()
}

/// A member that is there.
#[derive(Debug)]
struct Present {
    id: MemberId,
    probe: Probe,
    next_page: usize,
}

/// A volume in our hands.
pub struct Opened {
    label: Label,
    scheme: &'static SchemeInfo,
    settings: Settings,
    members: Vec<MemberInfo>,
    absent: Vec<Absent>,
    present: Vec<Present>,
    lock: VolumeLock,
}

impl Opened {
    /// Locks the members that are there, writes the next generation of their labels, and raises the guard. Whether the
    /// volume can do without those that are not is for the engine's recovery to say.
    ///
    /// # Errors
    /// A drive is in use or fails, the label cannot be used, or the guarded drive was written by somebody else.
    pub fn open(located: &Located) -> Result<Self, OpenVolumeError> {
        let old = &located.assembly.label;
        let name = || old.name.clone();
        let scheme = schemes::find(&old.scheme)
            .ok_or_else(|| OpenVolumeError::Scheme { name: name(), scheme: old.scheme.clone() })?;
        let settings = Settings::new(scheme.name, scheme.parameters, old.scheme_settings())
            .map_err(|error| OpenVolumeError::Setting { name: name(), error })?;
        let present: Vec<Present> = located
            .members()
            .enumerate()
            .filter_map(|(at, drive)| {
                let drive = drive?;
                Some(Present { id: MemberId(at as u16), probe: drive.probe.clone(), next_page: drive.next_page })
            })
            .collect();
        let lock = lock(&old.name, &present)?;
        let found = located.found();
        let label = located.assembly.next_label(&found, seconds_since_1970(), writing()?);
        let (members, absent) = (label.member_infos(), located.assembly.absent(&found));
        let mut opened = Self { label, scheme, settings, members, absent, present, lock };
        opened.write_labels()?;
        opened.move_guard(Guard::Up)?;
        Ok(opened)
    }

    /// What stands on the drives.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What the engine makes the volume from.
    pub fn config(&self) -> VolumeConfig<'_> {
        let layout = LayoutRequest { block: self.label.block, members: &self.members, units: &self.label.units };
        VolumeConfig { scheme: self.scheme, settings: &self.settings, layout, identity: self.label.volume.identity() }
    }

    /// The members that are not there, or behind.
    pub fn absent(&self) -> &[Absent] {
        &self.absent
    }

    /// For each member, in order, the drive that its operations go to; none for one that is not there. `attach` makes a
    /// drive of a member's open file.
    ///
    /// # Errors
    /// A drive cannot be opened.
    pub fn drives(
        &self,
        mut attach: impl FnMut(MemberId, DriveFile) -> io::Result<Box<dyn Drive>>,
    ) -> Result<Vec<Option<Box<dyn Drive>>>, OpenVolumeError> {
        let mut drives: Vec<Option<Box<dyn Drive>>> = self.members.iter().map(|_| None).collect();
        for Present { id, probe, .. } in &self.present {
            let file = DriveFile::open(&probe.canonical)?;
            let io = |error| OpenVolumeError::Io { path: probe.path.clone(), error };
            let mut drive = attach(*id, file).map_err(io)?;
            if let Some(area) = self.label.area_of(*id) {
                drive = Box::new(Guarded::new(drive, area));
            }
            drives[usize::from(id.0)] = Some(drive);
        }
        Ok(drives)
    }

    /// Makes the home drive a plain one again. Only after a drain, with all drives flushed and given back. Ask for
    /// [`raise_guard`](Self::raise_guard) before serving again.
    ///
    /// # Errors
    /// A drive fails. Nothing is lost; it can be tried again.
    pub fn lower_guard(&mut self) -> Result<(), OpenVolumeError> {
        self.move_guard(Guard::Down)
    }

    /// Has the beginning of the home drive lie elsewhere; done already when a volume is opened.
    ///
    /// # Errors
    /// A drive fails, or somebody else wrote to it.
    pub fn raise_guard(&mut self) -> Result<(), OpenVolumeError> {
        self.move_guard(Guard::Up)
    }

    /// Writes the next generation of the labels to all that are there, changed by `change`: settings, or the guard.
    ///
    /// # Errors
    /// A label cannot be written; some may have been.
    pub fn relabel(&mut self, change: impl FnOnce(&mut Label)) -> Result<(), OpenVolumeError> {
        let carried = self.label.writing;
        let there = self.present.iter().map(|member| (member.id, carried));
        let mut label = self.label.next(seconds_since_1970(), writing()?, there);
        change(&mut label);
        self.label = label;
        self.write_labels()
    }

    /// The guarded drive's label first: what it says of itself is what counts when it is alone.
    fn write_labels(&mut self) -> Result<(), OpenVolumeError> {
        let guarded = self.label.guard.map(|(member, _)| member);
        let mut order: Vec<usize> = (0..self.present.len()).collect();
        order.sort_by_key(|&at| Some(self.present[at].id) != guarded);
        for at in order {
            let Present { id, probe, next_page } = &mut self.present[at];
            let (file, size) = (self.lock.drives[at].file(), self.label.members[usize::from(id.0)].size);
            *next_page = labels::write(file, size, &probe.path, &self.label.of(*id), *next_page)?;
        }
        Ok(())
    }

    fn move_guard(&mut self, goal: Guard) -> Result<(), OpenVolumeError> {
        let Some((member, now)) = self.label.guard else { return Ok(()) };
        let Some(at) = self.present.iter().position(|present| present.id == member) else { return Ok(()) };
        let Some(area) = self.label.area_of(member) else { return Ok(()) };
        let path = self.present[at].probe.path.clone();
        let mut change = begin(area, now, goal, &self.label.of(member));
        loop {
            let answer = match change.next() {
                Step::Finished => return Ok(()),
                Step::Label(guard) => {
                    self.relabel(|label| label.guard = Some((member, guard)))?;
                    Answer::Done
                }
                step => perform(self.lock.drives[at].file(), step)
                    .map_err(|error| OpenVolumeError::Io { path: path.clone(), error })?,
            };
            change.answer(answer).map_err(|error| OpenVolumeError::Guard { path: path.clone(), error })?;
        }
    }
}

/// That another process has the volume says more than that its drives are in use, and what a drive is used for more than
/// that it is.
fn lock(name: &str, present: &[Present]) -> Result<VolumeLock, OpenVolumeError> {
    let lock = VolumeLock::take(name, present.iter().map(|member| &member.probe));
    if !matches!(lock, Err(LockError::Volume { .. })) {
        for Present { probe, .. } in present {
            if let Some(first) = probe.uses.first() {
                return Err(OpenVolumeError::InUse { path: probe.path.clone(), uses: first.describe() });
            }
        }
    }
    Ok(lock?)
}

fn begin(area: Area, now: Guard, goal: Guard, label: &Label) -> Change {
    let header = header(label, GUARDED.bytes().0 as usize);
    match goal {
        Guard::Up => Change::raise(area, now, header),
        Guard::Down => Change::lower(area, now, header),
    }
}

fn perform(file: &File, step: Step) -> io::Result<Answer> {
    match step {
        Step::Read(SectorRange { start, len }) => {
            let mut bytes = vec![0; len.bytes().0 as usize];
            match file.read_exact_at(&mut bytes, start.bytes().0) {
                Ok(()) => Ok(Answer::Bytes(bytes)),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(Answer::Unreadable),
                Err(error) => Err(error),
            }
        }
        Step::Write(from, bytes) => file.write_all_at(&bytes, from * SECTOR_BYTES).map(|()| Answer::Done),
        Step::Flush => file.sync_all().map(|()| Answer::Done),
        Step::Label(_) | Step::Finished => Ok(Answer::Done),
    }
}

fn writing() -> Result<u64, OpenVolumeError> {
    let random = random().map_err(|error| OpenVolumeError::Io { path: PathBuf::from("/dev/urandom"), error })?;
    Ok(u64::from_le_bytes(random))
}
