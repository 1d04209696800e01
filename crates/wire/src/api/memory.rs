//! What is remembered of a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What runs left for later runs of this user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    pub notes: Vec<MemoryNote>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryNote {
    pub id: u64,
    pub flow: String,
    pub kind: String,
    pub key: Value,
    pub value: Value,
    pub thread: String,
    pub created_ms: i64,
    pub until_ms: i64,
}
