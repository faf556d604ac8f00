//! A volume by its name or by the path of any of its drives.
//!
//! Labels are looked for on every block device and on the files that are remembered or named; where members are still
//! missing, on the files beside the one that was named. Never by the name of a device. Which labels make a volume is core's
//! ([`bimetal_core::label::assembly`]).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bimetal_core::label::assembly::{Assembly, AssemblyError, Found, Seat, assemble, named};
use bimetal_core::label::resize::search;
use bimetal_core::label::{Uuid, usable};
use bimetal_core::units::{Bytes, Sectors};

use super::labels::{self, LabelError};
use super::probe::{self, Kind, Probe, ProbeError, probe};
use super::registry;
use rustix::process::geteuid;

/// Why a volume is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Its labels make no volume.
    #[error("{error}{}", not_looked_at(.unreadable))]
    Assembly {
        /// Why.
        error: Box<AssemblyError>,
        /// Block devices that could not be looked at.
        unreadable: Vec<String>,
    },
    /// The path that was named is no drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The drive that was named has no label.
    #[error(
        "{error} (if the drive has grown by more than {GROWN_BY_MAX}, `bimetal resize {}` finds it; if another program has \
         written over it, `bimetal rescue VOLUME` does)", path.display()
    )]
    Label {
        /// The drive.
        path: PathBuf,
        /// Why not.
        error: LabelError,
    },
    /// The drive that was named was replaced.
    #[error(
        "{} was a drive of volume '{name}' once and has been replaced: name another drive of the volume, or make this one \
         a new drive with --force", path.display()
    )]
    Former {
        /// The drive.
        path: PathBuf,
        /// Its volume.
        name: String,
    },
}

fn not_looked_at(devices: &[String]) -> String {
    match devices {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let remedy = if geteuid().is_root() { "" } else { " (use sudo)" };
            format!(". Not looked at, for want of permission: {first}{more}{remedy}")
        }
    }
}

/// A drive with a label.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The drive.
    pub probe: Probe,
    /// Its label, as core takes it.
    pub found: Found,
    /// The turn that the next label takes.
    pub next_turn: usize,
    /// Whether only second copies of its label are left: another program has written over the drive's end.
    pub by_second_copy: bool,
}

/// A volume that was found.
#[derive(Clone, Debug)]
pub struct Located {
    /// What its labels say, and who is there.
    pub assembly: Assembly,
    /// The drives with a label of it.
    pub drives: Vec<Labelled>,
    /// Drives that were looked at and have no label of any volume.
    pub unlabelled: Vec<Probe>,
}

impl Located {
    /// The labels, in the order of [`drives`](Self::drives), as [`assembly`](Self::assembly) counts them.
    pub fn found(&self) -> Vec<Found> {
        self.drives.iter().map(|drive| drive.found.clone()).collect()
    }

    /// For each member, in order, the drive in its seat.
    pub fn members(&self) -> impl Iterator<Item = Option<&Labelled>> {
        self.assembly.seats.iter().map(|seat| match *seat {
            Seat::Taken(at) => self.drives.get(at),
            Seat::Behind(_) | Seat::Empty => None,
        })
    }
}

/// What a look at all drives gave.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Drives with a label.
    pub drives: Vec<Labelled>,
    /// Drives without one at their end, or where the labels of others say that one may lie.
    unlabelled: Vec<Probe>,
    /// Block devices that could not be looked at.
    pub unreadable: Vec<String>,
}

impl Scan {
    /// Looks at every block device, and at the files that are remembered.
    pub fn of_machine() -> Self {
        let mut scan = Self::default();
        // A drive of which another device is made is looked at through that.
        for name in probe::block_devices().into_iter().filter(|name| !probe::has_holders(name)) {
            scan.look_at(&Path::new("/dev").join(name));
        }
        for path in registry::files() {
            scan.look_at(&path);
        }
        scan.look_for_grown();
        scan.drop_doubles();
        scan
    }

    /// Looks again at drives without a label at their end: the labels of others tell how large
    /// members were, and so does what is remembered of drives that were files or devices of this
    /// machine.
    fn look_for_grown(&mut self) {
        let mut hints = self.sizes();
        hints.extend(registry::sizes());
        hints.sort();
        hints.dedup();
        for probe in std::mem::take(&mut self.unlabelled) {
            match look_at_label(probe, &hints) {
                Ok(drive) => self.add(drive),
                Err(LookError::Label(probe, _)) => self.unlabelled.push(*probe),
                Err(LookError::Probe(_)) => {}
            }
        }
    }

