//! Allocator that counts the bytes that each thread has allocated, for tests of memory bounds.

#![allow(unsafe_code, reason = "an allocator that counts has no other way in")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// See the [module](self).
struct Counting;

thread_local! {
    /// Bytes that this thread has in use.
    pub(crate) static IN_USE: Cell<usize> = const { Cell::new(0) };
    /// Largest number of bytes that this thread had in use at once.
    pub(crate) static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Counts bytes that were taken and bytes that were freed.
pub(crate) fn note(taken: usize, freed: usize) {
    // A thread that is ending has no counters any more.
    let _ = IN_USE.try_with(|counter| {
        counter.set(counter.get().wrapping_add(taken).saturating_sub(freed));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(counter.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
