//! One owner: a volume is locked against a second server, a `create`, and whatever else would open its drives.
//!
//! A file is locked with `flock`, a block device is opened exclusively (which a mount, swap or LVM notices too), and a
//! lock file in the run-time directory, which holds the owner's process number, keeps the volume's name. The kernel lets all of
//! it go when the process ends, however it ends.

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

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The volume's name is taken.
    #[error("volume '{name}' is in use{}: stop that first", process.map(|id| format!(" by process {id}")).unwrap_or_default())]
    Volume {
        /// Its name.
        name: String,
        /// The process that has it.
        process: Option<u32>,
    },
    /// A drive is taken.
    #[error("{}: is in use by another program: end that first", path.display())]
    Drive {
        /// Which.
        path: PathBuf,
    },
    /// A file or device cannot be opened or locked.
    #[error("{}: cannot be locked: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A drive that nobody else opens while this lives.
#[derive(Debug)]
pub struct DriveLock(File);

impl DriveLock {
    /// Takes a drive.
    ///
    /// # Errors
    /// Somebody has it, or it may not be opened.
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

    /// The drive, open for reading and writing through the page cache.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// A volume whose name and drives nobody else has while this lives.
#[derive(Debug)]
pub struct VolumeLock {
    _name: File,
    /// The drives, in the order in which they were given.
    pub drives: Vec<DriveLock>,
}

impl VolumeLock {
    /// Takes the volume `name` on these drives.
    ///
    /// # Errors
    /// Somebody has the name or one of the drives.
    pub fn take<'a>(name: &str, drives: impl IntoIterator<Item = &'a Probe>) -> Result<Self, LockError> {
        let name = lock_name(name)?;
        let drives = drives.into_iter().map(DriveLock::take).collect::<Result<_, _>>()?;
        Ok(Self { _name: name, drives })
    }
}

/// The file that is locked while a volume is in use.
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
    // The file stays when the process ends: another may have opened it meanwhile, and only the lock counts.
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Whether somebody has the volume `name`, and which process.
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

/// Somebody who only looks at a drive has it for an instant: tries for a fifth of a second.
fn patiently<T>(take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    try_times(20, take)
}

/// Tries to take what somebody else may have for an instant, so many times, 10 ms apart.
pub(super) fn try_times<T>(times: u32, mut take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..times {
        match take() {
            Err(Errno::WOULDBLOCK | Errno::BUSY | Errno::INTR) => sleep(Duration::from_millis(10)),
            taken => return taken,
        }
    }
    take()
}