    /// Reads the ends of drives in which no label was found, for at most [`RUMMAGE_TIME`] in all:
    /// whether there was one.
    fn rummage(&mut self) -> bool {
        let until = Instant::now() + RUMMAGE_TIME;
        let before = self.drives.len();
        for probe in std::mem::take(&mut self.unlabelled) {
            let hint = match File::open(&probe.canonical) {
                Ok(drive) => labels::rummage_until(&drive, usable(probe.size), GROWN_BY_MAX, Some(until)),
                Err(_) => None,
            };
            match hint.and_then(|size| look_at_label(probe.clone(), &[size]).ok()) {
                Some(drive) => self.add(drive),
                None => self.unlabelled.push(probe),
            }
        }
        // The label of one that was found says how large the others were.
        self.look_for_grown();
        self.drop_doubles();
        self.drives.len() > before
    }

    /// Looks at one more path; one without a label, or that is no drive, adds nothing.
    pub fn look_at(&mut self, path: &Path) {
        match look(path) {
            Ok(drive) => self.add(drive),
            Err(LookError::Probe(ProbeError::Io { error, .. })) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unreadable.push(path.display().to_string());
            }
            Err(LookError::Label(probe, _)) => self.add_unlabelled(*probe),
            Err(LookError::Probe(_)) => {}
        }
    }

    fn add_unlabelled(&mut self, probe: Probe) {
        if self.unlabelled.iter().all(|other| other.identity != probe.identity) {
            self.unlabelled.push(probe);
        }
    }

    fn add(&mut self, drive: Labelled) {
        if self.drives.iter().all(|other| other.probe.identity != drive.probe.identity) {
            self.drives.push(drive);
        }
    }

    /// A disk and its last partition may end together, and a file and the loop device over it are one: the label seen
    /// through both is one drive's, and the one of its size is meant.
    fn drop_doubles(&mut self) {
        let files: Vec<PathBuf> = self.drives.iter().map(|drive| drive.probe.canonical.clone()).collect();
        self.drives.retain(|drive| backing_file(&drive.probe).is_none_or(|file| !files.contains(&file)));
        let all = self.drives.clone();
        self.drives.retain(|drive| {
            let fits = |drive: &Labelled| drive.found.size == drive.found.label.own().size;
            let same =
                |other: &&Labelled| other.probe.identity != drive.probe.identity && other.probe.overlaps(&drive.probe);
            let twin = all.iter().filter(same).find(|other| other.found.label == drive.found.label);
            fits(drive) || !twin.is_some_and(fits)
        });
    }

    /// What all labels say of the sizes of members.
    fn sizes(&self) -> Vec<Sectors> {
        let labels = self.drives.iter().map(|drive| &drive.found.label);
        labels.flat_map(|label| label.members.iter().map(|member| member.size)).collect()
    }

    fn labels(&self) -> Vec<Found> {
        self.drives.iter().map(|drive| drive.found.clone()).collect()
    }
}

/// The file below a loop device.
fn backing_file(probe: &Probe) -> Option<PathBuf> {
    let Kind::Device(number) = probe.kind else { return None };
    let file = format!("/sys/dev/block/{}:{}/loop/backing_file", number.major, number.minor);
    fs::read_to_string(file).ok().map(|path| PathBuf::from(path.trim_end_matches('\n')))
}

enum LookError {
    Probe(ProbeError),
    /// With the drive that has none.
    Label(Box<Probe>, LabelError),
}

fn look(path: &Path) -> Result<Labelled, LookError> {
    look_at_label(probe(path).map_err(LookError::Probe)?, &[])
}

/// The label of a drive; `hints` are sizes at whose end it may lie, if it has grown.
fn look_at_label(probe: Probe, hints: &[Sectors]) -> Result<Labelled, LookError> {
    let path = probe.path.clone();
    let open = File::open(&probe.canonical);
    let drive = open.map_err(|error| LookError::Probe(ProbeError::Io { path: path.clone(), error }))?;
    let mut why = None;
    let found = search(usable(probe.size), hints, |size| match labels::read(&drive, size, &path) {
        Ok(current) => Some(current),
        Err(error) => {
            why.get_or_insert(error);
            None
        }
    });
    let Some((size, current)) = found else {
        let error = why.unwrap_or(LabelError::TooSmall { path });
        return Err(LookError::Label(Box::new(probe), error));
    };
    let found = Found { path: path.display().to_string(), size, label: current.label };
    Ok(Labelled { probe, found, next_turn: current.next_turn, by_second_copy: current.by_second_copy })
}

