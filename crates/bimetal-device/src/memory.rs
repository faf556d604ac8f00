//! Page-aligned memory from the system, in runs of pages.
//!
//! The C library keeps a header in the page before each aligned block. So 4 KiB of its memory takes
//! 8 KiB in that library, and holes remain where blocks of many lengths are freed. In this pool,
//! runs of up to [`CHUNK_PAGES`] pages lie in chunks without headers; a bit for each page says that
//! it is in use. A chunk goes back to the system when none of its pages is in use. A longer run is
//! a mapping of its own.

#![allow(unsafe_code, reason = "memory is mapped from the system")]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Size of a page, and alignment of every run.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Number of pages in a chunk: one for each bit of a word.
const CHUNK_PAGES: usize = u64::BITS as usize;
pub(crate) const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_BYTES;
/// Number of unused chunks that are kept: 2 MiB. Further unused chunks go back to the system.
const SPARE_CHUNKS: usize = 8;

/// Chunks in order of address.
static CHUNKS: Mutex<Chunks> = Mutex::new(Chunks { chunks: Vec::new(), unused: 0 });

/// Takes `pages` adjacent pages. The content of the pages is zeroes, or the content of their last
/// use. If the pages have more than [`CHUNK_BYTES`], their content is always zeroes.
///
/// # Panics
///
/// Panics if the system has no memory, as for every allocation.
pub(crate) fn take(pages: usize) -> NonNull<u8> {
    if pages <= CHUNK_PAGES { chunks().take(pages) } else { map(pages * PAGE_BYTES) }
}

/// Gives pages back.
///
/// # Safety
///
/// The pages were returned by [`take`] for the same number of pages, and nothing uses them any
/// more.
pub(crate) unsafe fn give_back(start: NonNull<u8>, pages: usize) {
    if pages <= CHUNK_PAGES {
        chunks().give_back(start, pages);
    } else {
        // SAFETY: a mapping of its own, which nothing uses.
        unsafe { unmap(start, pages * PAGE_BYTES) };
    }
}

/// Locks the pool, even after a panic: no holder panics with a change half-done.
fn chunks() -> MutexGuard<'static, Chunks> {
    CHUNKS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Chunk {
    start: NonNull<u8>,
    /// Pages in use, a bit each.
    used: u64,
}

// SAFETY: a chunk owns its mapping, and gives out each page once at a time.
unsafe impl Send for Chunk {}

struct Chunks {
    chunks: Vec<Chunk>,
    /// Number of chunks without a page in use.
    unused: usize,
}

impl Chunks {
    /// Takes the first free run of `pages` pages, so that chunks at high addresses become unused.
    fn take(&mut self, pages: usize) -> NonNull<u8> {
        let found = self.chunks.iter().enumerate().find_map(|(at, chunk)| Some((at, free_run(chunk.used, pages)?)));
        let (at, first) = found.unwrap_or_else(|| (self.grow(), 0));
        let chunk = &mut self.chunks[at];
        self.unused -= usize::from(chunk.used == 0);
        chunk.used |= run(first, pages);
        // SAFETY: the run lies within the chunk.
        unsafe { chunk.start.add(first * PAGE_BYTES) }
    }

    /// Adds a chunk. Returns its index.
    fn grow(&mut self) -> usize {
        let start = map(CHUNK_BYTES);
        let at = self.chunks.partition_point(|chunk| chunk.start < start);
        self.chunks.insert(at, Chunk { start, used: 0 });
        self.unused += 1;
        at
    }

    fn give_back(&mut self, start: NonNull<u8>, pages: usize) {
        let at = self.chunks.partition_point(|chunk| chunk.start <= start) - 1;
        let chunk = &mut self.chunks[at];
        let first = (start.addr().get() - chunk.start.addr().get()) / PAGE_BYTES;
        assert_eq!(chunk.used & run(first, pages), run(first, pages), "pages are given back that are not in use");
        chunk.used &= !run(first, pages);
        if chunk.used > 0 {
            return;
        }
        if self.unused < SPARE_CHUNKS {
            self.unused += 1;
            return;
        }
        let chunk = self.chunks.remove(at);
        // SAFETY: no page of the chunk is in use.
        unsafe { unmap(chunk.start, CHUNK_BYTES) };
    }
}

/// Returns the bits of `pages` pages from page `first` on.
fn run(first: usize, pages: usize) -> u64 {
    (u64::MAX >> (CHUNK_PAGES - pages)) << first
}

