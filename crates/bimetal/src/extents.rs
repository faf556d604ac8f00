//! Where the files below a directory lie on the device that carries their file system, as the file system tells it (FIEMAP).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bimetal_core::schemes::combo::is_program;
use fiemap::{Fiemap, FiemapExtentFlags, FiemapFlags};

use crate::error::Error;

/// A file with the ranges of the device that are its own, in its own order.
#[derive(Clone, Debug)]
pub(crate) struct PlacedFile {
    /// Its path, with the directory that was asked for in front.
    pub(crate) path: String,
    /// First byte and length of each range; those that follow each other on the device are one. None where the file system keeps
    /// the file elsewhere: in its inode, compressed, or nowhere yet.
    pub(crate) extents: Vec<(u64, u64)>,
    /// Whether it is an executable or a library, by its name or by its first bytes.
    pub(crate) program: bool,
}

impl PlacedFile {
    /// Bytes of the device that are its own.
    pub(crate) fn bytes(&self) -> u64 {
        self.extents.iter().map(|&(_, length)| length).sum()
    }
}

/// What was found below a directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Its regular files, in order of path.
    pub(crate) files: Vec<PlacedFile>,
    /// Files and directories that could not be read, and why the first could not.
    pub(crate) unreadable: u64,
    pub(crate) first_unreadable: Option<String>,
}

impl Found {
    fn skip(&mut self, path: &Path, error: &io::Error) {
        self.unreadable += 1;
        self.first_unreadable.get_or_insert_with(|| format!("{}: {error}", path.display()));
    }
}

/// The regular files at and below `root`, on its file system alone; links are not followed, and a file with several names is taken
/// once.
///
/// # Errors
/// `root` cannot be read, or its file system does not tell where files lie.
pub(crate) fn files_below(root: &Path) -> Result<Found, Error> {
    let named = |error: io::Error| Error::new(format!("{}: {error}", root.display()));
    let device = fs::metadata(root).map_err(named)?.dev();
    let (mut found, mut seen) = (Found::default(), HashSet::new());
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = if path == root { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let entry = metadata.and_then(|metadata| {
            if metadata.is_dir() && metadata.dev() == device {
                waiting.extend(entries(&path)?);
            } else if metadata.is_file() && seen.insert(metadata.ino()) {
                found.files.push(placed(&path)?);
            }
            Ok(())
        });
        match entry {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                return Err(Error::new(format!(
                    "{}: its file system does not tell where files lie (FIEMAP): expected ext4, xfs or another that does",
                    path.display()
                )));
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

/// Extents of these kinds are no bytes of the device that a request of the file would access.
fn is_elsewhere(flags: FiemapExtentFlags) -> bool {
    let elsewhere = FiemapExtentFlags::UNKNOWN
        | FiemapExtentFlags::DELALLOC
        | FiemapExtentFlags::ENCODED
        | FiemapExtentFlags::DATA_INLINE
        | FiemapExtentFlags::DATA_TAIL;
    flags.intersects(elsewhere)
}

fn placed(path: &Path) -> io::Result<PlacedFile> {
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
    let program = is_program(&name) || starts_as_program(&mut file)?;
    Ok(PlacedFile { path: name, extents, program })
}

/// Whether the first bytes are those of an ELF executable, library or object.
fn starts_as_program(file: &mut File) -> io::Result<bool> {
    let mut head = [0; 4];
    match file.read_exact(&mut head) {
        Ok(()) => Ok(&head == b"\x7fELF"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
