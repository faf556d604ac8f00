//! The allocator's threshold for large blocks.

/// Blocks of at least this many bytes are mapped from the system and unmapped when freed.
const LARGE_BYTES: i32 = 4 << 20;

/// Sets the allocator to map every large block freshly from the system, which zeroes pages at first
/// use. By default, the GNU allocator raises its threshold to 32 MiB when the first large block is
/// freed. The allocator then writes zeros all over each block that it reuses. The large blocks of
/// this program are maps of large volumes, and a run that ends early uses only a small part of
/// them. With this setting a plan of many such runs takes half the time and a third of the memory.
pub(crate) fn take_large_blocks_from_the_system() {
    #[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
    {
        // SAFETY: `mallopt` takes two numbers and sets one parameter of the allocator.
        #[expect(unsafe_code, reason = "the C library's allocator has no other way in")]
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        debug_assert_eq!(is_set, 1, "the allocator takes any limit of up to 32 MiB");
    }
}
