//! Files for emulated drives that do not exist yet. The files are made sparse, with the size that
//! the user gives or the size of the drive.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use bimetal_core::layout::Role;
use bimetal_core::units::Bytes;
use bimetal_device::drive::emulated::Player;
use bimetal_volumes::create::DriveChoice;

use crate::error::Error;
use crate::options::parse::without_unit;
use crate::volume::size as shown;

/// Size of a file to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileSize {
    /// Size in bytes, which the user gave.
    Bytes(Bytes),
    /// The capacity of the drive that the file emulates.
    OfDrive,
}

/// Reads a size, or `drive`.
pub(crate) fn file_size(text: &str) -> Result<FileSize, String> {
    match (text.parse::<Bytes>(), without_unit(text)) {
        _ if text == "drive" => Ok(FileSize::OfDrive),
        (_, Some(message)) => Err(message),
        (Ok(bytes), None) if bytes > Bytes::ZERO => Ok(FileSize::Bytes(bytes)),
        _ => Err("expected a size like 32GiB, or drive for the size of the emulated drive".to_owned()),
    }
}

/// Files that were made. The files are removed on drop, unless [`keep`](Self::keep) was called.
#[derive(Default)]
pub(crate) struct MadeFiles(Vec<PathBuf>);

impl MadeFiles {
    /// Makes the missing files. `size` returns the size that the user gives for a role.
    ///
    /// # Errors
    /// A profile is unknown or does not fit the role; a size is given for a file that exists; a
    /// size is missing.
    pub(crate) fn make(drives: &[DriveChoice], size: impl Fn(Role) -> Option<FileSize>) -> Result<Self, Error> {
        let mut made = Self::default();
        for drive in drives {
            let (role, path, size) = (drive.role, &drive.path, size(drive.role));
            let name = role.name();
            let Some(profile) = &drive.emulates else {
                if size.is_some() {
                    let message = format!(
                        "--{name}-size: {} is a real drive: expected a size for an emulated drive \
                                           only",
                        path.display()
                    );
                    return Err(Error::new(message));
                }
                continue;
            };
            let profile = Player::new(profile, [])?.profile;
            let expected = if role == Role::Ssd { "flash" } else { "hdd" };
            if role != Role::Log && !profile.serves_as(expected) {
                let (profile, kind) = (&profile.name, profile.kind());
                let message =
                    format!("--{name}: {profile} is a profile of kind {kind}, expected one of kind {expected}");
                return Err(Error::new(message));
            }
            let own = profile.capacity.bytes();
            match (path.exists(), size) {
                (true, None) => {}
                (true, Some(_)) => {
                    let message = format!(
                        "--{name}-size: {} exists already: leave the option out, or remove the file",
                        path.display()
                    );
                    return Err(Error::new(message));
                }
                (false, None) if role == Role::Log => {}
                (false, None) => {
                    return Err(Error::new(format!(
                        "{} does not exist: make it with --{name}-size SIZE, or with --{name}-size drive for the size \
                         of {} ({}); the file is sparse",
                        path.display(),
                        profile.name,
                        shown(own)
                    )));
                }
                (false, Some(FileSize::OfDrive)) => made.make_one(path, own)?,
                (false, Some(FileSize::Bytes(bytes))) => made.make_one(path, bytes)?,
            }
        }
        Ok(made)
    }

    fn make_one(&mut self, path: &Path, bytes: Bytes) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::new(format!("cannot make {}: {error}", path.display()));
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        self.0.push(path.to_owned());
        file.set_len(bytes.0).map_err(failed)
    }

    /// Keeps the files: they are not removed on drop.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // A file that cannot be removed is harmless: it is sparse and empty.
            let _ = fs::remove_file(path);
        }
    }
}
