//! Moves of files, batch by batch.
//!
//! A batch of file moves has the following steps:
//!
//! 1. Each file is opened and its extents are read anew; the parts on the wrong drive are chosen to
//!    move.
//! 2. A donor gets as many blocks on the wanted drive ([`crate::arena`]). Each file gets a place in
//!    the donor.
//! 3. The journal notes where the files with a place lie, and the journal is made durable.
//! 4. The kernel exchanges blocks, `PIECE` at a time. A part that was not exchanged is found by
//!    its extents, and tried again.
//! 5. The extents are read again: a file counts as moved only if its extents lie on the wanted
//!    drive.
//! 6. The donor, which now has the file's old blocks, is closed. Closing the donor frees the old
//!    blocks.
//!
//! On XFS, which exchanges no single blocks, each file moves alone and as a whole
//! (`swap.rs`).
//!
//! A run may be killed after any step. The kernel exchanges blocks within a transaction of the file
//! system, and writes the copied content before that transaction commits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bimetal_trace::file_system::born;
use rustix::io::Errno;

use crate::arena::Arena;
use crate::file_system::{FileSystem, LOCK, Lock};
use crate::history::FileKey;
use crate::journal::{self, Journal, Origin, Rate};
use crate::kernel::{Extent, exchange, extents};
use crate::knob::Knob;
use crate::pace::{Ended, Pace};
use crate::renamed;
use crate::runs::Run;
use crate::swap::{self, Nests, Unswapped};
use crate::{BLOCK_BYTES, MoverError, Side};

/// Number of blocks of a batch: 64 MiB.
const BATCH_BLOCKS: u64 = 1 << 14;
/// Largest number of files of a batch, which are all open.
const BATCH_FILES: usize = 256;
/// Number of blocks of one call of the kernel: 4 MiB.
const PIECE: u64 = 1024;
/// Number of blocks that may leave the SSD without room for another file in return, 8 MiB. Beyond
/// this number, no further file leaves the SSD.
const IN_VAIN_MAX: u64 = 1 << 11;
/// Number of attempts to exchange a part.
const ATTEMPTS: u32 = 4;
/// Blocks of a whole file.
const WHOLE: std::ops::Range<u64> = 0..1 << 32;

/// Reason of a file that the kernel does not open for writing, or does not exchange.
const IN_USE: &str = "in use: a program that is running, or swap space";

/// Flags of an inode, of `linux/fs.h`, whose files do not move; with the reason.
const NOT_MOVED: &[(u32, &str)] = &[
    (0x10, "immutable (chattr +i)"),
    (0x20, "append-only (chattr +a)"),
    (0x800, "encrypted"),
    (0x4000, "content in the file system's journal (chattr +j)"),
    (0x10_0000, "protected by verity"),
    (0x200_0000, "in memory of the device (DAX)"),
    (0x1000_0000, "content in the inode"),
];
/// Flag of an inode with extents.
const HAS_EXTENTS: u32 = 0x8_0000;

/// A move that is to be made.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path of the file.
    pub path: PathBuf,
    /// Inode number of the file.
    pub inode: u64,
    /// Time of the file's creation ([`born`]).
    pub born: u128,
    /// Drive to which the file's blocks move.
    pub to: Side,
    /// Parts of the file that move, in blocks of the file; `None` for all parts on the other drive.
    pub only: Option<Vec<Run>>,
    /// Free runs that a donor aims at.
    pub aims: Vec<Run>,
}

/// Settings of a run.
#[derive(Debug)]
pub struct Settings<'a> {
    /// First block of the HDD.
    pub boundary: u64,
    /// True if the content of each file is compared before and after its move.
    pub verify: bool,
    /// Pace of the moves.
    pub pace: Pace<'a>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Files moved to the SSD, and their blocks.
    pub to_ssd: (u64, u64),
    /// Files moved to the HDD, and their blocks.
    pub to_hdd: (u64, u64),
    /// Number of moved files that have more extents than before.
    pub split: u64,
    /// Number of files whose checksums were compared.
    pub verified: u64,
    /// Number of files that an undo did not find, because they were removed since they moved.
    pub removed: u64,
    /// Files that have not moved, or have moved only in part, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
    /// Time of the run.
    pub time: Duration,
    /// Reason for which the run ended before its last move.
    pub ended: Option<Ended>,
}

