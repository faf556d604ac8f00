//! Hints for the search for drives, in the state directory. Only the label on a drive decides to
//! which volume the drive belongs.
//!
//! - `files`: drives that are files, one path in each line. Block devices are found by a search of
//!   all block devices.
//! - `sizes`: sizes of the members of volumes at the last labelling, one volume in each line. The
//!   label of a drive that has grown is at its former end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bimetal_core::label::Label;
use bimetal_core::units::Sectors;
use rustix::fs::FlockOperation;

use crate::directories;

/// Maximum of remembered sizes: each costs two reads of every drive without a label.
const SIZES_MAX: usize = 1024;

/// Maximum of remembered files.
const FILES_MAX: usize = 1024;

fn place() -> PathBuf {
    directories::state().join("files")
}

/// Returns the remembered files that still exist.
pub fn files() -> Vec<PathBuf> {
    let text = fs::read_to_string(place()).unwrap_or_default();
    text.lines().map(PathBuf::from).filter(|path| path.is_file()).collect()
}

/// Returns sizes at whose ends grown drives may have their labels.
pub fn sizes() -> Vec<Sectors> {
    let text = fs::read_to_string(directories::state().join("sizes")).unwrap_or_default();
    let sizes = text.lines().flat_map(|line| line.split(' ').skip(1)).filter_map(|size| size.parse().ok());
    sizes.map(Sectors).take(SIZES_MAX).collect()
}

/// Remembers the sizes of a volume's members, and replaces earlier sizes of the volume.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn remember_sizes(label: &Label) -> io::Result<()> {
    let place = directories::state().join("sizes");
    let volume = label.volume.to_string();
    let sizes = label.members.iter().map(|member| format!(" {}", member.size.0));
    let line = format!("{volume}{}", sizes.collect::<String>());
    if fs::read_to_string(&place).is_ok_and(|text| text.lines().any(|known| known == line)) {
        return Ok(());
    }
    let _lock = lock(&place)?;
    let text = fs::read_to_string(&place).unwrap_or_default();
    // The newest come first: if there are too many, the oldest are forgotten.
    let others = text.lines().filter(|known| known.split(' ').next() != Some(&volume));
    let lines: Vec<&str> = std::iter::once(line.as_str()).chain(others).take(SIZES_MAX).collect();
    replace(&place, &lines)
}

/// Remembers `paths`, which are absolute. A file that is not there is remembered, because its file
/// system may not be mounted now. Returns the file of the list.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn remember(paths: &[PathBuf]) -> io::Result<PathBuf> {
    let place = place();
    let _lock = lock(&place)?;
    let text = fs::read_to_string(&place).unwrap_or_default();
    let mut all: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    for path in paths {
        // A path with a line end cannot be remembered; the drive is found when it is named.
        let whole = path.to_str().is_some_and(|path| !path.contains('\n'));
        if whole {
            all.retain(|known| known != path);
            all.push(path.clone());
        }
    }
    // Of too many, files that are not there go first, and then the oldest.
    let mut too_many = all.len().saturating_sub(FILES_MAX);
    all.retain(|path| {
        let goes = too_many > 0 && !path.is_file();
        too_many -= usize::from(goes);
        !goes
    });
    let newest = all.len().saturating_sub(FILES_MAX);
    let lines: Vec<String> = all[newest..].iter().map(|path| path.display().to_string()).collect();
    replace(&place, &lines)?;
    Ok(place)
}

/// Locks the file at `place` against changes, and makes its directory.
fn lock(place: &Path) -> io::Result<File> {
    directories::make(&directories::state())?;
    let mut options = OpenOptions::new();
    let path = place.with_extension("lock");
    let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Replaces a file, so that a crash leaves the old file or the new one.
fn replace(place: &Path, lines: &[impl AsRef<str>]) -> io::Result<()> {
    let new = place.with_extension("new");
    let mut file = File::create(&new)?;
    for line in lines {
        writeln!(file, "{}", line.as_ref())?;
    }
    file.sync_all()?;
    fs::rename(&new, place)
}
