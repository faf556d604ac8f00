//! Where a program keeps what is not a drive: what lasts while it runs, and what it remembers.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Sockets and locks of running servers: `$XDG_RUNTIME_DIR/bimetal`, `/run/bimetal` for root, else one in `/tmp` with
/// the user's number.
pub fn run_time() -> PathBuf {
    match of_user("XDG_RUNTIME_DIR") {
        Some(directory) => directory.join("bimetal"),
        None if is_root() => PathBuf::from("/run/bimetal"),
        None => PathBuf::from(format!("/tmp/bimetal-{}", rustix::process::geteuid().as_raw())),
    }
}

/// What is remembered: `$XDG_STATE_HOME/bimetal`, `/var/lib/bimetal` for root, else below the user's `.local/state`.
pub fn state() -> PathBuf {
    match of_user("XDG_STATE_HOME") {
        Some(directory) => directory.join("bimetal"),
        None if is_root() => PathBuf::from("/var/lib/bimetal"),
        None => of_user("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state/bimetal"),
    }
}

/// Makes a directory of ours, for its owner only.
///
/// # Errors
/// It cannot be made.
pub fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// A directory that an environment variable names, if it names one in full.
fn of_user(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|directory| directory.is_absolute())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