impl Report {
    /// Returns the number of bytes moved.
    pub fn bytes(&self) -> u64 {
        (self.to_ssd.1 + self.to_hdd.1) * BLOCK_BYTES
    }
}

/// Moves files of a file system.
pub struct Mover<'a> {
    file_system: &'a FileSystem,
    folder: PathBuf,
    settings: Settings<'a>,
    way: Way,
    journal: Journal,
    report: Report,
    /// Inode numbers of the files that lie on the wanted drive, each with this drive.
    settled: HashSet<(u64, Side)>,
    /// Set once a file has found no place on the SSD.
    is_full: bool,
    /// Lock against other runs, held until the end.
    _lock: Lock,
}

/// Way in which the file system moves a file.
enum Way {
    /// Exchange of any blocks (ext4), with the allocator's setting that donors need.
    Exchange(Knob),
    /// Swap of all extents of a file for the extents of a copy (XFS).
    Swap(Nests),
}

impl Way {
    fn of(file_system: &FileSystem, folder: &Path) -> Result<Self, MoverError> {
        match file_system.kind.as_str() {
            "xfs" => Ok(Self::Swap(Nests::make(folder)?)),
            _ => Ok(Self::Exchange(Knob::open(file_system, folder)?)),
        }
    }

    /// Returns the flag that the inode of a file must have.
    fn needed_flag(&self) -> u32 {
        match self {
            Self::Exchange(_) => HAS_EXTENTS,
            Self::Swap(_) => 0,
        }
    }
}

/// A file that is open for its move. The file is open for reading: while a program is open for
/// writing, it cannot be started.
struct Work<'r> {
    request: &'r Request,
    file: File,
    /// Parts on the wrong drive.
    parts: Vec<Extent>,
    origin: Origin,
    /// Checksum and times before the move.
    before: Option<(u32, Stamp)>,
    /// Set once the journal has the note of the move.
    is_noted: bool,
    /// Error that ended the move.
    error: Option<String>,
    /// Set if the donor had no blocks for a part of the file.
    has_no_place: bool,
}

impl Work<'_> {
    fn blocks(&self) -> u64 {
        self.parts.iter().map(|part| part.physical.len).sum()
    }
}

/// Time of the last change, and size.
type Stamp = (i64, i64, i64, i64, u64);

impl<'a> Mover<'a> {
    /// Returns a mover for `file_system`, with the lock of the file system. Restores the state
    /// before an earlier run that was killed.
    ///
    /// # Errors
    /// The file system cannot move files, or another run has the lock.
    pub fn open(file_system: &'a FileSystem, settings: Settings<'a>) -> Result<Self, MoverError> {
        file_system.check()?;
        let lock = file_system.lock()?;
        let folder = file_system.folder()?;
        let way = Way::of(file_system, &folder)?;
        let journal = Journal::open(&folder)?;
        Ok(Self {
            file_system,
            folder,
            settings,
            way,
            journal,
            report: Report::default(),
            settled: HashSet::new(),
            is_full: false,
            _lock: lock,
        })
    }

    /// Makes the moves in their order. `progress` gets the number of bytes moved so far. If
    /// files find no place on the SSD, further files leave the SSD only as far as others move in.
    ///
    /// # Errors
    /// The file system refuses to exchange blocks, or a file's content differs after its move.
    pub fn run(mut self, requests: &[Request], progress: &dyn Fn(u64)) -> Result<Report, MoverError> {
        let begun = Instant::now();
        let ended = self.run_batches(requests, true, progress)?;
        self.report.ended = ended.err();
        self.report.time = begun.elapsed();
        if self.report.bytes() > 0 {
            let rate = Rate { bytes: self.report.bytes(), seconds: self.report.time.as_secs_f64() };
            self.journal.note_rate(rate)?;
        }
        Ok(self.report)
    }

