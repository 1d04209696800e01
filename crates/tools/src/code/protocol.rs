//! Messages to and from a worker: JSON on its pipes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sandbox::Restrictions;
use crate::workspace::FileBytes;

#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) code: String,
    #[serde(default)]
    pub(super) inputs: Map<String, Value>,
    /// The workspace files that are given to the program.
    #[serde(default)]
    pub(super) files: Vec<FileBytes>,
    pub(super) run_ms_max: u64,
    pub(super) output_bytes_max: usize,
    pub(super) result_bytes_max: usize,
}

/// A worker's message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerMessage {
    Walls(Restrictions),
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
