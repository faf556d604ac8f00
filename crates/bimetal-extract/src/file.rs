//! A file or block device as what is measured: opened past the page cache, and to be written only if nobody else uses it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, Sectors};
use bimetal_live::buffer::{Buffers, Filling};
use bimetal_live::drive::Drive;
use bimetal_live::drive::file::{DriveFile, OpenError};
use bimetal_live::drive::pool::Pool;
use bimetal_live::drive::uring::Uring;
use bimetal_live::member::lock::{DriveLock, LockError};
use bimetal_live::member::probe::{Kind, Probe, ProbeError, probe};
use bimetal_live::member::signature::{self, Content, Signature};
use bimetal_models::Finished;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::target::Target;

/// What is smaller shows the memory of controllers and hosts, and not what lies behind it.
const TRUSTED_MIN: Bytes = Bytes::from_gib(1);

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
    /// It is no drive, but memory.
    #[error("{}: lies in the machine's memory ({what}), whose times are not those of a drive: name a drive, or a file on one", path.display())]
    Memory {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A volume has it.
    #[error(
        "{}: is a drive of a Bimetal volume{}, and measuring would destroy what that keeps on it: --read-only measures what \
         reading can, or take it out of the volume first (bimetal detach {})", path.display(), named(volume), volume.as_deref().unwrap_or("VOLUME")
    )]
    Member {
        /// The drive.
        path: PathBuf,
        /// The volume's name, where the label can be read.
        volume: Option<String>,
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
        if let Some(what) = memory(&probe) {
            return Err(FileError::Memory { path, what });
        }
        if !writes {
            return Ok(Self { probe, writes, lock: None });
        }
        let read = |error| FileError::Io { path: path.clone(), error };
        let drive = File::open(&probe.canonical).map_err(read)?;
        let found = signature::scan(&drive, probe.size).map_err(read)?;
        if let Some(volume) = label(&found) {
            return Err(FileError::Member { path, volume });
        }
        if !probe.uses.is_empty() {
            let uses = probe.uses.iter().map(|one| one.describe()).collect::<Vec<_>>().join("; ");
            return Err(FileError::InUse { path, uses });
        }
        if probe.read_only {
            return Err(FileError::ReadOnly { path });
        }
        let lock = DriveLock::take(&probe)?;
        // Nobody writes to it any more.
        let found = signature::scan(lock.file(), probe.size).map_err(read)?;
        if let Some(volume) = label(&found) {
            return Err(FileError::Member { path, volume });
        }
        if let Some(signature) = found.first() {
            let partitions = if signature.content == Content::Partitions { " partitions" } else { "" };
            return Err(FileError::Carries { path, what: format!("{}{partitions}", signature.name) });
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

    /// Why its times are not those of a drive, as far as that is known before: it is so small that it fits into memory on the way.
    pub fn doubt(&self) -> Option<String> {
        (self.probe.size < TRUSTED_MIN).then(|| {
            format!(
                "{} has {:.0} MB, which the memory of a controller, or of this machine's host, holds as a whole: expected at least {:.0} MB",
                self.probe.path.display(),
                self.probe.size.0 as f64 / 1e6,
                TRUSTED_MIN.0 as f64 / 1e6
            )
        })
    }

    /// What else to know of the figures.
    pub fn caution(&self) -> Option<String> {
        self.probe.is_file().then(|| {
            format!(
                "{} is a file: its file system and all below it have a part in the figures.",
                self.probe.path.display()
            )
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

/// The volume of which a drive is, and its name where it can be read. Beside its label a member carries what keeps other programs
/// away, and that is no file system of somebody's.
fn label(found: &[Signature]) -> Option<Option<String>> {
    found.iter().find_map(|signature| match &signature.content {
        Content::Label(volume) => Some(volume.clone()),
        _ => None,
    })
}

fn named(volume: &Option<String>) -> String {
    volume.as_ref().map_or_else(String::new, |volume| format!(", '{volume}'"))
}

/// What kind of memory it is, if it is no drive.
fn memory(probe: &Probe) -> Option<&'static str> {
    /// Of file systems that live in memory, as statfs tells them.
    const IN_MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
    const RAM_DISKS: u32 = 1;
    let name = probe.canonical.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    match probe.kind {
        Kind::Device(number) if number.major == RAM_DISKS => Some("a RAM disk"),
        Kind::Device(_) if name.starts_with("zram") => Some("zram"),
        Kind::Device(_) => None,
        Kind::File => {
            let kind = rustix::fs::statfs(&probe.canonical).ok()?.f_type as u64 & 0xffff_ffff;
            IN_MEMORY.into_iter().find(|(magic, _)| *magic == kind).map(|(_, name)| name)
        }
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
