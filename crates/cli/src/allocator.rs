//! Limits the number of malloc arenas.
//!
//! glibc creates up to eight arenas per core, and each keeps its peak memory. A server has many threads that occasionally need a lot
//! (indexing a file, reading a journal): under mixed load it held 300 MB where a single arena held 100. The cost is slightly more
//! contention between threads that allocate at the same time.

/// Must be called while the process has one thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt is C")]
pub(crate) fn limit_arenas() {
    const HEAPS_MIN: usize = 2;
    const HEAPS_MAX: usize = 64;
    let cores = std::thread::available_parallelism().map_or(HEAPS_MIN, usize::from);
    let heaps = i32::try_from(cores.clamp(HEAPS_MIN, HEAPS_MAX)).unwrap_or(2);
    // SAFETY: it takes two integers, and no other thread exists yet. The return value (whether the setting is known) is not needed.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit_arenas() {}