    /// Moves all files of the journal back to the drives from which they came, as far as there is
    /// room. A file with another path now is searched for on the whole file system. The notes of
    /// files that have moved back, or were removed, stay in the journal, marked as undone, because
    /// they tell where the files lay. If all files have moved back, only the journal is left of the
    /// state.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run); or the journal has no move.
    pub fn undo(mut self, progress: &dyn Fn(u64)) -> Result<Report, MoverError> {
        let begun = Instant::now();
        let elsewhere: HashSet<FileKey> =
            self.journal.origins().filter(|origin| !is_there(origin)).map(Origin::key).collect();
        let renamed = match elsewhere.is_empty() {
            true => renamed::Found::default(),
            false => renamed::find(&self.file_system.root, &elsewhere),
        };
        let sees_all = self.file_system.is_whole && !renamed.is_partial;
        let is_gone = |origin: &Origin| sees_all && !is_there(origin) && !renamed.paths.contains_key(&origin.key());
        let gone: HashSet<FileKey> = self.journal.origins().filter(|origin| is_gone(origin)).map(Origin::key).collect();
        self.report.removed = gone.len() as u64;
        let back = moves_back(&self.journal, &renamed.paths, &gone);
        if back.is_empty() && gone.is_empty() {
            return Err(MoverError::NothingToUndo { path: self.journal.path().display().to_string() });
        }
        for (boundary, requests) in back {
            self.settings.boundary = boundary;
            let ended = self.run_batches(&requests, false, progress)?;
            self.report.ended = ended.err();
            if ended.is_err() {
                break;
            }
        }
        self.report.time = begun.elapsed();
        let settled = std::mem::take(&mut self.settled);
        let is_back =
            |origin: &Origin| requests_of(origin).all(|request| settled.contains(&(origin.inode, request.to)));
        let undone = self.journal.origins().filter(|origin| gone.contains(&origin.key()) || is_back(origin));
        let undone = undone.map(Origin::key).collect();
        self.journal.mark_undone(&undone)?;
        if self.journal.origins().next().is_none() {
            drop(self.way);
            remove_state(&self.folder).map_err(MoverError::at(&self.folder))?;
        }
        Ok(self.report)
    }

    /// Notes the place of a file before the first exchange of its move.
    fn note(journal: &mut Journal, work: &mut Work<'_>) -> Result<(), MoverError> {
        if !work.is_noted {
            journal.note(work.origin.clone())?;
            work.is_noted = true;
        }
        Ok(())
    }

    /// Makes the moves; the inner result is an error if the run ended early. `makes_room` is set if
    /// files leave the SSD only to make room for others.
    fn run_batches(
        &mut self,
        requests: &[Request],
        makes_room: bool,
        progress: &dyn Fn(u64),
    ) -> Result<Result<(), Ended>, MoverError> {
        let mut batch: Vec<Work<'_>> = Vec::new();
        // Set if files stay on the SSD, because their room would help nobody.
        let mut keeps = false;
        for request in requests {
            if let Err(ended) = self.settings.pace.check() {
                return Ok(Err(ended));
            }
            let is_other = batch.first().is_some_and(|first| first.request.to != request.to);
            if is_other && let Err(ended) = self.move_batch(std::mem::take(&mut batch), progress)? {
                return Ok(Err(ended));
            }
            if is_other && request.to == Side::Hdd {
                keeps = makes_room && self.left_in_vain() > IN_VAIN_MAX;
            }
            if keeps && request.to == Side::Hdd {
                continue;
            }
            let work = match self.prepare(request) {
                Ok(Some(work)) => work,
                Ok(None) => {
                    self.settled.insert((request.inode, request.to));
                    continue;
                }
                Err(reason) => {
                    self.report.skipped.push((request.path.clone(), reason));
                    continue;
                }
            };
            if let Way::Swap(_) = self.way {
                if let Err(ended) = self.swap(work, progress)? {
                    return Ok(Err(ended));
                }
                continue;
            }
            let blocks: u64 = batch.iter().map(Work::blocks).sum();
            let is_full = batch.len() >= BATCH_FILES || blocks + work.blocks() > BATCH_BLOCKS;
            if is_full && let Err(ended) = self.move_batch(std::mem::take(&mut batch), progress)? {
                return Ok(Err(ended));
            }
            batch.push(work);
        }
        self.move_batch(batch, progress)
    }

