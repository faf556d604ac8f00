//! Journal of moves: the place from which each file came, so that its moves can be undone, and so
//! that a trace from the time before a move can be read ([`crate::history`]).
//!
//! A file is noted before each move, with the time of the move. A line is a JSON object. A line
//! that a crash has cut is dropped. When a journal is opened, and its notes that no undo needs take
//! more than `BYTES_MAX`, the oldest of these notes are dropped.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::MoverError;
use crate::history::{FileKey, History, NEVER};
use crate::kernel::Extent;
use crate::runs::Run;

/// Name of the journal in the folder of the state.
pub(crate) const NAME: &str = "moves";
/// Size of a journal that is not shortened, 16 MiB: some 100,000 moves of files in few extents.
const BYTES_MAX: usize = 16 << 20;

/// Place from which a file came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Inode number of the file.
    pub inode: u64,
    /// Time of the file's creation, in nanoseconds since 1970, because inode numbers are used
    /// again.
    pub born: u128,
    /// Time of the move, in nanoseconds since 1970; `None` in the notes of an earlier version.
    #[serde(default)]
    pub time: Option<u128>,
    /// True once an undo has brought the file back after the move.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undone: bool,
    /// Path of the file.
    pub path: PathBuf,
    /// First block of the HDD at the time of the note.
    pub boundary: u64,
    /// First block in the file, first block on the device, and length of each extent.
    pub extents: Vec<(u64, u64, u64)>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Origin {
    /// Returns the numbers that name the file.
    pub fn key(&self) -> FileKey {
        (self.inode, self.born)
    }

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

/// A line that is added to the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// A file that moves.
    File(Origin),
    /// A run that has ended.
    Run(Rate),
    /// Time from which on all moves have notes.
    Since(u128),
}

/// The journal of a file system.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    content: Content,
}

/// Content of a journal.
#[derive(Debug, Default)]
struct Content {
    history: History,
    /// Rate of the last run.
    rate: Option<Rate>,
}

/// Sizes of a journal's file.
#[derive(Default)]
struct Sizes {
    /// Number of bytes in whole lines. A line without its end was cut by a crash, before its file
    /// moved.
    whole: usize,
    /// Number of all bytes.
    all: usize,
}

impl Content {
    /// Reads the journal at `path`, which may be missing.
    fn read(path: &Path) -> Result<(Self, Sizes), MoverError> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            read => read.map_err(MoverError::at(path))?,
        };
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut content = Self::default();
        for (number, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line = serde_json::from_slice(line).map_err(|error| MoverError::Journal {
                path: path.display().to_string(),
                line: number + 1,
                reason: error.to_string(),
            })?;
            content.remember(line);
        }
        Ok((content, Sizes { whole, all: bytes.len() }))
    }

    fn remember(&mut self, line: Line) {
        match line {
            Line::Run(rate) => self.rate = Some(rate),
            Line::Since(time) => self.history.since = time,
            Line::File(note) => self.history.add(note),
        }
    }
}

/// Returns the present time, in nanoseconds since 1970, by the clock that dates files. The clock of
/// the processor is ahead of it by up to one tick (4 to 10 ms): a trace that ends a millisecond
/// after a move would be older than the move.
fn now() -> u128 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let since_1970 = u128::try_from(now.tv_sec).unwrap_or(0);
    since_1970 * 1_000_000_000 + now.tv_nsec.unsigned_abs() as u128
}

impl Journal {
    /// Opens the journal in the folder of the state, and makes it if it is missing.
    ///
    /// # Errors
    /// The journal cannot be read or written, or has a bad line.
    pub fn open(folder: &Path) -> Result<Self, MoverError> {
        Self::open_up_to(folder, BYTES_MAX)
    }

    /// Opens the journal, and drops the oldest notes of a journal with more than `bytes_max`.
    fn open_up_to(folder: &Path, bytes_max: usize) -> Result<Self, MoverError> {
        let path = folder.join(NAME);
        let (content, Sizes { whole, all }) = Content::read(&path)?;
        let open = || {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            if whole != all {
                file.set_len(whole as u64)?;
            }
            Ok(file)
        };
        let file = open().map_err(MoverError::at(&path))?;
        let mut journal = Self { path, file, content };
        if journal.content.history.since == NEVER {
            // An earlier version has written the journal. All of its moves were made before now.
            journal.append(Line::Since(now()))?;
        }
        if whole > bytes_max {
            let line_of = |note: &Origin| serde_json::to_string(&Line::File(note.clone()));
            let size_of = |note: &Origin| line_of(note).map_or(0, |line| line.len() + 1);
            if journal.content.history.shorten(bytes_max, bytes_max / 2, size_of) {
                journal.rewrite()?;
            }
        }
        Ok(journal)
    }

