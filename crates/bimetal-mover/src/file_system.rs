//! The mounted file system whose files move, and the folder at its root in which the Mover keeps
//! its state.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bimetal_trace::file_system::free_space;
use rustix::fs::FlockOperation;

use crate::runs::{Run, Runs};
use crate::{BLOCK_BYTES, MoverError};

/// Name of the folder at the root of the file system.
pub const FOLDER: &str = ".bimetal-place";
/// Name of the lock in the folder of the state.
pub(crate) const LOCK: &str = "lock";

/// A mounted file system.
#[derive(Debug)]
pub struct FileSystem {
    /// Root of the mount.
    pub root: PathBuf,
    /// Kind of the file system, as the kernel calls it: ext4, xfs.
    pub kind: String,
    /// Number of the device.
    device: u64,
    is_read_only: bool,
    /// Set if the mount shows all files, and not only those below a directory.
    pub(crate) is_whole: bool,
}

impl FileSystem {
    /// Returns the file system of all `paths`.
    ///
    /// # Errors
    /// A path cannot be read, or the paths lie on several file systems.
    pub fn of(paths: &[PathBuf]) -> Result<Self, MoverError> {
        let mut found: Option<(u64, &PathBuf)> = None;
        for path in paths {
            let device = fs::metadata(path).map_err(MoverError::at(path))?.dev();
            match found {
                Some((first, named)) if first != device => {
                    let (path, first) = (path.display().to_string(), named.display().to_string());
                    return Err(MoverError::OtherDevice { path, first });
                }
                _ => found = found.or(Some((device, path))),
            }
        }
        let Some((device, path)) = found else {
            let path = PathBuf::from(".");
            return Err(MoverError::at(&path)(io::Error::from(io::ErrorKind::InvalidInput)));
        };
        let table = PathBuf::from("/proc/self/mountinfo");
        let text = fs::read_to_string(&table).map_err(MoverError::at(&table))?;
        let mounts = mounts_of(&text, device);
        // A mount of a part of the file system does not show the folder at its root.
        let is_here = |mount: &&Mount| fs::metadata(&mount.point).is_ok_and(|metadata| metadata.dev() == device);
        let whole = mounts.iter().filter(|mount| mount.is_whole).find(is_here);
        let root = match whole {
            Some(mount) => mount.point.clone(),
            None => top_of(&fs::canonicalize(path).map_err(MoverError::at(path))?, device),
        };
        let first = whole.or(mounts.first());
        let kind = first.map_or_else(|| "without a device of its own".to_owned(), |mount| mount.kind.clone());
        let is_read_only = first.is_some_and(|mount| mount.is_read_only);
        Ok(Self { root, kind, device, is_read_only, is_whole: first.is_some_and(|mount| mount.is_whole) })
    }

    /// Refuses a file system whose files cannot be moved.
    ///
    /// # Errors
    /// The file system is neither ext4 nor XFS, is read-only, or has blocks of another size; or the
    /// program does not run as root.
    pub fn check(&self) -> Result<(), MoverError> {
        let path = self.root.display().to_string();
        if !["ext4", "xfs"].contains(&self.kind.as_str()) {
            return Err(MoverError::Kind { path, kind: self.kind.clone() });
        }
        if self.is_read_only {
            return Err(MoverError::ReadOnly { path });
        }
        let statistics = rustix::fs::statvfs(&self.root).map_err(|errno| MoverError::at(&self.root)(errno.into()))?;
        if statistics.f_frsize != BLOCK_BYTES {
            return Err(MoverError::BlockSize { path, bytes: statistics.f_frsize });
        }
        if !rustix::process::geteuid().is_root() {
            return Err(MoverError::NotRoot);
        }
        Ok(())
    }

    /// Returns the free runs.
    ///
    /// # Errors
    /// The file system does not report its free space.
    pub fn free(&self) -> Result<Runs, MoverError> {
        let free = free_space(&self.root).map_err(MoverError::at(&self.root))?;
        let run = |(start, length): (u64, u64)| {
            let first = start.div_ceil(BLOCK_BYTES);
            Run::new(first, ((start + length) / BLOCK_BYTES).saturating_sub(first))
        };
        Ok(free.into_iter().map(run).collect())
    }