    /// Opens a file, and finds its parts on the wrong drive. `Ok(None)` means that no part is on
    /// the wrong drive. An error is the reason for which the file does not move.
    fn prepare<'r>(&mut self, request: &'r Request) -> Result<Option<Work<'r>>, String> {
        let needed = self.way.needed_flag();
        let file = open(&request.path, needed)?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() || (metadata.ino(), born(&metadata)) != (request.inode, request.born) {
            return Err("another file has its name now".to_owned());
        }
        refuse_flags(&file, needed)?;
        let all = extents(&file, WHOLE).map_err(|errno| io::Error::from(errno).to_string())?;
        let parts = self.parts_to_move(request, &all, metadata.len());
        if parts.is_empty() {
            return Ok(None);
        }
        let before = if self.settings.verify { Some(checksum(&file)?) } else { None };
        let origin = Origin {
            inode: request.inode,
            born: request.born,
            time: None,
            undone: false,
            path: std::path::absolute(&request.path).unwrap_or_else(|_| request.path.clone()),
            boundary: self.settings.boundary,
            extents: all.iter().map(|extent| (extent.logical, extent.physical.start, extent.physical.len)).collect(),
        };
        Ok(Some(Work { request, file, parts, origin, before, is_noted: false, error: None, has_no_place: false }))
    }

    /// Returns the parts of a file of `bytes` that are to move. Blocks after the file's end stay,
    /// because the kernel exchanges no blocks after the end of a file.
    fn parts_to_move(&self, request: &Request, all: &[Extent], bytes: u64) -> Vec<Extent> {
        let end = bytes.div_ceil(BLOCK_BYTES);
        let wrong = match request.to {
            Side::Ssd => Side::Hdd,
            Side::Hdd => Side::Ssd,
        };
        let whole = [Run::new(0, end)];
        let asked = request.only.as_deref().unwrap_or(&whole);
        let asked = asked.iter().filter_map(|run| run.clip(0, end));
        let within = asked.flat_map(|run| all.iter().filter_map(move |extent| extent.within(&(run.start..run.end()))));
        within.filter_map(|extent| extent.part(extent.physical.on(wrong, self.settings.boundary)?)).collect()
    }

    /// Returns the number of blocks that have left the SSD, and whose room no file has taken; 0 as
    /// long as every file finds its place.
    fn left_in_vain(&self) -> u64 {
        let Report { to_ssd, to_hdd, .. } = &self.report;
        if self.is_full { to_hdd.1.saturating_sub(to_ssd.1) } else { 0 }
    }

    /// Moves the files of a batch, in slices of at most [`BATCH_BLOCKS`].
    fn move_batch(
        &mut self,
        mut batch: Vec<Work<'_>>,
        progress: &dyn Fn(u64),
    ) -> Result<Result<(), Ended>, MoverError> {
        let mut ended = Ok(());
        if let [work] = &mut batch[..] {
            let parts = sliced(std::mem::take(&mut work.parts));
            for slice in &parts {
                if ended.is_ok() && work.error.is_none() {
                    ended = self.move_slices(&mut [(&mut *work, slice)], progress)?;
                }
            }
            work.parts = parts.into_iter().flatten().collect();
        } else if !batch.is_empty() {
            let parts: Vec<Vec<Extent>> = batch.iter().map(|work| work.parts.clone()).collect();
            let mut slices: Vec<_> = batch.iter_mut().zip(&parts).map(|(work, parts)| (work, &parts[..])).collect();
            ended = self.move_slices(&mut slices, progress)?;
            // A donor for one file finds gaps that a donor for many files has passed over. A search
            // without success takes a second, so the first such search is the last.
            for (work, parts) in batch.iter_mut().zip(&parts).filter(|(work, _)| work.has_no_place) {
                if ended.is_err() {
                    break;
                }
                (work.has_no_place, work.error) = (false, None);
                ended = self.move_slices(&mut [(&mut *work, parts)], progress)?;
                if work.has_no_place {
                    break;
                }
            }
        }
        for work in batch {
            self.finish(work, ended)?;
        }
        progress(self.report.bytes());
        Ok(ended)
    }

    /// Moves a part of each file, all to the same drive, with one donor.
    fn move_slices(
        &mut self,
        slices: &mut [(&mut Work<'_>, &[Extent])],
        progress: &dyn Fn(u64),
    ) -> Result<Result<(), Ended>, MoverError> {
        let Some((first, _)) = slices.first() else { return Ok(Ok(())) };
        let to = first.request.to;
        let blocks = slices.iter().flat_map(|(_, parts)| parts.iter()).map(|part| part.physical.len).sum();
        let aims: Vec<Run> = slices.iter().flat_map(|(work, _)| work.request.aims.iter().copied()).collect();
        let boundary = self.settings.boundary;
        let find_free = || self.file_system.free();
        let Way::Exchange(knob) = &self.way else { return Ok(Ok(())) };
        let mut arena = Arena::fill(&self.folder, knob, to, boundary, blocks, &aims, &find_free)?;
        let mut placed = Vec::new();
        for (work, parts) in slices.iter_mut() {
            let len = parts.iter().map(|part| part.physical.len).sum();
            let Some(places) = arena.free.take(len) else {
                work.error = Some(no_place(to));
                work.has_no_place = true;
                continue;
            };
            Self::note(&mut self.journal, work)?;
            placed.push((work, paired(parts, &places, &arena), len));
        }
        self.journal.sync()?;
        let (mut last, mut moved) = (None, 0);
        for (work, pairs, len) in placed {
            if let Err(ended) = self.exchange_all(work, &pairs, &arena)? {
                return Ok(Err(ended));
            }
            moved += len;
            progress(self.report.bytes() + moved * BLOCK_BYTES);
            last = Some(&work.file);
        }
        // The donor's blocks are freed, and the transactions of all files up to the last commit.
        drop(arena);
        if let Some(last) = last {
            last.sync_all().map_err(MoverError::at(&self.folder))?;
        }
        Ok(Ok(()))
    }

    /// Exchanges the blocks of each part of a file with the blocks of its new place; `pairs` lists
    /// parts and places.
    fn exchange_all(
        &mut self,
        work: &mut Work<'_>,
        pairs: &[(Extent, u64)],
        arena: &Arena,
    ) -> Result<Result<(), Ended>, MoverError> {
        for (number, &(part, donor_start)) in pairs.iter().enumerate() {
            if let Err(ended) = self.settings.pace.wait(part.physical.len * BLOCK_BYTES) {
                return Ok(Err(ended));
            }
            if number == 0 {
                // The kernel copies a page of the cache that is in use, or dirty, by a commit of
                // its own.
                let _ = rustix::fs::fdatasync(&work.file);
            }
            match self.exchange_part(work, part, donor_start, &arena.donor) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP) => {
                    return Err(MoverError::NotSupported { path: work.request.path.display().to_string() });
                }
                Err(Errno::TXTBSY) => work.error = Some(IN_USE.to_owned()),
                Err(Errno::BUSY) => work.error = Some("its pages are in use".to_owned()),
                Err(Errno::INVAL) => work.error = Some("cut while it moved".to_owned()),
                Err(errno) => work.error = Some(io::Error::from(errno).to_string()),
            }
            if work.error.is_some() {
                break;
            }
            if self.settings.pace.waits_for_idle() {
                // Only requests of others count as use of the device.
                let _ = rustix::fs::fdatasync(&work.file);
            }
        }
        Ok(Ok(()))
    }

    /// Exchanges one part. Blocks that the kernel leaves out are found by their extents and tried
    /// again, because a call that fails may have exchanged some blocks.
    fn exchange_part(&self, work: &Work<'_>, part: Extent, donor_start: u64, donor: &File) -> Result<(), Errno> {
        let range = part.logical..part.logical + part.physical.len;
        let mut left = vec![part];
        let mut result = Ok(());
        for attempt in 0..ATTEMPTS {
            for piece in &left {
                forget_pages(&work.file, piece);
                let donor_start = donor_start + (piece.logical - part.logical);
                let file = for_writing(&work.file)?;
                result = exchange(&file, piece.logical, donor, donor_start, piece.physical.len);
                match result {
                    Ok(()) | Err(Errno::BUSY) => {}
                    Err(errno) => return Err(errno),
                }
            }
            let now = extents(&work.file, range.clone())?;
            let wrong = |extent: &Extent| {
                let other = if work.request.to == Side::Ssd { Side::Hdd } else { Side::Ssd };
                extent.part(extent.physical.on(other, self.settings.boundary)?)
            };
            left = now.iter().filter_map(wrong).collect();
            if left.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10 << attempt));
        }
        // A file that was cut meanwhile has fewer blocks, and the next step counts them.
        result
    }

    /// Moves a whole file by a copy with which it swaps its extents.
    fn swap(&mut self, mut work: Work<'_>, progress: &dyn Fn(u64)) -> Result<Result<(), Ended>, MoverError> {
        let ended = match self.swap_whole(&mut work)? {
            Ok(()) => Ok(()),
            Err(Unswapped::Ended(ended)) => Err(ended),
            Err(Unswapped::Because(reason)) => {
                work.error = Some(reason);
                Ok(())
            }
        };
        self.finish(work, ended)?;
        progress(self.report.bytes());
        Ok(ended)
    }

    fn swap_whole(&mut self, work: &mut Work<'_>) -> Result<Result<(), Unswapped>, MoverError> {
        let Way::Swap(nests) = &mut self.way else { return Ok(Ok(())) };
        let bytes = work.file.metadata().map_or(0, |metadata| metadata.len());
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let within = |runs: &mut dyn Iterator<Item = Run>| -> u64 {
            runs.filter_map(|run| run.clip(0, blocks)).map(|run| run.len).sum()
        };
        let held = within(&mut work.origin.extents.iter().map(|&(logical, _, len)| Run::new(logical, len)));
        let asked = work.request.only.as_ref().map_or(blocks, |only| within(&mut only.iter().copied()));
        if held != blocks {
            return Ok(Err(Unswapped::Because("sparse, or shares blocks: XFS swaps whole files only".to_owned())));
        }
        if asked != blocks {
            return Ok(Err(Unswapped::Because("a part of it stays, and XFS swaps whole files only".to_owned())));
        }
        let before = match swap::Before::of(&work.file) {
            Ok(before) => before,
            Err(reason) => return Ok(Err(Unswapped::Because(reason))),
        };
        let Some(donor) = nests.donor(work.request.to, self.settings.boundary, blocks)? else {
            work.has_no_place = true;
            return Ok(Err(Unswapped::Because(no_place(work.request.to))));
        };
        Self::note(&mut self.journal, work)?;
        self.journal.sync()?;
        Ok(before.swap(&work.file, &donor, bytes, &mut self.settings.pace))
    }

    /// Ends a move of a file: reads the file's extents again, and compares the content if the
    /// settings ask for it.
    fn finish(&mut self, work: Work<'_>, ended: Result<(), Ended>) -> Result<(), MoverError> {
        let path = &work.request.path;
        self.is_full |= work.has_no_place && work.request.to == Side::Ssd;
        let now = extents(&work.file, WHOLE).unwrap_or_default();
        let bytes = work.file.metadata().map_or(0, |metadata| metadata.len());
        let left = self.parts_to_move(work.request, &now, bytes);
        let left: u64 = left.iter().map(|part| part.physical.len).sum();
        let moved = work.blocks().saturating_sub(left);
        if let Some((before, stamp)) = work.before.filter(|_| moved > 0) {
            match checksum(&work.file).and_then(|sum| still(&work.file, sum)) {
                Ok((after, now)) if before == after && stamp == now => self.report.verified += 1,
                Ok((after, now)) if is_untouched(stamp, now) => {
                    return Err(MoverError::Content { path: path.display().to_string(), before, after });
                }
                _ => self.report.skipped.push((path.clone(), "moved, and written meanwhile: not compared".to_owned())),
            }
        }
        if left == 0 {
            self.settled.insert((work.request.inode, work.request.to));
        } else if ended.is_ok() {
            let reason = work.error.unwrap_or_else(|| "written while it moved".to_owned());
            self.report.skipped.push((path.clone(), reason));
        }
        if moved > 0 {
            self.report.split += u64::from(now.len() > work.origin.extents.len());
            let total = if work.request.to == Side::Ssd { &mut self.report.to_ssd } else { &mut self.report.to_hdd };
            *total = (total.0 + 1, total.1 + moved);
        }
        Ok(())
    }
}

