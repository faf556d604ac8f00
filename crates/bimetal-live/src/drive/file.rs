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

/// Why a drive cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system says no.
    #[error("cannot open drive '{path}': {error}")]
    System {
        /// Which.
        path: String,
        /// Why.
        error: Errno,
    },
    /// It is neither.
    #[error("'{path}' is neither a file nor a block device: give one that holds the drive's data")]
    Kind {
        /// Which.
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
    /// Cleared when the drive turns out not to know how to zero a range.
    zeroes_ranges: AtomicBool,
    /// Whether it lies in memory, and nowhere else.
    in_memory: bool,
    /// The newest operations that failed, until somebody asks.
    failures: Mutex<Vec<Failure>>,
}

/// Copying more than this at once would hold up others.
const AT_ONCE_BYTES_MAX: u64 = 256 << 10;
/// Failures that are kept until somebody asks for them.
const FAILURES_MAX: usize = 64;
/// The magic number of tmpfs.
const TMPFS: i64 = 0x0102_1994;

const BLKGETSIZE64: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

impl DriveFile {
    /// Opens a file or block device for reading and writing past the page cache.
    ///
    /// Where a file system cannot do direct I/O, the page cache is used; [`is_direct`](Self::is_direct) tells.
    ///
    /// # Errors
    ///
    /// If it is not there, may not be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let system = |error| OpenError::System { path: path.display().to_string(), error };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (fd, direct) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => (open(path, flags, Mode::empty()).map_err(system)?, false),
            opened => (opened.map_err(system)?, true),
        };
        Self::from_fd(fd, path.display().to_string(), direct)
    }

    /// The same file or device, read and written through the page cache from now on.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn cached(self) -> Result<Self, OpenError> {
        let flags = fcntl_getfl(&self.fd).and_then(|flags| fcntl_setfl(&self.fd, flags - OFlags::DIRECT));
        flags.map_err(|error| OpenError::System { path: self.name.clone(), error })?;
        Ok(Self { direct: false, logical_block: SECTOR_BYTES as u32, ..self })
    }

    /// Takes what is open already; `name` is for messages, `direct` says whether it was opened with `O_DIRECT`.
    ///
    /// # Errors
    ///
    /// If its size cannot be read, or it is neither a file nor a block device.
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

    /// What it was opened as.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size; a last part of a sector is not counted.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// The smallest part that can be written, in bytes.
    ///
    /// A write that does not begin and end on it is answered as unsupported, and nothing is written: merging it here would
    /// risk data that nobody wrote. Reads are widened.
    pub fn logical_block(&self) -> u32 {
        self.logical_block
    }

    /// See [`Drive::hole`](super::Drive::hole): a file system knows it of a file.
    pub(super) fn hole(&self, range: SectorRange) -> (bool, Sectors) {
        let (start, end) = (range.start.bytes().0, range.end().bytes().0);
        let until = |position: u64| Sectors((position.min(end) - start) / SECTOR_BYTES);
        if self.block_device {
            return (false, range.len);
        }
        match seek(&self.fd, SeekFrom::Data(start)) {
            Ok(data) if until(data) > Sectors(0) => (true, until(data)),
            Ok(_) => match seek(&self.fd, SeekFrom::Hole(start)) {
                // A part of a sector is data.
                Ok(hole) if hole < end => (false, Sectors((hole - start).div_ceil(SECTOR_BYTES).max(1))),
                _ => (false, range.len),
            },
            // Nothing from there to the file's end.
            Err(Errno::NXIO) => (true, range.len),
            Err(_) => (false, range.len),
        }
    }

    /// Whether it is a block device.
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// Whether the page cache is passed by.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) fn zeroes_ranges(&self) -> bool {
        self.zeroes_ranges.load(Ordering::Relaxed)
    }

    pub(super) fn cannot_zero_ranges(&self) {
        self.zeroes_ranges.store(false, Ordering::Relaxed);
    }

    /// Takes note of an operation that failed.
    pub(super) fn note_failure(&self, command: Command, errno: Errno) {
        // Who panicked with the lock in hand left a list that is whole.
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_MAX {
            failures.remove(0);
        }
        failures.push(Failure { command, errno });
    }

    /// The newest operations that failed since the last call.
    pub(super) fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the device has gone: asked after an error that may mean that.
    pub(super) fn is_gone(&self) -> bool {
        self.block_device && !matches!(device_bytes(&self.fd), Ok(1..))
    }

    /// Carries a step out if that needs no waiting: a copy from or to the page cache, and where the file lies in memory
    /// everything that is short. Else nothing happens.
    pub(super) fn perform_at_once(&self, step: Step<'_>) -> Option<Result<u64, Errno>> {
        match step {
            Step::Read { offset, bytes } if bytes.len() as u64 <= AT_ONCE_BYTES_MAX => {
                // What is not in the page cache is not waited for. Where the file lies in memory, everything is.
                let flags = if self.in_memory { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
                match preadv2(&self.fd, &mut [IoSliceMut::new(bytes)], offset, flags) {
                    Err(Errno::AGAIN | Errno::OPNOTSUPP) => None,
                    result => Some(result.map(|count| count as u64)),
                }
            }
            Step::Write { fua, ref parts, .. } if parts.bytes() <= AT_ONCE_BYTES_MAX && (self.in_memory || !fua) => {
                Some(self.perform(step))
            }
            // Memory is as stable as it will ever be.
            Step::Sync if self.in_memory => Some(self.perform(step)),
            Step::Allocate { len, .. } if self.in_memory && len <= AT_ONCE_BYTES_MAX => Some(self.perform(step)),
            _ => None,
        }
    }

    /// Writes all of `bytes`, into the page cache where the file was opened for that.
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

    /// Carries a step out, and waits for it.
    pub(super) fn perform(&self, step: Step<'_>) -> Result<u64, Errno> {
        match step {
            Step::Read { offset, bytes } => {
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
                // SAFETY: BLKDISCARD reads two u64: where, and how many bytes.
                let discard = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([offset, len]) };
                // SAFETY: as above; nothing of ours is written to.
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

/// What offset and length of direct I/O must be multiples of.
fn alignment(fd: &OwnedFd, block_device: bool) -> u32 {
    if block_device {
        return rustix::fs::ioctl_blksszget(fd).unwrap_or(4096).max(SECTOR_BYTES as u32);
    }
    let stated = statx(fd, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match stated {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align > 0 => {
            stat.stx_dio_offset_align.max(SECTOR_BYTES as u32)
        }
        // Kernels before 6.1 do not say. The size that every file system of those takes is its block.
        _ => 4096,
    }
}