    /// Returns the folder of the device in `/sys`.
    pub fn device_folder(&self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}", number_of(self.device)))
    }

    /// Returns the name that the kernel gives the device, such as `sda1` or `dm-0`.
    ///
    /// # Errors
    /// The file system is on no block device.
    pub fn device_name(&self) -> Result<String, MoverError> {
        let folder = self.device_folder();
        let target = fs::read_link(&folder).map_err(MoverError::at(&folder))?;
        Ok(target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// Returns the size of the device; `None` if the kernel does not report it.
    pub fn device_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.device_folder().join("size")).ok()?;
        text.trim().parse::<u64>().ok().map(|sectors| sectors * 512)
    }

    /// Returns the first byte of the file system's device on its disk; 0 if the device is not a
    /// partition.
    pub fn partition_start(&self) -> u64 {
        let text = fs::read_to_string(self.device_folder().join("start")).unwrap_or_default();
        text.trim().parse::<u64>().map_or(0, |sectors| sectors * 512)
    }

    /// Returns the folder of the state, and makes it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made, or another user may change it. A user who made the folder before
    /// could lead root to files elsewhere by links.
    pub fn folder(&self) -> Result<PathBuf, MoverError> {
        let folder = self.root.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(MoverError::at(&folder))?;
        let found = fs::symlink_metadata(&folder).map_err(MoverError::at(&folder))?;
        let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if !is_own || found.mode() & 0o022 != 0 {
            return Err(MoverError::UnsafeFolder { folder: folder.display().to_string() });
        }
        Ok(folder)
    }

    /// Locks the file system against other runs.
    ///
    /// # Errors
    /// Another run has the lock.
    pub fn lock(&self) -> Result<Lock, MoverError> {
        let folder = self.folder()?;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(MoverError::at(&path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(lock)),
            Err(_) => Err(MoverError::Busy { folder: folder.display().to_string() }),
        }
    }
}

/// Lock of a file system against other runs, until it is dropped. The lock is released explicitly.
/// Closing its file would not be enough, because a child process that is being started shares the
/// lock until it runs its program.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // If that fails, the lock ends with the last process that shares it.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// A line of the kernel's table of mounts.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    is_whole: bool,
    is_read_only: bool,
}

fn number_of(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Returns the mounts of a device in the text of `/proc/self/mountinfo`.
fn mounts_of(text: &str, device: u64) -> Vec<Mount> {
    let number = number_of(device);
    let mount = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let [_, _, device, root, point, options, ..] = fields[..] else { return None };
        let mut behind = behind.split(' ');
        let (kind, super_options) = (behind.next()?.to_owned(), behind.nth(1).unwrap_or_default());
        let is_read_only = [options, super_options].iter().any(|options| options.split(',').any(|word| word == "ro"));
        let mount = Mount { point: PathBuf::from(unescaped(point)), kind, is_whole: root == "/", is_read_only };
        (device == number).then_some(mount)
    };
    text.lines().filter_map(mount).collect()
}

/// Returns a path of the table of mounts, in which a space is `\040`.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

/// Returns the topmost directory above `path` on the same device.
fn top_of(path: &Path, device: u64) -> PathBuf {
    let is_here = |path: &&Path| fs::metadata(path).is_ok_and(|metadata| metadata.dev() == device);
    path.ancestors().take_while(is_here).last().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                         40 25 8:2 /part /mnt/a\\040b rw,relatime - xfs /dev/sda2 rw\n\
                         41 25 8:2 / /srv ro,relatime shared:2 master:3 - xfs /dev/sda2 rw,attr2\n\
                         42 25 0:30 / /run rw - tmpfs tmpfs rw\n";

    #[test]
    fn mounts_of_a_device_are_found_in_the_table() {
        let found = mounts_of(TABLE, rustix::fs::makedev(8, 2));
        let mount = |point: &str, is_whole, is_read_only| Mount {
            point: point.into(),
            kind: "xfs".into(),
            is_whole,
            is_read_only,
        };
        assert_eq!(found, [mount("/mnt/a b", false, false), mount("/srv", true, true)]);
        assert!(mounts_of(TABLE, rustix::fs::makedev(8, 3)).is_empty());
    }

    /// Regression: a run reported that another run was under way, although the earlier run had just
    /// ended. A child process that another thread was starting still had the lock's file.
    #[test]
    fn lock_ends_with_its_run_while_a_child_has_its_file() {
        let root = std::env::temp_dir().join(format!("bimetal-mover-lock-{}", std::process::id()));
        let system =
            FileSystem { root: root.clone(), kind: "ext4".to_owned(), device: 0, is_read_only: false, is_whole: true };
        let lock = system.lock().expect("the first run gets the lock");
        let of_child = lock.0.try_clone().expect("a file has two descriptors");
        assert!(system.lock().is_err(), "a second run at the same time");
        drop(lock);
        system.lock().expect("a second run after the first");
        drop(of_child);
        fs::remove_dir_all(root).expect("the folder is removed");
    }
}
