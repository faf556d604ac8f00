//! Donors: files without a name, with blocks on the wanted drive.
//!
//! ext4 allocates a block near the neighbouring blocks of the file. The allocator aims at the same
//! distance on the device that the new block has in the file. So a donor first gets one block, the
//! seed, anywhere. To aim at a block of the device, the donor allocates at the same distance from
//! the seed. The allocator takes free blocks of the block group that is aimed at (128 MiB), or of a
//! later group. The behaviour of the allocator was measured on Linux 6.18, for requests of 1 to
//! 16,001 blocks. The first group of each 16 (a flex group) gives no blocks to a request of 2, 4,
//! 8, ... blocks, so no request for an aim has such a size. The allocator may take other blocks,
//! too: The call FIEMAP returns the blocks that a donor has, and only blocks on the wanted drive
//! are used. A request that misses is repeated with half the size.
//!
//! A donor has no name (`O_TMPFILE`). When the program that has a donor ends, for whatever reason,
//! the kernel frees the donor's blocks. After a power cut, the recovery of the file system frees
//! these blocks. So no donor is ever left over.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::kernel::{Extent, append, extents};
use crate::knob::Knob;
use crate::runs::{Run, Runs};
use crate::{BLOCK_BYTES, MoverError, Side};

/// Largest number of blocks of one request. An extent has at most 32,767 unwritten blocks.
const REQUEST_MAX: u64 = 32_767;
/// Number of requests in a row without a block on the wanted drive, after which the search ends.
const MISSES_MAX: u32 = 40;
/// Number of times that blocks are drained for one aim, before the next aim is tried.
const DRAINS: u32 = 4;
/// Largest number of blocks that are drained: 32 MiB.
const DRAIN_MAX: u64 = 1 << 13;
/// Number of requests in a row with blocks on the wanted drive, after which requests grow again.
const HITS: u32 = 32;
/// The largest number of a block of a file, since block numbers have 32 bits.
const FILE_END: u64 = (1 << 32) - (1 << 16);
/// Blocks between the seed and the end of the file on the side on which aims are always near.
const MARGIN: u64 = 1 << 24;

/// A donor with blocks on one drive.
pub(crate) struct Arena {
    pub(crate) donor: File,
    /// Blocks on the wanted drive.
    pub(crate) free: Runs,
    /// Extents of the donor's blocks.
    extents: Vec<Extent>,
}

/// Search for blocks.
struct Search<'a> {
    donor: &'a File,
    side: Side,
    boundary: u64,
    seed: Extent,
    /// Parts of the donor that were asked for, in blocks.
    used: Runs,
    /// Place in the donor for drained blocks, far from all blocks that are aimed at.
    drain_at: u64,
    /// Number of drained blocks.
    drained: u64,
}

impl Arena {
    /// Returns a donor with at most `blocks` blocks on `side`: fewer if the allocator gives no
    /// more. Blocks near `aims` are tried first, and then blocks near the free runs that
    /// `find_free` returns.
    ///
    /// # Errors
    /// A donor cannot be made.
    pub(crate) fn fill(
        folder: &Path,
        knob: &Knob,
        side: Side,
        boundary: u64,
        blocks: u64,
        aims: &[Run],
        find_free: &dyn Fn() -> Result<Runs, MoverError>,
    ) -> Result<Self, MoverError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        let donor = options.open(folder).map_err(MoverError::at(folder))?;
        let at_folder = |errno: Errno| MoverError::at(folder)(io::Error::from(errno));
        let raised = knob.raise()?;
        let mut arena = Self { donor, free: Runs::default(), extents: Vec::new() };
        // The reach of a donor is 16 TiB: downwards for the SSD, upwards for the HDD.
        let at = if side == Side::Ssd { FILE_END - MARGIN } else { MARGIN };
        match allocate(&arena.donor, at, 1) {
            Err(Errno::NOSPC) => return Ok(arena),
            done => done.map_err(at_folder)?,
        }
        let Some(&seed) = extents(&arena.donor, at..at + 1).map_err(at_folder)?.first() else { return Ok(arena) };
        let used = [Run::new(at, 1)].into_iter().collect();
        let drain_at = if side == Side::Ssd { FILE_END - MARGIN / 2 } else { 0 };
        let mut search = Search { donor: &arena.donor, side, boundary, seed, used, drain_at, drained: 0 };
        let mut found = Vec::new();
        let mut left = blocks;
        search.near(aims, &mut left, &mut found).map_err(at_folder)?;
        if left > 0 {
            drop(raised);
            let free = find_free()?;
            let _raised = knob.raise()?;
            let mut runs: Vec<Run> = free.iter().filter_map(|run| run.on(side, boundary)).collect();
            runs.sort_by_key(|run| std::cmp::Reverse(run.len));
            search.near(&runs, &mut left, &mut found).map_err(at_folder)?;
        }
        arena.free = found.iter().map(|extent: &Extent| extent.physical).collect();
        arena.extents = joined(found);
        Ok(arena)
    }

    /// Returns the block of the donor that lies at the block `physical` of the device, and the
    /// number of blocks that follow it in both the donor and the device, at most `len`.
    pub(crate) fn logical_of(&self, physical: Run) -> Option<Extent> {
        self.extents
            .iter()
            .find_map(|extent| extent.part(physical).filter(|part| part.physical.start == physical.start))
    }
}

