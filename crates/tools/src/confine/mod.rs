//! Limits that a child process applies to itself before it handles untrusted input. `linux.rs` removes files, network and processes with
//! Landlock and seccomp; `other.rs` has what every Unix has: limits on memory, processor time, open files and new processes.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
#[path = "linux.rs"]
mod system;
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
#[path = "other.rs"]
mod system;

use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};

pub(crate) use system::confine_reader;
#[cfg(all(feature = "code", all(target_os = "linux", not(feature = "portable"))))]
pub(crate) use system::{Calls, close_inherited, landlock, memory_now, seccomp};

/// Limits of the process that reads documents. Passed to it as its last argument.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ReaderLimits {
    /// In addition to the memory of the program itself.
    pub(crate) memory_mib_max: u64,
    pub(crate) stack_mib_max: u64,
    /// Over its whole lifetime.
    pub(crate) cpu_seconds_max: u64,
    /// The process it is killed with.
    pub(crate) parent: i32,
}

/// A lower existing limit is kept.
pub(crate) fn lower_limit(resource: Resource, max: u64) -> rustix::io::Result<()> {
    let max = rustix::process::getrlimit(resource).maximum.map_or(max, |now| now.min(max));
    rustix::process::setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })
}
