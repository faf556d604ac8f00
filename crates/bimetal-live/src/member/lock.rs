//! Locks: a volume has one owner, and is locked against a second server, a `create`, and other
//! programs that would open its drives.
//!
//! - A file is locked with `flock`.
//! - A block device is opened exclusively, which mounts, swap and LVM respect, too.
//! - The volume's name is locked with a lock file in the run-time directory, which contains the
//!   owner's process number.
//!
//! The kernel releases all locks when the process ends, in any way.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::directories;
use super::probe::{Kind, Probe};

/// Reasons for which a lock is not available.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the volume's name.
    #[error("volume '{name}' is in use{}: stop that first", process.map(|id| format!(" by process {id}")).unwrap_or_default())]
    Volume {
        /// Name of the volume.
        name: String,
        /// Number of that process.
        process: Option<u32>,
    },
    /// Another program holds a drive.
    #[error("{}: is in use by another program: end that first", path.display())]
    Drive {
        /// Path of the drive.
        path: PathBuf,
    },
    /// A file or device cannot be opened or locked.
    #[error("{}: cannot be locked: {error}", path.display())]
    Io {
        /// Path of the file or device.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Drive that no other program opens while this value exists.
#[derive(Debug)]
pub struct DriveLock(File);

impl DriveLock {
    /// Locks a drive.
    ///
    /// # Errors
    /// Fails if another program holds the drive, or if it may not be opened.
    pub fn take(probe: &Probe) -> Result<Self, LockError> {
        let path = &probe.canonical;
        let io = |error: io::Error| LockError::Io { path: probe.path.clone(), error };
        let taken = match probe.kind {
            Kind::File => {
                let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
                patiently(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)).map(|()| file)
            }
            Kind::Device(_) => {
                let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits();
                let mut options = OpenOptions::new();
                options.read(true).write(true).custom_flags(flags.cast_signed());
                patiently(|| options.open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)))
            }
        };
        match taken {
            Ok(file) => Ok(Self(file)),
            Err(Errno::WOULDBLOCK | Errno::BUSY) => Err(LockError::Drive { path: probe.path.clone() }),
            Err(error) => Err(io(error.into())),
        }
    }

    /// Returns the drive, open for reading and writing through the page cache.
    pub fn file(&self) -> &File {
        &self.0
    }
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
    pub fn take<'a>(name: &str, drives: impl IntoIterator<Item = &'a Probe>) -> Result<Self, LockError> {
        let name = lock_name(name)?;
        let drives = drives.into_iter().map(DriveLock::take).collect::<Result<_, _>>()?;
        Ok(Self { _name: name, drives })
    }
}

/// Returns the file that is locked while a volume is in use.
pub fn lock_file(name: &str) -> PathBuf {
    directories::run_time().join(format!("{name}.lock"))
}

fn lock_name(name: &str) -> Result<File, LockError> {
    let path = lock_file(name);
    let io = |error: io::Error| LockError::Io { path: path.clone(), error };
    directories::make(&directories::run_time()).map_err(io)?;
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(io)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut text = String::new();
        let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
        return Err(LockError::Volume { name: name.to_owned(), process });
    }
    // The file stays when the process ends: another process may have opened it meanwhile, and only
    // the lock counts.
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Returns the process that holds the volume `name`, if there is one.
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

/// Tries for a fifth of a second: a program that only examines a drive holds it for an instant.
fn patiently<T>(take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    try_times(20, take)
}

/// Tries `times` times, 10 ms apart, to take what another program may hold for an instant.
pub(super) fn try_times<T>(times: u32, mut take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..times {
        match take() {
            Err(Errno::WOULDBLOCK | Errno::BUSY | Errno::INTR) => sleep(Duration::from_millis(10)),
            taken => return taken,
        }
    }
    take()
}