impl Search<'_> {
    /// Allocates near each of `aims` as many blocks as the aim has, until `left` is 0.
    fn near(&mut self, aims: &[Run], left: &mut u64, found: &mut Vec<Extent>) -> Result<(), Errno> {
        let (mut misses, mut hits) = (0, 0u32);
        let mut size_max = REQUEST_MAX;
        for aim in aims {
            let mut aim = *aim;
            let mut misses_of_one = 0;
            while aim.len > 0 && *left > 0 {
                if misses > MISSES_MAX {
                    return Ok(());
                }
                let size = size_of_request(aim.len.min(*left).min(size_max));
                let (good, is_full) = self.request(aim.start, size)?;
                let hit: u64 = good.iter().map(|extent| extent.physical.len).sum();
                *left -= hit.min(*left);
                found.extend(good);
                if hit == 0 {
                    misses += 1;
                    hits = 0;
                    // A smaller request fits into smaller gaps.
                    if size == 1 {
                        self.drain()?;
                        misses_of_one += 1;
                        if misses_of_one > DRAINS {
                            break;
                        }
                    }
                    size_max = if is_full { size / 4 } else { size / 2 }.max(1);
                } else {
                    (misses, hits) = (0, hits + 1);
                    if hits.is_multiple_of(HITS) {
                        size_max = (size_max * 2).min(REQUEST_MAX);
                    }
                    aim = Run::new(aim.start + hit.min(aim.len), aim.len - hit.min(aim.len));
                }
            }
        }
        Ok(())
    }

    /// Takes the blocks that the allocator keeps ready for small files of this processor, up to 512
    /// blocks at another place. As long as the allocator has such blocks, small requests get these
    /// blocks instead of the blocks aimed at.
    fn drain(&mut self) -> Result<(), Errno> {
        for size in (0..9).rev().map(|power| 1 << power) {
            let end = self.drain_at + size;
            if self.drained >= DRAIN_MAX || end >= FILE_END {
                return Ok(());
            }
            match allocate(self.donor, self.drain_at, size) {
                Ok(()) | Err(Errno::NOSPC) => {}
                Err(errno) => return Err(errno),
            }
            (self.drain_at, self.drained) = (end, self.drained + size);
        }
        Ok(())
    }

    /// Allocates `size` blocks near the block `target` of the device. Returns the blocks on the
    /// wanted drive, and true if the file system is full. Blocks on the other drive are freed,
    /// because the next request would otherwise be placed near these blocks.
    fn request(&mut self, target: u64, size: u64) -> Result<(Vec<Extent>, bool), Errno> {
        let Some(logical) = self.logical_for(target, size) else { return Ok((Vec::new(), false)) };
        self.used.insert(Run::new(logical, size));
        let is_full = match allocate(self.donor, logical, size) {
            Err(Errno::NOSPC) => true,
            done => done.map(|()| false)?,
        };
        let got = extents(self.donor, logical..logical + size)?;
        let boundary = self.boundary;
        let on = |side| -> Vec<Extent> {
            got.iter().filter_map(|extent| extent.part(extent.physical.on(side, boundary)?)).collect()
        };
        let [good, bad] = match self.side {
            Side::Ssd => [on(Side::Ssd), on(Side::Hdd)],
            Side::Hdd => [on(Side::Hdd), on(Side::Ssd)],
        };
        for extent in bad {
            free(self.donor, extent.logical, extent.physical.len)?;
        }
        Ok((good, is_full))
    }

    /// Returns the place in the donor that aims at the block `target`, or the next place after it
    /// that is still unused.
    fn logical_for(&self, target: u64, size: u64) -> Option<u64> {
        let aimed = (self.seed.logical + target).checked_sub(self.seed.physical.start);
        // Out of reach, the allocator takes what is near the seed.
        let mut at = aimed.filter(|&at| at + size < FILE_END).unwrap_or(self.seed.logical);
        for run in self.used.iter() {
            if run.start >= at + size {
                break;
            }
            at = at.max(run.end());
        }
        (at + size < FILE_END).then_some(at)
    }
}

/// Returns the largest number of blocks up to `blocks` that the first group of a flex group gives:
/// no power of two except 1.
fn size_of_request(blocks: u64) -> u64 {
    if blocks.is_power_of_two() { (blocks - 1).max(1) } else { blocks }
}

/// Joins extents that are adjacent in the donor and on the device, because requests of one block
/// make many extents.
fn joined(mut found: Vec<Extent>) -> Vec<Extent> {
    found.sort_by_key(|extent| extent.logical);
    let mut all: Vec<Extent> = Vec::new();
    found.into_iter().for_each(|extent| append(&mut all, extent));
    all
}

fn free(donor: &File, start: u64, len: u64) -> Result<(), Errno> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(donor, hole, start * BLOCK_BYTES, len * BLOCK_BYTES)
}

fn allocate(donor: &File, start: u64, len: u64) -> Result<(), Errno> {
    fallocate(donor, FallocateFlags::empty(), start * BLOCK_BYTES, len * BLOCK_BYTES)
}
