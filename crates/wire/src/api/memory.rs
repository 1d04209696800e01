//! What is remembered of a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The notes that runs stored for later runs of this user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The notes, newest first.
    pub notes: Vec<MemoryNote>,
}

/// A note that a flow stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryNote {
    /// Names the note for deletion.
    pub id: u64,
    /// The flow that stored it.
    pub flow: String,
    /// The kind of note; each flow has its own.
    pub kind: String,
    /// What the flow looks the note up by.
    pub key: Value,
    /// The content.
    pub value: Value,
    /// The thread of the run that stored it.
    pub thread: String,
    /// When it was stored.
    pub created_ms: i64,
    /// When it expires.
    pub until_ms: i64,
}
