//! File or block device as a target of measurement: opened without the page cache, and written only
//! if no other program uses it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, Sectors};
use bimetal_device::buffer::{Buffers, Filling};
use bimetal_device::drive::Drive;
use bimetal_device::drive::file::{DriveFile, OpenError};
use bimetal_device::drive::pool::Pool;
use bimetal_device::drive::uring::Uring;
use bimetal_device::lock::{DriveLock, LockError};
use bimetal_device::probe::{Kind, Probe, ProbeError, probe};
use bimetal_device::signature::{self, Content, Signature};
use bimetal_models::Finished;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::target::Target;

/// Smallest size of a drive whose measured times are trusted. A smaller drive shows the memory of
/// controllers and hosts instead of the medium.
const TRUSTED_MIN: Bytes = Bytes::from_gib(1);

/// Longest command.
const LONGEST: Sectors = Sectors(1 << 13);

/// Reasons for which a file or device is not measured.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is not a drive.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Another program uses the drive.
    #[error("{}: is in use, so it cannot be written: {uses}. --read-only measures what reads show", path.display())]
    InUse {
        /// Path of the drive.
        path: PathBuf,
        /// Users of the drive, with the commands that end their use.
        uses: String,
    },
    /// The drive cannot be written.
    #[error("{}: is read-only: --read-only measures what reads show", path.display())]
    ReadOnly {
        /// Path of the drive.
        path: PathBuf,
    },
    /// The drive is in fact memory.
    #[error("{}: lies in the machine's memory ({what}), whose times are not those of a drive: name a drive, or a file \
             on a drive", path.display())]
    Memory {
        /// Path of the file or device.
        path: PathBuf,
        /// Kind of the memory.
        what: &'static str,
    },
    /// The drive belongs to a volume.
    #[error(
        "{}: is a drive of a Bimetal volume{}, and measuring would destroy the volume's data on it: --read-only \
         measures what reads show, or detach the drive first (bimetal detach {})", path.display(), named(volume), volume.as_deref().unwrap_or("VOLUME")
    )]
    Member {
        /// Path of the drive.
        path: PathBuf,
        /// Name of the volume, if the label can be read.
        volume: Option<String>,
    },
    /// The drive has content.
    #[error(
        "{}: carries {what}, which measuring would destroy: --read-only measures what reads show, or erase it first \
         (wipefs --all {})", path.display(), path.display()
    )]
    Carries {
        /// Path of the drive.
        path: PathBuf,
        /// Kind of the content.
        what: String,
    },
    /// Another program has locked the drive, or it may not be opened.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The drive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file cannot be opened without the page cache.
    #[error("{}: its file system cannot bypass the page cache (O_DIRECT), so memory would answer: put the file on \
             another file system", path.display())]
    Cached {
        /// Path of the file.
        path: PathBuf,
    },
    /// The drive cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Io {
        /// Path of the drive.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// File or block device that was checked, and may be measured.
pub struct Candidate {
    probe: Probe,
    writes: bool,
    /// Lock that is held during the measurement, so that no other program opens the drive
    /// exclusively.
    lock: Option<DriveLock>,
}

