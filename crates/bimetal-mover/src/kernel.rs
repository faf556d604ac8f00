//! The calls of the operating system that rustix does not have: extents of a file (FIEMAP), and the
//! exchange of blocks between two files (`EXT4_IOC_MOVE_EXT`). The crate `fiemap` lists the extents
//! of whole files only. A move of a file asks for the extents of a few blocks, again and again.

use std::fs::File;
use std::ops::Range;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::BLOCK_BYTES;
use crate::runs::Run;

/// Part of a file, and its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First block of the part in the file.
    pub logical: u64,
    /// Blocks of the extent on the device.
    pub physical: Run,
}

impl Extent {
    /// Returns the block of the file that lies at the block `physical` of the device.
    fn logical_of(&self, physical: u64) -> u64 {
        self.logical + (physical - self.physical.start)
    }

    /// Returns the part that lies within `run` on the device.
    pub fn part(&self, run: Run) -> Option<Self> {
        let physical = self.physical.clip(run.start, run.end())?;
        Some(Self { logical: self.logical_of(physical.start), physical })
    }

    /// Returns the part that lies within `range` of the file.
    pub fn within(&self, range: &Range<u64>) -> Option<Self> {
        let logical = Run::new(self.logical, self.physical.len).clip(range.start, range.end)?;
        let physical = Run::new(self.physical.start + (logical.start - self.logical), logical.len);
        Some(Self { logical: logical.start, physical })
    }
}

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// Number of extents that one call returns at most.
const EXTENTS: usize = 256;

/// `struct fiemap`, followed by its extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// `FS_IOC_FIEMAP`: read and written, 32 bytes, group f, number 11.
const FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);
/// Flag of a query: dirty pages are written first, so that they have blocks.
const SYNC: u32 = 1;
const LAST: u32 = 1;
/// Flags of extents that have no blocks that can move: unknown, not yet allocated, encoded, inline,
/// packed tail, shared.
const NO_BLOCKS: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400 | 0x2000;

/// Returns the extents of the blocks `range` of a file, in the order of the file.
///
/// # Errors
/// The file system reports no extents.
pub fn extents(file: &File, range: Range<u64>) -> Result<Vec<Extent>, Errno> {
    let mut found: Vec<Extent> = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let length = (range.end - next).saturating_mul(BLOCK_BYTES);
        let mut query = Box::new(Fiemap {
            start: next * BLOCK_BYTES,
            length,
            flags: SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS],
        });
        // SAFETY: FIEMAP reads and writes a `struct fiemap` and at most `count` extents after it;
        // `Fiemap` has room for `count` extents.
        #[expect(unsafe_code, reason = "this question to a file system has no other way in")]
        unsafe {
            ioctl(file, Updater::<FIEMAP, Fiemap>::new(query.as_mut()))?;
        }
        let mapped = &query.extents[..(query.mapped as usize).min(EXTENTS)];
        for extent in mapped.iter().filter(|extent| extent.flags & NO_BLOCKS == 0) {
            let blocks = |bytes: u64| bytes / BLOCK_BYTES;
            let physical = Run::new(blocks(extent.physical), blocks(extent.length));
            let whole = Extent { logical: blocks(extent.logical), physical };
            if let Some(part) = whole.within(&range) {
                append(&mut found, part);
            }
        }
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 => next = (last.logical + last.length) / BLOCK_BYTES,
            _ => break,
        }
    }
    Ok(found)
}

/// Appends an extent, joined with the last extent if the two are adjacent in the file and on the
/// device.
pub(crate) fn append(found: &mut Vec<Extent>, extent: Extent) {
    match found.last_mut() {
        Some(last)
            if last.physical.end() == extent.physical.start && last.logical + last.physical.len == extent.logical =>
        {
            last.physical.len += extent.physical.len;
        }
        _ => found.push(extent),
    }
}

/// `struct move_extent` of ext4: positions and lengths are in blocks.
#[repr(C)]
struct MoveExtent {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    len: u64,
    moved_len: u64,
}

/// `EXT4_IOC_MOVE_EXT`: read and written, 40 bytes, group f, number 15.
const MOVE_EXT: Opcode = opcode::read_write::<MoveExtent>(b'f', 15);

/// Exchanges `len` blocks of `file` from `start` on for as many blocks of `donor` from
/// `donor_start` on. The content of `file` stays. A part may be exchanged when the call fails: only
/// [`extents`] shows which part.
///
/// # Errors
/// The kernel refuses: the file is in use as swap space, a page is under I/O, or the file system
/// cannot exchange blocks.
pub fn exchange(file: &File, start: u64, donor: &File, donor_start: u64, len: u64) -> Result<(), Errno> {
    let donor = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(donor)).map_err(|_| Errno::BADF)?;
    let mut query = MoveExtent { reserved: 0, donor, start, donor_start, len, moved_len: 0 };
    // SAFETY: EXT4_IOC_MOVE_EXT reads and writes one `struct move_extent`. The kernel checks the
    // number of the donor, and both files stay open during the call.
    #[expect(unsafe_code, reason = "the exchange of blocks has no other way in")]
    unsafe {
        ioctl(file, Updater::<MOVE_EXT, MoveExtent>::new(&mut query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_sizes_and_numbers_of_the_kernel() {
        assert_eq!((size_of::<FiemapExtent>(), size_of::<Fiemap>()), (56, 32 + 56 * EXTENTS));
        assert_eq!(size_of::<MoveExtent>(), 40);
        assert_eq!((FIEMAP, MOVE_EXT), (0xc020_660b, 0xc028_660f));
    }

    #[test]
    fn adjacent_extents_join_only_if_the_file_goes_on() {
        let mut found = Vec::new();
        for (logical, start, len) in [(0, 100, 4), (4, 104, 2), (8, 106, 2), (10, 200, 1)] {
            append(&mut found, Extent { logical, physical: Run::new(start, len) });
        }
        let shown: Vec<_> =
            found.iter().map(|extent| (extent.logical, extent.physical.start, extent.physical.len)).collect();
        assert_eq!(shown, [(0, 100, 6), (8, 106, 2), (10, 200, 1)]);
    }

    #[test]
    fn part_of_an_extent_keeps_file_and_device_in_step() {
        let extent = Extent { logical: 10, physical: Run::new(100, 20) };
        assert_eq!(extent.part(Run::new(90, 15)), Some(Extent { logical: 10, physical: Run::new(100, 5) }));
        assert_eq!(extent.within(&(15..18)), Some(Extent { logical: 15, physical: Run::new(105, 3) }));
        assert_eq!(extent.within(&(30..40)), None);
    }
}
