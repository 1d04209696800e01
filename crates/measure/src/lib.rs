//! Measures Baton: `baton bench` for speed and memory, `baton eval` for how well questions are answered and tasks are carried out.
//!
//! Each command is a type that clap parses and a method `run`; the binary lists them among its commands.

mod bench;
mod eval;

/// Whether a measurement reached what it must reach.
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
