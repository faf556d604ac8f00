//! Journal of moves: the place from which each file came, so that its moves can be undone.
//!
//! A file is noted before its first move, and only once: the first note has the file's original
//! place. A line is a JSON object. A line that a crash has cut is dropped.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::MoverError;
use crate::kernel::Extent;
use crate::runs::Run;

/// Name of the journal in the folder of the state.
const NAME: &str = "moves";

/// Place from which a file came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Inode number of the file.
    pub inode: u64,
    /// Time of the file's creation, in nanoseconds since 1970, because inode numbers are used
    /// again.
    pub born: u128,
    /// Path of the file.
    pub path: PathBuf,
    /// First block of the HDD at the time of the note.
    pub boundary: u64,
    /// First block in the file, first block on the device, and length of each extent.
    pub extents: Vec<(u64, u64, u64)>,
}

impl Origin {
    /// Returns the extents of the file at the time of the note.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.extents.iter().map(|&(logical, start, len)| Extent { logical, physical: Run::new(start, len) })
    }
}

/// Rate of moves in a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Bytes moved.
    pub bytes: u64,
    /// Time of the run.
    pub seconds: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    File(Origin),
    Run(Rate),
}

/// The journal of a file system.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Notes by inode number, in the order of the journal.
    origins: BTreeMap<usize, Origin>,
    number_of: HashMap<(u64, u128), usize>,
    next: usize,
    /// Rate of the last run.
    rate: Option<Rate>,
}

impl Journal {
    /// Opens the journal in the folder of the state, and makes it if it is missing.
    ///
    /// # Errors
    /// The journal cannot be read, or has a bad line.
    pub fn open(folder: &Path) -> Result<Self, MoverError> {
        let path = folder.join(NAME);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(MoverError::at(&path))?,
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let open = || {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            // A line without its end was cut by a crash, before its file moved.
            file.set_len(whole as u64)?;
            Ok(file)
        };
        let file = open().map_err(MoverError::at(&path))?;
        let mut journal = Self { path, file, origins: BTreeMap::new(), number_of: HashMap::new(), next: 0, rate: None };
        for (number, line) in text[..whole].lines().enumerate() {
            let line = serde_json::from_str(line).map_err(|error| MoverError::Journal {
                path: journal.path.display().to_string(),
                line: number + 1,
                reason: error.to_string(),
            })?;
            journal.remember(line);
        }
        Ok(journal)
    }

    /// Returns the rate of the last run on the file system with the folder `folder`, `None` if no
    /// rate is noted. Changes nothing.
    pub fn last_rate(folder: &Path) -> Option<Rate> {
        let text = fs::read_to_string(folder.join(NAME)).ok()?;
        let rate = |line: &str| match serde_json::from_str(line) {
            Ok(Line::Run(rate)) => Some(rate),
            _ => None,
        };
        text.lines().rev().find_map(rate)
    }

    /// Returns the notes in the folder `folder` with the time of the last note, if there are notes.
    /// Changes nothing.
    pub fn notes_in(folder: &Path) -> Option<(Vec<Origin>, SystemTime)> {
        let path = folder.join(NAME);
        let text = fs::read_to_string(&path).ok()?;
        let noted = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
        let origin = |line: &str| match serde_json::from_str(line) {
            Ok(Line::File(origin)) => Some(origin),
            _ => None,
        };
        let origins: Vec<Origin> = text.lines().filter_map(origin).collect();
        (!origins.is_empty()).then_some((origins, noted))
    }