/// Removes all of the state but the journal and the lock.
fn remove_state(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else if ![LOCK, journal::NAME].iter().any(|name| entry.file_name() == *name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the reason for which a file has found no place on a drive.
fn no_place(side: Side) -> String {
    format!("the file system gave no free place on the {}", name(side))
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Ssd => "SSD",
        Side::Hdd => "HDD",
    }
}

/// Opens a file for its move, without a change of its times. An error is the reason for which the
/// file cannot be opened.
fn open(path: &Path, needed_flag: u32) -> Result<File, String> {
    // A pipe of that name would wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NOATIME | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| error.to_string())?;
    if let Err(errno) = for_writing(&file) {
        return Err(match errno {
            Errno::TXTBSY => "a program that is running".to_owned(),
            errno => refuse_flags(&file, needed_flag).err().unwrap_or_else(|| io::Error::from(errno).to_string()),
        });
    }
    Ok(file)
}

/// Opens a file for writing, too, for one call of the kernel. No program can be started while its
/// file, or the dynamic linker, is open for writing.
pub(crate) fn for_writing(file: &File) -> Result<File, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOATIME).open(path);
    opened.map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

/// Refuses a file by the flags of its inode, which must include `needed_flag`.
fn refuse_flags(file: &File, needed_flag: u32) -> Result<(), String> {
    let flags = rustix::fs::ioctl_getflags(file).map_err(|errno| io::Error::from(errno).to_string())?.bits();
    if let Some((_, reason)) = NOT_MOVED.iter().find(|(flag, _)| flags as u32 & flag != 0) {
        return Err((*reason).to_owned());
    }
    if flags as u32 & needed_flag != needed_flag {
        return Err("blocks in the form of ext3 (no extents)".to_owned());
    }
    Ok(())
}

