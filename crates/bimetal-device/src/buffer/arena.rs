//! Memory for small reads: a few regions that a drive keeps, cut up in the order of the reads.
//!
//! A request whose content lies in many slots becomes many small reads. The buffers of these small
//! reads lie side by side in the arena, so the joined content has a few parts and not hundreds. The
//! regions stay in one place, so they can be registered with the kernel once.
//!
//! A region is cut from its beginning to its end. The region is cut again once no buffer uses any
//! part of it.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{ALIGNMENT, Filling, Region};
use crate::memory;

/// Size of a region.
pub(crate) const ARENA_BYTES: usize = memory::CHUNK_BYTES;
/// Maximum of regions: 5 MiB. Four requests of 1 MiB have room, in pieces of 4 KiB.
pub(crate) const ARENAS_MAX: usize = 20;
/// Largest buffer that is cut from a region.
const PART_BYTES_MAX: usize = 64 << 10;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Arenas {
    regions: Vec<Arc<Region>>,
    /// Region that is being cut, and the end of its last buffer.
    current: usize,
    used: usize,
}

impl Arenas {
    /// Takes memory for `len` bytes. Returns `None` for large buffers, and if every region is in
    /// use.
    pub(crate) fn take(&mut self, len: usize) -> Option<Filling> {
        let bytes = len.max(1).next_multiple_of(ALIGNMENT);
        if bytes > PART_BYTES_MAX {
            return None;
        }
        if self.is_unused(self.current) {
            self.used = 0;
        } else if self.used + bytes > ARENA_BYTES || self.regions.is_empty() {
            self.turn()?;
        }
        let start = self.used;
        self.used += bytes;
        // No other buffer has these bytes: `used` only grows until no buffer uses the region.
        let region = ManuallyDrop::new(Arc::clone(&self.regions[self.current]));
        Some(Filling { region, start: start as u32, len: len as u32, arena: Some(self.current as u16) })
    }

    /// Returns the address and the size of a region.
    pub(crate) fn region(&self, number: usize) -> (*const u8, usize) {
        let region = &self.regions[number];
        (region.start.as_ptr(), region.bytes)
    }

    /// Returns the number of regions.
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Goes on to a region that no buffer uses.
    fn turn(&mut self) -> Option<()> {
        let count = self.regions.len();
        let current = self.current;
        let mut others = (1..count).map(|step| (current + step) % count);
        self.current = match others.find(|&at| self.is_unused(at)) {
            Some(unused) => unused,
            None if count < ARENAS_MAX => {
                self.regions.push(Arc::new(Region::new(ARENA_BYTES)));
                count
            }
            None => return None,
        };
        self.used = 0;
        Some(())
    }

    /// Returns true if no buffer uses the region.
    fn is_unused(&mut self, at: usize) -> bool {
        // Also orders the next use of the memory after the last use by a buffer.
        self.regions.get_mut(at).is_some_and(|region| Arc::get_mut(region).is_some())
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::payload::Payload;
    use bimetal_core::units::Sectors;

    use super::super::{Buffers, Slice};
    use super::*;

    /// Fills a buffer of `len` bytes with `mark`.
    fn filled(arenas: &mut Arenas, len: usize, mark: u8) -> Option<Slice> {
        let mut filling = arenas.take(len)?;
        filling.bytes_mut().fill(mark);
        Some(filling.share())
    }

    /// Content that was read piece by piece is sent with few calls and copied by none.
    #[test]
    fn pieces_taken_one_after_the_other_join_to_one_part() {
        let mut arenas = Arenas::default();
        let mut whole = Buffers::empty();
        for mark in 0..64 {
            whole.join(Buffers::from(filled(&mut arenas, 4096, mark).unwrap()));
        }
        assert_eq!((whole.parts().len(), whole.bytes()), (1, 64 << 12));
        assert!(whole.parts()[0].bytes().chunks(4096).zip(0..).all(|(piece, mark)| piece == [mark; 4096]));
        whole.join(Buffers::from(filled(&mut arenas, 4096, 64).unwrap()));
        assert_eq!(whole.parts().len(), 2, "the first region is full");
    }

    /// Buffers of many lengths end in another order than they began. Each keeps its bytes until its
    /// last part is dropped, so no two share memory.
    #[test]
    fn memory_is_not_cut_again_while_a_part_is_in_use() {
        let mut arenas = Arenas::default();
        let mut held: Vec<(Slice, u8)> = Vec::new();
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for turn in 0..5000 {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (len, mark) = (1 + (word >> 40) as usize % PART_BYTES_MAX, turn as u8);
            if let Some(slice) = filled(&mut arenas, len, mark) {
                assert_eq!(slice.bytes().as_ptr().align_offset(ALIGNMENT), 0);
                held.push((slice.part(len / 2, len - len / 2), mark));
            }
            while held.len() > 40 + turn % 50 || (turn % 300 == 0 && !held.is_empty()) {
                let (slice, mark) = held.swap_remove((word >> 8) as usize % held.len());
                assert!(slice.bytes().iter().all(|&byte| byte == mark), "the memory of turn {turn} was taken twice");
            }
        }
        assert!(arenas.len() <= ARENAS_MAX);
        assert!(held.iter().all(|(slice, mark)| slice.bytes().iter().all(|byte| byte == mark)));
    }

    /// One read after the other uses the memory that is in the processor's cache.
    #[test]
    fn unused_region_is_cut_from_its_beginning() {
        let mut arenas = Arenas::default();
        let first = filled(&mut arenas, 4096, 1).unwrap();
        let address = first.bytes().as_ptr();
        drop(first);
        assert_eq!(filled(&mut arenas, 4096, 2).unwrap().bytes().as_ptr(), address);
    }

    #[test]
    fn large_buffers_and_buffers_beyond_the_maximum_lie_elsewhere() {
        let mut arenas = Arenas::default();
        assert!(arenas.take(PART_BYTES_MAX + 1).is_none());
        let all: Vec<_> = std::iter::from_fn(|| arenas.take(PART_BYTES_MAX)).collect();
        assert_eq!(all.len(), ARENAS_MAX * ARENA_BYTES / PART_BYTES_MAX);
        drop(all);
        assert!(arenas.take(PART_BYTES_MAX).is_some());
        assert_eq!(arenas.len(), ARENAS_MAX);
    }

    /// Content that is kept for a long time must not keep a region from being cut again.
    #[test]
    fn detached_content_leaves_its_region() {
        let mut arenas = Arenas::default();
        let content = Buffers::from(filled(&mut arenas, 4096, 7).unwrap()).detached();
        assert!(arenas.is_unused(0));
        assert_eq!(content.slice(Sectors(0), Sectors(8)).parts()[0].bytes(), [7; 4096]);
    }
}
