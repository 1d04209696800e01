//! The sandbox of a worker: limits and restrictions that a process puts on itself before it reads the program it is to run.
//!
//! Only Linux has what this needs. Elsewhere [`unsupported`] says so, and the server `code` is not offered.

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

/// What a worker may use. Passed to it as its last argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    pub cpu_seconds_max: u64,
    /// On top of what the program itself needs to be there.
    pub memory_mib_max: u64,
    pub scratch_mib_max: u64,
    /// A folder of the worker's own. Behind the walls it may be known under another name, and then this is that name.
    pub scratch: PathBuf,
    /// Whose child it is: it does not outlive this process.
    pub parent: i32,
}

/// What stands between the worker and the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Walls {
    pub up: Vec<String>,
    /// What this machine does not allow, and why.
    pub missing: Vec<String>,
}
