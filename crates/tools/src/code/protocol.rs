//! What a worker is given, and what it tells: JSON on its pipes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sandbox::Walls;
use crate::workspace::FileBytes;

#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) code: String,
    #[serde(default)]
    pub(super) inputs: Map<String, Value>,
    /// The files of the workspace, as far as the program is shown them.
    #[serde(default)]
    pub(super) files: Vec<FileBytes>,
    pub(super) run_ms_max: u64,
    pub(super) output_bytes_max: usize,
    pub(super) result_bytes_max: usize,
}

/// What a worker tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerMessage {
    Walls(Walls),
    Out(String),
    /// A file that the program wrote or changed.
    File(FileBytes),
    Done {
        result: Value,
    },
    Failed {
        error: String,
        kind: String,
    },
}
