//! How the host's allocator gives memory back to the system. See docs/design/memory.md.

/// Blocks of this size and above are mapped one by one, and unmapped when they are freed.
#[cfg(target_env = "gnu")]
const MAPPED_BLOCK_BYTES: libc::c_int = 128 << 10;
/// Free memory at the end of a heap above this goes back to the system.
#[cfg(target_env = "gnu")]
const KEPT_HEAP_BYTES: libc::c_int = 128 << 10;

/// Keeps glibc at its initial thresholds. By itself it raises them up to 32 MiB whenever a large
/// block is freed; large messages then come from its heaps, which shrink only at their end, so that
/// a flood costs its memory for ever.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "the one way to set the thresholds other than variables of the environment"
)]
pub(crate) fn keep_thresholds() {
    for (parameter, value) in
        [(libc::M_MMAP_THRESHOLD, MAPPED_BLOCK_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_HEAP_BYTES)]
    {
        // SAFETY: `mallopt` takes two numbers and only sets a parameter of the allocator, under its
        // own lock.
        let is_set = unsafe { libc::mallopt(parameter, value) };
        if is_set == 0 {
            tracing::debug!(parameter, value, "the allocator does not take a threshold");
        }
    }
}

/// Gives the free pages of all heaps back to the system. Threads that allocate wait while their
/// heap is looked through.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no crate that is linked calls it")]
pub(crate) fn trim_heaps() {
    // SAFETY: `malloc_trim` takes a number, works under the allocator's own locks, and releases
    // free pages only.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Returns the size of all blocks that the program holds, modulo 4 GiB for those of the heaps and
/// for those that are mapped one by one. Threads that allocate wait while the free blocks of their
/// heap are counted.
///
/// `mallinfo2` counts further, but older systems do not have it: Wharf could not be linked there.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no crate that is linked calls it")]
pub(crate) fn held_bytes() -> u64 {
    // SAFETY: `mallinfo` takes nothing, works under the allocator's own locks, and changes nothing.
    let info = unsafe { libc::mallinfo() };
    u64::from(info.uordblks.cast_unsigned()) + u64::from(info.hblkhd.cast_unsigned())
}

/// Other allocators are left as they are.
#[cfg(not(target_env = "gnu"))]
pub(crate) const fn keep_thresholds() {}
