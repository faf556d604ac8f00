//! An open file or block device: its size, its alignment, and the system calls on it.

#![allow(unsafe_code, reason = "ioctls of block devices that rustix does not have")]

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bimetal_core::operation::Command;
use bimetal_core::units::{Bytes, SECTOR_BYTES, SectorRange, Sectors};
use rustix::fs::{
    FallocateFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags, fallocate, fcntl_getfl, fcntl_setfl, fdatasync,
    fstat, fstatfs, open, seek, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv, preadv2, pwrite, pwritev2};
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

use super::Failure;
use super::job::Step;

/// Reasons for which a drive cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refuses.
    #[error("cannot open drive '{path}': {error}")]
    System {
        /// Path of the drive.
        path: String,
        /// Error of the system.
        error: Errno,
    },
    /// The path is neither a file nor a block device.
    #[error("'{path}' is neither a file nor a block device: expected one of them")]
    Kind {
        /// Path that was given.
        path: String,
    },
}

/// An open drive.
#[derive(Debug)]
pub struct DriveFile {
    fd: OwnedFd,
    name: String,
    block_device: bool,
    direct: bool,
    logical_block: u32,
    capacity: Sectors,
    /// Cleared when the drive turns out not to support zeroing a range.
    zeroes_ranges: AtomicBool,
    /// Set if the file lies in memory only (tmpfs).
    in_memory: bool,
    /// Newest operations that failed, until they are taken.
    failures: Mutex<Vec<Failure>>,
}

/// Maximum of bytes copied at once: larger copies would delay other operations.
const AT_ONCE_BYTES_MAX: u64 = 256 << 10;
/// Maximum of failures that are kept until they are taken.
const FAILURES_MAX: usize = 64;
/// The magic number of tmpfs.
const TMPFS: i64 = 0x0102_1994;

const BLKGETSIZE64: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

