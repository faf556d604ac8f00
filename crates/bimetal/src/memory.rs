//! How the allocator gives large blocks of memory.

/// Blocks of at least this many bytes come from the system, and go back to it.
const LARGE_BYTES: i32 = 4 << 20;

/// From now on every large block comes fresh from the system, zeroed where it is touched. The GNU allocator would raise that limit to
/// 32 MiB when the first one is freed and write zeros all over what it gives again: maps of large volumes, of which a run that ends early
/// touches next to nothing. A plan of many such runs takes half the time so, and a third of the memory.
pub(crate) fn take_large_blocks_from_the_system() {
    #[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
    {
        // SAFETY: it takes two numbers, and sets one of the allocator's.
        #[expect(unsafe_code, reason = "the C library's allocator has no other way in")]
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        debug_assert_eq!(is_set, 1, "the allocator takes any limit of up to 32 MiB");
    }
}
