//! Search for a volume by its name, or by the path of any of its drives.
//!
//! Labels are searched on every block device and on the files that are remembered or named. If
//! members are missing after this search, the files in the directory of the named file are searched
//! as well. The name of a device never decides. The core decides which labels make a volume
//! ([`bimetal_core::label::assembly`]).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bimetal_core::label::assembly::{Assembly, AssemblyError, Found, Seat, assemble, named};
use bimetal_core::label::resize::{ends, may_end_at, search};
use bimetal_core::label::{Label, Uuid, usable};
use bimetal_core::units::{Bytes, Sectors};
use bimetal_device::probe::{self, Kind, Probe, ProbeError, probe};
use bimetal_device::signature::{self, Content, Signature};

use crate::former_settings::take_former_values;
use crate::labels::{self, LabelError};
use crate::registry;
use rustix::process::geteuid;

/// Reasons for which a volume is not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The labels make no volume.
    #[error("{error}{}", not_looked_at(.unreadable))]
    Assembly {
        /// Error of the assembly.
        error: Box<AssemblyError>,
        /// Block devices that could not be read.
        unreadable: Vec<String>,
    },
    /// The named path is not a drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The named drive has no label.
    #[error(
        "{error} (if the drive has grown, `bimetal resize {}` searches all of it; if another program has written over \
         it, type `bimetal rescue VOLUME`)", path.display()
    )]
    Label {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the label.
        error: LabelError,
    },
    /// The named drive was replaced.
    #[error(
        "{} was a drive of volume '{name}' and has been replaced: name another drive of the volume, or reuse this \
         drive with --force", path.display()
    )]
    Former {
        /// Path of the drive.
        path: PathBuf,
        /// Name of the volume that the drive belonged to before.
        name: String,
    },
}

fn not_looked_at(devices: &[String]) -> String {
    match devices {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let remedy = if geteuid().is_root() { "" } else { " (use sudo)" };
            format!(". Not searched, for lack of permission: {first}{more}{remedy}")
        }
    }
}

/// Drive with a label.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Properties of the drive.
    pub probe: Probe,
    /// Label of the drive, in the form that the core takes.
    pub found: Found,
    /// Turn that the next label takes.
    pub next_turn: usize,
    /// Set if only second copies of the label are left: another program has overwritten the drive's
    /// end.
    pub by_second_copy: bool,
}

/// Volume that was found.
#[derive(Clone, Debug)]
pub struct Located {
    /// Result of the assembly: the newest label, and the drives of the members.
    pub assembly: Assembly,
    /// Drives with a label of the volume.
    pub drives: Vec<Labelled>,
    /// Drives that were read and have no label of any volume.
    pub unlabelled: Vec<Probe>,
}

impl Located {
    /// Returns the labels, in the order of [`drives`](Self::drives), as numbered in
    /// [`assembly`](Self::assembly).
    pub fn found(&self) -> Vec<Found> {
        self.drives.iter().map(|drive| drive.found.clone()).collect()
    }

    /// Returns the drive of each member, in order.
    pub fn members(&self) -> impl Iterator<Item = Option<&Labelled>> {
        self.assembly.seats.iter().map(|seat| match *seat {
            Seat::Taken(at) => self.drives.get(at),
            Seat::Behind(_) | Seat::Empty => None,
        })
    }
}

/// Result of a search on all drives.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Drives with a label.
    pub drives: Vec<Labelled>,
    /// Drives without a label at their end, or at the ends that other labels suggest.
    unlabelled: Vec<Probe>,
    /// Block devices that could not be read.
    pub unreadable: Vec<String>,
}

