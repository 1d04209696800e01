//! The sandbox of a worker: limits and restrictions that a process applies to itself before it reads the program to run.
//!
//! Only Linux has what this needs. Elsewhere [`unsupported`] returns the reason, and the server `code` is not offered.

#[cfg(all(feature = "code", target_os = "linux", not(feature = "portable")))]
#[path = "linux.rs"]
mod system;
#[cfg(not(all(feature = "code", target_os = "linux", not(feature = "portable"))))]
#[path = "other.rs"]
mod system;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use system::enter;

/// Why programs cannot be run safely on this system, if they cannot.
pub fn unsupported() -> Option<&'static str> {
    system::UNSUPPORTED
}

/// Limits of a worker. Passed to it as its last argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time.
    pub cpu_seconds_max: u64,
    /// In addition to the memory of the program itself.
    pub memory_mib_max: u64,
    /// Files in the scratch folder.
    pub scratch_mib_max: u64,
    /// The worker's scratch folder. Inside the sandbox it may have a different path, and then this is that path.
    pub scratch: PathBuf,
    /// The parent process; the worker is killed with it.
    pub parent: i32,
}

/// The restrictions in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Restrictions {
    /// Restrictions that are in force.
    pub up: Vec<String>,
    /// Restrictions that this machine does not allow, and why.
    pub missing: Vec<String>,
}
