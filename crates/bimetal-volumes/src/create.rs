//! Creation of a volume from drives: the drives are examined, locked and judged, and only then
//! written. Labels come last.
//!
//! Nothing is written before every drive has passed these checks. After the checks, content that
//! the user allowed to erase is erased, the engine's metadata is formatted and flushed, and the
//! drives are labelled in turn. If a step fails, the labels written so far are erased, so that an
//! incomplete volume is never found. The error lists the drives that were written.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bimetal_core::block::BlockSize;
use bimetal_core::guard::GUARDED;
use bimetal_core::label::page::{PAGE_BYTES, TooLongError, decode};
use bimetal_core::label::places::CopyPlace;
use bimetal_core::label::{Format, Guard, Label, MemberLabel, NameError, Uuid, check_name, tail_start, usable};
use bimetal_core::layout::{LABEL_SECTORS, Layout, LayoutError, LayoutRequest, MemberId, MemberInfo, Role};
use bimetal_core::scheme::{SchemeError, SchemeInfo};
use bimetal_core::settings::{SettingError, Settings};
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};
use bimetal_core::volume::{self, VolumeConfig, VolumeError};
use bimetal_device::drive::file::DriveFile;
use bimetal_device::drive::{Engine, attach};
use bimetal_device::lock::DriveLock;
use bimetal_device::page::Aligned;
use bimetal_device::probe::{Probe, ProbeError, probe};

use crate::find::{Scan, content};
use crate::labels;
use crate::memory::{TooLittleMemory, refuse_too_little};
use crate::registry;
use crate::startup::{self, StartupError};
use crate::system::{random, seconds_since_1970};
use crate::verdict;
use crate::verdict::{Purpose, Refusal, Verdict, judge};
use crate::volume_lock::{VolumeLock, VolumeLockError};

/// Drive that is to be a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveChoice {
    /// Role of the member.
    pub role: Role,
    /// Path of a block device or a regular file.
    pub path: PathBuf,
    /// Profile of the drive that the member emulates.
    pub emulates: Option<String>,
}

/// Volume that is to be created.
#[derive(Clone)]
pub struct Request {
    /// Name of the volume.
    pub name: String,
    /// Scheme of the volume.
    pub scheme: &'static SchemeInfo,
    /// Settings of the scheme, and of emulated drives (`hdd.volatile_cache`).
    pub settings: Vec<(String, String)>,
    /// Size of a block.
    pub block: BlockSize,
    /// Drives, in the order of the members.
    pub drives: Vec<DriveChoice>,
    /// Set if existing content of the drives may be erased.
    pub force: bool,
    /// Set if the drives are only checked, and nothing is written.
    pub dry_run: bool,
    /// Name and version of the program.
    pub created_by: String,
}

/// Volume that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// Label on the drives of the new volume.
    pub label: Label,
    /// Layout of the volume.
    pub layout: Layout,
    /// Drives, in the order of the members, with the verdict about their former content.
    pub drives: Vec<(PathBuf, Verdict)>,
    /// Error for which the files among the drives cannot be found by the volume's name.
    pub forgotten: Option<String>,
}

