//! What the kill tests and their victims share. A test hunts a process with SIGKILL; the process goes on each time where the one before it was;
//! in the end the test compares what the database says with the traces outside.
//!
//! - [`hunt`]: the test's side. [`victim`]: one life of the process. [`traces`]: files that survive it.
//! - [`errand`]: made-up flows with every kind of effect (`--bin victim`). [`real`]: the flows that Baton has (`--bin flow_victim`).

pub mod errand;
pub mod hunt;
pub mod real;
pub mod traces;
pub mod victim;

use graph::{RunId, ThreadId};

/// Runs are numbered, so that every life and the test know which there must be.
pub fn run_of(number: u64) -> RunId {
    RunId::from(format!("r{number}"))
}

/// Each has a thread of its own.
pub fn thread_of(number: u64) -> ThreadId {
    ThreadId::from(format!("t{number}"))
}

/// The database of the folder that is hunted in.
pub const DB: &str = "victim.db";
