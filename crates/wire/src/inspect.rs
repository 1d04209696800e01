//! What the API tells authors of flows about a run: its steps and states, what its nodes used, its journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The steps of a run, and what its nodes used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    pub steps: Vec<Step>,
    pub nodes: Vec<NodeCost>,
    /// Later steps are left out, because their states are too large together.
    pub is_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    pub step: u64,
    pub node: String,
    /// Attempts at effects, those of child runs included.
    pub calls: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub usd_micros: u64,
    pub took_us: u64,
}

/// What all visits of a node used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeCost {
    pub node: String,
    pub visits: u64,
    pub calls: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub usd_micros: u64,
    pub took_us: u64,
}

/// The state of a run on entering a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepState {
    pub step: u64,
    pub node: String,
    pub state: Value,
    /// What the step before it changed.
    pub changes: Vec<StateChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// A JSON pointer.
    pub path: String,
    /// Left out if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Left out if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Lines of a run's journal, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    pub lines: Vec<JournalLine>,
    /// Where the next page begins; left out after the last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalLine {
    pub seq: u64,
    pub at_ms: i64,
    pub entry: Value,
}