    /// Returns the rate of the last run on the file system with the folder `folder`, `None` if no
    /// rate is noted. Changes nothing.
    pub fn last_rate(folder: &Path) -> Option<Rate> {
        Content::read(&folder.join(NAME)).ok()?.0.rate
    }

    /// Returns the notes in the folder `folder`. Changes nothing.
    ///
    /// # Errors
    /// The journal cannot be read, or has a bad line.
    pub fn history_in(folder: &Path) -> Result<History, MoverError> {
        Ok(Content::read(&folder.join(NAME))?.0.history)
    }

    /// Path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the original places of the files that can be moved back, the oldest first.
    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.content.history.origins()
    }

    /// Notes the place of a file that is about to move, with the present time.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn note(&mut self, origin: Origin) -> Result<(), MoverError> {
        self.append(Line::File(Origin { time: Some(now()), ..origin }))
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

    /// Marks the notes of the files `undone`, which have moved back. The notes stay, because they
    /// tell the former places of the files.
    ///
    /// # Errors
    /// The journal cannot be written; its content stays as it was.
    pub fn mark_undone(&mut self, undone: &HashSet<FileKey>) -> Result<(), MoverError> {
        for note in self.content.history.notes.iter_mut().filter(|note| undone.contains(&note.key())) {
            note.undone = true;
        }
        self.rewrite()
    }

    /// Replaces the file by a file with the present content.
    fn rewrite(&mut self) -> Result<(), MoverError> {
        let Content { history: History { notes, since }, rate } = &self.content;
        let notes = notes.iter().cloned().map(Line::File);
        // The line follows the notes, because a note without a time would end its effect.
        let lines = notes.chain((*since > 0).then_some(Line::Since(*since))).chain(rate.map(Line::Run));
        let new = self.path.with_extension("new");
        let write = || {
            let mut out = BufWriter::new(File::create(&new)?);
            for line in lines {
                writeln!(out, "{}", serde_json::to_string(&line)?)?;
            }
            out.into_inner().map_err(IntoInnerError::into_error)?.sync_all()?;
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
        self.content.remember(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::test_folder::TestFolder;

    fn origin(inode: u64, start: u64) -> Origin {
        let extents = vec![(0, start, 4)];
        Origin { inode, born: 7, time: None, undone: false, path: "a file".into(), boundary: 100, extents }
    }

    /// Returns the inode number and first block of each original place.
    fn origins(journal: &Journal) -> Vec<(u64, u64)> {
        journal.origins().map(|origin| (origin.inode, origin.extents[0].1)).collect()
    }

    /// Line of an earlier version.
    const UNTIMED: &str =
        "{\"file\":{\"inode\":1,\"born\":7,\"path\":\"a file\",\"boundary\":100,\"extents\":[[0,200,4]]}}\n";

    #[test]
    fn each_move_is_noted_and_the_first_place_is_the_origin() {
        let folder = TestFolder::new("first");
        let mut journal = Journal::open(&folder.0).unwrap();
        let begun = now();
        for (inode, start) in [(1, 200), (2, 300), (1, 50)] {
            journal.note(origin(inode, start)).unwrap();
        }
        journal.note_rate(Rate { bytes: 8192, seconds: 2.0 }).unwrap();
        drop(journal);
        let journal = Journal::open(&folder.0).unwrap();
        assert_eq!(origins(&journal), [(1, 200), (2, 300)]);
        let notes = &journal.content.history.notes;
        assert_eq!(notes.iter().map(|note| note.extents[0].1).collect::<Vec<_>>(), [200, 300, 50]);
        assert!(notes.iter().all(|note| note.time.unwrap() >= begun && note.time.unwrap() <= now()));
        assert_eq!(Journal::last_rate(&folder.0), Some(Rate { bytes: 8192, seconds: 2.0 }));
    }

    /// Regression: each opening set the length of the file anew, and the time of the file's last
    /// change was read as the time of the last move.
    #[test]
    fn opening_changes_nothing_in_a_whole_journal() {
        let folder = TestFolder::new("untouched");
        let mut journal = Journal::open(&folder.0).unwrap();
        journal.note(origin(1, 200)).unwrap();
        drop(journal);
        let path = folder.0.join(NAME);
        let long_ago = UNIX_EPOCH + std::time::Duration::from_secs(1000);
        File::options().append(true).open(&path).and_then(|file| file.set_modified(long_ago)).unwrap();
        let before = fs::read(&path).unwrap();
        drop(Journal::open(&folder.0).unwrap());
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
    }

    #[test]
    fn line_that_a_crash_has_cut_is_dropped() {
        let folder = TestFolder::new("cut");
        let mut journal = Journal::open(&folder.0).unwrap();
        journal.note(origin(1, 200)).unwrap();
        // The cut goes through a letter of two bytes.
        journal.file.write_all(b"{\"file\":{\"path\":\"\xc3").unwrap();
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
        assert!(Journal::history_in(&folder.0).is_err(), "a reader refuses the line, too");
    }

    #[test]
    fn undone_files_leave_the_origins_and_keep_their_notes() {
        let folder = TestFolder::new("undone");
        let mut journal = Journal::open(&folder.0).unwrap();
        (1..=3).for_each(|inode| journal.note(origin(inode, 200)).unwrap());
        journal.mark_undone(&HashSet::from([(1, 7), (3, 7)])).unwrap();
        journal.note(origin(4, 100)).unwrap();
        journal.note(origin(1, 210)).unwrap();
        drop(journal);
        let journal = Journal::open(&folder.0).unwrap();
        assert_eq!(origins(&journal), [(2, 200), (4, 100), (1, 210)]);
        assert_eq!(Journal::history_in(&folder.0).unwrap().places_at(7).len(), 4);
    }

    /// An earlier version noted no time. All of its moves were made before the journal is opened.
    #[test]
    fn journal_of_an_earlier_version_knows_places_from_now_on() {
        let folder = TestFolder::new("earlier");
        fs::write(folder.0.join(NAME), UNTIMED).unwrap();
        assert!(!Journal::history_in(&folder.0).unwrap().is_known_at(now()));
        let mut journal = Journal::open(&folder.0).unwrap();
        let opened = now();
        assert_eq!(origins(&journal), [(1, 200)]);
        journal.note(origin(1, 50)).unwrap();
        journal.mark_undone(&HashSet::new()).unwrap();
        drop(journal);
        drop(Journal::open(&folder.0).unwrap());
        let history = Journal::history_in(&folder.0).unwrap();
        assert!(history.is_known_at(opened) && !history.is_known_at(opened - 60_000_000_000));
        assert_eq!(history.places_at(opened - 1)[0].extents[0].1, 50);
        assert_eq!(history.origins().count(), 1);
    }

    /// Regression: the journal took its times from another clock than files do. A trace that was
    /// recorded within a tick of that clock after a run was refused as older than the run.
    #[test]
    fn trace_written_directly_after_a_move_is_later_than_the_move() {
        let folder = TestFolder::new("clock");
        let mut journal = Journal::open(&folder.0).unwrap();
        for start in 0..50 {
            journal.note(origin(1, start)).unwrap();
            let trace = folder.0.join("trace.csv");
            fs::write(&trace, b"0,0,read").unwrap();
            let written = fs::metadata(&trace).and_then(|metadata| metadata.modified()).unwrap();
            let moved = journal.content.history.notes.last().unwrap().time.unwrap();
            assert!(written.duration_since(UNIX_EPOCH).unwrap().as_nanos() >= moved);
        }
    }

    #[test]
    fn long_journal_is_shortened_to_half_of_its_bound() {
        let folder = TestFolder::new("long");
        let mut journal = Journal::open(&folder.0).unwrap();
        (0..100).for_each(|number| journal.note(origin(1, 200 + number)).unwrap());
        drop(journal);
        let path = folder.0.join(NAME);
        let long = fs::metadata(&path).unwrap().len() as usize;
        let origin = fs::read(&path).unwrap().iter().position(|&byte| byte == b'\n').unwrap() + 1;
        drop(Journal::open_up_to(&folder.0, long - origin).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, long, "an undo needs the first note");
        let journal = Journal::open_up_to(&folder.0, long - origin - 1).unwrap();
        assert_eq!(origins(&journal), [(1, 200)]);
        let (short, since) = (fs::metadata(&path).unwrap().len() as usize, 40);
        assert!((long / 3..=long / 2 + origin + since).contains(&short), "{short} of {long}");
        let history = Journal::history_in(&folder.0).unwrap();
        assert!(!history.is_known_at(7) && history.is_known_at(now()));
    }
}
