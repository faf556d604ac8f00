//! A file or block device as what is measured: opened past the page cache, and to be written only if nobody else uses it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, Sectors};
use bimetal_live::buffer::{Buffers, Filling};
use bimetal_live::drive::Drive;
use bimetal_live::drive::file::{DriveFile, OpenError};
use bimetal_live::drive::pool::Pool;
use bimetal_live::drive::uring::Uring;
use bimetal_live::member::lock::{DriveLock, LockError};
use bimetal_live::member::probe::{Probe, ProbeError, probe};
use bimetal_live::member::signature::{self, Content};
use bimetal_models::Finished;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::target::Target;

/// The longest command.
const LONGEST: Sectors = Sectors(1 << 13);

/// Why a file or device is not measured.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is no drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Somebody uses it.
    #[error("{}: is in use, so it cannot be written: {uses}. --read-only measures what reading can", path.display())]
    InUse {
        /// The drive.
        path: PathBuf,
        /// By whom, and what ends it.
        uses: String,
    },
    /// It cannot be written.
    #[error("{}: is read-only: --read-only measures what reading can", path.display())]
    ReadOnly {
        /// The drive.
        path: PathBuf,
    },
    /// Something lies on it.
    #[error(
        "{}: carries {what}, which measuring would destroy: --read-only measures what reading can, or erase it first (wipefs \
         --all {})", path.display(), path.display()
    )]
    Carries {
        /// The drive.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// Somebody has it, or it may not be opened.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The page cache cannot be passed by.
    #[error("{}: its file system cannot read past the page cache (O_DIRECT), and memory is no drive; put the file elsewhere", path.display())]
    Cached {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Io {
        /// The drive.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A file or block device that has been looked at, and may be measured.
pub struct Candidate {
    probe: Probe,
    writes: bool,
    /// Kept: nobody else opens the drive for himself meanwhile.
    lock: Option<DriveLock>,
}

impl Candidate {
    /// Looks at `path`, to write to it or only to read.
    ///
    /// # Errors
    /// It is neither a file nor a block device, or, where it is to be written, is in use or carries anything that is known.
    pub fn look_at(path: &Path, writes: bool) -> Result<Self, FileError> {
        let probe = probe(path)?;
        let path = probe.path.clone();
        if !writes {
            return Ok(Self { probe, writes, lock: None });
        }
        if !probe.uses.is_empty() {
            let uses = probe.uses.iter().map(|one| one.describe()).collect::<Vec<_>>().join("; ");
            return Err(FileError::InUse { path, uses });
        }
        if probe.read_only {
            return Err(FileError::ReadOnly { path });
        }
        let lock = DriveLock::take(&probe)?;
        let read = |error| FileError::Io { path: path.clone(), error };
        let found = signature::scan(lock.file(), probe.size).map_err(read)?;
        if let Some(what) = found.iter().map(|signature| describe(&signature.content, signature.name)).next() {
            return Err(FileError::Carries { path, what });
        }
        Ok(Self { probe, writes, lock: Some(lock) })
    }

    /// How large it is, for a question to the user.
    pub fn describe(&self) -> String {
        let kind = if self.probe.is_file() { "a file" } else { "a block device" };
        format!("{} ({kind} of {:.2} GB)", self.probe.path.display(), self.probe.size.0 as f64 / 1e9)
    }

    /// Opens it past the page cache.
    ///
    /// # Errors
    /// The system refuses, or the page cache cannot be passed by.
    pub fn open(self) -> Result<FileTarget, FileError> {
        let path = self.probe.path.clone();
        let access = if self.writes { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let name = path.display().to_string();
        let fd = rustix::fs::open(&self.probe.canonical, flags, Mode::empty()).map_err(|error| match error {
            Errno::INVAL => FileError::Cached { path: path.clone() },
            error => FileError::Open(OpenError::System { path: name.clone(), error }),
        })?;
        let file = DriveFile::from_fd(fd, name, true)?;
        let (capacity, grain) = (file.capacity(), Sectors(u64::from(file.logical_block()).div_ceil(SECTOR_BYTES)));
        let file = Arc::new(file);
        let drive: Box<dyn Drive> = match Uring::new(Arc::clone(&file)) {
            Ok(drive) => Box::new(drive),
            Err(_) => Box::new(Pool::new(file).map_err(|error| FileError::Io { path, error })?),
        };
        Ok(FileTarget {
            drive,
            capacity,
            grain,
            started: Instant::now(),
            under_way: 0,
            done: VecDeque::new(),
            content: content(),
            _lock: self.lock,
        })
    }

    /// Whether somebody else uses it: then what that does meanwhile is measured too.
    pub fn is_in_use(&self) -> bool {
        !self.probe.uses.is_empty()
    }

    /// Whether the file has holes or the like: parts that were never written and take no time to read.
    pub fn is_sparse(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let metadata = File::open(&self.probe.canonical).and_then(|file| file.metadata());
        self.probe.is_file() && metadata.is_ok_and(|metadata| metadata.blocks() * SECTOR_BYTES < self.probe.size.0)
    }
}

fn describe(content: &Content, name: &str) -> String {
    match content {
        Content::Label(Some(volume)) => format!("the label of volume '{volume}'"),
        Content::Label(None) => "the label of a volume".to_owned(),
        Content::Partitions => format!("{name} partitions"),
        _ => name.to_owned(),
    }
}

/// What writes carry: numbers that no drive can shorten.
fn content() -> Buffers {
    let mut random = Pcg64Mcg::seed_from_u64(0x6269_6d65_7461_6c21);
    let mut filling = Filling::new(LONGEST.bytes().0 as usize);
    for bytes in filling.bytes_mut().chunks_mut(8) {
        bytes.copy_from_slice(&random.next_u64().to_le_bytes()[..bytes.len()]);
    }
    Buffers::from(filling.share())
}

/// An open file or block device, timed by the machine's clock.
pub struct FileTarget {
    drive: Box<dyn Drive>,
    capacity: Sectors,
    grain: Sectors,
    started: Instant,
    under_way: usize,
    done: VecDeque<Finished>,
    content: Buffers,
    _lock: Option<DriveLock>,
}

impl FileTarget {
    fn collect(&mut self) {
        let mut ended: Vec<Completion<Buffers>> = Vec::new();
        self.drive.collect(&mut ended);
        let at = self.now();
        self.under_way -= ended.len();
        self.done.extend(ended.into_iter().map(|end| Finished { token: end.token, at, status: end.status }));
    }

    /// Sleeps until something may have ended, or for so long.
    fn sleep(&mut self, at_most: Option<Duration>) {
        let timeout = at_most.and_then(|time| time.try_into().ok());
        let event = self.drive.event();
        // Woken by a signal, or for nothing: whoever waits looks again.
        let _ = poll(&mut [PollFd::new(&event, PollFlags::IN)], timeout.as_ref());
    }
}

impl Target for FileTarget {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn granularity(&self) -> Sectors {
        self.grain
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wait_until(&mut self, at: Nanoseconds) {
        while self.now() < at {
            let left = Duration::from_nanos(at.0 - self.now().0.min(at.0));
            if self.under_way == 0 {
                std::thread::sleep(left);
            } else {
                self.sleep(Some(left));
                self.collect();
            }
        }
    }

    fn submit(&mut self, token: Token, command: Command) {
        let payload = match command.kind {
            OpKind::Write => self.content.slice(Sectors(0), command.range.len),
            _ => Buffers::empty(),
        };
        self.under_way += 1;
        self.drive.submit(Operation { token, target: 0, command, payload });
        self.drive.start();
    }

    fn next_done(&mut self) -> Option<Finished> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Some(done);
            }
            if self.under_way == 0 {
                return None;
            }
            self.collect();
            if self.done.is_empty() {
                self.sleep(None);
            }
        }
    }
}