/// Reasons for which no volume is created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The volume's map does not fit into memory.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// The name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A volume has this name already.
    #[error("volume '{name}' exists already, on {path}: choose another name")]
    NameTaken {
        /// Name of both volumes.
        name: String,
        /// Path of a drive of the existing volume.
        path: String,
    },
    /// A setting is not valid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The scheme cannot use the given drives.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The volume is not possible.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A parameter acts in simulations only, so a volume would ignore its value.
    #[error("{key}={value} acts in a simulation only: {reason}: leave --set {key} out")]
    Ignored {
        /// Name of the parameter.
        key: &'static str,
        /// Value that was given.
        value: String,
        /// Reason for which no volume follows the parameter.
        reason: &'static str,
    },
    /// The scheme does not use a drive.
    #[error("scheme {scheme} does not use {} beside the other drives: leave --{role} out", path.display())]
    Unused {
        /// Name of the scheme.
        scheme: &'static str,
        /// Role of the drive.
        role: &'static str,
        /// Path of the drive.
        path: PathBuf,
    },
    /// A path is not a drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Two paths lead to the same drive.
    #[error("{} and {} are the same drive, or one lies on the other: expected separate drives", first.display(), second.display())]
    SameDrive {
        /// First path.
        first: PathBuf,
        /// Second path.
        second: PathBuf,
    },
    /// A drive is in use. `--force` does not permit this use of the drive.
    #[error("{}", in_use(path, .uses))]
    InUse {
        /// Path of the drive.
        path: PathBuf,
        /// Uses of the drive, and the commands that end them.
        uses: Vec<String>,
    },
    /// A drive cannot be written.
    #[error("{}: is read-only: expected a writable drive", path.display())]
    ReadOnly {
        /// Path of the drive.
        path: PathBuf,
    },
    /// The sectors of a drive are larger than a volume can use.
    #[error("{}: has sectors of {sector} bytes: expected at most 4096", path.display())]
    SectorSize {
        /// Path of the drive.
        path: PathBuf,
        /// Size of the sectors.
        sector: u32,
    },
    /// Existing content of a drive is in the way.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A drive or the name is locked.
    #[error(transparent)]
    Lock(#[from] VolumeLockError),
    /// The settings do not fit on the label.
    #[error(transparent)]
    TooLong(#[from] TooLongError),
    /// A drive failed while it was examined.
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The system gives no random numbers.
    #[error("no random number for a UUID: {0}")]
    Random(io::Error),
    /// A drive failed while it was written.
    #[error("no volume was made: {}: {error}. {}", path.display(), written(.erased, .labelled))]
    Write {
        /// Path of the drive.
        path: PathBuf,
        /// Description of the failure.
        error: String,
        /// Drives whose content was erased already.
        erased: Vec<PathBuf>,
        /// Drives whose new label could not be erased.
        labelled: Vec<PathBuf>,
    },
}

fn in_use(path: &Path, uses: &[String]) -> String {
    let mut text = format!("{}: is in use, so it cannot be a drive of a volume", path.display());
    for one in uses {
        let _ = write!(text, "\n  {one}");
    }
    text
}

fn written(erased: &[PathBuf], labelled: &[PathBuf]) -> String {
    let list = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut text = match erased {
        [] => "No content of the drives was erased".to_owned(),
        paths => format!("The content of {} is erased", list(paths)),
    };
    match labelled {
        [] => text.push_str("; no drive is labelled"),
        paths => {
            let _ = write!(text, "; the label on {} could not be removed: --force writes over it", list(paths));
        }
    }
    text
}

/// Drive that was examined and locked.
pub(super) struct Checked {
    pub(super) probe: Probe,
    pub(super) capacity: Sectors,
    pub(super) lock: DriveLock,
    pub(super) verdict: Verdict,
}

/// Creates the volume.
///
/// # Errors
/// Fails if a drive may not be used, if the scheme cannot use it, or if a write fails.
pub fn create(request: &Request) -> Result<Created, CreateError> {
    check_name(&request.name)?;
    let probes = look_at_drives(request)?;
    let mut label = label_of(request, &probes)?;
    let settings = Settings::new(request.scheme.name, request.scheme.parameters, label.scheme_settings())?;
    refuse_ignored(request)?;
    let mut layout = lay_out(request, &settings, &label.member_infos())?;
    label.guard = guarded(&layout).map(|member| (member, Guard::Down));
    if let Some((member, _)) = label.guard {
        refuse_without_area(&label, member)?;
        layout = lay_out(request, &settings, &label.member_infos())?;
    }
    refuse_idle_drives(request, &layout)?;
    refuse_taken_name(request, &probes)?;
    let lock = VolumeLock::take(&request.name, &probes)?;
    let drives = judge_drives(request, &layout, probes, lock.drives)?;
    if request.dry_run {
        let drives = drives.into_iter().map(|drive| (drive.probe.path, drive.verdict)).collect();
        return Ok(Created { label, layout, drives, forgotten: None });
    }
    write(request, &settings, &label, &drives)?;
    let files = drives.iter().filter(|drive| drive.probe.is_file()).map(|drive| drive.probe.canonical.clone());
    let remembered = registry::remember(&files.collect::<Vec<_>>());
    let remembered = remembered.and_then(|_| registry::remember_sizes(&label));
    let drives = drives.into_iter().map(|drive| (drive.probe.path, drive.verdict)).collect();
    Ok(Created { label, layout, drives, forgotten: remembered.err().map(|error| error.to_string()) })
}

fn look_at_drives(request: &Request) -> Result<Vec<Probe>, CreateError> {
    let mut probes: Vec<Probe> = Vec::new();
    for choice in &request.drives {
        let probe = probe(&choice.path)?;
        let path = probe.path.clone();
        if let Some(other) = probes.iter().find(|other| other.overlaps(&probe) || probe.overlaps(other)) {
            return Err(CreateError::SameDrive { first: other.path.clone(), second: path });
        }
        if !probe.uses.is_empty() {
            let uses = probe.uses.iter().map(|one| one.describe()).collect();
            return Err(CreateError::InUse { path, uses });
        }
        if probe.read_only {
            return Err(CreateError::ReadOnly { path });
        }
        if probe.logical_sector > 4096 {
            return Err(CreateError::SectorSize { path, sector: probe.logical_sector });
        }
        probes.push(probe);
    }
    Ok(probes)
}

/// Returns the member that alone is home of addresses whose newest content may be on another
/// member.
fn guarded(layout: &Layout) -> Option<MemberId> {
    let slots = layout.slots?;
    let mut homes = layout.home.iter().filter(|home| home.member != slots.member);
    match (homes.next(), homes.next()) {
        (Some(home), None) if home.first_sector == 0 => Some(home.member),
        _ => None,
    }
}

fn refuse_without_area(label: &Label, member: MemberId) -> Result<(), CreateError> {
    if label.area_of(member).is_some() {
        return Ok(());
    }
    let MemberLabel { role, size, .. } = label.members[usize::from(member.0)];
    let needed = Sectors(3 * GUARDED.0 + LABEL_SECTORS + label.block.sectors()).bytes();
    let reason = " to keep its beginning safe while the volume is attached";
    Err(SchemeError::from(LayoutError::TooSmall { role, needed, available: size.bytes(), reason }).into())
}

/// Refuses a drive that the scheme does not use: the user expects the drive to be used.
fn refuse_idle_drives(request: &Request, layout: &Layout) -> Result<(), CreateError> {
    for (at, choice) in request.drives.iter().enumerate() {
        let member = MemberId(at as u16);
        let holds = layout.home.iter().map(|home| home.member).chain(layout.slots.map(|slots| slots.member));
        if !holds.into_iter().any(|used| used == member) {
            let (scheme, role, path) = (request.scheme.name, choice.role.name(), choice.path.clone());
            return Err(CreateError::Unused { scheme, role, path });
        }
    }
    Ok(())
}

fn label_of(request: &Request, probes: &[Probe]) -> Result<Label, CreateError> {
    let (now, writing) = (seconds_since_1970(), u64::from_le_bytes(random().map_err(CreateError::Random)?));
    let mut members = Vec::new();
    for (choice, probe) in request.drives.iter().zip(probes) {
        members.push(MemberLabel {
            uuid: Uuid::from_random(random().map_err(CreateError::Random)?),
            role: choice.role,
            size: usable(probe.size),
            emulates: choice.emulates.clone(),
            seen_in: writing,
            carried: writing,
            last_seen: now,
        });
    }
    let label = Label {
        volume: Uuid::from_random(random().map_err(CreateError::Random)?),
        name: request.name.clone(),
        index: MemberId(0),
        members,
        scheme: request.scheme.name.to_owned(),
        settings: request.settings.clone(),
        block: request.block,
        units: Vec::new(),
        guard: None,
        resizing: false,
        format: Format::NEWEST,
        second_tail: true,
        compatible: 0,
        generation: 1,
        writing,
        written: now,
        created_by: request.created_by.clone(),
    };
    bimetal_core::label::page::encode(&label)?;
    Ok(label)
}

/// Refuses parameters that only a simulation follows.
fn refuse_ignored(request: &Request) -> Result<(), CreateError> {
    let given = request.settings.iter().rev();
    let mut ignored = given.filter_map(|(name, value)| {
        let parameter = request.scheme.parameters.iter().find(|parameter| parameter.name == name)?;
        Some(CreateError::Ignored { key: parameter.name, value: value.clone(), reason: parameter.simulated? })
    });
    ignored.next().map_or(Ok(()), Err)
}

fn lay_out(request: &Request, settings: &Settings, members: &[MemberInfo]) -> Result<Layout, CreateError> {
    let layout = (request.scheme.layout)(settings, &LayoutRequest { block: request.block, members, units: &[] })?;
    refuse_too_little(request.scheme, &layout)?;
    if let Some(reason) = (request.scheme.build)(settings, &layout)?.why_only_simulated() {
        return Err(VolumeError::OnlySimulated(reason).into());
    }
    Ok(layout)
}

/// Refuses a name that another volume has: users could tell the two volumes apart only by the paths
/// of their drives.
fn refuse_taken_name(request: &Request, probes: &[Probe]) -> Result<(), CreateError> {
    let scan = Scan::of_machine();
    let others = scan.drives.iter().filter(|drive| drive.found.label.name == request.name);
    let mut others = others.filter(|drive| probes.iter().all(|probe| probe.identity != drive.probe.identity));
    match others.next() {
        Some(drive) => Err(CreateError::NameTaken { name: request.name.clone(), path: drive.found.path.clone() }),
        None => Ok(()),
    }
}

fn judge_drives(
    request: &Request,
    layout: &Layout,
    probes: Vec<Probe>,
    locks: Vec<DriveLock>,
) -> Result<Vec<Checked>, CreateError> {
    let mut drives = Vec::new();
    for (at, (probe, lock)) in probes.into_iter().zip(locks).enumerate() {
        let read = |error| CreateError::Read { path: probe.path.clone(), error };
        let (signatures, _) = content(&probe, lock.file()).map_err(read)?;
        let purpose = purpose_of(layout, MemberId(at as u16));
        let drive =
            verdict::Drive { path: &probe.path, is_file: probe.is_file(), size: probe.size, is_member: false, purpose };
        let verdict = judge(&drive, &signatures, request.force)?;
        drives.push(Checked { capacity: usable(probe.size), probe, lock, verdict });
    }
    Ok(drives)
}

fn purpose_of(layout: &Layout, member: MemberId) -> Purpose {
    match layout.home.as_slice() {
        [home] if home.member == member && home.first_sector == 0 => {
            Purpose::Home(Sectors(home.blocks.count * layout.block.sectors()).bytes())
        }
        homes if homes.iter().any(|home| home.member == member) => Purpose::PartOfHome,
        _ => Purpose::Slots,
    }
}

/// Erases, formats and labels the drives, in this order. An error names the drive, and the labels
/// written so far are erased.
fn write(request: &Request, settings: &Settings, label: &Label, drives: &[Checked]) -> Result<(), CreateError> {
    let mut erased = Vec::new();
    let fail = |path: &Path, error: String, erased: &[PathBuf], labelled: Vec<PathBuf>| CreateError::Write {
        path: path.to_owned(),
        error,
        erased: erased.to_vec(),
        labelled,
    };
    for drive in drives {
        if matches!(drive.verdict, Verdict::Erased(_)) {
            erased.push(drive.probe.path.clone());
        }
        erase(drive).map_err(|error| fail(&drive.probe.path, error.to_string(), &erased, Vec::new()))?;
    }
    format(request, settings, label, drives).map_err(|(path, error)| fail(&path, error, &erased, Vec::new()))?;
    for (at, drive) in drives.iter().enumerate() {
        let own = label.of(MemberId(at as u16));
        if let Err(error) = labels::place(drive.lock.file(), drive.capacity, &drive.probe.path, &own) {
            let standing = drives[..=at].iter().enumerate();
            let standing = standing.filter(|(at, drive)| take_back(drive, &label.of(MemberId(*at as u16))).is_err());
            let standing = standing.map(|(_, drive)| drive);
            let labelled = standing.map(|drive| drive.probe.path.clone()).collect();
            return Err(fail(&drive.probe.path, error.to_string(), &erased, labelled));
        }
    }
    Ok(())
}

/// Writes the metadata of an empty volume, and waits until it is stable.
fn format(request: &Request, settings: &Settings, label: &Label, drives: &[Checked]) -> Result<(), (PathBuf, String)> {
    let members = label.member_infos();
    let layout = LayoutRequest { block: request.block, members: &members, units: &label.units };
    let (scheme, identity, numbers) = (request.scheme, label.volume.identity(), label.drives());
    let config = VolumeConfig { scheme, settings, layout, identity, drives: &numbers };
    let of = |at: usize, error: String| (drives[at].probe.path.clone(), error);
    let operations = volume::format(&config).map_err(|error| of(0, error.to_string()))?;
    let mut open = Vec::new();
    for (at, drive) in drives.iter().enumerate() {
        let file = DriveFile::open(&drive.probe.canonical).map_err(|error| of(at, error.to_string()))?;
        open.push(attach(file, Engine::Pool).map_err(|error| of(at, error.to_string()))?);
    }
    startup::format(operations, &mut open).map_err(|error| match error {
        StartupError::Format { member, kind, status } => of(usize::from(member), format!("{kind:?}: {status:?}")),
        error => of(0, error.to_string()),
    })
}

/// Size of the area that is erased at either end of a drive, because it may contain signatures.
const ERASED: Bytes = Bytes::from_mib(1);

/// Erases former content of the drive, if the user allowed it, and clears its tail.
pub(super) fn erase(drive: &Checked) -> io::Result<()> {
    if matches!(drive.verdict, Verdict::Erased(_)) {
        let (size, span) = (drive.probe.size.0, ERASED.0.min(drive.probe.size.0));
        zero(drive.lock.file(), 0, span)?;
        zero(drive.lock.file(), size - span, span)?;
        erase_label(drive, &CopyPlace::ALL)?;
    }
    if let Verdict::Adopted { end, .. } = drive.verdict {
        erase_label(drive, &label_places_behind(drive, end))?;
    }
    clear_own_tail(drive)
}

/// Returns the places behind a file system that have a page of a former label.
fn label_places_behind(drive: &Checked, end: Bytes) -> Vec<CopyPlace> {
    let has_label = |at: &SectorRange| {
        let mut page = Box::new(Aligned([0; PAGE_BYTES]));
        let read = drive.lock.file().read_exact_at(&mut page.0, at.start.0 * SECTOR_BYTES);
        read.is_ok() && decode(&page.0).is_ok()
    };
    let is_left = |place: &CopyPlace| {
        let pages = place.pages(drive.capacity).filter(|[first, _]| first.start.0 * SECTOR_BYTES >= end.0);
        pages.is_some_and(|pages| pages.iter().any(has_label))
    };
    CopyPlace::ALL.into_iter().filter(is_left).collect()
}

/// Erases the label that was written to a drive, in both its places.
fn take_back(drive: &Checked, label: &Label) -> io::Result<()> {
    erase_label(drive, &[label.second_copy(drive.capacity)])?;
    clear_own_tail(drive)
}

fn erase_label(drive: &Checked, places: &[CopyPlace]) -> io::Result<()> {
    labels::erase(drive.lock.file(), drive.capacity, &drive.probe.path, places).map_err(|error| match error {
        labels::LabelError::Io { error, .. } => error,
        other => io::Error::other(other),
    })
}

fn clear_own_tail(drive: &Checked) -> io::Result<()> {
    clear_tail(drive.lock.file(), drive.capacity, drive.probe.size)
}

/// Clears the tail of a drive of `size`, up to byte `end`.
pub(super) fn clear_tail(file: &File, size: Sectors, end: Bytes) -> io::Result<()> {
    let start = tail_start(size).map_or(0, |start| start.0 * SECTOR_BYTES);
    zero(file, start, end.0 - start)?;
    file.sync_all()
}

fn zero(file: &File, from: u64, length: u64) -> io::Result<()> {
    let zeroes = vec![0; length as usize];
    file.write_all_at(&zeroes, from)
}