impl Candidate {
    /// Checks that the drive or file at `path` may be measured, by reads and writes or by reads
    /// only.
    ///
    /// # Errors
    /// Refuses a path that is neither a file nor a block device. For writing, refuses a drive that
    /// is in use or has any known content.
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
        let found = signature::scan(&drive, probe.size, probe.logical_sector).map_err(read)?;
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
        // No other program writes to the drive from here on.
        let found = signature::scan(lock.file(), probe.size, probe.logical_sector).map_err(read)?;
        if let Some(volume) = label(&found) {
            return Err(FileError::Member { path, volume });
        }
        if let Some(signature) = found.first() {
            let partitions = if matches!(signature.content, Content::Partitions { .. }) { " partitions" } else { "" };
            return Err(FileError::Carries { path, what: format!("{}{partitions}", signature.name) });
        }
        Ok(Self { probe, writes, lock: Some(lock) })
    }

    /// Returns name, kind and size, for a question to the user.
    pub fn describe(&self) -> String {
        let kind = if self.probe.is_file() { "a file" } else { "a block device" };
        format!("{} ({kind} of {:.2} GB)", self.probe.path.display(), self.probe.size.0 as f64 / 1e9)
    }

    /// Opens the drive without the page cache.
    ///
    /// # Errors
    /// Fails if the system refuses, or if the page cache cannot be bypassed.
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
        let physical_sector = Sectors(u64::from(self.probe.physical_sector).div_ceil(SECTOR_BYTES));
        let file = Arc::new(file);
        let drive: Box<dyn Drive> = match Uring::new(Arc::clone(&file)) {
            Ok(drive) => Box::new(drive),
            Err(_) => Box::new(Pool::new(file).map_err(|error| FileError::Io { path, error })?),
        };
        Ok(FileTarget {
            drive,
            capacity,
            grain,
            physical_sector,
            started: Instant::now(),
            under_way: 0,
            done: VecDeque::new(),
            content: content(),
            _lock: self.lock,
        })
    }

    /// Returns a reason, known in advance, for which the measured times may not come from the
    /// drive: the drive is so small that memory between program and medium can hold the whole
    /// drive.
    pub fn doubt(&self) -> Option<String> {
        (self.probe.size < TRUSTED_MIN).then(|| {
            format!(
                "{} has {:.0} MB, which fits into the memory of a controller or of this machine's host: expected at \
                 least {:.0} MB",
                self.probe.path.display(),
                self.probe.size.0 as f64 / 1e6,
                TRUSTED_MIN.0 as f64 / 1e6
            )
        })
    }

    /// Returns a remark to be printed with the figures.
    pub fn caution(&self) -> Option<String> {
        self.probe.is_file().then(|| {
            format!(
                "{} is a file: the figures include its file system and everything below it.",
                self.probe.path.display()
            )
        })
    }

    /// Returns true if another program uses the drive. The requests of that program affect the
    /// measurement.
    pub fn is_in_use(&self) -> bool {
        !self.probe.uses.is_empty()
    }

    /// Returns true if the file has parts that were never written, such as holes, which take no
    /// time to read.
    pub fn is_sparse(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let metadata = File::open(&self.probe.canonical).and_then(|file| file.metadata());
        self.probe.is_file() && metadata.is_ok_and(|metadata| metadata.blocks() * SECTOR_BYTES < self.probe.size.0)
    }
}

/// Returns the volume to which a drive belongs, with its name if readable. Beside its label a
/// member carries content that keeps other programs away; this content is not a file system of the
/// user.
fn label(found: &[Signature]) -> Option<Option<String>> {
    found.iter().find_map(|signature| match &signature.content {
        Content::Label(volume) => Some(volume.clone()),
        _ => None,
    })
}

fn named(volume: &Option<String>) -> String {
    volume.as_ref().map_or_else(String::new, |volume| format!(", '{volume}'"))
}

/// Returns the kind of memory, if the target is not a drive.
fn memory(probe: &Probe) -> Option<&'static str> {
    /// File systems in memory, by their type numbers in statfs.
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

/// Returns the content of writes: random numbers, which no drive can compress.
fn content() -> Buffers {
    let mut random = Pcg64Mcg::seed_from_u64(0x6269_6d65_7461_6c21);
    let mut filling = Filling::new(LONGEST.bytes().0 as usize);
    for bytes in filling.bytes_mut().chunks_mut(8) {
        bytes.copy_from_slice(&random.next_u64().to_le_bytes()[..bytes.len()]);
    }
    Buffers::from(filling.share())
}

/// Open file or block device, timed by the machine's clock.
pub struct FileTarget {
    drive: Box<dyn Drive>,
    capacity: Sectors,
    grain: Sectors,
    physical_sector: Sectors,
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

    /// Sleeps until a command may have ended, at most for `at_most`.
    fn sleep(&mut self, at_most: Option<Duration>) {
        let timeout = at_most.and_then(|time| time.try_into().ok());
        let event = self.drive.event();
        // A signal or a spurious event may end the sleep: the caller checks again.
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

    fn physical_sector(&self) -> Sectors {
        self.physical_sector
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
