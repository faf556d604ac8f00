//! Locks of drives against other programs that would open the drives.
//!
//! - A file is locked with `flock`.
//! - A block device is opened exclusively, and the kernel's mounts, swap and LVM respect this, too.
//!
//! The kernel releases all locks when the process ends, in any way.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::probe::{Kind, Probe, try_times};

/// Reasons for which a drive cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another program holds a drive.
    #[error("{}: is in use by another program: end that program first", path.display())]
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

/// Tries for a fifth of a second: a program that only examines a drive holds the drive for an
/// instant.
fn patiently<T>(take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    try_times(20, take)
}