impl DriveFile {
    /// Opens a file or block device for reading and writing without the page cache.
    ///
    /// Uses the page cache if the file system does not support direct I/O; see
    /// [`is_direct`](Self::is_direct).
    ///
    /// # Errors
    ///
    /// Fails if the path does not exist, may not be opened, or is neither a file nor a block
    /// device.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let system = |error| OpenError::System { path: path.display().to_string(), error };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (fd, direct) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => (open(path, flags, Mode::empty()).map_err(system)?, false),
            opened => (opened.map_err(system)?, true),
        };
        Self::from_fd(fd, path.display().to_string(), direct)
    }

    /// Returns the same file or device, read and written through the page cache from now on.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot open the file again.
    pub fn cached(self) -> Result<Self, OpenError> {
        let flags = fcntl_getfl(&self.fd).and_then(|flags| fcntl_setfl(&self.fd, flags - OFlags::DIRECT));
        flags.map_err(|error| OpenError::System { path: self.name.clone(), error })?;
        Ok(Self { direct: false, logical_block: SECTOR_BYTES as u32, ..self })
    }

    /// Takes an open file or device; `name` is for messages, `direct` is set if it was opened with
    /// `O_DIRECT`.
    ///
    /// # Errors
    ///
    /// Fails if its size cannot be read, or it is neither a file nor a block device.
    pub fn from_fd(fd: OwnedFd, name: String, direct: bool) -> Result<Self, OpenError> {
        let system = |error| OpenError::System { path: name.clone(), error };
        let stat = fstat(&fd).map_err(system)?;
        let (block_device, bytes) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (false, stat.st_size as u64),
            FileType::BlockDevice => (true, device_bytes(&fd).map_err(system)?),
            _ => return Err(OpenError::Kind { path: name }),
        };
        let logical_block = if direct { alignment(&fd, block_device) } else { SECTOR_BYTES as u32 };
        let capacity = Bytes(bytes).sectors();
        let zeroes_ranges = AtomicBool::new(true);
        #[allow(clippy::unnecessary_cast, reason = "its type differs between machines")]
        let in_memory = fstatfs(&fd).is_ok_and(|system| system.f_type as i64 == TMPFS);
        let failures = Mutex::default();
        Ok(Self { fd, name, block_device, direct, logical_block, capacity, zeroes_ranges, in_memory, failures })
    }

    /// Returns the path or name under which the drive was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the drive; an incomplete last sector is not counted.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Returns the size of the smallest part that can be written, in bytes.
    ///
    /// A write that does not begin and end on a multiple of this size ends as unsupported, and
    /// changes nothing. If this program merged the write, data outside the write would be at risk.
    /// Reads are widened.
    pub fn logical_block(&self) -> u32 {
        self.logical_block
    }

    /// See [`Drive::hole`](super::Drive::hole). Only the file system of a regular file knows which
    /// parts are holes.
    pub(super) fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        let (start, end) = (range.start.bytes().0, range.end().bytes().0);
        let until = |position: u64| Sectors((position.min(end) - start) / SECTOR_BYTES);
        if self.block_device {
            return (false, range.len);
        }
        match seek(&self.fd, SeekFrom::Data(start)) {
            Ok(data) if until(data) > Sectors(0) => (true, until(data)),
            Ok(_) => match seek(&self.fd, SeekFrom::Hole(start)) {
                // A sector that is partly data counts as data.
                Ok(hole) if hole < end => (false, Sectors((hole - start).div_ceil(SECTOR_BYTES).max(1))),
                _ => (false, range.len),
            },
            // There is no data from `start` to the file's end.
            Err(Errno::NXIO) => (true, range.len),
            Err(_) => (false, range.len),
        }
    }

    /// Returns true for a block device.
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// Returns true if the drive is accessed without the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) fn zeroes_ranges(&self) -> bool {
        self.zeroes_ranges.load(Ordering::Relaxed)
    }

    pub(super) fn cannot_zero_ranges(&self) {
        self.zeroes_ranges.store(false, Ordering::Relaxed);
    }

    /// Records an operation that failed.
    pub(super) fn note_failure(&self, command: Command, errno: Errno) {
        // A panic while the lock was held leaves the list intact.
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_MAX {
            failures.remove(0);
        }
        failures.push(Failure { command, errno });
    }

    /// Takes the newest operations that failed since the last call.
    pub(super) fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the device has disappeared. Called after an error that a missing device may
    /// cause.
    pub(super) fn is_gone(&self) -> bool {
        self.block_device && !matches!(device_bytes(&self.fd), Ok(1..))
    }

    /// Carries a step out if the step needs no waiting. Copies from or to the page cache need no
    /// waiting, nor do short steps on a file in memory. Returns `None` for other steps, which are
    /// not begun.
    pub(super) fn perform_at_once(&self, step: Step<'_>) -> Option<Result<u64, Errno>> {
        match step {
            Step::Read { offset, bytes, .. } if bytes.len() as u64 <= AT_ONCE_BYTES_MAX => {
                // A read does not wait for data outside the page cache. Data of a file in memory is
                // always there.
                let flags = if self.in_memory { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
                match preadv2(&self.fd, &mut [IoSliceMut::new(bytes)], offset, flags) {
                    Err(Errno::AGAIN | Errno::OPNOTSUPP) => None,
                    result => Some(result.map(|count| count as u64)),
                }
            }
            Step::Write { fua, ref parts, .. } if parts.bytes() <= AT_ONCE_BYTES_MAX && (self.in_memory || !fua) => {
                Some(self.perform(step))
            }
            // A sync makes a file in memory no more stable, and never waits.
            Step::Sync if self.in_memory => Some(self.perform(step)),
            Step::Allocate { len, .. } if self.in_memory && len <= AT_ONCE_BYTES_MAX => Some(self.perform(step)),
            _ => None,
        }
    }

    /// Writes all of `bytes`, into the page cache if the file was opened through the page cache.
    pub(super) fn write_all_at(&self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match pwrite(&self.fd, bytes, offset) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    offset += count as u64;
                    bytes = &bytes[count..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Carries out a step, and waits for its end.
    pub(super) fn perform(&self, step: Step<'_>) -> Result<u64, Errno> {
        match step {
            Step::Read { offset, bytes, .. } => {
                preadv(&self.fd, &mut [IoSliceMut::new(bytes)], offset).map(|count| count as u64)
            }
            Step::Write { offset, parts, fua } => {
                let parts: Vec<IoSlice<'_>> = parts.map(IoSlice::new).collect();
                let flags = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                pwritev2(&self.fd, &parts, offset, flags).map(|count| count as u64)
            }
            Step::Sync => fdatasync(&self.fd).map(|()| 0),
            Step::Allocate { mode, offset, len } => {
                let mode = FallocateFlags::from_bits_retain(mode);
                fallocate(&self.fd, mode, offset, len).map(|()| 0)
            }
            Step::DiscardDevice { offset, len } => {
                // SAFETY: BLKDISCARD reads two u64: offset and length in bytes.
                let discard = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([offset, len]) };
                // SAFETY: as above; the call writes to no memory of this process.
                unsafe { ioctl(&self.fd, discard) }.map(|()| 0)
            }
        }
    }
}

impl AsFd for DriveFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn device_bytes(fd: &OwnedFd) -> Result<u64, Errno> {
    // SAFETY: BLKGETSIZE64 writes one u64.
    let size = unsafe { Getter::<BLKGETSIZE64, u64>::new() };
    // SAFETY: as above.
    unsafe { ioctl(fd, size) }
}

/// Returns the size of which offset and length of direct I/O must be multiples.
fn alignment(fd: &OwnedFd, block_device: bool) -> u32 {
    if block_device {
        return rustix::fs::ioctl_blksszget(fd).unwrap_or(4096).max(SECTOR_BYTES as u32);
    }
    let stated = statx(fd, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match stated {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align > 0 => {
            stat.stx_dio_offset_align.max(SECTOR_BYTES as u32)
        }
        // Kernels before 6.1 do not report the alignment. All file systems of such kernels accept
        // their block size as the alignment.
        _ => 4096,
    }
}