impl Scan {
    /// Searches every block device, and the files that are remembered.
    pub fn of_machine() -> Self {
        let mut scan = Self::default();
        // A drive that is part of another device is read through that device.
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

    /// Searches drives without a label at their end again, at former ends. The sizes of members in
    /// other labels suggest these ends, and so do the remembered sizes of drives of this machine.
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

    /// Reads the ends of drives without a label, for at most [`RUMMAGE_TIME`] in total. Each drive
    /// has an equal share of the time that is left. Remembered files come first: each of them was a
    /// member of a volume, and is read for at least [`RUMMAGE_BYTES_MIN`]. Returns true if a label
    /// was found.
    fn rummage(&mut self) -> bool {
        let until = Instant::now() + RUMMAGE_TIME;
        // Not their number: a loop device with a label may be detached meanwhile, and is dropped.
        let before: Vec<(u64, u64)> = self.drives.iter().map(|drive| drive.probe.identity).collect();
        let mut unlabelled = std::mem::take(&mut self.unlabelled);
        unlabelled.sort_by_key(|probe| probe.kind != Kind::File);
        let mut left = unlabelled.len() as u32;
        for probe in unlabelled {
            let now = Instant::now();
            let share = until.saturating_duration_since(now) / left;
            left -= 1;
            let at_least = if probe.kind == Kind::File { RUMMAGE_BYTES_MIN } else { Bytes::ZERO };
            let hint = match File::open(&probe.canonical) {
                Ok(drive) => labels::rummage(&drive, usable(probe.size), GROWN_BY_MAX, Some(now + share), at_least),
                Err(_) => None,
            };
            match hint.and_then(|size| look_at_label(probe.clone(), &[size]).ok()) {
                Some(drive) => self.add(drive),
                None => self.unlabelled.push(probe),
            }
        }
        // A label that was found contains the sizes of further members.
        self.look_for_grown();
        self.drop_doubles();
        self.drives.iter().any(|drive| !before.contains(&drive.probe.identity))
    }

    /// Searches one more path; a path without a label, or one that is not a drive, adds no drive.
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

    /// Drops duplicates. A disk and its last partition may end together, and a loop device shows
    /// its file: in both cases the same label is found twice. The drive with the size in the label
    /// is kept.
    fn drop_doubles(&mut self) {
        let files: Vec<PathBuf> = self.drives.iter().map(|drive| drive.probe.canonical.clone()).collect();
        self.drives.retain(|drive| !shows_a_file(&drive.probe, &files));
        let all = self.drives.clone();
        self.drives.retain(|drive| {
            let fits = |drive: &Labelled| drive.found.size == drive.found.label.own().size;
            let same =
                |other: &&Labelled| other.probe.identity != drive.probe.identity && other.probe.overlaps(&drive.probe);
            let twin = all.iter().filter(same).find(|other| other.found.label == drive.found.label);
            fits(drive) || !twin.is_some_and(fits)
        });
    }

    /// Returns the sizes of members in all labels.
    fn sizes(&self) -> Vec<Sectors> {
        self.drives.iter().flat_map(|drive| ends(&drive.found.label)).collect()
    }

    fn labels(&self) -> Vec<Found> {
        self.drives.iter().map(|drive| drive.found.clone()).collect()
    }
}

/// Major number of loop devices.
const LOOP: u32 = 7;

/// Returns true if a loop device shows one of `files`, or no file any more.
fn shows_a_file(probe: &Probe, files: &[PathBuf]) -> bool {
    let Kind::Device(number) = probe.kind else { return false };
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", number.major, number.minor));
    is_copy_of_a_file(&folder, number.major == LOOP, files)
}

/// Returns true if the device with this `folder` in sysfs shows one of `files`, or no file any
/// more. A loop device without a file was detached since its label was read, and its file has the
/// label. A partition of a loop device may have the number of a loop device, and is a drive of its
/// own.
fn is_copy_of_a_file(folder: &Path, is_loop: bool, files: &[PathBuf]) -> bool {
    match fs::read_to_string(folder.join("loop/backing_file")) {
        Ok(path) if path.trim_end_matches('\n').is_empty() => is_loop,
        Ok(path) => files.iter().any(|file| file == Path::new(path.trim_end_matches('\n'))),
        Err(_) => is_loop && !folder.join("partition").exists(),
    }
}

enum LookError {
    Probe(ProbeError),
    /// The drive, with the error of its label.
    Label(Box<Probe>, LabelError),
}

fn look(path: &Path) -> Result<Labelled, LookError> {
    look_at_label(probe(path).map_err(LookError::Probe)?, &[])
}

/// Reads the label of a drive; `hints` are sizes at whose end the label may be, if the drive has
/// grown.
fn look_at_label(probe: Probe, hints: &[Sectors]) -> Result<Labelled, LookError> {
    let path = probe.path.clone();
    let open = File::open(&probe.canonical);
    let drive = open.map_err(|error| LookError::Probe(ProbeError::Io { path: path.clone(), error }))?;
    let mut why = None;
    // A label at a former end is that of a drive of this size. A file system on the drive may hold
    // images of drives, whose labels name other sizes.
    let is_own = |size, label: &Label| size == usable(probe.size) || may_end_at(label, size);
    let found = search(usable(probe.size), hints, |size| match labels::read(&drive, size, &path) {
        Ok(current) if is_own(size, &current.label) => Some(current),
        Ok(_) => None,
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

/// Maximum distance of a label from the end of its drive.
const GROWN_BY_MAX: Bytes = Bytes::from_gib(8);
/// Number of bytes that are read for a label of a drive that was named or was a member, also if the
/// time for it is over.
const RUMMAGE_BYTES_MIN: Bytes = Bytes::from_mib(64);
/// Maximum time for which the ends of drives that were not named are read for labels.
const RUMMAGE_TIME: Duration = Duration::from_secs(3);
/// Maximum time for which the end of a drive that was named is read for a label.
const RUMMAGE_TIME_NAMED: Duration = Duration::from_millis(800);

/// Reads the label of the named drive. If the drive has grown, other labels suggest its former end.
/// If no size is suggested, the label is searched near the drive's end for a short time or, if
/// `everywhere` is set, on the whole drive.
fn look_at_named(path: &Path, scan: &Scan, everywhere: bool) -> Result<Labelled, FindError> {
    let (probe, error) = match look(path) {
        Ok(drive) => return Ok(drive),
        Err(LookError::Probe(error)) => return Err(error.into()),
        Err(LookError::Label(probe, error)) => (*probe, error),
    };
    let mut hints = scan.sizes();
    let (within, until) = match everywhere {
        true => (probe.size, None),
        false => (GROWN_BY_MAX, Some(Instant::now() + RUMMAGE_TIME_NAMED)),
    };
    if let Ok(drive) = File::open(&probe.canonical) {
        hints.extend(labels::rummage(&drive, usable(probe.size), within, until, RUMMAGE_BYTES_MIN));
    }
    look_at_label(probe, &hints).map_err(|_| FindError::Label { path: path.to_owned(), error })
}

/// Returns the label at a former end of a drive that has no label at its end: the drive has grown
/// since it was labelled. Other labels suggest the former end; otherwise the label is searched near
/// the drive's end for a short time.
fn label_at_former_end(probe: &Probe, drive: &File) -> Option<Label> {
    let until = Some(Instant::now() + RUMMAGE_TIME_NAMED);
    let mut hints = registry::sizes();
    hints.extend(labels::rummage(drive, usable(probe.size), GROWN_BY_MAX, until, RUMMAGE_BYTES_MIN));
    let found = look_at_label(probe.clone(), &hints).ok()?.found;
    (found.size < usable(probe.size)).then_some(found.label)
}

/// Returns the content of a drive that is to become a member. If the drive has grown since it was
/// labelled, the label at its former end is part of the content, and is returned, too.
///
/// # Errors
/// Fails if the drive cannot be read.
pub(crate) fn content(probe: &Probe, drive: &File) -> io::Result<(Vec<Signature>, Option<Label>)> {
    let mut signatures = signature::scan(drive, probe.size, probe.logical_sector)?;
    if signatures.iter().any(|signature| matches!(signature.content, Content::Label(_))) {
        return Ok((signatures, None));
    }
    let label = label_at_former_end(probe, drive);
    signatures.extend(label.iter().map(|label| {
        let content = Content::Label(Some(label.name.clone()));
        Signature { name: "Bimetal label", content }
    }));
    Ok((signatures, label))
}

/// Returns true if `volume` is the path of a drive, and not the name of a volume. A directory with
/// the volume's name is no drive.
pub fn is_path(volume: &str) -> bool {
    let path = Path::new(volume);
    volume.contains('/') || (path.exists() && !path.is_dir())
}

/// Finds a volume by its name, or by the path of one of its drives.
///
/// # Errors
/// Fails if no volume or several volumes have this name, if the path is not the path of a volume's
/// drive, or if labels contradict each other.
pub fn find(volume: &str) -> Result<Located, FindError> {
    find_in(Scan::of_machine(), volume, false)
}

/// Does the same as [`find`]. If the path is a drive that has grown since it was labelled, the
/// whole drive is read.
///
/// # Errors
/// Fails for the reasons of [`find`].
pub fn find_grown(volume: &str) -> Result<Located, FindError> {
    find_in(Scan::of_machine(), volume, true)
}

/// Does the same as [`find`], and also reads `paths`, which may have lost their labels.
///
/// # Errors
/// Fails for the reasons of [`find`].
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

/// Finds the volume among the drives of `scan` and the drive at path `volume`.
fn find_in(mut scan: Scan, volume: &str, everywhere: bool) -> Result<Located, FindError> {
    let path = Path::new(volume);
    let is_path = is_path(volume);
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
    let mut assembly =
        assemble(&found, uuid).map_err(|error| FindError::Assembly { error: Box::new(error), unreadable })?;
    take_former_values(&mut assembly.label);
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

/// Returns the regular files in the directory of `path`, sorted.
fn files_beside(path: &Path) -> Vec<PathBuf> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The directories of devices hold no images of drives; a file system in memory may.
    if directory.starts_with("/dev") && !path.is_file() {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and contents of a device's attributes in sysfs.
    type Attributes = &'static [(&'static str, &'static str)];

    /// Regression: the label of a file was read through a loop device, too, and the loop device was
    /// detached before it was compared with the file. The file then counted as a copy of itself.
    #[test]
    fn loop_device_is_a_copy_of_its_file_also_when_detached() {
        let base = std::env::temp_dir().join(format!("bimetal-find-{}", std::process::id()));
        let files = [PathBuf::from("/var/disk.img")];
        let cases: [(&str, Attributes, bool, bool); 6] = [
            ("attached", &[("loop/backing_file", "/var/disk.img\n")], true, true),
            ("of-another-file", &[("loop/backing_file", "/var/other.img\n")], true, false),
            ("detached", &[], true, true),
            ("being-detached", &[("loop/backing_file", "\n")], true, true),
            ("partition", &[("partition", "1\n")], true, false),
            ("other-disk", &[], false, false),
        ];
        for (name, attributes, is_loop, expected) in cases {
            let folder = base.join(name);
            fs::create_dir_all(folder.join("loop")).unwrap();
            for (attribute, content) in attributes {
                fs::write(folder.join(attribute), content).unwrap();
            }
            assert_eq!(is_copy_of_a_file(&folder, is_loop, &files), expected, "{name}");
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
