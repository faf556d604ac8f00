//! Extents of the files below a directory on their file system's device, from the kernel (FIEMAP).

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use fiemap::{Fiemap, FiemapExtentFlags, FiemapFlags};

/// A file with its ranges of the device, in the order of the file.
#[derive(Clone, Debug)]
pub struct PlacedFile {
    /// Path of the file; it begins with the directory that was asked for.
    pub path: String,
    /// Inode number of the file.
    pub inode: u64,
    /// Time of the file's creation, as [`born`] returns it. Inode numbers are used again, so only
    /// both numbers together name a file.
    pub born: u128,
    /// First byte and length of each range; ranges that are adjacent on the device are joined.
    /// Empty if the file system keeps the content in another place or form: in the inode,
    /// compressed, or not yet allocated.
    pub extents: Vec<(u64, u64)>,
    /// True for an executable or a library, by its name or by its first bytes.
    pub is_program: bool,
}

impl PlacedFile {
    /// Returns the number of bytes that the file has on the device.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|&(_, length)| length).sum()
    }
}

/// Result of a search below a directory.
#[derive(Debug, Default)]
pub struct Found {
    /// Regular files, in order of path.
    pub files: Vec<PlacedFile>,
    /// Number of files and directories that could not be read.
    pub unreadable: u64,
    /// First path that could not be read, with its error.
    pub first_unreadable: Option<String>,
}

impl Found {
    fn skip(&mut self, path: &Path, error: &io::Error) {
        self.unreadable += 1;
        self.first_unreadable.get_or_insert_with(|| format!("{}: {error}", path.display()));
    }
}

/// Reasons for which the extents below a directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExtentsError {
    /// The directory cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The directory.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file system does not report extents.
    #[error(
        "{path}: its file system does not report where files lie (FIEMAP): expected ext4, xfs or another that does"
    )]
    NotReported {
        /// File whose extents were asked for.
        path: String,
    },
}

/// Returns the regular files at and below `root`, within one file system. Links are not followed,
/// and a file with several names is listed once. `is_program` returns true for the path of an
/// executable or a library; the first bytes of all other files decide.
///
/// # Errors
/// `root` cannot be read, or its file system does not report extents.
pub fn files_below(root: &Path, is_program: impl Fn(&str) -> bool) -> Result<Found, ExtentsError> {
    let named = |source| ExtentsError::Read { path: root.display().to_string(), source };
    let device = fs::metadata(root).map_err(named)?.dev();
    let (mut found, mut seen) = (Found::default(), HashSet::new());
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = if path == root { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let entry = metadata.and_then(|metadata| {
            if metadata.is_dir() && metadata.dev() == device {
                waiting.extend(entries(&path)?);
            } else if metadata.is_file() && seen.insert(metadata.ino()) {
                found.files.push(placed(&path, &is_program)?);
            }
            Ok(())
        });
        match entry {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                return Err(ExtentsError::NotReported { path: path.display().to_string() });
            }
            Err(error) if path == root => return Err(named(error)),
            Err(error) => found.skip(&path, &error),
            Ok(()) => {}
        }
    }
    found.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns true for an extent without bytes of the device that a request to the file would access.
fn is_elsewhere(flags: FiemapExtentFlags) -> bool {
    let elsewhere = FiemapExtentFlags::UNKNOWN
        | FiemapExtentFlags::DELALLOC
        | FiemapExtentFlags::ENCODED
        | FiemapExtentFlags::DATA_INLINE
        | FiemapExtentFlags::DATA_TAIL;
    flags.intersects(elsewhere)
}

fn placed(path: &Path, is_program: impl Fn(&str) -> bool) -> io::Result<PlacedFile> {
    let mut file = File::open(path)?;
    let mut extents: Vec<(u64, u64)> = Vec::new();
    for extent in Fiemap::with_flags(&file, FiemapFlags::SYNC) {
        let extent = extent?;
        if is_elsewhere(extent.fe_flags) {
            continue;
        }
        match extents.last_mut() {
            Some((start, length)) if *start + *length == extent.fe_physical => *length += extent.fe_length,
            _ => extents.push((extent.fe_physical, extent.fe_length)),
        }
    }
    let name = path.to_string_lossy().into_owned();
    let is_program = is_program(&name) || starts_as_program(&mut file)?;
    let metadata = file.metadata()?;
    Ok(PlacedFile { path: name, inode: metadata.ino(), born: born(&metadata), extents, is_program })
}

/// Returns the time of a file's creation, in nanoseconds since 1970; 0 if the file system does not
/// report the time.
pub fn born(metadata: &Metadata) -> u128 {
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    born.map_or(0, |born| born.as_nanos())
}

/// Returns true if the first bytes of a file are those of an ELF executable, library or object.
fn starts_as_program(file: &mut File) -> io::Result<bool> {
    let mut head = [0; 4];
    match file.read_exact(&mut head) {
        Ok(()) => Ok(&head == b"\x7fELF"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
