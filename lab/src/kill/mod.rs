//! Shared by the kill tests and their victims. A test kills a process with SIGKILL; each next process resumes; in the end the test compares
//! the database with the external traces.
//!
//! - [`hunt`]: the test's side. [`victim`]: one life of the process. [`traces`]: files that survive it.
//! - [`errand`]: artificial flows with every kind of effect (`--bin victim`). [`real`]: the built-in flows (`--bin flow_victim`).

pub mod errand;
pub mod hunt;
pub mod real;
pub mod traces;
pub mod victim;

use graph::{RunId, ThreadId};

/// Runs are numbered, so that every process and the test know which must exist.
pub fn run_of(number: u64) -> RunId {
    RunId::from(format!("r{number}"))
}

/// Each has a thread of its own.
pub fn thread_of(number: u64) -> ThreadId {
    ThreadId::from(format!("t{number}"))
}

/// The database in the test's folder.
pub const DB: &str = "victim.db";
