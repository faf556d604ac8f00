//! Files that are drives of volumes: block devices are found by looking at all of them, files only where one remembers.
//!
//! A text file, a path a line, in the state directory. It is a hint: what is in a file, its label says.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::directories;

fn place() -> PathBuf {
    directories::state().join("files")
}

/// The files that are remembered and still there.
pub fn files() -> Vec<PathBuf> {
    let text = fs::read_to_string(place()).unwrap_or_default();
    text.lines().map(PathBuf::from).filter(|path| path.is_file()).collect()
}

/// Remembers `paths` (in full); forgets what is no longer there. Gives the file it is remembered in.
///
/// # Errors
/// The file cannot be written.
pub fn remember(paths: &[PathBuf]) -> io::Result<PathBuf> {
    let place = place();
    directories::make(&directories::state())?;
    let mut options = OpenOptions::new();
    let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(lock_of(&place))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let mut all = files();
    for path in paths {
        // A path with a line end in it cannot be remembered; the drive is found when it is named.
        let whole = path.to_str().is_some_and(|path| !path.contains('\n'));
        if whole && !all.contains(path) {
            all.push(path.clone());
        }
    }
    let new = place.with_extension("new");
    let mut file = File::create(&new)?;
    for path in &all {
        writeln!(file, "{}", path.display())?;
    }
    file.sync_all()?;
    fs::rename(&new, &place)?;
    Ok(place)
}

fn lock_of(place: &Path) -> PathBuf {
    place.with_extension("lock")
}