/// Returns the first page of the first run of `pages` pages that are not in use.
fn free_run(used: u64, pages: usize) -> Option<usize> {
    // Each bit that remains begins a run of `len` free pages.
    let (mut starts, mut len) = (!used, 1);
    while len < pages && starts != 0 {
        let more = len.min(pages - len);
        starts &= starts >> more;
        len += more;
    }
    (starts != 0).then(|| starts.trailing_zeros() as usize)
}

/// Maps memory of zeroes.
fn map(bytes: usize) -> NonNull<u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses an address where nothing is mapped.
    let mapped = unsafe { mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE) };
    match mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>())) {
        Some(start) => start,
        None => handle_alloc_error(Layout::from_size_align(bytes, PAGE_BYTES).unwrap_or(Layout::new::<u8>())),
    }
}

/// Returns a mapping to the system.
///
/// # Safety
///
/// The mapping came from [`map`] with the same length, and nothing uses the mapping.
unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise. A system that keeps the mapping loses memory, nothing else.
    let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a search bit by bit, over words with few and with many free pages.
    #[test]
    fn first_free_run_is_found() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..2000 {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            for used in [word, word & (word << 7), word | (word >> 9), word >> 40, 0, u64::MAX] {
                for pages in [1, 2, 3, 5, 8, 31, 33, 63, 64] {
                    let slow = (0..=CHUNK_PAGES - pages).find(|&first| used & run(first, pages) == 0);
                    assert_eq!(free_run(used, pages), slow, "{pages} pages of {used:x}");
                }
            }
        }
    }

    /// Runs of all lengths come and go in an order that leaves holes. Each run keeps its bytes, so
    /// no two runs overlap. At the end all chunks but the spare chunks are returned.
    #[test]
    fn runs_keep_their_content_and_chunks_are_returned() {
        let mut chunks = Chunks { chunks: Vec::new(), unused: 0 };
        let mut held: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
        let check = |(start, pages, mark): (NonNull<u8>, usize, u8)| {
            // SAFETY: the run is held.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), pages * PAGE_BYTES) };
            assert!(bytes.iter().all(|&byte| byte == mark), "a run of {pages} pages was written by another");
        };
        let (mut random, mut most) = (7u64, 0);
        for round in 0..3000u64 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round);
            if (random >> 32) % 5 < if round % 1000 < 500 { 3 } else { 2 } {
                let pages = 1 + (random >> 40) as usize % if round % 2 == 0 { 4 } else { CHUNK_PAGES };
                let (start, mark) = (chunks.take(pages), (random >> 50) as u8);
                assert_eq!(start.addr().get() % PAGE_BYTES, 0);
                // SAFETY: the run was just taken.
                unsafe { start.write_bytes(mark, pages * PAGE_BYTES) };
                held.push((start, pages, mark));
            } else if !held.is_empty() {
                let run = held.swap_remove((random >> 33) as usize % held.len());
                check(run);
                chunks.give_back(run.0, run.1);
            }
            let pages: usize = held.iter().map(|&(_, pages, _)| pages).sum();
            let used: u32 = chunks.chunks.iter().map(|chunk| chunk.used.count_ones()).sum();
            assert_eq!(used as usize, pages);
            assert_eq!(chunks.unused, chunks.chunks.iter().filter(|chunk| chunk.used == 0).count());
            most = most.max(chunks.chunks.len());
        }
        held.into_iter().for_each(|run| {
            check(run);
            chunks.give_back(run.0, run.1);
        });
        assert!(most > 2 * SPARE_CHUNKS, "{most} chunks are too few to show anything");
        assert_eq!((chunks.chunks.len(), chunks.unused), (SPARE_CHUNKS, SPARE_CHUNKS));
    }

    /// Regression: the C library used two pages for each aligned 4 KiB, so a migration took twice
    /// its memory.
    #[test]
    fn single_pages_lie_side_by_side() {
        let mut chunks = Chunks { chunks: Vec::new(), unused: 0 };
        let starts: Vec<_> = (0..CHUNK_PAGES).map(|_| chunks.take(1)).collect();
        assert!(starts.windows(2).all(|pair| pair[1].addr().get() - pair[0].addr().get() == PAGE_BYTES));
        assert_eq!(chunks.chunks.len(), 1);
        starts.into_iter().for_each(|start| chunks.give_back(start, 1));
    }

    #[test]
    fn run_longer_than_a_chunk_is_zeroes_of_its_own() {
        let start = take(CHUNK_PAGES + 1);
        // SAFETY: the run was just taken.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), (CHUNK_PAGES + 1) * PAGE_BYTES) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(1);
        // SAFETY: taken above with the same length, and not used from here on.
        unsafe { give_back(start, CHUNK_PAGES + 1) };
    }
}