/// Cuts extents into slices of at most [`BATCH_BLOCKS`].
fn sliced(parts: Vec<Extent>) -> Vec<Vec<Extent>> {
    let mut slices: Vec<Vec<Extent>> = vec![Vec::new()];
    let mut room = BATCH_BLOCKS;
    for mut part in parts {
        while part.physical.len > 0 {
            let len = part.physical.len.min(room);
            let physical = Run::new(part.physical.start, len);
            if let Some(slice) = slices.last_mut() {
                slice.push(Extent { logical: part.logical, physical });
            }
            let rest = Run::new(physical.end(), part.physical.len - len);
            part = Extent { logical: part.logical + len, physical: rest };
            room -= len;
            if room == 0 {
                slices.push(Vec::new());
                room = BATCH_BLOCKS;
            }
        }
    }
    slices.retain(|slice| !slice.is_empty());
    slices
}

/// Lays parts of a file over places of a donor, each with as many blocks. Returns pieces of at most
/// [`PIECE`] blocks, each with its first block in the donor.
fn paired(parts: &[Extent], places: &[Run], arena: &Arena) -> Vec<(Extent, u64)> {
    let mut pairs = Vec::new();
    let mut places = places.iter().copied();
    let mut place = Run::new(0, 0);
    for part in parts {
        let mut part = *part;
        while part.physical.len > 0 {
            if place.len == 0 {
                let Some(next) = places.next() else { return pairs };
                place = next;
            }
            // A place may lie in several extents of the donor.
            let Some(in_donor) = arena.logical_of(place) else { return pairs };
            let len = part.physical.len.min(in_donor.physical.len).min(PIECE);
            let moved = Extent { logical: part.logical, physical: Run::new(part.physical.start, len) };
            pairs.push((moved, in_donor.logical));
            let rest = Run::new(part.physical.start + len, part.physical.len - len);
            part = Extent { logical: part.logical + len, physical: rest };
            place = Run::new(place.start + len, place.len - len);
        }
    }
    pairs
}

