//! Limits the number of malloc arenas.
//!
//! glibc gives threads heaps of their own, up to eight for each core, and each keeps what it once needed. A server has many threads that now and then do
//! something large (index a file, read a journal): under mixed load it held 300 MB where one heap held 100. Two
//! threads that ask at the same moment wait for one another a little more often.

/// Must be called while the process has one thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt is C")]
pub(crate) fn limit_arenas() {
    const HEAPS_MIN: usize = 2;
    const HEAPS_MAX: usize = 64;
    let cores = std::thread::available_parallelism().map_or(HEAPS_MIN, usize::from);
    let heaps = i32::try_from(cores.clamp(HEAPS_MIN, HEAPS_MAX)).unwrap_or(2);
    // SAFETY: it takes two numbers, and no other thread is there yet. What it says (whether it knew the setting) changes nothing.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit_arenas() {}
