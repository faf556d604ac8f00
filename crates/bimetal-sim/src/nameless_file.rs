//! Temporary files without a name, which are gone when the program ends, however it ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest number of names that are tried.
const NAMES_MAX: u32 = 1000;

/// Makes a file in `folder` that only this process can open. The file has a name with `purpose` for
/// a moment; a name that exists is passed over.
///
/// # Errors
/// The folder cannot be written.
pub fn nameless_file(folder: &Path, purpose: &str) -> io::Result<File> {
    let mut number = 0;
    loop {
        let path = folder.join(format!("bimetal-{purpose}-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return fs::remove_file(path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => number += 1,
            Err(error) => return Err(error),
        }
    }
}