/// Drops the pages of a part from the page cache. The kernel moves a page that is cached some
/// twenty times more slowly than a page that it reads itself, and writes many times as much for it.
fn forget_pages(file: &File, part: &Extent) {
    let bytes = NonZeroU64::new(part.physical.len * BLOCK_BYTES);
    // A page that stays is moved more slowly.
    let _ = rustix::fs::fadvise(file, part.logical * BLOCK_BYTES, bytes, rustix::fs::Advice::DontNeed);
}

fn stamp(file: &File) -> io::Result<Stamp> {
    let metadata = file.metadata()?;
    Ok((metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec(), metadata.len()))
}

/// Returns the checksum of the content, without holes, and the times and size before it was read.
/// The checksum does not depend on the extents.
fn checksum(file: &File) -> Result<(u32, Stamp), String> {
    let read = || -> io::Result<(u32, Stamp)> {
        // Pages that were written through a mapping note the time of the next write.
        rustix::fs::fdatasync(file)?;
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        let stamp = stamp(file)?;
        let (mut buffer, mut sum, mut next) = (vec![0; 1 << 18], 0, 0);
        // Holes have no content: a sparse file may be much larger than its device.
        for part in extents(file, WHOLE)? {
            let (mut at, end) = (part.logical * BLOCK_BYTES, (part.logical + part.physical.len) * BLOCK_BYTES);
            if at != next {
                sum = crc32c::crc32c_append(sum, &at.to_le_bytes());
            }
            next = end;
            while at < end {
                let len = (end - at).min(buffer.len() as u64) as usize;
                match file.read_at(&mut buffer[..len], at)? {
                    0 => break,
                    count => {
                        sum = crc32c::crc32c_append(sum, &buffer[..count]);
                        at += count as u64;
                    }
                }
            }
        }
        Ok((sum, stamp))
    };
    read().map_err(|error| error.to_string())
}

