//! The setting of ext4's allocator that donors need, `mb_stream_req`.
//!
//! A request of more blocks than `mb_stream_req` (16) is placed after the last such request of any
//! file. Only a smaller request is placed near the other blocks of its file, and a donor needs such
//! requests. So the setting is raised while a donor gets its blocks, a few milliseconds for each
//! batch.
//!
//! A note in the folder of the state keeps the setting before the run. A run that is killed leaves
//! this note, and the next run restores the setting.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::MoverError;
use crate::file_system::FileSystem;

/// Value during an allocation: a donor's blocks have numbers up to 2^32.
const RAISED: &str = "4294967295";
/// Default value of a file system, which nobody has changed.
const DEFAULT: &str = "16";

/// Access to the setting during a run. Dropping this value restores the setting.
#[derive(Debug)]
pub struct Knob {
    setting: PathBuf,
    note: PathBuf,
    before: String,
}

impl Knob {
    /// Returns access to the setting of a file system, with the value from before this run. If an
    /// earlier run was killed, restores the setting first.
    ///
    /// # Errors
    /// The setting cannot be read or written, or the note cannot be written.
    pub fn open(file_system: &FileSystem, folder: &Path) -> Result<Self, MoverError> {
        let name = file_system.device_name()?;
        Self::at(PathBuf::from(format!("/sys/fs/ext4/{name}/mb_stream_req")), folder.join("mb_stream_req"))
    }

    fn at(setting: PathBuf, note: PathBuf) -> Result<Self, MoverError> {
        let current = fs::read_to_string(&setting).map_err(MoverError::at(&setting))?.trim().to_owned();
        let noted = fs::read_to_string(&note).ok().map(|text| text.trim().to_owned());
        let is_number = |text: &String| text.parse::<u32>().is_ok();
        let before = match current.as_str() {
            RAISED => noted.filter(is_number).unwrap_or_else(|| DEFAULT.to_owned()),
            _ => current,
        };
        let knob = Self { setting, note, before };
        knob.restore().map_err(MoverError::at(&knob.setting))?;
        write_synced(&knob.note, &knob.before).map_err(MoverError::at(&knob.note))?;
        Ok(knob)
    }

    /// Raises the setting, until the result is dropped.
    ///
    /// # Errors
    /// The setting cannot be written.
    pub(crate) fn raise(&self) -> Result<Raised<'_>, MoverError> {
        fs::write(&self.setting, RAISED).map_err(MoverError::at(&self.setting))?;
        Ok(Raised(self))
    }

    fn restore(&self) -> io::Result<()> {
        fs::write(&self.setting, &self.before)
    }
}

impl Drop for Knob {
    fn drop(&mut self) {
        // A setting that cannot be restored keeps its note, for the next run.
        if self.restore().is_ok() {
            let _ = fs::remove_file(&self.note);
        }
    }
}

/// The raised setting.
pub(crate) struct Raised<'a>(&'a Knob);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        let _ = self.0.restore();
    }
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    fn open(folder: &TestFolder) -> Knob {
        Knob::at(folder.0.join("setting"), folder.0.join("note")).unwrap()
    }

    fn setting(folder: &TestFolder) -> String {
        fs::read_to_string(folder.0.join("setting")).unwrap().trim().to_owned()
    }

    #[test]
    fn setting_is_raised_only_during_an_allocation() {
        let folder = TestFolder::new("raised");
        fs::write(folder.0.join("setting"), "32\n").unwrap();
        let knob = open(&folder);
        let raised = knob.raise().unwrap();
        assert_eq!(setting(&folder), RAISED);
        drop(raised);
        assert_eq!(setting(&folder), "32");
        drop(knob);
        assert!(!folder.0.join("note").exists());
    }

    #[test]
    fn next_run_restores_the_setting_after_a_kill() {
        let folder = TestFolder::new("killed");
        fs::write(folder.0.join("setting"), "32\n").unwrap();
        let knob = open(&folder);
        // A killed process runs no drop.
        std::mem::forget(knob.raise().unwrap());
        std::mem::forget(knob);
        assert_eq!(setting(&folder), RAISED);
        drop(open(&folder));
        assert_eq!(setting(&folder), "32");
    }

    #[test]
    fn raised_setting_without_a_note_becomes_the_default() {
        let folder = TestFolder::new("no-note");
        fs::write(folder.0.join("setting"), RAISED).unwrap();
        drop(open(&folder));
        assert_eq!(setting(&folder), DEFAULT);
    }
}
