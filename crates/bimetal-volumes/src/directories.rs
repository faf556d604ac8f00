//! Directories for run-time files, which last while a program runs, and for state, which lasts
//! longer.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns the directory for sockets and locks of running servers: `$XDG_RUNTIME_DIR/bimetal`,
/// `/run/bimetal` for root, or otherwise a directory in `/tmp` with the user's number.
pub fn run_time() -> PathBuf {
    match of_user("XDG_RUNTIME_DIR") {
        Some(directory) => directory.join("bimetal"),
        None if is_root() => PathBuf::from("/run/bimetal"),
        None => PathBuf::from(format!("/tmp/bimetal-{}", rustix::process::geteuid().as_raw())),
    }
}

/// Returns the directory for state: `$XDG_STATE_HOME/bimetal`, `/var/lib/bimetal` for root, or
/// otherwise a directory below the user's `.local/state`.
pub fn state() -> PathBuf {
    match of_user("XDG_STATE_HOME") {
        Some(directory) => directory.join("bimetal"),
        None if is_root() => PathBuf::from("/var/lib/bimetal"),
        None => of_user("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state/bimetal"),
    }
}

/// Makes a directory that only its owner can use. An existing directory must belong to this user
/// and must not be writable by all users. Below `/tmp`, another user may have made the directory
/// before, to read or to replace files in it.
///
/// # Errors
/// Fails if the directory cannot be made, or belongs to another user.
pub fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // Root may use a user's directory if told to: root takes no path that other users choose.
    if is_root() {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    let (itself, target) = (fs::symlink_metadata(directory)?, fs::metadata(directory)?);
    match fault(&itself, user).or_else(|| fault(&target, user)) {
        None => Ok(()),
        Some(fault) => {
            let text = format!("{fault}: remove it, or set XDG_RUNTIME_DIR to a directory of your own");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

/// Returns the reason for which an existing directory is not safe for `user`.
fn fault(found: &Metadata, user: u32) -> Option<&'static str> {
    if found.uid() != user {
        return Some("it belongs to another user");
    }
    let everybody_writes = found.is_dir() && found.mode() & 0o002 != 0;
    everybody_writes.then_some("everybody may write to it")
}

/// Returns the directory in an environment variable, if it is an absolute path.
fn of_user(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|directory| directory.is_absolute())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory below `/tmp` with a known name is accepted only if no other user can have put
    /// files into it.
    #[test]
    fn directory_is_refused_where_others_write() {
        let base = std::env::temp_dir().join(format!("bimetal-directories-{}", std::process::id()));
        let own = base.join("run/bimetal");
        make(&own).unwrap();
        make(&own).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let found = |user| fault(&fs::symlink_metadata(&own).unwrap(), user);
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!(found(user), None);
        assert_eq!(found(user + 1), Some("it belongs to another user"));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(user), Some("everybody may write to it"));
        fs::remove_dir_all(&base).unwrap();
    }
}
