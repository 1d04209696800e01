use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The flow reached its end.
    Done {
        /// The state at the end.
        output: Value,
    },
    /// It could not go on.
    Failed {
        /// Why.
        fault: Fault,
    },
    /// It was cancelled.
    Cancelled {
        /// In their words.
        reason: String,
    },
}

impl Outcome {
    /// The state at the end, if it went well.
    pub fn output(&self) -> Option<&Value> {
        match self {
            Outcome::Done { output } => Some(output),
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => None,
        }
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the message of each variant describes it")]
pub enum Fault {
    /// The flow ended itself with this message.
    #[error("{why}")]
    Flow { why: String },
    #[error("step {step} would pass steps_max = {steps_max}; raise the limit or look for a loop that does not end")]
    Steps { step: u64, steps_max: u64 },
    #[error("node {node} asked for something impossible: {why}")]
    Ask { node: String, why: String },
    #[error("node {node} went to {to}, but declares no such edge")]
    Edge { node: String, to: String },
    /// Code of the flow panicked; the driver ends the run in its place.
    #[error("node {node} crashed: {why}")]
    Crash { node: String, why: String },
}
