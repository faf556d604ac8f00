//! Moves on XFS: a file swaps all its extents for the extents of a copy (`XFS_IOC_SWAPEXT`), as
//! `xfs_fsr` does.
//!
//! 1. The file's times are read (`XFS_IOC_FSBULKSTAT_SINGLE`). The last write must be some time
//!    ago, so that a later write leaves other times, however coarse the clock is.
//! 2. A donor gets as many blocks as the file, on the wanted drive, and a copy of the file's
//!    content.
//! 3. The kernel locks both files, and swaps their extents if the times are still the same. If the
//!    times differ, the kernel refuses, and the file stays.
//!
//! The kernel swaps only whole files of equal size without holes. Files that share blocks with
//! other files do not move.
//!
//! XFS allocates a file near its inode, and a new file's inode near its directory. Directories are
//! spread over the allocation groups in turn. So the folder of the state has some directories, and
//! a donor is made in one directory after the other until FIEMAP shows its blocks on the wanted
//! drive. A donor cannot be placed more finely than in an allocation group.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::kernel::extents;
use crate::mover::for_writing;
use crate::pace::{Ended, Pace};
use crate::{BLOCK_BYTES, MoverError, Side};

/// Number of directories for donors. `mkfs.xfs` makes four allocation groups on most drives.
const NESTS: usize = 32;
/// Time that must have passed since the last write.
const QUIET: Duration = Duration::from_secs(1);
/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Reason for which a file has not swapped its extents.
pub(crate) enum Unswapped {
    /// The run ends.
    Ended(Ended),
    /// The file cannot move.
    Because(String),
}

fn because(error: &io::Error) -> Unswapped {
    Unswapped::Because(error.to_string())
}

/// Size of `struct xfs_bstat` of `xfs_fs.h`, in words. The fields of the structure are only passed
/// back to the kernel.
const STAT_WORDS: usize = 17;

/// `struct xfs_fsop_bulkreq`, with which the state of one inode is requested.
#[repr(C)]
struct BulkRequest {
    inode: u64,
    count: u32,
    reserved: u32,
    buffer: u64,
    found: u64,
}

/// `struct xfs_swapext`.
#[repr(C)]
struct SwapRequest {
    version: i64,
    file: i64,
    donor: i64,
    offset: i64,
    length: i64,
    reserved: [u64; 2],
    stat: [u64; STAT_WORDS],
}

/// `XFS_IOC_FSBULKSTAT_SINGLE`: read and written, 32 bytes, group X, number 102.
const BULK_STAT: Opcode = opcode::read_write::<BulkRequest>(b'X', 102);
/// `XFS_IOC_SWAPEXT`: read and written, 192 bytes, group X, number 109.
const SWAP: Opcode = opcode::read_write::<SwapRequest>(b'X', 109);

/// State of a file before it is copied.
pub(crate) struct Before([u64; STAT_WORDS]);

