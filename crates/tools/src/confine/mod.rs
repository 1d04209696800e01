//! How a child process of ours limits itself before it handles what others wrote. `linux.rs` takes away files, network and processes with Landlock and
//! seccomp; `other.rs` has what every Unix has: limits on memory, processor time, open files and new processes.

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
    /// On top of what the program itself takes.
    pub(crate) memory_mib_max: u64,
    pub(crate) stack_mib_max: u64,
    /// Over its whole life.
    pub(crate) cpu_seconds_max: u64,
    /// It ends with this process.
    pub(crate) parent: i32,
}

/// A limit that is lower already stays.
fn lower_limit(resource: Resource, max: u64) -> rustix::io::Result<()> {
    let max = rustix::process::getrlimit(resource).maximum.map_or(max, |now| now.min(max));
    rustix::process::setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })
}
