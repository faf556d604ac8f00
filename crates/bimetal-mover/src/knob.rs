//! The settings of ext4's allocator that donors need, `mb_stream_req` and `mb_group_prealloc`.
//!
//! A request of more blocks than `mb_stream_req` (16) is placed after the last such request of any
//! file. Only a smaller request is placed near the other blocks of its file, and a donor needs such
//! requests. For smaller requests the allocator keeps blocks ready at some place,
//! `mb_group_prealloc` (512) at once, and a request gets these blocks instead of the blocks aimed
//! at. So the first setting is raised, and the second lowered, while a donor gets its blocks,
//! and while the moves are noted: notes are small writes, too, and would leave blocks ready beside
//! those of the next donor. That takes a few milliseconds for each batch.
//!
//! A note for each setting in the folder of the state keeps its value before the run. A run that is
//! killed leaves these notes, and the next run restores the settings.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::MoverError;
use crate::file_system::FileSystem;

/// A setting of the allocator.
struct Kind {
    name: &'static str,
    /// Value during an allocation.
    changed: &'static str,
    /// Value that a changed setting without a note had before: the default of a file system, if no
    /// administrator sets the changed value.
    unnoted: &'static str,
}

/// The settings. A donor's blocks have numbers up to 2^32. An administrator may have set
/// `mb_group_prealloc` to 1.
const KINDS: [Kind; 2] = [
    Kind { name: "mb_stream_req", changed: "4294967295", unnoted: "16" },
    Kind { name: "mb_group_prealloc", changed: "1", unnoted: "1" },
];

/// Access to the settings during a run. Dropping this value restores them.
#[derive(Debug)]
pub struct Knob {
    settings: Rc<Vec<Setting>>,
}

#[derive(Debug)]
struct Setting {
    path: PathBuf,
    note: PathBuf,
    changed: &'static str,
    before: String,
}

impl Knob {
    /// Returns access to the settings of a file system, with the values from before this run. If an
    /// earlier run was killed, restores the settings first.
    ///
    /// # Errors
    /// A setting cannot be read or written, or a note cannot be written.
    pub fn open(file_system: &FileSystem, folder: &Path) -> Result<Self, MoverError> {
        let name = file_system.device_name()?;
        Self::at(Path::new(&format!("/sys/fs/ext4/{name}")), folder)
    }

    fn at(folder: &Path, notes: &Path) -> Result<Self, MoverError> {
        let mut settings = Vec::new();
        for kind in &KINDS {
            let (path, note) = (folder.join(kind.name), notes.join(kind.name));
            let current = fs::read_to_string(&path).map_err(MoverError::at(&path))?.trim().to_owned();
            let noted = fs::read_to_string(&note).ok().map(|text| text.trim().to_owned());
            let is_number = |text: &String| text.parse::<u32>().is_ok();
            let before = match current == kind.changed {
                true => noted.filter(is_number).unwrap_or_else(|| kind.unnoted.to_owned()),
                false => current,
            };
            let setting = Setting { path, note, changed: kind.changed, before };
            setting.restore().map_err(MoverError::at(&setting.path))?;
            write_synced(&setting.note, &setting.before).map_err(MoverError::at(&setting.note))?;
            settings.push(setting);
        }
        Ok(Self { settings: Rc::new(settings) })
    }

    /// Changes the settings, until the result is dropped.
    ///
    /// # Errors
    /// A setting cannot be written.
    pub(crate) fn change(&self) -> Result<Changed, MoverError> {
        let changed = Changed(Rc::clone(&self.settings));
        for setting in self.settings.iter() {
            fs::write(&setting.path, setting.changed).map_err(MoverError::at(&setting.path))?;
        }
        Ok(changed)
    }
}

impl Setting {
    fn restore(&self) -> io::Result<()> {
        fs::write(&self.path, &self.before)
    }
}

impl Drop for Knob {
    fn drop(&mut self) {
        for setting in self.settings.iter() {
            // A setting that cannot be restored keeps its note, for the next run.
            if setting.restore().is_ok() {
                let _ = fs::remove_file(&setting.note);
            }
        }
    }
}

/// The changed settings.
pub(crate) struct Changed(Rc<Vec<Setting>>);

impl Drop for Changed {
    fn drop(&mut self) {
        for setting in self.0.iter() {
            let _ = setting.restore();
        }
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

    /// Returns a folder with the settings and a folder for notes.
    fn folders(name: &str, values: [&str; 2]) -> (TestFolder, PathBuf) {
        let folder = TestFolder::new(name);
        let notes = folder.0.join("notes");
        fs::create_dir(&notes).unwrap();
        for (kind, value) in KINDS.iter().zip(values) {
            fs::write(folder.0.join(kind.name), format!("{value}\n")).unwrap();
        }
        (folder, notes)
    }

    fn settings(folder: &TestFolder) -> [String; 2] {
        KINDS.map(|kind| fs::read_to_string(folder.0.join(kind.name)).unwrap().trim().to_owned())
    }

    const CHANGED: [&str; 2] = [KINDS[0].changed, KINDS[1].changed];

    #[test]
    fn settings_are_changed_only_during_an_allocation() {
        let (folder, notes) = folders("changed", ["32", "256"]);
        let knob = Knob::at(&folder.0, &notes).unwrap();
        let changed = knob.change().unwrap();
        assert_eq!(settings(&folder), CHANGED);
        drop(changed);
        assert_eq!(settings(&folder), ["32", "256"]);
        drop(knob);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);
    }

    #[test]
    fn next_run_restores_the_settings_after_a_kill() {
        let (folder, notes) = folders("killed", ["32", "256"]);
        let knob = Knob::at(&folder.0, &notes).unwrap();
        // A killed process runs no drop.
        std::mem::forget(knob.change().unwrap());
        std::mem::forget(knob);
        assert_eq!(settings(&folder), CHANGED);
        drop(Knob::at(&folder.0, &notes).unwrap());
        assert_eq!(settings(&folder), ["32", "256"]);
    }

    #[test]
    fn changed_setting_without_a_note_is_the_default_or_stays() {
        let (folder, notes) = folders("no-note", CHANGED);
        drop(Knob::at(&folder.0, &notes).unwrap());
        assert_eq!(settings(&folder), ["16", "1"]);
    }
}