    /// Path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the notes, the oldest first.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.origins.values()
    }

    /// Notes the place of a file that is about to move, unless an earlier place is noted.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn note(&mut self, origin: Origin) -> Result<(), MoverError> {
        if self.number_of.contains_key(&(origin.inode, origin.born)) {
            return Ok(());
        }
        self.append(Line::File(origin))
    }

    /// Notes the rate of a run that has ended.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn note_rate(&mut self, rate: Rate) -> Result<(), MoverError> {
        self.append(Line::Run(rate))
    }

    /// Makes the notes durable, and all earlier exchanges of blocks: one transaction of the file
    /// system's journal contains both.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn sync(&self) -> Result<(), MoverError> {
        self.file.sync_all().map_err(MoverError::at(&self.path))
    }

    /// Keeps only the notes of the files for which `keep` returns true, and the last rate.
    ///
    /// # Errors
    /// The journal cannot be written; its content stays as it was.
    pub fn retain(&mut self, keep: impl Fn(&Origin) -> bool) -> Result<(), MoverError> {
        self.origins.retain(|_, origin| keep(origin));
        self.number_of = self.origins.iter().map(|(&at, origin)| ((origin.inode, origin.born), at)).collect();
        let lines = self.origins.values().cloned().map(Line::File).chain(self.rate.map(Line::Run));
        let text: Result<Vec<String>, _> = lines.map(|line| serde_json::to_string(&line)).collect();
        let new = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            text?.iter().try_for_each(|line| writeln!(file, "{line}"))?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            OpenOptions::new().append(true).open(&self.path)
        };
        self.file = write().map_err(MoverError::at(&self.path))?;
        Ok(())
    }

    fn append(&mut self, line: Line) -> Result<(), MoverError> {
        let text = serde_json::to_string(&line).map_err(io::Error::from);
        let written = text.and_then(|text| self.file.write_all(format!("{text}\n").as_bytes()));
        written.map_err(MoverError::at(&self.path))?;
        self.remember(line);
        Ok(())
    }

    fn remember(&mut self, line: Line) {
        match line {
            Line::Run(rate) => self.rate = Some(rate),
            Line::File(origin) => {
                let at = self.next;
                self.next += 1;
                if self.number_of.insert((origin.inode, origin.born), at).is_none() {
                    self.origins.insert(at, origin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    fn origin(inode: u64, start: u64) -> Origin {
        Origin { inode, born: 7, path: "a file".into(), boundary: 100, extents: vec![(0, start, 4)] }
    }

    #[test]
    fn first_place_of_a_file_is_kept() {
        let folder = TestFolder::new("first");
        let mut journal = Journal::open(&folder.0).unwrap();
        for (inode, start) in [(1, 200), (2, 300), (1, 50)] {
            journal.note(origin(inode, start)).unwrap();
        }
        journal.note_rate(Rate { bytes: 8192, seconds: 2.0 }).unwrap();
        drop(journal);
        let journal = Journal::open(&folder.0).unwrap();
        assert_eq!(journal.origins().cloned().collect::<Vec<_>>(), [origin(1, 200), origin(2, 300)]);
        assert_eq!(Journal::last_rate(&folder.0), Some(Rate { bytes: 8192, seconds: 2.0 }));
    }

    #[test]
    fn line_that_a_crash_has_cut_is_dropped() {
        let folder = TestFolder::new("cut");
        let mut journal = Journal::open(&folder.0).unwrap();
        journal.note(origin(1, 200)).unwrap();
        journal.file.write_all(b"{\"file\":{\"ino").unwrap();
        drop(journal);
        let mut journal = Journal::open(&folder.0).unwrap();
        journal.note(origin(2, 300)).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&folder.0).unwrap().origins().count(), 2);
    }

    #[test]
    fn bad_line_is_named() {
        let folder = TestFolder::new("bad");
        fs::write(folder.0.join(NAME), "{}\n").unwrap();
        let message = Journal::open(&folder.0).unwrap_err().to_string();
        assert!(message.contains("moves:1: no line of a journal of moves"), "{message}");
    }

    #[test]
    fn undone_files_leave_the_journal() {
        let folder = TestFolder::new("undone");
        let mut journal = Journal::open(&folder.0).unwrap();
        (1..=3).for_each(|inode| journal.note(origin(inode, 200)).unwrap());
        journal.retain(|origin| origin.inode == 2).unwrap();
        journal.note(origin(4, 100)).unwrap();
        drop(journal);
        let journal = Journal::open(&folder.0).unwrap();
        assert_eq!(journal.origins().map(|origin| origin.inode).collect::<Vec<_>>(), [2, 4]);
    }
}
