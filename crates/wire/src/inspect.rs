//! Responses of the API for authors of flows: steps and states of a run, the cost of each node, and the journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The steps of a run, and what its nodes used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The nodes, in the order of their first visit.
    pub nodes: Vec<NodeCost>,
    /// Later steps are omitted because their states together are too large.
    pub is_cut: bool,
}

/// A step of a run and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Its number in the run, from 0.
    pub step: u64,
    /// The node that ran.
    pub node: String,
    /// Attempts at effects, those of child runs included.
    pub calls: u64,
    /// Input tokens of model calls.
    pub tokens_in: u64,
    /// Output tokens of model calls.
    pub tokens_out: u64,
    /// Millionths of a US dollar.
    pub usd_micros: u64,
    /// The time of all effects together, in microseconds.
    pub took_us: u64,
}

/// What all visits of a node used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeCost {
    /// The node.
    pub node: String,
    /// How many steps ran it.
    pub visits: u64,
    /// Attempts at effects, those of child runs included.
    pub calls: u64,
    /// Input tokens of model calls.
    pub tokens_in: u64,
    /// Output tokens of model calls.
    pub tokens_out: u64,
    /// Millionths of a US dollar.
    pub usd_micros: u64,
    /// The time of all effects together, in microseconds.
    pub took_us: u64,
}

/// The state of a run on entering a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepState {
    /// The number of the step.
    pub step: u64,
    /// The node that runs at this step.
    pub node: String,
    /// The state as JSON.
    pub state: Value,
    /// What the step before it changed.
    pub changes: Vec<StateChange>,
}

/// A value of the state that a step changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// A JSON pointer.
    pub path: String,
    /// Absent if the value is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Absent if the value was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Lines of a run's journal, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    /// A page of lines, in order.
    pub lines: Vec<JournalLine>,
    /// Where the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalLine {
    /// Its number in the journal, from 0.
    pub seq: u64,
    /// When it was stored.
    pub at_ms: i64,
    /// The entry as it is stored.
    pub entry: Value,
}
