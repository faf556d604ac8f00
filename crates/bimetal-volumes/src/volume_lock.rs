//! Lock of a volume: the lock has one owner, and protects the volume against a second server, a
//! `create`, and other programs that would open the volume's drives.
//!
//! The volume's name is locked with a lock file in the run-time directory, which contains the
//! owner's process number. The kernel releases all locks when the process ends, in any way.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bimetal_device::lock::{DriveLock, LockError};
use bimetal_device::probe::Probe;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::directories;

/// Reasons for which a volume cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum VolumeLockError {
    /// Another process holds the volume's name.
    #[error("volume '{name}' is in use{}: stop its server first", process.map(|id| format!(" by process {id}")).unwrap_or_default())]
    InUse {
        /// Name of the volume.
        name: String,
        /// Number of the process that holds the name.
        process: Option<u32>,
    },
    /// A drive cannot be locked.
    #[error(transparent)]
    Drive(#[from] LockError),
    /// The lock file of the name cannot be opened or locked.
    #[error("{}: cannot be locked: {error}", path.display())]
    File {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Volume whose name and drives no other program holds while this value exists.
#[derive(Debug)]
pub struct VolumeLock {
    _name: File,
    /// Drives, in the order in which they were given.
    pub drives: Vec<DriveLock>,
}

impl VolumeLock {
    /// Locks the volume `name` on these drives.
    ///
    /// # Errors
    /// Fails if another program holds the name or one of the drives.
    pub fn take<'a>(name: &str, drives: impl IntoIterator<Item = &'a Probe>) -> Result<Self, VolumeLockError> {
        let name = lock_name(name)?;
        let drives = drives.into_iter().map(DriveLock::take).collect::<Result<_, _>>()?;
        Ok(Self { _name: name, drives })
    }
}

/// Returns the file that is locked while a volume is in use.
pub fn lock_file(name: &str) -> PathBuf {
    directories::run_time().join(format!("{name}.lock"))
}

fn lock_name(name: &str) -> Result<File, VolumeLockError> {
    let path = lock_file(name);
    let io = |error: io::Error| VolumeLockError::File { path: path.clone(), error };
    directories::make(&directories::run_time()).map_err(io)?;
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(io)?;
    if !is_locked_within(&file, PATIENCE) {
        let mut text = String::new();
        let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
        return Err(VolumeLockError::InUse { name: name.to_owned(), process });
    }
    // The file stays when the process ends: another process may have opened it meanwhile, and only
    // the lock counts.
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Maximum wait for the lock of a name: a command that only asks for the [`owner`] holds the lock
/// for an instant.
const PATIENCE: Duration = Duration::from_millis(200);

fn is_locked_within(file: &File, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let is_locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_locked || Instant::now() >= until {
            return is_locked;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Returns the process that holds the volume `name`; `None` if no process holds the name.
pub fn owner(name: &str) -> Option<u32> {
    let mut file = File::open(lock_file(name)).ok()?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            file.read_to_string(&mut text).ok()?;
            text.trim().parse().ok()
        }
        _ => None,
    }
}