impl Before {
    /// Reads the state of a file. An error is the reason for which the file does not move.
    pub(crate) fn of(file: &File) -> Result<Self, String> {
        let read = || -> io::Result<(Self, Duration)> {
            // Pages that were written through a mapping note the time of the next write.
            rustix::fs::fdatasync(file)?;
            let metadata = file.metadata()?;
            let stat = bulk_stat(file, metadata.ino())?;
            let last = metadata.mtime().max(metadata.ctime()).max(0) as u64;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok((Self(stat), now.saturating_sub(Duration::from_secs(last + 1))))
        };
        match read() {
            Ok((before, quiet)) if quiet >= QUIET => Ok(before),
            Ok(_) => Err("written a moment ago".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Copies the first `bytes` of `file` to `donor`, and swaps the extents of the two files.
    pub(crate) fn swap(&self, file: &File, donor: &File, bytes: u64, pace: &mut Pace<'_>) -> Result<(), Unswapped> {
        copy(file, donor, bytes, pace)?;
        let writable = for_writing(file).map_err(|errno| because(&io::Error::from(errno)))?;
        let number = |file: &File| i64::from(file.as_raw_fd());
        let mut request = SwapRequest {
            version: 0,
            file: number(&writable),
            donor: number(donor),
            offset: 0,
            length: bytes.cast_signed(),
            reserved: [0; 2],
            stat: self.0,
        };
        // SAFETY: XFS_IOC_SWAPEXT reads one `struct xfs_swapext`, for which `SwapRequest` has the
        // size. The kernel checks the numbers of both files, which stay open during the call.
        #[expect(unsafe_code, reason = "the swap of extents has no other way in")]
        let swapped = unsafe { ioctl(&writable, Updater::<SWAP, SwapRequest>::new(&mut request)) };
        swapped.map_err(|errno| match errno {
            Errno::BUSY | Errno::FAULT => Unswapped::Because("written while it moved".to_owned()),
            Errno::TXTBSY => Unswapped::Because("in use as swap space".to_owned()),
            errno => because(&io::Error::from(errno)),
        })?;
        // The old extents, which the donor has now, are freed only when the swap is durable.
        file.sync_all().map_err(|error| because(&error))
    }
}

fn bulk_stat(file: &File, inode: u64) -> Result<[u64; STAT_WORDS], Errno> {
    let (inode, mut stat, mut found) = (inode, [0; STAT_WORDS], 0_i32);
    let mut request = BulkRequest {
        inode: (&raw const inode).expose_provenance() as u64,
        count: 1,
        reserved: 0,
        buffer: stat.as_mut_ptr().expose_provenance() as u64,
        found: (&raw mut found).expose_provenance() as u64,
    };
    // SAFETY: XFS_IOC_FSBULKSTAT_SINGLE reads one `struct xfs_fsop_bulkreq` and the number of the
    // inode at its address. The call writes one `struct xfs_bstat`, for which `stat` has the size,
    // and the number of inodes found. All three live until the call has ended.
    #[expect(unsafe_code, reason = "the state that a swap compares has no other way in")]
    unsafe {
        ioctl(file, Updater::<BULK_STAT, BulkRequest>::new(&mut request))?;
    }
    Ok(stat)
}

/// Copies the content, and makes the copy durable.
fn copy(file: &File, donor: &File, bytes: u64, pace: &mut Pace<'_>) -> Result<(), Unswapped> {
    let (mut at, mut buffer) = (0, vec![0; CHUNK]);
    while at < bytes {
        let len = (bytes - at).min(CHUNK as u64);
        pace.wait(len).map_err(Unswapped::Ended)?;
        let part = &mut buffer[..len as usize];
        file.read_exact_at(part, at).and_then(|()| donor.write_all_at(part, at)).map_err(|error| because(&error))?;
        if pace.waits_for_idle() {
            // Only requests of others count as use of the device.
            let _ = rustix::fs::fdatasync(donor);
        }
        at += len;
    }
    donor.sync_all().map_err(|error| because(&error))
}

/// Directories for donors, spread over the allocation groups.
pub(crate) struct Nests {
    folders: Vec<PathBuf>,
    /// Number of the directory in which the last donor of each drive had its blocks.
    last: [usize; 2],
}

impl Nests {
    /// Makes the directories below the folder of the state, as far as they are missing.
    pub(crate) fn make(folder: &Path) -> Result<Self, MoverError> {
        let folders: Vec<PathBuf> = (0..NESTS).map(|number| folder.join(format!("nest-{number}"))).collect();
        for nest in &folders {
            match fs::create_dir(nest) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(MoverError::at(nest))?,
            }
        }
        Ok(Self { folders, last: [0; 2] })
    }

    /// Returns a donor with `blocks` blocks on `side`; `None` if no directory gives a donor on this
    /// side.
    pub(crate) fn donor(&mut self, side: Side, boundary: u64, blocks: u64) -> Result<Option<File>, MoverError> {
        let first = self.last[side as usize];
        for step in 0..self.folders.len() {
            let number = (first + step) % self.folders.len();
            let nest = &self.folders[number];
            let at_nest = |errno: Errno| MoverError::at(nest)(io::Error::from(errno));
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
            let donor = options.open(nest).map_err(MoverError::at(nest))?;
            match fallocate(&donor, FallocateFlags::KEEP_SIZE, 0, blocks * BLOCK_BYTES) {
                Err(Errno::NOSPC) => continue,
                done => done.map_err(at_nest)?,
            }
            let got = extents(&donor, 0..blocks).map_err(at_nest)?;
            let on_side = got.iter().filter_map(|extent| extent.physical.on(side, boundary)).map(|run| run.len);
            if on_side.sum::<u64>() == blocks {
                self.last[side as usize] = number;
                return Ok(Some(donor));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_sizes_and_numbers_of_the_kernel() {
        assert_eq!((size_of::<BulkRequest>(), size_of::<SwapRequest>()), (32, 192));
        assert_eq!((BULK_STAT, SWAP), (0xc020_5866, 0xc0c0_586d));
    }
}
