//! The block device that is recorded, as described by sysfs.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use bimetal_core::units::{SectorRange, Sectors};

use super::RecordError;

/// Block device: a whole disk, or a partition of a disk.
#[derive(Debug, Clone)]
pub(super) struct Device {
    /// Path that the user gave.
    pub(super) path: PathBuf,
    /// Device numbers of the device's events. The kernel reports queue events under the number of
    /// the target partition, and issue events under the number of the disk. Sectors count from the
    /// start of the disk for both kinds of events.
    pub(super) numbers: Vec<(u32, u32)>,
    /// Number of sectors.
    pub(super) size: Sectors,
    /// Range on the disk, for a partition.
    pub(super) partition: Option<SectorRange>,
}

impl Device {
    /// Looks up the device at `path`.
    pub(super) fn find(path: &Path) -> Result<Self, RecordError> {
        let refuse = |reason: String| RecordError::NotADevice { path: path.to_owned(), reason };
        let metadata = fs::metadata(path).map_err(|error| refuse(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            let kind = match metadata.file_type() {
                kind if kind.is_dir() => "is a directory",
                kind if kind.is_char_device() => "is a character device",
                _ => "is a file",
            };
            return Err(refuse(kind.to_owned()));
        }
        let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let sysfs = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let sysfs = fs::canonicalize(&sysfs).map_err(|error| RecordError::Io { path: sysfs.clone(), error })?;
        let size = Sectors(read_number(&sysfs.join("size"))?);
        let mut numbers = vec![number];
        let mut partition = None;
        if sysfs.join("partition").exists() {
            let disk = sysfs.parent().unwrap_or(&sysfs);
            numbers.push(numbers_in(disk)?);
            let start = read_number(&sysfs.join("start"))?;
            partition = Some(SectorRange { start: Sectors(start), len: size });
        } else {
            let entries = fs::read_dir(&sysfs).map_err(|error| RecordError::Io { path: sysfs.clone(), error })?;
            for entry in entries.flatten().filter(|entry| entry.path().join("partition").exists()) {
                numbers.push(numbers_in(&entry.path())?);
            }
            numbers.sort_unstable();
        }
        Ok(Self { path: path.to_owned(), numbers, size, partition })
    }
}

fn read(path: &Path) -> Result<String, RecordError> {
    fs::read_to_string(path).map_err(|error| RecordError::Io { path: path.to_owned(), error })
}

fn unexpected(path: &Path, text: &str) -> RecordError {
    let error = std::io::Error::other(format!("unexpected content '{}'", text.trim()));
    RecordError::Io { path: path.to_owned(), error }
}

fn read_number(path: &Path) -> Result<u64, RecordError> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| unexpected(path, &text))
}

/// Returns major and minor number of the device whose folder in sysfs is `folder`.
fn numbers_in(folder: &Path) -> Result<(u32, u32), RecordError> {
    let path = folder.join("dev");
    let text = read(&path)?;
    let numbers = text.trim().split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or_else(|| unexpected(&path, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_refused_by_name() {
        let message = |path: &str| Device::find(Path::new(path)).unwrap_err().to_string();
        assert_eq!(message("/"), "/: is a directory; expected a block device like /dev/sdb");
        assert!(message("/dev/nothing-here").starts_with("/dev/nothing-here: No such file"));
        assert!(message("/dev/null").starts_with("/dev/null: is a character device; expected"));
    }
}