/// How far from the end of a drive its label is looked for.
const GROWN_BY_MAX: Bytes = Bytes::from_gib(8);
/// How long the ends of drives that nobody named are read for labels.
const RUMMAGE_TIME: Duration = Duration::from_secs(3);

/// The drive that was named. One that has grown has its label where the others say, or where a search finds one: not far from
/// its end or, if `everywhere`, in all of it.
fn look_at_named(path: &Path, scan: &Scan, everywhere: bool) -> Result<Labelled, FindError> {
    let (probe, error) = match look(path) {
        Ok(drive) => return Ok(drive),
        Err(LookError::Probe(error)) => return Err(error.into()),
        Err(LookError::Label(probe, error)) => (*probe, error),
    };
    let mut hints = scan.sizes();
    let within = if everywhere { probe.size } else { GROWN_BY_MAX };
    if let Ok(drive) = File::open(&probe.canonical) {
        hints.extend(labels::rummage(&drive, usable(probe.size), within));
    }
    look_at_label(probe, &hints).map_err(|_| FindError::Label { path: path.to_owned(), error })
}

/// The volume that `volume` means: its name, or the path of one of its drives.
///
/// # Errors
/// There is none of that name, or several; the path is no drive of a volume; its labels contradict each other.
pub fn find(volume: &str) -> Result<Located, FindError> {
    find_in(Scan::of_machine(), volume, false)
}

/// As [`find`]; a path may be that of a drive that has grown since it was labelled: all of it is read then.
///
/// # Errors
/// As [`find`].
pub fn find_grown(volume: &str) -> Result<Located, FindError> {
    find_in(Scan::of_machine(), volume, true)
}

/// As [`find`], and looks at `paths` too, which may have lost their labels.
///
/// # Errors
/// As [`find`].
pub fn find_among(volume: &str, paths: &[PathBuf]) -> Result<Located, FindError> {
    let mut scan = Scan::of_machine();
    for path in paths {
        probe(path)?;
        scan.look_at(path);
    }
    scan.look_for_grown();
    scan.drop_doubles();
    find_in(scan, volume, false)
}

/// Among the drives of `scan` and the one that `volume` names.
fn find_in(mut scan: Scan, volume: &str, everywhere: bool) -> Result<Located, FindError> {
    let path = Path::new(volume);
    let is_path = volume.contains('/') || path.exists();
    let uuid = if is_path {
        let drive = look_at_named(path, &scan, everywhere)?;
        let uuid = drive.found.label.volume;
        scan.add(drive);
        scan.drop_doubles();
        uuid
    } else {
        let unreadable = scan.unreadable.clone();
        let failed = |error| FindError::Assembly { error: Box::new(error), unreadable };
        match named(&scan.labels(), volume) {
            Err(AssemblyError::NotFound { .. }) if scan.rummage() => named(&scan.labels(), volume).map_err(failed)?,
            named => named.map_err(failed)?,
        }
    };
    let mut located = locate(&scan, uuid)?;
    if is_path && located.assembly.seats.contains(&Seat::Empty) {
        for file in files_beside(path) {
            scan.look_at(&file);
        }
        scan.look_for_grown();
        scan.drop_doubles();
        located = locate(&scan, uuid)?;
    }
    if is_path {
        refuse_former(&located, path)?;
    }
    Ok(located)
}

fn locate(scan: &Scan, uuid: Uuid) -> Result<Located, FindError> {
    let drives: Vec<Labelled> = scan.drives.iter().filter(|drive| drive.found.label.volume == uuid).cloned().collect();
    let found: Vec<Found> = drives.iter().map(|drive| drive.found.clone()).collect();
    let unreadable = Vec::new();
    let assembly =
        assemble(&found, uuid).map_err(|error| FindError::Assembly { error: Box::new(error), unreadable })?;
    Ok(Located { assembly, drives, unlabelled: scan.unlabelled.clone() })
}

fn refuse_former(located: &Located, path: &Path) -> Result<(), FindError> {
    let canonical = fs::canonicalize(path).ok();
    let former = located.assembly.former.iter().filter_map(|&at| located.drives.get(at));
    for drive in former {
        if Some(&drive.probe.canonical) == canonical.as_ref() {
            return Err(FindError::Former { path: path.to_owned(), name: located.assembly.label.name.clone() });
        }
    }
    Ok(())
}

/// Regular files in the directory of `path`, sorted.
fn files_beside(path: &Path) -> Vec<PathBuf> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if directory.starts_with("/dev") {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path()).collect();
    files.sort();
    files
}