/// Returns the checksum of a file's content, with the file's present times. Used to recognise a
/// write that came while the content was read: such a write has changed the content and the times.
fn still(file: &File, (sum, _): (u32, Stamp)) -> Result<(u32, Stamp), String> {
    Ok((sum, stamp(file).map_err(|error| error.to_string())?))
}

/// Returns true if nobody has written a file between two stamps. A write within the clock's tick of
/// the first stamp may leave equal times, so the last write must be older than a tick.
fn is_untouched(before: Stamp, after: Stamp) -> bool {
    let age = |stamp: Stamp| {
        let written = UNIX_EPOCH + Duration::from_secs(stamp.0.max(0) as u64);
        SystemTime::now().duration_since(written).unwrap_or_default()
    };
    before == after && age(after) > Duration::from_secs(2)
}

/// Returns the moves that bring a file back to the drives from which its blocks came.
fn requests_of(origin: &Origin) -> impl Iterator<Item = Request> + '_ {
    [Side::Hdd, Side::Ssd].into_iter().filter_map(|to| {
        let there = origin.extents().filter_map(|extent| extent.part(extent.physical.on(to, origin.boundary)?));
        let there: Vec<Extent> = there.collect();
        let only: Vec<Run> = there.iter().map(|part| Run::new(part.logical, part.physical.len)).collect();
        let aims = there.iter().map(|part| part.physical).collect();
        let Origin { inode, born, .. } = *origin;
        let path = origin.path.clone();
        (!only.is_empty()).then_some(Request { path, inode, born, to, only: Some(only), aims })
    })
}

/// Returns true if the file of a note has the path of the note.
fn is_there(origin: &Origin) -> bool {
    std::fs::symlink_metadata(&origin.path).is_ok_and(|metadata| (metadata.ino(), born(&metadata)) == origin.key())
}

/// Returns the moves that bring all files of a journal back, given the boundary between the drives.
/// Files that have another path now are in `renamed`, and files that were removed are in `gone`.
/// Moves to the HDD come first, because they free room on the SSD.
fn moves_back(
    journal: &Journal,
    renamed: &HashMap<FileKey, PathBuf>,
    gone: &HashSet<FileKey>,
) -> BTreeMap<u64, Vec<Request>> {
    let mut back: BTreeMap<u64, Vec<Request>> = BTreeMap::new();
    for origin in journal.origins().filter(|origin| !gone.contains(&origin.key())) {
        let path = renamed.get(&origin.key()).unwrap_or(&origin.path);
        let requests = requests_of(origin).map(|request| Request { path: path.clone(), ..request });
        back.entry(origin.boundary).or_default().extend(requests);
    }
    for requests in back.values_mut() {
        requests.sort_by_key(|request| request.to == Side::Ssd);
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u64, start: u64, len: u64) -> Extent {
        Extent { logical, physical: Run::new(start, len) }
    }

    #[test]
    fn slices_have_all_blocks_in_order() {
        let slices = sliced(vec![extent(0, 5000, BATCH_BLOCKS + 10), extent(BATCH_BLOCKS + 20, 100, 5)]);
        assert_eq!(slices.len(), 2);
        assert_eq!(slices[0], [extent(0, 5000, BATCH_BLOCKS)]);
        let rest = [extent(BATCH_BLOCKS, 5000 + BATCH_BLOCKS, 10), extent(BATCH_BLOCKS + 20, 100, 5)];
        assert_eq!(slices[1], rest);
    }

    #[test]
    fn recent_write_is_no_untouched_file() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let (old, new) = ((now - 60, 0, now - 60, 0, 8), (now, 0, now, 0, 8));
        assert!(is_untouched(old, old));
        assert!(!is_untouched(new, new) && !is_untouched(old, new));
    }
}
