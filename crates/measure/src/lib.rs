//! Measures Baton: `baton bench` for speed and memory, `baton eval` for the quality of answers and tasks.
//!
//! Each command is a type that clap parses and a method `run`; the binary lists them among its commands.

#![warn(missing_docs)]

mod bench;
mod eval;

/// Whether a measurement met its requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did, or nothing was required.
    Passed,
    /// It did not.
    Failed,
}

pub use bench::Bench;
pub use bench::models::ModelsBench;
pub use eval::Eval;
pub use eval::server::EvalServer;
